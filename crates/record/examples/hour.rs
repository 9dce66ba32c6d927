//! Writes a run directory of one hour with 900 counters at 1 Hz and one operation, to measure the cost of
//! reading it.
//!
//!     cargo run --release -p plimsoll-record --example hour -- DIR
//!
//! About one of twelve values changes from one second to the next, as on a host that was sampled for five
//! minutes.

#![allow(clippy::expect_used, clippy::print_stderr, reason = "an example program")]

use hdrhistogram::Histogram;
use model::{
    Column, Ending, Experiment, Host, Interval, LatencySummary, Load, MetricInfo, MetricKind, Phase,
    PhaseSpan, Plan, Readings, Run, SECOND, Shape, Treatment, Trial, Unit, WarmUp,
};
use plimsoll_record::{OperationIntervals, PLAN_FORMAT, RunDirectory};

const SECONDS: u32 = 3600;
const COLUMNS: usize = 900;

/// A small random number generator is sufficient for these values.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn main() {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: hour DIR");
        std::process::exit(2);
    };
    let trial = Trial { number: 1, treatment: Treatment::Baseline, replicate: 1 };
    let experiment = Experiment {
        machines: Default::default(),
        name: "one hour".into(),
        goals: Vec::new(),
        max_failures: model::experiment::MAX_FAILURES,
        watch: vec![model::Secret::plain("host")],
        sample_every: SECOND,
        replicates: 1,
        seed: 1,
        prove: false,
        folder: Default::default(),
        target: None,
        workload: model::WorkloadSpec { kind: "disk".into(), settings: Default::default() },
        load: Default::default(),
        vary: Vec::new(),
        design: Default::default(),
        gate: None,
        show: Vec::new(),
        published: Vec::new(),
        limit: Vec::new(),
        smallest: None,
        dependencies: Vec::new(),
    };
    let directory =
        RunDirectory::create(path.as_ref(), "", &Host::default()).expect("an empty or new folder");
    let decision = model::Decision { trial: trial.clone(), reason: "the only one".into() };
    let plan = Plan {
        format: PLAN_FORMAT.into(),
        experiment,
        decisions: vec![decision],
        enough: Some("one".into()),
    };
    directory.write_plan(&plan).expect("plan.json");
    let mut writer = directory.trial(&trial.id()).expect("the trial's folder");
    writer.start(1_700_000_000_000_000_000).expect("the logs");

    let mut noise = Noise(1);
    let mut readings = Readings::new();
    let metrics: Vec<MetricInfo> = (0..COLUMNS / 10)
        .map(|at| MetricInfo {
            name: format!("made.up_{at}_per_s").into(),
            ..MetricInfo::new("", Unit::PerSecond, MetricKind::Rate, "Made up.")
        })
        .collect();
    let columns: Vec<_> = (0..COLUMNS)
        .map(|at| {
            let column = Column { metric: metrics[at / 10].clone(), instance: format!("part{}", at % 10) };
            readings.column(&column.metric, &column.instance)
        })
        .collect();
    let mut values = vec![0.0; COLUMNS];
    for second in 0..SECONDS {
        let (begin_s, end_s) = (f64::from(second), f64::from(second + 1));
        let mut response: Histogram<u64> = model::study::new_histogram();
        for _ in 0..20_000 {
            let value = 100_000.0 * (1.0 + noise.unit()) * if noise.unit() < 0.01 { 20.0 } else { 1.0 };
            response.record(value as u64).expect("histograms grow");
        }
        let lag: Histogram<u64> = {
            let mut lag = model::study::new_histogram();
            lag.record_n(200, 20_000).expect("histograms grow");
            lag
        };
        let summary = LatencySummary::of(&response);
        let row = Interval {
            due: None,
            begin_s,
            end_s,
            phase: Phase::Measure,
            load: 32.0,
            operation: "read".into(),
            offered: Some(20_000),
            issued: Some(20_000),
            completed: 20_000,
            late: Some(0),
            failed: 0,
            bytes: 20_000 * 4096,
            concurrency: 31.9,
            response: summary,
            service: summary,
        };
        let histograms = [OperationIntervals {
            operation: "read",
            response: &response,
            service: &response,
            lag: &lag,
            censored: None,
        }];
        writer.interval(&[row], &histograms).expect("the interval");
        for (value, column) in values.iter_mut().zip(&columns) {
            if noise.unit() < 0.084 {
                *value = (noise.unit() * 1e6).round() / 10.0;
            }
            readings.set(*column, *value);
        }
        writer.readings(begin_s, end_s, &readings).expect("the sample");
    }
    let length_s = f64::from(SECONDS);
    let load = Load {
        end_early: false,
        shape: Some(Shape::closed(32)),
        warm_up: WarmUp::For(0),
        warm_up_round: model::SECOND,
        measure: Some(u64::from(SECONDS) * SECOND),
        interval: SECOND,
        spin: None,
    };
    let mut run = Run::begun(trial, "disk", load, 1_700_000_000_000_000_000);
    run.phases = vec![PhaseSpan { phase: Phase::Measure, begin_s: 0.0, end_s: length_s }];
    run.operations = vec!["read".into()];
    run.ending = Ending::Completed;
    writer.finish(&run).expect("the end of the record");
}
