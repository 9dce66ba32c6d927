//! What a proxy did, for a person.

use model::quantity::{thousands, three_figures};
use serde_json::Value;

/// A page for the document of a proxy.
pub(super) fn snapshot(document: &Value) -> String {
    let mut lines = Vec::new();
    for route in document["routes"].as_array().into_iter().flatten() {
        self::route(route, &mut lines);
    }
    let log = &document["exchange_log"];
    if let (Some(written), Some(lost)) = (log["written"].as_f64(), log["lost"].as_f64()) {
        let mut line = format!("exchanges in the file: {}", thousands(written));
        if lost > 0.0 {
            line += &format!("; {} lost, because the disk was too slow or full", thousands(lost));
        }
        lines.push(line);
    }
    lines.join("\n")
}

fn route(route: &Value, lines: &mut Vec<String>) {
    let text = |key: &str| route[key].as_str().unwrap_or_default().to_string();
    let (name, target) = (text("name"), text("target"));
    let name = if name == target { String::new() } else { format!("{name}: ") };
    lines.push(format!("{name}{} to {target}", text("listen")));
    let settings: Vec<&str> =
        route["settings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let settings = if settings.is_empty() { "none".into() } else { settings.join(" ") };
    lines.push(format!("  settings      {settings}"));
    let counts = &route["connections"];
    let mut line =
        format!("  connections   {} accepted, {} open", count(&counts["accepted"]), count(&counts["open"]));
    for (key, words) in [
        ("refused", "refused"),
        ("unreachable", "without a reachable target"),
        ("reset_by_client", "reset by the client"),
        ("reset_by_target", "reset by the target"),
        ("reset_by_impairment", "reset by an impairment"),
        ("closed_by_impairment", "directions closed by an impairment"),
        ("accept_errors", "could not be accepted"),
    ] {
        if counts[key].as_u64().is_some_and(|count| count > 0) {
            line += &format!(", {} {words}", count(&counts[key]));
        }
    }
    lines.push(line);
    lines.push(path("to target", &route["up"]));
    lines.push(path("to client", &route["down"]));
    lines.push(exchanges(&route["exchanges"]));
    let error = text("last_error");
    if !error.is_empty() {
        lines.push(format!("  last error    {error}"));
    }
}

fn path(words: &str, path: &Value) -> String {
    let (delay, error) = (&path["delay_ms"], &path["error_ms"]);
    let mut line = format!("  {words:<12}  {} bytes", count(&path["bytes"]));
    if delay["count"].as_u64().is_some_and(|count| count > 0) {
        line +=
            &format!(", delay p50 {} p99 {} max {} ms", ms(delay, "p50"), ms(delay, "p99"), ms(delay, "max"));
    }
    if error["count"].as_u64().is_some_and(|count| count > 0) {
        line += &format!(
            "; late by p50 {} p99 {} max {} ms",
            ms(error, "p50"),
            ms(error, "p99"),
            ms(error, "max")
        );
    }
    for (key, words) in [("losses", "losses"), ("waited_for_receiver", "pieces waited for a slow receiver")] {
        if path[key].as_u64().is_some_and(|count| count > 0) {
            line += &format!("; {} {words}", count(&path[key]));
        }
    }
    line
}

fn exchanges(exchanges: &Value) -> String {
    let first = &exchanges["first_byte_ms"];
    let mut line = format!("  exchanges     {}", count(&exchanges["completed"]));
    if first["count"].as_u64().is_some_and(|count| count > 0) {
        let last = &exchanges["last_byte_ms"];
        line += &format!(
            ": first reply byte after p50 {} p99 {} ms, last after p50 {} p99 {} ms",
            ms(first, "p50"),
            ms(first, "p99"),
            ms(last, "p50"),
            ms(last, "p99")
        );
    }
    if exchanges["without_reply"].as_u64().is_some_and(|count| count > 0) {
        line += &format!("; {} requests without a reply", count(&exchanges["without_reply"]));
    }
    line
}

fn count(value: &Value) -> String {
    thousands(value.as_f64().unwrap_or_default())
}

fn ms(times: &Value, key: &str) -> String {
    three_figures(times[key].as_f64().unwrap_or_default())
}
