//! Captures that are made segment by segment.

use model::wire::WireDocument;
use plimsoll_wire::{Analysis, Operation, Protocol, Settings};

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}
pub(crate) use Side::{Client, Server};

pub(crate) const CLIENT_PORT: u16 = 40_000;
pub(crate) const SERVER_PORT: u16 = 389;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// A packet: its time in microseconds, and its bytes from the header of IP.
pub(crate) type Sent = (u64, Vec<u8>);

/// One connection over IPv4.
pub(crate) struct Connection {
    pub(crate) ports: [u16; 2],
    /// The next sequence number of client and server.
    pub(crate) next: [u32; 2],
    pub(crate) at_us: u64,
    pub(crate) window: u16,
    pub(crate) packets: Vec<Sent>,
}

impl Connection {
    pub(crate) fn new(client_port: u16, server_port: u16) -> Self {
        let ports = [client_port, server_port];
        Connection { ports, next: [1000, u32::MAX - 100], at_us: 0, window: 500, packets: Vec::new() }
    }

    /// The same with the handshake.
    pub(crate) fn open(client_port: u16, server_port: u16) -> Self {
        let mut connection = Connection::new(client_port, server_port);
        connection.flags(Client, SYN);
        connection.at_us += 30;
        connection.flags(Server, SYN | ACK);
        connection.at_us += 20;
        connection.flags(Client, ACK);
        connection
    }

    /// A segment with payload, or without.
    pub(crate) fn segment(&self, side: Side, sequence: u32, flags: u8, payload: &[u8]) -> Sent {
        let (from, to) = if side == Client { (0, 1) } else { (1, 0) };
        let mut bytes = vec![0x45, 0];
        bytes.extend(((40 + payload.len()) as u16).to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        for end in [from, to] {
            bytes.extend([127, 0, 0, 1 + end as u8]);
        }
        bytes.extend(self.ports[from].to_be_bytes());
        bytes.extend(self.ports[to].to_be_bytes());
        bytes.extend(sequence.to_be_bytes());
        bytes.extend(self.next[to].to_be_bytes());
        bytes.extend([0x50, flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend_from_slice(payload);
        (self.at_us, bytes)
    }

    /// Sends a segment without payload.
    pub(crate) fn flags(&mut self, side: Side, flags: u8) {
        let packet = self.segment(side, self.next[side as usize], flags, &[]);
        self.packets.push(packet);
        if flags & (SYN | FIN) != 0 {
            self.next[side as usize] = self.next[side as usize].wrapping_add(1);
        }
    }

    /// Sends bytes in one segment.
    pub(crate) fn send(&mut self, side: Side, payload: &[u8]) {
        let packet = self.segment(side, self.next[side as usize], ACK, payload);
        self.packets.push(packet);
        self.skip(side, payload.len());
    }

    /// Bytes that are sent and not captured.
    pub(crate) fn skip(&mut self, side: Side, length: usize) {
        self.next[side as usize] = self.next[side as usize].wrapping_add(length as u32);
    }
}

/// A capture of packets that begin with IP; of each only the first bytes.
pub(crate) fn pcap(packets: &[Sent], snap_length: usize) -> Vec<u8> {
    file(packets, 101, &[], snap_length)
}

/// A capture with a header of the link before each packet.
pub(crate) fn file(packets: &[Sent], link: u32, header: &[u8], snap_length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [0xa1b2_c3d4, 0x0004_0002, 0, 0, snap_length as u32, link] {
        bytes.extend(number.to_le_bytes());
    }
    for (at_us, packet) in packets {
        let length = header.len() + packet.len();
        let captured = length.min(snap_length);
        let at_us = at_us + 1_000_000_000_000;
        for number in [(at_us / 1_000_000) as u32, (at_us % 1_000_000) as u32, captured as u32, length as u32]
        {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(header.iter().chain(packet).take(captured));
    }
    bytes
}

/// The document of a capture, and its operations in the order in which they end.
pub(crate) fn analyse(bytes: &[u8], settings: Settings) -> (WireDocument, Vec<Operation>) {
    let mut operations = Vec::new();
    let document =
        Analysis::of(bytes, "test", settings, |operation, _| operations.push(operation.clone())).unwrap();
    (document, operations)
}

/// Settings with the protocol of a port.
pub(crate) fn decode(port: u16, protocol: Protocol) -> Settings {
    let mut settings = Settings::default();
    settings.ports.set(port, protocol);
    settings
}

/// How often something was missed, and its bytes.
pub(crate) fn missed(document: &WireDocument, kind: model::wire::MissedKind) -> (u64, u64) {
    document
        .missed
        .iter()
        .find(|missed| missed.kind == kind)
        .map_or((0, 0), |missed| (missed.count, missed.bytes))
}
