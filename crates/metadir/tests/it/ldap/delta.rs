//! Tests of delta imports.

use ldap::ModifyOperation;
use ldap::message::{Attribute as Sent, Change, List, Value};

use super::*;

fn person(uid: &str) -> String {
    format!("uid={uid},ou=people,{SUFFIX}")
}

fn add(session: &mut Session, uid: &str) {
    let name = [Value(uid.as_bytes())];
    let classes = [Value(b"inetOrgPerson")];
    let listed = [("objectClass", &classes), ("cn", &name), ("sn", &name)];
    let attributes = listed.map(|(name, values)| Sent { name, values: List::from(values) });
    session.add(&person(uid), &attributes).unwrap();
}

fn set_title(session: &mut Session, uid: &str, title: &str) {
    let title = [Value(title.as_bytes())];
    let attribute = Sent { name: "title", values: List::from(&title) };
    session.modify(&person(uid), &[Change { operation: ModifyOperation::Replace, attribute }]).unwrap();
}

/// `ou=people` with people named p0, p1, ..., each changed a second after the previous one, long ago.
fn old_people(count: usize) -> String {
    let mut ldif = organization("createTimestamp: 20200101000000Z\nmodifyTimestamp: 20200101000000Z\n");
    for number in 0..count {
        let dn = person(&format!("p{number}"));
        ldif += &format!(
            "dn: {dn}\nobjectClass: inetOrgPerson\nuid: p{number}\ncn: Person {number}\nsn: {number}\n\
             createTimestamp: 20200101000000Z\nmodifyTimestamp: 2020010100{:02}{:02}Z\n\n",
            number / 60,
            number % 60
        );
    }
    ldif
}

fn settings(slapd: &Slapd, delta: &str) -> String {
    format!(
        "{}base = \"ou=people,{SUFFIX}\"\nfilter = \"(objectClass=inetOrgPerson)\"\nanchor = \"entryUUID\"\ndelta = \"{delta}\"\n",
        keys(slapd)
    )
}

fn uids(imported: &[Imported]) -> Vec<&str> {
    let mut uids: Vec<&str> =
        objects(imported).iter().map(|object| object.dn.split([',', '=']).nth(1).unwrap()).collect();
    uids.sort_unstable();
    uids
}

/// The changes since a watermark, and the next watermark.
fn delta(open: &mut Open, watermark: &str) -> (Vec<Imported>, String, bool) {
    let mut import = open.agent.delta_import(watermark).unwrap();
    let changed = read(import.as_mut()).unwrap();
    (changed, import.watermark().unwrap(), import.is_complete())
}

#[test]
fn content_synchronization_shows_what_came_changed_and_went() {
    // Sixty deletions are more than slapd reports in one message.
    let Some(slapd) = start(old_people(99), "overlay syncprov\nsyncprov-sessionlog 1000\n") else { return };
    let mut session = root(&slapd);
    let mut open = open(&settings(&slapd, "content-synchronization"));
    let (all, import) = open.full();
    assert_eq!(objects(&all).len(), 99);
    let watermark = import.watermark().unwrap();
    assert!(!import.is_complete());

    let anchor = |uid: &str| named(&all, &format!("uid={uid}")).anchor;
    add(&mut session, "new");
    set_title(&mut session, "p1", "engineer");
    session.rename(&person("p2"), "uid=renamed", None).unwrap();
    let mut leavers = Vec::new();
    for number in 30..90 {
        let uid = format!("p{number}");
        session.delete(&person(&uid)).unwrap();
        leavers.push(anchor(&uid));
    }
    let (changed, next, is_complete) = delta(&mut open, &watermark);
    assert_eq!(uids(&changed), ["new", "p1", "renamed"]);
    assert_eq!(open.texts(named(&changed, "uid=p1"), "title"), ["engineer"]);
    assert_eq!(named(&changed, "uid=renamed").anchor, anchor("p2"));
    let mut reported = gone(&changed);
    reported.sort_unstable();
    leavers.sort_unstable();
    assert_eq!((reported, is_complete), (leavers, false));

    let (changed, after, is_complete) = delta(&mut open, &next);
    assert_eq!((changed.len(), is_complete), (0, false));
    assert_eq!(after, next);
    // The first watermark is still valid, as after a crash before the second one was stored.
    assert_eq!(uids(&delta(&mut open, &watermark).0), ["new", "p1", "renamed"]);
}

#[test]
fn without_a_session_log_the_server_shows_who_is_there() {
    let Some(slapd) = start(old_people(20), "overlay syncprov\n") else { return };
    let mut session = root(&slapd);
    let mut open = open(&settings(&slapd, "content-synchronization"));
    let watermark = open.full().1.watermark().unwrap();
    add(&mut session, "new");
    session.delete(&person("p3")).unwrap();
    let (changed, next, is_complete) = delta(&mut open, &watermark);
    assert_eq!((uids(&changed), is_complete), (vec!["new"], true));
    // It may include one that it reported before.
    let new = Imported::Present(named(&changed, "uid=new").anchor);
    let present =
        changed.iter().filter(|imported| matches!(imported, Imported::Present(_)) && **imported != new);
    assert_eq!(present.count(), 19);
    // If nothing changed, it does not report the present entries, and nothing is deleted.
    let (changed, _, is_complete) = delta(&mut open, &next);
    assert_eq!((changed.len(), is_complete), (0, false));
}

#[test]
fn a_cookie_that_the_server_does_not_take_asks_for_a_full_import() {
    let Some(slapd) = start(old_people(3), "overlay syncprov\nsyncprov-reloadhint TRUE\n") else { return };
    add(&mut root(&slapd), "new");
    let mut open = open(&settings(&slapd, "content-synchronization"));
    let watermark = open.full().1.watermark().unwrap();
    let (before, cookie) = watermark.rsplit_once(' ').unwrap();
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let digits: Vec<u8> =
        (0..cookie.len()).step_by(2).map(|at| u8::from_str_radix(&cookie[at..at + 2], 16).unwrap()).collect();
    let cookie = String::from_utf8(digits).unwrap();
    let year = cookie.find("csn=").unwrap() + 4;
    let of_year = |of: &str| format!("{}{of}{}", &cookie[..year], &cookie[year + 4..]);
    for (cookie, words) in [
        // A cookie that is older than all that is known, and one from another directory that is ahead.
        (of_year("1999"), "e-syncRefreshRequired"),
        (of_year("2999"), ""),
    ] {
        let mut import = open.agent.delta_import(&format!("{before} {}", hex(&cookie))).unwrap();
        let error = read(import.as_mut()).err().unwrap_or_else(|| panic!("{cookie}")).to_string();
        assert!(error.contains("run a full-import") && error.contains(words), "{cookie}: {error}");
    }
}

#[test]
fn times_of_changes_overlap_by_a_second_and_miss_nothing() {
    let Some(slapd) = start(old_people(20), "") else { return };
    let mut session = root(&slapd);
    let keys = settings(&slapd, "modifyTimestamp").replace("entryUUID", "uid");
    let mut open = open(&format!("{keys}page_size = 5\n"));
    let (all, import) = open.full();
    assert_eq!(objects(&all).len(), 20);
    let first = import.watermark().unwrap();
    assert!(first.ends_with(" 20200101000019Z"), "{first}");
    // Nothing changed: the changes within that second come again.
    let (changed, same, is_complete) = delta(&mut open, &first);
    assert_eq!((uids(&changed), &same, is_complete), (vec!["p19"], &first, false));

    set_title(&mut session, "p4", "engineer");
    // Begun before the next change, read after it.
    let mut import = open.agent.delta_import(&first).unwrap();
    set_title(&mut session, "p5", "engineer");
    let changed = read(import.as_mut()).unwrap();
    assert!(uids(&changed).starts_with(&["p19", "p4"]), "{changed:?}");
    let next = import.watermark().unwrap();
    assert!(next > first, "{next}");
    // The changes made meanwhile come the next time, whether they came already or not.
    let (changed, _, _) = delta(&mut open, &next);
    assert!(uids(&changed).contains(&"p5") && !uids(&changed).contains(&"p19"), "{changed:?}");
    // Deletions are not reported.
    session.delete(&person("p6")).unwrap();
    assert_eq!(gone(&delta(&mut open, &next).0), []);
}
