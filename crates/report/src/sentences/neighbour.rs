//! Whether a neighbour matters: each level compared with no neighbour, and the rates that it achieved.

use model::neighbour::{FACTOR, NeighbourRate};
use model::result::{Answer, ComparisonRow, Configuration};
use model::{Level, ResultDocument};

use super::headline::{change, deciding, rows, settle};
use crate::labels;
use crate::tables;
use crate::text::{Quantity, percent, plain};

/// Whether only the neighbour was varied, and the baseline has none.
pub(super) fn is_of_neighbours(document: &ResultDocument) -> bool {
    let Some((baseline, others)) = document.configurations.split_first() else { return false };
    let is_neighbour = |of: &Configuration| {
        !of.treatment.is_side
            && matches!(of.treatment.changes.as_slice(), [only] if only.factor.0 == FACTOR)
            && !of.neighbour.is_empty()
    };
    !document.comparison.is_empty()
        && baseline.neighbour.is_empty()
        && !others.is_empty()
        && others.iter().all(is_neighbour)
}

/// The answer in short, and a sentence for each level.
pub(super) fn neighbours(document: &ResultDocument) -> (Option<String>, Vec<String>) {
    let metrics = deciding(document);
    let (mut answers, mut sentences) = (Vec::new(), Vec::new());
    for configuration in document.configurations.iter().skip(1) {
        let label = &configuration.treatment.label;
        let of_metric =
            |name: &&str| rows(document, name).into_iter().find(|row| row.configuration == *label);
        let rows: Vec<&ComparisonRow> = metrics.iter().filter_map(of_metric).collect();
        let (Some(stated), Some(main)) = (stated(configuration), rows.first()) else { continue };
        let is_changed = |row: &&ComparisonRow| matches!(row.answer, Answer::Better | Answer::Worse);
        let answer = match main.answer {
            _ if rows.iter().any(is_changed) => Matters::Yes,
            Answer::Same if rows.iter().all(|row| row.answer == Answer::Same) => Matters::No,
            _ => Matters::NotShown,
        };
        answers.push((answer, stated.clone()));
        sentences.push(level(document, configuration, &stated, main, &rows));
    }
    let short = [Matters::Yes, Matters::No, Matters::NotShown].into_iter().filter_map(|wanted| {
        let of = answers.iter().filter(|(answer, _)| *answer == wanted);
        let names: Vec<&str> = of.map(|(_, stated)| stated.as_str()).collect();
        let (last, before) = names.split_last()?;
        let names = match before {
            [] => (*last).to_string(),
            _ => format!("{} or {last}", before.join(", ")),
        };
        Some(match wanted {
            Matters::Yes => format!("A neighbour with {names} matters."),
            Matters::No => format!("A neighbour with {names} does not matter."),
            Matters::NotShown => format!("It is not shown whether a neighbour with {names} matters."),
        })
    });
    let short: Vec<String> = short.collect();
    ((!short.is_empty()).then(|| short.join(" ")), sentences)
}

/// Whether a level matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matters {
    Yes,
    No,
    NotShown,
}

/// The load of a level, such as `cpu 1`.
fn stated(of: &Configuration) -> Option<String> {
    of.treatment.changes.first().map(|change| labels::level(&change.level))
}

/// Whether one level matters, with figures; the rows of the metrics that decide, the first one first.
fn level(
    document: &ResultDocument,
    of: &Configuration,
    stated: &str,
    main: &ComparisonRow,
    rows: &[&ComparisonRow],
) -> String {
    let is_changed = |row: &&&ComparisonRow| matches!(row.answer, Answer::Better | Answer::Worse);
    let changed: Vec<&ComparisonRow> = rows.iter().filter(is_changed).copied().collect();
    let is_unclear = |row: &&&ComparisonRow| row.answer == Answer::CantTell;
    let values = |row: &ComparisonRow| {
        let metric = tables::metric(&row.metric, &document.traits);
        let [here, before] = super::headline::sides(row, metric.quantity);
        format!("{here} instead of {before} ({})", change(row))
    };
    let figures = |row: &ComparisonRow| format!("{} {}", noun(document, row), values(row));
    let text = match main.answer {
        _ if !changed.is_empty() => {
            let figures: Vec<String> = changed.into_iter().map(figures).collect();
            format!("With {stated}: {}.", figures.join("; "))
        }
        Answer::Same => {
            let unclear: Vec<&ComparisonRow> = rows.iter().filter(is_unclear).copied().collect();
            let head = match unclear.is_empty() {
                true => figures(main),
                false => format!("no difference in {} that matters: {}", noun(document, main), values(main)),
            };
            let others = unclear.into_iter().map(|row| {
                let noun = noun(document, row);
                format!(" No difference in {noun} is shown: {}.{}{}", values(row), excluded(row), settle(row))
            });
            format!("With {stated}: {head}.{}{}", excluded(main), others.collect::<String>())
        }
        _ => format!("With {stated}: {}.{}{}", figures(main), excluded(main), settle(main)),
    };
    format!("{text}{}", achieved(&of.neighbour))
}

fn noun(document: &ResultDocument, row: &ComparisonRow) -> String {
    let name = tables::metric(&row.metric, &document.traits).name;
    match row.metric.starts_with("response_ms.p") {
        true => format!("{name} response time"),
        false => name.to_string(),
    }
}

/// The change for the worse that the interval excludes.
fn excluded(row: &ComparisonRow) -> String {
    let Some((low, high)) = row.low.zip(row.high) else { return String::new() };
    let (what, share) = match row.higher_is_better {
        true => ("A reduction", 1.0 - low),
        false => ("An increase", high - 1.0),
    };
    match share > 0.0 {
        true => format!(" {what} of more than {} is excluded.", percent(share)),
        false => format!(" {what} is excluded."),
    }
}

/// The achieved rates beside the stated ones.
fn achieved(rates: &[NeighbourRate]) -> String {
    let known = rates.iter().filter_map(|rate| {
        let both = [&rate.stated, rate.achieved.as_ref()?].map(|level| level.as_number().unwrap_or(f64::NAN));
        let [stated, achieved] = both.map(|value| match rate.stated {
            // In the same unit.
            Level::BytesPerSecond(_) => Quantity::BytesPerSecond.scale(both).with_unit(value),
            Level::Rate(_) => format!("{}/s", plain(value)),
            _ => format!("{} CPUs", plain(value)),
        });
        Some(match rate.share().filter(|_| rate.is_missed()) {
            Some(share) => {
                format!("{} only {achieved}, {} of the stated {stated}", rate.load, percent(share))
            }
            None => format!("{} {achieved} (stated {stated})", rate.load),
        })
    });
    let known: Vec<String> = known.collect();
    match known.is_empty() {
        true => String::new(),
        false => format!(" Achieved: {}.", known.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::headline;
    use super::*;
    use crate::recorded;
    use model::{Change, SettingPath};

    fn rate(load: &str, stated: Level, achieved: Level) -> NeighbourRate {
        NeighbourRate { load: load.into(), stated, achieved: Some(achieved) }
    }

    /// A stored run as if its configurations were neighbours, with these answers in throughput and in p99.
    fn of(rates: &[NeighbourRate], answers: &[[(Answer, f64, f64, f64); 2]]) -> ResultDocument {
        let mut document = recorded::part("distributions", 1 + rates.len(), 2).document;
        document.comparison.retain(|row| ["rate_per_s", "response_ms.p99"].contains(&row.metric.as_str()));
        for (at, rate) in rates.iter().enumerate() {
            let configuration = &mut document.configurations[at + 1];
            let level = Level::Text(format!("{} {}", rate.load, rate.stated));
            configuration.treatment.changes = vec![Change { factor: SettingPath(FACTOR.into()), level }];
            configuration.neighbour = vec![rate.clone()];
            let label = configuration.treatment.label.clone();
            for (metric, (answer, ratio, low, high)) in
                ["rate_per_s", "response_ms.p99"].iter().zip(answers[at])
            {
                let mut rows = document.comparison.iter_mut();
                let row = rows.find(|row| row.configuration == label && row.metric == *metric).unwrap();
                let baseline = if *metric == "rate_per_s" { 40_000.0 } else { 2.0 };
                (row.answer, row.ratio, row.low, row.high) = (answer, ratio, Some(low), Some(high));
                (row.baseline, row.treatment) = (baseline, baseline * ratio);
                (row.pairs, row.replicates_to_settle, row.replicates_to_show) = (5, Some(24), None);
            }
        }
        document
    }

    #[test]
    fn the_answer_is_whether_a_neighbour_matters_with_what_is_excluded() {
        use Answer::{CantTell, Same, Worse};
        let disk = rate("disk read", Level::BytesPerSecond(5e7), Level::BytesPerSecond(4.98e7));
        let cpu = rate("cpu", Level::Number(1.0), Level::Number(0.52));
        let same = (Same, 0.999, 0.988, 1.008);
        for (rate, answers, short, expected) in [
            (
                &disk,
                [same, (Same, 1.001, 0.99, 1.012)],
                "A neighbour with disk read 50MB/s does not matter.",
                "With disk read 50MB/s: throughput 40.0 k IOPS instead of 40.0 k IOPS (-0.1 %, 95 % \
                 interval -1.2 to +0.8 %, 5 pairs). A reduction of more than 1.2 % is excluded. Achieved: disk read 49.8 MB/s (stated 50.0 MB/s).",
            ),
            (
                &disk,
                [same, (CantTell, 1.02, 0.95, 1.1)],
                "It is not shown whether a neighbour with disk read 50MB/s matters.",
                "With disk read 50MB/s: no difference in throughput that matters: 40.0 k IOPS instead of 40.0 k IOPS \
                 (-0.1 %, 95 % interval -1.2 to +0.8 %, 5 pairs). A reduction of more than 1.2 % is excluded. No difference in \
                 p99 response time is shown: 2.04 ms instead of 2.00 ms (+2 %, 95 % interval -5 to +10 %, 5 pairs). An \
                 increase of more than 10 % is excluded. About 24 replicates would settle it. Achieved: disk read 49.8 MB/s (stated 50.0 MB/s).",
            ),
            (
                &cpu,
                [(Worse, 0.5, 0.48, 0.52), (CantTell, 1.02, 0.95, 1.1)],
                "A neighbour with cpu 1 matters.",
                "With cpu 1: throughput 20.0 k IOPS instead of 40.0 k IOPS (-50.0 %, 95 % interval -52.0 to -48.0 \
                 %, 5 pairs). Achieved: cpu only 0.520 CPUs, 52 % of the stated 1.00 CPUs.",
            ),
            (
                &cpu,
                [(CantTell, 0.98, 0.9, 1.05), (CantTell, 1.02, 0.95, 1.1)],
                "It is not shown whether a neighbour with cpu 1 matters.",
                "With cpu 1: throughput 39.2 k IOPS instead of 40.0 k IOPS (-2 %, 95 % \
                 interval -10 to +5 %, 5 pairs). A reduction of more than 10 % is excluded. About 24 replicates would settle it. \
                 Achieved: cpu only 0.520 CPUs, 52 % of the stated 1.00 CPUs.",
            ),
        ] {
            let document = of(std::slice::from_ref(rate), &[answers]);
            let found = headline(&document);
            assert_eq!((found.answer.as_deref(), found.details[0].as_str()), (Some(short), expected));
        }
    }

    #[test]
    fn the_answer_is_short_and_each_level_has_its_figures() {
        let rate = |load: &str| rate(load, Level::Number(1.0), Level::Number(1.0));
        let same = (Answer::Same, 1.0, 0.99, 1.01);
        let worse = |ratio: f64| (Answer::Worse, ratio, ratio - 0.01, ratio + 0.01);
        let document = of(
            &["a", "b", "c"].map(rate),
            &[[same, same], [worse(0.9), same], [same, (Answer::Worse, 1.5, 1.4, 1.6)]],
        );
        let found = headline(&document);
        assert_eq!(
            found.answer.as_deref(),
            Some("A neighbour with b 1 or c 1 matters. A neighbour with a 1 does not matter.")
        );
        assert!(found.details[2].starts_with("With c 1: p99 response time 3.00 ms instead of"));
        let details: Vec<&str> = found.details.iter().map(|text| text.split(':').next().unwrap()).collect();
        assert_eq!(details[..3], ["With a 1", "With b 1", "With c 1"]);
        let mut other = document;
        other.configurations[0].neighbour = vec![rate("d")];
        assert!(!is_of_neighbours(&other), "the baseline has a neighbour too");
    }
}
