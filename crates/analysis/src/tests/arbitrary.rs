//! Tests that every record gives a document, which can be serialized and parsed.

use std::collections::BTreeMap;

use model::run::GeneratorUse;
use model::verdict::InconclusiveReason;
use model::{
    Change, Column, DesignKind, Due, Ending, Goal, Interval, LatencySummary, Level, MetricInfo, MetricKind,
    Missing, OperationHistograms, Phase, Profile, ReadingTable, RunRecord, SettingPath, Shape, SizeGoal,
    SourceState, SourceStatus, Study, Treatment, Trial, Unit,
};
use proptest::prelude::*;

use super::read::unclear;
use crate::random::Random;
use crate::simulate::{Simulated, experiment, planned, vary};
use crate::sizing::sizing;
use crate::{Side, compare, result};

const METRICS: [&str; 10] = [
    "cpu.busy_share",
    "cpu.steal_share",
    "pressure.memory_some_share",
    "pressure.io_some_share",
    "disk.queue_length",
    "disk.transfer_s",
    "disk.read_bytes_per_s",
    "disk.write_bytes_per_s",
    "process.busy_cpus",
    "memory.dirty_bytes",
];
const FACTS: [&str; 12] = [
    "cache",
    "devices",
    "extents.hole_bytes",
    "extents.unwritten_bytes",
    "file.bytes",
    "first_touch.mean_ms",
    "second_touch.mean_ms",
    "write_cache",
    "compressible",
    "back_end",
    "resident_share.before",
    "direct.supported",
];

/// Arbitrary values, from nothing to everything, mostly wrong.
struct Chaos(Random);

impl Chaos {
    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.0.below(items.len())].clone()
    }

    fn number(&mut self) -> f64 {
        let plain = self.0.unit() * 100.0;
        self.pick(&[
            0.0,
            1.0,
            plain,
            plain,
            plain,
            -3.0,
            1e-300,
            1e300,
            f64::NAN,
            f64::INFINITY,
            -f64::INFINITY,
        ])
    }

    fn count(&mut self) -> u64 {
        let plain = self.0.next_u64() % 2000;
        self.pick(&[0, 1, plain, plain, plain, u64::MAX])
    }

    fn level(&mut self) -> Level {
        let (number, count) = (self.number(), self.count());
        self.pick(&[
            Level::Number(number),
            Level::Rate(number),
            Level::Percent(number),
            Level::BytesPerSecond(number),
            Level::Bytes(count),
            Level::Count(count),
            Level::Time(count),
            Level::Flag(true),
            Level::Unlimited,
            Level::Text("direct".into()),
            Level::Text("page-cache".into()),
            Level::Text("system calls".into()),
            Level::List(vec![Level::Text("vda".into()), Level::Number(number)]),
        ])
    }

    fn levels(&mut self, names: &[&str]) -> BTreeMap<String, Level> {
        let mut levels = BTreeMap::new();
        for name in names {
            if self.0.unit() < 0.6 {
                levels.insert(name.to_string(), self.level());
            }
        }
        levels
    }

    fn summary(&mut self) -> LatencySummary {
        LatencySummary {
            min: self.number(),
            mean: self.number(),
            p50: 1.0,
            p99: self.number(),
            ..Default::default()
        }
    }

    fn treatment(&mut self) -> Treatment {
        let change = Change {
            factor: SettingPath(
                self.pick(&["workload.threads", "load.closed", "workload.block_size", "host.disk.io_limit"])
                    .into(),
            ),
            level: self.level(),
        };
        self.pick(&[
            Treatment::Baseline,
            Treatment::Baseline,
            Treatment::OneChange(change.clone()),
            Treatment::OneChange(Change { level: Level::Count(2), ..change.clone() }),
            Treatment::Combination(vec![change.clone(), change.clone()]),
            Treatment::Combination(Vec::new()),
            Treatment::Confirmation(vec![change]),
        ])
    }

    fn interval(&mut self, second: usize) -> Interval {
        let plain = second as f64;
        Interval {
            begin_s: self.pick(&[plain, plain, plain, plain, f64::NAN, -1e300]),
            end_s: self.pick(&[plain + 1.0, plain + 1.0, plain + 1.0, plain, f64::INFINITY]),
            phase: self.pick(&[Phase::Measure, Phase::Measure, Phase::WarmUp, Phase::CoolDown]),
            load: self.number(),
            operation: self.pick(&["read", "write", "all", ""]).into(),
            offered: Some(self.count()),
            issued: Some(self.count()),
            completed: self.count(),
            late: Some(self.count()),
            failed: self.count(),
            bytes: self.count(),
            concurrency: self.number(),
            response: self.summary(),
            service: self.summary(),
            due: (self.0.unit() < 0.5).then(|| Due {
                ended: self.count(),
                failed: self.count(),
                censored: self.count(),
                unsent: self.count(),
                held: self.count(),
                in_flight_s: self.number(),
            }),
        }
    }

    fn readings(&mut self, seconds: usize) -> ReadingTable {
        let mut table = ReadingTable {
            begin_s: (0..seconds).map(|second| second as f64).collect(),
            end_s: (0..seconds).map(|second| second as f64 + 1.0).collect(),
            ..Default::default()
        };
        for metric in METRICS {
            if self.0.unit() < 0.7 {
                let saturated_at = self.pick(&[0.0, 1.0, f64::NAN]);
                let info =
                    MetricInfo::new(metric, Unit::Share, MetricKind::Mean, "").saturated_at(saturated_at);
                table
                    .columns
                    .push(Column { metric: info, instance: self.pick(&["", "vda", "slapd"]).into() });
                // Sometimes a column is short, as in a truncated file.
                let length = seconds.saturating_sub(usize::from(self.0.unit() < 0.02));
                table.values.push((0..length).map(|_| self.number()).collect());
            }
        }
        table
    }

    fn shape(&mut self) -> Option<Shape> {
        let profile =
            self.pick(&[Profile::Constant(4.0), Profile::Ramp(1.0, 9.0), Profile::Steps(vec![1.0, 2.0])]);
        let think = self.pick(&[0, 0, 5_000_000]);
        let arrivals = model::Process::Constant;
        self.pick(&[
            None,
            Some(Shape::Closed { users: profile.clone(), think }),
            Some(Shape::Closed { users: profile.clone(), think: 0 }),
            Some(Shape::Open { rate_per_s: profile, arrivals }),
        ])
    }

    fn run(&mut self, number: u32) -> RunRecord {
        let treatment = self.treatment();
        let trial =
            Trial { number: self.pick(&[number, number, 1, u32::MAX]), treatment, replicate: number % 3 };
        let sound = Trial { number, treatment: Treatment::Baseline, replicate: 1 };
        let mut record = Simulated::closed_disk(1, 1.0, 0.0).run(sound);
        record.run.trial = trial;
        let seconds = self.pick(&[0, 1, 4, 12, 40]);
        record.run.workload = self.pick(&["disk", "disk", "copy", "command", "http"]).into();
        record.run.load.shape = self.shape();
        record.run.load.measure = self.pick(&[None, Some(0), Some(u64::MAX)]);
        record.run.facts = self.levels(&FACTS);
        record.run.asked =
            self.levels(&["host.cpus", "host.disk.io_limit", "workload.threads", "workload.fsync_every"]);
        record.run.in_force = self.levels(&["host.cpus", "host.disk.io_limit"]);
        record.run.generator = GeneratorUse {
            threads: self.pick(&[0, 1, 8, u32::MAX]),
            cpu_s: self.number(),
            run_wait_s: self.number(),
            wall_s: self.number(),
            ..GeneratorUse::default()
        };
        record.run.clock.drift_ppm = self.number();
        record.run.sources = vec![SourceStatus {
            source: "disk".into(),
            state: SourceState::Failing { samples: 3, why: "x".into() },
        }];
        record.run.ending = self.pick(&[
            Ending::Completed,
            Ending::Completed,
            Ending::Completed,
            Ending::Running,
            Ending::Interrupted,
            Ending::Failed("why".into()),
        ]);
        record.run.phases.iter_mut().for_each(|span| span.end_s = f64::NAN);
        record.intervals = (0..seconds).map(|second| self.interval(second)).collect();
        record.readings = self.readings(seconds);
        if self.0.unit() < 0.5 {
            record.histograms.clear();
        } else {
            record.histograms.insert("write".into(), OperationHistograms::default());
        }
        record
    }

    fn study(&mut self) -> Study {
        let axes = vec![vary("workload.threads", self.pick(&[None, Some(1)]), &[2, 4])];
        let mut plan = experiment(axes, self.pick(&[DesignKind::Grid, DesignKind::OneFactorAtATime]), 2);
        plan.goals = vec![Goal::parse("response.p99 < 1ms", &[]).unwrap()];
        let mut study = planned(plan);
        if self.0.unit() < 0.2 {
            study.plan = None;
        }
        if self.0.unit() < 0.2 {
            study.damage.push("trials/002: cut off".into());
        }
        let runs = self.0.below(7) as u32;
        study.runs = (1..=runs).map(|number| self.run(number)).collect();
        study
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn there_is_always_a_document_that_survives_its_file(seed in any::<u64>()) {
        let mut chaos = Chaos(Random::new(seed));
        let (study, other) = (chaos.study(), chaos.study());
        let side = |label, study| Side { label, study, select: None };
        for document in [result(&study), compare(&[side("A", &study), side("B", &other)])] {
            let text = serde_json::to_string(&document).unwrap();
            let read: model::ResultDocument = serde_json::from_str(&text).unwrap();
            // As text: what is absent is NaN, which equals nothing.
            prop_assert_eq!(text, serde_json::to_string(&read).unwrap());
        }
        let goal = SizeGoal::parse("300/s with response.p95 <= 1s", &[]).unwrap();
        for up_to in [None, Some(3.0)] {
            let sized = sizing(&study, &result(&study), &goal, up_to);
            prop_assert!(sized.answer.is_some() == sized.refusal.is_empty());
            let read: model::SizingDocument =
                serde_json::from_str(&serde_json::to_string(&sized).unwrap()).unwrap();
            prop_assert_eq!(sized, read);
        }
        if let Some(plan) = &study.plan {
            crate::design(&plan.experiment).next(&study);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_sweep_with_some_runs_damaged_is_sized_or_refused(seed in any::<u64>()) {
        let mut chaos = Chaos(Random::new(seed));
        let mut study = super::sizing::swept(2, |_, _| {});
        for _ in 0..=chaos.0.below(4) {
            let at = chaos.0.below(study.runs.len());
            let trial = study.runs[at].run.trial.clone();
            study.runs[at] = RunRecord { run: model::Run { trial, ..study.runs[at].run.clone() }, ..chaos.run(1) };
        }
        let goal = SizeGoal::parse("800/s", &[]).unwrap();
        let sized = sizing(&study, &result(&study), &goal, None);
        prop_assert!(sized.answer.is_some() == sized.refusal.is_empty());
        let read: model::SizingDocument = serde_json::from_str(&serde_json::to_string(&sized).unwrap()).unwrap();
        prop_assert_eq!(sized, read);
    }
}

#[test]
fn nothing_at_all_is_inconclusive() {
    let document = result(&Study::default());
    assert_eq!(unclear(&document), (&InconclusiveReason::NothingCompleted, &[Missing::CompletedTrial][..]));
    assert!(document.trials.is_empty() && document.comparison.is_empty() && document.goal.is_none());
}
