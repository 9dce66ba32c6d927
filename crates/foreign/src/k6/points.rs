//! Single measurements: `--out csv` and `--out json`.

use serde_json::Value;

use super::Users;
use crate::input::{Lines, Text};
use crate::lines::Unread;
use crate::requests::{Request, Requests};
use crate::table::Rows;
use crate::{Fault, LoadRun, Source, number};

pub(super) fn is_csv(head: &str) -> bool {
    head.trim_start().starts_with("metric_name,timestamp,metric_value")
}

pub(super) fn is_lines(head: &str) -> bool {
    let Some(first) = head.trim_start().lines().next() else { return false };
    let Ok(value) = serde_json::from_str::<Value>(first) else { return false };
    let kind = value.get("type").and_then(Value::as_str);
    matches!(kind, Some("Metric" | "Point")) && value.get("metric").is_some() && value.get("data").is_some()
}

/// A measurement. What is missing is empty.
#[derive(Default)]
struct Point<'a> {
    metric: &'a str,
    unix_ns: i64,
    value: f64,
    name: &'a str,
    url: &'a str,
    status: &'a str,
    error_code: &'a str,
    expected: &'a str,
}

#[derive(Default)]
struct Points {
    requests: Requests,
    users: Users,
    count: u64,
    unread: Unread,
    /// Times are whole seconds.
    is_coarse: bool,
    notes: Vec<String>,
}

impl Points {
    /// Adds a measurement; false if it makes no sense.
    fn add(&mut self, point: &Point<'_>) -> bool {
        if !point.value.is_finite() {
            return false;
        }
        let add = |sum: &mut Option<f64>| *sum = Some(sum.unwrap_or(0.0) + point.value);
        match point.metric {
            "vus" => self.users.most = Some(self.users.most.unwrap_or(0.0).max(point.value)),
            "iterations" => add(&mut self.users.iterations),
            "dropped_iterations" => add(&mut self.users.dropped),
            "http_req_duration" => {
                let Some(took_ns) = number::count(point.value * 1e6) else { return false };
                let end_ns = point.unix_ns;
                let name = [point.name, point.url, "request"].into_iter().find(|name| !name.is_empty());
                self.count += 1;
                self.requests.add(&Request {
                    operation: name.unwrap_or_default(),
                    begin_unix_ns: end_ns.saturating_sub(i64::try_from(took_ns).unwrap_or(i64::MAX)),
                    took_ns,
                    has_failed: has_failed(point),
                    bytes: 0,
                });
            }
            _ => {}
        }
        true
    }

    fn finish(self) -> Result<LoadRun, Fault> {
        let Some(mut run) = self.requests.finish("k6", "http")? else {
            return Err(match self.unread.count {
                0 => Fault::at(
                    0,
                    "the file has no HTTP requests (http_req_duration)",
                    "was the test stopped too early?",
                ),
                _ => {
                    Fault::at(self.unread.first_line, "the measurement cannot be read", "the file is damaged")
                }
            });
        };
        run.notes.extend(self.notes);
        self.unread.note(&mut run.notes);
        run.notes.push("k6 does not report the bytes of each request".into());
        if self.is_coarse {
            run.notes.push(
                "times are whole seconds: intervals of less than a few seconds are inexact; \
                 K6_CSV_TIME_FORMAT=unix_milli writes more"
                    .into(),
            );
        }
        self.users.add_to(&mut run);
        Ok(run)
    }
}

/// Whether a request failed: by the tag that k6 sets since 0.31, or by its error or status.
fn has_failed(point: &Point<'_>) -> bool {
    match point.expected {
        "true" => false,
        "false" => true,
        _ => {
            let is_error = !matches!(point.error_code, "" | "0");
            is_error || !point.status.parse().is_ok_and(|status: u16| (200..400).contains(&status))
        }
    }
}

/// Nanoseconds since 1970 of a number of seconds or of their parts, or of a date with a zone.
pub(super) fn unix_ns(text: &str) -> Option<i64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: i64 = text.parse().ok()?;
        // 10 digits are seconds until 2286.
        let factor = match text.len() {
            ..=10 => 1_000_000_000,
            11..=13 => 1_000_000,
            14..=16 => 1_000,
            _ => 1,
        };
        return number.checked_mul(factor);
    }
    let stamp: jiff::Timestamp = text.parse().ok()?;
    i64::try_from(stamp.as_nanosecond()).ok()
}

pub(super) fn csv(from: Source) -> Result<LoadRun, Fault> {
    let mut rows = Rows::new(Text::new(from), b',');
    let mut points = Points::default();
    let mut names: Vec<String> = Vec::new();
    loop {
        let row = match rows.next() {
            Ok(None) => break,
            Ok(Some(row)) => row,
            Err(fault) if points.count > 0 => {
                points.notes.push(format!("{fault}; what follows was left out"));
                break;
            }
            Err(fault) => return Err(fault),
        };
        if row.cell(0) == Some(b"metric_name") {
            names = row.cells().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect();
            continue;
        }
        let text = |name: &str| {
            let at = names.iter().position(|known| known == name)?;
            std::str::from_utf8(row.cell(at)?).ok()
        };
        let stamp = text("timestamp").unwrap_or_default();
        let (Some(metric), Some(unix_ns), Some(value)) =
            (text("metric_name"), unix_ns(stamp), text("metric_value").and_then(|value| value.parse().ok()))
        else {
            points.unread.add(row.line);
            continue;
        };
        if row.len() < names.len() {
            points.unread.add(row.line);
            continue;
        }
        points.is_coarse |= stamp.len() == 10 || stamp.len() == 20;
        let is_read = points.add(&Point {
            metric,
            unix_ns,
            value,
            name: text("name").unwrap_or_default(),
            url: text("url").unwrap_or_default(),
            status: text("status").unwrap_or_default(),
            error_code: text("error_code").unwrap_or_default(),
            expected: text("expected_response").unwrap_or_default(),
        });
        if !is_read {
            points.unread.add(row.line);
        }
    }
    points.finish()
}

pub(super) fn lines(from: Source) -> Result<LoadRun, Fault> {
    let mut lines = Lines::new(from);
    let mut points = Points::default();
    while let Some(line) = lines.next()? {
        if line.text.trim().is_empty() {
            continue;
        }
        if !is_read(line.text, &mut points) {
            points.unread.add(line.number);
        }
    }
    points.finish()
}

/// Reads a line; false if it is damaged.
fn is_read(line: &str, points: &mut Points) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return false };
    if value.get("type").and_then(Value::as_str) != Some("Point") {
        return value.is_object();
    }
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let number = value.pointer("/data/value").and_then(Value::as_f64);
    let (Some(metric), Some(unix_ns), Some(number)) =
        (text("/metric"), text("/data/time").and_then(unix_ns), number)
    else {
        return false;
    };
    let tag = |name: &str| text(&format!("/data/tags/{name}")).unwrap_or_default();
    points.add(&Point {
        metric,
        unix_ns,
        value: number,
        name: tag("name"),
        url: tag("url"),
        status: tag("status"),
        error_code: tag("error_code"),
        expected: tag("expected_response"),
    })
}
