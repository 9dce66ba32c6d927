//! The drain of a write-back cache: what it still writes after the load, and when that is over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Level;

/// Data in memory that does not count: file systems and other programs always have some.
const UNWRITTEN_SLACK_BYTES: f64 = 16.0 * 1024.0 * 1024.0;
/// Writes of a device that do not count, and their share of those before the load: a resting host writes its
/// logs.
const WRITTEN_SLACK_BYTES_PER_S: f64 = 4.0 * 1024.0 * 1024.0;
const WRITTEN_SLACK_SHARE: f64 = 0.2;

/// Whether data in memory and writes of a device are back at their levels before the load, in bytes and bytes
/// per second.
pub fn is_at_rest(unwritten: f64, unwritten_before: f64, written: f64, written_before: f64) -> bool {
    unwritten <= unwritten_before + UNWRITTEN_SLACK_BYTES && !is_writing(written, written_before)
}

/// Whether a device writes more than before the load, both in bytes per second. A rate that is not known may
/// be larger.
pub fn is_writing(written: f64, written_before: f64) -> bool {
    written.is_nan() || written > (1.0 + WRITTEN_SLACK_SHARE) * written_before + WRITTEN_SLACK_BYTES_PER_S
}

/// How watching a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainEnd {
    /// Nothing was left in memory, and the devices rested.
    Rest,
    /// It was not over within the time limit.
    TimeLimit,
    /// The user interrupted it.
    Interrupted,
    /// The counters of memory or of the device were not read, so nothing was watched.
    NoCounters,
}

impl DrainEnd {
    const ALL: [DrainEnd; 4] =
        [DrainEnd::Rest, DrainEnd::TimeLimit, DrainEnd::Interrupted, DrainEnd::NoCounters];

    /// The word in the record: the fact `drain`.
    pub fn word(self) -> &'static str {
        match self {
            DrainEnd::Rest => "rest",
            DrainEnd::TimeLimit => "time limit",
            DrainEnd::Interrupted => "interrupted",
            DrainEnd::NoCounters => "no counters",
        }
    }

    /// What happened, as an event of the trial.
    pub fn sentence(self) -> &'static str {
        match self {
            DrainEnd::Rest => "the drain is over",
            DrainEnd::TimeLimit => "the drain is not over within the time limit",
            DrainEnd::Interrupted => "watching the drain was interrupted",
            DrainEnd::NoCounters => "the drain cannot be watched without counters",
        }
    }

    fn of(fact: &Level) -> Option<DrainEnd> {
        let Level::Text(text) = fact else { return None };
        DrainEnd::ALL.into_iter().find(|end| end.word() == text)
    }
}

/// What a trial knows about its drain beside the counters: written by the engine, read by the analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct DrainFacts {
    /// How watching it ended.
    pub end: DrainEnd,
    /// The watched devices, as in the counters.
    pub devices: Vec<String>,
    /// The level before the load; none if the counters were not read.
    pub before: Option<DrainLevel>,
    /// What the page cache held of the files of the load; none if that is not known.
    pub held: Option<DrainHeld>,
}

/// The level before the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrainLevel {
    /// Dirty and writeback memory of the host.
    pub unwritten_bytes: f64,
    /// Bytes per second that the devices wrote.
    pub written_bytes_per_s: f64,
}

/// What the page cache held of the files of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainHeld {
    /// The most that was seen during the load.
    pub most_bytes: u64,
    /// What was left at the end of the load, its final flush included.
    pub left_bytes: u64,
}

const END: &str = "drain";
const DEVICES: &str = "drain.devices";
const UNWRITTEN_BEFORE: &str = "drain.before.unwritten_bytes";
const WRITTEN_BEFORE: &str = "drain.before.write_bytes_per_s";
const MOST: &str = "drain.unwritten_bytes_max";
const LEFT: &str = "drain.left_bytes";

impl DrainFacts {
    /// As facts of a trial.
    pub fn to_facts(&self) -> BTreeMap<String, Level> {
        let devices = self.devices.iter().map(|device| Level::Text(device.clone())).collect();
        let mut facts = vec![(END, Level::Text(self.end.word().into())), (DEVICES, Level::List(devices))];
        if let Some(before) = self.before {
            facts.push((UNWRITTEN_BEFORE, Level::Number(before.unwritten_bytes.max(0.0))));
            facts.push((WRITTEN_BEFORE, Level::Number(before.written_bytes_per_s.max(0.0))));
        }
        if let Some(held) = self.held {
            facts.push((MOST, Level::Bytes(held.most_bytes)));
            facts.push((LEFT, Level::Bytes(held.left_bytes)));
        }
        facts.into_iter().map(|(name, level)| (name.to_string(), level)).collect()
    }

    /// From the facts of a trial; none if no drain was watched.
    pub fn of(facts: &BTreeMap<String, Level>) -> Option<DrainFacts> {
        let number =
            |name: &str| facts.get(name).and_then(Level::as_number).filter(|number| number.is_finite());
        let bytes = |name: &str| match facts.get(name) {
            Some(Level::Bytes(bytes)) => Some(*bytes),
            _ => None,
        };
        let devices = match facts.get(DEVICES) {
            Some(Level::List(devices)) => devices.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let level =
            |(unwritten_bytes, written_bytes_per_s)| DrainLevel { unwritten_bytes, written_bytes_per_s };
        let held = |(most_bytes, left_bytes)| DrainHeld { most_bytes, left_bytes };
        Some(DrainFacts {
            end: DrainEnd::of(facts.get(END)?)?,
            devices,
            before: number(UNWRITTEN_BEFORE).zip(number(WRITTEN_BEFORE)).map(level),
            held: bytes(MOST).zip(bytes(LEFT)).map(held),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_back() {
        let level = DrainLevel { unwritten_bytes: 5e6, written_bytes_per_s: 0.0 };
        let held = DrainHeld { most_bytes: 9 << 30, left_bytes: 0 };
        for end in DrainEnd::ALL {
            for (before, held) in
                [(None, None), (Some(level), None), (None, Some(held)), (Some(level), Some(held))]
            {
                let facts = DrainFacts { end, devices: vec!["vda".into()], before, held };
                assert_eq!(DrainFacts::of(&facts.to_facts()), Some(facts));
            }
        }
        assert_eq!(DrainFacts::of(&BTreeMap::new()), None);
        let unknown = BTreeMap::from([(END.to_string(), Level::Text("another".into()))]);
        assert_eq!(DrainFacts::of(&unknown), None);
    }

    #[test]
    fn rest_is_the_level_before_the_load() {
        for (unwritten, before, written, written_before, expected) in [
            (0.0, 0.0, 0.0, 0.0, true),
            (15e6, 0.0, 4e6, 0.0, true),
            (20e6, 0.0, 0.0, 0.0, false),
            (0.0, 0.0, 5e6, 0.0, false),
            (1e9, 1e9, 60e6, 50e6, true),
            (1e9, 1e9, 70e6, 50e6, false),
            (0.0, 0.0, f64::NAN, 0.0, false),
        ] {
            let rests = is_at_rest(unwritten, before, written, written_before);
            assert_eq!(rests, expected, "{unwritten} {before} {written} {written_before}");
        }
    }
}
