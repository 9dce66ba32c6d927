//! Moves blocks by io_uring: any number in flight on one thread, each a read and then a write.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::OnceLock;

use engine::clock::Clock;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Worker};
use io_uring::{IoUring, opcode, squeue, types};
use model::{Nanos, SECOND};

use super::block::{Buffer, Step, Transfer};
use super::calls::sync_all;
use super::failure::failed;
use super::progress::{Next, Progress};
use super::settings::OUTSTANDING_MAX;
use super::{KIND_COPY, KIND_SYNC};

/// Does the kernel permit a ring here, and one whose waits can end by themselves (Linux 5.11)? Asked once.
pub(super) fn permitted() -> Result<(), &'static str> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    let answer = ANSWER.get_or_init(|| match IoUring::new(1) {
        Ok(ring) if ring.params().is_feature_ext_arg() => Ok(()),
        Ok(_) => Err("the kernel is older than 5.11".into()),
        Err(error) => Err(error.to_string()),
    });
    answer.as_ref().map(|_| ()).map_err(String::as_str)
}

/// What a slot is busy with.
enum Work {
    Copy(Transfer),
    Sync(File, PathBuf),
}

/// A place for one operation in flight.
struct Slot {
    buffer: Buffer,
    ticket: u32,
    work: Option<Work>,
}

/// A worker that keeps blocks in flight.
pub(super) struct RingWorker<'a> {
    progress: &'a Progress,
    clock: Clock,
    ring: IoUring,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Requests the kernel has or will get, at most one for a slot.
    in_flight: usize,
    /// Blocks without bytes, which need no request.
    empty: Vec<usize>,
    /// Told by the next `reap`, since `submit` has no words for it.
    failed: Option<LoadError>,
}

impl<'a> RingWorker<'a> {
    pub(super) fn new(progress: &'a Progress, in_flight_max: u32) -> Result<Self, LoadError> {
        let room = in_flight_max.clamp(1, OUTSTANDING_MAX);
        let entries = room.next_power_of_two();
        // The cheaper ring of Linux 6.0 where there is one: completions are handled when we ask for them.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))
            .map_err(|error| {
                LoadError::new(
                    format!("io_uring cannot be used: {error}"),
                    "choose the back end system-calls, or keep fewer blocks outstanding",
                )
            })?;
        let slot = |number: u32| Slot {
            buffer: Buffer::new(progress.block_bytes, progress.seed.wrapping_add(u64::from(number))),
            ticket: 0,
            work: None,
        };
        Ok(RingWorker {
            progress,
            clock: Clock::get(),
            ring,
            slots: (0..room).map(slot).collect(),
            free: (0..room as usize).rev().collect(),
            in_flight: 0,
            empty: Vec::new(),
            failed: None,
        })
    }

    fn take(&mut self, slot: usize, ticket: u32) -> Result<Admission, LoadError> {
        let place = &mut self.slots[slot];
        let work = match self.progress.next()? {
            Next::Copy(block) => Work::Copy(Transfer::begin(
                block,
                self.progress.direct,
                &mut place.buffer,
                self.progress.seed,
            )),
            Next::Sync(file, path) => Work::Sync(file, path),
            Next::SyncAll(file, path) => return sync_all(&file, &path),
            Next::NotYet => return Ok(Admission::Preparing),
            Next::Nothing => return Ok(Admission::Exhausted),
        };
        place.ticket = ticket;
        place.work = Some(work);
        self.free.pop();
        self.request(slot)?;
        Ok(Admission::Accepted)
    }

    /// Puts the next request of a slot on the ring. The kernel gets it with the next `reap`.
    fn request(&mut self, slot: usize) -> Result<(), LoadError> {
        let place = &mut self.slots[slot];
        let entry = match &place.work {
            Some(Work::Copy(transfer)) => match transfer.request() {
                None => {
                    self.empty.push(slot);
                    return Ok(());
                }
                Some(request) => {
                    let fd = types::Fd(request.file.as_raw_fd());
                    let part = &mut place.buffer.all()[request.from..request.to];
                    let (address, bytes) = (part.as_mut_ptr(), part.len() as u32);
                    match request.step {
                        Step::Read => opcode::Read::new(fd, address, bytes).offset(request.offset).build(),
                        Step::Write => opcode::Write::new(fd, address, bytes).offset(request.offset).build(),
                    }
                }
            },
            Some(Work::Sync(file, _)) => opcode::Fsync::new(types::Fd(file.as_raw_fd())).build(),
            None => return Ok(()),
        };
        self.push(&entry.user_data(slot as u64))
    }

    fn push(&mut self, entry: &squeue::Entry) -> Result<(), LoadError> {
        // SAFETY: the buffer and the file of the request belong to its slot, which keeps both until the completion is
        // taken; `drop` waits for the completions of all requests before the slots go.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // The ring has an entry for each slot, and a slot has one request at a time.
        pushed.map_err(|error| LoadError::new(format!("io_uring took no request: {error}"), ""))?;
        self.in_flight += 1;
        Ok(())
    }

    /// Takes what is completed and puts follow-up requests on the ring.
    fn drain(&mut self, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        loop {
            let Some(entry) = self.ring.completion().next() else { break };
            self.in_flight -= 1;
            let slot = entry.user_data() as usize;
            let result = match entry.result() {
                moved if moved >= 0 => Ok(moved as usize),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
            let place = &mut self.slots[slot];
            let finished = match (&mut place.work, result) {
                (Some(Work::Copy(transfer)), result) => transfer.advance(result, &mut place.buffer)?,
                (Some(Work::Sync(..)) | None, Ok(_)) => true,
                (Some(Work::Sync(..)), Err(error)) if error.kind() == io::ErrorKind::Interrupted => false,
                (Some(Work::Sync(_, path)), Err(error)) => return Err(failed("flushing", path, &error)),
                (None, Err(_)) => true,
            };
            if finished {
                self.finish(slot, done)?;
            } else {
                self.request(slot)?;
            }
        }
        while let Some(slot) = self.empty.pop() {
            self.finish(slot, done)?;
        }
        Ok(())
    }

    fn finish(&mut self, slot: usize, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        let place = &mut self.slots[slot];
        let (kind, bytes) = match place.work.take() {
            Some(Work::Copy(transfer)) => {
                let block = transfer.into_block();
                self.progress.copied(&block)?;
                (KIND_COPY, block.bytes)
            }
            Some(Work::Sync(..)) => (KIND_SYNC, 0),
            None => return Ok(()),
        };
        done.push(Completion::new(place.ticket, Done::new(kind, Outcome::Well, bytes)));
        self.free.push(slot);
        Ok(())
    }

    /// Gives the kernel what is on the ring and waits for a completion, until the time is up.
    fn wait(&self, until: Nanos) -> Result<(), LoadError> {
        let left = until.saturating_sub(self.clock.now());
        let (want, time) = (usize::from(left > 0), types::Timespec::new());
        let time = time.sec(left / SECOND).nsec((left % SECOND) as u32);
        let result = if until == u64::MAX || left == 0 {
            self.ring.submitter().submit_and_wait(want)
        } else {
            self.ring.submitter().submit_with_args(want, &types::SubmitArgs::new().timespec(&time))
        };
        match result {
            Ok(_) => Ok(()),
            // Time is up, a signal came, or completions are to be taken first.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(LoadError::new(format!("waiting on io_uring failed: {error}"), "")),
        }
    }
}

impl Worker for RingWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        let Some(slot) = self.free.last().copied() else { return Admission::Busy };
        self.take(slot, operation.ticket).unwrap_or_else(|error| {
            self.failed = Some(error);
            Admission::Busy
        })
    }

    fn kind_of(&self, operation: Operation, accepted: bool) -> Option<u16> {
        let slot = self.slots.iter().find(|slot| accepted && slot.ticket == operation.ticket);
        Some(match slot.and_then(|slot| slot.work.as_ref()) {
            Some(Work::Sync(..)) => KIND_SYNC,
            _ => KIND_COPY,
        })
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let before = done.len();
        loop {
            self.drain(done)?;
            if done.len() > before || self.in_flight == 0 {
                return Ok(());
            }
            self.wait(until)?;
            if self.clock.now() >= until {
                return self.drain(done);
            }
        }
    }
}

impl Drop for RingWorker<'_> {
    /// The kernel still writes into the buffers of what is in flight: waits for it. When that is impossible the buffers
    /// are left to the kernel.
    fn drop(&mut self) {
        while self.in_flight > 0 {
            match self.ring.submit_and_wait(1) {
                Err(error)
                    if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) =>
                {
                    std::mem::forget(std::mem::take(&mut self.slots));
                    return;
                }
                _ => self.in_flight -= self.ring.completion().count().min(self.in_flight),
            }
        }
    }
}
