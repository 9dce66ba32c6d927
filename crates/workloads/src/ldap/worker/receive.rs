//! Receiving: bytes to messages, and messages to the operations that they belong to.

use engine::workload::Part;
use ldap::ResultCode;
use ldap::message::{
    Message, MessageSummary, NOTICE_OF_DISCONNECTION, Operation as Response, UNSOLICITED, scan,
};
use ldap::template::ID_MIN;
use model::Nanos;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::super::failure::{Failure, Fault};
use super::super::settings::Kind;
use super::super::{Pool, RequestPart};
use super::{BUFFER_BYTES, Connection, LdapWorker, OWED, PREPARING_ID, RESULT_BYTES_MAX, Stage, TURN};
use crate::network::tls::{self, Plain};

impl LdapWorker<'_> {
    /// Receives the available bytes, up to one turn. Returns whether there may be more.
    pub(super) fn receive(&mut self, place: u32, ends: bool) -> Result<bool, Failure> {
        for _ in 0..TURN {
            let connection = &mut self.connections[place as usize];
            let Some(socket) = &connection.socket else { return Ok(false) };
            let bytes = match rustix::net::recv(socket, &mut *self.buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(self.end_of(place)),
                Ok((_, bytes)) => bytes,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Failure::Broken(errno)),
            };
            let at = self.clock.now();
            let buffer = std::mem::take(&mut self.buffer);
            let piece = buffer.get(..bytes).unwrap_or_default();
            let taken = match &connection.tls {
                Some(_) => self.decrypt(place, piece, at),
                None => self.consume(place, piece, at),
            };
            self.buffer = buffer;
            taken?;
            // The buffer was not filled: there are no more bytes, and epoll reports new ones.
            if bytes < BUFFER_BYTES && !ends {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Why a connection ended.
    pub(super) fn end_of(&self, place: u32) -> Failure {
        let connection = &self.connections[place as usize];
        match connection.input.is_empty() && connection.unread == 0 {
            true => Failure::Closed,
            false => Failure::Response(Fault::Incomplete),
        }
    }

    pub(super) fn decrypt(&mut self, place: u32, mut received: &[u8], at: Nanos) -> Result<(), Failure> {
        while !received.is_empty() {
            let connection = &mut self.connections[place as usize];
            let Connection { tls: Some(tls), socket: Some(socket), stage, .. } = connection else {
                return Ok(());
            };
            if let Err(fault) = tls::take_in(tls, &mut received) {
                // The alert for the server.
                let _ = tls::flush(tls, socket);
                return Err(Failure::Tls(fault));
            }
            if *stage == Stage::Handshake && !tls.is_handshaking() {
                self.tally.handshakes += 1;
                self.part(place, RequestPart::Tls, at);
                self.secured(place)?;
            } else if *stage == Stage::Handshake || tls.wants_write() {
                self.send(place)?;
            }
            loop {
                let connection = &mut self.connections[place as usize];
                let Some(tls) = &mut connection.tls else { return Ok(()) };
                let bytes = match tls::read(tls, &mut self.plain) {
                    Plain::Bytes(bytes) => bytes,
                    Plain::Nothing => break,
                    Plain::End => return Err(self.end_of(place)),
                };
                let plain = std::mem::take(&mut self.plain);
                let taken = self.consume(place, plain.get(..bytes).unwrap_or_default(), at);
                self.plain = plain;
                taken?;
            }
        }
        Ok(())
    }

    /// Processes received bytes.
    pub(super) fn consume(&mut self, place: u32, bytes: &[u8], at: Nanos) -> Result<(), Failure> {
        let connection = &mut self.connections[place as usize];
        let unread = connection.unread.min(bytes.len());
        connection.unread -= unread;
        let bytes = &bytes[unread..];
        if connection.input.is_empty() {
            let taken = self.messages(place, bytes, at)?;
            let connection = &mut self.connections[place as usize];
            connection.input.extend_from_slice(&bytes[taken..]);
            return Ok(());
        }
        let mut input = std::mem::take(&mut connection.input);
        input.extend_from_slice(bytes);
        let taken = self.messages(place, &input, at)?;
        input.drain(..taken);
        self.connections[place as usize].input = input;
        Ok(())
    }

    /// Processes the messages in these bytes. Returns how many bytes they were.
    pub(super) fn messages(&mut self, place: u32, bytes: &[u8], at: Nanos) -> Result<usize, Failure> {
        let mut from = 0;
        while let Some(rest) = bytes.get(from..).filter(|rest| !rest.is_empty()) {
            let Ok(summary) = scan(rest, usize::MAX) else { return Err(Failure::Response(Fault::Malformed)) };
            let Some(summary) = summary else {
                if rest.len() > RESULT_BYTES_MAX {
                    return Err(Failure::Response(Fault::TooLong));
                }
                break;
            };
            let missing = summary.length.saturating_sub(rest.len());
            if missing > 0 && !summary.is_found {
                if summary.length > RESULT_BYTES_MAX {
                    return Err(Failure::Response(Fault::TooLong));
                }
                break;
            }
            from += summary.length - missing;
            self.message(place, &summary, &rest[..summary.length - missing], at)?;
            let connection = &mut self.connections[place as usize];
            if connection.socket.is_none() {
                return Ok(bytes.len());
            }
            connection.unread = missing;
            // What follows would not be encrypted.
            if connection.stage == Stage::Handshake && from < bytes.len() {
                return Err(Failure::Tls(tls::TlsFault::NoTls));
            }
        }
        Ok(from)
    }

    /// Processes a message.
    pub(super) fn message(
        &mut self,
        place: u32,
        summary: &MessageSummary,
        bytes: &[u8],
        at: Nanos,
    ) -> Result<(), Failure> {
        let code = summary.code.map_or(0, ResultCode::number);
        let connection = &mut self.connections[place as usize];
        if summary.id == UNSOLICITED {
            // Other notifications are ignored (RFC 4511, section 4.4).
            if !is_notice_of_disconnection(bytes) {
                return Ok(());
            }
            // No request is sent over it any more (section 4.4.1), whether or not the server closes it now.
            self.tally.notices += 1;
            return Err(Failure::Disconnected(code));
        }
        match connection.stage {
            Stage::StartTls if summary.id == PREPARING_ID && summary.is_last => {
                return match code {
                    0 => self.begin_tls(place),
                    refused => Err(Failure::StartTls(refused)),
                };
            }
            Stage::Binding if summary.id == PREPARING_ID && summary.is_last => {
                if code != 0 {
                    self.note_diagnostic(Failure::Bind(code), bytes);
                    return Err(Failure::Bind(code));
                }
                self.part(place, RequestPart::Bind, at);
                return self.opened(place);
            }
            _ => {}
        }
        let mask = connection.flights.len() as u32 - 1;
        let slot = summary.id.wrapping_sub(ID_MIN) & mask;
        let Some(flight) = connection.flights.get_mut(slot as usize).filter(|flight| flight.id == summary.id)
        else {
            self.unrequested(place, summary);
            return Ok(());
        };
        flight.bytes = flight.bytes.saturating_add(summary.length.min(u32::MAX as usize) as u32);
        if summary.is_found {
            // A reference is where else entries may be, and no entry.
            if !summary.is_entry {
                self.tally.references += 1;
                return Ok(());
            }
            if flight.entries == 0
                && let Some(kind) = self.plan.mix.part(RequestPart::FirstEntry)
            {
                let begin = if connection.pool == Pool::Login { connection.since } else { flight.begin };
                self.parts.push(Part { kind, begin, end: at, ended: true });
            }
            flight.entries = flight.entries.saturating_add(1);
            return Ok(());
        }
        if !summary.is_last {
            return Ok(());
        }
        let requests = self.plan.mix.all.get(usize::from(flight.operation));
        let (kind, steps) =
            requests.map_or((Kind::Search, &[][..]), |requests| (requests.kind, &requests.steps[..]));
        if steps.get(usize::from(flight.step)).is_none_or(|step| step.response != summary.tag) {
            return Err(Failure::Response(Fault::Unrelated));
        }
        let is_expected = self.plan.expected.contains(&code);
        if is_expected && usize::from(flight.step) + 1 < steps.len() {
            flight.step += 1;
            flight.id = connection.second.0;
            let (_, second) = &mut connection.second;
            connection.out.append(second);
            self.part(place, RequestPart::Bind, at);
            return self.send(place);
        }
        let (flight, result) = (*flight, if is_expected { Ok(()) } else { Err(Failure::Result(code)) });
        self.tally.count(code, &flight.entries, kind);
        if !is_expected {
            self.note_diagnostic(Failure::Result(code), bytes);
        }
        self.complete(place, slot, flight, result, at);
        if kind == Kind::Login {
            self.unbind(place);
        }
        Ok(())
    }

    /// A response to no operation in flight. It is no operation of its own: the next one that goes well has failed for it.
    #[cold]
    fn unrequested(&mut self, place: u32, summary: &MessageSummary) {
        let connection = &mut self.connections[place as usize];
        if let Some(at) = connection.given_up.iter().position(|id| *id == summary.id) {
            // It came after the timeout, and crossed the request to abandon the operation.
            self.tally.late += 1;
            if summary.is_last {
                connection.given_up.swap_remove(at);
            }
            return;
        }
        self.tally.unexpected += 1;
        // Once for all messages with the same identifier.
        if connection.unrequested != summary.id {
            connection.unrequested = summary.id;
            self.owe(Fault::Unrequested);
        }
    }

    /// The next operation that goes well fails for something that a server sent, such as bytes behind a response.
    pub(super) fn owe(&mut self, fault: Fault) {
        if let Some(at) = OWED.iter().position(|owed| *owed == fault) {
            self.owed[at] = self.owed[at].saturating_add(1);
        }
    }

    /// Keeps what the server says about the first failure of each kind.
    pub(super) fn note_diagnostic(&mut self, failure: Failure, bytes: &[u8]) {
        if self.tally.is_known(failure.code()) {
            return;
        }
        let message = Message::decode(bytes).ok();
        if let Some(result) = message.as_ref().and_then(|message| message.operation.result()) {
            self.seen.note(failure.code(), result.diagnostic);
        }
    }
}

/// Whether an unsolicited notification announces that the server closes the connection.
fn is_notice_of_disconnection(bytes: &[u8]) -> bool {
    let message = Message::decode(bytes).ok();
    message.is_some_and(|message| {
        matches!(message.operation, Response::ExtendedResponse { oid: Some(NOTICE_OF_DISCONNECTION), .. })
    })
}
