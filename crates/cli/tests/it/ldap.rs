//! `plimsoll ldap` against slapd.

use std::fs;

use testkit::Slapd;
use testkit::slapd::{SUFFIX, SlapdOptions, organization};

use crate::program::{Place, command, run};

/// Whether a text is in a file of a folder.
fn is_in_any(folder: &std::path::Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().flatten().any(|entry| match entry.path() {
        path if path.is_dir() => is_in_any(&path, text),
        path => fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes()),
    })
}

#[test]
fn a_directory_is_measured_and_no_password_is_kept() {
    let person = format!(
        "dn: uid=a,{SUFFIX}\nobjectClass: inetOrgPerson\nuid: a\ncn: a\nsn: a\nuserPassword: s3cr3t-word\n\n"
    );
    let ldif = organization(&[]) + &person;
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() }) else { return };
    let place = Place::new("ldap");
    let url = slapd.url();
    let load = ["--rate", "200/s", "--duration", "1s", "--warm-up", "0s", "--quiet", "--run-dir"];
    let search = ["ldap", "search", &url, "--base", SUFFIX, "--filter", "(uid=a)", "--json"];
    let goals = ["--goal", "search.response.p95 <= 10s", "--goal", "search:first_entry.p99 <= 10s"];
    let person = format!("uid=a,{SUFFIX}");
    let identity = ["--bind-dn", &person, "--password", "${env:WORD}"];
    let output = command(&place, &[&search[..], &identity, &goals, &load, &["search"]].concat())
        .env("WORD", "s3cr3t-word")
        .output()
        .unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // Where other work leaves the generator no CPU, that is the answer.
    let is_starved = document["verdict"]["kind"] == "generator_bound";
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(if is_starved { 97 } else { 0 }), "{errors}");
    let trial = &document["trials"][0];
    let of = |name: &str| {
        let all = ["operations", "derived"].into_iter().flat_map(|list| trial[list].as_array().unwrap());
        all.into_iter().find(|operation| operation["name"] == name).unwrap().clone()
    };
    assert_eq!((of("search")["failed"].as_u64(), of("search")["late"].is_u64()), (Some(0), true));
    assert_eq!(of("search")["completed"], of("search:first_entry")["completed"]);
    let entries = &trial["facts"]["search.entries_min"];
    assert_eq!(entries.as_u64().or(entries["count"].as_u64()), Some(1), "{}", trial["facts"]);

    // A password on the command line is not kept either.
    let login = ["ldap", "login", &url, "--base", SUFFIX, "--scope", "base"];
    let who = ["--dn", &person, "--dn-password", "s3cr3t-word"];
    let done = run(&place, &[&login[..], &who, &load, &["login"]].concat());
    assert!(done.measured(), "{}", done.err);
    assert!(done.out.contains("login:bind"), "{}", done.out);
    for run in ["search", "login"] {
        assert!(!is_in_any(&place.path(run), "s3cr3t-word"), "{run}");
    }
    let again = run(&place, &["show", "login"]);
    assert_eq!(again.out, done.out);

    // What the server says about a failure is shown.
    let change = ["--dn", "cn=nobody,dc=example,dc=com", "--change", "replace sn: b"];
    let done = run(&place, &[&["ldap", "modify", &url][..], &change, &load, &["modify"]].concat());
    assert_eq!(done.code, 1, "{}", done.err);
    assert!(done.out.contains("strongerAuthRequired (8)"), "{}", done.out);

    // All mistakes, in words of flags.
    let done = run(
        &place,
        &["ldap", "search", &url, "--filter", "uid=${randm(1, 2)}", "--base", "x", "--depth", "0"],
    );
    assert_eq!(done.code, 2);
    for expected in ["--filter", "unknown function `randm`", "did you mean `random`?", "--depth"] {
        assert!(done.err.contains(expected), "{expected}: {}", done.err);
    }
}
