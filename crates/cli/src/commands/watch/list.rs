//! `--list`: every counter that can be watched, under each of its names.

use counters::perfmon::{self, Answer, Counter};
use counters::scrape;
use engine::source::EXPORTER;
use model::{MetricInfo, MetricKind, Unit};
use report::text::wrap;

use super::board::{Filter, contains};

/// What is listed.
pub(crate) struct Found {
    /// Counters of Performance Monitor that have more to say than a name.
    perfmon: Vec<Counter>,
    /// Metrics, with their source.
    metrics: Vec<(&'static str, &'static MetricInfo)>,
    /// Series of exporters: the metric, its label for instances, and its value.
    series: Vec<(&'static str, &'static str, &'static str)>,
}

/// What the names of series begin with that are our metrics.
const EXPORTERS: [&str; 2] = ["node_", "windows_"];

impl Found {
    /// What a filter finds: for a path of Performance Monitor its counters and their metrics; for another text the metrics and
    /// counters that have it in a name. Without one, every metric.
    pub(crate) fn by(filter: &str) -> Found {
        let filter = Filter::new(filter);
        let metrics = counters::all_metrics().filter(|(_, metric)| filter.finds(metric)).collect();
        let perfmon = match (filter.is_path(), filter.text.is_empty()) {
            (true, _) => filter.perfmon,
            (false, true) => Vec::new(),
            (false, false) => {
                let is_named = |counter: &Counter| contains(counter.path, &filter.text);
                perfmon::counters().filter(|counter| is_named(counter) && !counter.about.is_empty()).collect()
            }
        };
        let is_series = EXPORTERS.iter().any(|of| filter.text.to_lowercase().starts_with(of));
        let rows = scrape::table().filter(|(_, _, value)| is_series && contains(value, &filter.text));
        Found { perfmon, metrics, series: rows.collect() }
    }

    /// True when the filter found nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.perfmon.is_empty() && self.metrics.is_empty() && self.series.is_empty()
    }
}

/// Everything that was found.
pub(crate) fn text(found: &Found, width: usize) -> String {
    let gap = if found.perfmon.is_empty() || found.metrics.is_empty() { "" } else { "\n" };
    let series = series(&found.series, width);
    format!("{}{gap}{}{series}", answers(&found.perfmon, width), table(&found.metrics, width))
}

/// The metrics that series of exporters are.
fn series(rows: &[(&str, &str, &str)], width: usize) -> String {
    let mut out = String::new();
    for (metric, label, value) in rows {
        let each = if label.is_empty() { String::new() } else { format!(" of each {label}") };
        out += &format!("  {metric}{each}\n");
        wrap(value, width.saturating_sub(6)).iter().for_each(|line| out += &format!("      {line}\n"));
    }
    if out.is_empty() { out } else { format!("Series of exporters (watch --from URL)\n{out}") }
}

/// The counters of Performance Monitor: the equivalent of each.
fn answers(counters: &[Counter], width: usize) -> String {
    let mut out = String::new();
    let mut object = "";
    for counter in counters {
        let (of, name) = counter.path.split_once('\\').unwrap_or(("", counter.path));
        if of != object {
            object = of;
            let gap = if out.is_empty() { "" } else { "\n" };
            out += &format!("{gap}Perfmon {of}\n");
            wrap(perfmon::about_object(of), width).iter().for_each(|line| out += &format!("{line}\n"));
        }
        let answer = match counter.answer {
            Answer::Same => format!("same: {}", counter.metric),
            Answer::Nearest => format!("nearest: {}", counter.metric),
            Answer::Nothing => "no metric".to_string(),
        };
        match format!("  {name}  {answer}") {
            line if line.chars().count() <= width => out += &format!("{line}\n"),
            _ => out += &format!("  {name}\n      {answer}\n"),
        }
        wrap(counter.about, width.saturating_sub(6))
            .iter()
            .for_each(|line| out += &format!("      {line}\n"));
    }
    out
}

/// The table: a line of names and a sentence below it for each metric, source by source.
fn table(metrics: &[(&'static str, &'static MetricInfo)], width: usize) -> String {
    let name_width = metrics.iter().map(|(_, metric)| metric.name.len()).max().unwrap_or(0).max(6);
    let mut out = String::new();
    let mut source = "";
    for (of, metric) in metrics {
        if *of != source {
            source = of;
            let kind = counters::SOURCES.iter().find(|kind| kind.name == source);
            let about = kind.map_or("", |kind| kind.about);
            let ask = kind.filter(|kind| !kind.selector.is_empty());
            let ask = ask.map_or(String::new(), |kind| match kind.selector {
                EXPORTER => " Ask for it: --watch http://HOST:PORT/metrics".to_string(),
                selector => format!(" Ask for it: --watch {selector}:..."),
            });
            let gap = if out.is_empty() { "" } else { "\n" };
            out += &format!("{gap}{}\n", source.to_uppercase());
            for line in wrap(&format!("{about}{ask}"), width) {
                out += &format!("{line}\n");
            }
        }
        let names: Vec<String> = [("Perfmon", &metric.perfmon), ("sar", &metric.sar)]
            .iter()
            .filter(|(_, name)| !name.is_empty())
            .map(|(word, name)| format!("{word}: {name}"))
            .collect();
        let head =
            format!("  {:<name_width$}  {:<7} {:<5}", metric.name, unit(metric.unit), kind(metric.kind));
        // On a narrow terminal the other names have lines of their own.
        match format!("{head}  {}", names.join("   ")) {
            line if line.chars().count() <= width => out += line.trim_end(),
            _ => {
                out += head.trim_end();
                names.iter().for_each(|name| out += &format!("\n      {name}"));
            }
        }
        out.push('\n');
        for line in wrap(&metric.about, width.saturating_sub(6)) {
            out += &format!("      {line}\n");
        }
    }
    out
}

/// The same as one JSON document.
pub(crate) fn json(found: &Found) -> serde_json::Value {
    let list: Vec<serde_json::Value> = found
        .metrics
        .iter()
        .map(|(source, metric)| {
            serde_json::json!({ "source": source, "name": metric.name, "unit": metric.unit, "kind": metric.kind,
                "about": metric.about, "perfmon": metric.perfmon, "sar": metric.sar, "saturated_at": metric.saturated_at })
        })
        .collect();
    let perfmon: Vec<serde_json::Value> = found
        .perfmon
        .iter()
        .map(|counter| {
            let answer = match counter.answer {
                Answer::Same => "same",
                Answer::Nearest => "nearest",
                Answer::Nothing => "none",
            };
            let metric = Some(counter.metric).filter(|metric| !metric.is_empty());
            serde_json::json!({ "path": counter.path, "answer": answer, "metric": metric, "about": counter.about })
        })
        .collect();
    let series: Vec<serde_json::Value> = found
        .series
        .iter()
        .map(|(metric, label, value)| serde_json::json!({ "metric": metric, "label": label, "value": value }))
        .collect();
    serde_json::json!({ "format": "plimsoll.metrics/1", "metrics": list, "perfmon": perfmon, "series": series })
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::PerSecond => "/s",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "bytes/s",
        Unit::Seconds => "seconds",
        Unit::Share => "0 to 1",
        Unit::Cpus => "CPUs",
    }
}

fn kind(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Gauge => "gauge",
        MetricKind::Rate => "rate",
        MetricKind::Mean => "mean",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(filter: &str, width: usize) -> String {
        text(&Found::by(filter), width)
    }

    #[test]
    fn a_perfmon_administrator_finds_the_counter() {
        insta::assert_snapshot!("list_100", list("Avg. Disk sec", 100));
        insta::assert_snapshot!("list_80", list("Avg. Disk sec", 80));
        insta::assert_snapshot!("path_80", list(r"\\DB1\LogicalDisk(C:)\Avg. Disk sec/Read", 80));
        insta::assert_snapshot!("nearest_80", list(r"ASP.NET\Requests In Application Queue", 80));
        insta::assert_snapshot!("object_80", list(r"Paging File\*", 80));
        let names: Vec<&str> =
            Found::by("-d await").metrics.iter().map(|(_, metric)| &*metric.name).collect();
        assert_eq!(names, ["disk.transfer_s"]);
        assert!(Found::by("no such counter").is_empty());
        insta::assert_snapshot!("series_80", list("windows_physical_disk_read_latency", 80));
        assert!(Found::by(r"LogicalDisk\No such counter").is_empty());
    }

    #[test]
    fn every_line_fits() {
        for width in [80, 100] {
            for filter in ["", r"LogicalDisk\*", r"SQLServer:Buffer Manager\*", "LogicalDisk"] {
                for line in list(filter, width).lines() {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn every_metric_is_in_the_json() {
        let document = json(&Found::by(""));
        assert_eq!(document["metrics"].as_array().map(Vec::len), Some(counters::all_metrics().count()));
        let document = json(&Found::by(r"System\System Up Time"));
        assert_eq!(document["perfmon"][0]["answer"], "none");
        assert_eq!(document["metrics"].as_array().map(Vec::len), Some(0));
    }
}
