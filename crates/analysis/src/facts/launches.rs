//! The launches of a command, one by one: their durations and their resource use according to the kernel.

use std::collections::BTreeMap;

use model::claim::LaunchDifference;
use model::cost::CostKind;
use model::launch::Doing;
use model::result::LaunchSummary;
use model::run::GeneratorRole;
use model::study::RunRecord;
use model::{Launch, Phase};

use crate::measured::Measured;
use crate::statistics::{mean, median, variance};

/// Number of samples that the share of a state requires.
pub(crate) const LOOKS_MIN: u64 = 10;
/// The smallest share of time ready to run that samples alone can show.
const READY_SHARE: f64 = 0.1;
/// Number of later launches in which a change of their times can be distinguished from chance.
const SERIES_MIN: usize = 13;
/// The smallest reported part of a time difference, as a share of the difference.
const TIME_SHARE: f64 = 0.1;
/// The smallest reported ratio of a count.
const TIMES: f64 = 1.5;

/// The launches of a trial with recorded resource use.
pub(crate) struct Launches<'a> {
    /// The program.
    pub(crate) command: &'a str,
    /// In order of launch, each with the time of its completion.
    all: Vec<(f64, Launch)>,
}

impl<'a> Launches<'a> {
    /// None for another workload, and for older records.
    pub(crate) fn of(measured: &Measured<'a>) -> Option<Launches<'a>> {
        let run = &measured.record.run;
        if !is_of_a_command(measured) {
            return None;
        }
        let driven = |at_s: f64| {
            let mut spans = run.phases.iter().filter(|span| span.phase != Phase::CoolDown);
            // The last launch completes when the phase ends.
            spans.any(|span| at_s >= span.begin_s - 1e-6 && at_s <= span.end_s + 1e-6)
        };
        let events = measured.record.events.iter().filter(|event| driven(event.at_s));
        let mut all: Vec<(f64, Launch)> =
            events.filter_map(|event| Some((event.at_s, Launch::of(event)?))).collect();
        all.sort_by_key(|(_, launch)| launch.usage.number);
        let command = measured.fact_text("program").unwrap_or("command");
        (!all.is_empty()).then_some(Launches { command, all })
    }

    /// The successful launches, each with the time of its completion.
    pub(crate) fn well(&self) -> impl Iterator<Item = (f64, &Launch)> {
        self.all.iter().filter(|(_, launch)| !launch.failed).map(|(at_s, launch)| (*at_s, launch))
    }

    /// The successful launches of an operation.
    pub(crate) fn of_operation(&self, operation: &str) -> Vec<&Launch> {
        self.well().map(|(_, launch)| launch).filter(|launch| launch.operation == operation).collect()
    }
}

/// Whether the workload launches a command repeatedly.
pub(crate) fn is_of_a_command(measured: &Measured) -> bool {
    let traits = &measured.record.run.traits;
    traits.generator == GeneratorRole::Starts && traits.operations_apart
}

/// The launches of several trials in numbers; none without a launch that went well.
pub(crate) fn summary<'a>(trials: impl Iterator<Item = &'a RunRecord>) -> Option<LaunchSummary> {
    let launches = model::launch::measured(trials);
    let times: Vec<f64> = launches.iter().map(|launch| launch.time as f64 / 1e6).collect();
    let mean_of = |kind| {
        let known: Vec<f64> = launches.iter().filter_map(|launch| amount(launch, kind)).collect();
        mean(&known).map(|seconds| seconds * 1e3)
    };
    let peaks = launches.iter().filter_map(|launch| launch.usage.used.get(&CostKind::PeakBytes).copied());
    Some(LaunchSummary {
        launches: launches.len() as u64,
        mean_ms: mean(&times)?,
        deviation_ms: variance(&times).map(f64::sqrt),
        median_ms: median(&times)?,
        min_ms: times.iter().copied().reduce(f64::min)?,
        max_ms: times.iter().copied().reduce(f64::max)?,
        user_ms: mean_of(CostKind::UserCpu),
        system_ms: mean_of(CostKind::SystemCpu),
        peak_bytes: peaks.max(),
    })
}

/// The mean resource use of several launches.
pub(crate) struct Spent {
    pub(crate) launches: u64,
    /// Mean duration, seconds.
    pub(crate) time_s: f64,
    /// Each known kind, per launch: seconds, bytes or counts.
    pub(crate) used: BTreeMap<CostKind, f64>,
    /// Number of samples.
    pub(crate) looks: u64,
    /// The share of the samples with each activity; none if there are too few.
    shares: Option<BTreeMap<Doing, f64>>,
    /// Mean number of threads that ran or were ready to run, in samples with at least one.
    pub(crate) running_threads: Option<f64>,
}

impl Spent {
    /// None without launches.
    pub(crate) fn of(launches: &[&Launch]) -> Option<Spent> {
        let times: Vec<f64> = launches.iter().map(|launch| launch.time as f64 / 1e9).collect();
        let time_s = mean(&times).filter(|time_s| *time_s > 0.0)?;
        let mut looks: BTreeMap<Doing, u64> = BTreeMap::new();
        for (doing, count) in launches.iter().flat_map(|launch| &launch.usage.looks) {
            let known = looks.entry(*doing).or_default();
            *known = known.saturating_add(*count);
        }
        let count = looks.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let share = |seen: &u64| *seen as f64 / count as f64;
        let shares =
            (count >= LOOKS_MIN).then(|| looks.iter().map(|(doing, seen)| (*doing, share(seen))).collect());
        let running = looks.get(&Doing::Running).copied().filter(|running| *running >= LOOKS_MIN);
        let threads = launches.iter().map(|launch| launch.usage.running_threads as f64).sum::<f64>();
        let mut used: BTreeMap<CostKind, f64> = BTreeMap::new();
        for kind in CostKind::ALL {
            let known: Vec<f64> = launches.iter().filter_map(|launch| amount(launch, kind)).collect();
            used.extend(mean(&known).map(|each| (kind, each)));
        }
        let mut spent = Spent {
            launches: launches.len() as u64,
            time_s,
            used,
            looks: count,
            shares,
            running_threads: running.map(|running| threads / running as f64),
        };
        for (kind, share) in spent.waits() {
            spent.used.insert(kind, share * time_s);
        }
        // If the time ready to run is unknown, it is estimated: the share of the samples with a running or
        // ready thread, minus the share of CPU time.
        let running = spent.shares.as_ref().map(|shares| shares.get(&Doing::Running).copied().unwrap_or(0.0));
        if let (Some(running), Some(ran)) = (running, spent.cpu_share())
            && running - ran >= READY_SHARE
        {
            spent.used.entry(CostKind::Ready).or_insert((running - ran) * time_s);
        }
        Some(spent)
    }

    /// The waits, as shares of the time.
    fn waits(&self) -> Vec<(CostKind, f64)> {
        let shares = self.shares.iter().flatten();
        shares.filter_map(|(doing, share)| Some((doing.cost()?, *share))).collect()
    }

    /// The longest wait, and its share of the time; none if unknown.
    pub(crate) fn most_waited(&self) -> Option<(Doing, f64)> {
        let waits = self.shares.iter().flatten().filter(|(doing, _)| **doing != Doing::Running);
        waits.max_by(|a, b| a.1.total_cmp(b.1)).map(|(doing, share)| (*doing, *share))
    }

    /// CPU time as a share of the time; none if unknown.
    pub(crate) fn cpu_share(&self) -> Option<f64> {
        let of = |kind| self.used.get(&kind).copied();
        Some((of(CostKind::UserCpu)? + of(CostKind::SystemCpu)?) / self.time_s)
    }

    /// Time ready to run as a share of the time.
    pub(crate) fn ready_share(&self) -> Option<f64> {
        self.used.get(&CostKind::Ready).map(|ready_s| ready_s / self.time_s)
    }
}

/// The use of one kind by a launch: seconds, bytes or counts.
fn amount(launch: &Launch, kind: CostKind) -> Option<f64> {
    let amount = *launch.usage.used.get(&kind)? as f64;
    Some(if kind.is_time() { amount / 1e9 } else { amount })
}

/// Why launches took longer or less time than others: the differences in the same direction, times first, the
/// largest difference first. None if nothing is known about either.
pub(crate) fn differences(before: &[&Launch], after: &[&Launch]) -> Option<Vec<LaunchDifference>> {
    const KINDS: [CostKind; 9] = [
        CostKind::UserCpu,
        CostKind::SystemCpu,
        CostKind::Ready,
        CostKind::ReadBytes,
        CostKind::WrittenBytes,
        CostKind::ReadCalls,
        CostKind::WriteCalls,
        CostKind::MajorFaults,
        CostKind::InvoluntarySwitches,
    ];
    let of = |launches: &[&Launch], value: &dyn Fn(&Launch) -> Option<f64>| {
        median(&launches.iter().filter_map(|launch| value(launch)).collect::<Vec<f64>>())
    };
    let time = |launch: &Launch| Some(launch.time as f64 / 1e9);
    let (before_s, after_s) = (of(before, &time)?, of(after, &time)?);
    let known: Vec<LaunchDifference> = KINDS
        .into_iter()
        .filter_map(|kind| {
            let value = |launch: &Launch| amount(launch, kind);
            Some(LaunchDifference { kind, before: of(before, &value)?, after: of(after, &value)? })
        })
        .collect();
    if known.is_empty() {
        return None;
    }
    let change_s = after_s - before_s;
    let explains = |of: &LaunchDifference| {
        let change = of.after - of.before;
        let (low, high) = (of.before.min(of.after), of.before.max(of.after));
        let is_large = match of.kind {
            kind if kind.is_time() => change.abs() >= TIME_SHARE * change_s.abs(),
            CostKind::ReadBytes | CostKind::WrittenBytes => high >= TIMES * low && high - low >= 65_536.0,
            CostKind::MajorFaults => high >= TIMES * low && high - low >= 1.0,
            _ => high >= TIMES * low && high - low >= 20.0,
        };
        is_large && (change > 0.0) == (change_s > 0.0)
    };
    let mut found: Vec<LaunchDifference> = known.into_iter().filter(explains).collect();
    // Reads of cached files explain less than those of the device.
    let size = |of: &LaunchDifference| if of.kind.is_time() { (of.after - of.before).abs() } else { 0.0 };
    found.sort_by(|a, b| size(b).total_cmp(&size(a)));
    Some(found)
}

/// Whether there are enough samples of what launches waited for.
pub(crate) fn are_seen(measured: &Measured) -> bool {
    let launches = Launches::of(measured);
    let looks = launches
        .iter()
        .flat_map(Launches::well)
        .map(|(_, launch)| launch.usage.looks.values().fold(0, |sum: u64, count| sum.saturating_add(*count)));
    looks.fold(0, |sum: u64, looks| sum.saturating_add(looks)) >= LOOKS_MIN
}

/// Whether enough launches were recorded individually to show a change of their times, which their rate would
/// not show better.
pub(crate) fn are_a_series(measured: &Measured) -> bool {
    Launches::of(measured).is_some_and(|launches| launches.well().count() > SERIES_MIN)
}

/// CPUs that the launches used on average over the measured time; none if unknown for one of them.
pub(crate) fn used_cpus(measured: &Measured) -> Option<f64> {
    let launches = Launches::of(measured)?;
    let cpu_s = |launch: &Launch| {
        let [user_s, system_s] = [CostKind::UserCpu, CostKind::SystemCpu].map(|kind| amount(launch, kind));
        Some(user_s? + system_s?).filter(|_| !launch.usage.goes_on)
    };
    let all: Option<Vec<f64>> = launches.all.iter().map(|(_, launch)| cpu_s(launch)).collect();
    Some(all?.iter().sum::<f64>() / measured.length_s()).filter(|cpus| cpus.is_finite())
}
