//! The content of a finding as data: the observed sign and its numbers. `report` writes the sentences.

use serde::{Deserialize, Serialize};

use crate::cost::CostKind;
use crate::launch::Doing;
use crate::write_cache::{DrainResult, WriteCache};
use crate::{Estimate, Level, Unit};

/// Mean, smallest and largest of several values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// An observation about one trial, or about the whole experiment if it compares configurations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sign", rename_all = "snake_case")]
pub enum Claim {
    /// How busy the threads of the load generator were.
    Generator {
        /// Worker threads.
        threads: u32,
        /// Share of the time that a thread ran.
        ran_share: f64,
        /// Share of the time that a thread was ready to run and waited for a CPU.
        wait_share: f64,
        /// How an open load fell behind its schedule; none if it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        late: Option<Lateness>,
        /// Why the threads did not run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        starved_by: Option<Starvation>,
    },
    /// A process used all CPUs that it may use.
    CpusUsed {
        /// The process; `self` is Plimsoll.
        process: String,
        /// CPUs kept busy.
        used_cpus: f64,
        /// CPUs it may use.
        allowed_cpus: f64,
    },
    /// One thread of a process was always running while its others hardly ran.
    OneThreadBusy {
        /// The process.
        process: String,
        /// Share of a CPU that the busiest thread used.
        busiest_thread_cpus: f64,
        /// CPUs that all its threads used together.
        used_cpus: f64,
    },
    /// The threads of the load itself copied data in memory instead of waiting for a device.
    CopyingInMemory {
        /// Share of the time that they ran.
        ran_share: f64,
        /// Share of the time that they waited for a CPU.
        wait_share: f64,
    },
    /// How busy the CPUs of the host were.
    HostCpus {
        /// Share of their time that they were busy.
        busy_share: f64,
        /// Share of the time that some task waited for a CPU.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_share: Option<f64>,
    },
    /// How busy a disk of another host was, of which only its own counters are known.
    HostDisk {
        /// Requests in the queue of the disk, on average.
        queue: f64,
        /// Operations of the load in flight.
        in_flight: f64,
        /// Time of a request, milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transfer_ms: Option<f64>,
        /// Share of the time that it was busy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        busy_share: Option<f64>,
        /// Share of the time that some task of the host waited for I/O.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_share: Option<f64>,
    },
    /// The activity of the threads of a service while operations waited.
    Service(ServiceClaim),
    /// The service answered no request for a while, several times.
    Pauses(PausesClaim),
    /// Single operations were as slow as if the service had paused, but the intervals are too long to show
    /// pauses.
    SuspectedPauses {
        /// Intervals with such an operation.
        intervals: usize,
        /// Intervals in all.
        of_intervals: usize,
        /// The longest operation of each, seconds.
        longest_s: Spread,
        /// The longest operation of the other intervals, seconds (median).
        usual_s: f64,
        /// Share of the throughput that was lost.
        lost_share: f64,
        /// Length of an interval, seconds.
        interval_s: f64,
    },
    /// A limit set on reading and writing was reached.
    IoLimitReached(ReachedLimit),
    /// How the requests of the load queued at the device.
    Device(DeviceClaim),
    /// The device moved more than the load did.
    DeviceShared {
        /// Bytes moved by the device divided by those of the load.
        factor: f64,
    },
    /// The gain and the cost of larger blocks.
    BlockSizes {
        /// The smallest block.
        from: SizePoint,
        /// The largest.
        to: SizePoint,
        /// The other settings; empty if there is only one curve.
        series: String,
    },
    /// Throughput at varied loads: where it stopped growing, and the response times at higher loads.
    LoadSweep(LoadSweep),
    /// Memory stalls of the host, or of a service with its own memory limit.
    Memory(MemoryClaim),
    /// A service compared with its memory limit.
    MemoryLimit {
        /// The service.
        process: String,
        /// Share of the limit in use.
        used_share: f64,
        /// The limit.
        limit_bytes: f64,
        /// Whether it counts as reached.
        reached: bool,
    },
    /// Connections were refused because the accept queue was at its limit.
    ListenOverflows {
        /// How many a second.
        per_s: f64,
    },
    /// TCP segments were retransmitted.
    Retransmissions {
        /// How many a second.
        per_s: f64,
        /// Share of those sent.
        share: f64,
    },
    /// Packets were dropped because the queue of a CPU was at its limit.
    PacketsDropped {
        /// How many a second.
        per_s: f64,
    },
    /// Throughput changed during the measured time.
    RateChanged {
        /// Seconds from the start of the measured time.
        at_s: f64,
        /// Per second before it, in the unit below.
        before: f64,
        /// Per second after it.
        after: f64,
        /// Operations or bytes.
        unit: Unit,
        /// Bytes moved before it; none if the load moves no bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved_bytes: Option<f64>,
        /// The cause.
        cause: ChangeCause,
    },
    /// A copy filled a write-back cache, or ended before it was full.
    WriteCache {
        /// The cache.
        cache: WriteCache,
        /// Its drain; none if it was not watched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drain: Option<DrainResult>,
    },
    /// Past a cache the copy is slower than without it.
    CacheCosts {
        /// Label of the configuration with the cache.
        configuration: String,
        /// Label of the configuration without it.
        without: String,
        /// Bytes per second past the cache, median over the trials.
        past_bytes_per_s: f64,
        /// Bytes per second without it, median over the trials.
        without_bytes_per_s: f64,
        /// Rate past the cache divided by the rate without it, with its 95 % interval.
        ratio: Estimate,
        /// Bytes from which on a copy takes longer with the cache than without it.
        break_even_bytes: f64,
    },
    /// The flush at the end of a copy.
    ClosingFlush {
        /// Its duration, seconds.
        flush_s: f64,
        /// The whole measured time, seconds.
        of_s: f64,
        /// Bytes per second with it.
        bytes_per_s: f64,
        /// Bytes per second without it.
        bytes_per_s_without: f64,
    },
    /// The first launch of a command compared with the later ones.
    FirstLaunch {
        /// The first, milliseconds.
        first_ms: f64,
        /// Median of the later ones, milliseconds.
        later_ms: f64,
        /// How many later ones.
        later: u64,
        /// The resource of which the first launch used more; none if unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        differences: Option<Vec<LaunchDifference>>,
    },
    /// How the launches of a command spent their time.
    Launch(LaunchClaim),
    /// Responses had several statuses, or a redirect.
    Statuses {
        /// The share of the responses with each status, the most frequent first.
        shares: Vec<StatusShare>,
    },
    /// Responses had bodies of very different sizes, or no bodies.
    AnswerSizes {
        /// Bytes of the smallest.
        min_bytes: f64,
        /// Bytes of the largest.
        max_bytes: f64,
    },
    /// A response that counts as successful contains an error message.
    ErrorText {
        /// The word for an error at the start of its body.
        word: String,
    },
    /// Response times of launches changed from a launch on.
    LaunchesShifted {
        /// The first launch after the change, counted from 1.
        from_launch: u64,
        /// The time of its completion, seconds from the start of the measured time; none in older records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_s: Option<f64>,
        /// Median of the launches before it, milliseconds.
        before_ms: f64,
        /// Median of those from it on, milliseconds.
        after_ms: f64,
        /// The difference in their resource use; none if unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        differences: Option<Vec<LaunchDifference>>,
    },
}

impl Claim {
    /// Whether all its numbers are finite: JSON supports no others.
    pub fn is_finite(&self) -> bool {
        /// A number that is not finite is serialized as `null`; absent values are not serialized.
        fn has_null(value: &serde_json::Value) -> bool {
            match value {
                serde_json::Value::Null => true,
                serde_json::Value::Array(values) => values.iter().any(has_null),
                serde_json::Value::Object(fields) => fields.values().any(has_null),
                _ => false,
            }
        }
        serde_json::to_value(self).is_ok_and(|value| !has_null(&value))
    }
}

/// The resource use of one launch, or the median of several, compared with other launches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchDifference {
    /// The kind of resource use, in [`CostKind::unit`].
    pub kind: CostKind,
    /// Of this launch, or of the launches before the change.
    pub before: f64,
    /// Of the later ones.
    pub after: f64,
}

/// How the launches of a command spent their time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchClaim {
    /// The program.
    pub command: String,
    /// How many launches.
    pub launches: u64,
    /// Their mean time, milliseconds.
    pub mean_ms: f64,
    /// CPU time of a launch as a share of its time: above 1 if several threads run in parallel.
    pub cpu_share: f64,
    /// The state in which it spent most of the time.
    pub state: LaunchState,
    /// Its share of the time.
    pub share: f64,
    /// Number of samples of what the launches wait for.
    pub looks: u64,
}

/// The state in which a launch spends most of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchState {
    /// One thread at a time runs.
    OneThread,
    /// Several threads use all CPUs.
    AllCpus,
    /// Ready to run, waiting for a CPU.
    Ready,
    /// Waiting.
    Waits(Doing),
}

/// The frequency of a status.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusShare {
    /// The status.
    pub status: u16,
    /// Share of the responses.
    pub share: f64,
}

/// How an open load fell behind its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lateness {
    /// Share of the due operations that were issued.
    Issued(f64),
    /// The lag of at least 1 % of the operations.
    Lag {
        /// 99th percentile of the lag, milliseconds.
        lag_p99_ms: f64,
        /// 99th percentile of the response time, milliseconds.
        response_p99_ms: f64,
    },
}

/// Why the load generator did not run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Starvation {
    /// It was throttled by its own CPU quota: share of the time or of the periods.
    CpuQuota(f64),
    /// Other processes used the CPUs: share of the time that its threads waited for one.
    OtherProcesses(f64),
    /// A limit on the reads or writes of its own control group was reached.
    IoLimit {
        /// The limit: operations or bytes per second.
        limit_per_s: f64,
        /// The measured rate.
        observed_per_s: f64,
        /// Whether the limit is on bytes; otherwise on operations.
        bytes: bool,
        /// Whether the limit is on writes; otherwise on reads.
        writes: bool,
    },
}

/// The activity of the threads of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceClaim {
    /// The service, with the name of the process in the experiment.
    pub process: String,
    /// Its threads.
    pub threads: f64,
    /// Number of threads that did not wait for work.
    pub at_work: f64,
    /// CPUs it used.
    pub used_cpus: f64,
    /// Connections waiting to be accepted; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_queue: Option<f64>,
    /// Share of the host's CPU time that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cpu_share: Option<f64>,
    /// Whether it is only about the time between pauses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub between_pauses: bool,
    /// The state of most of them.
    pub state: ServiceState,
}

/// The limit of a service, or its headroom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Its CPU quota was used up.
    Throttled {
        /// The quota.
        quota_cpus: f64,
        /// Share of the quota's periods in which it was throttled.
        throttled_share: f64,
    },
    /// One thread was always running or ready to run.
    SingleThread {
        /// Share of a CPU that it used.
        busiest_thread_cpus: f64,
        /// Threads ready to run, waiting for a CPU.
        ready_threads: f64,
        /// Threads waiting for a lock that it holds; none if hardly another thread was at work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lock_threads: Option<f64>,
    },
    /// Its threads are stages of a pipeline, and one stage is always busy: the others wait for it.
    Pipeline {
        /// The activity of the busiest stage.
        stage: Stage,
        /// Share of the time that its thread spends on it.
        busy_share: f64,
        /// CPU time of the thread as a share of the time.
        cpu_share: f64,
    },
    /// Threads were ready to run and waited for a CPU.
    WaitsForCpu {
        /// Number of threads.
        ready_threads: f64,
    },
    /// Its memory limit was reached and files or pages were read again.
    MemoryLimitReached {
        /// Share of the limit in use.
        used_share: f64,
        /// Bytes read again per second.
        read_bytes_per_s: f64,
        /// Threads waiting for files or pages.
        threads: f64,
    },
    /// Threads waited for pages to be read.
    PageFaults {
        /// Number of threads.
        threads: f64,
        /// Major page faults per second.
        faults_per_s: f64,
        /// Refaults per second (pages that had been reclaimed and were read again); none if memory is not the
        /// cause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refaults_per_s: Option<f64>,
    },
    /// Threads waited for files.
    Files {
        /// Number of threads.
        threads: f64,
        /// Whether they waited for flushes; otherwise for reads and writes.
        flushes: bool,
        /// The I/O limit that was reached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<ReachedLimit>,
        /// How the device executed consecutive flushes, if they were consecutive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        serial_flushes: Option<SerialFlushes>,
    },
    /// Responses waited to be sent.
    Sending {
        /// Bytes in the send buffers of TCP.
        buffered_bytes: f64,
        /// Requests in flight.
        in_flight: f64,
        /// Size of a response in bytes.
        answer_bytes: f64,
        /// Bytes sent per second.
        bytes_per_s: f64,
    },
    /// Threads waited for a connection of the pool to another service.
    ConnectionPool {
        /// Threads that used a connection.
        using: f64,
        /// Threads that waited for one.
        waiting: f64,
    },
    /// Threads waited for the same lock.
    Lock {
        /// Number of threads.
        threads: f64,
    },
    /// Threads waited for the response of another service.
    Downstream {
        /// Its address.
        peer: String,
        /// Number of threads.
        threads: f64,
    },
    /// Every thread was at work and none was free for further requests.
    AllThreadsAtWork {
        /// The activity of most of them.
        most: ThreadState,
        /// Number of those threads.
        threads: f64,
    },
    /// Its threads mostly waited for each other or for timers, although there was work: the limit is a setting of its own.
    WaitsForItself {
        /// Upper bound of the share of the time in which a thread used a CPU, or waited for a CPU, a file or another service.
        work_share: f64,
        /// Threads that waited for a timer.
        timer_threads: f64,
        /// Threads that waited for each other or for an event.
        waiting_threads: f64,
    },
    /// Threads waited for work: the service had headroom.
    Headroom {
        /// Number of threads.
        idle_threads: f64,
    },
}

/// The activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// It sleeps until a timeout.
    Asleep,
    /// It waits for another thread.
    Lock,
    /// It waits for another service.
    Downstream,
    /// It waits for files.
    Files,
    /// It runs or is ready to run.
    Running,
}

/// The activity of a pipeline stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It computes.
    Cpu,
    /// It waits for flushes.
    Flushes,
    /// It reads and writes files.
    Transfers,
    /// It waits for the responses of another service.
    Downstream(String),
}

/// A limit on reading and writing, and how much of it was used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReachedLimit {
    /// The setting's path.
    pub setting: String,
    /// The limit as set.
    pub level: Level,
    /// The metric that was at the limit.
    pub metric: String,
    /// The limit in the unit of that metric.
    pub limit: f64,
    /// The measured value.
    pub observed: f64,
}

/// Consecutive flushes at a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SerialFlushes {
    /// The device.
    pub device: String,
    /// Duration of each, milliseconds.
    pub each_ms: f64,
    /// Mean number in progress.
    pub under_way: f64,
}

/// How the requests of a storage load queued at the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceClaim {
    /// Requests waiting or in service at the device.
    pub queue: f64,
    /// Operations in flight.
    pub in_flight: f64,
    /// Time of a transfer, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_ms: Option<f64>,
    /// Share of the host's CPU time that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cpu_share: Option<f64>,
    /// Whether each operation waited for the previous one: the duration of a single operation is then the
    /// limit.
    pub one_at_a_time: bool,
    /// Share of the time spent on flushes, if it is most of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_share: Option<f64>,
    /// How the device executed the flushes, if they were consecutive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_flushes: Option<SerialFlushes>,
    /// Whether operations or bytes per second are saturated, if the experiment shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<DeviceBound>,
}

/// The saturated rate of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a result has a few of them")]
pub enum DeviceBound {
    /// Measured at several block sizes: operations per second are the limit from the first to the second
    /// point, bytes per second from the third to the last.
    OverSizes {
        /// The smallest and the largest block size at which operations per second do not change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operations: Option<(SizePoint, SizePoint)>,
        /// The smallest and the largest block size at which bytes per second do not change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<(SizePoint, SizePoint)>,
    },
    /// Suggested by the size of the transfers, if more of them in flight did not increase throughput.
    BySize {
        /// Mean size of a transfer.
        transfer_bytes: f64,
        /// True for operations per second, false for bytes per second.
        operations: bool,
    },
}

/// The measurement at one block size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizePoint {
    /// The block size as written.
    pub label: String,
    /// Operations per second.
    pub rate_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean response time, milliseconds.
    #[serde(with = "crate::interval::absent")]
    pub mean_ms: f64,
    /// The times of which only a lower bound is known, because operations are censored.
    #[serde(default, skip_serializing_if = "crate::interval::Statistics::is_empty")]
    pub at_least: crate::interval::Statistics,
}

/// Throughput at varied loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSweep {
    /// The varied setting, or `load` for steps within a run.
    pub factor: String,
    /// The other settings; empty if there is only one curve.
    pub series: String,
    /// The smallest load.
    pub first: LoadPoint,
    /// The largest.
    pub last: LoadPoint,
    /// The load with the highest throughput.
    pub peak: LoadPoint,
    /// The smallest load that reaches nearly the highest throughput; none if it still grew at the largest
    /// load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<LoadPoint>,
    /// The measured load below the knee; none if the knee is the smallest load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_knee: Option<LoadPoint>,
    /// The smallest load at which nothing was answered, or operations that never ended were a large part of those in flight and
    /// throughput did not grow: what is above it says nothing about throughput, and the other loads are those below it. None if
    /// the system answered at every load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<LoadPoint>,
}

/// The measurement at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// The level as written.
    pub label: String,
    /// Operations per second.
    pub rate_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean response time, milliseconds.
    #[serde(with = "crate::interval::absent")]
    pub mean_ms: f64,
    /// 99th percentile of the response time, milliseconds.
    #[serde(with = "crate::interval::absent")]
    pub p99_ms: f64,
    /// The times of which only a lower bound is known, because operations are censored.
    #[serde(default, skip_serializing_if = "crate::interval::Statistics::is_empty")]
    pub at_least: crate::interval::Statistics,
}

/// The kernel's counters of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryClaim {
    /// Share of the time that some task stalled for memory; none if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_share: Option<f64>,
    /// Memory that was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<f64>,
    /// The available share of memory, if neither stalls nor reclaim are reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_share: Option<f64>,
    /// Pages per second that programs had to reclaim themselves (direct reclaim), if stalls are not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_scans_per_s: Option<f64>,
    /// True when the kernel ended processes because memory ran out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
    /// The service whose memory limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_of: Option<String>,
}

/// Pauses of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PausesClaim {
    /// The only watched service; none if none or several were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Number of pauses.
    pub count: usize,
    /// Their durations, seconds.
    pub length_s: Spread,
    /// The time from one pause to the next, seconds.
    pub period_s: Spread,
    /// Whether they occur at regular intervals.
    pub regular: bool,
    /// Share of the time spent in pauses.
    pub lost_share: f64,
    /// Operations in flight during pauses.
    pub in_flight: f64,
    /// Responses per second between pauses.
    pub between_per_s: f64,
    /// Responses per second over all the time.
    pub all_per_s: f64,
    /// Their effect on the percentiles; none if it cannot be distinguished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<PausedPercentiles>,
    /// What the counters show during the pauses.
    pub meanwhile: Meanwhile,
}

/// The effect of pauses on the percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PausedPercentiles {
    /// Share of the operations that took longer than the shortest pause.
    pub caught_share: f64,
    /// The longest operation, milliseconds.
    pub max_ms: f64,
    /// 99th percentile of all, milliseconds.
    pub p99_ms: f64,
    /// 99th percentile of the others, milliseconds.
    pub p99_others_ms: f64,
}

/// What the counters show during the pauses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meanwhile {
    /// The load generator waited for a CPU for as large a share of the time.
    GeneratorWaited(f64),
    /// Plimsoll's own counters were not read either: the whole machine stopped.
    MachineStopped,
    /// Share of the CPU time that other virtual machines took (steal).
    Steal(f64),
    /// Threads of a process waited for another service.
    Downstream {
        /// The process.
        process: String,
        /// Number of threads.
        threads: f64,
    },
    /// Threads of a process were ready to run and waited for a CPU.
    NoCpu {
        /// The process.
        process: String,
        /// Number of threads.
        threads: f64,
    },
    /// A process used CPU time.
    OwnWork {
        /// The process.
        process: String,
        /// CPUs used during the pauses.
        cpus: f64,
        /// CPUs used between the pauses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpus_between: Option<f64>,
    },
    /// A disk was busy.
    Disk {
        /// The device.
        device: String,
        /// Share of the time during the pauses.
        busy_share: f64,
        /// Share of the time between the pauses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        busy_share_between: Option<f64>,
    },
    /// Neither the service nor a disk was busy.
    NothingBusy,
    /// No service was watched.
    NotWatched,
    /// The counters do not show it.
    NotShown,
    /// The counters were read too rarely to show it.
    SampledTooSeldom,
}

/// The cause of a throughput change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeCause {
    /// The write-back cache was exhausted.
    WriteBackCache,
    /// A cache below the operating system was exhausted: the device itself took data fast before the change, and
    /// slowly after it.
    CacheBelowSystem,
    /// The kernel copied in memory; the disk did not limit the rate.
    Copying,
    /// The counters do not show it.
    NotShown,
}
