//! One proxied connection: a client, a target, and the bytes between them in both directions.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::Duration;

use model::Nanos;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

use crate::buffer::{Buffer, Mark};
use crate::exchange::{ClientView, SeenExchange, Tracker};
use crate::route::Route;
use crate::settings::Direction;
use crate::shaper::{End, Shaper};
use crate::shared::Shared;

/// Bytes that one direction may move before other connections have their turn.
const TURN_BYTES: usize = 1 << 20;

/// Bytes that wait for a receiver that does not read.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// One end of a connection. The flags follow edge-triggered events.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    readable: bool,
    writable: bool,
    /// The peer sends nothing after what can be read now.
    has_ended: bool,
    /// The peer reset the connection, or it timed out; there may still be bytes to read.
    failed: bool,
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd) -> Socket {
        Socket { fd, readable: false, writable: true, has_ended: false, failed: false }
    }

    /// What the kernel reports.
    fn event(&mut self, flags: EventFlags) {
        self.failed |= flags.contains(EventFlags::ERR);
        self.has_ended |= flags.intersects(EventFlags::RDHUP | EventFlags::HUP) || self.failed;
        self.readable |= flags.contains(EventFlags::IN) || self.has_ended;
        self.writable |= flags.intersects(EventFlags::OUT | EventFlags::HUP) || self.failed;
    }

    /// Closes it with a reset instead of an orderly end.
    pub(crate) fn reset(self) {
        reset(self.fd);
    }
}

/// Closes a socket with a reset. If the option cannot be set, the connection is already gone.
pub(crate) fn reset(fd: OwnedFd) {
    let _ = rustix::net::sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
    drop(fd);
}

/// How a direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The sender closed its direction.
    Closed,
    /// The impairment `close-after`.
    ClosedByImpairment,
    /// The sender reset the connection.
    Reset,
    /// The impairments `reset` and `reset-after`.
    ResetByImpairment,
}

impl Ending {
    fn is_reset(self) -> bool {
        matches!(self, Ending::Reset | Ending::ResetByImpairment)
    }
}

/// One direction.
#[derive(Debug)]
struct Path {
    shaper: Shaper,
    buffer: Buffer,
    /// What follows the buffer, and when.
    ending: Option<(Nanos, Ending)>,
    /// Whether the sender has nothing more to read.
    is_drained: bool,
    /// Whether the ending was passed on.
    is_over: bool,
    /// When the receiver was last ready after it was not: what was due before waited for it.
    ready_ns: Nanos,
    /// The time in the heap of timers; 0 for none.
    armed_ns: Nanos,
}

impl Path {
    fn new(seed: u64, stream: u64) -> Path {
        Path {
            shaper: Shaper::new(seed, stream),
            buffer: Buffer::default(),
            ending: None,
            is_drained: false,
            is_over: false,
            ready_ns: 0,
            armed_ns: 0,
        }
    }

    /// When something is due next; none if only an event can continue it.
    fn next_ns(&self, is_writable: bool) -> Option<Nanos> {
        match (self.buffer.due_ns(), self.ending) {
            (Some(due_ns), _) if is_writable => Some(due_ns),
            (None, Some((due_ns, _))) => Some(due_ns),
            // A reset does not wait for a receiver that does not read.
            (Some(_), Some((due_ns, ending))) if ending.is_reset() => Some(due_ns),
            _ => None,
        }
        .filter(|_| !self.is_over)
    }
}

/// Who reset a connection.
#[derive(Clone, Copy, Debug)]
enum Reset {
    Client,
    Target,
    Impairment,
}

/// How a connection continues; the later ones are more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// It waits for an event or a timer.
    Waits,
    /// It waits for memory.
    Starved,
    /// It has more to do at once, after others had their turn.
    HasMore,
    /// It is over.
    Ended,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) route: usize,
    /// Its number in the log of exchanges.
    pub(crate) number: u64,
    client: Socket,
    /// None until the target accepted.
    target: Option<Socket>,
    up: Path,
    down: Path,
    tracker: Tracker,
    view: ClientView,
    /// When the client was accepted.
    accepted_ns: Nanos,
}

impl Connection {
    /// A connection whose client was accepted and whose target is not connected yet.
    pub(crate) fn new(route: usize, number: u64, client: Socket, shared: &Shared) -> Connection {
        let seed = shared.seed;
        Connection {
            route,
            number,
            client,
            target: None,
            up: Path::new(seed, number * 2),
            down: Path::new(seed, number * 2 + 1),
            tracker: Tracker::new(shared.now_ns),
            view: ClientView::default(),
            accepted_ns: shared.now_ns,
        }
    }

    /// The target accepted.
    pub(crate) fn connected(&mut self, mut target: Socket, flags: EventFlags, shared: &Shared) {
        target.event(flags);
        self.target = Some(target);
        self.tracker = Tracker::new(shared.now_ns);
        if self.client.readable {
            // The client waits since it connected: its request came while there was no target yet.
            self.view.requested(self.accepted_ns);
        }
    }

    /// The exchange that its client sees at present.
    pub(crate) fn seen(&self) -> Option<SeenExchange> {
        self.view.seen(self.route)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.target.is_some()
    }

    /// Whether the client ended the connection before the target accepted.
    pub(crate) fn has_failed(&self) -> bool {
        self.client.failed
    }

    /// Closes the client with a reset, because there is no target.
    pub(crate) fn refuse(self) {
        self.client.reset();
    }

    /// What the kernel reports about one end.
    pub(crate) fn event(&mut self, is_client: bool, flags: EventFlags) {
        let path = if is_client { &mut self.down } else { &mut self.up };
        let socket = if is_client { Some(&mut self.client) } else { self.target.as_mut() };
        if let Some(socket) = socket {
            let was_writable = socket.writable;
            socket.event(flags);
            if socket.writable && !was_writable {
                // Set to the present by the next write.
                path.ready_ns = Nanos::MAX;
            }
        }
    }

    /// A timer fired: whether it is still the one of its direction.
    pub(crate) fn expire(&mut self, due_ns: Nanos) -> bool {
        let mut is_due = false;
        for path in [&mut self.up, &mut self.down] {
            if path.armed_ns == due_ns {
                path.armed_ns = 0;
                is_due = true;
            }
        }
        is_due
    }

    /// Moves what can be moved in both directions, and arms timers for the rest.
    pub(crate) fn drive(&mut self, token: u64, shared: &mut Shared) -> Progress {
        let mut progress = Progress::Waits;
        for direction in Direction::BOTH {
            progress = progress.max(self.pump(direction, shared));
        }
        let is_reset = |path: &Path| path.is_over && path.ending.is_some_and(|at| at.1.is_reset());
        if is_reset(&self.up) || is_reset(&self.down) || (self.up.is_over && self.down.is_over) {
            return Progress::Ended;
        }
        for direction in Direction::BOTH {
            let is_writable = self.receiver(direction).is_some_and(|socket| socket.writable);
            let path = self.path(direction);
            match path.next_ns(is_writable) {
                Some(due_ns) if due_ns <= shared.now_ns => progress = Progress::HasMore,
                Some(due_ns) if path.armed_ns != due_ns => {
                    path.armed_ns = due_ns;
                    shared.arm(due_ns, token);
                }
                _ => {}
            }
        }
        progress
    }

    /// Ends it: in order if both directions are over, with a reset of both ends otherwise.
    pub(crate) fn close(mut self, shared: &mut Shared) {
        for direction in Direction::BOTH {
            self.path(direction).buffer.clear(&mut shared.pool);
        }
        let route = &mut shared.routes[self.route];
        let ended = self.tracker.ended(shared.now_ns, &mut route.statistics.exchanges);
        let counts = &mut route.statistics.connections;
        let mut reset = None;
        counts.open = counts.open.saturating_sub(1);
        for (path, by_sender, by_receiver) in
            [(&self.up, Reset::Client, Reset::Target), (&self.down, Reset::Target, Reset::Client)]
        {
            if path.is_over {
                match path.ending {
                    Some((_, Ending::Closed | Ending::ClosedByImpairment)) => {}
                    Some((_, Ending::ResetByImpairment)) => reset = Some(Reset::Impairment),
                    Some((_, Ending::Reset)) => reset = Some(by_sender),
                    None => reset = reset.or(Some(by_receiver)),
                }
            }
        }
        match reset {
            Some(Reset::Client) => counts.reset_by_client += 1,
            Some(Reset::Target) => counts.reset_by_target += 1,
            Some(Reset::Impairment) => counts.reset_by_impairment += 1,
            None => {}
        }
        let is_orderly = reset.is_none() && self.up.is_over && self.down.is_over;
        if let Some(exchange) = ended {
            shared.log(self.route, self.number, exchange);
        }
        crate::recording::add(&mut shared.recorder, self.view.seen(self.route));
        if !is_orderly {
            self.client.reset();
            if let Some(target) = self.target {
                target.reset();
            }
        }
    }

    fn path(&mut self, direction: Direction) -> &mut Path {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    fn receiver(&self, direction: Direction) -> Option<&Socket> {
        match direction {
            Direction::Up => self.target.as_ref(),
            Direction::Down => Some(&self.client),
        }
    }

    /// Moves the bytes of one direction.
    fn pump(&mut self, direction: Direction, shared: &mut Shared) -> Progress {
        let Some(target) = self.target.as_mut() else { return Progress::Waits };
        let (path, other, source, sink) = match direction {
            Direction::Up => (&mut self.up, &mut self.down, &mut self.client, target),
            Direction::Down => (&mut self.down, &mut self.up, target, &mut self.client),
        };
        let mut pump = Pump {
            direction,
            route: self.route,
            number: self.number,
            path,
            source,
            sink,
            tracker: &mut self.tracker,
            view: &mut self.view,
            arrival_ns: shared.woken_ns,
        };
        let mut progress = pump.run(shared);
        if path.is_over && source.failed && !other.is_over {
            // The sender, whose direction is over, is gone: it receives nothing more.
            other.buffer.clear(&mut shared.pool);
            (other.is_over, other.ending) = (true, None);
        }
        if path.is_over && path.ending.is_none() && other.ending.is_none() {
            // A receiver that is gone is also a sender that is gone.
            other.is_drained = true;
            other.ending = Some((shared.now_ns, Ending::Reset));
            progress = Progress::HasMore;
        }
        progress
    }
}

/// One direction at work.
struct Pump<'a> {
    direction: Direction,
    route: usize,
    number: u64,
    path: &'a mut Path,
    source: &'a mut Socket,
    sink: &'a mut Socket,
    tracker: &'a mut Tracker,
    view: &'a mut ClientView,
    /// When the next bytes to read were readable.
    arrival_ns: Nanos,
}

impl Pump<'_> {
    fn run(&mut self, shared: &mut Shared) -> Progress {
        let mut moved = 0;
        loop {
            self.flush(shared);
            if self.path.is_over {
                // Nobody receives more, but the sender must not wait for its window.
                return self.discard(shared);
            }
            if moved >= TURN_BYTES {
                return Progress::HasMore;
            }
            let route = &shared.routes[self.route];
            let is_black_hole = route.settings.path(self.direction).black_hole;
            if !self.source.readable || self.path.is_drained || is_black_hole {
                return Progress::Waits;
            }
            let waits_for_receiver =
                !self.sink.writable && self.path.buffer.due_ns().is_some_and(|due| due <= shared.now_ns);
            let bytes_max = match waits_for_receiver {
                true => WAITING_BYTES_MAX,
                false => route.buffer_bytes_max(self.direction),
            };
            if self.path.buffer.bytes() >= bytes_max || !self.path.buffer.has_room_for_marks() {
                if self.source.failed && waits_for_receiver {
                    self.end(shared, Ending::Reset);
                    continue;
                }
                return Progress::Waits;
            }
            if shared.pool.is_exhausted() && !self.path.buffer.is_empty() {
                return Progress::Starved;
            }
            moved += self.read(shared);
            self.arrival_ns = shared.now_ns;
        }
    }

    /// The sender has ended, in one of two ways.
    fn end(&mut self, shared: &Shared, ending: Ending) {
        self.path.is_drained = true;
        if self.path.ending.is_none() {
            let settings = shared.routes[self.route].settings.path(self.direction);
            self.path.ending = Some((self.path.shaper.end(settings, self.arrival_ns), ending));
        }
    }

    /// Reads once; how many bytes.
    fn read(&mut self, shared: &mut Shared) -> usize {
        let Route { settings, statistics, .. } = &mut shared.routes[self.route];
        let settings = settings.path(self.direction);
        let path = &mut *self.path;
        let is_direct = settings.is_transparent()
            && path.buffer.is_empty()
            && path.ending.is_none()
            && self.sink.writable;
        let (result, length) = match is_direct {
            true => (recv(&self.source.fd, &mut shared.scratch), shared.scratch.len()),
            false => {
                let space = path.buffer.space(&mut shared.pool);
                let length = space.len();
                let result = recv(&self.source.fd, space);
                path.buffer.filled(*result.as_ref().unwrap_or(&0), &mut shared.pool);
                (result, length)
            }
        };
        let bytes = match result {
            Ok(0) => {
                self.end(shared, Ending::Closed);
                return 0;
            }
            Ok(bytes) => bytes,
            Err(Errno::AGAIN) => {
                self.source.readable = false;
                return 0;
            }
            Err(Errno::INTR) => return 0,
            Err(_) => {
                self.end(shared, Ending::Reset);
                return 0;
            }
        };
        // A short read leaves nothing but an end that was reported with the bytes: an event follows all else.
        self.source.readable = bytes == length || self.source.has_ended;
        statistics.path(self.direction).arrivals += 1;
        match self.direction {
            Direction::Up => {
                let seen = self.view.requested(self.arrival_ns);
                crate::recording::add(&mut shared.recorder, seen);
            }
            Direction::Down => {
                self.tracker.replied(self.arrival_ns, bytes as u64, &mut statistics.exchanges);
            }
        }
        if is_direct {
            path.shaper.pass(bytes);
            self.send_directly(shared, bytes);
            return bytes;
        }
        path.shaper.arrive(settings, self.arrival_ns);
        let mut left = bytes;
        while left > 0 {
            let piece = path.shaper.next(settings, left);
            statistics.path(self.direction).losses += u64::from(piece.losses);
            path.buffer.mark(Mark { bytes: piece.bytes, arrival_ns: self.arrival_ns, due_ns: piece.due_ns });
            left -= piece.bytes;
            if let Some(end) = piece.end {
                path.buffer.truncate(left, &mut shared.pool);
                let ending = match end {
                    End::Close => Ending::ClosedByImpairment,
                    End::Reset => Ending::ResetByImpairment,
                };
                path.is_drained = true;
                path.ending = Some((piece.due_ns, ending));
                break;
            }
        }
        bytes
    }

    /// Writes bytes of the scratch buffer; keeps what the receiver does not take.
    fn send_directly(&mut self, shared: &mut Shared, bytes: usize) {
        let before_ns = shared.now_ns;
        let sent = match send(&self.sink.fd, &[IoSlice::new(&shared.scratch[..bytes])]) {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => return self.fail(shared),
        };
        shared.tick();
        let arrival_ns = self.arrival_ns;
        if sent > 0 {
            let path = shared.routes[self.route].statistics.path(self.direction);
            path.bytes += sent as u64;
            path.delay.add(shared.now_ns - arrival_ns);
            path.error.add(shared.now_ns - arrival_ns);
            self.passed_on(shared, before_ns, sent);
        }
        if sent < bytes {
            self.sink.writable = false;
            self.path.buffer.append(&shared.scratch[sent..bytes], &mut shared.pool);
            self.path.buffer.mark(Mark { bytes: bytes - sent, arrival_ns, due_ns: arrival_ns });
        }
    }

    /// Bytes were written: a part of a request to the target, or of a reply to the client.
    fn passed_on(&mut self, shared: &mut Shared, at_ns: Nanos, bytes: usize) {
        if self.direction == Direction::Down {
            self.view.replied(at_ns, self.route);
        } else {
            let statistics = &mut shared.routes[self.route].statistics.exchanges;
            if let Some(exchange) = self.tracker.requested(at_ns, bytes as u64, statistics) {
                shared.log(self.route, self.number, exchange);
            }
        }
    }

    /// Writes what is due, and the ending after it.
    fn flush(&mut self, shared: &mut Shared) {
        while !self.path.is_over && self.sink.writable && !self.path.buffer.is_empty() {
            let before_ns = shared.now_ns;
            let slices = self.path.buffer.due(before_ns);
            if slices.is_empty() {
                return;
            }
            if self.path.ready_ns == Nanos::MAX {
                self.path.ready_ns = before_ns;
            }
            let length: usize = slices.iter().map(|slice| slice.len()).sum();
            let sent = match send(&self.sink.fd, &slices) {
                Ok(sent) => sent,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => 0,
                Err(_) => return self.fail(shared),
            };
            self.sink.writable = sent == length;
            shared.tick();
            let statistics = shared.routes[self.route].statistics.path(self.direction);
            statistics.bytes += sent as u64;
            let (now_ns, ready_ns) = (shared.now_ns, self.path.ready_ns);
            self.path.buffer.written(sent, &mut shared.pool, |mark| {
                statistics.delay.add(now_ns - mark.arrival_ns);
                match mark.due_ns < ready_ns {
                    true => statistics.waited_for_receiver += 1,
                    false => statistics.error.add(now_ns - mark.due_ns),
                }
            });
            if sent > 0 {
                self.passed_on(shared, before_ns, sent);
            }
        }
        self.pass_ending_on(shared);
    }

    fn pass_ending_on(&mut self, shared: &mut Shared) {
        let Some((due_ns, ending)) = self.path.ending else { return };
        let may_end = self.path.buffer.is_empty() || (ending.is_reset() && !self.sink.writable);
        if self.path.is_over || due_ns > shared.now_ns || !may_end {
            return;
        }
        self.path.is_over = true;
        if ending == Ending::ClosedByImpairment {
            shared.routes[self.route].statistics.connections.closed_by_impairment += 1;
        }
        if !ending.is_reset() {
            // It fails only if the connection is gone, which the other direction reports.
            let _ = rustix::net::shutdown(&self.sink.fd, Shutdown::Write);
        }
    }

    /// The receiver is gone: it cannot be written to.
    fn fail(&mut self, shared: &mut Shared) {
        self.path.buffer.clear(&mut shared.pool);
        self.path.is_over = true;
        self.path.ending = None;
    }

    /// Reads and drops what comes after the end of the direction.
    fn discard(&mut self, shared: &mut Shared) -> Progress {
        let mut dropped = 0;
        while self.source.readable && dropped < TURN_BYTES {
            match recv(&self.source.fd, &mut shared.scratch) {
                Ok(bytes) if bytes > 0 => dropped += bytes,
                Err(Errno::INTR) => {}
                // The end of the sender is nothing new. Its reset ends the other direction, whose receiver it is.
                _ => self.source.readable = false,
            }
        }
        if self.source.readable { Progress::HasMore } else { Progress::Waits }
    }
}

fn recv(fd: &OwnedFd, into: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(fd, into, RecvFlags::empty()).map(|(bytes, _)| bytes)
}

fn send(fd: &OwnedFd, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    if let [slice] = slices {
        return rustix::net::send(fd, slice, SendFlags::NOSIGNAL);
    }
    rustix::net::sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
}
