//! An operation on the wire: a request with its responses.

use std::rc::Rc;

use ldap::ResultCode;
use ldap::message::{RequestKind, decode_filter};

use crate::packet::Endpoint;

/// A protocol that is analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// LDAP.
    Ldap,
    /// HTTP/1.
    Http,
}

impl Protocol {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Ldap => "ldap",
            Protocol::Http => "http",
        }
    }

    /// The protocol with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Protocol::Ldap, Protocol::Http].into_iter().find(|of| of.name().eq_ignore_ascii_case(name))
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(u8);

/// Every kind with its protocol, in the order in which they are shown.
static KINDS: [(Protocol, &str); Kind::COUNT] = [
    (Protocol::Ldap, "bind"),
    (Protocol::Ldap, "search"),
    (Protocol::Ldap, "modify"),
    (Protocol::Ldap, "add"),
    (Protocol::Ldap, "delete"),
    (Protocol::Ldap, "modrdn"),
    (Protocol::Ldap, "compare"),
    (Protocol::Ldap, "extended"),
    (Protocol::Ldap, "abandon"),
    (Protocol::Ldap, "unbind"),
    (Protocol::Http, "get"),
    (Protocol::Http, "head"),
    (Protocol::Http, "post"),
    (Protocol::Http, "put"),
    (Protocol::Http, "delete"),
    (Protocol::Http, "options"),
    (Protocol::Http, "patch"),
    (Protocol::Http, "trace"),
    (Protocol::Http, "connect"),
    (Protocol::Http, "other"),
];

impl Kind {
    /// Number of kinds.
    pub(crate) const COUNT: usize = 20;
    const FIRST_OF_HTTP: u8 = 10;

    pub(crate) const SEARCH: Kind = Kind(1);
    pub(crate) const HEAD: Kind = Kind(11);
    pub(crate) const CONNECT: Kind = Kind(18);

    /// Every kind.
    pub fn all() -> impl Iterator<Item = Kind> {
        (0..Kind::COUNT as u8).map(Kind)
    }

    /// That of a request of LDAP.
    pub(crate) fn of_ldap(kind: RequestKind) -> Self {
        Kind(match kind {
            RequestKind::Bind => 0,
            RequestKind::Search => 1,
            RequestKind::Modify => 2,
            RequestKind::Add => 3,
            RequestKind::Delete => 4,
            RequestKind::ModifyDn => 5,
            RequestKind::Compare => 6,
            RequestKind::Extended => 7,
            RequestKind::Abandon => 8,
            RequestKind::Unbind => 9,
        })
    }

    /// That of a request of HTTP.
    pub(crate) fn of_method(method: &str) -> Self {
        let found = KINDS
            .iter()
            .enumerate()
            .find(|(_, (protocol, name))| *protocol == Protocol::Http && name.eq_ignore_ascii_case(method));
        Kind(found.map_or(Kind::COUNT as u8 - 1, |(at, _)| at as u8))
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Its protocol.
    pub fn protocol(self) -> Protocol {
        if self.0 < Kind::FIRST_OF_HTTP { Protocol::Ldap } else { Protocol::Http }
    }

    /// Its name, such as `search` or `get`.
    pub fn name(self) -> &'static str {
        KINDS.get(self.index()).map_or("other", |(_, name)| name)
    }

    /// Whether requests of this kind have a response.
    pub fn has_response(self) -> bool {
        !matches!(self.name(), "abandon" | "unbind")
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// The number of a result code of LDAP.
    Ldap(u32),
    /// A status code of HTTP.
    Http(u16),
}

impl Outcome {
    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            Outcome::Ldap(code) => code,
            Outcome::Http(status) => u32::from(status),
        }
    }

    /// The name of a result code, the number of a status code.
    pub fn name(self) -> String {
        match self {
            Outcome::Ldap(code) => match ResultCode::from_number(code) {
                ResultCode::Other(number) => number.to_string(),
                code => code.name().to_string(),
            },
            Outcome::Http(status) => status.to_string(),
        }
    }

    /// Whether the operation succeeded, as the loads of Plimsoll count it.
    pub fn is_success(self) -> bool {
        match self {
            // One step of several of a SASL bind.
            Outcome::Ldap(14) => true,
            Outcome::Ldap(code) => ResultCode::from_number(code).is_success(),
            Outcome::Http(status) => status < 400,
        }
    }
}

/// The name of operations on a connection whose bind was not captured.
pub(crate) const UNKNOWN_NAME: &str = "(not captured)";
/// The name of an anonymous bind, and of a connection before the first bind.
pub(crate) const ANONYMOUS: &str = "(anonymous)";

/// A request with its responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Its kind.
    pub kind: Kind,
    /// The number of the connection, from 1 in the order of their first packet.
    pub connection: u64,
    /// The client.
    pub client: Endpoint,
    /// The server.
    pub server: Endpoint,
    /// The identifier of the message of LDAP.
    pub id: u32,
    /// When the last byte of the request was captured, nanoseconds since 1970.
    pub request_ns: u64,
    /// When the first entry of a search, or the header of a response of HTTP, was captured completely.
    pub first_ns: Option<u64>,
    /// When the last byte of the last response was captured; that of the request where there is no response.
    pub end_ns: u64,
    /// Its result; none if it has no response.
    pub outcome: Option<Outcome>,
    /// Entries of a search.
    pub entries: u64,
    /// Bytes of the request.
    pub request_bytes: u64,
    /// Bytes of the responses.
    pub response_bytes: u64,
    /// The base of a search, the entry of any other operation, the object identifier of an extended one.
    pub base: String,
    /// The filter of a search as it is encoded.
    pub filter: Vec<u8>,
    /// The name that the connection is bound as; of a bind, the name in it.
    pub name: Rc<str>,
    /// The method of a request of HTTP.
    pub method: String,
    /// The path of a request of HTTP, without a query.
    pub path: String,
    /// Bytes that count against the limit of what is kept.
    pub(crate) kept_bytes: usize,
}

impl Operation {
    /// An operation without content.
    pub(crate) fn new(kind: Kind, connection: u64, (client, server): (Endpoint, Endpoint)) -> Self {
        Operation {
            kind,
            connection,
            client,
            server,
            id: 0,
            request_ns: 0,
            first_ns: None,
            end_ns: 0,
            outcome: None,
            entries: 0,
            request_bytes: 0,
            response_bytes: 0,
            base: String::new(),
            filter: Vec::new(),
            name: Rc::from(""),
            method: String::new(),
            path: String::new(),
            kept_bytes: 0,
        }
    }

    /// Makes it an operation without content again, which keeps its buffers.
    pub(crate) fn reset(&mut self, kind: Kind, connection: u64, (client, server): (Endpoint, Endpoint)) {
        self.kind = kind;
        self.connection = connection;
        (self.client, self.server) = (client, server);
        self.id = 0;
        self.first_ns = None;
        self.outcome = None;
        self.entries = 0;
        self.response_bytes = 0;
        self.kept_bytes = 0;
        self.base.clear();
        self.filter.clear();
        self.method.clear();
        self.path.clear();
    }

    /// From the request to the last response; none without a response.
    pub fn time_ns(&self) -> Option<u64> {
        self.outcome.map(|_| self.end_ns.saturating_sub(self.request_ns))
    }

    /// From the request to the first entry, or to the header of the response.
    pub fn first_time_ns(&self) -> Option<u64> {
        self.first_ns.map(|first_ns| first_ns.saturating_sub(self.request_ns))
    }

    /// The filter as text, with `[hidden]` for the values of passwords; empty if there is none or it was not captured.
    pub fn filter_text(&self) -> String {
        if self.filter.is_empty() {
            return String::new();
        }
        decode_filter(&self.filter)
            .map(|filter| crate::secret::masked(filter).to_string())
            .unwrap_or_default()
    }

    /// The filter without values.
    pub fn filter_shape(&self) -> String {
        let mut shape = String::new();
        // A filter that cannot be read has no shape.
        let _ = ldap::message::write_shape(&self.filter, &mut shape);
        shape
    }
}
