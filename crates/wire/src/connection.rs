//! One TCP connection: its segments, its protocol, and the operations that it carries.

use model::wire::MissedKind;

use crate::direction::{Direction, Piece, Trouble};
use crate::flow::{Flow, Side};
use crate::http::{self, Http};
use crate::ldap::{self, Encryption, Ldap};
use crate::operation::Protocol;
use crate::packet::{Endpoint, Segment, flag};
use crate::shared::Shared;

/// Bytes after which a protocol must be recognizable.
const RECOGNIZABLE: usize = 64;

/// Segments of a connection captured in mid-stream that are examined for the start of a message.
const TRIES_MAX: u32 = 64;

/// The longest message by whose first bytes LDAP is recognized.
const RECOGNIZED_BYTES_MAX: usize = 16 << 20;

/// The protocol of a connection, as far as it is known.
#[derive(Debug)]
enum Conversing {
    Unknown {
        tries: u32,
    },
    Ldap(Box<Ldap>),
    Http(Box<Http>),
    Tls,
    /// Not analysed.
    Other,
}

/// What a connection is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Ldap,
    Http,
    Tls,
    Other,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    /// The ends in the order of the key.
    ends: [Endpoint; 2],
    /// The index of the client in `ends`.
    client: usize,
    /// Whether that is certain: the SYN, a request or a known port says it.
    is_client_known: bool,
    directions: [Direction; 2],
    flows: [Flow; 2],
    conversing: Conversing,
    /// The protocol that the port of the server has.
    expected: Option<Protocol>,
    pub(crate) is_begun: bool,
    syn_ns: Option<u64>,
    syn_ack_ns: Option<u64>,
    pub(crate) handshake_ns: Option<u64>,
    pub(crate) handshake_ack_ns: Option<u64>,
    pub(crate) begin_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) resets: u64,
    pub(crate) is_closed: bool,
    pub(crate) operations: u64,
    pub(crate) total_ns: u64,
}

impl Connection {
    /// A connection whose first segment is this one. `ports` says which protocol a port has.
    pub(crate) fn new(
        number: u64,
        ends: [Endpoint; 2],
        segment: &Segment<'_>,
        ports: &crate::Ports,
        now_ns: u64,
    ) -> Self {
        let sender = usize::from(segment.source != ends[0]);
        let protocols = ends.map(|end| ports.protocol(end.port));
        let (client, is_client_known) = match (segment.has(flag::SYN), segment.has(flag::ACK), protocols) {
            (true, false, _) => (sender, true),
            (true, true, _) => (1 - sender, true),
            (_, _, [Some(_), None]) => (1, true),
            (_, _, [None, Some(_)]) => (0, true),
            // Ports of servers are usually the lower ones.
            _ => (usize::from(ends[0].port < ends[1].port), false),
        };
        Connection {
            number,
            ends,
            client,
            is_client_known,
            directions: Default::default(),
            flows: Default::default(),
            conversing: Conversing::Unknown { tries: 0 },
            expected: protocols[1 - client],
            is_begun: segment.has(flag::SYN) && !segment.has(flag::ACK),
            syn_ns: None,
            syn_ack_ns: None,
            handshake_ns: None,
            handshake_ack_ns: None,
            begin_ns: now_ns,
            last_ns: now_ns,
            resets: 0,
            is_closed: false,
            operations: 0,
            total_ns: 0,
        }
    }

    /// Whether the segment begins another connection with the same ends.
    pub(crate) fn is_succeeded_by(&self, segment: &Segment<'_>) -> bool {
        let sender = usize::from(segment.source != self.ends[0]);
        segment.has(flag::SYN)
            && !segment.has(flag::ACK)
            && !(self.is_begun && self.directions[sender].begins_with(segment.sequence))
    }

    /// Both ends, in the order of the table.
    pub(crate) fn key(&self) -> (Endpoint, Endpoint) {
        (self.ends[0], self.ends[1])
    }

    /// Client and server.
    pub(crate) fn client_and_server(&self) -> (Endpoint, Endpoint) {
        (self.ends[self.client], self.ends[1 - self.client])
    }

    pub(crate) fn shown(&self) -> Shown {
        match &self.conversing {
            Conversing::Ldap(_) => Shown::Ldap,
            Conversing::Http(_) => Shown::Http,
            Conversing::Tls => Shown::Tls,
            Conversing::Other | Conversing::Unknown { .. } => match self.expected {
                Some(Protocol::Ldap) => Shown::Ldap,
                Some(Protocol::Http) => Shown::Http,
                None => Shown::Other,
            },
        }
    }

    /// Bytes of the payload from client and server.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.directions[self.client].bytes, self.directions[1 - self.client].bytes)
    }

    /// What is wrong with the segments of both directions.
    pub(crate) fn trouble(&self) -> Trouble {
        let [a, b] = [self.directions[0].trouble, self.directions[1].trouble];
        Trouble {
            retransmissions: a.retransmissions + b.retransmissions,
            out_of_order: a.out_of_order + b.out_of_order,
            zero_windows: a.zero_windows + b.zero_windows,
            gaps: a.gaps + b.gaps,
            gap_bytes: a.gap_bytes + b.gap_bytes,
        }
    }

    /// Takes a segment.
    pub(crate) fn accept(&mut self, segment: &Segment<'_>, shared: &mut Shared) {
        self.last_ns = shared.now_ns;
        let sender = usize::from(segment.source != self.ends[0]);
        if segment.has(flag::SYN) {
            self.shake_hands(sender, segment, shared.now_ns);
            return;
        }
        if sender == self.client
            && self.handshake_ack_ns.is_none()
            && let Some(syn_ack_ns) = self.syn_ack_ns
        {
            self.handshake_ack_ns = Some(shared.now_ns.saturating_sub(syn_ack_ns));
        }
        let (directions, mut reader) = self.split();
        let [first, second] = directions;
        let (from, to) = if sender == 0 { (first, second) } else { (second, first) };
        if segment.has(flag::ACK) && !segment.has(flag::RST) {
            to.acknowledge(segment.acknowledgment, shared, &mut |piece, shared| {
                reader.take(1 - sender, piece, shared)
            });
        }
        from.accept(segment, shared, &mut |piece, shared| reader.take(sender, piece, shared));
        if segment.has(flag::RST) {
            self.resets += 1;
            self.close(shared);
        } else if self.directions[sender].is_finished() {
            self.end(sender, shared);
            if self.directions[1 - sender].is_finished() {
                self.close(shared);
            }
        }
    }

    /// The directions, and what reads what they put into order.
    fn split(&mut self) -> (&mut [Direction; 2], Reader<'_>) {
        let Connection {
            directions,
            flows,
            conversing,
            number,
            ends,
            client,
            is_client_known,
            expected,
            is_begun,
            ..
        } = self;
        let reader = Reader {
            flows,
            conversing,
            number: *number,
            ends,
            client,
            is_client_known,
            expected: *expected,
            is_begun: *is_begun,
        };
        (directions, reader)
    }

    fn shake_hands(&mut self, sender: usize, segment: &Segment<'_>, now_ns: u64) {
        let direction = &mut self.directions[sender];
        direction.packets += 1;
        let is_repeated = direction.begins_with(segment.sequence);
        if is_repeated {
            direction.trouble.retransmissions += 1;
        } else {
            direction.begin(segment.sequence);
        }
        match segment.has(flag::ACK) {
            // From the last SYN that was sent, also if it was sent again.
            false => self.syn_ns = Some(now_ns),
            true if self.syn_ack_ns.is_none() => {
                self.syn_ack_ns = Some(now_ns);
                self.handshake_ns = self.syn_ns.map(|syn_ns| now_ns.saturating_sub(syn_ns));
            }
            true => {}
        }
    }

    /// The connection has ended, or is no longer followed.
    pub(crate) fn close(&mut self, shared: &mut Shared) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        let (directions, mut reader) = self.split();
        for (at, direction) in directions.iter_mut().enumerate() {
            direction.end(shared, &mut |piece, shared| reader.take(at, piece, shared));
        }
        for sender in 0..self.flows.len() {
            self.end(sender, shared);
        }
        match &mut self.conversing {
            Conversing::Ldap(ldap) => ldap.close(shared),
            Conversing::Http(http) => http.close(shared),
            _ => {}
        }
    }

    /// One direction has ended.
    fn end(&mut self, sender: usize, shared: &mut Shared) {
        let side = if sender == self.client { Side::Client } else { Side::Server };
        let flow = &mut self.flows[sender];
        match &mut self.conversing {
            Conversing::Ldap(ldap) => flow.end(side, ldap.as_mut(), shared),
            Conversing::Http(http) => flow.end(side, http.as_mut(), shared),
            _ => flow.clear(shared),
        }
    }

    /// Counts what was not analysed, when the connection is forgotten.
    pub(crate) fn count_missed(&self, shared: &mut Shared) {
        let (client, server) = self.bytes();
        let bytes = client + server;
        match &self.conversing {
            Conversing::Tls => shared.miss(MissedKind::Tls, bytes),
            Conversing::Ldap(ldap) => match ldap.encryption {
                Some(Encryption::StartTls) => shared.miss(MissedKind::StartTls, bytes),
                Some(Encryption::Sasl) => shared.miss(MissedKind::SaslLayer, bytes),
                None => {}
            },
            Conversing::Http(http) if http.is_tunnel => shared.miss(MissedKind::Tunnel, bytes),
            Conversing::Other | Conversing::Unknown { .. } if bytes > 0 => {
                shared.miss(MissedKind::OtherConnections, bytes);
            }
            _ => {}
        }
    }
}

/// Passes the streams of a connection to its protocol.
struct Reader<'a> {
    flows: &'a mut [Flow; 2],
    conversing: &'a mut Conversing,
    number: u64,
    ends: &'a [Endpoint; 2],
    client: &'a mut usize,
    is_client_known: &'a mut bool,
    expected: Option<Protocol>,
    is_begun: bool,
}

/// What the first bytes of a direction show.
enum Recognized {
    Protocol(Protocol, Side),
    Tls,
    Http2,
    More,
    Nothing,
}

impl Reader<'_> {
    fn take(&mut self, sender: usize, piece: Piece<'_>, shared: &mut Shared) {
        let side = if sender == *self.client { Side::Client } else { Side::Server };
        match self.conversing {
            Conversing::Ldap(ldap) => self.flows[sender].take(side, piece, ldap.as_mut(), shared),
            Conversing::Http(http) => self.flows[sender].take(side, piece, http.as_mut(), shared),
            Conversing::Unknown { .. } => self.examine(sender, piece, shared),
            Conversing::Tls | Conversing::Other => {}
        }
    }

    /// Looks for the start of a message.
    fn examine(&mut self, sender: usize, piece: Piece<'_>, shared: &mut Shared) {
        let flow = &mut self.flows[sender];
        let Piece::Bytes(bytes) = piece else {
            flow.clear(shared);
            flow.is_lost = true;
            return;
        };
        if !flow.buffer.is_empty() {
            if shared.reserve(bytes.len()) {
                flow.buffer.extend_from_slice(bytes);
            }
            let buffer = std::mem::take(&mut flow.buffer);
            let recognized = self.recognized(sender, &buffer);
            shared.release(buffer.len());
            return self.decide(sender, &buffer, recognized, shared);
        }
        let recognized = self.recognized(sender, bytes);
        self.decide(sender, bytes, recognized, shared);
    }

    fn decide(&mut self, sender: usize, bytes: &[u8], recognized: Recognized, shared: &mut Shared) {
        match recognized {
            Recognized::Protocol(protocol, side) => {
                let client = if side == Side::Client { sender } else { 1 - sender };
                if !*self.is_client_known || !self.is_begun {
                    *self.client = client;
                    *self.is_client_known = true;
                }
                let ends = (self.ends[*self.client], self.ends[1 - *self.client]);
                *self.conversing = match protocol {
                    Protocol::Ldap => Conversing::Ldap(Box::new(Ldap::new(self.number, ends, self.is_begun))),
                    Protocol::Http => Conversing::Http(Box::new(Http::new(self.number, ends))),
                };
                // The other direction continues at the start of a message only if that was captured.
                let other = &mut self.flows[1 - sender];
                let begun = std::mem::take(&mut other.buffer);
                shared.release(begun.len());
                other.is_lost |= !self.is_begun;
                self.flows[sender].is_lost = !self.is_begun;
                if !begun.is_empty() {
                    self.take(1 - sender, Piece::Bytes(&begun), shared);
                }
                self.take(sender, Piece::Bytes(bytes), shared);
            }
            Recognized::Tls => *self.conversing = Conversing::Tls,
            Recognized::Http2 => {
                shared.miss(MissedKind::Http2, 0);
                *self.conversing = Conversing::Other;
            }
            Recognized::More => {
                if shared.reserve(bytes.len()) {
                    self.flows[sender].buffer.extend_from_slice(bytes);
                }
            }
            Recognized::Nothing => {
                self.flows[sender].is_lost = true;
                if self.expected.is_some() {
                    shared.miss(MissedKind::SkippedBytes, bytes.len() as u64);
                }
                if let Conversing::Unknown { tries } = self.conversing {
                    *tries += 1;
                    let tries_max = if self.is_begun && self.expected.is_none() { 2 } else { TRIES_MAX };
                    if *tries >= tries_max {
                        *self.conversing = Conversing::Other;
                    }
                }
            }
        }
    }

    fn recognized(&self, sender: usize, bytes: &[u8]) -> Recognized {
        let may_be = |protocol| self.expected.is_none_or(|expected| expected == protocol);
        if let [0x14..=0x17, 3, 0..=4, ..] = bytes {
            return Recognized::Tls;
        }
        if bytes.starts_with(http::HTTP2_PREFACE) {
            return Recognized::Http2;
        }
        if may_be(Protocol::Http) {
            if http::begins_with_method(bytes) {
                return Recognized::Protocol(Protocol::Http, Side::Client);
            }
            if http::begins_with_status(bytes) {
                return Recognized::Protocol(Protocol::Http, Side::Server);
            }
        }
        if may_be(Protocol::Ldap)
            && let Some((side, _)) = ldap::plausible(bytes, RECOGNIZED_BYTES_MAX)
        {
            return Recognized::Protocol(Protocol::Ldap, side);
        }
        if bytes.len() < RECOGNIZABLE && self.is_begun && !self.flows[sender].is_lost {
            return Recognized::More;
        }
        match self.expected {
            // Any method, and messages that are damaged at the begin: the protocol itself counts what it skips.
            Some(protocol) if *self.is_client_known && self.is_begun => {
                let side = if sender == *self.client { Side::Client } else { Side::Server };
                Recognized::Protocol(protocol, side)
            }
            _ => Recognized::Nothing,
        }
    }
}
