//! A slow file system, and a slow disk on it, with a planted rate and a planted write-back cache, so that what a copy finds
//! out about them can be right or wrong.
//!
//! `slow_disk --folder DIR --rate-mb 50` mounts a FUSE file system at `DIR/share` whose files take 50 MB/s. `--burst-mb 200`
//! puts a cache in front: 200 MB are taken at once, and leave it at the rate. With `--disk-mb 1000` it also makes a loop
//! device of that size on it, with an ext4 at `DIR/disk`: a block device with counters, behind the page cache, of which it may
//! fill only so much with `--dirty-mb 100`. With `--full at-sync` the file system takes every write and reports that it is full
//! when a file is synced, as a file system of a network may. Prints `ready` when all is mounted, and takes everything down when its standard
//! input ends. Needs root.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

/// Bytes of a megabyte here, as in throughput.
const MEGABYTE: u64 = 1_000_000;
/// Largest write the kernel may send at once.
const WRITE_MAX: u32 = 1 << 20;

// The kernel's fuse.h, version 7.31: operations and sizes of its structures.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const UNLINK: u32 = 10;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const CREATE: u32 = 35;
const BATCH_FORGET: u32 = 42;
const IN_HEADER_BYTES: usize = 40;
const ROOT: u64 = 1;
const BIG_WRITES: u32 = 1 << 5;
const MAX_PAGES: u32 = 1 << 22;
const SETS_SIZE: u32 = 1 << 3;

const NOT_FOUND: i32 = 2;
const NO_SPACE: i32 = 28;
const NOT_SUPPORTED: i32 = 38;

#[derive(Debug, Default)]
struct Options {
    folder: PathBuf,
    rate_bytes_per_s: u64,
    burst_bytes: u64,
    disk_bytes: u64,
    dirty_bytes: u64,
    is_full: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let megabytes =
            || value.parse::<u64>().map(|n| n * MEGABYTE).map_err(|e| format!("{word} {value}: {e}"));
        match word.as_str() {
            "--folder" => options.folder = value.clone().into(),
            "--rate-mb" => options.rate_bytes_per_s = megabytes()?,
            "--burst-mb" => options.burst_bytes = megabytes()?,
            "--disk-mb" => options.disk_bytes = megabytes()?,
            "--dirty-mb" => options.dirty_bytes = megabytes()?,
            "--full" => options.is_full = value == "at-sync",
            _ => return Err(format!("unknown: {word}")),
        }
    }
    match options.rate_bytes_per_s > 0 && options.folder.is_dir() {
        true => Ok(options),
        false => {
            Err("usage: slow_disk --folder DIR --rate-mb N [--burst-mb N] [--disk-mb N [--dirty-mb N]] \
                 [--full at-sync]"
                .into())
        }
    }
}

fn main() -> ExitCode {
    match options().and_then(|options| carry_out(&options).map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("slow_disk: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Undone in reverse order.
#[derive(Default)]
struct Made(Vec<Undo>);

enum Undo {
    Unmount(PathBuf),
    Detach(String),
}

impl Drop for Made {
    fn drop(&mut self) {
        for undo in self.0.drain(..).rev() {
            let undone = match &undo {
                Undo::Unmount(path) => {
                    let path = path.display().to_string();
                    succeed("umount", &[&path]).or_else(|_| succeed("umount", &["--lazy", &path])).map(drop)
                }
                Undo::Detach(device) => succeed("losetup", &["--detach", device]).map(drop),
            };
            if let Err(error) = undone {
                eprintln!("slow_disk: {error}");
            }
        }
    }
}

fn carry_out(options: &Options) -> io::Result<()> {
    let share = options.folder.join("share");
    fs::create_dir_all(&share)?;
    let mut made = Made::default();
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    // The mount program passes the descriptor to the kernel.
    fcntl_setfd(&device, FdFlags::empty())?;
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let point = share.display().to_string();
    succeed("mount", &["-i", "-t", "fuse.slow_disk", "-o", &data, "slow_disk", &point])?;
    fcntl_setfd(&device, FdFlags::CLOEXEC)?;
    made.0.push(Undo::Unmount(share.clone()));
    let served = Files::new(options);
    let server = thread::spawn(move || serve(device, served));
    if options.disk_bytes > 0 {
        make_disk(options, &share, &mut made)?;
    }
    println!("ready");
    io::stdout().flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    drop(made);
    let _ = server.join();
    Ok(())
}

/// A loop device on the slow file system, and a file system on it.
fn make_disk(options: &Options, share: &Path, made: &mut Made) -> io::Result<()> {
    let image = share.join("image");
    fs::File::create(&image)?.set_len(options.disk_bytes.next_multiple_of(1 << 20))?;
    let (image, point) = (image.display().to_string(), options.folder.join("disk"));
    let device = succeed("losetup", &["--find", "--show", &image])?.trim().to_string();
    made.0.push(Undo::Detach(device.clone()));
    // Without a journal and with its tables written now, it writes nothing on its own.
    let lazy = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
    succeed("mkfs.ext4", &["-q", "-O", "^has_journal", "-E", lazy, &device])?;
    if options.dirty_bytes > 0 {
        let number = fs::read_to_string(format!("/sys/block/{}/dev", device.trim_start_matches("/dev/")))?;
        let limits = PathBuf::from("/sys/class/bdi").join(number.trim());
        fs::write(limits.join("strict_limit"), "1")?;
        fs::write(limits.join("max_bytes"), options.dirty_bytes.to_string())?;
    }
    fs::create_dir_all(&point)?;
    succeed("mount", &[&device, &point.display().to_string()])?;
    made.0.push(Undo::Unmount(point));
    Ok(())
}

fn succeed(program: &str, arguments: &[&str]) -> io::Result<String> {
    let path = plimsoll_testkit::need::program(program).unwrap_or_else(|| program.into());
    let output = Command::new(path).args(arguments).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(io::Error::other(format!(
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// Files in one folder, in memory, and the device that takes their writes.
struct Files {
    /// By node; the root has none.
    files: BTreeMap<u64, (String, Vec<u8>)>,
    next: u64,
    rate_bytes_per_s: f64,
    burst_bytes: f64,
    is_full: bool,
    /// Bytes that are accepted and not yet on the medium.
    held_bytes: f64,
    held_at: Instant,
}

impl Files {
    fn new(options: &Options) -> Files {
        Files {
            files: BTreeMap::new(),
            next: ROOT + 1,
            rate_bytes_per_s: options.rate_bytes_per_s as f64,
            burst_bytes: options.burst_bytes as f64,
            is_full: options.is_full,
            held_bytes: 0.0,
            held_at: Instant::now(),
        }
    }

    /// Takes a write: at once while the cache has space, then at the rate of the medium.
    fn take(&mut self, bytes: usize) {
        let now = Instant::now();
        let written = now.duration_since(self.held_at).as_secs_f64() * self.rate_bytes_per_s;
        self.held_bytes = (self.held_bytes - written).max(0.0) + bytes as f64;
        self.held_at = now;
        let over = self.held_bytes - self.burst_bytes;
        if over > 0.0 {
            thread::sleep(Duration::from_secs_f64(over / self.rate_bytes_per_s));
        }
    }

    fn node(&self, name: &str) -> Option<u64> {
        self.files.iter().find(|(_, (of, _))| of == name).map(|(node, _)| *node)
    }

    fn attributes(&self, node: u64) -> Option<Vec<u8>> {
        let (size, mode, links) = match self.files.get(&node) {
            Some((_, content)) => (content.len() as u64, 0o100_644_u32, 1_u32),
            None if node == ROOT => (0, 0o040_755, 2),
            None => return None,
        };
        let mut out = Vec::new();
        for value in [node, size, size.div_ceil(512), 0, 0, 0] {
            out.extend(value.to_le_bytes());
        }
        for value in [0, 0, 0, mode, links, 0, 0, 0, 4096, 0] {
            out.extend(value.to_le_bytes());
        }
        Some(out)
    }

    fn entry(&self, node: u64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for value in [node, 0, 1, 1, 0] {
            out.extend(value.to_le_bytes());
        }
        out.extend(self.attributes(node)?);
        Some(out)
    }

    /// The answer to one request; an error number instead.
    fn answer(&mut self, operation: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        let number = |at: usize| u64::from_le_bytes(bytes_at(body, at));
        let small = |at: usize| u32::from_le_bytes(bytes_at(body, at));
        let name = |from: usize| {
            let text = body.get(from..).unwrap_or_default();
            String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
        };
        let missing = |found: Option<Vec<u8>>| found.ok_or(NOT_FOUND);
        let attributes = |files: &Files| {
            let mut out = 1_u64.to_le_bytes().to_vec();
            out.extend(0_u64.to_le_bytes());
            out.extend(files.attributes(node).ok_or(NOT_FOUND)?);
            Ok(out)
        };
        match operation {
            INIT => {
                let mut out = Vec::new();
                for value in [7, 31, small(8), BIG_WRITES | MAX_PAGES, 0x0008_0010, WRITE_MAX, 1, 256] {
                    out.extend(value.to_le_bytes());
                }
                out.resize(64, 0);
                Ok(out)
            }
            LOOKUP => missing(self.node(&name(0)).and_then(|node| self.entry(node))),
            GETATTR => attributes(self),
            SETATTR => {
                let (valid, size) = (small(0), number(16));
                if valid & SETS_SIZE != 0 {
                    let (_, content) = self.files.get_mut(&node).ok_or(NOT_FOUND)?;
                    // A new vector of zeros touches no memory, a grown one would.
                    match content.is_empty() {
                        true => *content = vec![0; size as usize],
                        false => content.resize(size as usize, 0),
                    }
                }
                attributes(self)
            }
            CREATE => {
                let node = self.next;
                self.next += 1;
                self.files.insert(node, (name(16), Vec::new()));
                let mut out = missing(self.entry(node))?;
                out.resize(out.len() + 16, 0);
                Ok(out)
            }
            UNLINK => {
                let node = self.node(&name(0)).ok_or(NOT_FOUND)?;
                self.files.remove(&node);
                Ok(Vec::new())
            }
            OPEN | OPENDIR => Ok(vec![0; 16]),
            READ => {
                let (_, content) = self.files.get(&node).ok_or(NOT_FOUND)?;
                let from = (number(8) as usize).min(content.len());
                let to = from.saturating_add(small(16) as usize).min(content.len());
                Ok(content[from..to].to_vec())
            }
            WRITE => {
                let (from, data) = (number(8) as usize, body.get(40..).unwrap_or_default());
                self.take(data.len());
                let (_, content) = self.files.get_mut(&node).ok_or(NOT_FOUND)?;
                let to = from + data.len();
                if content.len() < to {
                    content.resize(to, 0);
                }
                content[from..to].copy_from_slice(data);
                let mut out = (data.len() as u32).to_le_bytes().to_vec();
                out.extend([0; 4]);
                Ok(out)
            }
            STATFS => {
                let mut out = Vec::new();
                for value in [1_u64 << 24, 1 << 24, 1 << 24, 1 << 20, 1 << 20] {
                    out.extend(value.to_le_bytes());
                }
                for value in [4096_u32, 255, 4096, 0] {
                    out.extend(value.to_le_bytes());
                }
                out.resize(80, 0);
                Ok(out)
            }
            FSYNC if self.is_full => Err(NO_SPACE),
            READDIR | RELEASE | RELEASEDIR | FLUSH | FSYNC => Ok(Vec::new()),
            _ => Err(NOT_SUPPORTED),
        }
    }
}

fn bytes_at<const N: usize>(body: &[u8], at: usize) -> [u8; N] {
    body.get(at..at + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
}

/// Answers the kernel until the file system is unmounted.
fn serve(mut device: fs::File, mut files: Files) {
    let mut buffer = vec![0; WRITE_MAX as usize + 4096];
    loop {
        let read = match device.read(&mut buffer) {
            Ok(read) if read >= IN_HEADER_BYTES => read,
            Err(error) if matches!(error.raw_os_error(), Some(2 | 4 | 11)) => continue,
            _ => return,
        };
        let request = &buffer[..read];
        let operation = u32::from_le_bytes(bytes_at(request, 4));
        let (unique, node) = (bytes_at::<8>(request, 8), u64::from_le_bytes(bytes_at(request, 16)));
        if matches!(operation, FORGET | BATCH_FORGET) {
            continue;
        }
        let (error, body) = match files.answer(operation, node, &request[IN_HEADER_BYTES..]) {
            Ok(body) => (0, body),
            Err(number) => (-number, Vec::new()),
        };
        let mut reply = (16 + body.len() as u32).to_le_bytes().to_vec();
        reply.extend(error.to_le_bytes());
        reply.extend(unique);
        reply.extend(body);
        // Interrupted requests are gone; the next one counts.
        let _ = device.write(&reply);
    }
}
