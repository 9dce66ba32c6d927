//! What one operation costs in each configuration, and why one configuration is faster than another.

use std::ops::RangeInclusive;

use model::ResultDocument;
use model::cost::{CostKind, CostOwner, CostPart, Difference, DifferencePart, OperationCost};
use model::run::OperationUnit;
use model::{Estimate, Operation, Unit};

use crate::labels;
use crate::table::{Cell, Table};
use crate::tables::SIDE_BY_SIDE;
use crate::text::{Quantity, capitalized};

/// The name of a part of a cost.
pub(crate) fn kind_name(kind: CostKind) -> &'static str {
    match kind {
        CostKind::UserCpu => "CPU (user)",
        CostKind::SystemCpu => "CPU (kernel)",
        CostKind::Ready => "waiting for a CPU",
        CostKind::Transfers => "blocked on file I/O",
        CostKind::PageFaults => "blocked on page faults",
        CostKind::FlushWait => "blocked on flushes",
        CostKind::Lock => "waiting for a lock",
        CostKind::Downstream => "waiting for another service",
        CostKind::Asleep => "asleep (timer)",
        CostKind::OtherWait => "waiting for something else",
        CostKind::AtDevice => "at the device",
        CostKind::Reads => "reads",
        CostKind::Writes => "writes",
        CostKind::Flushes => "flushes",
        CostKind::ReadBytes => "bytes read",
        CostKind::WrittenBytes => "bytes written",
        CostKind::ReceivedBytes => "bytes received",
        CostKind::SentBytes => "bytes sent",
        CostKind::Segments => "TCP segments sent",
        CostKind::ReadCalls => "read calls",
        CostKind::WriteCalls => "write calls",
        CostKind::MinorFaults => "minor page faults",
        CostKind::MajorFaults => "major page faults",
        CostKind::VoluntarySwitches => "voluntary context switches",
        CostKind::InvoluntarySwitches => "involuntary context switches",
        CostKind::PeakBytes => "peak memory",
    }
}

pub(crate) fn payer_name(payer: &CostOwner) -> String {
    match payer {
        CostOwner::Process(name) | CostOwner::Device(name) => labels::instance(name),
        CostOwner::Host => "host".into(),
        CostOwner::Generator => "load generator".into(),
    }
}

fn quantity(kind: CostKind) -> Quantity {
    match kind.unit() {
        Unit::Seconds => Quantity::Seconds,
        Unit::Bytes => Quantity::Bytes,
        _ => Quantity::Plain,
    }
}

/// An amount of one operation: `85.2 µs`, `1.00`, `4.00 KiB`.
pub(crate) fn amount(kind: CostKind, value: f64) -> String {
    match kind.unit() {
        // Below 1 in 1000, the number of operations per unit is clearer.
        Unit::Count if value > 0.0 && value < 0.001 => format!("1 in {}", Quantity::Plain.show(1.0 / value)),
        _ => quantity(kind).show(value),
    }
}

/// The noun for one operation in this result: `object`, `operation`, or the name of the step.
fn operation_name(document: &ResultDocument, operation: &Operation) -> String {
    match operation {
        Operation::Named(name) if document.traits.unit == OperationUnit::Launch => format!("{name} launch"),
        Operation::Named(name) => name.clone(),
        Operation::All => {
            let only = document.trials.first().filter(|trial| trial.operations.len() == 1);
            let only = only.and_then(|trial| trial.operations.first());
            only.map_or_else(|| "operation".into(), |operation| operation.name.to_string())
        }
    }
}

/// The operations whose cost is known: all together first, then in the order they first appear.
fn operations(document: &ResultDocument) -> Vec<&Operation> {
    let mut found: Vec<&Operation> = Vec::new();
    for cost in document.configurations.iter().flat_map(|configuration| &configuration.costs) {
        if !found.contains(&&cost.operation) {
            found.push(&cost.operation);
        }
    }
    found.sort_by_key(|operation| **operation != Operation::All);
    found
}

/// One table for each operation: a column for each configuration, at most as many as stand side by side.
pub(crate) fn costs(document: &ResultDocument) -> Vec<Table> {
    operations(document).into_iter().filter_map(|operation| of_operation(document, operation)).collect()
}

fn of_operation(document: &ResultDocument, operation: &Operation) -> Option<Table> {
    let several = document.configurations.len() > 1;
    let columns: Vec<(usize, &OperationCost)> = document
        .configurations
        .iter()
        .enumerate()
        .filter_map(|(at, configuration)| {
            Some((at, configuration.costs.iter().find(|cost| cost.operation == *operation)?))
        })
        .take(SIDE_BY_SIDE)
        .collect();
    let mut keys: Vec<(CostKind, &CostOwner)> = Vec::new();
    for part in columns.iter().flat_map(|(_, cost)| &cost.parts) {
        if !keys.contains(&(part.kind, &part.of)) {
            keys.push((part.kind, &part.of));
        }
    }
    keys.sort();
    let names: Vec<String> = columns
        .iter()
        .map(
            |(at, _)| {
                if several { format!(">{}", labels::head(document, *at)) } else { ">per operation".into() }
            },
        )
        .collect();
    let mut heads = vec![if several { labels::corner(document) } else { "" }, ""];
    heads.extend(names.iter().map(String::as_str));
    let title = format!("cost of one {}", operation_name(document, operation));
    let mut table = Table::new(title, &heads);
    let mut row = |payer: String, name: &str, cells: Vec<Cell>| {
        table.row([Cell::words(payer), Cell::words(name)].into_iter().chain(cells).collect());
    };
    let time =
        |cost: &OperationCost| Cell::shown(cost.time_s.value, Quantity::Seconds.show(cost.time_s.value));
    row(String::new(), "time", columns.iter().map(|(_, cost)| time(cost)).collect());
    for (kind, payer) in keys {
        let of = |cost: &OperationCost| -> Cell {
            let part = cost.parts.iter().find(|part| part.kind == kind && part.of == *payer);
            part.map_or_else(|| Cell::words("-"), cost_cell)
        };
        row(payer_name(payer), kind_name(kind), columns.iter().map(|(_, cost)| of(cost)).collect());
    }
    let mut notes: Vec<String> = Vec::new();
    let all = document.configurations.len();
    if all > SIDE_BY_SIDE {
        // Fewer have their letters explained above all tables.
        let letters = labels::letters(document).into_iter().enumerate();
        let shown = letters.filter(|(at, _)| columns.iter().any(|(shown, _)| shown == at));
        notes.extend(shown.map(|(_, line)| format!("{}.", line.replacen("  ", ": ", 1))));
        notes.push(format!(
            "The first {} of {all} configurations; the others are compared below.",
            columns.len()
        ));
    }
    let most = columns.iter().map(|(_, cost)| explained_time(cost) / cost.time_s.value).fold(0.0, f64::max);
    if most > 1.2 {
        notes.push("The times of parallel threads can add up to more than the time of an operation.".into());
    } else if (0.0..0.8).contains(&most) {
        notes.push(
            "The parts add up to less than the time: the rest was spent in something that was not watched."
                .into(),
        );
    }
    table.note = notes.join(" ");
    (table.rows.len() > 1).then_some(table)
}

fn cost_cell(part: &CostPart) -> Cell {
    Cell::shown(part.each.value, amount(part.kind, part.each.value))
}

/// The times of all threads of the system, added up; at the devices, where no threads are known.
fn explained_time(cost: &OperationCost) -> f64 {
    let times = |is_of: fn(&CostOwner) -> bool| -> f64 {
        let parts = cost.parts.iter().filter(|part| part.kind.is_time() && is_of(&part.of));
        parts.map(|part| part.each.value).sum()
    };
    let of_threads = times(|of| matches!(of, CostOwner::Process(_)));
    if of_threads > 0.0 { of_threads } else { times(|of| matches!(of, CostOwner::Device(_))) }
}

/// One table for each configuration and operation that differs from the baseline.
pub(crate) fn differences(document: &ResultDocument) -> Vec<Table> {
    document.differences.iter().filter_map(|difference| one_difference(document, difference)).collect()
}

fn one_difference(document: &ResultDocument, difference: &Difference) -> Option<Table> {
    if difference.times.is_empty() && difference.counts.is_empty() {
        return None;
    }
    let name = operation_name(document, &difference.operation);
    let configuration = labels::labelled(document, &difference.configuration);
    let title = format!("{configuration}: cost of one {name} compared with the baseline");
    let heads = ["", "part", ">baseline", ">this", ">difference", ">95 % interval"];
    let mut table = Table::new(title, &heads);
    let shown = |kind: CostKind, value: f64| Cell::shown(value, amount(kind, value));
    let mut row = |part: &DifferencePart| {
        let mut cells = vec![
            Cell::words(payer_name(&part.of)),
            Cell::words(kind_name(part.kind)),
            shown(part.kind, part.baseline),
            shown(part.kind, part.treatment),
        ];
        cells.extend(change(part.kind, &part.change));
        table.row(cells);
    };
    // What is done once in a thousand operations or less explains no difference of an operation.
    let is_rare =
        |part: &&DifferencePart| part.kind.unit() == Unit::Count && part.baseline.max(part.treatment) < 0.001;
    difference.times.iter().chain(difference.counts.iter().filter(|part| !is_rare(part))).for_each(&mut row);
    let empty = Cell::default;
    let [unexplained, _] = change(
        CostKind::UserCpu,
        &Estimate {
            value: difference.unexplained_s,
            low: difference.unexplained_s,
            high: difference.unexplained_s,
        },
    );
    table.row(vec![empty(), Cell::words("not explained"), empty(), empty(), unexplained, empty()]);
    let mut total = vec![empty(), Cell::words("total"), empty(), empty()];
    total.extend(change(CostKind::UserCpu, &difference.time_s));
    table.row(total);
    Some(table)
}

/// A difference with its unit, and its interval in the same unit.
fn change(kind: CostKind, change: &Estimate) -> [Cell; 2] {
    let scale = quantity(kind).scale([change.value]);
    let signed = |value: f64| {
        let number = scale.number(value.abs());
        let is_zero = number.trim_start_matches(['0', '.']).is_empty();
        let sign = if is_zero {
            ""
        } else if value < 0.0 {
            "-"
        } else {
            "+"
        };
        format!("{sign}{number}")
    };
    let unit = if scale.unit.is_empty() { String::new() } else { format!(" {}", scale.unit) };
    let interval = match change.low == change.high {
        true => Cell::words("none: one pair"),
        false => Cell::shown(change.low, signed(change.low))
            .then(Cell::words(" to "))
            .then(Cell::shown(change.high, signed(change.high))),
    };
    [Cell::shown(change.value, format!("{}{unit}", signed(change.value))), interval]
}

/// Ratios of throughput too close to 1 to ask why.
const NEARLY_SAME: RangeInclusive<f64> = 0.97..=1.03;

/// Why each configuration is faster or slower than the baseline, in a sentence each; none where many are compared: of these
/// the tables are clearer.
pub(crate) fn whys(document: &ResultDocument) -> Vec<String> {
    let is_few = document.configurations.len() <= SIDE_BY_SIDE;
    let differ = document.differences.iter().filter(|each| is_few && is_worth_asking(document, each));
    let said = |difference: &Difference| {
        let label = labels::labelled(document, &difference.configuration);
        why(document, difference).map(|why| format!("{label}, {why}"))
    };
    differ.filter_map(said).collect()
}

/// The same of one configuration, by its label, without its name.
pub(crate) fn whys_of(document: &ResultDocument, label: &str) -> Vec<String> {
    let differ = document.differences.iter().filter(|each| each.configuration == label);
    differ
        .filter(|each| is_worth_asking(document, each))
        .filter_map(|each| why(document, each))
        .map(|why| capitalized(&why))
        .collect()
}

/// Whether throughput differs by enough to ask why; of a mix the parts of each operation say more than those of all together.
fn is_worth_asking(document: &ResultDocument, difference: &Difference) -> bool {
    let named = |each: &Difference| each.operation != Operation::All && !each.times.is_empty();
    let in_parts = difference.operation == Operation::All
        && document
            .differences
            .iter()
            .any(|each| each.configuration == difference.configuration && named(each));
    !NEARLY_SAME.contains(&difference.rate_ratio) && !in_parts
}

/// Why a configuration is faster or slower, in a sentence: the parts that differ most, in the direction of the difference.
fn why(document: &ResultDocument, difference: &Difference) -> Option<String> {
    let name = operation_name(document, &difference.operation);
    let faster = difference.rate_ratio >= 1.0;
    // An interval with zero in it may be chance; one pair has none.
    let is_shown = |change: &Estimate| change.low == change.high || change.low > 0.0 || change.high < 0.0;
    // The change is the mean over pairs; medians of all trials that went the other way would contradict it.
    let agrees = |part: &DifferencePart| (part.treatment < part.baseline) == (part.change.value < 0.0);
    let same_way = |part: &&DifferencePart| {
        (part.change.value < 0.0) == faster && is_shown(&part.change) && agrees(part)
    };
    let changed = |part: &DifferencePart| {
        let verb = if part.change.value < 0.0 { "fell" } else { "rose" };
        let [before, after] = [part.baseline, part.treatment].map(|value| amount(part.kind, value));
        let what = match part.kind {
            CostKind::AtDevice => format!("time at {}", payer_name(&part.of)),
            kind => format!("{} of {}", kind_name(kind), payer_name(&part.of)),
        };
        format!("{what} {verb} from {before} to {after}")
    };
    let times = difference.times.iter().filter(same_way).take(2);
    let is_io =
        |part: &&DifferencePart| matches!(part.kind, CostKind::Flushes | CostKind::Reads | CostKind::Writes);
    // A request of every thousandth operation explains nothing: other programs send such.
    let is_much = |part: &&DifferencePart| part.baseline.max(part.treatment) >= 0.001;
    let counts = difference.counts.iter().filter(same_way).filter(is_io).filter(is_much);
    // A flush waits for the device; of reads and writes many go together.
    let counts = counts.max_by_key(|part| part.kind);
    let server = crate::tables::server_part(document, &difference.configuration, faster);
    let of_server =
        server.filter(|_| difference.operation == Operation::All || document.traits.derived.is_empty());
    let of_server = of_server.map(|(part, before, after)| {
        let verb = if after < before { "fell" } else { "rose" };
        let shown = |value: f64| Quantity::Milliseconds.show(value);
        format!("`{part}` of the server {verb} from {} to {}", shown(before), shown(after))
    });
    let parts: Vec<String> = of_server.into_iter().chain(times.chain(counts).map(changed)).collect();
    (!parts.is_empty()).then(|| format!("per {name}: {}.", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    #[test]
    fn costs_and_their_differences() {
        let document = recorded::run("sync").document;
        let options = crate::Terminal { verbose: true, ..crate::Terminal::default() };
        let page = crate::terminal(&document, options);
        let begin = page.find(" cost of one ").unwrap();
        let end = page.find(" every trial").unwrap();
        insta::assert_snapshot!(&page[begin..end]);
        let said = whys(&document);
        assert!(!said.is_empty() && said.len() <= document.differences.len(), "{said:?}");
        // The headline has those of the best configuration, without its name.
        let of_best = crate::sentences::headline(&document).why;
        assert!(!of_best.is_empty());
        for why in of_best {
            let why = why.strip_prefix("Per ").unwrap();
            assert!(said.iter().any(|said| said.ends_with(why)), "{why}");
        }
    }

    #[test]
    fn what_fell_is_less_than_before() {
        let mut checked = 0;
        for (name, run) in recorded::all() {
            for said in whys(&run.document) {
                for part in said.split("; ") {
                    let (verb, numbers) = match part.split_once(" fell from ") {
                        Some((_, numbers)) => ("fell", numbers),
                        None => ("rose", part.split_once(" rose from ").unwrap().1),
                    };
                    let (before, after) = numbers.split_once(" to ").unwrap();
                    assert_ne!(before, after.trim_end_matches('.'), "{name}: {part}");
                    let differences = run.document.differences.iter();
                    let mut parts = differences.flat_map(|each| each.times.iter().chain(&each.counts));
                    let after = after.trim_end_matches('.');
                    let shown = parts.any(|part| {
                        let text = |value| amount(part.kind, value).trim_end_matches('.').to_string();
                        text(part.baseline) == before
                            && text(part.treatment) == after
                            && (part.treatment < part.baseline) == (verb == "fell")
                    });
                    assert!(shown, "{name}: {part}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 0);
    }

    #[test]
    fn what_may_be_chance_is_no_reason() {
        let mut checked = 0;
        for (name, run) in recorded::whole() {
            let document = &run.document;
            for difference in document.differences.iter().filter(|each| why(document, each).is_some()) {
                let said = |difference: &Difference| why(document, difference).unwrap_or_default();
                let is_named = |part: &&DifferencePart| {
                    said(difference).contains(&format!(
                        "{} of {} ",
                        kind_name(part.kind),
                        payer_name(&part.of)
                    ))
                };
                let Some(at) = difference.times.iter().position(|part| is_named(&part)) else { continue };
                // The same part with an interval that holds zero.
                let mut chance = difference.clone();
                let part = &mut chance.times[at];
                (part.change.low, part.change.high) = (-part.change.value.abs(), part.change.value.abs());
                let part = format!("{} of {} ", kind_name(part.kind), payer_name(&part.of));
                assert!(!said(&chance).contains(&part), "{name}: {}", said(&chance));
                checked += 1;
            }
        }
        assert!(checked > 0);
    }

    #[test]
    fn every_cost_of_the_page_is_in_the_json() {
        let recorded::Recorded { document, study } = recorded::run("sync");
        let json: serde_json::Value = serde_json::from_str(&crate::json(&document)).unwrap();
        let part = &json["configurations"][1]["costs"][0]["parts"][0];
        assert!(part["kind"].is_string(), "{part}");
        let page = crate::html(&document, &study);
        for value in [
            part["each"]["value"].as_f64().unwrap(),
            json["differences"][0]["unexplained_s"].as_f64().unwrap(),
        ] {
            let value = crate::html::six_digits(value);
            assert!(page.contains(&format!("<data value={value}>")), "{value}");
        }
    }
}
