//! Writes that bring a flash device into the state after long random writing, in one pass over little more than its size: fio's
//! `sprandom`.
//!
//! The device is seen as regions of the same physical size, over-provisioning among them. In a steady state a region with fewer
//! valid blocks takes more of the device, in inverse proportion (P. Desnoyers, Analytic Models of SSD Write Performance, ACM
//! Transactions on Storage 8(2), 2012). Each region is written with blocks in random order, and a part of them is written once more
//! while the next region is: so each is left with the validity that belongs to it.

use std::collections::VecDeque;

use super::random::{Draws, Scramble, mix};

/// Most regions.
pub(super) const REGIONS_MAX: usize = 100_000;

/// Regions, and the over-provisioning of the device as a share of its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sprandom {
    pub(super) spare: f64,
    pub(super) regions: usize,
}

/// The writes so far, and what comes next.
#[derive(Debug)]
pub(super) struct Course {
    order: Scramble,
    blocks: u64,
    /// How many blocks were written for the first time.
    begun: u64,
    /// Share of each region's blocks that are to be written once more.
    invalid: Vec<f64>,
    region: usize,
    writes_of_region: u64,
    /// Blocks that are still to be written for the first time in this region.
    left: u64,
    again: VecDeque<u64>,
    /// To be written again once the next region has begun.
    later: Vec<u64>,
    seed: u64,
    drawn: u64,
}

impl Course {
    /// Over `blocks` blocks.
    pub(super) fn new(what: Sprandom, blocks: u64, seed: u64) -> Self {
        let regions = what.regions.clamp(1, REGIONS_MAX);
        let physical = blocks.saturating_add((blocks as f64 * what.spare).ceil() as u64);
        let writes_of_region = physical / regions as u64;
        Course {
            order: Scramble::keyed(blocks.max(1), mix(seed)),
            blocks,
            begun: 0,
            invalid: validities(what.spare, regions).into_iter().map(|valid| 1.0 - valid).collect(),
            region: 0,
            writes_of_region,
            left: writes_of_region,
            again: VecDeque::new(),
            later: Vec::new(),
            seed: mix(seed ^ 1),
            drawn: 0,
        }
    }

    /// The next block; none when the device is in its state.
    pub(super) fn next(&mut self) -> Option<u64> {
        if let Some(block) = self.again.pop_front() {
            return Some(self.written(block));
        }
        if self.left == 0 {
            if self.region >= self.invalid.len() {
                return None;
            }
            self.region += 1;
            self.left = self.writes_of_region.saturating_sub(self.later.len() as u64);
            self.again.extend(self.later.drain(..));
        }
        if self.begun >= self.blocks {
            return None;
        }
        let block = self.order.place_in_pass(self.begun, 0);
        self.begun += 1;
        self.left = self.left.saturating_sub(1);
        Some(self.written(block))
    }

    /// A block is written, and perhaps again in the next region.
    fn written(&mut self, block: u64) -> u64 {
        let again = self.invalid.get(self.region).copied().unwrap_or(0.0);
        self.drawn += 1;
        if Draws::new(self.seed, self.drawn, 0).unit() < again {
            self.later.push(block);
        }
        block
    }
}

/// Share of valid blocks in each of some regions of the same size, from the one that was written first to the last.
fn validities(spare: f64, regions: usize) -> Vec<f64> {
    // Write amplification of a greedy collector, and the validity of what it collects.
    let amplification = (0.5 / spare + 0.7).max(1.0 + 1e-9);
    let least = 1.0 - 1.0 / amplification;
    let at = |from: f64, to: f64, index: usize| match regions {
        1 => from,
        _ => from + (to - from) * index as f64 / (regions - 1) as f64,
    };
    // Validity falls evenly, and each step takes space in inverse proportion.
    let mut space = 0.0;
    let curve: Vec<(f64, f64)> = (0..regions)
        .map(|index| {
            let valid = at(1.0, least, index);
            space += 1.0 / valid;
            (space, valid)
        })
        .collect();
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return Vec::new() };
    // The same curve at even steps of space.
    let mut valid: Vec<f64> = (0..regions)
        .map(|index| {
            let x = at(first.0, last.0, index);
            let behind = curve.partition_point(|point| point.0 < x).clamp(1, curve.len().max(2) - 1);
            match (curve.get(behind - 1), curve.get(behind)) {
                (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0),
                _ => first.1,
            }
        })
        .collect();
    valid.reverse();
    valid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_written_and_some_again_in_the_next_region() {
        let (blocks, what) = (200_000, Sprandom { spare: 0.15, regions: 100 });
        let mut course = Course::new(what, blocks, 7);
        let mut count = vec![0_u32; blocks as usize];
        let mut last = vec![0_u64; blocks as usize];
        let mut total = 0;
        while let Some(block) = course.next() {
            count[block as usize] += 1;
            last[block as usize] = total;
            total += 1;
        }
        assert!(count.iter().all(|count| *count > 0));
        let physical = blocks as f64 * 1.15;
        assert!((total as f64 / physical - 1.0).abs() < 0.01, "{total} of {physical}");
        // Each region keeps the share of its blocks that the model says.
        let region = total / 100;
        for (index, expected) in validities(0.15, 100).into_iter().enumerate().take(99) {
            let index = index as u64;
            let valid = last.iter().filter(|at| **at / region == index).count() as f64 / region as f64;
            assert!((valid - expected).abs() < 0.06, "region {index}: {valid}, not {expected}");
        }
    }
}
