//! The first sentences of a result: the throughput, the better configuration, or the peak; then
//! the limit, and the next command.

use model::result::{
    Answer, ComparisonRow, Configuration, Curve, CurvePoint, Operation, OperationResult, TrialResult,
};
use model::run::{OperationUnit, WorkloadTraits};
use model::verdict::InconclusiveReason;
use model::{Claim, Ending, Finding, FindingKind, ResultDocument, Verdict};

use super::copy::caches;
use super::dependencies::{is_of_delays, sensitivity, where_time_goes};
use super::gate::gate_sentences;
use super::limit::{LimitSentences, limit_sentences};
use super::limits::{limits_of_steps, next_sentence};
use super::neighbour::{is_of_neighbours, neighbours};
use super::storage::load_sweep;
use super::{finding, findings_of, imports, limits_on, verdict, verdict_of_configuration};
use crate::tables::{self, SIDE_BY_SIDE};
use crate::text::{
    Quantity, RatioStyle, bounded, percent, plural, rate_word, sentence_start, statistic, time_ms_bounded,
    time_s,
};
use crate::{costs, labels};

/// The first sentences of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    /// The answer with its figures, in one sentence. None where no operation was measured.
    pub answer: Option<String>,
    /// More figures of the answer, one sentence each.
    pub details: Vec<String>,
    /// Why configurations differ: the changes in the cost of one operation. With several configurations, those of the best.
    pub why: Vec<String>,
    /// The limits: the verdict; with several configurations, that of the baseline and of the best, or of the last.
    pub limits: Vec<String>,
    /// The indices of the findings that these sentences contain.
    pub said: Vec<usize>,
}

/// The answer and the limits of a result.
pub fn headline(document: &ResultDocument) -> Headline {
    let mut said = findings_of(&document.verdict);
    let (answer, mut details) = match &document.limit {
        Some(found) => {
            let LimitSentences { answer, details } = limit_sentences(document, found);
            (answer, details)
        }
        None => answer_and_details(document, &mut said),
    };
    if !is_of_delays(document) {
        let (answer, remarks) = sensitivity(document);
        details.extend(answer.into_iter().chain(remarks));
    }
    details.extend(document.request_steps.first().and_then(where_time_goes));
    details.extend(caches(document, &mut said));
    let best = best(document).filter(|_| document.limit.is_none() && !is_of_delays(document));
    let why = match best {
        Some(at) if !is_swept(document) => {
            costs::whys_of(document, &document.configurations[at].treatment.label)
        }
        _ => Vec::new(),
    };
    let shown = if is_swept(document) && !is_of_delays(document) { fastest(document) } else { best };
    let limits = limits(document, shown, &mut said);
    Headline { answer, details, why, limits, said }
}

/// The throughput, the better configuration, or the peak, with more figures.
fn answer_and_details(document: &ResultDocument, said: &mut Vec<usize>) -> (Option<String>, Vec<String>) {
    match &document.gate {
        Some(gate) => gate_sentences(document, gate),
        _ if is_of_delays(document) => sensitivity(document),
        _ if is_of_neighbours(document) => neighbours(document),
        _ if is_swept(document) => swept(document, said),
        _ if document.configurations.len() > 1 && document.comparison.is_empty() => listed(document),
        _ if document.configurations.len() > 1 => compared(document),
        _ => (document.trials.first().and_then(|trial| measured(document, trial)), Vec::new()),
    }
}

impl Headline {
    /// The findings to list after it: those that it does not contain. Limits on which no verdict rests, and other limits
    /// where the load generator was the limit, are shown only in the explanation.
    pub fn others<'a>(&self, document: &'a ResultDocument) -> Vec<&'a Finding> {
        // What a system did that did not answer is no limit of it.
        let hides_limits = matches!(
            document.verdict,
            Verdict::GeneratorBound { .. }
                | Verdict::Inconclusive {
                    reason: InconclusiveReason::StoppedAnswering { .. }
                        | InconclusiveReason::NeverAnswered { .. },
                    ..
                }
        );
        let findings = document.findings.iter().enumerate();
        let findings = findings
            .filter(|(at, finding)| finding.kind != FindingKind::Limits || is_in_a_verdict(document, *at));
        let unsaid = findings.filter(|(at, _)| !self.said.contains(at)).map(|(_, finding)| finding);
        unsaid.filter(|finding| !hides_limits || finding.kind != FindingKind::Limits).collect()
    }
}

/// Whether a verdict rests on a finding: that of the result, of a configuration or of a step. Without a verdict that names
/// a limit, every finding counts.
fn is_in_a_verdict(document: &ResultDocument, finding: usize) -> bool {
    let of_configurations = document
        .configurations
        .iter()
        .flat_map(|of| of.verdict.iter().chain(of.steps.iter().map(|step| &step.verdict)));
    let verdicts = std::iter::once(&document.verdict).chain(of_configurations);
    let named: Vec<usize> = verdicts.flat_map(findings_of).collect();
    named.is_empty() || named.contains(&finding)
}

/// Whether a numeric setting was varied over more than two levels; two levels are compared like other configurations.
pub(crate) fn is_swept(document: &ResultDocument) -> bool {
    if document.limit.is_some() {
        return false;
    }
    let inside_a_run = document.configurations.len() <= 1;
    document.curves.iter().any(|curve| curve.points.len() > if inside_a_run { 1 } else { 2 })
}

/// The highest percentile with at least ten slower operations: `p99 3.18 ms`.
fn tail(operation: &OperationResult) -> String {
    let summary = &operation.response_ms;
    let reached = [("p99", 0.01), ("p90", 0.1)];
    let found = reached.into_iter().find(|(_, beyond)| operation.judged() as f64 * beyond >= 10.0);
    let name = found.map_or("p50", |(name, _)| name);
    format!("{name} {}", statistic(summary, name))
}

/// ` 4.2 % of the operations failed.`: of those that were due, whenever they ended. Empty if none failed.
fn failures(whole: &OperationResult) -> String {
    match whole.failed_share() {
        Some((least, most)) if least > 0.0 => {
            let at_least = if most > least { " At least" } else { "" };
            format!("{at_least} {} of the operations failed.", percent(least))
        }
        _ => String::new(),
    }
}

/// `71.1 k IOPS (291 MB/s)`.
fn throughput(document: &ResultDocument, rate_per_s: f64, bytes_per_s: f64) -> String {
    let rate = Quantity::Rate(rate_word(&document.traits)).show(rate_per_s);
    match bytes_per_s > 0.0 && document.traits.storage {
        true => format!("{rate} ({})", Quantity::BytesPerSecond.show(bytes_per_s)),
        false => rate,
    }
}

/// The throughput and response time of one trial, in a sentence.
fn measured(document: &ResultDocument, trial: &TrialResult) -> Option<String> {
    let traits = &document.traits;
    let whole = trial.whole()?;
    if whole.completed == 0 {
        return Some(match trial.ending {
            Ending::Interrupted => "Interrupted before an operation was measured.".into(),
            _ if whole.judged() > 0 => format!(
                "No operation completed in the measured time: of {} that were due, {} ended later, the others not while they were waited for.",
                whole.judged(),
                whole.timed()
            ),
            _ if trial.in_flight() >= 0.5 => format!(
                "No operation completed: {} waited for an answer until the end.",
                plural(trial.in_flight().round() as usize, "operation")
            ),
            _ => "No operation completed.".into(),
        });
    }
    if trial.failed_wholly() {
        return Some(match whole.completed {
            1 => "The only operation failed.".into(),
            count => format!("All {count} operations failed."),
        });
    }
    let steps: Vec<String> = trial
        .operations
        .iter()
        .filter(|operation| operation.busy_s.is_some_and(|busy_s| busy_s > 0.0) && operation.completed > 0)
        .filter(|operation| operation.name != Operation::All)
        .map(|step| format!("{} {}", step.name, Quantity::Rate(rate_word(traits)).show(step.rate_per_s)))
        .collect();
    if !steps.is_empty() {
        return Some(format!("{}.", sentence_start(&steps.join(", "))));
    }
    if traits.operations_apart {
        return super::launches::launches(trial);
    }
    let failed = failures(whole);
    if traits.unit == OperationUnit::Entry {
        return Some(format!("{}.{failed}", imports::amount(whole, trial.measured_s, traits)));
    }
    if traits.ends_by_itself && whole.bytes_per_s > 0.0 {
        let bytes = Quantity::Bytes.show(whole.bytes_per_s * trial.measured_s);
        let [rate, took] =
            [Quantity::BytesPerSecond.show(whole.bytes_per_s), Quantity::Seconds.show(trial.measured_s)];
        return Some(format!("{bytes} in {took} ({rate}).{failed}"));
    }
    let load = under_load(&trial.load, traits);
    let carried = throughput(document, whole.rate_per_s, whole.bytes_per_s);
    let load = match trial.offered_s {
        Some(offered_s) => {
            format!("{load}, which ended after {} of {}", time_s(offered_s), time_s(trial.measured_s))
        }
        None => load,
    };
    let times = format!("mean {}, {}", statistic(&whole.response_ms, "mean"), tail(whole));
    Some(format!("{carried}{load}: {times}.{failed}"))
}

/// ` at queue depth 16`, ` with 1 request in flight`, ` at an offered load of 200/s, Poisson arrivals`.
fn under_load(load: &str, traits: &WorkloadTraits) -> String {
    let in_flight = load.strip_suffix(" in flight").and_then(|count| count.parse::<usize>().ok());
    let noun = if traits.unit == OperationUnit::Request { "request" } else { "operation" };
    match in_flight {
        _ if load.is_empty() => String::new(),
        Some(count) if traits.storage => format!(" at queue depth {count}"),
        Some(count) => format!(" with {} in flight", plural(count, noun)),
        None if load.starts_with("ramp ") => format!(" with a {load}"),
        None if load.ends_with(" arrivals") && !load.starts_with("steps ") => {
            format!(" at an offered load of {load}")
        }
        None => format!(" with {load}"),
    }
}

/// Operation size in bytes above which bandwidth is more useful than the rate.
const LARGE_BYTES: f64 = 128.0 * 1024.0;

/// Distinct loads, which are not compared: the throughput of each.
fn listed(document: &ResultDocument) -> (Option<String>, Vec<String>) {
    let each = document.configurations.iter().filter_map(|configuration| {
        let median = |name: &str| configuration.medians.get(name).copied();
        let (rate, bytes) = (median("rate_per_s")?, median("bytes_per_s").unwrap_or(0.0));
        let carried = match document.traits.storage && bytes / rate >= LARGE_BYTES {
            true => Quantity::BytesPerSecond.show(bytes),
            false => Quantity::Rate(rate_word(&document.traits)).show(rate),
        };
        let is_bound = configuration.at_least.contains("response_ms.mean");
        let mean = median("response_ms.mean")
            .map_or(String::new(), |mean| format!(", mean {}", time_ms_bounded(mean, is_bound)));
        Some(format!("{}: {carried}{mean}", labels::row(document, &configuration.treatment.label)))
    });
    let mut each: Vec<String> = each.collect();
    if each.is_empty() {
        return (None, each);
    }
    let rest = each.split_off(1);
    let rest = if rest.is_empty() { rest } else { vec![format!("{}.", rest.join("; "))] };
    (Some(format!("{}.", each.remove(0))), rest)
}

/// Where a sweep peaks, and what lies beyond.
fn swept(document: &ResultDocument, said: &mut Vec<usize>) -> (Option<String>, Vec<String>) {
    // Of several curves the one with the highest throughput is reported.
    let most = |carried: fn(&Claim) -> Option<f64>| {
        let claims = document.findings.iter().enumerate();
        let claims = claims.filter_map(|(at, finding)| Some((at, carried(&finding.claim)?)));
        claims.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    };
    let sweep = most(|claim| match claim {
        Claim::LoadSweep(sweep) => Some(sweep.peak.rate_per_s),
        _ => None,
    });
    let sizes = most(|claim| match claim {
        Claim::BlockSizes { to, .. } => Some(to.bytes_per_s),
        _ => None,
    });
    let mut peaks = peaks(document).into_iter();
    let answer = peaks.next();
    let mut details: Vec<String> = peaks.collect();
    // The highest of several medians need not be better than the baseline. Without replicates a warning says so.
    if best(document).is_none() && document.comparison.iter().any(|row| row.low.is_some()) {
        details.extend(compared(document).0);
    }
    for at in sweep.into_iter().chain(sizes) {
        details.push(match &document.findings[at].claim {
            Claim::LoadSweep(sweep) => load_sweep(sweep, sweep.series.is_empty()),
            _ => finding(&document.findings[at]),
        });
        said.push(at);
    }
    (answer, details)
}

/// The highest throughput over all curves, and the highest bandwidth where that is another point; of steps that follow one
/// another the throughput of each.
fn peaks(document: &ResultDocument) -> Vec<String> {
    let mut steps: Vec<Option<&str>> = Vec::new();
    for curve in &document.curves {
        if !steps.contains(&curve.operation.as_deref()) {
            steps.push(curve.operation.as_deref());
        }
    }
    let highest = |step: Option<&str>, value: fn(&CurvePoint) -> f64| {
        let curves = document.curves.iter().filter(|curve| curve.operation.as_deref() == step);
        let points = curves.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        let points = points.filter(|(_, point)| value(point).is_finite() && value(point) > 0.0);
        points.max_by(|a, b| value(a.1).total_cmp(&value(b.1)))
    };
    let rates: Vec<(&Curve, &CurvePoint)> =
        steps.iter().filter_map(|step| highest(*step, |point| point.rate_per_s[0])).collect();
    // The throughput of an open load is that of its arrivals.
    if document.trials.iter().all(|trial| trial.is_carried)
        && let Some((curve, point)) = highest(None, |point| 1.0 / point.mean_ms[0])
        && !labels::is_load(&curve.factor, &document.traits)
    {
        return vec![format!("Shortest response time: {}.", peak(curve, point, &document.traits))];
    }
    let bandwidth = highest(None, |point| point.bytes_per_s[0]).filter(|_| document.traits.storage);
    let mut texts: Vec<String> = Vec::new();
    for (curve, point) in &rates {
        let carried = throughput(document, point.rate_per_s[0], point.bytes_per_s[0]);
        texts.push(format!("Peak: {carried} at {}.", peak(curve, point, &document.traits)));
    }
    if let Some((curve, point)) = bandwidth.filter(|found| !rates.contains(found)) {
        let moved = Quantity::BytesPerSecond.show(point.bytes_per_s[0]);
        texts.push(format!("Highest bandwidth: {moved} at {}.", peak(curve, point, &document.traits)));
    }
    texts
}

/// `block size 4KiB (queue depth 32): mean 440 µs, p99 1.10 ms`.
fn peak(curve: &Curve, point: &CurvePoint, traits: &WorkloadTraits) -> String {
    let series = labels::series(curve);
    let series = if series.is_empty() { String::new() } else { format!(" ({series})") };
    let latency = match curve.operation {
        _ if traits.grouped => String::new(),
        Some(_) => String::new(),
        None => match crate::text::mean_and_p99(point.mean_ms[0], point.p99_ms[0], point.at_least) {
            times if times.is_empty() => times,
            times => format!(": {times}"),
        },
    };
    let factor = labels::setting(&curve.factor);
    format!("{factor} {}{series}{latency}", labels::level_text(&point.label))
}

/// A configuration in the middle of a sentence.
fn name(document: &ResultDocument, at: usize) -> String {
    match labels::configuration(document, at).as_str() {
        "baseline" => "the baseline".into(),
        name => name.to_string(),
    }
}

/// The metrics by which configurations are compared, the first one first.
pub(super) fn deciding(document: &ResultDocument) -> Vec<&str> {
    let names = tables::compared_metrics(document);
    let steps: Vec<&str> = names.iter().copied().filter(|name| name.ends_with(".rate_per_s")).collect();
    match () {
        () if !steps.is_empty() => steps,
        // Of a copy the bytes count, however many blocks they are.
        () if tables::is_copy(document) => vec!["bytes_per_s", "elapsed_s"],
        () if document.traits.operations_apart => vec!["response_ms.mean"],
        () if document.traits.grouped => vec!["rate_per_s"],
        // The throughput is that of the arrivals.
        () if document.trials.iter().all(|trial| trial.is_carried) => {
            vec!["response_ms.p50", "response_ms.p99"]
        }
        // Larger blocks have fewer operations and more bytes per second: one alone would mislead.
        () if disagree(document, "rate_per_s", "bytes_per_s") => {
            vec!["rate_per_s", "bytes_per_s", "response_ms.p99"]
        }
        () => vec!["rate_per_s", "response_ms.p99"],
    }
}

pub(super) fn rows<'a>(document: &'a ResultDocument, metric: &str) -> Vec<&'a ComparisonRow> {
    document.comparison.iter().filter(|row| row.metric == metric).collect()
}

/// The place of the configuration that is better than all others in what decides; of two the one that is not the baseline.
/// None where none is shown to be better.
fn best(document: &ResultDocument) -> Option<usize> {
    let place = |row: &ComparisonRow| {
        document.configurations.iter().position(|each| each.treatment.label == row.configuration)
    };
    let metric = deciding(document).first().copied()?;
    let rows = rows(document, metric);
    match rows.as_slice() {
        [only] => place(only),
        rows => {
            let better = rows.iter().filter(|row| row.answer == Answer::Better);
            better.max_by(|a, b| gain(a).total_cmp(&gain(b))).and_then(|row| place(row))
        }
    }
}

/// The place of the configuration with the highest throughput, if its limit is clear.
fn fastest(document: &ResultDocument) -> Option<usize> {
    let is_clear = |at: &usize| {
        let verdict = document.configurations[*at].verdict.as_ref();
        verdict.is_some_and(|verdict| !matches!(verdict, Verdict::Inconclusive { .. }))
    };
    let rates = document.configurations.iter().enumerate();
    let rates = rates.filter_map(|(at, of)| Some((at, *of.medians.get("rate_per_s")?)));
    rates.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at).filter(is_clear)
}

fn gain(row: &ComparisonRow) -> f64 {
    if row.higher_is_better { row.ratio } else { 1.0 / row.ratio }
}

/// How the configurations compare with the baseline: the answer, then the other metrics and configurations.
fn compared(document: &ResultDocument) -> (Option<String>, Vec<String>) {
    let metrics = deciding(document);
    let mut answer = None;
    let mut details = Vec::new();
    for (at, name) in metrics.iter().enumerate() {
        let rows = rows(document, name);
        let is_first = at == 0;
        match rows.as_slice() {
            [] => {}
            [row] if is_first => answer = Some(of_pair(document, row)),
            [row] if row.answer == Answer::CantTell => {}
            [row] => details.push(format!("{}.", sentence_start(&amounts(document, row)))),
            rows if is_first => answer = Some(of_many(document, rows, best(document))),
            // The table has the others.
            rows => {
                let label = best(document).map(|best| document.configurations[best].treatment.label.as_str());
                let row = rows.iter().find(|row| Some(row.configuration.as_str()) == label);
                let row = row.filter(|row| row.answer != Answer::CantTell);
                details.extend(row.map(|row| format!("{}.", sentence_start(&amounts(document, row)))));
            }
        }
    }
    (answer, details)
}

/// Whether a configuration is better in one metric and worse in another.
fn disagree(document: &ResultDocument, one: &str, other: &str) -> bool {
    let answers = |metric: &str| -> Vec<Answer> {
        document.comparison.iter().filter(|row| row.metric == metric).map(|row| row.answer).collect()
    };
    let opposite = |pair: (&Answer, &Answer)| {
        matches!(pair, (Answer::Better, Answer::Worse) | (Answer::Worse, Answer::Better))
    };
    answers(one).iter().zip(&answers(other)).any(opposite)
}

/// `throughput 70.3 k IOPS instead of 17.9 k IOPS (x 3.83, 95 % interval 3.08 to 4.75, 3 pairs): better`.
fn amounts(document: &ResultDocument, row: &ComparisonRow) -> String {
    let metric = tables::metric(&row.metric, &document.traits);
    let [here, baseline] = sides(row, metric.quantity);
    format!("{} {here} instead of {baseline} ({}): {}", metric.name, change(row), row.answer.word())
}

/// The value of the configuration and that of the baseline.
pub(super) fn sides(row: &ComparisonRow, quantity: Quantity) -> [String; 2] {
    let sides = [(row.treatment, row.treatment_is_bound), (row.baseline, row.baseline_is_bound)];
    sides.map(|(value, is_bound)| bounded(is_bound, quantity.show(value)))
}

/// `-26.6 %, 95 % interval -28.2 to -26.1 %, 5 pairs`.
pub(super) fn change(row: &ComparisonRow) -> String {
    let style = RatioStyle::for_ratios([row.ratio]);
    let unit = if style == RatioStyle::Percent { " %" } else { "" };
    let ends = row.low.zip(row.high);
    let interval = ends.map_or("one pair, no interval".to_string(), |(low, high)| {
        let (low, high) = style.ends(low, high);
        format!("95 % interval {low} to {high}{unit}, {}", plural(row.pairs as usize, "pair"))
    });
    format!("{}, {interval}", style.show(row.ratio, ends))
}

/// Two configurations in one metric.
fn of_pair(document: &ResultDocument, row: &ComparisonRow) -> String {
    let this = labels::labelled(document, &row.configuration);
    let baseline = name(document, 0);
    let metric = tables::metric(&row.metric, &document.traits);
    let [here, before] = sides(row, metric.quantity);
    let noun = match row.metric.starts_with("response_ms.p") {
        true => format!("{} response time", metric.name),
        false => metric.name.to_string(),
    };
    match row.answer {
        Answer::Better | Answer::Worse => format!(
            "{} is {} than {baseline}: {noun} {here} instead of {before} ({}).",
            sentence_start(&this),
            match (row.answer, document.traits.operations_apart) {
                (Answer::Better, true) => "faster",
                (Answer::Worse, true) => "slower",
                (answer, _) => answer.word(),
            },
            change(row)
        ),
        Answer::Same => {
            let within = row.smallest_change.map_or(String::new(), |share| {
                format!(" A difference of less than {} does not matter.", percent(share))
            });
            let this = sentence_start(&this);
            format!(
                "{this} and {baseline} have the same {noun}, {here} and {before} ({}).{within}",
                change(row)
            )
        }
        Answer::CantTell if row.baseline_is_bound || row.treatment_is_bound => format!(
            "No difference in {noun} is shown between {this} and {baseline}: {here} and {before}, and the values with >= are only \
             bounds.",
        ),
        Answer::CantTell if row.low.is_none() => format!(
            "{}: {noun} {here} instead of {before} ({}, one pair).",
            sentence_start(&this),
            RatioStyle::for_ratios([row.ratio]).show(row.ratio, None)
        ),
        Answer::CantTell => format!(
            "No difference in {noun} is shown between {this} and {baseline}: {here} and {before} ({}).{}",
            change(row),
            settle(row)
        ),
    }
}

/// How many replicates would show a difference.
pub(super) fn settle(row: &ComparisonRow) -> String {
    match (row.replicates_to_settle, row.replicates_to_show) {
        (Some(settle), Some(show)) => format!(
            " About {settle} replicates would settle it; about {show} would show a difference of 5 %."
        ),
        (Some(settle), None) => format!(" About {settle} replicates would settle it."),
        (None, Some(show)) => format!(" About {show} replicates would show a difference of 5 %."),
        (None, None) => String::new(),
    }
}

/// Several configurations in one metric: the best, and how many are better where they are many.
fn of_many(document: &ResultDocument, rows: &[&ComparisonRow], best: Option<usize>) -> String {
    let baseline = name(document, 0);
    let noun = tables::metric(&rows[0].metric, &document.traits).name;
    let label = best.map(|at| document.configurations[at].treatment.label.as_str());
    let row = rows.iter().find(|row| Some(row.configuration.as_str()) == label);
    let best = match row {
        Some(row) => {
            let this = labels::labelled(document, &row.configuration);
            let metric = tables::metric(&row.metric, &document.traits);
            let [here, before] = sides(row, metric.quantity);
            format!("Best: {this}. {} {here} instead of {before} ({}).", sentence_start(&noun), change(row))
        }
        None if rows.iter().all(|row| row.answer == Answer::Worse) => best_is_baseline(document, rows),
        None => format!("No configuration is shown to be better than {baseline} in {noun}."),
    };
    if rows.len() < SIDE_BY_SIDE {
        return best;
    }
    let count = |answer| rows.iter().filter(|row| row.answer == answer).count();
    let [better, worse, same, unclear] =
        [Answer::Better, Answer::Worse, Answer::Same, Answer::CantTell].map(count);
    format!(
        "{best} Of {} compared with {baseline}, {better} are better, {worse} worse, {same} the same, and {unclear} unclear.",
        plural(rows.len(), "configuration"),
    )
}

/// Where every other configuration is worse: the baseline, and what comes nearest.
fn best_is_baseline(document: &ResultDocument, rows: &[&ComparisonRow]) -> String {
    let metric = tables::metric(&rows[0].metric, &document.traits);
    let distance = |row: &&&ComparisonRow| row.ratio.ln().abs();
    let nearest = rows.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(&rows[0]);
    format!(
        "Best: {}. {} {}; next {} with {} ({}).",
        name(document, 0),
        sentence_start(&metric.name),
        sides(nearest, metric.quantity)[1],
        labels::labelled(document, &nearest.configuration),
        sides(nearest, metric.quantity)[0],
        change(nearest),
    )
}

/// What limits: the verdict; of several configurations that of the baseline and of the best, or of the last.
fn limits(document: &ResultDocument, best: Option<usize>, said: &mut Vec<usize>) -> Vec<String> {
    let configurations = &document.configurations;
    let judged = configurations.iter().filter(|each| each.verdict.is_some()).count();
    let is_of_sides =
        matches!(&document.verdict, Verdict::Inconclusive { reason: InconclusiveReason::Sides { .. }, .. });
    let first = || {
        let next = configurations.first().and_then(|baseline| baseline.next.as_ref());
        format!("{}{}", verdict(document), next_sentence(&document.verdict, next))
    };
    let has_steps = configurations.iter().any(|each| !each.steps.is_empty());
    if judged < 2 {
        let steps = configurations.first().and_then(|only| limits_of_steps(only, document));
        return std::iter::once(first()).chain(steps).collect();
    }
    if is_of_sides {
        return vec![first()];
    }
    let baseline = sentence_start(&name(document, 0));
    let on = |of: &Configuration| limits_on(of, document);
    let of_all: Vec<String> = configurations.iter().filter_map(on).collect();
    let is_clear = matches!(document.verdict, Verdict::Bottleneck { .. });
    // The label of a configuration says its queue depth already.
    let labelled = |text: String| match baseline.contains("ueue depth 1") {
        true => {
            format!("{baseline}: {}", text.replacen("Latency-bound at queue depth 1:", "Latency-bound:", 1))
        }
        false => format!("{baseline}: {text}"),
    };
    if is_clear && !has_steps && of_all.iter().all(|limit| *limit == of_all[0]) {
        let count = of_all.len();
        let both = if count == 2 { "Both".into() } else { format!("All {count}") };
        return vec![labelled(first()), format!("{both} configurations have this limit.")];
    }
    // The same sentence of each says it once.
    let own = |of: &Configuration| verdict_of_configuration(of, document);
    let of_baseline = own(&configurations[0]);
    if !has_steps
        && judged == configurations.len()
        && configurations[1..].iter().all(|of| own(of) == of_baseline)
    {
        let each = if judged == 2 { "Both configurations" } else { "Every configuration" };
        return vec![format!("{each}: {}", first())];
    }
    let mut texts = vec![labelled(first())];
    let other = best.filter(|at| *at > 0).unwrap_or(configurations.len() - 1);
    let other_name = sentence_start(&name(document, other));
    let configuration = &configurations[other];
    if has_steps {
        texts.extend(limits_of_steps(configuration, document).map(|steps| format!("{other_name}: {steps}")));
    } else if let Some(own) = configuration.verdict.as_ref().filter(|_| other > 0) {
        let limit = on(configuration);
        let is_clear = !matches!(own, Verdict::Inconclusive { .. });
        let text = match limit.is_some() && limit == on(&configurations[0]) && is_clear {
            true => format!("the same limit, {}.", limit.unwrap_or_default()),
            false => {
                said.extend(findings_of(own));
                verdict_of_configuration(configuration, document).unwrap_or_default()
            }
        };
        texts.push(format!("{other_name}: {text}{}", next_sentence(own, configuration.next.as_ref())));
    }
    if configurations.len() > SIDE_BY_SIDE {
        texts.extend(shared_limits(document));
    }
    texts
}

/// In how many of many configurations each limit binds.
fn shared_limits(document: &ResultDocument) -> Option<String> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for limit in document.configurations.iter().filter_map(|of| limits_on(of, document)) {
        match counts.iter_mut().find(|known| known.0 == limit) {
            Some(known) => known.1 += 1,
            None => counts.push((limit, 1)),
        }
    }
    counts.sort_by_key(|known| std::cmp::Reverse(known.1));
    let texts: Vec<String> = counts.iter().map(|(limit, count)| format!("{limit} in {count}")).collect();
    (!texts.is_empty()).then(|| {
        format!("Limits of the {} configurations: {}.", document.configurations.len(), texts.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    /// Answer, ratio and its interval.
    type Row = (Answer, f64, Option<(f64, f64)>);

    /// The baseline of a stored run and so many configurations that were compared with it, in throughput alone. The numbers of
    /// the comparison are set, so that each answer is read with round ones.
    fn compared(configurations: usize, rows: &[Row]) -> ResultDocument {
        let mut document = recorded::part("distributions", 1 + configurations, 2).document;
        document.comparison.retain(|row| row.metric == "rate_per_s");
        for (row, (answer, ratio, interval)) in document.comparison.iter_mut().zip(rows) {
            (row.answer, row.ratio) = (*answer, *ratio);
            (row.baseline, row.treatment) = (40_000.0, 40_000.0 * ratio);
            (row.low, row.high) = (interval.map(|(low, _)| low), interval.map(|(_, high)| high));
            (row.pairs, row.replicates_to_settle, row.replicates_to_show) = (5, Some(24), None);
        }
        document
    }

    #[test]
    fn the_answer_says_which_configuration_is_better() {
        use Answer::{Better, CantTell, Same, Worse};
        for (answer, ratio, interval, expected) in [
            (
                Better,
                1.34,
                Some((1.31, 1.37)),
                "Distribution zipf 1.2 is better than distribution uniform: throughput 53.6 k IOPS instead of 40.0 k IOPS (+34.0 %, \
                 95 % interval +31.0 to +37.0 %, 5 pairs).",
            ),
            (
                Worse,
                0.356,
                Some((0.316, 0.4)),
                "Distribution zipf 1.2 is worse than distribution uniform: throughput 14.2 k IOPS instead of 40.0 k IOPS (x 0.356, \
                 95 % interval 0.316 to 0.400, 5 pairs).",
            ),
            (
                Same,
                1.002,
                Some((0.99, 1.01)),
                "Distribution zipf 1.2 and distribution uniform have the same throughput, 40.1 k IOPS and 40.0 k IOPS (+0.2 %, 95 % \
                 interval -1.0 to +1.0 %, 5 pairs). A difference of less than 3.0 % does not matter.",
            ),
            (
                CantTell,
                1.04,
                Some((0.94, 1.15)),
                "No difference in throughput is shown between distribution zipf 1.2 and distribution uniform: 41.6 k IOPS and 40.0 k \
                 IOPS (+4 %, 95 % interval -6 to +15 %, 5 pairs). About 24 replicates would settle it.",
            ),
            (
                CantTell,
                1.04,
                None,
                "Distribution zipf 1.2: throughput 41.6 k IOPS instead of 40.0 k IOPS (+4.0 %, one pair).",
            ),
        ] {
            let document = compared(1, &[(answer, ratio, interval)]);
            assert_eq!(headline(&document).answer.as_deref(), Some(expected));
        }
    }

    #[test]
    fn of_several_the_best_comes_first() {
        let rows = [
            (Answer::Better, 1.1, Some((1.05, 1.15))),
            (Answer::Better, 2.5, Some((2.4, 2.6))),
            (Answer::Worse, 0.8, Some((0.75, 0.85))),
        ];
        let answer = headline(&compared(3, &rows)).answer.unwrap();
        assert_eq!(
            answer,
            "Best: distribution hot 90% in 10%. Throughput 100 k IOPS instead of 40.0 k IOPS (x 2.50, 95 % interval 2.40 to 2.60, 5 \
             pairs)."
        );
        let many = headline(&compared(4, &rows)).answer.unwrap();
        assert!(
            many.starts_with("Best: distribution hot 90% in 10%. Throughput 100 k IOPS instead of"),
            "{many}"
        );
        assert!(many.contains("Of 4 configurations compared with the baseline, 2 are better, "), "{many}");
        let worse = headline(&compared(3, &[rows[2], rows[2], rows[2]])).answer.unwrap();
        assert_eq!(
            worse,
            "Best: the baseline. Throughput 40.0 k IOPS; next distribution zipf 1.2 with 32.0 k IOPS (-20.0 %, 95 % interval -25.0 to -15.0 %, 5 pairs)."
        );
    }

    #[test]
    fn bandwidth_that_contradicts_throughput_is_said() {
        let mut document = compared(1, &[(Answer::Worse, 0.356, Some((0.316, 0.4)))]);
        let row = ComparisonRow {
            metric: "bytes_per_s".into(),
            answer: Answer::Better,
            ratio: 5.69,
            ..document.comparison[0].clone()
        };
        document.comparison.push(ComparisonRow { low: Some(5.06), high: Some(6.4), ..row });
        let headline = headline(&document);
        assert!(headline.answer.unwrap().starts_with("Distribution zipf 1.2 is worse than"));
        assert_eq!(headline.details.len(), 1);
        assert!(headline.details[0].starts_with("Bandwidth "), "{:?}", headline.details);
        assert!(headline.details[0].ends_with("(x 5.69, 95 % interval 5.06 to 6.40, 5 pairs): better."));
    }

    #[test]
    fn what_limits_is_said_of_each_configuration_once() {
        let document = compared(2, &[]);
        let first = headline(&document);
        assert_eq!(first.limits.len(), 2);
        assert!(
            first.limits[0].starts_with("Distribution uniform: Disk vda was saturated"),
            "{:?}",
            first.limits
        );
        assert_eq!(first.limits[1], "All 3 configurations have this limit.");
        let own = findings_of(&document.verdict);
        assert!(!own.is_empty() && first.said.iter().all(|at| own.contains(at)), "{:?}", first.said);
        let limits = headline(&compared(4, &[])).limits;
        assert!(limits[1].starts_with("Cache page-cache: No bottleneck identified"), "{limits:?}");
        assert!(limits[2].starts_with("Limits of the 5 configurations: disk vda in "), "{limits:?}");
        // Without a best one, that of the last.
        let mut document = recorded::run("users").document;
        document.verdict = document.configurations[4].verdict.clone().unwrap();
        let limits = headline(&document).limits;
        assert!(
            limits[1].starts_with("Concurrency 16: The worker pool of target was the limit"),
            "{limits:?}"
        );
        assert!(limits[2].starts_with("Limits of the 5 configurations: not clear in 4"), "{limits:?}");
        // Of one configuration there is nothing to compare.
        let document = recorded::run("disk").document;
        let single = headline(&document);
        assert_eq!(single.limits.len(), 1);
        let answer = "71.1 k IOPS (291 MB/s) at queue depth 16: mean 224 µs, p99 356 µs.";
        assert_eq!(single.answer.as_deref(), Some(answer));
        assert_eq!(single.said, findings_of(&document.verdict));
    }

    #[test]
    fn where_the_generator_was_the_limit_nothing_else_is_listed_as_one() {
        let limits = |document: &ResultDocument| {
            let others = headline(document).others(document);
            others.iter().filter(|finding| finding.kind == FindingKind::Limits).count()
        };
        let mut document = recorded::run("disk").document;
        let limit = document.findings.iter().position(|finding| finding.kind == FindingKind::Limits).unwrap();
        let another = Finding { about: None, ..document.findings[limit].clone() };
        document.findings.push(another);
        // Nothing rests on it.
        assert_eq!(limits(&document), 0);
        let last = document.findings.len() - 1;
        let mut verdict = document.verdict.clone();
        if let Verdict::Bottleneck { finding, .. } = &mut verdict {
            *finding = Some(last);
        }
        document.configurations[0].verdict = Some(verdict);
        assert_eq!(limits(&document), 1);
        let claim =
            Claim::Generator { threads: 1, ran_share: 0.99, wait_share: 0.0, late: None, starved_by: None };
        let generator = Finding { claim, about: None, ..document.findings[limit].clone() };
        document.findings.push(generator);
        document.verdict = Verdict::GeneratorBound { finding: document.findings.len() - 1 };
        assert_eq!(limits(&document), 0);
    }

    #[test]
    fn a_sweep_says_where_it_peaks() {
        let document = recorded::run("grid").document;
        let answer = headline(&document).answer.unwrap();
        let highest = |value: fn(&CurvePoint) -> f64| {
            let points = document.curves.iter().flat_map(|curve| &curve.points);
            points.max_by(|a, b| value(a).total_cmp(&value(b))).unwrap()
        };
        let rate = Quantity::Rate("IOPS").show(highest(|point| point.rate_per_s[0]).rate_per_s[0]);
        let bandwidth = Quantity::BytesPerSecond.show(highest(|point| point.bytes_per_s[0]).bytes_per_s[0]);
        assert!(answer.starts_with(&format!("Peak: {rate} (")), "{answer}");
        let details = headline(&document).details;
        assert!(details[0].starts_with(&format!("Highest bandwidth: {bandwidth} at ")), "{details:?}");
        // A peak that is not shown to be better is said to be so.
        let mut unclear = document.clone();
        for row in &mut unclear.comparison {
            (row.answer, row.low, row.high) = (Answer::CantTell, Some(0.5), Some(2.0));
        }
        let shown = |document: &ResultDocument| headline(document).details.join(" ");
        assert!(
            !unclear.comparison.is_empty()
                && shown(&unclear).contains("No configuration is shown to be better")
        );
        assert!(!shown(&document).contains("No configuration is shown"));
        // Two levels of one setting are two configurations.
        let pair = recorded::run("queue-depth").document;
        assert_eq!(pair.curves[0].points.len(), 2);
        assert!(is_swept(&document) && !is_swept(&pair));
    }

    #[test]
    fn open_loads_that_were_carried_are_compared_by_response_time() {
        let carried = |mut document: ResultDocument| {
            document.trials.iter_mut().for_each(|trial| trial.is_carried = true);
            headline(&document).answer.unwrap()
        };
        let pair = carried(recorded::part("distributions", 2, 2).document);
        assert!(pair.contains("p50 response time") && !pair.contains("throughput"), "{pair}");
        let sweep = carried(recorded::run("block-size").document);
        assert!(sweep.starts_with("Shortest response time: block size "), "{sweep}");
    }

    #[test]
    fn every_kind_of_run_is_answered_with_figures() {
        for (run, expected) in [
            ("copy", "512 MiB in 283 ms (1.90 GB/s)."),
            (
                "http",
                "196 requests/s at an offered load of 200/s, Poisson arrivals: mean 2.13 ms, p90 3.01 ms.",
            ),
            ("exec", "The first launch took 1.56 ms; 19 later launches took 1.06 ms in the median."),
            (
                "failing",
                "65.0 requests/s with 1 request in flight: mean 4.97 ms, p90 7.35 ms. 68 % of the operations failed.",
            ),
            ("all-failed", "All 202 operations failed."),
            ("nothing-completed", "No operation completed: 1 operation waited for an answer until the end."),
        ] {
            assert_eq!(headline(&recorded::run(run).document).answer.as_deref(), Some(expected), "{run}");
        }
        assert_eq!(headline(&recorded::run("watch").document).answer, None);
        // The steps of a synchronization each have a rate.
        let sync = headline(&recorded::part("sync", 1, 1).document).answer.unwrap();
        assert!(sync.starts_with("Staging ") && sync.contains(" objects/s, synchronization "), "{sync}");
    }
}
