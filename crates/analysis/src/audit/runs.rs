//! A run as figures, and what its record shows besides.

use std::collections::BTreeMap;

use model::audit::{AuditFinding, AuditKind, Severity};
use model::figure::{CORRECTED, Figure, Figures, HISTOGRAM, Quantity, SCRIPTED, STATED, Span, TIME_STEP_MS};
use model::result::{OperationResult, ResultDocument, TrialResult};
use model::run::Origin;
use model::{DoubtKind, Level, Profile, RunRecord, Shape, Study, Verdict};

use super::series;
use crate::configuration::SAMPLES_BEYOND;
use crate::measured::Measured;
use crate::statistics::median;

/// How far a percentile of a histogram may be off.
const BUCKET_SHARE: f64 = 2e-3;
/// How far a time of another tool may be off: they print three digits, and have coarser buckets.
const PRINTED_SHARE: f64 = 1e-2;
/// How far the first of several replicates is from the others if a cache made the difference: as a share of their median,
/// and in ranges of the others.
const FIRST_SHARE: f64 = 0.15;
const FIRST_RANGES: f64 = 4.0;
/// Replicates after the first that such a judgement requires.
const OTHERS_MIN: usize = 3;

/// Each trial, with one result for each of its operations.
pub(super) fn figures(study: &Study, document: &ResultDocument) -> Vec<Figures> {
    let mut results = Vec::new();
    for trial in &document.trials {
        let Some(record) = record(study, trial) else { continue };
        let named = trial.operations.iter().filter(|of| of.name != model::Operation::All).count();
        for operation in trial.operations.iter().filter(|of| of.completed > 0) {
            let is_whole = named < 2 || operation.name == model::Operation::All;
            let mut result = of_operation(record, trial, operation, is_whole);
            if named > 1 {
                result.name = format!("{}, {}", result.name, operation.name);
            }
            results.push(result);
        }
    }
    results
}

fn record<'a>(study: &'a Study, trial: &TrialResult) -> Option<&'a RunRecord> {
    study.runs.iter().find(|record| record.run.trial.id() == trial.trial)
}

fn of_operation(
    record: &RunRecord,
    trial: &TrialResult,
    operation: &OperationResult,
    is_whole: bool,
) -> Figures {
    let mut figures = Vec::new();
    let is_imported = record.run.origin == Origin::Imported;
    let step_s = match trial.facts.get(TIME_STEP_MS) {
        Some(Level::Number(step)) => step / 1e3,
        _ => 0.0,
    };
    let times = operation.response_ms;
    for (quantity, ms) in [
        (Quantity::Min, times.min),
        (Quantity::Mean, times.mean),
        (Quantity::Percentile(50.0), times.p50),
        (Quantity::Percentile(90.0), times.p90),
        (Quantity::Percentile(95.0), times.p95),
        (Quantity::Percentile(99.0), times.p99),
        (Quantity::Percentile(99.9), times.p999),
        (Quantity::Max, times.max),
    ] {
        // Our results say which percentiles have too few operations; those of other tools do not. Launches have a time each.
        let is_shown = match quantity {
            Quantity::Percentile(percent) if !is_imported || percent == 99.9 => {
                operation.completed as f64 * (1.0 - percent / 100.0) >= SAMPLES_BEYOND
            }
            _ => true,
        };
        if ms.is_finite() && is_shown && !record.run.traits.operations_apart {
            let share = if is_imported { PRINTED_SHARE } else { BUCKET_SHARE };
            let mut figure = Figure::measured(quantity, ms / 1e3, share);
            // A tool that counts in whole milliseconds cuts each off, and then the mean.
            let above = if quantity == Quantity::Mean { 2.0 } else { 1.0 };
            figure.span =
                Span::new((figure.span.low - step_s / 2.0).max(0.0), figure.span.high + above * step_s);
            figures.push(figure);
        }
    }
    figures.push(Figure::measured(Quantity::Count, operation.completed as f64, 0.0));
    figures.push(Figure::measured(Quantity::Failed, operation.failed as f64, 0.0));
    if is_imported && is_whole {
        of_another_tool(record, trial, operation, &mut figures);
    } else if !is_imported {
        figures.push(Figure::measured(Quantity::Rate, operation.rate_per_s, 1e-3));
        figures.push(Figure::measured(Quantity::Throughput, operation.bytes_per_s, 1e-3));
    }
    let mut histogram = Vec::new();
    for (name, share) in
        trial.facts.iter().filter_map(|(name, level)| Some((name.strip_prefix(HISTOGRAM)?, level)))
    {
        let edge = Figure::parse(Quantity::Min, name.trim_end_matches(" and more"));
        let share = match share {
            Level::Percent(share) => Figure::parse(Quantity::RatePercent, &format!("{share} %")),
            _ => continue,
        };
        if let (Ok(edge), Ok(share)) = (edge, share) {
            histogram.push((edge.value, share));
        }
    }
    histogram.sort_by(|a, b| a.0.total_cmp(&b.0));
    let name = format!("trial {}", trial.trial);
    Figures { name, figures, histogram, ..Figures::default() }
}

/// What the tool printed itself, in place of what was worked out of it, and the load.
fn of_another_tool(
    record: &RunRecord,
    trial: &TrialResult,
    operation: &OperationResult,
    figures: &mut Vec<Figure>,
) {
    let stated = trial.facts.iter().filter_map(|(name, level)| {
        let quantity = Quantity::of_name(name.strip_prefix(STATED)?)?;
        let Level::Text(text) = level else { return None };
        Figure::parse(quantity, text).ok()
    });
    let stated: Vec<Figure> = stated.collect();
    let is_stated = |quantity: Quantity| stated.iter().any(|figure| figure.quantity == quantity);
    figures.retain(|figure| !is_stated(figure.quantity));
    if !is_stated(Quantity::Rate) && trial.measured_s > 0.0 {
        figures.push(Figure::measured(Quantity::Rate, operation.completed as f64 / trial.measured_s, 5e-3));
    }
    let block = record.run.asked.get("workload.block_size");
    if let Some(Level::Bytes(block)) = block.filter(|_| !is_stated(Quantity::BlockSize)) {
        figures.push(Figure::measured(Quantity::BlockSize, *block as f64, 0.0));
    }
    if let Some(Shape::Closed { users: Profile::Constant(users), think }) = &record.run.load.shape
        && !trial.facts.contains_key(CORRECTED)
    {
        figures.push(Figure::measured(Quantity::InFlight, *users, 0.0));
        if trial.facts.contains_key(SCRIPTED) {
            let unknown = Figure::within(Quantity::ThinkTime, 0.0, Span::new(0.0, f64::INFINITY));
            figures.push(unknown.with_text("of unknown length"));
        } else if *think > 0 {
            figures.push(Figure::measured(Quantity::ThinkTime, *think as f64 / 1e9, 0.01));
        }
    }
    figures.extend(stated);
}

/// What the record shows besides its figures.
pub(super) fn findings(study: &Study, document: &ResultDocument) -> Vec<AuditFinding> {
    let mut found = Vec::new();
    for trial in &document.trials {
        let Some(record) = record(study, trial) else { continue };
        let doubts = trial.doubts.iter().filter(|doubt| counts(doubt.kind));
        found.extend(
            doubts.map(|doubt| of_doubt(&format!("trial {}", trial.trial), &doubt.text, &doubt.help)),
        );
        if record.run.origin == Origin::Imported {
            series::findings(&Measured::of(record), trial, &mut found);
        }
    }
    let doubts = document.doubts.iter().filter(|doubt| counts(doubt.kind));
    found.extend(doubts.map(|doubt| of_doubt("the experiment", &doubt.text, &doubt.help)));
    if let Verdict::GeneratorBound { .. } = document.verdict {
        let text = "the load generator was the limit, so the figures are its own and not those of the system";
        found.push(of_doubt(
            "the experiment",
            text,
            "drive the load with more processors, or from several machines",
        ));
    }
    first_trials(document, &mut found);
    found
}

/// Whether a doubt of a result is a reason not to rely on it. Others say how it was made.
fn counts(kind: DoubtKind) -> bool {
    match kind {
        DoubtKind::Unsteady
        | DoubtKind::LittlesLaw
        | DoubtKind::NotIssued
        | DoubtKind::Censored
        | DoubtKind::Backlog
        | DoubtKind::Generator
        | DoubtKind::NotTheDevice
        | DoubtKind::Holes
        | DoubtKind::HiddenCache
        | DoubtKind::SharedDevice
        | DoubtKind::NotInForce
        | DoubtKind::NoTraffic
        | DoubtKind::Failures
        | DoubtKind::Corrupted
        | DoubtKind::Unsolicited
        | DoubtKind::Incomplete
        | DoubtKind::NothingFound
        | DoubtKind::CountsDiffer
        | DoubtKind::CutShort
        | DoubtKind::OwnLag
        | DoubtKind::Clock
        | DoubtKind::Drift
        | DoubtKind::Damaged => true,
        // Judged for each percentile; and what is too short to find the limit has its figures.
        DoubtKind::FewSamples
        | DoubtKind::Short
        | DoubtKind::VolatileCache
        | DoubtKind::Compressible
        | DoubtKind::MissingSource
        | DoubtKind::Replication
        | DoubtKind::Neighbour
        | DoubtKind::Unverified
        | DoubtKind::LeftOut
        | DoubtKind::BackEnd
        | DoubtKind::BackEndsDiffer => false,
    }
}

fn of_doubt(of: &str, text: &str, help: &str) -> AuditFinding {
    AuditFinding {
        kind: AuditKind::Doubt { text: text.into(), help: help.into() },
        severity: Severity::Doubtful,
        of: of.into(),
        line: 0,
        figures: Vec::new(),
        follows: None,
        follows_text: String::new(),
    }
}

/// The first trial of a configuration far from its replicates, which are alike: what it filled, they found filled.
fn first_trials(document: &ResultDocument, found: &mut Vec<AuditFinding>) {
    let mut of_label: BTreeMap<&str, Vec<&TrialResult>> = BTreeMap::new();
    for trial in
        document.trials.iter().filter(|trial| trial.ending == model::Ending::Completed && !trial.is_carried)
    {
        of_label.entry(&trial.treatment.label).or_default().push(trial);
    }
    for trials in of_label.into_values() {
        let rates: Vec<f64> =
            trials.iter().filter_map(|trial| trial.whole()).map(|whole| whole.rate_per_s).collect();
        let (Some((first, others)), Some(trial)) = (rates.split_first(), trials.first()) else { continue };
        let Some(middle) = median(others).filter(|middle| others.len() >= OTHERS_MIN && *middle > 0.0) else {
            continue;
        };
        let (low, high) =
            others.iter().fold((f64::MAX, f64::MIN), |(low, high), rate| (low.min(*rate), high.max(*rate)));
        let off = (first - middle).abs();
        if off > FIRST_SHARE * middle && off > FIRST_RANGES * (high - low) {
            let of = Figures { name: format!("trial {}", trial.trial), ..Figures::default() };
            let first = Figure::measured(Quantity::Rate, *first, 0.0);
            let finding = super::finding(&of, AuditKind::FirstTrial, Severity::Doubtful, &[&first]);
            found.push(super::follows(finding, Quantity::Rate, Span::new(low, high)));
        }
    }
}
