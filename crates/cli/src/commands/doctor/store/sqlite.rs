//! The lines of a store in a SQLite file. Pure.

use ::metadir::store::inspection::{SqliteSettings, SqliteState};

use super::super::judge::{Check, Mark, good, percent};
use super::facts::StoreFacts;
use super::judge::{bytes, durability_name};

/// A log of this many times the size of a checkpoint is not checkpointed.
const LOG_FACTOR: u64 = 2;
/// A larger share of unused pages is worth a line.
const FREE_SHARE: f64 = 0.25;
/// As long as there are at least this many bytes of them.
const FREE_BYTES: u64 = 64 << 20;
/// The cache may take this share of the memory.
const MEMORY_SHARE: f64 = 0.5;

/// Durability, cache, log.
pub(super) fn settings(state: &SqliteState, facts: &StoreFacts) -> Vec<Check> {
    let Some(settings) = &state.settings else {
        let text = format!("{} does not exist yet: the first run makes it", state.path.display());
        let durability = durability_name(state.durability);
        return vec![
            good("store", text).but(Mark::Note, "", "only its future place is checked"),
            good("durability", format!("{durability} (configured)")),
        ];
    };
    let mut checks = vec![durability(state, settings), cache(settings, facts), log(state, settings)];
    if state.mode & 0o077 != 0 {
        let path = state.path.display();
        checks.push(
            good("access", format!("other users have access to {path} (mode {:04o})", state.mode)).but(
                Mark::Warning,
                format!("chmod 600 {path}; the next run does it as well"),
                "the store has personal data",
            ),
        );
    }
    if state.content.is_none() {
        let text = format!("the store has format {} of another version of this program", settings.format);
        checks.push(good("format", text).but(
            Mark::Warning,
            "the next run upgrades it or says why it cannot",
            "size, trail and growth are not shown",
        ));
    }
    checks
}

fn durability(state: &SqliteState, settings: &SqliteSettings) -> Check {
    let word = durability_name(state.durability);
    let text = |means: &str| {
        let synchronous = match settings.synchronous {
            0 => "off",
            1 => "normal",
            2 => "full",
            _ => "extra",
        };
        let mode = &settings.journal_mode;
        format!("{word} (journal_mode {mode}, synchronous {synchronous}): {means}")
    };
    let name = "durability";
    match (settings.journal_mode.as_str(), settings.synchronous) {
        (mode, _) if mode != "wal" => good(name, text("this file was not made by a run")).but(
            Mark::Fault,
            "let one run finish: it sets journal_mode to wal",
            "readers and a run block each other",
        ),
        (_, 0) => good(name, text("nothing is flushed")).but(
            Mark::Fault,
            "durability = \"full\" in [store]",
            "a power failure or a crash of the kernel can damage the file; then it must be restored from a backup",
        ),
        (_, 1) => good(name, text("flushed at checkpoints only")).but(
            Mark::Warning,
            "durability = \"full\" in [store]",
            "a power failure undoes the last commits, so the store does not know the last exported changes until \
             the next import; the file stays intact",
        ),
        _ => good(name, text("each commit is flushed, so that a crash or a power failure loses none")),
    }
}

fn cache(settings: &SqliteSettings, facts: &StoreFacts) -> Check {
    let used = facts.used_bytes();
    let text = format!("cache_bytes is {}, the store has {}", bytes(settings.cache_bytes), bytes(used));
    let check = good("cache", text);
    let memory = facts.memory_bytes.unwrap_or(u64::MAX);
    match () {
        () if settings.cache_bytes as f64 > memory as f64 * MEMORY_SHARE => check.but(
            Mark::Warning,
            "lower cache_bytes in [store]",
            format!(
                "the host has {}: a full cache leaves too little for the run and the page cache",
                bytes(memory)
            ),
        ),
        () if used <= settings.cache_bytes => check,
        () if used > memory => check.but(
            Mark::Warning,
            "use a host with more memory, and check `disk.reads_per_s` during a run",
            format!("the host has {}: a run reads pages from the disk repeatedly", bytes(memory)),
        ),
        () => check.but(
            Mark::Note,
            match used.next_power_of_two() {
                whole if whole as f64 > memory as f64 * MEMORY_SHARE => String::new(),
                whole => format!("cache_bytes = {whole} in [store] holds the whole store"),
            },
            "other pages come from the page cache of the kernel, or from the disk if that is short",
        ),
    }
}

fn log(state: &SqliteState, settings: &SqliteSettings) -> Check {
    let limit = bytes(settings.checkpoint_bytes);
    let check =
        good("log", format!("{} of write-ahead log; checkpointed from {limit} on", bytes(state.wal_bytes)));
    match state.wal_bytes > LOG_FACTOR * settings.checkpoint_bytes {
        false => check,
        true => check.but(
            Mark::Warning,
            "end programs that keep the file open for a long time, such as an open sqlite3",
            "a long reader keeps the log from being checkpointed: it grows, and reads become slower",
        ),
    }
}

/// Unused space, and the backup.
pub(super) fn upkeep(state: &SqliteState) -> Vec<Check> {
    let Some(settings) = &state.settings else { return Vec::new() };
    let mut checks = Vec::new();
    let share = settings.free_pages as f64 / settings.pages.max(1) as f64;
    let unused = settings.free_pages * settings.page_bytes;
    let path = state.path.display();
    if share > FREE_SHARE && unused > FREE_BYTES {
        checks.push(good("unused space", format!("{} of the file ({})", bytes(unused), percent(share))).but(
            Mark::Note,
            format!(
                "when nothing runs: sqlite3 {path} VACUUM (needs as much free space as the store has data)"
            ),
            "later runs use it again; only the file stays large",
        ));
    }
    checks.push(good("backup", "the time of the last backup is not known to Plimsoll").but(
        Mark::Note,
        format!("sqlite3 {path} \".backup FILE\" also works during a run"),
        "imports restore objects, but not the trail, the history and the joins made by hand",
    ));
    checks
}
