//! The process of a neighbour: it makes its loads at their rates, in an open loop, until its standard input ends.
//!
//! It is the same program as Plimsoll, started with [`ARGUMENT`] and the level. The end of its input is also the end of
//! Plimsoll, however that ended. Its protocol is one line each: it writes `ready` or `failed WHY`, reads `begin` and `end`,
//! and answers `end` with `report SECONDS CPU_SECONDS AMOUNT...`, an amount for each load in the order of the level.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use model::random::mix;
use model::{Level, quantity};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::level::{Kind, LoadSpec, parse};
use super::schedule::Schedule;
use crate::cpus::CpuList;

/// The first argument of the process.
pub const ARGUMENT: &str = "neighbour-process";

/// Bytes of an operation where a rate of the disk is stated in bytes per second.
pub(super) const LARGE_BLOCK: u64 = 64 << 10;
/// Bytes of an operation where it is stated in operations per second.
pub(super) const SMALL_BLOCK: u64 = model::neighbour::BLOCK_BYTES;
/// Operations of a disk load in flight at most.
pub(super) const DISK_WORKERS: usize = 8;
/// Alignment of direct I/O: of offsets, lengths and memory.
const ALIGNMENT: usize = 4096;
/// Bytes that are written at once to the scratch file.
const FILL: usize = 1 << 20;
/// Bytes that are copied at once in memory.
const COPY: usize = 4 << 20;
/// Bytes per second that one thread copies.
const COPIED_BY_THREAD: f64 = 4e9;
/// Bytes that are sent at once.
const SEND: usize = 64 << 10;
/// Bytes per second of one connection, and the limit of connections.
const SENT_BY_CONNECTION: f64 = 1e9;
const CONNECTIONS_MAX: usize = 8;
/// Timeout of a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The type of a file system in memory, `TMPFS_MAGIC` of linux/magic.h.
const TMPFS: i64 = 0x0102_1994;
/// How often a share of a CPU is granted.
const CPU_SLICE_S: f64 = 0.01;
/// Steps of a calculation between two looks at the clock: some microseconds.
const SPIN: u32 = 1000;

/// What the loads need besides their rates.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Options {
    /// Bytes of the scratch file.
    pub(super) size: u64,
    /// The CPUs that it may use; none is all.
    pub(super) cpus: Option<CpuList>,
    /// Where bytes are sent to; none is the process itself, over the loopback interface.
    pub(super) address: Option<String>,
    /// Bytes of memory for copies.
    pub(super) memory: u64,
}

impl Options {
    pub(super) fn to_arguments(&self) -> Vec<String> {
        let cpus = self.cpus.iter().map(|cpus| format!("cpus={cpus}"));
        let address = self.address.iter().map(|address| format!("address={address}"));
        let sizes = [format!("size={}", self.size), format!("memory={}", self.memory)];
        sizes.into_iter().chain(cpus).chain(address).collect()
    }

    fn of_arguments(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        for argument in arguments {
            let wrong = || format!("`{argument}` is not an option of {ARGUMENT}");
            let (name, value) = argument.split_once('=').ok_or_else(wrong)?;
            match name {
                "size" => options.size = value.parse().map_err(|_| wrong())?,
                "memory" => options.memory = value.parse().map_err(|_| wrong())?,
                "cpus" => options.cpus = Some(CpuList::parse(value).ok_or_else(wrong)?),
                "address" => options.address = Some(value.into()),
                _ => return Err(wrong()),
            }
        }
        Ok(options)
    }
}

/// One operation of a worker: its amount.
type Work = Box<dyn FnMut() -> Result<u64, String> + Send>;

/// A worker of a load: one thread.
struct Worker {
    schedule: Schedule,
    work: Work,
}

/// A load with what it has done: bytes, operations, or nanoseconds of CPU time.
struct Load {
    kind: Kind,
    workers: Vec<Worker>,
    done: Arc<AtomicU64>,
}

/// Runs the process until its standard input ends: `level`, then options.
pub fn run(arguments: &[String]) -> ExitCode {
    // For `ps` and `top`, which would show how it was started. Without a name it works as well.
    let _ = rustix::thread::set_name(c"neighbour");
    let (send, lines) = channel();
    // From the first moment on, so that nothing is left of a Plimsoll that ends during the preparation.
    let reader = std::thread::Builder::new().name("input".into()).spawn(move || {
        let mut input = io::stdin().lock();
        let mut line = String::new();
        while matches!(input.by_ref().take(64).read_line(&mut line), Ok(count) if count > 0) {
            let _ = send.send(std::mem::take(&mut line).trim().to_string());
        }
        std::process::exit(0);
    });
    let made = reader.map_err(|error| error.to_string()).and_then(|_| loads(arguments));
    match made.and_then(|loads| serve(loads, &lines)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            fail(&why);
            ExitCode::FAILURE
        }
    }
}

fn write_line(text: &str) {
    let mut out = io::stdout().lock();
    // Without a reader, Plimsoll has ended, and the process ends with its input.
    let _ = out.write_all(format!("{text}\n").as_bytes()).and_then(|()| out.flush());
}

fn fail(why: &str) {
    write_line(&format!("failed {}", why.replace('\n', " ")));
}

fn loads(arguments: &[String]) -> Result<Vec<Load>, String> {
    let (level, options) = arguments.split_first().ok_or("it needs a level")?;
    let options = Options::of_arguments(options)?;
    if let Some(cpus) = &options.cpus {
        rustix::thread::sched_setaffinity(None, &cpus.to_set())
            .map_err(|error| format!("it cannot run on CPUs {cpus}: {error}"))?;
    }
    let specs = parse(level)?;
    let scratch = match specs.iter().any(|load| load.kind.is_disk()) {
        true => Some(Arc::new(scratch_file(options.size)?)),
        false => None,
    };
    specs.iter().map(|spec| load(spec, &options, scratch.as_ref())).collect()
}

fn load(spec: &LoadSpec, options: &Options, scratch: Option<&Arc<File>>) -> Result<Load, String> {
    let rate = spec.rate.as_number().unwrap_or_default();
    let works: Vec<Work>;
    let interval_s = match spec.kind {
        Kind::Cpu => {
            let threads = rate.ceil() as usize;
            let share = rate / threads as f64;
            works = (0..threads).map(|_| spin((share * CPU_SLICE_S * 1e9) as u64)).collect();
            CPU_SLICE_S / threads as f64
        }
        Kind::DiskRead | Kind::DiskWrite => {
            let file = scratch.ok_or("it has no scratch file")?;
            let (block, counts_bytes) = block(&spec.rate);
            let transfer = |worker| transfer(spec.kind, file, (block, counts_bytes), options.size, worker);
            works = (0..DISK_WORKERS).map(transfer).collect();
            if counts_bytes { block as f64 / rate } else { 1.0 / rate }
        }
        Kind::Memory => {
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            let threads = ((rate / COPIED_BY_THREAD).ceil() as usize).clamp(1, cpus);
            works = (0..threads).map(|_| copy(options.memory as usize / threads)).collect();
            COPY as f64 / rate
        }
        Kind::Network => {
            let connections = ((rate / SENT_BY_CONNECTION).ceil() as usize).clamp(1, CONNECTIONS_MAX);
            let connections: Result<_, String> =
                (0..connections).map(|_| transmit(options.address.as_deref())).collect();
            works = connections?;
            SEND as f64 / rate
        }
    };
    let of = works.len();
    let worker = |(index, work)| Worker { schedule: Schedule::share(interval_s, index, of), work };
    let workers = works.into_iter().enumerate().map(worker).collect();
    Ok(Load { kind: spec.kind, workers, done: Arc::default() })
}

/// The bytes of an operation of a disk load, and whether its rate counts bytes.
pub(super) fn block(rate: &Level) -> (u64, bool) {
    match rate {
        Level::Rate(_) => (SMALL_BLOCK, false),
        _ => (LARGE_BLOCK, true),
    }
}

/// Starts the workers and answers until the input ends.
fn serve(loads: Vec<Load>, lines: &Receiver<String>) -> Result<(), String> {
    let begin = Instant::now();
    let kinds_done: Vec<(Kind, Arc<AtomicU64>)> =
        loads.iter().map(|load| (load.kind, load.done.clone())).collect();
    for load in loads {
        for Worker { mut schedule, mut work } in load.workers {
            let (kind, done) = (load.kind, load.done.clone());
            let body = move || {
                loop {
                    let now_s = begin.elapsed().as_secs_f64();
                    let wait_s = schedule.next(now_s) - now_s;
                    if wait_s > 0.0 {
                        std::thread::sleep(Duration::try_from_secs_f64(wait_s).unwrap_or(Duration::MAX));
                    }
                    match work() {
                        Ok(amount) => done.fetch_add(amount, Ordering::Relaxed),
                        Err(why) => {
                            fail(&format!("{kind}: {why}"));
                            std::process::exit(1);
                        }
                    };
                }
            };
            let spawned = std::thread::Builder::new().name(kind.to_string()).spawn(body);
            spawned.map_err(|error| format!("a thread cannot be started: {error}"))?;
        }
    }
    write_line("ready");
    let look = || {
        let amounts = kinds_done.iter().map(|(kind, done)| {
            let done = done.load(Ordering::Relaxed) as f64;
            if *kind == Kind::Cpu { done / 1e9 } else { done }
        });
        let cpu_s = cpu_ns(ClockId::ProcessCPUTime) as f64 / 1e9;
        [begin.elapsed().as_secs_f64(), cpu_s].into_iter().chain(amounts).collect::<Vec<f64>>()
    };
    let mut before = look();
    while let Ok(line) = lines.recv() {
        match line.as_str() {
            "begin" => before = look(),
            "end" => {
                let since: Vec<String> =
                    look().iter().zip(&before).map(|(now, before)| (now - before).to_string()).collect();
                write_line(&format!("report {}", since.join(" ")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Uses this much CPU time in each operation. What one operation used too much, the next one uses less.
fn spin(each_ns: u64) -> Work {
    let (mut granted, mut used) = (0, 0);
    Box::new(move || {
        granted += each_ns;
        let mut value = granted;
        loop {
            let now = cpu_ns(ClockId::ThreadCPUTime);
            if now >= granted {
                let amount = now - used;
                used = now;
                return Ok(amount);
            }
            for _ in 0..SPIN {
                value = std::hint::black_box(mix(value));
            }
        }
    })
}

/// Reads or writes one block at a random place of the scratch file, past the page cache.
fn transfer(
    kind: Kind,
    file: &Arc<File>,
    (block, counts_bytes): (u64, bool),
    size: u64,
    worker: usize,
) -> Work {
    let file = file.clone();
    let mut buffer = Aligned::new(block as usize);
    buffer.fill(worker as u64);
    let blocks = (size / block).max(1);
    let mut number = (worker as u64) << 48;
    Box::new(move || {
        number += 1;
        let at = mix(number) % blocks * block;
        let done = match kind {
            Kind::DiskWrite => file.write_all_at(buffer.get(), at),
            _ => file.read_exact_at(buffer.get_mut(), at),
        };
        done.map_err(|error| format!("its scratch file: {error}"))?;
        Ok(if counts_bytes { block } else { 1 })
    })
}

/// A buffer for direct I/O.
struct Aligned {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Aligned { memory, begin, length }
    }

    fn get(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.length]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.length]
    }

    /// With content that does not compress.
    fn fill(&mut self, seed: u64) {
        for (at, word) in self.get_mut().chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&mix(mix(seed) ^ at as u64).to_le_bytes());
        }
    }
}

/// Opens a file without a name in the working directory, for direct I/O. It ends with the process.
pub(super) fn open_scratch(directory: &std::path::Path) -> Result<File, String> {
    let flags = OFlags::TMPFILE | OFlags::DIRECT | OFlags::RDWR | OFlags::CLOEXEC;
    let state = rustix::fs::statfs(directory).map_err(|error| error.to_string())?;
    if state.f_type as i64 == TMPFS {
        return Err("it is in memory (tmpfs), not on a disk".into());
    }
    let opened = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
    opened.map(File::from).map_err(|error| match error {
        Errno::INVAL => "the file system has no direct I/O (O_DIRECT)".into(),
        Errno::OPNOTSUPP | Errno::ISDIR => "the file system has no files without a name (O_TMPFILE)".into(),
        error => error.to_string(),
    })
}

fn scratch_file(size: u64) -> Result<File, String> {
    let of_size = |why: &dyn std::fmt::Display| {
        format!("a scratch file of {} cannot be made: {why}", quantity::bytes(size))
    };
    let file = open_scratch(".".as_ref()).map_err(|why| of_size(&why))?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size) {
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(error) => return Err(of_size(&error)),
    }
    let mut buffer = Aligned::new(FILL);
    let mut at = 0;
    while at < size {
        buffer.fill(size ^ at);
        let length = (size - at).min(FILL as u64) as usize;
        file.write_all_at(&buffer.get()[..length], at).map_err(|error| of_size(&error))?;
        at += length as u64;
    }
    file.sync_data().map_err(|error| of_size(&error))?;
    Ok(file)
}

/// Copies a part of the memory to another one, which is in no cache any more.
fn copy(memory: usize) -> Work {
    let half = (memory / 2).max(COPY) / COPY * COPY;
    let (from, mut to) = (vec![1_u8; half], vec![2_u8; half]);
    let mut at = 0;
    Box::new(move || {
        to[at..at + COPY].copy_from_slice(std::hint::black_box(&from[at..at + COPY]));
        std::hint::black_box(&to);
        at = (at + COPY) % half;
        Ok(COPY as u64)
    })
}

/// Sends bytes to an address, or over the loopback interface to a thread that reads them.
fn transmit(address: Option<&str>) -> Result<Work, String> {
    let mut stream = match address {
        Some(address) => connect(address)?,
        None => to_itself().map_err(|error| format!("the loopback interface: {error}"))?,
    };
    let mut buffer = Aligned::new(SEND);
    buffer.fill(1);
    Ok(Box::new(move || {
        stream.write_all(buffer.get()).map_err(|error| format!("the connection: {error}"))?;
        Ok(SEND as u64)
    }))
}

fn to_itself() -> io::Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    std::thread::Builder::new().name("network sink".into()).spawn(move || {
        let mut buffer = vec![0; 4 * SEND];
        while receiver.read(&mut buffer).is_ok_and(|count| count > 0) {}
    })?;
    Ok(stream)
}

/// A connection to an address, with a timeout.
pub(super) fn connect(address: &str) -> Result<TcpStream, String> {
    let failed = |why: &dyn std::fmt::Display| {
        format!("{address}: {why}; start a service there that reads what it receives")
    };
    let mut last = failed(&"the name has no address");
    for address in address.to_socket_addrs().map_err(|error| failed(&error))? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = failed(&error),
        }
    }
    Err(last)
}
