//! Where an operation goes: a pure function of the trial's seed, the operation's number and the settings.

use super::grammar::{BlockShare, Distribution, Zone};
use super::random::{Draws, Scramble, Zipf, mix, threshold};
use super::settings::{Access, DiskPlan};

/// Operations after which the order of sizes in a sequential mix repeats: shares are kept to 0.1 %.
const CYCLE: usize = 1000;

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
}

#[derive(Clone, Debug)]
enum Order {
    /// Block sizes of reads, and of writes where they differ.
    Random(Vec<Class>, Vec<Class>),
    Sequential(Stream),
    /// Reads and writes each have a stream; writes are this share of 2^32.
    Apart(Stream, u64),
}

/// One block size of a random mix.
#[derive(Clone, Debug)]
struct Class {
    /// A draw below this takes this class, when it was not below that of the one before.
    threshold: u64,
    bytes: u32,
    align: u64,
    /// Places in all files up to and including each.
    places: Vec<u64>,
    spread: Spread,
}

#[derive(Clone, Debug)]
enum Spread {
    Uniform,
    Shuffle(Scramble),
    Zipf(Zipf, Scramble),
    Zones(Vec<Part>),
}

/// A zone: a draw below `threshold` falls into it, when it was not below that of the one before.
#[derive(Clone, Debug)]
struct Part {
    threshold: u64,
    first: u64,
    places: u64,
}

/// Sequential access: a cycle of sizes and where each begins in it.
#[derive(Clone, Debug)]
struct Stream {
    starts: Vec<u64>,
    bytes: Vec<u32>,
    cycle_bytes: u64,
    /// With a stride, each pass over the file begins one block further, this many times before it repeats.
    lanes: u64,
    /// From the end to the start.
    reverse: bool,
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
                let stream = Stream { reverse: plan.reverse, ..Stream::new(&plan.blocks, plan.stride) };
                match plan.is_apart {
                    true => {
                        let writes = ((1.0 - plan.read_share) * APART_WHOLE as f64).round() as u64;
                        Order::Apart(stream, writes)
                    }
                    false => Order::Sequential(stream),
                }
            }
        };
        Pattern {
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
        if let Order::Apart(stream, writes) = &self.order {
            return self.place_apart(stream, *writes, number);
        }
        let mut draws = Draws::new(self.seed, number, attempt);
        let trim = draws.chance(self.trim_threshold);
        let write = trim || !draws.chance(self.read_threshold);
        let (file, offset, bytes) = match &self.order {
            Order::Random(reads, writes) => {
                let classes = if write && !writes.is_empty() { writes } else { reads };
                random(classes, &mut draws, (number, attempt))
            }
            Order::Sequential(stream) | Order::Apart(stream, _) => stream.place(number, &self.sizes),
        };
        Place { file, bytes, offset: self.base + offset, write, trim }
    }

    /// Reads and writes alternate evenly, and each counts its own blocks.
    fn place_apart(&self, stream: &Stream, writes: u64, number: u64) -> Place {
        let before = |number: u64| (u128::from(number) * u128::from(writes) / u128::from(APART_WHOLE)) as u64;
        let written = before(number);
        let write = before(number.saturating_add(1)) > written;
        let (file, offset, bytes) = stream.place(if write { written } else { number - written }, &self.sizes);
        Place { file, bytes, offset: self.base + offset, write, trim: false }
    }
}

fn classes(plan: &DiskPlan, blocks: &[BlockShare], sizes: &[u64], seed: u64) -> Vec<Class> {
    let mut share = 0.0;
    blocks
        .iter()
        .enumerate()
        .map(|(index, block)| {
            share += block.share;
            let last = index + 1 == blocks.len();
            let align = plan.align.unwrap_or(block.bytes);
            let mut places = Vec::with_capacity(sizes.len());
            let mut total = 0;
            for size in sizes {
                total += size.saturating_sub(block.bytes) / align + 1;
                places.push(total);
            }
            let spread = match &plan.distribution {
                Distribution::Uniform => Spread::Uniform,
                Distribution::Shuffle => Spread::Shuffle(Scramble::keyed(total, mix(seed))),
                Distribution::Zipf { exponent } => {
                    Spread::Zipf(Zipf::new(total, *exponent), Scramble::new(total))
                }
                Distribution::Zones(zones) => Spread::Zones(parts(zones, total)),
            };
            Class {
                threshold: if last { u64::MAX } else { threshold(share) },
                bytes: block.bytes as u32,
                align,
                places,
                spread,
            }
        })
        .collect()
}

/// Zones as places of a whole; each has one place at least.
fn parts(zones: &[Zone], total: u64) -> Vec<Part> {
    let (mut operations, mut blocks) = (0.0, 0.0);
    zones
        .iter()
        .enumerate()
        .map(|(index, zone)| {
            let place = |share: f64| ((total as f64 * share).round() as u64).min(total);
            let first = place(blocks).min(total - 1);
            operations += zone.operations;
            blocks += zone.blocks;
            let last = index + 1 == zones.len();
            let end = if last { total } else { place(blocks).max(first + 1) };
            let threshold = if last { u64::MAX } else { threshold(operations) };
            Part { threshold, first, places: end - first }
        })
        .collect()
}

#[inline]
fn random(classes: &[Class], draws: &mut Draws, (number, attempt): (u64, u32)) -> (u32, u64, u32) {
    let class = match classes {
        [one] => one,
        several => {
            let draw = draws.next();
            let index = several.iter().position(|class| draw < class.threshold).unwrap_or(several.len() - 1);
            &several[index]
        }
    };
    let total = class.places.last().copied().unwrap_or(1);
    let place = match &class.spread {
        Spread::Uniform => draws.below(total),
        Spread::Zipf(zipf, scramble) => scramble.place(zipf.rank(draws)),
        // A block that an operation in flight has to itself is left out of this pass.
        Spread::Shuffle(_) if attempt > 0 => draws.below(total),
        Spread::Shuffle(scramble) => scramble.place_in_pass(number % total, number / total),
        Spread::Zones(parts) => {
            let draw = draws.next();
            match parts.iter().find(|part| draw < part.threshold).or(parts.last()) {
                Some(part) => part.first + draws.below(part.places),
                None => draws.below(total),
            }
        }
    };
    let (file, place) = match class.places.as_slice() {
        [_] => (0, place),
        places => {
            let file = places.partition_point(|end| *end <= place);
            (file as u32, if file == 0 { place } else { place - places[file - 1] })
        }
    };
    (file, place * class.align, class.bytes)
}

impl Stream {
    fn new(blocks: &[BlockShare], stride: Option<u64>) -> Self {
        let mut bytes: Vec<u32> = match blocks {
            [one] => vec![one.bytes as u32],
            several => {
                let mut sizes = Vec::with_capacity(CYCLE);
                let mut share = 0.0;
                for block in several {
                    share += block.share;
                    sizes.resize(((share * CYCLE as f64).round() as usize).min(CYCLE), block.bytes as u32);
                }
                sizes
            }
        };
        // A fixed shuffle (Fisher-Yates), so that sizes alternate.
        for last in (1..bytes.len()).rev() {
            bytes.swap(last, Draws::new(0, last as u64, 0).below(last as u64 + 1) as usize);
        }
        let mut starts = Vec::with_capacity(bytes.len());
        let mut cycle_bytes = 0;
        let mut lanes = 1;
        for &size in &bytes {
            starts.push(cycle_bytes);
            cycle_bytes += stride.unwrap_or(u64::from(size));
            lanes = (stride.unwrap_or(0) / u64::from(size).max(1)).max(1);
        }
        Stream { starts, bytes, cycle_bytes: cycle_bytes.max(1), lanes, reverse: false }
    }

    /// Files take turns; within a file one block follows the other, and after the last comes the first.
    #[inline]
    fn place(&self, number: u64, sizes: &[u64]) -> (u32, u64, u32) {
        let (file, turn) = match sizes {
            [_] => (0, number),
            _ => ((number % sizes.len() as u64) as usize, number / sizes.len() as u64),
        };
        let size = sizes[file];
        if let [bytes] = self.bytes[..] {
            let last = size.saturating_sub(u64::from(bytes));
            let last = if self.reverse { last / u64::from(bytes) * u64::from(bytes) } else { last };
            let turns = last / self.cycle_bytes + 1;
            let offset = turn % turns * self.cycle_bytes;
            if self.reverse {
                return (file as u32, last - offset, bytes);
            }
            let lane = if self.lanes > 1 { turn / turns % self.lanes * u64::from(bytes) } else { 0 };
            let offset = if offset + lane <= last { offset + lane } else { offset };
            return (file as u32, offset, bytes);
        }
        let at = (turn % self.bytes.len() as u64) as usize;
        let bytes = self.bytes[at];
        // The cycle is not cut at the file's end: whatever would cross it goes to the start instead, so that every
        // place is a sum of whole blocks.
        let cycles = (size / self.cycle_bytes).max(1);
        let offset = turn / self.bytes.len() as u64 % cycles * self.cycle_bytes + self.starts[at];
        let offset = if offset + u64::from(bytes) <= size { offset } else { 0 };
        (file as u32, offset, bytes)
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
            choice in 0_usize..10,
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
            ][choice];
            let pattern = pattern(pairs, &sizes);
            let place = pattern.place(number, attempt);
            prop_assert_eq!(place, pattern.place(number, attempt));
            prop_assert!(place.offset + u64::from(place.bytes) <= sizes[place.file as usize]);
            prop_assert_eq!(place.offset % 4096, 0);
        }
    }
}
