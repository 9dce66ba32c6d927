//! The lines of a store in PostgreSQL. Pure.

use ::metadir::store::Durability;
use ::metadir::store::inspection::PostgresState;
use model::quantity::thousands;

use super::super::judge::{Check, Mark, good, percent};
use super::facts::StoreFacts;
use super::judge::{bytes, durability_name, megabytes};

/// Fewer checkpoints say nothing about their cause.
const CHECKPOINTS_MIN: u64 = 10;
/// Checkpoints by the amount of log above this share are a warning.
const REQUESTED_SHARE: f64 = 0.3;
/// Dead rows above this share of the live ones, and above this number, are a warning.
const DEAD_SHARE: f64 = 0.3;
const DEAD_MIN: u64 = 10_000;
/// Accesses below which the hit ratio says nothing.
const BLOCKS_MIN: u64 = 100_000;
const HIT_SHARE_MIN: f64 = 0.95;
/// PostgreSQL refuses commands at about 2,100 million.
const TRANSACTION_AGE_MAX: u64 = 1_000_000_000;

/// The value of a setting, with its unit if it is not a number of bytes.
fn setting<'a>(state: &'a PostgresState, name: &str) -> Option<&'a str> {
    state.settings.get(name).map(|(value, _)| value.as_str())
}

/// The value of a setting in bytes.
fn setting_bytes(state: &PostgresState, name: &str) -> Option<u64> {
    let (value, unit) = state.settings.get(name)?;
    let scale = match unit.as_str() {
        "B" => 1,
        "kB" => 1 << 10,
        "8kB" => 1 << 13,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    value.parse::<u64>().ok().map(|value| value * scale)
}

/// Version, durability, cache, checkpoints.
pub(super) fn settings(state: &PostgresState, facts: &StoreFacts) -> Vec<Check> {
    let mut checks = vec![crash_safety(state), durability(state)];
    if state.is_standby {
        checks.push(good("standby", "the server is a standby").but(
            Mark::Fault,
            "name the primary in `postgres`",
            "runs cannot write",
        ));
    }
    checks.extend(checksums(state));
    checks.extend(cache(state, facts));
    checks.extend(checkpoints(state));
    if state.content.is_none() {
        let text = format!("schema {} has no store of this version of the program", state.schema);
        checks.push(good("store", text).but(
            Mark::Note,
            "the next run makes or upgrades it",
            "size, trail and growth are not shown",
        ));
    }
    checks
}

/// The settings without which a crash damages data.
fn crash_safety(state: &PostgresState) -> Check {
    let name = "crash safety";
    let is = |setting_name: &str, value: &str| setting(state, setting_name) == Some(value);
    match () {
        () if is("fsync", "off") => good(name, "fsync is off: nothing is flushed").but(
            Mark::Fault,
            "fsync = on in postgresql.conf, and restart the server",
            "a power failure or a crash of the kernel can damage the whole database; then it must be restored from a backup",
        ),
        () if is("full_page_writes", "off") => good(name, "full_page_writes is off").but(
            Mark::Fault,
            "full_page_writes = on in postgresql.conf, unless the file system never writes half of a page (ZFS)",
            "a power failure in the middle of a write damages a page, and recovery does not notice it",
        ),
        () if is("zero_damaged_pages", "on") => good(name, "zero_damaged_pages is on").but(
            Mark::Fault,
            "zero_damaged_pages = off",
            "a damaged page is emptied, and its objects are lost without an error",
        ),
        () => good(
            name,
            format!(
                "fsync on, full_page_writes on, wal_sync_method {}: recovery after a crash is complete",
                setting(state, "wal_sync_method").unwrap_or("not known")
            ),
        ),
    }
}

fn durability(state: &PostgresState) -> Check {
    let word = durability_name(state.durability);
    let mode = setting(state, "synchronous_commit").unwrap_or("not known");
    let standbys = setting(state, "synchronous_standby_names").unwrap_or_default();
    let text = |means: &str| format!("{word} (synchronous_commit {mode}): {means}");
    let name = "durability";
    match (mode, standbys) {
        ("off", _) => good(name, text("a commit does not wait for its flush")).but(
            Mark::Warning,
            "durability = \"full\" in [store]",
            "a crash of the server undoes the last commits, so the store does not know the last exported changes until \
             the next import; the data stays intact",
        ),
        _ if setting(state, "fsync") == Some("off") && state.durability == Durability::Full => {
            good(name, text("without effect, because fsync is off")).but(
                Mark::Fault,
                "fsync = on in postgresql.conf, and restart the server",
                "a power failure loses commits",
            )
        }
        (_, "") => good(name, text("each commit is flushed, so that a crash or a power failure loses none")),
        (_, standbys) => good(
            name,
            text(&format!("each commit is flushed here and on the standby ({standbys}), and waits for both")),
        ),
    }
}

fn checksums(state: &PostgresState) -> Option<Check> {
    (setting(state, "data_checksums")? == "off").then(|| {
        good("checksums", "data_checksums is off").but(
            Mark::Note,
            "stop the server, then: pg_checksums --enable -D DATA_DIRECTORY",
            "damage by a disk is not noticed",
        )
    })
}

fn cache(state: &PostgresState, facts: &StoreFacts) -> Option<Check> {
    let buffers = setting_bytes(state, "shared_buffers")?;
    let (hit, missed) = state.blocks;
    let share = hit as f64 / (hit + missed).max(1) as f64;
    let ratio = match hit + missed >= BLOCKS_MIN {
        true => format!("; {} of the block accesses were hits", percent(share)),
        false => String::new(),
    };
    let memory =
        facts.memory_bytes.map_or(String::new(), |memory| format!(" of {} of memory", bytes(memory)));
    let text = format!(
        "shared_buffers is {}{memory}, the store has {}{ratio}",
        bytes(buffers),
        bytes(state.schema_bytes)
    );
    let check = good("cache", text);
    let quarter = facts.memory_bytes.map(|memory| memory / 4);
    Some(match () {
        () if facts.memory_bytes.is_some_and(|memory| buffers > memory / 2) => check.but(
            Mark::Warning,
            "lower shared_buffers to a quarter of the memory",
            "the page cache of the kernel and the sessions have too little",
        ),
        () if state.schema_bytes <= buffers => check,
        () if quarter.is_some_and(|quarter| buffers >= quarter) => check.but(
            Mark::Note,
            "",
            "the store is larger than the cache; the page cache of the kernel holds more",
        ),
        () => check.but(
            if hit + missed >= BLOCKS_MIN && share < HIT_SHARE_MIN { Mark::Warning } else { Mark::Note },
            match quarter {
                Some(quarter) => format!(
                    "shared_buffers = {} in postgresql.conf, and restart the server",
                    megabytes(quarter.min(state.schema_bytes.next_power_of_two()))
                ),
                None => "raise shared_buffers up to a quarter of the memory of the server".into(),
            },
            "pages that are not in shared_buffers come from the page cache of the kernel, or from the disk",
        ),
    })
}

fn checkpoints(state: &PostgresState) -> Option<Check> {
    let (timed, requested) = state.checkpoints?;
    let size = setting_bytes(state, "max_wal_size")?;
    let every = setting(state, "checkpoint_timeout").unwrap_or("?");
    let share = requested as f64 / (timed + requested).max(1) as f64;
    let text = format!(
        "{} by time (checkpoint_timeout {every} s), {} requested by a command or by {} of log (max_wal_size)",
        thousands(timed as f64),
        thousands(requested as f64),
        bytes(size)
    );
    let check = good("checkpoints", text);
    Some(match timed + requested >= CHECKPOINTS_MIN && share > REQUESTED_SHARE {
        false => check,
        true => check.but(
            Mark::Warning,
            format!("max_wal_size = {} in postgresql.conf, and reload", megabytes(size * 4)),
            "after each checkpoint, the first change of a page writes the whole page to the log",
        ),
    })
}

/// Dead rows, the age of transactions, the backup.
pub(super) fn upkeep(state: &PostgresState) -> Vec<Check> {
    let mut checks = Vec::new();
    let is_off = setting(state, "autovacuum") == Some("off");
    if is_off {
        checks.push(good("autovacuum", "autovacuum is off").but(
            Mark::Warning,
            "autovacuum = on in postgresql.conf, and reload",
            "tables grow with each change, and statistics for plans become old",
        ));
    }
    if let Some((table, dead, live)) = &state.worst_table
        && *dead > DEAD_MIN
        && *dead as f64 > DEAD_SHARE * *live as f64
    {
        let (dead, live) = (thousands(*dead as f64), thousands(*live as f64));
        checks.push(good("dead rows", format!("table {table} has {dead} dead rows beside {live}")).but(
            Mark::Warning,
            format!("VACUUM ANALYZE {}.{table}; look for sessions with old open transactions", state.schema),
            "scans read dead rows as well, and the table takes more space",
        ));
    }
    if state.transaction_age > TRANSACTION_AGE_MAX {
        let age = thousands(state.transaction_age as f64);
        checks.push(good("transaction age", format!("the oldest transaction number is {age} old")).but(
            Mark::Fault,
            "VACUUM FREEZE; look for sessions with old open transactions, and for old replication slots",
            "at about 2,100,000,000 the server accepts no more changes",
        ));
    }
    let archive = match setting(state, "archive_mode") {
        Some("on" | "always") => "; the server archives its log",
        _ => "",
    };
    checks.push(
        good("backup", format!("the time of the last backup is not known to Plimsoll{archive}")).but(
            Mark::Note,
            format!("pg_dump --schema={} also works during a run", state.schema),
            "imports restore objects, but not the trail, the history and the joins made by hand",
        ),
    );
    checks
}
