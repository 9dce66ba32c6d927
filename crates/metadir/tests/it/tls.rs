//! Tests of TLS: the store on PostgreSQL, tables there, and SCIM services. The server is always
//! authenticated.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::postgres::{Client, NoTls};
use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::postgresql::Server;
use plimsoll_metadir::store::{Durability, Postgres, Store as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use testkit::Scratch;

use testkit::certificates::{Made, made};

const TABLES: &str = "CREATE TABLE staff (id text PRIMARY KEY, name text);
    INSERT INTO staff SELECT n::text, 'Name ' || n FROM generate_series(1, 50) AS n;
    CREATE TABLE phones (id text PRIMARY KEY, name text)";

#[test]
fn store_and_tables_of_postgresql_are_reached_over_tls() {
    let made = made("127.0.0.1");
    let Some((server, port)) = testkit::Postgres::start_tls(&made.certificate, &made.key) else { return };
    // Network connections without TLS are refused.
    let rules = server.folder().join("data/pg_hba.conf");
    std::fs::write(&rules, "local all all trust\nhostssl all all 127.0.0.1/32 trust\n").unwrap();
    let socket = format!("{} port={port}", server.connection());
    let mut client = Client::connect(&socket, NoTls).unwrap();
    client.batch_execute(&format!("SELECT pg_reload_conf(); {TABLES}")).unwrap();
    let scratch = Scratch::new();
    scratch.file("ca.pem", &made.authority);
    scratch.file("stranger.pem", testkit::certificates::made("127.0.0.1").authority);
    let plain = format!("host=127.0.0.1 port={port} user=plimsoll dbname=postgres");
    // The rules take effect when the server has read them.
    let waited = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Client::connect(&plain, NoTls).is_err()
    });
    assert!(waited, "the rules of the server did not take effect");

    let protected = format!("{plain} sslmode=verify-full sslrootcert=ca.pem");
    let text = format!(
        r#"
[store]
postgres = "{protected}"
commit_objects = 7
[metaverse.person]
attributes = {{ id = "text", name = "text" }}
[agents.staff]
type = "sql"
postgres = "postgresql://plimsoll@127.0.0.1:{port}/postgres?sslmode=require&sslrootcert=ca.pem"
table = "staff"
anchor = "id"
[agents.phones]
type = "sql"
postgres = "{protected}"
table = "phones"
anchor = "id"
[[inbound]]
agent = "staff"
to = "person"
project = true
flow = {{ id = "id", name = "name" }}
[[outbound]]
agent = "phones"
from = "person"
dn = "mv.id"
flow = {{ id = "id", name = "name" }}
"#
    );
    let mut config = connectors::parse(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    config.relative_to(scratch.path());
    let mut directory = Metadirectory::open(config).unwrap();
    for (agent, kind) in [
        (1, StepKind::FullImport),
        (1, StepKind::DeltaSynchronization),
        (0, StepKind::Export),
        (0, StepKind::FullImport),
    ] {
        let did = directory.run(Step { agent, kind }, &mut |_| true).unwrap();
        assert!(did.failures.is_empty() && did.discovery_errors.is_empty(), "{did:?}");
    }
    let row = client.query_one("SELECT count(*) FROM phones", &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), 50);
    let asked = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl \
                 JOIN pg_stat_activity USING (pid) WHERE application_name = 'plimsoll metadir'";
    let row = client.query_one(asked, &[]).unwrap();
    assert!(row.get::<_, i64>(0) > 0 && row.get::<_, i64>(1) == 0);
    drop(directory);

    // A server that cannot authenticate itself is rejected.
    let refused = |words: &str| {
        let connection = format!("{plain} {words}").replace("FOLDER", &scratch.path().display().to_string());
        let server = Server { connection, schema: "other".into(), ..Server::default() };
        match Postgres::open(&server, Durability::Off) {
            Ok(_) => panic!("{words}"),
            Err(error) => error.to_string(),
        }
    };
    for (words, reported) in [
        ("sslmode=verify-full sslrootcert=FOLDER/stranger.pem", "certificate"),
        ("sslmode=require sslrootcert=FOLDER/stranger.pem", "certificate"),
        ("sslmode=require", "certificate"),
        ("sslmode=verify-full sslrootcert=FOLDER/nothing.pem", "nothing.pem"),
        ("", "no encryption"),
    ] {
        let error = refused(words);
        assert!(error.contains(reported), "{words}: {error}");
    }
    // The same server under a name that is not in its certificate.
    let server = Server {
        connection: format!("{plain} sslmode=verify-full sslrootcert={}", scratch.join("ca.pem").display())
            .replace("127.0.0.1", "localhost"),
        schema: "other".into(),
        ..Server::default()
    };
    let error = Postgres::open(&server, Durability::Off).err().unwrap().to_string();
    assert!(error.contains("not valid for name"), "{error}");
    // Under its own name the connection succeeds.
    let server = Server {
        connection: format!("{plain} sslmode=verify-full sslrootcert={}", scratch.join("ca.pem").display()),
        ..server
    };
    assert_eq!(Postgres::open(&server, Durability::Off).unwrap().count_mv().unwrap(), 0);
}

/// A TLS proxy in front of a plain server; returns its port.
fn in_front_of(port: u16, made: &Made) -> u16 {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(made.certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, outer) = (config.clone(), stream.unwrap());
            std::thread::spawn(move || {
                let inner = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for stream in [&outer, &inner] {
                    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
                }
                let outer = StreamOwned::new(ServerConnection::new(config).unwrap(), outer);
                hand_on(outer, inner);
            });
        }
    });
    own
}

/// Forwards data in both directions, alternating, until one end is closed.
fn hand_on(mut one: impl Read + Write, mut other: impl Read + Write) {
    let mut piece = [0; 16384];
    let is_late =
        |error: &std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    loop {
        match one.read(&mut piece) {
            Ok(count) if count > 0 && other.write_all(&piece[..count]).is_ok() => {}
            Err(error) if is_late(&error) => {}
            _ => return,
        }
        match other.read(&mut piece) {
            Ok(count) if count > 0 && one.write_all(&piece[..count]).and_then(|()| one.flush()).is_ok() => {}
            Err(error) if is_late(&error) => {}
            _ => return,
        }
    }
}

#[test]
fn a_service_that_speaks_scim_is_reached_over_tls() {
    let scratch = Scratch::new();
    let server = ::scim::Server::start(::scim::Options {
        token: Some("token".into()),
        ..::scim::Options::new(scratch.join("scim.db"))
    })
    .unwrap();
    let port: u16 = server.url().split(':').nth(2).unwrap().split('/').next().unwrap().parse().unwrap();
    let made = made("127.0.0.1");
    let front = in_front_of(port, &made);
    let path = server.url().replace(&format!("http://127.0.0.1:{port}"), "");
    scratch.secret("token", "token\n");
    scratch.file("hr.csv", "id,given,sn\nada,Ada,Byron\nalan,Alan,Turing\n");
    let authority = scratch.file("ca.pem", &made.authority);
    let stranger = scratch.file("stranger.pem", testkit::certificates::made("127.0.0.1").authority);
    let open = |host: &str, ca_file: Option<&Path>| {
        let ca_file = ca_file.map(|file| format!("ca_file = \"{}\"", file.display())).unwrap_or_default();
        let text = format!(
            r#"
[store]
sqlite = "{store}"
[metaverse.person]
attributes = {{ id = "text", given = "text", sn = "text" }}
[agents.hr]
type = "delimited"
path = "{hr}"
anchor = "id"
[agents.service]
type = "scim"
url = "https://{host}:{front}{path}"
token_file = "{token}"
attributes = ["name.givenName", "name.familyName"]
{ca_file}
[[inbound]]
agent = "hr"
to = "person"
project = true
flow = {{ id = "id", given = "given", sn = "sn" }}
[[outbound]]
agent = "service"
from = "person"
dn = "mv.id"
[outbound.flow]
userName = "id"
"name.givenName" = "given"
"name.familyName" = "sn"
"#,
            store = scratch.join("store.db").display(),
            hr = scratch.join("hr.csv").display(),
            token = scratch.join("token").display(),
        );
        let config = connectors::parse(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        Metadirectory::open(config).unwrap()
    };
    for (host, file) in
        [("127.0.0.1", None), ("127.0.0.1", Some(&*stranger)), ("localhost", Some(&*authority))]
    {
        let mut directory = open(host, file);
        let error = directory.run(Step { agent: 1, kind: StepKind::FullImport }, &mut |_| true).unwrap_err();
        let reported = error.to_string();
        assert!(
            reported.contains("certificate") && reported.contains("https://") && !reported.contains("token"),
            "{reported}"
        );
    }
    let mut directory = open("127.0.0.1", Some(&authority));
    let mut did = Vec::new();
    for (agent, kind) in [
        (0, StepKind::FullImport),
        (0, StepKind::DeltaSynchronization),
        (1, StepKind::Export),
        (1, StepKind::FullImport),
    ] {
        let done = directory.run(Step { agent, kind }, &mut |_| true).unwrap();
        assert!(done.failures.is_empty(), "{done:?}");
        did.push(done);
    }
    assert_eq!((did[2].statistics.of("export-add"), did[3].statistics.of("confirmed")), (2, 2), "{did:?}");
}

/// Receiving a part of a TLS record from time to time does not count as progress.
#[test]
fn a_server_whose_tls_drips_is_given_up() {
    let made = made("127.0.0.1");
    let scratch = Scratch::new();
    scratch.file("ca.pem", &made.authority);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                // The answer to an SSLRequest of PostgreSQL, whose eight bytes begin with a zero.
                let mut first = [0; 4096];
                if stream.read(&mut first).is_ok_and(|count| count == 8 && first[0] == 0) {
                    let _ = stream.write_all(b"S");
                    let _ = stream.read(&mut first);
                }
                // A record of a handshake, 16 KiB long.
                let _ = stream.write_all(&[0x16, 3, 3, 0x40, 0]);
                while stream.write_all(&[2]).is_ok() {
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
        }
    });
    let keys = [
        format!(
            "type = \"scim\"\nurl = \"https://127.0.0.1:{port}\"\nattributes = [\"userName\"]\nca_file = \"ca.pem\"\n"
        ),
        format!(
            "type = \"ldap\"\nurl = \"ldaps://127.0.0.1:{port}\"\nbase = \"dc=a\"\nattributes = [\"cn\"]\nca_file = \"ca.pem\"\n"
        ),
        format!(
            "type = \"sql\"\npostgres = \"host=127.0.0.1 port={port} user=a dbname=a sslmode=verify-full sslrootcert=ca.pem\"\n\
             table = \"t\"\n"
        ),
    ];
    for keys in keys {
        let text = format!(
            "[store]\nsqlite = \"store.db\"\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n[agents.a]\n{keys}anchor = \"id\"\n\
             timeout_s = 1\n"
        );
        let mut config = connectors::parse(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        config.relative_to(scratch.path());
        let (sent, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut directory = Metadirectory::open(config).unwrap();
            let ended = directory.run(Step { agent: 0, kind: StepKind::FullImport }, &mut |_| true);
            sent.send(ended.map(drop).unwrap_err().to_string()).unwrap();
        });
        let reported =
            ended.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{keys}: it does not end"));
        // Opening the connection may have taken a part of the second.
        let waited = ["waited 1 s", "waited 0.", "timeout"].iter().any(|words| reported.contains(words));
        assert!(waited && !reported.contains("waited 0.0 s"), "{reported}");
    }
}
