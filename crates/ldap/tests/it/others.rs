//! Tests of files, names and filters against the server's own implementation.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_ldap::ldif::{Body, Options, Reader, write_attribute, write_dn};
use plimsoll_ldap::message::SearchRequest;
use plimsoll_ldap::session::SearchItem;
use plimsoll_ldap::{Dn, Filter, Rdn, filter};
use testkit::slapd::{SUFFIX, Slapd, SlapdOptions};

use crate::{people, root};

/// Values that need escapes or encoding, each of another kind.
fn hard_values() -> BTreeMap<String, BTreeSet<Vec<u8>>> {
    let texts = [
        " before",
        "behind ",
        ":colon",
        "<angle",
        "# hash",
        "- dash",
        "line\nbreak",
        "tab\there",
        "Ænne Østergård",
        "日本",
    ];
    let mut texts: BTreeSet<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    // Lengths around the fold column.
    texts.extend((55..85).map(|length| vec![b'x'; length]));
    texts.insert("long Ø ".repeat(300).into_bytes());
    let photos = BTreeSet::from([(0..=255).collect(), vec![0], vec![0xff; 5000]]);
    BTreeMap::from([("description".to_string(), texts), ("jpegPhoto".to_string(), photos)])
}

/// Names that need escapes.
fn hard_names() -> Vec<Dn> {
    let people: Dn = format!("ou=people,{SUFFIX}").parse().unwrap();
    [
        "plain",
        "Smith, John",
        "a+b=c",
        "\"quoted\"",
        "back\\slash",
        "<angle>; semicolon",
        "#hash",
        "a # b",
        "Ænne",
        "star*(x)",
        "a  b",
    ]
    .iter()
    .map(|name| people.child(Rdn::new("cn", *name)))
    .collect()
}

#[test]
fn what_is_written_the_server_reads_and_what_it_writes_is_read() {
    let hard = hard_values();
    let dn = format!("cn=hard,ou=people,{SUFFIX}");
    let mut ldif = people(0).into_bytes();
    write_dn(&mut ldif, &dn);
    for (name, value) in [("objectClass", "inetOrgPerson"), ("cn", "hard"), ("sn", "hard")] {
        write_attribute(&mut ldif, name, value.as_bytes());
    }
    for (name, values) in &hard {
        values.iter().for_each(|value| write_attribute(&mut ldif, name, value));
    }
    for name in hard_names() {
        ldif.push(b'\n');
        write_dn(&mut ldif, &name.to_string());
        write_attribute(&mut ldif, "objectClass", b"inetOrgPerson");
        write_attribute(&mut ldif, "sn", b"x");
        if let plimsoll_ldap::dn::Value::Bytes(value) = &name.rdn().unwrap().parts()[0].value {
            write_attribute(&mut ldif, "cn", value);
        }
    }
    let ldif = String::from_utf8(ldif).unwrap();
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() }) else { return };

    // Over the wire.
    let mut session = root(&slapd);
    let filter = Filter::equal("cn", "hard");
    let mut search = session.search(SearchRequest::subtree(SUFFIX, &filter), None).unwrap();
    let Some(SearchItem::Entry { attributes, .. }) = search.next().unwrap() else {
        panic!("the entry is not there")
    };
    for (name, values) in &hard {
        let found = attributes.iter().find(|attribute| attribute.name == name).unwrap();
        assert_eq!(
            found.values.iter().map(|value| value.0.to_vec()).collect::<BTreeSet<_>>(),
            *values,
            "{name}"
        );
    }
    drop(search);

    // From the file that the server writes.
    let export = slapd.export();
    let mut reader = Reader::new(export.as_bytes(), Options::default());
    let mut names = Vec::new();
    let mut seen = false;
    while let Some(record) = reader.next().unwrap() {
        let Body::Entry(attributes) = &record.body else { panic!("{record:?}") };
        if record.dn == dn {
            seen = true;
            for (name, values) in &hard {
                let of_it = attributes.iter().filter(|(of, _)| of == name).map(|(_, value)| value.to_vec());
                assert_eq!(of_it.collect::<BTreeSet<_>>(), *values, "{name}");
            }
        }
        names.push(Dn::parse(record.dn).unwrap());
    }
    assert!(seen);
    for name in hard_names() {
        assert_eq!(names.iter().filter(|other| other.same(&name)).count(), 1, "{name}");
        assert_eq!(names.iter().filter(|other| other.key() == name.key()).count(), 1, "{name}");
    }
}

#[test]
fn names_and_filters_find_the_entry_they_mean() {
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif: people(0), ..SlapdOptions::default() }) else {
        return;
    };
    let mut session = root(&slapd);
    for name in hard_names() {
        let written = name.to_string();
        let mut record = Vec::new();
        write_dn(&mut record, &written);
        write_attribute(&mut record, "objectClass", b"inetOrgPerson");
        write_attribute(&mut record, "sn", b"x");
        let mut reader = Reader::new(record.as_slice(), Options::default());
        session.submit_record(&reader.next().unwrap().unwrap()).unwrap();
        let code = session.next_response().unwrap().operation.result().unwrap().code;
        // The server adds the value of the name to the entry, or requires it.
        assert!(code.is_success(), "{written}: {code}");
        let plimsoll_ldap::dn::Value::Bytes(value) = &name.rdn().unwrap().parts()[0].value else {
            panic!("{written}")
        };
        let mut text = "(cn=".to_string();
        filter::escape_value(&mut text, value);
        text.push(')');
        let filter = Filter::parse(&text).unwrap();
        let mut search = session.search(SearchRequest::subtree(SUFFIX, &filter), None).unwrap();
        let mut found = Vec::new();
        while let Some(entry) = search.next().unwrap() {
            let SearchItem::Entry { dn, .. } = entry else { panic!("{entry:?}") };
            found.push(Dn::parse(dn).unwrap());
        }
        assert_eq!(found.len(), 1, "{text}");
        assert!(found[0].same(&name), "{} {name}", found[0]);
        drop(search);
        session.delete(&written).unwrap();
    }
}
