//! Operations through io_uring: queued by `submit`, handed over and waited for in one system call by `reap`.

use std::io;
use std::os::fd::AsRawFd;

use engine::clock::Clock;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Share, Worker};
use io_uring::{IoUring, opcode, squeue, types};
use model::{Nanos, SECOND};

use super::buffer::Buffers;
use super::calls;
use super::failure::{failed, transfer_failed, transfer_short};
use super::pattern::Place;
use super::prepare::Ready;
use super::settings::DiskPlan;
use super::stream::{Step, Stream};

/// The kernel accepts at most this much as one registered buffer.
const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// Most operations of one thread: a ring has at most 32,768 entries.
const IN_FLIGHT_MAX: u32 = 16_384;

const MICROSECOND: Nanos = 1_000;

/// Longest wait for operations in flight when a worker is dropped.
const DRAIN_TIME: Nanos = 30 * SECOND;

/// What the kernel gave of what was asked, in the words of `io_uring_setup(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingFlags(&'static [&'static str]);

impl RingFlags {
    /// Setups from the cheapest per operation to the plainest.
    const LADDER: [RingFlags; 4] = [
        RingFlags(&["single_issuer", "defer_taskrun", "coop_taskrun", "no_sqarray", "submit_all"]),
        RingFlags(&["single_issuer", "defer_taskrun", "coop_taskrun", "submit_all"]),
        RingFlags(&["coop_taskrun", "submit_all"]),
        RingFlags(&[]),
    ];

    fn build(self, entries: u32) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        for flag in self.0 {
            match *flag {
                "single_issuer" => builder.setup_single_issuer(),
                "defer_taskrun" => builder.setup_defer_taskrun(),
                "coop_taskrun" => builder.setup_coop_taskrun(),
                "no_sqarray" => builder.setup_no_sqarray(),
                _ => builder.setup_submit_all(),
            };
        }
        builder.build(entries)
    }

    /// In words.
    pub(super) fn words(self) -> &'static [&'static str] {
        self.0
    }
}

fn build(entries: u32) -> io::Result<(IoUring, RingFlags)> {
    let mut refusal = io::Error::from(io::ErrorKind::Unsupported);
    for flags in RingFlags::LADDER {
        match flags.build(entries) {
            Ok(ring) if ring.params().is_feature_ext_arg() => return Ok((ring, flags)),
            Ok(_) => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "it is older than Linux 5.11"));
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = error,
            Err(error) => return Err(error),
        }
    }
    Err(refusal)
}

/// Whether the kernel gives this process a ring, and with which flags.
pub(super) fn probe() -> io::Result<RingFlags> {
    build(2).map(|(_, flags)| flags)
}

/// How many completions to wait for at once.
///
/// One, as long as there is room for more operations: an arrival may come any moment, and a completion is reported as soon
/// as it is there. When every slot is in flight nothing can be issued before something completes; then waiting for a
/// quarter of them saves most of the system calls and doorbells. A completion that waits for others looks slower than it
/// was, so the wait is bounded by a share of what operations take on this device.
#[derive(Clone, Copy, Debug)]
struct Batch {
    full: usize,
    want: u32,
    /// What an operation takes, nanoseconds: by Little's law from the operations in flight and their completions, smoothed.
    service_ns: Nanos,
    /// When the queue was last full and handed over, and how many completions were taken since; none after a queue with room.
    since: Option<(Nanos, usize)>,
}

/// The longest wait for more than one completion, as a part of what an operation takes: on average a completion then
/// waits half of that, a sixteenth.
const WAIT_PART: Nanos = 8;

/// Longest wait for more than one completion in any case.
const WAIT_MAX: Nanos = 100 * MICROSECOND;

/// Queue depth from which on batching pays.
const BATCH_DEPTH_MIN: usize = 8;

/// Weight of the newest wait in the smoothed service time is one in this many.
const SMOOTHING: Nanos = 16;

impl Batch {
    fn new(in_flight_max: usize, bounded_wait: bool) -> Self {
        let want =
            if bounded_wait && in_flight_max >= BATCH_DEPTH_MIN { in_flight_max as u32 / 4 } else { 1 };
        Batch { full: in_flight_max, want, service_ns: 0, since: None }
    }

    /// Completions to wait for, and the longest wait for more than one in microseconds, which the kernel looks at only
    /// when there is a time limit as well.
    #[inline]
    fn at(&mut self, now: Nanos, in_flight: usize) -> (u32, u32) {
        if in_flight < self.full || self.want == 1 {
            self.since = None;
            return (1, 0);
        }
        if let Some((then, completed)) = self.since.replace((now, 0))
            && completed > 0
        {
            let service = self.full as Nanos * now.saturating_sub(then) / completed as Nanos;
            self.service_ns = self.service_ns - self.service_ns / SMOOTHING + service / SMOOTHING;
        }
        let wait_us = ((self.service_ns / WAIT_PART).min(WAIT_MAX) / MICROSECOND) as u32;
        if wait_us > 0 { (self.want, wait_us) } else { (1, 0) }
    }

    /// Counts completions that were taken.
    #[inline]
    fn took(&mut self, completed: usize) {
        if let Some((_, count)) = &mut self.since {
            *count += completed;
        }
    }
}

/// What is in flight under a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flight {
    None,
    Transfer(Place),
    Sync(u32),
}

/// Drives one ring. Only the thread that made it may use it.
pub(super) struct RingWorker<'a> {
    stream: Stream<'a>,
    ring: IoUring,
    /// Number of the ring in the thread's table of registered rings, or its file descriptor.
    enter_fd: i32,
    enter_flags: u32,
    flights: Box<[Flight]>,
    buffers: Option<Buffers>,
    registered_buffers: bool,
    /// Flags of `pwritev2(2)` for writes.
    write_flags: i32,
    in_flight: usize,
    queued: u32,
    batch: Batch,
    clock: Clock,
    /// What `submit` cannot say itself; the next `reap` does.
    error: Option<LoadError>,
}

impl<'a> RingWorker<'a> {
    pub(super) fn new(plan: &DiskPlan, ready: &'a Ready, share: &Share) -> Result<Self, LoadError> {
        let slots = share.in_flight_max.max(1);
        if slots > IN_FLIGHT_MAX {
            return Err(LoadError::new(
                format!("one thread would have {slots} operations in flight, more than {IN_FLIGHT_MAX}"),
                "spread them over more `threads`",
            ));
        }
        let (ring, _) = build(slots.next_power_of_two()).map_err(|error| {
            LoadError::new(
                format!("the kernel refused an io_uring of {slots} entries: {error}"),
                "keep fewer operations outstanding, raise the limit of locked memory (ulimit -l), or choose the back end system-calls",
            )
        })?;
        let buffers = Buffers::new(slots as usize, plan.buffer_bytes() as usize).map_err(|error| {
            LoadError::new(
                format!("no memory for buffers: {error}"),
                "keep fewer operations outstanding, or use smaller blocks",
            )
        })?;
        let descriptors: Vec<i32> = ready.files.iter().map(|file| file.file.as_raw_fd()).collect();
        ring.submitter()
            .register_files(&descriptors)
            .map_err(|error| failed("register", &ready.files[0].path, &error))?;
        let whole = buffers.whole();
        // SAFETY: the memory stays mapped until `drop`, which first waits for what is in flight.
        let registered_buffers = whole.iov_len <= REGISTERED_BYTES_MAX
            && unsafe { ring.submitter().register_buffers(&[whole]) }.is_ok();
        let (enter_fd, registered_ring) = match register_ring(ring.as_raw_fd()) {
            Some(number) => (number, sys::ENTER_REGISTERED_RING),
            None => (ring.as_raw_fd(), 0),
        };
        let batch = Batch::new(slots as usize, ring.params().is_feature_min_timeout());
        Ok(RingWorker {
            stream: Stream::new(plan, ready, share),
            ring,
            enter_fd,
            enter_flags: sys::ENTER_GETEVENTS | sys::ENTER_EXT_ARG | registered_ring,
            flights: vec![Flight::None; slots as usize].into(),
            buffers: Some(buffers),
            registered_buffers,
            write_flags: calls::write_flags(plan),
            in_flight: 0,
            queued: 0,
            batch,
            clock: Clock::get(),
            error: None,
        })
    }

    /// What the kernel took into its own tables, in the words of [`RingFlags::words`].
    pub(super) fn registered(&self) -> Vec<&'static str> {
        let ring = self.enter_flags & sys::ENTER_REGISTERED_RING != 0;
        let all = [
            (true, "registered_files"),
            (self.registered_buffers, "registered_buffers"),
            (ring, "registered_ring"),
        ];
        all.into_iter().filter(|(taken, _)| *taken).map(|(_, word)| word).collect()
    }

    fn entry(&self, slot: usize, place: &Place) -> Option<squeue::Entry> {
        let address = self.buffers.as_ref()?.address(slot);
        let file = types::Fixed(place.file);
        let Place { offset, bytes, priority, .. } = *place;
        let flags = self.write_flags;
        Some(match (place.write, self.registered_buffers) {
            (false, true) => {
                opcode::ReadFixed::new(file, address, bytes, 0).offset(offset).ioprio(priority).build()
            }
            (true, true) => opcode::WriteFixed::new(file, address, bytes, 0)
                .offset(offset)
                .ioprio(priority)
                .rw_flags(flags)
                .build(),
            (false, false) => opcode::Read::new(file, address, bytes).offset(offset).ioprio(priority).build(),
            (true, false) => opcode::Write::new(file, address, bytes)
                .offset(offset)
                .ioprio(priority)
                .rw_flags(flags)
                .build(),
        })
    }

    /// Hands over what is queued and waits for `want` completions, or fewer when the time is up: `wait_us` for the
    /// second and later ones, `time_left` for the first.
    fn enter(&mut self, want: u32, wait_us: u32, time_left: Nanos) -> io::Result<()> {
        let timeout =
            sys::Timespec { seconds: (time_left / SECOND) as i64, nanoseconds: (time_left % SECOND) as i64 };
        let argument = sys::Argument {
            min_wait_us: wait_us,
            timeout: (&raw const timeout) as u64,
            ..sys::Argument::default()
        };
        // SAFETY: the ring is alive; every queued entry points into `buffers`, which stay mapped until nothing is in
        // flight; the argument and the timeout live across the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.enter_fd,
                self.queued,
                want,
                self.enter_flags,
                &raw const argument,
                size_of::<sys::Argument>(),
            )
        };
        if result >= 0 {
            self.queued -= (result as u32).min(self.queued);
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // Time is up, a signal came, or completions have to be taken first.
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(error),
        }
    }

    /// Takes every completion that is there.
    fn harvest(&mut self, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        let RingWorker { ring, stream, flights, buffers, in_flight, .. } = self;
        let mut error = None;
        for entry in ring.completion() {
            let ticket = entry.user_data() as u32;
            let Some(flight) = flights.get_mut(ticket as usize) else { continue };
            *in_flight -= 1;
            match std::mem::replace(flight, Flight::None) {
                Flight::Transfer(place) => {
                    if entry.result() as u32 != place.bytes {
                        error = Some(refusal(stream.ready, &place, entry.result()));
                    }
                    let Some(buffers) = buffers else { continue };
                    let block = buffers.block(ticket as usize, place.bytes as usize);
                    done.push(Completion::new(ticket, stream.settle(&place, block)));
                }
                Flight::Sync(file) => {
                    if entry.result() < 0 {
                        let result = io::Error::from_raw_os_error(-entry.result());
                        error = Some(failed("flush", &stream.ready.files[file as usize].path, &result));
                    }
                    let synced = Done::new(stream.kinds.sync, Outcome::Well, 0);
                    done.push(Completion::new(ticket, synced));
                }
                Flight::None => {}
            }
        }
        error.map_or(Ok(()), Err)
    }
}

/// A completion that did not move what was asked.
#[cold]
fn refusal(ready: &Ready, place: &Place, result: i32) -> LoadError {
    let path = &ready.files[place.file as usize].path;
    if result < 0 {
        let error = io::Error::from_raw_os_error(-result);
        transfer_failed(place.write, path, place.offset, place.bytes, &error)
    } else {
        transfer_short(place.write, path, place.offset, place.bytes, result as u32)
    }
}

impl Worker for RingWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        let slot = operation.ticket as usize;
        if slot >= self.flights.len() {
            return Admission::Busy;
        }
        let (entry, flight) = match self.stream.next(operation.number) {
            Step::Taken => return Admission::Busy,
            Step::Held => return Admission::Preparing,
            Step::Over => return Admission::Exhausted,
            // A discard has no place in the queue of every kernel; it completes inside the call, and so do others that move nothing.
            Step::Transfer(place) if self.stream.is_command(&place) => {
                return match self.stream.command(&place) {
                    Ok(done) => Admission::Completed(done),
                    Err(error) => {
                        self.error = Some(error);
                        Admission::Busy
                    }
                };
            }
            Step::Sync(file) => {
                let entry = opcode::Fsync::new(types::Fixed(file)).flags(types::FsyncFlags::DATASYNC).build();
                (entry, Flight::Sync(file))
            }
            Step::Transfer(place) => {
                if place.write
                    && let Some(buffers) = &mut self.buffers
                {
                    let block = buffers.block(slot, place.bytes as usize);
                    self.stream.fill(&place, operation.number, block);
                }
                match self.entry(slot, &place) {
                    Some(entry) => (entry, Flight::Transfer(place)),
                    None => return Admission::Busy,
                }
            }
        };
        let entry = entry.user_data(u64::from(operation.ticket));
        // SAFETY: the entry points into `buffers`, to a block no other operation uses, mapped until it has completed.
        // There is room: the queue has at least as many entries as there are slots.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            return Admission::Busy;
        }
        self.flights[slot] = flight;
        self.in_flight += 1;
        self.queued += 1;
        Admission::Accepted
    }

    fn kind_of(&self, operation: Operation, accepted: bool) -> Option<u16> {
        let flight = self.flights.get(operation.ticket as usize).filter(|_| accepted);
        Some(match flight {
            Some(Flight::Sync(_)) => self.stream.kinds.sync,
            _ => self.stream.kind_of(operation.number),
        })
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        if self.error.is_some() {
            return self.error.take().map_or(Ok(()), Err);
        }
        if self.in_flight == 0 {
            self.stream.wait_for_turn(until, self.clock.now());
            return Ok(());
        }
        if self.queued > 0 || self.ring.completion().is_empty() {
            let now = self.clock.now();
            let (want, wait_us) = self.batch.at(now, self.in_flight);
            // To wait for no time is to sleep all the same.
            let want = if until > now { want } else { 0 };
            self.enter(want, wait_us, until.saturating_sub(now)).map_err(|error| {
                LoadError::new(format!("io_uring_enter failed: {error}"), "choose the back end system-calls")
            })?;
        }
        let in_flight = self.in_flight;
        let harvested = self.harvest(done);
        self.batch.took(in_flight - self.in_flight);
        harvested
    }

    fn remarks(&mut self, out: &mut Vec<String>) {
        self.stream.remarks(out);
    }
}

impl Drop for RingWorker<'_> {
    /// Waits for what is in flight: the kernel must not write into memory that is no longer ours.
    fn drop(&mut self) {
        let until = self.clock.now().saturating_add(DRAIN_TIME);
        let mut done = Vec::new();
        while self.in_flight > 0 && self.clock.now() < until {
            if self.enter(1, 0, SECOND).is_err() {
                break;
            }
            let _ = self.harvest(&mut done);
        }
        if self.in_flight > 0 {
            // A device that does not answer: better to lose the memory than to have it written into later.
            std::mem::forget(self.buffers.take());
        }
        if self.enter_flags & sys::ENTER_REGISTERED_RING != 0 {
            unregister_ring(self.ring.as_raw_fd(), self.enter_fd);
        }
    }
}

/// Enters the ring into the thread's own table, which spares the kernel looking up the descriptor at each call.
fn register_ring(ring: i32) -> Option<i32> {
    let mut update = sys::Update { offset: u32::MAX, reserved: 0, data: ring as u64 };
    // SAFETY: one update structure, which lives across the call.
    let result = unsafe {
        libc::syscall(libc::SYS_io_uring_register, ring, sys::REGISTER_RING_FDS, &raw mut update, 1)
    };
    (result == 1).then_some(update.offset as i32)
}

fn unregister_ring(ring: i32, number: i32) {
    let update = sys::Update { offset: number as u32, reserved: 0, data: 0 };
    // SAFETY: one update structure, which lives across the call. Failure leaves the entry until the thread ends.
    let _ = unsafe {
        libc::syscall(libc::SYS_io_uring_register, ring, sys::UNREGISTER_RING_FDS, &raw const update, 1)
    };
}

/// The few names of linux/io_uring.h that the io-uring crate keeps to itself.
mod sys {
    pub(super) const ENTER_GETEVENTS: u32 = 1;
    pub(super) const ENTER_EXT_ARG: u32 = 1 << 3;
    pub(super) const ENTER_REGISTERED_RING: u32 = 1 << 4;
    pub(super) const REGISTER_RING_FDS: u32 = 20;
    pub(super) const UNREGISTER_RING_FDS: u32 = 21;

    /// `struct io_uring_getevents_arg`.
    #[repr(C)]
    #[derive(Default)]
    pub(super) struct Argument {
        pub(super) signal_mask: u64,
        pub(super) signal_mask_size: u32,
        pub(super) min_wait_us: u32,
        pub(super) timeout: u64,
    }

    /// `struct __kernel_timespec`.
    #[repr(C)]
    pub(super) struct Timespec {
        pub(super) seconds: i64,
        pub(super) nanoseconds: i64,
    }

    /// `struct io_uring_rsrc_update`.
    #[repr(C)]
    pub(super) struct Update {
        pub(super) offset: u32,
        pub(super) reserved: u32,
        pub(super) data: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_queue_waits_for_several_and_not_long() {
        let mut batch = Batch::new(32, true);
        assert_eq!(batch.at(0, 32), (1, 0), "nothing is known of the device yet");
        for round in 1..=200 {
            // 8 of 32 every 120 us: an operation takes 480 us.
            batch.took(8);
            batch.at(round * 120 * MICROSECOND, 32);
        }
        let now = 201 * 120 * MICROSECOND;
        let (want, wait_us) = batch.at(now, 32);
        assert_eq!(want, 8);
        assert!((58..=60).contains(&wait_us), "an eighth of 480 us, not {wait_us}");
        assert_eq!(batch.at(now, 31), (1, 0), "there is room for another");
        assert_eq!(batch.since, None, "a queue that was not full tells nothing of the time between");

        for plain in [&mut Batch::new(32, false), &mut Batch::new(4, true)] {
            plain.service_ns = 480 * MICROSECOND;
            assert_eq!(plain.at(now, plain.full), (1, 0));
        }
        let mut slow = Batch { service_ns: 20_000 * MICROSECOND, ..batch };
        assert_eq!(slow.at(now, 32), (8, 100));
    }

    /// Where the kernel gives no ring at all there is nothing to try.
    #[test]
    fn every_setup_the_kernel_takes_gives_a_ring() {
        if probe().is_ok() {
            let plainest = RingFlags::LADDER.last().unwrap();
            assert!(plainest.build(2).is_ok(), "the last step of the ladder asks for nothing");
        }
    }
}
