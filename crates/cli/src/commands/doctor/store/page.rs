//! The lines of `doctor --store` on a terminal and as JSON. Pure.

use ::metadir::store::inspection::Inspection;
use report::text::plural;
use serde_json::{Value, json};

use super::super::judge::{Check, Mark};
use super::super::page::{block, count};
use super::facts::StoreFacts;

/// The page.
pub(super) fn text(path: &str, facts: &StoreFacts, checks: &[Check], width: usize, strict: bool) -> String {
    let mut out = String::new();
    block(&mut out, " store  ", &format!("{} · {path}", title(facts)), width);
    out.push('\n');
    for check in checks {
        block(&mut out, &format!(" {:<5} {:<18} ", check.mark.word(), check.name), &check.text, width);
        for (word, text) in [("why", &check.without), ("fix", &check.fix)] {
            if !text.is_empty() {
                let word = if word == "why" && check.mark == Mark::Note { "mind" } else { word };
                block(&mut out, &format!("       {word:<18} "), text, width);
            }
        }
    }
    out.push('\n');
    let (faults, warnings) = (count(checks, Mark::Fault), count(checks, Mark::Warning));
    let found = match (faults, warnings) {
        (0, 0) => "no problems".to_string(),
        (0, warnings) => plural(warnings, "warning"),
        (faults, 0) => plural(faults, "fault"),
        (faults, warnings) => format!("{}, {}", plural(faults, "fault"), plural(warnings, "warning")),
    };
    let exit = match (faults > 0, strict) {
        (true, true) => "   exit code 1 because of --strict",
        (true, false) => "   exit 0   (--strict: 1)",
        _ => "",
    };
    block(&mut out, " ", &format!("{found}{exit}"), width);
    out
}

fn title(facts: &StoreFacts) -> String {
    match &facts.inspection {
        Inspection::Sqlite(state) => {
            let version = state.settings.as_ref().map_or("", |settings| settings.version.as_str());
            format!("SQLite {version} · {}", state.path.display()).replace("SQLite  ", "SQLite ")
        }
        Inspection::Postgres(state) => {
            let version = state.settings.get("server_version").map_or("", |(version, _)| version.as_str());
            format!("PostgreSQL {version} · schema {} · {}", state.schema, state.connection)
        }
    }
}

/// `plimsoll.doctor-store/1`.
pub(super) fn json(path: &str, facts: &StoreFacts, checks: &[Check]) -> Value {
    let list = checks.iter().map(|check| {
        json!({ "result": check.mark.word().to_lowercase(), "name": check.name, "text": check.text,
            "why": check.without, "fix": check.fix })
    });
    let places = facts.places.as_deref().unwrap_or_default().iter().map(|place| {
        let storage = place.storage.as_ref().ok();
        json!({ "role": place.role, "path": place.path,
            "file_system": storage.map(|storage| &storage.mount.file_system),
            "disks": storage.map(|storage| &storage.disks),
            "free_bytes": place.space.map(|(free, _)| free),
            "size_bytes": place.space.map(|(_, size)| size) })
    });
    let kind = match &facts.inspection {
        Inspection::Sqlite(_) => "sqlite",
        Inspection::Postgres(_) => "postgres",
    };
    let content = facts.content().map(|content| {
        json!({ "objects": content.objects, "metaverse_objects": content.metaverse_objects,
            "used_bytes": facts.used_bytes(), "trail_bytes": content.trail_bytes,
            "growth": content.growth.map(|growth| json!({ "window_s": growth.window_s,
                "objects": growth.objects, "trail_bytes": growth.trail_bytes })) })
    });
    json!({
        "format": "plimsoll.doctor-store/1",
        "config": path,
        "store": kind,
        "memory_bytes": facts.memory_bytes,
        "places": places.collect::<Vec<_>>(),
        "content": content,
        "checks": list.collect::<Vec<_>>(),
        "faults": count(checks, Mark::Fault),
        "warnings": count(checks, Mark::Warning),
    })
}
