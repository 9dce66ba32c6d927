//! The tables of dependencies: sensitivity, and the steps of a request.

use model::ResultDocument;
use model::quantity::three_figures;
use model::result::ConfigurationSteps;
use model::sensitivity::{SensitivityAnswer, TimeMeasure};
use model::steps::Times;

use crate::chart::bar;
use crate::labels;
use crate::sentences::{basis, operation_word, step_name};
use crate::table::{Cell, Table};
use crate::text::Quantity;

/// Characters of the longest bar.
const BAR_WIDTH: usize = 20;

/// The sensitivity of each operation to each dependency; none unless delays were varied.
pub(crate) fn sensitivity(document: &ResultDocument) -> Option<Table> {
    let rows = &document.sensitivity;
    let first = rows.first()?;
    let word = operation_word(&document.traits);
    let has_several = rows.iter().any(|row| row.operation != first.operation);
    let is_counted = rows.iter().any(|row| row.exchanges.is_some());
    let mut heads = vec!["dependency", ">round trips", ">95 % interval"];
    if has_several {
        heads.insert(0, "operation");
    }
    if is_counted {
        heads.extend([">exchanges", "?>connections"]);
    }
    heads.extend(["?>undelayed", "answer"]);
    let mut table = Table::new(format!("Sensitivity to the delay of each dependency, per {word}"), &heads);
    let time = match first.measure {
        TimeMeasure::Response => "mean response time".to_string(),
        TimeMeasure::Elapsed => format!("time per {word}"),
    };
    table.note = format!("Round trips: milliseconds of {time} per millisecond of added round trip.");
    if is_counted {
        table.note += " Exchanges and connections: what the proxy counted without an added delay.";
    }
    let number =
        |value: Option<f64>| value.map_or(Cell::words("-"), |value| Cell::shown(value, three_figures(value)));
    for row in rows {
        let interval = match (row.low, row.high) {
            (Some(low), Some(high)) => number(Some(low)).then(Cell::words(" to ")).then(number(Some(high))),
            _ => Cell::words("-"),
        };
        let mut cells = vec![Cell::words(row.dependency.clone()), number(row.round_trips), interval];
        if has_several {
            cells.insert(0, Cell::words(row.operation.as_str()));
        }
        if is_counted {
            cells.extend([row.exchanges, row.connections].map(number));
        }
        cells.push(row.undelayed_ms.map_or(Cell::words("-"), milliseconds));
        cells.push(Cell::words(match row.answer {
            SensitivityAnswer::Depends => "depends",
            SensitivityAnswer::None => "none",
            SensitivityAnswer::Unclear => "can't tell",
            SensitivityAnswer::NotLinear => "not a straight line",
            SensitivityAnswer::NoTraffic => "no traffic",
        }));
        table.row(cells);
    }
    Some(table)
}

fn milliseconds(ms: f64) -> Cell {
    Cell::shown(ms, Quantity::Milliseconds.show(ms))
}

/// The steps of a request in a configuration, with the time of the system between them; without an order, the exchanges
/// with each dependency. `bars` adds bars made of characters.
pub(crate) fn steps(document: &ResultDocument, of: &ConfigurationSteps, bars: bool) -> Table {
    let place = match document.request_steps.len() {
        1 => String::new(),
        _ => format!(": {}", labels::labelled(document, &of.configuration)),
    };
    let mut table = match of.is_ordered {
        true => ordered(of, format!("Where the time of a request goes{place}"), bars),
        false => unordered(of, format!("Exchanges with each dependency{place}")),
    };
    table.note = basis(of);
    table
}

fn ordered(of: &ConfigurationSteps, title: String, bars: bool) -> Table {
    let request = &of.request;
    let mut heads = vec!["step", ">adds", ">takes", "?>first byte", ">p95"];
    heads.extend(bars.then_some(""));
    let mut table = Table::new(title, &heads);
    let largest_ms = request
        .steps
        .iter()
        .flat_map(|step| [step.adds_ms, step.own_before_ms.mean])
        .fold(request.own_after_ms.mean, f64::max);
    let mut row = |name: String, adds_ms: f64, takes: [Cell; 2], p95_ms: f64| {
        let [takes, first_byte] = takes;
        let mut cells =
            vec![Cell::words(name), milliseconds(adds_ms), takes, first_byte, milliseconds(p95_ms)];
        if bars {
            cells.push(Cell::words(bar(adds_ms, largest_ms, BAR_WIDTH)));
        }
        table.row(cells);
    };
    let nothing = || Cell::words("");
    for step in &request.steps {
        let (name, own) = (step_name(step), &step.own_before_ms);
        if own.max > 0.0 {
            row(format!("own time before {name}"), own.mean, [nothing(), nothing()], own.p95);
        }
        let takes = [step.takes_ms.mean, step.first_byte_ms].map(milliseconds);
        row(name, step.adds_ms, takes, step.takes_ms.p95);
    }
    let own = &request.own_after_ms;
    row("own time before the reply".into(), own.mean, [nothing(), nothing()], own.p95);
    let Times { mean, p95, .. } = request.total_ms;
    let mut last =
        vec![Cell::words("request"), milliseconds(mean), milliseconds(mean), nothing(), milliseconds(p95)];
    last.extend(bars.then(nothing));
    table.row(last);
    table
}

fn unordered(of: &ConfigurationSteps, title: String) -> Table {
    let mut table = Table::new(title, &["dependency", ">exchanges", ">per request", ">mean time"]);
    for one in &of.request.dependencies {
        table.row(vec![
            Cell::words(one.name.clone()),
            Cell::shown(one.exchanges as f64, Quantity::Count.show(one.exchanges as f64)),
            Cell::shown(one.per_request, three_figures(one.per_request)),
            milliseconds(one.mean_ms),
        ]);
    }
    table
}
