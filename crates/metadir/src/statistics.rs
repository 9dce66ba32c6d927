//! What a step did, in the counters that operators of metadirectories know.

use std::collections::BTreeMap;

/// Counters of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics(BTreeMap<&'static str, u64>);

impl Statistics {
    /// Counts one more.
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// How many there were.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All that is not zero, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count))
    }

    /// Adds those of a part.
    pub fn add(&mut self, other: &Statistics) {
        for (name, count) in other.iter() {
            *self.0.entry(name).or_default() += count;
        }
    }
}
