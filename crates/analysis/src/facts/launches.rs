//! The launches of a command, one by one: how long each took and what it used, by the kernel's own account.

use std::collections::BTreeMap;

use model::claim::LaunchDifference;
use model::cost::CostKind;
use model::launch::Doing;
use model::run::GeneratorRole;
use model::{Launch, Phase};

use crate::measured::Measured;
use crate::statistics::{mean, median};

/// Fewest looks for the share of a state.
pub(crate) const LOOKS_MIN: u64 = 10;
/// Smallest share of the time ready to run that looks alone show.
const READY_SHARE: f64 = 0.1;
/// Fewest later launches in which a shift of their times can be distinguished from chance.
const SERIES_MIN: usize = 13;
/// Smallest difference of a part of the time that is reported, as a share of the difference of the time.
const TIME_SHARE: f64 = 0.1;
/// Smallest ratio of a number of things that is reported.
const TIMES: f64 = 1.5;

/// The launches of a trial whose usage was recorded.
pub(crate) struct Launches<'a> {
    /// The program.
    pub(crate) command: &'a str,
    /// In the order in which they were launched, with when each was done.
    all: Vec<(f64, Launch)>,
}

impl<'a> Launches<'a> {
    /// None for another workload, and for a record of before they were kept.
    pub(crate) fn of(measured: &Measured<'a>) -> Option<Launches<'a>> {
        let run = &measured.record.run;
        if !is_of_a_command(measured) {
            return None;
        }
        let driven = |at_s: f64| {
            let mut spans = run.phases.iter().filter(|span| span.phase != Phase::CoolDown);
            // The last one is done when the phase ends.
            spans.any(|span| at_s >= span.begin_s - 1e-6 && at_s <= span.end_s + 1e-6)
        };
        let events = measured.record.events.iter().filter(|event| driven(event.at_s));
        let mut all: Vec<(f64, Launch)> =
            events.filter_map(|event| Some((event.at_s, Launch::of(event)?))).collect();
        all.sort_by_key(|(_, launch)| launch.usage.number);
        let command = measured.fact_text("program").unwrap_or("command");
        (!all.is_empty()).then_some(Launches { command, all })
    }

    /// Those that went well, with when each was done.
    pub(crate) fn well(&self) -> impl Iterator<Item = (f64, &Launch)> {
        self.all.iter().filter(|(_, launch)| !launch.failed).map(|(at_s, launch)| (*at_s, launch))
    }

    /// Those of an operation that went well.
    pub(crate) fn of_operation(&self, operation: &str) -> Vec<&Launch> {
        self.well().map(|(_, launch)| launch).filter(|launch| launch.operation == operation).collect()
    }
}

/// Whether a command is launched again and again.
pub(crate) fn is_of_a_command(measured: &Measured) -> bool {
    let traits = &measured.record.run.traits;
    traits.generator == GeneratorRole::Starts && traits.operations_apart
}

/// What some launches used on average.
pub(crate) struct Spent {
    pub(crate) launches: u64,
    /// Mean time of one, seconds.
    pub(crate) time_s: f64,
    /// Of each kind that is known, for one launch: seconds, bytes or numbers of things.
    pub(crate) used: BTreeMap<CostKind, f64>,
    /// How often they were looked at.
    pub(crate) looks: u64,
    /// The share of the looks at which they did something; none where they were too few.
    shares: Option<BTreeMap<Doing, f64>>,
    /// Threads that ran or were ready to run while one was.
    pub(crate) running_threads: Option<f64>,
}

impl Spent {
    /// None without a launch.
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
        // Where it is not known of a thread: seen to run or to be ready to run, without CPU time.
        let running = spent.shares.as_ref().map(|shares| shares.get(&Doing::Running).copied().unwrap_or(0.0));
        if let (Some(running), Some(ran)) = (running, spent.cpu_share())
            && running - ran >= READY_SHARE
        {
            spent.used.entry(CostKind::Ready).or_insert((running - ran) * time_s);
        }
        Some(spent)
    }

    /// What they waited for, as shares of the time.
    fn waits(&self) -> Vec<(CostKind, f64)> {
        let shares = self.shares.iter().flatten();
        shares.filter_map(|(doing, share)| Some((doing.cost()?, *share))).collect()
    }

    /// What they waited for most, and its share of the time; none where that is not known.
    pub(crate) fn most_waited(&self) -> Option<(Doing, f64)> {
        let waits = self.shares.iter().flatten().filter(|(doing, _)| **doing != Doing::Running);
        waits.max_by(|a, b| a.1.total_cmp(b.1)).map(|(doing, share)| (*doing, *share))
    }

    /// CPU time as a share of the time; none where it is not known.
    pub(crate) fn cpu_share(&self) -> Option<f64> {
        let of = |kind| self.used.get(&kind).copied();
        Some((of(CostKind::UserCpu)? + of(CostKind::SystemCpu)?) / self.time_s)
    }

    /// Time ready to run as a share of the time.
    pub(crate) fn ready_share(&self) -> Option<f64> {
        self.used.get(&CostKind::Ready).map(|ready_s| ready_s / self.time_s)
    }
}

/// What a launch used of a kind: seconds, bytes or numbers of things.
fn amount(launch: &Launch, kind: CostKind) -> Option<f64> {
    let amount = *launch.usage.used.get(&kind)? as f64;
    Some(if kind.is_time() { amount / 1e9 } else { amount })
}

/// What explains that launches took longer, or less time, than others: what differs in the same direction, times first, the
/// largest difference first. None where nothing is known of either.
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
    // Reads of files that are cached explain less than those of the device.
    let size = |of: &LaunchDifference| if of.kind.is_time() { (of.after - of.before).abs() } else { 0.0 };
    found.sort_by(|a, b| size(b).total_cmp(&size(a)));
    Some(found)
}

/// Whether enough is known of what launches waited for.
pub(crate) fn are_seen(measured: &Measured) -> bool {
    let launches = Launches::of(measured);
    let looks = launches
        .iter()
        .flat_map(Launches::well)
        .map(|(_, launch)| launch.usage.looks.values().fold(0, |sum: u64, count| sum.saturating_add(*count)));
    looks.fold(0, |sum: u64, looks| sum.saturating_add(looks)) >= LOOKS_MIN
}

/// Whether enough launches were kept one by one to see a change of their times, which their rate then shows no better.
pub(crate) fn are_a_series(measured: &Measured) -> bool {
    Launches::of(measured).is_some_and(|launches| launches.well().count() > SERIES_MIN)
}

/// CPUs that the launches used on average over the measured time; none where it is not known of one of them.
pub(crate) fn used_cpus(measured: &Measured) -> Option<f64> {
    let launches = Launches::of(measured)?;
    let cpu_s = |launch: &Launch| {
        let [user_s, system_s] = [CostKind::UserCpu, CostKind::SystemCpu].map(|kind| amount(launch, kind));
        Some(user_s? + system_s?).filter(|_| !launch.usage.goes_on)
    };
    let all: Option<Vec<f64>> = launches.all.iter().map(|(_, launch)| cpu_s(launch)).collect();
    Some(all?.iter().sum::<f64>() / measured.length_s()).filter(|cpus| cpus.is_finite())
}
