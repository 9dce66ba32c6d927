//! Controls with supported values: paged results (RFC 2696) and content synchronization (RFC 4533). Also the
//! identifiers of some controls without a value.

use crate::ber::{self, BerError, Decoder, ENUMERATED, Encoder, INTEGER, OCTETS, SEQUENCE, SET, context};
use crate::message::{Element, List};

/// Paged results (RFC 2696), in the request and in the response.
pub const PAGED_RESULTS: &str = "1.2.840.113556.1.4.319";
/// Requests a synchronization (RFC 4533).
pub const SYNC_REQUEST: &str = "1.3.6.1.4.1.4203.1.9.1.1";
/// Accompanies each entry of a synchronization.
pub const SYNC_STATE: &str = "1.3.6.1.4.1.4203.1.9.1.2";
/// Accompanies the end of a synchronization.
pub const SYNC_DONE: &str = "1.3.6.1.4.1.4203.1.9.1.3";
/// The name of the intermediate response of a synchronization.
pub const SYNC_INFO: &str = "1.3.6.1.4.1.4203.1.9.1.4";
/// Treats referrals and aliases as entries (RFC 3296). No value.
pub const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
/// Deletes an entry and all entries below it. No value.
pub const TREE_DELETE: &str = "1.2.840.113556.1.4.805";
/// Finds deleted entries that the server keeps for a while, as Active Directory does. No value.
pub const SHOW_DELETED: &str = "1.2.840.113556.1.4.417";
/// Relaxes rules of the data model, for example to set operational attributes. No value.
pub const RELAX: &str = "1.3.6.1.4.1.4203.666.5.12";

/// The value of the paged results control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedResults<'a> {
    /// In a request, the maximum number of entries per page. In a response, the estimated total number of
    /// entries, 0 if unknown.
    pub size: u32,
    /// Where to continue; empty at the start and at the end.
    pub cookie: &'a [u8],
}

impl<'a> PagedResults<'a> {
    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        Encoder::new(out).constructed(SEQUENCE, |to| {
            to.integer(INTEGER, i64::from(self.size));
            to.octets(OCTETS, self.cookie);
        });
    }

    /// Reads the value.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BerError> {
        let mut from = Decoder::new(bytes).constructed(SEQUENCE)?;
        // Some servers send a negative number if they have no estimate.
        let size = u32::try_from(from.integer(INTEGER)?).unwrap_or(0);
        Ok(PagedResults { size, cookie: from.expect(OCTETS)? })
    }
}

/// The value of the control that requests a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRequest<'a> {
    /// Whether later changes are to follow after the current content.
    pub persist: bool,
    /// The cookie of the last synchronization; `None` for the first one.
    pub cookie: Option<&'a [u8]>,
    /// Whether the client can start from the beginning if the cookie is too old; otherwise the server refuses
    /// it.
    pub reload_hint: bool,
}

impl<'a> SyncRequest<'a> {
    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        Encoder::new(out).constructed(SEQUENCE, |to| {
            to.integer(ENUMERATED, if self.persist { 3 } else { 1 });
            write_cookie(to, self.cookie);
            if self.reload_hint {
                to.boolean(ber::BOOLEAN, true);
            }
        });
    }

    /// Reads the value.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BerError> {
        let mut from = Decoder::new(bytes).constructed(SEQUENCE)?;
        Ok(SyncRequest {
            persist: match from.integer(ENUMERATED)? {
                1 => false,
                3 => true,
                _ => return Err(BerError("an unknown mode of synchronization")),
            },
            cookie: from.optional(OCTETS)?,
            reload_hint: flag(&mut from, false)?,
        })
    }
}

/// The state of an entry in a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncEntryState {
    /// It exists, unchanged.
    Present,
    /// It is new, or the previous state is unknown.
    Add,
    /// It was changed.
    Modify,
    /// It was deleted.
    Delete,
}

/// The value of the control that accompanies an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncState<'a> {
    /// The state of the entry.
    pub state: SyncEntryState,
    /// Its `entryUUID`, which does not change when the entry is renamed: 16 bytes.
    pub uuid: Uuid,
    /// Where to continue after this entry.
    pub cookie: Option<&'a [u8]>,
}

impl<'a> SyncState<'a> {
    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        Encoder::new(out).constructed(SEQUENCE, |to| {
            to.integer(ENUMERATED, self.state as i64);
            to.octets(OCTETS, &self.uuid.0);
            write_cookie(to, self.cookie);
        });
    }

    /// Reads the value.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BerError> {
        let mut from = Decoder::new(bytes).constructed(SEQUENCE)?;
        Ok(SyncState {
            state: match from.integer(ENUMERATED)? {
                0 => SyncEntryState::Present,
                1 => SyncEntryState::Add,
                2 => SyncEntryState::Modify,
                3 => SyncEntryState::Delete,
                _ => return Err(BerError("an unknown state of an entry")),
            },
            uuid: Uuid::decode(&mut from)?,
            cookie: from.optional(OCTETS)?,
        })
    }
}

/// An entry's UUID (RFC 4530).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl std::fmt::Display for Uuid {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(out, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Uuid {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, out)
    }
}

impl<'a> Element<'a> for Uuid {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.octets(OCTETS, &self.0);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError> {
        from.expect(OCTETS)?.try_into().map(Uuid).map_err(|_| BerError("an entryUUID has not 16 bytes"))
    }
}

/// The value of the control that accompanies the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncDone<'a> {
    /// Where the next synchronization begins.
    pub cookie: Option<&'a [u8]>,
    /// Whether deletions were reported one by one. If not, every entry that was not reported as present was
    /// deleted.
    pub refresh_deletes: bool,
}

impl<'a> SyncDone<'a> {
    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        Encoder::new(out).constructed(SEQUENCE, |to| {
            write_cookie(to, self.cookie);
            if self.refresh_deletes {
                to.boolean(ber::BOOLEAN, true);
            }
        });
    }

    /// Reads the value.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BerError> {
        let mut from = Decoder::new(bytes).constructed(SEQUENCE)?;
        Ok(SyncDone { cookie: from.optional(OCTETS)?, refresh_deletes: flag(&mut from, false)? })
    }
}

/// The value of the intermediate response [`SYNC_INFO`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SyncInfo<'a> {
    /// Where to continue.
    NewCookie(&'a [u8]),
    /// The end of the phase in which deletions are reported.
    RefreshDelete {
        /// Where to continue.
        cookie: Option<&'a [u8]>,
        /// Whether the existing content is complete and changes follow.
        done: bool,
    },
    /// The end of the phase in which present entries are reported: all others were deleted.
    RefreshPresent {
        /// Where to continue.
        cookie: Option<&'a [u8]>,
        /// Whether the existing content is complete and changes follow.
        done: bool,
    },
    /// A set of present or deleted entries.
    IdSet {
        /// Where to continue.
        cookie: Option<&'a [u8]>,
        /// Whether they were deleted.
        refresh_deletes: bool,
        /// Their UUIDs.
        uuids: List<'a, Uuid>,
    },
}

const NEW_COOKIE: u8 = context(0, false);
const REFRESH_DELETE: u8 = context(1, true);
const REFRESH_PRESENT: u8 = context(2, true);
const ID_SET: u8 = context(3, true);

impl<'a> SyncInfo<'a> {
    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut to = Encoder::new(out);
        let refresh = |to: &mut Encoder<'_>, tag: u8, cookie: Option<&[u8]>, done: bool| {
            to.constructed(tag, |to| {
                write_cookie(to, cookie);
                if !done {
                    to.boolean(ber::BOOLEAN, false);
                }
            });
        };
        match *self {
            SyncInfo::NewCookie(cookie) => to.octets(NEW_COOKIE, cookie),
            SyncInfo::RefreshDelete { cookie, done } => refresh(&mut to, REFRESH_DELETE, cookie, done),
            SyncInfo::RefreshPresent { cookie, done } => refresh(&mut to, REFRESH_PRESENT, cookie, done),
            SyncInfo::IdSet { cookie, refresh_deletes, uuids } => to.constructed(ID_SET, |to| {
                write_cookie(to, cookie);
                if refresh_deletes {
                    to.boolean(ber::BOOLEAN, true);
                }
                uuids.encode(to, SET);
            }),
        }
    }

    /// Reads the value.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BerError> {
        let (tag, content) = Decoder::new(bytes).element()?;
        let mut from = Decoder::new(content);
        Ok(match tag {
            NEW_COOKIE => SyncInfo::NewCookie(content),
            REFRESH_DELETE => {
                SyncInfo::RefreshDelete { cookie: from.optional(OCTETS)?, done: flag(&mut from, true)? }
            }
            REFRESH_PRESENT => {
                SyncInfo::RefreshPresent { cookie: from.optional(OCTETS)?, done: flag(&mut from, true)? }
            }
            ID_SET => SyncInfo::IdSet {
                cookie: from.optional(OCTETS)?,
                refresh_deletes: flag(&mut from, false)?,
                uuids: List::decode(from.expect(SET)?)?,
            },
            _ => return Err(BerError("an unknown message of a synchronization")),
        })
    }
}

fn write_cookie(to: &mut Encoder<'_>, cookie: Option<&[u8]>) {
    if let Some(cookie) = cookie {
        to.octets(OCTETS, cookie);
    }
}

fn flag(from: &mut Decoder<'_>, default: bool) -> Result<bool, BerError> {
    Ok(from.optional(ber::BOOLEAN)?.map(ber::as_boolean).transpose()?.unwrap_or(default))
}
