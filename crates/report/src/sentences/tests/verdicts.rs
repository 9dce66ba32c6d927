//! Verdicts, what was missing for them, and proofs.

use super::*;
use crate::recorded;

/// The result of a stored run with some findings more, to say verdicts about.
fn document() -> ResultDocument {
    let mut document = crate::recorded::run("disk").document;
    let of_disk = |finding: &Finding| {
        finding.kind == FindingKind::Limits && finding.about == Some(Resource::disk("vda"))
    };
    let at = document.findings.iter().position(of_disk).unwrap();
    let limits = document.findings.remove(at);
    let of =
        |resource, about| found(FindingKind::Limits, Some(Resource::of_process(resource, "slapd")), about);
    document.findings = vec![
        limits,
        of(ResourceClass::Lock, service(ServiceState::Lock { threads: 13.0 })),
        found(FindingKind::RuledOut, None, service(ServiceState::Headroom { idle_threads: 14.0 })),
        found(FindingKind::Observation, None, sweep(None)),
    ];
    document.findings[1].against =
        vec![seen("cpu.busy_share", Unit::Share, 0.38, Some(([1.0, 0.7, 1.0], Comparison::Threshold)))];
    document
}

/// The verdicts, each once.
fn verdicts() -> Vec<Verdict> {
    use HostResource::{Cpu, Disk, Memory};
    let cpu = || Resource::of_process(ResourceClass::Cpu, "slapd");
    let bottleneck = |limit, finding| Verdict::Bottleneck { limit, finding, proved: false };
    let unclear = |reason| Verdict::Inconclusive { reason, lacks: Vec::new() };
    let together = |sign| Limit::Together { resources: vec![Cpu, Disk], sign };
    let network = Resource {
        class: ResourceClass::Downstream,
        of: Some(Owner::Address("db:5432".into())),
        host: None,
        detail: None,
    };
    let not_saturated = |carried| Verdict::NotSaturated { carried };
    vec![
        bottleneck(Limit::One { resource: Resource::disk("vda"), close_above: vec![] }, Some(0)),
        bottleneck(Limit::One { resource: cpu(), close_above: vec![Disk, Memory] }, None),
        bottleneck(Limit::One { resource: cpu(), close_above: vec![] }, Some(1)),
        bottleneck(together(JointEvidence::EachFollowed), None),
        bottleneck(together(JointEvidence::RaisingOneGainedNothing), None),
        bottleneck(together(JointEvidence::ReducingEitherCosts), None),
        bottleneck(Limit::CloseTo { resource: Cpu, other: Some(network.clone()) }, None),
        bottleneck(Limit::CloseTo { resource: Memory, other: None }, None),
        not_saturated(UnsaturatedReason::Offered {
            rate_per_s: 2000.0,
            p99_ms: 3.1,
            is_bound: false,
            closest: Some(Closest {
                metric: "cpu.busy_share".into(),
                instance: String::new(),
                share: 0.43,
                resource: Some(Resource::of_host(ResourceClass::Cpu)),
            }),
        }),
        not_saturated(UnsaturatedReason::AllThatUsersAsked {
            load: "32 in flight with 1 s between".into(),
            rate_per_s: 31.2,
            mean_ms: 21.0,
            is_bound: true,
            finding: 2,
        }),
        not_saturated(UnsaturatedReason::StillGrowing { finding: 3 }),
        not_saturated(UnsaturatedReason::Waited { finding: 3 }),
        Verdict::GeneratorBound { finding: 9 },
        unclear(InconclusiveReason::OnlyWatched),
        unclear(InconclusiveReason::Corrupted),
        unclear(InconclusiveReason::CountsDiffer),
        unclear(InconclusiveReason::StoppedAnswering {
            at_s: 3.0,
            measured_s: 6.0,
            in_flight: 4.0,
            answered_later: false,
        }),
        unclear(InconclusiveReason::StoppedAnswering {
            at_s: 3.0,
            measured_s: 6.0,
            in_flight: 4.0,
            answered_later: true,
        }),
        unclear(InconclusiveReason::NeverAnswered { operations: 3, share: 0.75 }),
        unclear(InconclusiveReason::NothingCompleted),
        unclear(InconclusiveReason::NothingRecorded),
        unclear(InconclusiveReason::AllFailed),
        unclear(InconclusiveReason::TooManyFailed),
        unclear(InconclusiveReason::SeveralSaturated { findings: vec![0, 1] }),
        unclear(InconclusiveReason::InSomeTrials {
            resource: Resource::disk("vda"),
            trials: 1,
            of_trials: 3,
            ruled_out: vec![Resource::of_host(ResourceClass::LoadGenerator), cpu()],
        }),
        unclear(InconclusiveReason::NothingSaturated { ruled_out: vec![cpu()] }),
        unclear(InconclusiveReason::Disproved { resource: cpu() }),
        unclear(InconclusiveReason::Sides {
            sides: vec![
                SideVerdict { label: "a".into(), verdict: unclear(InconclusiveReason::AllFailed) },
                SideVerdict {
                    label: "b".into(),
                    verdict: bottleneck(
                        Limit::One { resource: Resource::disk("vda"), close_above: vec![] },
                        Some(0),
                    ),
                },
            ],
        }),
    ]
}

#[test]
fn verdict_texts() {
    let mut document = document();
    let mut texts = Vec::new();
    for one in verdicts() {
        document.verdict = one;
        texts.push(verdict(&document));
    }
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn what_was_missing() {
    let all = [
        Missing::CompletedTrial,
        Missing::Intervals,
        Missing::Success,
        Missing::FewerFailures,
        Missing::MoreOperations,
        Missing::Answers,
        Missing::OneChangedAlone,
        Missing::Source("pressure".into()),
        Missing::GeneratorCpu,
        Missing::GeneratorUndisturbed,
        Missing::CpuUse,
        Missing::LongerTrial,
        Missing::Device,
        Missing::DeviceQueue,
        Missing::WhereOperationsWaited,
        Missing::Proof,
        Missing::OtherLoads("outstanding".into()),
        Missing::SamplesOfStep,
        Missing::Looks,
        Missing::OtherFactor,
    ];
    let plain = recorded::run("disk").document;
    let mut lines: Vec<String> = all.iter().map(|lack| missing(&plain, lack)).collect();
    // A search has no proof.
    lines.push(missing(&recorded::run("limit").document, &Missing::Proof));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_proof_names_each_change_and_what_throughput_did() {
    let row = |answer, ratio, elasticity: Option<[f64; 3]>, direction| ProofRow {
        factor: "host.cpu_quota".into(),
        resource: HostResource::Cpu,
        direction,
        in_force: "2".into(),
        level: if direction == Direction::Reduced { "1.4".into() } else { "2.86".into() },
        rounds: 4,
        throughput_ratio: ratio,
        elasticity: elasticity.map(|[value, low, high]| Estimate { value, low, high }),
        answer,
    };
    let mut document = document();
    for (row, expected) in [
        (
            row(ProofAnswer::Confirmed, Some(0.72), Some([0.93, 0.88, 0.98]), Direction::Reduced),
            "With host.cpu_quota reduced from 2 to 1.4, throughput followed: -28.0 %, elasticity 0.93 (95 % interval 0.88 to \
             0.98).",
        ),
        (
            row(ProofAnswer::Contributing, Some(0.9), Some([0.3, 0.25, 0.35]), Direction::Reduced),
            "With host.cpu_quota reduced from 2 to 1.4, throughput followed in part: -10.0 %, elasticity 0.30 (95 % interval \
             0.25 to 0.35).",
        ),
        (
            row(ProofAnswer::Rejected, Some(0.999), Some([0.003, -0.04, 0.05]), Direction::Raised),
            "With host.cpu_quota raised from 2 to 2.86, throughput did not follow: -0.1 %, elasticity 0.00 (95 % interval \
             -0.04 to 0.05).",
        ),
        (
            row(ProofAnswer::Unclear, Some(0.95), Some([0.1, -0.2, 0.4]), Direction::Reduced),
            "With host.cpu_quota reduced from 2 to 1.4, throughput followed little or not at all: -5.0 %, elasticity 0.10 (95 \
             % interval -0.20 to 0.40).",
        ),
        (
            row(ProofAnswer::Unclear, Some(0.8), Some([0.6, 0.1, 1.1]), Direction::Reduced),
            "With host.cpu_quota reduced from 2 to 1.4, throughput may have followed: -20.0 %, elasticity 0.60 (95 % interval \
             0.10 to 1.10).",
        ),
        (
            row(ProofAnswer::Unclear, None, None, Direction::Reduced),
            "With host.cpu_quota reduced from 2 to 1.4, throughput was measured only once.",
        ),
    ] {
        document.proof = Some(ProofResult {
            share: 0.7,
            host: String::new(),
            rows: vec![row],
            not_varied: Vec::new(),
            residual: None,
            observed: None,
        });
        assert_eq!(proof(&document).as_deref(), Some(expected));
    }
    let of_proof = document.proof.as_mut().unwrap();
    of_proof.residual = Some(Estimate { value: 0.4, low: 0.3, high: 0.5 });
    let left = " 40 % of the limit comes from something that was not changed: the service itself, a service that it uses, or the load.";
    assert!(proof(&document).unwrap().ends_with(left));
    let not_varied = NotVaried { factor: "host.memory".into(), why: "it is unlimited".into() };
    document.proof = Some(ProofResult {
        share: 0.7,
        host: String::new(),
        rows: Vec::new(),
        not_varied: vec![not_varied],
        residual: None,
        observed: None,
    });
    assert_eq!(proof(&document), None);
}

/// Words that `style` replaces by the field's own.
const BANNED: [&str; 12] = [
    "predicted",
    "held against",
    "stood still",
    "put back",
    "turned",
    "So in all",
    "was full",
    "had room",
    "to come",
    "looked for",
    "  ",
    "..",
];

#[test]
fn sentences_are_whole_and_plain() {
    let mut document = document();
    let mut texts: Vec<String> = findings().iter().map(finding).collect();
    for one in verdicts() {
        document.verdict = one;
        texts.push(verdict(&document));
        texts.extend(headline(&document).limits);
    }
    for text in texts {
        assert!(text.ends_with('.') && text.starts_with(char::is_alphanumeric), "{text}");
        let is_no_number = |word: &str| ["NaN", "inf"].contains(&word);
        assert!(!text.split(|c: char| !c.is_alphanumeric()).any(is_no_number), "{text}");
        for banned in BANNED {
            assert!(!text.contains(banned), "{banned:?} in: {text}");
        }
    }
    let text = evidence(&seen("disk.queue_length{vda}", Unit::Count, f64::INFINITY, None));
    assert_eq!(text, "average device queue, vda: -");
}
