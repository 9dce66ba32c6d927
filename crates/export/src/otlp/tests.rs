use serde_json::Value;

use super::*;
use crate::openmetrics::tests::stored;

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The points of a metric.
fn points<'a>(resource_metrics: &'a Value, name: &str) -> Vec<&'a Value> {
    let metrics = resource_metrics["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let of = metrics.iter().find(|of| of["name"] == name);
    let kinds = ["gauge", "sum", "histogram"];
    let points = of.and_then(|of| kinds.iter().find_map(|kind| of.get(kind)?["dataPoints"].as_array()));
    points.map(|points| points.iter().collect()).unwrap_or_default()
}

fn attribute_of<'a>(point: &'a Value, name: &str) -> Option<&'a str> {
    let attributes = point["attributes"].as_array()?;
    attributes.iter().find(|of| of["key"] == name)?["value"]["stringValue"].as_str()
}

#[test]
fn intervals_add_up_to_the_counts_of_the_record() {
    let study = stored("disk");
    let of = &study.runs[0];
    let mut otlp = Otlp::new(&Identity::of(&study, &of.run), of.run.started_unix_ns);
    let mut last = Value::Null;
    let mut end = 0.0;
    for rows in of.intervals.chunk_by(|a, b| a.end_s == b.end_s) {
        let found = otlp.interval(rows, |_| false, &[]);
        if rows[0].phase == Phase::Measure {
            (last, end) = (parse(&found), rows[0].end_s);
        }
    }
    let measured: u64 = of.measured("read").map(|of| of.completed).sum();
    let found = points(&last, "plimsoll.operations.completed");
    let read = found.iter().find(|of| {
        attribute_of(of, "operation") == Some("read") && attribute_of(of, "phase") == Some("measure")
    });
    let read = read.unwrap_or_else(|| panic!("{last}"));
    assert_eq!(read["asInt"], measured.to_string());
    assert_eq!(read["startTimeUnixNano"], of.run.started_unix_ns.to_string());
    assert_eq!(
        read["timeUnixNano"],
        (i128::from(of.run.started_unix_ns) + (end * 1e9).round() as i128).to_string()
    );
    assert_eq!(last["resource"]["attributes"][0]["value"]["stringValue"], "plimsoll");
}

#[test]
fn times_are_cumulative_and_what_is_absent_has_no_point() {
    let study = stored("disk");
    let of = &study.runs[0];
    let row = of.measured("read").next().unwrap().clone();
    let histograms = &of.histograms["read"];
    let times = Times {
        operation: "read",
        response: &histograms.response,
        service: &histograms.service,
        lag: &histograms.lag,
        censored: None,
    };
    let mut otlp = Otlp::new(&Identity::default(), 0);
    otlp.interval(std::slice::from_ref(&row), |_| false, &[times]);
    let absent = Interval { offered: None, concurrency: f64::NAN, completed: 0, ..row.clone() };
    let second = parse(&otlp.interval(&[absent], |_| true, &[times]));
    let histogram = points(&second, "plimsoll.response.time")[0];
    assert_eq!(histogram["count"], (2 * histograms.response.len()).to_string());
    let counts = histogram["bucketCounts"].as_array().unwrap();
    assert_eq!(counts.len(), 1 + histogram["explicitBounds"].as_array().unwrap().len());
    let sum: u64 = counts.iter().map(|count| count.as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 2 * histograms.response.len());
    // The arrivals of the first interval are still known; the rest is not.
    assert_eq!(points(&second, "plimsoll.operations.offered")[0]["asInt"], row.offered.unwrap().to_string());
    for name in ["plimsoll.operations.in_flight", "plimsoll.response.mean", "plimsoll.response.quantile"] {
        assert!(points(&second, name).is_empty(), "{name}");
    }
    assert_eq!(attribute_of(points(&second, "plimsoll.load")[0], "derived"), Some("true"));
    let whole = parse(&otlp.measured(1.0, &[times], |_| false).unwrap());
    assert_eq!(points(&whole, "plimsoll.response.time")[0]["count"], histograms.response.len().to_string());
    assert!(otlp.measured(1.0, &[], |_| false).is_none());
    // What was due in the measured phase and ends after it, or never, is among its times.
    let mut never = model::study::Times::default();
    never.response.record_n(1_000, 7).unwrap();
    let late = Interval { phase: model::Phase::CoolDown, ..row };
    let last = parse(&otlp.interval(&[late], |_| false, &[Times { censored: Some(&never), ..times }]));
    let point = points(&last, "plimsoll.response.time")[0];
    assert_eq!(point["count"], (3 * histograms.response.len() + 7).to_string());
    assert_eq!(point["bucketCounts"].as_array().unwrap().last().unwrap(), "7");
    assert_eq!(attribute_of(point, "phase"), Some("measure"));
}

#[test]
fn readings_have_their_instance_and_hostile_names_stay_texts() {
    let mut study = stored("disk");
    let table = &mut study.runs[0].readings;
    table.columns[0].instance = "a\"]},{\u{1}\n".into();
    let otlp = Otlp::new(&Identity { trial: "t\"".into(), ..Identity::default() }, 5);
    let sample = |at: usize| table.values[at].last().copied().unwrap();
    let found = parse(&otlp.readings(1.0, &table.columns, sample).unwrap());
    let name = Name::of(&table.columns[0].metric).dotted;
    let of_instance = points(&found, &name)
        .into_iter()
        .find(|point| attribute_of(point, "resource") == Some("a\"]},{\u{1}\n"))
        .unwrap();
    assert_eq!(of_instance["asDouble"], sample(0));
    assert_eq!(attribute_of(of_instance, "trial"), Some("t\""));
    let count: usize = found["scopeMetrics"][0]["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["gauge"]["dataPoints"].as_array().unwrap().len())
        .sum();
    assert_eq!(count, (0..table.columns.len()).filter(|at| sample(*at).is_finite()).count());
    assert!(otlp.readings(1.0, &table.columns, |_| f64::NAN).is_none());
    let line = request(["{}", "{}"]);
    assert_eq!(line, "{\"resourceMetrics\":[{},{}]}");
}
