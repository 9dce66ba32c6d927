//! Tests of binding, changing and searching.

use std::collections::BTreeSet;

use plimsoll_ldap::controls::TREE_DELETE;
use plimsoll_ldap::message::{
    Attribute, Change, List, NO_ATTRIBUTES, Operation, Scope, SearchRequest, Value,
};
use plimsoll_ldap::session::{SearchItem, SessionError};
use plimsoll_ldap::{Control, Filter, ModifyOperation, ResultCode, Session, ldif};
use testkit::slapd::{ROOT_DN, SUFFIX, Slapd, SlapdOptions};

use crate::{connect, people, root};

fn start(count: usize) -> Option<Slapd> {
    Slapd::start(&SlapdOptions { ldif: people(count), ..SlapdOptions::default() })
}

/// The values of an attribute, sorted.
fn values(session: &mut Session, dn: &str, attribute: &str) -> Vec<String> {
    let filter = Filter::everything();
    let wanted = [attribute];
    let request = SearchRequest {
        scope: Scope::Base,
        attributes: List::from(&wanted),
        ..SearchRequest::subtree(dn, &filter)
    };
    let mut search = session.search(request, None).unwrap();
    let mut values = Vec::new();
    while let Some(found) = search.next().unwrap() {
        let SearchItem::Entry { attributes, .. } = found else { panic!("{found:?}") };
        for attribute in attributes {
            values.extend(attribute.values.iter().map(|value| String::from_utf8(value.0.to_vec()).unwrap()));
        }
    }
    values.sort();
    values
}

#[test]
fn a_bind_succeeds_with_the_right_password_only() {
    let Some(slapd) = start(0) else { return };
    let mut session = connect(&slapd.url());
    assert_eq!(session.who_am_i().unwrap(), "");
    let error = session.bind(ROOT_DN, b"hunter2").unwrap_err();
    assert_eq!(error.code(), Some(ResultCode::InvalidCredentials));
    assert!(error.session_goes_on());
    let reported = error.to_string();
    assert_eq!(
        reported,
        format!("bindRequest of {ROOT_DN}: invalidCredentials (49): correct the name or the password")
    );
    assert!(matches!(session.bind(ROOT_DN, b""), Err(SessionError::EmptyPassword)));
    session.bind(ROOT_DN, b"secret").unwrap();
    assert_eq!(session.who_am_i().unwrap(), format!("dn:{ROOT_DN}"));
    assert!(!format!("{session:?}").contains("secret"));
    assert!(session.warning().unwrap().contains("can be read on the way"));
    session.unbind().unwrap();
}

#[test]
fn an_entry_is_added_modified_renamed_and_deleted() {
    let Some(slapd) = start(1) else { return };
    let mut session = root(&slapd);
    let dn = format!("uid=ann,ou=people,{SUFFIX}");
    let photo = [0xff, 0xd8, 0, 1];
    session
        .add(
            &dn,
            &[
                Attribute { name: "objectClass", values: List::from(&[Value(b"inetOrgPerson")]) },
                Attribute { name: "cn", values: List::from(&[Value(b"Ann"), Value("Änn".as_bytes())]) },
                Attribute { name: "sn", values: List::from(&[Value(b"Ash")]) },
                Attribute { name: "jpegPhoto", values: List::from(&[Value(&photo)]) },
            ],
        )
        .unwrap();
    assert_eq!(values(&mut session, &dn, "cn"), ["Ann", "Änn"]);
    assert_eq!(session.add(&dn, &[]).unwrap_err().code(), Some(ResultCode::ProtocolError));
    assert!(session.compare(&dn, "sn", b"ash").unwrap());
    assert!(!session.compare(&dn, "sn", b"oak").unwrap());

    let title = [Value(b"engineer")];
    let change = |operation, name, values| Change { operation, attribute: Attribute { name, values } };
    session
        .modify(
            &dn,
            &[
                change(ModifyOperation::Add, "title", List::from(&title)),
                change(ModifyOperation::Delete, "jpegPhoto", List::NONE),
                change(ModifyOperation::Replace, "cn", List::from(&[Value(b"Ann Ash")])),
            ],
        )
        .unwrap();
    assert_eq!(values(&mut session, &dn, "cn"), ["Ann Ash"]);
    assert_eq!(values(&mut session, &dn, "title"), ["engineer"]);
    assert_eq!(values(&mut session, &dn, "jpegPhoto"), [""; 0]);
    let again =
        session.modify(&dn, &[change(ModifyOperation::Add, "title", List::from(&title))]).unwrap_err();
    assert_eq!(again.code(), Some(ResultCode::AttributeOrValueExists));

    session.rename(&dn, "uid=anne", Some(SUFFIX)).unwrap();
    let renamed = format!("uid=anne,{SUFFIX}");
    assert_eq!(values(&mut session, &renamed, "uid"), ["anne"]);
    let gone = session.delete(&dn).unwrap_err();
    assert_eq!(gone.code(), Some(ResultCode::NoSuchObject));
    assert_eq!(
        gone.to_string(),
        format!(
            "delRequest of {dn}: noSuchObject (32); there is ou=people,{SUFFIX}: make the entry above first, or correct the name"
        )
    );
    session.delete(&renamed).unwrap();
    // A branch is not a leaf, and this server lacks the control that deletes a subtree.
    let branch = format!("ou=people,{SUFFIX}");
    assert_eq!(session.delete(&branch).unwrap_err().code(), Some(ResultCode::NotAllowedOnNonLeaf));
    let operation = Operation::DelRequest { dn: &branch };
    let error = session.perform(&operation, &[Control::critical(TREE_DELETE)]).unwrap_err();
    assert_eq!(error.code(), Some(ResultCode::UnavailableCriticalExtension));
}

#[test]
fn a_search_is_walked_whole_in_pages_and_within_limits() {
    let Some(slapd) = start(250) else { return };
    let mut session = root(&slapd);
    let filter = Filter::parse("(&(objectClass=inetOrgPerson)(uid=p*))").unwrap();
    let wanted = [NO_ATTRIBUTES];
    let request =
        SearchRequest { attributes: List::from(&wanted), ..SearchRequest::subtree(SUFFIX, &filter) };
    for page_size in [None, Some(100), Some(50), Some(1000)] {
        let mut search = session.search(request, page_size).unwrap();
        let mut found = BTreeSet::new();
        while let Some(SearchItem::Entry { dn, attributes, .. }) = search.next().unwrap() {
            assert!(attributes.is_empty());
            assert!(found.insert(dn.to_string()), "{dn} came twice");
        }
        assert_eq!(found.len(), 250, "{page_size:?}");
        assert!(matches!(search.next(), Ok(None)));
    }

    // The entries before the limit are returned, then the limit is reported.
    let mut search = session.search(SearchRequest { size_limit: 7, ..request }, None).unwrap();
    let mut count = 0;
    let error = loop {
        match search.next() {
            Ok(Some(_)) => count += 1,
            Ok(None) => panic!("no limit was reported"),
            Err(error) => break error,
        }
    };
    assert_eq!((count, error.code()), (7, Some(ResultCode::SizeLimitExceeded)));
    drop(search);

    // A search that is dropped before its end does not affect what follows.
    for page_size in [None, Some(10)] {
        let mut search = session.search(request, page_size).unwrap();
        assert!(search.next().unwrap().is_some());
        drop(search);
        assert_eq!(session.in_flight(), 0);
        assert_eq!(session.who_am_i().unwrap(), format!("dn:{ROOT_DN}"));
    }
}

#[test]
fn a_referral_is_reported_and_not_followed() {
    let elsewhere = format!(
        "dn: ou=elsewhere,{SUFFIX}\nobjectClass: referral\nobjectClass: extensibleObject\nou: elsewhere\nref: ldap://192.0.2.1/ou=elsewhere,{SUFFIX}\n"
    );
    let options = SlapdOptions { ldif: people(0) + &elsewhere, ..SlapdOptions::default() };
    let Some(slapd) = Slapd::start(&options) else { return };
    let mut session = root(&slapd);
    let filter = Filter::everything();
    let mut search = session.search(SearchRequest::subtree(SUFFIX, &filter), None).unwrap();
    let (mut entries, mut references) = (0, Vec::new());
    while let Some(found) = search.next().unwrap() {
        match found {
            SearchItem::Entry { .. } => entries += 1,
            SearchItem::Reference(urls) => references.extend(urls.iter().map(str::to_string)),
        }
    }
    drop(search);
    assert_eq!((entries, references), (2, vec![format!("ldap://192.0.2.1/ou=elsewhere,{SUFFIX}??sub")]));
    match session.delete(&format!("cn=x,ou=elsewhere,{SUFFIX}")).unwrap_err() {
        SessionError::Failed(outcome) => {
            assert_eq!(outcome.code, ResultCode::Referral);
            assert_eq!(outcome.referrals, [format!("ldap://192.0.2.1/cn=x,ou=elsewhere,{SUFFIX}")]);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn many_requests_are_in_flight() {
    let Some(slapd) = start(0) else { return };
    let mut session = root(&slapd);
    let class = [Value(b"inetOrgPerson")];
    let mut open = BTreeSet::new();
    for number in 0..500 {
        let dn = format!("uid=n{number},ou=people,{SUFFIX}");
        let sn = number.to_string();
        let values = [Value(sn.as_bytes())];
        let attributes = [
            Attribute { name: "objectClass", values: List::from(&class) },
            Attribute { name: "sn", values: List::from(&values) },
            Attribute { name: "cn", values: List::from(&values) },
        ];
        // Every fifth entry has a missing parent.
        let dn = if number % 5 == 0 { format!("uid=n,{dn}") } else { dn };
        open.insert(
            session
                .submit(&Operation::AddRequest { dn: &dn, attributes: List::from(&attributes) }, &[])
                .unwrap(),
        );
    }
    assert!(matches!(session.who_am_i(), Err(SessionError::Pipelined)));
    let mut refused = 0;
    while !open.is_empty() {
        let response = session.next_response().unwrap();
        assert!(open.remove(&response.id), "{response:?}");
        match response.operation {
            Operation::AddResponse(result) if result.code == ResultCode::NoSuchObject => refused += 1,
            Operation::AddResponse(result) => assert_eq!(result.code, ResultCode::Success),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((refused, session.in_flight()), (100, 0));
    let filter = Filter::parse("(uid=n*)").unwrap();
    let mut search = session.search(SearchRequest::subtree(SUFFIX, &filter), Some(300)).unwrap();
    let mut count = 0;
    while search.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 400);
}

#[test]
fn the_records_of_a_file_are_carried_out() {
    let Some(slapd) = start(2) else { return };
    let mut session = root(&slapd);
    let file = format!(
        "dn: uid=ann,ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: Ann\nsn: Ash\ncn:: w4Rubg==\n\n\
         dn: uid=p0,ou=people,{SUFFIX}\nchangetype: modify\nadd: title\ntitle: engineer\n-\nreplace: sn\nsn: Oak\n-\n\n\
         dn: uid=p1,ou=people,{SUFFIX}\nchangetype: modrdn\nnewrdn: uid=p9\ndeleteoldrdn: 1\nnewsuperior: {SUFFIX}\n\n\
         dn: uid=p0,{SUFFIX}\nchangetype: delete\n\n\
         dn: uid=p9,{SUFFIX}\ncontrol: 1.2.3.4 true\nchangetype: delete\n"
    );
    let mut reader = ldif::Reader::new(file.as_bytes(), ldif::Options::default());
    let mut codes = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        session.submit_record(&record).unwrap();
        codes.push(session.next_response().unwrap().operation.result().unwrap().code);
    }
    let (success, critical) = (ResultCode::Success, ResultCode::UnavailableCriticalExtension);
    assert_eq!(codes, [success, success, success, ResultCode::NoSuchObject, critical]);
    assert_eq!(values(&mut session, &format!("uid=ann,ou=people,{SUFFIX}"), "cn"), ["Ann", "Änn"]);
    assert_eq!(values(&mut session, &format!("uid=p0,ou=people,{SUFFIX}"), "sn"), ["Oak"]);
    assert_eq!(values(&mut session, &format!("uid=p9,{SUFFIX}"), "uid"), ["p9"]);
}
