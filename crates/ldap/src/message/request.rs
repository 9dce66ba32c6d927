//! What a captured request asks, read from as many of its bytes as were captured.

use super::tag;
use crate::ber::{self, Decoder, ENUMERATED, INTEGER, OCTETS, SEQUENCE};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in RFC 4511, section 4")]
pub enum RequestKind {
    Bind,
    Unbind,
    Search,
    Modify,
    Add,
    Delete,
    ModifyDn,
    Compare,
    Abandon,
    Extended,
}

impl RequestKind {
    /// The kind of the request with this tag; none for a tag that no request has.
    pub fn of_request(tag: u8) -> Option<Self> {
        Some(match tag {
            tag::BIND_REQUEST => RequestKind::Bind,
            tag::UNBIND_REQUEST => RequestKind::Unbind,
            tag::SEARCH_REQUEST => RequestKind::Search,
            tag::MODIFY_REQUEST => RequestKind::Modify,
            tag::ADD_REQUEST => RequestKind::Add,
            tag::DEL_REQUEST => RequestKind::Delete,
            tag::MODIFY_DN_REQUEST => RequestKind::ModifyDn,
            tag::COMPARE_REQUEST => RequestKind::Compare,
            tag::ABANDON_REQUEST => RequestKind::Abandon,
            tag::EXTENDED_REQUEST => RequestKind::Extended,
            _ => return None,
        })
    }

    /// The kind of request that has a response with this tag, the last one or an earlier one; none for a tag that no
    /// response has, and for an intermediate response, which any request can have.
    pub fn of_response(tag: u8) -> Option<Self> {
        Some(match tag {
            tag::BIND_RESPONSE => RequestKind::Bind,
            tag::SEARCH_ENTRY | tag::SEARCH_REFERENCE | tag::SEARCH_DONE => RequestKind::Search,
            tag::MODIFY_RESPONSE => RequestKind::Modify,
            tag::ADD_RESPONSE => RequestKind::Add,
            tag::DEL_RESPONSE => RequestKind::Delete,
            tag::MODIFY_DN_RESPONSE => RequestKind::ModifyDn,
            tag::COMPARE_RESPONSE => RequestKind::Compare,
            tag::EXTENDED_RESPONSE => RequestKind::Extended,
            _ => return None,
        })
    }

    /// Whether this is the tag of an intermediate response (RFC 4511, section 4.13).
    pub fn is_intermediate(tag: u8) -> bool {
        tag == tag::INTERMEDIATE_RESPONSE
    }
}

/// The parts of a request that identify its work. Parts that were not captured are empty. Credentials and the values
/// of attributes are not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSummary<'a> {
    /// The name of a bind, the base of a search, the entry of any other operation.
    pub name: &'a [u8],
    /// The encoded filter of a search, for [`write_shape`](super::write_shape) and
    /// [`decode_filter`](super::decode_filter).
    pub filter: &'a [u8],
    /// The object identifier of an extended operation.
    pub oid: &'a [u8],
    /// The mechanism of a SASL bind.
    pub mechanism: &'a [u8],
    /// The identifier of the message that is abandoned.
    pub abandoned: Option<u32>,
}

/// Reads a request from its first bytes, of which some may be missing at the end.
pub fn request(bytes: &[u8]) -> RequestSummary<'_> {
    let mut summary = RequestSummary::default();
    // Each step ends where the captured bytes end.
    let _ = read(bytes, &mut summary);
    summary
}

/// The content of the element at the start, as far as it is there, and its tag.
fn begun(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let header = ber::header(bytes).ok()??;
    let rest = bytes.get(header.begin..)?;
    Some((header.tag, &rest[..header.length.min(rest.len())]))
}

fn read<'a>(bytes: &'a [u8], summary: &mut RequestSummary<'a>) -> Option<()> {
    let (_, message) = begun(bytes).filter(|(tag, _)| *tag == SEQUENCE)?;
    let mut from = Decoder::new(message);
    from.integer(INTEGER).ok()?;
    let (tag, content) = begun(from.rest())?;
    let mut from = Decoder::new(content);
    match RequestKind::of_request(tag)? {
        RequestKind::Unbind => {}
        RequestKind::Delete => summary.name = content,
        RequestKind::Abandon => {
            summary.abandoned = ber::as_integer(content).ok().and_then(|id| u32::try_from(id).ok());
        }
        RequestKind::Bind => {
            from.integer(INTEGER).ok()?;
            summary.name = from.expect(OCTETS).ok()?;
            // A password is not read.
            let (_, sasl) = begun(from.rest()).filter(|(tag, _)| *tag == tag::SASL)?;
            summary.mechanism = Decoder::new(sasl).expect(OCTETS).ok()?;
        }
        RequestKind::Extended => summary.oid = from.expect(tag::REQUEST_OID).ok()?,
        RequestKind::Search => {
            summary.name = from.expect(OCTETS).ok()?;
            for tag in [ENUMERATED, ENUMERATED, INTEGER, INTEGER, ber::BOOLEAN] {
                from.expect(tag).ok()?;
            }
            summary.filter = from.whole_element().ok()?;
        }
        RequestKind::Modify | RequestKind::Add | RequestKind::ModifyDn | RequestKind::Compare => {
            summary.name = from.expect(OCTETS).ok()?;
        }
    }
    Some(())
}
