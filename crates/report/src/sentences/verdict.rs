//! Verdicts in sentences, and the missing evidence.

use model::result::{Configuration, StepVerdict};
use model::verdict::{InconclusiveReason, JointEvidence, Limit, UnsaturatedReason};
use model::{Claim, Finding, HostResource, Missing, Owner, Resource, ResultDocument, Verdict};

use super::finding::claim_in;
use super::limits::{lead, limit_words, resource_words};
use super::{evidence, listed, proof};
use crate::labels;
use crate::text::{capitalized, per_s, percent, things, time_ms_bounded, time_s};

/// Utilization from which a resource has no headroom, even if operations were not yet slower.
const NO_HEADROOM: f64 = 0.95;

/// The context of a verdict: a result, and the judged trials; none for all.
#[derive(Clone, Copy)]
struct Judged<'a> {
    document: &'a ResultDocument,
    trials: Option<&'a [String]>,
}

/// The verdict of a result in sentences. With several configurations, that of the baseline.
pub fn verdict(document: &ResultDocument) -> String {
    let trials = match document.configurations.as_slice() {
        [baseline, _, ..] if !baseline.treatment.is_side => Some(baseline.trials.as_slice()),
        _ => None,
    };
    let said = text(&document.verdict, Judged { document, trials });
    let baseline = document.configurations.first().filter(|of| !of.treatment.is_side);
    match baseline.and_then(lead) {
        Some(lead) => format!("{lead} {said}"),
        None => said,
    }
}

/// A verdict of this result, in sentences.
pub fn verdict_of(verdict: &Verdict, document: &ResultDocument) -> String {
    text(verdict, Judged { document, trials: None })
}

/// The verdict of one configuration of this result, in sentences; none where it has none.
pub fn verdict_of_configuration(configuration: &Configuration, document: &ResultDocument) -> Option<String> {
    let judged = Judged { document, trials: Some(&configuration.trials) };
    let said = configuration.verdict.as_ref().map(|verdict| text(verdict, judged))?;
    Some(lead(configuration).map_or(said.clone(), |lead| format!("{lead} {said}")))
}

/// The verdict of one step of a configuration of this result, in sentences.
pub fn verdict_of_step(step: &StepVerdict, of: &Configuration, document: &ResultDocument) -> String {
    text(&step.verdict, Judged { document, trials: Some(&of.trials) })
}

fn text(verdict: &Verdict, judged: Judged<'_>) -> String {
    match verdict {
        Verdict::Bottleneck { limit, finding, .. } => bottleneck(limit, *finding, judged),
        Verdict::NotSaturated { carried } => not_saturated(carried, judged),
        Verdict::GeneratorBound { finding } => {
            claimed(Some(*finding), judged).unwrap_or_else(|| "The load generator was the limit.".into())
        }
        Verdict::Inconclusive { reason, .. } => unclear(reason, judged),
    }
}

/// The claim of a finding with the evidence against it, which is part of the sentence.
fn claimed(at: Option<usize>, judged: Judged<'_>) -> Option<String> {
    let claim: &Finding = judged.document.findings.get(at?)?;
    let (trials, of) = match judged.trials {
        Some(trials) => (trials.iter().filter(|id| claim.trials.contains(id)).count(), trials.len()),
        None => (claim.trials.len(), claim.of_trials),
    };
    let text = claim_in(claim, trials, of);
    let against: Vec<String> = claim.against.iter().map(evidence).collect();
    match against.is_empty() {
        true => Some(text),
        false => Some(format!("{text} Evidence against it: {}.", against.join("; "))),
    }
}

fn the(resources: &[HostResource]) -> Vec<String> {
    resources.iter().map(|resource| format!("the {}", noun(*resource))).collect()
}

/// The name of a resource within a sentence.
fn noun(resource: HostResource) -> &'static str {
    match resource {
        HostResource::Cpu => "CPU",
        other => other.words(),
    }
}

fn bottleneck(limit: &Limit, at: Option<usize>, judged: Judged<'_>) -> String {
    match limit {
        Limit::One { resource, close_above } => {
            let text = claimed(at, judged)
                .unwrap_or_else(|| format!("{} was the limit.", capitalized(&named(resource))));
            match close_above.is_empty() {
                true => text,
                false => format!(
                    "{text} With slightly more of it, {} would be the limit.",
                    listed(&the(close_above))
                ),
            }
        }
        Limit::Together { resources, sign } => {
            let why = match sign {
                JointEvidence::EachFollowed => {
                    "throughput depends on each of them, so more of only one gains little"
                }
                JointEvidence::RaisingOneGainedNothing => "more of only one gained nothing",
                JointEvidence::ReducingEitherCosts => "less of either reduces throughput",
            };
            format!("{} are the limit together: {why}.", capitalized(&listed(&the(resources))))
        }
        Limit::CloseTo { resource, other } => format!(
            "The {0} and {1} are the limit together: less {0} reduces throughput, but more of only it gains nothing.",
            noun(*resource),
            other.as_ref().map_or("something that was not changed".into(), named)
        ),
    }
}

/// A resource within a sentence, with its article if it needs one.
fn named(resource: &Resource) -> String {
    match &resource.of {
        Some(Owner::Device(_)) => resource.to_string(),
        Some(Owner::Address(address)) => format!("the service {}", super::service::at_address(address)),
        _ => format!("the {}", resource.to_string().replacen("cpu", "CPU", 1)),
    }
}

fn not_saturated(carried: &UnsaturatedReason, judged: Judged<'_>) -> String {
    match carried {
        UnsaturatedReason::Offered { rate_per_s, p99_ms, is_bound, closest } => {
            let carried = format!(
                "all of the offered {} were completed, with a p99 of {}.",
                per_s(*rate_per_s),
                time_ms_bounded(*p99_ms, *is_bound)
            );
            match closest {
                None => format!("Nothing was saturated: {carried}"),
                Some(used) if used.share < NO_HEADROOM => {
                    format!("Nothing was saturated: {carried} Closest to saturation: {}.", super::closest(used))
                }
                Some(used) => format!(
                    "The load was carried: {carried} No headroom is left: {}.",
                    super::closest(used)
                ),
            }
        }
        UnsaturatedReason::AllThatUsersAsked { load, rate_per_s, mean_ms, is_bound, finding } => format!(
            "The load was the limit: {load} give {} at a mean response time of {}. {} Raise the load to \
            find the capacity of the system.",
            per_s(*rate_per_s),
            time_ms_bounded(*mean_ms, *is_bound),
            claimed(Some(*finding), judged).unwrap_or_default()
        ),
        UnsaturatedReason::Waited { finding } => format!(
            "No resource of the host was the limit. {}",
            claimed(Some(*finding), judged).unwrap_or_default()
        ),
        UnsaturatedReason::StillGrowing { finding } => {
            let last = match judged.document.findings.get(*finding).map(|finding| &finding.claim) {
                Some(Claim::LoadSweep(sweep)) => format!(", {} {}", labels::setting(&sweep.factor), sweep.last.label),
                _ => String::new(),
            };
            format!(
                "Nothing was saturated: throughput still grew at the largest load{last}. Raise the load to find the limit."
            )
        }
    }
    .replace("  ", " ")
}

fn unclear(reason: &InconclusiveReason, judged: Judged<'_>) -> String {
    let ruled_out = |resources: &[Resource]| match resources {
        [] => String::new(),
        some => {
            let names: Vec<String> = some.iter().map(resource_words).collect();
            format!(" Ruled out: {}.", names.join(", "))
        }
    };
    match reason {
        InconclusiveReason::OnlyWatched => {
            "Plimsoll only recorded counters and drove no load, so there is no bottleneck to find.".into()
        }
        InconclusiveReason::NoCounters => {
            "Another tool measured, and no counters of the system were imported with its result, so the limit is not known.".into()
        }
        InconclusiveReason::Corrupted => {
            "The data read back differs from the data written, so the throughput is invalid.".into()
        }
        InconclusiveReason::CountsDiffer => {
            "The server counted other operations than the load, so it is not known what the counters are of."
                .into()
        }
        InconclusiveReason::NothingCompleted => "No trial completed.".into(),
        InconclusiveReason::NothingRecorded => "The completed trials recorded no operation.".into(),
        InconclusiveReason::StoppedAnswering { at_s, measured_s, in_flight, answered_later: true } => format!(
            "From {} on nothing was answered until the end of the {} measured, with {} in flight; some of it was answered after \
             that. So the limit is not known.",
            time_s(*at_s),
            time_s(*measured_s),
            things(*in_flight)
        ),
        InconclusiveReason::StoppedAnswering { at_s, measured_s, in_flight, .. } => format!(
            "The system stopped answering after {}: from then on nothing succeeded until the end of the {} measured, with {} in \
             flight. So the limit is not known.",
            time_s(*at_s),
            time_s(*measured_s),
            things(*in_flight)
        ),
        InconclusiveReason::NeverAnswered { operations, share } => format!(
            "{} never ended and took {} of the time in flight. So the limit is not known.",
            crate::text::plural(usize::try_from(*operations).unwrap_or(usize::MAX), "operation"),
            percent(*share)
        ),
        InconclusiveReason::AllFailed => "Every operation failed.".into(),
        InconclusiveReason::TooManyFailed => {
            "Too many operations failed: rate and response times do not show the limit.".into()
        }
        InconclusiveReason::SeveralSaturated { findings } => {
            let texts: Vec<String> = findings.iter().filter_map(|at| claimed(Some(*at), judged)).collect();
            format!("More than one resource was saturated. {}", texts.join(" "))
        }
        InconclusiveReason::InSomeTrials { resource, trials, of_trials, ruled_out: others } => format!(
            "{} looked like the limit in only {trials} of {of_trials} trials.{} Measure longer (`--duration`) or more often \
             (`--replicates`).",
            capitalized(&named(resource)),
            ruled_out(others)
        ),
        InconclusiveReason::NothingSaturated { ruled_out: others } => {
            format!("No bottleneck identified: no resource was saturated.{}", ruled_out(others))
        }
        InconclusiveReason::Disproved { resource } => format!(
            "{} looked like the limit, but the proof shows that it is not. {}",
            capitalized(&named(resource)),
            proof(judged.document).unwrap_or_default()
        )
        .trim_end()
        .to_string(),
        InconclusiveReason::Sides { sides } => {
            let texts: Vec<String> = sides
                .iter()
                .map(|side| format!("{}: {}", side.label, verdict_of(&side.verdict, judged.document)))
                .collect();
            texts.join(" ")
        }
    }
}

/// How to run an experiment once more with a proof: neither a search nor a gate has one.
pub(crate) fn run_with_proof(document: &ResultDocument) -> &'static str {
    if document.gate.is_some() {
        return "Measure one of the versions without [gate] and with --prove";
    }
    match document.limit.is_some() {
        true => "Measure this load without a search and with --prove",
        false => "Run with --prove",
    }
}

/// What to do to get a verdict, as a sentence.
pub(crate) fn missing(document: &ResultDocument, missing: &Missing) -> String {
    match missing {
        Missing::CompletedTrial => "Run at least one trial to its end.".into(),
        Missing::Intervals => "Measure again: no trial recorded an interval with operations.".into(),
        Missing::Success => "Measure again with operations that succeed.".into(),
        Missing::FewerFailures => "Measure again with at most 1 % failed operations.".into(),
        Missing::OneChangedAlone => {
            format!("{}: it changes each saturated resource alone.", run_with_proof(document))
        }
        Missing::Source(source) => format!("Make the counters of {source} readable."),
        Missing::ImportedCounters => {
            "Import the counters of the system with the result: `plimsoll import RESULT COUNTERS`.".into()
        }
        Missing::GeneratorCpu => "Record the CPU time of the load generator's threads.".into(),
        Missing::GeneratorUndisturbed => {
            "Stop other programs so that the load generator does not wait for a CPU, and measure again."
                .into()
        }
        Missing::CpuUse => "Record CPU utilization: watch `host`.".into(),
        Missing::LongerTrial => {
            "Measure for longer (--duration, --repeat): the trials were too short for the CPU counters."
                .into()
        }
        Missing::Device => "Use files whose block device is known.".into(),
        Missing::DeviceQueue => "Make the counters of the block device behind the files readable.".into(),
        Missing::WhereOperationsWaited => {
            "Watch the process of the service to find the cause: --watch process:NAME. Of a server on another host, watch its \
             exporter: --watch http://HOST:9100/metrics."
                .into()
        }
        Missing::Proof => {
            format!("{}: it changes each resource to find the limit.", run_with_proof(document))
        }
        Missing::OtherLoads(setting) => {
            format!("Measure other loads to see where throughput stops growing: --vary {setting}=1,4,16,64.")
        }
        Missing::SamplesOfStep => "Give this step more work, or sample more often (`sample_every`).".into(),
        Missing::Looks => "Launch it more often (--repeat), or do more in one launch.".into(),
        Missing::MoreOperations => {
            "Set more operations (`--operations`), or a shorter warm-up: all of them were issued before the measured time.".into()
        }
        Missing::Answers => {
            "Find out why the system did not answer, with its own log or --watch process:NAME, and measure again.".into()
        }
        Missing::OtherFactor => "Vary other resources: none of the changed ones is the limit.".into(),
    }
}

/// The limit in a few words: `disk vda`, `mixed: cpu and disk`; none without a resource.
pub(crate) fn limiting(verdict: &Verdict) -> Option<String> {
    let Verdict::Bottleneck { limit, .. } = verdict else { return None };
    Some(match limit {
        Limit::One { resource, .. } => resource.to_string(),
        Limit::Together { resources, .. } => {
            let names: Vec<&str> = resources.iter().map(|resource| resource.words()).collect();
            format!("mixed: {}", names.join(" and "))
        }
        Limit::CloseTo { resource, other } => {
            let other = other.as_ref().map_or("what was not changed".to_string(), ToString::to_string);
            format!("mixed: {resource} and {other}")
        }
    })
}

/// The indices of the findings that a verdict is based on.
pub(crate) fn findings_of(verdict: &Verdict) -> Vec<usize> {
    match verdict {
        Verdict::Bottleneck { finding, .. } => finding.iter().copied().collect(),
        Verdict::GeneratorBound { finding }
        | Verdict::NotSaturated {
            carried:
                UnsaturatedReason::AllThatUsersAsked { finding, .. } | UnsaturatedReason::Waited { finding },
        } => vec![*finding],
        Verdict::NotSaturated { .. } => Vec::new(),
        Verdict::Inconclusive { reason: InconclusiveReason::SeveralSaturated { findings }, .. } => {
            findings.clone()
        }
        Verdict::Inconclusive { reason: InconclusiveReason::Sides { sides }, .. } => {
            sides.iter().flat_map(|side| findings_of(&side.verdict)).collect()
        }
        Verdict::Inconclusive { .. } => Vec::new(),
    }
}

/// The limit of a configuration in a few words: `disk vda`, `nothing was saturated`.
pub fn limits_on(configuration: &Configuration, document: &ResultDocument) -> Option<String> {
    configuration.verdict.as_ref().map(|verdict| limit_words(verdict, document))
}
