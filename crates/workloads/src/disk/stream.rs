//! What both back ends share: the next step of a worker, the data of a write, and the judgement of a read.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use engine::workload::{Done, LoadError, Outcome, Share};
use rustix::fs::{FallocateFlags, fallocate};

use super::choice::FIRST_NUMBER;
use super::content::{Damage, Filler, Stamp, open, seal};
use super::pattern::{Pattern, Place};
use super::prepare::{Ready, next_generation};
use super::random::mix;
use super::settings::DiskPlan;
use super::target::Kind;

/// Places of the operations in [`engine::workload::Workload::operations`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) read: u8,
    pub(super) write: u8,
    pub(super) trim: u8,
    pub(super) sync: u8,
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
            place as u8
        };
        let moves = plan.trim_share < 1.0;
        Kinds {
            read: place("read", plan.read_share > 0.0 && moves),
            write: place("write", plan.read_share < 1.0 && moves),
            trim: place("trim", plan.trim_share > 0.0),
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

/// Most damaged blocks told one by one.
const REMARKS_MAX: usize = 100;

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Transfer(Place),
    /// Flush this file.
    Sync(u32),
    /// Every place tried is in use by another operation.
    Taken,
    /// All operations that the load was to have are issued.
    Over,
}

/// One worker's course through the load.
pub(super) struct Stream<'a> {
    pub(super) ready: &'a Ready,
    pub(super) kinds: Kinds,
    pattern: Pattern,
    filler: Filler,
    /// The trial's, which verified blocks hold.
    seed: u64,
    /// Of the places and the data: each lane has others.
    lane_seed: u64,
    workers: u64,
    operations: u64,
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
            seed: share.seed,
            lane_seed,
            workers: u64::from(share.of),
            operations: plan.operations.unwrap_or(u64::MAX),
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
            return Step::Over;
        }
        let mut place = self.pattern.place(number, 0);
        if let Some(ledger) = &self.ready.ledger {
            let mut attempt = 0;
            while !ledger.claim(&place) {
                attempt += 1;
                if attempt > ATTEMPTS {
                    return Step::Taken;
                }
                place = self.pattern.place(number, attempt);
            }
        }
        if place.write {
            self.writes_since_sync += 1;
            self.written_last = place.file;
        }
        Step::Transfer(place)
    }

    /// The data of a write.
    #[inline]
    pub(super) fn fill(&self, place: &Place, number: u64, block: &mut [u8]) {
        self.filler.fill(block, self.lane_seed ^ mix(number));
        if let Some(ledger) = &self.ready.ledger {
            let unit = ledger.unit();
            for (index, part) in block.chunks_exact_mut(unit).enumerate() {
                let generation = next_generation(ledger.generation(place, index));
                seal(part, place.offset + (index * unit) as u64, Stamp { seed: self.seed, generation });
            }
        }
    }

    /// A transfer is over; `block` is what was read or written.
    #[inline]
    pub(super) fn settle(&mut self, place: &Place, block: &[u8]) -> Done {
        let kind = match (place.trim, place.write) {
            (true, _) => self.kinds.trim,
            (false, true) => self.kinds.write,
            (false, false) => self.kinds.read,
        };
        let outcome = match self.ready.ledger {
            Some(_) => self.verify(place, block),
            None => Outcome::Well,
        };
        Done { kind, outcome, bytes: place.bytes, count: 1 }
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
                worst = Some(damage);
                self.remarked += 1;
                if self.remarked <= REMARKS_MAX {
                    let path = self.ready.files.get(place.file as usize).map(|file| file.path.display());
                    let path = path.map(|path| path.to_string()).unwrap_or_default();
                    self.remarks.push(format!("{path} at offset {offset}: {}", damage.words()));
                }
            }
        }
        ledger.release(place);
        worst.map_or(Outcome::Well, |damage| Outcome::Failed(damage.code()))
    }

    /// Discards a block; the space is given back and the data is lost.
    pub(super) fn trim(&self, place: &Place) -> Result<Done, LoadError> {
        let file = &self.ready.files[place.file as usize];
        discard(&file.file, file.target.kind == Kind::BlockDevice, place.offset, u64::from(place.bytes))
            .map_err(|error| trim_failed(&file.path, place, &error))?;
        Ok(Done { kind: self.kinds.trim, outcome: Outcome::Well, bytes: place.bytes, count: 1 })
    }

    /// Moves what was noticed to `out`.
    pub(super) fn remarks(&mut self, out: &mut Vec<String>) {
        out.append(&mut self.remarks);
    }
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
