//! The summary: `--summary-export` (figures directly in a metric), `handleSummary` (in `values`), and the machine-readable one
//! of k6 1.5 and later (a list of metrics).

use std::collections::BTreeMap;

use model::LatencySummary;
use serde_json::Value;

use super::Users;
use crate::load::{Whole, of_percentiles};
use crate::number::count;
use crate::{Fault, LoadRun, json};

pub(super) fn recognize(head: &str) -> bool {
    let names = json::names(head);
    let has = |name: &str| names.contains(&name);
    let is_of_k6 =
        ["\"http_req_duration\"", "\"http_reqs\"", "\"iteration_duration\"", "\"summaryTrendStats\""]
            .iter()
            .any(|name| head.contains(name));
    let is_listed = has("results")
        && has("metadata")
        && ["\"k6_version\"", "\"k6Version\""].iter().any(|name| head.contains(name));
    let is_cut = has("root_group") && (has("state") || has("options"));
    (has("metrics") && is_of_k6) || is_listed || is_cut
}

/// The values of each metric, whatever the layout.
fn metrics(document: &Value) -> BTreeMap<&str, &Value> {
    let mut found = BTreeMap::new();
    if let Some(metrics) = document.get("metrics").and_then(Value::as_object) {
        for (name, metric) in metrics {
            found.insert(name.as_str(), metric.get("values").unwrap_or(metric));
        }
    }
    for metric in document.pointer("/results/metrics").and_then(Value::as_array).into_iter().flatten() {
        if let (Some(name), Some(values)) = (metric.get("name").and_then(Value::as_str), metric.get("values"))
        {
            found.insert(name, values);
        }
    }
    found
}

pub(super) fn run(document: &Value) -> Result<LoadRun, Fault> {
    let metrics = metrics(document);
    let number = |metric: &str, name: &str| metrics.get(metric).and_then(|of| json::number(of, &[name]));
    let Some(completed) = number("http_reqs", "count").filter(|count| *count >= 0.0) else {
        return Err(Fault::at(
            0,
            "the summary of k6 has no HTTP requests (http_reqs)",
            "only the HTTP requests of k6 are read",
        ));
    };
    let mut run = LoadRun { tool: "k6", workload: "http", ..LoadRun::default() };
    run.set_scripted();
    let rate = number("http_reqs", "rate").filter(|rate| *rate > 0.0);
    let stated = json::number(document, &["state", "testRunDurationMs"])
        .map(|ms| ms / 1000.0)
        .or_else(|| json::number(document, &["config", "duration"]))
        .filter(|seconds| *seconds > 0.0);
    run.seconds = match (stated, rate) {
        (Some(seconds), _) => seconds,
        (None, Some(rate)) if completed > 0.0 => {
            run.notes.push("the duration is computed: the number of requests divided by their rate".into());
            completed / rate
        }
        _ => return Err(Fault::at(0, "the summary of k6 has neither a duration nor a rate of requests", "")),
    };
    let version = ["/metadata/k6_version", "/metadata/k6Version"].iter().find_map(|at| document.pointer(at));
    if let Some(version) = version.and_then(Value::as_str) {
        run.version = version.to_string();
    }
    let failed = failed(&metrics, completed);
    if failed.is_none() {
        run.notes.push("k6 before 0.31 does not report failed requests: they count as successful".into());
    }
    let bytes = number("data_received", "count").filter(|bytes| *bytes >= 0.0);
    run.notes.push(match bytes {
        Some(_) => "bytes are all that were received, with headers and failed responses".into(),
        None => "the summary has no received bytes".into(),
    });
    let times = metrics.get("http_req_duration").map_or(LatencySummary::ABSENT, |of| times(of));
    let users = Users {
        most: number("vus_max", "max").or(number("vus", "max")).or(number("vus_max", "value")),
        iterations: number("iterations", "count"),
        dropped: number("dropped_iterations", "count").filter(|count| *count > 0.0),
    };
    users.add_to(&mut run);
    let impossible = |what: &str| Fault::at(0, format!("the number of {what} is none that can be"), "");
    let completed = count(completed).ok_or_else(|| impossible("requests (http_reqs)"))?;
    run.add_whole(
        "request",
        Whole {
            completed,
            failed: count(failed.unwrap_or(0.0))
                .ok_or_else(|| impossible("failed requests (http_req_failed)"))?,
            bytes: count(bytes.unwrap_or(0.0)).ok_or_else(|| impossible("bytes (data_received)"))?,
            times,
            concurrency: f64::NAN,
        },
    );
    Ok(run)
}

/// Requests that failed: `passes` of the rate `http_req_failed` are those that did, which its value confirms.
fn failed(metrics: &BTreeMap<&str, &Value>, completed: f64) -> Option<f64> {
    let of = metrics.get("http_req_failed")?;
    let number = |name: &str| json::number(of, &[name]);
    let share = number("rate").or(number("value"));
    let passes = number("passes").or(number("matches"));
    let fails = number("fails").or_else(|| Some(number("total")? - passes?));
    match (share, passes, fails) {
        (Some(share), Some(passes), Some(fails)) => {
            let near = |part: f64| (part - share * (passes + fails)).abs() < 0.5;
            match () {
                () if near(passes) => Some(passes),
                () if near(fails) => Some(fails),
                () => Some(share * completed),
            }
        }
        (Some(share), _, _) => Some(share * completed),
        (None, passes, _) => passes,
    }
}

/// Milliseconds.
fn times(of: &Value) -> LatencySummary {
    let points = of.as_object().into_iter().flatten().filter_map(|(name, value)| {
        // `p(90)`, and `p90` in the machine-readable summary of k6 1.
        let percent = name.strip_prefix('p')?.trim_start_matches('(').trim_end_matches(')').parse().ok()?;
        Some((percent, value.as_f64().filter(|ms| ms.is_finite())?))
    });
    let mut times = of_percentiles(points);
    let number = |name: &str| json::number(of, &[name]);
    for (part, name) in
        [(&mut times.min, "min"), (&mut times.mean, "avg"), (&mut times.p50, "med"), (&mut times.max, "max")]
    {
        if let Some(ms) = number(name) {
            *part = ms;
        }
    }
    times
}
