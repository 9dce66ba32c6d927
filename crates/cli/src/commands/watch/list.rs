//! `--list`: every counter that can be watched, under each of its names.

use model::{MetricInfo, MetricKind, Unit};
use report::text::wrap;

use super::board::matches;

/// The metrics that match, with their source.
pub(crate) fn select(filter: &str) -> Vec<(&'static str, &'static MetricInfo)> {
    counters::all_metrics().filter(|(_, metric)| filter.is_empty() || matches(metric, filter)).collect()
}

/// The table: a line of names and a sentence below it for each metric, source by source.
pub(crate) fn table(metrics: &[(&'static str, &'static MetricInfo)], width: usize) -> String {
    let name_width = metrics.iter().map(|(_, metric)| metric.name.len()).max().unwrap_or(0).max(6);
    let mut out = String::new();
    let mut source = "";
    for (of, metric) in metrics {
        if *of != source {
            source = of;
            let kind = counters::SOURCES.iter().find(|kind| kind.name == source);
            let about = kind.map_or("", |kind| kind.about);
            let ask = kind.filter(|kind| !kind.selector.is_empty());
            let ask = ask.map_or(String::new(), |kind| format!(" Ask for it: --watch {}:...", kind.selector));
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
pub(crate) fn json(metrics: &[(&'static str, &'static MetricInfo)]) -> serde_json::Value {
    let list: Vec<serde_json::Value> = metrics
        .iter()
        .map(|(source, metric)| {
            serde_json::json!({ "source": source, "name": metric.name, "unit": metric.unit, "kind": metric.kind,
                "about": metric.about, "perfmon": metric.perfmon, "sar": metric.sar, "full_at": metric.full_at })
        })
        .collect();
    serde_json::json!({ "format": "plimsoll.metrics/1", "metrics": list })
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

    #[test]
    fn a_perfmon_administrator_finds_the_counter() {
        insta::assert_snapshot!("list_100", table(&select("Avg. Disk sec"), 100));
        insta::assert_snapshot!("list_80", table(&select("Avg. Disk sec"), 80));
        let names: Vec<&str> = select("-d await").iter().map(|(_, metric)| &*metric.name).collect();
        assert_eq!(names, ["disk.transfer_s"]);
        assert!(select("no such counter").is_empty());
    }

    #[test]
    fn every_line_fits() {
        for width in [80, 100] {
            for line in table(&select(""), width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn every_metric_is_in_the_json() {
        let document = json(&select(""));
        assert_eq!(document["metrics"].as_array().map(Vec::len), Some(counters::all_metrics().count()));
    }
}
