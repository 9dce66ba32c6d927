//! Configurations against one another: intervals, percentile curves, sweeps.

use std::collections::BTreeSet;

use model::result::{ComparisonRow, Curve, CurvePoint, Direction, Operation};
use model::study::new_histogram;
use model::{Goal, ResultDocument, RunRecord, Study};

use super::markup::{Figure, Origin, figure, table};
use crate::chart::{
    Dot, ForestRow, LoadCurvePoint, LoadCurveSeries, PercentileCurve, ReferencePoint, SeriesStyle,
    SweepPoint, SweepScales, SweepSeries, dots, forest, load_curve, percentile_points, percentiles, sweep,
};
use crate::table::{Cell, Table};
use crate::tables;
use crate::text::{Quantity, RatioStyle, capitalized, plural, rate_word, sentence_start, shortened};
use crate::{labels, sentences};

/// Maximum number of series in a readable chart.
const MOST_SERIES: usize = 8;
/// Maximum number of rows in a chart of intervals.
const MOST_DOTS: usize = 40;

/// Side by side: the chart of intervals, the sentences, the tables.
pub(super) fn comparison(document: &ResultDocument) -> String {
    if document.comparison.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    if document.configurations.len() <= tables::SIDE_BY_SIDE {
        let letters = labels::letters(document);
        if !letters.is_empty() {
            let items: String =
                letters.iter().map(|line| format!("<li>{}</li>", crate::chart::escape(line))).collect();
            out.push_str(&format!("<ul class=\"plain\">{items}</ul>"));
        }
        match document.configurations.as_slice() {
            [_, other] => {
                let side_by_side = tables::pair(document, &other.treatment.label);
                out.push_str(&table(&side_by_side, Origin::Result));
            }
            _ => out.push_str(&table(&tables::medians(document), Origin::Result)),
        }
    }
    let few = document.configurations.len() <= tables::SIDE_BY_SIDE;
    let numbers: String = tables::compared_metrics(document)
        .into_iter()
        .map(|name| {
            let mut numbers = tables::against_baseline(document, name);
            numbers.title = capitalized(&tables::metric(name, &document.traits).name);
            table(&numbers, Origin::Result)
        })
        .collect();
    if document.comparison.iter().all(|row| row.low.is_none()) {
        out.push_str("<p>Each configuration ran once, so no ratio has an interval: a difference may be noise. Set two replicates or more.</p>");
        out.push_str(&format!("<details><summary>Ratios</summary>{numbers}</details>"));
        return out;
    }
    // Metric by metric, so that the configurations stand next to one another.
    let rows: Vec<&ComparisonRow> = tables::compared_metrics(document)
        .into_iter()
        .filter(|name| few || *name == tables::main_metric(document))
        .flat_map(|name| document.comparison.iter().filter(move |row| row.metric == name))
        .filter(|row| row.ratio.is_finite())
        .take(MOST_DOTS)
        .collect();
    let drawn: Vec<Dot> = rows.iter().map(|row| dot(document, row, few)).collect();
    let label = format!(
        "Ratios to the baseline with their 95 % intervals. {}",
        drawn.iter().map(|dot| format!("{}: {}.", dot.name, dot.answer)).collect::<Vec<_>>().join(" ")
    );
    let band = document.comparison.iter().any(|row| row.smallest_change.is_some());
    let names = tables::compared_metrics(document);
    let is_compared = |row: &&ComparisonRow| match few {
        true => names.contains(&row.metric.as_str()),
        false => row.metric == tables::main_metric(document),
    };
    let all = document.comparison.iter().filter(is_compared).count();
    let mut note = String::new();
    if band {
        note.push_str("Shaded: changes too small to matter. An interval inside the shade: the same. One that crosses its edge and includes 1: no difference shown. ");
    }
    if let Some(row) = rows.first() {
        note.push_str(&format!("Intervals: {}. Arrow: the interval continues off the chart. ", row.method));
    }
    if rows.len() < all {
        note.push_str(&format!("Showing {} of {all}; the numbers below have all.", rows.len()));
    }
    out.push_str(&figure(&Figure {
        title: &comparison_title(document),
        question: "Which configuration is better, and how certain is it? Each dot is a ratio to the baseline with its 95 % interval.",
        charts: &dots(&label, &drawn),
        legend: &[],
        numbers,
        note: note.trim_end(),
    }));
    out
}

/// Characters for which there is place beside a dot.
const DOT_NAME_CHARS: usize = 44;

fn dot(document: &ResultDocument, row: &ComparisonRow, few: bool) -> Dot {
    let at = document
        .configurations
        .iter()
        .position(|each| each.treatment.label == row.configuration)
        .unwrap_or(1);
    let metric = tables::metric(&row.metric, &document.traits).name;
    let interval = row.low.zip(row.high).filter(|(low, high)| low.is_finite() && high.is_finite());
    let style = RatioStyle::for_ratios([row.ratio]);
    let name = match (few, document.configurations.len()) {
        (true, 2) => metric,
        (true, _) => {
            let left = DOT_NAME_CHARS.saturating_sub(metric.chars().count() + 2);
            format!("{metric}, {}", shortened(&labels::row(document, &row.configuration), left))
        }
        (false, _) => shortened(&row.configuration, DOT_NAME_CHARS),
    };
    Dot {
        name,
        look: SeriesStyle::of(if few { at.saturating_sub(1) } else { 0 }),
        ratio: row.ratio,
        interval,
        smallest_change: row.smallest_change,
        answer: format!("{}  {}", row.answer.word(), style.show(row.ratio, interval)),
    }
}

/// The result of the comparison, in one sentence.
fn comparison_title(document: &ResultDocument) -> String {
    use model::result::Answer;
    let few = document.configurations.len() <= tables::SIDE_BY_SIDE;
    let noun = tables::metric(tables::main_metric(document), &document.traits).name;
    if !few {
        let count = |answer: Answer| {
            document
                .comparison
                .iter()
                .filter(|row| row.metric == tables::main_metric(document) && row.answer == answer)
                .count()
        };
        return format!(
            "In {noun}, of {}: {} better than the baseline, {} worse, {} the same, {} unclear",
            plural(document.configurations.len().saturating_sub(1), "configuration"),
            count(Answer::Better),
            count(Answer::Worse),
            count(Answer::Same),
            count(Answer::CantTell)
        );
    }
    if document.configurations.len() > 2 {
        let parts: Vec<String> = document
            .comparison
            .iter()
            .filter(|row| row.metric == tables::main_metric(document))
            .map(|row| {
                let at =
                    document.configurations.iter().position(|each| each.treatment.label == row.configuration);
                let letter = labels::configuration(document, at.unwrap_or(1));
                match row.answer {
                    Answer::Better | Answer::Worse => {
                        let style = RatioStyle::for_ratios([row.ratio]);
                        format!(
                            "{letter} is {} ({})",
                            row.answer.word(),
                            style.show(row.ratio, row.low.zip(row.high))
                        )
                    }
                    Answer::Same => format!("{letter} is the same"),
                    Answer::CantTell => format!("{letter} shows no difference"),
                }
            })
            .collect();
        return format!("In {noun} {}", parts.join(", "));
    }
    let mut parts = Vec::new();
    let shown = tables::compared_metrics(document);
    for (at, configuration) in document.configurations.iter().enumerate().skip(1) {
        let rows = || {
            let rows = document.comparison.iter();
            let rows = rows.filter(|row| row.configuration == configuration.treatment.label);
            rows.filter(|row| shown.contains(&row.metric.as_str()))
        };
        let mut words = Vec::new();
        for answer in [Answer::Better, Answer::Worse, Answer::Same, Answer::CantTell] {
            let names: Vec<String> = rows()
                .filter(|row| row.answer == answer)
                .map(|row| tables::metric(&row.metric, &document.traits).name)
                .collect();
            if !names.is_empty() {
                let word = if answer == Answer::CantTell { "no difference shown" } else { answer.word() };
                words.push(format!("{word} in {}", names.join(", ")));
            }
        }
        parts.push(
            format!("{} is {}", sentence_start(&labels::configuration(document, at)), words.join("; "))
                .replace("is no difference", "shows no difference"),
        );
    }
    parts.join(". ")
}

/// The configurations whose curves are drawn: all, or the baseline and some spread evenly over the rest.
fn drawn_configurations(document: &ResultDocument) -> Vec<usize> {
    let count = document.configurations.len();
    match count <= MOST_SERIES {
        true => (0..count).collect(),
        false => {
            let spread = (0..6).map(|step| step * (count - 1) / 5);
            spread.collect::<BTreeSet<usize>>().into_iter().collect()
        }
    }
}

/// Percentile curves: every configuration, or every operation when there is only one.
pub(super) fn tails(document: &ResultDocument, study: &Study) -> String {
    let record = |id: &str| study.runs.iter().find(|record| record.run.trial.id() == id);
    let mut curves: Vec<PercentileCurve> = Vec::new();
    let mut add =
        |name: String, at: usize, records: &[&RunRecord], operation: Option<&str>, service: bool| {
            let mut sum = new_histogram();
            for histograms in records.iter().flat_map(|record| {
                record.histograms.iter().filter(|(name, _)| match operation {
                    Some(operation) => name.as_str() == operation,
                    None => record.histograms.len() == 1 || name.as_str() != Operation::ALL,
                })
            }) {
                let part = if service { &histograms.1.service } else { &histograms.1.response };
                // The sum grows as needed, so adding cannot fail; if it did, the curve would stop short.
                let _ = sum.add(part);
            }
            let points = percentile_points(&sum);
            if points.len() > 1 {
                curves.push(PercentileCurve { name, look: SeriesStyle::of(at), points });
            }
        };
    let several = document.configurations.len() > 1;
    if several {
        for (look, at) in drawn_configurations(document).into_iter().enumerate() {
            let configuration = &document.configurations[at];
            let records: Vec<&RunRecord> = configuration.trials.iter().filter_map(|id| record(id)).collect();
            let name = match document.configurations.len() <= tables::SIDE_BY_SIDE {
                true => labels::configuration(document, at),
                false => configuration.treatment.label.clone(),
            };
            add(name, look, &records, None, false);
        }
    } else {
        // Trials of a proof had a changed resource: they belong to no configuration.
        let trials = document.configurations.first().map_or(&[][..], |only| &only.trials);
        let records: Vec<&RunRecord> = trials.iter().filter_map(|id| record(id)).collect();
        let names: BTreeSet<&str> = records
            .iter()
            .flat_map(|record| record.histograms.keys().map(String::as_str))
            .filter(|name| *name != Operation::ALL)
            .collect();
        for (at, name) in names.iter().take(3).enumerate() {
            add(format!("{name}, response"), at, &records, Some(name), false);
        }
        let at = names.len().min(3);
        add("all, service".into(), at, &records, None, true);
    }
    if curves.is_empty() {
        return String::new();
    }
    let goals = reference_points(study);
    let pooled = document.configurations.iter().any(|each| each.trials.len() > 1);
    let title = tail_title(&curves, pooled);
    let legend: Vec<(String, SeriesStyle)> =
        curves.iter().map(|curve| (curve.name.clone(), curve.look)).collect();
    let mut note = "A curve ends where fewer than ten operations are slower.".to_string();
    if pooled {
        note.push_str(
            " Each curve combines the operations of all trials of a configuration; the tables of \
            configurations have the median of the trials.",
        );
    }
    let drawn = drawn_configurations(document).len();
    if several && drawn < document.configurations.len() {
        note.push_str(&format!(" Showing {drawn} of {} configurations.", document.configurations.len()));
    }
    figure(&Figure {
        title: &title,
        question: "How slow are the slowest operations? Response time against the share of operations that were faster.",
        charts: &percentiles(&format!("Percentile curves. {title}."), &curves, &goals),
        legend: &legend,
        numbers: table(&percentile_table(&curves), Origin::Record),
        note: &note,
    })
}

const SHOWN: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// The point of a curve nearest to a quantile, if the curve reaches it.
fn reached(curve: &PercentileCurve, quantile: f64) -> Option<f64> {
    let reaches = curve.points.last().is_some_and(|point| point.0 >= quantile - 1e-9);
    let at = curve.points.iter().position(|point| point.0 >= quantile - 1e-9)?;
    reaches.then(|| curve.points[at].1)
}

fn percentile_table(curves: &[PercentileCurve]) -> Table {
    let values = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let scale = Quantity::Milliseconds.scale(values());
    let first = format!("response, {}", scale.unit);
    let mut heads: Vec<String> = vec![first];
    heads.extend(SHOWN.map(|(name, _)| format!(">{name}")));
    let mut out = Table::new("", &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for curve in curves {
        let mut cells = vec![Cell::words(curve.name.clone())];
        for (_, quantile) in SHOWN {
            cells.push(match reached(curve, quantile) {
                Some(value) => Cell::number(value, &scale),
                None => Cell::words("too few"),
            });
        }
        out.row(cells);
    }
    out
}

fn tail_title(curves: &[PercentileCurve], pooled: bool) -> String {
    let parts: Vec<String> = curves
        .iter()
        .take(4)
        .filter(|curve| !curve.name.ends_with("service"))
        .filter_map(|curve| {
            let value = reached(curve, 0.99)?;
            Some(format!(
                "{} for {}",
                Quantity::Milliseconds.show(value),
                curve.name.trim_end_matches(", response")
            ))
        })
        .collect();
    match parts.is_empty() {
        true => "Too few operations for a 99th percentile".into(),
        false => format!(
            "99 % of the operations{} completed within {}",
            if pooled { " of all trials" } else { "" },
            parts.join(", ")
        ),
    }
}

/// The goals on a percentile of the response time of all operations.
fn reference_points(study: &Study) -> Vec<ReferencePoint> {
    let goals: &[Goal] = study.plan.as_ref().map_or(&[], |plan| &plan.experiment.goals);
    goals
        .iter()
        .filter(|goal| goal.at_most && goal.operation.is_none())
        .filter_map(|goal| {
            let model::goal::GoalMetric::Response(part) = &goal.metric else { return None };
            let quantile = match part.as_str() {
                "p50" => 0.5,
                "p90" => 0.9,
                "p95" => 0.95,
                "p99" => 0.99,
                "p999" => 0.999,
                _ => return None,
            };
            Some(ReferencePoint { text: goal.text.clone(), quantile, limit_ms: goal.limit })
        })
        .collect()
}

/// Sweeps: small charts for each factor; for load factors, response time against throughput first.
pub(super) fn sweeps(document: &ResultDocument) -> String {
    tables::curves_by_factor(document).into_iter().map(|curves| one_sweep(&curves, document)).collect()
}

fn one_sweep(curves: &[&Curve], document: &ResultDocument) -> String {
    let traits = &document.traits;
    let factor = labels::setting(&curves[0].factor);
    let rate = Quantity::Rate(rate_word(traits));
    let shown = &curves[..curves.len().min(MOST_SERIES)];
    let name = labels::series;
    let lines = |value: fn(&CurvePoint) -> [f64; 3]| -> Vec<SweepSeries> {
        let each = shown.iter().enumerate();
        each.map(|(at, curve)| SweepSeries {
            name: name(curve),
            look: SeriesStyle::of(at),
            points: curve
                .points
                .iter()
                .map(|point| SweepPoint {
                    level: point.level,
                    label: labels::level_text(&point.label),
                    value: value(point),
                })
                .collect(),
        })
        .collect()
    };
    let best = curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(move |point| (*curve, point)))
        .filter(|(_, point)| point.rate_per_s[0].is_finite())
        .max_by(|a, b| a.1.rate_per_s[0].total_cmp(&b.1.rate_per_s[0]));
    let title = match best {
        Some((curve, point)) => {
            let series = match name(curve) {
                name if name.is_empty() => String::new(),
                name => format!(", {name}"),
            };
            format!(
                "Peak: {} at {factor} {}{series}",
                rate.show(point.rate_per_s[0]),
                labels::level_text(&point.label)
            )
        }
        None => format!("Nothing completed at any {factor}"),
    };
    let mut legend: Vec<(String, SeriesStyle)> = Vec::new();
    let named = shown.iter().enumerate().filter(|(_, curve)| !name(curve).is_empty());
    legend.extend(named.map(|(at, curve)| (name(curve), SeriesStyle::of(at))));
    let mut charts = String::new();
    let loads = labels::is_load(&curves[0].factor, traits);
    if loads {
        let lines = load_lines(shown, &legend);
        if legend.is_empty() {
            legend = lines.iter().map(|line| (line.name.clone(), line.look)).collect();
        }
        let label = format!("Response time against throughput. {title}.");
        let what = if shown.len() == 1 { "Response time" } else { "Mean response time" };
        charts.push_str(&load_curve(&label, &format!("{what}, {factor} along the line"), rate, &lines));
    }
    let chart = |name: &str, value: fn(&CurvePoint) -> [f64; 3], quantity, log| {
        sweep(
            &format!("{name} against {factor}. {title}."),
            name,
            factor,
            &lines(value),
            quantity,
            SweepScales { log_levels: true, log_values: log },
        )
    };
    let moved = curves.iter().flat_map(|curve| &curve.points).any(|point| point.bytes_per_s[0] > 0.0);
    let mut four = chart("Throughput", |point| point.rate_per_s, rate, false);
    if moved && traits.storage {
        four.push_str(&chart("Bandwidth", |point| point.bytes_per_s, Quantity::BytesPerSecond, false));
    }
    if !traits.grouped {
        // Not every other tool has both.
        type Value = fn(&CurvePoint) -> [f64; 3];
        let is_known = |value: Value| {
            curves.iter().flat_map(|curve| &curve.points).any(|point| value(point)[0].is_finite())
        };
        let times: [(&str, Value); 2] =
            [("Mean response time", |point| point.mean_ms), ("p99 response time", |point| point.p99_ms)];
        for (name, value) in times.into_iter().filter(|(_, value)| is_known(*value)) {
            four.push_str(&chart(name, value, Quantity::Milliseconds, true));
        }
    }
    charts.push_str(&format!(r#"<div class="four">{four}</div>"#));
    let mut note = "Points: median of the replicates; bars: smallest and largest.".to_string();
    if shown.len() < curves.len() {
        note.push_str(&format!(
            " Showing {} of {} lines; the numbers below have all.",
            shown.len(),
            curves.len()
        ));
    }
    figure(&Figure {
        title: &title,
        question: &match loads {
            true => format!("What is the capacity, and how does {factor} change the response time?"),
            false => format!("What does {factor} change?"),
        },
        charts: &charts,
        legend: &legend,
        numbers: table(&tables::sweep(curves, traits, false), Origin::Result),
        note: &note,
    })
}

/// Mean and 99th percentile of a single curve; the mean of each of several curves.
fn load_lines(curves: &[&Curve], legend: &[(String, SeriesStyle)]) -> Vec<LoadCurveSeries> {
    let line = |curve: &Curve, name: &str, look: SeriesStyle, has_labels, value: fn(&CurvePoint) -> f64| {
        LoadCurveSeries {
            name: name.into(),
            look,
            has_labels,
            points: curve
                .points
                .iter()
                .map(|point| LoadCurvePoint {
                    label: labels::level_text(&point.label),
                    rate_per_s: point.rate_per_s[0],
                    response_ms: value(point),
                })
                .collect(),
        }
    };
    match curves {
        [curve] => vec![
            line(curve, "mean", SeriesStyle::of(0), true, |point| point.mean_ms[0]),
            line(curve, "p99", SeriesStyle::of(1), false, |point| point.p99_ms[0]),
        ]
        .into_iter()
        .filter(|line| line.points.iter().any(|point| point.response_ms.is_finite()))
        .collect(),
        curves => {
            let each = curves.iter().enumerate();
            each.map(|(at, curve)| {
                let name = legend.get(at).map_or("", |(name, _)| name.as_str());
                line(curve, name, SeriesStyle::of(at), true, |point| point.mean_ms[0])
            })
            .collect()
        }
    }
}

/// The proof: the elasticity of throughput to each resource, as a chart and in numbers.
pub(super) fn proof(document: &ResultDocument) -> String {
    let (Some(proof), Some(numbers)) = (&document.proof, tables::proof(document)) else {
        return String::new();
    };
    let rows: Vec<ForestRow> = proof
        .rows
        .iter()
        .map(|row| {
            let (word, look) = match row.direction {
                Direction::Reduced => ("reduced", SeriesStyle::of(0)),
                Direction::Raised => ("raised", SeriesStyle::of(1)),
            };
            let ratio = row.throughput_ratio.map(|ratio| RatioStyle::Percent.show(ratio, None));
            let ratio = ratio.map_or(String::new(), |ratio| format!(", throughput {ratio}"));
            ForestRow {
                name: format!("{} {word}", row.factor),
                look,
                value: row.elasticity.map(|elasticity| elasticity.value),
                interval: row.elasticity.map(|elasticity| (elasticity.low, elasticity.high)),
                answer: format!("{}{ratio}", row.answer.word()),
            }
        })
        .collect();
    let title =
        sentences::proof_in_short(document).unwrap_or_else(|| "No round of the proof was completed.".into());
    let note = numbers.note.clone();
    figure(&Figure {
        title: title.trim_end_matches('.'),
        question: "Which resource does throughput follow? Elasticity 1: 1 % less of the resource costs 1 % of the throughput.",
        charts: &forest(&format!("Elasticity of throughput. {title}"), &rows),
        legend: &[],
        numbers: table(&Table { note: String::new(), ..numbers }, Origin::Result),
        note: &note,
    })
}
