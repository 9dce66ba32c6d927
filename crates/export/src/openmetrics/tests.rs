use std::path::Path;

use super::*;

/// A stored run of the program.
pub(crate) fn stored(name: &str) -> Study {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/fixtures");
    record::read(&fixtures.join(name)).unwrap()
}

fn text(study: &Study) -> String {
    let mut out = Vec::new();
    openmetrics(study, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn counts_and_times_are_those_of_the_record() {
    let study = stored("disk");
    let text = text(&study);
    assert!(text.ends_with("# EOF\n"));
    let of = &study.runs[0];
    let completed: u64 = of
        .intervals
        .iter()
        .filter(|of| of.phase == Phase::Measure && of.operation == "read")
        .map(|of| of.completed)
        .sum();
    let values = |name: &str, labels: &[&str]| -> Vec<f64> {
        let has = |line: &&str| {
            line.starts_with(&format!("{name}{{")) && labels.iter().all(|label| line.contains(label))
        };
        let value = |line: &str| line.rsplit(' ').nth(1).unwrap().parse().unwrap();
        text.lines().filter(has).map(value).collect()
    };
    let totals = values("plimsoll_operations_completed_total", &["operation=\"read\"", "phase=\"measure\""]);
    assert_eq!(totals.last(), Some(&(completed as f64)));
    assert!(totals.is_sorted());
    let histogram = &of.histograms["read"].response;
    let labels = &["operation=\"read\"", "le=\"+Inf\""];
    assert_eq!(values("plimsoll_response_time_seconds_bucket", labels), [histogram.len() as f64]);
    let last = of.measured("read").last().unwrap();
    let p99 =
        values("plimsoll_response_quantile_seconds", &["operation=\"read\"", "measure", "quantile=\"0.99\""]);
    assert_eq!(p99.last(), Some(&((last.response.p99 * 1e6).round() / 1e9)));
    let (at, column) = (of.readings.columns.iter().enumerate())
        .find(|(_, column)| column.metric.name == "disk.read_s" && !column.instance.is_empty())
        .unwrap();
    let expected: Vec<f64> =
        of.readings.values[at].iter().copied().filter(|value| value.is_finite()).collect();
    let instance = format!("instance=\"{}\"", column.instance);
    assert_eq!(values("plimsoll_disk_read_seconds", &[&instance]), expected);
}

#[test]
fn each_family_appears_once_with_its_type() {
    for name in ["disk", "block-size", "watch", "sync", "killed"] {
        let text = text(&stored(name));
        let mut families = Vec::new();
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => families.push(rest.split(' ').next().unwrap()),
                None if line.starts_with('#') => {}
                None => assert!(line.starts_with(families.last().unwrap()), "{name}: {line}"),
            }
        }
        let count = families.len();
        families.sort_unstable();
        families.dedup();
        assert_eq!(families.len(), count, "{name}: {families:?}");
    }
}

#[test]
fn what_is_absent_has_no_line_and_names_are_escaped() {
    let mut study = stored("disk");
    study.host.name = "web \"1\"\\\nx".into();
    study.runs[0].run.traits.derived = vec!["read".into()].into();
    for interval in &mut study.runs[0].intervals {
        (interval.offered, interval.late, interval.concurrency) = (None, None, f64::NAN);
        interval.response = model::LatencySummary { p99: 5.0, ..model::LatencySummary::ABSENT };
    }
    study.runs[0].histograms.clear();
    let text = text(&study);
    for absent in ["offered", "late", "in_flight", "response_mean", "response_time", "quantile=\"0.5\"} NaN"]
    {
        assert!(!text.contains(&format!("plimsoll_operations_{absent}")), "{absent}");
    }
    assert!(!text.contains("plimsoll_response_mean") && !text.contains("_bucket") && !text.contains("NaN"));
    let quantiles = text.lines().filter(|line| line.starts_with("plimsoll_response_quantile_seconds{"));
    assert!(quantiles.clone().count() > 0);
    assert!(quantiles.clone().all(|line| line.contains("quantile=\"0.99\"} 0.005 ")));
    assert!(text.contains(r#"host="web \"1\"\\\nx""#), "{text}");
    assert!(text.contains("operation=\"read\",phase=\"measure\",derived=\"true\""));
}
