//! The I/O of operations: what `plimsoll trace` counts and what one operation costs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Estimate, Unit};

/// The format identifier of a trace.
pub const TRACE_FORMAT: &str = "plimsoll.trace/1.0";

/// The format identifier of the price of a load.
pub const PRICE_FORMAT: &str = "plimsoll.io-price/1.0";

/// One kind of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoKind {
    /// System calls that read files.
    ReadCalls,
    /// Bytes that they returned.
    ReadCallBytes,
    /// System calls that write files.
    WriteCalls,
    /// Bytes that they wrote.
    WriteCallBytes,
    /// System calls that flush files: `fsync`, `fdatasync`, `msync`, `sync_file_range`.
    Syncs,
    /// Requests submitted to `io_uring`.
    RingRequests,
    /// Read requests to the device.
    DeviceReads,
    /// Their bytes.
    DeviceReadBytes,
    /// Write requests to the device.
    DeviceWrites,
    /// Their bytes.
    DeviceWriteBytes,
    /// Flush requests to the device.
    DeviceFlushes,
    /// Other requests to the device, such as discards.
    DeviceOthers,
}

impl IoKind {
    /// All kinds, in order.
    pub const ALL: [IoKind; 12] = [
        IoKind::ReadCalls,
        IoKind::ReadCallBytes,
        IoKind::WriteCalls,
        IoKind::WriteCallBytes,
        IoKind::Syncs,
        IoKind::RingRequests,
        IoKind::DeviceReads,
        IoKind::DeviceReadBytes,
        IoKind::DeviceWrites,
        IoKind::DeviceWriteBytes,
        IoKind::DeviceFlushes,
        IoKind::DeviceOthers,
    ];

    /// The kinds that count requests to the device. Their sum per second is the IOPS of the device.
    pub const REQUESTS: [IoKind; 4] =
        [IoKind::DeviceReads, IoKind::DeviceWrites, IoKind::DeviceFlushes, IoKind::DeviceOthers];

    /// The kinds that count bytes of the device.
    pub const BYTES: [IoKind; 2] = [IoKind::DeviceReadBytes, IoKind::DeviceWriteBytes];

    /// Its name in documents and tables.
    pub fn word(self) -> &'static str {
        match self {
            IoKind::ReadCalls => "read_calls",
            IoKind::ReadCallBytes => "read_call_bytes",
            IoKind::WriteCalls => "write_calls",
            IoKind::WriteCallBytes => "write_call_bytes",
            IoKind::Syncs => "syncs",
            IoKind::RingRequests => "ring_requests",
            IoKind::DeviceReads => "device_reads",
            IoKind::DeviceReadBytes => "device_read_bytes",
            IoKind::DeviceWrites => "device_writes",
            IoKind::DeviceWriteBytes => "device_write_bytes",
            IoKind::DeviceFlushes => "device_flushes",
            IoKind::DeviceOthers => "device_others",
        }
    }

    /// The unit of a count.
    pub fn unit(self) -> Unit {
        match self {
            IoKind::ReadCallBytes
            | IoKind::WriteCallBytes
            | IoKind::DeviceReadBytes
            | IoKind::DeviceWriteBytes => Unit::Bytes,
            _ => Unit::Count,
        }
    }

    /// Whether it is counted at the block device; otherwise in the process.
    pub fn is_of_device(self) -> bool {
        self >= IoKind::DeviceReads
    }
}

/// Counts by kind. A kind that was not counted is absent, never zero.
pub type IoCounts = BTreeMap<IoKind, u64>;

/// The sum of the kinds that were counted; none if none was.
pub fn sum_of(io: &IoCounts, kinds: &[IoKind]) -> Option<u64> {
    kinds.iter().filter_map(|kind| io.get(kind)).copied().reduce(u64::saturating_add)
}

/// What the counts of a row belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOrigin {
    /// An operation of the process.
    Operation,
    /// The process, in no operation.
    NoOperation,
    /// Threads of the kernel: flushes, the journal, writeback.
    KernelThreads,
    /// Other processes that use the same device.
    OtherProcesses,
    /// The whole process, where its operations are not known.
    Process,
    /// The whole device, or the share of a control group, where its users are not known.
    Device,
}

impl RowOrigin {
    /// The rows that are no operation, by their names.
    const NAMED: [(RowOrigin, &str); 5] = [
        (RowOrigin::NoOperation, "no operation"),
        (RowOrigin::KernelThreads, "kernel threads"),
        (RowOrigin::OtherProcesses, "other processes"),
        (RowOrigin::Process, "process"),
        (RowOrigin::Device, "device"),
    ];

    /// That of a row with this name.
    pub fn of_row(name: &str) -> RowOrigin {
        let found = RowOrigin::NAMED.iter().find(|(_, known)| *known == name);
        found.map_or(RowOrigin::Operation, |(origin, _)| *origin)
    }
}

/// Counts of one operation, or of what belongs to none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// The operation, or the words for its origin.
    pub name: String,
    /// What the counts belong to.
    pub origin: RowOrigin,
    /// Operations; none in rows that are no operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// Its I/O.
    #[serde(default)]
    pub io: IoCounts,
}

impl TraceRow {
    /// Whether this kind of I/O of this row is the process's own, or done for it. Kernel threads write and flush what
    /// processes wrote; their reads are read-ahead for whoever needs it, and their discards are the file system's.
    pub fn is_for_process(&self, kind: IoKind) -> bool {
        match self.origin {
            RowOrigin::OtherProcesses => false,
            RowOrigin::KernelThreads => {
                matches!(kind, IoKind::DeviceWrites | IoKind::DeviceWriteBytes | IoKind::DeviceFlushes)
            }
            _ => true,
        }
    }

    /// The sum of these kinds, as far as they are for the process; none if none of them was counted.
    pub fn sum_for_process(&self, kinds: &[IoKind]) -> Option<u64> {
        let counted =
            kinds.iter().filter(|kind| self.is_for_process(**kind)).filter_map(|kind| self.io.get(kind));
        counted.copied().reduce(u64::saturating_add)
    }

    /// A row.
    pub fn new(name: &str, origin: RowOrigin, operations: Option<u64>, io: IoCounts) -> Self {
        TraceRow { name: name.into(), origin, operations, io }
    }

    /// The row of what is no operation.
    pub fn of_origin(origin: RowOrigin, io: IoCounts) -> Self {
        let name = RowOrigin::NAMED.iter().find(|(known, _)| *known == origin).map(|(_, name)| *name);
        TraceRow { name: name.unwrap_or_default().into(), origin, operations: None, io }
    }
}

/// The counts of one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceInterval {
    /// Its end, seconds since the start of the trace.
    pub end_s: f64,
    /// Its length.
    pub seconds: f64,
    /// Its rows.
    pub rows: Vec<TraceRow>,
}

/// Where each column comes from, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceMethods {
    /// The number of operations.
    pub operations: String,
    /// System calls.
    pub calls: String,
    /// Requests to the device.
    pub requests: String,
    /// Why the kernel was not traced; empty if it was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub not_traced: String,
}

/// What one operation costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationIoCost {
    /// The operation.
    pub operation: String,
    /// How many were counted.
    pub operations: u64,
    /// Per second.
    pub rate_per_s: f64,
    /// I/O in the operation's own thread, per operation; empty if I/O was not attributed.
    #[serde(default)]
    pub direct: BTreeMap<IoKind, f64>,
    /// With its part of the I/O that belongs to no operation, per operation.
    #[serde(default)]
    pub with_share: BTreeMap<IoKind, f64>,
    /// All requests to the device per operation, by regression over the intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_by_regression: Option<Estimate>,
}

/// How the I/O that belongs to no operation was divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareRule {
    /// There is one operation, to which all of it belongs.
    OneOperation,
    /// In proportion to the syncs in operations.
    Syncs,
    /// In proportion to the file writes in operations.
    WriteCalls,
    /// By regression over the intervals, because nothing was attributed.
    Regression,
    /// Equally between all operations that may write.
    Writers,
    /// Not at all: no operation that may write was counted.
    None,
}

/// Syncs and operations that may write.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommitFinding {
    /// Operations that may write.
    pub writers: u64,
    /// Syncs of the whole process.
    pub syncs: u64,
    /// Those of them in threads outside operations.
    #[serde(default)]
    pub outside: u64,
}

/// Below this number of syncs per operation that may write, several operations share a sync.
const GROUP_COMMIT: f64 = 0.95;

impl CommitFinding {
    /// Whether several operations share one sync.
    pub fn are_grouped(&self) -> bool {
        (self.syncs as f64) < GROUP_COMMIT * self.writers as f64
    }
}

/// What was counted in all intervals, and what each operation costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationIo {
    /// How long was counted.
    pub seconds: f64,
    /// The counts of all intervals.
    pub rows: Vec<TraceRow>,
    /// What each operation costs.
    #[serde(default)]
    pub costs: Vec<OperationIoCost>,
    /// How the I/O that belongs to no operation was divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_rule: Option<ShareRule>,
    /// Syncs and operations that may write; none without such operations or without a count of syncs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<CommitFinding>,
}

/// The I/O of the operations of a server that was traced during a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerOperationIo {
    /// The name under which it was watched.
    pub server: String,
    /// Its operations.
    #[serde(flatten)]
    pub io: OperationIo,
}

/// A trace of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceDocument {
    /// [`TRACE_FORMAT`].
    pub format: String,
    /// The process.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// The devices below its files.
    pub devices: Vec<String>,
    /// Where the numbers come from.
    pub methods: TraceMethods,
    /// What is missing or limited, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// The intervals.
    pub intervals: Vec<TraceInterval>,
    /// Their sums.
    #[serde(flatten)]
    pub io: OperationIo,
}

/// A required load: rates of operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixGoal {
    /// As the user wrote it.
    pub text: String,
    /// Operations with their rates per second.
    pub rates: Vec<(String, f64)>,
}

impl MixGoal {
    /// Parses `2000 modify/s, 10000 search/s`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str) -> Result<MixGoal, String> {
        let wrong = |part: &str| {
            format!(
                "`{}` is not a load: write \"2000 modify/s\" or \"2000 modify/s, 10000 search/s\"",
                part.trim()
            )
        };
        let parse = |part: &str| -> Result<(String, f64), String> {
            let (amount, operation) = part.trim().split_once(' ').ok_or_else(|| wrong(part))?;
            let operation =
                operation.trim().strip_suffix("/s").map(str::trim).filter(|name| !name.is_empty());
            let operation = operation.ok_or_else(|| wrong(part))?;
            let rate = crate::quantity::parse_rate(&format!("{amount}/s")).ok().filter(|rate| *rate > 0.0);
            Ok((operation.to_string(), rate.ok_or_else(|| wrong(part))?))
        };
        let mut rates: Vec<(String, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, rate) = parse(part)?;
            if rates.iter().any(|(known, _)| *known == name) {
                return Err(format!("`{name}` is in the load twice: write one rate for it"));
            }
            rates.push((name, rate));
        }
        Ok(MixGoal { text: text.trim().into(), rates })
    }
}

/// What a load needs of the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IoPrice {
    /// [`PRICE_FORMAT`].
    pub format: String,
    /// The required load.
    pub goal: MixGoal,
    /// The devices that were measured.
    pub devices: Vec<String>,
    /// The planned utilization of the device.
    pub planned_share: f64,
    /// Amounts for the load, per second: each kind of request and of bytes.
    pub amounts: Vec<IoAmount>,
    /// All requests per second.
    pub requests: IoAmount,
    /// All bytes per second.
    pub bytes: IoAmount,
    /// What makes the price less certain, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One amount of a price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IoAmount {
    /// The kind; none for a sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<IoKind>,
    /// What the load does, per second.
    pub for_load_per_s: f64,
    /// What to buy: the same at the planned utilization.
    pub with_headroom_per_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_rates_of_operations() {
        let goal = MixGoal::parse("2000 modify/s, 10k search/s").unwrap();
        assert_eq!(goal.rates, [("modify".to_string(), 2000.0), ("search".to_string(), 10_000.0)]);
        for text in
            ["", "modify", "2000/s", "2000 modify", "0 modify/s", "-1 modify/s", "x modify/s", "1 a/s,"]
        {
            assert!(MixGoal::parse(text).unwrap_err().contains("write \"2000 modify/s\""), "{text}");
        }
        assert!(MixGoal::parse("1 a/s, 2 a/s").unwrap_err().contains("twice"));
    }

    #[test]
    fn a_kind_that_was_not_counted_is_no_zero() {
        let io = IoCounts::from([(IoKind::DeviceReads, 3), (IoKind::DeviceFlushes, 4)]);
        assert_eq!(sum_of(&io, &IoKind::REQUESTS), Some(7));
        assert_eq!(sum_of(&io, &IoKind::BYTES), None);
    }

    #[test]
    fn every_kind_is_in_its_place() {
        for (at, kind) in IoKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
    }
}
