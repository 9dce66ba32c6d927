//! What one operation costs, and how that differs between configurations.
//!
//! The cost of an operation in a resource is the use of it per second over the throughput: the service demand of operational
//! analysis, D = U / X (Denning and Buzen, ACM Computing Surveys 10, 1978). The time that an operation spends in a state is
//! the mean number of threads in it over the throughput, by Little's law.

use serde::{Deserialize, Serialize};

use crate::{Estimate, Operation, Unit};

/// What an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostKind {
    /// CPU time in programs, seconds.
    UserCpu,
    /// CPU time in the kernel, seconds.
    SystemCpu,
    /// Time ready to run, waiting for a CPU, seconds.
    Ready,
    /// Time waiting for reading and writing files, seconds.
    Transfers,
    /// Time waiting for pages of programs or mapped files to be read, seconds.
    PageFaults,
    /// Time waiting for flushes, seconds.
    FlushWait,
    /// Time waiting for another thread, seconds.
    Lock,
    /// Time waiting for another service, seconds.
    Downstream,
    /// Time asleep until a time came, seconds.
    Asleep,
    /// Time waiting for anything else, seconds.
    OtherWait,
    /// Time waiting or in service at a device, seconds.
    AtDevice,
    /// Reads of a device.
    Reads,
    /// Writes of a device.
    Writes,
    /// Flushes of a device.
    Flushes,
    /// Bytes read from a device.
    ReadBytes,
    /// Bytes written to a device.
    WrittenBytes,
    /// Bytes received from the network.
    ReceivedBytes,
    /// Bytes sent to the network.
    SentBytes,
    /// TCP segments sent: at most so many round trips.
    Segments,
    /// System calls that read.
    ReadCalls,
    /// System calls that write.
    WriteCalls,
    /// Page faults served from memory.
    MinorFaults,
    /// Page faults that had to read from a device.
    MajorFaults,
    /// Context switches of threads that wait for something.
    VoluntarySwitches,
    /// Context switches of threads with more to do.
    InvoluntarySwitches,
    /// The most memory in use at one time.
    PeakBytes,
}

impl CostKind {
    /// All of them, in order.
    pub const ALL: [CostKind; 26] = [
        CostKind::UserCpu,
        CostKind::SystemCpu,
        CostKind::Ready,
        CostKind::Transfers,
        CostKind::PageFaults,
        CostKind::FlushWait,
        CostKind::Lock,
        CostKind::Downstream,
        CostKind::Asleep,
        CostKind::OtherWait,
        CostKind::AtDevice,
        CostKind::Reads,
        CostKind::Writes,
        CostKind::Flushes,
        CostKind::ReadBytes,
        CostKind::WrittenBytes,
        CostKind::ReceivedBytes,
        CostKind::SentBytes,
        CostKind::Segments,
        CostKind::ReadCalls,
        CostKind::WriteCalls,
        CostKind::MinorFaults,
        CostKind::MajorFaults,
        CostKind::VoluntarySwitches,
        CostKind::InvoluntarySwitches,
        CostKind::PeakBytes,
    ];

    /// Its name in a record.
    pub fn word(self) -> &'static str {
        match self {
            CostKind::UserCpu => "user_cpu",
            CostKind::SystemCpu => "system_cpu",
            CostKind::Ready => "ready",
            CostKind::Transfers => "transfers",
            CostKind::PageFaults => "page_faults",
            CostKind::FlushWait => "flush_wait",
            CostKind::Lock => "lock",
            CostKind::Downstream => "downstream",
            CostKind::Asleep => "asleep",
            CostKind::OtherWait => "other_wait",
            CostKind::AtDevice => "at_device",
            CostKind::Reads => "reads",
            CostKind::Writes => "writes",
            CostKind::Flushes => "flushes",
            CostKind::ReadBytes => "read_bytes",
            CostKind::WrittenBytes => "written_bytes",
            CostKind::ReceivedBytes => "received_bytes",
            CostKind::SentBytes => "sent_bytes",
            CostKind::Segments => "segments",
            CostKind::ReadCalls => "read_calls",
            CostKind::WriteCalls => "write_calls",
            CostKind::MinorFaults => "minor_faults",
            CostKind::MajorFaults => "major_faults",
            CostKind::VoluntarySwitches => "voluntary_switches",
            CostKind::InvoluntarySwitches => "involuntary_switches",
            CostKind::PeakBytes => "peak_bytes",
        }
    }

    /// Whether it is a part of the time of an operation; else a number of things.
    pub fn is_time(self) -> bool {
        self <= CostKind::AtDevice
    }

    /// The unit of one operation's share.
    pub fn unit(self) -> Unit {
        match self {
            kind if kind.is_time() => Unit::Seconds,
            CostKind::ReadBytes
            | CostKind::WrittenBytes
            | CostKind::ReceivedBytes
            | CostKind::SentBytes
            | CostKind::PeakBytes => Unit::Bytes,
            _ => Unit::Count,
        }
    }
}

/// Who takes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payer {
    /// A watched process of the system under test.
    Process(String),
    /// A block device.
    Device(String),
    /// The host.
    Host,
    /// The threads of the load generator.
    Generator,
}

/// One part of the cost of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostPart {
    /// What.
    pub kind: CostKind,
    /// Whose.
    pub of: Payer,
    /// How much of it for one operation, in [`CostKind::unit`], with its 95 % interval over the replicates.
    pub each: Estimate,
}

/// What one operation costs in a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationCost {
    /// Which operation: a step where operations follow one another; all that the load mixes; and of a mix each whose
    /// transfers are known, with what these take of the devices.
    pub operation: Operation,
    /// Operations per second.
    pub rate_per_s: f64,
    /// Time of one operation, seconds: the mean response time; where operations follow one another the time of the step
    /// over its operations.
    pub time_s: Estimate,
    /// Trials it was measured in.
    pub trials: usize,
    /// The parts, times first. Times of threads that work side by side add up to more than the time of the operation.
    pub parts: Vec<CostPart>,
}

/// A part that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DifferencePart {
    /// What.
    pub kind: CostKind,
    /// Whose.
    pub of: Payer,
    /// For one operation of the baseline.
    pub baseline: f64,
    /// For one operation of the configuration.
    pub treatment: f64,
    /// The difference, with its 95 % interval.
    pub change: Estimate,
}

/// Why a configuration is faster or slower than the baseline: the difference of the time of one operation, in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Label of the configuration.
    pub configuration: String,
    /// Which operation.
    pub operation: Operation,
    /// Throughput of the configuration over that of the baseline.
    pub rate_ratio: f64,
    /// The difference of the time of an operation, seconds.
    pub time_s: Estimate,
    /// Parts of the time, the largest difference first.
    pub times: Vec<DifferencePart>,
    /// What no part explains, seconds: negative where threads that work side by side explain more than all of it.
    pub unexplained_s: f64,
    /// Reads, writes, flushes, bytes that differ.
    pub counts: Vec<DifferencePart>,
}
