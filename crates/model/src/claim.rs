//! What a finding says, as data: which sign was seen and its numbers. `report` writes the sentences.

use serde::{Deserialize, Serialize};

use crate::cost::CostKind;
use crate::launch::Doing;
use crate::{Level, Unit};

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

/// What was seen. Of one trial, or of the whole experiment where it compares configurations.
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
        /// How an open load fell behind its schedule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        late: Option<Lateness>,
        /// What kept it from running.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        starved_by: Option<Starvation>,
    },
    /// A process used the CPUs that it may use.
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
        /// CPUs that all its threads used.
        used_cpus: f64,
    },
    /// The threads of the load itself moved data in memory instead of waiting for a device.
    CopyingInMemory {
        /// Share of the time that they ran.
        ran_share: f64,
        /// Share of the time that they waited for a CPU.
        wait_share: f64,
    },
    /// How busy the CPUs of the host were.
    HostCpus {
        /// Share of their time.
        busy_share: f64,
        /// Share of the time that some task waited for a CPU.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_share: Option<f64>,
    },
    /// What the threads of a service did while operations waited.
    Service(ServiceClaim),
    /// The service answered nothing for a while, several times.
    Pauses(PausesClaim),
    /// Single operations were as slow as if the service had paused, in intervals too long to show it.
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
        /// Bytes moved by the device over those of the load.
        factor: f64,
    },
    /// What larger blocks gained and cost.
    BlockSizes {
        /// The smallest block.
        from: SizePoint,
        /// The largest.
        to: SizePoint,
        /// The other settings; empty when there is one curve.
        series: String,
    },
    /// Throughput over a varied load: where it stopped growing, and what more load cost.
    LoadSweep(LoadSweep),
    /// Stalls for memory of the host, or of a service with a limit of its own.
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
    /// TCP segments were sent again.
    Retransmissions {
        /// How many a second.
        per_s: f64,
        /// Share of those sent.
        share: f64,
    },
    /// Packets were dropped because a processor's queue was at its limit.
    PacketsDropped {
        /// How many a second.
        per_s: f64,
    },
    /// Throughput changed in the measured time.
    RateChanged {
        /// Seconds from the start of the measured time.
        at_s: f64,
        /// Per second before it, in the unit below.
        before: f64,
        /// Per second after it.
        after: f64,
        /// Operations or bytes.
        unit: Unit,
        /// Bytes moved before it; none where the load moves none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved_bytes: Option<f64>,
        /// Why.
        cause: ChangeCause,
    },
    /// The flush at the end of a copy.
    ClosingFlush {
        /// How long it took, seconds.
        flush_s: f64,
        /// All of the measured time, seconds.
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
        /// What the first did more of; none where that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        differences: Option<Vec<LaunchDifference>>,
    },
    /// What the launches of a command spent their time on.
    Launch(LaunchClaim),
    /// Responses had several statuses, or one that sends the client elsewhere.
    Statuses {
        /// Each status with the share of the responses that had it, the most frequent first.
        shares: Vec<StatusShare>,
    },
    /// Responses had bodies of very different sizes, or none at all.
    AnswerSizes {
        /// Bytes of the smallest.
        min_bytes: f64,
        /// Bytes of the largest.
        max_bytes: f64,
    },
    /// A response that counts as done well says that something failed.
    ErrorText {
        /// The word for a failure that its body begins with.
        word: String,
    },
    /// Response times of launches changed from one launch on.
    LaunchesShifted {
        /// The first launch after the change, counted from 1.
        from_launch: u64,
        /// When it was done, seconds from the start of the measured time; none in records of before that was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_s: Option<f64>,
        /// Median of the launches before it, milliseconds.
        before_ms: f64,
        /// Median of those from it on, milliseconds.
        after_ms: f64,
        /// What differs in what they did; none where that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        differences: Option<Vec<LaunchDifference>>,
    },
}

impl Claim {
    /// Whether every number of it is finite: JSON knows no other.
    pub fn is_finite(&self) -> bool {
        /// A number that is not finite is written as `null`, and what is absent is not written.
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

/// What one launch did, or the median of several, and what others did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchDifference {
    /// What, in [`CostKind::unit`].
    pub kind: CostKind,
    /// Of the launch, or of those before the change.
    pub before: f64,
    /// Of the later ones.
    pub after: f64,
}

/// What the launches of a command spent their time on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchClaim {
    /// The program.
    pub command: String,
    /// How many launches.
    pub launches: u64,
    /// Their mean time, milliseconds.
    pub mean_ms: f64,
    /// CPU time of one as a share of its time: above 1 where several threads run side by side.
    pub cpu_share: f64,
    /// What most of the time was.
    pub state: LaunchState,
    /// Its share of the time.
    pub share: f64,
    /// How often the launches were looked at to see what they wait for.
    pub looks: u64,
}

/// What a launch spends most of its time on.
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

/// How many responses had a status.
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
    /// One in a hundred was issued this late or more.
    Lag {
        /// 99th percentile of the lag, milliseconds.
        lag_p99_ms: f64,
        /// 99th percentile of the response time, milliseconds.
        response_p99_ms: f64,
    },
}

/// What kept the load generator from running.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Starvation {
    /// Its own CPU quota: share of the time or of the periods in which it was throttled.
    CpuQuota(f64),
    /// Other processes had the CPUs: share of the time that its threads waited for one.
    OtherProcesses(f64),
    /// A limit on the reads or writes of its own control group was reached.
    IoLimit {
        /// The limit: operations or bytes per second.
        limit_per_s: f64,
        /// What was measured.
        observed_per_s: f64,
        /// Whether it is about bytes; else operations.
        bytes: bool,
        /// Whether it is about writes; else reads.
        writes: bool,
    },
}

/// What the threads of a service did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceClaim {
    /// The service, as the experiment calls the process.
    pub process: String,
    /// Its threads.
    pub threads: f64,
    /// Those that were not waiting for work.
    pub at_work: f64,
    /// CPUs it used.
    pub used_cpus: f64,
    /// Connections waiting to be accepted; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_queue: Option<f64>,
    /// Share of the host's CPU time that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cpu_share: Option<f64>,
    /// True when it is about the time between pauses only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub between_pauses: bool,
    /// What most of them did.
    pub state: ServiceState,
}

/// What limits a service, or that nothing does.
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
        /// Threads waiting for it at a lock; none where there was hardly another one at work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lock_threads: Option<f64>,
    },
    /// Its threads hand work to each other, and one stage is always busy: the others wait for it.
    Pipeline {
        /// What the busiest stage does.
        stage: Stage,
        /// Share of the time that its thread does it.
        busy_share: f64,
        /// CPU time of the thread as a share of the time.
        cpu_share: f64,
    },
    /// Threads were ready to run and waited for a CPU.
    WaitsForCpu {
        /// How many.
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
        /// How many threads.
        threads: f64,
        /// Major page faults per second.
        faults_per_s: f64,
        /// Pages per second that had been reclaimed and were read again; none where memory is not the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refaults_per_s: Option<f64>,
    },
    /// Threads waited for files.
    Files {
        /// How many threads.
        threads: f64,
        /// Whether for flushes; else for reading and writing.
        flushes: bool,
        /// The I/O limit that was reached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<ReachedLimit>,
        /// How the device made the flushes, where they followed one another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        serial_flushes: Option<SerialFlushes>,
    },
    /// Answers waited to be sent.
    Sending {
        /// Bytes in the send buffers of TCP.
        buffered_bytes: f64,
        /// Requests in flight.
        in_flight: f64,
        /// Bytes of an answer.
        answer_bytes: f64,
        /// Bytes sent per second.
        bytes_per_s: f64,
    },
    /// Threads waited for one of the connections to a service behind it.
    ConnectionPool {
        /// Threads that used a connection.
        using: f64,
        /// Threads that waited for one.
        waiting: f64,
    },
    /// Threads waited for the same lock.
    Lock {
        /// How many.
        threads: f64,
    },
    /// Threads waited for the answer of another service.
    Downstream {
        /// Its address.
        peer: String,
        /// How many threads.
        threads: f64,
    },
    /// Every thread was at work and none was free for more.
    AllThreadsAtWork {
        /// What most of them did.
        most: ThreadState,
        /// How many of them.
        threads: f64,
    },
    /// Threads waited for work: the service had headroom.
    Headroom {
        /// How many.
        idle_threads: f64,
    },
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// It sleeps until a time comes.
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

/// What a stage of a pipeline does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It computes.
    Cpu,
    /// It waits for flushes.
    Flushes,
    /// It reads and writes files.
    Transfers,
    /// It waits for the answers of another service.
    Downstream(String),
}

/// A limit on reading and writing, and how far it was used.
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
    /// What was measured.
    pub observed: f64,
}

/// Flushes that follow one another at a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SerialFlushes {
    /// The device.
    pub device: String,
    /// How long each took, milliseconds.
    pub each_ms: f64,
    /// How many were under way on average.
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
    /// True when each operation waited for the one before: the time of one is then what limits.
    pub one_at_a_time: bool,
    /// Share of the time that went to flushes, where that is most of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_share: Option<f64>,
    /// How the device made them, where they followed one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_flushes: Option<SerialFlushes>,
    /// Whether operations or bytes per second are what it has no more of, where the experiment shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<DeviceBound>,
}

/// What a saturated device has no more of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceBound {
    /// Measured over block sizes: operations per second are the limit from the first to the second point, bytes per second
    /// from the third to the last.
    OverSizes {
        /// Where operations per second stay the same as blocks grow: the smallest and the largest such block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operations: Option<(SizePoint, SizePoint)>,
        /// Where bytes per second stay the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<(SizePoint, SizePoint)>,
    },
    /// Suggested by the size of the transfers when more in flight gave no more.
    BySize {
        /// Mean size of a transfer.
        transfer_bytes: f64,
        /// True for operations per second, false for bytes per second.
        operations: bool,
    },
}

/// What was measured with one block size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizePoint {
    /// The block size as written.
    pub label: String,
    /// Operations per second.
    pub rate_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean response time, milliseconds.
    pub mean_ms: f64,
}

/// Throughput over a varied load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSweep {
    /// The varied setting, or `load` for steps inside a run.
    pub factor: String,
    /// The other settings; empty when there is one curve.
    pub series: String,
    /// The smallest load.
    pub first: LoadPoint,
    /// The largest.
    pub last: LoadPoint,
    /// The load with the highest throughput.
    pub peak: LoadPoint,
    /// The smallest load that reaches nearly all of the highest throughput; none while it still grew at the largest load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<LoadPoint>,
}

/// What was measured at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// The level as written.
    pub label: String,
    /// Operations per second.
    pub rate_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean response time, milliseconds.
    pub mean_ms: f64,
    /// 99th percentile of the response time, milliseconds.
    pub p99_ms: f64,
}

/// What the kernel's counters say of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryClaim {
    /// Share of the time that some task stalled for memory; none on a kernel that does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_share: Option<f64>,
    /// Memory that was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<f64>,
    /// Pages per second that programs had to reclaim themselves (direct reclaim), where stalls are not counted.
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
    /// The only service that was watched; none with several or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// How many.
    pub count: usize,
    /// How long each took, seconds.
    pub length_s: Spread,
    /// From one to the next, seconds.
    pub period_s: Spread,
    /// Whether they come at regular times.
    pub regular: bool,
    /// Share of the time.
    pub lost_share: f64,
    /// Operations in flight meanwhile.
    pub in_flight: f64,
    /// Answers per second between them.
    pub between_per_s: f64,
    /// Answers per second in all.
    pub all_per_s: f64,
    /// What they do to the percentiles; none where that cannot be distinguished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<PausedPercentiles>,
    /// What the counters show of the time of the pauses.
    pub meanwhile: Meanwhile,
}

/// What pauses do to the percentiles.
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

/// What the counters show of the time of the pauses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meanwhile {
    /// The load generator waited for a CPU for as large a share of the time.
    GeneratorWaited(f64),
    /// Plimsoll's own counters were not read either: the whole machine stopped.
    MachineStopped,
    /// Share of the processors that other virtual machines took.
    Steal(f64),
    /// Threads of a process waited for another service.
    Downstream {
        /// The process.
        process: String,
        /// How many threads.
        threads: f64,
    },
    /// Threads of a process were ready to run and waited for a CPU.
    NoCpu {
        /// The process.
        process: String,
        /// How many threads.
        threads: f64,
    },
    /// A process computed.
    OwnWork {
        /// The process.
        process: String,
        /// CPUs used in the pauses.
        cpus: f64,
        /// CPUs used between them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpus_between: Option<f64>,
    },
    /// A disk was busy.
    Disk {
        /// The device.
        device: String,
        /// Share of the time in the pauses.
        busy_share: f64,
        /// Share of the time between them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        busy_share_between: Option<f64>,
    },
    /// Neither the service nor a disk was busy.
    NothingBusy,
    /// No service was watched.
    NotWatched,
    /// The counters do not show it.
    NotShown,
    /// The counters were read too seldom to show it.
    SampledTooSeldom,
}

/// Why throughput changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeCause {
    /// The write-back cache was exhausted.
    WriteBackCache,
    /// The kernel copied in memory; the disk did not set the pace.
    Copying,
    /// The counters do not show it.
    NotShown,
}
