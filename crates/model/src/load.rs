//! The load: closed (a number of virtual users) or open (an arrival rate); constant, ramped or in steps.

use serde::{Deserialize, Serialize};

use crate::problem::Problems;
use crate::setting::{Key, SettingInfo, Settings};
use crate::{Level, Nanos, SECOND, quantity};

crate::settings! {
    /// The settings of the `[load]` table.
    pub static LOAD_SETTINGS;

    pub static CLOSED: Key<Option<u64>> = Key::count(
        "closed", 1..=1_000_000, "",
        "Closed loop: number of virtual users. Each issues its next operation when the last one is complete.",
    );

    pub static OPEN: Key<Option<f64>> = Key::rate(
        "open", "",
        "Open loop: arrival rate of the operations, independent of their completion. Response time counts from the intended start.",
    );

    pub static ARRIVALS: Key<Process> = Key::choice(
        "arrivals",
        "Distribution of the arrivals of an open loop: evenly spaced, or random (Poisson), like those of independent users.",
    );

    pub static RAMP: Key<Option<String>> = Key::text(
        "ramp", "",
        "Increase the load linearly over the measured time: \"1..64\" users (closed) or \"100/s..5000/s\" (open).",
    );

    pub static STEPS: Key<Vec<String>> = Key::texts(
        "steps",
        "Keep each of these loads for an equal part of the measured time: \"1,2,4,8\" users or \"100/s,200/s\".",
    );

    pub static THINK: Key<Option<Nanos>> = Key::time(
        "think", "",
        "Closed loop: think time of each virtual user between two operations. The users begin spread over it.",
    );

    pub static WARM_UP: Key<Option<Nanos>> = Key::time_or(
        "warm_up", "auto", "auto",
        "Time under load before the measurement: a duration, or \"auto\" until throughput is steady over five rounds. After 25 rounds the run is marked unsteady.",
    );

    pub static WARM_UP_ROUND: Key<Nanos> = Key::time(
        "warm_up_round", "1s",
        "Duration of one round of the automatic warm-up, 1s to 10m. SNIA's test specification for solid state storage uses 60s.",
    );

    pub static MEASURE: Key<Option<Nanos>> = Key::time_or(
        "measure", "until-done", "30s",
        "Duration of the measurement, or \"until-done\" for work that ends by itself.",
    );

    pub static INTERVAL: Key<Option<Nanos>> = Key::time(
        "interval", "",
        "Duration of one recorded interval, 50ms to 60s. Default: 1/20 of the measured time, at most 1s; 200ms with measure = \"until-done\".",
    );

    pub static LIMIT: Key<Vec<String>> = Key::texts(
        "limit",
        "Search for the largest load that meets these goals, such as \"response.p95 <= 1s\": over the rate with `open`, otherwise over the number of users. `closed` and `open` are only the first guess.",
    );

    pub static LIMIT_MIN: Key<Option<String>> = Key::text(
        "limit_min", "",
        "Smallest load of the search: users, or a rate such as \"10/s\". Default: 1 user, or 1/1000 of `open`.",
    );

    pub static LIMIT_MAX: Key<Option<String>> = Key::text(
        "limit_max", "",
        "Largest load of the search: users, or a rate such as \"5000/s\". Default: 1024 users, or 1000 times `open`.",
    );

    pub static LIMIT_WIDTH: Key<f64> = Key::percent(
        "limit_width", "3%",
        "Requested width of the answer: the difference between the smallest load that misses the goal and the largest that meets it, as a share of the former. 0.5% to 50%.",
    );

    pub static END_EARLY: Key<bool> = Key::flag(
        "end_early", "false",
        "End a trial before its time when every operation fails from the start, or when a goal can no longer be met. Not in an experiment that compares configurations.",
    );

    pub static SPIN: Key<Option<bool>> = Key::flag(
        "spin", "",
        "Busy-wait for the last microseconds before each arrival, so that operations start on time. Default: true if there are more CPUs than worker threads.",
    );
}

/// Number of intervals in the measured time if their length is not stated.
const INTERVALS: Nanos = 20;

/// The default length of an interval: so short that a short run has enough of them for a judgement.
fn step(measure: Option<Nanos>) -> Nanos {
    measure.map_or(SECOND / 5, |measure| (measure / INTERVALS).clamp(SECOND / 20, SECOND))
}

/// The default sampling interval of counters: once per interval, and at most ten times per second.
pub fn sample_every(load: &Settings) -> Nanos {
    let measure = Load::read(load).ok().map_or(Some(INTERVALS * SECOND), |load| load.measure);
    step(measure).max(SECOND / 10)
}

crate::choice! {
    /// The distribution of the gaps between open-loop arrivals.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Process {
        /// Evenly spaced.
        Constant = "constant",
        /// Exponentially distributed gaps, like those of many independent users.
        Poisson = "poisson",
    }
}

/// The size of a load over the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The same throughout.
    Constant(f64),
    /// From the first to the second, linearly.
    Ramp(f64, f64),
    /// Each level for an equal part of the time.
    Steps(Vec<f64>),
}

impl Profile {
    /// The size at `share` (0 to 1) of the measured time.
    pub fn at(&self, share: f64) -> f64 {
        match self {
            Profile::Constant(value) => *value,
            Profile::Ramp(from, to) => from + (to - from) * share.clamp(0.0, 1.0),
            Profile::Steps(values) => {
                let index = (share.clamp(0.0, 1.0) * values.len() as f64) as usize;
                values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
            }
        }
    }

    /// The maximum of the size.
    pub fn largest(&self) -> f64 {
        match self {
            Profile::Constant(value) => *value,
            Profile::Ramp(from, to) => from.max(*to),
            Profile::Steps(values) => values.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Whether the size never changes.
    pub fn is_constant(&self) -> bool {
        matches!(self, Profile::Constant(_))
    }
}

/// Closed or open, and how large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A number of virtual users, each of which waits for its response.
    Closed {
        /// Virtual users.
        users: Profile,
        /// Think time between a response and the next operation.
        think: Nanos,
    },
    /// Arrivals at a rate, independently of responses.
    Open {
        /// Operations per second.
        rate_per_s: Profile,
        /// The distribution of the gaps.
        arrivals: Process,
    },
}

impl Shape {
    /// `users` virtual users without think time.
    pub fn closed(users: u64) -> Self {
        Shape::Closed { users: Profile::Constant(users as f64), think: 0 }
    }

    /// The setting that defines it.
    pub fn stated_by(&self) -> &'static SettingInfo {
        match (self.profile(), self) {
            (Profile::Ramp(..), _) => &RAMP,
            (Profile::Steps(_), _) => &STEPS,
            (Profile::Constant(_), Shape::Closed { .. }) => &CLOSED,
            (Profile::Constant(_), Shape::Open { .. }) => &OPEN,
        }
    }

    /// The profile of its size: users, or operations per second.
    pub fn profile(&self) -> &Profile {
        match self {
            Shape::Closed { users, .. } => users,
            Shape::Open { rate_per_s, .. } => rate_per_s,
        }
    }

    /// A description: "32 in flight", "2000/s, Poisson arrivals".
    pub fn describe(&self) -> String {
        let sizes = |profile: &Profile, unit: &str| match profile {
            Profile::Constant(value) => format!("{}{unit}", rounded(*value)),
            Profile::Ramp(from, to) => {
                format!("ramp from {}{unit} to {}{unit}", rounded(*from), rounded(*to))
            }
            Profile::Steps(values) => {
                let values: Vec<String> =
                    values.iter().map(|value| format!("{}{unit}", rounded(*value))).collect();
                format!("steps of {}", values.join(", "))
            }
        };
        match self {
            Shape::Closed { users, think: 0 } => format!("{} in flight", sizes(users, "")),
            Shape::Closed { users, think } => {
                format!("{} users, {} think time", sizes(users, ""), quantity::duration(*think))
            }
            Shape::Open { rate_per_s, arrivals: Process::Constant } => {
                format!("{}, evenly spaced arrivals", sizes(rate_per_s, "/s"))
            }
            Shape::Open { rate_per_s, arrivals: Process::Poisson } => {
                format!("{}, Poisson arrivals", sizes(rate_per_s, "/s"))
            }
        }
    }
}

/// A size of a load in words: one that was computed has more digits than a figure needs.
fn rounded(size: f64) -> f64 {
    if size.fract() == 0.0 || !size.is_normal() {
        return size;
    }
    let decimals = (4 - size.abs().log10().floor() as i32).max(0);
    // A division by a power of ten gives the closest number, and so the shortest text.
    let scale = 10_f64.powi(decimals);
    match (size * scale).is_finite() {
        true => (size * scale).round() / scale,
        false => size,
    }
}

/// How the warm-up ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUp {
    /// When throughput is steady, at the latest after [`STEADY_ROUNDS_MAX`](crate::steady::STEADY_ROUNDS_MAX) rounds.
    Auto,
    /// After this time.
    For(Nanos),
}

/// The length of a round of an automatic warm-up, if it is not stated.
const WARM_UP_ROUND_DEFAULT: Nanos = SECOND;

/// The parsed `[load]` table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Closed or open; none for the default of the workload.
    pub shape: Option<Shape>,
    /// How the warm-up ends.
    pub warm_up: WarmUp,
    /// Length of one round of an automatic warm-up.
    #[serde(default = "Load::warm_up_round_default")]
    pub warm_up_round: Nanos,
    /// How long to measure; none means until the workload ends.
    pub measure: Option<Nanos>,
    /// Length of one recorded interval.
    pub interval: Nanos,
    /// Whether a trial ends when nothing more can be learned from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_early: bool,
    /// Whether worker threads spin before an arrival; none if this depends on the CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin: Option<bool>,
}

impl Load {
    /// A load of the workload's default shape, with an automatic warm-up.
    pub const fn of_workload(measure: Option<Nanos>) -> Load {
        Load {
            shape: None,
            warm_up: WarmUp::Auto,
            warm_up_round: WARM_UP_ROUND_DEFAULT,
            measure,
            interval: SECOND,
            end_early: false,
            spin: None,
        }
    }

    const fn warm_up_round_default() -> Nanos {
        WARM_UP_ROUND_DEFAULT
    }

    /// Parses the `[load]` settings and reports all contradictions together. Lines are those of the
    /// experiment file.
    pub fn read(settings: &Settings) -> Result<Load, Problems> {
        let mut problems = Problems::new();
        let arrivals = settings.get(&ARRIVALS);
        let think = settings.get(&THINK).unwrap_or(0);
        let sizes: [&SettingInfo; 4] = [&CLOSED, &OPEN, &RAMP, &STEPS];
        let chosen: Vec<&SettingInfo> = sizes.into_iter().filter(|size| settings.has(size)).collect();
        if let [first, second, ..] = chosen.as_slice() {
            problems.add(
                &[second, first],
                format!("`{}` and `{}` both set the load", first.name, second.name),
                "keep one of them",
            );
        }
        let varying = |profile, is_rate| match is_rate {
            true => Shape::Open { rate_per_s: profile, arrivals },
            false => Shape::Closed { users: profile, think },
        };
        let shape = if let Some(users) = settings.get(&CLOSED) {
            Some(varying(Profile::Constant(users as f64), false))
        } else if let Some(rate) = settings.get(&OPEN) {
            Some(varying(Profile::Constant(rate), true))
        } else if let Some(ramp) = settings.text(&RAMP) {
            match loads(&RAMP, ramp.split(".."), &mut problems) {
                Some((ends, is_rate)) if ends.len() == 2 => {
                    Some(varying(Profile::Ramp(ends[0], ends[1]), is_rate))
                }
                Some(_) => {
                    problems.add(&[&RAMP], "a ramp needs two values", "write \"1..64\" or \"100/s..5000/s\"");
                    None
                }
                None => None,
            }
        } else if settings.has(&STEPS) {
            let steps = settings.get(&STEPS);
            loads(&STEPS, steps.iter().flat_map(|text| text.split(',')), &mut problems)
                .map(|(steps, is_rate)| varying(Profile::Steps(steps), is_rate))
        } else {
            None
        };
        let open = matches!(shape, Some(Shape::Open { .. }));
        if settings.given(&THINK) && open {
            problems.add(
                &[&THINK, &CLOSED],
                "`think` has no meaning in an open loop",
                "remove it, or use `closed`",
            );
        }
        if settings.given(&ARRIVALS) && !open && !chosen.is_empty() {
            problems.add(
                &[&ARRIVALS, &OPEN],
                "`arrivals` has no meaning in a closed loop",
                "remove it, or use `open`",
            );
        }
        let warm_up = settings.get(&WARM_UP).map_or(WarmUp::Auto, WarmUp::For);
        let warm_up_round = settings.get(&WARM_UP_ROUND);
        if !(SECOND..=600 * SECOND).contains(&warm_up_round) {
            problems.add(
                &[&WARM_UP_ROUND],
                format!("a round of {} is out of range", quantity::duration(warm_up_round)),
                "write 1s to 10m",
            );
        }
        if settings.given(&WARM_UP_ROUND) && warm_up != WarmUp::Auto {
            problems.add(
                &[&WARM_UP_ROUND, &WARM_UP],
                "`warm_up_round` has no meaning beside a fixed warm-up",
                "remove it, or write warm_up = \"auto\"",
            );
        }
        let measure = settings.get(&MEASURE);
        if measure == Some(0) {
            problems.add(&[&MEASURE], "the duration must be greater than 0", "write at least \"1s\"");
        }
        let interval = settings.get(&INTERVAL).unwrap_or_else(|| step(measure));
        if !(SECOND / 20..=60 * SECOND).contains(&interval) {
            problems.add(
                &[&INTERVAL],
                format!("an interval of {} is out of range", quantity::duration(interval)),
                "write 50ms to 60s",
            );
        }
        if measure.is_none() && shape.as_ref().is_some_and(|shape| !shape.profile().is_constant()) {
            problems.add(
                &[&MEASURE],
                "a ramp or steps need a measured time to spread over",
                "write a duration instead of \"until-done\"",
            );
        }
        crate::limit::check(settings, &mut problems);
        let (end_early, spin) = (settings.get(&END_EARLY), settings.get(&SPIN));
        problems.or(Load { shape, warm_up, warm_up_round, measure, interval, end_early, spin })
    }

    /// The settings of a load that measures for `measure` after a fixed warm-up.
    pub fn settings(warm_up: Nanos, measure: Nanos) -> Settings {
        let mut settings = Settings::defaults(LOAD_SETTINGS);
        settings.set(WARM_UP.name, Level::Time(warm_up));
        settings.set(MEASURE.name, Level::Time(measure));
        settings
    }
}

/// Numbers of users, or rates (true). None if one of them is neither, which is reported.
fn loads<'a>(
    setting: &SettingInfo,
    texts: impl Iterator<Item = &'a str>,
    problems: &mut Problems,
) -> Option<(Vec<f64>, bool)> {
    let texts: Vec<&str> = texts.map(str::trim).collect();
    let are_rates = texts.iter().any(|text| text.contains('/'));
    let mut values = Vec::new();
    for text in &texts {
        let value = match are_rates {
            true => quantity::parse_rate(text).map_err(|error| error.0),
            false => match text.parse::<u32>() {
                Ok(users) if users > 0 => Ok(f64::from(users)),
                _ => Err(format!("`{text}` is not a number of users")),
            },
        };
        match value {
            Ok(value) => values.push(value),
            Err(what) => problems.add(
                &[setting],
                what,
                "such as \"1..64\" or \"1,2,4,8\", or rates: \"100/s..5000/s\"",
            ),
        }
    }
    (!values.is_empty() && values.len() == texts.len()).then_some((values, are_rates))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Load, Problems> {
        let mut settings = Settings::defaults(LOAD_SETTINGS);
        for (name, text) in pairs {
            let info = LOAD_SETTINGS.iter().find(|info| info.name == *name).unwrap();
            settings.set(name, info.kind.parse(text).unwrap());
        }
        Load::read(&settings)
    }

    #[test]
    fn the_four_shapes() {
        for (pairs, expected) in [
            (vec![("closed", "32")], "32 in flight"),
            (vec![("closed", "8"), ("think", "20ms")], "8 users, 20ms think time"),
            (vec![("open", "2000/s"), ("arrivals", "poisson")], "2000/s, Poisson arrivals"),
            (vec![("ramp", "1..64")], "ramp from 1 to 64 in flight"),
            (vec![("ramp", "100/s..5k/s")], "ramp from 100/s to 5000/s, evenly spaced arrivals"),
            (vec![("steps", "1,2,4")], "steps of 1, 2, 4 in flight"),
        ] {
            assert_eq!(read(&pairs).unwrap().shape.unwrap().describe(), expected);
        }
        assert_eq!(read(&[]).unwrap().shape, None);
        let spin = |pairs: &[(&str, &str)]| read(pairs).unwrap().spin;
        assert_eq!(
            (spin(&[]), spin(&[("spin", "off")]), spin(&[("spin", "on")])),
            (None, Some(false), Some(true))
        );
    }

    #[test]
    fn a_computed_size_is_rounded_in_words() {
        for (size, expected) in [
            (100.00000565656597, "100/s"),
            (51.02040816326531, "51.02/s"),
            (333.333333, "333.33/s"),
            (2000.5, "2000.5/s"),
            (123456.75, "123457/s"),
            (0.001234567, "0.0012346/s"),
            (1e300, "1000000"),
            (5e-324, "0.000"),
            (7.0, "7/s"),
        ] {
            let shape = Shape::Open { rate_per_s: Profile::Constant(size), arrivals: Process::Constant };
            assert!(shape.describe().starts_with(expected), "{}", shape.describe());
        }
    }

    #[test]
    fn contradictions_are_all_reported() {
        let problems =
            read(&[("closed", "3"), ("open", "5/s"), ("measure", "0s"), ("interval", "1ms")]).unwrap_err();
        assert_eq!(problems.0.len(), 3, "{problems}");
        assert_eq!(read(&[("ramp", "1..2..3"), ("measure", "0s")]).unwrap_err().0.len(), 2);
    }

    #[test]
    fn a_profile_at_a_share_of_the_time() {
        assert_eq!(Profile::Ramp(10.0, 20.0).at(0.5), 15.0);
        let steps = Profile::Steps(vec![1.0, 2.0, 4.0]);
        assert_eq!([0.0, 0.34, 0.7, 1.0].map(|share| steps.at(share)), [1.0, 2.0, 4.0, 4.0]);
    }
}
