//! diskspd 2.2: its command line becomes a disk load, and results are printed in its own layout, so that scripts which
//! call `diskspd` and read its output keep working.
//!
//! Each thread of a target is a job of its own ([`super::jobs`]): it has a stream of blocks, operations in flight and
//! figures of its own, as in diskspd.

mod keys;
mod numbers;
mod report;
mod run;
mod xml;

use model::{Choice, Level, Load, Problems, SECOND, Settings, load};

pub use numbers::{CpuUse, DiskspdNumbers, StreamNumbers, Transfers};

use super::jobs;
use super::pasted::{self, Pauses};
use super::settings::{self, Access, Cache, SETTINGS};

/// Most streams whose figures are kept apart: [`jobs`] counts up to 60 names, and 4096 streams times operations.
const STREAMS_MAX: usize = 60;

/// The same where each stream reads and writes.
const MIXED_STREAMS_MAX: usize = 45;

/// Threads as the command line states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskspdThreads {
    /// `-t`: of each target.
    PerTarget(u64),
    /// `-F`: each uses all targets.
    InAll(u64),
}

/// Order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskspdAccess {
    /// `-r`: at random, at multiples of this.
    Random {
        /// Bytes.
        align: u64,
    },
    /// `-s`: one after the other, this far apart.
    Sequential {
        /// Bytes from the start of one block to the next.
        stride: u64,
        /// `-si`: all threads share one stream.
        interlocked: bool,
    },
}

/// `-rd`: consecutive ranges of a target, each with its share of the operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskspdDistribution {
    /// `-rdpct`: percent of the operations, and of the target.
    Percent(Vec<(u64, u64)>),
    /// `-rdabs`: percent of the operations, and bytes; a last range of 0 bytes is the rest of the target.
    Absolute(Vec<(u64, u64)>),
}

/// `-g`: the most that one thread does on one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskspdRate {
    /// Bytes per millisecond.
    BytesPerMs(u64),
    /// Operations per second.
    Iops(u64),
}

/// `-Z`: what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskspdBuffer {
    /// Not stated.
    Default,
    /// `-Z`: zeros.
    Zeros,
    /// `-Zr`: random data, new for each write.
    Random,
    /// `-Z<size>`: taken from a buffer of so many random bytes.
    Source(u64),
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskspdTarget {
    /// Its path.
    pub path: String,
    /// Bytes of the file or device, as `-c` makes it.
    pub bytes: u64,
}

/// A thread's work on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskspdStream {
    /// Number of the thread, from 0.
    pub thread: u64,
    /// Number of the thread among those of the target.
    pub relative: u64,
    /// Index of the target.
    pub target: usize,
}

/// A command line of diskspd, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskspdRun {
    /// As it was typed, behind the program's name.
    pub command_line: String,
    /// In order.
    pub targets: Vec<DiskspdTarget>,
    /// `-b`
    pub block_bytes: u64,
    /// `-B`: first byte of each target that is used.
    pub base: u64,
    /// `-f`, or the length behind `-B`: end of what is used.
    pub end: Option<u64>,
    /// `-c`: bytes of the files that are made.
    pub create: Option<u64>,
    /// `-d`
    pub seconds: u64,
    /// `-W`
    pub warm_up_s: u64,
    /// `-C`
    pub cool_down_s: u64,
    /// `-D`: the spread of operations per second is reported, over intervals of so many milliseconds.
    pub iops_every_ms: Option<u64>,
    /// `-t`, `-F`
    pub threads: DiskspdThreads,
    /// `-o`, or `-O` with one target: of each thread, on each target.
    pub outstanding: u64,
    /// Whether `-O` stated it.
    pub is_pool: bool,
    /// `-r`, `-s`
    pub access: DiskspdAccess,
    /// `-T`: distance between the first blocks of two threads of a target.
    pub thread_stride: u64,
    /// `-rd`
    pub distribution: Option<DiskspdDistribution>,
    /// `-w`
    pub write_percent: u64,
    /// `-S`: past the cache of the operating system.
    pub unbuffered: bool,
    /// `-S`: a write is done when it is on stable storage.
    pub write_through: bool,
    /// `-Z`
    pub buffer: DiskspdBuffer,
    /// `-L`
    pub latency: bool,
    /// `-g`
    pub rate: Option<DiskspdRate>,
    /// `-j`: wait after each operation.
    pub think_ms: u64,
    /// `-z`
    pub seed: u64,
    /// `-v`
    pub verbose: bool,
    /// `-Rp`: only check and print the command line.
    pub profile_only: bool,
    /// `-Rxml`
    pub xml: bool,
    /// Pauses that were pasted with the line.
    pub pauses: Pauses,
    /// What was accepted and has another effect here, or none, in sentences.
    pub notes: Vec<String>,
}

/// Reads a command line, with or without the program's name. `size_of` gives the bytes of a file or block device that exists. All
/// problems at once, each with what to write instead.
pub fn parse(arguments: &[String], size_of: &dyn Fn(&str) -> Option<u64>) -> Result<DiskspdRun, Problems> {
    let pasted = pasted::read(arguments, pasted::DISKSPD);
    if pasted.is_refused() {
        return Err(pasted.problems);
    }
    keys::Keys::read(&pasted.words).into_run(pasted, size_of)
}

/// What the command line states, as diskspd prints it.
pub fn profile(run: &DiskspdRun) -> String {
    if run.xml { xml::profile(run) } else { report::profile(run) }
}

/// The report diskspd would print of this run.
pub fn report(run: &DiskspdRun, numbers: &DiskspdNumbers) -> String {
    if run.xml { xml::report(run, numbers) } else { report::report(run, numbers) }
}

impl DiskspdRun {
    /// The streams of the run in diskspd's order: thread by thread.
    pub fn streams(&self) -> Vec<DiskspdStream> {
        let targets = 0..self.targets.len();
        match self.threads {
            DiskspdThreads::PerTarget(count) => targets
                .flat_map(|target| (0..count).map(move |relative| (target, relative)))
                .map(|(target, relative)| DiskspdStream {
                    thread: target as u64 * count + relative,
                    relative,
                    target,
                })
                .collect(),
            DiskspdThreads::InAll(count) => (0..count)
                .flat_map(|thread| targets.clone().map(move |target| (thread, target)))
                .map(|(thread, target)| DiskspdStream { thread, relative: thread, target })
                .collect(),
        }
    }

    /// The name of the job that a stream becomes; its operations are `NAME:read` and `NAME:write`.
    pub fn job_name(&self, stream: DiskspdStream) -> String {
        match self.targets.len() {
            1 => format!("thread{}", stream.thread),
            _ => format!("thread{}-file{}", stream.thread, stream.target),
        }
    }

    /// Threads that diskspd would start.
    pub fn thread_count(&self) -> u64 {
        match self.threads {
            DiskspdThreads::PerTarget(count) => count * self.targets.len() as u64,
            DiskspdThreads::InAll(count) => count,
        }
    }

    /// Threads that use one target.
    fn threads_of_target(&self) -> u64 {
        let (DiskspdThreads::PerTarget(count) | DiskspdThreads::InAll(count)) = self.threads;
        count
    }

    /// First byte that a stream uses, and how many.
    fn range(&self, stream: DiskspdStream) -> (u64, u64) {
        let step = match self.access {
            DiskspdAccess::Random { .. } => 0,
            DiskspdAccess::Sequential { stride, interlocked: true } => stride,
            DiskspdAccess::Sequential { .. } => self.thread_stride,
        };
        let first = self.base.saturating_add(step.saturating_mul(stream.relative));
        (first, self.end_of(stream.target).saturating_sub(first))
    }

    /// End of what is used of a target.
    fn end_of(&self, target: usize) -> u64 {
        let bytes = self.targets.get(target).map_or(0, |target| target.bytes);
        self.end.map_or(bytes, |end| end.min(bytes))
    }

    /// Distance from block to block in one stream.
    fn stride(&self) -> Option<u64> {
        match self.access {
            DiskspdAccess::Random { .. } => None,
            // Threads that share a stream take its blocks in turn.
            DiskspdAccess::Sequential { stride, interlocked: true } => {
                Some(stride.saturating_mul(self.threads_of_target()))
            }
            DiskspdAccess::Sequential { stride, .. } => Some(stride),
        }
        .filter(|stride| *stride != self.block_bytes)
    }

    /// The settings of the disk workload.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::defaults(SETTINGS);
        let mut set = |name: &str, level: Level| settings.set(name, level);
        set(settings::BLOCK_SIZE.name, Level::Bytes(self.block_bytes));
        set(settings::OUTSTANDING.name, Level::Count(self.outstanding));
        set(settings::READ_PERCENT.name, Level::Percent(100.0 - self.write_percent as f64));
        match self.access {
            DiskspdAccess::Random { align } => {
                set(settings::ACCESS.name, Access::Random.level());
                if align != self.block_bytes {
                    set(settings::ALIGN.name, Level::Bytes(align));
                }
            }
            DiskspdAccess::Sequential { .. } => set(settings::ACCESS.name, Access::Sequential.level()),
        }
        if let Some(stride) = self.stride() {
            set(settings::STRIDE.name, Level::Bytes(stride));
        }
        let cache = if self.unbuffered { Cache::Direct } else { Cache::PageCache };
        set(settings::CACHE.name, cache.level());
        set(settings::WRITE_THROUGH.name, Level::Flag(self.write_through && self.write_percent > 0));
        if self.buffer == DiskspdBuffer::Zeros {
            set(settings::COMPRESSIBLE.name, Level::Percent(100.0));
        }
        set(settings::KEEP.name, Level::Flag(true));
        let jobs = self.streams().into_iter().map(|stream| Level::Text(self.job(stream)));
        set(settings::JOBS.name, Level::List(jobs.collect()));
        settings
    }

    /// The text of the job that a stream becomes.
    fn job(&self, stream: DiskspdStream) -> String {
        let path = self.targets.get(stream.target).map_or("", |target| target.path.as_str());
        let (first, bytes) = self.range(stream);
        let mut own = vec![
            (settings::FILES.name.to_string(), Level::List(vec![Level::Text(path.into())])),
            (settings::SIZE.name.into(), Level::Bytes(bytes)),
        ];
        if first > 0 {
            own.push((settings::OFFSET.name.into(), Level::Bytes(first)));
        }
        if let Some(distribution) = &self.distribution {
            let text = distribution.zones(bytes);
            own.push((settings::DISTRIBUTION.name.into(), Level::Text(text)));
        }
        match self.rate {
            Some(DiskspdRate::Iops(rate)) => own.push((jobs::RATE.name.into(), Level::Rate(rate as f64))),
            Some(DiskspdRate::BytesPerMs(rate)) => {
                let rate = rate as f64 * 1000.0 / self.block_bytes as f64;
                own.push((jobs::RATE.name.into(), Level::Rate(rate)));
            }
            None => {}
        }
        if self.think_ms > 0 {
            own.push((jobs::THINK.name.into(), Level::Time(self.think_ms * (SECOND / 1000))));
        }
        jobs::write(&self.job_name(stream), &own)
    }

    /// The settings of the load.
    pub fn load(&self) -> Settings {
        let mut load = Load::settings(self.warm_up_s * SECOND, self.seconds * SECOND);
        if let Some(every) = self.iops_every_ms {
            load.set(load::INTERVAL.name, Level::Time(every * (SECOND / 1000)));
        }
        load
    }
}

impl DiskspdDistribution {
    /// As a distribution of this program over a target of which so many bytes are used. Where the target is smaller than the
    /// ranges, those that it has share the operations in proportion, as in diskspd.
    fn zones(&self, bytes: u64) -> String {
        let mut zones: Vec<(f64, f64)> = Vec::new();
        match self {
            DiskspdDistribution::Percent(ranges) => {
                zones.extend(ranges.iter().map(|(share, part)| (*share as f64, *part as f64)));
            }
            DiskspdDistribution::Absolute(ranges) => {
                let mut left = bytes;
                for (share, length) in ranges {
                    let length = if *length == 0 { left } else { (*length).min(left) };
                    if length > 0 {
                        zones.push((*share as f64, length as f64 * 100.0 / bytes as f64));
                    }
                    left -= length;
                }
            }
        }
        let operations: f64 = zones.iter().map(|(share, _)| share).sum();
        let blocks: f64 = zones.iter().map(|(_, part)| part).sum();
        let rest = 100.0 - blocks;
        let mut texts: Vec<String> =
            zones.iter().map(|(share, part)| format!("{}% in {part}%", share * 100.0 / operations)).collect();
        // No operation goes behind the last range.
        if rest > 1e-9 {
            texts.push(format!("0% in {rest}%"));
        }
        format!("zones {}", texts.join(", "))
    }
}

#[cfg(test)]
mod tests;
