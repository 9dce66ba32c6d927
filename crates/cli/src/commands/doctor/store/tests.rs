//! The judgement of two made-up stores with everything wrong, and of their growth.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ::metadir::store::Durability;
use ::metadir::store::inspection::{Content, Growth, Inspection, PostgresState, SqliteSettings, SqliteState};
use engine::devices::Storage;
use engine::mounts::{Medium, Mount};

use super::super::judge::Mark;
use super::facts::{Place, StoreFacts};
use super::{judge, page};

const DAY_S: u64 = 86_400;
const GIB: u64 = 1 << 30;

fn place(role: &'static str, file_system: &str, disk: &str, is_separate: bool) -> Place {
    let mount = Mount {
        device: format!("254:{role}:{disk}"),
        part: "/".into(),
        point: format!("/{role}").into(),
        file_system: file_system.into(),
        source: format!("/dev/{disk}1"),
        options: String::new(),
    };
    let medium = mount.medium();
    let disks = if medium.is_none() { vec![disk.to_string()] } else { Vec::new() };
    let path = PathBuf::from(format!("/{role}/{disk}"));
    let storage = Ok(Storage { mount, medium, disks });
    Place { role, path, is_separate, storage, space: Some((4 * GIB, 100 * GIB)) }
}

fn content() -> Content {
    Content {
        objects: 2_000_000,
        metaverse_objects: 1_000_000,
        trail_bytes: 6 * GIB,
        trail_since_unix_s: Some(900 * DAY_S),
        growth: Some(Growth { window_s: 30 * DAY_S, objects: 20_000, trail_bytes: 3 * GIB }),
        history_s: Some(100 * DAY_S),
    }
}

fn facts(inspection: Inspection, places: Vec<Place>) -> StoreFacts {
    let now_unix_s = 1000 * DAY_S;
    StoreFacts { inspection, audit_keep_s: None, now_unix_s, memory_bytes: Some(8 * GIB), places: Ok(places) }
}

fn sqlite() -> StoreFacts {
    let settings = SqliteSettings {
        version: "3.50.0".into(),
        journal_mode: "wal".into(),
        synchronous: 0,
        cache_bytes: 64 << 20,
        checkpoint_bytes: 256 << 20,
        page_bytes: 8192,
        pages: 12 * GIB / 8192,
        free_pages: 4 * GIB / 8192,
        format: 5,
    };
    let state = SqliteState {
        path: "/data/metadirectory.db".into(),
        durability: Durability::Off,
        settings: Some(settings),
        file_bytes: 12 * GIB,
        wal_bytes: 2 * GIB,
        mode: 0o640,
        temporary: "/var/tmp".into(),
        content: Some(content()),
    };
    let places = vec![place("data", "nfs4", "nas", false), place("temporary", "ext4", "sda", true)];
    facts(Inspection::Sqlite(Box::new(state)), places)
}

fn postgres() -> StoreFacts {
    let setting = |name: &str, value: &str, unit: &str| (name.to_string(), (value.into(), unit.into()));
    let settings: BTreeMap<_, _> = [
        setting("server_version", "17.5", ""),
        setting("fsync", "off", ""),
        setting("full_page_writes", "on", ""),
        setting("synchronous_commit", "on", ""),
        setting("synchronous_standby_names", "", ""),
        setting("data_checksums", "off", ""),
        setting("shared_buffers", "16384", "8kB"),
        setting("max_wal_size", "1024", "MB"),
        setting("checkpoint_timeout", "300", "s"),
        setting("autovacuum", "off", ""),
        setting("archive_mode", "off", ""),
    ]
    .into();
    let state = PostgresState {
        connection: "host=127.0.0.1 user=metadir dbname=identity".into(),
        schema: "metadirectory".into(),
        is_local: true,
        started_unix_s: 0,
        durability: Durability::Full,
        settings,
        is_standby: true,
        schema_bytes: 12 * GIB,
        database_bytes: 13 * GIB,
        worst_table: Some(("cs".into(), 900_000, 2_000_000)),
        blocks: (800_000, 200_000),
        checkpoints: Some((20, 80)),
        transaction_age: 1_500_000_000,
        tablespaces: Vec::new(),
        temporary: Vec::new(),
        content: Some(content()),
    };
    let places = vec![
        place("data", "xfs", "sda", false),
        place("log", "xfs", "sda", true),
        place("temporary", "xfs", "sdb", true),
    ];
    facts(Inspection::Postgres(Box::new(state)), places)
}

fn text(facts: &StoreFacts) -> String {
    page::text("metadirectory.toml", facts, &judge::judge(facts), 100, true)
}

#[test]
fn everything_wrong_in_a_file() {
    insta::assert_snapshot!(text(&sqlite()));
}

#[test]
fn everything_wrong_in_postgresql() {
    insta::assert_snapshot!(text(&postgres()));
}

fn line(facts: &StoreFacts, name: &str) -> (Mark, String) {
    let checks = judge::judge(facts);
    let check = checks.into_iter().find(|check| check.name == name).unwrap();
    (check.mark, check.text)
}

#[test]
fn growth_is_that_of_objects_and_trail() {
    let mut facts = sqlite();
    // 8 GiB are used, 2 GiB of them without the trail: 1 % more objects are 20 MiB in 30 days, beside 3 GiB of trail.
    let (_, text) = line(&facts, "growth");
    assert_eq!(text, "about 103 MiB a day, from the last 30 days: 20,000 more objects, 3.00 GiB of trail");
    // The oldest entries are deleted: only objects let the store grow.
    facts.audit_keep_s = Some(100 * DAY_S);
    let (_, text) = line(&facts, "growth");
    assert!(text.starts_with("about 699 KiB a day"), "{text}");
    assert_eq!(line(&facts, "trail").0, Mark::Good);
    assert!(line(&facts, "free space").1.ends_with("4.00 GiB of 100 GiB (4.0%) at /data"));
}

#[test]
fn a_network_is_a_fault_of_a_file_and_a_warning_of_a_server() {
    assert_eq!(line(&sqlite(), "data").0, Mark::Fault);
    let mut facts = postgres();
    facts.places = Ok(vec![place("data", "nfs4", "nas", false)]);
    assert_eq!(line(&facts, "data").0, Mark::Warning);
    if let Ok(places) = &mut facts.places {
        places[0].storage.as_mut().unwrap().medium = Some(Medium::Memory);
    }
    assert_eq!(line(&facts, "data").0, Mark::Fault);
}
