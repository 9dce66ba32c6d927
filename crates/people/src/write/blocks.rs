//! Formats people on all CPUs and returns the blocks in order: a block of people depends on their numbers
//! alone.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::{Form, Format, names, people_table};
use crate::attributes::Record;
use crate::population::Population;

/// Number of people per block: a multiple of the hundred rows of an INSERT.
const NUMBERS: u64 = 2000;

/// Limit of the threads; with more, the disk is the bottleneck.
const THREADS_MAX: usize = 8;

/// The text of a range of people.
#[derive(Default)]
pub(super) struct Block {
    pub(super) text: Vec<u8>,
    pub(super) records: u64,
}

/// A thread that formats every n-th block.
struct Lane {
    full: Receiver<Block>,
    /// Blocks to be reused.
    empty: SyncSender<Block>,
}

/// Passes every block to `take`, in order, until it returns false, which is then the result. At most three
/// blocks per thread are in memory.
pub(super) fn for_each(
    people: &Population,
    attributes: usize,
    format: &Format,
    mut take: impl FnMut(&Block) -> io::Result<bool>,
) -> io::Result<bool> {
    let blocks = people.numbers_end().div_ceil(NUMBERS);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX) as u64;
    let threads = threads.min(blocks).max(1);
    thread::scope(|scope| {
        let mut lanes = Vec::new();
        for first in 0..threads {
            let (give, full) = sync_channel(1);
            let (empty, reuse) = sync_channel(3);
            let mine = (first..blocks).step_by(threads as usize);
            let make = move || make(people, attributes, format, mine, &give, &reuse);
            thread::Builder::new().name("people".into()).spawn_scoped(scope, make)?;
            lanes.push(Lane { full, empty });
        }
        for lane in lanes.iter().cycle().take(blocks as usize) {
            let block = lane.full.recv().map_err(|_| io::Error::other("a thread that makes people ended"))?;
            if !take(&block)? {
                return Ok(false);
            }
            // A thread that has made its last block needs none back.
            let _ = lane.empty.try_send(block);
        }
        Ok(true)
    })
}

/// Formats blocks until there are no more, or until the receiver is gone.
fn make(
    people: &Population,
    attributes: usize,
    format: &Format,
    blocks: impl Iterator<Item = u64>,
    give: &SyncSender<Block>,
    reuse: &Receiver<Block>,
) {
    let names = names(attributes);
    let mut form = Form::new(format, people_table(&names));
    let mut record = Record::new(attributes);
    for number in blocks {
        let mut block = reuse.try_recv().unwrap_or_default();
        block.text.clear();
        block.records = 0;
        for index in numbers(people, number) {
            if people.read(index, &mut record) {
                form.person(people, &record, &mut block.text);
                block.records += 1;
            }
        }
        form.end_block(&mut block.text);
        if give.send(block).is_err() {
            return;
        }
    }
}

fn numbers(people: &Population, block: u64) -> Range<u64> {
    let begin = block * NUMBERS;
    begin..(begin + NUMBERS).min(people.numbers_end())
}
