//! What both back ends share: the next step of a worker, the data of a write, and the judgement of a read.

use engine::workload::{Done, Outcome};

use super::content::{Damage, Filler, Stamp, open, seal};
use super::pattern::{Pattern, Place};
use super::prepare::{Ready, next_generation};
use super::random::mix;
use super::settings::DiskPlan;

/// Places of the operations in [`engine::workload::Workload::operations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) read: u8,
    pub(super) write: u8,
    pub(super) sync: u8,
}

impl Kinds {
    /// Names in order, and where each is.
    pub(super) fn of(plan: &DiskPlan) -> (Vec<String>, Self) {
        let mut names = Vec::new();
        let mut add = |name: &str, used: bool| {
            if used {
                names.push(name.to_string());
            }
            names.len().saturating_sub(1) as u8
        };
        let read = add("read", plan.read_share > 0.0);
        let write = add("write", plan.writes());
        let sync = add("fsync", plan.fsync_every > 0);
        (names, Kinds { read, write, sync })
    }
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
}

/// One worker's course through the load.
pub(super) struct Stream<'a> {
    pub(super) ready: &'a Ready,
    pub(super) kinds: Kinds,
    pattern: Pattern,
    filler: Filler,
    seed: u64,
    workers: u64,
    fsync_every: u64,
    writes_since_sync: u64,
    syncs: u64,
    written_last: u32,
    remarks: Vec<String>,
    remarked: usize,
}

impl<'a> Stream<'a> {
    pub(super) fn new(plan: &DiskPlan, ready: &'a Ready, seed: u64, workers: u32) -> Self {
        let sizes: Vec<u64> = ready.files.iter().map(|file| file.bytes).collect();
        Stream {
            ready,
            kinds: Kinds::of(plan).1,
            pattern: Pattern::new(plan, &sizes, seed),
            filler: Filler::new(plan.compressible_percent),
            seed,
            workers: u64::from(workers),
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
        self.filler.fill(block, self.seed ^ mix(number));
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
        let kind = if place.write { self.kinds.write } else { self.kinds.read };
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

    /// Moves what was noticed to `out`.
    pub(super) fn remarks(&mut self, out: &mut Vec<String>) {
        out.append(&mut self.remarks);
    }
}
