//! `run.json`: the facts of one trial without its time series; and `host.json`: the facts of the host.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Doubt, DoubtKind, HostResource, Level, Load, Phase, Trial};

/// The format identifier of `run.json`.
pub const RUN_FORMAT: &str = "plimsoll.run/1.1";

/// The fact that says why a trial ended before its time.
pub const ENDED_EARLY: &str = "load.ended_early";

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Still running when this was written: the state of a killed run.
    Running,
    /// The measurement was completed.
    Completed,
    /// The user stopped it.
    Interrupted,
    /// It failed, with the reason.
    Failed(String),
}

impl std::fmt::Display for Ending {
    /// `completed`, `failed: why`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Running => f.write_str("running"),
            Ending::Completed => f.write_str("completed"),
            Ending::Interrupted => f.write_str("interrupted"),
            Ending::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

/// Whether load was driven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Load was driven.
    #[default]
    Driven,
    /// The system was only watched.
    Watched,
    /// Another tool measured.
    Imported,
}

/// The name of a workload's operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationUnit {
    /// An operation.
    #[default]
    Operation,
    /// A read or write of a disk.
    Io,
    /// An object of a directory.
    Object,
    /// An entry that is imported into a directory.
    Entry,
    /// A request to a server.
    Request,
    /// A launch of a command.
    Launch,
}

/// The role of the load generator's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratorRole {
    /// They issue operations to a separate system: if they have no idle time, they are the limit.
    #[default]
    Drives,
    /// They do the measured work, for example a copy.
    DoesTheWork,
    /// They start and end the process that does the work, for example a command: their own CPU time is not a
    /// part of the operations.
    Starts,
}

/// The traits of a workload that affect its judgement and presentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadTraits {
    /// Whether its operations transfer bytes to or from files.
    pub storage: bool,
    /// Whether it ends by itself, for example when a file is copied.
    pub ends_by_itself: bool,
    /// Whether the sum of its operations is meaningless, for example of the first and the later launches.
    pub operations_apart: bool,
    /// Whether its operations complete in groups that share their time, for example the entries of an import between two
    /// readings of its progress: they have no response times of their own.
    #[serde(default)]
    pub grouped: bool,
    /// The name of its operations.
    pub unit: OperationUnit,
    /// The role of the generator's threads.
    pub generator: GeneratorRole,
    /// The names of the workload's settings that define the amount of load.
    pub load_settings: Cow<'static, [Cow<'static, str>]>,
    /// The names of the workload's settings whose levels are different loads: their numbers are listed but
    /// not compared.
    #[serde(default)]
    pub distinct_loads: Cow<'static, [Cow<'static, str>]>,
    /// The names of operations that only serve others, for example a flush after some writes: they do not
    /// count as throughput.
    #[serde(default)]
    pub supporting: Cow<'static, [Cow<'static, str>]>,
    /// The names of operations that are parts of others, for example the time until a connection is open, or consist
    /// of others, for example a transaction of several requests. They have response times, and do not count as
    /// throughput.
    #[serde(default)]
    pub derived: Cow<'static, [Cow<'static, str>]>,
    /// The block device requests of its operations, if they are always the same.
    #[serde(default)]
    pub transfers: Cow<'static, [OperationTransfer]>,
    /// How to get more operations; empty for a longer measurement.
    pub for_more_operations: Cow<'static, str>,
    /// The settings that bring operations whose names only the workload knows, such as a file with a scenario.
    #[serde(skip)]
    pub operations_from: &'static [&'static str],
}

impl WorkloadTraits {
    /// The traits of a workload that drives a separate system with plain operations.
    pub const NONE: WorkloadTraits = WorkloadTraits {
        storage: false,
        ends_by_itself: false,
        operations_apart: false,
        grouped: false,
        unit: OperationUnit::Operation,
        generator: GeneratorRole::Drives,
        load_settings: Cow::Borrowed(&[]),
        distinct_loads: Cow::Borrowed(&[]),
        supporting: Cow::Borrowed(&[]),
        derived: Cow::Borrowed(&[]),
        transfers: Cow::Borrowed(&[]),
        for_more_operations: Cow::Borrowed(""),
        operations_from: &[],
    };
}

/// The block device request of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationTransfer {
    /// The name of the operation.
    pub operation: Cow<'static, str>,
    /// The kind of request.
    pub transfer: Transfer,
}

/// A kind of block device request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Flushing.
    Flush,
}

impl OperationTransfer {
    /// An operation with its kind of request.
    pub const fn new(operation: &'static str, transfer: Transfer) -> Self {
        OperationTransfer { operation: Cow::Borrowed(operation), transfer }
    }
}

/// A phase with its start and end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseSpan {
    /// The phase.
    pub phase: Phase,
    /// Start, seconds on the trial's clock.
    pub begin_s: f64,
    /// End.
    pub end_s: f64,
}

/// Whether a source of counters was readable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// It was read at every sample.
    Active,
    /// It could not be opened, with the reason.
    Unavailable(String),
    /// It failed in some samples.
    Failing {
        /// Number of samples without it.
        samples: u64,
        /// The last reason.
        why: String,
    },
}

/// One source of counters in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// Its name, such as `disk`.
    pub source: String,
    /// Whether it was readable.
    pub state: SourceState,
}

/// Operations with the same failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The operation.
    pub operation: String,
    /// The workload's description of the failure.
    pub text: String,
    /// Number of operations.
    pub count: u64,
    /// The doubt that follows, according to the workload: `Failures`, or `Corrupted` if the data that was
    /// read differs from the written data.
    #[serde(default = "failures")]
    pub kind: DoubtKind,
}

fn failures() -> DoubtKind {
    DoubtKind::Failures
}

/// The cost of reading the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplerCost {
    /// Samples taken.
    pub samples: u64,
    /// CPU seconds of the sampling thread.
    pub cpu_s: f64,
    /// Wall-clock seconds of sampling.
    pub wall_s: f64,
}

/// The cost of driving the load in the measured phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorUse {
    /// Worker threads.
    pub threads: u32,
    /// CPU seconds of the worker threads, without those of `spin_s`.
    pub cpu_s: f64,
    /// CPU seconds that the worker threads spent spinning, only to issue the next operation on time.
    #[serde(default)]
    pub spin_s: f64,
    /// User CPU seconds of the worker threads, including `spin_s`, in steps of 10 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_s: Option<f64>,
    /// System CPU seconds, see `user_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_s: Option<f64>,
    /// Seconds in which the worker threads were ready to run but waited for a CPU.
    pub run_wait_s: f64,
    /// Seconds in which the CPU quota of Plimsoll's control group, or of one of its parents, throttled it,
    /// summed over CPUs; for several groups the largest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_s: Option<f64>,
    /// Seconds in which the worker threads waited for block I/O, summed over threads; none if the kernel has
    /// no delay accounting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_io_s: Option<f64>,
    /// Wall-clock seconds of the measured phase.
    pub wall_s: f64,
}

impl GeneratorUse {
    /// The use of all machines that drove a part of the load, of which the measured phase had this length.
    pub fn of_machines(machines: &[MachineRun], wall_s: f64) -> GeneratorUse {
        let sum = |of: fn(&GeneratorUse) -> Option<f64>| {
            let parts = machines.iter().filter_map(|machine| of(machine.generator.as_ref()?));
            parts.fold(None, |sum: Option<f64>, part| Some(sum.unwrap_or(0.0) + part))
        };
        let known = |of: fn(&GeneratorUse) -> f64| {
            machines.iter().filter_map(|machine| machine.generator.as_ref()).map(of).sum::<f64>()
        };
        GeneratorUse {
            threads: machines.iter().filter_map(|machine| machine.generator).map(|of| of.threads).sum(),
            cpu_s: known(|of| of.cpu_s),
            spin_s: known(|of| of.spin_s),
            user_s: sum(|of| of.user_s),
            system_s: sum(|of| of.system_s),
            run_wait_s: known(|of| of.run_wait_s),
            throttled_s: sum(|of| of.throttled_s),
            blocked_io_s: sum(|of| of.blocked_io_s),
            wall_s,
        }
    }
}

/// What a machine did in a trial that several machines took part in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineRun {
    /// Its name in the experiment: the host of its counters.
    pub name: String,
    /// The name that its host gives itself.
    pub host: String,
    /// CPUs online there.
    pub cpus: u32,
    /// Whether it drove a part of the load, and was not only watched.
    pub drives: bool,
    /// Operations that it completed in the measured phase.
    #[serde(default)]
    pub completed: u64,
    /// The cost of driving its part of the load; none if it drove none, or the measured phase did not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<GeneratorUse>,
    /// Its time of day minus ours, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_s: Option<f64>,
    /// The start of its load differs from the common start by at most this, as far as its clock is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_uncertainty_s: Option<f64>,
    /// How far its clock moved against ours during the trial, where that is more than the uncertainty; seconds.
    #[serde(default)]
    pub clock_drift_s: f64,
    /// The latest that an interval of it was taken after its end, in the measured phase; seconds.
    #[serde(default)]
    pub interval_late_s: f64,
    /// The largest delay of the first operation of one of its threads, on its clock; seconds.
    #[serde(default)]
    pub start_late_s: f64,
    /// The largest age of its counters when they were recorded, seconds.
    #[serde(default)]
    pub readings_age_s: f64,
    /// The cost of reading its counters.
    #[serde(default)]
    pub sampler: SamplerCost,
    /// Its sources of counters, and whether they were readable.
    #[serde(default)]
    pub sources: Vec<SourceStatus>,
    /// Why it was lost during the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// The clock of the operation times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockInfo {
    /// `tsc` or `monotonic`.
    pub source: String,
    /// Cost of one reading.
    pub read_ns: f64,
    /// Drift relative to the kernel's clock during the run, parts per million.
    pub drift_ppm: f64,
}

/// Whether a resource of the system under test can be reduced or increased.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settable {
    /// The present level, and the levels that can be set instead, at least one.
    Yes {
        /// The level in the baseline.
        in_force: Level,
        /// The level that reduces the resource to [`PROOF_SHARE`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reduced: Option<Level>,
        /// The increased level, of which the present level is the share [`PROOF_SHARE`], or the maximum if
        /// that is less; none if an increase is impossible.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raised: Option<Level>,
    },
    /// It cannot be changed, with the reason.
    No(String),
}

/// The remaining share of a resource that is reduced to show whether throughput follows.
pub const PROOF_SHARE: f64 = 0.7;

/// `run.json`: all data of a trial except time series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`RUN_FORMAT`]: major.minor; a newer major version is rejected.
    pub format: String,
    /// The planned trial.
    pub trial: Trial,
    /// The kind of the workload, for example `disk`.
    pub workload: String,
    /// Whether load was driven.
    #[serde(default)]
    pub origin: Origin,
    /// The traits of the workload.
    #[serde(default)]
    pub traits: WorkloadTraits,
    /// The load, with the workload's default filled in.
    pub load: Load,
    /// The requested settings, by path.
    pub asked: BTreeMap<String, Level>,
    /// The settings as read after they were set, by path. Only settings of factors are included.
    pub in_force: BTreeMap<String, Level>,
    /// How each resource of the system under test can be changed, by the path of the factor; empty unless a
    /// proof was requested.
    #[serde(alias = "turnable", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settable: BTreeMap<String, Settable>,
    /// The resource of each of these factors; factors without a resource are not included.
    #[serde(alias = "turned_resources", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factor_resources: BTreeMap<String, HostResource>,
    /// Start of the trial's clock (start of its warm-up), nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Phases so far.
    pub phases: Vec<PhaseSpan>,
    /// Names of the operations.
    pub operations: Vec<String>,
    /// Whether the operations were consecutive instead of mixed, like the steps of a run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub operations_in_turn: bool,
    /// Facts that the workload found about its target, for example `file.extents` or `back_end`.
    pub facts: BTreeMap<String, Level>,
    /// Every source, and whether it was readable.
    pub sources: Vec<SourceStatus>,
    /// The cost of reading the counters.
    pub sampler: SamplerCost,
    /// The cost of driving the load; the sum of all machines that did.
    pub generator: GeneratorUse,
    /// The machines that took part, besides this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineRun>,
    /// The clock.
    pub clock: ClockInfo,
    /// Failures by kind.
    pub errors: Vec<ErrorCount>,
    /// Doubts of the engine. The analysis adds further ones.
    pub doubts: Vec<Doubt>,
    /// What the files of the trial have, written at its end: the lines of a text file, the operations of a log of times. A file
    /// that has another number lost something. Empty before the end, and in records of older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recorded: BTreeMap<String, u64>,
    /// How it ended.
    pub ending: Ending,
}

impl Run {
    /// The workload of a record without load, which has only counters.
    pub const WATCHED: &str = "watch";

    /// A run that has just begun: only its plan is known.
    pub fn begun(trial: Trial, workload: &str, load: Load, started_unix_ns: u64) -> Self {
        Run {
            format: RUN_FORMAT.into(),
            trial,
            workload: workload.into(),
            origin: if workload == Run::WATCHED { Origin::Watched } else { Origin::Driven },
            traits: WorkloadTraits::default(),
            load,
            asked: BTreeMap::new(),
            in_force: BTreeMap::new(),
            settable: BTreeMap::new(),
            factor_resources: BTreeMap::new(),
            started_unix_ns,
            phases: Vec::new(),
            operations: Vec::new(),
            operations_in_turn: false,
            facts: BTreeMap::new(),
            sources: Vec::new(),
            sampler: SamplerCost::default(),
            generator: GeneratorUse::default(),
            machines: Vec::new(),
            clock: ClockInfo::default(),
            errors: Vec::new(),
            doubts: Vec::new(),
            recorded: BTreeMap::new(),
            ending: Ending::Running,
        }
    }

    /// The span of a phase; none if it did not occur.
    pub fn span(&self, phase: Phase) -> Option<&PhaseSpan> {
        self.phases.iter().find(|span| span.phase == phase)
    }
}

/// `host.json`: the host of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// `plimsoll.host/1.0`.
    pub format: String,
    /// Version of Plimsoll.
    pub plimsoll: String,
    /// Host name.
    pub name: String,
    /// Operating system, such as `Debian GNU/Linux 12`.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Hypervisor; empty if none was detected.
    pub hypervisor: String,
    /// Block devices: name, model, and queue settings by name.
    pub disks: BTreeMap<String, BTreeMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_from_before_more_could_be_given_is_read() {
        let old = r#"{"yes":{"in_force":{"number":0.5},"reduced":{"number":0.35}}}"#;
        let settable: Settable = serde_json::from_str(old).unwrap();
        let reduced = Some(Level::Number(0.35));
        assert_eq!(settable, Settable::Yes { in_force: Level::Number(0.5), reduced, raised: None });
        assert_eq!(serde_json::to_string(&settable).unwrap(), old);
    }
}
