//! Random access: which block of all an operation goes to.

use super::grammar::{BlockShare, Distribution};
use super::random::{Draws, Scramble, Zipf, mix, threshold};
use super::settings::DiskPlan;

/// One block size of a random mix.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// A draw below this takes this class, when it was not below that of the one before.
    threshold: u64,
    bytes: u32,
    /// See [`super::pattern::Place`].
    priority: u16,
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
    /// The power of a uniform draw, see [`Distribution::Pareto`].
    Pareto(f64, Scramble),
    /// Places that a draw around the middle adds, see [`Distribution::Normal`].
    Normal(u64, Scramble),
    Zones(Vec<Part>),
    /// Places by turns, and whether each turn over them begins behind the one before.
    Sequence(Vec<u64>, bool),
}

/// A zone: a draw below `threshold` falls into it, when it was not below that of the one before.
#[derive(Clone, Debug)]
struct Part {
    threshold: u64,
    first: u64,
    places: u64,
}

/// A random place: file, offset from the plan's, bytes and priority.
pub(super) type Drawn = (u32, u64, u32, u16);

/// The classes of a mix over files of these usable sizes.
pub(super) fn classes(plan: &DiskPlan, blocks: &[BlockShare], sizes: &[u64], seed: u64) -> Vec<Class> {
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
            Class {
                threshold: if last { u64::MAX } else { threshold(share) },
                bytes: block.bytes as u32,
                priority: block.priority,
                align,
                places,
                spread: Spread::new(&plan.distribution, (total, align), seed),
            }
        })
        .collect()
}

impl Spread {
    /// Over `total` places that are `align` bytes apart.
    fn new(distribution: &Distribution, (total, align): (u64, u64), seed: u64) -> Self {
        let scramble = Scramble::new(total);
        match distribution {
            Distribution::Uniform => Spread::Uniform,
            Distribution::Shuffle => Spread::Shuffle(Scramble::keyed(total, mix(seed))),
            Distribution::Zipf { exponent } => Spread::Zipf(Zipf::new(total, *exponent), scramble),
            Distribution::Pareto { h } => Spread::Pareto(h.ln() / (1.0 - h).ln(), scramble),
            Distribution::Normal { deviation } => {
                let width = (total as f64 * deviation).ceil() as u64;
                Spread::Normal(width.min(total / 2), scramble)
            }
            Distribution::Zones(zones) => {
                let mut blocks = 0.0;
                let ends = zones.iter().enumerate().map(|(index, zone)| {
                    blocks += zone.blocks;
                    let end = (total as f64 * blocks).round() as u64;
                    (zone.operations, if index + 1 == zones.len() { total } else { end })
                });
                Spread::Zones(parts(ends.collect(), total))
            }
            Distribution::Stretches(zones) => {
                let mut bytes = 0_u64;
                let ends = zones.iter().map(|(operations, length)| {
                    bytes = bytes.saturating_add(*length);
                    (*operations, bytes / align)
                });
                Spread::Zones(parts(ends.collect(), total))
            }
            Distribution::Sequence { places, moves } => Spread::Sequence(places.clone(), *moves),
        }
    }

    #[inline]
    fn place(&self, total: u64, draws: &mut Draws, (number, attempt): (u64, u32)) -> u64 {
        match self {
            Spread::Uniform => draws.below(total),
            Spread::Zipf(zipf, scramble) => scramble.place(zipf.rank(draws)),
            // A block that an operation in flight has to itself is left out of this pass.
            Spread::Shuffle(_) | Spread::Sequence(..) if attempt > 0 => draws.below(total),
            Spread::Shuffle(scramble) => scramble.place_in_pass(number % total, number / total),
            Spread::Pareto(power, scramble) => scramble.place(pareto(*power, total, draws)),
            Spread::Normal(width, scramble) => scramble.place(normal(*width, total, draws)),
            Spread::Zones(parts) => {
                let draw = draws.next();
                match parts.iter().find(|part| draw < part.threshold).or(parts.last()) {
                    Some(part) => part.first + draws.below(part.places),
                    None => draws.below(total),
                }
            }
            Spread::Sequence(places, moves) => {
                let turn = places.len() as u64;
                let place = places.get((number % turn) as usize).copied().unwrap_or(0);
                let begin = if *moves { number / turn % (total / turn).max(1) * turn } else { 0 };
                (begin + place) % total
            }
        }
    }
}

/// A rank below `n`: (n - 1) u^p of a uniform u, as fio defines `pareto`.
fn pareto(power: f64, n: u64, draws: &mut Draws) -> u64 {
    ((n.saturating_sub(1)) as f64 * draws.unit().powf(power)) as u64
}

/// A rank below `n`: the mean of 12 uniform ones, moved by up to half of `width`, as fio defines `normal`.
fn normal(width: u64, n: u64, draws: &mut Draws) -> u64 {
    const DRAWS: u64 = 12;
    let sum: u128 = (0..DRAWS).map(|_| u128::from(draws.below(n.saturating_add(1)))).sum();
    let mean = (sum.div_ceil(u128::from(DRAWS)) as u64).min(n - 1);
    if width == 0 {
        return mean;
    }
    let (by, half) = (draws.below(width), width / 2);
    let mut moved = by.abs_diff(half);
    loop {
        let rank = if by < half { mean.checked_sub(moved) } else { mean.checked_add(moved) };
        match rank {
            Some(rank) if rank < n => return rank,
            _ => moved /= 2,
        }
    }
}

/// Zones as places of a whole, from their shares of the operations and their ends; each has one place at least.
fn parts(zones: Vec<(f64, u64)>, total: u64) -> Vec<Part> {
    let (mut operations, mut before) = (0.0, 0_u64);
    let count = zones.len();
    zones
        .into_iter()
        .enumerate()
        .map(|(index, (share, end))| {
            let first = before.min(total - 1);
            operations += share;
            before = end.clamp(first + 1, total);
            let threshold = if index + 1 == count { u64::MAX } else { threshold(operations) };
            Part { threshold, first, places: before - first }
        })
        .collect()
}

#[inline]
pub(super) fn random(classes: &[Class], draws: &mut Draws, numbers: (u64, u32)) -> Drawn {
    let class = match classes {
        [one] => one,
        several => {
            let draw = draws.next();
            let index = several.iter().position(|class| draw < class.threshold).unwrap_or(several.len() - 1);
            &several[index]
        }
    };
    let total = class.places.last().copied().unwrap_or(1);
    let place = class.spread.place(total, draws, numbers);
    let (file, place) = match class.places.as_slice() {
        [_] => (0, place),
        places => {
            let file = places.partition_point(|end| *end <= place);
            (file as u32, if file == 0 { place } else { place - places[file - 1] })
        }
    };
    (file, place * class.align, class.bytes, class.priority)
}
