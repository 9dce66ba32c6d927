//! Studies and results of the shapes the report has to show, made by calculation: for tests and for the
//! `page` example, which writes them as files to look at.

use std::collections::BTreeMap;

use model::claim::{DeviceClaim, LoadPoint, LoadSweep};
use model::result::{
    Answer, ComparisonRow, Configuration, Curve, CurvePoint, GoalLine, GoalResult, NotTurned, Operation,
    OperationResult, ProofAnswer, ProofResult, ProofRow, ResourceUse, TreatmentResult, TrialResult, Turn,
};
use model::run::{OperationUnit, Origin, WorkloadTraits};
use model::verdict::{Carried, Limit, Unclear};
use model::*;

/// A result and the record it was made from.
pub(crate) struct Sample {
    pub(crate) document: ResultDocument,
    pub(crate) study: Study,
}

/// A fixed sequence of numbers between 0 and 1 (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal, mean 0 and deviation 1.
    fn normal(&mut self) -> f64 {
        ((0..4).map(|_| self.next()).sum::<f64>() - 2.0) * 3f64.sqrt()
    }
}

/// What one trial is made to look like.
#[derive(Clone)]
struct Look {
    seconds: u32,
    /// Name, operations per second, median in milliseconds, bytes each.
    operations: Vec<(&'static str, f64, f64, u64)>,
    /// Second in which the device stalls.
    stall_at: Option<u32>,
    /// Weight of the slow tail.
    tail: f64,
    /// Share of time the device was busy, and its queue.
    utilization: f64,
    queue: f64,
    /// Busy share of CPU 3.
    cpu: f64,
    /// More columns of counters.
    more_columns: usize,
    cpu_us: f64,
}

impl Default for Look {
    fn default() -> Self {
        Look {
            seconds: 60,
            operations: vec![("read", 48_200.0, 0.39, 4096), ("write", 20_700.0, 0.62, 4096)],
            stall_at: Some(31),
            tail: 0.01,
            utilization: 0.985,
            queue: 31.4,
            cpu: 0.41,
            more_columns: 0,
            cpu_us: 6.1,
        }
    }
}

const WARM_UP: u32 = 5;

fn traits() -> WorkloadTraits {
    WorkloadTraits { storage: true, unit: OperationUnit::Io, ..WorkloadTraits::NONE }
}

fn host() -> Host {
    Host {
        format: "plimsoll.host/1.0".into(),
        plimsoll: "0.1.0".into(),
        name: "db-07".into(),
        os: "Debian GNU/Linux 12".into(),
        kernel: "6.1.0-41-amd64".into(),
        cpu_model: "AMD EPYC 9354P 32-Core Processor".into(),
        cpus: 8,
        memory_bytes: 24 << 30,
        hypervisor: "KVM".into(),
        disks: [(
            "vda".to_string(),
            [
                ("model", "Virtio Block Device"),
                ("scheduler", "none"),
                ("nr_requests", "256"),
                ("write_cache", "write back"),
            ]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into(),
        )]
        .into(),
    }
}

fn record(trial: Trial, look: &Look, seed: u64) -> RunRecord {
    let mut numbers = Numbers(seed);
    let mut intervals = Vec::new();
    let mut histograms: BTreeMap<String, OperationHistograms> = BTreeMap::new();
    for second in 0..look.seconds + WARM_UP {
        let phase = if second < WARM_UP { Phase::WarmUp } else { Phase::Measure };
        let stalled = look.stall_at == Some(second);
        let warming = if second < 3 { 0.6 + 0.15 * f64::from(second) } else { 1.0 };
        let (begin_s, end_s) = (f64::from(second), f64::from(second + 1));
        for &(name, rate, median_ms, bytes) in &look.operations {
            let all = histograms.entry(name.into()).or_default();
            let rate = rate * warming * (1.0 + 0.012 * numbers.normal()) * if stalled { 0.21 } else { 1.0 };
            let count = rate.max(1.0) as u64;
            let (mut response, mut service) = (study::new_histogram(), study::new_histogram());
            let mut heat: BTreeMap<u16, u64> = BTreeMap::new();
            let samples = 300.min(count);
            for at in 0..samples {
                let weight = count / samples + u64::from(at < count % samples);
                let slow = numbers.next() < look.tail;
                let mut ms = median_ms * (0.33 * numbers.normal()).exp();
                if slow {
                    ms *= 4.0 + 6.0 * numbers.next();
                }
                if stalled && at % 3 == 0 {
                    ms = 40.0 + 380.0 * numbers.next();
                }
                let ns = (ms * 1e6) as u64;
                let late_ns = (ns as f64 * 0.03) as u64;
                response.record_n(ns + late_ns, weight).unwrap();
                service.record_n(ns, weight).unwrap();
                *heat.entry(study::heat_row(ns + late_ns)).or_default() += weight;
                if phase == Phase::Measure {
                    all.response.record_n(ns + late_ns, weight).unwrap();
                    all.service.record_n(ns, weight).unwrap();
                    all.lag.record_n(late_ns.max(1), weight).unwrap();
                }
            }
            all.heat.push(study::HeatColumn { begin_s, end_s, cells: heat.into_iter().collect() });
            let summary = LatencySummary::of(&response);
            intervals.push(Interval {
                begin_s,
                end_s,
                phase,
                load: 32.0,
                operation: name.into(),
                offered: count,
                issued: count,
                completed: count,
                late: 0,
                failed: 0,
                bytes: count * bytes,
                concurrency: rate * summary.mean / 1e3,
                response: summary,
                service: LatencySummary::of(&service),
            });
        }
    }
    let end_s = f64::from(look.seconds + WARM_UP);
    let mut facts = BTreeMap::new();
    facts.insert("back_end".to_string(), Level::Text("io_uring".into()));
    facts.insert("file.extents".to_string(), Level::Count(3));
    let setting = |name: &str| format!("workload.{name}");
    RunRecord {
        run: Run {
            turnable: Default::default(),
            turned_resources: Default::default(),
            format: run::RUN_FORMAT.into(),
            trial,
            workload: "disk".into(),
            origin: Origin::Driven,
            traits: traits(),
            load: Load {
                shape: Some(Shape::closed(32)),
                warm_up: WarmUp::For(u64::from(WARM_UP) * SECOND),
                measure: Some(u64::from(look.seconds) * SECOND),
                interval: SECOND,
                spin: None,
            },
            asked: [
                (setting("block_size"), Level::Bytes(4096)),
                (setting("files"), Level::List(vec![Level::Text("/data/load.bin".into())])),
                (setting("read_percent"), Level::Percent(70.0)),
                (setting("outstanding"), Level::Count(32)),
                ("host.disk.io_limit".into(), Level::Unlimited),
            ]
            .into(),
            in_force: [("host.disk.io_limit".to_string(), Level::Unlimited)].into(),
            started_unix_ns: 1_795_289_400 * SECOND,
            phases: vec![
                PhaseSpan { phase: Phase::WarmUp, begin_s: 0.0, end_s: f64::from(WARM_UP) },
                PhaseSpan { phase: Phase::Measure, begin_s: f64::from(WARM_UP), end_s },
                PhaseSpan { phase: Phase::CoolDown, begin_s: end_s, end_s: end_s + 0.2 },
            ],
            operations: look.operations.iter().map(|operation| operation.0.to_string()).collect(),
            operations_in_turn: false,
            facts,
            sources: vec![
                SourceStatus { source: "cpu".into(), state: SourceState::Active },
                SourceStatus { source: "disk".into(), state: SourceState::Active },
                SourceStatus {
                    source: "operation_io".into(),
                    state: SourceState::Unavailable("tracing needs CAP_BPF".into()),
                },
                SourceStatus {
                    source: "pressure".into(),
                    state: SourceState::Failing { samples: 2, why: "read timed out".into() },
                },
            ],
            sampler: run::SamplerCost {
                samples: u64::from(look.seconds + WARM_UP),
                cpu_s: 0.21,
                wall_s: end_s,
            },
            generator: run::GeneratorUse {
                threads: 1,
                cpu_s: 24.7,
                run_wait_s: 0.3,
                wall_s: f64::from(look.seconds),
                ..run::GeneratorUse::default()
            },
            clock: run::ClockInfo { source: "tsc".into(), read_ns: 24.0, drift_ppm: 0.4 },
            errors: Vec::new(),
            doubts: Vec::new(),
            ending: Ending::Completed,
        },
        intervals,
        histograms,
        readings: readings(look, &mut numbers),
        events: vec![Event {
            at_s: f64::from(WARM_UP),
            kind: EventKind::Steadiness,
            text: "throughput is steady".into(),
            data: BTreeMap::new(),
        }],
    }
}

fn readings(look: &Look, numbers: &mut Numbers) -> ReadingTable {
    let info = |name, unit, full: f64| MetricInfo::new(name, unit, MetricKind::Mean, "").full_at(full);
    let mut columns = vec![
        Column { metric: info("disk.utilization", Unit::Share, 1.0), instance: "vda".into() },
        Column { metric: info("disk.queue_length", Unit::Count, 0.0), instance: "vda".into() },
        Column { metric: info("pressure.io_full", Unit::Share, 1.0), instance: String::new() },
        Column { metric: info("cpu.busy", Unit::Share, 1.0), instance: "3".into() },
        Column { metric: info("disk.read_bytes_per_s", Unit::BytesPerSecond, 0.0), instance: "vda".into() },
        Column { metric: info("memory.available_bytes", Unit::Bytes, 0.0), instance: String::new() },
    ];
    let samples = look.seconds + WARM_UP;
    for at in 0..look.more_columns {
        columns.push(Column {
            metric: info("interrupts.per_s", Unit::PerSecond, 0.0),
            instance: at.to_string(),
        });
    }
    let mut table = ReadingTable {
        begin_s: (0..samples).map(f64::from).collect(),
        end_s: (1..=samples).map(f64::from).collect(),
        values: vec![Vec::new(); columns.len()],
        columns,
    };
    for second in 0..samples {
        let stalled = look.stall_at == Some(second);
        let mut noise = |size: f64| 1.0 + size * numbers.normal();
        let values = [
            (look.utilization * noise(0.01)).min(1.0),
            if stalled { 32.0 } else { look.queue * noise(0.02) },
            if stalled { 0.93 } else { (look.utilization * 0.6 * noise(0.05)).min(1.0) },
            (look.cpu * if stalled { 0.2 } else { noise(0.03) }).min(1.0),
            if stalled { 41e6 } else { 197e6 * noise(0.012) },
            11.2e9 - f64::from(second) * 1e5,
        ];
        for (at, column) in table.values.iter_mut().enumerate() {
            // The third source could not be read twice: absent, not zero.
            let value = match (at, second) {
                (2, 12 | 13) => f64::NAN,
                _ => values.get(at).copied().unwrap_or(1000.0 + at as f64),
            };
            column.push(value);
        }
    }
    table
}

fn operation(record: &RunRecord, names: &[&str], title: &str) -> OperationResult {
    let (mut response, mut service, mut lag) =
        (study::new_histogram(), study::new_histogram(), study::new_histogram());
    let mut result = OperationResult { name: title.to_string().into(), ..OperationResult::default() };
    let mut seconds = 0.0_f64;
    for name in names {
        if let Some(histograms) = record.histograms.get(*name) {
            response.add(&histograms.response).unwrap();
            service.add(&histograms.service).unwrap();
            lag.add(&histograms.lag).unwrap();
        }
        let mut bytes = 0;
        let mut length = 0.0;
        for interval in record.measured(name) {
            result.offered += interval.offered;
            result.issued += interval.issued;
            result.completed += interval.completed;
            result.late += interval.late;
            result.failed += interval.failed;
            bytes += interval.bytes;
            length += interval.length_s();
            result.concurrency += interval.concurrency;
        }
        result.bytes_per_s += bytes as f64;
        seconds = seconds.max(length);
    }
    if seconds > 0.0 {
        result.rate_per_s = (result.completed - result.failed) as f64 / seconds;
        result.bytes_per_s /= seconds;
        result.concurrency /= seconds;
    }
    result.response_ms = LatencySummary::of(&response);
    result.service_ms = LatencySummary::of(&service);
    result.lag_ms = LatencySummary::of(&lag);
    result
}

fn trial_result(record: &RunRecord, cpu_us: f64) -> TrialResult {
    let names: Vec<&str> = record.run.operations.iter().map(String::as_str).collect();
    let mut operations: Vec<OperationResult> =
        names.iter().map(|name| operation(record, &[name], name)).collect();
    if names.len() > 1 {
        operations.push(operation(record, &names, Operation::ALL));
    }
    let span = record.run.span(Phase::Measure).cloned();
    let (begin_s, end_s) = span.map_or((0.0, 0.0), |span| (span.begin_s, span.end_s));
    let resources = record
        .readings
        .columns
        .iter()
        .enumerate()
        .take(6)
        .filter_map(|(at, column)| {
            Some(ResourceUse {
                metric: column.metric.name.to_string(),
                instance: column.instance.clone(),
                unit: column.metric.unit,
                mean: record.readings.mean(at, begin_s, end_s)?,
                max: record.readings.max(at, begin_s, end_s)?,
                full_at: column.metric.full_at,
            })
        })
        .collect();
    let treatment = &record.run.trial.treatment;
    TrialResult {
        trial: record.run.trial.id(),
        treatment: TreatmentResult {
            label: treatment.label(),
            changes: treatment.changes().to_vec(),
            is_side: false,
        },
        replicate: record.run.trial.replicate,
        started_unix_ns: record.run.started_unix_ns,
        measured_s: end_s - begin_s,
        load: "32 in flight".into(),
        operations,
        cpu_us_per_operation: (end_s > begin_s).then_some(cpu_us),
        resources,
        facts: record.run.facts.clone(),
        doubts: record.run.doubts.clone(),
        ending: record.run.ending.clone(),
    }
}

fn metric_of(trial: &TrialResult, metric: &str) -> Option<f64> {
    let whole = trial.whole()?;
    match metric.split_once('.') {
        Some(("response_ms", part)) => whole.response_ms.part(part),
        _ if metric == "rate_per_s" => Some(whole.rate_per_s),
        _ => trial.cpu_us_per_operation,
    }
}

fn middle(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

const METRICS: [&str; 5] =
    ["rate_per_s", "response_ms.p50", "response_ms.p99", "response_ms.p999", "cpu_us_per_operation"];

/// Puts runs together as an analysis would, with simpler statistics.
fn summarize(name: &str, runs: Vec<(RunRecord, f64)>) -> Sample {
    let trials: Vec<TrialResult> = runs.iter().map(|(run, cpu)| trial_result(run, *cpu)).collect();
    let mut labels: Vec<TreatmentResult> = Vec::new();
    for trial in &trials {
        if !labels.iter().any(|known| known.label == trial.treatment.label) {
            labels.push(trial.treatment.clone());
        }
    }
    let values = |label: &str, metric: &str| -> Vec<f64> {
        trials
            .iter()
            .filter(|trial| trial.treatment.label == label)
            .filter_map(|trial| metric_of(trial, metric))
            .collect()
    };
    let mut configurations = Vec::new();
    let mut comparison = Vec::new();
    for treatment in &labels {
        let mut configuration = Configuration {
            treatment: treatment.clone(),
            trials: trials
                .iter()
                .filter(|trial| trial.treatment.label == treatment.label)
                .map(|trial| trial.trial.clone())
                .collect(),
            ..Configuration::default()
        };
        for metric in METRICS {
            let all = values(&treatment.label, metric);
            if all.is_empty() {
                continue;
            }
            let [median, low, high] = middle(all.clone());
            configuration.medians.insert(metric.into(), median);
            configuration.spreads.insert(metric.into(), (high - low) / 2.0 / median);
            let base = values(&labels[0].label, metric);
            if treatment.label == labels[0].label || base.is_empty() {
                continue;
            }
            let [ratio, low, high] =
                middle(base.iter().zip(&all).map(|(base, treatment)| treatment / base).collect());
            let smallest = 0.03;
            let higher_is_better = metric == "rate_per_s";
            let answer = match () {
                () if low > 1.0 / (1.0 + smallest) && high < 1.0 + smallest => Answer::Same,
                () if low > 1.0 => {
                    if higher_is_better {
                        Answer::Better
                    } else {
                        Answer::Worse
                    }
                }
                () if high < 1.0 => {
                    if higher_is_better {
                        Answer::Worse
                    } else {
                        Answer::Better
                    }
                }
                () => Answer::CantTell,
            };
            let pairs = all.len().min(base.len()) as u32;
            comparison.push(ComparisonRow {
                configuration: treatment.label.clone(),
                metric: metric.into(),
                higher_is_better,
                baseline: middle(base)[0],
                treatment: median,
                ratio,
                low: (pairs > 1).then_some(low),
                high: (pairs > 1).then_some(high),
                smallest_change: Some(smallest),
                answer: if pairs > 1 { answer } else { Answer::CantTell },
                pairs,
                method: "range of the ratios of pairs".into(),
                replicates_to_settle: (answer == Answer::CantTell).then_some(24),
                replicates_to_show: (answer == Answer::CantTell).then_some(9),
            });
        }
        configurations.push(configuration);
    }
    let document = ResultDocument {
        proof: None,
        format: result::RESULT_FORMAT.into(),
        run: "runs/2026-11-21T1930Z-disk".into(),
        experiment: name.into(),
        workload: "disk".into(),
        origin: Origin::Driven,
        traits: traits(),
        load: "32 in flight".into(),
        host: host(),
        trials,
        configurations,
        comparison,
        differences: Vec::new(),
        curves: Vec::new(),
        published: Vec::new(),
        beside: Vec::new(),
        findings: Vec::new(),
        doubts: Vec::new(),
        verdict: Verdict::Inconclusive {
            reason: Unclear::NothingCompleted,
            lacks: vec![Missing::CompletedTrial],
        },
        goal: None,
    };
    let study = Study {
        directory: document.run.clone(),
        host: host(),
        plan: None,
        runs: runs.into_iter().map(|(run, _)| run).collect(),
        damage: Vec::new(),
    };
    Sample { document, study }
}

fn evidence(run: &str, metric: &str, unit: Unit, observed: f64, expected: [f64; 3]) -> Evidence {
    let [value, low, high] = expected;
    Evidence {
        run: run.into(),
        metric: metric.into(),
        unit,
        begin_s: 5.0,
        end_s: 65.0,
        observed: Estimate { value: observed, low: 0.96 * observed, high: 1.02 * observed },
        expected: Some(Estimate { value, low, high }),
        comparison: Some(Comparison::RuleOfThumb),
        between: None,
    }
}

fn finding(kind: FindingKind, about: Option<Resource>, claim: Claim, trials: &[String]) -> Finding {
    Finding {
        kind,
        detector: if about.is_some() { Detector::Disk } else { Detector::Steadiness },
        about,
        side: None,
        step: None,
        used: Vec::new(),
        claim,
        evidence: Vec::new(),
        against: Vec::new(),
        trials: trials.to_vec(),
        of_trials: trials.len(),
    }
}

/// A disk that is the limit.
fn disk_limits(queue: f64, trials: &[String]) -> Finding {
    let claim = Claim::Device(DeviceClaim {
        queue,
        in_flight: 32.0,
        transfer_ms: Some(0.44),
        host_cpu_share: Some(0.41),
        one_at_a_time: false,
        flush_share: None,
        serial_flushes: None,
        bound: None,
    });
    let seen = |metric, unit, value, expected| evidence(&trials[0], metric, unit, value, expected);
    Finding {
        evidence: vec![
            seen("disk.queue_length{vda}", Unit::Count, queue, [1.0, 0.0, 1.0]),
            seen("disk.transfer_s{vda}", Unit::Seconds, 0.00044, [0.01, 0.0, 0.02]),
        ],
        ..finding(FindingKind::Limits, Some(Resource::disk("vda")), claim, trials)
    }
}

fn cpu_claim(kind: FindingKind, busy_share: f64, trials: &[String]) -> Finding {
    let claim = match kind {
        FindingKind::Limits => {
            Claim::CpusUsed { process: "slapd".into(), used_cpus: 8.0 * busy_share, allowed_cpus: 8.0 }
        }
        _ => Claim::HostCpus { busy_share, waited_share: Some(0.02) },
    };
    finding(kind, Some(Resource::of_host(ResourceClass::Cpu)), claim, trials)
}

fn bottleneck(resource: Resource, finding: usize) -> Verdict {
    let limit = Limit::One { resource, close_above: Vec::new() };
    Verdict::Bottleneck { limit, finding: Some(finding), proved: false }
}

/// One run of 60 s, reads and writes, with a stall in its middle.
pub(crate) fn single() -> Sample {
    single_of(60, 0)
}

/// The same over any time, with more columns of counters.
pub(crate) fn single_of(seconds: u32, more_columns: usize) -> Sample {
    let trial = Trial { number: 1, treatment: Treatment::Baseline, replicate: 1 };
    let look = Look { seconds, more_columns, ..Look::default() };
    let mut sample = summarize("Random 4 KiB, 70 % reads", vec![(record(trial, &look, 7), look.cpu_us)]);
    let document = &mut sample.document;
    let id = document.trials[0].trial.clone();
    let change = Claim::RateChanged {
        at_s: 31.0,
        before: 279e6,
        after: 58e6,
        unit: Unit::BytesPerSecond,
        moved_bytes: None,
        cause: claim::ChangeCause::NotShown,
    };
    let trials = [id.clone()];
    document.findings = vec![
        disk_limits(31.4, &trials),
        cpu_claim(FindingKind::RuledOut, 0.41, &trials),
        finding(FindingKind::Observation, None, change, &trials),
    ];
    document.trials[0].doubts = vec![
        Doubt::new(
            DoubtKind::Unsteady,
            "Throughput fell below half its median in 1 of 60 s.",
            "measure longer, or look at what else used the device at 31 s",
        ),
        Doubt::new(
            DoubtKind::MissingSource,
            "operation_io could not be read: tracing needs CAP_BPF.",
            "run as root to see I/O per operation",
        ),
    ];
    document.verdict = bottleneck(Resource::disk("vda"), 0);
    document.configurations[0].verdict = Some(document.verdict.clone());
    let value = document.trials[0].operations[2].response_ms.p99;
    document.goal = Some(GoalResult {
        stated: true,
        met: false,
        goals: vec![
            GoalLine {
                goal: "response.p99 <= 1.5ms".into(),
                trial: id.clone(),
                value: Some(value),
                met: value <= 1.5,
            },
            GoalLine {
                goal: "throughput > 50k/s".into(),
                trial: id,
                value: Some(document.trials[0].operations[2].rate_per_s),
                met: true,
            },
        ],
    });
    let goals = ["response.p99 <= 1.5ms", "throughput > 50k/s"];
    sample.study.plan = Some(Plan {
        format: "plimsoll.plan/1.0".into(),
        experiment: Experiment {
            name: "Random 4 KiB, 70 % reads".into(),
            goals: goals.iter().map(|goal| Goal::parse(goal, &["read", "write"]).unwrap()).collect(),
            max_failures: model::experiment::MAX_FAILURES,
            watch: vec!["host".into()],
            sample_every: model::SECOND,
            replicates: 1,
            seed: 1,
            prove: false,
            folder: Default::default(),
            target: None,
            workload: WorkloadSpec { kind: "disk".into(), settings: Settings::default() },
            load: Settings::default(),
            vary: Vec::new(),
            design: DesignKind::OneFactorAtATime,
            show: Vec::new(),
            published: Vec::new(),
        },
        decisions: Vec::new(),
        enough: None,
    });
    sample
}

fn change(path: &str, level: Level) -> Change {
    Change { factor: SettingPath(path.into()), level }
}

/// Two to four configurations, each measured `replicates` times in turn.
pub(crate) fn compared(levels: &[&str], replicates: u32) -> Sample {
    compared_for(levels, replicates, 30)
}

/// The same, each trial of so many seconds.
pub(crate) fn compared_for(levels: &[&str], replicates: u32, seconds: u32) -> Sample {
    let mut runs = Vec::new();
    for replicate in 1..=replicates {
        for (at, level) in ["none"].iter().chain(levels).enumerate() {
            let treatment = match at {
                0 => Treatment::Baseline,
                _ => Treatment::OneChange(change("host.disk.scheduler", Level::Text(level.to_string()))),
            };
            let number = (replicate - 1) * (levels.len() as u32 + 1) + at as u32 + 1;
            let noise = 1.0 + 0.006 * f64::from(replicate % 3);
            let (rate, median, tail, queue, cpu, cpu_us) = match at {
                0 => (71_200.0, 0.41, 0.010, 31.8, 0.55, 6.1),
                1 => (52_300.0, 0.44, 0.009, 4.1, 0.98, 8.9),
                2 => (70_900.0, 0.41, 0.012, 30.9, 0.57, 6.3),
                _ => (69_000.0, 0.42, 0.004, 29.0, 0.6, 6.6),
            };
            let look = Look {
                seconds,
                operations: vec![("read", rate * noise, median / noise, 4096)],
                stall_at: (at == 1 && replicate == 2).then_some(20),
                tail,
                utilization: if at == 1 { 0.62 } else { 0.99 },
                queue,
                cpu,
                cpu_us: cpu_us * noise,
                ..Look::default()
            };
            let trial = Trial { number, treatment, replicate };
            runs.push((record(trial, &look, u64::from(number) * 31), look.cpu_us));
        }
    }
    let mut sample = summarize("I/O scheduler: none against mq-deadline", runs);
    let document = &mut sample.document;
    document.findings = vec![
        disk_limits(31.8, &document.configurations[0].trials),
        cpu_claim(FindingKind::Limits, 0.98, &document.configurations[1].trials),
    ];
    document.findings.iter_mut().for_each(|finding| finding.of_trials = document.trials.len());
    for (at, configuration) in document.configurations.iter_mut().enumerate() {
        configuration.verdict = Some(match at {
            1 => bottleneck(Resource::of_host(ResourceClass::Cpu), 1),
            _ => bottleneck(Resource::disk("vda"), 0),
        });
    }
    document.verdict = bottleneck(Resource::disk("vda"), 0);
    document.doubts = vec![Doubt::new(DoubtKind::Neighbour, "Steal was 3.1 % in 1 of 10 trials.", "")];
    sample
}

/// A single run with its proof: two limits that meet, and one that could be taken only.
pub(crate) fn proved() -> Sample {
    let mut sample = single();
    let row = |factor: &str, turn, levels: [&str; 2], ratio, [value, low, high]: [f64; 3], answer| ProofRow {
        factor: factor.into(),
        resource: if factor.contains("disk") { HostResource::Disk } else { HostResource::Memory },
        turn,
        in_force: levels[0].into(),
        level: levels[1].into(),
        rounds: 4,
        throughput_ratio: Some(ratio),
        elasticity: Some(Estimate { value, low, high }),
        answer,
    };
    let (memory, limit) = ("host.memory", "host.disk.io_limit");
    let document = &mut sample.document;
    let observed = std::mem::replace(
        &mut document.verdict,
        Verdict::Bottleneck {
            limit: Limit::CloseTo { resource: HostResource::Disk, other: None },
            finding: None,
            proved: true,
        },
    );
    document.proof = Some(ProofResult {
        share: model::PROOF_SHARE,
        rows: vec![
            row(memory, Turn::Taken, ["2GiB", "1.4GiB"], 0.996, [0.01, -0.04, 0.06], ProofAnswer::Rejected),
            row(
                limit,
                Turn::Taken,
                ["read 400/s", "read 280/s"],
                0.718,
                [0.93, 0.88, 0.98],
                ProofAnswer::Confirmed,
            ),
            row(
                limit,
                Turn::Given,
                ["read 400/s", "read 571/s"],
                1.007,
                [0.02, -0.05, 0.09],
                ProofAnswer::Rejected,
            ),
        ],
        not_turned: vec![NotTurned {
            factor: "host.cpu_quota".into(),
            why: "the kernel was built without quotas (CONFIG_CFS_BANDWIDTH)".into(),
        }],
        residual: Some(Estimate { value: 0.06, low: -0.01, high: 0.13 }),
        observed: Some(observed),
    });
    sample
}

/// Block sizes by numbers in flight, one run each.
pub(crate) fn grid() -> Sample {
    let mut runs = Vec::new();
    let mut curves: Vec<Curve> = Vec::new();
    let mut number = 0;
    for outstanding in [1u64, 2, 4, 8, 16, 32] {
        let mut curve = Curve {
            factor: "workload.block_size".into(),
            series: format!("outstanding={outstanding}"),
            operation: None,
            points: Vec::new(),
        };
        for block in [4096u64, 8192, 16_384, 32_768, 65_536, 131_072] {
            number += 1;
            let treatment = match number {
                1 => Treatment::Baseline,
                _ => Treatment::Combination(vec![
                    change("workload.block_size", Level::Bytes(block)),
                    change("workload.outstanding", Level::Count(outstanding)),
                ]),
            };
            let service_ms = 0.11 + block as f64 / 900e3;
            let rate =
                1.0 / (1.0 / (outstanding as f64 / service_ms * 1e3) + 1.0 / 74_000.0 + block as f64 / 560e6);
            let look = Look {
                seconds: 10,
                operations: vec![("read", rate, outstanding as f64 / rate * 950.0, block)],
                stall_at: None,
                utilization: (rate / 74_000.0).min(1.0),
                queue: outstanding as f64 * 0.95,
                ..Look::default()
            };
            let trial = Trial { number, treatment, replicate: 1 };
            let run = record(trial, &look, u64::from(number));
            let result = operation(&run, &["read"], "read");
            let three = |value: f64, share: f64| [value, value * (1.0 - share), value * (1.0 + share)];
            curve.points.push(CurvePoint {
                level: block as f64,
                label: quantity::bytes(block),
                replicates: 1,
                rate_per_s: three(result.rate_per_s, 0.0),
                bytes_per_s: three(result.bytes_per_s, 0.0),
                mean_ms: three(result.response_ms.mean, 0.0),
                p99_ms: three(result.response_ms.p99, if outstanding == 8 { 0.2 } else { 0.0 }),
            });
            runs.push((run, look.cpu_us));
        }
        curves.push(curve);
    }
    let mut sample = summarize("Block size by outstanding", runs);
    sample.document.curves = curves;
    let point = |at: usize, label: &str| {
        let point = &sample.document.curves[at].points[0];
        LoadPoint {
            label: label.into(),
            rate_per_s: point.rate_per_s[0],
            bytes_per_s: point.bytes_per_s[0],
            mean_ms: point.mean_ms[0],
            p99_ms: point.p99_ms[0],
        }
    };
    let sweep = LoadSweep {
        factor: "workload.outstanding".into(),
        series: "block_size=4KiB".into(),
        first: point(0, "1"),
        peak: point(5, "32"),
        last: point(5, "32"),
        knee: None,
    };
    sample.document.findings = vec![finding(FindingKind::Observation, None, Claim::LoadSweep(sweep), &[])];
    sample.document.verdict = Verdict::NotSaturated { carried: Carried::StillGrowing { finding: 0 } };
    sample
}

/// Nothing at all; a failed trial; an interrupted one; numbers that are none.
pub(crate) fn broken() -> Vec<(&'static str, Sample)> {
    let empty = || summarize("<Empty> & \"quoted\"", Vec::new());
    let trial = |number| Trial { number, treatment: Treatment::Baseline, replicate: 1 };
    let mut failed = record(trial(1), &Look { seconds: 3, operations: Vec::new(), ..Look::default() }, 1);
    failed.run.ending = Ending::Failed("/data/load.bin: No such file or directory".into());
    failed.run.phases.clear();
    failed.run.operations = vec!["read".into()];
    failed.readings = ReadingTable::default();
    let mut interrupted = record(trial(2), &Look { seconds: 2, ..Look::default() }, 2);
    interrupted.run.ending = Ending::Interrupted;
    let mut strange =
        summarize("strange", vec![(record(trial(1), &Look { seconds: 2, ..Look::default() }, 3), f64::NAN)]);
    let bad =
        LatencySummary { min: f64::NAN, mean: f64::NAN, p50: f64::INFINITY, ..LatencySummary::default() };
    for operation in &mut strange.document.trials[0].operations {
        *operation = OperationResult {
            name: operation.name.clone(),
            completed: 5,
            rate_per_s: f64::NAN,
            bytes_per_s: f64::INFINITY,
            response_ms: bad,
            service_ms: bad,
            ..OperationResult::default()
        };
    }
    for interval in &mut strange.study.runs[0].intervals {
        interval.response = bad;
        interval.end_s = interval.begin_s;
    }
    for column in &mut strange.study.runs[0].readings.values {
        column.fill(f64::NAN);
    }
    for resource in &mut strange.document.trials[0].resources {
        (resource.mean, resource.max) = (f64::NAN, f64::INFINITY);
    }
    let mut unmatched = single();
    unmatched.study.runs.clear();
    unmatched.study.damage = vec!["trials/001-baseline.r1/intervals.csv: cut off in line 17".into()];
    vec![
        ("empty", empty()),
        ("failed", summarize("failed", vec![(failed, 0.0)])),
        ("interrupted", summarize("interrupted", vec![(interrupted, 5.0)])),
        ("strange", strange),
        ("unmatched", unmatched),
    ]
}
