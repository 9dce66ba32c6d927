//! Tests of content synchronization (RFC 4533) with slapd's syncprov.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_ldap::controls::{
    SYNC_DONE, SYNC_INFO, SYNC_REQUEST, SYNC_STATE, SyncDone, SyncEntryState, SyncInfo, SyncRequest,
    SyncState, Uuid,
};
use plimsoll_ldap::message::{Attribute, Change, List, Operation, SearchRequest, Value};
use plimsoll_ldap::{Control, Filter, Message, ModifyOperation, ResultCode, Session};
use testkit::slapd::{SUFFIX, Slapd, SlapdOptions};

use crate::{people, root};

/// The state of a synchronizing client: a copy of the names, and the cookie.
#[derive(Debug, Default)]
struct Copy {
    entries: BTreeMap<Uuid, String>,
    cookie: Option<Vec<u8>>,
    /// Entries reported as present in this synchronization.
    present: BTreeSet<Uuid>,
    added: usize,
    /// Whether the existing content is complete.
    refreshed: bool,
}

impl Copy {
    fn ask(&mut self, session: &mut Session, persist: bool) -> u32 {
        self.present.clear();
        self.added = 0;
        self.refreshed = false;
        let mut value = Vec::new();
        SyncRequest { persist, cookie: self.cookie.as_deref(), reload_hint: false }.encode(&mut value);
        let filter = Filter::parse("(objectClass=inetOrgPerson)").unwrap();
        let request = Operation::SearchRequest(SearchRequest::subtree(SUFFIX, &filter));
        let control = Control { oid: SYNC_REQUEST, critical: true, value: Some(&value) };
        session.submit(&request, &[control]).unwrap()
    }

    fn take_cookie(&mut self, cookie: Option<&[u8]>) {
        if let Some(cookie) = cookie {
            self.cookie = Some(cookie.to_vec());
        }
    }

    fn take(&mut self, message: &Message<'_>) {
        match message.operation {
            Operation::SearchResultEntry { dn, .. } => {
                let state = SyncState::decode(message.control(SYNC_STATE).unwrap().unwrap()).unwrap();
                self.take_cookie(state.cookie);
                match state.state {
                    SyncEntryState::Present => {
                        self.present.insert(state.uuid);
                    }
                    SyncEntryState::Add | SyncEntryState::Modify => {
                        self.added += 1;
                        self.present.insert(state.uuid);
                        self.entries.insert(state.uuid, dn.to_string());
                    }
                    SyncEntryState::Delete => {
                        self.entries.remove(&state.uuid);
                    }
                }
            }
            Operation::IntermediateResponse { oid: Some(SYNC_INFO), value } => {
                match SyncInfo::decode(value.unwrap()).unwrap() {
                    SyncInfo::NewCookie(cookie) => self.take_cookie(Some(cookie)),
                    SyncInfo::RefreshDelete { cookie, done } => {
                        self.take_cookie(cookie);
                        self.refreshed |= done;
                    }
                    SyncInfo::RefreshPresent { cookie, done } => {
                        self.take_cookie(cookie);
                        self.entries.retain(|uuid, _| self.present.contains(uuid));
                        self.refreshed |= done;
                    }
                    SyncInfo::IdSet { cookie, refresh_deletes, uuids } => {
                        self.take_cookie(cookie);
                        for uuid in uuids {
                            if refresh_deletes {
                                self.entries.remove(&uuid);
                            } else {
                                self.present.insert(uuid);
                            }
                        }
                    }
                }
            }
            Operation::SearchResultDone(result) => {
                assert_eq!(result.code, ResultCode::Success);
                let done = SyncDone::decode(message.control(SYNC_DONE).unwrap().unwrap()).unwrap();
                self.take_cookie(done.cookie);
                if !done.refresh_deletes {
                    self.entries.retain(|uuid, _| self.present.contains(uuid));
                }
                self.refreshed = true;
            }
            other => panic!("{other:?}"),
        }
    }

    fn refresh(&mut self, session: &mut Session) {
        self.ask(session, false);
        while session.in_flight() > 0 {
            let message = session.next_response().unwrap();
            self.take(&message);
        }
    }

    fn names(&self) -> BTreeSet<String> {
        let first = |dn: &String| dn.split(',').next().unwrap().to_string();
        self.entries.values().map(first).collect()
    }
}

fn start() -> Option<Slapd> {
    let database = "overlay syncprov\nsyncprov-sessionlog 100\n".to_string();
    Slapd::start(&SlapdOptions { ldif: people(20), database, tls: None })
}

fn add(session: &mut Session, uid: &str) {
    let name = [Value(uid.as_bytes())];
    session
        .add(
            &format!("uid={uid},ou=people,{SUFFIX}"),
            &[
                Attribute { name: "objectClass", values: List::from(&[Value(b"inetOrgPerson")]) },
                Attribute { name: "cn", values: List::from(&name) },
                Attribute { name: "sn", values: List::from(&name) },
            ],
        )
        .unwrap();
}

#[test]
fn a_second_synchronization_shows_what_changed_since() {
    let Some(slapd) = start() else { return };
    let mut session = root(&slapd);
    let mut copy = Copy::default();
    copy.refresh(&mut session);
    assert_eq!((copy.entries.len(), copy.added), (20, 20));
    assert!(copy.cookie.is_some());

    let person = |number: usize| format!("uid=p{number},ou=people,{SUFFIX}");
    add(&mut session, "new");
    session.delete(&person(3)).unwrap();
    session.rename(&person(4), "uid=renamed", None).unwrap();
    let title = [Value(b"engineer")];
    let attribute = Attribute { name: "title", values: List::from(&title) };
    session.modify(&person(5), &[Change { operation: ModifyOperation::Add, attribute }]).unwrap();

    copy.refresh(&mut session);
    assert_eq!(copy.added, 3, "one added, one renamed, one modified");
    let mut expected: BTreeSet<String> =
        (0..20).filter(|n| ![3, 4].contains(n)).map(|n| format!("uid=p{n}")).collect();
    expected.extend(["uid=new".to_string(), "uid=renamed".to_string()]);
    assert_eq!(copy.names(), expected);

    copy.refresh(&mut session);
    assert_eq!((copy.names(), copy.added), (expected, 0));
}

#[test]
fn a_synchronization_that_stays_open_shows_changes_as_they_come() {
    let Some(slapd) = start() else { return };
    let mut listener = root(&slapd);
    let mut copy = Copy::default();
    let id = copy.ask(&mut listener, true);
    while !copy.refreshed {
        let message = listener.next_response().unwrap();
        copy.take(&message);
    }
    assert_eq!(copy.entries.len(), 20);
    // Nothing changes, so nothing comes.
    assert!(listener.response_within(Duration::from_millis(1)).unwrap().is_none());

    let mut writer = root(&slapd);
    add(&mut writer, "new");
    writer.delete(&format!("uid=p0,ou=people,{SUFFIX}")).unwrap();
    while copy.entries.len() != 20 || !copy.names().contains("uid=new") {
        let message = listener.next_response().unwrap();
        copy.take(&message);
    }
    assert!(!copy.names().contains("uid=p0"));
    listener.abandon(id).unwrap();
    assert_eq!(listener.in_flight(), 0);
    assert!(listener.who_am_i().is_ok());

    // The cookie of the persistent search is valid for the next one.
    add(&mut writer, "later");
    copy.refresh(&mut writer);
    assert!(copy.names().contains("uid=later") && copy.entries.len() == 21);
}
