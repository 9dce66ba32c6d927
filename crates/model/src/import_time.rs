//! How long an import of so many entries takes: the question of `plimsoll size` for imports.

use serde::{Deserialize, Serialize};

use crate::{Estimate, quantity};

/// The format identifier of the document.
pub const IMPORT_TIME_FORMAT: &str = "plimsoll.import-time/1";

/// The entries to import, as the user wrote them: `7900000 entries`, `7.9M entries`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntriesGoal {
    /// As written.
    pub text: String,
    /// Entries.
    pub entries: f64,
}

impl EntriesGoal {
    /// None for a text that is not a number of entries.
    pub fn parse(text: &str) -> Option<EntriesGoal> {
        let text = text.trim();
        let number = text.strip_suffix("entries").or_else(|| text.strip_suffix("entry"))?.trim_end();
        let (digits, times) = match number.char_indices().last()? {
            (at, 'k') => (number.get(..at)?, 1e3),
            (at, 'M') => (number.get(..at)?, 1e6),
            (at, 'G') => (number.get(..at)?, 1e9),
            _ => (number, 1.0),
        };
        let entries = digits.trim_end().replace(',', "").parse::<f64>().ok()? * times;
        (entries >= 1.0 && entries.is_finite()).then(|| EntriesGoal { text: text.into(), entries })
    }

    /// The number of entries in words.
    pub fn in_words(&self) -> String {
        format!("{} entries", quantity::thousands(self.entries))
    }
}

/// The answer of `plimsoll size` for an import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportTimeDocument {
    /// [`IMPORT_TIME_FORMAT`].
    pub format: String,
    /// The run directory.
    pub run: String,
    /// The experiment's name.
    pub experiment: String,
    /// The entries to import.
    pub goal: EntriesGoal,
    /// Each configuration that was measured with enough numbers of entries, the baseline first.
    pub configurations: Vec<ImportTime>,
    /// Why there is no answer, and what to do; empty if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refusal: String,
}

/// The time in one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportTime {
    /// Its levels, without the number of entries; empty for the baseline.
    pub configuration: String,
    /// What was measured, in ascending order of entries.
    pub sizes: Vec<ImportSize>,
    /// Seconds that the import takes, with the 90 % interval.
    pub seconds: Estimate,
    /// The entries to import divided by the most that were measured.
    pub distance: f64,
    /// What each law predicts, in descending order of weight.
    pub laws: Vec<ImportLaw>,
    /// The largest measured size, predicted from the smaller ones. None with fewer than four sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOutSize>,
    /// Bytes of the database at so many entries, in proportion to the largest measured size; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<f64>,
    /// The memory of the host in bytes; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
}

/// A measured number of entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportSize {
    /// Entries.
    pub entries: f64,
    /// The median of the times, seconds.
    pub seconds: f64,
    /// The number of trials.
    pub trials: u32,
}

/// How a law describes the time of an import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportLaw {
    /// The law as a formula, with its parameters.
    pub formula: String,
    /// Seconds at the entries to import.
    pub seconds: f64,
    /// Its weight, from 0 to 1.
    pub weight: f64,
}

/// The largest measured size, predicted from the smaller ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutSize {
    /// Its entries.
    pub entries: f64,
    /// The prediction, with the 90 % interval.
    pub predicted_s: Estimate,
    /// What was measured.
    pub measured_s: f64,
    /// The prediction divided by the measured time, minus 1.
    pub error: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_entries_has_its_unit() {
        for (text, entries) in [
            ("7900000 entries", Some(7_900_000.0)),
            ("7.9M entries", Some(7_900_000.0)),
            ("7,900,000 entries", Some(7_900_000.0)),
            ("200k entries", Some(200_000.0)),
            ("1 entry", Some(1.0)),
            ("0 entries", None),
            ("7900000", None),
            ("2000/s", None),
            ("many entries", None),
            ("entries", None),
            ("", None),
        ] {
            assert_eq!(EntriesGoal::parse(text).map(|goal| goal.entries), entries, "{text}");
        }
    }
}
