//! Reports of vegeta: JSON, with or without buckets; text; and the histogram (`hist`). Times of JSON are nanoseconds.
//!
//! The attack lasts from the first request to the last one; then vegeta waits for the last response. Both are the measured time.

use model::{LatencySummary, Level, Process, Profile, Shape};
use serde_json::Value;

use crate::input::{self, Lines};
use crate::lines;
use crate::load::{Whole, of_percentiles};
use crate::number::{count, milliseconds};
use crate::{Content, Fault, Format, LoadRun, Options, Source, json};

pub(crate) static FORMAT: Format = Format {
    name: "vegeta",
    about: "vegeta report as JSON, text or histogram: requests, errors, bytes and latencies",
    recognize: |head| is_json(head) || is_text(head),
    open,
};

/// The largest file, and the most buckets.
const BYTES_MAX: usize = 16 << 20;
const BUCKETS_MAX: usize = 10_000;

fn is_json(head: &str) -> bool {
    let names = json::names(head);
    ["latencies", "bytes_in", "bytes_out"].iter().all(|name| names.contains(name))
}

fn is_text(head: &str) -> bool {
    head.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().take(6).collect();
        words == ["Bucket", "#", "%", "Histogram"] || row(line).is_some_and(|(name, ..)| name == "Requests")
    })
}

/// A row of the text: `Requests      [total, rate, throughput]         50, 51.02, 48.80`.
fn row(line: &str) -> Option<(&str, Vec<&str>, Vec<&str>)> {
    let (name, rest) = line.split_once('[')?;
    let (names, values) = rest.split_once(']')?;
    let name = name.trim();
    let known = ["Requests", "Duration", "Latencies", "Bytes In", "Bytes Out", "Success", "Status Codes"];
    if !known.contains(&name) {
        return None;
    }
    Some((name, names.split(',').map(str::trim).collect(), values.split(',').map(str::trim).collect()))
}

/// A row of the histogram: `[0s,    1ms]   13  26.00%  ####`.
fn bucket(line: &str) -> Option<Bucket> {
    let (bounds, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
    let (low, high) = bounds.split_once(',')?;
    let high = high.trim();
    Some(Bucket {
        low_ms: milliseconds(low)?,
        high_ms: if high == "+Inf" { f64::INFINITY } else { milliseconds(high)? },
        count: rest.split_whitespace().next()?.parse().ok()?,
    })
}

/// Requests with latencies in a range.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    low_ms: f64,
    high_ms: f64,
    count: u64,
}

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let (head, whole) = input::peek(from)?;
    let is_json = is_json(&input::decoded(&head));
    let written = if is_json { of_json(whole)? } else { of_text(whole)? };
    Content::load(vec![written.finished()?])
}

/// What was read of a report. Times are milliseconds.
#[derive(Default)]
struct Written {
    requests: Option<u64>,
    rate_per_s: Option<f64>,
    attack_ms: Option<f64>,
    wait_ms: Option<f64>,
    success: Option<f64>,
    /// Requests by their status.
    statuses: Vec<(String, u64)>,
    bytes: Option<u64>,
    times: Option<LatencySummary>,
    buckets: Vec<Bucket>,
    began_unix_ns: Option<i64>,
    notes: Vec<String>,
}

fn of_json(from: Source) -> Result<Written, Fault> {
    let text = lines::whole(from, BYTES_MAX)?;
    let mut written = Written::default();
    // With `-every` there is a report after the other, each for all requests so far.
    let mut document = None;
    let mut count = 0;
    for found in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        match found {
            Ok(found) => {
                document = Some(found);
                count += 1;
            }
            Err(error) if count == 0 => {
                return Err(Fault::at(
                    error.line() as u64,
                    format!("the JSON is damaged: {error}"),
                    "write the report again",
                ));
            }
            Err(error) => written.notes.push(format!("the last report is damaged: {error}")),
        }
    }
    let Some(document) = document else { return Err(Fault::at(0, "the file has no report", "")) };
    if count > 1 {
        written.notes.push(format!("the last of {count} reports is read: each has all requests so far"));
    }
    let ms = |path: &[&str]| json::number(&document, path).map(|ns| ns / 1e6);
    let latency = |name: &str| ms(&["latencies", name]).unwrap_or(f64::NAN);
    let percentiles = [(50.0, "50th"), (90.0, "90th"), (95.0, "95th"), (99.0, "99th")];
    written.times = Some(LatencySummary {
        min: latency("min"),
        mean: latency("mean"),
        max: latency("max"),
        ..of_percentiles(percentiles.map(|(at, name)| (at, latency(name))))
    });
    written.requests = json::count(&document, &["requests"]);
    written.rate_per_s = json::number(&document, &["rate"]);
    written.attack_ms = ms(&["duration"]);
    written.wait_ms = ms(&["wait"]);
    written.success = json::number(&document, &["success"]);
    written.bytes = json::count(&document, &["bytes_in", "total"]);
    let began = document.get("earliest").and_then(Value::as_str);
    let began = began.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    written.began_unix_ns = began.and_then(|stamp| i64::try_from(stamp.as_nanosecond()).ok());
    for (status, count) in document.get("status_codes").and_then(Value::as_object).into_iter().flatten() {
        written.statuses.extend(count.as_u64().map(|count| (status.clone(), count)));
    }
    let mut lows: Vec<(f64, u64)> = Vec::new();
    for (low, count) in document.get("buckets").and_then(Value::as_object).into_iter().flatten() {
        if let (Ok(low), Some(count)) = (low.parse::<u64>(), count.as_u64()) {
            lows.push((low as f64 / 1e6, count));
        }
    }
    lows.truncate(BUCKETS_MAX);
    lows.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, (low_ms, count)) in lows.iter().enumerate() {
        let high_ms = lows.get(at + 1).map_or(f64::INFINITY, |(low, _)| *low);
        written.buckets.push(Bucket { low_ms: *low_ms, high_ms, count: *count });
    }
    Ok(written)
}

fn of_text(from: Source) -> Result<Written, Fault> {
    let mut lines = Lines::new(from);
    let mut written = Written::default();
    while let Some(line) = lines.next()? {
        if let Some(bucket) = bucket(line.text) {
            if written.buckets.len() < BUCKETS_MAX {
                written.buckets.push(bucket);
            }
            continue;
        }
        let Some((name, names, values)) = row(line.text) else { continue };
        let value = |wanted: &str| {
            let at = names.iter().position(|name| *name == wanted)?;
            values.get(at).copied()
        };
        let number = |wanted: &str| value(wanted)?.parse::<f64>().ok().filter(|number| number.is_finite());
        match name {
            "Requests" if written.requests.is_some() => {
                return Err(Fault::at(line.number, "the file has several reports", "split it"));
            }
            "Requests" => {
                written.requests = value("total").and_then(|total| total.parse().ok());
                written.rate_per_s = number("rate");
            }
            "Duration" => {
                written.attack_ms = value("attack").and_then(milliseconds);
                written.wait_ms = value("wait").and_then(milliseconds);
            }
            "Latencies" => {
                let ms = |name: &str| value(name).and_then(milliseconds).unwrap_or(f64::NAN);
                let percentiles = [(50.0, "50"), (90.0, "90"), (95.0, "95"), (99.0, "99")];
                written.times = Some(LatencySummary {
                    min: ms("min"),
                    mean: ms("mean"),
                    max: ms("max"),
                    ..of_percentiles(percentiles.map(|(at, name)| (at, ms(name))))
                });
            }
            "Bytes In" => written.bytes = value("total").and_then(|total| total.parse().ok()),
            "Success" => {
                let share = value("ratio").and_then(|ratio| ratio.strip_suffix('%')?.parse::<f64>().ok());
                written.success = share.map(|share| share / 100.0);
            }
            "Status Codes" => {
                for part in line.text.split_whitespace().take(1000) {
                    if let Some((status, count)) = part.split_once(':')
                        && let (Ok(_), Ok(count)) = (status.parse::<u16>(), count.parse())
                    {
                        written.statuses.push((status.to_string(), count));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(written)
}

impl Written {
    fn finished(mut self) -> Result<LoadRun, Fault> {
        let in_buckets = self.buckets.iter().fold(0_u64, |sum, bucket| sum.saturating_add(bucket.count));
        let completed = match (self.requests, self.buckets.is_empty()) {
            (Some(requests), _) => requests,
            (None, false) => in_buckets,
            (None, true) => {
                return Err(Fault::at(0, "the report has no number of requests", "write the report again"));
            }
        };
        let mut run = LoadRun {
            tool: "vegeta",
            workload: "http",
            began_unix_ns: self.began_unix_ns,
            notes: std::mem::take(&mut self.notes),
            ..LoadRun::default()
        };
        let attack_ms = self.attack_ms.filter(|ms| *ms > 0.0);
        run.seconds =
            attack_ms.map_or(0.0, |attack| (attack + self.wait_ms.unwrap_or(0.0).max(0.0)) / 1000.0);
        if attack_ms.is_none() {
            run.notes.push("the report has no duration: the throughput is not known".into());
        }
        // The reported rate counts one request too many: between the first and the last there is one interval less.
        let set = attack_ms.filter(|_| completed > 1).map(|ms| (completed - 1) as f64 / (ms / 1000.0));
        if let Some(rate) = set.or(self.rate_per_s).filter(|rate| rate.is_finite() && *rate > 0.0) {
            run.shape =
                Some(Shape::Open { rate_per_s: Profile::Constant(rate), arrivals: Process::Constant });
            run.notes
                .push("the rate is the mean of the attack; vegeta does not report its pace and URL".into());
        }
        let by_status = self.statuses.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let failed = if by_status == completed && !self.statuses.is_empty() {
            let is_good = |status: &str| status.parse().is_ok_and(|status: u16| (200..400).contains(&status));
            let failed = self.statuses.iter().filter(|(status, _)| !is_good(status));
            failed.fold(0_u64, |sum, (_, count)| sum.saturating_add(*count))
        } else if let Some(success) = self.success {
            run.notes.push("failed requests are from the share of successful ones".into());
            let successful = count(completed as f64 * success.clamp(0.0, 1.0)).unwrap_or(completed);
            completed.saturating_sub(successful)
        } else {
            run.notes.push("the report does not say which requests failed: all count as successful".into());
            0
        };
        run.notes.push(match self.bytes {
            Some(_) => "bytes are those of all bodies, also of failed responses".into(),
            None => "the report has no bytes".into(),
        });
        for bucket in self.buckets.iter().filter(|bucket| bucket.count > 0) {
            let name = match bucket.high_ms.is_finite() {
                true => format!("histogram.{} to {} ms", bucket.low_ms, bucket.high_ms),
                false => format!("histogram.{} ms and more", bucket.low_ms),
            };
            run.facts.insert(name, Level::Count(bucket.count));
        }
        let times = match self.times {
            Some(times) => times,
            None => {
                run.notes.push("percentiles are upper ends of buckets".into());
                of_buckets(&self.buckets, in_buckets)
            }
        };
        let bytes = self.bytes.unwrap_or(0);
        run.add_whole("request", Whole { completed, failed, bytes, times, concurrency: f64::NAN });
        Ok(run)
    }
}

/// Percentiles that the buckets have an upper end for.
fn of_buckets(buckets: &[Bucket], total: u64) -> LatencySummary {
    of_percentiles([50.0, 90.0, 95.0, 99.0, 99.9].into_iter().filter_map(|percent| {
        let mut below = 0.0;
        for bucket in buckets {
            below += bucket.count as f64;
            if total > 0 && below >= percent / 100.0 * total as f64 {
                return bucket.high_ms.is_finite().then_some((percent, bucket.high_ms));
            }
        }
        None
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LoadRun, Fault> {
        crate::testing::run("vegeta", text.as_bytes(), &Options::default())
    }

    const JSON: &str = r#"{"latencies":{"total":1479628377,"mean":29592567,"50th":42530201,"90th":46737314,"95th":48745695,"99th":48848598,"max":48848598,"min":632378},"buckets":{"0":13,"1000000":4,"5000000":33},"bytes_in":{"total":25000,"mean":500},"bytes_out":{"total":0,"mean":0},"earliest":"2020-09-13T12:26:40.5Z","latest":"2020-09-13T12:26:41.48Z","end":"2020-09-13T12:26:41.5Z","duration":980000000,"wait":20000000,"requests":50,"rate":51.02,"throughput":48.79,"success":0.9,"status_codes":{"0":2,"200":45,"500":3},"errors":["500 Internal Server Error"]}"#;

    const TEXT: &str = "Requests      [total, rate, throughput]         50, 51.02, 48.80\n\
        Duration      [total, attack, wait]             1s, 980ms, 20ms\n\
        Latencies     [min, mean, 50, 90, 95, 99, max]  632.378µs, 29.593ms, 42.53ms, 46.737ms, 48.746ms, 48.849ms, 48.849ms\n\
        Bytes In      [total, mean]                     25000, 500.00\n\
        Bytes Out     [total, mean]                     0, 0.00\n\
        Success       [ratio]                           90.00%\n\
        Status Codes  [code:count]                      0:2  200:45  500:3  \nError Set:\n500 Internal Server Error\n";

    #[test]
    fn json_and_text_have_the_same_figures() {
        for (text, mean, began) in [(JSON, 29.592567, Some(1_600_000_000_500_000_000)), (TEXT, 29.593, None)]
        {
            let run = read(text).unwrap();
            assert_eq!((run.tool, run.seconds, run.began_unix_ns), ("vegeta", 1.0, began));
            let of = &run.intervals[0];
            assert_eq!((of.completed, of.failed, of.bytes), (50, 5, 25_000));
            assert!((of.response.mean - mean).abs() < 1e-9);
            assert!((of.response.p95 - 48.7457).abs() < 1e-3 && of.response.p999.is_nan());
            assert_eq!(
                run.shape,
                Some(Shape::Open { rate_per_s: Profile::Constant(50.0), arrivals: Process::Constant })
            );
            assert_eq!(run.facts.contains_key("histogram.1 to 5 ms"), text == JSON);
        }
    }

    #[test]
    fn old_and_repeated_reports_are_read() {
        let old = r#"{"latencies":{"mean":29592567},"bytes_in":{"total":1},"bytes_out":{},"duration":2000000000,"requests":200,"success":0.995}"#;
        let run = read(old).unwrap();
        assert_eq!((run.intervals[0].failed, run.seconds), (1, 2.0));
        assert!(run.intervals[0].response.p50.is_nan());
        let run = read(&format!("{old}\n{JSON}\n{{")).unwrap();
        assert_eq!(run.intervals[0].completed, 50);
        assert!(run.notes.iter().any(|note| note.contains("last of 2 reports")), "{:?}", run.notes);
    }

    #[test]
    fn a_histogram_alone_has_upper_ends() {
        let text = "Bucket         #   %       Histogram\n[0s,    1ms]   130  26.00%  ###\n[1ms,   1m30s] 340 68.00%\n\
                    [1m30s, +Inf]  30  6.00%  #\n";
        let run = read(text).unwrap();
        let of = &run.intervals[0];
        assert_eq!((of.completed, run.seconds, run.shape.clone()), (500, 0.0, None));
        assert_eq!((of.response.p50, of.response.p90), (90_000.0, 90_000.0));
        assert!(of.response.p95.is_nan() && of.response.max.is_nan());
        assert_eq!(run.facts["histogram.90000 ms and more"], Level::Count(30));
        assert!(run.notes.iter().any(|note| note.contains("no duration")));
    }

    #[test]
    fn damaged_and_foreign_files_are_refused() {
        assert!(read(&JSON[..300]).unwrap_err().what.contains("damaged"));
        let fault = read(r#"{"latencies":{},"bytes_in":{},"bytes_out":{}}"#).unwrap_err();
        assert!(fault.what.contains("no number of requests"), "{fault}");
        for text in [r#"{"latencies":{}}"#, "Bucket # %\n", "[a, b] c\n", ""] {
            assert!(!(FORMAT.recognize)(&crate::Head::of(text)), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(Bucket # % Histogram\n)?((Requests \\[total, rate\\] |Duration \\[attack, wait\\] |\\[)?[a-zA-Z0-9%:., \\]+#µ-]{0,30}\n){0,10}") {
            let _ = open(Box::new(std::io::Cursor::new(text.into_bytes())), &Options::default());
        }

        #[test]
        fn no_number_is_a_panic(number in "-?[0-9]{1,25}(\\.[0-9]{1,3})?", at in 0_usize..60) {
            let mut parts: Vec<&str> = JSON.split(':').collect();
            let at = 1 + at % (parts.len() - 1);
            let changed = match parts[at].find(',') {
                Some(end) => format!("{number}{}", &parts[at][end..]),
                None => parts[at].to_string(),
            };
            parts[at] = &changed;
            let _ = open(Box::new(std::io::Cursor::new(parts.join(":").into_bytes())), &Options::default());
        }
    }
}
