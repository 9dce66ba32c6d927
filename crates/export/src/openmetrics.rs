//! OpenMetrics 1.0 text, with the times of the record.
//!
//! A family has the values of all trials, because a family may appear once only. `promtool tsdb create-blocks-from
//! openmetrics` makes a database of Prometheus from it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write};

use model::{Interval, Phase, RunRecord, Study, Unit};

use crate::Identity;
use crate::buckets::{BOUNDS_NS, Buckets, seconds};
use crate::figure::{FIGURES, FigureKind, HISTOGRAMS, PERCENTILES, QUANTILES, time};
use crate::name::Name;

/// A trial with the labels of its values.
struct Labelled<'a> {
    record: &'a RunRecord,
    identity: Identity,
    /// `host="web1",trial="001-baseline.r1"`.
    labels: String,
    /// In the order of their appearance.
    series: Vec<Series<'a>>,
}

/// The intervals of an operation in a phase, with the labels of its values.
struct Series<'a> {
    labels: String,
    intervals: Vec<&'a Interval>,
}

impl<'a> Labelled<'a> {
    fn new(study: &Study, record: &'a RunRecord) -> Labelled<'a> {
        let identity = Identity::of(study, &record.run);
        let mut labels = String::new();
        for (name, value) in [("host", &identity.host), ("trial", &identity.trial)] {
            if !value.is_empty() {
                label(&mut labels, name, value);
            }
        }
        let mut trial = Labelled { record, identity, labels, series: Vec::new() };
        let mut places: BTreeMap<(&str, Phase), usize> = BTreeMap::new();
        for interval in &record.intervals {
            let place = *places.entry((&interval.operation, interval.phase)).or_insert_with(|| {
                let labels = trial.operation(&interval.operation, interval.phase);
                trial.series.push(Series { labels, intervals: Vec::new() });
                trial.series.len() - 1
            });
            trial.series[place].intervals.push(interval);
        }
        trial
    }

    /// A time of the trial's clock in seconds since 1970, to the microsecond.
    fn time(&self, at_s: f64) -> String {
        let us =
            ((at_s * 1e6).round() as i128).saturating_add(i128::from(self.record.run.started_unix_ns / 1000));
        let sign = if us < 0 { "-" } else { "" };
        format!("{sign}{}.{:06}", us.unsigned_abs() / 1_000_000, us.unsigned_abs() % 1_000_000)
    }

    /// The labels of an operation.
    fn operation(&self, name: &str, phase: Phase) -> String {
        let mut labels = self.labels.clone();
        label(&mut labels, "operation", name);
        label(&mut labels, "phase", phase.word());
        if self.record.run.traits.derived.iter().any(|derived| derived == name) {
            label(&mut labels, "derived", "true");
        }
        labels
    }
}

/// Adds a label.
fn label(labels: &mut String, name: &str, value: &str) {
    if !labels.is_empty() {
        labels.push(',');
    }
    // Writing to a String cannot fail.
    let _ = write!(labels, "{name}=\"{}\"", escaped(value));
}

/// A text inside quotation marks, or of a description.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// Writes the runs of a record.
///
/// # Errors
/// Those of `out`.
pub fn openmetrics(study: &Study, out: &mut dyn Write) -> io::Result<()> {
    let trials: Vec<Labelled<'_>> = study.runs.iter().map(|record| Labelled::new(study, record)).collect();
    infos(&trials, out)?;
    for figure in FIGURES {
        let kind = match figure.kind {
            FigureKind::Counted => "counter",
            FigureKind::Value => "gauge",
        };
        let mut family = Family::new(figure.name(), kind, figure.about);
        for trial in &trials {
            for Series { labels, intervals } in &trial.series {
                let mut sum = 0.0;
                for interval in intervals {
                    let Some(value) = (figure.value)(interval) else { continue };
                    sum += value;
                    let (ending, value) = match figure.kind {
                        FigureKind::Counted => ("_total", sum),
                        FigureKind::Value => ("", value),
                    };
                    family.sample(out, ending, labels, value, &trial.time(interval.end_s))?;
                }
            }
        }
    }
    // A gauge: each interval has its own, which a summary since the begin of the trial would not be.
    for (name, about, times) in PERCENTILES {
        let mut family = Family::new(Name::new(name, Unit::Seconds), "gauge", about);
        for trial in &trials {
            for Series { labels, intervals } in &trial.series {
                for (quantile, part) in QUANTILES {
                    let labels = format!("{labels},quantile=\"{quantile}\"");
                    for interval in intervals {
                        if let Some(value) = time(interval, part(times(interval))) {
                            family.sample(out, "", &labels, value, &trial.time(interval.end_s))?;
                        }
                    }
                }
            }
        }
    }
    for (at, (name, about)) in HISTOGRAMS.into_iter().enumerate() {
        let about = format!("{about}. Of the measured phase");
        let mut family = Family::new(Name::new(name, Unit::Seconds), "histogram", &about);
        for trial in &trials {
            histograms(trial, at, &mut family, out)?;
        }
    }
    readings(&trials, out)?;
    out.write_all(b"# EOF\n")
}

/// What each trial is.
fn infos(trials: &[Labelled<'_>], out: &mut dyn Write) -> io::Result<()> {
    let mut family = Family::new(Name::new("trial", Unit::Count), "info", "A trial of the experiment");
    for trial in trials {
        let mut labels = String::new();
        if !trial.identity.host.is_empty() {
            label(&mut labels, "host", &trial.identity.host);
        }
        trial.identity.names().for_each(|(name, value)| label(&mut labels, name, &value));
        label(&mut labels, "ending", &trial.record.run.ending.to_string());
        family.sample(out, "_info", &labels, 1.0, &trial.time(0.0))?;
    }
    Ok(())
}

/// One kind of times of each operation of a trial, in buckets, at the end of the measured phase.
fn histograms(trial: &Labelled<'_>, kind: usize, family: &mut Family, out: &mut dyn Write) -> io::Result<()> {
    let measured = trial.record.run.span(Phase::Measure).map(|span| span.end_s);
    let last = trial.record.intervals.iter().rfind(|of| of.phase == Phase::Measure).map(|of| of.end_s);
    let Some(end_s) = measured.or(last) else { return Ok(()) };
    let time = trial.time(end_s);
    for (operation, of) in &trial.record.histograms {
        let never = of.censored.as_deref().map(|never| never.each()[kind]);
        let buckets = Buckets::of([&of.response, &of.service, &of.lag][kind], never);
        if buckets.count == 0 {
            continue;
        }
        let labels = trial.operation(operation, Phase::Measure);
        let mut below = 0;
        for (at, count) in buckets.counts.iter().enumerate() {
            below += count;
            let bound = BOUNDS_NS.get(at).map_or("+Inf".to_string(), |ns| format!("{:?}", seconds(*ns)));
            let labels = format!("{labels},le=\"{bound}\"");
            family.sample(out, "_bucket", &labels, below as f64, &time)?;
        }
        family.sample(out, "_count", &labels, buckets.count as f64, &time)?;
        family.sample(out, "_sum", &labels, buckets.sum_s, &time)?;
    }
    Ok(())
}

/// The counters, metric by metric.
fn readings(trials: &[Labelled<'_>], out: &mut dyn Write) -> io::Result<()> {
    // The columns of each metric: the trial and the column.
    let mut names: Vec<&str> = Vec::new();
    let mut columns: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    for (trial, of) in trials.iter().enumerate() {
        for (at, column) in of.record.readings.columns.iter().enumerate() {
            let places = columns.entry(&column.metric.name).or_insert_with(|| {
                names.push(&column.metric.name);
                Vec::new()
            });
            places.push((trial, at));
        }
    }
    // Names of other systems may differ only in signs that a name cannot have.
    let mut used: HashMap<String, usize> = HashMap::new();
    for name in names {
        let places = columns.remove(name).unwrap_or_default();
        let Some((trial, at)) = places.first() else { continue };
        let metric = &trials[*trial].record.readings.columns[*at].metric;
        let mut title = Name::of(metric);
        let count = used.entry(title.openmetrics().0).or_insert(0);
        *count += 1;
        if *count > 1 {
            title = Name::new(&format!("{name} {count}"), metric.unit);
        }
        let about = match (metric.about.as_ref(), metric.perfmon.as_ref()) {
            (about, "") => format!("{name}: {about}"),
            (about, perfmon) => format!("{name}: {about} Performance Monitor: {perfmon}"),
        };
        let mut family = Family::new(title, "gauge", &about);
        for (trial, at) in places {
            let trial = &trials[trial];
            let table = &trial.record.readings;
            let mut labels = trial.labels.clone();
            let instance = &table.columns[at].instance;
            if !instance.is_empty() {
                label(&mut labels, "instance", instance);
            }
            for (value, end_s) in table.values[at].iter().zip(&table.end_s) {
                if value.is_finite() {
                    family.sample(out, "", &labels, *value, &trial.time(*end_s))?;
                }
            }
        }
    }
    Ok(())
}

/// A family, whose head is written before its first value. Without a value there is no head.
struct Family {
    name: String,
    head: Option<String>,
}

impl Family {
    fn new(name: Name, kind: &str, about: &str) -> Family {
        let (name, unit) = name.openmetrics();
        let unit = match unit {
            "" => String::new(),
            unit => format!("# UNIT {name} {unit}\n"),
        };
        let about = escaped(about.trim_end_matches('.'));
        let head = format!("# TYPE {name} {kind}\n{unit}# HELP {name} {about}.\n");
        Family { name, head: Some(head) }
    }

    fn sample(
        &mut self,
        out: &mut dyn Write,
        ending: &str,
        labels: &str,
        value: f64,
        time: &str,
    ) -> io::Result<()> {
        if let Some(head) = self.head.take() {
            out.write_all(head.as_bytes())?;
        }
        match labels {
            "" => writeln!(out, "{}{ending} {value} {time}", self.name),
            labels => writeln!(out, "{}{ending}{{{labels}}} {value} {time}", self.name),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
