//! Messages before decoding: their length and their most important data.

use super::tag;
use crate::ResultCode;
use crate::ber::{self, BerError, Decoder, ENUMERATED, INTEGER, SEQUENCE};

/// The end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The message is incomplete.
    More,
    /// The message is complete and has this length in bytes.
    Whole(usize),
}

/// Finds the end of the first message. If its header announces more than `bytes_max` bytes, this is an error.
pub fn frame(bytes: &[u8], bytes_max: usize) -> Result<Frame, BerError> {
    if bytes.first().is_some_and(|tag| *tag != SEQUENCE) {
        return Err(BerError(
            "this is not an LDAP message: it may be another protocol, or TLS where none was expected",
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

/// Data of a message that is available without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSummary {
    /// The message's identifier.
    pub id: u32,
    /// Whether it is the last response to its request.
    pub is_last: bool,
    /// Whether it is a search entry or a search reference.
    pub is_found: bool,
    /// Whether it is a search entry.
    pub is_entry: bool,
    /// The result code, if it is the last response.
    pub code: Option<ResultCode>,
}

/// Reads the most important data of a message of the length that [`frame`] returned, for callers that need
/// only its result.
pub fn glance(bytes: &[u8]) -> Result<MessageSummary, BerError> {
    let mut from = Decoder::new(bytes).constructed(SEQUENCE)?;
    let id = from.unsigned(INTEGER)?;
    let (tag, content) = from.element()?;
    let is_last = tag::RESULTS.contains(&tag);
    let code = match is_last {
        true => Some(ResultCode::from_number(Decoder::new(content).unsigned(ENUMERATED)?)),
        false => None,
    };
    let is_entry = tag == tag::SEARCH_ENTRY;
    Ok(MessageSummary { id, is_last, is_found: is_entry || tag == tag::SEARCH_REFERENCE, is_entry, code })
}
