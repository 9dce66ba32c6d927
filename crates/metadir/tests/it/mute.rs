//! Tests with PostgreSQL servers that stop answering, and with slow servers that continue.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_metadir::Interrupt;
use plimsoll_metadir::config::{Config, Step, StepKind};
use plimsoll_metadir::hologram::{Attribute, Hologram};
use plimsoll_metadir::index_key::IndexKey;
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::object::{AgentId, CsId, CsObject, State};
use plimsoll_metadir::postgresql::Server;
use plimsoll_metadir::stage::StepError;
use plimsoll_metadir::store::{Durability, Postgres, Store as _, StoreError, Write};
use testkit::Scratch;

/// A proxy to the test server that forwards a number of bytes; then it forwards nothing in either direction.
/// Returns its port.
fn way(bytes: usize) -> u16 {
    let socket = testkit::Postgres::of_process().unwrap().folder().join(".s.PGSQL.5432");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = UnixStream::connect(&socket).unwrap();
            let (mut back, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut to));
            std::thread::spawn(move || hand_on(client, server, bytes));
        }
    });
    port
}

fn hand_on(mut client: TcpStream, mut server: UnixStream, bytes: usize) {
    let (mut left, mut piece) = (bytes, [0; 4096]);
    while left > 0 {
        let most = left.min(piece.len());
        match client.read(&mut piece[..most]) {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                left -= count;
                let _ = server.write_all(&piece[..count]);
            }
        }
    }
    // Keeps the connection open and silent during the test.
    std::thread::sleep(Duration::from_secs(600));
}

/// Opens a store and copies objects into it.
fn fill(server: &Server) -> Result<(), StoreError> {
    let mut store = Postgres::open(server, Durability::Off)?;
    let image: Hologram = [(Attribute(1), vec![vec![7; 4000]])].into_iter().collect();
    let object = |id: i64| CsObject {
        id: CsId(id),
        agent: AgentId(1),
        anchor: Some(IndexKey::of(&id.to_be_bytes())),
        dn: format!("cn={id}"),
        name: None,
        state: State::Connected,
        mv: None,
        synchronized: Some(image.clone()),
        pending_import: None,
        pending_export: None,
        has_failed: false,
    };
    let new: Vec<Write> = (1..=3000).map(|id| Write::NewCs(object(id))).collect();
    store.write(&new)?;
    store.commit()
}

fn server(bytes: usize, schema: &str) -> Server {
    Server {
        connection: format!("host=127.0.0.1 port={} user=plimsoll dbname=postgres", way(bytes)),
        schema: schema.into(),
        timeout: Duration::from_secs(1),
        ..Server::default()
    }
}

#[test]
fn a_store_that_falls_silent_anywhere_is_given_up() {
    let Some(_) = testkit::Postgres::of_process() else { return };
    // Stalls in the start-up, in the first statements, in the schema, and in the COPY (12 MB, more than a
    // socket buffers).
    std::thread::scope(|scope| {
        for bytes in [1, 60, 300, 2_000, 9_000, 100_000, 5_000_000] {
            scope.spawn(move || {
                let reported = fill(&server(bytes, &format!("silent_{bytes}"))).unwrap_err().to_string();
                assert!(reported.contains("waited"), "{bytes}: {reported}");
            });
        }
    });
    let whole = Server { timeout: Duration::from_secs(60), ..server(usize::MAX, "silent_never") };
    fill(&whole).unwrap();
}

#[test]
fn an_interruption_ends_a_copy_that_nobody_takes() {
    let Some(_) = testkit::Postgres::of_process() else { return };
    let flag: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let patient = Duration::from_secs(86_400);
    let server =
        Server { timeout: patient, interrupt: Interrupt::by(flag), ..server(5_000_000, "silent_copy") };
    let filling = std::thread::spawn(move || fill(&server).unwrap_err().to_string());
    std::thread::sleep(Duration::from_millis(500));
    flag.store(true, Ordering::Relaxed);
    let reported = filling.join().unwrap();
    assert!(reported.contains("interrupted"), "{reported}");
}

#[test]
fn what_is_left_of_a_batch_is_committed_after_an_interruption() {
    let Some(real) = testkit::Postgres::of_process() else { return };
    let flag: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let server = Server {
        connection: real.connection(),
        schema: "interrupted".into(),
        interrupt: Interrupt::by(flag),
        ..Server::default()
    };
    let mut store = Postgres::open(&server, Durability::Off).unwrap();
    flag.store(true, Ordering::Relaxed);
    store.set_note("place", Some("line 1")).unwrap();
    // Longer than the timeout: the metadirectory's own work between waits does not count.
    std::thread::sleep(Duration::from_secs(3));
    store.set_note("place", Some("line 2")).unwrap();
    store.commit().unwrap();
    assert_eq!(store.note("place").unwrap().as_deref(), Some("line 2"));
}

/// A configuration of one table, with a timeout of 3 s.
fn config(view: &str) -> Config {
    let connection = testkit::Postgres::of_process().unwrap().connection();
    let text = format!(
        "[store]\nsqlite = \"store.db\"\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n[agents.a]\ntype = \"sql\"\n\
         postgres = \"{connection}\"\ntable = \"{view}\"\nanchor = \"id\"\ntimeout_s = 3\n"
    );
    connectors::parse(&text).unwrap()
}

#[test]
fn a_slow_answer_that_goes_on_is_waited_for_and_one_that_does_not_is_given_up() {
    let Some(server) = testkit::Postgres::of_process() else { return };
    let mut client = postgres::Client::connect(&server.connection(), postgres::NoTls).unwrap();
    // Rows as large as one network write of the server, so that the pause of each row is visible.
    let view = |name: &str, rows: u32, pause: f64| {
        format!(
            "CREATE VIEW {name} AS SELECT n::text AS id, repeat('x', 20000) || pg_sleep(CASE WHEN n > 0 THEN {pause} END) AS wide \
             FROM generate_series(1, {rows}) AS n;"
        )
    };
    client.batch_execute(&(view("slow", 12, 0.4) + &view("stuck", 2, 600.0))).unwrap();
    let run = |view: &str| {
        let scratch = Scratch::new();
        let mut config = config(view);
        config.relative_to(scratch.path());
        let mut directory = Metadirectory::open(config).unwrap();
        directory.run(Step { agent: 0, kind: StepKind::FullImport }, &mut |_| true)
    };
    assert_eq!(run("slow").unwrap().statistics.of("stage-add"), 12);
    match run("stuck") {
        Err(StepError::Agent(error)) => {
            assert!(error.to_string().contains("raise `timeout_s`"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    client
        .batch_execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
        .unwrap();
}
