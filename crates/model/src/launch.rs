//! One launch of a command: its duration and its resource use according to the kernel.
//!
//! A launch is often shorter than the sampling interval of the counters, so its resource use is read when it
//! is done. For an ended process, the kernel keeps the account until the process is reaped. A process that
//! continues is read together with its descendants. Samples of its threads at random times show what it waits
//! for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cost::CostKind;
use crate::quantity::three_figures;
use crate::study::RunRecord;
use crate::{Event, EventKind, Level, Nanos, Phase, Unit};

/// The activity of a launch at a moment. With several threads, the first in this order counts, because the
/// others wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// A thread ran or was ready to run.
    Running,
    /// Waiting for a flush of written data to the device.
    Flushes,
    /// Waiting for reading and writing files.
    Transfers,
    /// Waiting for pages of programs or mapped files to be read.
    PageFaults,
    /// Waiting for the other end of a connection.
    Network,
    /// Sleeping until a timeout.
    Asleep,
    /// Waiting for another thread.
    Lock,
    /// Waiting for anything else, such as a descendant that was not seen.
    Other,
}

impl Doing {
    /// All activities, in order.
    pub const ALL: [Doing; 8] = [
        Doing::Running,
        Doing::Flushes,
        Doing::Transfers,
        Doing::PageFaults,
        Doing::Network,
        Doing::Asleep,
        Doing::Lock,
        Doing::Other,
    ];

    /// Its name in a record.
    pub fn word(self) -> &'static str {
        match self {
            Doing::Running => "running",
            Doing::Flushes => "flushes",
            Doing::Transfers => "transfers",
            Doing::PageFaults => "page_faults",
            Doing::Network => "network",
            Doing::Asleep => "asleep",
            Doing::Lock => "lock",
            Doing::Other => "other",
        }
    }

    /// The part of an operation's time; none for running, whose CPU time is known exactly.
    pub fn cost(self) -> Option<CostKind> {
        Some(match self {
            Doing::Running => return None,
            Doing::Flushes => CostKind::FlushWait,
            Doing::Transfers => CostKind::Transfers,
            Doing::PageFaults => CostKind::PageFaults,
            Doing::Network => CostKind::Downstream,
            Doing::Asleep => CostKind::Asleep,
            Doing::Lock => CostKind::Lock,
            Doing::Other => CostKind::OtherWait,
        })
    }
}

/// The resource use of a launch until it was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The number of the launch in the trial, from 1.
    pub number: u64,
    /// Whether the command was still running then, for example a server that became ready.
    pub goes_on: bool,
    /// Nanoseconds, bytes and counts; unknown values are absent.
    pub used: BTreeMap<CostKind, u64>,
    /// The number of samples with each activity.
    pub looks: BTreeMap<Doing, u64>,
    /// The sum, over all samples, of the threads that ran or were ready to run.
    pub running_threads: u64,
}

/// A completed launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The name of its operation.
    pub operation: String,
    /// The time from its start to completion.
    pub time: Nanos,
    /// Whether it failed.
    pub failed: bool,
    /// Its resource use.
    pub usage: Usage,
}

/// The operation that the first launch of a trial is.
pub const FIRST: &str = "first";

/// The launches of some trials that went well and were done in the measured phase: those after the
/// first of each trial, or the first ones where there are no others.
pub fn measured<'a>(trials: impl IntoIterator<Item = &'a RunRecord>) -> Vec<Launch> {
    let mut launches: Vec<Launch> = Vec::new();
    for record in trials {
        let Some(span) = record.run.span(Phase::Measure) else { continue };
        // The last one is done when the phase ends.
        let is_measured = |at_s: f64| at_s >= span.begin_s - 1e-6 && at_s <= span.end_s + 1e-6;
        let events = record.events.iter().filter(|event| is_measured(event.at_s));
        launches.extend(events.filter_map(Launch::of).filter(|launch| !launch.failed));
    }
    if launches.iter().any(|launch| launch.operation != FIRST) {
        launches.retain(|launch| launch.operation != FIRST);
    }
    launches
}

/// The keys of an event's data.
const NUMBER: &str = "number";
const OPERATION: &str = "operation";
const TIME: &str = "time";
const FAILED: &str = "failed";
const GOES_ON: &str = "goes_on";
const RUNNING_THREADS: &str = "looks.running_threads";
const LOOKS: &str = "looks.";

impl Launch {
    /// The event for the record.
    pub fn event(&self, at_s: f64) -> Event {
        let Usage { number, goes_on, used, looks, running_threads } = &self.usage;
        let mut data = BTreeMap::from([
            (NUMBER.to_string(), Level::Count(*number)),
            (OPERATION.to_string(), Level::Text(self.operation.clone())),
            (TIME.to_string(), Level::Time(self.time)),
        ]);
        for (key, is_so) in [(FAILED, self.failed), (GOES_ON, *goes_on)] {
            if is_so {
                data.insert(key.to_string(), Level::Flag(true));
            }
        }
        for (kind, amount) in used {
            let level = match kind.unit() {
                Unit::Seconds => Level::Time(*amount),
                Unit::Bytes => Level::Bytes(*amount),
                _ => Level::Count(*amount),
            };
            data.insert(kind.word().to_string(), level);
        }
        for (doing, count) in looks {
            data.insert(format!("{LOOKS}{}", doing.word()), Level::Count(*count));
        }
        if *running_threads > 0 {
            data.insert(RUNNING_THREADS.to_string(), Level::Count(*running_threads));
        }
        let how = if self.failed { "failed after" } else { "took" };
        let text = format!("launch {number} {how} {} ms", three_figures(self.time as f64 / 1e6));
        Event { at_s, kind: EventKind::Launch, text, data }
    }

    /// Parses the event; none if it is not a launch, or is damaged.
    pub fn of(event: &Event) -> Option<Launch> {
        if event.kind != EventKind::Launch {
            return None;
        }
        let whole = |key: &str| match event.data.get(key)? {
            Level::Count(value) | Level::Time(value) | Level::Bytes(value) => Some(*value),
            _ => None,
        };
        let is_so = |key: &str| event.data.get(key) == Some(&Level::Flag(true));
        let Level::Text(operation) = event.data.get(OPERATION)? else { return None };
        let used = CostKind::ALL.iter().filter_map(|kind| Some((*kind, whole(kind.word())?)));
        let looks = Doing::ALL.iter();
        let looks = looks.filter_map(|doing| Some((*doing, whole(&format!("{LOOKS}{}", doing.word()))?)));
        Some(Launch {
            operation: operation.clone(),
            time: whole(TIME)?,
            failed: is_so(FAILED),
            usage: Usage {
                number: whole(NUMBER)?,
                goes_on: is_so(GOES_ON),
                used: used.collect(),
                looks: looks.collect(),
                running_threads: whole(RUNNING_THREADS).unwrap_or(0),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        Launch {
            operation: "later".into(),
            time: 93_600_000,
            failed: true,
            usage: Usage {
                number: 15,
                goes_on: true,
                used: CostKind::ALL.iter().zip(1..).map(|(kind, amount)| (*kind, amount)).collect(),
                looks: Doing::ALL.iter().zip(1..).map(|(doing, count)| (*doing, count)).collect(),
                running_threads: 3,
            },
        }
    }

    #[test]
    fn a_launch_is_read_back_as_it_was_written() {
        let event = launch().event(1.5);
        assert_eq!(event.text, "launch 15 failed after 93.6 ms");
        let json = serde_json::to_string(&event).unwrap();
        let read: Event = serde_json::from_str(&json).unwrap();
        assert_eq!(Launch::of(&read), Some(launch()));
        let usage = Usage { number: 1, ..Usage::default() };
        let bare = Launch { failed: false, usage, ..launch() };
        assert_eq!(Launch::of(&bare.event(0.0)), Some(bare));
    }

    #[test]
    fn another_event_and_a_damaged_one_are_no_launch() {
        let event = launch().event(1.5);
        assert_eq!(Launch::of(&Event { kind: EventKind::Workload, ..event.clone() }), None);
        for key in [NUMBER, OPERATION, TIME] {
            let mut damaged = event.clone();
            damaged.data.insert(key.into(), Level::Flag(true));
            assert_eq!(Launch::of(&damaged), None, "{key}");
        }
    }

    #[test]
    fn a_kind_has_the_same_name_everywhere() {
        for kind in CostKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
        for doing in Doing::ALL {
            assert_eq!(serde_json::to_value(doing).unwrap(), doing.word());
        }
    }
}
