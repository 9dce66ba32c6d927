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
    Ok(match outer(bytes, bytes_max)? {
        Some((_, length)) if length <= bytes.len() => Frame::Whole(length),
        _ => Frame::More,
    })
}

/// Where the content of the first message begins, and its whole length; none if too few bytes are there.
#[inline]
fn outer(bytes: &[u8], bytes_max: usize) -> Result<Option<(usize, usize)>, BerError> {
    if bytes.first().is_some_and(|tag| *tag != SEQUENCE) {
        return Err(BerError(
            "this is not an LDAP message: it may be another protocol, or TLS where none was expected",
        ));
    }
    let Some(header) = ber::header(bytes)? else { return Ok(None) };
    match header.begin.checked_add(header.length).filter(|length| *length <= bytes_max) {
        Some(length) => Ok(Some((header.begin, length))),
        None => Err(BerError("a message is longer than allowed")),
    }
}

/// What the headers of a message say, without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSummary {
    /// The length of the whole message, bytes.
    pub length: usize,
    /// The message's identifier.
    pub id: u32,
    /// The tag of its operation, as in [`response_tag`](super::Operation::response_tag).
    pub tag: u8,
    /// Whether it is the last response to its request.
    pub is_last: bool,
    /// Whether it is a search entry or a search reference.
    pub is_found: bool,
    /// Whether it is a search entry.
    pub is_entry: bool,
    /// The result code, if it is the last response.
    pub code: Option<ResultCode>,
}

/// Reads the headers of the first message; none if too few bytes are there. The message may be longer than `bytes`: of an
/// entry, a reader that only counts needs no more. A header that announces more than `bytes_max` bytes is an error.
#[inline]
pub fn scan(bytes: &[u8], bytes_max: usize) -> Result<Option<MessageSummary>, BerError> {
    let Some((begin, length)) = outer(bytes, bytes_max)? else { return Ok(None) };
    let is_whole = length <= bytes.len();
    let whole = &bytes[..length.min(bytes.len())];
    match headers(whole, begin, length) {
        Ok(summary) => Ok(Some(summary)),
        Err(_) if !is_whole => Ok(None),
        Err(error) => Err(error),
    }
}

/// The summary of a message of which all or only the first bytes are there.
#[inline]
fn headers(bytes: &[u8], begin: usize, length: usize) -> Result<MessageSummary, BerError> {
    let cut = BerError("an element is longer than what holds it");
    let mut from = Decoder::new(bytes.get(begin..).unwrap_or_default());
    let id = from.unsigned(INTEGER)?;
    let operation = ber::header(from.rest())?.ok_or(cut)?;
    let begin = bytes.len() - from.rest().len() + operation.begin;
    if begin.checked_add(operation.length).is_none_or(|end| end > length) {
        return Err(cut);
    }
    let tag = operation.tag;
    let is_last = tag::RESULTS.contains(&tag);
    let code = match is_last {
        true => Some(ResultCode::from_number(Decoder::new(&bytes[begin..]).unsigned(ENUMERATED)?)),
        false => None,
    };
    let is_entry = tag == tag::SEARCH_ENTRY;
    Ok(MessageSummary {
        length,
        id,
        tag,
        is_last,
        is_found: is_entry || tag == tag::SEARCH_REFERENCE,
        is_entry,
        code,
    })
}
