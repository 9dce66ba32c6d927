//! How long a copy of so many bytes takes: the other question of `plimsoll size`.

use serde::{Deserialize, Serialize};

use crate::{CopyResult, Estimate, quantity};

/// The format identifier of the document.
pub const COPY_TIME_FORMAT: &str = "plimsoll.copy-time/1";

/// The bytes to copy, as the user wrote them: `10TB`, `500GiB`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BytesGoal {
    /// As written.
    pub text: String,
    /// Bytes.
    pub bytes: f64,
}

impl BytesGoal {
    /// None for a text that is not a size.
    pub fn parse(text: &str) -> Option<BytesGoal> {
        let text = text.trim();
        // A number without a unit could be a rate as well.
        let has_unit = text.ends_with(|last: char| last.is_alphabetic());
        let bytes = quantity::parse_bytes(text).ok().filter(|bytes| *bytes > 0 && has_unit)?;
        Some(BytesGoal { text: text.into(), bytes: bytes as f64 })
    }
}

/// The answer of `plimsoll size` for a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyTimeDocument {
    /// [`COPY_TIME_FORMAT`].
    pub format: String,
    /// The run directory.
    pub run: String,
    /// The experiment's name.
    pub experiment: String,
    /// The bytes to copy.
    pub goal: BytesGoal,
    /// Each configuration with a completed copy, the baseline first.
    pub configurations: Vec<CopyTime>,
    /// Why there is no answer, and what to do; empty if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refusal: String,
}

/// The time in one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyTime {
    /// Its label in the experiment.
    pub configuration: String,
    /// What it is based on: the trial with the median time.
    pub based_on: CopyResult,
    /// The number of trials.
    pub trials: u32,
    /// Seconds until the last byte is accepted, with the 95 % interval: between trials, if there are at least
    /// three, otherwise of the noise within them. Its ends are the value itself where neither is known.
    pub seconds: Estimate,
    /// Whether more bytes are required than were copied.
    pub extrapolated: bool,
    /// Assumptions.
    pub assumptions: Vec<CopyNote>,
    /// Warnings that limit the answer.
    pub warnings: Vec<CopyNote>,
}

/// What the time of a copy rests on, or what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum CopyNote {
    /// The rate past the cache stays the same beyond what was copied.
    RateHolds {
        /// The rate.
        past_bytes_per_s: f64,
        /// What was copied.
        copied_bytes: f64,
    },
    /// The cache is empty at the start.
    CacheEmpty,
    /// The rate fell, and the counters do not show a cache.
    CauseNotShown,
    /// The rate did not fall: a cache that is larger than what was copied cannot be excluded.
    LargerCache {
        /// What was copied.
        copied_bytes: f64,
    },
    /// A part of the copy was still in the page cache at its end, and drained at this rate.
    DrainRate {
        /// The rate.
        bytes_per_s: f64,
        /// The time of all bytes at this rate.
        seconds: f64,
    },
    /// Too few trials to show how much copies differ.
    FewTrials {
        /// How many there are.
        trials: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_a_unit_of_bytes() {
        for (text, bytes) in [
            ("10TB", Some(10e12)),
            (" 500GiB ", Some(500.0 * 1073741824.0)),
            ("1.5 GB", Some(1.5e9)),
            ("64KiB", Some(65536.0)),
            ("0B", None),
            ("2000", None),
            ("2000/s", None),
            ("10TB/s", None),
            ("2000/s with response.p95 <= 1s", None),
            ("much", None),
            ("", None),
        ] {
            assert_eq!(BytesGoal::parse(text).map(|goal| goal.bytes), bytes, "{text}");
        }
    }
}
