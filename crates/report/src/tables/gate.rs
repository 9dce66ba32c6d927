//! The table of a gate.

use model::ResultDocument;

use crate::sentences::{self, gate_word, goal_value, signed};
use crate::table::{Cell, Table};
use crate::text::percent;

/// Each metric of a gate; none without one.
pub(crate) fn gate(document: &ResultDocument) -> Option<Table> {
    let gate = document.gate.as_ref()?;
    let alarm = gate.false_alarm / gate.metrics.len().max(1) as f64;
    let interval = format!(">{} interval", percent_of_interval(alarm));
    let heads =
        ["metric", ">base", ">head", ">slower by", &interval, "?>at most", "?>finds", "?>rounds", "answer"];
    let mut table = Table::new(format!("Gate: a slowdown of {} or more", percent(gate.slowdown)), &heads);
    table.note = format!(
        "Slower by: more time per operation; at most: with a confidence of 95 %. Finds: the slowdown that these rounds show four times in five. A gate fails by chance in {} of 1000 runs.",
        (gate.false_alarm * 1000.0).round()
    );
    for line in &gate.metrics {
        let value = |value: f64| match line.pairs {
            0 => Cell::words("-"),
            _ => Cell::shown(value, goal_value(&line.metric.metric, value)),
        };
        let interval = line.low.zip(line.high);
        table.row(vec![
            Cell::words(line.metric.text.clone()),
            value(line.base),
            value(line.head),
            match line.pairs {
                0 => Cell::words("-"),
                _ => Cell::shown(line.slowdown, signed(line.slowdown)),
            },
            Cell::words(interval.map_or("-".into(), |(low, high)| sentences::interval(low, high))),
            line.at_most.map_or(Cell::words("-"), |most| Cell::shown(most, signed(most))),
            line.finds.map_or(Cell::words("-"), |finds| Cell::shown(finds, percent(finds))),
            Cell::shown(f64::from(line.pairs), line.pairs.to_string()),
            Cell::words(gate_word(line.answer)),
        ]);
    }
    Some(table)
}

/// `99.8 %`: the confidence of an interval with this probability beyond each end.
fn percent_of_interval(alarm: f64) -> String {
    let text = format!("{:.2}", 100.0 * (1.0 - 2.0 * alarm));
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}
