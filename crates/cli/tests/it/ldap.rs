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

#[test]
fn an_import_is_measured_and_more_entries_are_predicted() {
    if testkit::lacks(testkit::Need::Program("slapd")) {
        return;
    }
    let place = Place::new("ldap-import");
    let sizes =
        ["--entries", "1000", "--vary", "entries=1000,2000,4000,8000", "--run-dir", "sizes", "--quiet"];
    let done = run(&place, &[&["ldap", "import", "--index", "uid"][..], &sizes].concat());
    assert!([0, 98].contains(&done.code), "{} {}", done.out, done.err);
    for expected in ["entries/s", "phases of the import, s", "plimsoll size sizes --for '7900000 entries'"] {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
    assert!(!done.out.contains("p99"), "{}", done.out);
    let names = fs::read_dir(place.path(".")).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("ldap-import")).collect();
    assert!(left.is_empty(), "{left:?}");

    let done = run(&place, &["size", "sizes", "--for", "7.9M entries"]);
    assert_eq!(done.code, 0, "{} {}", done.out, done.err);
    for expected in ["CHECK", "8,002 entries predicted", "7,900,000 entries take", "times the largest import"]
    {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
    let done = run(&place, &["size", "sizes", "--for", "7900000 entries", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let prediction = &document["configurations"][0];
    assert_eq!(prediction["sizes"].as_array().unwrap().len(), 4);
    assert!(prediction["seconds"]["low"].as_f64() < prediction["seconds"]["high"].as_f64());
    let done = run(&place, &["size", "sizes", "--for", "2000/s"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("is no number of entries"), "{}", done.err);

    let done = run(&place, &["ldap", "import"]);
    assert_eq!(done.code, 2);
    let done = run(&place, &["ldap", "import", "missing.ldif", "--tool", "ldif2db", "--quick"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("--quick is of slapadd, and the tool is ldif2db"), "{}", done.err);
    // A flag that is on by default can be turned off.
    let done = run(&place, &["ldap", "import", "missing.ldif", "--quick=false"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("missing.ldif: No such file"), "{}", done.err);
}

#[test]
fn a_mix_is_priced_by_what_each_operation_costs() {
    let ldif = organization(&["people"]);
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() }) else { return };
    let place = Place::new("ldap-mix");
    let search = format!("[[operation]]\nbase = \"{SUFFIX}\"\nscope = \"base\"\n");
    let compare =
        format!("[[operation]]\noperation = \"compare\"\ndn = \"{SUFFIX}\"\nattribute = [\"dc: example\"]\n");
    fs::write(place.path("search.toml"), search).unwrap();
    fs::write(place.path("compare.toml"), compare).unwrap();
    let url = slapd.url();
    let arguments = [
        "--from",
        "search.toml",
        "--vary",
        "from=search.toml,compare.toml",
        "--watch",
        "host",
        "--watch",
        "process:slapd",
    ];
    let load = ["--rate", "200/s", "--duration", "1s", "--warm-up", "0s", "--quiet", "--run-dir", "mix"];
    let done = run(&place, &[&["ldap", "mixed", &url][..], &arguments, &load].concat());
    assert!([0, 97, 98].contains(&done.code), "{} {}", done.out, done.err);

    let done = run(&place, &["size", "mix", "--for", "2000 search/s, 100 compare/s"]);
    assert_eq!(done.code, 0, "{} {}", done.out, done.err);
    for expected in
        ["cost of one operation", "extrapolated", "CPUs", "of the network, with each at most 70 % utilized"]
    {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
    let done = run(&place, &["size", "mix", "--for", "2000 search/s, 100 compare/s", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let need = document["needs"].as_array().unwrap().iter().find(|need| need["resource"] == "cpus").unwrap();
    let each = |at: usize| document["operations"][at]["each"][0][1].as_f64().unwrap();
    let sum = 2000.0 * each(0) + 100.0 * each(1);
    assert!((need["for_load"].as_f64().unwrap() - sum).abs() < 1e-6 * sum, "{document}");
    let done = run(&place, &["size", "mix", "--for", "5 modify/s"]);
    assert_eq!(done.code, 98);
    assert!(
        done.out.contains("`modify` was neither measured alone nor traced; the run has compare, search"),
        "{}",
        done.out
    );
}
