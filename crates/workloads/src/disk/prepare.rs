//! Before the clock starts: files with truly written extents, and how much faster the second read of a block is than
//! the first.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::workload::{Announce, LoadError};
use files::Identity;
use model::quantity;
use rustix::fs::OFlags;

use super::buffer::Buffers;
use super::content::{Filler, Stamp, seal};
use super::failure::{failed, transfer_failed};
use super::flow::Flow;
use super::mark::Mark;
use super::own::OwnFile;
use super::pattern::Place;
use super::random::{Draws, mix};
use super::sample::{self, Sample};
use super::settings::{Access, BackEndChoice, CachedPages, DiskPlan, SIZE_DEFAULT};
use super::sprandom::Course;
use super::survey::{Region, refused_overwriting, region};
use super::target::{Kind, Target};
use super::zones::Zones;

/// Mode of a file that is made. Its mark counts only while nobody else can write the file.
const FILE_MODE: u32 = 0o644;

/// Bytes of one write while a file is made.
const CHUNK_BYTES: u64 = 4 << 20;

/// Bytes of one write, and how often everything is written, where a file or device is preconditioned. As in the Solid
/// State Storage Performance Test Specification (SNIA).
const PRECONDITION_BYTES: u64 = 128 << 10;
const PRECONDITION_PASSES: u64 = 2;

/// How often progress is reported while a file is made. After each write in tests, which change files at that moment.
const PROGRESS_EVERY: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 400 });

/// Blocks read twice to find out whether something below caches.
const TOUCHED_BLOCKS: u64 = 400;

/// Longest one of the two passes may take.
const TOUCH_TIME: Duration = Duration::from_millis(800);

/// A target that is open and whole.
#[derive(Debug)]
pub(super) struct ReadyFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Of a block device that is written; it outlives `file`.
    pub(super) claim: Option<Arc<File>>,
    key: Option<(bool, Identity)>,
    /// Bytes used, from the plan's offset on.
    pub(super) bytes: u64,
    pub(super) target: Target,
}

/// What workers share.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) files: Vec<ReadyFile>,
    /// Shared with other jobs that verify the same files.
    pub(super) ledger: Option<Arc<Ledger>>,
    /// Of the only file, shared with other jobs on it.
    pub(super) zones: Option<Arc<Zones>>,
    /// For a load that brings a device into its steady state.
    pub(super) course: Option<Mutex<Course>>,
    /// What keeps the job in proportion to others, and its weight.
    pub(super) flow: Option<(Arc<Flow>, u64)>,
    pub(super) touch: Option<Touch>,
    /// What the load will read.
    pub(super) sample: Option<Sample>,
    /// The trial's.
    pub(super) seed: u64,
}

/// Mean time of a read of a block not touched lately, and of the same block again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) first_ms: f64,
    pub(super) second_ms: f64,
}

/// What preconditioning has written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preconditioned {
    pub(super) bytes: u64,
    pub(super) s: f64,
}

/// What is known of the files and kept from trial to trial.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Files that are Plimsoll's.
    pub(super) made: Vec<OwnFile>,
    /// Files and devices that were preconditioned.
    pub(super) preconditioned: BTreeMap<PathBuf, Preconditioned>,
}

/// Which write each verified block holds, and which blocks an operation in flight has to itself.
#[derive(Debug)]
pub(super) struct Ledger {
    unit: u64,
    base: u64,
    files: Vec<Box<[AtomicU32]>>,
}

/// Set while an operation on the block is in flight.
const CLAIMED: u32 = 1 << 31;

/// Generation of a block as it is made; those written later in a run count from the next.
const GENERATION_MADE: u32 = 1;

impl Ledger {
    /// Blocks of `unit` bytes of some jobs with the same files, each with its offset and the bytes it uses of each file: from the
    /// first that one of them uses to the last.
    pub(super) fn new(unit: u64, jobs: &[(u64, Vec<u64>)]) -> Self {
        let unit = unit.max(1);
        let base = jobs.iter().map(|(offset, _)| *offset).min().unwrap_or(0);
        let count = jobs.first().map_or(0, |(_, sizes)| sizes.len());
        let blocks = |file: usize| {
            let ends = jobs.iter().filter_map(|(offset, sizes)| Some(offset + sizes.get(file)?));
            ends.max().unwrap_or(base).saturating_sub(base) / unit
        };
        let files = (0..count).map(|file| (0..blocks(file)).map(|_| AtomicU32::new(0)).collect()).collect();
        Ledger { unit, base, files }
    }

    /// Bytes of one block with a header.
    pub(super) fn unit(&self) -> usize {
        self.unit as usize
    }

    fn cells(&self, place: &Place) -> &[AtomicU32] {
        let first = ((place.offset - self.base) / self.unit) as usize;
        let count = (u64::from(place.bytes) / self.unit) as usize;
        self.files.get(place.file as usize).and_then(|cells| cells.get(first..first + count)).unwrap_or(&[])
    }

    /// Takes all blocks of a place for one operation; false when one of them is taken.
    pub(super) fn claim(&self, place: &Place) -> bool {
        let cells = self.cells(place);
        for (index, cell) in cells.iter().enumerate() {
            if cell.fetch_or(CLAIMED, Ordering::Acquire) & CLAIMED != 0 {
                for cell in &cells[..index] {
                    cell.fetch_and(!CLAIMED, Ordering::Release);
                }
                return false;
            }
        }
        true
    }

    /// Gives the blocks of a place back; after a write they hold the generation it wrote.
    pub(super) fn release(&self, place: &Place) {
        for cell in self.cells(place) {
            let known = cell.load(Ordering::Relaxed) & !CLAIMED;
            cell.store(if place.write { next_generation(known) } else { known }, Ordering::Release);
        }
    }

    /// Generation block `index` of a claimed place was last written with in this run; 0 when it was not.
    pub(super) fn generation(&self, place: &Place, index: usize) -> u32 {
        self.cells(place).get(index).map_or(0, |cell| cell.load(Ordering::Relaxed) & !CLAIMED)
    }
}

/// The generation the next write of a block gets.
pub(super) fn next_generation(known: u32) -> u32 {
    if known >= CLAIMED - 1 { GENERATION_MADE + 1 } else { known.max(GENERATION_MADE) + 1 }
}

/// Makes what is missing, opens everything, and looks for caches below. `kept.made` receives each file that is Plimsoll's
/// before anything is written to it, and what is made new is announced then.
pub(super) fn prepare(
    plan: &DiskPlan,
    seed: u64,
    (kept, announcements): (&mut Kept, &dyn Announce),
    say: &mut dyn FnMut(&str) -> bool,
) -> Result<Ready, LoadError> {
    if plan.back_end == BackEndChoice::Nothing {
        return unopened(plan, seed);
    }
    let mut files: Vec<ReadyFile> = Vec::with_capacity(plan.files.len());
    for (index, path) in plan.files.iter().enumerate() {
        let target = Target::inspect(&plan.opener, path).map_err(|error| failed("look at", path, &error))?;
        let key = target.key();
        if let Some(other) = files.iter().find(|file| key.is_some() && file.key == key) {
            return Err(LoadError::new(
                format!("`{}` and `{}` are the same", other.path.display(), path.display()),
                "name each file once",
            ));
        }
        let is_due = plan.precondition && !kept.preconditioned.contains_key(path);
        let plan = &DiskPlan { precondition: is_due, ..plan.clone() };
        let region = region(plan, &target)
            .map_err(|problem| LoadError::new(problem.what.as_str(), problem.help.as_str()))?;
        let fills = region.write_to > region.write_from;
        let writes = plan.writes() || fills;
        let is_new = target.kind == Kind::Missing;
        // A file that a killed run left is kept from now on when this run is to keep its files.
        let is_adopted = plan.keep && target.mark.is_some_and(|mark| mark.temporary);
        let is_own = is_new || ((writes || is_adopted) && target.is_own());
        let is_permitted = is_own || plan.overwrite.contains(path);
        if writes && (!is_permitted || target.known_use().is_some()) {
            return Err(LoadError::new(
                format!("`{}` may not be written", path.display()),
                "it was not created by Plimsoll, or is in use; see `plimsoll check`",
            ));
        }
        if writes
            && !is_own
            && let Some(refusal) = target.refuse_overwriting(plan.overwrite_signature)
        {
            let problem = refused_overwriting(&target, refusal);
            return Err(LoadError::new(problem.what, problem.help));
        }
        let (base, claim) = open_base(path, &target, writes || (is_own && is_adopted))?;
        if is_own {
            let is_temporary = !plan.keep && target.mark.is_none_or(|mark| mark.temporary);
            let duplicate = base.try_clone().map_err(|error| failed("open", path, &error))?;
            let place = (path.clone(), Arc::clone(&target.place));
            let own = OwnFile::new(place, duplicate, plan, (is_new, writes, is_temporary))
                .map_err(|error| failed("look at", path, &error))?;
            if is_new {
                announcements.announce(
                    &own.announcement(region.write_to).map_err(|error| failed("look at", path, &error))?,
                )?;
            }
            kept.made.push(own);
        } else if writes && target.mark.is_some() {
            Mark::remove(&base, &target.place.beside());
        }
        let own = if is_own { kept.made.last() } else { None };
        if let Some(own) = own
            && fills
        {
            // While it is being written its headers are not all there.
            own.mark(0, true)?;
        }
        let seeds = |pass: u64| (mix(seed ^ index as u64 ^ pass << 32), seed);
        if is_due {
            let begun = Instant::now();
            for pass in 1..=PRECONDITION_PASSES {
                let doing = format!("preconditioning, pass {pass} of {PRECONDITION_PASSES}");
                fill(plan, path, &base, region, (seeds(pass), PRECONDITION_BYTES), (&doing, say))?;
            }
            let bytes = PRECONDITION_PASSES * (region.write_to - region.write_from);
            let s = begun.elapsed().as_secs_f64();
            kept.preconditioned.insert(path.clone(), Preconditioned { bytes, s });
        } else {
            fill(plan, path, &base, region, (seeds(0), CHUNK_BYTES), ("writing", say))?;
        }
        if let Some(own) = own {
            let unit = match (plan.verify, writes) {
                (true, _) => plan.unit(),
                (false, true) => 0,
                (false, false) => target.mark.map_or(0, |mark| mark.unit),
            };
            own.mark(unit, plan.writes())?;
        }
        let file = open(plan, &base).map_err(|error| failed("open", path, &error))?;
        if plan.cached_pages == CachedPages::Read {
            read_whole(plan, path, &file, region.bytes, say)?;
        }
        let target = target.with_open(&file).map_err(|error| failed("look at", path, &error))?;
        // One that did not exist has an identity only now.
        let key = key.or_else(|| Some((false, Identity::of(&file).ok()?)));
        files.push(ReadyFile { path: path.clone(), file, claim, key, bytes: region.bytes, target });
    }
    let touch = if plan.direct && !plan.is_copy { touch(plan, &files, seed)? } else { None };
    let sample = if plan.is_copy { None } else { sample::sample(plan, &files, seed) };
    let course = course(plan, &files, seed);
    Ok(Ready { files, ledger: None, course, zones: zones(plan), flow: None, touch, sample, seed })
}

/// The course of a load that brings a device into its steady state.
fn course(plan: &DiskPlan, files: &[ReadyFile], seed: u64) -> Option<Mutex<Course>> {
    let bytes = files.first()?.bytes;
    plan.sprandom.map(|what| Mutex::new(Course::new(what, bytes / plan.largest_block().max(1), seed)))
}

/// The zones of a load that writes at write pointers, all empty.
fn zones(plan: &DiskPlan) -> Option<Arc<Zones>> {
    plan.zone_size.filter(|_| plan.write_pointers).map(|bytes| Arc::new(Zones::new(bytes)))
}

/// For a load without I/O: nothing is made, and none of its files is opened.
fn unopened(plan: &DiskPlan, seed: u64) -> Result<Ready, LoadError> {
    const NOTHING: &str = "/dev/null";
    let refused = |error: std::io::Error| failed("open", Path::new(NOTHING), &error);
    let bytes = plan.size.unwrap_or(SIZE_DEFAULT).max(plan.largest_block());
    let files: std::io::Result<Vec<ReadyFile>> = plan
        .files
        .iter()
        .map(|path| {
            let target = Target::in_folder(Path::new("/"))?;
            let file = File::open(NOTHING)?;
            Ok(ReadyFile { path: path.clone(), file, claim: None, key: None, bytes, target })
        })
        .collect();
    let files = files.map_err(refused)?;
    let course = course(plan, &files, seed);
    Ok(Ready { files, ledger: None, course, zones: zones(plan), flow: None, touch: None, sample: None, seed })
}

/// The descriptor from which every other one of a target is made, so that all are of the file that was looked at; and the
/// claim of a device that is written, without which nothing is.
fn open_base(path: &Path, target: &Target, writes: bool) -> Result<(File, Option<Arc<File>>), LoadError> {
    if target.kind == Kind::BlockDevice && writes {
        let claim = target.claim().map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => LoadError::new(
                format!(
                    "writing to `{}` would destroy data in use: it is mounted (perhaps in another mount namespace), part \
                     of another device, or claimed by another program",
                    path.display()
                ),
                "take a device that nothing uses; Plimsoll never writes to one that is in use",
            ),
            _ => failed("open", path, &error),
        })?;
        let base = claim.try_clone().map_err(|error| failed("open", path, &error))?;
        return Ok((base, Some(claim)));
    }
    let base = match (target.kind, writes) {
        (Kind::Missing, _) => target.place.directory.create_new(&target.place.name, FILE_MODE),
        (_, true) => target.open(OFlags::RDWR),
        (_, false) => target.open(OFlags::RDONLY),
    };
    let doing = if target.kind == Kind::Missing { "create" } else { "open" };
    Ok((base.map_err(|error| failed(doing, path, &error))?, None))
}

/// `O_DSYNC`. rustix has the bits of `O_SYNC` under this name, which also writes the modification time with every block.
const DATA_SYNC: OFlags = OFlags::from_bits_retain(libc::O_DSYNC as u32);

/// Opens the target for the load.
fn open(plan: &DiskPlan, base: &File) -> std::io::Result<File> {
    let mut flags = if plan.writes() { OFlags::RDWR } else { OFlags::RDONLY };
    if plan.direct {
        flags |= OFlags::DIRECT;
    }
    if plan.write_through && plan.writes() {
        flags |= if plan.write_through_metadata { OFlags::SYNC } else { DATA_SYNC };
    }
    let file = files::reopen(base, flags)?;
    if !plan.direct {
        // Reading ahead of random reads would fill the cache with blocks that were not requested, and sequential ones gain
        // from more of it: fio gives the same advice. It may be refused.
        let advice = match plan.access {
            Access::Random => rustix::fs::Advice::Random,
            Access::Sequential => rustix::fs::Advice::Sequential,
        };
        let _ = rustix::fs::fadvise(&file, 0, None, advice);
    }
    Ok(file)
}

/// Writes the blocks of a region: data that compresses as planned, with headers when they are to be verified.
fn fill(
    plan: &DiskPlan,
    path: &Path,
    base: &File,
    region: Region,
    ((key, seed), chunk_bytes): ((u64, u64), u64),
    (doing, say): (&str, &mut dyn FnMut(&str) -> bool),
) -> Result<(), LoadError> {
    if region.write_to <= region.write_from {
        return Ok(());
    }
    let write_error =
        |error: &std::io::Error, at: u64, bytes: usize| transfer_failed(true, path, at, bytes as u32, error);
    let buffered = files::reopen(base, OFlags::RDWR).map_err(|error| failed("open", path, &error))?;
    let mut direct = files::reopen(base, OFlags::RDWR | OFlags::DIRECT).ok();
    // Reserving in one piece keeps the file contiguous; the size still grows only with what is written, so that an
    // interrupted creation is seen as such. Where it is not supported nothing is lost.
    let _ = rustix::fs::fallocate(
        &buffered,
        rustix::fs::FallocateFlags::KEEP_SIZE,
        region.write_from,
        region.write_to - region.write_from,
    );
    let unit = if plan.verify { plan.unit() } else { 0 };
    let chunk = chunk_bytes.next_multiple_of(unit.max(1));
    let mut buffers =
        Buffers::new(1, chunk as usize).map_err(|error| failed("find memory to fill", path, &error))?;
    let filler = Filler::new(plan.compressible_percent);
    let begun = Instant::now();
    let mut reported = begun;
    let mut at = region.write_from;
    while at < region.write_to {
        // Up to the first header everything is plain data.
        let limit = if at < plan.offset { plan.offset } else { region.write_to };
        let length = chunk.min(limit - at) as usize;
        let block = buffers.block(0, length);
        filler.fill(block, key ^ mix(at));
        if unit > 0 && at >= plan.offset {
            for (index, part) in block.chunks_exact_mut(unit as usize).enumerate() {
                seal(part, at + index as u64 * unit, Stamp { seed, generation: GENERATION_MADE });
            }
        }
        if let Some(file) = &direct
            && let Err(error) = file.write_all_at(block, at)
        {
            if error.raw_os_error() != Some(libc::EINVAL) {
                return Err(write_error(&error, at, length));
            }
            direct = None;
        }
        if direct.is_none() {
            buffered.write_all_at(block, at).map_err(|error| write_error(&error, at, length))?;
        }
        at += length as u64;
        if reported.elapsed() > PROGRESS_EVERY {
            reported = Instant::now();
            let done = at - region.write_from;
            let progress = format!(
                "{doing} {}: {} of {}, {:.0} MB/s",
                path.display(),
                quantity::bytes(done >> 20 << 20),
                quantity::bytes(region.write_to - region.write_from),
                done as f64 / begun.elapsed().as_secs_f64() / 1e6
            );
            if !say(&progress) {
                return Err(LoadError::new(format!("stopped while writing `{}`", path.display()), ""));
            }
        }
    }
    buffered.sync_all().map_err(|error| failed("flush", path, &error))
}

impl ReadyFile {
    /// Removes its pages from the page cache as far as they are written back; of others it starts that. As fio does, and with
    /// the same result: pages that are being written back stay.
    pub(super) fn drop_cached_pages(&self) {
        // `_IO(0x12, 97)` of linux/fs.h; needs the right to flush any device.
        const BLKFLSBUF: libc::Ioctl = 0x1261;
        if self.target.kind == Kind::BlockDevice {
            // SAFETY: the call takes a descriptor and no memory.
            unsafe { libc::ioctl(self.file.as_raw_fd(), BLKFLSBUF, 0) };
        }
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }
}

/// Reads what is used of a file into the page cache.
fn read_whole(
    plan: &DiskPlan,
    path: &Path,
    file: &File,
    bytes: u64,
    say: &mut dyn FnMut(&str) -> bool,
) -> Result<(), LoadError> {
    const CHUNK: u64 = 1 << 20;
    let mut buffer = vec![0; CHUNK as usize];
    let mut at = 0;
    let mut reported = Instant::now();
    while at < bytes {
        let length = CHUNK.min(bytes - at);
        let part = &mut buffer[..length as usize];
        file.read_exact_at(part, plan.offset + at)
            .map_err(|error| transfer_failed(false, path, plan.offset + at, length as u32, &error))?;
        at += length;
        if reported.elapsed() > PROGRESS_EVERY {
            reported = Instant::now();
            let done = quantity::bytes(at >> 20 << 20);
            if !say(&format!("reading {}: {done} of {}", path.display(), quantity::bytes(bytes))) {
                return Err(LoadError::new(format!("stopped while reading `{}`", path.display()), ""));
            }
        }
    }
    Ok(())
}

/// Reads some random blocks twice. A cache below the operating system shows as a second pass much faster than the first.
fn touch(plan: &DiskPlan, files: &[ReadyFile], seed: u64) -> Result<Option<Touch>, LoadError> {
    let bytes = plan.blocks.first().map_or(0, |block| block.bytes);
    let mut buffers = Buffers::new(1, bytes as usize)
        .map_err(|error| LoadError::new(format!("no memory to read into: {error}"), "use smaller blocks"))?;
    let mut pass = |most: u64| -> Result<(u64, f64), LoadError> {
        let begun = Instant::now();
        let mut read = 0;
        while read < most && (read == 0 || begun.elapsed() < TOUCH_TIME) {
            let mut draws = Draws::new(!seed, read, 0);
            let Some(file) = files.get(draws.below(files.len() as u64) as usize) else { break };
            let offset = plan.offset + draws.below(file.bytes / bytes) * bytes;
            file.file
                .read_exact_at(buffers.block(0, bytes as usize), offset)
                .map_err(|error| transfer_failed(false, &file.path, offset, bytes as u32, &error))?;
            read += 1;
        }
        Ok((read, begun.elapsed().as_secs_f64() * 1e3 / read.max(1) as f64))
    };
    let (read, first_ms) = pass(TOUCHED_BLOCKS)?;
    let (again, second_ms) = pass(read)?;
    Ok((again > 0).then_some(Touch { first_ms, second_ms }))
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests::settings;
    use super::*;

    #[test]
    fn a_place_is_claimed_by_one_operation_at_a_time() {
        let plan =
            DiskPlan::read(&settings(&[("files", "f"), ("block_size", "4KiB,16KiB"), ("verify", "on")]))
                .unwrap();
        let ledger = Ledger::new(plan.unit(), &[(plan.offset, vec![65536])]);
        assert_eq!(ledger.unit(), 4096);
        let wide = Place { file: 0, bytes: 16384, offset: 16384, priority: 0, write: true, trim: false };
        let inner = Place { file: 0, bytes: 4096, offset: 20480, priority: 0, write: false, trim: false };
        assert!(ledger.claim(&inner));
        assert!(!ledger.claim(&wide));
        ledger.release(&inner);
        assert!(ledger.claim(&wide));
        assert!(!ledger.claim(&inner));
        ledger.release(&wide);
        assert!(ledger.claim(&inner));
        assert_eq!(ledger.generation(&inner, 0), 2);
        assert_eq!(ledger.generation(&Place { offset: 0, ..inner }, 0), 0);
        assert_eq!(next_generation(CLAIMED - 1), 2);
    }
}
