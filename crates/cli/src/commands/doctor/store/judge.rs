//! From the facts of a store to lines: what applies to both kinds of store. Pure.

use ::metadir::store::Durability;
use ::metadir::store::inspection::{Content, Growth, Inspection};
use engine::mounts::Medium;
use model::quantity::thousands;
use report::text::Quantity;

use super::super::judge::{Check, Mark, good, percent};
use super::facts::{Place, StoreFacts};
use super::{postgres, sqlite};

const DAY_S: f64 = 86_400.0;
/// Less free space than this share of the file system is a warning.
const FREE_SHARE_MIN: f64 = 0.1;
/// Less free space than this is a warning: a commit may need it for the log.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// A disk that is full sooner is a warning, days.
const FULL_IN_DAYS_MIN: f64 = 30.0;
/// Later is not shown as a number, days.
const FULL_IN_DAYS_MAX: f64 = 3650.0;
/// A trail with a larger share of the store is a warning if it is kept for ever.
const TRAIL_SHARE_MAX: f64 = 0.5;

/// All lines.
pub(super) fn judge(facts: &StoreFacts) -> Vec<Check> {
    let mut checks = match &facts.inspection {
        Inspection::Sqlite(state) => sqlite::settings(state, facts),
        Inspection::Postgres(state) => postgres::settings(state, facts),
    };
    checks.extend(devices(facts));
    checks.extend(size(facts));
    checks.extend(facts.content().map(|content| trail(content, facts)));
    checks.extend(facts.content().map(|content| growth(content, facts)));
    checks.extend(match &facts.inspection {
        Inspection::Sqlite(state) => sqlite::upkeep(state),
        Inspection::Postgres(state) => postgres::upkeep(state),
    });
    checks
}

/// A size in bytes, for people.
pub(super) fn bytes(count: u64) -> String {
    Quantity::Bytes.show(count as f64)
}

/// A size as a setting is written: `512MB`, in the units of PostgreSQL, which are powers of 1024.
pub(super) fn megabytes(count: u64) -> String {
    format!("{}MB", count.div_ceil(1 << 20))
}

pub(super) fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Full => "full",
        Durability::Normal => "normal",
        Durability::Off => "off",
    }
}

fn devices(facts: &StoreFacts) -> Vec<Check> {
    let places = match &facts.places {
        Ok(places) => places,
        Err(why) => {
            let fix = match why.contains("enied") {
                true => "run this as root, or as the user of the server",
                false if why.contains("data_directory") => {
                    "GRANT pg_read_all_settings TO the user in `postgres`"
                }
                false => "run `plimsoll doctor --store` on the host of the server",
            };
            return vec![good("devices", format!("not known: {why}")).but(
                Mark::Note,
                fix,
                "free space, file systems and shared devices are not checked",
            )];
        }
    };
    let mut checks = Vec::new();
    let mut seen: Vec<&std::path::Path> = Vec::new();
    for place in places {
        if !seen.contains(&place.path.as_path()) {
            seen.push(&place.path);
            checks.push(file_system(place, facts));
        }
    }
    checks.extend(free_space(places, facts));
    checks.extend(sharing(places, facts));
    checks
}

fn file_system(place: &Place, facts: &StoreFacts) -> Check {
    let role = place.role;
    let path = place.path.display();
    let storage = match &place.storage {
        Ok(storage) => storage,
        Err(why) => {
            let check = good(role, format!("{path} cannot be checked: {why}"));
            return check.but(Mark::Note, "", "its device is not known");
        }
    };
    let check = good(role, format!("{path} is on {}", storage.describe()));
    let is_sqlite = matches!(facts.inspection, Inspection::Sqlite(_));
    match storage.medium {
        _ if role == "temporary" => check,
        Some(Medium::Memory) => {
            check.but(Mark::Fault, "move it to a disk", "a restart of the host deletes the store")
        }
        Some(Medium::Network) if is_sqlite => check.but(
            Mark::Fault,
            "move the file to a local disk, or use `postgres` in [store]",
            "locks and the shared index of the log do not work over a network: the file can be damaged",
        ),
        Some(Medium::Network) => check.but(
            Mark::Warning,
            "check that the server of the files confirms a flush only when the data is on its disk",
            "each commit waits for the network, and its durability depends on another host",
        ),
        Some(Medium::Program) => check.but(
            Mark::Warning,
            "move it to a file system of the kernel",
            "whether a flush reaches a disk depends on this program",
        ),
        None => check,
    }
}

/// Free space of each file system once.
fn free_space(places: &[Place], facts: &StoreFacts) -> Vec<Check> {
    let mut seen = Vec::new();
    let mut checks = Vec::new();
    for place in places {
        let (Some((free, size)), Ok(storage)) = (place.space, &place.storage) else { continue };
        if seen.contains(&&storage.mount.point) {
            continue;
        }
        seen.push(&storage.mount.point);
        let share = free as f64 / size.max(1) as f64;
        let days = match place.role {
            "data" => facts.content().and_then(|content| full_in_days(content, facts, free)),
            _ => None,
        };
        let growth = match days {
            Some(days) if days <= FULL_IN_DAYS_MAX => {
                format!("; full in about {days:.0} days at the growth below")
            }
            _ => String::new(),
        };
        let text = format!(
            "{} of {} ({}) at {}{growth}",
            bytes(free),
            bytes(size),
            percent(share),
            storage.mount.point.display()
        );
        let check = good("free space", text);
        let is_low = share < FREE_SHARE_MIN || free < FREE_BYTES_MIN;
        checks.push(match is_low || days.is_some_and(|days| days < FULL_IN_DAYS_MIN) {
            false => check,
            true => check.but(
                Mark::Warning,
                "free space, or move the store to a larger disk",
                "a run stops when the disk is full; completed commits are kept",
            ),
        });
    }
    checks
}

/// The pairs of data, log and temporary files that share a device.
fn sharing(places: &[Place], facts: &StoreFacts) -> Vec<Check> {
    let mut checks = Vec::new();
    let Some((data, others)) = places.split_first() else { return checks };
    for other in others.iter().filter(|other| other.role != "data") {
        let (Ok(of_data), Ok(of_other)) = (&data.storage, &other.storage) else { continue };
        let name = "shared device";
        let words = format!("data and {}", if other.role == "log" { "log" } else { "temporary files" });
        let Some(shared) = of_data.shared_with(of_other) else {
            checks.push(good(name, format!("{words} are on different devices")));
            continue;
        };
        let check = good(name, format!("{words} are both on {shared}"));
        let is_sqlite = matches!(facts.inspection, Inspection::Sqlite(_));
        checks.push(match (other.role, other.is_separate, is_sqlite) {
            ("log", true, _) => check.but(
                Mark::Warning,
                "move one of them to another disk, or remove the link",
                "the log has a path of its own, but it competes with the data for the same disk",
            ),
            ("log", false, true) => check.but(
                Mark::Note,
                "",
                "SQLite keeps the log beside the file; a store in PostgreSQL can have it on another disk",
            ),
            ("log", false, false) => check.but(
                Mark::Note,
                "if `plimsoll sync` shows that the disk limits the runs, move pg_wal to another disk (a link)",
                "flushes of the log compete with reads and writes of the data",
            ),
            (_, true, false) => check.but(
                Mark::Warning,
                "move the tablespace to another disk",
                "temporary files have a tablespace of their own, but it is on the same disk",
            ),
            _ => check,
        });
    }
    checks
}

fn size(facts: &StoreFacts) -> Option<Check> {
    let content = facts.content()?;
    let all = content.objects + content.metaverse_objects;
    let used = facts.used_bytes();
    let per_object = match all {
        0 => String::new(),
        all => format!(
            "; {} per object without the trail",
            bytes(used.saturating_sub(content.trail_bytes) / all)
        ),
    };
    let text = format!(
        "{} with {} connector space and {} metaverse objects{per_object}",
        bytes(used),
        thousands(content.objects as f64),
        thousands(content.metaverse_objects as f64)
    );
    Some(good("size", text))
}

fn trail(content: &Content, facts: &StoreFacts) -> Check {
    let name = "trail";
    let days = |s: u64| (s as f64 / DAY_S).floor();
    let since = content.trail_since_unix_s.map_or(String::new(), |since| {
        let age = days(facts.now_unix_s.saturating_sub(since));
        if age < 1.0 { ", from today".into() } else { format!(", the oldest entry is {age:.0} days old") }
    });
    let text = format!("{} of changes{since}", bytes(content.trail_bytes));
    let share = content.trail_bytes as f64 / facts.used_bytes().max(1) as f64;
    match facts.audit_keep_s {
        Some(keep) => good(name, format!("{text}; kept for {:.0} days", days(keep))),
        None => {
            let is_large = share > TRAIL_SHARE_MAX && content.trail_bytes > FREE_BYTES_MIN;
            good(name, format!("{text}; kept for ever")).but(
                if is_large { Mark::Warning } else { Mark::Note },
                "set `keep` in [audit], such as keep = \"365d\"",
                "the trail grows with each exported change, without limit",
            )
        }
    }
}

/// Bytes per day; none if the history does not show the growth.
fn bytes_per_day(content: &Content, facts: &StoreFacts) -> Option<f64> {
    let Growth { window_s, objects, trail_bytes } = content.growth?;
    // A trail whose oldest entries are already deleted stays at its size.
    let is_level = match (facts.audit_keep_s, content.trail_since_unix_s) {
        (Some(keep), Some(since)) => facts.now_unix_s.saturating_sub(since) + DAY_S as u64 >= keep,
        _ => false,
    };
    let of_trail = if is_level { 0.0 } else { trail_bytes as f64 };
    let of_objects = match content.objects {
        0 => 0.0,
        all => {
            let others = facts.used_bytes().saturating_sub(content.trail_bytes) as f64;
            objects as f64 / all as f64 * others
        }
    };
    Some((of_trail + of_objects) / (window_s as f64 / DAY_S))
}

fn full_in_days(content: &Content, facts: &StoreFacts, free: u64) -> Option<f64> {
    bytes_per_day(content, facts).filter(|rate| *rate > 0.0).map(|rate| free as f64 / rate)
}

fn growth(content: &Content, facts: &StoreFacts) -> Check {
    let name = "growth";
    let (Some(growth), Some(rate)) = (content.growth, bytes_per_day(content, facts)) else {
        let text = match content.history_s {
            None => "not known: nothing was run yet".to_string(),
            Some(history) if (history as f64) < DAY_S => "not known: the first run was today".into(),
            Some(history) => {
                format!(
                    "not known: the history covers {:.0} days, the first of which is the initial load",
                    history as f64 / DAY_S
                )
            }
        };
        return good(name, text).but(Mark::Note, "", "it is shown after 8 days of runs");
    };
    let days = growth.window_s as f64 / DAY_S;
    let objects = match growth.objects {
        0 => "no more objects".to_string(),
        more if more > 0 => format!("{} more objects", thousands(more as f64)),
        fewer => format!("{} fewer objects", thousands(fewer.unsigned_abs() as f64)),
    };
    let rate = match rate {
        rate if rate > 0.0 => format!("about {} a day", bytes(rate as u64)),
        _ => "none".into(),
    };
    good(
        name,
        format!("{rate}, from the last {days:.0} days: {objects}, {} of trail", bytes(growth.trail_bytes)),
    )
}
