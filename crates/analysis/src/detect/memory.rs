//! Was memory short? Stalls say so; that much is free says little, as a cache uses what it can get. What the kernel had to
//! look through and read back speaks for it or against.

use model::result::{ResultDocument, TrialResult};
use model::{Estimate, Evidence, Finding, FindingKind, Study};

use super::service::FULL_MEMORY;
use super::{Claim, evidence, gather, service};
use crate::measured::Measured;
use crate::words;

pub(super) const NAME: &str = "memory";

/// Share of the time tasks stalled for memory, from which it limits.
const STALLED_SHARE: f64 = 0.2;
/// Share of the time tasks stalled for memory, below which it is ruled out.
const CALM_SHARE: f64 = 0.01;
/// Pages and events a second below which they are of no account.
const FEW_PER_S: f64 = 1.0;

// What administrators have gone by; shown beside the numbers, judging nothing.
const AVAILABLE_SHARE: f64 = 0.1;
const PAGE_READS_PER_S: f64 = 5.0;
const RECLAIM_EFFICIENCY: f64 = 0.3;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(NAME, study, document, |measured, trial| {
        let mut claims: Vec<Claim> = host(measured, trial).into_iter().collect();
        let services = service::services(measured).into_iter();
        claims.extend(services.filter_map(|service| limit_of_service(measured, trial, service)));
        claims
    })
}

/// What is read off the kernel's counters of memory: waits for it, and pages that were given up too early.
struct Signs {
    /// Waits: of programs that had to look for pages themselves.
    waits: Vec<Evidence>,
    /// Pages read again: given up while they were still needed.
    read_back: Vec<Evidence>,
    other: Vec<Evidence>,
    /// Whether there are counters of both at all.
    known: bool,
}

impl Signs {
    fn of(measured: &Measured, trial: &TrialResult) -> Signs {
        let mut known = [false; 2];
        let mut sign = |kind: usize, metric: &str, line: f64, what: &str| {
            let value = measured.host_mean(metric)?;
            known[kind] = true;
            let expected = Some(Estimate { value: 0.0, low: 0.0, high: line });
            let text = format!("{} {what}", words::number(value));
            (value >= FEW_PER_S).then(|| evidence(measured, trial, metric, value, expected, text))
        };
        let waits = [
            (
                "memory.direct_scans_per_s",
                "pages a second were looked at by programs themselves before they got the memory they asked for",
            ),
            ("memory.allocation_stalls_per_s", "allocations a second waited for memory to be given up"),
        ];
        let waits = waits.iter().filter_map(|(metric, what)| sign(0, metric, FEW_PER_S, what)).collect();
        let read_back = [
            (
                "memory.refaults_per_s",
                FEW_PER_S,
                "pages a second were needed again soon after they were given up",
            ),
            ("memory.swap_ins_per_s", FEW_PER_S, "pages a second were read back from swap"),
            (
                "memory.major_faults_per_s",
                PAGE_READS_PER_S,
                "page faults a second had to read from a device (rule of thumb for page reads: under 5 a second)",
            ),
        ];
        let read_back =
            read_back.iter().filter_map(|(metric, line, what)| sign(1, metric, *line, what)).collect();
        Signs { waits, read_back, other: other(measured, trial), known: known == [true; 2] }
    }

    fn none(&self) -> bool {
        self.known && self.waits.is_empty() && self.read_back.is_empty()
    }
}

/// What is left, and how well giving up pages went: by the rules of thumb.
fn other(measured: &Measured, trial: &TrialResult) -> Vec<Evidence> {
    let mut found = Vec::new();
    let available = measured.host_mean("memory.available_bytes");
    if let Some((available, total)) = available.zip(measured.host_mean("memory.total_bytes")) {
        let text = format!(
            "{} of {} were available (rule of thumb: 10 % or more)",
            words::bytes(available),
            words::bytes(total)
        );
        let line = Estimate { value: total, low: AVAILABLE_SHARE * total, high: total };
        found.push(evidence(measured, trial, "memory.available_bytes", available, Some(line), text));
    }
    let scans = ["memory.background_scans_per_s", "memory.direct_scans_per_s"];
    let scans = scans.iter().filter_map(|metric| measured.host_mean(metric)).sum::<f64>();
    let reclaimed = measured.host_mean("memory.reclaimed_pages_per_s");
    if let Some(reclaimed) = reclaimed.filter(|_| scans >= FEW_PER_S) {
        let efficiency = reclaimed / scans;
        let text = format!(
            "{} pages a second were given up of {} looked at, {} (rule of thumb for sar's %vmeff: under 30 % is trouble)",
            words::number(reclaimed),
            words::number(scans),
            words::percent(efficiency)
        );
        let line = Some(Estimate { value: 1.0, low: RECLAIM_EFFICIENCY, high: 1.0 });
        found.push(evidence(measured, trial, "memory.reclaimed_pages_per_s", reclaimed, line, text));
    }
    found
}

fn host(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let mut signs = Signs::of(measured, trial);
    let killed = measured.host_mean("memory.oom_kills_per_s").filter(|killed| *killed > 0.0);
    let available = measured.host_mean("memory.available_bytes");
    let free = available.map(|bytes| format!("; {} were available", words::bytes(bytes))).unwrap_or_default();
    let mut claim = Claim {
        kind: FindingKind::Observation,
        resource: NAME.into(),
        text: String::new(),
        strength: 0.0,
        evidence: Vec::new(),
        against: Vec::new(),
    };
    match measured.host_mean("pressure.memory_some_share") {
        Some(stalled) => {
            let stalls =
                format!("in {} of the time some task stalled for memory{free}", words::percent(stalled));
            let line = Some(Estimate { value: 0.0, low: 0.0, high: CALM_SHARE });
            let metric = "pressure.memory_some_share";
            claim.evidence.push(evidence(measured, trial, metric, stalled, line, stalls.clone()));
            claim.strength = stalled;
            (claim.kind, claim.text) = if stalled >= STALLED_SHARE {
                (FindingKind::Limits, format!("Memory was short: {stalls}."))
            } else if stalled < CALM_SHARE {
                (FindingKind::RuledOut, format!("Memory was not the limit: {stalls}."))
            } else {
                (FindingKind::Observation, format!("Memory was at times short: {stalls}."))
            };
            // A limit on one service stalls its own tasks, however much the host has left.
            let full = service::services(measured).into_iter().find(|service| {
                service_share(measured, service).is_some_and(|(share, _)| share >= FULL_MEMORY)
            });
            if let Some(service) = full.filter(|_| claim.kind == FindingKind::Limits) {
                claim.resource = format!("memory of {service}");
                claim.text = format!("The memory limit of {service} was reached: {stalls}.");
            }
        }
        // A kernel without stall information: what had to wait, and what was read again.
        None if signs.none() => {
            claim.kind = FindingKind::RuledOut;
            claim.text = format!(
                "Memory was not the limit: no program had to look for pages itself, and none were read again{free}."
            );
        }
        None if !signs.waits.is_empty() => {
            claim.text = format!(
                "Memory was short at times: {}{free}. How much of the time that took is not known: this kernel keeps no \
                 pressure stall information.",
                signs.waits[0].text
            );
        }
        None => return None,
    }
    if let Some(killed) = killed {
        let text = "the kernel killed processes because no memory was left".to_string();
        let found = evidence(measured, trial, "memory.oom_kills_per_s", killed, None, text.clone());
        if claim.kind != FindingKind::Limits {
            claim.kind = FindingKind::Observation;
            claim.text = format!("Memory ran out: {text}{free}.");
        }
        claim.evidence.push(found);
    }
    if claim.kind == FindingKind::RuledOut {
        claim.against.append(&mut signs.waits);
        claim.against.append(&mut signs.read_back);
    } else if signs.known && signs.read_back.is_empty() {
        let text = "hardly a page was read again: no major faults, no swapping in, no refaults";
        let refaults = measured.host_mean("memory.refaults_per_s").unwrap_or(0.0);
        claim.against.push(evidence(measured, trial, "memory.refaults_per_s", refaults, None, text));
    }
    claim.evidence.extend(signs.waits.into_iter().chain(signs.read_back).chain(signs.other));
    Some(claim)
}

/// The share of the memory limit of its control group that a service has used, and that limit in bytes.
fn service_share(measured: &Measured, service: &str) -> Option<(f64, f64)> {
    let limit = measured.mean("process.memory_limit_bytes", service).filter(|limit| *limit > 0.0)?;
    Some((measured.mean("process.memory_charged_bytes", service)? / limit, limit))
}

/// That the memory limit of a service is not what limits. A full one is common, as its page cache takes what it gets:
/// what would show is pages read again. That it limits is said by what its threads wait for, see the `service` detector.
fn limit_of_service(measured: &Measured, trial: &TrialResult, service: &str) -> Option<Claim> {
    let (share, limit) = service_share(measured, service)?;
    let few = |metric: &str, line: f64| measured.mean(metric, service).filter(|value| *value < line);
    let faults = few("process.major_faults_per_s", FEW_PER_S);
    let read = few("process.read_bytes_per_s", FEW_PER_S * 4096.0);
    let used = format!("{service} used {} of the {} it may", words::percent(share), words::bytes(limit));
    let text = if share < FULL_MEMORY {
        format!("The memory limit of {service} was not reached: {used} use.")
    } else {
        faults.zip(read)?;
        format!(
            "The memory limit of {service} was not the limit: {used} use, as a page cache does, but had to read nothing again."
        )
    };
    let line = Some(Estimate { value: 1.0, low: FULL_MEMORY, high: 1.0 });
    let title = format!("process.memory_charged_bytes{{{service}}}");
    let mut found = vec![evidence(measured, trial, title, share, line, used)];
    let faults = measured.mean("process.major_faults_per_s", service);
    if let Some(faults) = faults {
        let text = format!("{} of its page faults a second had to read from a device", words::number(faults));
        let title = format!("process.major_faults_per_s{{{service}}}");
        found.push(evidence(measured, trial, title, faults, None, text));
    }
    Some(Claim {
        kind: FindingKind::RuledOut,
        resource: format!("memory of {service}"),
        text,
        strength: 1.0 - share,
        evidence: found,
        against: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result;
    use crate::simulate::{Simulated, single};
    use model::Shape;

    /// A host with all counters of memory, at rest, and what is not at rest.
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

    fn told(run: &Simulated) -> Vec<Finding> {
        let found = result(&single(run)).findings;
        found.into_iter().filter(|finding| finding.detector == NAME).collect()
    }

    type Counters = &'static [(&'static str, f64)];
    /// Name, share of the time stalled, counters that are not at rest, and the finding with its first words.
    type Case = (&'static str, Option<f64>, Counters, Option<FindingKind>, &'static str);

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
            ("short", Some(0.42), THRASHING, Some(Limits), "Memory was short: in 42 %"),
            ("short of something else", Some(0.42), &[], Some(Limits), "Memory was short: in 42 %"),
            ("at times", Some(0.05), THRASHING, Some(Observation), "Memory was at times short: in 5.0 %"),
            ("calm", Some(0.0), &[], Some(RuledOut), "Memory was not the limit: in 0 %"),
            (
                "a cache that turns over",
                Some(0.002),
                THRASHING,
                Some(RuledOut),
                "Memory was not the limit: in 0.2 %",
            ),
            ("killed", Some(0.0), KILLED, Some(Observation), "Memory ran out: the kernel killed"),
            ("short, killed", Some(0.3), KILLED, Some(Limits), "Memory was short: in 30 %"),
            ("unknown, calm", None, &[], Some(RuledOut), "Memory was not the limit: no program had to"),
            (
                "unknown, short",
                None,
                SHORT,
                Some(Observation),
                "Memory was short at times: 40.0 pages a second",
            ),
            ("unknown, read back", None, &THRASHING[3..], None, ""),
        ];
        for (name, stalled, others, kind, begins) in cases {
            let found = told(&host(stalled, others));
            assert_eq!(found.first().map(|finding| finding.kind), kind, "{name}");
            assert!(
                found.iter().all(|finding| finding.text.starts_with(begins)),
                "{name}: {}",
                found[0].text
            );
        }
        let evidence = |found: &[Finding]| -> String {
            let lines = |sign: &str, of: &[Evidence]| -> Vec<String> {
                of.iter().map(|evidence| format!("{sign} {}: {}", evidence.metric, evidence.text)).collect()
            };
            [lines("+", &found[0].evidence), lines("-", &found[0].against)].concat().join("\n")
        };
        insta::assert_snapshot!("for", evidence(&told(&host(Some(0.42), THRASHING))));
        insta::assert_snapshot!("against", evidence(&told(&host(Some(0.42), &[]))));
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
        for (charged, faults, read, expected) in [
            (
                4e7,
                0.0,
                0.0,
                Some("The memory limit of svc was not reached: svc used 40 % of the 95.4 MiB it may use."),
            ),
            (
                9.9e7,
                0.0,
                0.0,
                Some(
                    "The memory limit of svc was not the limit: svc used 99 % of the 95.4 MiB it may use, as a page cache does, \
                     but had to read nothing again.",
                ),
            ),
            (9.9e7, 300.0, 0.0, None),
            (9.9e7, 0.0, 4e6, None),
        ] {
            let found = told(&service(charged, faults, read));
            let found = found.iter().find(|finding| finding.resource == "memory of svc");
            assert_eq!(found.map(|finding| finding.text.as_str()), expected);
        }
        // Its own tasks stall, whatever the host has left.
        let stalled = service(9.9e7, 300.0, 4e6).counter("pressure.memory_some_share", "", &[0.6]);
        let found = told(&stalled);
        assert_eq!((found[0].kind, found[0].resource.as_str()), (FindingKind::Limits, "memory of svc"));
    }
}
