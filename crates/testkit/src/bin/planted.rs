//! A small HTTP service with a planted limit: its command line defines the work per request, so that its
//! capacity is known and a verdict about it can be checked.
//!
//! `planted --listen 127.0.0.1:8080 --workers 8 --sleep-ms 40` answers at most 200 requests/s, whatever the host has.
//! A worker accepts a connection, reads one request, executes the steps in the order of [`Steps`], responds and closes,
//! unless `--keep-alive` is given. Connections beyond the workers wait in the accept queue.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// The planted limits; by default none.
#[derive(Debug, Default)]
struct Options {
    listen: String,
    workers: u32,
    keep_alive: bool,
    steps: Steps,
    /// Interval and duration of pauses.
    pause: Option<(Duration, Duration)>,
    /// Whether the CPU is idle during a pause.
    pause_idle: bool,
    /// Size of the connection pool to the service behind; none for one per worker.
    call_connections: u32,
    /// Percentage of responses with status 500, and of redirections.
    fail_percent: u32,
    redirect_percent: u32,
    /// Text of every response body.
    text: Option<String>,
    /// Maximum size of responses of random size.
    body_bytes_max: u32,
}

/// The work for one request, in this order.
#[derive(Debug, Default, Clone)]
struct Steps {
    /// CPU time used by the worker for one request, including accept, read and response.
    cpu: Duration,
    /// CPU time used by one thread on behalf of all workers.
    single_thread_cpu: Duration,
    /// Mean sleep time; each sleep is between 0.5 and 1.5 times as long.
    sleep: Duration,
    /// Time asleep while holding the one lock.
    lock: Duration,
    /// Blocks of 4 KiB read from the file with direct I/O.
    reads: u32,
    /// Blocks of 4 KiB read from the file through the page cache.
    cached_reads: u32,
    /// Blocks of 4 KiB written, each with a flush.
    flushes: u32,
    /// The service called for each request.
    call: Option<SocketAddr>,
    /// Size of the response in bytes.
    body_bytes: usize,
    file: Option<PathBuf>,
}

const BLOCK: usize = 4096;

fn main() -> ExitCode {
    match options(std::env::args().skip(1))
        .and_then(|options| serve(options).map_err(|error| error.to_string()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("planted: {why}");
            ExitCode::from(2)
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { workers: 16, ..Options::default() };
    options.steps.body_bytes = 64;
    while let Some(word) = words.next() {
        if word == "--keep-alive" {
            options.keep_alive = true;
            continue;
        }
        if word == "--pause-idle" {
            options.pause_idle = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        let number = || value.parse::<u32>().map_err(|_| format!("{word} {value}: not a number"));
        let time = || {
            let ms = value.parse::<f64>().map_err(|_| format!("{word} {value}: not a number"))?;
            Duration::try_from_secs_f64(ms / 1e3).map_err(|error| format!("{word} {value}: {error}"))
        };
        let steps = &mut options.steps;
        match word.as_str() {
            "--listen" => options.listen = value,
            "--workers" => options.workers = number()?,
            "--cpu-ms" => steps.cpu = time()?,
            "--single-thread-cpu-ms" => steps.single_thread_cpu = time()?,
            "--sleep-ms" => steps.sleep = time()?,
            "--lock-ms" => steps.lock = time()?,
            "--reads" => steps.reads = number()?,
            "--cached-reads" => steps.cached_reads = number()?,
            "--flushes" => steps.flushes = number()?,
            "--file" => steps.file = Some(value.into()),
            "--call" => {
                steps.call = Some(value.parse().map_err(|error| format!("{word} {value}: {error}"))?);
            }
            "--call-connections" => options.call_connections = number()?,
            "--body-bytes" => steps.body_bytes = number()? as usize,
            "--fail-percent" => options.fail_percent = number()?,
            "--redirect-percent" => options.redirect_percent = number()?,
            "--text" => options.text = Some(value),
            "--body-bytes-max" => options.body_bytes_max = number()?,
            "--pause-every-ms" => options.pause = Some((time()?, options.pause.unwrap_or_default().1)),
            "--pause-ms" => options.pause = Some((options.pause.unwrap_or_default().0, time()?)),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    if options.listen.is_empty() {
        return Err("--listen HOST:PORT is missing".into());
    }
    Ok(options)
}

/// The shared state of the workers.
struct Shared {
    options: Options,
    listener: TcpListener,
    /// The one lock.
    lock: Mutex<()>,
    /// Locked for writing during a pause.
    running: RwLock<()>,
    direct: Option<File>,
    cached: Option<File>,
    blocks: u64,
    state: AtomicU64,
    /// Work for the single thread, and its condition variable.
    single: (Mutex<VecDeque<Ticket>>, Condvar),
    connections: Connections,
}

/// One worker's wait for the single thread: whether its part is done.
type Ticket = Arc<(Mutex<bool>, Condvar)>;

/// Connections to the service behind, lent to one worker at a time.
struct Connections {
    idle: Mutex<Vec<Option<BufReader<TcpStream>>>>,
    returned: Condvar,
}

fn serve(options: Options) -> io::Result<()> {
    let listener = TcpListener::bind(&options.listen)?;
    let (mut direct, mut cached, mut blocks) = (None, None, 0);
    if let Some(path) = &options.steps.file {
        let flags = OpenOptions::new().read(true).write(true).custom_flags(O_DIRECT).open(path)?;
        blocks = flags.metadata()?.len() / BLOCK as u64;
        direct = Some(flags);
        cached = Some(OpenOptions::new().read(true).write(true).open(path)?);
    }
    let pool = if options.call_connections > 0 { options.call_connections } else { options.workers };
    let shared = Arc::new(Shared {
        listener,
        lock: Mutex::new(()),
        running: RwLock::new(()),
        direct,
        cached,
        blocks: blocks.max(1),
        state: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
        single: (Mutex::new(VecDeque::new()), Condvar::new()),
        connections: Connections {
            idle: Mutex::new((0..pool).map(|_| None).collect()),
            returned: Condvar::new(),
        },
        options,
    });
    println!("listening on {}", shared.listener.local_addr()?);
    let spawn = |name: &str, run: fn(&Shared)| {
        let shared = shared.clone();
        thread::Builder::new().name(name.into()).spawn(move || run(&shared)).map(drop)
    };
    if shared.options.pause.is_some() {
        spawn("collector", collect)?;
    }
    if !shared.options.steps.single_thread_cpu.is_zero() {
        spawn("writer", work_alone)?;
    }
    for _ in 1..shared.options.workers {
        spawn("worker", work)?;
    }
    work(&shared);
    Ok(())
}

const O_DIRECT: i32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };

fn work(shared: &Shared) {
    let mut worker = Worker {
        block: Aligned::new(),
        answer: answer(&shared.options, "200 OK", shared.options.steps.body_bytes),
        used: thread_time(),
    };
    loop {
        // Disconnected clients are ignored.
        if let Ok((connection, _)) = shared.listener.accept() {
            let _ = worker.serve(shared, connection);
        }
    }
}

fn answer(options: &Options, status: &str, length: usize) -> Vec<u8> {
    let connection = if options.keep_alive { "keep-alive" } else { "close" };
    let length = options.text.as_ref().map_or(length, String::len);
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n");
    let mut answer = head.into_bytes();
    match &options.text {
        Some(text) => answer.extend_from_slice(text.as_bytes()),
        None => answer.resize(answer.len() + length, b'x'),
    }
    answer
}

/// The answer to one request.
fn choose(shared: &Shared) -> Option<Vec<u8>> {
    let options = &shared.options;
    let varies = options.fail_percent + options.redirect_percent + options.body_bytes_max > 0;
    let place = varies.then(|| u64_percent(shared.random()))?;
    let length = match options.body_bytes_max {
        0 => options.steps.body_bytes,
        most => (shared.random() % u64::from(most + 1)) as usize,
    };
    let status = match place {
        place if place < options.fail_percent => "500 Internal Server Error",
        place if place < options.fail_percent + options.redirect_percent => {
            "302 Found\r\nLocation: http://127.0.0.1:1/"
        }
        _ => "200 OK",
    };
    Some(answer(options, status, length))
}

/// A random number from 0 to 99.
fn u64_percent(random: u64) -> u32 {
    (random % 100) as u32
}

struct Worker {
    block: Aligned,
    answer: Vec<u8>,
    /// CPU time of this thread when that of the last request had been used.
    used: Duration,
}

/// A block that may be read into past the page cache.
#[repr(align(4096))]
struct Page([u8; BLOCK]);

struct Aligned(Box<Page>);

impl Aligned {
    fn new() -> Self {
        Aligned(Box::new(Page([0; BLOCK])))
    }
}

impl Worker {
    fn serve(&mut self, shared: &Shared, connection: TcpStream) -> io::Result<()> {
        connection.set_nodelay(true)?;
        let mut connection = BufReader::new(connection);
        loop {
            if !read_request(&mut connection)? {
                return Ok(());
            }
            self.take_steps(shared)?;
            let chosen = choose(shared);
            connection.get_mut().write_all(chosen.as_ref().unwrap_or(&self.answer))?;
            if !shared.options.keep_alive {
                return Ok(());
            }
        }
    }

    fn take_steps(&mut self, shared: &Shared) -> io::Result<()> {
        let steps = &shared.options.steps;
        if !steps.cpu.is_zero() {
            // What answering the last request and accepting this one took is part of it.
            use_cpu_until(shared, self.used + steps.cpu);
            self.used = thread_time();
        }
        if !steps.single_thread_cpu.is_zero() {
            ask_the_one(shared);
        }
        if !steps.sleep.is_zero() {
            // A factor of 0.5 to 1.5, so that users that began together do not stay synchronized.
            thread::sleep(steps.sleep.mul_f64(0.5 + shared.unit()));
        }
        if !steps.lock.is_zero() {
            let _held = shared.lock.lock().unwrap_or_else(PoisonError::into_inner);
            thread::sleep(steps.lock);
        }
        for (file, count) in [(&shared.direct, steps.reads), (&shared.cached, steps.cached_reads)] {
            for _ in 0..count {
                let file = file.as_ref().ok_or_else(|| io::Error::other("--file is missing"))?;
                file.read_at(&mut self.block.0.0, shared.place())?;
            }
        }
        for _ in 0..steps.flushes {
            let file = shared.cached.as_ref().ok_or_else(|| io::Error::other("--file is missing"))?;
            file.write_at(&self.block.0.0, shared.place())?;
            file.sync_data()?;
        }
        if let Some(address) = steps.call {
            shared.connections.call(address)?;
        }
        drop(shared.running.read());
        Ok(())
    }
}

/// Reads a request up to the empty line; false when the client has ended.
fn read_request(connection: &mut BufReader<TcpStream>) -> io::Result<bool> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if connection.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
        if line == b"\r\n" || line == b"\n" {
            return Ok(true);
        }
    }
}

impl Shared {
    /// A random block's offset.
    fn place(&self) -> u64 {
        self.random() % self.blocks * BLOCK as u64
    }

    /// A random number from 0 to 1.
    fn unit(&self) -> f64 {
        self.random() as f64 / (1_u64 << 53) as f64
    }

    /// A random number of 53 bits.
    fn random(&self) -> u64 {
        // xorshift64*, shared by all threads.
        let mut state = self.state.load(Ordering::Relaxed);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.state.store(state, Ordering::Relaxed);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
}

/// Uses CPU time until the calling thread has used this much, and waits during pauses.
fn use_cpu_until(shared: &Shared, end: Duration) {
    while thread_time() < end {
        if shared.options.pause.is_some() {
            drop(shared.running.read());
        }
        for number in 0..200_u64 {
            std::hint::black_box(number.wrapping_mul(number));
        }
    }
}

/// CPU time the calling thread has used.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Queues work for the single thread and waits for it.
fn ask_the_one(shared: &Shared) {
    let ticket: Ticket = Arc::default();
    let (queue, filled) = &shared.single;
    queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(ticket.clone());
    filled.notify_one();
    let (done, reported) = &*ticket;
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    while !*done {
        done = reported.wait(done).unwrap_or_else(PoisonError::into_inner);
    }
}

fn work_alone(shared: &Shared) {
    let (queue, filled) = &shared.single;
    loop {
        let mut held = queue.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = loop {
            match held.pop_front() {
                Some(ticket) => break ticket,
                None => held = filled.wait(held).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(held);
        use_cpu_until(shared, thread_time() + shared.options.steps.single_thread_cpu);
        let (done, reported) = &*ticket;
        *done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        reported.notify_one();
    }
}

/// Pauses all work at intervals: busy, like a garbage collector, or asleep with `--pause-idle`.
fn collect(shared: &Shared) {
    let Some((every, pause)) = shared.options.pause else { return };
    loop {
        thread::sleep(every.saturating_sub(pause));
        let _all = shared.running.write().unwrap_or_else(PoisonError::into_inner);
        if shared.options.pause_idle {
            thread::sleep(pause);
            continue;
        }
        let end = Instant::now() + pause;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
}

impl Connections {
    /// One request to the service behind, over a free connection; waits for one if necessary.
    fn call(&self, address: SocketAddr) -> io::Result<()> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = loop {
            match idle.pop() {
                Some(connection) => break connection,
                None => idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(idle);
        let done = request(&mut connection, address);
        if done.is_err() {
            connection = None;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.returned.notify_one();
        done
    }
}

fn request(kept: &mut Option<BufReader<TcpStream>>, address: SocketAddr) -> io::Result<()> {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => BufReader::new(TcpStream::connect(address)?),
    };
    connection.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: planted\r\n\r\n")?;
    let (mut length, mut keep, mut line) = (0, false, String::new());
    loop {
        line.clear();
        if connection.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let words = line.trim_end();
        if words.is_empty() {
            break;
        }
        if let Some(value) = words.strip_prefix("Content-Length: ") {
            length = value.parse().map_err(io::Error::other)?;
        }
        keep |= words == "Connection: keep-alive";
    }
    io::copy(&mut io::Read::take(&mut connection, length), &mut io::sink())?;
    if keep {
        *kept = Some(connection);
    }
    Ok(())
}
