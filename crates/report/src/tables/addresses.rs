//! The addresses of a server that got connections in turn, each with its share.

use std::collections::BTreeMap;

use model::{Level, ResultDocument};

use crate::table::{Cell, Table};
use crate::text::{Quantity, percent};

/// The facts of a trial.
type Facts = BTreeMap<String, Level>;

/// The beginnings of the names of the facts; the address follows.
const NAMES: [&str; 3] = ["address.connections.", "address.requests.", "address.failed."];

/// What went to each address in each trial; none where no load had several.
pub(crate) fn addresses(document: &ResultDocument) -> Option<Table> {
    let trials: Vec<(&str, &Facts)> =
        document.trials.iter().map(|trial| (trial.trial.as_str(), &trial.facts)).collect();
    table(&trials)
}

fn table(trials: &[(&str, &Facts)]) -> Option<Table> {
    let several = trials.len() > 1;
    let mut heads: Vec<&str> = several.then_some("trial").into_iter().collect();
    heads.extend(["address", ">connections", ">requests", ">share", ">failed"]);
    let mut table = Table::new("addresses of the server", &heads);
    let scale = Quantity::Count.scale([0.0]);
    let number = |count: u64| Cell::number(count as f64, &scale);
    for (trial, facts) in trials {
        let counts = counts(facts);
        let all: u64 = counts.values().map(|[_, requests, _]| requests).sum();
        for (address, [connections, requests, failed]) in counts {
            let share = match all {
                0 => Cell::default(),
                all => Cell::words(percent(requests as f64 / all as f64)),
            };
            let mut cells: Vec<Cell> = several.then(|| Cell::words(*trial)).into_iter().collect();
            cells.extend([
                Cell::words(address),
                number(connections),
                number(requests),
                share,
                number(failed),
            ]);
            table.row(cells);
        }
    }
    table.note = "Warm-up included.".into();
    (!table.rows.is_empty()).then_some(table)
}

/// The connections, requests and failures of each address.
fn counts(facts: &Facts) -> BTreeMap<&str, [u64; 3]> {
    let mut found: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for (name, level) in facts {
        let of = NAMES.iter().enumerate().find_map(|(at, begin)| Some((at, name.strip_prefix(begin)?)));
        if let (Some((at, address)), Level::Count(count)) = (of, level) {
            found.entry(address).or_default()[at] = *count;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_share() {
        let mut facts = Facts::new();
        for (name, count) in [
            ("address.connections.10.0.0.1:80", 4),
            ("address.requests.10.0.0.1:80", 75),
            ("address.failed.10.0.0.1:80", 0),
            ("address.connections.10.0.0.2:80", 4),
            ("address.requests.10.0.0.2:80", 25),
            ("address.failed.10.0.0.2:80", 2),
            ("requests.retried", 9),
        ] {
            facts.insert(name.into(), Level::Count(count));
        }
        let rows = |trials: &[(&str, &Facts)]| -> Vec<String> {
            let texts = |row: &Vec<Cell>| row.iter().map(Cell::text).collect::<Vec<_>>().join(" | ");
            table(trials).map_or_else(Vec::new, |table| table.rows.iter().map(texts).collect())
        };
        let expected = ["10.0.0.1:80 | 4 | 75 | 75 % | 0", "10.0.0.2:80 | 4 | 25 | 25 % | 2"];
        assert_eq!(rows(&[("001", &facts)]), expected);
        let none = Facts::new();
        assert_eq!(rows(&[("001", &none), ("002", &facts)]), expected.map(|row| format!("002 | {row}")));
        assert!(rows(&[("001", &none)]).is_empty());
    }
}
