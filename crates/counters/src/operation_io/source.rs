//! The source: the operations of watched processes with their I/O, as counters of an experiment.

use std::collections::BTreeMap;

use engine::process_stat::ProcessStat;
use engine::source::{HostRoot, Source, Unavailable};
use model::MetricKind::Rate;
use model::operation_io::{IoKind, TraceRow};
use model::{MetricInfo, Nanos, Readings, Unit};

use super::process::Process;
use super::servers::known_functions;
use super::tracer::{TraceOptions, Tracer};
use crate::process::numbered_entries;
use crate::series::{Clock, Columns, metrics};

metrics! {
    Operations => MetricInfo::new("operation_io.operations_per_s", Unit::PerSecond, Rate,
        "Operations of this kind that the server began."),
    ReadCalls => MetricInfo::new("operation_io.read_calls_per_s", Unit::PerSecond, Rate,
        "System calls of these operations that read files at an offset."),
    ReadCallBytes => MetricInfo::new("operation_io.read_call_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes of these system calls."),
    WriteCalls => MetricInfo::new("operation_io.write_calls_per_s", Unit::PerSecond, Rate,
        "System calls of these operations that write files at an offset."),
    WriteCallBytes => MetricInfo::new("operation_io.write_call_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes of these system calls."),
    Syncs => MetricInfo::new("operation_io.syncs_per_s", Unit::PerSecond, Rate,
        "System calls of these operations that flush files."),
    DeviceReads => MetricInfo::new("operation_io.device_reads_per_s", Unit::PerSecond, Rate,
        "Read requests to the disk in the threads of these operations."),
    DeviceReadBytes => MetricInfo::new("operation_io.device_read_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes of these requests."),
    DeviceWrites => MetricInfo::new("operation_io.device_writes_per_s", Unit::PerSecond, Rate,
        "Write requests to the disk in the threads of these operations."),
    DeviceWriteBytes => MetricInfo::new("operation_io.device_write_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes of these requests."),
    DeviceFlushes => MetricInfo::new("operation_io.device_flushes_per_s", Unit::PerSecond, Rate,
        "Flush requests to the disk; mostly those of kernel threads, which belong to no operation."),
}

/// The metrics of the source.
pub(super) static TABLE: &[MetricInfo] = METRICS;

const KINDS: [(IoKind, Metric); 10] = [
    (IoKind::ReadCalls, Metric::ReadCalls),
    (IoKind::ReadCallBytes, Metric::ReadCallBytes),
    (IoKind::WriteCalls, Metric::WriteCalls),
    (IoKind::WriteCallBytes, Metric::WriteCallBytes),
    (IoKind::Syncs, Metric::Syncs),
    (IoKind::DeviceReads, Metric::DeviceReads),
    (IoKind::DeviceReadBytes, Metric::DeviceReadBytes),
    (IoKind::DeviceWrites, Metric::DeviceWrites),
    (IoKind::DeviceWriteBytes, Metric::DeviceWriteBytes),
    (IoKind::DeviceFlushes, Metric::DeviceFlushes),
];

/// Processes that are traced at the same time.
const PROCESSES_MAX: usize = 4;

pub(super) fn open(root: &HostRoot, selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    if !root.is_live() {
        return Err(Unavailable("only a running host can be traced".into()));
    }
    if selected.len() > PROCESSES_MAX {
        return Err(Unavailable(format!("at most {PROCESSES_MAX} processes can be traced at the same time")));
    }
    let traces = selected.iter().map(|text| Trace::open(root, text)).collect::<Result<Vec<Trace>, _>>()?;
    match traces.is_empty() {
        true => Err(Unavailable("name a server to trace, such as \"operation_io:slapd\"".into())),
        false => Ok(Box::new(Traces { clock: Clock::default(), traces })),
    }
}

struct Traces {
    clock: Clock,
    traces: Vec<Trace>,
}

/// The trace of one process, with the columns of its rows.
struct Trace {
    name: String,
    tracer: Tracer,
    columns: BTreeMap<String, Columns<Metric>>,
}

impl Trace {
    /// `NAME`, `PID`, or `NAME=PID` as the engine names its target.
    fn open(root: &HostRoot, text: &str) -> Result<Trace, Unavailable> {
        let (name, selected) = text.split_once('=').unwrap_or((text, text));
        let pid = find(root, selected).ok_or_else(|| {
            Unavailable(format!(
                "no process `{selected}` is a server whose operations are known: slapd or ns-slapd"
            ))
        })?;
        let process = Process::find(root, pid)?;
        let functions = known_functions(&process.program()).unwrap_or_default();
        let options = TraceOptions { pid, functions, disks: process.disks()?, has_all_calls: false };
        let tracer = Tracer::attach(root, &options)?;
        Ok(Trace { name: name.into(), tracer, columns: BTreeMap::new() })
    }

    fn set(&mut self, row: &TraceRow, seconds: f64, out: &mut Readings) {
        let columns = match self.columns.get_mut(&row.name) {
            Some(columns) => columns,
            None => {
                let columns = Columns::new(&format!("{} {}", self.name, row.name));
                self.columns.entry(row.name.clone()).or_insert(columns)
            }
        };
        if let Some(count) = row.operations {
            columns.set(out, Metric::Operations, count as f64 / seconds);
        }
        for (kind, metric) in KINDS {
            if let Some(count) = row.io.get(&kind) {
                columns.set(out, metric, *count as f64 / seconds);
            }
        }
    }
}

impl Source for Traces {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let tick = self.clock.tick(now);
        for trace in &mut self.traces {
            if !trace.tracer.is_running() {
                return Err(Unavailable(format!("the process of `{}` ended", trace.name)));
            }
            for row in trace.tracer.read()? {
                trace.set(&row, tick.seconds, out);
            }
        }
        Ok(())
    }

    fn limits(&self) -> String {
        self.traces.iter().flat_map(|trace| trace.tracer.limits()).collect::<Vec<String>>().join("; ")
    }
}

/// The process with this number, or a descendant of it, that is a known server; or the one with this name.
fn find(root: &HostRoot, text: &str) -> Option<u32> {
    let mut pids = Vec::new();
    numbered_entries(&root.join("proc"), &mut pids);
    let program = |pid: u32| Process::find(root, pid).ok().map(|process| process.program());
    let is_known = |pid: u32| program(pid).is_some_and(|program| known_functions(&program).is_some());
    let Ok(wanted) = text.parse::<u32>() else {
        return pids.into_iter().find(|pid| is_known(*pid) && program(*pid).as_deref() == Some(text));
    };
    let parent = |pid: u32| {
        let stat = std::fs::read(root.join(format!("proc/{pid}/stat"))).ok()?;
        ProcessStat::parse(&stat)?.parent()
    };
    // A shell that started the server has a lower number, but numbers begin again.
    let mut family = vec![wanted];
    for _ in 0..GENERATIONS_MAX {
        if let Some(found) = family.iter().find(|pid| is_known(**pid)) {
            return Some(*found);
        }
        let is_child = |pid: &&u32| parent(**pid).is_some_and(|parent| family.contains(&parent));
        family = pids.iter().filter(is_child).copied().collect();
    }
    None
}

/// Descendants of a target are searched to this depth.
const GENERATIONS_MAX: usize = 4;
