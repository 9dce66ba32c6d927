//! A trace of the I/O of operations: its lines while it runs, its summary, and the price of a load.

use model::ResultDocument;
use model::operation_io::{
    CommitFinding, IoKind, IoPrice, OperationIo, OperationIoCost, RowOrigin, ShareRule, TraceDocument,
    TraceInterval, TraceRow, sum_of,
};

use crate::exchange::csv_text;
use crate::labels::row;
use crate::table::{Cell, Table};
use crate::terminal::{Page, Terminal};
use crate::text::{Quantity, percent, plain, sentence_start, visible_line};

/// Which columns a line has beside those of every trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceDetail {
    /// A column for each operation.
    pub operations: bool,
    /// Columns of reads.
    pub reads: bool,
    /// Columns of writes and flushes.
    pub writes: bool,
}

/// One column of a line: its head, and the counts that it adds up, per second.
type Kinds = (&'static str, &'static [IoKind]);

const COMMON: [Kinds; 3] =
    [("syncs/s", &[IoKind::Syncs]), ("IOPS", &IoKind::REQUESTS), ("device B/s", &IoKind::BYTES)];
const READS: [Kinds; 4] = [
    ("read calls/s", &[IoKind::ReadCalls]),
    ("read B/s", &[IoKind::ReadCallBytes]),
    ("device reads/s", &[IoKind::DeviceReads]),
    ("device read B/s", &[IoKind::DeviceReadBytes]),
];
const WRITES: [Kinds; 5] = [
    ("write calls/s", &[IoKind::WriteCalls]),
    ("written B/s", &[IoKind::WriteCallBytes]),
    ("device writes/s", &[IoKind::DeviceWrites]),
    ("flushes/s", &[IoKind::DeviceFlushes]),
    ("device written B/s", &[IoKind::DeviceWriteBytes]),
];

/// What the process did and what was done for it.
fn total(rows: &[TraceRow], kinds: &[IoKind]) -> Option<u64> {
    rows.iter().filter_map(|row| row.sum_for_process(kinds)).reduce(u64::saturating_add)
}

fn operations(rows: &[TraceRow]) -> Option<u64> {
    rows.iter().filter_map(|row| row.operations).reduce(u64::saturating_add)
}

fn columns(detail: TraceDetail) -> impl Iterator<Item = Kinds> {
    let reads = READS.into_iter().filter(move |_| detail.reads);
    let writes = WRITES.into_iter().filter(move |_| detail.writes);
    COMMON.into_iter().chain(reads).chain(writes)
}

fn is_bytes(kinds: &[IoKind]) -> bool {
    kinds.iter().all(|kind| kind.unit() == model::Unit::Bytes)
}

/// Heads and cells in columns of a fixed width, so that lines of different times stand below one another.
fn in_columns(cells: impl IntoIterator<Item = (String, String)>, is_head: bool) -> String {
    let mut line = String::new();
    for (head, value) in cells {
        let width = head.chars().count().max(9);
        let text = if is_head { head } else { value };
        line.push_str(&format!("{text:>width$}  "));
    }
    line.trim_end().to_string()
}

fn cells(interval: &TraceInterval, detail: TraceDetail) -> Vec<(String, String)> {
    let rows = &interval.rows;
    let per_s = |count: Option<u64>| {
        count.map(|count| count as f64 / interval.seconds).filter(|rate| rate.is_finite())
    };
    let shown = |rate: Option<f64>| rate.map_or_else(|| "-".to_string(), plain);
    let bytes = |rate: Option<f64>| rate.map_or_else(|| "-".to_string(), |rate| Quantity::Bytes.show(rate));
    let mut cells = vec![
        ("time, s".to_string(), format!("{:.1}", interval.end_s)),
        ("ops/s".to_string(), shown(per_s(operations(rows)))),
    ];
    if detail.operations {
        let kinds = rows.iter().filter(|row| row.origin == RowOrigin::Operation);
        cells.extend(
            kinds.map(|row| (format!("{}/s", visible_line(&row.name)), shown(per_s(row.operations)))),
        );
    }
    cells.extend(columns(detail).map(|(head, kinds)| {
        let rate = per_s(total(rows, kinds));
        (head.to_string(), if is_bytes(kinds) { bytes(rate) } else { shown(rate) })
    }));
    let requests = total(rows, &IoKind::REQUESTS).zip(operations(rows).filter(|count| *count > 0));
    cells.push(("IOs/op".into(), shown(requests.map(|(requests, count)| requests as f64 / count as f64))));
    cells
}

/// The heads of the lines of a trace.
pub fn trace_heads(interval: &TraceInterval, detail: TraceDetail) -> String {
    in_columns(cells(interval, detail), true)
}

/// An interval as one line. A value that was not counted is a dash.
pub fn trace_line(interval: &TraceInterval, detail: TraceDetail) -> String {
    in_columns(cells(interval, detail), false)
}

/// The heads of the CSV: one row for each interval and each row of it.
pub fn trace_csv_heads() -> String {
    let kinds: Vec<&str> = IoKind::ALL.into_iter().map(IoKind::word).collect();
    format!("end_s,seconds,row,origin,operations,{}", kinds.join(","))
}

/// The rows of an interval as CSV. What was not counted is empty.
pub fn trace_csv(interval: &TraceInterval) -> String {
    let number = |count: Option<&u64>| count.map(u64::to_string).unwrap_or_default();
    let row = |row: &TraceRow| {
        let kinds: Vec<String> = IoKind::ALL.iter().map(|kind| number(row.io.get(kind))).collect();
        format!(
            "{:.3},{:.3},{},{},{},{}",
            interval.end_s,
            interval.seconds,
            csv_text(&row.name),
            origin_word(row.origin),
            number(row.operations.as_ref()),
            kinds.join(",")
        )
    };
    interval.rows.iter().map(row).collect::<Vec<String>>().join("\n")
}

fn origin_word(origin: RowOrigin) -> &'static str {
    match origin {
        RowOrigin::Operation => "operation",
        RowOrigin::NoOperation => "no_operation",
        RowOrigin::KernelThreads => "kernel_threads",
        RowOrigin::OtherProcesses => "other_processes",
        RowOrigin::Process => "process",
        RowOrigin::Device => "device",
    }
}

/// The summary of a trace.
pub fn trace_summary(document: &TraceDocument, options: Terminal) -> String {
    let mut page = Page::new(options);
    let facts = [format!("{:.1} s", document.io.seconds), format!("disk {}", document.devices.join(", "))];
    page.heading(&format!("{}, process {}", document.program, document.pid), &facts);
    if !document.io.costs.is_empty() {
        page.title("per operation");
        page.table(&costs(&[(Vec::new(), &document.io)], &[], ""));
    }
    page.title("in total");
    page.table(&rows(&document.io));
    page.gap();
    let methods = &document.methods;
    for (what, method) in [
        ("operations", &methods.operations),
        ("system calls", &methods.calls),
        ("requests", &methods.requests),
    ] {
        page.labelled("METHOD", &format!("{what}: {method}"));
    }
    if !methods.not_traced.is_empty() {
        page.labelled("LIMIT", &format!("the kernel was not traced: {}", methods.not_traced));
    }
    for limit in &document.limits {
        page.labelled("LIMIT", limit);
    }
    for sentence in findings(&document.io) {
        page.labelled("FOUND", &sentence);
    }
    page.finish()
}

/// What the trace shows, in sentences.
pub fn findings(io: &OperationIo) -> Vec<String> {
    let is_attributed = !io.rows.iter().any(|row| row.origin == RowOrigin::Device);
    let shared = io.share_rule.map(|rule| share_sentence(rule, is_attributed).to_string());
    io.commits.as_ref().map(commit_sentence).into_iter().chain(shared).collect()
}

/// The I/O of the operations of each server that was traced in an experiment; none where none was.
pub(crate) fn of_experiment(document: &ResultDocument) -> Option<Table> {
    let traced =
        || document.configurations.iter().flat_map(|of| of.operation_io.iter().map(move |io| (of, io)));
    let (_, first) = traced().next()?;
    let has_several = traced().any(|(_, of)| of.server != first.server);
    let mut heads: Vec<&str> = Vec::new();
    heads.extend((document.configurations.len() > 1).then_some("configuration"));
    heads.extend(has_several.then_some("server"));
    let label = |of: &str, server: &str| {
        let mut cells: Vec<Cell> = Vec::new();
        cells.extend((document.configurations.len() > 1).then(|| Cell::words(of)));
        cells.extend(has_several.then(|| Cell::words(server)));
        cells
    };
    let rows: Vec<(Vec<Cell>, &OperationIo)> =
        traced().map(|(of, io)| (label(&row(document, &of.treatment.label), &io.server), &io.io)).collect();
    let mut table = costs(&rows, &heads, "I/O of each operation");
    table.note = findings(&first.io).join(" ");
    Some(table)
}

fn commit_sentence(commits: &CommitFinding) -> String {
    let each = plain(commits.syncs as f64 / commits.writers as f64);
    let place = match commits.outside > commits.syncs / 2 {
        true => " The server syncs in a thread of its own, not in those of the operations.",
        false => "",
    };
    match commits.syncs {
        0 => format!(
            "No sync in {} operations that may write: the server does not flush them one by one, and a crash of the host can \
             lose them.",
            model::quantity::thousands(commits.writers as f64)
        ),
        _ if commits.are_grouped() => format!(
            "Group commit: {each} syncs per operation that may write. The cost of one operation falls as the load rises.{place}"
        ),
        _ => format!("No group commit: {each} syncs per operation that may write.{place}"),
    }
}

/// What "with share" means in this trace.
fn share_sentence(rule: ShareRule, is_attributed: bool) -> &'static str {
    match rule {
        ShareRule::OneOperation if !is_attributed => {
            "No I/O was attributed: \"with share\" has all requests to the disk, divided by the only frequent operation."
        }
        ShareRule::OneOperation => {
            "\"With share\" adds the I/O outside operations and the writes and flushes of kernel threads to the only frequent operation."
        }
        ShareRule::Syncs => {
            "\"With share\" divides the I/O outside operations and the writes and flushes of kernel threads by the syncs of \
             each operation."
        }
        ShareRule::WriteCalls => {
            "\"With share\" divides the I/O outside operations and the writes and flushes of kernel threads by the write \
             calls of each operation."
        }
        ShareRule::Writers => {
            "\"With share\" divides the I/O outside operations and the writes and flushes of kernel threads equally between \
             the operations that may write."
        }
        ShareRule::Regression => {
            "No I/O was attributed: the requests of several operations are known only by regression over the intervals, if \
             their rates differ between them."
        }
        ShareRule::None => "No operation may write: the I/O outside operations belongs to none of them.",
    }
}

const COST_KINDS: [(IoKind, &str); 6] = [
    (IoKind::ReadCalls, ">read calls"),
    (IoKind::WriteCalls, ">write calls"),
    (IoKind::Syncs, ">syncs"),
    (IoKind::DeviceReads, ">device reads"),
    (IoKind::DeviceWrites, ">device writes"),
    (IoKind::DeviceFlushes, ">flushes"),
];

fn number(value: Option<f64>) -> Cell {
    value.map_or_else(|| Cell::words("-"), |value| Cell::shown(value, plain(value)))
}

fn bytes(value: Option<f64>) -> Cell {
    value.map_or_else(|| Cell::words("-"), |value| Cell::shown(value, Quantity::Bytes.show(value)))
}

fn sum_each(of: &std::collections::BTreeMap<IoKind, f64>, kinds: &[IoKind]) -> Option<f64> {
    kinds.iter().filter_map(|kind| of.get(kind)).copied().reduce(|a, b| a + b)
}

/// A row for each operation, after the cells of its trace.
fn costs(traces: &[(Vec<Cell>, &OperationIo)], before: &[&str], title: &str) -> Table {
    let mut heads = before.to_vec();
    heads.extend(["operation", ">count", ">per s"]);
    let all = || traces.iter().flat_map(|(labels, io)| io.costs.iter().map(move |cost| (labels, cost)));
    // A kind that no operation has is a column of zeros; the totals have it.
    let is_used =
        |kind: &IoKind| all().any(|(_, cost)| cost.direct.get(kind).is_some_and(|each| *each > 0.0));
    let kinds: Vec<&(IoKind, &str)> = COST_KINDS.iter().filter(|(kind, _)| is_used(kind)).collect();
    heads.extend(kinds.iter().map(|(_, head)| *head));
    heads.extend([">IOs with share", ">bytes with share", ">IOs by regression"]);
    let mut table = Table::new(title, &heads);
    for (labels, cost) in all() {
        let mut cells = labels.clone();
        cells.extend([
            Cell::words(cost.operation.clone()),
            Cell::shown(cost.operations as f64, model::quantity::thousands(cost.operations as f64)),
            number(Some(cost.rate_per_s)),
        ]);
        cells.extend(kinds.iter().map(|(kind, _)| number(cost.direct.get(kind).copied())));
        cells.push(number(sum_each(&cost.with_share, &IoKind::REQUESTS)));
        cells.push(bytes(sum_each(&cost.with_share, &IoKind::BYTES)));
        cells.push(regression(cost));
        table.row(cells);
    }
    table
}

fn regression(cost: &OperationIoCost) -> Cell {
    let Some(found) = cost.requests_by_regression else { return Cell::words("-") };
    let end = |value: f64| Cell::shown(value, plain(value));
    Cell::shown(found.value, plain(found.value))
        .then(Cell::words(" ("))
        .then(end(found.low))
        .then(Cell::words(" to "))
        .then(end(found.high))
        .then(Cell::words(")"))
}

/// The counts of each row that did something.
fn rows(io: &OperationIo) -> Table {
    let known = |kind: &IoKind| io.rows.iter().any(|row| row.io.contains_key(kind));
    let kinds: Vec<&(IoKind, &str)> = COST_KINDS.iter().filter(|(kind, _)| known(kind)).collect();
    let mut heads = vec!["by", ">operations"];
    heads.extend(kinds.iter().map(|(_, head)| *head));
    heads.extend([">device bytes", ">share of IOs"]);
    let mut table = Table::new("", &heads);
    let all: f64 =
        io.rows.iter().filter_map(|row| sum_of(&row.io, &IoKind::REQUESTS)).map(|sum| sum as f64).sum();
    let count = |value: Option<u64>| {
        value.map_or_else(
            || Cell::words("-"),
            |value| Cell::shown(value as f64, model::quantity::thousands(value as f64)),
        )
    };
    for row in &io.rows {
        let is_idle = row.operations.unwrap_or(0) == 0 && row.io.values().all(|value| *value == 0);
        if is_idle {
            continue;
        }
        let requests = sum_of(&row.io, &IoKind::REQUESTS);
        let mut cells = vec![Cell::words(row.name.clone()), count(row.operations)];
        cells.extend(kinds.iter().map(|(kind, _)| count(row.io.get(kind).copied())));
        cells.push(bytes(sum_of(&row.io, &IoKind::BYTES).map(|sum| sum as f64)));
        cells.push(match requests {
            Some(requests) if all > 0.0 => {
                let share = requests as f64 / all;
                Cell::shown(share, percent(share))
            }
            _ => Cell::words("-"),
        });
        table.row(cells);
    }
    table
}

/// What a load needs of the device.
pub fn io_price(price: &IoPrice, options: Terminal) -> String {
    let mut page = Page::new(options);
    page.heading(&price.goal.text, &[format!("disk {}", price.devices.join(", "))]);
    let utilized = format!(">at {:.0} % utilization", 100.0 * price.planned_share);
    let mut table = Table::new("", &["of the device, per second", ">for the load", &utilized]);
    for amount in &price.amounts {
        let Some(kind) = amount.kind else { continue };
        let show = match kind.unit() {
            model::Unit::Bytes => bytes,
            _ => number,
        };
        let name = sentence_start(&kind.word().replace("device_", "").replace('_', " "));
        table.row(vec![
            Cell::words(name),
            show(Some(amount.for_load_per_s)),
            show(Some(amount.with_headroom_per_s)),
        ]);
    }
    page.table(&table);
    page.gap();
    for text in &price.warnings {
        page.labelled("WARNING", text);
    }
    page.strong_label("ANSWER", &price_answer(price));
    page.finish()
}

/// The answer in a sentence.
pub fn price_answer(price: &IoPrice) -> String {
    format!(
        "For {} buy {} IOPS and {}/s. That is {:.0} % headroom: the load uses {} IOPS and {}/s, {:.0} % of them.",
        price.goal.text,
        plain(price.requests.with_headroom_per_s),
        Quantity::Bytes.show(price.bytes.with_headroom_per_s),
        100.0 * (1.0 - price.planned_share),
        plain(price.requests.for_load_per_s),
        Quantity::Bytes.show(price.bytes.for_load_per_s),
        100.0 * price.planned_share,
    )
}

#[cfg(test)]
mod tests;
