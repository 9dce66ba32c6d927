//! The cost of one operation, and its difference between configurations.
//!
//! The cost of an operation in a resource is the utilization of the resource divided by the throughput: the
//! service demand of operational analysis, D = U / X (Denning and Buzen, ACM Computing Surveys 10, 1978). The
//! time that an operation spends in a state is the mean number of threads in the state divided by the
//! throughput (Little's law).

use serde::{Deserialize, Serialize};

use crate::{Estimate, Operation, Unit};

/// A kind of resource use or time of an operation.
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
    /// Time waiting for pages of programs or mapped files to be read (major page faults), seconds.
    PageFaults,
    /// Time waiting for flushes, seconds.
    FlushWait,
    /// Time waiting for another thread, seconds.
    Lock,
    /// Time waiting for another service, seconds.
    Downstream,
    /// Time sleeping until a timeout, seconds.
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
    /// TCP segments sent: an upper limit of the round trips.
    Segments,
    /// System calls that read.
    ReadCalls,
    /// System calls that write.
    WriteCalls,
    /// Page faults served from memory.
    MinorFaults,
    /// Page faults that had to read from a device.
    MajorFaults,
    /// Context switches of threads that wait (voluntary).
    VoluntarySwitches,
    /// Context switches of threads that were preempted (involuntary).
    InvoluntarySwitches,
    /// Peak memory use.
    PeakBytes,
}

impl CostKind {
    /// All kinds, in order.
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

    /// Whether it is a part of the operation's time; otherwise it is a count.
    pub fn is_time(self) -> bool {
        self <= CostKind::AtDevice
    }

    /// The unit of the cost per operation.
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

/// The owner of a cost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostOwner {
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
    /// The kind of cost.
    pub kind: CostKind,
    /// The owner.
    pub of: CostOwner,
    /// The cost per operation, in [`CostKind::unit`], with its 95 % interval over the replicates.
    pub each: Estimate,
}

/// The cost of one operation in a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationCost {
    /// The operation: a step, if operations are consecutive, or all operations of a mix. Each operation of a
    /// mix whose transfers are known has a separate entry with its use of the devices.
    pub operation: Operation,
    /// Operations per second.
    pub rate_per_s: f64,
    /// Time of one operation, seconds: the mean response time, or the time of the step divided by its
    /// operations if operations are consecutive.
    pub time_s: Estimate,
    /// Number of trials that it was measured in.
    pub trials: usize,
    /// The parts, times first. With parallel threads, the sum of the times exceeds the time of the operation.
    pub parts: Vec<CostPart>,
}

/// A part of the cost that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DifferencePart {
    /// The kind of cost.
    pub kind: CostKind,
    /// The owner.
    pub of: CostOwner,
    /// Cost per operation of the baseline.
    pub baseline: f64,
    /// Cost per operation of the configuration.
    pub treatment: f64,
    /// The difference, with its 95 % interval.
    pub change: Estimate,
}

/// Why a configuration is faster or slower than the baseline: the difference in the time of one operation,
/// divided into parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The label of the configuration.
    pub configuration: String,
    /// The operation.
    pub operation: Operation,
    /// The throughput of the configuration divided by that of the baseline.
    pub rate_ratio: f64,
    /// The difference in the time of an operation, seconds.
    pub time_s: Estimate,
    /// Parts of the time, the largest difference first.
    pub times: Vec<DifferencePart>,
    /// The remaining difference, seconds: negative if parallel threads explain more than the total
    /// difference.
    pub unexplained_s: f64,
    /// Differences in counts: reads, writes, flushes, bytes.
    pub counts: Vec<DifferencePart>,
}
