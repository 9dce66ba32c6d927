//! A command that is launched repeatedly: how its launches spent their time, how the first compares with the
//! later ones, and from which launch on their times changed.

use model::claim::{LaunchClaim, LaunchState};
use model::launch::Doing;
use model::resource::Detail;
use model::result::{ResultDocument, TrialResult};
use model::{
    Claim, Detector, Estimate, Evidence, Finding, FindingKind, Launch, Phase, Resource, ResourceClass, Study,
    Unit, metrics,
};

use super::{Sign, gather};
use crate::facts::device::Device;
use crate::facts::launches::{Launches, Spent, differences, is_of_a_command};
use crate::facts::service::MOST;
use crate::measured::Measured;
use crate::statistics::{change_points, mann_whitney_p, mean, median};

/// The operation of the first launch, and that of the later ones.
const FIRST: &str = "first";
const LATER: &str = "later";
/// Number of later launches that a median requires.
const LATER_MIN: u64 = 2;
/// Ratio of CPU time to time up to which one thread ran at a time: both are read at slightly different
/// moments.
const ONE_THREAD: f64 = 1.15;
/// Share of the host's CPUs from which a command uses all of them.
const ALL_CPUS: f64 = 0.9;
/// Number of threads ready to run at the same time from which they wait for each other's CPU.
const SEVERAL: f64 = 1.5;
/// Limit of the values in a series of launches; longer ones are averaged before changes are detected.
const SERIES_MAX: usize = 240;
/// The smallest reported change of the time, as a share of the larger one.
const LEAST_CHANGE: f64 = 0.1;
/// The p-value limit of the rank test on both sides of a change. The change point is chosen for the largest
/// effect, so the limit is far below the usual one; it requires thirteen later launches.
const CHANCE: f64 = 0.002;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let host_cpus = f64::from(study.host.cpus);
    gather(Detector::Launches, study, document, |measured, trial| {
        if !is_of_a_command(measured) {
            return Vec::new();
        }
        let launches = Launches::of(measured);
        let spent = launches.as_ref().and_then(|launches| spent(launches, measured, trial, host_cpus));
        let shifted = launches.as_ref().and_then(|launches| shifted(launches, measured, trial));
        spent.into_iter().chain(first(launches.as_ref(), measured, trial)).chain(shifted).collect()
    })
}

/// The first launch, including the warm-up, compared with the median of the later ones.
fn first(launches: Option<&Launches>, measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let done = |operation: &'static str| {
        measured.record.intervals.iter().filter(move |interval| {
            let driven = matches!(interval.phase, Phase::WarmUp | Phase::Measure);
            driven && interval.operation == operation && interval.completed > 0
        })
    };
    let first = done(FIRST).next()?;
    let later = done(LATER).fold(0, |sum: u64, interval| sum.saturating_add(interval.completed));
    // The same median as in the table of the trial.
    let of_later = trial.operations.iter().find(|operation| operation.name.is(LATER))?;
    let later_ms = of_later.response_ms.p50;
    if later < LATER_MIN || !(later_ms > 0.0) {
        return None;
    }
    let first_ms = first.response.mean;
    let differ = (first_ms - later_ms).abs() >= LEAST_CHANGE * first_ms.max(later_ms);
    let differences = launches
        .filter(|_| differ)
        .and_then(|launches| differences(&launches.of_operation(FIRST), &launches.of_operation(LATER)));
    let metric = "response_ms.mean";
    let found =
        Evidence::new(&trial.trial, metric, Unit::Seconds, (first.begin_s, first.end_s), first_ms / 1e3)
            .other_times(Some(later_ms / 1e3));
    let claim = Claim::FirstLaunch { first_ms, later_ms, later, differences };
    Some(Sign::new(FindingKind::Observation, None, claim, first_ms / later_ms).with([found]))
}

/// How the later launches spent most of their time; the first launch if there is no other. The longest part
/// of a launch is its limit, if it is a resource.
fn spent(launches: &Launches, measured: &Measured, trial: &TrialResult, host_cpus: f64) -> Option<Sign> {
    let later = Spent::of(&launches.of_operation(LATER));
    let spent = later.or_else(|| Spent::of(&launches.of_operation(FIRST)))?;
    let cpu_share = spent.cpu_share()?;
    let (state, share) = states(&spent, host_cpus).into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if share < MOST {
        return None;
    }
    let process = |class| Resource::of_process(class, launches.command);
    let about = match state {
        LaunchState::OneThread => Some(process(ResourceClass::SingleThread)),
        LaunchState::AllCpus | LaunchState::Ready => Some(process(ResourceClass::Cpu)),
        LaunchState::Waits(Doing::Flushes) => Some(process(ResourceClass::Disk).with(Detail::Flushes)),
        LaunchState::Waits(Doing::Transfers) => Some(process(ResourceClass::Disk).with(Detail::Transfers)),
        LaunchState::Waits(Doing::PageFaults) => Some(process(ResourceClass::Disk).with(Detail::PageFaults)),
        LaunchState::Waits(Doing::Network) => Some(process(ResourceClass::Downstream)),
        LaunchState::Waits(Doing::Lock) => Some(process(ResourceClass::Lock)),
        LaunchState::Waits(Doing::Asleep | Doing::Other | Doing::Running) => None,
    };
    // If others prevented it from running, this says nothing about the command.
    let is_disturbed = state == LaunchState::Ready && are_used_by_others(measured, cpu_share, host_cpus);
    let kind = match about {
        Some(_) if !is_disturbed => FindingKind::Limits,
        _ => FindingKind::Observation,
    };
    let least = Estimate { value: 1.0, low: MOST, high: 1.0 };
    let note =
        |metric: &str, unit, value: f64| measured.evidence_in(trial, metric, launches.command, unit, value);
    let mut evidence = vec![note("launch.cpu_share", Unit::Share, cpu_share)];
    evidence.extend(spent.ready_share().map(|share| note("launch.ready_share", Unit::Share, share)));
    if let Some((doing, share)) = spent.most_waited() {
        evidence.push(note(&format!("launch.{}_share", doing.word()), Unit::Share, share));
    }
    if let Some(of_state) = evidence.iter_mut().find(|evidence| evidence.observed.value == share) {
        of_state.expected = Some(least);
    }
    if matches!(state, LaunchState::Waits(Doing::Flushes | Doing::Transfers | Doing::PageFaults)) {
        evidence.extend(Device::busiest(measured).iter().flat_map(|device| device.evidence(measured, trial)));
    }
    let claim = Claim::Launch(LaunchClaim {
        command: launches.command.into(),
        launches: spent.launches,
        mean_ms: spent.time_s * 1e3,
        cpu_share,
        state,
        share,
        looks: spent.looks,
    });
    Some(Sign::new(kind, about, claim, share).with(evidence))
}

/// Whether the CPUs were busy, mostly not with the command.
fn are_used_by_others(measured: &Measured, cpu_share: f64, host_cpus: f64) -> bool {
    let busy = measured.host_mean(metrics::CPU_BUSY_SHARE);
    busy.is_some_and(|busy| busy >= ALL_CPUS && cpu_share < 0.5 * busy * host_cpus)
}

/// The states of a launch with their shares of the time.
fn states(spent: &Spent, host_cpus: f64) -> Vec<(LaunchState, f64)> {
    let mut states = Vec::new();
    let cpu_share = spent.cpu_share().unwrap_or(0.0);
    match cpu_share {
        share if share <= ONE_THREAD => {
            // Several threads that want to run but together use only one CPU: they may use no more.
            let threads = spent.running_threads.filter(|threads| *threads >= SEVERAL);
            states.push(match threads {
                Some(threads) => (LaunchState::Ready, (threads - 1.0) / threads),
                None => (LaunchState::OneThread, share.min(1.0)),
            });
        }
        share if host_cpus > 1.0 && share >= ALL_CPUS * host_cpus => {
            states.push((LaunchState::AllCpus, (share / host_cpus).min(1.0)));
        }
        _ => {}
    }
    states.extend(spent.ready_share().map(|share| (LaunchState::Ready, share.min(1.0))));
    states.extend(spent.most_waited().map(|(doing, share)| (LaunchState::Waits(doing), share)));
    states
}

/// The launch from which on the times changed. The first launch is excluded, because it has a separate
/// operation.
fn shifted(launches: &Launches, measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let series: Vec<(f64, &Launch)> =
        launches.well().filter(|(_, launch)| launch.operation == LATER).collect();
    let times: Vec<f64> = series.iter().map(|(_, launch)| launch.time as f64 / 1e6).collect();
    let (begin, at, end) = shift(&times)?;
    let (before, after) = (&series[begin..at], &series[at..end]);
    let (before_ms, after_ms) = (median(&times[begin..at])?, median(&times[at..end])?);
    let only = |part: &[(f64, &'_ Launch)]| -> Vec<Launch> {
        part.iter().map(|(_, launch)| (*launch).clone()).collect()
    };
    let (of_before, of_after) = (only(before), only(after));
    let (at_s, first) = *after.first()?;
    let claim = Claim::LaunchesShifted {
        from_launch: first.usage.number,
        at_s: Some(at_s - measured.begin_s),
        before_ms,
        after_ms,
        differences: differences(
            &of_before.iter().collect::<Vec<&Launch>>(),
            &of_after.iter().collect::<Vec<&Launch>>(),
        ),
    };
    let span = |part: &[(f64, &'_ Launch)]| {
        let begin_s = part.first().map_or(0.0, |(at_s, launch)| at_s - launch.time as f64 / 1e9);
        (begin_s, part.last().map_or(begin_s, |(at_s, _)| *at_s))
    };
    let metric = "response_ms.p50";
    let note = |part: &[(f64, &'_ Launch)], ms: f64| {
        Evidence::new(&trial.trial, metric, Unit::Seconds, span(part), ms / 1e3)
    };
    let evidence = [note(before, before_ms), note(after, after_ms)];
    let strength = before_ms.max(after_ms) / before_ms.min(after_ms);
    Some(Sign::new(FindingKind::Observation, None, claim, strength).with(evidence))
}

/// The largest change in a series: the start of the stretch before it, the change, the end of the stretch
/// after it.
fn shift(times: &[f64]) -> Option<(usize, usize, usize)> {
    let each = times.len().div_ceil(SERIES_MAX).max(1);
    let averaged: Vec<f64> = times.chunks(each).filter_map(mean).collect();
    let changes = change_points(&averaged, LEAST_CHANGE, 0);
    let mut ends: Vec<usize> = changes.iter().map(|at| at * each).collect();
    ends.insert(0, 0);
    ends.push(times.len());
    let found = ends.windows(3).filter_map(|window| {
        let [begin, at, end] = *window else { return None };
        let (before, after) = (times.get(begin..at)?, times.get(at..end)?);
        let (a, b) = (median(before)?, median(after)?);
        let ratio = a.max(b) / a.min(b);
        let by_chance = mann_whitney_p(before, after)?;
        (ratio.is_finite() && by_chance <= CHANCE).then_some((ratio, (begin, at, end)))
    });
    found.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::cost::CostKind;
    use model::launch::Usage;
    use model::verdict::{InconclusiveReason, UnsaturatedReason};
    use model::{Level, Missing, Operation, Shape, Verdict};

    use super::*;
    use crate::random::Random;
    use crate::simulate::{Simulated, single};

    /// A launch of this duration without known resource use.
    fn launch(number: u64, ms: f64) -> Launch {
        Launch {
            operation: if number == 1 { FIRST } else { LATER }.into(),
            time: (ms * 1e6) as u64,
            failed: false,
            usage: Usage { number, ..Usage::default() },
        }
    }

    /// The result of a record with these launches, one after the other.
    fn result(launches: &[Launch]) -> ResultDocument {
        result_beside(launches, 0.14)
    }

    /// The same on a host with this CPU utilization.
    fn result_beside(launches: &[Launch], busy: f64) -> ResultDocument {
        let total_s = launches.iter().map(|launch| launch.time as f64 / 1e9).sum::<f64>();
        let mut run = Simulated::of(
            Shape::closed(1),
            launches.len() as f64 / total_s,
            1e3 * total_s / launches.len() as f64,
        );
        run.workload = "command";
        run.operation = LATER;
        run.facts.clear();
        run.rates = vec![run.rates[0]];
        run.interval_s = total_s;
        let run = run.counter(metrics::CPU_BUSY_SHARE, "", &[busy]);
        let mut study = single(&run.fact("program", Level::Text("report".into())));
        let record = &mut study.runs[0];
        let mut at_s = 1.0;
        for launch in launches {
            at_s += launch.time as f64 / 1e9;
            record.events.push(launch.event(at_s));
        }
        crate::result(&study)
    }

    fn shifts(document: &ResultDocument) -> Vec<&Claim> {
        let claims = document.findings.iter().map(|finding| &finding.claim);
        claims.filter(|claim| matches!(claim, Claim::LaunchesShifted { .. })).collect()
    }

    /// The published series of 30 launches whose "times improved greatly after the 14th run": 3.5 to 6.3 s,
    /// 4.8 s on average, which corresponds to 14 launches of 6.3 s and 16 of 3.5 s.
    #[test]
    fn the_published_shift_after_the_fourteenth_launch_is_found_and_dated() {
        const PUBLISHED: (f64, f64, f64) = (3.5, 4.8, 6.3);
        let (low, average, high) = PUBLISHED;
        assert!(((14.0 * high + 16.0 * low) / 30.0 - average).abs() < 0.05);
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let launches: Vec<Launch> = (1..=30)
                .map(|number| {
                    let level = if number <= 14 { high } else { low };
                    let mut launch = launch(number, 1e3 * level * (1.0 + 0.03 * random.normal()));
                    let cpu_s = if number <= 14 { 4.1 } else { 1.4 };
                    launch.usage.used =
                        BTreeMap::from([(CostKind::UserCpu, (1e9 * cpu_s) as u64), (CostKind::ReadBytes, 0)]);
                    launch
                })
                .collect();
            let document = result(&launches);
            let [Claim::LaunchesShifted { from_launch, at_s, before_ms, after_ms, differences }] =
                shifts(&document)[..]
            else {
                panic!("{:?}", document.findings)
            };
            assert_eq!(*from_launch, 15, "seed {seed}");
            // The end of the fifteenth launch.
            let ended: f64 = launches[..15].iter().map(|launch| launch.time as f64 / 1e9).sum();
            assert!((at_s.unwrap() - ended).abs() < 1e-6);
            assert!((before_ms / 1e3 - high).abs() < 0.2 && (after_ms / 1e3 - low).abs() < 0.2);
            let [of] = differences.as_deref().unwrap() else { panic!("{differences:?}") };
            assert_eq!(of.kind, CostKind::UserCpu);
            assert!((of.before - 4.1).abs() < 1e-6 && (of.after - 1.4).abs() < 1e-6, "{of:?}");
        }
    }

    /// At most 1 % false positives in series without a change, for any distribution of the times. Of 1000
    /// series of 29 launches with each distribution, 0, 9, 8 and 5 had one.
    #[test]
    fn launches_that_only_scatter_are_no_shift() {
        type Scatter = fn(&mut Random) -> f64;
        let scatters: [(&str, Scatter); 4] = [
            ("normal, 5 %", |random| 100.0 * (1.0 + 0.05 * random.normal())),
            ("normal, 20 %", |random| 100.0 * (1.0 + 0.2 * random.normal()).max(0.1)),
            ("lognormal", |random| 100.0 * (0.4 * random.normal()).exp()),
            ("exponential", |random| -100.0 * random.open_unit().ln()),
        ];
        let mut random = Random::new(411);
        let (mut found, mut of) = (0, 0);
        for (count, seeds) in [(9, 20), (29, 300), (60, 20)] {
            for (name, scatter) in scatters {
                let is_shifted = |_: &usize| {
                    let times: Vec<f64> = (0..count).map(|_| scatter(&mut random)).collect();
                    shift(&times).is_some()
                };
                let shifted = (0..seeds).filter(is_shifted).count();
                println!("{name}: {shifted} of {seeds} series of {count}");
                (found, of) = (found + shifted, of + seeds);
            }
        }
        assert!(100 * found <= of, "{found} of {of}");
    }

    #[test]
    fn a_shift_of_a_long_series_is_found_where_it_is() {
        let mut random = Random::new(7);
        let times: Vec<f64> =
            (0..3000).map(|at| if at < 2000 { 10.0 } else { 14.0 } * (1.0 + 0.1 * random.normal())).collect();
        let (_, at, _) = shift(&times).unwrap();
        assert!(at.abs_diff(2000) <= 3000usize.div_ceil(SERIES_MAX), "{at}");
    }

    /// Ten launches of 300 ms with this resource use each, on a host with this CPU utilization.
    fn busy(used: &[(CostKind, u64)], busy: f64) -> ResultDocument {
        let launches = (1..=10).map(|number| {
            let mut launch = launch(number, 300.0);
            launch.usage.used = used.iter().copied().collect();
            launch
        });
        result_beside(&launches.collect::<Vec<Launch>>(), busy)
    }

    /// Ten launches of 300 ms with this usage each.
    fn ten(used: &[(CostKind, u64)], looks: &[(Doing, u64)], running_threads: u64) -> ResultDocument {
        let launches = (1..=10).map(|number| {
            let mut launch = launch(number, 300.0);
            launch.usage.used = used.iter().copied().collect();
            launch.usage.looks = looks.iter().copied().collect();
            launch.usage.running_threads = running_threads;
            launch
        });
        result(&launches.collect::<Vec<Launch>>())
    }

    #[test]
    fn what_a_launch_spends_its_time_on_is_its_limit() {
        use CostKind::{Ready, SystemCpu, UserCpu};
        const MS: u64 = 1_000_000;
        let cpu = |user: u64, system: u64| [(UserCpu, user * MS), (SystemCpu, system * MS), (Ready, MS)];
        let waits = |doing| vec![(Doing::Running, 1), (doing, 14)];
        let limit = |document: &ResultDocument| document.verdict.resource().map(ToString::to_string);
        for (document, name) in [
            (ten(&cpu(280, 15), &[(Doing::Running, 15)], 15), "single thread of report"),
            // Of two CPUs.
            (ten(&cpu(500, 80), &[(Doing::Running, 15)], 30), "cpu of report"),
            // Two threads that share one CPU.
            (ten(&cpu(290, 5), &[(Doing::Running, 15)], 30), "cpu of report"),
            (ten(&[(UserCpu, 90 * MS), (SystemCpu, 0), (Ready, 200 * MS)], &[], 0), "cpu of report"),
            (ten(&cpu(2, 10), &waits(Doing::Flushes), 1), "disk of report (flushes)"),
            (ten(&cpu(2, 10), &waits(Doing::Transfers), 1), "disk of report (transfers)"),
            (ten(&cpu(2, 10), &waits(Doing::PageFaults), 1), "disk of report (page faults)"),
            (ten(&cpu(2, 10), &waits(Doing::Network), 1), "downstream of report"),
            (ten(&cpu(2, 10), &waits(Doing::Lock), 1), "lock of report"),
        ] {
            assert_eq!(limit(&document).as_deref(), Some(name));
            assert!(
                document
                    .findings
                    .iter()
                    .all(|finding| finding.detector != Detector::Launches || !finding.evidence.is_empty())
            );
        }
        // Others use the CPUs: not a limit of the command.
        let ready = [(UserCpu, 90 * MS), (SystemCpu, 0), (Ready, 200 * MS)];
        let disturbed = busy(&ready, 1.0);
        assert!(matches!(disturbed.verdict, Verdict::Inconclusive { .. }), "{:?}", disturbed.verdict);
        let is_seen = |finding: &&Finding| matches!(&finding.claim, Claim::Launch(of) if of.state == LaunchState::Ready);
        let found = disturbed.findings.iter().find(is_seen).unwrap();
        assert_eq!(found.kind, FindingKind::Observation);
        let asleep = ten(&cpu(1, 1), &waits(Doing::Asleep), 1);
        let Verdict::NotSaturated { carried: UnsaturatedReason::Waited { finding } } = asleep.verdict else {
            panic!("{:?}", asleep.verdict)
        };
        assert!(matches!(&asleep.findings[finding].claim, Claim::Launch(claim) if claim.command == "report"));
        // Too short for samples, and mostly not on a CPU.
        let unknown = ten(&cpu(60, 60), &[], 0);
        let Verdict::Inconclusive { reason: InconclusiveReason::NothingSaturated { .. }, lacks } =
            &unknown.verdict
        else {
            panic!("{:?}", unknown.verdict)
        };
        assert_eq!(*lacks, [Missing::Looks]);
    }

    #[test]
    fn what_one_launch_costs_is_in_the_costs_of_its_operation() {
        const MS: u64 = 1_000_000;
        let used = [(CostKind::UserCpu, 90 * MS), (CostKind::WrittenBytes, 4096), (CostKind::MajorFaults, 0)];
        let document = ten(&used, &[(Doing::Running, 1), (Doing::Flushes, 2)], 1);
        let [cost] = &document.configurations[0].costs[..] else { panic!("{:?}", document.configurations) };
        assert_eq!(cost.operation, Operation::Named(LATER.into()));
        assert!((cost.time_s.value - 0.3).abs() < 1e-9);
        let parts: Vec<(CostKind, f64)> =
            cost.parts.iter().map(|part| (part.kind, part.each.value)).collect();
        let [(CostKind::UserCpu, cpu), (CostKind::FlushWait, flush), (CostKind::WrittenBytes, bytes)] =
            parts[..]
        else {
            panic!("{parts:?}")
        };
        assert!((cpu - 0.09).abs() < 1e-9 && (flush - 0.2).abs() < 1e-9 && bytes == 4096.0, "{parts:?}");
    }

    #[test]
    fn the_first_launch_is_explained_by_what_it_used() {
        const MS: u64 = 1_000_000;
        let of = |ms: f64, cpu: u64, read: u64, faults: u64| {
            let mut launch = launch(1, ms);
            launch.usage.used = BTreeMap::from([
                (CostKind::UserCpu, 20 * MS),
                (CostKind::SystemCpu, cpu * MS),
                (CostKind::ReadBytes, read),
                (CostKind::MajorFaults, faults),
            ]);
            launch
        };
        let (first, later) = (of(800.0, 120, 48 << 20, 212), of(200.0, 20, 0, 0));
        let found = differences(&[&first], &[&later, &later]).unwrap();
        let kinds: Vec<CostKind> = found.iter().map(|of| of.kind).collect();
        assert_eq!(kinds, [CostKind::SystemCpu, CostKind::ReadBytes, CostKind::MajorFaults]);
        // The resource use is unknown.
        assert_eq!(differences(&[&launch(1, 800.0)], &[&launch(2, 200.0)]), None);
        // It is known, and does not differ.
        assert_eq!(differences(&[&of(800.0, 20, 0, 0)], &[&later]), Some(Vec::new()));
    }

    proptest::proptest! {
        #[test]
        fn whatever_launches_a_record_holds_there_is_a_document(
            launches in proptest::collection::vec(
                (proptest::num::u64::ANY, 0u64..40, proptest::bool::ANY, proptest::num::u64::ANY, -1.0f64..30.0),
                0..60,
            )
        ) {
            let mut run = Simulated::of(Shape::closed(1), 3.0, 300.0);
            (run.workload, run.operation) = ("command", LATER);
            run.facts.clear();
            let mut study = single(&run);
            for (time, number, is_later, amount, at_s) in launches {
                let usage = Usage {
                    number,
                    goes_on: amount % 2 == 0,
                    used: CostKind::ALL.into_iter().map(|kind| (kind, amount.rotate_left(kind as u32))).collect(),
                    looks: Doing::ALL.into_iter().map(|doing| (doing, amount >> (number % 64))).collect(),
                    running_threads: amount,
                };
                let operation = if is_later { LATER } else { FIRST };
                let launch = Launch { operation: operation.into(), time: time >> (number % 64), failed: number == 7, usage };
                study.runs[0].events.push(launch.event(at_s));
            }
            let document = crate::result(&study);
            let json = serde_json::to_string(&document).unwrap();
            proptest::prop_assert_eq!(serde_json::from_str::<ResultDocument>(&json).unwrap(), document);
        }
    }
}
