//! Which limit binds. Better no answer than a confident wrong one: what is missing is named.

use std::collections::BTreeSet;

use model::result::{ResultDocument, TrialResult};
use model::{DoubtKind, Ending, Finding, FindingKind, Run, SourceState, Study, Treatment, Verdict};

use crate::detect;
use crate::doubt::{ISSUED_SHARE, RUN_WAIT_SHARE, generator_shares};
use crate::measured::Measured;
use crate::words;

/// Standard deviations by which operations in flight at the edges of a phase may differ from their mean.
const EDGES: f64 = 3.0;

/// Share of failed operations beyond which a trial says nothing about limits.
pub(crate) const FAILED_SHARE: f64 = 0.01;

/// The verdict of a study from what was found. It is about the baseline, when a trial of it completed: the treatments
/// say what would change.
///
/// In this order: a trial in which more than 1 % fails says nothing; the load generator was the limit, and nothing else is claimed; a resource was, in most of the trials
/// and no other in as many; an open load was carried whole; else it cannot be said.
pub fn judge(study: &Study, document: &ResultDocument) -> Verdict {
    if document.workload == Run::WATCHED {
        let text = "Nothing was driven, only watched: there is no load to judge.".into();
        return Verdict::Inconclusive { text, missing: Vec::new() };
    }
    let mut doubts = document.trials.iter().flat_map(|trial| &trial.doubts);
    if doubts.any(|doubt| doubt.kind == DoubtKind::Corrupted) {
        let text = "The data read back is not what was written: how fast it came does not matter.".into();
        return Verdict::Inconclusive { text, missing: Vec::new() };
    }
    let completed: Vec<usize> = (0..study.runs.len().min(document.trials.len()))
        .filter(|at| study.runs[*at].run.ending == Ending::Completed)
        .filter(|at| document.trials[*at].whole().is_some_and(|whole| whole.completed > 0))
        .collect();
    let is_baseline = |at: &usize| study.runs[*at].run.trial.treatment == Treatment::Baseline;
    let mut judged: Vec<usize> = completed.iter().copied().filter(is_baseline).collect();
    if judged.is_empty() {
        judged = completed;
    }
    if judged.is_empty() {
        let (text, missing) = match study.runs.iter().any(|record| record.run.ending == Ending::Completed) {
            true => (
                "No operation was recorded of any trial that completed: there is nothing to judge.",
                "the intervals of a trial, with operations",
            ),
            false => ("No trial completed: there is nothing to judge.", "a trial that completed"),
        };
        return Verdict::Inconclusive { text: text.into(), missing: vec![missing.into()] };
    }
    let failing = |at: &usize| {
        let whole = document.trials[*at].whole();
        whole.is_some_and(|whole| whole.failed as f64 > FAILED_SHARE * whole.completed as f64)
    };
    if judged.iter().all(|at| document.trials[*at].failed_wholly()) {
        return Verdict::Inconclusive {
            text: "Every operation failed: there is nothing to judge.".into(),
            missing: vec!["a run whose operations succeed".into()],
        };
    }
    if judged.iter().all(failing) {
        return Verdict::Inconclusive {
            text: "Too many operations failed for their rate and times to say what limits.".into(),
            missing: vec![format!(
                "a run in which at most {} of the operations fail",
                words::percent(FAILED_SHARE)
            )],
        };
    }
    judged.retain(|at| !failing(at));
    let share_of = |finding: &Finding| {
        let about = judged.iter().filter(|at| finding.trials.contains(&document.trials[**at].trial)).count();
        about as f64 / judged.len() as f64
    };
    let limits = document.findings.iter().filter(|finding| finding.kind == FindingKind::Limits);
    let mut limits: Vec<(&Finding, f64)> = limits.map(|finding| (finding, share_of(finding))).collect();
    limits.retain(|(_, share)| *share >= 0.5);
    if let Some((finding, _)) = limits.iter().find(|(finding, _)| finding.detector == "generator") {
        return Verdict::GeneratorBound { text: finding.text.clone() };
    }
    limits.sort_by(|a, b| b.1.total_cmp(&a.1));
    // Two detectors that name the same resource agree.
    let mut named = BTreeSet::new();
    limits.retain(|(finding, _)| named.insert(finding.resource.as_str()));
    match limits.as_slice() {
        [] => {}
        [(finding, _)] => return bottleneck(finding),
        [(first, share), (_, next), ..] if share > next => return bottleneck(first),
        several => {
            let texts: Vec<&str> = several.iter().map(|(finding, _)| finding.text.as_str()).collect();
            return Verdict::Inconclusive {
                text: format!("More than one resource was full: {}", texts.join(" ")),
                missing: vec!["an experiment that turns one of them alone".into()],
            };
        }
    }
    if let Some(text) = limited_by_the_load(study, document, &judged) {
        return Verdict::NotSaturated { text };
    }
    let trials: Vec<&TrialResult> = judged.iter().map(|at| &document.trials[*at]).collect();
    let carried = |at: &usize| {
        let measured = Measured::of(&study.runs[*at]);
        let whole = document.trials[*at].whole();
        measured.is_open()
            && whole.is_some_and(|w| {
                // What was in flight as the phase began and as it ended is counted on one side only. Of a load that is
                // carried that is a number about the mean with its chance; of one that is not, the backlog is far beyond.
                let edges = EDGES * w.concurrency.max(0.0).sqrt() + 2.0;
                let enough =
                    |part: u64, of: u64| part as f64 >= (ISSUED_SHARE * of as f64).min(of as f64 - edges);
                w.offered > 0
                    && enough(w.issued, w.offered)
                    && enough(w.completed.saturating_sub(w.failed), w.offered)
            })
    };
    if judged.iter().all(carried) {
        return Verdict::NotSaturated { text: not_saturated(&trials) };
    }
    inconclusive(study, document, &judged)
}

/// A closed load whose users are the limit: the service had threads that waited for work, and nothing queued.
fn limited_by_the_load(study: &Study, document: &ResultDocument, judged: &[usize]) -> Option<String> {
    let has_room = |at: &usize| {
        let trial = &document.trials[*at].trial;
        document.findings.iter().any(|finding| {
            finding.kind == FindingKind::RuledOut
                && finding.detector == detect::SERVICE
                && finding.trials.contains(trial)
        })
    };
    let shape = |at: &usize| study.runs[*at].run.load.shape.clone();
    let is_closed = |at: &usize| matches!(shape(at), Some(model::Shape::Closed { .. }));
    // A moment in which others took the CPU lets a few connections wait, whatever the load.
    let with_room = judged.iter().filter(|at| is_closed(at) && has_room(at)).count();
    if 3 * with_room < 2 * judged.len() {
        return None;
    }
    // More users that gave no more throughput were not the limit, whatever room the threads had.
    if detect::load_curves(document).filter_map(detect::gain).any(|(_, grew)| !grew) {
        return None;
    }
    let whole = document.trials[*judged.first()?].whole()?;
    let room = document
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::RuledOut && finding.detector == detect::SERVICE)?;
    Some(format!(
        "The load itself was the limit: {} ask for {} and no more, each answered in {}. {} It could carry more; how much is not shown.",
        document.trials[judged[0]].load,
        words::per_s(whole.rate_per_s),
        words::ms(whole.response_ms.mean),
        room.text
    ))
}

fn bottleneck(finding: &Finding) -> Verdict {
    let mut text = finding.text.clone();
    // What speaks against it is part of the sentence, not a footnote.
    for against in &finding.against {
        text.push_str(&format!(" But {}.", against.text));
    }
    Verdict::Bottleneck { resource: finding.resource.clone(), text, proof: None }
}

/// The load that was carried whole, and the resource that came closest to being full.
fn not_saturated(trials: &[&TrialResult]) -> String {
    let slowest = trials
        .iter()
        .filter_map(|trial| trial.whole())
        .max_by(|a, b| a.response_ms.p99.total_cmp(&b.response_ms.p99));
    let carried = slowest.map(|whole| {
        format!(
            "Nothing was saturated: the {} offered were carried, 99 % of them within {}",
            words::per_s(whole.rate_per_s),
            words::ms(whole.response_ms.p99)
        )
    });
    let closest = trials
        .iter()
        .flat_map(|trial| &trial.resources)
        .filter(|used| used.full_at > 0.0)
        .max_by(|a, b| (a.mean / a.full_at).total_cmp(&(b.mean / b.full_at)));
    let closest = closest.map(|used| {
        let instance =
            if used.instance.is_empty() { String::new() } else { format!("{{{}}}", used.instance) };
        let share = words::percent(used.mean / used.full_at);
        format!("; closest to full was {}{instance} at {share}", used.metric)
    });
    format!("{}{}.", carried.unwrap_or_default(), closest.unwrap_or_default())
}

fn inconclusive(study: &Study, document: &ResultDocument, judged: &[usize]) -> Verdict {
    let mut missing = BTreeSet::new();
    for at in judged {
        let record = &study.runs[*at];
        let measured = Measured::of(record);
        for status in record.run.sources.iter().filter(|status| status.state != SourceState::Active) {
            missing.insert(format!("the counters of {}, which could not be read", status.source));
        }
        match generator_shares(record) {
            None => {
                missing.insert("the CPU time of the load generator's threads".into());
            }
            Some((_, waited)) if waited > RUN_WAIT_SHARE => {
                missing.insert("a run in which the load generator does not wait for a CPU".into());
            }
            Some(_) => {}
        }
        if measured.host_mean("cpu.busy_share").is_none() {
            missing.insert("how busy the CPUs were".into());
        }
        if measured.is_storage() && measured.devices().is_empty() {
            missing.insert("the device behind the files".into());
        } else if measured.is_storage() && measured.sum("disk.queue_length", &measured.devices()).is_none() {
            missing.insert("the queue of the device behind the files".into());
        }
    }
    let some_limit = document.findings.iter().find(|finding| finding.kind == FindingKind::Limits);
    let mut ruled_out: Vec<&str> = document
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::RuledOut)
        .map(|finding| finding.resource.as_str())
        .collect();
    ruled_out.dedup();
    let mut text = match some_limit {
        Some(finding) => format!(
            "No one resource limited most of the judged trials; {} did in {}",
            finding.resource,
            words::count(finding.trials.len(), "trial")
        ),
        None => "No resource was seen to be full".to_string(),
    };
    if !ruled_out.is_empty() {
        text.push_str(&format!("; ruled out: {}", ruled_out.join(", ")));
    }
    text.push('.');
    if missing.is_empty() {
        missing.insert("a counter of where the operations waited".into());
    }
    Verdict::Inconclusive { text, missing: missing.into_iter().collect() }
}
