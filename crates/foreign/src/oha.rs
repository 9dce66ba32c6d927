//! The JSON of oha (`--output-format json`, before 1.5 `--json`). Times are seconds.

use model::LatencySummary;
use serde_json::Value;

use crate::lines::counted;
use crate::load::{Whole, of_percentiles};
use crate::{Content, Fault, Format, LoadRun, Options, Source, json};

pub(crate) static FORMAT: Format = Format {
    name: "oha",
    about: "oha JSON: requests, errors, bytes and latencies",
    recognize: |head| {
        json::names(head).first() == Some(&"summary")
            && ["\"successRate\"", "\"requestsPerSec\"", "\"slowest\""].iter().all(|name| head.contains(name))
    },
    open,
};

/// Requests that were in flight when the time was over. They are no failures.
const AT_THE_END: &str = "aborted due to deadline";

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    Content::load(vec![run(&json::document(from)?)?])
}

/// Names with a count each.
fn counts<'a>(document: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, u64)> {
    let object = document.get(name).and_then(Value::as_object);
    object.into_iter().flatten().filter_map(|(name, count)| Some((name.as_str(), count.as_u64()?)))
}

fn run(document: &Value) -> Result<LoadRun, Fault> {
    let of = |name: &str| json::number(document, &["summary", name]);
    let seconds = of("total").filter(|seconds| *seconds > 0.0);
    let seconds = seconds.ok_or_else(|| Fault::at(0, "the summary of oha has no duration (total)", ""))?;
    let mut run = LoadRun { tool: "oha", workload: "http", seconds, ..LoadRun::default() };
    let (mut completed, mut failed) = (0_u64, 0_u64);
    for (status, count) in counts(document, "statusCodeDistribution") {
        completed = completed.saturating_add(count);
        if !status.parse().is_ok_and(|status: u16| (200..400).contains(&status)) {
            failed = failed.saturating_add(count);
        }
    }
    let has_errors = failed > 0;
    let mut aborted = 0;
    for (error, count) in counts(document, "errorDistribution") {
        if error == AT_THE_END {
            aborted = count;
        } else {
            completed = completed.saturating_add(count);
            failed = failed.saturating_add(count);
        }
    }
    if aborted > 0 {
        run.notes.push(format!("left out: {} in flight at the end", counted(aborted, "request")));
    }
    if has_errors {
        run.notes.push("a status other than 200 to 399 is a failure; oha counts it as a success".into());
    }
    let bytes = json::count(document, &["summary", "totalData"]);
    run.notes.push(match bytes {
        Some(_) => {
            "oha does not report its URL and connections; bytes include those of failed responses".into()
        }
        None => "oha does not report its URL, connections and bytes".into(),
    });
    let times = LatencySummary {
        min: json::scaled(document, &["summary", "fastest"], 1e3),
        mean: json::scaled(document, &["summary", "average"], 1e3),
        max: json::scaled(document, &["summary", "slowest"], 1e3),
        ..percentiles(document)
    };
    let whole = Whole { completed, failed, bytes: bytes.unwrap_or(0), times, concurrency: f64::NAN };
    run.add_whole("request", whole);
    Ok(run)
}

fn percentiles(document: &Value) -> LatencySummary {
    let points = document.get("latencyPercentiles").and_then(Value::as_object);
    of_percentiles(points.into_iter().flatten().filter_map(|(name, seconds)| {
        let percent = name.strip_prefix('p')?.parse().ok()?;
        Some((percent, seconds.as_f64().filter(|seconds| seconds.is_finite())? * 1e3))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LoadRun, Fault> {
        crate::testing::run("oha", text.as_bytes(), &Options::default())
    }

    const TEXT: &str = r#"{
  "summary": {"successRate": 1.0, "total": 2.5, "slowest": 0.0525, "fastest": 0.0025, "average": 0.045,
    "requestsPerSec": 44.3, "totalData": 50000, "sizePerRequest": 500, "sizePerSec": 22155.7},
  "metrics": {"success_rate": 1.0, "latency_ms": {"p50": 44.4}},
  "responseTimeHistogram": {"0.0029": 1, "0.0078": 99},
  "latencyPercentiles": {"p10": 0.043, "p50": 0.044, "p90": 0.048, "p99": 0.052, "p99.9": null, "p99.99": 0.0524},
  "rps": {"mean": 4192.4, "stddev": 1.0},
  "details": {"DNSDialup": {"average": null}},
  "statusCodeDistribution": {"200": 90, "404": 8},
  "errorDistribution": {"aborted due to deadline": 2, "connection refused": 3}
}"#;

    #[test]
    fn a_run_has_its_figures() {
        let run = read(TEXT).unwrap();
        assert_eq!((run.tool, run.seconds, run.shape.clone()), ("oha", 2.5, None));
        let of = &run.intervals[0];
        assert_eq!((of.completed, of.failed, of.bytes), (101, 11, 50_000));
        let times = of.response;
        assert_eq!((times.min, times.mean, times.p50, times.p99, times.max), (2.5, 45.0, 44.0, 52.0, 52.5));
        assert!(times.p95.is_nan() && times.p999.is_nan());
        for part in ["left out: 2 requests in flight", "counts it as a success"] {
            assert!(run.notes.iter().any(|note| note.contains(part)), "{:?}", run.notes);
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        assert!(read(&TEXT[..500]).unwrap_err().what.contains("not complete"));
        let fault = read(&TEXT.replace("\"total\": 2.5", "\"total\": null")).unwrap_err();
        assert!(fault.what.contains("no duration"), "{fault}");
        for text in [
            r#"{"summary": {"total": 1}}"#,
            r#"{"a": {"successRate": 1, "requestsPerSec": 1, "slowest": 1}}"#,
        ] {
            assert!(!(FORMAT.recognize)(&crate::Head::of(text)), "{text}");
        }
    }
}
