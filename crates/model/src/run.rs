//! What happened in one trial, beside its numbers: `run.json`; and where it happened: `host.json`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Doubt, DoubtKind, HostResource, Level, Load, Phase, Trial};

/// The format word of `run.json`.
pub const RUN_FORMAT: &str = "plimsoll.run/1.0";

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Still going when this was written; what a killed run leaves.
    Running,
    /// All of it was measured.
    Completed,
    /// The user stopped it.
    Interrupted,
    /// It could not go on; why.
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

/// Where the numbers of a run come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Load was driven.
    #[default]
    Driven,
    /// The system was only watched.
    Watched,
}

/// What one operation of a workload is called.
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
    /// A request to a server.
    Request,
    /// A launch of a command.
    Launch,
}

/// What the threads of the load generator are to the system under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratorRole {
    /// They issue operations to a system apart from them: without time left they are the limit.
    #[default]
    Drives,
    /// They do the work that is measured, as those of a copy do.
    DoesTheWork,
    /// They start and end what does it, as a command: what they need themselves is in no operation's time.
    Starts,
}

/// What sort of load a workload is, as far as judging and showing it depends on that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadTraits {
    /// True when its operations move bytes to or from files.
    pub storage: bool,
    /// True when it ends by itself, as copying a file does.
    pub ends_by_itself: bool,
    /// True when the sum of its operations is no operation anybody asked for, as that of a first and of later launches.
    pub operations_apart: bool,
    /// What an operation is called.
    pub unit: OperationUnit,
    /// What the generator's threads are.
    pub generator: GeneratorRole,
    /// Names of the workload's settings that say how much load there is.
    pub load_settings: Cow<'static, [Cow<'static, str>]>,
    /// Names of the workload's settings whose levels are loads of their own: their numbers are listed and not compared.
    #[serde(default)]
    pub distinct_loads: Cow<'static, [Cow<'static, str>]>,
    /// Names of operations that only serve the others, as a flush after some writes: they are no part of throughput.
    #[serde(default)]
    pub supporting: Cow<'static, [Cow<'static, str>]>,
    /// What its operations ask of a block device, where it is the same each time.
    #[serde(default)]
    pub transfers: Cow<'static, [OperationTransfer]>,
    /// What to do to get more operations; empty to measure longer.
    pub for_more_operations: Cow<'static, str>,
}

impl WorkloadTraits {
    /// Those of a workload that drives a system apart from it with operations that are just that.
    pub const NONE: WorkloadTraits = WorkloadTraits {
        storage: false,
        ends_by_itself: false,
        operations_apart: false,
        unit: OperationUnit::Operation,
        generator: GeneratorRole::Drives,
        load_settings: Cow::Borrowed(&[]),
        distinct_loads: Cow::Borrowed(&[]),
        supporting: Cow::Borrowed(&[]),
        transfers: Cow::Borrowed(&[]),
        for_more_operations: Cow::Borrowed(""),
    };
}

/// What an operation asks of a block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationTransfer {
    /// The name of the operation.
    pub operation: Cow<'static, str>,
    /// What it asks for.
    pub transfer: Transfer,
}

/// What can be asked of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making durable what was written.
    Flush,
}

impl OperationTransfer {
    /// A name of an operation and what that asks for.
    pub const fn new(operation: &'static str, transfer: Transfer) -> Self {
        OperationTransfer { operation: Cow::Borrowed(operation), transfer }
    }
}

/// A phase and when it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseSpan {
    /// Which.
    pub phase: Phase,
    /// Start, seconds on the trial's clock.
    pub begin_s: f64,
    /// End.
    pub end_s: f64,
}

/// Whether a source could be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// It was read at every sample.
    Active,
    /// It could not be opened; why.
    Unavailable(String),
    /// It failed some of the time: how many samples, and the last reason.
    Failing {
        /// Samples without it.
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
    /// Whether it could be read.
    pub state: SourceState,
}

/// Operations that failed in the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// Which operation.
    pub operation: String,
    /// The workload's description of the failure.
    pub text: String,
    /// How many.
    pub count: u64,
    /// What it makes doubtful, as the workload says: `Failures`, or `Corrupted` when other data was read back than was
    /// written.
    #[serde(default = "failures")]
    pub kind: DoubtKind,
}

fn failures() -> DoubtKind {
    DoubtKind::Failures
}

/// What reading the counters cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplerCost {
    /// Samples taken.
    pub samples: u64,
    /// CPU seconds of the sampling thread.
    pub cpu_s: f64,
    /// Wall-clock seconds it was sampling.
    pub wall_s: f64,
}

/// What driving the load cost, over the measured phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorUse {
    /// Worker threads.
    pub threads: u32,
    /// CPU seconds of the worker threads, without those of `spin_s`.
    pub cpu_s: f64,
    /// CPU seconds for which the worker threads kept a CPU only to issue the next operation on time.
    #[serde(default)]
    pub spin_s: f64,
    /// Of all their CPU seconds, those in their own code and those in the kernel, in steps of 10 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_s: Option<f64>,
    /// See `user_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_s: Option<f64>,
    /// Seconds the worker threads were ready to run but waited for a CPU.
    pub run_wait_s: f64,
    /// Seconds the control group of Plimsoll itself, or one that it is in, was kept from running because it had used up its CPU time,
    /// added up over CPUs; of several groups the one with the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_s: Option<f64>,
    /// Seconds the worker threads waited for block I/O, added up over threads; none where the kernel does not account for delays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_io_s: Option<f64>,
    /// Wall-clock seconds of the measured phase.
    pub wall_s: f64,
}

/// The clock operations were timed with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockInfo {
    /// `tsc` or `monotonic`.
    pub source: String,
    /// Cost of one reading.
    pub read_ns: f64,
    /// Disagreement with the kernel's clock over the run, parts per million.
    pub drift_ppm: f64,
}

/// Whether less or more of a resource could be given to the system under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turnable {
    /// What is in force and the levels that can be set instead, at least one.
    Yes {
        /// In force in the baseline.
        in_force: Level,
        /// The level that leaves [`PROOF_SHARE`] of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reduced: Option<Level>,
        /// The level of which what is in force is [`PROOF_SHARE`], or all there is when that is less; none when there is no
        /// more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raised: Option<Level>,
    },
    /// It could not; why.
    No(String),
}

/// The share of a resource that is left to the system when a part is taken away to see whether throughput follows.
pub const PROOF_SHARE: f64 = 0.7;

/// `run.json`: everything about a trial that is not a time series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`RUN_FORMAT`]: major.minor; a newer major is refused.
    pub format: String,
    /// What was intended.
    pub trial: Trial,
    /// The workload's kind, such as `disk`.
    pub workload: String,
    /// Whether load was driven.
    #[serde(default)]
    pub origin: Origin,
    /// What sort of load it was.
    #[serde(default)]
    pub traits: WorkloadTraits,
    /// The load, with the workload's default filled in.
    pub load: Load,
    /// The settings asked for, by path.
    pub asked: BTreeMap<String, Level>,
    /// What was read back once they were set, by path. Only settings a factor puts in force appear here.
    pub in_force: BTreeMap<String, Level>,
    /// How each resource of the system under test could be turned, by the factor's path; empty unless a proof was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub turnable: BTreeMap<String, Turnable>,
    /// Which resource each of these factors changes; those that change none are not among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub turned_resources: BTreeMap<String, HostResource>,
    /// Start of the trial's clock (start of its warm-up), nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Phases so far.
    pub phases: Vec<PhaseSpan>,
    /// Names of the operations.
    pub operations: Vec<String>,
    /// Whether the operations followed one another instead of mixing, as the steps of a run do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub operations_in_turn: bool,
    /// What the workload found out about what it drives, such as `file.extents` or `back_end`.
    pub facts: BTreeMap<String, Level>,
    /// Every source and whether it could be read.
    pub sources: Vec<SourceStatus>,
    /// What reading the counters cost.
    pub sampler: SamplerCost,
    /// What driving the load cost.
    pub generator: GeneratorUse,
    /// The clock.
    pub clock: ClockInfo,
    /// Failures by kind.
    pub errors: Vec<ErrorCount>,
    /// What the engine itself noticed. The analysis adds its own when it judges.
    pub doubts: Vec<Doubt>,
    /// How it ended.
    pub ending: Ending,
}

impl Run {
    /// The workload of a record in which nothing was driven: only the counters were kept.
    pub const WATCHED: &str = "watch";

    /// A run that has just begun: nothing is known of it but what was intended.
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
            turnable: BTreeMap::new(),
            turned_resources: BTreeMap::new(),
            started_unix_ns,
            phases: Vec::new(),
            operations: Vec::new(),
            operations_in_turn: false,
            facts: BTreeMap::new(),
            sources: Vec::new(),
            sampler: SamplerCost::default(),
            generator: GeneratorUse::default(),
            clock: ClockInfo::default(),
            errors: Vec::new(),
            doubts: Vec::new(),
            ending: Ending::Running,
        }
    }

    /// The span of a phase, when it happened.
    pub fn span(&self, phase: Phase) -> Option<&PhaseSpan> {
        self.phases.iter().find(|span| span.phase == phase)
    }
}

/// `host.json`: where the experiment ran.
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
    /// Hypervisor, empty when none was recognized.
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
        let turnable: Turnable = serde_json::from_str(old).unwrap();
        let reduced = Some(Level::Number(0.35));
        assert_eq!(turnable, Turnable::Yes { in_force: Level::Number(0.5), reduced, raised: None });
        assert_eq!(serde_json::to_string(&turnable).unwrap(), old);
    }
}
