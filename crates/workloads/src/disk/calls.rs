//! Operations as system calls, one at a time: for kernels and containers that refuse io_uring.

use std::os::unix::fs::FileExt;

use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Share, Worker};
use model::Nanos;

use super::buffer::Buffers;
use super::failure::{failed, transfer_failed, transfer_short};
use super::prepare::Ready;
use super::settings::DiskPlan;
use super::stream::{Step, Stream};

/// One thread, one operation in flight. Each completes inside `submit`.
pub(super) struct CallWorker<'a> {
    stream: Stream<'a>,
    buffers: Buffers,
    /// What `submit` cannot say itself; the next `reap` does.
    error: Option<LoadError>,
}

impl<'a> CallWorker<'a> {
    pub(super) fn new(plan: &DiskPlan, ready: &'a Ready, share: &Share) -> Result<Self, LoadError> {
        let buffers = Buffers::new(1, plan.largest_block() as usize).map_err(|error| {
            LoadError::new(format!("no memory for buffers: {error}"), "use smaller blocks")
        })?;
        Ok(CallWorker { stream: Stream::new(plan, ready, share.seed, share.of), buffers, error: None })
    }

    #[cold]
    fn fail(&mut self, error: LoadError) -> Admission {
        self.error = Some(error);
        Admission::Busy
    }
}

impl Worker for CallWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if self.error.is_some() {
            return Admission::Busy;
        }
        match self.stream.next(operation.number) {
            Step::Taken => Admission::Busy,
            Step::Sync(file) => {
                let file = &self.stream.ready.files[file as usize];
                match file.file.sync_data() {
                    Ok(()) => Admission::Completed(Done {
                        kind: self.stream.kinds.sync,
                        outcome: Outcome::Well,
                        bytes: 0,
                        count: 1,
                    }),
                    Err(error) => {
                        let error = failed("flush", &file.path, &error);
                        self.fail(error)
                    }
                }
            }
            Step::Transfer(place) => {
                let file = &self.stream.ready.files[place.file as usize];
                let block = self.buffers.block(0, place.bytes as usize);
                let moved = if place.write {
                    self.stream.fill(&place, operation.number, block);
                    file.file.write_at(block, place.offset)
                } else {
                    file.file.read_at(block, place.offset)
                };
                match moved {
                    Ok(moved) if moved == block.len() => {
                        Admission::Completed(self.stream.settle(&place, block))
                    }
                    Ok(moved) => {
                        let error =
                            transfer_short(place.write, &file.path, place.offset, place.bytes, moved as u32);
                        self.fail(error)
                    }
                    Err(error) => {
                        let error =
                            transfer_failed(place.write, &file.path, place.offset, place.bytes, &error);
                        self.fail(error)
                    }
                }
            }
        }
    }

    fn reap(&mut self, _until: Nanos, _done: &mut Vec<Completion>) -> Result<(), LoadError> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn remarks(&mut self, out: &mut Vec<String>) {
        self.stream.remarks(out);
    }
}
