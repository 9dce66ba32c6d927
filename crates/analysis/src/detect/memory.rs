//! Was memory the limit? Memory stalls show it. Free memory says little, because a cache uses all it can get.
//! Direct reclaim and refaults are evidence for or against it.

use model::claim::MemoryClaim;
use model::result::{ResultDocument, TrialResult};
use model::{
    Claim, Detector, Estimate, Evidence, Finding, FindingKind, Resource, ResourceClass, Study, metrics,
};

use super::{Sign, gather_steps};
use crate::facts::service::{FULL_MEMORY, memory_limit, services};
use crate::measured::Measured;

/// Pages that programs had to scan themselves before they got memory (direct reclaim).
const DIRECT_SCANS: &str = metrics::MEMORY_DIRECT_SCANS_PER_S;
/// Share of the time in which tasks stalled for memory from which it is the limit.
const STALLED_SHARE: f64 = 0.2;
/// Share of the time in which tasks stalled for memory below which it is ruled out.
const CALM_SHARE: f64 = 0.01;
/// Lower rates of pages and events per second are ignored.
const FEW_PER_S: f64 = 1.0;

/// Share of memory below which it is short where only its use is known: that of Performance Analysis of Logs (PAL).
const SHORT_SHARE: f64 = 0.05;

// A rule of thumb of administrators; shown, and used for the judgement only where nothing else is known.
const AVAILABLE_SHARE: f64 = 0.1;
const PAGE_READS_PER_S: f64 = 5.0;
const RECLAIM_EFFICIENCY: f64 = 0.3;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather_steps(Detector::Memory, study, document, |measured, trial| {
        let mut signs: Vec<Sign> = host(measured, trial).into_iter().collect();
        let services = services(measured).into_iter();
        signs.extend(services.filter_map(|service| limit_of_service(measured, trial, service)));
        signs.extend(measured.hosts().into_iter().filter_map(|name| host(&measured.on(name), trial)));
        signs
    })
}

/// The kernel's memory counters: waits for memory, and pages that were reclaimed too early.
struct Signs {
    /// Waits: programs that had to reclaim pages themselves (direct reclaim).
    waits: Vec<Evidence>,
    /// Refaults: pages that were reclaimed although they were still needed.
    read_back: Vec<Evidence>,
    other: Vec<Evidence>,
    /// Whether counters of both exist.
    known: bool,
}

impl Signs {
    fn of(measured: &Measured, trial: &TrialResult) -> Signs {
        let mut known = [false; 2];
        let mut sign = |kind: usize, metric: &str| {
            let value = measured.host_mean(metric)?;
            known[kind] = true;
            let found = measured.evidence(trial, metric, value);
            let few = |most| Estimate { value: 0.0, low: 0.0, high: most };
            let found = match metric {
                metrics::MEMORY_MAJOR_FAULTS_PER_S => found.rule_of_thumb(few(PAGE_READS_PER_S)),
                _ => found.threshold(few(FEW_PER_S)),
            };
            (value >= FEW_PER_S).then_some(found)
        };
        let waits = [DIRECT_SCANS, metrics::MEMORY_ALLOCATION_STALLS_PER_S];
        let waits = waits.iter().filter_map(|metric| sign(0, metric)).collect();
        let read_back = [
            metrics::MEMORY_REFAULTS_PER_S,
            metrics::MEMORY_SWAP_INS_PER_S,
            metrics::MEMORY_MAJOR_FAULTS_PER_S,
        ];
        let read_back = read_back.iter().filter_map(|metric| sign(1, metric)).collect();
        Signs { waits, read_back, other: other(measured, trial), known: known == [true; 2] }
    }

    fn none(&self) -> bool {
        self.known && self.waits.is_empty() && self.read_back.is_empty()
    }
}

/// Available memory and reclaim efficiency, for the rules of thumb.
fn other(measured: &Measured, trial: &TrialResult) -> Vec<Evidence> {
    let mut found = Vec::new();
    let available = measured.host_mean(metrics::MEMORY_AVAILABLE_BYTES);
    if let Some((available, total)) = available.zip(measured.host_mean(metrics::MEMORY_TOTAL_BYTES)) {
        let line = Estimate { value: total, low: AVAILABLE_SHARE * total, high: total };
        found.push(measured.evidence(trial, metrics::MEMORY_AVAILABLE_BYTES, available).rule_of_thumb(line));
    }
    let scans = [metrics::MEMORY_BACKGROUND_SCANS_PER_S, DIRECT_SCANS];
    let scans = scans.iter().filter_map(|metric| measured.host_mean(metric)).sum::<f64>();
    let reclaimed = measured.host_mean(metrics::MEMORY_RECLAIMED_PAGES_PER_S);
    if let Some(reclaimed) = reclaimed.filter(|_| scans >= FEW_PER_S) {
        let line = Estimate { value: 1.0, low: RECLAIM_EFFICIENCY, high: 1.0 };
        let efficiency = measured.evidence(trial, "memory.reclaim_efficiency_share", reclaimed / scans);
        found.push(efficiency.rule_of_thumb(line));
    }
    found
}

fn host(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let mut signs = Signs::of(measured, trial);
    let killed = measured.host_mean(metrics::MEMORY_OOM_KILLS_PER_S).filter(|killed| *killed > 0.0);
    let stalled = measured.host_mean(metrics::PRESSURE_MEMORY_SOME_SHARE);
    let mut claim = MemoryClaim {
        stalled_share: stalled,
        available_bytes: measured.host_mean(metrics::MEMORY_AVAILABLE_BYTES),
        available_share: None,
        direct_scans_per_s: None,
        out_of_memory: killed.is_some(),
        limit_of: None,
    };
    let mut kind = match stalled {
        Some(stalled) if stalled >= STALLED_SHARE => {
            // A limit of one service stalls its own tasks, even if the host has free memory.
            let full = services(measured).into_iter().find(|service| {
                memory_limit(measured, service).is_some_and(|(share, _)| share >= FULL_MEMORY)
            });
            claim.limit_of = full.map(str::to_string);
            FindingKind::Limits
        }
        Some(stalled) if stalled < CALM_SHARE => FindingKind::RuledOut,
        Some(_) => FindingKind::Observation,
        // A kernel without stall information (PSI): waits and refaults are used.
        None if signs.none() => FindingKind::RuledOut,
        None if !signs.waits.is_empty() => {
            claim.direct_scans_per_s = measured.host_mean(DIRECT_SCANS);
            FindingKind::Observation
        }
        // Windows counts neither: what is left are free memory and the reads of hard faults.
        None if !measured.host().is_empty() && !signs.known => {
            let total = measured.host_mean(metrics::MEMORY_TOTAL_BYTES).filter(|total| *total > 0.0)?;
            let share = claim.available_bytes? / total;
            let reads = measured.host_mean(metrics::MEMORY_MAJOR_FAULTS_PER_S);
            claim.available_share = Some(share);
            match () {
                () if share >= AVAILABLE_SHARE => FindingKind::RuledOut,
                () if share < SHORT_SHARE && reads.is_some_and(|reads| reads >= PAGE_READS_PER_S) => {
                    FindingKind::Observation
                }
                () => return None,
            }
        }
        None => return None,
    };
    let mut evidence = Vec::new();
    if let Some(stalled) = stalled {
        let line = Estimate { value: 0.0, low: 0.0, high: CALM_SHARE };
        evidence.push(measured.evidence(trial, metrics::PRESSURE_MEMORY_SOME_SHARE, stalled).threshold(line));
    }
    if let Some(killed) = killed {
        evidence.push(measured.evidence(trial, metrics::MEMORY_OOM_KILLS_PER_S, killed));
        if kind != FindingKind::Limits {
            kind = FindingKind::Observation;
        }
    }
    let mut against = Vec::new();
    if kind == FindingKind::RuledOut {
        against.append(&mut signs.waits);
        against.append(&mut signs.read_back);
    } else if signs.known && signs.read_back.is_empty() {
        let refaults = measured.host_mean(metrics::MEMORY_REFAULTS_PER_S).unwrap_or(0.0);
        let few = Estimate { value: 0.0, low: 0.0, high: FEW_PER_S };
        against.push(measured.evidence(trial, metrics::MEMORY_REFAULTS_PER_S, refaults).threshold(few));
    }
    evidence.extend(signs.waits.into_iter().chain(signs.read_back).chain(signs.other));
    let about = match &claim.limit_of {
        Some(service) => Resource::of_process(ResourceClass::Memory, service),
        None => Resource::of_host(ResourceClass::Memory).on(measured.host()),
    };
    let sign = Sign::new(kind, Some(about), Claim::Memory(claim), stalled.unwrap_or(0.0));
    Some(Sign { against, ..sign.with(evidence) })
}

/// Rules out the memory limit of a service. A limit that is reached is common, because the page cache uses
/// all it can get: the evidence would be refaults. That it is the limit is shown by what its threads wait
/// for, see the `service` detector.
fn limit_of_service(measured: &Measured, trial: &TrialResult, service: &str) -> Option<Sign> {
    let (share, limit) = memory_limit(measured, service)?;
    let few = |metric: &str, line: f64| measured.mean(metric, service).filter(|value| *value < line);
    let faults = few(metrics::PROCESS_MAJOR_FAULTS_PER_S, FEW_PER_S);
    let read = few(metrics::PROCESS_READ_BYTES_PER_S, FEW_PER_S * 4096.0);
    let reached = share >= FULL_MEMORY;
    if reached {
        faults.zip(read)?;
    }
    let line = Estimate { value: 1.0, low: FULL_MEMORY, high: 1.0 };
    let mut found =
        vec![measured.evidence_of(trial, "process.memory_charged_share", service, share).threshold(line)];
    if let Some(faults) = measured.mean(metrics::PROCESS_MAJOR_FAULTS_PER_S, service) {
        found.push(measured.evidence_of(trial, metrics::PROCESS_MAJOR_FAULTS_PER_S, service, faults));
    }
    let about = Resource::of_process(ResourceClass::Memory, service);
    let claim =
        Claim::MemoryLimit { process: service.into(), used_share: share, limit_bytes: limit, reached };
    Some(Sign::new(FindingKind::RuledOut, Some(about), claim, 1.0 - share).with(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result;
    use crate::simulate::{Simulated, single};
    use crate::tests::read::{evidence, shown};
    use model::Shape;

    /// A host with all memory counters at zero, except the given ones.
    fn host(stalled: Option<f64>, others: &[(&'static str, f64)]) -> Simulated {
        let mut run = Simulated::of(Shape::closed(8), 1000.0, 8.0)
            .counter("memory.total_bytes", "", &[2.4e10])
            .counter("memory.major_faults_per_s", "", &[0.0])
            .counter("memory.swap_ins_per_s", "", &[0.0])
            .counter("memory.refaults_per_s", "", &[0.0])
            .counter("memory.background_scans_per_s", "", &[0.0])
            .counter("memory.direct_scans_per_s", "", &[0.0])
            .counter("memory.reclaimed_pages_per_s", "", &[0.0])
            .counter("memory.allocation_stalls_per_s", "", &[0.0])
            .counter("memory.oom_kills_per_s", "", &[0.0]);
        run.counters.retain(|(metric, _, _)| *metric != "pressure.memory_some_share");
        if let Some(stalled) = stalled {
            run = run.counter("pressure.memory_some_share", "", &[stalled]);
        }
        others.iter().fold(run, |run, (metric, value)| run.counter(metric, "", &[*value]))
    }

    fn found(run: &Simulated) -> Vec<Finding> {
        let found = result(&single(run)).findings;
        found.into_iter().filter(|finding| finding.detector == Detector::Memory).collect()
    }

    type Counters = &'static [(&'static str, f64)];
    /// Name, share of the time stalled, counters that are not zero, and the finding.
    type Case = (&'static str, Option<f64>, Counters, Option<FindingKind>);

    const THRASHING: Counters = &[
        ("memory.direct_scans_per_s", 21_000.0),
        ("memory.background_scans_per_s", 60_000.0),
        ("memory.reclaimed_pages_per_s", 16_000.0),
        ("memory.refaults_per_s", 9000.0),
        ("memory.major_faults_per_s", 700.0),
    ];

    #[test]
    fn stalls_judge_and_what_was_given_up_speaks_for_or_against() {
        use FindingKind::{Limits, Observation, RuledOut};
        const SHORT: Counters = &[("memory.direct_scans_per_s", 40.0)];
        const KILLED: Counters = &[("memory.oom_kills_per_s", 0.1)];
        let cases: [Case; 10] = [
            ("short", Some(0.42), THRASHING, Some(Limits)),
            ("short of something else", Some(0.42), &[], Some(Limits)),
            ("at times", Some(0.05), THRASHING, Some(Observation)),
            ("calm", Some(0.0), &[], Some(RuledOut)),
            ("a cache that turns over", Some(0.002), THRASHING, Some(RuledOut)),
            ("killed", Some(0.0), KILLED, Some(Observation)),
            ("short, killed", Some(0.3), KILLED, Some(Limits)),
            ("unknown, calm", None, &[], Some(RuledOut)),
            ("unknown, short", None, SHORT, Some(Observation)),
            ("unknown, read back", None, &THRASHING[3..], None),
        ];
        for (name, stalled, others, kind) in cases {
            let found = found(&host(stalled, others));
            let claim = Claim::Memory(MemoryClaim {
                stalled_share: stalled,
                available_bytes: Some(2e10),
                available_share: None,
                direct_scans_per_s: (name == "unknown, short").then_some(40.0),
                out_of_memory: name.ends_with("killed"),
                limit_of: None,
            });
            let expected = kind.map(|kind| (kind, shown(&claim)));
            assert_eq!(found.first().map(|one| (one.kind, shown(&one.claim))), expected, "{name}");
        }
        insta::assert_snapshot!("for", evidence(&found(&host(Some(0.42), THRASHING))[0]));
        insta::assert_snapshot!("against", evidence(&found(&host(Some(0.42), &[]))[0]));
    }

    #[test]
    fn a_full_memory_limit_of_a_service_is_no_limit_by_itself() {
        let service = |charged: f64, faults: f64, read: f64| {
            host(Some(0.0), &[])
                .counter("process.threads", "svc", &[8.0])
                .counter("process.memory_limit_bytes", "svc", &[1e8])
                .counter("process.memory_charged_bytes", "svc", &[charged])
                .counter("process.major_faults_per_s", "svc", &[faults])
                .counter("process.read_bytes_per_s", "svc", &[read])
        };
        for (charged, faults, read, used_share, reached) in [
            (4e7, 0.0, 0.0, Some(0.4), false),
            (9.9e7, 0.0, 0.0, Some(0.99), true),
            (9.9e7, 300.0, 0.0, None, true),
            (9.9e7, 0.0, 4e6, None, true),
        ] {
            let found = found(&service(charged, faults, read));
            let about = Some(Resource::of_process(ResourceClass::Memory, "svc"));
            let found = found.into_iter().find(|finding| finding.about == about);
            let claim = |used_share| Claim::MemoryLimit {
                process: "svc".into(),
                used_share,
                limit_bytes: 1e8,
                reached,
            };
            let expected = used_share.map(|used_share| (FindingKind::RuledOut, shown(&claim(used_share))));
            assert_eq!(found.map(|finding| (finding.kind, shown(&finding.claim))), expected);
        }
        // Its own tasks stall, although the host has free memory.
        let stalled = service(9.9e7, 300.0, 4e6).counter("pressure.memory_some_share", "", &[0.6]);
        let found = &found(&stalled)[0];
        let about = Some(Resource::of_process(ResourceClass::Memory, "svc"));
        assert_eq!((found.kind, &found.about), (FindingKind::Limits, &about));
        assert!(matches!(&found.claim, Claim::Memory(claim) if claim.limit_of.as_deref() == Some("svc")));
    }
}
