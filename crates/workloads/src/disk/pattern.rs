//! Where an operation goes: a pure function of the trial's seed, the operation's number and the settings.

use super::random::{Draws, mix, threshold};
use super::settings::{Access, DiskPlan};
use super::spread::{Class, Drawn, classes, random};
use super::walk::Walk;

/// All operations, in the share of those that write.
const APART_WHOLE: u64 = 1 << 32;

/// What one operation does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Which file.
    pub(super) file: u32,
    /// Bytes to move.
    pub(super) bytes: u32,
    /// From its start.
    pub(super) offset: u64,
    /// I/O priority as `ioprio_set(2)` encodes it; 0 is that of the process.
    pub(super) priority: u16,
    /// Write or discard, or read.
    pub(super) write: bool,
    /// Discard: nothing is moved.
    pub(super) trim: bool,
}

/// Maps numbers to places.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    seed: u64,
    base: u64,
    read_threshold: u64,
    trim_threshold: u64,
    /// Usable bytes of each file.
    sizes: Vec<u64>,
    order: Order,
    trims_before: Option<TrimsBefore>,
}

/// Discards of what is then written.
#[derive(Clone, Debug)]
struct TrimsBefore {
    /// Writes in one discarded piece.
    writes: u64,
    /// Pieces in the first file, for sequential writes.
    pieces: u64,
    walk: Walk,
}

#[derive(Clone, Debug)]
enum Order {
    /// Block sizes of reads, and of writes where they differ.
    Random(Vec<Class>, Vec<Class>),
    Sequential(Walk),
    /// Reads and writes each have a stream; writes are this share of 2^32.
    Apart(Walk, u64),
}

impl Pattern {
    /// For files of these usable sizes, each at least one block (see [`DiskPlan::largest_block`]).
    pub(super) fn new(plan: &DiskPlan, sizes: &[u64], seed: u64) -> Self {
        let order = match plan.access {
            Access::Random => Order::Random(
                classes(plan, &plan.blocks, sizes, seed),
                classes(plan, &plan.write_blocks, sizes, seed),
            ),
            Access::Sequential => {
                let walk = Walk::new(plan);
                match plan.is_apart {
                    true => {
                        let writes = ((1.0 - plan.read_share) * APART_WHOLE as f64).round() as u64;
                        Order::Apart(walk, writes)
                    }
                    false => Order::Sequential(walk),
                }
            }
        };
        let trims_before = plan.trim_before.map(|bytes| TrimsBefore {
            writes: (bytes / plan.largest_block().max(1)).max(1),
            pieces: sizes.first().map_or(1, |size| size / bytes.max(1)),
            walk: Walk::new(plan).with_blocks(bytes),
        });
        Pattern {
            trims_before,
            seed: mix(seed),
            base: plan.offset,
            read_threshold: threshold(plan.read_share),
            trim_threshold: threshold(plan.trim_share),
            sizes: sizes.to_vec(),
            order,
        }
    }

    /// The place of operation `number`. `attempt` asks for another one when the first was taken.
    #[inline]
    pub(super) fn place(&self, number: u64, attempt: u32) -> Place {
        if let Some(trims) = &self.trims_before {
            return self.place_trimmed(trims, number, attempt);
        }
        if let Order::Apart(walk, writes) = &self.order {
            return self.place_apart(walk, *writes, number);
        }
        let mut draws = Draws::new(self.seed, number, attempt);
        let trim = draws.chance(self.trim_threshold);
        let write = trim || !draws.chance(self.read_threshold);
        let drawn = match &self.order {
            Order::Random(reads, writes) => {
                let classes = if write && !writes.is_empty() { writes } else { reads };
                random(classes, &mut draws, (number, attempt))
            }
            Order::Sequential(walk) | Order::Apart(walk, _) => walk.place(number, &self.sizes),
        };
        self.at(drawn, (write, trim))
    }

    #[inline]
    fn at(&self, (file, offset, bytes, priority): Drawn, (write, trim): (bool, bool)) -> Place {
        Place { file, bytes, offset: self.base + offset, priority, write, trim }
    }

    /// Reads and writes alternate evenly, and each counts its own blocks.
    fn place_apart(&self, walk: &Walk, writes: u64, number: u64) -> Place {
        let before = |number: u64| (u128::from(number) * u128::from(writes) / u128::from(APART_WHOLE)) as u64;
        let written = before(number);
        let write = before(number.saturating_add(1)) > written;
        self.at(walk.place(if write { written } else { number - written }, &self.sizes), (write, false))
    }

    /// What is written is discarded before, in the order of fio's `trimwrite`.
    fn place_trimmed(&self, trims: &TrimsBefore, number: u64, attempt: u32) -> Place {
        match &self.order {
            Order::Random(classes, _) => {
                // A block and its discard are one draw.
                let pair = number / 2;
                let mut draws = Draws::new(self.seed, pair, attempt);
                self.at(random(classes, &mut draws, (pair, attempt)), (true, number.is_multiple_of(2)))
            }
            Order::Sequential(walk) | Order::Apart(walk, _) => {
                // A discard is due as soon as the writes have begun with the piece before it.
                let turn = number % (2 + trims.pieces.saturating_sub(1) * (1 + trims.writes));
                let (piece, write) = match turn {
                    0 => (0, None),
                    1 => (0, Some(0)),
                    turn => {
                        let group = (turn - 2) / (1 + trims.writes);
                        match (turn - 2) % (1 + trims.writes) {
                            0 => (group + 1, None),
                            of_group => (0, Some(group * trims.writes + of_group)),
                        }
                    }
                };
                match write {
                    Some(write) => self.at(walk.place(write, &self.sizes), (true, false)),
                    None => self.at(trims.walk.place(piece, &self.sizes), (true, true)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests::settings;
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn pattern(pairs: &[(&str, &str)], sizes: &[u64]) -> Pattern {
        let mut all = vec![("files", "f")];
        all.extend_from_slice(pairs);
        Pattern::new(&DiskPlan::read(&settings(&all)).unwrap(), sizes, 42)
    }

    #[test]
    fn sequential_is_one_shared_stream() {
        let one = pattern(&[("access", "sequential")], &[5 * 4096]);
        let offsets: Vec<u64> = (0..7).map(|number| one.place(number, 0).offset / 4096).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4, 0, 1]);
        let two = pattern(&[("access", "sequential")], &[2 * 4096, 4 * 4096]);
        let places: Vec<(u32, u64)> =
            (0..6).map(|n| two.place(n, 0)).map(|place| (place.file, place.offset / 4096)).collect();
        assert_eq!(places, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 0), (1, 2)]);
        let strided = pattern(&[("access", "sequential"), ("stride", "16KiB")], &[8 * 4096]);
        let offsets: Vec<u64> = (0..8).map(|number| strided.place(number, 0).offset / 4096).collect();
        assert_eq!(offsets, [0, 4, 1, 5, 2, 6, 3, 7]);
        let reverse = pattern(&[("access", "sequential"), ("reverse", "true")], &[4 * 4096 + 100]);
        let offsets: Vec<u64> = (0..5).map(|number| reverse.place(number, 0).offset / 4096).collect();
        assert_eq!(offsets, [3, 2, 1, 0, 3]);
        let apart = [("access", "sequential"), ("directions", "apart"), ("read_percent", "75%")];
        let apart = pattern(&apart, &[8 * 4096]);
        let places: Vec<(bool, u64)> =
            (0..8).map(|n| apart.place(n, 0)).map(|place| (place.write, place.offset / 4096)).collect();
        let read = |block| (false, block);
        assert_eq!(places, [read(0), read(1), read(2), (true, 0), read(3), read(4), read(5), (true, 1)]);
        let based = pattern(&[("offset", "1MiB"), ("access", "sequential")], &[4096]);
        assert_eq!(based.place(3, 0).offset, 1 << 20);
    }

    #[test]
    fn a_sequential_mix_is_contiguous_and_keeps_its_shares() {
        let mix = pattern(&[("access", "sequential"), ("block_size", "4KiB 70%, 64KiB 30%")], &[1 << 30]);
        let mut end = 0;
        let mut large = 0;
        for number in 0..2000 {
            let place = mix.place(number, 0);
            assert_eq!(place.offset, end, "{number}");
            end = place.offset + u64::from(place.bytes);
            large += u32::from(place.bytes == 65536);
        }
        assert_eq!(large, 600);
    }

    #[test]
    fn shares_of_reads_sizes_and_hot_blocks() {
        const COUNT: u64 = 100_000;
        let share = |pattern: &Pattern, what: &dyn Fn(&Place) -> bool| {
            (0..COUNT).filter(|number| what(&pattern.place(*number, 0))).count() as f64 / COUNT as f64
        };
        let mixed =
            pattern(&[("read_percent", "70%"), ("block_size", "4KiB 25%, 8KiB 75%")], &[1 << 24, 1 << 25]);
        assert!((share(&mixed, &|place| place.write) - 0.3).abs() < 0.01);
        assert!((share(&mixed, &|place| place.bytes == 4096) - 0.25).abs() < 0.01);
        assert!((share(&mixed, &|place| place.file == 1) - 2.0 / 3.0).abs() < 0.01);
        let hot = pattern(&[("distribution", "hot 90% in 10%")], &[4096 * 1000]);
        assert!((share(&hot, &|place| place.offset < 4096 * 100) - 0.9).abs() < 0.01);
        for (percent, expected) in [("0%", 1.0), ("100%", 0.0)] {
            assert_eq!(
                share(&pattern(&[("read_percent", percent)], &[1 << 20]), &|place| place.write),
                expected
            );
        }
    }

    #[test]
    fn a_shuffle_visits_each_block_once_and_then_in_another_order() {
        let shuffle = pattern(&[("distribution", "shuffle")], &[4096 * 50, 4096 * 14]);
        let pass = |pass: u64| -> Vec<(u32, u64)> {
            (0..64).map(|n| shuffle.place(64 * pass + n, 0)).map(|place| (place.file, place.offset)).collect()
        };
        for number in [0, 1, 1000] {
            assert_eq!(pass(number).into_iter().collect::<HashSet<_>>().len(), 64);
        }
        assert_ne!(pass(0), pass(1));
        let neighbours = pass(0).windows(2).filter(|pair| pair[1].1 == pair[0].1 + 4096).count();
        assert!(neighbours < 10, "{neighbours}");
    }

    #[test]
    fn zones_trims_and_sizes_of_writes() {
        const COUNT: u64 = 100_000;
        let share = |pattern: &Pattern, what: &dyn Fn(&Place) -> bool| {
            (0..COUNT).filter(|number| what(&pattern.place(*number, 0))).count() as f64 / COUNT as f64
        };
        let zoned = pattern(&[("distribution", "zones 50% in 5%, 30% in 15%, 20% in 80%")], &[4096 * 1000]);
        assert!((share(&zoned, &|place| place.offset < 4096 * 50) - 0.5).abs() < 0.01);
        assert!((share(&zoned, &|place| place.offset >= 4096 * 200) - 0.2).abs() < 0.01);
        let trims = pattern(&[("trim_percent", "25%"), ("read_percent", "50%")], &[1 << 24]);
        assert!((share(&trims, &|place| place.trim && place.write) - 0.25).abs() < 0.01);
        assert!((share(&trims, &|place| !place.write) - 0.375).abs() < 0.01);
        let sizes =
            [("read_percent", "50%"), ("block_size", "8KiB"), ("write_block_size", "4KiB 50%, 64KiB 50%")];
        let sizes = pattern(&sizes, &[1 << 24]);
        assert_eq!(share(&sizes, &|place| !place.write && place.bytes != 8192), 0.0);
        assert!((share(&sizes, &|place| place.write && place.bytes == 65536) - 0.25).abs() < 0.01);
    }

    #[test]
    fn every_block_is_reached() {
        for distribution in ["uniform", "shuffle", "zipf 0.8", "zipf 1.2", "hot 80% in 20%"] {
            let pattern = pattern(&[("distribution", distribution)], &[4096 * 50, 4096 * 14]);
            let seen: HashSet<(u32, u64)> =
                (0..50_000).map(|n| pattern.place(n, 0)).map(|place| (place.file, place.offset)).collect();
            assert_eq!(seen.len(), 64, "{distribution}");
        }
    }

    proptest! {
        #[test]
        fn every_place_is_inside_and_aligned(
            sizes in prop::collection::vec(262_144_u64..(1 << 40), 1..5),
            number in any::<u64>(),
            attempt in 0_u32..64,
            choice in 0_usize..18,
        ) {
            let pairs: &[(&str, &str)] = [
                &[("block_size", "4KiB")][..],
                &[("block_size", "4KiB,12KiB,64KiB"), ("read_percent", "50%")],
                &[("access", "sequential"), ("block_size", "4KiB,12KiB,64KiB")],
                &[("access", "sequential"), ("stride", "100KiB")],
                &[("distribution", "zipf 1.1"), ("align", "4KiB"), ("block_size", "64KiB")],
                &[("distribution", "hot 50% in 1%")],
                &[("distribution", "zones 1% in 0.0001%, 98% in 0.0001%, 1% in 99.9998%")],
                &[("distribution", "shuffle"), ("block_size", "64KiB")],
                &[("access", "sequential"), ("reverse", "true"), ("block_size", "12KiB"), ("stride", "16KiB")],
                &[("write_block_size", "4KiB,64KiB"), ("read_percent", "50%"), ("trim_percent", "10%")],
                &[("distribution", "pareto 0.2"), ("block_size", "64KiB")],
                &[("distribution", "normal 20%"), ("align", "4KiB")],
                &[("distribution", "sequence 2,0,999999,1 moving")],
                &[("distribution", "zones 60% in 1GiB, 40% in 2GiB"), ("block_size", "12KiB")],
                &[("access", "sequential"), ("reverse", "true"), ("passes", "same"), ("stride", "20KiB")],
                &[("access", "sequential"), ("zone_size", "32KiB"), ("zone_skip", "100KiB")],
                &[("block_size", "64KiB 20% rt:0, 64KiB 80% idle"), ("distribution", "shuffle")],
                &[("access", "sequential"), ("block_size", "12KiB 50% be:1, 12KiB 50%"), ("stride", "16KiB")],
            ][choice];
            let pattern = pattern(pairs, &sizes);
            let place = pattern.place(number, attempt);
            prop_assert_eq!(place, pattern.place(number, attempt));
            prop_assert!(place.offset + u64::from(place.bytes) <= sizes[place.file as usize]);
            prop_assert_eq!(place.offset % 4096, 0);
        }
    }
}
