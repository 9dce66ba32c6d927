//! What the launches of a command did.

use model::FindingKind;
use model::claim::{LaunchClaim, LaunchDifference, LaunchState};
use model::launch::Doing;
use model::result::{Operation, TrialResult};

use crate::costs::{amount, kind_name};
use crate::text::{cpus, percent, plural, statistic, time_ms, time_s};

/// Differences that are named: the others are in the JSON.
const DIFFERENCES_MAX: usize = 4;

/// What launches spent most of their time on.
pub(super) fn launch(kind: FindingKind, claim: &LaunchClaim) -> String {
    let LaunchClaim { command, cpu_share, share, .. } = claim;
    let (share, cpu) = (percent(*share), percent(*cpu_share));
    let disk = |doing: &str| {
        format!("The disk limited {command}: a launch {doing} {share} and ran on a CPU {cpu} of the time.")
    };
    match claim.state {
        LaunchState::OneThread => format!(
            "The CPU of one thread limited {command}: a launch ran on one CPU at a time, {cpu} of its time. A faster core helps, \
             more cores do not."
        ),
        LaunchState::AllCpus => format!(
            "The CPUs limited {command}: a launch kept {} busy, {share} of all CPUs.",
            cpus(*cpu_share)
        ),
        LaunchState::Ready if kind == FindingKind::Observation => format!(
            "Other processes kept {command} from running: a launch was ready to run and waited for a CPU \
            {share} of its time, and ran {cpu} of its time."
        ),
        LaunchState::Ready => format!(
            "The CPU limited {command}: a launch was ready to run and waited for a CPU {share} of its time, and ran {cpu} of its time."
        ),
        LaunchState::Waits(Doing::Flushes) => disk("waited for flushes"),
        LaunchState::Waits(Doing::Transfers) => disk("waited for reads and writes of files"),
        LaunchState::Waits(Doing::PageFaults) => disk("waited for pages to be read"),
        LaunchState::Waits(Doing::Network) => format!(
            "Another service limited {command}: a launch waited for the other end of a connection {share} of its time and ran \
            on a CPU {cpu} of the time."
        ),
        LaunchState::Waits(Doing::Lock) => format!(
            "A lock limited {command}: all threads of a launch waited for each other {share} of its time. They \
            ran on a CPU {cpu} of the time."
        ),
        LaunchState::Waits(Doing::Asleep) => format!(
            "{command} slept: a launch was asleep (timer) {share} of its time and ran on a CPU {cpu} of the time."
        ),
        LaunchState::Waits(Doing::Other | Doing::Running) => format!(
            "{command} waited: a launch was asleep {share} of its time, for an unknown reason, and ran on a CPU {cpu} of the time."
        ),
    }
}

/// The first launch compared with the later ones.
pub(super) fn first(
    [first_ms, later_ms]: [f64; 2],
    later: u64,
    differences: Option<&[LaunchDifference]>,
) -> String {
    let more = if first_ms >= later_ms { "more" } else { "less" };
    let why = differences.map_or(String::new(), |differences| match differences {
        [] => " The resource usage of the launches does not show why.".into(),
        some => {
            let each = some.iter().take(DIFFERENCES_MAX).map(|of| {
                let [first, later] = [of.before, of.after].map(|value| amount(of.kind, value));
                format!("{} {first} (later {later})", kind_name(of.kind))
            });
            format!(" The first launch used {more}: {}.", each.collect::<Vec<String>>().join("; "))
        }
    });
    format!(
        "The first launch took {}; the median of {} was {} ({}).{why}",
        time_ms(first_ms),
        plural(later as usize, "later launch").replace("launchs", "launches"),
        time_ms(later_ms),
        super::ratio(first_ms / later_ms)
    )
}

/// From which launch on the time changed.
pub(super) fn shifted(
    from_launch: u64,
    at_s: Option<f64>,
    [before_ms, after_ms]: [f64; 2],
    differences: Option<&[LaunchDifference]>,
) -> String {
    let at = at_s.map_or(String::new(), |at_s| format!(", after {}", time_s(at_s)));
    let why = differences.map_or(String::new(), |differences| match differences {
        [] => " The resource usage of the launches does not show why.".into(),
        some => {
            let each = some.iter().take(DIFFERENCES_MAX).map(|of| {
                let verb = if of.after < of.before { "fell" } else { "rose" };
                let [before, after] = [of.before, of.after].map(|value| amount(of.kind, value));
                format!("{} {verb} from {before} to {after}", kind_name(of.kind))
            });
            format!(" With it {}.", each.collect::<Vec<String>>().join("; "))
        }
    });
    format!(
        "Response times changed at launch {from_launch}{at}: the median was {} before it and {} from it on.{why}",
        time_ms(before_ms),
        time_ms(after_ms)
    )
}

/// The first launch of a command, and the median of those after it.
pub(super) fn launches(trial: &TrialResult) -> Option<String> {
    let mut named = trial.operations.iter().filter(|each| each.name != Operation::All && each.completed > 0);
    let first = named.next()?;
    Some(match named.next() {
        None if first.judged() == 1 => format!("One launch took {}.", statistic(&first.response_ms, "mean")),
        None => format!(
            "{} launches took {} in the median, {} at most.",
            first.completed,
            statistic(&first.response_ms, "p50"),
            statistic(&first.response_ms, "max"),
        ),
        Some(later) => format!(
            "The first launch took {}; {} later {} took {} in the median.",
            statistic(&first.response_ms, if first.judged() > 1 { "min" } else { "mean" }),
            later.completed,
            if later.completed == 1 { "launch" } else { "launches" },
            statistic(&later.response_ms, "p50")
        ),
    })
}
