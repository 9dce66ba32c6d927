//! Attaches the programs, and reads what they counted.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use engine::source::{HostRoot, Unavailable};
use model::operation_io::{IoKind, RowOrigin, TraceRow};

use super::format::Tracepoint;
use super::maps::{LOST, Maps, NO_OPERATION, OPERATIONS_MAX, Row};
use super::process::{Place, Process, device_number};
use super::programs::{Architecture, CALLS, Call, Code, Common, RequestFields};
use super::servers::Function;
use super::system_calls::{self, ProgramKind};

/// What to trace.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// The process.
    pub pid: u32,
    /// The functions of its operations; none if operations are counted elsewhere.
    pub functions: Vec<Function>,
    /// The disks whose requests are counted.
    pub disks: Vec<String>,
    /// Count all system calls on files, also `read` and `write`, which slows every system call of the host. Otherwise those
    /// are counted that have an offset, as those of databases do, and those that flush.
    pub has_all_calls: bool,
}

/// Programs in the kernel that count the I/O of one process by its operations. Dropping it removes them, and so does the
/// end of this process, however it ends.
pub struct Tracer {
    process: Process,
    operations: Vec<String>,
    maps: Maps,
    /// The state of the maps at the previous read.
    before: Vec<Row>,
    others: BTreeMap<u32, (RowOrigin, Row)>,
    files: BTreeSet<u32>,
    missing: Vec<String>,
    lost: u64,
    /// Whether all system calls on files are counted.
    is_complete: bool,
    has_disks: bool,
    /// Probes and programs, which live as long as their descriptors.
    attached: Vec<OwnedFd>,
}

impl Drop for Tracer {
    /// To remove a probe, the kernel waits until no CPU is in it: 50 ms for each, but for all at the same time as well.
    fn drop(&mut self) {
        std::thread::scope(|threads| {
            for descriptor in self.attached.drain(..) {
                // Without a thread it is closed here.
                let _ = std::thread::Builder::new().spawn_scoped(threads, move || drop(descriptor));
            }
        });
    }
}

/// At most this many disks are compared by the program.
const DISKS_MAX: usize = 64;

/// How the kernel flags a thread of its own in `/proc/PID/stat`: `PF_KTHREAD`.
const KERNEL_THREAD: u64 = 0x0020_0000;

struct Attaching<'a> {
    root: &'a HostRoot,
    common: Common<'a>,
    has_links: bool,
    /// A program that was already loaded, by its code.
    loaded: BTreeMap<(u32, bool, Code), usize>,
    attached: Vec<OwnedFd>,
}

impl Tracer {
    /// Attaches everything. If the kernel does not permit it, the error says what is missing.
    pub fn attach(root: &HostRoot, options: &TraceOptions) -> Result<Tracer, Unavailable> {
        Tracer::attach_by(root, options, true)
    }

    /// `has_links` is false for a kernel without links to probes (before Linux 6.6).
    pub(super) fn attach_by(
        root: &HostRoot,
        options: &TraceOptions,
        has_links: bool,
    ) -> Result<Tracer, Unavailable> {
        let process = Process::find(root, options.pid)?;
        let architecture = Architecture::here()
            .ok_or_else(|| Unavailable("kernel tracing is for x86_64 and aarch64 only".into()))?;
        if !Process::is_numbered_as_here(root) {
            return Err(Unavailable(
                "this is a container with process ids of its own: trace from the host, or share its process ids \
                 (docker run --pid=host)"
                    .into(),
            ));
        }
        let operations = operations(&options.functions)?;
        allow_locked_memory();
        // First, because it shows whether this user may trace at all.
        let maps = Maps::create(possible_cpus(root)).map_err(|error| not_permitted("bpf", &error))?;
        process.check_readable()?;
        let (found, missing) = find_functions(&process, &options.functions)?;
        if options.disks.len() > DISKS_MAX {
            return Err(Unavailable(format!(
                "at most {DISKS_MAX} disks can be traced\n  name some with --device"
            )));
        }
        let devices: Vec<u64> =
            options.disks.iter().map(|disk| device_number(root, disk)).collect::<Result<_, _>>()?;
        let mut attaching = Attaching {
            root,
            common: Common { process: options.pid, maps: &maps, architecture },
            has_links,
            loaded: BTreeMap::new(),
            attached: Vec::new(),
        };
        let is_complete = options.has_all_calls || !attaching.library_calls(&process)?;
        if is_complete {
            attaching.all_calls()?;
        }
        if !devices.is_empty() {
            attaching.requests(&devices)?;
        }
        attaching.functions(&operations, &found)?;
        let attached = attaching.attached;
        let mut tracer = Tracer {
            process,
            operations,
            maps,
            before: Vec::new(),
            others: BTreeMap::new(),
            files: BTreeSet::new(),
            missing,
            lost: 0,
            is_complete,
            has_disks: !options.disks.is_empty(),
            attached,
        };
        tracer.refresh_files();
        tracer.read().map(|_| tracer)
    }

    /// Whether the process still runs.
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// The counts since the previous read: a row for each operation, then the process outside operations, threads of the
    /// kernel, and other processes.
    pub fn read(&mut self) -> Result<Vec<TraceRow>, Unavailable> {
        let now =
            self.maps.rows().map_err(|error| Unavailable(format!("the counters cannot be read: {error}")))?;
        let since = |at: usize| now[at].since(self.before.get(at).unwrap_or(&Row::default()));
        // What is not counted is absent, not zero.
        let (has_disks, is_complete) = (self.has_disks, self.is_complete);
        let of_device = || IoKind::ALL.into_iter().filter(move |kind| kind.is_of_device() && has_disks);
        let of_calls = || IoKind::ALL.into_iter().filter(|kind| !kind.is_of_device());
        let all = || {
            let is_counted = move |kind: &IoKind| is_complete || *kind != IoKind::RingRequests;
            of_calls().filter(is_counted).chain(of_device())
        };
        let mut rows: Vec<TraceRow> = self
            .operations
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let row = since(at + 1);
                TraceRow::new(name, RowOrigin::Operation, Some(row.operations()), row.io(all()))
            })
            .collect();
        rows.push(TraceRow::of_origin(RowOrigin::NoOperation, since(NO_OPERATION).io(all())));
        let lost = since(LOST);
        self.lost += lost.operations();
        // What found no place in a map is shown with what is not known to be the process's own.
        let (kernel, processes) = self.read_others();
        let processes = processes.plus(&lost);
        rows.push(TraceRow::of_origin(RowOrigin::KernelThreads, kernel.io(of_device())));
        rows.push(TraceRow::of_origin(RowOrigin::OtherProcesses, processes.io(of_device())));
        self.before = now;
        self.refresh_files();
        Ok(rows)
    }

    /// What threads of the kernel and other processes did since the previous read.
    fn read_others(&mut self) -> (Row, Row) {
        let (mut kernel, mut processes) = (Row::default(), Row::default());
        for (pid, row) in self.maps.others_by_process() {
            let (origin, before) = self
                .others
                .entry(pid)
                .or_insert_with(|| (origin_of(self.process.parent(), pid), Row::default()));
            let since = row.since(before);
            *before = row;
            match origin {
                RowOrigin::KernelThreads => kernel = kernel.plus(&since),
                _ => processes = processes.plus(&since),
            }
        }
        (kernel, processes)
    }

    /// Updates the descriptors of regular files.
    fn refresh_files(&mut self) {
        let mut found = BTreeSet::new();
        if self.process.file_descriptors(&mut found).is_none() {
            return;
        }
        for descriptor in found.symmetric_difference(&self.files) {
            // A full map leaves out the files that were opened last.
            let _ = self.maps.set_file(*descriptor, found.contains(descriptor));
        }
        self.files = found;
    }

    /// What is limited or missing, in sentences.
    pub fn limits(&self) -> Vec<String> {
        let mut limits = self.missing.clone();
        if self.lost > 0 {
            limits
                .push(format!("{} operations were not counted: the process has too many threads", self.lost));
        }
        limits
    }

    /// Where the columns come from: operations, system calls, requests.
    pub fn methods(&self) -> [String; 3] {
        [
            "probes at the functions of the program (uprobes)".into(),
            match self.is_complete {
                true => "system calls on files in the kernel (tracepoint sys_exit)".into(),
                false => "functions of the C library (uprobes): pread, pwrite, preadv, pwritev, fsync, fdatasync, msync, sync_file_range".into(),
            },
            "tracepoint block_rq_issue of the kernel".into(),
        ]
    }
}

/// The names of the operations, each once.
fn operations(functions: &[Function]) -> Result<Vec<String>, Unavailable> {
    let mut names: Vec<String> = Vec::new();
    for function in functions {
        if !names.contains(&function.operation) {
            names.push(function.operation.clone());
        }
    }
    match names.len() > OPERATIONS_MAX {
        true => Err(Unavailable(format!(
            "at most {OPERATIONS_MAX} operations can be traced\n  name fewer functions"
        ))),
        false => Ok(names),
    }
}

/// A function that was found, and where.
type Found<'a> = (&'a Function, Place);

/// The functions that the process has, and sentences about those that it lacks. Fails if it has none of them.
fn find_functions<'a>(
    process: &Process,
    functions: &'a [Function],
) -> Result<(Vec<Found<'a>>, Vec<String>), Unavailable> {
    let mut missing = Vec::new();
    let mut found = Vec::new();
    for (function, place) in functions.iter().zip(process.places(functions)) {
        match place {
            Some(place) => found.push((function, place)),
            None => {
                let library =
                    function.library.as_ref().map(|library| format!("{library}:")).unwrap_or_default();
                missing.push(format!(
                    "the process has no function {library}{}: {} operations are not counted",
                    function.symbol, function.operation
                ));
            }
        }
    }
    match found.is_empty() && !functions.is_empty() {
        true => Err(Unavailable(format!(
            "{}\n  `nm -D FILE` lists the functions of a program or library; name one with --function NAME=SYMBOL",
            missing.join("\n")
        ))),
        false => Ok((found, missing)),
    }
}

impl Attaching<'_> {
    /// The index of a loaded program.
    fn load(&mut self, kind: ProgramKind, code: Option<Code>, is_multi: bool) -> Result<usize, Unavailable> {
        let code =
            code.ok_or_else(|| Unavailable("a program for the kernel could not be assembled".into()))?;
        let key = (kind as u32, is_multi, code);
        if let Some(at) = self.loaded.get(&key) {
            return Ok(*at);
        }
        let program =
            system_calls::load(kind, &key.2, is_multi).map_err(|error| not_permitted("bpf", &error))?;
        self.attached.push(program);
        self.loaded.insert(key, self.attached.len() - 1);
        Ok(self.attached.len() - 1)
    }

    fn tracepoint(&mut self, at: &Tracepoint, code: Option<Code>) -> Result<(), Unavailable> {
        let program = self.load(ProgramKind::Tracepoint, code, false)?;
        let event = system_calls::attach_tracepoint(&self.attached[program], at.id)
            .map_err(|error| not_permitted("perf_event_open", &error))?;
        self.attached.push(event);
        Ok(())
    }

    /// System calls on files, at the functions of the C library: other system calls are not slowed. False if the process
    /// has none of these functions.
    fn library_calls(&mut self, process: &Process) -> Result<bool, Unavailable> {
        let calls: Vec<&Call> = CALLS.iter().filter(|call| !call.function.is_empty()).collect();
        let symbols: Vec<&str> = calls.iter().map(|call| call.function).collect();
        let places = process.all_places(&symbols);
        for (at, place) in &places {
            match calls[*at] {
                call if call.is_vector => self.probe(self.common.call_return(call), place, true)?,
                call => self.probe(self.common.call_entry(call), place, false)?,
            }
        }
        Ok(!places.is_empty())
    }

    /// All system calls on files, at the end of each system call of the host.
    fn all_calls(&mut self) -> Result<(), Unavailable> {
        let program = self.load(ProgramKind::RawTracepoint, self.common.all_calls(), false)?;
        let attached = system_calls::attach_raw_tracepoint(&self.attached[program], c"sys_exit")
            .map_err(|error| not_permitted("bpf", &error))?;
        self.attached.push(attached);
        Ok(())
    }

    /// Requests to these devices.
    fn requests(&mut self, devices: &[u64]) -> Result<(), Unavailable> {
        let issued =
            Tracepoint::read(self.root, "block/block_rq_issue").map_err(|error| no_tracepoint(&error))?;
        let fields = || {
            Ok(RequestFields {
                device: issued.offset("dev", 4)?,
                bytes: issued.offset("bytes", 4)?,
                kind: issued.text_offset("rwbs", 2)?,
            })
        };
        let fields = fields().map_err(|error: String| no_tracepoint(&error))?;
        self.tracepoint(&issued, self.common.request(fields, devices))
    }

    /// The functions of operations.
    fn functions(&mut self, operations: &[String], found: &[Found<'_>]) -> Result<(), Unavailable> {
        for (function, place) in found {
            let Some(at) = operations.iter().position(|name| *name == function.operation) else { continue };
            self.probe(self.common.entry(at), place, false)?;
            if function.has_return {
                self.probe(self.common.return_of(at), place, true)?;
            }
        }
        Ok(())
    }

    fn probe(&mut self, code: Option<Code>, place: &Place, is_return: bool) -> Result<(), Unavailable> {
        let process = self.common.process;
        let path = CString::new(place.path.as_os_str().as_bytes()).unwrap_or_default();
        if self.has_links {
            let program = self.load(ProgramKind::Probe, code.clone(), true);
            let link = program.and_then(|program| {
                system_calls::attach_multi(
                    &self.attached[program],
                    &path,
                    &[place.offset],
                    is_return,
                    process,
                )
                .map_err(|error| not_permitted("bpf", &error))
            });
            match link {
                Ok(link) => {
                    self.attached.push(link);
                    return Ok(());
                }
                Err(_) => self.has_links = false,
            }
        }
        let program = self.load(ProgramKind::Probe, code, false)?;
        let (kind, return_flag) = probe_unit(self.root)?;
        let flag = if is_return { return_flag } else { 0 };
        let event =
            system_calls::attach_probe(&self.attached[program], kind, &path, place.offset, flag, process)
                .map_err(|error| not_permitted("perf_event_open", &error))?;
        self.attached.push(event);
        Ok(())
    }
}

/// The number of the kernel's unit for probes of programs, and the bit that places one at a return (`config:0`).
fn probe_unit(root: &HostRoot) -> Result<(u32, u64), Unavailable> {
    let read =
        |file: &str| fs::read_to_string(root.join("sys/bus/event_source/devices/uprobe").join(file)).ok();
    let kind = read("type").and_then(|text| text.trim().parse().ok());
    let kind = kind.ok_or_else(|| {
        Unavailable("the kernel has no probes for functions of programs (CONFIG_UPROBE_EVENTS)".into())
    })?;
    let bit =
        read("format/retprobe").and_then(|text| text.trim().strip_prefix("config:")?.parse::<u32>().ok());
    Ok((kind, 1_u64.checked_shl(bit.unwrap_or(0)).unwrap_or(1)))
}

fn no_tracepoint(error: &str) -> Unavailable {
    Unavailable(format!(
        "a tracepoint cannot be read: {error}\n  mount tracefs (mount -t tracefs tracefs /sys/kernel/tracing) and run as root"
    ))
}

/// What a user needs who is not root.
const RIGHTS: &str =
    "CAP_BPF, CAP_PERFMON, CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE, before Linux 6.6 with CAP_SYS_ADMIN";

/// Why the kernel refused.
fn not_permitted(call: &str, error: &io::Error) -> Unavailable {
    Unavailable(match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("the kernel refuses {call}: {error}; run as root, or with {RIGHTS}")
        }
        _ => format!("the kernel refuses {call}: {error}"),
    })
}

/// Whether a process id is that of a thread of the kernel. A process that is gone cannot be asked.
fn origin_of(root: &Path, pid: u32) -> RowOrigin {
    let stat = fs::read(root.join(pid.to_string()).join("stat")).unwrap_or_default();
    let flags = engine::process_stat::ProcessStat::parse(&stat).and_then(|stat| stat.number(9));
    match flags {
        Some(flags) if flags & KERNEL_THREAD != 0 => RowOrigin::KernelThreads,
        // The idle task, in whose time the kernel completes requests.
        _ if pid == 0 => RowOrigin::KernelThreads,
        _ => RowOrigin::OtherProcesses,
    }
}

/// The number of CPUs that the kernel could ever have: `0-3` or `0,2-5`.
fn possible_cpus(root: &HostRoot) -> usize {
    let text = fs::read_to_string(root.join("sys/devices/system/cpu/possible")).unwrap_or_default();
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    last.map_or(1, |last| last + 1)
}

/// Kernels before Linux 5.11 count maps as locked memory, of which 64 KiB are allowed.
fn allow_locked_memory() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // If it fails, making the maps does, and says so.
    let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
}
