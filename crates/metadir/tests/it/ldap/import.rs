//! Tests of full imports.

use std::path::PathBuf;

use people::Record;
use plimsoll_metadir::agent::DiscoveryError;
use testkit::slapd::TlsFiles;

use super::*;
use testkit::certificates::{Made, made};

fn errors(imported: &[Imported]) -> Vec<&DiscoveryError> {
    imported
        .iter()
        .filter_map(|imported| match imported {
            Imported::Error(error) => Some(error),
            _ => None,
        })
        .collect()
}

#[test]
fn everybody_is_read_with_all_they_have() {
    // Binary values, several values, and names that need escapes.
    let photo = "/9j/4AAQAP8=";
    let more = format!(
        "dn: cn=Lovelace\\2C Ada \\2B Co,ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: Lovelace, Ada + Co\nsn: Lovelace\n\
         description: one\ndescription: two\nmail: ada@example.com\njpegPhoto:: {photo}\nuserPassword: geheim\n\n"
    );
    let Some(slapd) = start(people(300) + &more, "") else { return };
    let keys = format!(
        "{}base = \"{SUFFIX}\"\nfilter = \"(objectClass=inetOrgPerson)\"\npage_size = 50\nanchor = \"entryUUID\"\n",
        keys(&slapd)
    );
    let mut open = open(&keys);
    let (all, import) = open.full();
    assert_eq!((all.len(), objects(&all).len()), (301, 301));
    assert_eq!(import.watermark(), None);

    let population = Population::new(5, 300);
    let mut record = Record::new(ATTRIBUTES);
    for index in [0, 17, 299] {
        assert!(population.read(index, &mut record));
        let person = named(&all, &format!("uid={}", record.get("uid").unwrap()));
        for (attribute, value) in record.values() {
            if let Some(name) = attribute.ldap.filter(|name| *name != "manager" && !value.is_empty()) {
                assert_eq!(open.texts(person, name), [value], "{name}");
            }
        }
        let classes = ["inetOrgPerson", "organizationalPerson", "person", "top"];
        assert_eq!(open.texts(person, "objectClass"), classes);
        // The anchor is not a user attribute, so it is requested by name.
        assert_eq!(open.values(person, "entryUUID")[0].len(), 36);
    }
    // The server writes `\2C`; here names have one canonical form.
    let ada = named(&all, "cn=Lovelace\\, Ada \\+ Co");
    assert_eq!(open.texts(ada, "description"), ["one", "two"]);
    assert_eq!(open.values(ada, "jpegPhoto"), [[0xff, 0xd8, 0xff, 0xe0, 0, 0x10, 0, 0xff]]);
    // Operational attributes are not included unless they are requested by name.
    assert!(open.names.attribute("modifyTimestamp").is_none());
}

#[test]
fn referrals_to_other_servers_are_counted() {
    let referral = |name: &str| {
        format!(
            "dn: ou={name},ou=people,{SUFFIX}\nobjectClass: referral\nobjectClass: extensibleObject\nou: {name}\n\
             ref: ldap://127.0.0.1:1/ou={name},{SUFFIX}\n\n"
        )
    };
    let Some(slapd) = start(people(5) + &referral("north") + &referral("south"), "") else { return };
    let keys = format!("{}base = \"{SUFFIX}\"\nfilter = \"(objectClass=inetOrgPerson)\"\n", keys(&slapd));
    for (settings, expected) in [
        ("anchor = \"entryUUID\"\npage_size = 2\n", 2),
        ("anchor = \"entryUUID\"\nexclude = [\"ou=nobody,dc=example,dc=com\"]\n", 2),
    ] {
        let (all, import) = open(&format!("{keys}{settings}")).full();
        assert_eq!((objects(&all).len(), import.referrals()), (5, expected), "{settings}");
    }
    // As in a run, in the counters of the import.
    let scratch = testkit::Scratch::new();
    let text = format!(
        "[store]\nsqlite = \"{}\"\n[metaverse.person]\nattributes = {{ a = \"text\" }}\n[agents.directory]\n{keys}anchor = \"entryUUID\"\n",
        scratch.join("store.db").display()
    );
    let config = connectors::parse(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let mut metadirectory = plimsoll_metadir::metadirectory::Metadirectory::open(config).unwrap();
    let step =
        plimsoll_metadir::config::Step { agent: 0, kind: plimsoll_metadir::config::StepKind::FullImport };
    let done = metadirectory.run(step, &mut |_| true).unwrap();
    assert_eq!(done.statistics.iter().collect::<Vec<_>>(), [("referral", 2), ("stage-add", 5)]);
}

#[test]
fn attributes_bases_and_exclusions_are_followed_and_what_has_no_anchor_is_reported() {
    let more = format!("dn: ou=groups,{SUFFIX}\nobjectClass: organizationalUnit\nou: groups\n\n");
    let Some(slapd) = start(people(20) + &more, "") else { return };
    let keys = keys(&slapd);
    let read = |settings: &str| open(&format!("{keys}{settings}")).full().0;

    let all = read(&format!("base = \"{SUFFIX}\"\nanchor = \"uid\"\nattributes = [\"MAIL\", \"manager\"]\n"));
    assert_eq!(objects(&all).len(), 20);
    let reported: Vec<(&str, &str)> =
        errors(&all).iter().map(|error| (error.kind, error.place.as_str())).collect();
    let places = [SUFFIX.to_string(), format!("ou=people,{SUFFIX}"), format!("ou=groups,{SUFFIX}")];
    assert_eq!(reported, places.each_ref().map(|place| ("missing-anchor", place.as_str())));
    // The attributes of the list and the anchor, case-insensitive; the first person has no manager.
    let counts: Vec<usize> = objects(&all).iter().map(|object| object.image.iter().count()).collect();
    assert_eq!((counts[0], &counts[1..]), (2, &[3; 19][..]));

    let several = format!("base = [\"ou=People,{SUFFIX}\", \"ou=groups,{SUFFIX}\"]\n");
    let all = read(&format!("{several}anchor = \"entryUUID\"\n"));
    assert_eq!((all.len(), errors(&all).len()), (22, 0));
    let all =
        read(&format!("base = \"{SUFFIX}\"\nexclude = \"OU=people,{SUFFIX}\"\nanchor = \"entryUUID\"\n"));
    assert_eq!(all.len(), 2);
}

#[test]
fn an_import_that_the_server_cuts_short_fails() {
    let Some(slapd) = start(people(100), "sizelimit 30\n") else { return };
    // Anonymous, so that the size limit applies.
    let base = format!("base = \"{SUFFIX}\"\nanchor = \"entryUUID\"\n");
    let keys = format!("type = \"ldap\"\nurl = \"{}\"\npage_size = 10\n{base}", slapd.url());
    let mut agent = open(&keys).agent;
    let error = read(agent.full_import().unwrap().as_mut()).unwrap_err().to_string();
    assert!(
        error.contains(&format!("reading {SUFFIX} from ldap://")) && error.contains("sizeLimitExceeded"),
        "{error}"
    );
    // A missing base is not an empty one.
    let elsewhere = keys.replace(SUFFIX, "ou=nowhere,dc=example,dc=com");
    let error = read(open(&elsewhere).agent.full_import().unwrap().as_mut()).unwrap_err().to_string();
    assert!(error.contains("noSuchObject (32)"), "{error}");
}

#[test]
fn a_server_that_goes_half_way_is_an_error() {
    let Some(slapd) = start(people(300), "") else { return };
    let keys = format!("{}base = \"{SUFFIX}\"\npage_size = 20\nanchor = \"uid\"\n", keys(&slapd));
    let mut agent = open(&keys).agent;
    let mut import = agent.full_import().unwrap();
    let mut batch = Vec::new();
    import.read(30, &mut batch).unwrap();
    assert_eq!(batch.len(), 30);
    drop(slapd);
    let error = read(import.as_mut()).unwrap_err().to_string();
    assert!(error.contains(&format!("reading {SUFFIX} from ldap://")), "{error}");
    // A new import cannot begin either.
    assert!(agent.full_import().is_err());
    assert!(try_open(&keys, &[]).is_err());
}

#[test]
fn who_we_are_is_known_to_the_server_and_reported_when_it_is_not() {
    let Some(slapd) = start(people(1), "") else { return };
    let base = format!("base = \"{SUFFIX}\"\nanchor = \"uid\"\n");
    let good = format!("{}{base}", keys(&slapd));
    slapd.folder().secret("password", "wrong-and-geheim");
    let error = try_open(&good, &[]).err().unwrap().to_string();
    assert!(error.contains("invalidCredentials (49)") && !error.contains("geheim"), "{error}");
    slapd.folder().secret("password", ROOT_PASSWORD);
    assert!(try_open(&good, &[]).is_ok());
}

/// A certificate authority, and a certificate with its key for a server on this host.
fn certificates(folder: &Scratch) -> TlsFiles {
    let Made { authority, certificate, key } = made("127.0.0.1");
    let [authority, certificate, key] =
        [("authority.pem", authority), ("server.pem", certificate), ("server.key", key)]
            .map(|(file, pem)| folder.file(file, pem));
    TlsFiles { authority, certificate, key }
}

#[test]
fn a_protected_directory_is_read_over_ldaps_and_start_tls() {
    let folder = scratch();
    let tls = certificates(&folder);
    let stranger = certificates(&scratch()).authority;
    let authority = tls.authority.clone();
    let options = SlapdOptions { ldif: people(10), database: String::new(), tls: Some(tls) };
    let Some(slapd) = Slapd::start(&options) else { return };
    let common = keys(&slapd) + &format!("base = \"{SUFFIX}\"\nanchor = \"entryUUID\"\n");
    let of = |file: &PathBuf| format!("ca_file = \"{}\"\n", file.display());
    let start_tls = format!("{common}start_tls = true\n");
    let ldaps = common.replace(&slapd.url(), &slapd.tls_url());
    for keys in [start_tls, ldaps] {
        let mut open = open(&format!("{keys}{}", of(&authority)));
        assert_eq!(open.full().0.len(), 12);
        for untrusted in [of(&stranger), String::new()] {
            let error = try_open(&format!("{keys}{untrusted}"), &[]).err().unwrap().to_string();
            assert!(error.contains("connecting to the directory"), "{error}");
        }
    }
}
