//! Simulated records of systems with known properties: closed ones by exact mean value analysis, open ones by
//! the M/M/1 queue.
//!
//! A record contains only what the program records: workloads, operations, settings, facts, metrics and
//! factors are looked up in the tables of `workloads`, `counters` and `factors`. An unknown name makes the
//! test panic.

use std::collections::BTreeMap;

use model::design::Next;
use model::drain::DrainFacts;
use model::steps::RequestSteps;
use model::study::new_histogram;
use model::{
    Change, Column, DesignKind, Ending, Experiment, Host, Interval, LatencySummary, Level, Load,
    OperationHistograms, Phase, Plan, Profile, ReadingTable, Run, RunRecord, SECOND, Settable, SettingPath,
    Settings, Shape, Study, Treatment, Trial, Variation, WarmUp, WorkloadSpec,
};

use crate::random::Random;

mod product;

pub(crate) use product::block_size;

/// The behaviour of a simulated run, interval by interval.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    pub(crate) workload: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) shape: Shape,
    /// The rate in each interval.
    pub(crate) rates: Vec<f64>,
    /// Length of an interval, seconds.
    pub(crate) interval_s: f64,
    /// When each operation ended, seconds from the start of the measured time, and its duration. Empty to
    /// derive both from `rates` and `response_ms`.
    pub(crate) ends: Vec<(f64, f64)>,
    pub(crate) offered_per_s: f64,
    pub(crate) bytes: u64,
    pub(crate) response_ms: f64,
    pub(crate) lag_ms: f64,
    pub(crate) in_flight: f64,
    pub(crate) failed_share: f64,
    pub(crate) threads: u32,
    /// Shares of the time in which the threads ran, and waited for a CPU.
    pub(crate) generator: (f64, f64),
    pub(crate) facts: BTreeMap<String, Level>,
    /// The drain after it, as the engine records it.
    pub(crate) drain: Option<DrainFacts>,
    pub(crate) asked: BTreeMap<String, Level>,
    pub(crate) in_force: BTreeMap<String, Level>,
    pub(crate) settable: BTreeMap<String, Settable>,
    /// Metric, instance, and its value in each interval (the last one repeats).
    pub(crate) counters: Vec<(&'static str, &'static str, Vec<f64>)>,
    /// The steps of a request.
    pub(crate) steps: Option<RequestSteps>,
    pub(crate) ending: Ending,
}

impl Simulated {
    /// `users` of a direct read load on the device `vda`, which takes `device_ms` for each operation, one at
    /// a time. Each operation takes another `elsewhere_ms` without queueing.
    pub(crate) fn closed_disk(users: u32, device_ms: f64, elsewhere_ms: f64) -> Self {
        let (mut queue, mut rate_per_ms, mut at_device) = (0.0, 0.0, 0.0);
        for n in 1..=users {
            at_device = device_ms * (1.0 + queue);
            rate_per_ms = f64::from(n) / (at_device + elsewhere_ms);
            queue = rate_per_ms * at_device;
        }
        let rate = rate_per_ms * 1e3;
        let mut run = Simulated::of(Shape::closed(u64::from(users)), rate, at_device + elsewhere_ms);
        run.in_flight = f64::from(users);
        run.device(queue, at_device / 1e3, rate_per_ms * device_ms);
        run
    }

    /// Arrivals at `rate` per second at a device that takes `device_ms` for each.
    pub(crate) fn open_disk(rate: f64, device_ms: f64) -> Self {
        let busy = rate * device_ms / 1e3;
        let response_ms = device_ms / (1.0 - busy);
        let shape = Shape::Open { rate_per_s: Profile::Constant(rate), arrivals: model::Process::Poisson };
        let mut run = Simulated::of(shape, rate, response_ms);
        run.in_flight = rate * response_ms / 1e3;
        run.device(run.in_flight, response_ms / 1e3, busy);
        run
    }

    pub(crate) fn of(shape: Shape, rate: f64, response_ms: f64) -> Self {
        let facts = [
            ("cache", Level::Text("direct".into())),
            ("devices", Level::List(vec![Level::Text("vda".into())])),
            ("back_end", Level::Text("io_uring".into())),
        ];
        Simulated {
            workload: "disk",
            operation: "read",
            shape,
            rates: vec![rate; 20],
            interval_s: 1.0,
            ends: Vec::new(),
            offered_per_s: rate,
            bytes: 4096,
            response_ms,
            lag_ms: 0.01,
            in_flight: 1.0,
            failed_share: 0.0,
            threads: 1,
            generator: (0.2, 0.01),
            facts: facts.into_iter().map(|(name, level)| (name.to_string(), level)).collect(),
            drain: None,
            asked: BTreeMap::new(),
            in_force: BTreeMap::new(),
            settable: BTreeMap::new(),
            counters: vec![
                ("cpu.busy_share", "", vec![0.14]),
                ("cpu.steal_share", "", vec![0.0]),
                ("pressure.cpu_some_share", "", vec![0.02]),
                ("pressure.memory_some_share", "", vec![0.0]),
                ("memory.available_bytes", "", vec![2e10]),
            ],
            steps: None,
            ending: Ending::Completed,
        }
    }

    fn device(&mut self, queue: f64, transfer_s: f64, utilization: f64) {
        let bytes_per_s = self.rates[0] * self.bytes as f64;
        self.counters.extend([
            ("disk.queue_length", "vda", vec![queue]),
            ("disk.transfer_s", "vda", vec![transfer_s]),
            ("disk.utilization_share", "vda", vec![utilization]),
            ("disk.read_bytes_per_s", "vda", vec![bytes_per_s]),
            ("disk.write_bytes_per_s", "vda", vec![0.0]),
        ]);
    }

    /// `users` of a service that sleeps for 0.5 to 1.5 times `sleep_ms` per operation, with `slots`
    /// concurrent operations, and pauses during the given spans: operations that would end in a pause end
    /// with it. The record has intervals of `interval_s` over `seconds`.
    pub(crate) fn pausing(
        (users, slots): (u32, usize),
        sleep_ms: f64,
        still: &[(f64, f64)],
        interval_s: f64,
        seconds: f64,
    ) -> Self {
        let mut random = Random::new(17);
        let mut free = vec![0.0_f64; slots];
        let mut ready = vec![0.0_f64; users as usize];
        let mut ends = Vec::new();
        let earliest =
            |times: &[f64]| (0..times.len()).min_by(|a, b| times[*a].total_cmp(&times[*b])).unwrap();
        loop {
            let (user, slot) = (earliest(&ready), earliest(&free));
            let begin = ready[user].max(free[slot]);
            if begin >= seconds {
                break;
            }
            let end = begin + sleep_ms / 1e3 * (0.5 + random.unit());
            let held = still.iter().find(|(from, to)| end >= *from && end < *to);
            // Delayed operations end one after the other.
            let end = held.map_or(end, |(_, to)| to + 1e-3 * random.unit());
            ends.push((end, (end - ready[user]) * 1e3));
            (ready[user], free[slot]) = (end, end);
        }
        let mut run = Simulated::of(Shape::closed(u64::from(users)), 0.0, sleep_ms).http();
        run.in_flight = f64::from(users);
        run.interval_s = interval_s;
        run.rates = vec![0.0; (seconds / interval_s).round() as usize];
        for (end, _) in &ends {
            if let Some(rate) = run.rates.get_mut((end / interval_s) as usize) {
                *rate += 1.0 / interval_s;
            }
        }
        run.ends = ends;
        run
    }

    /// The same as requests to a service.
    pub(crate) fn http(mut self) -> Self {
        (self.workload, self.operation) = ("http", "get");
        self.facts.clear();
        self
    }

    /// Sets the values of a counter in all intervals.
    pub(crate) fn counter(mut self, metric: &'static str, instance: &'static str, values: &[f64]) -> Self {
        product::metric(metric);
        self.counters.retain(|(name, of, _)| (*name, *of) != (metric, instance));
        self.counters.push((metric, instance, values.to_vec()));
        self
    }

    /// Sets a fact.
    pub(crate) fn fact(mut self, name: &str, level: Level) -> Self {
        product::check_fact(self.workload, name, &level);
        self.facts.insert(name.into(), level);
        self
    }

    /// Adds the facts of a watched drain.
    pub(crate) fn drain(mut self, facts: &DrainFacts) -> Self {
        self.drain = Some(facts.clone());
        self
    }

    /// Multiplies every rate.
    pub(crate) fn times(mut self, factor: f64) -> Self {
        self.rates.iter_mut().for_each(|rate| *rate *= factor);
        self
    }

    /// Panics if the program could not record this in a trial.
    fn check(&self, trial: &Trial) {
        product::check_operation(self.workload, self.operation);
        for (name, level) in &self.facts {
            product::check_fact(self.workload, name, level);
        }
        let levels = self.settable.iter().flat_map(|(path, settable)| match settable {
            Settable::Yes { in_force, reduced, raised } => {
                let levels = [Some(in_force), reduced.as_ref(), raised.as_ref()];
                levels.into_iter().flatten().map(|level| (path, level)).collect()
            }
            Settable::No(_) => Vec::new(),
        });
        let changed = trial.treatment.changes().iter().map(|change| (&change.factor.0, &change.level));
        let set = self.asked.iter().chain(&self.in_force);
        for (path, level) in set.chain(levels).chain(changed) {
            product::check_level(self.workload, path, level);
        }
    }

    /// The record of the run.
    pub(crate) fn run(&self, trial: Trial) -> RunRecord {
        self.check(&trial);
        let count = self.rates.len();
        let begin_s = |at: usize| 1.0 + at as f64 * self.interval_s;
        let in_every = LatencySummary::of(&exponential(self.response_ms, 200));
        let within = |from: f64, to: f64| {
            let mut histogram = new_histogram();
            for (_, response_ms) in self.ends.iter().filter(|(end, _)| (from..to).contains(&(1.0 + end))) {
                histogram.record((response_ms * 1e6) as u64).unwrap();
            }
            histogram
        };
        let intervals: Vec<Interval> = self
            .rates
            .iter()
            .enumerate()
            .map(|(at, rate)| {
                let operations = rate * self.interval_s;
                let response = match self.ends.is_empty() {
                    true => in_every,
                    false => LatencySummary::of(&within(begin_s(at), begin_s(at + 1))),
                };
                Interval {
                    due: None,
                    begin_s: begin_s(at),
                    end_s: begin_s(at + 1),
                    phase: Phase::Measure,
                    load: self.shape.profile().at((at as f64 + 0.5) / count as f64),
                    operation: self.operation.into(),
                    offered: Some((self.offered_per_s * self.interval_s).max(operations).round() as u64),
                    issued: Some(operations.round() as u64),
                    completed: operations.round() as u64,
                    late: Some(0),
                    failed: (operations * self.failed_share).round() as u64,
                    bytes: (operations * self.bytes as f64) as u64,
                    concurrency: self.in_flight,
                    response,
                    service: response,
                }
            })
            .collect();
        let completed: u64 = intervals.iter().map(|interval| interval.completed).sum();
        let mut histograms = OperationHistograms::default();
        histograms.response = match self.ends.is_empty() {
            true => exponential(self.response_ms, completed),
            false => within(begin_s(0), begin_s(count)),
        };
        histograms.service = histograms.response.clone();
        histograms.lag.record_n((self.lag_ms * 1e6) as u64, completed.max(1)).unwrap();
        let column = |metric: &str, instance: &str| Column {
            metric: product::metric(metric).clone(),
            instance: instance.into(),
        };
        let every_interval = |values: &[f64]| (0..count).map(|at| values[at.min(values.len() - 1)]).collect();
        let wall_s = count as f64 * self.interval_s;
        let available_s = wall_s * f64::from(self.threads);
        RunRecord {
            run: Run {
                settable: self.settable.clone(),
                factor_resources: product::factor_resources(self.settable.keys()),
                origin: model::run::Origin::Driven,
                traits: product::workload(self.workload).traits.clone(),
                format: model::run::RUN_FORMAT.into(),
                trial,
                workload: self.workload.into(),
                load: Load {
                    end_early: false,
                    shape: Some(self.shape.clone()),
                    warm_up: WarmUp::For(SECOND),
                    warm_up_round: SECOND,
                    measure: Some((SECOND as f64 * wall_s) as u64),
                    interval: (SECOND as f64 * self.interval_s) as u64,
                    spin: None,
                },
                asked: self.asked.clone(),
                in_force: self.in_force.clone(),
                started_unix_ns: 0,
                phases: vec![model::PhaseSpan { phase: Phase::Measure, begin_s: 1.0, end_s: 1.0 + wall_s }],
                operations: vec![self.operation.into()],
                operations_in_turn: false,
                facts: {
                    let drain = self.drain.iter().flat_map(DrainFacts::to_facts);
                    self.facts.clone().into_iter().chain(drain).collect()
                },
                sources: Vec::new(),
                sampler: Default::default(),
                machines: Vec::new(),
                generator: model::run::GeneratorUse {
                    threads: self.threads,
                    cpu_s: self.generator.0 * available_s,
                    run_wait_s: self.generator.1 * available_s,
                    wall_s,
                    ..Default::default()
                },
                clock: Default::default(),
                errors: Vec::new(),
                doubts: Vec::new(),
                recorded: BTreeMap::new(),
                ending: self.ending.clone(),
            },
            intervals,
            histograms: BTreeMap::from([(self.operation.to_string(), histograms)]),
            readings: ReadingTable {
                columns: self.counters.iter().map(|(metric, of, _)| column(metric, of)).collect(),
                begin_s: (0..count).map(begin_s).collect(),
                end_s: (0..count).map(|at| begin_s(at + 1)).collect(),
                values: self.counters.iter().map(|(_, _, values)| every_interval(values)).collect(),
            },
            events: Vec::new(),
            steps: self.steps.clone(),
        }
    }
}

/// A histogram of `count` exponentially distributed times, at evenly spaced quantiles.
fn exponential(mean_ms: f64, count: u64) -> hdrhistogram::Histogram<u64> {
    const POINTS: u64 = 100;
    let mut histogram = new_histogram();
    for point in 0..POINTS {
        let quantile = (point as f64 + 0.5) / POINTS as f64;
        let share = count * (point + 1) / POINTS - count * point / POINTS;
        histogram.record_n((-(1.0 - quantile).ln() * mean_ms * 1e6) as u64, share).unwrap();
    }
    histogram
}

/// A factor with plain numbers as levels.
pub(crate) fn vary(factor: &str, baseline: Option<u64>, levels: &[u64]) -> Variation {
    Variation {
        factor: SettingPath(factor.into()),
        baseline: baseline.map(Level::Count),
        levels: levels.iter().copied().map(Level::Count).collect(),
        on: None,
        parameters: Default::default(),
        line: 0,
    }
}

/// An experiment with the workload of the simulated runs.
pub(crate) fn experiment(vary: Vec<Variation>, design: DesignKind, replicates: u32) -> Experiment {
    Experiment {
        machines: Default::default(),
        name: "simulated".into(),
        goals: Vec::new(),
        max_failures: model::experiment::MAX_FAILURES,
        watch: Vec::new(),
        sample_every: SECOND,
        replicates,
        seed: 42,
        prove: false,
        folder: Default::default(),
        target: None,
        workload: WorkloadSpec { kind: "disk".into(), settings: Settings::default() },
        load: Settings::default(),
        vary,
        design,
        gate: None,
        show: Vec::new(),
        published: Vec::new(),
        limit: Vec::new(),
        smallest: None,
        dependencies: Vec::new(),
    }
}

/// An experiment that searches for the limit.
pub(crate) fn search_for(settings: &[(&str, &str)], goals: &[&str]) -> Experiment {
    let mut experiment = experiment(Vec::new(), DesignKind::OneFactorAtATime, 1);
    experiment.load = Settings::defaults(model::load::LOAD_SETTINGS);
    let goals: Vec<String> = goals.iter().map(ToString::to_string).collect();
    experiment.load.set("limit", Level::List(goals.iter().cloned().map(Level::Text).collect()));
    for (name, text) in settings {
        let info = model::load::LOAD_SETTINGS.iter().find(|info| info.name == *name).unwrap();
        experiment.load.set(name, info.kind.parse(text).unwrap());
    }
    experiment.limit =
        goals.iter().map(|goal| model::limit::goal(goal, &["read", "get"], false).unwrap()).collect();
    experiment
}

/// A study without runs.
pub(crate) fn planned(experiment: Experiment) -> Study {
    let plan = Plan { format: "plimsoll.plan/1.0".into(), experiment, decisions: Vec::new(), enough: None };
    let host = Host { cpus: 2, ..Host::default() };
    Study { directory: "runs/simulated".into(), host, plan: Some(plan), ..Study::default() }
}

/// Executes an experiment; `system` simulates each trial.
pub(crate) fn carry_out(experiment: Experiment, mut system: impl FnMut(&Treatment) -> Simulated) -> Study {
    let design = crate::design(&experiment);
    let mut study = planned(experiment);
    while let Next::Trial(decision) = design.next(&study) {
        push(&mut study, &system(&decision.trial.treatment), decision.trial);
        assert!(study.runs.len() < 10_000, "the design does not end");
    }
    study
}

/// A study of one run of the baseline.
pub(crate) fn single(run: &Simulated) -> Study {
    let mut study = planned(experiment(Vec::new(), DesignKind::OneFactorAtATime, 1));
    push(&mut study, run, Trial { number: 1, treatment: Treatment::Baseline, replicate: 1 });
    study
}

fn push(study: &mut Study, run: &Simulated, trial: Trial) {
    if let Some(plan) = &mut study.plan {
        plan.experiment.workload.kind = run.workload.into();
    }
    study.runs.push(run.run(trial));
}

/// The numeric level of a factor in a treatment; `baseline` if the treatment does not change it.
pub(crate) fn level(treatment: &Treatment, factor: &str, baseline: f64) -> f64 {
    let change = treatment.changes().iter().find(|change: &&Change| change.factor.0 == factor);
    change.and_then(|change| change.level.as_number()).unwrap_or(baseline)
}

/// Machine noise over an experiment: AR(1) with coefficient 0.5 and a deviation of 5 %, a drift of 15 % over
/// `runs` runs, and a stall to 70 % in 5 % of the runs.
pub(crate) struct Noise {
    pub(crate) random: Random,
    pub(crate) runs: f64,
    done: f64,
    last: f64,
}

impl Noise {
    pub(crate) fn new(seed: u64, runs: usize) -> Self {
        let mut random = Random::new(seed);
        let last = random.normal();
        Noise { random, runs: runs as f64, done: 0.0, last }
    }

    /// The noise factor of the next run.
    pub(crate) fn next(&mut self) -> f64 {
        self.last = 0.5 * self.last + 0.75_f64.sqrt() * self.random.normal();
        let drift = 1.0 - 0.15 * self.done / self.runs;
        self.done += 1.0;
        let stall = if self.random.unit() < 0.05 { 0.7 } else { 1.0 };
        (1.0 + 0.05 * self.last) * drift * stall
    }
}
