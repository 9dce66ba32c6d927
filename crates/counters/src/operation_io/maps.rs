//! The maps that programs and reader share, and their layout.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use model::operation_io::{IoCounts, IoKind};

use super::system_calls::{self, MapKind};

/// Operations at most.
pub(super) const OPERATIONS_MAX: usize = 16;
/// The row of the process outside operations.
pub(super) const NO_OPERATION: usize = 0;
/// The row of what could not be attributed, because a map was full.
pub(super) const LOST: usize = OPERATIONS_MAX + 1;
const ROWS: usize = OPERATIONS_MAX + 2;
/// Numbers in a row: operations, then one for each [`IoKind`], then unused ones up to a power of two.
const COLUMNS: usize = 16;
/// The size of a row.
pub(super) const ROW_BYTES: i32 = COLUMNS as i32 * 8;
/// Threads at most that have been seen in operations.
const THREADS_MAX: u32 = 32_768;
/// Processes and kernel threads at most that use the device.
const OTHERS_MAX: u32 = 4096;
/// Open regular files at most.
const FILES_MAX: u32 = 65_536;

/// The offset of the number of operations in a row.
pub(super) const OPERATIONS: i16 = 0;

/// The offset of a kind in a row.
pub(super) const fn offset(kind: IoKind) -> i16 {
    (1 + kind as i16) * 8
}

/// The state of a thread: `u64` operation in flight, by row, 0 for none; `u64` stack pointer at the start of the operation.
pub(super) mod thread {
    pub(in super::super) const OPERATION: i16 = 0;
    pub(in super::super) const STACK: i16 = 8;
    pub(super) const BYTES: u32 = 16;
}

/// One row of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row([u64; COLUMNS]);

impl Row {
    pub(super) fn operations(&self) -> u64 {
        self.0[0]
    }

    pub(super) fn io(&self, kinds: impl Iterator<Item = IoKind>) -> IoCounts {
        kinds.map(|kind| (kind, self.0[1 + kind as usize])).collect()
    }

    fn add(&mut self, other: &[u64]) {
        for (sum, value) in self.0.iter_mut().zip(other) {
            *sum = sum.wrapping_add(*value);
        }
    }

    /// The increase since an earlier state.
    pub(super) fn since(&self, before: &Row) -> Row {
        Row(std::array::from_fn(|at| self.0[at].saturating_sub(before.0[at])))
    }

    pub(super) fn plus(mut self, other: &Row) -> Row {
        self.add(&other.0);
        self
    }
}

/// All maps.
pub(super) struct Maps {
    counters: OwnedFd,
    threads: OwnedFd,
    others: OwnedFd,
    files: OwnedFd,
    /// Room for the counters of every CPU.
    buffer: Vec<u64>,
}

impl Maps {
    /// Makes them. `cpus` is the number of CPUs that the kernel could ever have.
    pub(super) fn create(cpus: usize) -> io::Result<Maps> {
        let key = size_of::<u32>() as u32;
        let row = ROW_BYTES as u32;
        Ok(Maps {
            counters: system_calls::create_map(MapKind::PerCpuArray, key, ROWS as u32 * row, 1)?,
            threads: system_calls::create_map(MapKind::Hash, key, thread::BYTES, THREADS_MAX)?,
            others: system_calls::create_map(MapKind::Hash, key, row, OTHERS_MAX)?,
            files: system_calls::create_map(MapKind::Hash, key, size_of::<u64>() as u32, FILES_MAX)?,
            buffer: vec![0; cpus * ROWS * COLUMNS],
        })
    }

    pub(super) fn counters(&self) -> i32 {
        self.counters.as_raw_fd()
    }

    pub(super) fn threads(&self) -> i32 {
        self.threads.as_raw_fd()
    }

    pub(super) fn others(&self) -> i32 {
        self.others.as_raw_fd()
    }

    pub(super) fn files(&self) -> i32 {
        self.files.as_raw_fd()
    }

    /// The counts of each row, summed over all CPUs.
    pub(super) fn rows(&mut self) -> io::Result<Vec<Row>> {
        system_calls::lookup(&self.counters, 0, &mut self.buffer)?;
        let mut rows = vec![Row::default(); ROWS];
        for cpu in self.buffer.chunks_exact(ROWS * COLUMNS) {
            for (row, counts) in rows.iter_mut().zip(cpu.chunks_exact(COLUMNS)) {
                row.add(counts);
            }
        }
        Ok(rows)
    }

    /// The counts of other processes and of threads of the kernel, by process id.
    pub(super) fn others_by_process(&self) -> Vec<(u32, Row)> {
        let mut found = Vec::new();
        let mut key = None;
        // The map cannot grow past this; a key that is removed meanwhile could lead back to the first.
        while let Some(next) =
            system_calls::next_key(&self.others, key).filter(|_| found.len() < OTHERS_MAX as usize)
        {
            let mut row = Row::default();
            if system_calls::lookup(&self.others, next, &mut row.0).is_ok() {
                found.push((next, row));
            }
            key = Some(next);
        }
        found
    }

    /// Registers the descriptor of a regular file, or removes it.
    pub(super) fn set_file(&self, descriptor: u32, is_file: bool) -> io::Result<()> {
        match is_file {
            true => system_calls::update(&self.files, descriptor, &[1]),
            false => system_calls::delete(&self.files, descriptor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_place_in_a_row() {
        assert!(IoKind::ALL.into_iter().all(|kind| i32::from(offset(kind)) < ROW_BYTES));
        // Offsets of instructions are 16 bits.
        assert!(ROWS as i32 * ROW_BYTES < i32::from(i16::MAX));
    }
}
