//! The summary of k6, in the layout of its `--summary-export`.

use model::run::Run;
use model::{LatencySummary, Shape};
use serde_json::{Map, Value, json};

use model::result::TrialResult;

/// The summary of a trial of an HTTP load.
///
/// `http_req_duration` is the service time: k6 has no intended start of a request. The response time, from the intended
/// start, is the trend `plimsoll_response_time`.
///
/// # Errors
/// Why the trial has no summary, and what to do.
pub fn k6(trial: &TrialResult, run: &Run) -> Result<Value, String> {
    let Some(whole) = trial.whole().filter(|of| of.completed > 0 && trial.measured_s > 0.0) else {
        return Err(format!("no request completed in {}, so there is no summary", trial.trial));
    };
    let (completed, failed) = (whole.completed, whole.failed);
    let per_s = |count: u64| count as f64 / trial.measured_s;
    let bytes = (whole.bytes_per_s * trial.measured_s).round();
    let mut metrics = Map::new();
    let mut add = |name: &str, value: Value| metrics.insert(name.to_string(), value);
    add("http_reqs", json!({ "count": completed, "rate": per_s(completed) }));
    // Requests that never ended may have failed: a threshold would take the share of the others for that of all.
    if whole.censored == 0 {
        // `passes` counts the requests that failed: the condition of this rate is true for them.
        let value = failed as f64 / completed as f64;
        let fails = completed - failed.min(completed);
        add("http_req_failed", json!({ "passes": failed, "fails": fails, "value": value }));
    }
    add("http_req_duration", trend(&whole.service_ms));
    add("plimsoll_response_time", trend(&whole.response_ms));
    if bytes > 0.0 {
        add("data_received", json!({ "count": bytes, "rate": whole.bytes_per_s }));
    }
    if let Some(Shape::Closed { users, .. }) = &run.load.shape {
        let users = users.largest();
        add("vus_max", json!({ "value": users, "min": users, "max": users }));
    }
    let root = json!({
        "name": "", "path": "", "id": "d41d8cd98f00b204e9800998ecf8427e", "groups": {}, "checks": {}
    });
    Ok(json!({ "root_group": root, "metrics": metrics }))
}

/// The statistics of a trend; those that are not known are left out, and so are those of which only a lower bound is known:
/// k6 and its thresholds would take it for the value.
fn trend(times: &LatencySummary) -> Value {
    let parts = [
        ("avg", "mean"),
        ("min", "min"),
        ("med", "p50"),
        ("max", "max"),
        ("p(90)", "p90"),
        ("p(95)", "p95"),
        ("p(99)", "p99"),
        ("p(99.9)", "p999"),
    ];
    let known = parts.into_iter().filter_map(|(name, part)| match times.bounded(part)? {
        (ms, false) => Some((name.to_string(), json!(ms))),
        (_, true) => None,
    });
    Value::Object(known.collect())
}
