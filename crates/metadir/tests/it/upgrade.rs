//! Stores that earlier versions wrote are upgraded.

use std::fs;

use ::postgres::{Client, NoTls};
use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::{KnownError, Metadirectory};

use crate::lifecycle::{ACCOUNTS, Company, HR, export, import};
use crate::place::{Place, over_both_stores};
use crate::steps::{run, try_run};

over_both_stores! {
    a_store_of_format_3_is_upgraded,
    a_store_of_format_4_is_upgraded,
}

const SQLITE: &str = include_str!("../fixtures/store-3/sqlite.sql");
const POSTGRES: &str = include_str!("../fixtures/store-3/postgres.sql");

const ACCOUNTS_FILE: &str = "login,number,name,status,note\nbot,,Bot,,robot\nlate,5,,,\nold,2,Alan,on,\n\
                             Ada,1,Ada,disabled,\nAlan,2,Alan,on,\nGrace,3,Grace M,on,\n";

const SQLITE_4: &str = include_str!("../fixtures/store-4/sqlite.sql");
const POSTGRES_4: &str = include_str!("../fixtures/store-4/postgres.sql");

/// Restores the dump of a format.
fn restore(place: &Place, format: u32) {
    let of_4 = format == 4;
    match place.try_server() {
        Some(server) => {
            let dump = format!("{POSTGRES} {}", if of_4 { POSTGRES_4 } else { "" });
            let dump = dump.replace("metadirectory.", &format!("{}.", server.schema));
            let dump = dump.replace("SCHEMA metadirectory;", &format!("SCHEMA {};", server.schema));
            Client::connect(&server.connection, NoTls).unwrap().batch_execute(&dump).unwrap();
        }
        None => {
            let store = rusqlite::Connection::open(place.scratch.join("store.db")).unwrap();
            let more = if of_4 { SQLITE_4 } else { "" };
            store.execute_batch(&format!("{SQLITE} {more} PRAGMA user_version = {format};")).unwrap();
        }
    }
}

fn a_store_of_format_3_is_upgraded(place: Place) {
    restore(&place, 3);
    is_usable(place, 3);
}

fn a_store_of_format_4_is_upgraded(place: Place) {
    restore(&place, 4);
    is_usable(place, 4);
}

/// A returner, a late join and a leaver in an upgraded store.
fn is_usable(place: Place, format: u32) {
    let mut company = Company::new(place);
    for (from, to) in [
        (
            "to = \"person\"\njoin = [{ cs = \"number\"",
            "to = \"person\"\nfilter = \"default(cs.note, '') == 'robot'\"\njoin = [{ cs = \"number\"",
        ),
        ("{ status = \"disabled\", room = \"\", note = \"left\" }", "{ status = \"disabled\" }"),
        ("initial = { login = \"name\", room = { constant = \"new\" } }", "initial = { login = \"name\" }"),
        ("deletes = 2", "deletes = 0"),
    ] {
        assert!(company.config.contains(from), "{from}");
        company.config = company.config.replacen(from, to, 1);
    }
    company.write("accounts.csv", ACCOUNTS_FILE);
    company.staff(&[(1, "Ada", "left"), (2, "Alan", "active"), (3, "Grace M", "active")]);
    // A look changes nothing, so it finds an earlier version twice.
    let look = || Metadirectory::look(connectors::parse(&company.config).unwrap()).unwrap().is_some();
    assert!(!look() && !look());
    let mut directory = company.open();
    let spaces = directory.status().unwrap().0;
    assert_eq!((spaces[ACCOUNTS].1.connectors, spaces[ACCOUNTS].1.disconnectors), (3, 2));
    drop(directory);
    assert!(look());
    let mut directory = company.open();
    let mut kept = Vec::new();
    let mut each = |known: KnownError| {
        kept.push((known.error.text, known.times.count));
        true
    };
    directory.errors(None, &mut each).unwrap();
    assert_eq!(kept.contains(&("refused before".into(), 1)), format == 4, "{kept:?}");
    // What was staged is synchronized. The disabled account is recognized, and does not count as a deletion.
    for agent in [HR, ACCOUNTS] {
        try_run(&mut directory, agent, StepKind::FullImport).unwrap();
        run(&mut directory, agent, StepKind::FullSynchronization);
    }
    let space = directory.status().unwrap().0[ACCOUNTS].1;
    assert_eq!((space.connectors, space.deprovisioned, space.disconnectors, space.filtered), (3, 1, 1, 1));
    run(&mut directory, ACCOUNTS, StepKind::Export);
    let accounts = company.accounts();
    assert!(accounts.contains(&"login=Ada name=Ada number=1 status=disabled".to_string()), "{accounts:?}");
    // A returner and a late join, in delta runs.
    company.staff(&[
        (1, "Ada", "active"),
        (2, "Alan", "active"),
        (3, "Grace M", "active"),
        (5, "Edsger", "active"),
    ]);
    let did = import(&mut directory, StepKind::DeltaSynchronization);
    assert!(
        did.contains(&("provisioned-reconnect", 1)) && did.contains(&("disconnector-joined", 1)),
        "{did:?}"
    );
    export(&mut directory);
    let accounts = company.accounts();
    for line in ["login=Ada name=Ada number=1 status=on", "login=late name=Edsger number=5 status=on"] {
        assert!(accounts.iter().any(|account| account == line), "{accounts:?}");
    }
    assert_eq!(accounts.len(), fs::read_to_string(company.path("accounts.csv")).unwrap().lines().count() - 1);
    assert_eq!(accounts.len(), 6);
}
