use std::path::Path;

use engine::workload::{Done, Outcome};
use testkit::slapd::{self, SlapdOptions};
use testkit::{Need, Scratch, Slapd, lacks};

use super::*;
use crate::testing::{drive, settings_of};

/// Imports, and returns what was done and the facts.
fn import(pairs: &[(&str, &str)]) -> Result<(Vec<Done>, BTreeMap<String, Level>), LoadError> {
    let settings = settings_of(settings::SETTINGS, pairs);
    let mut load = LDAP_IMPORT.configure(&settings).unwrap_or_else(|problems| panic!("{problems}"));
    let problems = load.check();
    assert!(problems.0.is_empty(), "{problems}");
    load.prepare(1, &mut |_| true)?;
    let done = drive(load.as_ref(), 4, usize::MAX)?;
    let facts = load.facts();
    load.release();
    load.clean_up()?;
    Ok((done, facts))
}

fn entries(done: &[Done]) -> u64 {
    done.iter().map(|done| u64::from(done.count)).sum()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

fn phases(facts: &BTreeMap<String, Level>) -> Vec<String> {
    let mut names: Vec<&str> = facts.keys().filter_map(|name| name.strip_prefix("phase.")).collect();
    names.sort_by_key(|name| name.split('.').next().and_then(|number| number.parse::<u32>().ok()));
    names.iter().filter_map(|name| Some(name.split_once('.')?.1.to_string())).collect()
}

#[test]
fn slapadd_imports_people_into_a_new_database() {
    if lacks(Need::Program("slapd")) {
        return;
    }
    let folder = Scratch::new();
    let directory = folder.path().to_str().unwrap();
    let pairs = [("entries", "2000"), ("directory", directory), ("index", "uid, cn:eq+sub")];
    let (done, facts) = import(&pairs).unwrap();
    assert_eq!(entries(&done), 2002);
    assert!(done.iter().all(|done| done.outcome == Outcome::Well));
    let bytes: u64 = done.iter().map(|done| u64::from(done.bytes)).sum();
    assert_eq!(facts["ldif.bytes"], Level::Bytes(bytes));
    assert_eq!(facts["ldif.entries"], Level::Count(2002));
    assert!(matches!(facts["database.bytes"], Level::Bytes(1_000_000..)), "{facts:?}");
    assert_eq!(phases(&facts)[..2], ["start", "reading the file"], "{facts:?}");
    assert!(facts["command"].to_string().ends_with("slapadd -q -f slapd.conf -l people.ldif"), "{facts:?}");
    assert!(is_empty(folder.path()));

    // A mistake in the file is the tool's to find, and its words are passed on.
    let bad = folder.file("bad.ldif", format!("dn: {}\nobjectClass: nonsense\n", slapd::SUFFIX));
    let pairs = [("ldif", bad.to_str().unwrap()), ("directory", directory)];
    let error = import(&pairs).unwrap_err();
    assert!(error.what.contains("ended with exit status 1: "), "{error}");
    assert!(error.what.contains("objectClass"), "{error}");
    // So has an entry without the one above it; the ends of lines do not matter.
    let two = format!(
        "dn: {0}\nobjectClass: dcObject\nobjectClass: organization\no: E\ndc: example\n\n\
         dn: uid=b,{0}\nobjectClass: inetOrgPerson\nuid: b\ncn: B\nsn: B\n",
        slapd::SUFFIX
    );
    let orphan = format!(
        "{two}\ndn: uid=c,ou=no,{}\nobjectClass: inetOrgPerson\nuid: c\ncn: C\nsn: C\n",
        slapd::SUFFIX
    );
    for (name, text, expected) in [
        ("two.ldif", two.clone(), ""),
        ("crlf.ldif", two.replace('\n', "\r\n"), ""),
        ("orphan.ldif", orphan, "ou=no"),
    ] {
        let file = folder.file(name, text);
        let found = import(&[("ldif", file.to_str().unwrap()), ("directory", directory)]);
        match found {
            Ok((done, _)) => assert!(expected.is_empty() && entries(&done) == 2, "{name}"),
            Err(error) => assert!(!expected.is_empty() && error.to_string().contains(expected), "{error}"),
        }
    }
}

#[test]
fn ldif2db_imports_in_one_pass_and_in_several() {
    if lacks(Need::Program("ns-slapd")) {
        return;
    }
    let folder = Scratch::new();
    let directory = folder.path().to_str().unwrap();
    let common = [("tool", "ldif2db"), ("entries", "3000"), ("directory", directory)];
    let (done, facts) = import(&common).unwrap();
    assert_eq!(entries(&done), 3002);
    assert!(done.iter().all(|done| done.outcome == Outcome::Well));
    assert_eq!(facts["passes"], Level::Count(1));
    let names = phases(&facts);
    for name in ["start", "reading and indexing", "indexing the rest", "writing the database", "closing"] {
        assert!(names.iter().any(|of| of == name), "{name}: {names:?}");
    }

    // The server looks at the number of entries five times a second.
    let common = [common[0], ("entries", "10000"), common[2]];
    let pairs = [&common[..], &[("pass_entries", "2000"), ("import_cache", "4MiB"), ("index", "roomNumber")]]
        .concat();
    let (done, facts) = import(&pairs).unwrap();
    assert_eq!(entries(&done), 10_002);
    assert_eq!(facts["import_cache"], Level::Bytes(4096 << 10), "{facts:?}");
    let Level::Count(passes) = facts["passes"] else { panic!("{facts:?}") };
    assert!(passes >= 2, "{facts:?}");
    assert!(phases(&facts).iter().any(|name| name.starts_with("merging the passes")), "{facts:?}");
    assert!(is_empty(folder.path()));
}

#[test]
fn entries_that_are_left_out_have_failed() {
    if lacks(Need::Program("ns-slapd")) {
        return;
    }
    let folder = Scratch::new();
    let text = format!(
        "{}dn: cn=a,ou=missing,{}\nobjectClass: person\ncn: a\nsn: a\n",
        slapd::organization(&["people"]),
        slapd::SUFFIX
    );
    let path = folder.file("orphan.ldif", &text);
    let pairs = [
        ("tool", "ldif2db"),
        ("ldif", path.to_str().unwrap()),
        ("directory", folder.path().to_str().unwrap()),
    ];
    let (done, facts) = import(&pairs).unwrap();
    let failed: Vec<Done> = done.iter().filter(|done| done.outcome != Outcome::Well).copied().collect();
    assert_eq!((entries(&done), entries(&failed)), (3, 1), "{done:?}");
    assert_eq!(failed[0].outcome, Outcome::Failed(worker::LEFT_OUT));
    assert_eq!(facts["entries.left_out"], Level::Count(1));
}

#[test]
fn entries_are_added_to_a_running_server_below_those_that_are_there() {
    let Some(server) = Slapd::start(&SlapdOptions::default()) else { return };
    let folder = Scratch::new();
    let mut text = slapd::organization(&["people"]);
    // Each entry is below the one before it in every fourth.
    for number in 0..200 {
        let above = if number % 4 == 0 { String::new() } else { format!("ou=u{},", number - 1) };
        let above = match number % 4 {
            0 => String::new(),
            1 => above,
            2 => format!("{above}ou=u{},", number - 2),
            _ => format!("{above}ou=u{},ou=u{},", number - 2, number - 3),
        };
        text += &format!(
            "dn: ou=u{number},{above}{}\nobjectClass: organizationalUnit\nou: u{number}\n\n",
            slapd::SUFFIX
        );
    }
    let path = folder.file("tree.ldif", &text);
    let url = server.url();
    let pairs = [
        ("tool", "ldapadd"),
        ("url", url.as_str()),
        ("bind_dn", slapd::ROOT_DN),
        ("password", slapd::ROOT_PASSWORD),
        ("ldif", path.to_str().unwrap()),
        ("directory", folder.path().to_str().unwrap()),
        ("connections", "4"),
    ];
    let (done, facts) = import(&pairs).unwrap();
    assert_eq!(entries(&done), 202);
    assert!(done.iter().all(|done| done.outcome == Outcome::Well), "{facts:?}");
    assert_eq!(server.export().matches("\ndn: ou=u").count(), 200);
    assert_eq!(facts["results.success"], Level::Count(202));

    // Again: all are there.
    let (done, facts) = import(&pairs).unwrap();
    assert!(done.iter().all(|done| done.outcome != Outcome::Well));
    assert_eq!(facts["results.entryAlreadyExists"], Level::Count(202));

    folder.file("tree.ldif", "dn: dc=example,dc=com\nchangetype: delete\n");
    let error = import(&pairs).unwrap_err();
    assert!(error.what.ends_with(":1: this is a change, not an entry"), "{error}");
}

#[test]
fn any_command_that_reads_the_file_is_followed() {
    let folder = Scratch::new();
    let pairs = [
        ("tool", "command"),
        ("entries", "20000"),
        ("directory", folder.path().to_str().unwrap()),
        ("prepare", "touch ready"),
        (
            "command",
            "test -e ready && { sleep 0.05; while read -r line && [ \"$line\" != never ]; do :; done; } < {ldif}",
        ),
    ];
    let (done, facts) = import(&pairs).unwrap();
    assert_eq!(entries(&done), 20_002);
    assert!(done.len() > 2, "{}", done.len());
    assert_eq!(facts["ldif.entries"], Level::Count(20_002));
    let pairs =
        [pairs[0], pairs[1], pairs[2], ("command", "cat {ldif} > /dev/null; echo broken >&2; exit 3")];
    let error = import(&pairs).unwrap_err();
    assert!(error.what.ends_with("ended with exit status 3: broken"), "{error}");
    let pairs = [pairs[0], pairs[1], pairs[2], ("prepare", "echo no >&2; false"), pairs[3]];
    assert!(import(&pairs).unwrap_err().what.contains("the preparation ended with exit status 1: no"));
}

#[test]
fn every_mistake_is_reported_at_once() {
    let settings = settings_of(
        settings::SETTINGS,
        &[
            ("tool", "slapadd"),
            ("import_cache", "64MiB"),
            ("index", "uid,cn:"),
            ("command", "import"),
            ("timeout", "0s"),
            ("url", "ldap://127.0.0.1"),
        ],
    );
    let Err(problems) = LDAP_IMPORT.configure(&settings) else { panic!() };
    let whats: Vec<&str> = problems.0.iter().map(|problem| problem.what.as_str()).collect();
    assert_eq!(
        whats,
        [
            "`import_cache` is of ldif2db, and the tool is slapadd",
            "`command` is of command, and the tool is slapadd",
            "`url` is of ldapadd, and the tool is slapadd",
            "there is nothing to import",
            "`cn:` is not an index",
            "the timeout must be greater than 0",
            "`import` does not name the file to import",
        ]
    );
    let settings = settings_of(settings::SETTINGS, &[("tool", "ldapadd"), ("entries", "5")]);
    let Err(problems) = LDAP_IMPORT.configure(&settings) else { panic!() };
    assert!(problems.to_string().contains("the URL is missing"), "{problems}");
}
