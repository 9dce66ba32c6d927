//! What is known while a metadirectory is served: when runs are due, how they ended, and what `status`, the metrics and
//! the health say about it.

use std::collections::BTreeMap;
use std::time::Instant;

use metadir::config::Schedule;
use metadir::schedule::ScheduleState;
use metadir::store::{Gauges, StepRecord};
use monitor::{Family, Kind, Sample};
use serde_json::{Value, json};

/// A server that reports change after change delays a run by at most this many times of `quiet`.
const QUIET_TIMES_MAX: u32 = 12;

/// A change of a connected system that no run has imported.
#[derive(Clone, Debug)]
pub(super) struct PendingChange {
    /// What changed: agents, or that the process started.
    pub(super) why: Vec<String>,
    since: Instant,
    last: Instant,
    /// Whether a file is among the changed systems: it may be incomplete as long as it changes.
    has_file: bool,
}

/// A schedule with its runs.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) run: String,
    pub(super) schedule: Schedule,
    /// The agents whose changes begin the run.
    pub(super) watched: Vec<String>,
    pub(super) state: ScheduleState,
    /// When the schedule was first seen, seconds since 1970.
    pub(super) since_unix_s: i64,
    /// When it is due by the clock; none if only changes begin it.
    pub(super) due_unix_s: Option<i64>,
    pub(super) change: Option<PendingChange>,
    /// Whether the last run was interrupted, or its process killed.
    pub(super) is_unfinished: bool,
}

impl Planned {
    /// Notes a change. `must_be_quiet` is whether the system is a file.
    pub(super) fn changed(&mut self, why: &str, must_be_quiet: bool, now: Instant) {
        let change = self.change.get_or_insert_with(|| PendingChange {
            why: Vec::new(),
            since: now,
            last: now,
            has_file: false,
        });
        if !change.why.iter().any(|known| known == why) {
            change.why.push(why.into());
        }
        change.last = now;
        change.has_file |= must_be_quiet;
    }

    /// Since when the run is due, seconds since 1970, and why; none if it is not due.
    pub(super) fn due(&self, now_unix_s: i64, now: Instant) -> Option<(i64, String)> {
        let quiet = self.schedule.quiet;
        if let Some(change) = &self.change
            && change.has_file
            && now.duration_since(change.last) < quiet
        {
            // The file may be incomplete, also for a run that is due by the clock.
            return None;
        }
        if self.is_unfinished {
            let began = self.state.began_unix_s.unwrap_or(now_unix_s);
            return Some((began, "the last run did not end".into()));
        }
        if let Some(change) = &self.change {
            let ready = (change.last + quiet).min(change.since + quiet * QUIET_TIMES_MAX);
            let ready = if change.has_file { change.last + quiet } else { ready };
            if now >= ready {
                let late = i64::try_from(now.duration_since(ready).as_secs()).unwrap_or(0);
                return Some((now_unix_s - late, change.why.join(", ")));
            }
        }
        let due = self.due_unix_s.filter(|due| *due <= now_unix_s)?;
        let why = match now_unix_s - due {
            0..=60 => "it is time".into(),
            _ => format!("it was due at {}", time(due)),
        };
        Some((due, why))
    }

    /// When the run begins, in words.
    pub(super) fn when(&self, now_unix_s: i64) -> String {
        if self.is_unfinished || self.due_unix_s.is_some_and(|due| due <= now_unix_s) {
            return "now".into();
        }
        let mut parts = Vec::new();
        parts.extend(self.due_unix_s.map(time));
        if let Some(change) = &self.change {
            parts.push(format!("soon, because {}", change.why.join(", ")));
        } else if !self.watched.is_empty() {
            parts.push(format!("when {} changes", self.watched.join(" or ")));
        }
        parts.join(", or ")
    }
}

/// A moment, to the second.
pub(super) fn time(unix_s: i64) -> String {
    let shown =
        jiff::Timestamp::from_second(unix_s).map(|at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    shown.unwrap_or_else(|_| format!("{unix_s} s after 1970"))
}

/// Something that does not work, since when, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) since_unix_s: i64,
    pub(super) why: String,
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) began_unix_s: i64,
    pub(super) planned: Vec<Planned>,
    /// The run that is carried out.
    pub(super) running: Option<String>,
    /// The counts of each connector space after the last run.
    pub(super) gauges: Vec<(String, Gauges)>,
    /// Agents that are not watched at the moment.
    pub(super) lost: BTreeMap<String, Trouble>,
    /// Agents that are to be watched.
    pub(super) watched: Vec<String>,
    /// A configuration that cannot be used.
    pub(super) configuration: Option<Trouble>,
    /// Another process that has the store, while a run is due.
    pub(super) waiting: Option<Trouble>,
    runs: BTreeMap<(String, String), u64>,
    run_seconds: BTreeMap<String, f64>,
    steps: BTreeMap<(String, String), StepCounts>,
}

#[derive(Debug, Default)]
struct StepCounts {
    count: u64,
    seconds: f64,
    errors: u64,
    counters: BTreeMap<String, u64>,
    outcomes: BTreeMap<String, u64>,
}

impl State {
    pub(super) fn new(began_unix_s: i64) -> State {
        State { began_unix_s, ..State::default() }
    }

    /// The run that is to begin now, by its place, and why: the one that is due for the longest time, so that a run
    /// that is always due does not delay others for ever.
    pub(super) fn next(&self, now_unix_s: i64, now: Instant) -> Option<(usize, String)> {
        let due = self.planned.iter().enumerate().filter_map(|(at, planned)| {
            let (since, why) = planned.due(now_unix_s, now)?;
            Some((since, at, why))
        });
        due.min().map(|(_, at, why)| (at, why))
    }

    pub(super) fn count_step(&mut self, record: &StepRecord) {
        let step = self.steps.entry((record.agent.clone(), record.step.clone())).or_default();
        step.count += 1;
        step.seconds = record.seconds;
        *step.outcomes.entry(record.outcome.clone()).or_default() += 1;
        for (name, count) in &record.counters {
            *step.counters.entry(name.clone()).or_default() += count;
        }
        let errors = ["discovery-errors", "flow-failure", "ambiguous-join", "export-failure"];
        let of_step = record.counters.iter().filter(|(name, _)| errors.contains(&name.as_str()));
        step.errors = of_step.map(|(_, count)| *count).sum();
    }

    pub(super) fn count_run(&mut self, run: &str, result: &str, seconds: f64) {
        *self.runs.entry((run.into(), result.into())).or_default() += 1;
        self.run_seconds.insert(run.into(), seconds);
    }

    /// Whether all is well, and what is not, line by line.
    pub(super) fn health(&self) -> (bool, String) {
        let mut lines = Vec::new();
        for planned in &self.planned {
            if let Some(since) = planned.state.failing_unix_s {
                let why = planned.state.why.lines().next().unwrap_or_default();
                lines.push(format!("run {} fails since {}: {why}", planned.run, time(since)));
            }
        }
        for (agent, trouble) in &self.lost {
            lines.push(format!(
                "{agent} is not watched since {}: {}",
                time(trouble.since_unix_s),
                trouble.why
            ));
        }
        if let Some(trouble) = &self.configuration {
            let since = time(trouble.since_unix_s);
            lines.push(format!(
                "the configuration cannot be used since {since}; the last valid one is in force: {}",
                trouble.why
            ));
        }
        let is_well = lines.is_empty();
        if is_well {
            lines.push("ok".into());
        }
        for planned in self.planned.iter().filter(|planned| planned.state.result == "errors") {
            lines.push(format!(
                "run {} completed with errors of objects: plimsoll metadir errors lists them",
                planned.run
            ));
        }
        if let Some(trouble) = &self.waiting {
            lines.push(format!("a run waits since {}: {}", time(trouble.since_unix_s), trouble.why));
        }
        (is_well, lines.join("\n") + "\n")
    }

    /// What `status` shows.
    pub(super) fn published(&self, now_unix_s: i64) -> Value {
        let runs = self.planned.iter().map(|planned| {
            json!({
                "run": planned.run,
                "next_unix_s": planned.due_unix_s,
                "next": planned.when(now_unix_s),
                "began_unix_s": planned.state.began_unix_s,
                "result": planned.state.result,
                "why": planned.state.why,
                "success_unix_s": planned.state.success_unix_s,
                "failing_unix_s": planned.state.failing_unix_s,
            })
        });
        let (is_well, health) = self.health();
        json!({
            "process": std::process::id(),
            "since_unix_s": self.began_unix_s,
            "running": self.running,
            "healthy": is_well,
            "health": health.trim_end(),
            "runs": runs.collect::<Vec<_>>(),
        })
    }

    /// The metrics.
    pub(super) fn families(&self) -> Vec<Family> {
        let of_runs = |value: &dyn Fn(&Planned) -> Option<f64>| -> Vec<Sample> {
            let sample = |planned: &Planned| {
                Some(Sample { labels: vec![("run", planned.run.clone())], value: value(planned)? })
            };
            self.planned.iter().filter_map(sample).collect()
        };
        let of_agents = |value: &dyn Fn(&Gauges) -> u64| -> Vec<Sample> {
            let sample = |(agent, gauges): &(String, Gauges)| Sample {
                labels: vec![("agent", agent.clone())],
                value: value(gauges) as f64,
            };
            self.gauges.iter().map(sample).collect()
        };
        let of_steps = |value: &dyn Fn(&StepCounts) -> f64| -> Vec<Sample> {
            let sample = |((agent, step), counts): (&(String, String), &StepCounts)| Sample {
                labels: vec![("agent", agent.clone()), ("step", step.clone())],
                value: value(counts),
            };
            self.steps.iter().map(sample).collect()
        };
        let each = |of: &dyn Fn(&StepCounts) -> &BTreeMap<String, u64>, label: &'static str| -> Vec<Sample> {
            let mut samples = Vec::new();
            for ((agent, step), counts) in &self.steps {
                samples.extend(of(counts).iter().map(|(name, count)| Sample {
                    labels: vec![("agent", agent.clone()), ("step", step.clone()), (label, name.clone())],
                    value: *count as f64,
                }));
            }
            samples
        };
        let (is_well, _) = self.health();
        let one = |value: f64| vec![Sample { labels: Vec::new(), value }];
        let runs = self.runs.iter().map(|((run, result), count)| Sample {
            labels: vec![("run", run.clone()), ("result", result.clone())],
            value: *count as f64,
        });
        let seconds = self.run_seconds.iter();
        let seconds =
            seconds.map(|(run, value)| Sample { labels: vec![("run", run.clone())], value: *value });
        let watched = self.watched.iter().map(|agent| Sample {
            labels: vec![("agent", agent.clone())],
            value: f64::from(u8::from(!self.lost.contains_key(agent))),
        });
        let gauge = |name, help, samples| Family { name, help, kind: Kind::Gauge, samples };
        let counter = |name, help, samples| Family { name, help, kind: Kind::Counter, samples };
        let truth = |is: bool| f64::from(u8::from(is));
        vec![
            gauge("plimsoll_metadir_healthy", "Whether /health answers 200", one(truth(is_well))),
            gauge(
                "plimsoll_metadir_configuration_valid",
                "Whether the configuration file is valid",
                one(truth(self.configuration.is_none())),
            ),
            counter("plimsoll_metadir_runs", "Runs that ended: success, errors or stopped", runs.collect()),
            gauge("plimsoll_metadir_run_duration_seconds", "Duration of the last run", seconds.collect()),
            gauge(
                "plimsoll_metadir_run_active",
                "Whether the run is carried out",
                of_runs(&|planned| Some(truth(self.running.as_ref() == Some(&planned.run)))),
            ),
            gauge(
                "plimsoll_metadir_run_failing",
                "Whether the last run was stopped",
                of_runs(&|planned| Some(truth(planned.state.failing_unix_s.is_some()))),
            ),
            gauge(
                "plimsoll_metadir_run_success_timestamp_seconds",
                "Begin of the last run that was not stopped",
                of_runs(&|planned| planned.state.success_unix_s.map(|at| at as f64)),
            ),
            gauge(
                "plimsoll_metadir_run_due_timestamp_seconds",
                "When the run is due by the clock",
                of_runs(&|planned| planned.due_unix_s.map(|at| at as f64)),
            ),
            counter("plimsoll_metadir_steps", "Steps by outcome", each(&|step| &step.outcomes, "outcome")),
            gauge(
                "plimsoll_metadir_step_duration_seconds",
                "Duration of the last step",
                of_steps(&|step| step.seconds),
            ),
            gauge(
                "plimsoll_metadir_step_errors",
                "Objects with errors in the last step",
                of_steps(&|step| step.errors as f64),
            ),
            counter(
                "plimsoll_metadir_step_objects",
                "Objects by the counters of their steps",
                each(&|step| &step.counters, "counter"),
            ),
            gauge("plimsoll_metadir_objects", "Objects of the connector space", of_agents(&|of| of.objects)),
            gauge(
                "plimsoll_metadir_pending_imports",
                "Objects to synchronize",
                of_agents(&|of| of.pending_imports.iter().sum()),
            ),
            gauge(
                "plimsoll_metadir_pending_exports",
                "Objects to export",
                of_agents(&|of| of.pending_exports),
            ),
            gauge(
                "plimsoll_metadir_failures",
                "Objects whose last step failed",
                of_agents(&|of| of.failures),
            ),
            gauge(
                "plimsoll_metadir_watched",
                "Whether the system of the agent is watched",
                watched.collect(),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn planned(on_change: bool) -> Planned {
        Planned {
            run: "delta".into(),
            schedule: Schedule {
                run: 0,
                every: None,
                at: Vec::new(),
                days: Vec::new(),
                on_change: if on_change { vec![0] } else { Vec::new() },
                quiet: Duration::from_secs(5),
                span: 0..0,
            },
            watched: if on_change { vec!["staff".into()] } else { Vec::new() },
            state: ScheduleState::default(),
            since_unix_s: 0,
            due_unix_s: None,
            change: None,
            is_unfinished: false,
        }
    }

    #[test]
    fn a_file_must_be_quiet_and_a_server_delays_a_run_only_for_a_while() {
        let begin = Instant::now();
        for (is_file, last) in [(true, None), (false, Some(60))] {
            let mut planned = planned(true);
            let mut began = None;
            for second in 0..300 {
                let now = begin + Duration::from_secs(second);
                planned.changed("staff changed", is_file, now);
                if planned.due(0, now).is_some() {
                    began = Some(second);
                    break;
                }
            }
            assert_eq!(began, last, "file: {is_file}");
        }
        let mut planned = planned(true);
        planned.changed("staff changed", true, begin);
        // Also a run that is due by the clock waits for it.
        planned.due_unix_s = Some(50);
        assert_eq!(planned.due(100, begin + Duration::from_secs(4)), None);
        let due = planned.due(100, begin + Duration::from_secs(7));
        assert_eq!(due, Some((98, "staff changed".into())));
    }

    #[test]
    fn a_run_that_is_late_says_when_it_was_due() {
        let mut planned = planned(false);
        planned.due_unix_s = Some(1_795_572_000);
        let now = Instant::now();
        assert_eq!(planned.due(1_795_571_999, now), None);
        assert_eq!(planned.due(1_795_572_000, now), Some((1_795_572_000, "it is time".into())));
        let late = "it was due at 2026-11-25 02:00:00 UTC";
        assert_eq!(planned.due(1_795_584_000, now), Some((1_795_572_000, late.into())));
    }

    #[test]
    fn the_run_that_is_due_for_the_longest_time_begins() {
        let late = |run: &str, due| Planned { run: run.into(), due_unix_s: Some(due), ..planned(false) };
        let state = State { planned: vec![late("delta", 90), late("nightly", 70)], ..State::default() };
        let next = |now| state.next(now, Instant::now()).map(|(at, _)| at);
        assert_eq!((next(60), next(80), next(100)), (None, Some(1), Some(1)));
    }

    #[test]
    fn health_says_what_fails_since_when() {
        let mut state = State { planned: vec![planned(false)], ..State::default() };
        assert_eq!(state.health(), (true, "ok\n".into()));
        state.planned[0].state.failing_unix_s = Some(1_795_572_000);
        state.planned[0].state.why = "staff full-import: a threshold\nmore".into();
        let trouble = Trouble { since_unix_s: 1_795_572_000, why: "refused".into() };
        state.lost.insert("directory".into(), trouble);
        let (is_well, text) = state.health();
        assert!(!is_well);
        assert_eq!(
            text,
            "run delta fails since 2026-11-25 02:00:00 UTC: staff full-import: a threshold\n\
             directory is not watched since 2026-11-25 02:00:00 UTC: refused\n"
        );
    }
}
