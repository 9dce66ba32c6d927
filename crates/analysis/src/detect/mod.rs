//! Detectors: each looks for one thing and answers findings, for and against, with their numbers. A new one is a file
//! here and a line in [`DETECTORS`].

use model::result::{Curve, ResultDocument, TrialResult};
use model::{Ending, Estimate, Evidence, Finding, FindingKind, Study, Treatment};

use crate::measured::Measured;
use crate::words;

mod cpu;
mod disk;
mod generator;
mod launches;
mod memory;
mod network;
mod pauses;
mod service;
mod steadiness;

pub(crate) use service::{NAME as SERVICE, services, waits_for_cpus};

/// Looks at a study and what was computed of it so far: trials, configurations, comparison and curves. The trials of
/// the document are those of the study, in the same order.
pub type Detector = fn(&Study, &ResultDocument) -> Vec<Finding>;

/// Every detector with its name, in the order their findings are shown.
pub static DETECTORS: &[(&str, Detector)] = &[
    (generator::NAME, generator::detect),
    (pauses::NAME, pauses::detect),
    (service::NAME, service::detect),
    (disk::NAME, disk::detect),
    (cpu::NAME, cpu::detect),
    (memory::NAME, memory::detect),
    (network::NAME, network::detect),
    (steadiness::NAME, steadiness::detect),
    (launches::NAME, launches::detect),
];

/// What one trial shows, before claims of the same kind about the same resource are gathered.
struct Claim {
    kind: FindingKind,
    resource: String,
    /// A sentence, with its full stop.
    text: String,
    /// How clearly it shows, to choose the trial whose numbers stand for all.
    strength: f64,
    evidence: Vec<Evidence>,
    against: Vec<Evidence>,
}

/// Asks every completed trial and gathers the claims: one finding for each kind and resource, told with the numbers of
/// the baseline's clearest trial, or of the clearest of all when the baseline does not show it.
fn gather(
    detector: &str,
    study: &Study,
    document: &ResultDocument,
    claims: impl Fn(&Measured, &TrialResult) -> Vec<Claim>,
) -> Vec<Finding> {
    let mut gathered: Vec<Vec<(usize, Claim)>> = Vec::new();
    let mut asked = 0;
    for (at, (record, trial)) in study.runs.iter().zip(&document.trials).enumerate() {
        let of_proof = matches!(record.run.trial.treatment, Treatment::Proof(_));
        if record.run.ending != Ending::Completed || of_proof {
            continue;
        }
        asked += 1;
        for claim in claims(&Measured::of(record), trial) {
            let same = gathered.iter_mut().find(|claims| {
                claims.iter().any(|(_, other)| other.kind == claim.kind && other.resource == claim.resource)
            });
            match same {
                Some(claims) => claims.push((at, claim)),
                None => gathered.push(vec![(at, claim)]),
            }
        }
    }
    gathered
        .into_iter()
        .filter_map(|mut claims| {
            let trials: Vec<String> =
                claims.iter().filter_map(|(at, _)| Some(document.trials.get(*at)?.trial.clone())).collect();
            let baseline = |at: usize| study.runs[at].run.trial.treatment == Treatment::Baseline;
            let (clearest, _) = claims.iter().enumerate().max_by(|(_, (a, left)), (_, (b, right))| {
                baseline(*a).cmp(&baseline(*b)).then(left.strength.total_cmp(&right.strength))
            })?;
            let (_, claim) = claims.swap_remove(clearest);
            let text = match (trials.len(), asked) {
                (_, 1) => claim.text,
                (all, asked) if all == asked => format!("{} So in all {asked} trials.", claim.text),
                (some, asked) => format!("{} So in {some} of {asked} trials.", claim.text),
            };
            Some(Finding {
                kind: claim.kind,
                detector: detector.into(),
                resource: claim.resource,
                text,
                evidence: claim.evidence,
                against: claim.against,
                trials,
            })
        })
        .collect()
}

/// Evidence over the whole measured phase of a trial.
fn evidence(
    measured: &Measured,
    trial: &TrialResult,
    metric: impl Into<String>,
    observed: f64,
    expected: Option<Estimate>,
    text: impl Into<String>,
) -> Evidence {
    Evidence {
        run: trial.trial.clone(),
        metric: metric.into(),
        begin_s: measured.begin_s,
        end_s: measured.end_s,
        observed: Estimate::exact(observed),
        expected,
        text: text.into(),
    }
}

/// "; the CPU was 14 % busy", or nothing when that was not read.
fn cpu_clause(measured: &Measured) -> String {
    match measured.host_mean("cpu.busy_share") {
        Some(busy) => format!("; the CPU was {} busy", words::percent(busy)),
        None => String::new(),
    }
}

/// A factor that is how much load there is.
pub(crate) fn is_load(factor: &str) -> bool {
    matches!(
        factor,
        "workload.outstanding" | "workload.threads" | "load" | "load.closed" | "load.open" | "load.steps"
    )
}

/// The curves over how much load there is.
pub(crate) fn load_curves(document: &ResultDocument) -> impl Iterator<Item = &Curve> {
    document.curves.iter().filter(|curve| is_load(&curve.factor))
}

/// Adds to each limit how throughput answered to more load, which speaks for it or against.
fn note_gains(findings: &mut [Finding], document: &ResultDocument) {
    for finding in findings.iter_mut().filter(|finding| finding.kind == FindingKind::Limits) {
        for (evidence, grew) in load_curves(document).filter_map(gain) {
            if grew { &mut finding.against } else { &mut finding.evidence }.push(evidence);
        }
    }
}

/// Elasticity of throughput to load above which the system was not yet full.
const GREW: f64 = 0.2;

/// How throughput answered to the last rise of the load, and whether it still grew (elasticity above 0.2): with a device
/// that is full it does not.
pub(crate) fn gain(curve: &Curve) -> Option<(Evidence, bool)> {
    let [.., before, after] = curve.points.as_slice() else { return None };
    let more = after.level / before.level;
    let gained = after.rate_per_s[0] / before.rate_per_s[0];
    let elasticity = gained.ln() / more.ln();
    if !(more > 1.0 && elasticity.is_finite()) {
        return None;
    }
    let grew = elasticity > GREW;
    let series = if curve.series.is_empty() { String::new() } else { format!(" ({})", curve.series) };
    let text = format!(
        "{} from {} to {}{series}: throughput x{gained:.2}, {}",
        curve.factor,
        before.label,
        after.label,
        if grew { "so more load still gives more" } else { "so more load gives little more" }
    );
    let found = Evidence {
        run: String::new(),
        metric: "elasticity of throughput to load".into(),
        begin_s: 0.0,
        end_s: 0.0,
        observed: Estimate::exact(elasticity),
        expected: Some(Estimate { value: 0.0, low: 0.0, high: GREW }),
        text,
    };
    Some((found, grew))
}
