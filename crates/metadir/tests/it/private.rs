//! Tests of files with people, passwords and tokens in the presence of other local users: no foreign links
//! are followed, and no file is readable by others.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;

use plimsoll_metadir::agent::{ExportedObject, Names};
use plimsoll_metadir::config::{Config, Step, StepKind};
use plimsoll_metadir::hologram::{Attribute, Hologram};
use plimsoll_metadir::index_key::IndexKey;
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::object::Change;
use plimsoll_metadir::sqlite_script::SqliteScript;
use plimsoll_metadir::store::{Durability, Sqlite, Store as _};
use testkit::Scratch;

const BEFORE: &str =
    "[store]\nsqlite = \"store.db\"\n[metaverse.person]\nattributes = { id = \"text\" }\n[agents.a]\n";

/// A configuration with one agent with these keys, in a folder.
fn config(folder: &Scratch, keys: &str) -> Config {
    let mut config = connectors::parse(&format!("{BEFORE}{keys}"))
        .unwrap_or_else(|mistakes| panic!("{keys}: {mistakes:?}"));
    config.relative_to(folder.path());
    config
}

/// The keys of each format of text files, and a file with one object.
const FORMS: [(&str, &str); 4] = [
    ("type = \"delimited\"", "id,name\n1,Ada\n"),
    (
        "type = \"fixed-width\"\ncolumns = [{ name = \"id\", start = 1, width = 3 }, { name = \"name\", start = 5, width = 8 }]",
        "1   Ada     \n",
    ),
    ("type = \"attribute-value\"", "id: 1\nname: Ada\n\n"),
    ("type = \"ldif\"\nattributes = [\"name\"]", "dn: id=1\nid: 1\nname: Ada\n\n"),
];

/// Adds an object to the file of people in a folder.
fn export(folder: &Scratch, keys: &str) {
    let config = config(folder, &format!("{keys}\npath = \"people\"\nanchor = \"id\"\n")).agents.remove(0);
    let mut names = Names::default();
    names.insert("id", Attribute(0));
    names.insert("name", Attribute(1));
    let added = ExportedObject {
        change: Change::Add,
        anchor: Some(IndexKey::of_parts(std::iter::once(&b"2"[..]))),
        dn: "id=2".into(),
        new_dn: None,
        attributes: vec![(Attribute(0), vec![b"2".to_vec()]), (Attribute(1), vec![b"Alan".to_vec()])],
        changed_values: Vec::new(),
        adopts: true,
        written: Vec::new(),
        image: Hologram::default(),
    };
    assert_eq!(config.open(&names).unwrap().export(&[added]).unwrap(), [Ok(())], "{keys}");
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_link_at_the_name_of_a_temporary_file_is_not_followed() {
    for (keys, people) in FORMS {
        let folder = Scratch::new();
        folder.file("people", people);
        let precious = folder.file("authorized_keys", "key");
        symlink(&precious, folder.join("people.new")).unwrap();
        export(&folder, keys);
        assert_eq!(folder.text("authorized_keys"), "key", "{keys}");
        assert!(folder.text("people").contains("Alan"), "{keys}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "{keys}: nothing is left beside it");
    }
}

#[test]
fn an_exported_file_keeps_its_mode_and_owner_and_a_new_one_is_private() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    for (keys, people) in FORMS {
        let folder = Scratch::new();
        let path = folder.file("people", people);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        if is_root {
            std::os::unix::fs::chown(&path, Some(1234), Some(2345)).unwrap();
        }
        let before = fs::metadata(&path).unwrap();
        export(&folder, keys);
        let after = fs::metadata(&path).unwrap();
        assert_ne!(after.ino(), before.ino(), "{keys}: it was replaced");
        assert_eq!((after.uid(), after.gid(), mode(&path)), (before.uid(), before.gid(), 0o640), "{keys}");
        fs::remove_file(&path).unwrap();
        export(&folder, keys);
        assert_eq!(mode(&path), 0o600, "{keys}");
    }
}

#[test]
fn a_file_that_another_user_put_into_a_folder_open_to_all_does_not_decide_who_reads_the_new_one() {
    if testkit::lacks(testkit::Need::Root) {
        return;
    }
    let folder = Scratch::new();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    let path = folder.file("people", FORMS[0].1);
    fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    std::os::unix::fs::chown(&path, Some(1234), Some(2345)).unwrap();
    export(&folder, FORMS[0].0);
    assert_eq!((fs::metadata(&path).unwrap().uid(), mode(&path)), (0, 0o600));
}

#[test]
fn a_source_that_is_no_regular_file_is_refused_and_does_not_block() {
    for (keys, _) in FORMS {
        let folder = Scratch::new();
        let made = std::process::Command::new("mkfifo").arg(folder.join("people")).status().unwrap();
        assert!(made.success());
        let (sent, done) = std::sync::mpsc::channel();
        let keys = keys.to_string();
        std::thread::spawn(move || {
            let config = config(&folder, &format!("{keys}\npath = \"people\"\nanchor = \"id\"\n"));
            let mut directory = Metadirectory::open(config).unwrap();
            let ended = directory.run(Step { agent: 0, kind: StepKind::FullImport }, &mut |_| true);
            sent.send(ended.map(drop).map_err(|error| error.to_string())).unwrap();
        });
        let ended = done.recv_timeout(std::time::Duration::from_secs(20)).expect("it waits for the FIFO");
        assert!(ended.unwrap_err().contains("a FIFO, not a regular file"));
    }
}

#[test]
fn a_store_and_what_lies_beside_it_are_private() {
    let folder = Scratch::new();
    let path = folder.join("store.db");
    let mut store = Sqlite::open(&path, Durability::Normal, 1 << 20).unwrap();
    store.set_note("place", Some("line 1")).unwrap();
    store.commit().unwrap();
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 2, "{names:?}");
    for path in names {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(store);
    // A file from an earlier version, or with public permissions, is made private.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    drop(Sqlite::open(&path, Durability::Normal, 1 << 20).unwrap());
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_database_that_is_filled_by_a_script_is_private_and_made_through_no_link() {
    let folder = Scratch::new();
    SqliteScript::create(&folder.join("phones.db")).unwrap().finish().unwrap();
    assert_eq!(mode(&folder.join("phones.db")), 0o600);
    symlink("nowhere", folder.join("link.db")).unwrap();
    assert!(SqliteScript::create(&folder.join("link.db")).is_err());
    assert!(!folder.join("nowhere").exists());
}

/// The error of the first import of an agent with these keys.
fn refusal(folder: &Scratch, keys: &str) -> String {
    let refused = Metadirectory::open(config(folder, keys)).and_then(|mut directory| {
        directory.run(Step { agent: 0, kind: StepKind::FullImport }, &mut |_| true)
    });
    refused.map(drop).unwrap_err().to_string()
}

#[test]
fn a_password_or_token_that_others_may_read_is_refused_with_the_command_that_mends_it() {
    let ldap = "type = \"ldap\"\nurl = \"ldap://127.0.0.1:PORT\"\nbind_dn = \"cn=a\"\npassword_file = \"secret\"\nbase = \"dc=a\"\n\
                anchor = \"entryUUID\"\nattributes = [\"cn\"]\n";
    let scim = "type = \"scim\"\nurl = \"http://127.0.0.1:PORT\"\ntoken_file = \"secret\"\nattributes = [\"userName\"]\n";
    let sql = "type = \"sql\"\npostgres = \"host=127.0.0.1 port=PORT user=a dbname=a\"\npassfile = \"secret\"\ntable = \"t\"\n\
               anchor = \"id\"\n";
    // The directory must accept the connection before the password is read.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for keys in [ldap, scim, sql] {
        let folder = Scratch::new();
        let path = folder.file("secret", "*:*:*:*:hunter2\n");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let reported = refusal(&folder, &keys.replace("PORT", &port));
        let command = format!("`chmod 600 {}`", path.display());
        assert!(reported.contains(&command) && !reported.contains("hunter2"), "{keys}: {reported}");
    }
}

/// The errors and the warnings of a configuration.
fn judged(text: &str) -> (Vec<String>, Vec<String>) {
    let words = |mistakes: Vec<plimsoll_metadir::config::Mistake>| {
        mistakes.into_iter().map(|mistake| format!("{}; {}", mistake.what, mistake.help)).collect()
    };
    match connectors::parse(text) {
        Ok(config) => (Vec::new(), words(config.warnings)),
        Err(mistakes) => (words(mistakes), Vec::new()),
    }
}

#[test]
fn what_would_be_read_on_the_way_to_another_host_is_refused_unless_it_is_wanted() {
    let ldap = |url: &str| {
        format!(
            "type = \"ldap\"\nurl = \"{url}\"\nbind_dn = \"cn=a\"\npassword_env = \"P\"\nbase = \"dc=a\"\nanchor = \"entryUUID\"\n"
        )
    };
    let scim = |url: &str| {
        format!("type = \"scim\"\nurl = \"{url}\"\ntoken_env = \"T\"\nattributes = [\"userName\"]\n")
    };
    let sql = |to: &str| format!("type = \"sql\"\npostgres = \"{to}\"\ntable = \"t\"\nanchor = \"id\"\n");
    let files = "type = \"delimited\"\npath = \"p\"\nanchor = \"id\"\n";
    let agent = |keys: String| format!("{BEFORE}{keys}INSECURE");
    let store = |to: &str| {
        BEFORE.replace("sqlite = \"store.db\"\n", &format!("postgres = \"{to}\"\nINSECURE")) + files
    };
    let exposed = [
        agent(ldap("ldap://ldap.plim.example")),
        agent(scim("http://id.plim.example/scim/v2")),
        agent(sql("host=db user=a dbname=a")),
        agent(sql("host=127.0.0.1,10.0.0.1 user=a dbname=a sslmode=prefer")),
        agent(sql("host=localhost hostaddr=10.0.0.1 user=a dbname=a")),
        agent(sql("postgresql://a@db/a")),
        store("host=db user=a dbname=a"),
        store("postgresql://a@[fe80::1]/a"),
    ];
    for text in exposed {
        let (mistakes, warnings) = judged(&text.replace("INSECURE", ""));
        assert_eq!((mistakes.len(), warnings.len()), (1, 0), "{text}: {mistakes:?}");
        let reported = &mistakes[0];
        assert!(reported.contains("without TLS") && reported.contains("insecure = true"), "{reported}");
        let (mistakes, warnings) = judged(&text.replace("INSECURE", "insecure = true\n"));
        assert_eq!((mistakes.as_slice(), warnings.len()), (&[] as &[String], 1), "{text}: {mistakes:?}");
        assert!(warnings[0].contains("without TLS"), "{warnings:?}");
    }
    let safe = [
        agent(ldap("ldaps://ldap.plim.example")),
        agent(ldap("ldap://[::1]:3890")),
        agent(ldap("ldap://127.0.0.2")),
        agent(ldap("ldap://ldap.plim.example") + "start_tls = true\n"),
        agent(scim("https://id.plim.example/scim/v2")),
        agent(scim("http://localhost:8080/scim/v2")),
        agent(scim("http://[::1]:8080/scim/v2")),
        agent(scim("http://id.plim.example/scim/v2").replace("token_env = \"T\"\n", "")),
        agent(sql("host=db user=a dbname=a sslmode=verify-full")),
        agent(sql("host=/run/postgresql user=a dbname=a")),
        agent(sql("host=db hostaddr=127.0.0.1 user=a dbname=a")),
        store("host=LocalHost user=a dbname=a"),
        store("postgresql://a@db/a?sslmode=require"),
    ];
    for text in safe {
        let judged = judged(&text.replace("INSECURE", ""));
        assert_eq!(judged, (Vec::new(), Vec::new()), "{text}");
    }
}
