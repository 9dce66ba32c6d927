//! The rates of a neighbour: a second load beside the system under test, as it was stated and as it was achieved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Level;

/// The factor that starts a neighbour.
pub const FACTOR: &str = "host.neighbour";
/// Its level without a neighbour.
pub const NONE: &str = "none";

/// The facts of the factor, each after [`FACTOR`] and a dot.
pub mod facts {
    /// The id of its process.
    pub const PROCESS: &str = "process";
    /// The mean number of CPUs that its process used in the measured time.
    pub const CPUS: &str = "cpus";
    /// The disk of its scratch file, such as `vda`.
    pub const DEVICE: &str = "device";
    /// Why it ended before the trial did.
    pub const ERROR: &str = "error";
    /// The stated rate of a load, after the name of the load and a dot.
    pub const STATED: &str = "stated";
    /// The rate of a load in the measured time, likewise.
    pub const ACHIEVED: &str = "achieved";
}

/// Bytes of an operation of a disk load whose rate is stated in operations per second.
pub const BLOCK_BYTES: u64 = 8 << 10;

/// The share of a stated rate from which it counts as reached.
pub const REACHED_SHARE: f64 = 0.95;

/// The rate of one load of a neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeighbourRate {
    /// `cpu`, `disk read`, `disk write`, `memory`, `network`.
    pub load: String,
    /// As stated: CPUs, bytes per second, or operations per second.
    pub stated: Level,
    /// In the measured time, in the same unit; of several trials the median. None if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved: Option<Level>,
}

impl NeighbourRate {
    /// The achieved share of the stated rate; none if it was not measured.
    pub fn share(&self) -> Option<f64> {
        let stated = self.stated.as_number().filter(|stated| *stated > 0.0)?;
        Some(self.achieved.as_ref()?.as_number()? / stated)
    }

    /// The bytes per second that a disk load transferred.
    pub fn disk_bytes_per_s(&self) -> Option<f64> {
        match self.achieved.as_ref().filter(|_| self.load.starts_with("disk"))? {
            Level::BytesPerSecond(bytes) => Some(*bytes),
            Level::Rate(per_s) => Some(per_s * BLOCK_BYTES as f64),
            _ => None,
        }
    }

    /// Whether less than [`REACHED_SHARE`] of the stated rate was achieved.
    pub fn is_missed(&self) -> bool {
        self.share().is_some_and(|share| share < REACHED_SHARE)
    }

    /// The facts of the factor about this rate, without its path.
    pub fn to_facts(&self) -> Vec<(String, Level)> {
        let name = |of: &str| format!("{}.{of}", self.load);
        let achieved = self.achieved.clone().map(|level| (name(facts::ACHIEVED), level));
        [(name(facts::STATED), self.stated.clone())].into_iter().chain(achieved).collect()
    }

    /// The rates in the facts of a trial, in the order of their names.
    pub fn of_trial(of_trial: &BTreeMap<String, Level>) -> Vec<NeighbourRate> {
        let stated = of_trial.iter().filter_map(|(name, level)| {
            let load = name.strip_prefix(FACTOR)?.strip_prefix('.')?.strip_suffix(facts::STATED)?;
            Some((load.strip_suffix('.')?, level))
        });
        stated
            .map(|(load, stated)| NeighbourRate {
                load: load.into(),
                stated: stated.clone(),
                achieved: of_trial.get(&format!("{FACTOR}.{load}.{}", facts::ACHIEVED)).cloned(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_back_from_their_facts() {
        let rate = |load: &str, stated: Level, achieved: Option<Level>| NeighbourRate {
            load: load.into(),
            stated,
            achieved,
        };
        let rates = [
            rate("cpu", Level::Number(1.0), Some(Level::Number(0.5))),
            rate("disk read", Level::Rate(200.0), None),
            rate("disk write", Level::Rate(200.0), Some(Level::Rate(100.0))),
            rate("network", Level::BytesPerSecond(1e6), Some(Level::BytesPerSecond(0.96e6))),
        ];
        let mut of_trial: BTreeMap<String, Level> = rates
            .iter()
            .flat_map(NeighbourRate::to_facts)
            .map(|(name, level)| (format!("{FACTOR}.{name}"), level))
            .collect();
        of_trial.insert(format!("{FACTOR}.{}", facts::CPUS), Level::Number(0.5));
        of_trial.insert("other.stated".into(), Level::Number(0.5));
        assert_eq!(NeighbourRate::of_trial(&of_trial), rates);
        assert_eq!(rates.each_ref().map(NeighbourRate::share), [Some(0.5), None, Some(0.5), Some(0.96)]);
        assert_eq!(rates.each_ref().map(NeighbourRate::is_missed), [true, false, true, false]);
        assert_eq!(
            rates.each_ref().map(NeighbourRate::disk_bytes_per_s),
            [None, None, Some(819_200.0), None]
        );
    }
}
