//! Detectors: each looks for one kind of sign and returns findings for and against, with their numbers. A new
//! detector is a file here and a line in [`DETECTORS`].

use std::collections::BTreeMap;

use model::result::{ResultDocument, TrialResult};
use model::{Claim, Detector, Ending, Evidence, Finding, FindingKind, Operation, Resource, Study, Treatment};

use crate::measured::Measured;
use crate::trial::of_step;

mod cpu;
mod disk;
mod generator;
mod launches;
mod load;
mod memory;
mod network;
mod pauses;
mod responses;
mod service;
mod steadiness;
mod write_cache;

/// Examines a study and the results computed so far: trials, configurations, comparison and curves. The
/// trials of the document are those of the study, in the same order.
pub(crate) type Detect = fn(&Study, &ResultDocument) -> Vec<Finding>;

/// Every detector, in the order in which their findings are shown.
pub(crate) static DETECTORS: &[Detect] = &[
    generator::detect,
    pauses::detect,
    service::detect,
    disk::detect,
    cpu::detect,
    memory::detect,
    network::detect,
    load::detect,
    steadiness::detect,
    write_cache::detect,
    launches::detect,
    responses::detect,
];

/// A sign in one trial, before claims of the same kind about the same resource are merged.
struct Sign {
    kind: FindingKind,
    about: Option<Resource>,
    claim: Claim,
    /// How clear the sign is, to choose the trial whose numbers represent all. For a limit, its used share.
    strength: f64,
    evidence: Vec<Evidence>,
    against: Vec<Evidence>,
    /// The step; none for the whole trial.
    step: Option<Operation>,
}

impl Sign {
    fn new(kind: FindingKind, about: Option<Resource>, claim: Claim, strength: f64) -> Self {
        Sign { kind, about, claim, strength, evidence: Vec::new(), against: Vec::new(), step: None }
    }

    fn with(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }
}

/// Collects the signs of all completed trials: one finding for each kind and resource. It has the numbers of
/// the clearest trial of the baseline, or of the clearest of all if the baseline has none.
fn gather(
    detector: Detector,
    study: &Study,
    document: &ResultDocument,
    signs: impl Fn(&Measured, &TrialResult) -> Vec<Sign>,
) -> Vec<Finding> {
    let ask = |measured: &Measured, trial: &TrialResult| vec![(None, signs(measured, trial))];
    gather_from(detector, study, document, ask)
}

/// The same for each step of consecutive operations: the limit of one step says nothing about the next.
fn gather_steps(
    detector: Detector,
    study: &Study,
    document: &ResultDocument,
    signs: impl Fn(&Measured, &TrialResult) -> Vec<Sign>,
) -> Vec<Finding> {
    gather_from(detector, study, document, |measured, trial| {
        let steps = measured.steps();
        if steps.is_empty() {
            return vec![(None, signs(measured, trial))];
        }
        let of_each = steps.iter().map(|step| {
            let during = measured.during(step);
            (Some(step.operation.clone()), signs(&during, &of_step(trial, &during)))
        });
        of_each.collect()
    })
}

/// `ask` returns the signs of each examined step, or of the whole trial without a step.
fn gather_from(
    detector: Detector,
    study: &Study,
    document: &ResultDocument,
    ask: impl Fn(&Measured, &TrialResult) -> Vec<(Option<Operation>, Vec<Sign>)>,
) -> Vec<Finding> {
    let mut gathered: Vec<Vec<(usize, Sign)>> = Vec::new();
    let mut asked: BTreeMap<Option<Operation>, usize> = BTreeMap::new();
    for (at, (record, trial)) in study.runs.iter().zip(&document.trials).enumerate() {
        let of_proof = matches!(record.run.trial.treatment, Treatment::Proof(_));
        if record.run.ending != Ending::Completed || of_proof {
            continue;
        }
        for (step, signs) in ask(&Measured::of(record), trial) {
            *asked.entry(step.clone()).or_default() += 1;
            for mut sign in signs.into_iter().filter(|sign| sign.claim.is_finite()) {
                sign.step = step.clone();
                let same =
                    gathered.iter_mut().find(|signs| signs.iter().any(|(_, other)| is_same(other, &sign)));
                match same {
                    Some(signs) => signs.push((at, sign)),
                    None => gathered.push(vec![(at, sign)]),
                }
            }
        }
    }
    gathered
        .into_iter()
        .filter_map(|mut signs| {
            let trials: Vec<String> =
                signs.iter().filter_map(|(at, _)| Some(document.trials.get(*at)?.trial.clone())).collect();
            let used = signs.iter().filter(|(_, sign)| sign.kind == FindingKind::Limits);
            let used = used.map(|(_, sign)| sign.strength.clamp(0.0, 1.0)).collect();
            let baseline =
                |at: usize| study.runs[at].run.trial.treatment.configuration() == Treatment::Baseline;
            let (clearest, _) = signs.iter().enumerate().max_by(|(_, (a, left)), (_, (b, right))| {
                baseline(*a).cmp(&baseline(*b)).then(left.strength.total_cmp(&right.strength))
            })?;
            let (_, sign) = signs.swap_remove(clearest);
            Some(Finding {
                kind: sign.kind,
                detector,
                about: sign.about,
                side: None,
                of_trials: asked.get(&sign.step).copied().unwrap_or(0),
                step: sign.step,
                claim: sign.claim,
                evidence: sign.evidence,
                against: sign.against,
                trials,
                used,
            })
        })
        .collect()
}

/// Whether two signs belong to one finding: the same step and resource, or, without a resource, the same kind
/// of claim. A device limits by its latency or by its capacity, which are two findings.
fn is_same(one: &Sign, other: &Sign) -> bool {
    let same_sort = || std::mem::discriminant(&one.claim) == std::mem::discriminant(&other.claim);
    let same_place = one.step == other.step && one.about == other.about;
    let is_of_latency = |sign: &Sign| {
        sign.kind == FindingKind::Limits
            && matches!(&sign.claim, Claim::Device(device) if device.one_at_a_time)
    };
    one.kind == other.kind
        && same_place
        && (one.about.is_some() || same_sort())
        && is_of_latency(one) == is_of_latency(other)
}

/// A finding about the whole experiment; none if its numbers are not finite.
fn of_experiment(
    detector: Detector,
    kind: FindingKind,
    claim: Claim,
    evidence: Vec<Evidence>,
) -> Option<Finding> {
    claim.is_finite().then(|| Finding {
        kind,
        detector,
        about: None,
        side: None,
        step: None,
        claim,
        evidence,
        against: Vec::new(),
        trials: Vec::new(),
        used: Vec::new(),
        of_trials: 0,
    })
}

/// Adds to each limit the effect of more load on throughput, as evidence for or against it. The latency of a device that has
/// one operation at a time is hidden by the next ones, so that growth from the smallest load is evidence for it.
fn note_gains(findings: &mut [Finding], document: &ResultDocument) {
    for finding in findings.iter_mut().filter(|finding| finding.kind == FindingKind::Limits) {
        let is_latency =
            matches!(&finding.claim, Claim::Device(of) if of.one_at_a_time && of.in_flight < 1.5);
        let effect = if is_latency { crate::curve::first_gain } else { crate::curve::gain };
        for gain in crate::curve::load_curves(document).filter_map(effect) {
            let is_for = gain.grew == is_latency;
            if is_for { &mut finding.evidence } else { &mut finding.against }.push(gain.evidence);
        }
    }
}
