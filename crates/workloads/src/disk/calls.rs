//! Operations as system calls, one at a time per thread: what costs least through the page cache, and all there is where
//! the kernel refuses io_uring.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use engine::clock::Clock;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Share, Worker};
use model::Nanos;

use super::buffer::Buffers;
use super::failure::{failed, transfer_failed, transfer_short};
use super::prepare::Ready;
use super::settings::DiskPlan;
use super::stream::{Step, Stream};

/// One thread that makes one system call at a time.
pub(super) struct CallWorker<'a> {
    stream: Stream<'a>,
    buffers: Buffers,
    /// Issued and not yet carried out, where a thread has a queue. Without one an operation completes inside `submit`.
    queue: Option<VecDeque<(Operation, Step)>>,
    /// What `submit` cannot say itself; the next `reap` does.
    error: Option<LoadError>,
    /// Flags of `pwritev2(2)` for writes.
    write_flags: i32,
    /// I/O priority that this thread has now.
    priority: u16,
}

/// Flags of the writes of a load.
pub(super) fn write_flags(plan: &DiskPlan) -> i32 {
    // RWF_ATOMIC of linux/fs.h, since Linux 6.11.
    const ATOMIC: i32 = 0x40;
    if plan.atomic { ATOMIC } else { 0 }
}

fn write_with_flags(file: &File, block: &[u8], offset: u64, flags: i32) -> io::Result<usize> {
    let piece = libc::iovec { iov_base: block.as_ptr().cast_mut().cast(), iov_len: block.len() };
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the descriptor is open, and the only piece is `block`, which outlives the call and is only read.
    let written = unsafe { libc::pwritev2(file.as_raw_fd(), &raw const piece, 1, offset, flags) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// The I/O priority of this thread, as `ioprio_set(2)` encodes it.
fn set_priority(priority: u16) -> io::Result<()> {
    // IOPRIO_WHO_PROCESS of linux/ioprio.h; 0 is this thread.
    const PROCESS: libc::c_int = 1;
    // SAFETY: the call takes three numbers and no memory.
    match unsafe { libc::syscall(libc::SYS_ioprio_set, PROCESS, 0, libc::c_int::from(priority)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cold]
fn priority_refused(error: &io::Error) -> LoadError {
    let what = format!("the kernel refused the I/O priority of an operation: {error}");
    LoadError::new(what, "real-time priorities need root; or write `be` or `idle` in `block_size`")
}

impl<'a> CallWorker<'a> {
    /// With `in_turn` the thread keeps a queue as deep as its share and carries it out in order, as io_uring does with
    /// operations that complete inside `io_uring_enter`.
    pub(super) fn new(
        plan: &DiskPlan,
        ready: &'a Ready,
        share: &Share,
        in_turn: bool,
    ) -> Result<Self, LoadError> {
        let buffers = Buffers::new(1, plan.buffer_bytes() as usize).map_err(|error| {
            LoadError::new(format!("no memory for buffers: {error}"), "use smaller blocks")
        })?;
        let queue = (in_turn && share.in_flight_max > 1)
            .then(|| VecDeque::with_capacity(share.in_flight_max as usize));
        let stream = Stream::new(plan, ready, share);
        Ok(CallWorker { stream, buffers, queue, error: None, write_flags: write_flags(plan), priority: 0 })
    }

    fn carry_out(&mut self, number: u64, step: Step) -> Result<Done, LoadError> {
        match step {
            Step::Sync(file) => {
                let file = &self.stream.ready.files[file as usize];
                file.file.sync_data().map_err(|error| failed("flush", &file.path, &error))?;
                Ok(Done::new(self.stream.kinds.sync, Outcome::Well, 0))
            }
            Step::Transfer(place) if self.stream.is_command(&place) => self.stream.command(&place),
            Step::Transfer(place) => {
                let file = &self.stream.ready.files[place.file as usize];
                let block = self.buffers.block(0, place.bytes as usize);
                if place.priority != self.priority {
                    set_priority(place.priority).map_err(|error| priority_refused(&error))?;
                    self.priority = place.priority;
                }
                let moved = if place.write {
                    self.stream.fill(&place, number, block);
                    match self.write_flags {
                        0 => file.file.write_at(block, place.offset),
                        flags => write_with_flags(&file.file, block, place.offset, flags),
                    }
                } else {
                    file.file.read_at(block, place.offset)
                };
                match moved {
                    Ok(moved) if moved == block.len() => Ok(self.stream.settle(&place, block)),
                    Ok(moved) => {
                        Err(transfer_short(place.write, &file.path, place.offset, place.bytes, moved as u32))
                    }
                    Err(error) => {
                        Err(transfer_failed(place.write, &file.path, place.offset, place.bytes, &error))
                    }
                }
            }
            Step::Taken | Step::Held | Step::Over => {
                Err(LoadError::new("an operation without a place was carried out", ""))
            }
        }
    }
}

impl Worker for CallWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if self.error.is_some() || self.queue.as_ref().is_some_and(|queue| queue.len() == queue.capacity()) {
            return Admission::Busy;
        }
        let step = match self.stream.next(operation.number) {
            Step::Taken => return Admission::Busy,
            Step::Held => return Admission::Preparing,
            Step::Over => return Admission::Exhausted,
            step => step,
        };
        if let Some(queue) = &mut self.queue {
            queue.push_back((operation, step));
            return Admission::Accepted;
        }
        match self.carry_out(operation.number, step) {
            Ok(done) => Admission::Completed(done),
            Err(error) => {
                self.error = Some(error);
                Admission::Busy
            }
        }
    }

    fn kind_of(&self, operation: Operation, _accepted: bool) -> Option<u16> {
        Some(self.stream.kind_of(operation.number))
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        if let Some((Operation { ticket, number, .. }, step)) =
            self.queue.as_mut().and_then(VecDeque::pop_front)
        {
            done.push(Completion::new(ticket, self.carry_out(number, step)?));
        } else {
            self.stream.wait_for_turn(until, Clock::get().now());
        }
        self.error.take().map_or(Ok(()), Err)
    }

    fn remarks(&mut self, out: &mut Vec<String>) {
        self.stream.remarks(out);
    }
}
