//! Figures by name: a counter such as `disk.flush_s` or `process.busy_cpus{metadir}`, or a measurement of an
//! operation, such as `export.busy_s`.

use serde::{Deserialize, Serialize};

use crate::metric::split_instance;
use crate::problem::did_you_mean;
use crate::{Unit, quantity};

/// The measurements of operations.
const OF_OPERATIONS: [&str; 2] = ["rate_per_s", "busy_s"];

/// The name of a figure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct FigureName {
    /// A metric, or an operation and its measurement.
    pub metric: String,
    /// The instance of a metric; none means the one with the largest mean.
    pub instance: Option<String>,
}

impl From<String> for FigureName {
    fn from(text: String) -> FigureName {
        FigureName::split(&text)
    }
}

impl From<FigureName> for String {
    fn from(name: FigureName) -> String {
        name.to_string()
    }
}

impl std::fmt::Display for FigureName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.instance {
            Some(instance) => write!(f, "{}{{{instance}}}", self.metric),
            None => f.write_str(&self.metric),
        }
    }
}

impl FigureName {
    fn split(text: &str) -> FigureName {
        let split = text.strip_suffix('}').and_then(|rest| rest.split_once('{'));
        let (metric, instance) =
            split.map_or((text, None), |(metric, instance)| (metric, Some(instance.into())));
        FigureName { metric: metric.into(), instance }
    }

    /// Parses a name. The error says what to write.
    pub fn parse(text: &str, operations: &[&str], metrics: &[&str]) -> Result<FigureName, String> {
        let name = FigureName::split(text);
        let known = || {
            let of = |operation: &&str| OF_OPERATIONS.map(|part| format!("{operation}.{part}"));
            operations.iter().flat_map(of).chain(metrics.iter().map(ToString::to_string))
        };
        // An exporter has names of its own.
        let is_of_exporter = name.instance.as_ref().is_some_and(|of| !split_instance(of).0.is_empty());
        if is_of_exporter || known().any(|known| known == name.metric) {
            return Ok(name);
        }
        let known: Vec<String> = known().collect();
        Err(format!(
            "there is no figure `{}`: {}",
            name.metric,
            did_you_mean(&name.metric, known.iter().map(String::as_str))
        ))
    }

    /// The operation and its measurement; none for a metric.
    pub fn of_operation(&self) -> Option<(&str, &str)> {
        self.metric.rsplit_once('.').filter(|(_, part)| OF_OPERATIONS.contains(part))
    }

    /// The unit of its values, which is the last part of its name.
    pub fn unit(&self) -> Unit {
        let ends = |end: &str| self.metric.ends_with(end);
        match () {
            () if ends("bytes_per_s") => Unit::BytesPerSecond,
            () if ends("_per_s") => Unit::PerSecond,
            () if ends("_bytes") => Unit::Bytes,
            () if ends("_s") => Unit::Seconds,
            () if ends("_share") => Unit::Share,
            () if ends("_cpus") => Unit::Cpus,
            () => Unit::Count,
        }
    }

    /// Formats a value as [`Self::value`] parses it.
    pub(super) fn text(&self, value: f64) -> String {
        match self.unit() {
            Unit::Seconds => quantity::duration((value * 1e9).round() as u64),
            Unit::Share => format!("{}%", value * 100.0),
            Unit::Bytes => format!("{value}B"),
            Unit::BytesPerSecond => format!("{value}B/s"),
            Unit::PerSecond | Unit::Cpus | Unit::Count => value.to_string(),
        }
    }

    /// Parses a value with its unit.
    pub fn value(&self, text: &str) -> Result<f64, String> {
        let plain = || {
            let value =
                text.replace('_', "").parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
            value.ok_or_else(|| format!("`{text}` is not a number"))
        };
        match self.unit() {
            Unit::Seconds => {
                quantity::parse_duration(text).map(|ns| ns as f64 / 1e9).map_err(|error| error.0)
            }
            Unit::Share => {
                quantity::parse_percent(text).map(|percent| percent / 100.0).map_err(|error| error.0)
            }
            Unit::Bytes => quantity::parse_bytes(text).map(|bytes| bytes as f64).map_err(|error| error.0),
            Unit::BytesPerSecond => quantity::parse_bytes_per_s(text).map_err(|error| error.0),
            Unit::PerSecond if text.contains('/') => quantity::parse_rate(text).map_err(|error| error.0),
            // As in process monitors: one CPU is 100 %.
            Unit::Cpus if text.contains('%') => {
                quantity::parse_percent(text).map(|percent| percent / 100.0).map_err(|error| error.0)
            }
            Unit::PerSecond | Unit::Cpus | Unit::Count => plain(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_with_their_units() {
        let parse = |text: &str| FigureName::parse(text, &["export"], &["disk.flush_s", "process.busy_cpus"]);
        let name = parse("process.busy_cpus{metadir}").unwrap();
        assert_eq!((name.metric.as_str(), name.instance.as_deref()), ("process.busy_cpus", Some("metadir")));
        assert_eq!(name.to_string(), "process.busy_cpus{metadir}");
        assert!((name.value("14.35%").unwrap() - 0.1435).abs() < 1e-12);
        assert_eq!(parse("disk.flush_s").unwrap().value("108ms"), Ok(0.108));
        assert!(parse("disk.flush_s").unwrap().value("108").is_err(), "a bare number where a unit is due");
        let elapsed = parse("export.busy_s").unwrap();
        assert_eq!(elapsed.of_operation(), Some(("export", "busy_s")));
        assert_eq!(elapsed.value("585m"), Ok(35_100.0));
        assert_eq!(parse("export.rate_per_s").unwrap().value("0.319"), Ok(0.319));
        assert!(parse("jvm_threads_current{//app1}").is_ok() && parse("jvm_threads_current{app1}").is_err());
        assert_eq!(
            parse("disk.flash_s").unwrap_err(),
            "there is no figure `disk.flash_s`: did you mean `disk.flush_s`?"
        );
    }
}
