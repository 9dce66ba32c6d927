//! Settings: their kinds and the levels they accept.
//!
//! Each workload describes its settings as typed [`Key`]s, and all of them in one static table of
//! [`SettingInfo`]. The experiment file, the command-line flags, the JSON Schema and the handbook are derived
//! from that table.

mod key;

pub use key::{Choice, Key, Value, WholeNumber};

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{IoLimits, Nanos, Secret, SecretParts, quantity};

/// The value of a setting.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// On or off.
    Flag(bool),
    /// A whole number of things.
    Count(u64),
    /// A plain number without a unit.
    Number(f64),
    /// A size in bytes.
    Bytes(u64),
    /// A duration in nanoseconds.
    Time(Nanos),
    /// Operations per second.
    Rate(f64),
    /// Bytes per second.
    BytesPerSecond(f64),
    /// A share in percent, 0 to 100.
    Percent(f64),
    /// A word, path or expression.
    Text(String),
    /// A text with secret parts.
    Secret(Secret),
    /// Several levels, such as the files of a disk load.
    List(Vec<Level>),
    /// I/O limits that cannot be expressed by one number.
    IoLimits(IoLimits),
    /// Unlimited.
    Unlimited,
}

impl PartialEq for Level {
    /// A text with secret parts equals what is shown of it: older records have a text where newer ones have one with secret
    /// parts.
    fn eq(&self, other: &Level) -> bool {
        match (self, other) {
            (Level::Text(text), Level::Secret(secret)) | (Level::Secret(secret), Level::Text(text)) => {
                secret.shown() == text
            }
            (Level::Flag(one), Level::Flag(other)) => one == other,
            (Level::Count(one), Level::Count(other)) => one == other,
            (Level::Bytes(one), Level::Bytes(other)) => one == other,
            (Level::Time(one), Level::Time(other)) => one == other,
            (Level::Number(one), Level::Number(other))
            | (Level::Rate(one), Level::Rate(other))
            | (Level::BytesPerSecond(one), Level::BytesPerSecond(other))
            | (Level::Percent(one), Level::Percent(other)) => one == other,
            (Level::Text(one), Level::Text(other)) => one == other,
            (Level::Secret(one), Level::Secret(other)) => one == other,
            (Level::List(one), Level::List(other)) => one == other,
            (Level::IoLimits(one), Level::IoLimits(other)) => one == other,
            (Level::Unlimited, Level::Unlimited) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Level {
    /// The notation in files; it is parsed again with the kind of the setting.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Flag(value) => write!(f, "{value}"),
            Level::Count(value) => write!(f, "{value}"),
            Level::Number(value) => write!(f, "{value}"),
            Level::Bytes(value) => f.write_str(&quantity::bytes(*value)),
            Level::Time(value) => f.write_str(&quantity::duration(*value)),
            Level::Rate(value) => f.write_str(&quantity::rate(*value)),
            Level::BytesPerSecond(value) => f.write_str(&quantity::bytes_per_s(*value)),
            Level::Percent(value) => write!(f, "{value}%"),
            Level::Text(value) => f.write_str(value),
            Level::Secret(value) => write!(f, "{value}"),
            Level::List(values) => {
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{value}")?;
                }
                Ok(())
            }
            Level::IoLimits(limits) => write!(f, "{limits}"),
            Level::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl Level {
    /// The level as a number in its base unit (bytes, seconds, per second, percent), for the axis of a sweep.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Level::Count(value) | Level::Bytes(value) => Some(*value as f64),
            Level::Number(value)
            | Level::Rate(value)
            | Level::BytesPerSecond(value)
            | Level::Percent(value) => Some(*value),
            Level::Time(value) => Some(*value as f64 / 1e9),
            Level::Flag(_)
            | Level::Text(_)
            | Level::Secret(_)
            | Level::List(_)
            | Level::IoLimits(_)
            | Level::Unlimited => None,
        }
    }

    /// The level as the program that gets it needs it, with its secrets.
    pub fn reveal(&self) -> String {
        match self {
            Level::Secret(secret) => secret.reveal().to_string(),
            Level::List(levels) => levels.iter().map(Level::reveal).collect::<Vec<_>>().join(","),
            level => level.to_string(),
        }
    }

    /// The secrets in the level.
    pub fn secrets_mut(&mut self) -> Vec<&mut Secret> {
        match self {
            Level::Secret(secret) => vec![secret],
            Level::List(levels) => levels.iter_mut().flat_map(Level::secrets_mut).collect(),
            _ => Vec::new(),
        }
    }
}

/// Who opens the path of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUse {
    /// The host where the run was started reads the file, and sends it to machines that drive the load.
    Input,
    /// The host that drives the load opens it, an agent only if it may.
    Host,
    /// A command of the load opens it on the host that drives the load.
    Command,
}

/// The levels that a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SettingKind {
    /// `true` or `false`.
    Flag,
    /// A whole number within bounds, both included.
    Count {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A plain number within bounds, both included.
    Number {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// A size, such as `64KiB`.
    Bytes,
    /// A size, or a mix of sizes with their shares, such as `4KiB 70%, 64KiB 30%`. The owner of the setting
    /// parses a mix.
    Sizes,
    /// A duration, such as `10s`.
    Time,
    /// A duration, or this word.
    TimeOr(&'static str),
    /// Operations per second, such as `2000/s`.
    Rate,
    /// The text of [`IoLimits`]: `500/s` (operations), `20MB/s` (bytes), `read 400/s and write 5MiB/s`, or
    /// `unlimited`.
    IoLimit,
    /// A number of CPUs such as `0.5` or `50%`, or `unlimited`.
    CpuLimit,
    /// A size, or `unlimited`.
    MemoryLimit,
    /// A percentage, such as `70%`; the percent sign is optional for integers.
    Percent,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text; the owner of the setting validates it.
    Text,
    /// A text, a number, or a Boolean, stored as written: a value for a foreign file or command.
    Value,
    /// One or more texts, such as paths.
    Texts,
    /// The path of a file, a folder or a device.
    Path(PathUse),
    /// One or more of them.
    Paths(PathUse),
    /// A text with secret parts.
    Secret(SecretParts),
    /// One or more of them.
    Secrets(SecretParts),
}

impl SettingKind {
    /// Parses a level, for example from a command line. The error says what to write.
    pub fn parse(&self, text: &str) -> Result<Level, String> {
        let quantity = |error: quantity::QuantityError| error.0;
        let text = text.trim();
        if let Some(with_unit) = self.number_with_unit(text) {
            return Err(format!("`{text}` has no unit: write {with_unit}"));
        }
        match self {
            SettingKind::Flag => match text {
                "true" | "yes" | "on" => Ok(Level::Flag(true)),
                "false" | "no" | "off" => Ok(Level::Flag(false)),
                _ => Err(format!("`{text}` is neither true nor false")),
            },
            SettingKind::Count { min, max } => match text.replace('_', "").parse::<u64>() {
                Ok(value) if (*min..=*max).contains(&value) => Ok(Level::Count(value)),
                _ => Err(format!("`{text}` is not {}", self.expectation())),
            },
            SettingKind::Number { min, max } => match text.parse::<f64>() {
                Ok(value) if value >= *min && value <= *max => Ok(Level::Number(value)),
                _ => Err(format!("`{text}` is not {}", self.expectation())),
            },
            SettingKind::Bytes => quantity::parse_bytes(text).map(Level::Bytes).map_err(quantity),
            SettingKind::Sizes if text.contains([',', '%']) => Ok(Level::Text(text.to_string())),
            SettingKind::Sizes => quantity::parse_bytes(text).map(Level::Bytes).map_err(quantity),
            SettingKind::TimeOr(word) if text == *word => Ok(Level::Text(text.to_string())),
            SettingKind::TimeOr(_) => quantity::parse_duration(text)
                .map(Level::Time)
                .map_err(|_| format!("`{text}` is not {}", self.expectation())),
            SettingKind::Time => quantity::parse_duration(text).map(Level::Time).map_err(quantity),
            SettingKind::Rate => quantity::parse_rate(text).map(Level::Rate).map_err(quantity),
            SettingKind::IoLimit => IoLimits::parse(text)
                .map(IoLimits::to_level)
                .ok_or_else(|| format!("`{text}` is not {}", self.expectation())),
            SettingKind::CpuLimit | SettingKind::MemoryLimit if text == "unlimited" => Ok(Level::Unlimited),
            SettingKind::CpuLimit => {
                let cpus = match text.strip_suffix('%') {
                    Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
                    None => text.parse(),
                };
                match cpus {
                    Ok(cpus) if cpus > 0.0 && cpus.is_finite() => Ok(Level::Number(cpus)),
                    _ => Err(format!("`{text}` is not {}", self.expectation())),
                }
            }
            SettingKind::MemoryLimit => quantity::parse_bytes(text)
                .map(Level::Bytes)
                .map_err(|_| format!("`{text}` is not {}", self.expectation())),
            // A fraction could be a share of 1 or of 100.
            SettingKind::Percent => match text.parse::<u32>() {
                Ok(value) if value <= 100 => Ok(Level::Percent(f64::from(value))),
                _ => quantity::parse_percent(text).map(Level::Percent).map_err(quantity),
            },
            SettingKind::Choice(words) => {
                if words.contains(&text) {
                    Ok(Level::Text(text.to_string()))
                } else {
                    Err(format!("`{text}`: {}", crate::problem::did_you_mean(text, words.iter().copied())))
                }
            }
            SettingKind::Text | SettingKind::Path(_) if text.is_empty() => Err("the text is empty".into()),
            SettingKind::Text | SettingKind::Path(_) | SettingKind::Value => {
                Ok(Level::Text(text.to_string()))
            }
            SettingKind::Texts | SettingKind::Paths(_) if text.is_empty() => Err("the list is empty".into()),
            SettingKind::Texts | SettingKind::Paths(_) => Ok(Level::List(vec![self.element(text)])),
            SettingKind::Secret(_) if text.is_empty() => Err("the text is empty".into()),
            SettingKind::Secret(_) => Ok(self.element(text)),
            SettingKind::Secrets(_) if text.is_empty() => Err("the list is empty".into()),
            SettingKind::Secrets(_) => Ok(Level::List(vec![self.element(text)])),
        }
    }

    /// What was probably meant by a number without a unit, where the setting needs one.
    fn number_with_unit(&self, text: &str) -> Option<String> {
        text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)?;
        match self {
            SettingKind::Time | SettingKind::TimeOr(_) => Some(format!("{text}s")),
            SettingKind::Rate => Some(format!("{text}/s")),
            SettingKind::Bytes | SettingKind::Sizes => Some(format!("{text}B or {text}KiB")),
            SettingKind::Percent if text.parse::<u32>().is_err() => match text.parse::<f64>() {
                Ok(share) if share <= 1.0 => {
                    Some(format!("{}% for a share of {text}, or {text}%", (share * 1e8).round() / 1e6))
                }
                Ok(share) if share <= 100.0 => Some(format!("{text}%")),
                _ => None,
            },
            _ => None,
        }
    }

    /// The level of one text, for a setting with texts.
    pub fn element(&self, text: &str) -> Level {
        match self {
            SettingKind::Secret(parts) | SettingKind::Secrets(parts) => {
                Level::Secret(Secret::new(text, *parts))
            }
            _ => Level::Text(text.to_string()),
        }
    }

    /// The level of a list of texts.
    pub fn list(&self, texts: &[&str]) -> Level {
        Level::List(match self {
            SettingKind::Secret(parts) | SettingKind::Secrets(parts) => {
                Secret::list(texts, *parts).into_iter().map(Level::Secret).collect()
            }
            _ => texts.iter().map(|text| self.element(text)).collect(),
        })
    }

    /// Whether it is a command line. A shell reads it, so that placeholders of secrets are not replaced in it.
    pub fn is_command(&self) -> bool {
        matches!(
            self,
            SettingKind::Secret(SecretParts::Command | SecretParts::Machine)
                | SettingKind::Secrets(SecretParts::Command | SecretParts::Machine)
        )
    }

    /// Whether its texts have secret parts.
    pub fn is_secret(&self) -> bool {
        matches!(self, SettingKind::Secret(_) | SettingKind::Secrets(_))
    }

    /// Whether it accepts several texts.
    pub fn takes_several(&self) -> bool {
        matches!(self, SettingKind::Texts | SettingKind::Paths(_) | SettingKind::Secrets(_))
    }

    /// What a path is used for; none for any other text.
    pub fn path_use(&self) -> Option<PathUse> {
        match self {
            SettingKind::Path(path_use) | SettingKind::Paths(path_use) => Some(*path_use),
            _ => None,
        }
    }

    /// The expected input, for messages and help: "a whole number from 1 to 256".
    pub fn expectation(&self) -> String {
        match self {
            SettingKind::Flag => "true or false".into(),
            SettingKind::Count { min, max: u64::MAX } => format!("a whole number from {min}"),
            SettingKind::Count { min, max } => format!("a whole number from {min} to {max}"),
            SettingKind::Number { min, max } => format!("a number from {min} to {max}"),
            SettingKind::Bytes => "a size, such as \"64KiB\"".into(),
            SettingKind::Sizes => "a size, such as \"64KiB\", or a mix: \"4KiB 70%, 64KiB 30%\"".into(),
            SettingKind::Time => "a duration, such as \"30s\"".into(),
            SettingKind::TimeOr(word) => format!("a duration, such as \"30s\", or \"{word}\""),
            SettingKind::Rate => "a rate, such as \"2000/s\"".into(),
            SettingKind::IoLimit => {
                "a limit: \"500/s\" (operations), \"20MB/s\" (bytes), \"read 400/s and write 5MiB/s\" or \"unlimited\"".into()
            }
            SettingKind::CpuLimit => "a number of CPUs, such as 0.5 or \"50%\", or \"unlimited\"".into(),
            SettingKind::MemoryLimit => "a size, such as \"512MiB\", or \"unlimited\"".into(),
            SettingKind::Percent => "a share, such as \"70%\"".into(),
            SettingKind::Choice(words) => {
                format!("one of {}", words.iter().map(|w| format!("\"{w}\"")).collect::<Vec<_>>().join(", "))
            }
            SettingKind::Text | SettingKind::Path(_) | SettingKind::Secret(_) => "a text".into(),
            SettingKind::Value => "a text, a number, true or false".into(),
            SettingKind::Texts | SettingKind::Paths(_) | SettingKind::Secrets(_) => {
                "a text or a list of texts".into()
            }
        }
    }
}

/// The static description of one setting.
#[derive(Clone, Copy, Debug)]
pub struct SettingInfo {
    /// Its name in the file; with `-` instead of `_` also its flag: `block_size`, `--block-size`.
    pub name: &'static str,
    /// The accepted levels.
    pub kind: SettingKind,
    /// The default, as written; empty for "none".
    pub default: &'static str,
    /// One sentence for `--help`, the schema and the handbook.
    pub about: &'static str,
}

/// A chosen level, and its place in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The level.
    pub level: Level,
    /// Line number in the experiment file, from 1; 0 for a flag, a default or a treatment.
    #[serde(default, skip)]
    pub line: u32,
    /// Whether the user wrote it; otherwise it is a default.
    pub given: bool,
}

/// The settings of one workload by name, defaults filled in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(pub BTreeMap<String, Setting>);

impl Settings {
    /// The defaults of a table.
    pub fn defaults(table: &[SettingInfo]) -> Self {
        let mut settings = Settings::default();
        for info in table {
            if info.default.is_empty() {
                continue;
            }
            if let Ok(level) = info.kind.parse(info.default) {
                settings.0.insert(info.name.into(), Setting { level, line: 0, given: false });
            }
        }
        settings
    }

    /// Sets a level, for example from a flag or a treatment.
    pub fn set(&mut self, name: &str, level: Level) {
        let line = self.0.get(name).map_or(0, |s| s.line);
        self.0.insert(name.into(), Setting { level, line, given: true });
    }

    /// The value of a setting; the default if the level is missing or has another kind.
    pub fn get<T: Value>(&self, key: &Key<T>) -> T {
        self.level(key.name).and_then(|level| key.value(level)).unwrap_or_else(|| key.default())
    }

    /// The value of a text, borrowed.
    pub fn text(&self, key: &Key<Option<String>>) -> Option<&str> {
        match self.level(key.name)? {
            Level::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a text with secret parts, with them, borrowed.
    pub fn revealed(&self, key: &Key<Option<Secret>>) -> Option<&str> {
        match self.level(key.name)? {
            Level::Secret(secret) => Some(secret.reveal()),
            Level::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the setting has a level.
    pub fn has(&self, setting: &SettingInfo) -> bool {
        self.0.contains_key(setting.name)
    }

    /// Whether the user wrote it.
    pub fn given(&self, setting: &SettingInfo) -> bool {
        self.0.get(setting.name).is_some_and(|setting| setting.given)
    }

    /// The level of a setting by name.
    pub fn level(&self, name: &str) -> Option<&Level> {
        self.0.get(name).map(|setting| &setting.level)
    }

    /// The line number in the file; 0 if unknown.
    pub fn line(&self, name: &str) -> u32 {
        self.0.get(name).map_or(0, |setting| setting.line)
    }
}

/// The path of a setting: `workload.block_size`, `host.cpus`, `load.closed`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SettingPath(pub String);

impl SettingPath {
    /// The part before the first dot: `workload`, `load`, `host`, `network`, `target`.
    pub fn area(&self) -> &str {
        self.0.split('.').next().unwrap_or("")
    }

    /// The part after the first dot.
    pub fn name(&self) -> &str {
        self.0.split_once('.').map_or("", |(_, name)| name)
    }
}

impl fmt::Display for SettingPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
