//! Tables of a capture, for the terminal and the page alike.

use model::wire::{WireAgainst, WireDocument, WireRankedBy, WireTimes};

use crate::table::{Cell, Table};
use crate::text::{Quantity, Scale, percent, shortened};

/// The most characters of a filter or name in a terminal.
const TEXT_WIDTH: usize = 60;

/// The most results of a kind that are listed.
const RESULTS: usize = 8;

fn count(value: u64) -> Cell {
    Cell::number(value as f64, &Quantity::Count.scale([0.0]))
}

fn bytes(value: u64) -> Cell {
    Cell::shown(value as f64, Quantity::Bytes.show(value as f64))
}

fn parts(times: &WireTimes) -> [f64; 5] {
    [times.mean, times.p50, times.p95, times.p99, times.max]
}

/// The name of a kind; with the protocol if the capture has several.
pub(super) fn kind_name(document: &WireDocument, protocol: &str, kind: &str) -> String {
    match document.kinds.iter().any(|of| of.protocol != protocol) {
        true => format!("{protocol} {kind}"),
        false => kind.to_string(),
    }
}

/// What operations are ranked by, in words.
pub(super) fn property(by: WireRankedBy) -> &'static str {
    match by {
        WireRankedBy::Filter => "filter",
        WireRankedBy::Base => "search base",
        WireRankedBy::Name => "bind name",
        WireRankedBy::Path => "path",
    }
}

/// Counts, response times and results of each kind.
pub(super) fn of_operations(document: &WireDocument) -> Vec<Table> {
    let mut tables = Vec::new();
    if document.kinds.is_empty() {
        return tables;
    }
    let seconds = document.capture.seconds;
    let mut counts = Table::new(
        "operations",
        &["kind", ">operations", ">per s", ">failed", ">no response", ">entries", ">requests", ">responses"],
    );
    for kind in &document.kinds {
        let rate = kind.operations as f64 / seconds;
        counts.row(vec![
            Cell::words(kind_name(document, &kind.protocol, &kind.kind)),
            count(kind.operations),
            Cell::shown(rate, crate::text::plain(rate)),
            count(kind.failed),
            count(kind.unanswered),
            count(kind.entries),
            bytes(kind.request_bytes),
            bytes(kind.response_bytes),
        ]);
    }
    tables.push(counts);
    tables.extend(times(document));
    let mut results = Table::new("results", &["kind", "result", ">operations", ">share"]);
    for kind in &document.kinds {
        for (at, result) in kind.results.iter().take(RESULTS).enumerate() {
            let share = result.count as f64 / kind.operations.max(1) as f64;
            let name = match kind.protocol.as_str() {
                "ldap" => format!("{} ({})", result.name, result.number),
                _ => result.name.clone(),
            };
            results.row(vec![
                Cell::words(if at == 0 {
                    kind_name(document, &kind.protocol, &kind.kind)
                } else {
                    String::new()
                }),
                Cell::words(name),
                count(result.count),
                Cell::words(percent(share)),
            ]);
        }
    }
    if !results.rows.is_empty() {
        tables.push(results);
    }
    tables
}

/// Response times, and times to the first entry.
fn times(document: &WireDocument) -> Option<Table> {
    let all = document.kinds.iter().flat_map(|kind| kind.response_ms.iter().chain(kind.first_ms.iter()));
    let scale = Quantity::Milliseconds.scale(all.flat_map(parts));
    let head = format!("time, {}", scale.unit);
    let mut heads = vec![head.as_str(), "until", ">mean", ">p50", ">p95", ">p99", ">max"];
    let slow = document.slow_ms.map(|slow_ms| format!(">over {}", crate::text::time_ms(slow_ms)));
    if let Some(slow) = &slow {
        heads.extend([slow.as_str(), ">share"]);
    }
    let mut table = Table::new("response times", &heads);
    for kind in &document.kinds {
        let name = kind_name(document, &kind.protocol, &kind.kind);
        let first = if kind.protocol == "http" { "response header" } else { "first entry" };
        let last = if kind.protocol == "http" { "response" } else { "result" };
        let rows = [(first, kind.first_ms, None), (last, kind.response_ms, kind.slow)];
        let mut is_named = false;
        for (until, times, slow) in rows {
            let Some(times) = times else { continue };
            let mut cells =
                vec![Cell::words(if is_named { String::new() } else { name.clone() }), Cell::words(until)];
            is_named = true;
            cells.extend(parts(&times).map(|value| Cell::number(value, &scale)));
            if document.slow_ms.is_some() {
                match slow {
                    None => cells.extend([Cell::default(), Cell::default()]),
                    Some(slow) => cells
                        .extend([count(slow), Cell::words(percent(slow as f64 / times.count.max(1) as f64))]),
                }
            }
            table.row(cells);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// A scale of times in milliseconds.
fn scale_of(values: impl IntoIterator<Item = f64>) -> Scale {
    Quantity::Milliseconds.scale(values)
}

/// The costliest filters, bases, names and paths.
pub(super) fn rankings(document: &WireDocument, is_page: bool) -> Vec<Table> {
    let mut tables = Vec::new();
    for ranking in &document.rankings {
        let scale = scale_of(ranking.rows.iter().flat_map(|row| [row.mean_ms, row.max_ms]));
        let (mean, max) = (format!(">mean, {}", scale.unit), format!(">max, {}", scale.unit));
        let mut heads = vec![property(ranking.by), ">operations", ">total time, s", ">share", &mean, &max];
        let has_failures = ranking.rows.iter().any(|row| row.failed > 0);
        let has_slow = document.slow_ms.is_some();
        if has_failures {
            heads.push(">failed");
        }
        if has_slow {
            heads.push(">slow");
        }
        let title = format!("cost by {}", property(ranking.by));
        let is_filter = ranking.by == WireRankedBy::Filter;
        if is_filter {
            heads.push("slowest");
        }
        let mut table = Table::new(title, &heads);
        for row in &ranking.rows {
            let shown = |text: &str| if is_page { text.to_string() } else { shortened(text, TEXT_WIDTH) };
            let mut cells = vec![
                Cell::words(shown(&row.value)),
                count(row.operations),
                Cell::shown(row.total_s, crate::text::plain(row.total_s)),
                Cell::words(percent(row.total_s / ranking.total_s)),
                Cell::number(row.mean_ms, &scale),
                Cell::number(row.max_ms, &scale),
            ];
            if has_failures {
                cells.push(count(row.failed));
            }
            if has_slow {
                cells.push(count(row.slow.unwrap_or(0)));
            }
            if is_filter {
                cells.push(Cell::words(shown(&row.example)));
            }
            table.row(cells);
        }
        if (ranking.rows.len() as u64) < ranking.values {
            table.note = format!(
                "{} of {} different values, by total time, and the slowest of the others",
                ranking.rows.len(),
                model::quantity::thousands(ranking.values as f64)
            );
        }
        tables.push(table);
    }
    tables
}

/// The slowest operations.
pub(super) fn slowest(document: &WireDocument) -> Option<Table> {
    if document.slowest.is_empty() {
        return None;
    }
    let scale = scale_of(document.slowest.iter().filter_map(|operation| operation.time_ms));
    let time = format!(">time, {}", scale.unit);
    let mut table = Table::new(
        "slowest operations",
        &[">at, s", "kind", &time, "result", "?>entries", ">connection", "what"],
    );
    for operation in &document.slowest {
        table.row(vec![
            Cell::shown(operation.at_s, format!("{:.6}", operation.at_s)),
            Cell::words(kind_name(document, &operation.protocol, &operation.kind)),
            operation.time_ms.map_or_else(Cell::default, |ms| Cell::number(ms, &scale)),
            Cell::words(operation.result.clone()),
            count(operation.entries),
            count(operation.connection),
            Cell::words(shortened(&what(operation), 2 * TEXT_WIDTH)),
        ]);
    }
    Some(table)
}

/// The property that says most of an operation.
pub(super) fn what(operation: &model::wire::WireOperation) -> String {
    let of_ldap = match operation.kind.as_str() {
        "bind" => operation.name.clone(),
        "search" if operation.filter.is_empty() => operation.base.clone(),
        "search" => format!("{} below {}", operation.filter, operation.base),
        _ => operation.base.clone(),
    };
    match operation.protocol.as_str() {
        "http" => operation.path.clone(),
        _ => of_ldap,
    }
}

/// The connections with the largest total response time.
pub(super) fn connections(document: &WireDocument) -> Option<Table> {
    let top = &document.connections.top;
    if top.is_empty() {
        return None;
    }
    let scale = scale_of(top.iter().filter_map(|of| of.handshake_ms));
    let handshake = format!("?>SYN/ACK, {}", scale.unit);
    let mut table = Table::new(
        "",
        &[
            ">connection",
            "client",
            "server",
            "?protocol",
            ">operations",
            ">total time, s",
            &handshake,
            "?>sent",
            "?>received",
            ">again",
            "?>gaps",
        ],
    );
    for of in top {
        table.row(vec![
            count(of.number),
            Cell::words(of.client.clone()),
            Cell::words(of.server.clone()),
            Cell::words(if of.is_reset { format!("{}, reset", of.protocol) } else { of.protocol.clone() }),
            count(of.operations),
            Cell::shown(of.total_s, crate::text::plain(of.total_s)),
            of.handshake_ms.map_or_else(Cell::default, |ms| Cell::number(ms, &scale)),
            bytes(of.client_bytes),
            bytes(of.server_bytes),
            count(of.retransmissions),
            count(of.gaps),
        ]);
    }
    if (top.len() as u64) < document.connections.count {
        table.note = format!(
            "{} of {}, by total response time; again: segments sent again",
            top.len(),
            super::sentences::count(document.connections.count, "connection")
        );
    } else {
        table.note = "again: segments sent again".into();
    }
    Some(table)
}

/// Counts and response times at the client and on the wire.
pub(super) fn against(against: &WireAgainst) -> Vec<Table> {
    let scale = scale_of(
        against.kinds.iter().flat_map(|of| parts(&of.client_ms).into_iter().chain(parts(&of.wire_ms))),
    );
    let head = format!("time, {}", scale.unit);
    let mut table =
        Table::new("", &[head.as_str(), "seen", ">operations", ">mean", ">p50", ">p95", ">p99", ">max"]);
    for of in &against.kinds {
        let sides =
            [("at the client", of.client_count, of.client_ms), ("on the wire", of.wire_count, of.wire_ms)];
        for (at, (seen, number, times)) in sides.into_iter().enumerate() {
            let mut cells = vec![
                Cell::words(if at == 0 { of.kind.clone() } else { String::new() }),
                Cell::words(seen),
                count(number),
            ];
            cells.extend(parts(&times).map(|value| Cell::number(value, &scale)));
            table.row(cells);
        }
    }
    let counts = crate::tables::counts_of(against.counts.iter().map(|counts| (None, counts)));
    let counts = counts.map(|table| Table { title: "counts of the run".into(), ..table });
    std::iter::once(table).chain(counts).collect()
}
