//! LDAPv3 messages (RFC 4511), without I/O. They are encoded to the end of a reusable buffer, and decoded as
//! a view of the received bytes. Neither allocates.
//!
//! The same types serve both directions. Repeated elements are a [`List`]: of a slice in a message to be
//! sent, of encoded elements in a received one, with the same iterator. Decoding validates a message up to
//! its last element.

use std::fmt;

use crate::ber::{
    self, BerError, Decoder, ENUMERATED, Encoder, INTEGER, OCTETS, SEQUENCE, application, context,
};
use crate::{Control, Filter, ModifyOperation, ResultCode};

mod element;
mod filter;
mod frame;
mod list;
mod request;
#[cfg(test)]
mod tests;

pub use filter::{FilterBytes, decode_filter, write_shape};
pub use frame::{Frame, MessageSummary, frame, scan};
pub use list::{Element, List};
pub use request::{RequestKind, RequestSummary, request};

/// The largest message identifier.
pub const ID_MAX: u32 = 0x7fff_ffff;

/// The identifier of messages that a server sends without a request.
pub const UNSOLICITED: u32 = 0;

/// StartTLS (RFC 4511, section 4.14.1).
pub const START_TLS: &str = "1.3.6.1.4.1.1466.20037";
/// Who am I? (RFC 4532).
pub const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";
/// Notice of disconnection, which only servers send.
pub const NOTICE_OF_DISCONNECTION: &str = "1.3.6.1.4.1.1466.20036";

/// The attribute selection that selects no attribute.
pub const NO_ATTRIBUTES: &str = "1.1";

/// A request or a response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    /// Links responses to their request.
    pub id: u32,
    /// The request or response.
    pub operation: Operation<'a>,
    /// Controls.
    pub controls: List<'a, Control<'a>>,
}

/// The operation of a request or response.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "named as in RFC 4511, section 4")]
pub enum Operation<'a> {
    BindRequest { version: u32, name: &'a str, authentication: Authentication<'a> },
    BindResponse { result: LdapResult<'a>, server_credentials: Option<&'a [u8]> },
    UnbindRequest,
    SearchRequest(SearchRequest<'a>),
    SearchResultEntry { dn: &'a str, attributes: List<'a, Attribute<'a>> },
    SearchResultReference(List<'a, &'a str>),
    SearchResultDone(LdapResult<'a>),
    ModifyRequest { dn: &'a str, changes: List<'a, Change<'a>> },
    ModifyResponse(LdapResult<'a>),
    AddRequest { dn: &'a str, attributes: List<'a, Attribute<'a>> },
    AddResponse(LdapResult<'a>),
    DelRequest { dn: &'a str },
    DelResponse(LdapResult<'a>),
    ModifyDnRequest { dn: &'a str, new_rdn: &'a str, delete_old_rdn: bool, new_superior: Option<&'a str> },
    ModifyDnResponse(LdapResult<'a>),
    CompareRequest { dn: &'a str, attribute: &'a str, value: Value<'a> },
    CompareResponse(LdapResult<'a>),
    AbandonRequest { id: u32 },
    ExtendedRequest { oid: &'a str, value: Option<&'a [u8]> },
    ExtendedResponse { result: LdapResult<'a>, oid: Option<&'a str>, value: Option<&'a [u8]> },
    IntermediateResponse { oid: Option<&'a str>, value: Option<&'a [u8]> },
}

/// How a client authenticates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// A password.
    Simple(&'a [u8]),
    /// A SASL mechanism.
    Sasl {
        /// Its name, for example `EXTERNAL`.
        mechanism: &'a str,
        /// The credentials.
        credentials: Option<&'a [u8]>,
    },
}

/// Omits the password and the credentials.
impl fmt::Debug for Authentication<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Authentication::Simple(_) => out.write_str("Simple"),
            Authentication::Sasl { mechanism, .. } => write!(out, "Sasl({mechanism})"),
        }
    }
}

/// A value of an attribute. The debug format shows only its length, because it may be a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value<'a>(pub &'a [u8]);

impl fmt::Debug for Value<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes", self.0.len())
    }
}

/// The scope of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The base itself.
    Base,
    /// The entries directly below it.
    OneLevel,
    /// The base and all entries below it.
    Subtree,
    /// All entries below the base, without the base.
    Subordinates,
}

/// Whether aliases are dereferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DerefAliases {
    /// Never.
    Never,
    /// Below the base, but not for the base itself.
    InSearching,
    /// For the base only.
    FindingBase,
    /// Always.
    Always,
}

/// A search request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchRequest<'a> {
    /// The search base.
    pub base: &'a str,
    /// The scope.
    pub scope: Scope,
    /// Whether aliases are dereferenced.
    pub deref_aliases: DerefAliases,
    /// Limit of the entries; 0 for no limit by the client.
    pub size_limit: u32,
    /// Limit of the time, in seconds; 0 for no limit by the client.
    pub time_limit_s: u32,
    /// Whether only attribute names are returned.
    pub types_only: bool,
    /// The filter.
    pub filter: FilterBytes<'a>,
    /// The requested attributes: all user attributes if empty or `*`, all operational ones for `+`, none for
    /// [`NO_ATTRIBUTES`].
    pub attributes: List<'a, &'a str>,
}

impl<'a> SearchRequest<'a> {
    /// A search for all attributes of the entries in a subtree that match a filter, without limits.
    pub fn subtree(base: &'a str, filter: &'a Filter) -> Self {
        SearchRequest {
            base,
            scope: Scope::Subtree,
            deref_aliases: DerefAliases::Never,
            size_limit: 0,
            time_limit_s: 0,
            types_only: false,
            filter: FilterBytes::from(filter),
            attributes: List::NONE,
        }
    }
}

/// An attribute and its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attribute<'a> {
    /// The attribute description.
    pub name: &'a str,
    /// Its values.
    pub values: List<'a, Value<'a>>,
}

/// One modification of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change<'a> {
    /// The operation.
    pub operation: ModifyOperation,
    /// The attribute and the values.
    pub attribute: Attribute<'a>,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LdapResult<'a> {
    /// The result code.
    pub code: ResultCode,
    /// The part of a missing name that exists.
    pub matched_dn: &'a str,
    /// The diagnostic message of the server; truncated at invalid UTF-8.
    pub diagnostic: &'a str,
    /// URLs of other servers for the request.
    pub referrals: List<'a, &'a str>,
}

/// Tags of operations (RFC 4511, appendix B).
mod tag {
    use super::{application, context};

    pub(super) const BIND_REQUEST: u8 = application(0, true);
    pub(super) const BIND_RESPONSE: u8 = application(1, true);
    pub(super) const UNBIND_REQUEST: u8 = application(2, false);
    pub(super) const SEARCH_REQUEST: u8 = application(3, true);
    pub(super) const SEARCH_ENTRY: u8 = application(4, true);
    pub(super) const SEARCH_DONE: u8 = application(5, true);
    pub(super) const MODIFY_REQUEST: u8 = application(6, true);
    pub(super) const MODIFY_RESPONSE: u8 = application(7, true);
    pub(super) const ADD_REQUEST: u8 = application(8, true);
    pub(super) const ADD_RESPONSE: u8 = application(9, true);
    pub(super) const DEL_REQUEST: u8 = application(10, false);
    pub(super) const DEL_RESPONSE: u8 = application(11, true);
    pub(super) const MODIFY_DN_REQUEST: u8 = application(12, true);
    pub(super) const MODIFY_DN_RESPONSE: u8 = application(13, true);
    pub(super) const COMPARE_REQUEST: u8 = application(14, true);
    pub(super) const COMPARE_RESPONSE: u8 = application(15, true);
    pub(super) const ABANDON_REQUEST: u8 = application(16, false);
    pub(super) const SEARCH_REFERENCE: u8 = application(19, true);
    pub(super) const EXTENDED_REQUEST: u8 = application(23, true);
    pub(super) const EXTENDED_RESPONSE: u8 = application(24, true);
    pub(super) const INTERMEDIATE_RESPONSE: u8 = application(25, true);
    /// The operations that begin with a result.
    pub(super) const RESULTS: [u8; 8] = [
        BIND_RESPONSE,
        SEARCH_DONE,
        MODIFY_RESPONSE,
        ADD_RESPONSE,
        DEL_RESPONSE,
        MODIFY_DN_RESPONSE,
        COMPARE_RESPONSE,
        EXTENDED_RESPONSE,
    ];

    pub(super) const CONTROLS: u8 = context(0, true);
    pub(super) const SIMPLE: u8 = context(0, false);
    pub(super) const SASL: u8 = context(3, true);
    pub(super) const REFERRAL: u8 = context(3, true);
    pub(super) const SERVER_CREDENTIALS: u8 = context(7, false);
    pub(super) const NEW_SUPERIOR: u8 = context(0, false);
    pub(super) const REQUEST_OID: u8 = context(0, false);
    pub(super) const REQUEST_VALUE: u8 = context(1, false);
    pub(super) const RESPONSE_OID: u8 = context(10, false);
    pub(super) const RESPONSE_VALUE: u8 = context(11, false);
}

impl<'a> Message<'a> {
    /// A message without controls.
    pub fn new(id: u32, operation: Operation<'a>) -> Self {
        Message { id, operation, controls: List::NONE }
    }

    /// Encodes the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        Encoder::new(out).constructed(SEQUENCE, |to| {
            to.integer(INTEGER, i64::from(self.id));
            self.operation.encode(to);
            if !self.controls.is_empty() {
                self.controls.encode(to, tag::CONTROLS);
            }
        });
    }

    /// Decodes a message of the length that [`frame`] returned. Unknown elements at the end are ignored, as
    /// RFC 4511 (section 4) requires.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BerError> {
        let mut outer = Decoder::new(bytes);
        let mut from = outer.constructed(SEQUENCE)?;
        if !outer.is_empty() {
            return Err(BerError("bytes follow the message"));
        }
        let id = from.unsigned(INTEGER)?;
        if id > ID_MAX {
            return Err(BerError("a message identifier is out of its range"));
        }
        let operation = Operation::decode(&mut from)?;
        let controls = match from.optional(tag::CONTROLS)? {
            Some(bytes) => List::decode(bytes)?,
            None => List::NONE,
        };
        Ok(Message { id, operation, controls })
    }

    /// The value of the first control with this object identifier: `None` without the control, `Some(None)`
    /// without a value.
    pub fn control(&self, oid: &str) -> Option<Option<&'a [u8]>> {
        self.controls.iter().find(|control| control.oid == oid).map(|control| control.value)
    }
}

impl<'a> Operation<'a> {
    /// A simple bind with a name and a password; both are empty for an anonymous bind.
    pub fn simple_bind(name: &'a str, password: &'a [u8]) -> Self {
        Operation::BindRequest { version: 3, name, authentication: Authentication::Simple(password) }
    }

    /// A bind with the identity from TLS or the local socket (RFC 4422, appendix A). `as_whom` is another
    /// authorization identity, or empty.
    pub fn external_bind(as_whom: &'a [u8]) -> Self {
        let authentication = Authentication::Sasl { mechanism: "EXTERNAL", credentials: Some(as_whom) };
        Operation::BindRequest { version: 3, name: "", authentication }
    }

    /// The result, if this is a response that ends an operation.
    pub fn result(&self) -> Option<&LdapResult<'a>> {
        match self {
            Operation::BindResponse { result, .. }
            | Operation::SearchResultDone(result)
            | Operation::ModifyResponse(result)
            | Operation::AddResponse(result)
            | Operation::DelResponse(result)
            | Operation::ModifyDnResponse(result)
            | Operation::CompareResponse(result)
            | Operation::ExtendedResponse { result, .. } => Some(result),
            _ => None,
        }
    }

    /// The tag of the response that ends this request; none for a request without a response.
    pub fn response_tag(&self) -> Option<u8> {
        Some(match self {
            Operation::BindRequest { .. } => tag::BIND_RESPONSE,
            Operation::SearchRequest(_) => tag::SEARCH_DONE,
            Operation::ModifyRequest { .. } => tag::MODIFY_RESPONSE,
            Operation::AddRequest { .. } => tag::ADD_RESPONSE,
            Operation::DelRequest { .. } => tag::DEL_RESPONSE,
            Operation::ModifyDnRequest { .. } => tag::MODIFY_DN_RESPONSE,
            Operation::CompareRequest { .. } => tag::COMPARE_RESPONSE,
            Operation::ExtendedRequest { .. } => tag::EXTENDED_RESPONSE,
            _ => return None,
        })
    }

    /// Whether this type of response ends the given request.
    pub fn ends(&self, request: &Operation<'_>) -> bool {
        use Operation as Of;
        matches!(
            (request, self),
            (Of::BindRequest { .. }, Of::BindResponse { .. })
                | (Of::SearchRequest(_), Of::SearchResultDone(_))
                | (Of::ModifyRequest { .. }, Of::ModifyResponse(_))
                | (Of::AddRequest { .. }, Of::AddResponse(_))
                | (Of::DelRequest { .. }, Of::DelResponse(_))
                | (Of::ModifyDnRequest { .. }, Of::ModifyDnResponse(_))
                | (Of::CompareRequest { .. }, Of::CompareResponse(_))
                | (Of::ExtendedRequest { .. }, Of::ExtendedResponse { .. })
        )
    }

    /// Its name in RFC 4511.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::BindRequest { .. } => "bindRequest",
            Operation::BindResponse { .. } => "bindResponse",
            Operation::UnbindRequest => "unbindRequest",
            Operation::SearchRequest(_) => "searchRequest",
            Operation::SearchResultEntry { .. } => "searchResEntry",
            Operation::SearchResultReference(_) => "searchResRef",
            Operation::SearchResultDone(_) => "searchResDone",
            Operation::ModifyRequest { .. } => "modifyRequest",
            Operation::ModifyResponse(_) => "modifyResponse",
            Operation::AddRequest { .. } => "addRequest",
            Operation::AddResponse(_) => "addResponse",
            Operation::DelRequest { .. } => "delRequest",
            Operation::DelResponse(_) => "delResponse",
            Operation::ModifyDnRequest { .. } => "modDNRequest",
            Operation::ModifyDnResponse(_) => "modDNResponse",
            Operation::CompareRequest { .. } => "compareRequest",
            Operation::CompareResponse(_) => "compareResponse",
            Operation::AbandonRequest { .. } => "abandonRequest",
            Operation::ExtendedRequest { .. } => "extendedReq",
            Operation::ExtendedResponse { .. } => "extendedResp",
            Operation::IntermediateResponse { .. } => "intermediateResponse",
        }
    }

    fn encode(&self, to: &mut Encoder<'_>) {
        match self {
            Operation::BindRequest { version, name, authentication } => {
                to.constructed(tag::BIND_REQUEST, |to| {
                    to.integer(INTEGER, i64::from(*version));
                    to.octets(OCTETS, name.as_bytes());
                    match authentication {
                        Authentication::Simple(password) => to.octets(tag::SIMPLE, password),
                        Authentication::Sasl { mechanism, credentials } => to.constructed(tag::SASL, |to| {
                            to.octets(OCTETS, mechanism.as_bytes());
                            optional(to, OCTETS, *credentials);
                        }),
                    }
                });
            }
            Operation::BindResponse { result, server_credentials } => {
                to.constructed(tag::BIND_RESPONSE, |to| {
                    result.encode(to);
                    optional(to, tag::SERVER_CREDENTIALS, *server_credentials);
                })
            }
            Operation::UnbindRequest => to.octets(tag::UNBIND_REQUEST, b""),
            Operation::SearchRequest(search) => to.constructed(tag::SEARCH_REQUEST, |to| search.encode(to)),
            Operation::SearchResultEntry { dn, attributes } => to.constructed(tag::SEARCH_ENTRY, |to| {
                to.octets(OCTETS, dn.as_bytes());
                attributes.encode(to, SEQUENCE);
            }),
            Operation::SearchResultReference(urls) => urls.encode(to, tag::SEARCH_REFERENCE),
            Operation::SearchResultDone(result) => to.constructed(tag::SEARCH_DONE, |to| result.encode(to)),
            Operation::ModifyRequest { dn, changes } => to.constructed(tag::MODIFY_REQUEST, |to| {
                to.octets(OCTETS, dn.as_bytes());
                changes.encode(to, SEQUENCE);
            }),
            Operation::ModifyResponse(result) => to.constructed(tag::MODIFY_RESPONSE, |to| result.encode(to)),
            Operation::AddRequest { dn, attributes } => to.constructed(tag::ADD_REQUEST, |to| {
                to.octets(OCTETS, dn.as_bytes());
                attributes.encode(to, SEQUENCE);
            }),
            Operation::AddResponse(result) => to.constructed(tag::ADD_RESPONSE, |to| result.encode(to)),
            Operation::DelRequest { dn } => to.octets(tag::DEL_REQUEST, dn.as_bytes()),
            Operation::DelResponse(result) => to.constructed(tag::DEL_RESPONSE, |to| result.encode(to)),
            Operation::ModifyDnRequest { dn, new_rdn, delete_old_rdn, new_superior } => {
                to.constructed(tag::MODIFY_DN_REQUEST, |to| {
                    to.octets(OCTETS, dn.as_bytes());
                    to.octets(OCTETS, new_rdn.as_bytes());
                    to.boolean(ber::BOOLEAN, *delete_old_rdn);
                    optional(to, tag::NEW_SUPERIOR, new_superior.map(str::as_bytes));
                });
            }
            Operation::ModifyDnResponse(result) => {
                to.constructed(tag::MODIFY_DN_RESPONSE, |to| result.encode(to))
            }
            Operation::CompareRequest { dn, attribute, value } => {
                to.constructed(tag::COMPARE_REQUEST, |to| {
                    to.octets(OCTETS, dn.as_bytes());
                    to.constructed(SEQUENCE, |to| {
                        to.octets(OCTETS, attribute.as_bytes());
                        to.octets(OCTETS, value.0);
                    });
                })
            }
            Operation::CompareResponse(result) => {
                to.constructed(tag::COMPARE_RESPONSE, |to| result.encode(to))
            }
            Operation::AbandonRequest { id } => to.integer(tag::ABANDON_REQUEST, i64::from(*id)),
            Operation::ExtendedRequest { oid, value } => to.constructed(tag::EXTENDED_REQUEST, |to| {
                to.octets(tag::REQUEST_OID, oid.as_bytes());
                optional(to, tag::REQUEST_VALUE, *value);
            }),
            Operation::ExtendedResponse { result, oid, value } => {
                to.constructed(tag::EXTENDED_RESPONSE, |to| {
                    result.encode(to);
                    optional(to, tag::RESPONSE_OID, oid.map(str::as_bytes));
                    optional(to, tag::RESPONSE_VALUE, *value);
                })
            }
            Operation::IntermediateResponse { oid, value } => {
                to.constructed(tag::INTERMEDIATE_RESPONSE, |to| {
                    optional(to, tag::REQUEST_OID, oid.map(str::as_bytes));
                    optional(to, tag::REQUEST_VALUE, *value);
                })
            }
        }
    }

    fn decode(outer: &mut Decoder<'a>) -> Result<Self, BerError> {
        let (tag, content) = outer.element()?;
        let mut from = Decoder::new(content);
        Ok(match tag {
            tag::BIND_REQUEST => {
                let version = from.unsigned(INTEGER)?;
                let name = from.text(OCTETS)?;
                let authentication = match from.element()? {
                    (tag::SIMPLE, password) => Authentication::Simple(password),
                    (tag::SASL, content) => {
                        let mut from = Decoder::new(content);
                        let mechanism = from.text(OCTETS)?;
                        Authentication::Sasl { mechanism, credentials: from.optional(OCTETS)? }
                    }
                    _ => return Err(BerError("a bind of an unknown kind")),
                };
                Operation::BindRequest { version, name, authentication }
            }
            tag::BIND_RESPONSE => {
                let result = LdapResult::decode(&mut from)?;
                Operation::BindResponse {
                    result,
                    server_credentials: from.optional(tag::SERVER_CREDENTIALS)?,
                }
            }
            tag::UNBIND_REQUEST => Operation::UnbindRequest,
            tag::SEARCH_REQUEST => Operation::SearchRequest(SearchRequest::decode(&mut from)?),
            tag::SEARCH_ENTRY => {
                let dn = from.text(OCTETS)?;
                Operation::SearchResultEntry { dn, attributes: List::decode(from.expect(SEQUENCE)?)? }
            }
            tag::SEARCH_REFERENCE => Operation::SearchResultReference(List::decode(content)?),
            tag::SEARCH_DONE => Operation::SearchResultDone(LdapResult::decode(&mut from)?),
            tag::MODIFY_REQUEST => {
                let dn = from.text(OCTETS)?;
                Operation::ModifyRequest { dn, changes: List::decode(from.expect(SEQUENCE)?)? }
            }
            tag::MODIFY_RESPONSE => Operation::ModifyResponse(LdapResult::decode(&mut from)?),
            tag::ADD_REQUEST => {
                let dn = from.text(OCTETS)?;
                Operation::AddRequest { dn, attributes: List::decode(from.expect(SEQUENCE)?)? }
            }
            tag::ADD_RESPONSE => Operation::AddResponse(LdapResult::decode(&mut from)?),
            tag::DEL_REQUEST => Operation::DelRequest { dn: ber::as_text(content)? },
            tag::DEL_RESPONSE => Operation::DelResponse(LdapResult::decode(&mut from)?),
            tag::MODIFY_DN_REQUEST => Operation::ModifyDnRequest {
                dn: from.text(OCTETS)?,
                new_rdn: from.text(OCTETS)?,
                delete_old_rdn: from.boolean(ber::BOOLEAN)?,
                new_superior: from.optional(tag::NEW_SUPERIOR)?.map(ber::as_text).transpose()?,
            },
            tag::MODIFY_DN_RESPONSE => Operation::ModifyDnResponse(LdapResult::decode(&mut from)?),
            tag::COMPARE_REQUEST => {
                let dn = from.text(OCTETS)?;
                let mut from = from.constructed(SEQUENCE)?;
                let attribute = from.text(OCTETS)?;
                Operation::CompareRequest { dn, attribute, value: Value(from.expect(OCTETS)?) }
            }
            tag::COMPARE_RESPONSE => Operation::CompareResponse(LdapResult::decode(&mut from)?),
            tag::ABANDON_REQUEST => {
                let id = u32::try_from(ber::as_integer(content)?).ok().filter(|id| *id <= ID_MAX);
                Operation::AbandonRequest {
                    id: id.ok_or(BerError("a message identifier is out of its range"))?,
                }
            }
            tag::EXTENDED_REQUEST => Operation::ExtendedRequest {
                oid: from.text(tag::REQUEST_OID)?,
                value: from.optional(tag::REQUEST_VALUE)?,
            },
            tag::EXTENDED_RESPONSE => Operation::ExtendedResponse {
                result: LdapResult::decode(&mut from)?,
                oid: from.optional(tag::RESPONSE_OID)?.map(ber::as_text).transpose()?,
                value: from.optional(tag::RESPONSE_VALUE)?,
            },
            tag::INTERMEDIATE_RESPONSE => Operation::IntermediateResponse {
                oid: from.optional(tag::REQUEST_OID)?.map(ber::as_text).transpose()?,
                value: from.optional(tag::REQUEST_VALUE)?,
            },
            _ => return Err(BerError("an operation of an unknown kind")),
        })
    }
}

fn optional(to: &mut Encoder<'_>, tag: u8, bytes: Option<&[u8]>) {
    if let Some(bytes) = bytes {
        to.octets(tag, bytes);
    }
}

impl<'a> SearchRequest<'a> {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.octets(OCTETS, self.base.as_bytes());
        to.integer(ENUMERATED, self.scope as i64);
        to.integer(ENUMERATED, self.deref_aliases as i64);
        to.integer(INTEGER, i64::from(self.size_limit));
        to.integer(INTEGER, i64::from(self.time_limit_s));
        to.boolean(ber::BOOLEAN, self.types_only);
        self.filter.encode(to);
        self.attributes.encode(to, SEQUENCE);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError> {
        Ok(SearchRequest {
            base: from.text(OCTETS)?,
            scope: match from.integer(ENUMERATED)? {
                0 => Scope::Base,
                1 => Scope::OneLevel,
                2 => Scope::Subtree,
                3 => Scope::Subordinates,
                _ => return Err(BerError("an unknown scope")),
            },
            deref_aliases: match from.integer(ENUMERATED)? {
                0 => DerefAliases::Never,
                1 => DerefAliases::InSearching,
                2 => DerefAliases::FindingBase,
                3 => DerefAliases::Always,
                _ => return Err(BerError("an unknown way to treat aliases")),
            },
            size_limit: from.unsigned(INTEGER)?,
            time_limit_s: from.unsigned(INTEGER)?,
            types_only: from.boolean(ber::BOOLEAN)?,
            filter: FilterBytes::decode(from)?,
            attributes: List::decode(from.expect(SEQUENCE)?)?,
        })
    }
}

impl<'a> LdapResult<'a> {
    /// Success, without a diagnostic message.
    pub const SUCCESS: LdapResult<'static> =
        LdapResult { code: ResultCode::Success, matched_dn: "", diagnostic: "", referrals: List::NONE };

    fn encode(&self, to: &mut Encoder<'_>) {
        to.integer(ENUMERATED, i64::from(self.code.number()));
        to.octets(OCTETS, self.matched_dn.as_bytes());
        to.octets(OCTETS, self.diagnostic.as_bytes());
        if !self.referrals.is_empty() {
            self.referrals.encode(to, tag::REFERRAL);
        }
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError> {
        Ok(LdapResult {
            code: ResultCode::from_number(from.unsigned(ENUMERATED)?),
            // An invalid text must not make a result unreadable: not every server sends UTF-8.
            matched_dn: readable(from.expect(OCTETS)?),
            diagnostic: readable(from.expect(OCTETS)?),
            referrals: match from.optional(tag::REFERRAL)? {
                Some(bytes) => List::decode(bytes)?,
                None => List::NONE,
            },
        })
    }
}

fn readable(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}
