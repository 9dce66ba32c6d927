//! What a search varies: the load, or the level of one factor.

use crate::{Experiment, Level, SettingPath, quantity};

/// The loads of a search, or the levels of a resource.
///
/// Positions are positive numbers that grow with the strain on the system. The position of a load is the load: users,
/// or operations per second. That of a level is the largest level divided by it, so that half of a resource has twice
/// the position.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// A number of users.
    Users,
    /// An arrival rate.
    Rate,
    /// Levels of a factor.
    Levels {
        /// The factor.
        factor: SettingPath,
        /// Each level with its position, in the order of the positions: the largest level first.
        levels: Vec<(f64, Level)>,
    },
}

impl Axis {
    /// The levels of a varied factor, its baseline included. None if one of them is not a number from 0, or if they
    /// are fewer than two.
    pub(super) fn levels_of(experiment: &Experiment, factor: &SettingPath) -> Option<Axis> {
        let variation = experiment.vary.iter().find(|variation| variation.factor == *factor)?;
        let mut levels: Vec<(f64, Level)> = Vec::new();
        for level in variation.baseline.iter().chain(&variation.levels) {
            let number = number_of(level).filter(|number| *number >= 0.0 && number.is_finite())?;
            if levels.iter().all(|(known, _)| *known != number) {
                levels.push((number, level.clone()));
            }
        }
        levels.sort_by(|a, b| b.0.total_cmp(&a.0));
        let largest = levels.first()?.0;
        let smallest = levels.iter().map(|(number, _)| *number).rfind(|number| *number > 0.0)?;
        for (number, _) in &mut levels {
            // Nothing at all counts as half of the smallest level.
            *number = largest / if *number > 0.0 { *number } else { smallest / 2.0 };
        }
        (levels.len() >= 2).then(|| Axis::Levels { factor: factor.clone(), levels })
    }

    /// The setting that is varied.
    pub fn setting(&self) -> &str {
        match self {
            Axis::Users => "load.closed",
            Axis::Rate => "load.open",
            Axis::Levels { factor, .. } => &factor.0,
        }
    }

    /// Whether the level of a resource is searched for.
    pub fn is_resource(&self) -> bool {
        matches!(self, Axis::Levels { .. })
    }

    /// The level at a position.
    pub fn level(&self, position: f64) -> Level {
        match self {
            Axis::Users => Level::Count(position as u64),
            Axis::Rate => Level::Rate(position),
            Axis::Levels { levels, .. } => {
                let distance = |at: f64| (at.ln() - position.ln()).abs();
                let nearest = levels.iter().min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
                nearest.map_or(Level::Number(f64::NAN), |(_, level)| level.clone())
            }
        }
    }

    /// The position of a level; none for a level that is not of this axis.
    pub fn position(&self, level: &Level) -> Option<f64> {
        match self {
            Axis::Users | Axis::Rate => level.as_number(),
            Axis::Levels { levels, .. } => {
                levels.iter().find(|(_, known)| known == level).map(|(position, _)| *position)
            }
        }
    }

    /// The level at a position as a number: users, operations per second, or the unit of the factor.
    pub fn value(&self, position: f64) -> f64 {
        if self.is_resource() { number_of(&self.level(position)).unwrap_or(f64::NAN) } else { position }
    }

    /// A position as it is written: `32`, `2000/s`, `4GiB`.
    pub fn text(&self, position: f64) -> String {
        match self {
            Axis::Users => format!("{position}"),
            Axis::Rate => quantity::rate(position),
            Axis::Levels { .. } => self.level(position).to_string(),
        }
    }

    /// The levels of a resource in ascending order; none for loads.
    pub fn levels(&self) -> Vec<Level> {
        match self {
            Axis::Levels { levels, .. } => levels.iter().rev().map(|(_, level)| level.clone()).collect(),
            Axis::Users | Axis::Rate => Vec::new(),
        }
    }

    /// The first and the last position of levels.
    pub(super) fn ends(&self) -> Option<(f64, f64)> {
        match self {
            Axis::Levels { levels, .. } => Some((levels.first()?.0, levels.last()?.0)),
            Axis::Users | Axis::Rate => None,
        }
    }

    /// Whether there is nothing between two positions.
    pub fn are_neighbours(&self, lower: f64, upper: f64) -> bool {
        match self {
            Axis::Users => upper - lower <= 1.0,
            Axis::Rate => false,
            Axis::Levels { levels, .. } => levels.iter().all(|(at, _)| *at <= lower || *at >= upper),
        }
    }

    /// A position that can be set, above `base` and near `wanted`.
    pub fn above(&self, base: f64, wanted: f64) -> f64 {
        match self {
            Axis::Users => wanted.round().max(base + 1.0),
            Axis::Rate => five_digits(wanted),
            Axis::Levels { .. } => self.nearest(wanted, |at| at > base).unwrap_or(base),
        }
    }

    /// A position that can be set, below `base` and near `wanted`.
    pub fn below(&self, base: f64, wanted: f64) -> f64 {
        match self {
            Axis::Users => wanted.round().min(base - 1.0),
            Axis::Rate => five_digits(wanted),
            Axis::Levels { .. } => self.nearest(wanted, |at| at < base).unwrap_or(base),
        }
    }

    /// A position that can be set, between two that are not neighbours: near their geometric mean.
    pub fn middle(&self, lower: f64, upper: f64) -> f64 {
        let wanted = (lower * upper).sqrt();
        match self {
            Axis::Users => wanted.round().max(lower + 1.0).min(upper - 1.0),
            Axis::Rate => five_digits(wanted),
            Axis::Levels { .. } => self.nearest(wanted, |at| at > lower && at < upper).unwrap_or(upper),
        }
    }

    fn nearest(&self, wanted: f64, is_allowed: impl Fn(f64) -> bool) -> Option<f64> {
        let Axis::Levels { levels, .. } = self else { return None };
        let distance = |at: &f64| (at.ln() - wanted.ln()).abs();
        let allowed = levels.iter().map(|(at, _)| *at).filter(|at| is_allowed(*at));
        allowed.min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

/// The number of a level. Values of configuration files have no kind: a number, a size or a time.
pub(super) fn number_of(level: &Level) -> Option<f64> {
    let Level::Text(text) = level else { return level.as_number() };
    let size = || Some(quantity::parse_bytes(text).ok()? as f64);
    let time = || Some(quantity::parse_duration(text).ok()? as f64 / 1e9);
    text.parse::<f64>().ok().or_else(size).or_else(time)
}

/// A rate with five significant digits.
fn five_digits(rate: f64) -> f64 {
    let step = 10f64.powf(rate.abs().log10().floor() - 4.0);
    // Divided by a power of ten, so that the decimal notation is short.
    let inverse = (1.0 / step).round();
    if inverse >= 1.0 { (rate * inverse).round() / inverse } else { (rate / step).round() * step.round() }
}
