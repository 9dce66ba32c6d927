//! Waits for changes of a directory by a content synchronization without end (refreshAndPersist of RFC 4533).

use std::time::Duration;

use ldap::ber::BerError;
use ldap::controls::{SYNC_INFO, SYNC_REQUEST, SYNC_STATE, SyncInfo, SyncRequest, SyncState};
use ldap::message::{List, Operation, SearchRequest};
use ldap::session::{Outcome, SessionError};
use ldap::{Control, ResultCode};

use super::connect;
use super::settings::Ldap as Settings;
use metadir::agent::{AgentError, Listener};

/// How long a wait lasts before it is checked whether to end.
const SLICE: Duration = Duration::from_millis(500);
/// No attribute (RFC 4511, section 4.5.1.8).
const NO_ATTRIBUTES: &str = "1.1";

/// A content synchronization without end.
pub(super) struct Watch {
    pub(super) settings: Settings,
    /// Where the last one ended: without it, the server first lists the names of all entries.
    pub(super) cookie: Option<Vec<u8>>,
}

impl Listener for Watch {
    fn listen(
        &mut self,
        is_over: &dyn Fn() -> bool,
        begun: &mut dyn FnMut(),
        changed: &mut dyn FnMut(),
    ) -> Result<(), AgentError> {
        let Watch { settings, cookie } = self;
        let server = settings.server.to_string();
        let failed = |error: SessionError| AgentError::system(format!("watching {server}"), error);
        let broken = |error: BerError| failed(SessionError::Protocol { server: server.clone(), error });
        let Some(base) = settings.bases.first().map(ToString::to_string) else { return Ok(()) };
        let mut session = connect(settings)?;
        let request = SearchRequest {
            attributes: List::from(&[NO_ATTRIBUTES]),
            ..SearchRequest::subtree(&base, &settings.filter)
        };
        let mut value = Vec::new();
        SyncRequest { persist: true, cookie: cookie.as_deref(), reload_hint: false }.encode(&mut value);
        let control = Control { oid: SYNC_REQUEST, critical: true, value: Some(&value) };
        session.submit(&Operation::SearchRequest(request), &[control]).map_err(failed)?;
        let mut is_refreshed = false;
        while !is_over() {
            let Some(message) = session.response_within(SLICE).map_err(failed)? else { continue };
            let mut at = None;
            match message.operation {
                Operation::SearchResultEntry { .. } => {
                    if let Some(Some(value)) = message.control(SYNC_STATE) {
                        at = SyncState::decode(value).map_err(broken)?.cookie.map(<[u8]>::to_vec);
                    }
                    if is_refreshed {
                        changed();
                    }
                }
                Operation::IntermediateResponse { oid: Some(SYNC_INFO), value } => {
                    let value = value.ok_or_else(|| broken(BerError("a message without content")))?;
                    match SyncInfo::decode(value).map_err(broken)? {
                        SyncInfo::NewCookie(new) => at = Some(new.to_vec()),
                        SyncInfo::RefreshDelete { cookie, done }
                        | SyncInfo::RefreshPresent { cookie, done } => {
                            at = cookie.map(<[u8]>::to_vec);
                            if done && !is_refreshed {
                                is_refreshed = true;
                                begun();
                            }
                        }
                        SyncInfo::IdSet { cookie, .. } => {
                            at = cookie.map(<[u8]>::to_vec);
                            if is_refreshed {
                                changed();
                            }
                        }
                    }
                }
                Operation::SearchResultDone(result) => {
                    if result.code == ResultCode::SyncRefreshRequired {
                        *cookie = None;
                    }
                    let outcome = Outcome::new(&Operation::SearchRequest(request), &result);
                    return Err(failed(SessionError::Failed(Box::new(outcome))));
                }
                _ => {}
            }
            if at.is_some() {
                *cookie = at;
            }
        }
        Ok(())
    }
}
