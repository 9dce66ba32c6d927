//! How the load arrives: closed (a number of virtual users) or open (a rate), constant, ramped or in steps.

use serde::{Deserialize, Serialize};

use crate::problem::Problems;
use crate::setting::{SettingInfo, SettingKind, Settings};
use crate::{Level, Nanos, SECOND, quantity};

/// The settings of the `[load]` table.
pub static LOAD_SETTINGS: &[SettingInfo] = &[
    SettingInfo {
        name: "closed",
        kind: SettingKind::Count { min: 1, max: 1_000_000 },
        default: "",
        about: "Closed loop: this many virtual users, each issuing its next operation when the last one is done.",
    },
    SettingInfo {
        name: "open",
        kind: SettingKind::Rate,
        default: "",
        about: "Open loop: operations arrive at this rate whether or not earlier ones are done; response time counts from the intended start.",
    },
    SettingInfo {
        name: "arrivals",
        kind: SettingKind::Choice(&["constant", "poisson"]),
        default: "constant",
        about: "How the arrivals of an open loop are spaced: evenly, or at random as independent users do.",
    },
    SettingInfo {
        name: "ramp",
        kind: SettingKind::Text,
        default: "",
        about: "Grow the load evenly over the measured time: \"1..64\" users (closed) or \"100/s..5000/s\" (open).",
    },
    SettingInfo {
        name: "steps",
        kind: SettingKind::Texts,
        default: "",
        about: "Hold each of these loads for an equal part of the measured time: \"1,2,4,8\" users or \"100/s,200/s\".",
    },
    SettingInfo {
        name: "think",
        kind: SettingKind::Time,
        default: "",
        about: "Closed loop: how long each virtual user waits between one operation and the next.",
    },
    SettingInfo {
        name: "warm_up",
        kind: SettingKind::Text,
        default: "auto",
        about: "Load before the measurement starts: a duration, or \"auto\" to wait until throughput is steady (at most 30 s, else the run is marked unsteady).",
    },
    SettingInfo {
        name: "measure",
        kind: SettingKind::Text,
        default: "30s",
        about: "How long to measure: a duration, or \"until-done\" for work that ends by itself.",
    },
    SettingInfo {
        name: "interval",
        kind: SettingKind::Time,
        default: "1s",
        about: "Length of one recorded interval, 50ms to 60s.",
    },
    SettingInfo {
        name: "spin",
        kind: SettingKind::Flag,
        default: "",
        about: "Keep a CPU busy for the last microseconds before each arrival, so that operations start on time; by default where there are more CPUs than worker threads.",
    },
];

/// Spacing of open-loop arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Process {
    /// Evenly spaced.
    Constant,
    /// Exponentially distributed gaps, as from many independent users.
    Poisson,
}

/// How the size of a load changes over the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The same throughout.
    Constant(f64),
    /// From the first to the second, linearly.
    Ramp(f64, f64),
    /// Each for an equal part of the time.
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

    /// The largest size it reaches.
    pub fn largest(&self) -> f64 {
        match self {
            Profile::Constant(value) => *value,
            Profile::Ramp(from, to) => from.max(*to),
            Profile::Steps(values) => values.iter().copied().fold(0.0, f64::max),
        }
    }

    /// True when the size never changes.
    pub fn is_constant(&self) -> bool {
        matches!(self, Profile::Constant(_))
    }
}

/// Closed or open, and how large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A number of virtual users, each waiting for its answer.
    Closed {
        /// Virtual users.
        users: Profile,
        /// Wait between an answer and the next operation.
        think: Nanos,
    },
    /// Arrivals at a rate, regardless of answers.
    Open {
        /// Operations per second.
        rate_per_s: Profile,
        /// Spacing.
        arrivals: Process,
    },
}

impl Shape {
    /// `users` virtual users without think time.
    pub fn closed(users: u64) -> Self {
        Shape::Closed { users: Profile::Constant(users as f64), think: 0 }
    }

    /// The profile of its size: users, or operations per second.
    pub fn profile(&self) -> &Profile {
        match self {
            Shape::Closed { users, .. } => users,
            Shape::Open { rate_per_s, .. } => rate_per_s,
        }
    }

    /// In words: "32 in flight", "2000/s, Poisson arrivals".
    pub fn describe(&self) -> String {
        let sizes = |profile: &Profile, unit: &str| match profile {
            Profile::Constant(value) => format!("{value}{unit}"),
            Profile::Ramp(from, to) => format!("ramp from {from}{unit} to {to}{unit}"),
            Profile::Steps(values) => {
                let values: Vec<String> = values.iter().map(|value| format!("{value}{unit}")).collect();
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

/// How the warm-up ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUp {
    /// When throughput is steady, after at most 30 s.
    Auto,
    /// After this long.
    For(Nanos),
}

/// The longest an automatic warm-up may take.
pub const WARM_UP_MAX: Nanos = 30 * SECOND;

/// The `[load]` table, read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Closed or open; none when the file leaves it to the workload.
    pub shape: Option<Shape>,
    /// How the warm-up ends.
    pub warm_up: WarmUp,
    /// How long to measure; none means until the work is done.
    pub measure: Option<Nanos>,
    /// Length of one recorded interval.
    pub interval: Nanos,
    /// Whether worker threads spin before an arrival; none when that depends on the CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin: Option<bool>,
}

impl Load {
    /// Reads the `[load]` settings; every contradiction at once. Lines are those of the experiment file.
    pub fn read(settings: &Settings) -> Result<Load, Problems> {
        let mut problems = Problems::new();
        let arrivals = match settings.text("arrivals") {
            Some("poisson") => Process::Poisson,
            _ => Process::Constant,
        };
        let think = settings.time("think").unwrap_or(0);
        let chosen: Vec<&'static str> = ["closed", "open", "ramp", "steps"]
            .into_iter()
            .filter(|name| settings.get(name).is_some())
            .collect();
        if chosen.len() > 1 {
            problems.add(
                &[chosen[1], chosen[0]],
                format!("`{}` and `{}` both set the load", chosen[0], chosen[1]),
                "keep one of them",
            );
        }
        let shape = match chosen.first() {
            None => None,
            Some(&"closed") => settings
                .count("closed")
                .map(|users| Shape::Closed { users: Profile::Constant(users as f64), think }),
            Some(&"open") => settings
                .number("open")
                .map(|rate| Shape::Open { rate_per_s: Profile::Constant(rate), arrivals }),
            Some(&name) => {
                let sizes: Vec<String> = if name == "ramp" {
                    settings
                        .text("ramp")
                        .unwrap_or("")
                        .split("..")
                        .map(|part| part.trim().to_string())
                        .collect()
                } else {
                    settings
                        .texts("steps")
                        .iter()
                        .flat_map(|text| text.split(','))
                        .map(|part| part.trim().to_string())
                        .collect()
                };
                let open = sizes.iter().any(|size| size.contains('/'));
                let mut values = Vec::new();
                for size in &sizes {
                    let value = if open {
                        quantity::parse_rate(size).map_err(|error| error.0)
                    } else {
                        match size.parse::<u32>() {
                            Ok(users) if users > 0 => Ok(f64::from(users)),
                            _ => Err(format!("`{size}` is not a number of users")),
                        }
                    };
                    match value {
                        Ok(value) => values.push(value),
                        Err(what) => problems.add(
                            &[name],
                            what,
                            "such as \"1..64\" or \"1,2,4,8\", or rates: \"100/s..5000/s\"",
                        ),
                    }
                }
                let profile = match (name, values.as_slice()) {
                    ("ramp", [from, to]) => Some(Profile::Ramp(*from, *to)),
                    ("steps", [_, ..]) if values.len() == sizes.len() => Some(Profile::Steps(values)),
                    ("ramp", _) if values.len() == sizes.len() => {
                        problems.add(&[name], "a ramp has two ends", "write \"1..64\" or \"100/s..5000/s\"");
                        None
                    }
                    _ => None,
                };
                profile.map(|profile| match open {
                    true => Shape::Open { rate_per_s: profile, arrivals },
                    false => Shape::Closed { users: profile, think },
                })
            }
        };
        let open = matches!(shape, Some(Shape::Open { .. }));
        if settings.given("think") && open {
            problems.add(
                &["think", "closed"],
                "`think` has no meaning in an open loop",
                "remove it, or use `closed`",
            );
        }
        if settings.given("arrivals") && !open && !chosen.is_empty() {
            problems.add(
                &["arrivals", "open"],
                "`arrivals` has no meaning in a closed loop",
                "remove it, or use `open`",
            );
        }
        let warm_up = match settings.text("warm_up").unwrap_or("auto") {
            "auto" => WarmUp::Auto,
            text => match quantity::parse_duration(text) {
                Ok(value) => WarmUp::For(value),
                Err(error) => {
                    problems.add(&["warm_up"], error.0, "or \"auto\"");
                    WarmUp::Auto
                }
            },
        };
        let measure = match settings.text("measure").unwrap_or("30s") {
            "until-done" => None,
            text => match quantity::parse_duration(text) {
                Ok(0) => {
                    problems.add(&["measure"], "nothing can be measured in no time", "write at least \"1s\"");
                    None
                }
                Ok(value) => Some(value),
                Err(error) => {
                    problems.add(&["measure"], error.0, "or \"until-done\"");
                    None
                }
            },
        };
        let interval = settings.time("interval").unwrap_or(SECOND);
        if !(SECOND / 20..=60 * SECOND).contains(&interval) {
            problems.add(
                &["interval"],
                format!("an interval of {} is out of range", quantity::duration(interval)),
                "write 50ms to 60s",
            );
        }
        if measure.is_none()
            && shape.as_ref().is_some_and(|shape| !shape.profile().is_constant())
            && settings.text("measure") == Some("until-done")
        {
            problems.add(
                &["measure"],
                "a ramp or steps need a measured time to spread over",
                "write a duration instead of \"until-done\"",
            );
        }
        let spin = settings.get("spin").map(|_| settings.flag("spin"));
        problems.or(Load { shape, warm_up, measure, interval, spin })
    }

    /// The settings of a load that measures for `measure` after a fixed warm-up.
    pub fn settings(warm_up: &str, measure: &str) -> Settings {
        let mut settings = Settings::defaults(LOAD_SETTINGS);
        settings.set("warm_up", Level::Text(warm_up.into()));
        settings.set("measure", Level::Text(measure.into()));
        settings
    }
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
    fn contradictions_are_all_told() {
        let problems =
            read(&[("closed", "3"), ("open", "5/s"), ("measure", "0s"), ("interval", "1ms")]).unwrap_err();
        assert_eq!(problems.0.len(), 3, "{problems}");
        assert_eq!(read(&[("ramp", "1..2..3"), ("measure", "xs")]).unwrap_err().0.len(), 2);
    }

    #[test]
    fn a_profile_at_a_share_of_the_time() {
        assert_eq!(Profile::Ramp(10.0, 20.0).at(0.5), 15.0);
        let steps = Profile::Steps(vec![1.0, 2.0, 4.0]);
        assert_eq!([0.0, 0.34, 0.7, 1.0].map(|share| steps.at(share)), [1.0, 2.0, 4.0, 4.0]);
    }
}
