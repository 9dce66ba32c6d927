//! Tests that concern a PostgreSQL server only: the connection, and its errors.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use plimsoll_metadir::postgresql::Server;
use plimsoll_metadir::store::{Durability, Postgres, Store, StoreError};
use postgres::{Client, NoTls};

use crate::place::Place;

fn refusal(server: &Server) -> String {
    match Postgres::open(server, Durability::Full) {
        Ok(_) => panic!("{server:?} was opened"),
        Err(refused) => refused.to_string(),
    }
}

fn administrator(place: &Place) -> Client {
    Client::connect(&place.server().connection, NoTls).unwrap()
}

#[test]
fn a_server_that_refuses_is_reported_with_what_to_do() {
    let Some(place) = Place::postgres() else { return };
    let folder = testkit::Postgres::of_process().unwrap().folder();
    let server = |connection: String| Server { connection, ..place.server().clone() };
    let missing = place.scratch.path().display();
    let reported = refusal(&server(format!("host={missing} port=5433 user=plimsoll")));
    assert!(
        reported.contains(&format!("{missing} port 5433")) && reported.contains("start the server"),
        "{reported}"
    );
    let reported = refusal(&server(format!("host={} user=plimsoll dbname=nowhere", folder.display())));
    assert!(reported.contains("\"nowhere\" does not exist") && reported.contains("createdb"), "{reported}");
    let mut client = administrator(&place);
    client.batch_execute("CREATE ROLE guest LOGIN").unwrap();
    let reported = refusal(&server(format!("host={} user=guest dbname=postgres", folder.display())));
    assert!(reported.contains("permission denied") && reported.contains("GRANT CREATE"), "{reported}");
    // It needs no privileges except for its own schema.
    let schema = &place.server().schema;
    client.batch_execute(&format!("CREATE SCHEMA {schema} AUTHORIZATION guest")).unwrap();
    let guest = server(format!("host={} user=guest dbname=postgres", folder.display()));
    assert_eq!(Postgres::open(&guest, Durability::Full).unwrap().count_mv().unwrap(), 0);
    // A table of another program, and a format of a newer version.
    let format = |client: &mut Client, format: i64| {
        client
            .batch_execute(&format!("UPDATE {schema}.meta SET value = {format} WHERE name = 'format'"))
            .unwrap();
    };
    format(&mut client, 1000);
    assert!(matches!(Postgres::open(&guest, Durability::Full), Err(StoreError::Newer(1000))));
    format(&mut client, 1);
    assert!(matches!(Postgres::open(&guest, Durability::Full), Err(StoreError::Older(1))));
    client.batch_execute(&format!("DROP TABLE {schema}.meta")).unwrap();
    let reported = refusal(&guest);
    assert!(reported.contains("already exists") && reported.contains("another `schema`"), "{reported}");
    client.batch_execute("CREATE DATABASE narrow ENCODING 'LATIN1' TEMPLATE template0").unwrap();
    let reported = refusal(&server(format!("host={} user=plimsoll dbname=narrow", folder.display())));
    assert!(reported.contains("LATIN1") && reported.contains("--encoding=UTF8"), "{reported}");
}

#[test]
fn a_password_comes_from_a_file_and_is_never_reported() {
    let Some(place) = Place::postgres() else { return };
    let folder = testkit::Postgres::of_process().unwrap().folder();
    let mut client = administrator(&place);
    client.batch_execute("CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'se:cr\\et'").unwrap();
    let rules = folder.join("data/pg_hba.conf");
    let before = fs::read_to_string(&rules).unwrap();
    fs::write(&rules, format!("local all locked scram-sha-256\n{before}")).unwrap();
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
    let connection = format!("host={} user=locked dbname=postgres", folder.display());
    let open = Server { connection, ..place.server().clone() };
    // The rules take effect when the server has read them: from then on, connections without a password fail.
    let waited = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        Client::connect(&open.connection, NoTls).is_err()
    });
    assert!(waited, "the rules of the server did not take effect");
    let reported = refusal(&open);
    assert!(reported.contains("password missing") && reported.contains("PGPASSWORD"), "{reported}");
    let file = place.scratch.join("passwords");
    let with = Server { passfile: Some(file.clone()), ..open };
    let reported = refusal(&with);
    assert!(reported.contains("No such file") && reported.contains("`passfile`"), "{reported}");
    let private = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    let host = folder.display();
    for (lines, is_right) in [
        (format!("# all\n*:*:*:other:no\n{host}:5432:postgres:locked:se\\:cr\\\\et\n"), true),
        ("localhost:5432:*:locked:se:cr\\\\et\n*:*:*:*:wrong".to_string(), true),
        ("localhost:5433:*:locked:se\\:cr\\\\et\n".to_string(), false),
        ("*:*:*:*:wrong\n".to_string(), false),
    ] {
        fs::write(&file, &lines).unwrap();
        private(0o644);
        let reported = refusal(&with);
        assert!(reported.contains("chmod 600"), "{reported}");
        private(0o600);
        match (Postgres::open(&with, Durability::Full), is_right) {
            (Ok(_), true) => {}
            (Err(refused), false) => {
                let reported = refused.to_string();
                assert!(reported.contains("PGPASSWORD") && !reported.contains("wrong"), "{reported}");
            }
            (Ok(_), false) => panic!("{lines:?} let in"),
            (Err(refused), true) => panic!("{lines:?}: {refused}"),
        }
    }
}

#[test]
fn a_connection_that_is_lost_is_reported_and_what_was_committed_stays() {
    let Some(place) = Place::postgres() else { return };
    let mut store = place.open();
    store.set_note("place", Some("line 1")).unwrap();
    store.commit().unwrap();
    store.set_note("place", Some("line 2")).unwrap();
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks \
        WHERE locktype = 'advisory' AND granted AND pid IN \
        (SELECT pid FROM pg_locks WHERE relation = ($1::text || '.note')::regclass)";
    let count: i64 = administrator(&place).query_one(ended, &[&place.server().schema]).unwrap().get(0);
    assert_eq!(count, 1);
    // The text of the error depends on the moment of the disconnection.
    let reported = (0..100).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        store.note("place").err()
    });
    let reported = reported.unwrap().to_string();
    assert!(reported.contains("the log of the server") || reported.contains("connection"), "{reported}");
    store.roll_back().unwrap();
    drop(store);
    assert_eq!(place.open().note("place").unwrap().as_deref(), Some("line 1"));
}
