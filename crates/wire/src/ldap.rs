//! The operations of one connection of LDAP.

use std::collections::VecDeque;
use std::rc::Rc;

use ::ldap::ResultCode;
use ::ldap::ber::{self, Decoder};
use ::ldap::message::{
    ID_MAX, MessageSummary, RequestKind, START_TLS, UNSOLICITED, request, scan, write_shape,
};
use model::wire::MissedKind;

use crate::flow::{Conversation, KEPT_MAX, Parsed, Side};
use crate::operation::{ANONYMOUS, Kind, Operation, Outcome, UNKNOWN_NAME};
use crate::packet::Endpoint;
use crate::shared::Shared;

/// The longest message that is followed.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The longest message that is recognized after the position was lost.
const FOUND_BYTES_MAX: usize = 16 << 20;

/// The most bytes of a name or filter that are kept.
const TEXT_MAX: usize = 4096;

/// The most requests that wait on one connection. Servers allow fewer.
const OUTSTANDING_MAX: usize = 4096;

/// What a connection began to encrypt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    StartTls,
    Sasl,
}

/// The requests of a connection that wait for their responses.
#[derive(Debug)]
pub(crate) struct Ldap {
    connection: u64,
    ends: (Endpoint, Endpoint),
    outstanding: VecDeque<Box<Operation>>,
    /// The largest identifier so far. Most clients count upwards.
    highest_id: u32,
    /// The name of the last successful bind.
    bound: Rc<str>,
    /// The request or response whose last byte is still to come.
    request: Option<Box<Operation>>,
    response: Option<MessageSummary>,
    abandons: Option<u32>,
    /// The identifier of a request for StartTLS.
    start_tls: Option<u32>,
    /// The identifier of a SASL bind whose mechanism may encrypt.
    sasl: Option<u32>,
    may_be_sealed: bool,
    pub(crate) encryption: Option<Encryption>,
}

/// Where an LDAP message may begin: by its first bytes, who sent it, and whether they are enough to be sure.
pub(crate) fn plausible(bytes: &[u8], bytes_max: usize) -> Option<(Side, MessageSummary)> {
    let summary = scan(bytes, bytes_max).ok()??;
    let is_request = RequestKind::of_request(summary.tag).is_some();
    let is_response =
        RequestKind::of_response(summary.tag).is_some() || RequestKind::is_intermediate(summary.tag);
    let side = match (is_request, is_response) {
        (true, _) => Side::Client,
        (_, true) => Side::Server,
        _ => return None,
    };
    let is_unsolicited = summary.id == UNSOLICITED;
    if summary.id > ID_MAX
        || is_unsolicited && RequestKind::of_response(summary.tag) != Some(RequestKind::Extended)
    {
        return None;
    }
    // The operation must end where the message ends, or where its controls begin.
    let outer = ber::header(bytes).ok()??;
    let mut from = Decoder::new(bytes.get(outer.begin..)?);
    from.element().ok()?;
    let begin = bytes.len() - from.rest().len();
    let operation = ber::header(from.rest()).ok()??;
    let end = begin.checked_add(operation.begin)?.checked_add(operation.length)?;
    let is_whole = end == summary.length;
    let has_controls = bytes.get(end).is_none_or(|tag| *tag == ber::context(0, true)) && end < summary.length;
    (is_whole || has_controls).then_some((side, summary))
}

impl Ldap {
    /// The operations of a connection; `is_begun` if its begin was captured.
    pub(crate) fn new(connection: u64, ends: (Endpoint, Endpoint), is_begun: bool) -> Self {
        Ldap {
            connection,
            ends,
            outstanding: VecDeque::new(),
            highest_id: 0,
            bound: Rc::from(if is_begun { ANONYMOUS } else { UNKNOWN_NAME }),
            request: None,
            response: None,
            abandons: None,
            start_tls: None,
            sasl: None,
            may_be_sealed: false,
            encryption: None,
        }
    }

    fn read_request(&mut self, bytes: &[u8], summary: &MessageSummary, shared: &mut Shared) {
        let Some(kind) = RequestKind::of_request(summary.tag) else {
            shared.miss(MissedKind::UnknownMessages, summary.length as u64);
            return;
        };
        let whole = &bytes[..bytes.len().min(summary.length)];
        let content = request(whole);
        let mut operation = shared.operation(Kind::of_ldap(kind), self.connection, self.ends);
        operation.id = summary.id;
        operation.name = match kind {
            RequestKind::Bind => bind_name(content.name, content.mechanism),
            _ => Rc::clone(&self.bound),
        };
        match kind {
            RequestKind::Extended => push_text(&mut operation.base, content.oid),
            RequestKind::Bind => {}
            _ => push_text(&mut operation.base, content.name),
        }
        if content.filter.len() <= TEXT_MAX {
            operation.filter.extend_from_slice(content.filter);
        }
        self.abandons = content.abandoned;
        if kind == RequestKind::Extended && content.oid == START_TLS.as_bytes() {
            self.start_tls = Some(summary.id);
        }
        if kind == RequestKind::Bind {
            let may_seal = !content.mechanism.is_empty()
                && !matches!(content.mechanism, b"EXTERNAL" | b"PLAIN" | b"ANONYMOUS" | b"OAUTHBEARER")
                && !content.mechanism.starts_with(b"SCRAM-");
            self.sasl = may_seal.then_some(summary.id);
        }
        self.request = Some(operation);
    }

    fn begin(&mut self, mut operation: Box<Operation>, bytes: u64, shared: &mut Shared) {
        operation.request_ns = shared.now_ns;
        operation.end_ns = shared.now_ns;
        operation.request_bytes = bytes;
        if let Some(id) = self.abandons.take()
            && let Some(place) = self.outstanding.iter().position(|of| of.id == id)
            && let Some(abandoned) = self.outstanding.remove(place)
        {
            shared.abandon(abandoned);
        }
        if !operation.kind.has_response() {
            shared.done.push(operation);
            return;
        }
        // An identifier is used again only after its operation.
        let is_new = operation.id > self.highest_id;
        self.highest_id = self.highest_id.max(operation.id);
        if !is_new
            && let Some(place) = self.outstanding.iter().position(|of| of.id == operation.id)
            && let Some(old) = self.outstanding.remove(place)
        {
            shared.give_up(old);
        }
        if self.outstanding.len() >= OUTSTANDING_MAX
            && let Some(oldest) = self.outstanding.pop_front()
        {
            shared.miss(MissedKind::OutstandingLimit, 0);
            shared.give_up(oldest);
        }
        match shared.begin_waiting(&mut operation) {
            true => self.outstanding.push_back(operation),
            false => shared.unanswered[operation.kind.index()] += 1,
        }
    }

    fn respond(&mut self, summary: &MessageSummary, bytes: u64, shared: &mut Shared) {
        if summary.id == UNSOLICITED {
            shared.miss(MissedKind::Unsolicited, bytes);
            return;
        }
        let is_intermediate = RequestKind::is_intermediate(summary.tag);
        let kind = RequestKind::of_response(summary.tag);
        if kind.is_none() && !is_intermediate {
            shared.miss(MissedKind::UnknownMessages, bytes);
            return;
        }
        let fits = |operation: &Operation| {
            operation.id == summary.id && kind.is_none_or(|kind| Kind::of_ldap(kind) == operation.kind)
        };
        let Some(place) = self.outstanding.iter().position(|operation| fits(operation)) else {
            // Entries are counted with their operation: only the last response says that one is missing.
            if summary.is_last {
                shared.miss(MissedKind::ResponsesWithoutRequest, bytes);
            }
            return;
        };
        let operation = &mut self.outstanding[place];
        operation.response_bytes += bytes;
        if summary.is_found {
            operation.first_ns.get_or_insert(shared.now_ns);
            operation.entries += u64::from(summary.is_entry);
        }
        let Some(code) = summary.code.filter(|_| summary.is_last) else { return };
        let Some(mut operation) = self.outstanding.remove(place) else { return };
        operation.end_ns = shared.now_ns;
        operation.outcome = Some(Outcome::Ldap(code.number()));
        if kind == Some(RequestKind::Bind) {
            if code == ResultCode::Success {
                self.bound = Rc::clone(&operation.name);
                self.may_be_sealed = self.sasl == Some(operation.id);
            } else if code != ResultCode::SaslBindInProgress {
                // A failed bind makes a connection anonymous (RFC 4511, section 4.2.1).
                self.bound = Rc::from(ANONYMOUS);
            }
        }
        if self.start_tls == Some(operation.id) {
            self.start_tls = None;
            if code == ResultCode::Success {
                self.encryption = Some(Encryption::StartTls);
            }
        }
        shared.complete(operation);
    }

    /// The connection has ended: requests that wait get no response.
    pub(crate) fn close(&mut self, shared: &mut Shared) {
        for operation in self.outstanding.drain(..) {
            shared.give_up(operation);
        }
    }
}

/// The start of a text; nothing of one that is too long.
fn push_text(out: &mut String, bytes: &[u8]) {
    match bytes {
        _ if bytes.len() > TEXT_MAX => out.push_str("(longer than 4096 bytes)"),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => out.push_str(text),
            Err(_) => out.push_str(&String::from_utf8_lossy(bytes)),
        },
    }
}

fn bind_name(name: &[u8], mechanism: &[u8]) -> Rc<str> {
    let mut text = String::new();
    push_text(&mut text, name);
    match (text.is_empty(), mechanism) {
        (true, []) => Rc::from(ANONYMOUS),
        (true, mechanism) => {
            let mut text = String::from("SASL ");
            push_text(&mut text, mechanism);
            Rc::from(text)
        }
        (false, _) => Rc::from(text),
    }
}

impl Conversation for Ldap {
    fn parse(&mut self, side: Side, bytes: &[u8], is_all: bool, shared: &mut Shared) -> Parsed {
        let summary = match scan(bytes, MESSAGE_BYTES_MAX) {
            Ok(Some(summary)) => summary,
            Ok(None) if !is_all => return Parsed::More,
            Ok(None) => return Parsed::Lost,
            // A layer of SASL begins each of its buffers with a length of four bytes.
            Err(_) if self.may_be_sealed && bytes.first() == Some(&0) => {
                self.encryption = Some(Encryption::Sasl);
                return Parsed::Stop;
            }
            Err(_) => return Parsed::Lost,
        };
        let is_request = RequestKind::of_request(summary.tag).is_some();
        match side {
            Side::Client => {
                // A bind is read as far as it is there: the rest of it are credentials.
                let is_there = is_all || bytes.len() >= summary.length.min(KEPT_MAX);
                if is_request && !is_there {
                    return Parsed::More;
                }
                self.read_request(bytes, &summary, shared);
            }
            Side::Server => self.response = Some(summary),
        }
        Parsed::Take { length: summary.length as u64, ends: true }
    }

    fn ended(&mut self, side: Side, bytes: u64, shared: &mut Shared) {
        match side {
            Side::Client => {
                if let Some(operation) = self.request.take() {
                    self.begin(operation, bytes, shared);
                }
            }
            Side::Server => {
                if let Some(summary) = self.response.take() {
                    self.respond(&summary, bytes, shared);
                }
            }
        }
    }

    fn find(&self, side: Side, bytes: &[u8]) -> Option<usize> {
        memchr::memchr_iter(ber::SEQUENCE, bytes).find(|at| {
            let Some((sender, summary)) = plausible(&bytes[*at..], FOUND_BYTES_MAX) else { return false };
            if sender != side {
                return false;
            }
            // In the middle of a segment, another message or the end must follow.
            let next = at.checked_add(summary.length);
            *at == 0
                || next.is_some_and(|next| next == bytes.len() || bytes.get(next) == Some(&ber::SEQUENCE))
        })
    }

    fn lost(&mut self, side: Side, shared: &mut Shared) {
        match side {
            Side::Client => {
                if let Some(operation) = self.request.take() {
                    shared.recycle(operation);
                }
            }
            Side::Server => self.response = None,
        }
    }

    fn has_stopped(&self) -> bool {
        self.encryption.is_some()
    }
}

/// The shape of an operation's filter in a buffer; false if it cannot be read.
pub(crate) fn shape_into(operation: &Operation, out: &mut String) -> bool {
    out.clear();
    !operation.filter.is_empty() && write_shape(&operation.filter, out).is_ok()
}
