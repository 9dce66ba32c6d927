//! What an administrator checks of a store: its settings in force, its size, and how fast it grows. Reading them
//! changes nothing, and works while another process runs steps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{NameKind, StepRecord, Store, StoreError};
use crate::object::AgentId;
use crate::store::Durability;

/// The state of a store.
#[derive(Clone, Debug)]
pub enum Inspection {
    /// A SQLite file.
    Sqlite(Box<SqliteState>),
    /// A schema of a PostgreSQL database.
    Postgres(Box<PostgresState>),
}

/// The state of a SQLite file.
#[derive(Clone, Debug)]
pub struct SqliteState {
    /// The path.
    pub path: PathBuf,
    /// The configured durability.
    pub durability: Durability,
    /// The settings of a run; none if there is no store yet.
    pub settings: Option<SqliteSettings>,
    /// Size of the file, bytes.
    pub file_bytes: u64,
    /// Size of the write-ahead log, bytes.
    pub wal_bytes: u64,
    /// The permission bits of the file.
    pub mode: u32,
    /// Where SQLite creates temporary files.
    pub temporary: PathBuf,
    /// What it holds; none if there is no store of the current format.
    pub content: Option<Content>,
}

/// The settings of a run, as SQLite reports them after they are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteSettings {
    /// The version of SQLite.
    pub version: String,
    /// `journal_mode`: `wal`.
    pub journal_mode: String,
    /// `synchronous`: 0 off, 1 normal, 2 full, 3 extra.
    pub synchronous: i64,
    /// Size of the page cache, bytes.
    pub cache_bytes: u64,
    /// Size of the write-ahead log at which it is checkpointed, bytes.
    pub checkpoint_bytes: u64,
    /// Size of a page, bytes.
    pub page_bytes: u64,
    /// Number of pages.
    pub pages: u64,
    /// Number of unused pages.
    pub free_pages: u64,
    /// The format of the store.
    pub format: i64,
}

/// The state of a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct PostgresState {
    /// Where the server is: the connection string, which has no password.
    pub connection: String,
    /// The schema.
    pub schema: String,
    /// Whether the connection is to this host.
    pub is_local: bool,
    /// When the server was started, seconds since 1970.
    pub started_unix_s: u64,
    /// The configured durability.
    pub durability: Durability,
    /// The settings in force in the session of a run: value and unit as in `pg_settings`. Settings that this user
    /// may not see are missing.
    pub settings: BTreeMap<String, (String, String)>,
    /// Whether the server is a standby.
    pub is_standby: bool,
    /// Size of the tables and indexes of the store, bytes.
    pub schema_bytes: u64,
    /// Size of the whole database, bytes.
    pub database_bytes: u64,
    /// Rows of the tables, dead rows, and the largest number of dead rows: the table, dead rows, live rows.
    pub worst_table: Option<(String, u64, u64)>,
    /// Blocks found in `shared_buffers`, and blocks that were not, since the statistics were reset.
    pub blocks: (u64, u64),
    /// Checkpoints by time and by the amount of write-ahead log, since the statistics were reset.
    pub checkpoints: Option<(u64, u64)>,
    /// The age of the oldest transaction of the database.
    pub transaction_age: u64,
    /// The tablespaces of the store's tables and of the database: name and path; an empty path is the data
    /// directory.
    pub tablespaces: Vec<(String, String)>,
    /// The same for temporary tables and files; empty if they have none of their own.
    pub temporary: Vec<(String, String)>,
    /// What it holds; none if there is no store of the current format.
    pub content: Option<Content>,
}

/// What a store holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// Objects of all connector spaces.
    pub objects: u64,
    /// Objects of the metaverse.
    pub metaverse_objects: u64,
    /// Size of the entries of the trail, bytes, without their indexes.
    pub trail_bytes: u64,
    /// The time of the oldest entry of the trail, seconds since 1970.
    pub trail_since_unix_s: Option<u64>,
    /// The growth; none if the history does not show it.
    pub growth: Option<Growth>,
    /// Time from the first step to now, seconds; none without steps.
    pub history_s: Option<u64>,
}

/// The growth in the last days of the history. The first day is not part of it, because the initial load is not
/// growth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The length of the time, seconds.
    pub window_s: u64,
    /// Objects that imports added, less those that they deleted.
    pub objects: i64,
    /// Bytes that the trail got.
    pub trail_bytes: u64,
}

/// The last time that counts for the growth, seconds.
const WINDOW_MAX_S: u64 = 30 * DAY_S;
/// A shorter time shows no growth, seconds.
const WINDOW_MIN_S: u64 = 7 * DAY_S;
const DAY_S: u64 = 24 * 60 * 60;
/// Number of steps that are read from the history.
const STEPS_MAX: usize = 100_000;

/// Reads the content of an open store. `trail` reads the size of its trail since a time, and the oldest time.
pub(super) fn content<S: Store>(
    store: &mut S,
    mut trail: impl FnMut(&mut S, u64) -> Result<(u64, Option<u64>), StoreError>,
) -> Result<Content, StoreError> {
    let mut objects = 0;
    for (id, _) in store.names(NameKind::Agent)? {
        objects += store.gauges(AgentId(id))?.objects;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let steps = store.history(STEPS_MAX)?;
    let first = steps.last().map(|step| step.started_unix_s);
    let window = first.and_then(|first| window(first, now));
    let growth = match window {
        Some(from) => Some(Growth {
            window_s: now - from,
            objects: added(&steps, from),
            trail_bytes: trail(store, from)?.0,
        }),
        None => None,
    };
    let (trail_bytes, trail_since_unix_s) = trail(store, 0)?;
    Ok(Content {
        objects,
        metaverse_objects: store.count_mv()?,
        trail_bytes,
        trail_since_unix_s,
        growth,
        history_s: first.map(|first| now.saturating_sub(first)),
    })
}

/// The begin of the time that shows the growth; none if the history is too short.
fn window(first: u64, now: u64) -> Option<u64> {
    let from = (first + DAY_S).max(now.saturating_sub(WINDOW_MAX_S));
    (now.saturating_sub(from) >= WINDOW_MIN_S).then_some(from)
}

/// Objects that the imports since a time added, less those that they deleted.
fn added(steps: &[StepRecord], from: u64) -> i64 {
    let counts = steps.iter().filter(|step| step.started_unix_s >= from).flat_map(|step| &step.counters);
    let signed = counts.map(|(name, count)| {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        match name.as_str() {
            "stage-add" => count,
            "stage-delete" => -count,
            _ => 0,
        }
    });
    signed.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_load_is_not_growth() {
        let now = 100 * DAY_S;
        for (days, from) in
            [(2, None), (7, None), (8, Some(93)), (20, Some(81)), (31, Some(70)), (90, Some(70))]
        {
            assert_eq!(window(now - days * DAY_S, now), from.map(|day| day * DAY_S), "{days}");
        }
        assert_eq!(window(now + DAY_S, now), None, "a clock that was set back");
        let step = |day: u64, name: &str, count| StepRecord {
            started_unix_s: day * DAY_S,
            counters: vec![(name.into(), count)],
            ..StepRecord::default()
        };
        let steps = [step(99, "stage-add", 30), step(98, "stage-delete", 10), step(97, "stage-update", 5)];
        assert_eq!(added(&steps, 98 * DAY_S), 20);
        assert_eq!(added(&steps, 99 * DAY_S), 30);
    }
}
