//! One launch of a command: how long it took, and what it used, as the kernel accounts for it.
//!
//! A launch is often over before the counters are read once. What it used is therefore read when it is done: of one that has
//! ended from the account that the kernel keeps until it is reaped, of one that goes on from its process and those below it.
//! What it waited for is seen by looking at its threads at random moments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cost::CostKind;
use crate::quantity::three_figures;
use crate::{Event, EventKind, Level, Nanos, Unit};

/// What a launch did at a moment. Of several threads the first in this order counts: it is what the others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// A thread ran or was ready to run.
    Running,
    /// Waiting for written data to be safe on the device.
    Flushes,
    /// Waiting for reading and writing files.
    Transfers,
    /// Waiting for pages of programs or mapped files to be read.
    PageFaults,
    /// Waiting for the other end of a connection.
    Network,
    /// Asleep until a time comes.
    Asleep,
    /// Waiting for another thread.
    Lock,
    /// Waiting for anything else, such as a descendant that was not seen.
    Other,
}

impl Doing {
    /// All of them, in order.
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

    /// The part of the time of an operation that it is; none for running, whose CPU time is known exactly.
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

/// What a launch used up to the moment at which it was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Which launch of the trial, from 1.
    pub number: u64,
    /// Whether the command had not ended by then, as a server that is ready.
    pub goes_on: bool,
    /// Times in nanoseconds, bytes, and numbers of things; what is not known is absent.
    pub used: BTreeMap<CostKind, u64>,
    /// How often it was seen doing what.
    pub looks: BTreeMap<Doing, u64>,
    /// Threads that ran or were ready to run, added up over the looks.
    pub running_threads: u64,
}

/// A launch that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The operation that it was.
    pub operation: String,
    /// From its start until it was done.
    pub time: Nanos,
    /// Whether it failed.
    pub failed: bool,
    /// What it used.
    pub usage: Usage,
}

/// The keys of the data of an event.
const NUMBER: &str = "number";
const OPERATION: &str = "operation";
const TIME: &str = "time";
const FAILED: &str = "failed";
const GOES_ON: &str = "goes_on";
const RUNNING_THREADS: &str = "looks.running_threads";
const LOOKS: &str = "looks.";

impl Launch {
    /// As a line of the record.
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

    /// Reads it back; none of an event that is no launch, or a damaged one.
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
