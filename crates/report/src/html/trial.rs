//! One trial over time: throughput, percentiles, heatmap and resources on the same time axis.

use std::collections::BTreeMap;

use model::load::Shape;
use model::metric::split_instance;
use model::result::{Operation, ResourceUse, TrialResult};
use model::run::WorkloadTraits;
use model::{HeatColumn, Interval, Level, Phase, ResultDocument, RunRecord, Study, metrics};

use super::markup::{Figure, Origin, figure, table};
use crate::chart::{
    HeatmapData, Mark, SeriesStyle, ShadedSpan, StripRow, Timeline, TimelineSeries, escape, heatmap, strip,
    timeline,
};
use crate::labels;
use crate::table::{Cell, Table};
use crate::tables;
use crate::terminal::cut_short;
use crate::text::{self, Quantity, plural, rate_word};

/// Maximum number of trials with drawn time series.
const MOST_TRIALS: usize = 12;
/// Resources drawn for a trial.
const MOST_RESOURCES: usize = 8;
/// Resources in the table.
const MOST_RESOURCES_LISTED: usize = 60;
/// Operations distinguished by hue.
const MOST_OPERATIONS: usize = 3;
/// Minimum number of intervals to judge steadiness, as in the doubt about short trials.
const STEADY_INTERVALS: usize = 10;
/// Rows of the table under a chart over time.
const MOST_ROWS: usize = 30;
/// The same when many trials are drawn.
const FEW_ROWS: usize = 6;

/// How much of a trial is drawn.
#[derive(Clone, Copy)]
struct Detail {
    /// Whether each chart shows its question: only in the first of many trials.
    has_questions: bool,
    /// Points of a line.
    columns: usize,
    /// Rows of the table under a chart; 0 for no table.
    most_rows: usize,
    /// Resources.
    most_resources: usize,
}

/// All trials: the drawn ones in their order, then a table of every one.
pub(super) fn trials(document: &ResultDocument, study: &Study) -> String {
    let drawn: Vec<(&TrialResult, &RunRecord)> = order(document)
        .into_iter()
        .filter_map(|trial| {
            study
                .runs
                .iter()
                .find(|record| record.run.trial.id() == trial.trial)
                .map(|record| (trial, record))
        })
        .filter(|(_, record)| !record.intervals.is_empty() || !record.readings.end_s.is_empty())
        .take(MOST_TRIALS)
        .collect();
    // Many trials share a budget of points, so that the page stays small.
    let columns = (800 / drawn.len().max(1)).clamp(66, 460);
    let most_rows = if drawn.len() > 3 { FEW_ROWS } else { MOST_ROWS };
    let full = Detail { has_questions: true, columns, most_rows, most_resources: MOST_RESOURCES };
    // One replicate of each configuration in full detail; the others only in coarse resolution.
    let configurations = document.configurations.len().max(1);
    let brief = Detail {
        has_questions: false,
        columns: columns * 2 / 5,
        most_rows: 0,
        most_resources: MOST_RESOURCES / 3,
    };
    let detail = |at: usize| match at < configurations || drawn.len() < 4 {
        true => Detail { has_questions: at == 0, ..full },
        false => brief,
    };
    let mut out = String::new();
    for (at, (trial, record)) in drawn.iter().enumerate() {
        let open = if at == 0 { " open" } else { "" };
        let name = labels::labelled(document, &trial.treatment.label);
        let label = match document.trials.len() {
            1 => name,
            _ => format!("{name}, replicate {}", trial.replicate),
        };
        out.push_str(&format!(
            r#"<details class="trial"{open}><summary>{} <span>{}</span></summary>{}</details>"#,
            escape(&label),
            escape(&trial.trial),
            one(trial, record, &document.traits, &detail(at))
        ));
    }
    let shown: Vec<&TrialResult> =
        drawn.iter().take(configurations.max(3)).map(|(trial, _)| *trial).collect();
    let resources = match shown.as_slice() {
        [] => Table::default(),
        [trial] => tables::resources(trial, MOST_RESOURCES_LISTED, true),
        trials => tables::resources_of(document, trials, MOST_RESOURCES_LISTED),
    };
    if !resources.rows.is_empty() {
        let table = table(&resources, Origin::Result);
        out.push_str(&format!("<details><summary>Every resource</summary>{table}</details>"));
    }
    if document.trials.len() > 1 {
        out.push_str("<h3>Every trial</h3>");
        if drawn.len() < document.trials.len() {
            out.push_str(&format!(
                r#"<p class="note">Showing the time series of {}: the median replicate of each configuration first.</p>"#,
                plural(drawn.len(), "trial")
            ));
        }
        out.push_str(&table(&tables::trials(document), Origin::Result));
    }
    out
}

/// The order in which trials are drawn: first the replicate of each configuration with the median
/// throughput, the baseline first; then the others in order of execution.
fn order(document: &ResultDocument) -> Vec<&TrialResult> {
    let mut order: Vec<&TrialResult> = Vec::new();
    for configuration in &document.configurations {
        let mut trials: Vec<(&TrialResult, f64)> = configuration
            .trials
            .iter()
            .filter_map(|id| document.trials.iter().find(|trial| trial.trial == *id))
            .filter_map(|trial| Some((trial, trial.whole()?.rate_per_s)))
            .collect();
        trials.sort_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((trial, _)) = trials.get(trials.len().saturating_sub(1) / 2) {
            order.push(trial);
        }
    }
    for trial in &document.trials {
        if !order.iter().any(|known| known.trial == trial.trial) {
            order.push(trial);
        }
    }
    order
}

/// The operations of a record, the most frequent first; `all` only if there is no other.
fn operations(record: &RunRecord) -> Vec<&str> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let derived = &record.run.traits.derived;
    for interval in &record.intervals {
        if derived.iter().any(|name| *name == interval.operation) {
            continue;
        }
        *counts.entry(&interval.operation).or_default() += interval.completed;
    }
    if counts.len() > 1 {
        counts.remove(Operation::ALL);
    }
    let any = counts.values().any(|count| *count > 0);
    let mut names: Vec<(&str, u64)> = counts.into_iter().filter(|(_, count)| *count > 0 || !any).collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    names.into_iter().map(|(name, _)| name).collect()
}

/// The rest of an interval in which only the last operations completed: its rate is not the rate of the load.
fn is_sliver(record: &RunRecord, interval: &Interval) -> bool {
    interval.phase == Phase::CoolDown && interval.length_s() < record.run.load.interval as f64 / 2e9
}

/// The common time span of the charts of a trial.
fn span(record: &RunRecord) -> (f64, f64) {
    let ends = record
        .intervals
        .iter()
        .map(|interval| (interval.begin_s, interval.end_s))
        .chain(record.readings.begin_s.iter().copied().zip(record.readings.end_s.iter().copied()))
        .filter(|(begin, end)| begin.is_finite() && end.is_finite());
    let (from, to) = ends
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), (begin, end)| (from.min(begin), to.max(end)));
    if from.is_finite() && to > from { (from, to) } else { (0.0, 1.0) }
}

fn shades(trial: &TrialResult, record: &RunRecord) -> Vec<ShadedSpan> {
    let phases = record.run.phases.iter().filter(|phase| phase.phase != Phase::Measure);
    let shades = phases.map(|phase| ShadedSpan {
        name: match phase.phase {
            Phase::WarmUp => "warm-up".into(),
            other => other.word().replace('_', "-"),
        },
        begin_s: phase.begin_s,
        end_s: phase.end_s,
    });
    match trial.copy.as_ref().and_then(|copy| copy.drain).filter(|drain| drain.length_s() > 0.0) {
        // It begins with the last byte, and so includes the final flush and the phase after it.
        Some(drain) => {
            let before = shades.filter(|shade| shade.end_s <= drain.begin_s);
            let shade = ShadedSpan { name: "drain".into(), begin_s: drain.begin_s, end_s: drain.end_s };
            before.chain([shade]).collect()
        }
        None => shades.collect(),
    }
}

/// What the devices wrote during a copy and its drain, as lines beside its throughput.
fn device_writes(trial: &TrialResult, record: &RunRecord, drawn: usize) -> Vec<TimelineSeries> {
    let Some(Level::List(devices)) = trial.facts.get("drain.devices").filter(|_| trial.copy.is_some()) else {
        return Vec::new();
    };
    let readings = &record.readings;
    let line = |(at, device): (usize, &Level)| {
        let device = device.to_string();
        let column = readings.find(metrics::DISK_WRITE_BYTES_PER_S, &device)?;
        let middles = readings.begin_s.iter().zip(&readings.end_s).map(|(begin, end)| (begin + end) / 2.0);
        Some(TimelineSeries {
            name: format!("{device} writes"),
            look: SeriesStyle::of(drawn + at),
            points: middles.zip(readings.values[column].iter().copied()).collect(),
        })
    };
    devices.iter().take(MOST_OPERATIONS.saturating_sub(drawn)).enumerate().filter_map(line).collect()
}

/// When a cache was full.
fn copy_marks(trial: &TrialResult) -> Vec<Mark> {
    let full =
        trial.copy.as_ref().and_then(|copy| Some((copy.shown_cache()?, copy.shown_cache()?.full_at_s?)));
    let mark = full.map(|(cache, at_s)| Mark {
        name: format!("cache exhausted, {} accepted", Quantity::Bytes.show(cache.accepted_bytes.value)),
        at_s,
    });
    mark.into_iter().collect()
}

/// The rates into the cache and past it; none without a cache that was full.
fn copy_title(trial: &TrialResult) -> Option<String> {
    let cache = trial.copy.as_ref()?.shown_cache()?;
    let show = |rate| Quantity::BytesPerSecond.show(rate);
    let (into, past) = (show(cache.into_bytes_per_s), show(cache.past_bytes_per_s?.value));
    Some(format!(
        "A cache took {into} until it was exhausted at {}, then throughput was {past}",
        at(cache.full_at_s?)
    ))
}

fn one(trial: &TrialResult, record: &RunRecord, traits: &WorkloadTraits, detail: &Detail) -> String {
    let columns = detail.columns;
    let (span_s, shades, names) = (span(record), shades(trial, record), operations(record));
    let mut out = String::new();
    if let Some(why) = cut_short(trial) {
        out.push_str(&format!(r#"<p class="note">{}</p>"#, escape(&why)));
    }
    let drawn = &names[..names.len().min(MOST_OPERATIONS)];
    let note = match names.len() > drawn.len() {
        true => format!("Showing the {} most frequent of {} operations.", drawn.len(), names.len()),
        false => String::new(),
    };
    let series = |value: fn(&Interval) -> f64, suffix: &str, dash: Option<usize>| -> Vec<TimelineSeries> {
        drawn
            .iter()
            .enumerate()
            .map(|(at, name)| TimelineSeries {
                name: format!("{name}{suffix}"),
                look: dash.map_or(SeriesStyle::of(at), |dash| SeriesStyle::pair(at, dash)),
                points: record
                    .intervals
                    .iter()
                    .filter(|interval| interval.operation == **name && !is_sliver(record, interval))
                    .map(|interval| ((interval.begin_s + interval.end_s) / 2.0, value(interval)))
                    .collect(),
            })
            .collect()
    };
    let legend = |series: &[TimelineSeries]| -> Vec<(String, SeriesStyle)> {
        series.iter().map(|line| (line.name.clone(), line.look)).collect()
    };

    if !drawn.is_empty() {
        let progress = Progress::of(traits);
        let mut lines = series(progress.value, "", None);
        if trial.copy.is_some() {
            // A flush moves no bytes of its own.
            lines.retain(|line| line.points.iter().any(|(_, value)| *value > 0.0));
        }
        lines.extend(device_writes(trial, record, lines.len()));
        let title = copy_title(trial).unwrap_or_else(|| throughput_title(record, drawn, &progress));
        let rate = progress.quantity;
        out.push_str(&figure(&Figure {
            title: &title,
            question: if detail.has_questions {
                "How high was the throughput, and was it steady?"
            } else {
                ""
            },
            charts: &timeline(&Timeline {
                label: "Throughput over time",
                span_s,
                series: &lines,
                quantity: rate,
                log: false,
                shades: &shades,
                marks: &copy_marks(trial),
                height: 150.0,
                columns,
            }),
            legend: &legend(&lines),
            numbers: String::new(),
            note: &note,
        }));

        // Without completed operations there is no response time: a gap, not a zero.
        let p50 = |interval: &Interval| if interval.completed > 0 { interval.response.p50 } else { f64::NAN };
        let p99 = |interval: &Interval| if interval.completed > 0 { interval.response.p99 } else { f64::NAN };
        let mean =
            |interval: &Interval| if interval.completed > 0 { interval.response.mean } else { f64::NAN };
        let has =
            |value: fn(&Interval) -> f64| record.intervals.iter().any(|interval| value(interval).is_finite());
        // A foreign log may have means alone, or no times at all.
        let has_means_alone = !has(p99) && !has(p50) && has(mean);
        let mut lines =
            if has_means_alone { series(mean, " mean", Some(0)) } else { series(p50, " p50", Some(0)) };
        if !has_means_alone {
            lines.extend(series(p99, " p99", Some(1)));
        }
        let title = if has_means_alone { mean_title(record, drawn) } else { latency_title(record, drawn) };
        let latency = figure(&Figure {
            title: &title,
            question: if detail.has_questions {
                "How long did operations take, second by second?"
            } else {
                ""
            },
            charts: &timeline(&Timeline {
                label: if has_means_alone {
                    "The mean response time over time"
                } else {
                    "Percentiles of the response time over time"
                },
                span_s,
                series: &lines,
                quantity: Quantity::Milliseconds,
                log: true,
                shades: &shades,
                marks: &[],
                height: 170.0,
                columns,
            }),
            legend: &legend(&lines),
            numbers: seconds(record, drawn, traits, detail.most_rows),
            note: &note,
        });
        if !traits.grouped && (has(p99) || has(p50) || has(mean)) {
            out.push_str(&latency);
        }
    }

    if record.intervals.iter().any(|interval| interval.failed > 0) {
        let failed = |interval: &Interval| match interval.length_s() > 0.0 {
            true => interval.failed as f64 / interval.length_s(),
            false => f64::NAN,
        };
        let lines = series(failed, " failed", None);
        let title = failures_title(record, drawn);
        out.push_str(&figure(&Figure {
            title: &title,
            question: if detail.has_questions { "When did operations fail?" } else { "" },
            charts: &timeline(&Timeline {
                label: "Failures over time",
                span_s,
                series: &lines,
                quantity: Quantity::Rate("/s"),
                log: false,
                shades: &shades,
                marks: &[],
                height: 100.0,
                columns,
            }),
            legend: &legend(&lines),
            numbers: String::new(),
            note: &note,
        }));
    }
    if !traits.grouped && is_in_flight_worth_drawing(record, drawn) {
        let lines = series(|interval| interval.concurrency, " in flight", None);
        let title = in_flight_title(record, drawn);
        out.push_str(&figure(&Figure {
            title: &title,
            question: if detail.has_questions {
                "How many operations were in flight: users at work, or requests that queued?"
            } else {
                ""
            },
            charts: &timeline(&Timeline {
                label: "Operations in flight over time",
                span_s,
                series: &lines,
                quantity: Quantity::Plain,
                log: false,
                shades: &shades,
                marks: &[],
                height: 100.0,
                columns,
            }),
            legend: &legend(&lines),
            numbers: String::new(),
            note: &note,
        }));
    }

    let heat = heat(record);
    if !traits.grouped && heat.iter().any(|column| !column.cells.is_empty()) {
        let title = heat_title(trial);
        out.push_str(&figure(&Figure {
            title: &title,
            question: if detail.has_questions {
                "When were which operations slow? The chart includes every operation, also of the warm-up."
            } else {
                ""
            },
            charts: &heatmap(&HeatmapData {
                label: "Response times over time",
                span_s,
                columns: &heat,
                shades: &shades,
                // Its cells take most of the space of a trial.
                most_columns: if columns > 200 { columns * 2 / 3 } else { columns / 3 },
            }),
            legend: &[],
            numbers: if detail.most_rows > 0 { bands(&heat) } else { String::new() },
            note: "",
        }));
    }

    if !trial.resources.is_empty() {
        let rows: Vec<StripRow> = trial
            .resources
            .iter()
            .take(detail.most_resources)
            .map(|resource| strip_row(resource, record))
            .collect();
        let title = strip_title(&trial.resources);
        out.push_str(&figure(&Figure {
            title: &title,
            question: if detail.has_questions {
                "Which resources were saturated? The most saturated first."
            } else {
                ""
            },
            charts: &strip("Resources over time", span_s, &rows, &shades, columns),
            legend: &[],
            numbers: String::new(),
            note: &match trial.resources.len() > detail.most_resources {
                true => format!(
                    "Showing {} of {}; the table of resources has all.",
                    detail.most_resources,
                    trial.resources.len()
                ),
                false => String::new(),
            },
        }));
    }
    out
}

/// The unit of the throughput chart: bytes for a copy, operations for all other workloads.
struct Progress {
    quantity: Quantity,
    value: fn(&Interval) -> f64,
}

impl Progress {
    fn of(traits: &WorkloadTraits) -> Self {
        match traits.storage && traits.ends_by_itself {
            true => Progress { quantity: Quantity::BytesPerSecond, value: Interval::bytes_per_s },
            false => Progress { quantity: Quantity::Rate(rate_word(traits)), value: Interval::rate_per_s },
        }
    }
}

/// Throughput of each interval of the measured phase, over the drawn operations: (start, rate).
fn measured_rates(record: &RunRecord, names: &[&str], progress: &Progress) -> Vec<(f64, f64)> {
    let mut sums: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for interval in record.intervals.iter().filter(|interval| interval.phase == Phase::Measure) {
        if names.contains(&interval.operation.as_str()) {
            let sum = sums.entry((interval.begin_s * 1000.0) as i64).or_insert((interval.begin_s, 0.0));
            sum.1 += (progress.value)(interval);
        }
    }
    sums.into_values().filter(|(_, rate)| rate.is_finite()).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn at(at_s: f64) -> String {
    format!("{} s", text::seconds(at_s))
}

fn throughput_title(record: &RunRecord, names: &[&str], progress: &Progress) -> String {
    let quantity = progress.quantity;
    let mut rates = measured_rates(record, names, progress);
    if record.run.operations_in_turn {
        // Between two steps nothing completes, which is no fall of throughput.
        rates.retain(|rate| rate.1 > 0.0);
    }
    let typical = median(rates.iter().map(|rate| rate.1).collect());
    let lowest = rates.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    match (typical, lowest) {
        (Some(typical), Some((_, low))) if low > 0.9 * typical => match rates.len() {
            1 => format!("Throughput was {} in the one interval", quantity.show(typical)),
            // Fewer intervals do not show steadiness.
            2..STEADY_INTERVALS => format!(
                "Throughput was {} in a typical interval, never below {}",
                quantity.show(typical),
                quantity.show(low)
            ),
            _ => format!(
                "Throughput was steady at {}, never below {}",
                quantity.show(typical),
                quantity.show(low)
            ),
        },
        (Some(typical), Some((begin_s, low))) => format!(
            "Throughput was {} in a typical interval and fell to {} at {}",
            quantity.show(typical),
            quantity.show(low),
            at(begin_s)
        ),
        _ => "Nothing was measured".into(),
    }
}

fn failures_title(record: &RunRecord, names: &[&str]) -> String {
    let all = || record.intervals.iter().filter(|interval| names.contains(&interval.operation.as_str()));
    let failed: u64 = all().map(|interval| interval.failed).sum();
    let completed: u64 = all().map(|interval| interval.completed).sum();
    let share = text::percent(failed as f64 / completed.max(1) as f64);
    let first = all().find(|interval| interval.failed > 0).map_or(0.0, |interval| interval.begin_s);
    let count = model::quantity::thousands(failed as f64);
    format!("{count} operations failed ({share}), the first at {}", at(first))
}

/// Whether operations in flight are worth a chart: with open arrivals, or if the load changes within the trial.
fn is_in_flight_worth_drawing(record: &RunRecord, names: &[&str]) -> bool {
    let all = || record.intervals.iter().filter(|interval| names.contains(&interval.operation.as_str()));
    let is_open = matches!(record.run.load.shape, Some(Shape::Open { .. }));
    let mut loads = all().map(|interval| interval.load);
    let first = loads.next();
    let changes = loads.any(|load| Some(load) != first);
    !names.is_empty() && (is_open || changes)
}

fn in_flight_title(record: &RunRecord, names: &[&str]) -> String {
    let measured = record
        .intervals
        .iter()
        .filter(|interval| interval.phase == Phase::Measure && names.contains(&interval.operation.as_str()));
    let most = measured.map(|interval| interval.concurrency).fold(0.0, f64::max);
    format!("At most {} operations were in flight in an interval", text::things(most))
}

/// The title where intervals have means and no percentiles.
fn mean_title(record: &RunRecord, names: &[&str]) -> String {
    let measured = record.intervals.iter().filter(|interval| {
        interval.phase == Phase::Measure
            && interval.completed > 0
            && interval.response.mean.is_finite()
            && names.contains(&interval.operation.as_str())
    });
    let highest = measured.max_by(|a, b| a.response.mean.total_cmp(&b.response.mean));
    highest.map_or_else(
        || "No response time was measured".into(),
        |of| {
            let mean = Quantity::Milliseconds.show(of.response.mean);
            format!("The mean response time was at most {mean}, at {} ({})", at(of.begin_s), of.operation)
        },
    )
}

fn latency_title(record: &RunRecord, names: &[&str]) -> String {
    let measured = || {
        record.intervals.iter().filter(|interval| {
            interval.phase == Phase::Measure
                && interval.completed > 0
                && interval.response.p99.is_finite()
                && names.contains(&interval.operation.as_str())
        })
    };
    let typical = median(measured().map(|interval| interval.response.p99).collect());
    let worst = measured().max_by(|a, b| a.response.p99.total_cmp(&b.response.p99));
    let show = |ms| Quantity::Milliseconds.show(ms);
    match (typical, worst) {
        (Some(typical), Some(worst)) if worst.response.p99 < 3.0 * typical && measured().count() > 1 => {
            format!("p99 stayed near {}; the worst interval had {}", show(typical), show(worst.response.p99))
        }
        (Some(typical), Some(_)) if measured().count() == 1 => {
            format!("p99 was {} in the one interval", show(typical))
        }
        (Some(typical), Some(worst)) => format!(
            "p99 was {} in a typical interval and reached {} at {} ({})",
            show(typical),
            show(worst.response.p99),
            at(worst.begin_s),
            worst.operation
        ),
        _ => "No response time was measured".into(),
    }
}

fn heat_title(trial: &TrialResult) -> String {
    let show = |ms| Quantity::Milliseconds.show(ms);
    match trial.whole().filter(|whole| whole.completed > 0) {
        Some(whole) => format!(
            "Half of the operations took less than {}, the slowest {}",
            show(whole.response_ms.p50),
            show(whole.response_ms.max)
        ),
        None => "Response times of what completed".into(),
    }
}

fn strip_title(resources: &[ResourceUse]) -> String {
    let Some(first) = resources.first() else { return String::new() };
    let quantity = Quantity::of(first.unit);
    let full = match first.saturated_at > 0.0 {
        true => format!(" (saturated at {})", quantity.show(first.saturated_at)),
        false => String::new(),
    };
    format!(
        "Most saturated: {}, mean {}{full}",
        labels::counter(&first.metric, &first.instance),
        quantity.show(first.mean)
    )
}

fn strip_row(resource: &ResourceUse, record: &RunRecord) -> StripRow {
    let readings = &record.readings;
    let points: Vec<(f64, f64)> = match readings.find(&resource.metric, &resource.instance) {
        Some(column) => readings
            .begin_s
            .iter()
            .zip(&readings.end_s)
            .zip(&readings.values[column])
            .map(|((begin, end), value)| ((begin + end) / 2.0, *value))
            .collect(),
        None => Vec::new(),
    };
    let points = match split_instance(&resource.instance).0 {
        "" => points,
        _ => of_scrapes(&points),
    };
    let quantity = Quantity::of(resource.unit);
    let scale = quantity.scale([resource.mean, resource.max]);
    let mut numbers =
        format!("mean {}, max {}", scale.with_unit(resource.mean), scale.with_unit(resource.max));
    if points.is_empty() {
        numbers.push_str(" (no series in the record)");
    }
    StripRow {
        name: labels::counter(&resource.metric, &resource.instance),
        numbers,
        points,
        saturated_at: resource.saturated_at,
        full_text: quantity.show(resource.saturated_at),
    }
}

/// The values of an exporter, which is scraped more rarely than samples are taken: only a scrape that is missing is a gap.
fn of_scrapes(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let known: Vec<(f64, f64)> = points.iter().copied().filter(|(_, value)| value.is_finite()).collect();
    let mut distances: Vec<f64> = known.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    distances.sort_by(f64::total_cmp);
    let usual = distances.get(distances.len() / 2).copied().unwrap_or(0.0);
    let mut shown = Vec::new();
    for (at, point) in known.iter().enumerate() {
        if let Some(before) =
            at.checked_sub(1).map(|before| known[before].0).filter(|at_s| point.0 - at_s > 1.6 * usual)
        {
            shown.push(((before + point.0) / 2.0, f64::NAN));
        }
        shown.push(*point);
    }
    shown
}

/// The sum of the heatmaps of all operations.
fn heat(record: &RunRecord) -> Vec<HeatColumn> {
    let mut columns: BTreeMap<i64, (f64, f64, BTreeMap<u16, u64>)> = BTreeMap::new();
    let several = record.histograms.len() > 1;
    for (name, histograms) in &record.histograms {
        if several && name == Operation::ALL {
            continue;
        }
        for column in &histograms.heat {
            let sum = columns.entry((column.begin_s * 1000.0) as i64).or_insert((
                column.begin_s,
                column.end_s,
                BTreeMap::new(),
            ));
            for (row, count) in &column.cells {
                *sum.2.entry(*row).or_default() += count;
            }
        }
    }
    columns
        .into_values()
        .map(|(begin_s, end_s, cells)| HeatColumn { begin_s, end_s, cells: cells.into_iter().collect() })
        .collect()
}

/// The numbers of the time charts: the interval with the worst p99 of each span.
fn seconds(record: &RunRecord, names: &[&str], traits: &WorkloadTraits, most_rows: usize) -> String {
    if most_rows == 0 {
        return String::new();
    }
    let mut by_start: BTreeMap<i64, Vec<&Interval>> = BTreeMap::new();
    for interval in record.intervals.iter().filter(|interval| names.contains(&interval.operation.as_str())) {
        by_start.entry((interval.begin_s * 1000.0) as i64).or_default().push(interval);
    }
    let rows: Vec<Vec<&Interval>> = by_start.into_values().collect();
    let worst = |row: &[&Interval]| row.iter().map(|interval| interval.response.p99).fold(0.0, f64::max);
    let stretch = rows.len().div_ceil(most_rows).max(1);
    let shown: Vec<&Vec<&Interval>> = rows
        .chunks(stretch)
        .filter_map(|chunk| chunk.iter().max_by(|a, b| worst(a).total_cmp(&worst(b))))
        .collect();
    let all = || shown.iter().flat_map(|row| row.iter());
    let progress = Progress::of(traits);
    let rate = progress.quantity.scale(all().map(|interval| (progress.value)(interval)));
    let times = Quantity::Milliseconds.scale(
        all().flat_map(|interval| [interval.response.p50, interval.response.p99, interval.response.max]),
    );
    let mut heads = vec![">second".to_string(), "phase".to_string()];
    for name in names {
        heads.push(format!(">{name}, {}", rate.unit));
        heads.extend(["p50", "p99", "max"].map(|part| format!(">{part}, {}", times.unit)));
    }
    let mut out = Table::new("", &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for row in shown {
        let Some(first) = row.first() else { continue };
        let mut cells = vec![
            Cell::shown(first.begin_s, text::seconds(first.begin_s)),
            Cell::words(first.phase.word().replace('_', "-")),
        ];
        for name in names {
            match row.iter().find(|interval| interval.operation == *name) {
                // A step that did not run has no numbers.
                Some(interval) if interval.completed > 0 => {
                    cells.push(Cell::number((progress.value)(interval), &rate));
                    cells.extend(
                        [interval.response.p50, interval.response.p99, interval.response.max]
                            .map(|value| Cell::number(value, &times)),
                    );
                }
                _ => cells.extend(std::iter::repeat_n(Cell::default(), 4)),
            }
        }
        out.row(cells);
    }
    if stretch > 1 {
        out.note = format!(
            "Showing the interval with the worst p99 of every {stretch} intervals; intervals.csv has all of them."
        );
    }
    table(&out, Origin::Record)
}

/// The numbers of a heatmap: operations in each octave of response time.
fn bands(columns: &[HeatColumn]) -> String {
    let mut octaves: BTreeMap<u16, u64> = BTreeMap::new();
    for (row, count) in columns.iter().flat_map(|column| &column.cells) {
        *octaves.entry(row / 4).or_default() += count;
    }
    let mut out = Table::new("", &["response time", ">operations"]);
    let count_scale = Quantity::Count.scale([0.0]);
    for (octave, count) in octaves {
        let edge = |row: u16| Quantity::Milliseconds.show(model::study::heat_row_ns(row) / 1e6);
        out.row(vec![
            Cell::words(format!(
                "{} to {}",
                edge(octave * 4),
                edge(octave.saturating_add(1).saturating_mul(4))
            )),
            Cell::number(count as f64, &count_scale),
        ]);
    }
    table(&out, Origin::Record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_between_two_scrapes_is_no_gap_and_a_missing_scrape_is_one() {
        // Samples each 250 ms, scrapes once a second, without the one at 4 s.
        let value = |at: usize| if at.is_multiple_of(4) && at != 16 { at as f64 } else { f64::NAN };
        let points: Vec<(f64, f64)> = (0..=24).map(|at| (at as f64 / 4.0, value(at))).collect();
        let shown = of_scrapes(&points);
        let times: Vec<f64> = shown.iter().map(|point| point.0).collect();
        assert_eq!(times, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let gaps: Vec<bool> = shown.iter().map(|point| point.1.is_nan()).collect();
        assert_eq!(gaps, [false, false, false, false, true, false, false]);
        assert_eq!(of_scrapes(&[]), []);
        assert_eq!(of_scrapes(&[(0.0, f64::NAN), (1.0, 2.0)]), [(1.0, 2.0)]);
    }
}
