//! Dependencies: the sensitivity to their delays, and the waterfall of a request.

use model::ResultDocument;
use model::result::ConfigurationSteps;
use model::sensitivity::{SensitivityAnswer, TimeMeasure};

use super::markup::{Figure, Origin, figure, table};
use crate::chart::{SeriesStyle, SweepPoint, SweepScales, SweepSeries, WaterfallBar, sweep, waterfall};
use crate::sentences::{basis, main_rows, sensitivity, step_name, where_time_goes};
use crate::text::Quantity;
use crate::{labels, tables};

/// Configurations whose waterfall is drawn.
const DRAWN_MAX: usize = 8;

/// Sensitivity and waterfalls; empty without dependencies.
pub(super) fn dependencies(document: &ResultDocument) -> String {
    let mut out = sensitivity_figure(document);
    for (at, of) in document.request_steps.iter().enumerate() {
        match of.is_ordered && at < DRAWN_MAX {
            true => out.push_str(&waterfall_figure(document, of)),
            false => out.push_str(&table(&tables::steps(document, of, false), Origin::Result)),
        }
    }
    out
}

/// The time of an operation over the delay of each dependency.
fn sensitivity_figure(document: &ResultDocument) -> String {
    let Some(numbers) = tables::sensitivity(document) else { return String::new() };
    let mut rows = main_rows(document);
    rows.retain(|row| row.answer != SensitivityAnswer::NoTraffic);
    let look = |at: usize| SeriesStyle::of(at);
    let series: Vec<SweepSeries> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| SweepSeries {
            name: row.dependency.clone(),
            look: look(at),
            points: row
                .levels
                .iter()
                .map(|level| {
                    let ends = level.trials_ms.iter().copied();
                    SweepPoint {
                        level: level.added_ms,
                        label: Quantity::Milliseconds.show(level.added_ms),
                        value: [
                            level.time_ms,
                            ends.clone().fold(f64::INFINITY, f64::min),
                            ends.fold(f64::NEG_INFINITY, f64::max),
                        ],
                    }
                })
                .collect(),
        })
        .collect();
    let title = sensitivity(document).0.unwrap_or_default();
    let time = match rows.first().map(|row| row.measure) {
        Some(TimeMeasure::Elapsed) => "Time per operation",
        _ => "Mean response time",
    };
    let chart = sweep(
        &format!("{time} against the added round trip. {title}"),
        time,
        "added round trip",
        &series,
        Quantity::Milliseconds,
        SweepScales { log_levels: false, log_values: false },
    );
    let legend: Vec<(String, SeriesStyle)> =
        rows.iter().enumerate().map(|(at, row)| (row.dependency.clone(), look(at))).collect();
    let drawn = figure(&Figure {
        title: &title,
        question: "How much longer does an operation take if one dependency is further away? A steeper line: more round trips, one after the other.",
        charts: &format!(r#"<div class="four">{chart}</div>"#),
        legend: &legend,
        numbers: String::new(),
        note: "Each point is the mean of the trials at one level, with their smallest and largest.",
    });
    drawn + &table(&numbers, Origin::Result)
}

fn waterfall_figure(document: &ResultDocument, of: &ConfigurationSteps) -> String {
    let request = &of.request;
    let mut names: Vec<&str> = Vec::new();
    for step in &request.steps {
        if !names.contains(&step.dependency.as_str()) {
            names.push(&step.dependency);
        }
    }
    // Grey is for the time of the system itself.
    let look = |name: &str| {
        let at = names.iter().position(|known| *known == name).unwrap_or(0);
        SeriesStyle::pair(at % 3, at / 3)
    };
    let mut bars = Vec::new();
    let own = |bars: &mut Vec<WaterfallBar>, name: String, end_ms: f64, takes_ms: f64| {
        if takes_ms > 0.0 {
            bars.push(WaterfallBar { name, look: None, begin_ms: end_ms - takes_ms, takes_ms });
        }
    };
    for step in &request.steps {
        own(&mut bars, "own time".into(), step.begin_ms, step.own_before_ms.mean);
        bars.push(WaterfallBar {
            name: step_name(step),
            look: Some(look(&step.dependency)),
            begin_ms: step.begin_ms,
            takes_ms: step.takes_ms.mean,
        });
    }
    own(&mut bars, "own time".into(), request.total_ms.mean, request.own_after_ms.mean);
    let sentence = where_time_goes(of).unwrap_or_default();
    let title = match document.request_steps.len() {
        1 => sentence,
        _ => {
            let name = crate::text::sentence_start(&labels::labelled(document, &of.configuration));
            format!("{name}: {}", sentence.replacen("A request", "a request", 1))
        }
    };
    figure(&Figure {
        title: &title,
        question: "Which steps does a request consist of, and how long does each take?",
        charts: &waterfall(&title, &bars),
        legend: &[],
        numbers: table(&tables::steps(document, of, false), Origin::Result),
        note: &basis(of),
    })
}
