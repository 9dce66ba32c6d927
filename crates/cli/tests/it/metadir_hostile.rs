//! The metadirectory against servers that never answer, never end or answer slowly: each command ends in time with an error, and
//! SIGTERM ends it.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::program::{Finished, Place, command};

/// Far more than a command may take whose servers are waited for 1 s each.
const PATIENCE: Duration = Duration::from_secs(60);

/// Plays a server, a thread for each connection; its port.
fn play(act: fn(TcpStream)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || act(stream));
        }
    });
    port
}

/// Reads for ever and never answers.
fn mute(mut stream: TcpStream) {
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// Answers whatever comes with these bytes, for ever.
fn flood(mut stream: TcpStream, bytes: &[u8]) {
    let _ = stream.read(&mut [0; 4096]);
    let many = bytes.repeat(1 + 60_000 / bytes.len());
    while stream.write_all(&many).is_ok() {}
}

/// An intermediate response (RFC 4511, 4.13) to the first request, without a name.
const INTERMEDIATE: [u8; 7] = [0x30, 0x05, 0x02, 0x01, 0x01, 0x79, 0x00];
/// The same to a request that was never made.
const OF_ANOTHER: [u8; 7] = [0x30, 0x05, 0x02, 0x01, 0x63, 0x79, 0x00];
/// A reference to another server, `ldap://a`, as the first request's.
const REFERENCE: [u8; 17] =
    [0x30, 0x0f, 0x02, 0x01, 0x01, 0x73, 0x0a, 0x04, 0x08, b'l', b'd', b'a', b'p', b':', b'/', b'/', b'a'];
/// An unsolicited notice (4.4) that says nothing.
const NOTICE: [u8; 14] = [0x30, 0x0c, 0x02, 0x01, 0x00, 0x78, 0x07, 0x0a, 0x01, 0x00, 0x04, 0x00, 0x04, 0x00];

/// The end of the start of a PostgreSQL session: `AuthenticationOk`, a key to cancel with, `ReadyForQuery`.
const STARTED: [u8; 28] =
    [b'R', 0, 0, 0, 8, 0, 0, 0, 0, b'K', 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2, b'Z', 0, 0, 0, 5, b'I'];

fn postgres_mute_after_start(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(&STARTED);
    mute(stream);
}

fn postgres_notices_for_ever(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(&STARTED);
    flood(stream, b"N\0\0\0\x17SNOTICE\0C00000\0Mx\0\0");
}

fn postgres_rows_for_ever(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(&STARTED);
    // Rows without a column, as the answer to a simple query has them.
    flood(stream, b"D\0\0\0\x06\0\0");
}

/// A row that says it has nearly 2 GB, of which some always comes.
fn postgres_huge_row(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(&STARTED);
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(b"D\x7f\xff\xff\xff");
    let zeros = vec![0; 1 << 16];
    while stream.write_all(&zeros).is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn ldap_mute(stream: TcpStream) {
    mute(stream);
}

/// One byte of an answer from time to time.
fn drip(mut stream: TcpStream, head: &[u8]) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(head);
    while stream.write_all(b" ").is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn ldap_drip(stream: TcpStream) {
    // A message of 1 MiB.
    drip(stream, &[0x30, 0x83, 0x10, 0, 0, 2, 1, 1]);
}

fn scim_drip(stream: TcpStream) {
    drip(
        stream,
        b"HTTP/1.1 200 OK\r\nContent-Type: application/scim+json\r\nContent-Length: 1000000\r\n\r\n",
    );
}

fn scim_headers_drip(stream: TcpStream) {
    drip(stream, b"HTTP/1.1 200 OK\r\nX: ");
}

fn scim_busy(mut stream: TcpStream) {
    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
        let _ = stream.write_all(b"HTTP/1.1 503 Busy\r\nRetry-After: 100\r\nContent-Length: 0\r\n\r\n");
    }
}

/// What a test does to the metadirectory.
struct Case {
    name: &'static str,
    act: fn(TcpStream),
    /// The store, where the server is one; then the keys of the agent.
    store: Option<&'static str>,
    agent: &'static str,
    command: &'static [&'static str],
    /// What the error says.
    reported: &'static str,
}

const LDAP: &str = "type = \"ldap\"\nurl = \"ldap://127.0.0.1:PORT\"\nbase = \"dc=a\"\nanchor = \"uid\"\nattributes = [\"cn\"]\n\
                    timeout_s = TIMEOUT\n";
const SYNC: &str = "type = \"ldap\"\nurl = \"ldap://127.0.0.1:PORT\"\nbase = \"dc=a\"\nanchor = \"entryUUID\"\nattributes = [\"cn\"]\n\
                    delta = \"content-synchronization\"\ntimeout_s = TIMEOUT\n";
const SCIM: &str =
    "type = \"scim\"\nurl = \"http://127.0.0.1:PORT\"\nattributes = [\"userName\"]\ntimeout_s = TIMEOUT\n";
const SQL: &str = "type = \"sql\"\npostgres = \"host=127.0.0.1 port=PORT user=a dbname=a\"\ntable = \"t\"\nanchor = \"id\"\n\
                   timeout_s = TIMEOUT\n";
const FILE: &str = "type = \"delimited\"\npath = \"p\"\nanchor = \"id\"\n";
const STORE: Option<&str> =
    Some("postgres = \"host=127.0.0.1 port=PORT user=a dbname=a\"\ntimeout_s = TIMEOUT\n");

const IMPORT: &[&str] = &["run", "a", "full-import"];
const STATUS: &[&str] = &["status"];

const CASES: [Case; 17] = [
    Case { name: "ldap mute", act: ldap_mute, store: None, agent: LDAP, command: IMPORT, reported: "waited" },
    Case {
        name: "ldap intermediate",
        act: |stream| flood(stream, &INTERMEDIATE),
        store: None,
        agent: LDAP,
        command: IMPORT,
        reported: "nothing that was requested",
    },
    Case {
        name: "ldap synchronization, intermediate",
        act: |stream| flood(stream, &INTERMEDIATE),
        store: None,
        agent: SYNC,
        command: IMPORT,
        reported: "nothing that was requested",
    },
    Case {
        name: "ldap other request",
        act: |stream| flood(stream, &OF_ANOTHER),
        store: None,
        agent: LDAP,
        command: IMPORT,
        reported: "waited",
    },
    Case {
        name: "ldap references",
        act: |stream| flood(stream, &REFERENCE),
        store: None,
        agent: LDAP,
        command: IMPORT,
        reported: "nothing that was requested",
    },
    Case {
        name: "ldap notices",
        act: |stream| flood(stream, &NOTICE),
        store: None,
        agent: LDAP,
        command: IMPORT,
        reported: "waited",
    },
    Case { name: "ldap drip", act: ldap_drip, store: None, agent: LDAP, command: IMPORT, reported: "waited" },
    Case {
        name: "scim drip",
        act: scim_drip,
        store: None,
        agent: SCIM,
        command: IMPORT,
        reported: "timeout",
    },
    Case {
        name: "scim headers",
        act: scim_headers_drip,
        store: None,
        agent: SCIM,
        command: IMPORT,
        reported: "timeout",
    },
    Case { name: "sql mute", act: mute, store: None, agent: SQL, command: IMPORT, reported: "waited" },
    Case {
        name: "sql mute after start",
        act: postgres_mute_after_start,
        store: None,
        agent: SQL,
        command: IMPORT,
        reported: "raise `timeout_s`",
    },
    Case {
        name: "sql notices",
        act: postgres_notices_for_ever,
        store: None,
        agent: SQL,
        command: IMPORT,
        reported: "raise `timeout_s`",
    },
    Case { name: "store mute", act: mute, store: STORE, agent: FILE, command: STATUS, reported: "waited" },
    Case {
        name: "store mute after start",
        act: postgres_mute_after_start,
        store: STORE,
        agent: FILE,
        command: STATUS,
        reported: "raise `timeout_s`",
    },
    Case {
        name: "store notices",
        act: postgres_notices_for_ever,
        store: STORE,
        agent: FILE,
        command: STATUS,
        reported: "raise `timeout_s`",
    },
    Case {
        name: "store rows",
        act: postgres_rows_for_ever,
        store: STORE,
        agent: FILE,
        command: STATUS,
        reported: "unexpected message",
    },
    Case {
        name: "store huge row",
        act: postgres_huge_row,
        store: STORE,
        agent: FILE,
        command: STATUS,
        reported: "2147483648 bytes",
    },
];

fn start(place: &Place, case: &Case, timeout_s: u32) -> std::process::Child {
    let port = play(case.act).to_string();
    let store = case.store.unwrap_or("sqlite = \"store.db\"\n");
    let text = format!(
        "[store]\n{store}[metaverse.person]\nattributes = {{ id = \"text\" }}\n[agents.a]\n{}",
        case.agent
    );
    let text = text.replace("PORT", &port).replace("TIMEOUT", &timeout_s.to_string());
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
    let mut program = command(place, &[&["metadir"], case.command].concat());
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for its end; kills it and panics when it does not come.
fn end(mut child: std::process::Child, name: &str) -> (Option<i32>, String) {
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{name}: it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut reported = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reported).unwrap();
    (status.code(), reported)
}

#[test]
fn a_server_that_never_answers_or_never_ends_is_given_up_in_time() {
    std::thread::scope(|scope| {
        for case in &CASES {
            scope.spawn(move || {
                let place = Place::new(&format!("hostile-{}", case.name.replace([' ', ','], "-")));
                let (code, reported) = end(start(&place, case, 1), case.name);
                assert_eq!(code, Some(1), "{}: {reported}", case.name);
                assert!(reported.contains(case.reported), "{}: {reported}", case.name);
            });
        }
    });
}

#[test]
fn sigterm_ends_a_wait_for_a_server() {
    // Those of the cases above that do not end before their time.
    let waits = [
        "ldap mute",
        "ldap notices",
        "ldap other request",
        "ldap drip",
        "scim drip",
        "sql mute",
        "sql mute after start",
        "sql notices",
        "store mute",
        "store mute after start",
        "store notices",
    ];
    let busy =
        Case { name: "scim busy", act: scim_busy, store: None, agent: SCIM, command: IMPORT, reported: "" };
    let cases = CASES.iter().filter(|case| waits.contains(&case.name));
    std::thread::scope(|scope| {
        for case in cases.chain([&busy]) {
            scope.spawn(move || {
                let place = Place::new(&format!("sigterm-{}", case.name.replace([' ', ','], "-")));
                let mut child = start(&place, case, 3600);
                // It is in the midst of it by then, or has yet to begin: either way it ends.
                std::thread::sleep(Duration::from_secs(2));
                assert!(child.try_wait().unwrap().is_none(), "{}: it ended by itself", case.name);
                let pid = Pid::from_child(&child);
                rustix::process::kill_process(pid, Signal::TERM).unwrap();
                let (code, reported) = end(child, case.name);
                assert!(matches!(code, Some(130) | None), "{}: {code:?} {reported}", case.name);
            });
        }
    });
}

#[test]
fn a_password_in_a_configuration_is_never_repeated() {
    let place = Place::new("metadir-secrets");
    let agent = |keys: &str| {
        format!(
            "[store]\nsqlite = \"s\"\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n[agents.a]\n{keys}anchor = \"id\"\n"
        )
    };
    let store =
        |to: &str| agent(FILE).replace("sqlite = \"s\"", to).replacen("anchor = \"id\"\nanchor", "anchor", 1);
    let sql = |to: &str| agent(&format!("type = \"sql\"\ntable = \"t\"\n{to}\n"));
    let texts = [
        store("postgres = \"postgres://me:hunter2@db/identity\""),
        store("postgres = \"host=db user=me password=hunter2\""),
        store("postgres = \"host=db password = 'hun\\\\'ter2 hunter2' user=me\" # hunter"),
        store("postgres = \"host=db pass hunter2\""),
        store("postgres = \"postgres://me:hunter2@db/identity?password=hunter2\"\nschema = \"A B\""),
        sql("postgres = \"postgresql://me:hun@ter/hunter2@db/identity\""),
        sql("postgres = \"postgresql://db/identity?user=me&password=hunter2\", other = 1"),
        sql("postgres = 'postgresql://me:hunter2@db/identity'\nunknown = \"x\""),
        agent("type = \"ldap\"\nurl = \"ldap://me:hunter2@ldap\"\nbase = \"dc=a\"\n"),
        agent("type = \"scim\"\nurl = \"https://me:hunter2@id\"\nattributes = [\"userName\"]\n"),
        "store = { postgres = \"postgres://me:hunter2@db/identity\", nothing = 1 }\n".to_string(),
    ];
    for text in texts {
        std::fs::write(place.path("metadirectory.toml"), &text).unwrap();
        for args in [&["metadir", "check"][..], &["metadir", "status"], &["metadir", "history"]] {
            let Finished { code, out, err, .. } = crate::program::run(&place, args);
            assert_eq!(code, 2, "{text}: {out} {err}");
            assert!(!format!("{out}{err}").contains("hunter2"), "{text}: {out} {err}");
        }
    }
}

#[test]
fn what_a_preview_writes_is_private_and_goes_through_no_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let place = Place::new("metadir-preview-private");
    crate::metadir::staff_and_phones(&place);
    std::fs::write(place.path("staff.csv"), crate::metadir::staff(3, |_| "Oslo")).unwrap();
    std::fs::write(place.path("precious"), "key").unwrap();
    let to = |name: &str| crate::program::run(&place, &["metadir", "preview", "full", "--output", name]);
    let done = to("changes.txt");
    assert_eq!(done.code, 0, "{}", done.err);
    let written = std::fs::symlink_metadata(place.path("changes.txt")).unwrap();
    assert!(written.is_file() && written.permissions().mode() & 0o777 == 0o600);
    symlink("nowhere", place.path("dangling.txt")).unwrap();
    let mut links = vec!["dangling.txt"];
    if rustix::process::geteuid().is_root() {
        symlink("precious", place.path("theirs.txt")).unwrap();
        std::os::unix::fs::lchown(place.path("theirs.txt"), Some(65534), None).unwrap();
        links.push("theirs.txt");
    }
    for link in links {
        let refused = to(link);
        assert!(refused.code == 1 && refused.err.contains("symbolic link"), "{link}: {}", refused.err);
    }
    assert_eq!(std::fs::read_to_string(place.path("precious")).unwrap(), "key");
    assert!(!place.path("nowhere").exists());
    // Where it goes to is a pipe, it is written to.
    let mut piped = command(&place, &["metadir", "preview", "full", "--output", "/dev/stdout"]);
    let mut child = piped.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.filter(|line| line.contains("u1@example.com")).count() > 0);
    assert!(child.wait().unwrap().success());
}
