//! The connections of a capture: a table of bounded size, and what is counted over all of them.

use std::collections::HashMap;

use model::wire::{MissedKind, WireConnection, WireConnections};

use crate::Ports;
use crate::connection::{Connection, Shown};
use crate::packet::{Endpoint, Segment, flag};
use crate::shared::Shared;
use crate::times::Times;

/// The most connections that are followed at a time.
const CONNECTIONS_MAX: usize = 1 << 16;

/// The share of them that is forgotten when there are more: those that ended, then those that are idle the longest.
const FORGOTTEN_SHARE: usize = 8;

/// The most connections that are listed.
const TOP_MAX: usize = 100;

/// Places that are remembered.
const RECENT: usize = 256;

type Key = (Endpoint, Endpoint);

/// The connections that are followed.
pub(crate) struct Connections {
    ports: Ports,
    places: HashMap<Key, usize>,
    table: Vec<Connection>,
    /// Places that were found before, by a part of the key.
    recent: Box<[Option<(Key, usize)>; RECENT]>,
    /// Numbers that were given.
    numbers: u64,
    sum: WireConnections,
    handshake: Times,
    handshake_ack: Times,
    top: Vec<(u64, WireConnection)>,
}

impl Connections {
    pub(crate) fn new(ports: Ports) -> Self {
        Connections {
            ports,
            places: HashMap::new(),
            table: Vec::new(),
            recent: Box::new([None; RECENT]),
            numbers: 0,
            sum: WireConnections::default(),
            handshake: Times::default(),
            handshake_ack: Times::default(),
            top: Vec::new(),
        }
    }

    /// Takes a segment.
    pub(crate) fn accept(&mut self, segment: &Segment<'_>, shared: &mut Shared) {
        let key = match segment.source <= segment.destination {
            true => (segment.source, segment.destination),
            false => (segment.destination, segment.source),
        };
        let slot = usize::from(key.0.port ^ key.1.port) % RECENT;
        let known = match self.recent[slot] {
            Some((recent, place)) if recent == key => Some(place),
            _ => self.places.get(&key).copied(),
        };
        let place = match known {
            Some(place) if !self.table[place].is_succeeded_by(segment) => place,
            Some(place) => {
                let next = self.begin(key, segment, shared);
                let mut old = std::mem::replace(&mut self.table[place], next);
                self.forget(&mut old, shared);
                place
            }
            // What is left of a connection that was forgotten.
            None if segment.has(flag::RST) => return,
            None => {
                if self.table.len() >= CONNECTIONS_MAX {
                    self.make_room(shared);
                }
                let connection = self.begin(key, segment, shared);
                self.table.push(connection);
                self.places.insert(key, self.table.len() - 1);
                self.table.len() - 1
            }
        };
        self.recent[slot] = Some((key, place));
        let connection = &mut self.table[place];
        let done = shared.done.len();
        connection.accept(segment, shared);
        for operation in &shared.done[done..] {
            connection.operations += 1;
            connection.total_ns += operation.time_ns().unwrap_or(0);
        }
    }

    fn begin(&mut self, key: Key, segment: &Segment<'_>, shared: &Shared) -> Connection {
        self.numbers += 1;
        Connection::new(self.numbers, [key.0, key.1], segment, &self.ports, shared.now_ns)
    }

    /// Forgets some connections.
    fn make_room(&mut self, shared: &mut Shared) {
        self.recent.fill(None);
        let count = self.table.len() / FORGOTTEN_SHARE;
        let age = |of: &Connection| (!of.is_closed, of.last_ns, of.number);
        self.table.select_nth_unstable_by_key(count, age);
        let forgotten: Vec<Connection> = self.table.drain(..count).collect();
        for mut connection in forgotten {
            if !connection.is_closed {
                shared.miss(MissedKind::ConnectionLimit, 0);
            }
            self.forget(&mut connection, shared);
        }
        self.places.clear();
        for (place, connection) in self.table.iter().enumerate() {
            self.places.insert(connection.key(), place);
        }
    }

    /// Adds a connection to the sums.
    fn forget(&mut self, connection: &mut Connection, shared: &mut Shared) {
        connection.close(shared);
        connection.count_missed(shared);
        let shown = connection.shown();
        if shown == Shown::Other {
            return;
        }
        let trouble = connection.trouble();
        let sum = &mut self.sum;
        sum.count += 1;
        sum.begun_before += u64::from(!connection.is_begun);
        sum.retransmissions += trouble.retransmissions;
        sum.out_of_order += trouble.out_of_order;
        sum.resets += connection.resets;
        sum.zero_windows += trouble.zero_windows;
        sum.gaps += trouble.gaps;
        sum.gap_bytes += trouble.gap_bytes;
        if let Some(ns) = connection.handshake_ns {
            self.handshake.record(ns);
        }
        if let Some(ns) = connection.handshake_ack_ns {
            self.handshake_ack.record(ns);
        }
        let least = self.top.iter().map(|(total_ns, _)| *total_ns).min().unwrap_or(0);
        if self.top.len() >= TOP_MAX {
            if connection.total_ns <= least {
                return;
            }
            if let Some(place) = self.top.iter().position(|(total_ns, _)| *total_ns == least) {
                self.top.swap_remove(place);
            }
        }
        let (client, server) = connection.client_and_server();
        let (client_bytes, server_bytes) = connection.bytes();
        let row = WireConnection {
            number: connection.number,
            client: client.to_string(),
            server: server.to_string(),
            protocol: match shown {
                Shown::Ldap => "ldap",
                Shown::Http => "http",
                Shown::Tls => "tls",
                Shown::Other => "other",
            }
            .into(),
            begin_s: connection.begin_ns.saturating_sub(shared.begin_ns) as f64 / 1e9,
            seconds: connection.last_ns.saturating_sub(connection.begin_ns) as f64 / 1e9,
            operations: connection.operations,
            total_s: connection.total_ns as f64 / 1e9,
            handshake_ms: connection.handshake_ns.map(|ns| ns as f64 / 1e6),
            client_bytes,
            server_bytes,
            retransmissions: trouble.retransmissions,
            out_of_order: trouble.out_of_order,
            zero_windows: trouble.zero_windows,
            gaps: trouble.gaps,
            is_reset: connection.resets > 0,
        };
        self.top.push((connection.total_ns, row));
    }

    /// Ends all connections, and returns the sums.
    pub(crate) fn finish(mut self, top: usize, shared: &mut Shared) -> WireConnections {
        let mut table = std::mem::take(&mut self.table);
        table.sort_by_key(|connection| connection.number);
        for connection in &mut table {
            self.forget(connection, shared);
        }
        self.top.sort_by_key(|(total_ns, row)| (std::cmp::Reverse(*total_ns), row.number));
        WireConnections {
            handshake_ms: self.handshake.milliseconds(),
            handshake_ack_ms: self.handshake_ack.milliseconds(),
            top: self.top.into_iter().take(top).map(|(_, row)| row).collect(),
            ..self.sum
        }
    }
}
