//! I/O limits as text: `500/s`, `20MB/s`, `read 400/s and write 5MiB/s`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Level, quantity};

/// Limits on reads and writes, in operations and in bytes per second; none is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoLimits {
    /// Read operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_per_s: Option<f64>,
    /// Write operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_per_s: Option<f64>,
    /// Bytes read per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_s: Option<f64>,
}

impl IoLimits {
    /// Parses limits joined by `and`; one without `read` or `write` applies to both. None if the text is
    /// invalid, or limits the same rate twice.
    pub fn parse(text: &str) -> Option<IoLimits> {
        let mut limits = IoLimits::default();
        if text.trim() == "unlimited" {
            return Some(limits);
        }
        for part in text.split(" and ") {
            let part = part.trim();
            let (reads, writes, amount) = match (part.strip_prefix("read "), part.strip_prefix("write ")) {
                (Some(amount), _) => (true, false, amount),
                (_, Some(amount)) => (false, true, amount),
                _ => (true, true, part),
            };
            let (value, read, write) = match operations(amount) {
                Some(value) => (value, &mut limits.reads_per_s, &mut limits.writes_per_s),
                None => (
                    quantity::parse_bytes_per_s(amount).ok()?,
                    &mut limits.read_bytes_per_s,
                    &mut limits.write_bytes_per_s,
                ),
            };
            for (wanted, place) in [(reads, read), (writes, write)] {
                if wanted && place.replace(value).is_some() {
                    return None;
                }
            }
        }
        Some(limits)
    }

    /// The simplest level that represents the limits.
    pub fn to_level(self) -> Level {
        let IoLimits { reads_per_s, writes_per_s, read_bytes_per_s, write_bytes_per_s } = self;
        if reads_per_s != writes_per_s || read_bytes_per_s != write_bytes_per_s {
            return Level::IoLimits(self);
        }
        match (reads_per_s, read_bytes_per_s) {
            (None, None) => Level::Unlimited,
            (Some(rate), None) => Level::Rate(rate),
            (None, Some(rate)) => Level::BytesPerSecond(rate),
            (Some(_), Some(_)) => Level::IoLimits(self),
        }
    }

    /// The limits of a level; none for a level of another kind.
    pub fn from_level(level: &Level) -> Option<IoLimits> {
        match level {
            Level::Unlimited => Some(IoLimits::default()),
            Level::Rate(rate) => {
                Some(IoLimits { reads_per_s: Some(*rate), writes_per_s: Some(*rate), ..IoLimits::default() })
            }
            Level::BytesPerSecond(rate) => Some(IoLimits {
                read_bytes_per_s: Some(*rate),
                write_bytes_per_s: Some(*rate),
                ..IoLimits::default()
            }),
            Level::IoLimits(limits) => Some(*limits),
            _ => None,
        }
    }
}

/// Parses `200/s` or `200 IOPS`.
fn operations(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = text.strip_suffix("IOPS").or_else(|| text.strip_suffix("iops")).map(str::trim);
    quantity::parse_rate(&number.map_or_else(|| text.to_string(), |number| format!("{number}/s"))).ok()
}

impl fmt::Display for IoLimits {
    /// In the form that [`IoLimits::parse`] accepts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut say = |read: Option<f64>, write: Option<f64>, words: fn(f64) -> String| match (read, write) {
            (Some(read), Some(write)) if read == write => parts.push(words(read)),
            (read, write) => {
                parts.extend(read.map(|rate| format!("read {}", words(rate))));
                parts.extend(write.map(|rate| format!("write {}", words(rate))));
            }
        };
        say(self.reads_per_s, self.writes_per_s, quantity::rate);
        say(self.read_bytes_per_s, self.write_bytes_per_s, quantity::bytes_per_s);
        match parts.is_empty() {
            true => f.write_str("unlimited"),
            false => f.write_str(&parts.join(" and ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_as_they_are_written() {
        for (text, level) in [
            ("200/s", "200/s"),
            ("200 IOPS", "200/s"),
            ("5MiB/s", "5MiB/s"),
            ("read 400 IOPS", "read 400/s"),
            ("write 5MiB/s", "write 5MiB/s"),
            ("read 400/s and write 200/s", "read 400/s and write 200/s"),
            ("read 400/s and write 400/s", "400/s"),
            ("200iops and 20MB/s", "200/s and 20MB/s"),
            ("write 1MB/s and read 100/s", "read 100/s and write 1MB/s"),
            ("unlimited", "unlimited"),
        ] {
            let limits = IoLimits::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(limits.to_level().to_string(), level, "{text}");
            assert_eq!(IoLimits::parse(level), Some(limits), "{level}");
            assert_eq!(IoLimits::from_level(&limits.to_level()), Some(limits), "{text}");
        }
        for text in
            ["", "200", "read", "read 400/s and read 200/s", "400/s and read 1/s", "read 1/s, write 1/s"]
        {
            assert_eq!(IoLimits::parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = IoLimits::parse(&text);
        }
    }
}
