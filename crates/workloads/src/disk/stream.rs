//! What both back ends share: the next step of a worker, the data of a write, and the judgement of a read.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use engine::workload::{Done, LoadError, Outcome, Share};
use model::Nanos;
use rustix::fs::{FallocateFlags, fallocate};

use super::choice::FIRST_NUMBER;
use super::content::{Damage, Filler, Stamp, is_repeated, open, repeat, seal};
use super::failure::failed;
use super::flow::Turn;
use super::grammar::Duplicates;
use super::pattern::{Pattern, Place};
use super::prepare::{Ready, ReadyFile, next_generation};
use super::random::{Draws, mix, threshold};
use super::settings::{CachedPages, DiskPlan, Writes};
use super::target::Kind;
use super::zones::ZoneUse;

/// Places of the operations in [`engine::workload::Workload::operations`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) read: u16,
    pub(super) write: u16,
    pub(super) trim: u16,
    pub(super) sync: u16,
}

impl Kinds {
    /// Adds the operations of a load to `names`, where they are not among them, and says where each is. Those of a job begin
    /// with its name.
    pub(super) fn within(plan: &DiskPlan, job: &str, names: &mut Vec<String>) -> Self {
        let mut place = |operation: &str, used: bool| {
            if !used {
                return 0;
            }
            let name =
                if job.is_empty() { operation.to_string() } else { format!("{}:{operation}", label(job)) };
            let known = names.iter().position(|known| *known == name);
            let place = known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            place as u16
        };
        let moves = plan.trim_share < 1.0;
        Kinds {
            read: place("read", plan.read_share > 0.0 && moves),
            write: place("write", plan.read_share < 1.0 && moves),
            trim: place("trim", plan.discards()),
            sync: place("fsync", plan.fsync_every > 0),
        }
    }
}

/// A job's name as a part of the names of its operations, which are also tags of a histogram log and parts of goals: without
/// spaces, commas and points.
pub(super) fn label(job: &str) -> String {
    job.chars().map(|letter| if letter.is_alphanumeric() || letter == '_' { letter } else { '-' }).collect()
}

/// How many other places are tried when the blocks of one are in use by an operation in flight.
const ATTEMPTS: u32 = 64;

/// Most damaged blocks reported one by one.
const REMARKS_MAX: usize = 100;

/// Which written blocks repeat others.
struct Repeats {
    duplicates: Duplicates,
    threshold: u64,
    /// Of the blocks that are repeated.
    seed: u64,
    /// The key of the last block that repeats none.
    last: Option<u64>,
}

impl Repeats {
    fn new(duplicates: Duplicates, seed: u64, lane_seed: u64) -> Self {
        let seed = mix(if duplicates.is_shared { seed } else { lane_seed } ^ SET);
        Repeats { duplicates, threshold: threshold(duplicates.share), seed, last: None }
    }

    /// The key of a block's content, whose own would be `own`.
    fn key(&mut self, own: u64) -> u64 {
        let mut draws = Draws::new(SET, own, 0);
        if draws.chance(self.threshold) {
            match (self.duplicates.set, self.last) {
                (Some(set), _) => return mix(self.seed ^ draws.below(set)),
                (None, Some(last)) => return last,
                (None, None) => {}
            }
        }
        self.last = Some(own);
        own
    }
}

/// Tells the keys of repeated blocks from those of others.
const SET: u64 = 0x5a17_9c3e_0d42_b86f;

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Transfer(Place),
    /// Flush this file.
    Sync(u32),
    /// Every place tried is in use by another operation.
    Taken,
    /// Other jobs of its flow come first, or the cached pages of a pass were dropped.
    Held,
    /// All operations that the load was to have are issued.
    Over,
}

/// One worker's course through the load.
pub(super) struct Stream<'a> {
    pub(super) ready: &'a Ready,
    pub(super) kinds: Kinds,
    pattern: Pattern,
    filler: Filler,
    /// What writes repeat and reads must hold; empty for other data.
    content: Vec<u8>,
    expect: Vec<u8>,
    repeats: Option<Repeats>,
    /// The trial's, which verified blocks hold.
    seed: u64,
    /// Of the places and the data: each lane has others.
    lane_seed: u64,
    workers: u64,
    operations: u64,
    /// Where the plan begins in its files.
    base: u64,
    writes: Writes,
    zone_use: ZoneUse,
    turn: Option<Turn>,
    /// After so many operations of this worker the cached pages are dropped, and how many are left until then.
    pass: Option<(u64, u64)>,
    fsync_every: u64,
    writes_since_sync: u64,
    syncs: u64,
    written_last: u32,
    remarks: Vec<String>,
    remarked: usize,
}

impl<'a> Stream<'a> {
    pub(super) fn new(plan: &DiskPlan, ready: &'a Ready, share: &Share) -> Self {
        let lane_seed = if share.lane == 0 { share.seed } else { share.seed ^ mix(u64::from(share.lane)) };
        let sizes: Vec<u64> = ready.files.iter().map(|file| file.bytes).collect();
        Stream {
            ready,
            kinds: plan.kinds,
            pattern: Pattern::new(plan, &sizes, lane_seed),
            filler: Filler::new(plan.compressible_percent),
            content: plan.content.clone(),
            expect: plan.expect.clone(),
            repeats: plan.duplicates.map(|duplicates| Repeats::new(duplicates, share.seed, lane_seed)),
            seed: share.seed,
            lane_seed,
            workers: u64::from(share.of),
            operations: plan.operations.unwrap_or(u64::MAX),
            base: plan.offset,
            writes: plan.writes,
            zone_use: ZoneUse::new(plan, sizes.first().copied().unwrap_or(0)),
            turn: ready.flow.as_ref().map(|(flow, weight)| Turn::new(flow, share.lane, *weight)),
            pass: operations_of_pass(plan, &sizes, u64::from(share.of)).map(|count| (count, count)),
            fsync_every: plan.fsync_every,
            writes_since_sync: 0,
            syncs: 0,
            written_last: 0,
            remarks: Vec::new(),
            remarked: 0,
        }
    }

    /// What operation `number` does. A flush takes a number of its own, so what follows it counts without it: the
    /// numbers of one worker are `workers` apart, and a sequential stream has no gap where a flush was.
    #[inline]
    pub(super) fn next(&mut self, number: u64) -> Step {
        if self.fsync_every > 0 && self.writes_since_sync >= self.fsync_every {
            self.writes_since_sync = 0;
            self.syncs += 1;
            return Step::Sync(self.written_last);
        }
        let number = number.wrapping_sub(self.syncs * self.workers);
        if number >= self.operations && number < FIRST_NUMBER {
            if let Some(turn) = &mut self.turn {
                turn.leave();
            }
            return Step::Over;
        }
        if let Some((count, left @ 0)) = &mut self.pass {
            *left = *count;
            self.ready.files.iter().for_each(ReadyFile::drop_cached_pages);
            return Step::Held;
        }
        if self.turn.as_ref().is_some_and(|turn| !turn.take()) {
            return Step::Held;
        }
        let step = self.transfer(number);
        if let (Step::Taken, Some(turn)) = (step, &self.turn) {
            turn.put_back();
        }
        step
    }

    /// Waits until other jobs of the flow have issued what they are behind, at most until an instant.
    pub(super) fn wait_for_turn(&self, until: Nanos, now: Nanos) {
        if let Some(turn) = &self.turn {
            turn.wait(Duration::from_nanos(until.saturating_sub(now)));
        }
    }

    #[inline]
    fn transfer(&mut self, number: u64) -> Step {
        let mut place = self.pattern.place(number, 0);
        if let Some(course) = &self.ready.course {
            match course.lock().unwrap_or_else(PoisonError::into_inner).next() {
                Some(block) => place.offset = self.base + block * u64::from(place.bytes),
                None => return Step::Over,
            }
        }
        if let Some(zones) = &self.ready.zones {
            let permitted =
                |place: &Place| self.ready.ledger.as_ref().is_none_or(|ledger| ledger.claim(place));
            match zones.place(place, &self.zone_use, permitted) {
                Some(found) => place = found,
                None => return Step::Taken,
            }
        } else if let Some(ledger) = &self.ready.ledger {
            let mut attempt = 0;
            while !ledger.claim(&place) {
                attempt += 1;
                if attempt > ATTEMPTS {
                    return Step::Taken;
                }
                place = self.pattern.place(number, attempt);
            }
        }
        if let Some((_, left)) = &mut self.pass {
            *left -= 1;
        }
        if place.write {
            self.writes_since_sync += 1;
            self.written_last = place.file;
        }
        Step::Transfer(place)
    }

    /// The data of a write.
    #[inline]
    pub(super) fn fill(&mut self, place: &Place, number: u64, block: &mut [u8]) {
        if !self.content.is_empty() {
            repeat(&self.content, block);
            return;
        }
        let key = self.lane_seed ^ mix(number);
        let key = match &mut self.repeats {
            Some(repeats) => repeats.key(key),
            None => key,
        };
        self.filler.fill(block, key);
        if let Some(ledger) = &self.ready.ledger {
            let unit = ledger.unit();
            for (index, part) in block.chunks_exact_mut(unit).enumerate() {
                let generation = next_generation(ledger.generation(place, index));
                seal(part, place.offset + (index * unit) as u64, Stamp { seed: self.seed, generation });
            }
        }
    }

    fn kind(&self, place: &Place) -> u16 {
        match (place.trim, place.write) {
            (true, _) => self.kinds.trim,
            (false, true) => self.kinds.write,
            (false, false) => self.kinds.read,
        }
    }

    /// The kind of the transfer with this number, as far as no synchronization takes its place.
    pub(super) fn kind_of(&self, number: u64) -> u16 {
        self.kind(&self.pattern.place(number.wrapping_sub(self.syncs * self.workers), 0))
    }

    /// A transfer is over; `block` is what was read or written.
    #[inline]
    pub(super) fn settle(&mut self, place: &Place, block: &[u8]) -> Done {
        let kind = self.kind(place);
        let outcome = match self.ready.ledger {
            Some(_) => self.verify(place, block),
            None if !self.expect.is_empty() && !place.write && !is_repeated(&self.expect, block) => {
                self.remark(place.file, place.offset, Damage::Unexpected)
            }
            None => Outcome::Well,
        };
        Done::new(kind, outcome, place.bytes)
    }

    fn verify(&mut self, place: &Place, block: &[u8]) -> Outcome {
        let Some(ledger) = &self.ready.ledger else { return Outcome::Well };
        let mut worst = None;
        if !place.write {
            for (index, part) in block.chunks_exact(ledger.unit()).enumerate() {
                let offset = place.offset + (index * ledger.unit()) as u64;
                let known = ledger.generation(place, index);
                let damage = match open(part, offset) {
                    Err(damage) => damage,
                    Ok(stamp) if known > 0 && stamp != (Stamp { seed: self.seed, generation: known }) => {
                        Damage::Stale
                    }
                    Ok(_) => continue,
                };
                worst = Some(self.remark(place.file, offset, damage));
            }
        }
        ledger.release(place);
        worst.unwrap_or(Outcome::Well)
    }

    /// Reports damage, the first times with its place.
    #[cold]
    fn remark(&mut self, file: u32, offset: u64, damage: Damage) -> Outcome {
        self.remarked += 1;
        if self.remarked <= REMARKS_MAX {
            let path = self.ready.files.get(file as usize).map(|file| file.path.display().to_string());
            self.remarks.push(format!("{} at offset {offset}: {}", path.unwrap_or_default(), damage.words()));
        }
        Outcome::Failed(damage.code())
    }

    /// Whether an operation moves no data.
    #[inline]
    pub(super) fn is_command(&self, place: &Place) -> bool {
        place.trim || (place.write && self.writes != Writes::Data)
    }

    /// Carries out an operation that moves no data: a discard, where the space is given back and the data is lost; or what stands
    /// in place of a write.
    pub(super) fn command(&self, place: &Place) -> Result<Done, LoadError> {
        let file = &self.ready.files[place.file as usize];
        if !place.trim {
            let (doing, result) = match self.writes {
                Writes::Truncate => ("truncate", file.file.set_len(place.offset)),
                _ => {
                    let bytes = u64::from(place.bytes);
                    let result = fallocate(&file.file, FallocateFlags::empty(), place.offset, bytes);
                    ("allocate space of", result.map_err(io::Error::from))
                }
            };
            result.map_err(|error| failed(doing, &file.path, &error))?;
            return Ok(Done::new(self.kinds.write, Outcome::Well, 0));
        }
        discard(&file.file, file.target.kind == Kind::BlockDevice, place.offset, u64::from(place.bytes))
            .map_err(|error| trim_failed(&file.path, place, &error))?;
        Ok(Done::new(self.kinds.trim, Outcome::Well, place.bytes))
    }

    /// Moves what was noticed to `out`.
    pub(super) fn remarks(&mut self, out: &mut Vec<String>) {
        out.append(&mut self.remarks);
    }
}

/// Operations of one of several workers in a pass over the files, where a pass begins without cached pages.
fn operations_of_pass(plan: &DiskPlan, sizes: &[u64], workers: u64) -> Option<u64> {
    let blocks = sizes.iter().sum::<u64>() / plan.mean_block();
    (plan.cached_pages == CachedPages::DropEachPass).then(|| (blocks / workers.max(1)).max(1))
}

/// A discard on a device, a hole in a file.
fn discard(file: &File, is_device: bool, offset: u64, bytes: u64) -> io::Result<()> {
    if !is_device {
        return Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes)?);
    }
    let range = [offset, bytes];
    // SAFETY: BLKDISCARD reads two 64-bit numbers, which live across the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `_IO(0x12, 119)` of linux/fs.h.
const BLKDISCARD: libc::Ioctl = 0x1277;

#[cold]
fn trim_failed(path: &Path, place: &Place, error: &io::Error) -> LoadError {
    let help = match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => {
            "it cannot discard: remove `trim_percent`, or take another device or file system"
        }
        _ => "",
    };
    let what = format!(
        "discarding {} bytes at offset {} of `{}` failed: {error}",
        place.bytes,
        place.offset,
        path.display()
    );
    LoadError::new(what, help)
}
