//! Metrics of OTLP, the protocol of OpenTelemetry, in its JSON encoding (version 1 of the protocol, `metrics.proto`).
//!
//! Counts and histograms are cumulative since the begin of the trial, because Prometheus accepts no others. A record is
//! written as one request per line, as the file exporter of the OpenTelemetry Collector writes it and its receiver
//! `otlpjsonfile` reads it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hdrhistogram::Histogram;
use model::{Column, Interval, Phase, Unit};

use crate::Identity;
use crate::buckets::{BOUNDS_NS, Buckets, seconds};
use crate::figure::{FIGURES, FigureKind, HISTOGRAMS, PERCENTILES, QUANTILES, time};
use crate::name::Name;

/// The response times, service times and lags of an operation, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times<'a> {
    /// The operation.
    pub operation: &'a str,
    /// From the intended start to completion.
    pub response: &'a Histogram<u64>,
    /// From the actual start to completion.
    pub service: &'a Histogram<u64>,
    /// From the intended to the actual start.
    pub lag: &'a Histogram<u64>,
    /// The times that those had that were due in the measured phase and never ended.
    pub censored: Option<&'a model::study::Times>,
}

impl Times<'_> {
    /// Adds them to one set of buckets for each kind.
    fn add_to(&self, buckets: &mut [Buckets; HISTOGRAMS.len()]) {
        let never = self.censored.map(model::study::Times::each);
        for (at, (sum, ended)) in buckets.iter_mut().zip([self.response, self.service, self.lag]).enumerate()
        {
            sum.add(ended, never.map(|of| of[at]));
        }
    }
}

/// The phase that times belong to: what ends after the measured phase was due in it.
fn due(phase: Phase) -> Phase {
    if phase == Phase::CoolDown { Phase::Measure } else { phase }
}

/// The figures of a trial as resource metrics of OTLP, in the order of time.
#[derive(Debug)]
pub struct Otlp {
    /// Everything before the metrics.
    head: String,
    /// The attribute of the trial.
    trial: String,
    started_unix_ns: u64,
    sums: BTreeMap<(String, Phase), Sums>,
}

/// What was counted since the begin of the trial.
#[derive(Debug, Default)]
struct Sums {
    /// By the place in [`FIGURES`]; none if it was never known.
    figures: [Option<f64>; 16],
    histograms: [Buckets; HISTOGRAMS.len()],
}

/// One request with these resource metrics: the body of a POST to `/v1/metrics`, or a line of a file.
pub fn request<'a>(resource_metrics: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from("{\"resourceMetrics\":[");
    for (at, text) in resource_metrics.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(text);
    }
    out.push_str("]}");
    out
}

impl Otlp {
    /// A trial whose clock begins at this time, nanoseconds since 1970.
    pub fn new(identity: &Identity, started_unix_ns: u64) -> Otlp {
        let mut resource = vec![attribute("service.name", "plimsoll")];
        resource.push(attribute("service.version", env!("CARGO_PKG_VERSION")));
        if !identity.host.is_empty() {
            // Prometheus makes its label `instance` from it.
            resource.push(attribute("service.instance.id", &identity.host));
            resource.push(attribute("host.name", &identity.host));
        }
        resource.extend(identity.names().map(|(name, value)| attribute(&format!("plimsoll.{name}"), &value)));
        let head = format!(
            "{{\"resource\":{{\"attributes\":[{}]}},\"scopeMetrics\":[{{\"scope\":{{\"name\":\"plimsoll\",\"version\":\"{}\"}},\
             \"metrics\":[",
            resource.join(","),
            env!("CARGO_PKG_VERSION"),
        );
        Otlp { head, trial: attribute("trial", &identity.trial), started_unix_ns, sums: BTreeMap::new() }
    }

    /// An interval: a row for each operation, whether each is derived from others, and its times if they are known.
    pub fn interval(
        &mut self,
        rows: &[Interval],
        derived: impl Fn(usize) -> bool,
        times: &[Times<'_>],
    ) -> String {
        let mut metrics = Metrics::new(&self.head);
        for row in rows {
            let sums = self.sums.entry((row.operation.clone(), row.phase)).or_default();
            for (sum, figure) in sums.figures.iter_mut().zip(FIGURES) {
                let value = (figure.value)(row);
                *sum = match figure.kind {
                    FigureKind::Value => value,
                    FigureKind::Counted => match (*sum, value) {
                        (Some(sum), value) => Some(sum + value.unwrap_or(0.0)),
                        (None, value) => value,
                    },
                };
            }
            if let Some(of) = times.iter().find(|of| of.operation == row.operation) {
                let sums = self.sums.entry((row.operation.clone(), due(row.phase))).or_default();
                of.add_to(&mut sums.histograms);
            }
        }
        let attributes: Vec<String> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| self.operation(&row.operation, row.phase, derived(at)))
            .collect();
        let span = |row: &Interval| self.span(row.end_s);
        for (at, figure) in FIGURES.iter().enumerate() {
            let points = rows.iter().zip(&attributes).filter_map(|(row, attributes)| {
                let value = self.sums_of(row)?.figures[at]?;
                let number = match (figure.kind, figure.unit) {
                    (FigureKind::Counted, _) => format!("\"asInt\":\"{value:.0}\""),
                    (FigureKind::Value, _) => format!("\"asDouble\":{value}"),
                };
                Some(format!("{{{attributes},{},{number}}}", span(row)))
            });
            let kind = match figure.kind {
                FigureKind::Counted => Kind::Sum,
                FigureKind::Value => Kind::Gauge,
            };
            metrics.add(&figure.name(), figure.about, kind, points);
        }
        for (name, about, of) in PERCENTILES {
            let points = rows.iter().enumerate().flat_map(|(at, row)| {
                let begin = self.operation_attributes(&row.operation, row.phase, derived(at));
                let span = span(row);
                QUANTILES.into_iter().filter_map(move |(quantile, part)| {
                    let value = time(row, part(of(row)))?;
                    let quantile = attribute("quantile", quantile);
                    Some(format!("{{\"attributes\":[{begin},{quantile}],{span},\"asDouble\":{value}}}"))
                })
            });
            metrics.add(&Name::new(name, Unit::Seconds), about, Kind::Gauge, points);
        }
        if !times.is_empty() {
            for (at, (name, about)) in HISTOGRAMS.into_iter().enumerate() {
                let points = rows.iter().enumerate().filter_map(|(place, row)| {
                    let phase = due(row.phase);
                    let sums = self.sums.get(&(row.operation.clone(), phase))?;
                    let buckets = &sums.histograms[at];
                    let attributes = self.operation(&row.operation, phase, derived(place));
                    (buckets.count > 0)
                        .then(|| format!("{{{attributes},{},{}}}", span(row), histogram(buckets)))
                });
                metrics.add(&Name::new(name, Unit::Seconds), about, Kind::Histogram, points);
            }
        }
        metrics.finish()
    }

    fn sums_of(&self, row: &Interval) -> Option<&Sums> {
        self.sums.get(&(row.operation.clone(), row.phase))
    }

    /// The times of the whole measured phase, which ends at this time of the trial's clock; none without times.
    pub fn measured(
        &self,
        end_s: f64,
        times: &[Times<'_>],
        is_derived: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut metrics = Metrics::new(&self.head);
        let sums = |of: &Times<'_>| {
            let mut sums = Sums::default();
            of.add_to(&mut sums.histograms);
            sums
        };
        let sums: Vec<Sums> = times.iter().map(sums).collect();
        for (at, (name, about)) in HISTOGRAMS.into_iter().enumerate() {
            let points = times.iter().zip(&sums).filter_map(|(of, sums)| {
                let buckets = &sums.histograms[at];
                let attributes = self.operation(of.operation, Phase::Measure, is_derived(of.operation));
                (buckets.count > 0)
                    .then(|| format!("{{{attributes},{},{}}}", self.span(end_s), histogram(buckets)))
            });
            metrics.add(&Name::new(name, Unit::Seconds), about, Kind::Histogram, points);
        }
        metrics.some()
    }

    /// A sample of the counters; none if every value is absent.
    pub fn readings(&self, end_s: f64, columns: &[Column], value: impl Fn(usize) -> f64) -> Option<String> {
        let mut metrics = Metrics::new(&self.head);
        // Columns of a metric are not always next to each other.
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, column) in columns.iter().enumerate().filter(|(at, _)| value(*at).is_finite()) {
            places.entry(&column.metric.name).or_default().push(at);
        }
        let span = self.span(end_s);
        for places in places.values() {
            let metric = &columns[places[0]].metric;
            let points = places.iter().map(|at| {
                let instance = &columns[*at].instance;
                let instance = match instance.is_empty() {
                    true => String::new(),
                    // Not `instance`, which Prometheus has for the system that sends.
                    false => format!(",{}", attribute("resource", instance)),
                };
                format!("{{\"attributes\":[{}{instance}],{span},\"asDouble\":{}}}", self.trial, value(*at))
            });
            metrics.add(&Name::of(metric), &metric.about, Kind::Gauge, points);
        }
        metrics.some()
    }

    /// The attributes of an operation, without brackets.
    fn operation_attributes(&self, name: &str, phase: Phase, is_derived: bool) -> String {
        let derived = if is_derived { format!(",{}", attribute("derived", "true")) } else { String::new() };
        let (name, phase) = (attribute("operation", name), attribute("phase", phase.word()));
        format!("{},{name},{phase}{derived}", self.trial)
    }

    fn operation(&self, name: &str, phase: Phase, is_derived: bool) -> String {
        format!("\"attributes\":[{}]", self.operation_attributes(name, phase, is_derived))
    }

    /// The time of a point: from the begin of the trial to this time of its clock.
    fn span(&self, end_s: f64) -> String {
        let end = ((end_s * 1e9).round() as i128).saturating_add(i128::from(self.started_unix_ns));
        format!("\"startTimeUnixNano\":\"{}\",\"timeUnixNano\":\"{}\"", self.started_unix_ns, end.max(0))
    }
}

/// The value of a histogram.
fn histogram(buckets: &Buckets) -> String {
    let counts: Vec<String> = buckets.counts.iter().map(|count| format!("\"{count}\"")).collect();
    let bounds: Vec<String> = BOUNDS_NS.iter().map(|ns| seconds(*ns).to_string()).collect();
    format!(
        "\"count\":\"{}\",\"sum\":{},\"bucketCounts\":[{}],\"explicitBounds\":[{}]",
        buckets.count,
        buckets.sum_s,
        counts.join(","),
        bounds.join(",")
    )
}

fn attribute(name: &str, value: &str) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    format!("{{\"key\":{},\"value\":{{\"stringValue\":{}}}}}", text(name), text(value))
}

/// The kinds of metrics that are used.
#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Sum,
    Histogram,
}

/// Metrics that are being written.
struct Metrics {
    text: String,
    empty: usize,
}

impl Metrics {
    fn new(head: &str) -> Metrics {
        Metrics { text: head.to_string(), empty: head.len() }
    }

    /// Adds a metric; nothing without a point.
    fn add(&mut self, name: &Name, about: &str, kind: Kind, points: impl Iterator<Item = String>) {
        let mut points = points.peekable();
        if points.peek().is_none() {
            return;
        }
        if self.text.len() > self.empty {
            self.text.push(',');
        }
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let kind = match kind {
            Kind::Gauge => "\"gauge\":{",
            // 2: cumulative.
            Kind::Sum => "\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,",
            Kind::Histogram => "\"histogram\":{\"aggregationTemporality\":2,",
        };
        // Writing to a String cannot fail.
        let _ = write!(
            self.text,
            "{{\"name\":{},\"description\":{},\"unit\":\"{}\",{kind}\"dataPoints\":[",
            quoted(&name.dotted),
            quoted(about),
            name.otlp_unit()
        );
        for (at, point) in points.enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            self.text.push_str(&point);
        }
        self.text.push_str("]}}");
    }

    fn finish(mut self) -> String {
        self.text.push_str("]}]}");
        self.text
    }

    fn some(self) -> Option<String> {
        (self.text.len() > self.empty).then(|| self.finish())
    }
}

#[cfg(test)]
mod tests;
