//! The result of a step in the counters that metadirectory operators know.

use std::collections::BTreeMap;

/// Outcomes of steps that were completed with errors or warnings.
pub const COMPLAINTS: [&str; 4] =
    ["completed-discovery-errors", "completed-sync-errors", "completed-export-errors", "completed-warnings"];

/// Counters of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics(BTreeMap<&'static str, u64>);

impl Statistics {
    /// Increments a counter.
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Increases a counter.
    pub fn count_many(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// The value of a counter.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All counters that are not zero, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count))
    }

    /// Adds the counters of a part of the step.
    pub fn add(&mut self, other: &Statistics) {
        for (name, count) in other.iter() {
            *self.0.entry(name).or_default() += count;
        }
    }
}
