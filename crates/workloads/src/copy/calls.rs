//! Moves blocks by system calls, one at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Worker};
use model::Nanos;

use super::block::{Block, Buffer, Step, Transfer};
use super::failure::failed;
use super::progress::{Next, Progress};
use super::{KIND_COPY, KIND_SYNC};

/// A worker that copies a block inside `submit`.
pub(super) struct CallWorker<'a> {
    progress: &'a Progress,
    buffer: Buffer,
    /// Told by the next `reap`, since `submit` has no words for it.
    failed: Option<LoadError>,
}

impl<'a> CallWorker<'a> {
    pub(super) fn new(progress: &'a Progress) -> Self {
        CallWorker { progress, buffer: Buffer::new(progress.block_bytes, progress.seed), failed: None }
    }

    fn copy(&mut self, block: Block) -> Result<Done, LoadError> {
        let bytes = block.bytes;
        let mut transfer = Transfer::begin(block, self.progress.direct, &mut self.buffer, self.progress.seed);
        while let Some(request) = transfer.request() {
            let part = &mut self.buffer.all()[request.from..request.to];
            let result = match request.step {
                Step::Read => request.file.read_at(part, request.offset),
                Step::Write => request.file.write_at(part, request.offset),
            };
            if transfer.advance(result, &mut self.buffer)? {
                break;
            }
        }
        self.progress.copied(&transfer.into_block())?;
        Ok(Done::new(KIND_COPY, Outcome::Well, bytes))
    }

    fn carry_out(&mut self) -> Result<Admission, LoadError> {
        Ok(match self.progress.next()? {
            Next::Copy(block) => Admission::Completed(self.copy(block)?),
            Next::Sync(file, path) => {
                file.sync_all().map_err(|error| failed("flushing", &path, &error))?;
                Admission::Completed(Done::new(KIND_SYNC, Outcome::Well, 0))
            }
            Next::SyncAll(file, path) => sync_all(&file, &path)?,
            // Whoever copies the last block asks again after it, and gets the flushes.
            Next::NotYet | Next::Nothing => Admission::Exhausted,
        })
    }
}

/// Flushes the file system of a file, which no ring does.
pub(super) fn sync_all(file: &File, path: &Path) -> Result<Admission, LoadError> {
    rustix::fs::syncfs(file).map_err(|error| failed("flushing the file system of", path, &error.into()))?;
    Ok(Admission::Completed(Done::new(KIND_SYNC, Outcome::Well, 0)))
}

impl Worker for CallWorker<'_> {
    fn submit(&mut self, _operation: Operation) -> Admission {
        self.carry_out().unwrap_or_else(|error| {
            self.failed = Some(error);
            Admission::Busy
        })
    }

    fn kind_of(&self, _operation: Operation, _accepted: bool) -> Option<u16> {
        Some(KIND_COPY)
    }

    fn reap(&mut self, _until: Nanos, _done: &mut Vec<Completion>) -> Result<(), LoadError> {
        self.failed.take().map_or(Ok(()), Err)
    }
}
