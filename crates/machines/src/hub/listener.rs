//! The thread that listens to all machines.

use super::*;

/// How often a connection that is interrupted is looked at.
const AWAY_LOOK: Nanos = SECOND / 10;

/// What listens, and to what.
pub(super) struct Listener {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    inbox: Receiver<FromLink>,
    arrived: Inbox,
    /// What each machine sends, with the number of its connection.
    incoming: Vec<Option<(u64, Box<Incoming>)>>,
    buffer: Vec<u8>,
}

/// Marks the event that something is in the inbox. The events of a machine have twice its index, and one more for its standard error.
const WAKE: u64 = u64::MAX;

impl Listener {
    pub(super) fn new(
        machines: usize,
        inbox: Receiver<FromLink>,
        wake: Arc<OwnedFd>,
        arrived: Inbox,
    ) -> std::io::Result<Listener> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let incoming = (0..machines).map(|_| None).collect();
        Ok(Listener { epoll, wake, inbox, arrived, incoming, buffer: vec![0; 64 << 10] })
    }

    /// Listens until the experiment ends.
    pub(super) fn listen(mut self, shared: &Shared) {
        let clock = Clock::get();
        let mut pause = 0;
        let mut events = Vec::with_capacity(256);
        let mut happened = Vec::new();
        while !shared.ends.load(Ordering::Relaxed) {
            events.clear();
            // An interrupted wait finds nothing, as one whose time is over.
            let pause_at_most = Timespec { tv_sec: 0, tv_nsec: pause as i64 };
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&pause_at_most));
            for event in &events {
                match event.data.u64() {
                    WAKE => _ = rustix::io::read(&self.wake, &mut [0_u8; 8]),
                    of => self.read((of / 2) as usize, of % 2 == 1, &mut happened),
                }
            }
            while let Ok((of, found)) = self.inbox.try_recv() {
                match found {
                    Arrived::Connecting(text) => happened.push((of, Happened::Connecting(text))),
                    Arrived::Closed(why) => happened.push((of, Happened::Closed(why))),
                    Arrived::Connected(incoming) => {
                        happened.push((of, Happened::Connected));
                        self.enter(of, incoming, &mut happened);
                    }
                }
            }
            let mut inner = lock(&shared.inner);
            let has_clocks = inner.fleet.has_clocks();
            let is_news = happened.iter().any(|(_, happened)| happened.is_news(has_clocks));
            for ((machine, connection), happened) in happened.drain(..) {
                // The end of an earlier connection says nothing about the present one.
                if inner.connections[machine] == connection {
                    inner.arrived(machine, happened);
                }
            }
            let now = clock.now();
            let is_away = inner.excuse(now);
            inner.fleet.tick(now);
            inner.pass_on();
            let pause_max = if is_away { AWAY_LOOK } else { Nanos::MAX };
            pause = inner.fleet.next_tick(now).saturating_sub(clock.now()).min(pause_max);
            let is_lost = inner.fleet.lost().is_some();
            drop(inner);
            if is_news || is_lost {
                shared.changed.notify_all();
            }
        }
    }

    /// A machine is connected.
    fn enter(&mut self, of: (usize, u64), incoming: Box<Incoming>, happened: &mut Vec<FromMachine>) {
        let (messages, errors) = incoming.descriptors();
        let event = |which| epoll::EventData::new_u64(2 * of.0 as u64 + which);
        let mut added = epoll::add(&self.epoll, messages, event(0), epoll::EventFlags::IN);
        if let Some(errors) = errors {
            added = added.and(epoll::add(&self.epoll, errors, event(1), epoll::EventFlags::IN));
        }
        if let Err(error) = added {
            return happened.push((of, Happened::Closed(error.to_string())));
        }
        self.incoming[of.0] = Some((of.1, incoming));
        // What arrived with the end of the greeting.
        self.read(of.0, false, happened);
    }

    /// Takes what has arrived from a machine: of its standard error, or messages.
    fn read(&mut self, machine: usize, is_error: bool, happened: &mut Vec<FromMachine>) {
        let Some((connection, incoming)) = &mut self.incoming[machine] else { return };
        let of = (machine, *connection);
        if is_error {
            return incoming.read_errors();
        }
        let mut take = |at, frame| happened.push((of, Happened::Message(at, frame)));
        if let Err(why) = incoming.read(&mut self.buffer, &mut take)
            && let Some((_, incoming)) = self.incoming[machine].take()
        {
            incoming.end(&self.epoll, why, of, &self.arrived);
        }
    }
}

/// What happened on a connection, with the index of its machine and its number.
type FromMachine = ((usize, u64), Happened);

pub(super) enum Happened {
    Connecting(String),
    Connected,
    Message(Nanos, Box<Frame<FromAgent>>),
    Closed(String),
}

impl Happened {
    /// Whether someone may wait for it. For anything else, a thread would take the CPU from a load on this host for nothing.
    fn is_news(&self, has_clocks: bool) -> bool {
        let Happened::Message(_, frame) = self else { return true };
        match frame.head {
            FromAgent::Readings { .. } => false,
            FromAgent::Pong { .. } => !has_clocks,
            _ => true,
        }
    }
}
