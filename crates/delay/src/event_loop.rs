//! The event loop: one thread that moves the bytes of all connections.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use model::random::Random;
use model::{MILLISECOND, Nanos, Problems, SECOND};
use rustix::event::{EventfdFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, sockopt};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::connection::{Connection, Progress, Socket, reset};
use crate::recording::{Recorder, Recording};
use crate::settings::{Change, RouteSettings, Scheduled};
use crate::shared::Shared;
use crate::sockets::{BACKLOG, begin_connect};
use crate::statistics::RouteStatistics;

/// Events of one wait.
const EVENTS_MAX: usize = 256;

/// Connections that one listener accepts before other events have their turn.
const ACCEPTS_MAX: usize = 64;

/// The highest priority of a thread that is not a real-time one.
const NICE: i32 = -20;

/// The pause after a connection could not be accepted.
const PAUSE_NS: Nanos = 100 * MILLISECOND;

/// The generation of the tokens that are not of connections.
const OWN: u64 = u64::MAX << 32;
const TIMER: u64 = OWN | 0xffff_ffff;
const WAKE: u64 = OWN | 0xffff_fffe;

/// What others ask the loop to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Changes settings; the answer has every mistake.
    Set(Change, Sender<Result<(), Problems>>),
    /// The routes as they are; with `true`, the statistics start again.
    Show(bool, Sender<Vec<RouteState>>),
    /// Keeps exchanges in memory, at most this many.
    Record(usize),
    /// Ends that; the answer has what happened meanwhile.
    EndRecording(Sender<Recording>),
    /// Ends the loop.
    Stop,
}

/// A route as it is.
#[derive(Clone, Debug)]
pub(crate) struct RouteState {
    pub(crate) settings: RouteSettings,
    pub(crate) statistics: RouteStatistics,
    /// Time since its statistics began.
    pub(crate) observed_ns: Nanos,
}

/// A place for a connection. Its generation tells a new connection from events of an old one.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
    /// The target that it is connecting to.
    connecting: Option<Connecting>,
}

#[derive(Debug)]
struct Connecting {
    /// None before the connect delay is over.
    socket: Option<OwnedFd>,
    /// The address that is tried, by its position.
    position: usize,
    not_before_ns: Nanos,
}

/// The loop.
pub(crate) struct EventLoop {
    shared: Shared,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// The time that the timer is set to; 0 for none.
    timer_ns: Nanos,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command>,
    messages: Sender<String>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Connections with more to do.
    ready: Vec<u64>,
    starved: Vec<u64>,
    schedule: VecDeque<Scheduled>,
    /// Listeners that continue at a time.
    paused: Vec<(Nanos, usize)>,
    started_ns: Nanos,
    observed_from_ns: Nanos,
    accepted: u64,
    random: Random,
    /// How long it polls before something is due.
    spin_ns: Nanos,
}

impl EventLoop {
    /// A loop that has not begun.
    ///
    /// # Errors
    /// When the kernel has no descriptors left.
    pub(crate) fn new(
        shared: Shared,
        mut schedule: Vec<Scheduled>,
        spin_ns: Nanos,
        wake: Arc<OwnedFd>,
        commands: Receiver<Command>,
        messages: Sender<String>,
    ) -> Result<EventLoop, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), edge)?;
        epoll::add(&epoll, &*wake, epoll::EventData::new_u64(WAKE), edge)?;
        // Changes at the same time keep their order.
        schedule.sort_by_key(|scheduled| scheduled.at_ns);
        let (started_ns, random) = (shared.now_ns, Random::stream(shared.seed, u64::MAX));
        let mut event_loop = EventLoop {
            shared,
            epoll,
            timer,
            timer_ns: 0,
            wake,
            commands,
            messages,
            slots: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            starved: Vec::new(),
            schedule: schedule.into(),
            paused: Vec::new(),
            started_ns,
            observed_from_ns: started_ns,
            accepted: 0,
            random,
            spin_ns,
        };
        for route in 0..event_loop.shared.routes.len() {
            event_loop.watch_listener(route)?;
            event_loop.update_listener(route);
        }
        Ok(event_loop)
    }

    /// Moves bytes until it is stopped; then the state of the routes. The log is complete when it returns.
    pub(crate) fn run(mut self) -> Vec<RouteState> {
        raise_priority();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            if !self.shared.pool.is_exhausted() {
                self.ready.append(&mut self.starved);
            }
            if self.wait(&mut events).is_err() {
                // Only a bad descriptor or memory fault, which cannot be: without events nothing can continue.
                return self.finish();
            }
            self.shared.tick();
            self.shared.woken_ns = self.shared.now_ns;
            self.carry_out_schedule();
            self.expire();
            for event in &events {
                match event.data.u64() {
                    TIMER => self.timer_ns = 0,
                    WAKE => {
                        if !self.obey() {
                            return self.finish();
                        }
                    }
                    own if own & OWN == OWN => self.accept((own & !OWN) as usize),
                    token => self.event(token, event.flags),
                }
            }
            for token in std::mem::take(&mut self.ready) {
                self.drive(token);
            }
        }
    }

    /// Waits for events, or until something is due.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut timeout = (!self.ready.is_empty()).then_some(&zero);
        if timeout.is_none()
            && let Some(next_ns) = self.next_ns()
        {
            self.shared.tick();
            let wake_ns = next_ns.saturating_sub(self.spin_ns);
            if wake_ns <= self.shared.now_ns {
                timeout = Some(&zero);
            } else if wake_ns != self.timer_ns {
                self.set_timer(wake_ns)?;
            }
        }
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn next_ns(&self) -> Option<Nanos> {
        let timer = self.shared.timers.peek().map(|Reverse((due_ns, _))| *due_ns);
        let change = self.schedule.front().map(|scheduled| self.started_ns + scheduled.at_ns);
        let paused = self.paused.iter().map(|(at_ns, _)| *at_ns).min();
        [timer, change, paused].into_iter().flatten().min()
    }

    fn set_timer(&mut self, at_ns: Nanos) -> Result<(), Errno> {
        let time = |ns: Nanos| Timespec {
            tv_sec: (ns / SECOND).try_into().unwrap_or(i64::MAX),
            tv_nsec: (ns % SECOND) as _,
        };
        let at = Itimerspec { it_interval: time(0), it_value: time(at_ns) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at)?;
        self.timer_ns = at_ns;
        Ok(())
    }

    /// Drives the connections for which something is due.
    fn expire(&mut self) {
        while let Some(&Reverse((due_ns, token))) = self.shared.timers.peek()
            && due_ns <= self.shared.now_ns
        {
            self.shared.timers.pop();
            let Some(slot) = self.slot(token) else { continue };
            if let Some(connecting) = &self.slots[slot].connecting {
                if connecting.socket.is_none() && connecting.not_before_ns == due_ns {
                    self.connect(slot);
                }
            } else if self.slots[slot].connection.as_mut().is_some_and(|connection| connection.expire(due_ns))
            {
                self.drive(token);
            }
        }
        let now_ns = self.shared.now_ns;
        for (at_ns, route) in std::mem::take(&mut self.paused) {
            match at_ns <= now_ns {
                true => self.listen_again(route),
                false => self.paused.push((at_ns, route)),
            }
        }
    }

    fn carry_out_schedule(&mut self) {
        while let Some(scheduled) = self.schedule.front()
            && self.started_ns + scheduled.at_ns <= self.shared.now_ns
            && let Some(scheduled) = self.schedule.pop_front()
        {
            let at = model::quantity::duration(scheduled.at_ns);
            let message = match self.set(&scheduled.change) {
                Ok(()) => format!("after {at}: the scheduled settings are in force"),
                Err(problems) => format!("after {at}: the schedule cannot be carried out: {problems}"),
            };
            // Nobody has to listen.
            let _ = self.messages.send(message);
        }
    }

    /// Carries out all commands; false to end.
    fn obey(&mut self) -> bool {
        let mut count = [0; 8];
        // It only wakes the loop; its value means nothing.
        let _ = rustix::io::read(&*self.wake, &mut count);
        while let Ok(command) = self.commands.try_recv() {
            // Who asked may be gone.
            match command {
                Command::Set(change, answer) => {
                    let _ = answer.send(self.set(&change));
                }
                Command::Show(restarts, answer) => {
                    let _ = answer.send(self.states());
                    if restarts {
                        self.restart_statistics();
                    }
                }
                Command::Record(exchanges_max) => {
                    let recorder = Recorder::begin(&self.shared.routes, exchanges_max, self.shared.now_ns);
                    self.shared.recorder = Some(recorder);
                }
                Command::EndRecording(answer) => {
                    let _ = answer.send(self.end_recording());
                }
                Command::Stop => return false,
            }
        }
        true
    }

    /// Changes the settings of the routes that a change names, or none of them.
    fn set(&mut self, change: &Change) -> Result<(), Problems> {
        let now_ns = self.shared.now_ns;
        let changed = changed_settings(&self.shared, change, now_ns)?;
        for (route, settings) in changed {
            self.shared.routes[route].set(settings);
            self.update_listener(route);
        }
        // A black hole may have ended, and a direction may continue.
        for slot in 0..self.slots.len() {
            if self.slots[slot].connection.is_some() && self.slots[slot].connecting.is_none() {
                self.ready.push(self.token(slot));
            }
        }
        Ok(())
    }

    fn states(&self) -> Vec<RouteState> {
        let observed_ns = self.shared.now_ns.saturating_sub(self.observed_from_ns);
        let state = |route: &crate::route::Route| RouteState {
            settings: route.settings.clone(),
            statistics: route.statistics.clone(),
            observed_ns,
        };
        self.shared.routes.iter().map(state).collect()
    }

    fn restart_statistics(&mut self) {
        self.observed_from_ns = self.shared.now_ns;
        for route in &mut self.shared.routes {
            route.statistics = route.statistics.restarted(self.shared.now_ns);
        }
    }

    fn end_recording(&mut self) -> Recording {
        for connection in self.slots.iter().filter_map(|slot| slot.connection.as_ref()) {
            crate::recording::add(&mut self.shared.recorder, connection.seen());
        }
        let recorder = self.shared.recorder.take();
        recorder.map(|recorder| recorder.end(&self.shared.routes, self.shared.now_ns)).unwrap_or_default()
    }

    fn finish(mut self) -> Vec<RouteState> {
        self.shared.tick();
        for slot in 0..self.slots.len() {
            self.remove(slot);
        }
        self.states()
    }

    // Connections.

    fn token(&self, slot: usize) -> u64 {
        (u64::from(self.slots[slot].generation) << 32) | ((slot as u64) << 1)
    }

    /// The slot of a token whose connection still exists.
    fn slot(&self, token: u64) -> Option<usize> {
        let slot = ((token & 0xffff_ffff) >> 1) as usize;
        let found = self.slots.get(slot)?;
        (u64::from(found.generation) == token >> 32 && found.connection.is_some()).then_some(slot)
    }

    fn event(&mut self, token: u64, flags: epoll::EventFlags) {
        let Some(slot) = self.slot(token) else { return };
        let is_client = token & 1 == 0;
        let is_connecting = self.slots[slot].connecting.is_some();
        if is_connecting && !is_client {
            return self.finish_connect(slot, flags);
        }
        if let Some(connection) = &mut self.slots[slot].connection {
            connection.event(is_client, flags);
            match is_connecting {
                true if connection.has_failed() => self.remove(slot),
                true => {}
                false => self.drive(token & !1),
            }
        }
    }

    /// Moves what can be moved on one connection.
    fn drive(&mut self, token: u64) {
        let Some(slot) = self.slot(token) else { return };
        let Some(connection) = &mut self.slots[slot].connection else { return };
        if !connection.is_connected() {
            return;
        }
        match connection.drive(token, &mut self.shared) {
            Progress::Waits => {}
            Progress::HasMore => self.ready.push(token),
            Progress::Starved => self.starved.push(token),
            Progress::Ended => self.remove(slot),
        }
    }

    fn remove(&mut self, slot: usize) {
        let found = &mut self.slots[slot];
        if let Some(connection) = found.connection.take() {
            found.connecting = None;
            // The last generation belongs to tokens that are not of connections.
            found.generation = (found.generation + 1) % u32::MAX;
            connection.close(&mut self.shared);
            self.free.push(slot);
        }
    }

    fn accept(&mut self, route: usize) {
        for _ in 0..ACCEPTS_MAX {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::accept_with(&self.shared.routes[route].listener, flags) {
                Ok(client) => self.admit(route, client),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    let found = &mut self.shared.routes[route];
                    found.statistics.connections.accept_errors += 1;
                    found.statistics.last_error = format!("a connection cannot be accepted: {error}");
                    // Until descriptors are free, its events would be without end.
                    let _ = epoll::delete(&self.epoll, &found.listener);
                    self.paused.push((self.shared.now_ns + PAUSE_NS, route));
                    return;
                }
            }
        }
    }

    /// Refuses a new connection, or connects it to the target.
    fn admit(&mut self, route: usize, client: OwnedFd) {
        let found = &mut self.shared.routes[route];
        found.statistics.connections.accepted += 1;
        if self.random.unit() < found.settings.refuse {
            found.statistics.connections.refused += 1;
            return reset(client);
        }
        found.statistics.connections.open += 1;
        let delay_ns = found.settings.connect_delay_ns;
        let number = self.accepted;
        self.accepted += 1;
        let _ = sockopt::set_tcp_nodelay(&client, true);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let token = self.token(slot);
        let watched = self.watch(&client, token);
        let connection = Connection::new(route, number, Socket::new(client), &self.shared);
        let not_before_ns = self.shared.now_ns + delay_ns;
        self.slots[slot].connection = Some(Box::new(connection));
        self.slots[slot].connecting = Some(Connecting { socket: None, position: 0, not_before_ns });
        if let Err(error) = watched {
            return self.refuse(slot, error);
        }
        match delay_ns {
            0 => self.connect(slot),
            _ => self.shared.arm(not_before_ns, token),
        }
    }

    fn watch(&self, socket: &OwnedFd, token: u64) -> Result<(), Errno> {
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), flags)
    }

    /// Tries the addresses of the target from the current one on.
    fn connect(&mut self, slot: usize) {
        let Some(connection) = &self.slots[slot].connection else { return };
        let route = connection.route;
        let mut last_error = Errno::ADDRNOTAVAIL;
        loop {
            let Some(connecting) = &mut self.slots[slot].connecting else { return };
            let Some(address) = self.shared.routes[route].addresses.get(connecting.position).copied() else {
                return self.refuse(slot, last_error);
            };
            connecting.position += 1;
            match begin_connect(address) {
                Ok((socket, is_connected)) => match self.watch(&socket, self.token(slot) | 1) {
                    Ok(()) => {
                        if let Some(connecting) = &mut self.slots[slot].connecting {
                            connecting.socket = Some(socket);
                        }
                        if is_connected {
                            self.finish_connect(slot, epoll::EventFlags::OUT);
                        }
                        return;
                    }
                    Err(error) => last_error = error,
                },
                Err(error) => last_error = error,
            }
        }
    }

    /// The target answered: it accepted, or there is an error.
    fn finish_connect(&mut self, slot: usize, flags: epoll::EventFlags) {
        let Slot { connection: Some(connection), connecting: Some(connecting), .. } = &mut self.slots[slot]
        else {
            return;
        };
        let Some(socket) = connecting.socket.take() else { return };
        let route = &mut self.shared.routes[connection.route];
        match sockopt::socket_error(&socket) {
            Ok(Ok(())) => {
                if !std::mem::replace(&mut route.is_reachable, true) {
                    let _ = self.messages.send(format!("{} can be reached again", route.target));
                }
                connection.connected(Socket::new(socket), flags, &self.shared);
                self.slots[slot].connecting = None;
                self.drive(self.token(slot));
            }
            Ok(Err(error)) | Err(error) => {
                drop(socket);
                match connecting.position < route.addresses.len() {
                    true => self.connect(slot),
                    false => self.refuse(slot, error),
                }
            }
        }
    }

    /// There is no target: refuses the client, as the target would.
    fn refuse(&mut self, slot: usize, error: Errno) {
        let found = &mut self.slots[slot];
        let Some(connection) = found.connection.take() else { return };
        found.connecting = None;
        found.generation = (found.generation + 1) % u32::MAX;
        self.free.push(slot);
        let route = &mut self.shared.routes[connection.route];
        let counts = &mut route.statistics.connections;
        counts.unreachable += 1;
        counts.open = counts.open.saturating_sub(1);
        let text = std::io::Error::from(error);
        route.statistics.last_error = format!("{} cannot be reached: {text}", route.target);
        if std::mem::replace(&mut route.is_reachable, false) {
            let help = "start it, or correct the address; until then, connections are refused";
            let _ = self.messages.send(format!("warning: {}\n  {help}", route.statistics.last_error));
        }
        connection.refuse();
    }

    // Listeners.

    fn watch_listener(&self, route: usize) -> Result<(), Errno> {
        let listener = &self.shared.routes[route].listener;
        epoll::add(
            &self.epoll,
            listener,
            epoll::EventData::new_u64(OWN | route as u64),
            epoll::EventFlags::IN,
        )
    }

    /// Closes the port where every connection is refused, so that the kernel refuses it, and opens it again.
    fn update_listener(&mut self, route: usize) {
        let found = &mut self.shared.routes[route];
        match (found.is_listening, found.settings.refuse >= 1.0) {
            (true, true) => {
                // It is missing during a pause.
                let _ = epoll::delete(&self.epoll, &found.listener);
                // The address stays bound.
                if rustix::net::shutdown(&found.listener, Shutdown::Both).is_ok() {
                    found.is_listening = false;
                } else {
                    self.paused.push((self.shared.now_ns, route));
                }
            }
            (_, false) => self.listen_again(route),
            _ => {}
        }
    }

    /// Continues to listen, or tries again later.
    fn listen_again(&mut self, route: usize) {
        let found = &mut self.shared.routes[route];
        if found.settings.refuse >= 1.0 {
            return;
        }
        let mut result = Ok(());
        if !found.is_listening {
            result = rustix::net::listen(&found.listener, BACKLOG);
            found.is_listening = result.is_ok();
        }
        let result = result.and_then(|()| self.watch_listener(route));
        if let Err(error) = result
            && error != Errno::EXIST
        {
            let found = &mut self.shared.routes[route];
            found.statistics.last_error = format!("the address cannot be listened on: {error}");
            self.paused.push((self.shared.now_ns + PAUSE_NS, route));
        }
    }
}

/// The new settings of each route that a change names.
fn changed_settings(
    shared: &Shared,
    change: &Change,
    now_ns: Nanos,
) -> Result<Vec<(usize, RouteSettings)>, Problems> {
    let mut problems = Problems::new();
    let mut changed = Vec::new();
    let is_named = |name: &str| change.route.as_ref().is_none_or(|route| route == name);
    for (index, route) in shared.routes.iter().enumerate().filter(|(_, route)| is_named(&route.name)) {
        let mut settings = route.settings.clone();
        settings.change(change, now_ns);
        problems.extend(settings.check());
        changed.push((index, settings));
    }
    if let (true, Some(name)) = (changed.is_empty(), &change.route) {
        problems
            .push(crate::proxy::unknown_route(name, shared.routes.iter().map(|route| route.name.as_str())));
    }
    problems.or(changed)
}

/// Lets this thread run as soon as something is due, also where other programs keep the CPUs busy. It changes nothing
/// without the permission (`CAP_SYS_NICE`): then more bytes are late, and the histogram of errors has them.
fn raise_priority() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

/// A descriptor that wakes the loop.
pub(crate) fn wake_descriptor() -> Result<OwnedFd, Errno> {
    rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
}
