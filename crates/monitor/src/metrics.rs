//! Metrics in the text format of OpenMetrics 1.0.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// What the value of a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It never decreases while the process runs. Its samples get the suffix `_total`.
    Counter,
    /// It may have any value.
    Gauge,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// The samples of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name, with the unit at its end.
    pub name: &'static str,
    /// What the value is, in words, without a full stop.
    pub help: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The samples; a metric without samples is left out.
    pub samples: Vec<Sample>,
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for Family { name, help, kind, samples } in self.0.iter().filter(|family| !family.samples.is_empty())
        {
            let of_kind = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(name, help, None, of_kind)?;
            for Sample { labels, value } in samples {
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let labeled = metric.encode_family(&labels)?;
                match kind {
                    Kind::Counter => ConstCounter::new(*value).encode(labeled)?,
                    Kind::Gauge => ConstGauge::new(*value).encode(labeled)?,
                }
            }
        }
        Ok(())
    }
}

/// The text of all metrics.
///
/// # Errors
/// When the text cannot be encoded.
pub fn text_of(families: Vec<Family>) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_openmetrics() {
        let sample = |run: &str, value| Sample { labels: vec![("run", run.into())], value };
        let families = vec![
            Family {
                name: "x_runs",
                help: "Runs",
                kind: Kind::Counter,
                samples: vec![sample("a\"b\\c\nd", 3.0), sample("e", 0.5)],
            },
            Family { name: "x_empty", help: "Nothing", kind: Kind::Gauge, samples: Vec::new() },
            Family {
                name: "x_time_seconds",
                help: "When",
                kind: Kind::Gauge,
                samples: vec![Sample { labels: Vec::new(), value: 1_795_578_000.0 }],
            },
        ];
        let expected = "# HELP x_runs Runs\n# TYPE x_runs counter\nx_runs_total{run=\"a\\\"b\\\\c\\nd\"} 3.0\n\
            x_runs_total{run=\"e\"} 0.5\n# HELP x_time_seconds When\n# TYPE x_time_seconds gauge\n\
            x_time_seconds 1795578000.0\n# EOF\n";
        assert_eq!(text_of(families).unwrap(), expected);
        assert_eq!(text_of(Vec::new()).unwrap(), "# EOF\n");
    }
}
