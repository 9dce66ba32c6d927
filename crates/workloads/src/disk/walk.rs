//! Sequential access: the block that follows another.

use super::grammar::BlockShare;
use super::random::Draws;
use super::settings::{DiskPlan, Passes};

/// Operations after which the order of sizes in a sequential mix repeats: shares are kept to 0.1 %.
const CYCLE: usize = 1000;

/// Sequential access: a cycle of sizes and where each begins in it.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    starts: Vec<u64>,
    bytes: Vec<u32>,
    priorities: Vec<u16>,
    /// Whether all blocks have the same size.
    is_even: bool,
    cycle_bytes: u64,
    /// With a stride, each pass over the file begins one block further, this many times before it repeats.
    lanes: u64,
    /// From the end to the start.
    reverse: bool,
    /// Each pass visits the same blocks.
    same: bool,
    /// Bytes of a zone, and the distance from the start of one to the start of the next.
    zones: Option<(u64, u64)>,
}

/// A place: file, offset from the plan's, bytes and priority.
type Visited = (u32, u64, u32, u16);

impl Walk {
    pub(super) fn new(plan: &DiskPlan) -> Self {
        let mut classes: Vec<&BlockShare> = match plan.blocks.as_slice() {
            [one] => vec![one],
            several => {
                let mut sizes = Vec::with_capacity(CYCLE);
                let mut share = 0.0;
                for block in several {
                    share += block.share;
                    sizes.resize(((share * CYCLE as f64).round() as usize).min(CYCLE), block);
                }
                sizes
            }
        };
        // A fixed shuffle (Fisher-Yates), so that sizes alternate.
        for last in (1..classes.len()).rev() {
            classes.swap(last, Draws::new(0, last as u64, 0).below(last as u64 + 1) as usize);
        }
        let mut starts = Vec::with_capacity(classes.len());
        let mut cycle_bytes = 0;
        let mut lanes = 1;
        for block in &classes {
            starts.push(cycle_bytes);
            cycle_bytes += plan.stride.unwrap_or(block.bytes);
            lanes = (plan.stride.unwrap_or(0) / block.bytes.max(1)).max(1);
        }
        let is_even = classes.windows(2).all(|pair| pair[0].bytes == pair[1].bytes);
        Walk {
            is_even,
            cycle_bytes: if is_even { starts.get(1).copied().unwrap_or(cycle_bytes) } else { cycle_bytes }
                .max(1),
            starts,
            bytes: classes.iter().map(|block| block.bytes as u32).collect(),
            priorities: classes.iter().map(|block| block.priority).collect(),
            lanes,
            reverse: plan.reverse,
            same: plan.passes == Passes::Same,
            zones: plan
                .zone_size
                .filter(|_| !plan.write_pointers)
                .map(|bytes| (bytes, bytes.saturating_add(plan.zone_skip))),
        }
    }

    /// The same with blocks of one size.
    pub(super) fn with_blocks(&self, bytes: u64) -> Self {
        Walk {
            starts: vec![0],
            bytes: vec![bytes as u32],
            priorities: vec![0],
            is_even: true,
            cycle_bytes: bytes.max(1),
            ..self.clone()
        }
    }

    /// Files take turns; within a file one block follows the other, and after the last comes the first.
    #[inline]
    pub(super) fn place(&self, number: u64, sizes: &[u64]) -> Visited {
        let (file, turn) = match sizes {
            [_] => (0, number),
            _ => ((number % sizes.len() as u64) as usize, number / sizes.len() as u64),
        };
        let size = sizes[file];
        if let [bytes] = self.bytes[..] {
            return (file as u32, self.offset(turn, size), bytes, self.priorities[0]);
        }
        let at = (turn % self.bytes.len() as u64) as usize;
        let bytes = self.bytes[at];
        if self.is_even {
            return (file as u32, self.offset(turn, size), bytes, self.priorities[at]);
        }
        // The cycle is not cut at the file's end: whatever would cross it goes to the start instead, so that every
        // place is a sum of whole blocks.
        let cycles = (size / self.cycle_bytes).max(1);
        let offset = turn / self.bytes.len() as u64 % cycles * self.cycle_bytes + self.starts[at];
        let offset = if offset + u64::from(bytes) <= size { offset } else { 0 };
        (file as u32, offset, bytes, self.priorities[at])
    }

    /// Where block `turn` of one size begins in a file of `size` bytes.
    #[inline]
    fn offset(&self, turn: u64, size: u64) -> u64 {
        let bytes = u64::from(self.bytes[0]);
        let last = size.saturating_sub(bytes);
        if let Some((zone, step)) = self.zones {
            let blocks = (zone / bytes).max(1);
            // Each zone that has a block; one that the file cuts short is visited as many times as a whole one.
            let start = turn / blocks % (last / step + 1) * step;
            let held = (zone.min(size - start) / bytes).max(1);
            return start + turn % blocks % held * bytes;
        }
        if self.reverse && self.same {
            return self.backwards(turn, size);
        }
        let last = if self.reverse { last / bytes * bytes } else { last };
        let turns = last / self.cycle_bytes + 1;
        let offset = turn % turns * self.cycle_bytes;
        if self.reverse {
            return last - offset;
        }
        let lane = if self.lanes > 1 && !self.same { turn / turns % self.lanes * bytes } else { 0 };
        if offset + lane <= last { offset + lane } else { offset }
    }

    /// As fio goes backwards: the first block once, then again and again from a step before the last block to the start.
    fn backwards(&self, turn: u64, size: u64) -> u64 {
        let bytes = u64::from(self.bytes[0]);
        let size = size / bytes * bytes;
        let Some(first) = size.checked_sub(bytes + self.cycle_bytes) else { return 0 };
        match turn.checked_sub(1) {
            None => 0,
            Some(turn) => first - turn % (first / self.cycle_bytes + 1) * self.cycle_bytes,
        }
    }
}
