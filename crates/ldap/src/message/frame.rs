//! Messages before they are decoded: where they end, and what is seen at a glance.

use super::tag;
use crate::ResultCode;
use crate::ber::{self, BerError, Decoder, ENUMERATED, INTEGER, SEQUENCE};

/// Where the bytes of a message end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// It has not come whole.
    More,
    /// It is this many bytes long, all of which are there.
    Whole(usize),
}

/// How far the message that begins here goes. One of more than `bytes_max` is an error as soon as its header is there.
pub fn frame(bytes: &[u8], bytes_max: usize) -> Result<Frame, BerError> {
    if bytes.first().is_some_and(|tag| *tag != SEQUENCE) {
        return Err(BerError(
            "this is no LDAP message: it may be another protocol, or TLS where none was expected",
        ));
    }
    let Some(header) = ber::header(bytes)? else { return Ok(Frame::More) };
    match header.begin.checked_add(header.length) {
        Some(length) if length > bytes_max => Err(BerError("a message is longer than allowed")),
        Some(length) if length <= bytes.len() => Ok(Frame::Whole(length)),
        Some(_) => Ok(Frame::More),
        None => Err(BerError("a message is longer than allowed")),
    }
}

/// What is seen of a message without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The message's identifier.
    pub id: u32,
    /// Whether it is the last response to its request.
    pub is_last: bool,
    /// Whether it is an entry or a reference that a search found.
    pub is_found: bool,
    /// Whether it is an entry that a search found.
    pub is_entry: bool,
    /// The result code, if it is the last response.
    pub code: Option<ResultCode>,
}

/// Looks at a message that is as long as [`frame`] said, for those who need no more than its result.
pub fn glance(bytes: &[u8]) -> Result<Glance, BerError> {
    let mut from = Decoder::new(bytes).constructed(SEQUENCE)?;
    let id = from.unsigned(INTEGER)?;
    let (tag, content) = from.element()?;
    let is_last = tag::RESULTS.contains(&tag);
    let code = match is_last {
        true => Some(ResultCode::from_number(Decoder::new(content).unsigned(ENUMERATED)?)),
        false => None,
    };
    let is_entry = tag == tag::SEARCH_ENTRY;
    Ok(Glance { id, is_last, is_found: is_entry || tag == tag::SEARCH_REFERENCE, is_entry, code })
}
