//! Tests that parsers of the formats can read the written text.

use std::io::{self, Write};

use people::{
    ATTRIBUTES, Base, Dialect, Format, Population, Record, Shares, Sink, write_groups, write_people,
};

/// People, followed by groups, as text.
fn written(people: &Population, attributes: usize, groups: u64, format: &Format) -> String {
    let mut text = Vec::new();
    let mut go_on = |_, _| true;
    let mut sink = Sink::new(&mut text, &mut go_on);
    let whole = write_people(people, attributes, format, &mut sink).unwrap();
    assert!(whole.whole);
    if groups > 0 {
        let whole = write_groups(people, groups, format, &mut sink).unwrap();
        assert!(whole.whole && whole.records == groups);
    }
    let bytes = sink.bytes();
    assert_eq!(bytes, text.len() as u64);
    String::from_utf8(text).unwrap()
}

fn formats() -> [(&'static str, Format); 5] {
    [
        ("csv", Format::Csv),
        ("ldif", Format::Ldif(Base::parse("dc=example,dc=com").unwrap())),
        ("postgres", Format::Sql(Dialect::Postgres)),
        ("sqlite", Format::Sql(Dialect::Sqlite)),
        ("avp", Format::Avp),
    ]
}

/// More people than fit into one block.
fn a_day_later() -> Population {
    Population::new(1, 4_500).on_day(1, Shares::default()).unwrap()
}

#[test]
fn the_first_people_in_each_format() {
    let people = Population::new(1, 9);
    for (name, format) in formats() {
        insta::assert_snapshot!(name, written(&people, 25, 3, &format));
    }
    insta::assert_snapshot!("every_attribute", written(&people, ATTRIBUTES.len(), 0, &Format::Avp));
}

#[test]
fn csv_is_read_back() {
    let people = a_day_later();
    let text = written(&people, 40, 0, &Format::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head: Vec<&str> = ATTRIBUTES[..40].iter().map(|of| of.name).collect();
    assert_eq!(reader.headers().unwrap(), head);
    let mut rows = reader.into_records();
    let mut records = people.records(40);
    while let Some(record) = records.next() {
        let row = rows.next().unwrap().unwrap();
        assert!(record.values().map(|of| of.1).eq(row.iter()), "{row:?}");
    }
    assert!(rows.next().is_none());
    assert!(text.contains("\"Loadline Shipping, Inc.\"") && !text.contains("\"Loadline Marine plc\""));
}

#[test]
fn ldif_is_read_back_with_parents_before_children() {
    let people = a_day_later();
    for attributes in [1, 8, ATTRIBUTES.len()] {
        let format = Format::Ldif(Base::parse("ou=test, o=Example").unwrap());
        let text = written(&people, attributes, 5, &format);
        let mut reader = ldap::ldif::Reader::new(text.as_bytes(), ldap::ldif::Options::default());
        let mut seen = std::collections::BTreeSet::new();
        let (mut persons, mut references) = (0, Vec::new());
        while let Some(entry) = reader.next().unwrap() {
            let (_, parent) = entry.dn.split_once(',').unwrap();
            assert!(seen.is_empty() || seen.contains(parent), "{} before {parent}", entry.dn);
            let ldap::ldif::Body::Entry(values) = &entry.body else { panic!("{entry:?}") };
            let of = |name: &str| {
                values.iter().find(|of| of.0 == name).map(|of| std::str::from_utf8(of.1).unwrap())
            };
            // The entry has the values of its name.
            let (name, value) = entry.dn.split(',').next().unwrap().split_once('=').unwrap();
            assert!(values.contains(&(name, value.as_bytes())), "{}", entry.dn);
            if values.contains(&("objectClass", b"inetOrgPerson")) {
                persons += 1;
                assert!(of("cn").is_some() && of("sn").is_some());
                let mut names: Vec<&str> =
                    values.iter().map(|of| of.0).filter(|of| *of != "objectClass").collect();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len() + 4, values.len(), "each attribute once");
            }
            let dns = values.iter().filter(|of| matches!(of.0, "manager" | "member"));
            references.extend(dns.map(|of| String::from_utf8(of.1.to_vec()).unwrap()));
            assert!(seen.insert(entry.dn.to_string()));
        }
        let present = (0..people.numbers_end()).filter(|index| people.is_present(*index)).count();
        assert_eq!(persons, present);
        assert!(references.len() > 4_500, "{}", references.len());
        assert!(references.iter().all(|dn| seen.contains(dn)), "every reference leads to an entry");
    }
}

#[test]
fn copy_text_has_the_values_back() {
    let people = a_day_later();
    let text = written(&people, 25, 0, &Format::Sql(Dialect::Postgres));
    let (_, rows) = text.split_once(" FROM stdin;\n").unwrap();
    let (rows, rest) = rows.split_once("\\.\n").unwrap();
    assert_eq!(rest, "COMMIT;\n");
    let mut rows = rows.lines();
    let mut records = people.records(25);
    while let Some(record) = records.next() {
        let values = rows.next().unwrap().split('\t').map(|value| if value == "\\N" { "" } else { value });
        assert!(values.eq(record.values().map(|of| of.1)));
    }
    assert_eq!(rows.next(), None);
}

#[test]
fn each_insert_has_a_hundred_rows() {
    let text = written(&Population::new(1, 4_250), 8, 2, &Format::Sql(Dialect::Sqlite));
    assert_eq!(text.matches("INSERT INTO people (").count(), 43);
    assert_eq!(text.matches("INSERT INTO people_groups (").count(), 1);
    // Two groups of 4250 and 2125 members.
    assert_eq!(text.matches("INSERT INTO people_group_members (").count(), 64);
    assert_eq!(
        text.matches("\nINSERT").count(),
        text.matches(";\nINSERT").count(),
        "each begins after another's end"
    );
    assert!(text.contains("'Mary O''") || text.contains("O''"), "somebody is an O'Brien");
    assert_eq!(text.matches("BEGIN;").count(), text.matches("COMMIT;").count());
}

#[test]
fn memberships_in_csv_are_a_table() {
    let people = Population::new(1, 50);
    let mut text = Vec::new();
    write_groups(&people, 4, &Format::Csv, &mut Sink::new(&mut text, &mut |_, _| true)).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_slice());
    assert_eq!(reader.headers().unwrap(), vec!["group", "member"]);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let of_first = rows.iter().filter(|row| row[0] == people.group(0).name).count();
    assert_eq!(of_first, 50);
    let mut record = Record::new(1);
    for row in &rows {
        assert!(people.read(people::index_of(&row[1]).unwrap(), &mut record));
    }
}

/// Accepts a number of bytes, then fails.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported() {
    let people = Population::new(1, 5_000);
    for (name, format) in formats() {
        let mut sink_out = Full(300_000);
        let mut go_on = |_, _| true;
        let error =
            write_people(&people, 25, &format, &mut Sink::new(&mut sink_out, &mut go_on)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{name}");
    }
}

#[test]
fn writing_ends_when_it_is_reported_to_after_a_whole_record() {
    let people = Population::new(1, 5_000);
    for (name, format) in formats() {
        let mut text = Vec::new();
        let mut reported = Vec::new();
        let mut go_on = |records, bytes| {
            reported.push((records, bytes));
            reported.len() < 2
        };
        let done = write_people(&people, 25, &format, &mut Sink::new(&mut text, &mut go_on)).unwrap();
        assert!(!done.whole && done.records > 500 && done.records < 5_000, "{name}: {done:?}");
        assert_eq!(reported.len(), 2);
        assert_eq!(reported[1], (done.records, text.len() as u64));
        // The written part is a prefix of the whole text, and no transaction is committed.
        let whole = written(&people, 25, 0, &format);
        assert!(whole.as_bytes().starts_with(&text), "{name}");
        assert!(!String::from_utf8(text).unwrap().contains("COMMIT"), "{name}");
    }
}

#[test]
fn a_base_is_a_distinguished_name() {
    for (dn, ok) in [
        ("dc=example,dc=com", true),
        ("o=Example Corporation", true),
        ("ou = people , o=Example", true),
        ("", false),
        ("example.com", false),
        ("cn=admin,dc=example,dc=com", false),
        ("dc=,dc=com", false),
        ("dc=a,,dc=b", false),
        ("dc=a+ou=b", false),
        ("o=Smith\\, Sons", false),
        ("dc=a\ndn: cn=b", false),
    ] {
        assert_eq!(Base::parse(dn).is_ok(), ok, "{dn}");
    }
    assert_eq!(
        Base::parse("cn=x").unwrap_err(),
        "the base `cn=x` begins with neither dc=, o= nor ou=: write a distinguished name such as dc=example,dc=com or ou=test,o=example"
    );
}
