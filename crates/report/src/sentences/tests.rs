//! Every claim, verdict and reason with numbers as they are measured, read as sentences.

mod bounds;
mod limits;
mod verdicts;

use model::claim::*;
use model::drain::DrainEnd;
use model::finding::Levels;
use model::result::{Direction, NotVaried, ProofAnswer, ProofResult, ProofRow};
use model::verdict::{Closest, InconclusiveReason, JointEvidence, Limit, SideVerdict, UnsaturatedReason};
use model::{
    CachePlace, Claim, Comparison, Detector, DrainResult, Estimate, Evidence, Finding, FindingKind,
    HostResource, Level, Missing, Owner, Resource, ResourceClass, ResultDocument, Statistics, Unit, Verdict,
    WriteCache,
};

use super::{evidence, finding, headline, missing, proof, verdict};

fn found(kind: FindingKind, about: Option<Resource>, claim: Claim) -> Finding {
    Finding {
        kind,
        detector: Detector::Service,
        about,
        side: None,
        step: None,
        claim,
        evidence: Vec::new(),
        against: Vec::new(),
        trials: vec!["001-baseline.r1".into(); 3],
        used: vec![0.97; 3],
        of_trials: 3,
    }
}

fn service(state: ServiceState) -> Claim {
    Claim::Service(ServiceClaim {
        process: "slapd".into(),
        threads: 16.0,
        at_work: 15.8,
        used_cpus: 3.42,
        accept_queue: Some(12.3),
        host_cpu_share: Some(0.38),
        between_pauses: false,
        state,
    })
}

fn size(label: &str, rate_per_s: f64, bytes: f64, mean_ms: f64) -> SizePoint {
    SizePoint {
        label: label.into(),
        rate_per_s,
        bytes_per_s: rate_per_s * bytes,
        mean_ms,
        at_least: Statistics::NONE,
    }
}

fn load(label: &str, rate_per_s: f64, mean_ms: f64, p99_ms: f64) -> LoadPoint {
    LoadPoint {
        label: label.into(),
        rate_per_s,
        bytes_per_s: rate_per_s * 4096.0,
        mean_ms,
        p99_ms,
        at_least: Statistics::NONE,
    }
}

fn reached(metric: &str, limit: f64, observed: f64) -> ReachedLimit {
    let (setting, level) = ("host.disk.io_limit".into(), Level::Rate(limit));
    ReachedLimit { setting, level, metric: metric.into(), limit, observed }
}

fn device(queue: f64, bound: Option<DeviceBound>) -> DeviceClaim {
    DeviceClaim {
        queue,
        in_flight: 32.0,
        transfer_ms: Some(0.44),
        host_cpu_share: Some(0.14),
        one_at_a_time: false,
        flush_share: None,
        serial_flushes: None,
        bound,
    }
}

fn flushes() -> SerialFlushes {
    SerialFlushes { device: "vda".into(), each_ms: 1.21, under_way: 0.97 }
}

fn pauses(meanwhile: Meanwhile) -> Claim {
    Claim::Pauses(PausesClaim {
        process: Some("java".into()),
        count: 5,
        length_s: Spread { mean: 0.25, min: 0.2, max: 0.3 },
        period_s: Spread { mean: 1.0, min: 0.95, max: 1.05 },
        regular: true,
        lost_share: 0.25,
        in_flight: 8.0,
        between_per_s: 2000.0,
        all_per_s: 1500.0,
        percentiles: Some(PausedPercentiles {
            caught_share: 0.012,
            max_ms: 301.0,
            p99_ms: 240.0,
            p99_others_ms: 9.0,
        }),
        meanwhile,
    })
}

fn memory(stalled: Option<f64>) -> MemoryClaim {
    MemoryClaim {
        stalled_share: stalled,
        available_bytes: Some(1.2e9),
        available_share: None,
        direct_scans_per_s: None,
        out_of_memory: false,
        limit_of: None,
    }
}

fn sweep(knee: Option<LoadPoint>) -> Claim {
    Claim::LoadSweep(LoadSweep {
        factor: "workload.outstanding".into(),
        series: String::new(),
        first: load("1", 7_410.0, 0.13, 0.31),
        last: load("64", 71_300.0, 0.89, 2.4),
        peak: load("32", 71_900.0, 0.44, 1.1),
        below_knee: knee.is_some().then(|| load("8", 52_300.0, 0.15, 0.34)),
        knee,
        stopped: None,
    })
}

/// Every claim, the kinds apart where they differ.
fn findings() -> Vec<Finding> {
    use FindingKind::{Limits, Observation, RuledOut};
    let generator = |late, starved_by| Claim::Generator {
        threads: 4,
        ran_share: 0.93,
        wait_share: 0.041,
        late,
        starved_by,
    };
    let changed = |cause, moved_bytes| Claim::RateChanged {
        at_s: 12.3,
        before: 1.53e9,
        after: 3.1e8,
        unit: Unit::BytesPerSecond,
        moved_bytes,
        cause,
    };
    use CachePlace::{BelowSystem, PageCache};
    let drain = |end, length_s: f64, writing_s: f64| {
        let bytes = writing_s * 1.9e8;
        let bytes_per_s = (writing_s > 0.0).then_some(1.9e8);
        Some(DrainResult { begin_s: 2.0, end_s: 2.0 + length_s, writing_s, bytes, bytes_per_s, end })
    };
    let write_cache = |place, past: Option<f64>, drain| Claim::WriteCache {
        cache: WriteCache {
            place,
            into_bytes_per_s: 1.9e9,
            past_bytes_per_s: past.map(Estimate::exact),
            accepted_bytes: Estimate { value: 1.4e9, low: 1.3e9, high: 1.5e9 },
            capacity_bytes: match place {
                PageCache => Estimate::exact(1.25e9),
                _ => Estimate { value: 1.25e9, low: 1.2e9, high: 1.5e9 },
            },
            full_at_s: past.map(|_| 0.74),
        },
        drain,
    };
    let cache_costs = |break_even_bytes| Claim::CacheCosts {
        configuration: "cache=page-cache".into(),
        without: "cache=direct".into(),
        past_bytes_per_s: 26.1e6,
        without_bytes_per_s: 43.5e6,
        ratio: Estimate { value: 0.6, low: 0.55, high: 0.65 },
        break_even_bytes,
    };
    let disk = || Some(Resource::disk("vda"));
    let sizes = DeviceBound::OverSizes {
        operations: Some((size("4KiB", 71_200.0, 4096.0, 0.44), size("16KiB", 68_000.0, 16384.0, 0.47))),
        bytes: Some((size("256KiB", 5830.0, 262_144.0, 5.4), size("1MiB", 1460.0, 1_048_576.0, 21.9))),
    };
    let one_at_a_time = DeviceClaim {
        one_at_a_time: true,
        flush_share: Some(0.87),
        serial_flushes: Some(flushes()),
        in_flight: 1.0,
        ..device(0.99, None)
    };
    let states = vec![
        ServiceState::Throttled { quota_cpus: 1.5, throttled_share: 0.92 },
        ServiceState::SingleThread {
            busiest_thread_cpus: 0.94,
            ready_threads: 0.05,
            lock_threads: Some(7.2),
        },
        ServiceState::Pipeline { stage: Stage::Flushes, busy_share: 0.97, cpu_share: 0.12 },
        ServiceState::Pipeline {
            stage: Stage::Downstream("db:5432".into()),
            busy_share: 0.95,
            cpu_share: 0.2,
        },
        ServiceState::WaitsForCpu { ready_threads: 11.0 },
        ServiceState::MemoryLimitReached { used_share: 0.99, read_bytes_per_s: 8.1e7, threads: 12.0 },
        ServiceState::PageFaults { threads: 9.0, faults_per_s: 2100.0, refaults_per_s: Some(1900.0) },
        ServiceState::PageFaults { threads: 9.0, faults_per_s: 2100.0, refaults_per_s: None },
        ServiceState::Files {
            threads: 14.0,
            flushes: true,
            limit: Some(reached("process.disk_writes_per_s", 400.0, 399.2)),
            serial_flushes: Some(flushes()),
        },
        ServiceState::Sending {
            buffered_bytes: 3.2e6,
            in_flight: 64.0,
            answer_bytes: 1e6,
            bytes_per_s: 1.18e8,
        },
        ServiceState::ConnectionPool { using: 4.0, waiting: 11.0 },
        ServiceState::Lock { threads: 13.0 },
        ServiceState::Downstream { peer: "127.0.0.1:3306".into(), threads: 14.0 },
        ServiceState::AllThreadsAtWork { most: ThreadState::Asleep, threads: 15.0 },
        ServiceState::WaitsForItself { work_share: 0.082, timer_threads: 29.3, waiting_threads: 0.1 },
        ServiceState::Headroom { idle_threads: 14.0 },
    ];
    let mut findings: Vec<Finding> = states
        .into_iter()
        .map(|state| {
            let kind = match state {
                ServiceState::Headroom { .. } => RuledOut,
                ServiceState::WaitsForItself { .. } => Observation,
                _ => Limits,
            };
            found(kind, None, service(state))
        })
        .collect();
    let one_thread = Claim::Service(ServiceClaim {
        process: "app".into(),
        threads: 1.0,
        at_work: 1.0,
        used_cpus: 0.6,
        accept_queue: None,
        host_cpu_share: None,
        between_pauses: true,
        state: ServiceState::AllThreadsAtWork { most: ThreadState::Running, threads: 0.6 },
    });
    let meanwhile = [
        Meanwhile::OwnWork { process: "java".into(), cpus: 2.0, cpus_between: Some(0.4) },
        Meanwhile::Disk { device: "vda".into(), busy_share: 0.98, busy_share_between: Some(0.2) },
        Meanwhile::GeneratorWaited(0.3),
        Meanwhile::MachineStopped,
        Meanwhile::Steal(0.8),
        Meanwhile::Downstream { process: "java".into(), threads: 8.0 },
        Meanwhile::NoCpu { process: "java".into(), threads: 6.0 },
        Meanwhile::NothingBusy,
        Meanwhile::NotWatched,
        Meanwhile::NotShown,
        Meanwhile::SampledTooSeldom,
    ];
    findings.extend(
        meanwhile.into_iter().enumerate().map(|(at, meanwhile)| {
            found(if at == 0 { Limits } else { Observation }, None, pauses(meanwhile))
        }),
    );
    findings.extend([
        found(Limits, None, one_thread),
        found(Limits, None, generator(Some(Lateness::Issued(0.87)), None)),
        found(Limits, None, generator(None, Some(Starvation::CpuQuota(0.6)))),
        found(
            Observation,
            None,
            generator(
                Some(Lateness::Lag { lag_p99_ms: 12.0, response_p99_ms: 20.0 }),
                Some(Starvation::OtherProcesses(0.2)),
            ),
        ),
        found(RuledOut, None, generator(None, None)),
        found(Limits, None, Claim::CpusUsed { process: "slapd".into(), used_cpus: 3.91, allowed_cpus: 4.0 }),
        found(
            Limits,
            None,
            Claim::OneThreadBusy { process: "self".into(), busiest_thread_cpus: 0.98, used_cpus: 1.05 },
        ),
        found(Limits, None, Claim::CopyingInMemory { ran_share: 0.95, wait_share: 0.01 }),
        found(RuledOut, None, Claim::HostCpus { busy_share: 0.14, waited_share: Some(0.02) }),
        found(Observation, None, Claim::HostCpus { busy_share: 0.95, waited_share: None }),
        found(
            Observation,
            None,
            Claim::SuspectedPauses {
                intervals: 6,
                of_intervals: 60,
                longest_s: Spread { mean: 0.31, min: 0.28, max: 0.36 },
                usual_s: 0.012,
                lost_share: 0.03,
                interval_s: 1.0,
            },
        ),
        found(Limits, None, Claim::IoLimitReached(reached("disk.reads_per_s", 312.0, 311.9))),
        found(Limits, None, Claim::IoLimitReached(reached("disk.write_bytes_per_s", 2e7, 1.98e7))),
        found(Limits, disk(), Claim::Device(device(31.4, Some(sizes)))),
        found(
            Limits,
            disk(),
            Claim::Device(device(
                31.4,
                Some(DeviceBound::BySize { transfer_bytes: 4096.0, operations: true }),
            )),
        ),
        found(Limits, disk(), Claim::Device(one_at_a_time.clone())),
        found(
            Limits,
            disk(),
            Claim::Device(DeviceClaim {
                in_flight: 4.0,
                flush_share: None,
                serial_flushes: None,
                ..one_at_a_time
            }),
        ),
        found(RuledOut, disk(), Claim::Device(device(0.21, None))),
        found(Observation, disk(), Claim::DeviceShared { factor: 1.43 }),
        found(
            Observation,
            None,
            Claim::BlockSizes {
                from: size("4KiB", 71_200.0, 4096.0, 0.44),
                to: size("1MiB", 1460.0, 1_048_576.0, 21.9),
                series: "outstanding=32".into(),
            },
        ),
        found(Observation, None, sweep(Some(load("16", 68_100.0, 0.23, 0.61)))),
        found(Observation, None, sweep(None)),
        found(Limits, None, Claim::Memory(memory(Some(0.42)))),
        found(
            Limits,
            None,
            Claim::Memory(MemoryClaim { limit_of: Some("slapd".into()), ..memory(Some(0.6)) }),
        ),
        found(RuledOut, None, Claim::Memory(memory(Some(0.0)))),
        found(RuledOut, None, Claim::Memory(memory(None))),
        found(Observation, None, Claim::Memory(MemoryClaim { out_of_memory: true, ..memory(Some(0.05)) })),
        found(
            Observation,
            None,
            Claim::Memory(MemoryClaim { direct_scans_per_s: Some(40.0), ..memory(None) }),
        ),
        found(
            RuledOut,
            None,
            Claim::MemoryLimit { process: "slapd".into(), used_share: 0.4, limit_bytes: 1e8, reached: false },
        ),
        found(
            RuledOut,
            None,
            Claim::MemoryLimit { process: "slapd".into(), used_share: 0.99, limit_bytes: 1e8, reached: true },
        ),
        found(Observation, None, Claim::ListenOverflows { per_s: 12.0 }),
        found(Observation, None, Claim::Retransmissions { per_s: 80.0, share: 0.02 }),
        found(Observation, None, Claim::PacketsDropped { per_s: 3.0 }),
        found(Observation, None, changed(ChangeCause::WriteBackCache, Some(8.1e9))),
        found(Observation, None, changed(ChangeCause::CacheBelowSystem, Some(8.1e9))),
        found(Observation, None, write_cache(PageCache, Some(2.1e8), drain(DrainEnd::Rest, 6.2, 6.0))),
        found(Observation, None, write_cache(PageCache, Some(2.1e8), drain(DrainEnd::Rest, 36.2, 6.0))),
        found(Observation, None, write_cache(PageCache, Some(2.1e8), drain(DrainEnd::Rest, 0.0, 0.0))),
        found(Observation, None, write_cache(PageCache, None, drain(DrainEnd::TimeLimit, 60.0, 60.0))),
        found(Observation, None, write_cache(PageCache, None, drain(DrainEnd::Interrupted, 3.0, 3.0))),
        found(Observation, None, write_cache(PageCache, None, None)),
        found(Observation, None, write_cache(BelowSystem, Some(2.1e8), drain(DrainEnd::Rest, 0.0, 0.0))),
        found(Observation, None, cache_costs(2.21e8)),
        found(Observation, None, cache_costs(0.0)),
        found(Observation, None, changed(ChangeCause::Copying, None)),
        found(Observation, None, changed(ChangeCause::NotShown, None)),
        found(
            Observation,
            None,
            Claim::ClosingFlush { flush_s: 3.1, of_s: 14.2, bytes_per_s: 7.1e7, bytes_per_s_without: 9.1e7 },
        ),
        found(
            Limits,
            None,
            generator(
                None,
                Some(Starvation::IoLimit {
                    limit_per_s: 2e7,
                    observed_per_s: 1.99e7,
                    bytes: true,
                    writes: false,
                }),
            ),
        ),
        found(
            Observation,
            None,
            Claim::Statuses {
                shares: vec![
                    StatusShare { status: 200, share: 0.97 },
                    StatusShare { status: 302, share: 0.03 },
                ],
            },
        ),
        found(Observation, None, Claim::AnswerSizes { min_bytes: 120.0, max_bytes: 48_100.0 }),
        found(Observation, None, Claim::AnswerSizes { min_bytes: 0.0, max_bytes: 0.0 }),
        found(Observation, None, Claim::ErrorText { word: "Exception".into() }),
    ]);
    findings.extend(of_launches());
    findings
}

/// Findings about the launches of a command.
fn of_launches() -> Vec<Finding> {
    use FindingKind::{Limits, Observation};
    use model::claim::{LaunchClaim, LaunchDifference, LaunchState};
    use model::cost::CostKind;
    use model::launch::Doing;
    let more = [
        LaunchDifference { kind: CostKind::SystemCpu, before: 0.412, after: 0.019 },
        LaunchDifference { kind: CostKind::ReadBytes, before: 48e6, after: 0.0 },
        LaunchDifference { kind: CostKind::MajorFaults, before: 212.0, after: 0.0 },
    ];
    let first = |first_ms, differences| {
        let claim = Claim::FirstLaunch { first_ms, later_ms: 206.0, later: 19, differences };
        found(Observation, None, claim)
    };
    let shifted = |at_s, differences| {
        let claim =
            Claim::LaunchesShifted { from_launch: 15, at_s, before_ms: 206.0, after_ms: 121.0, differences };
        found(Observation, None, claim)
    };
    let launch = |kind, class, state, cpu_share, share| {
        let claim = LaunchClaim {
            command: "report".into(),
            launches: 19,
            mean_ms: 206.0,
            cpu_share,
            state,
            share,
            looks: 187,
        };
        let about = |class| Resource::of_process(class, "report");
        found(kind, Option::map(class, about), Claim::Launch(claim))
    };
    use ResourceClass::{Cpu, Disk, Downstream, Lock, SingleThread};
    let waits = |class: Option<ResourceClass>, doing| {
        let kind = if class.is_some() { Limits } else { Observation };
        launch(kind, class, LaunchState::Waits(doing), 0.053, 0.912)
    };
    vec![
        first(812.0, None),
        first(812.0, Some(more.to_vec())),
        first(212.0, Some(Vec::new())),
        shifted(None, None),
        shifted(Some(3.4), Some(more.to_vec())),
        shifted(Some(3.4), Some(Vec::new())),
        launch(Limits, Some(SingleThread), LaunchState::OneThread, 0.981, 0.981),
        launch(Limits, Some(Cpu), LaunchState::AllCpus, 1.93, 0.965),
        launch(Limits, Some(Cpu), LaunchState::Ready, 0.31, 0.68),
        launch(Observation, Some(Cpu), LaunchState::Ready, 0.31, 0.68),
        waits(Some(Disk), Doing::Flushes),
        waits(Some(Disk), Doing::Transfers),
        waits(Some(Disk), Doing::PageFaults),
        waits(Some(Downstream), Doing::Network),
        waits(Some(Lock), Doing::Lock),
        waits(None, Doing::Asleep),
        waits(None, Doing::Other),
    ]
}

#[test]
fn claims() {
    let texts: Vec<String> = findings().iter().map(finding).collect();
    insta::assert_snapshot!(texts.join("\n"));
    let mut some = findings().remove(0);
    some.trials.truncate(1);
    some.side = Some("runs/a".into());
    let text = finding(&some);
    assert!(
        text.starts_with("runs/a: The CPU quota of slapd") && text.ends_with(" Seen in 1 of 3 trials."),
        "{text}"
    );
}

fn seen(metric: &str, unit: Unit, value: f64, expected: Option<([f64; 3], Comparison)>) -> Evidence {
    let estimate = |[value, low, high]: [f64; 3]| Estimate { value, low, high };
    Evidence {
        run: "001-baseline.r1".into(),
        metric: metric.into(),
        unit,
        begin_s: 5.0,
        end_s: 65.0,
        observed: Estimate::exact(value),
        expected: expected.map(|(values, _)| estimate(values)),
        comparison: expected.map(|(_, comparison)| comparison),
        between: None,
    }
}

#[test]
fn evidence_says_what_was_measured_and_what_it_is_compared_with() {
    use Comparison::{OtherTimes, RuleOfThumb, Threshold};
    let queue = "disk.queue_length{vda}";
    let mut grew =
        seen("elasticity of throughput to load", Unit::Count, 0.03, Some(([0.0, 0.0, 0.2], Threshold)));
    grew.between = Some(Levels {
        factor: "workload.outstanding".into(),
        from: "32".into(),
        to: "64".into(),
        series: "block_size=4KiB".into(),
        throughput_ratio: 1.021,
    });
    let mut ranged = seen(queue, Unit::Count, 31.4, None);
    ranged.observed = Estimate { value: 31.4, low: 30.1, high: 32.0 };
    for (evidence, expected) in [
        (
            seen(queue, Unit::Count, 31.4, Some(([1.0, 0.0, 1.0], RuleOfThumb))),
            "average device queue, vda: 31.4 (rule of thumb: at most 1)",
        ),
        (
            seen("disk.transfer_s{vda}", Unit::Seconds, 0.00044, Some(([0.01, 0.0, 0.02], RuleOfThumb))),
            "time of a transfer, vda: 440 µs (rule of thumb: 10.0 ms is good, at most 20.0 ms)",
        ),
        (
            seen("memory.available_bytes", Unit::Bytes, 1.2e9, Some(([2.4e10, 2.4e9, 2.4e10], RuleOfThumb))),
            "available memory: 1.12 GiB (rule of thumb: at least 2.24 GiB)",
        ),
        (
            seen("process.busy_cpus{slapd}", Unit::Cpus, 3.91, Some(([4.0, 3.6, 4.0], Threshold))),
            "CPUs used, slapd: 3.91 CPUs (threshold: 3.60 CPUs)",
        ),
        (
            seen("pressure.cpu_some_share", Unit::Share, 0.02, Some(([0.0, 0.0, 0.1], Threshold))),
            "time that some task waited for a CPU: 2.0 % (threshold: 10 %)",
        ),
        (
            seen("rate_per_s", Unit::PerSecond, 0.0, Some(([2000.0; 3], OtherTimes))),
            "operations completed: 0/s (2000/s at other times)",
        ),
        (
            seen("lag_ms.p99", Unit::Count, 12.0, None),
            "p99 of the delay before an operation was issued: 12.0 ms",
        ),
        (
            seen("response_ms.mean", Unit::Seconds, 0.812, Some(([0.206; 3], OtherTimes))),
            "mean response time: 812 ms (206 ms at other times)",
        ),
        (seen("gpu.busy_share{0}", Unit::Share, 0.5, None), "gpu.busy_share{0}: 50 %"),
        (ranged, "average device queue, vda: 31.4 (30.1 to 32)"),
        (
            grew,
            "from queue depth 32 to 64 (block size 4KiB) throughput x 1.02; elasticity of throughput to the load: 0.0300 \
             (threshold: 0.200)",
        ),
    ] {
        assert_eq!(super::evidence(&evidence), expected);
    }
}

#[test]
fn findings_about_other_hosts_name_them() {
    let on = |resource: Resource| Some(resource.on("db1"));
    let host = |class| on(Resource::of_host(class));
    let disk = |queue, busy_share, waited_share| Claim::HostDisk {
        queue,
        in_flight: if queue > 1.0 { 16.0 } else { 1.0 },
        transfer_ms: Some(0.84),
        busy_share,
        waited_share,
    };
    let left = |share| Claim::Memory(MemoryClaim { available_share: Some(share), ..memory(None) });
    use FindingKind::{Limits, Observation, RuledOut};
    use ResourceClass::{AcceptQueue, Cpu, Memory, PacketQueue, Tcp};
    let findings = [
        found(Limits, host(Cpu), Claim::HostCpus { busy_share: 0.98, waited_share: Some(0.6) }),
        found(RuledOut, host(Cpu), Claim::HostCpus { busy_share: 0.14, waited_share: None }),
        found(Observation, host(Cpu), Claim::HostCpus { busy_share: 0.95, waited_share: None }),
        found(Limits, on(Resource::disk("sda")), disk(14.2, Some(0.99), Some(0.93))),
        found(Limits, on(Resource::disk("0")), disk(14.2, Some(0.99), None)),
        found(RuledOut, on(Resource::disk("sda")), disk(0.02, Some(0.01), Some(0.0))),
        found(Limits, host(Memory), Claim::Memory(memory(Some(0.42)))),
        found(RuledOut, host(Memory), Claim::Memory(memory(Some(0.0)))),
        found(RuledOut, host(Memory), left(0.61)),
        found(Observation, host(Memory), left(0.03)),
        found(Observation, host(AcceptQueue), Claim::ListenOverflows { per_s: 3.0 }),
        found(Observation, host(Tcp), Claim::Retransmissions { per_s: 90.0, share: 0.02 }),
        found(Observation, host(PacketQueue), Claim::PacketsDropped { per_s: 12.0 }),
    ];
    let said: Vec<String> = findings.iter().map(finding).collect();
    insta::assert_snapshot!("findings_of_hosts", said.join("\n"));
}
