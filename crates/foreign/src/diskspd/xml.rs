//! The XML of diskspd: one document, or several one after another. diskspd does not escape what it writes.

use std::io::{self, Read as _};

use roxmltree::{Document, Node, ParsingOptions};

use super::{Outcome, Part, Plan, RUNS_MAX, TARGETS_MAX, Target, began_of, number_of, start_of};
use crate::input::{Text, decoded, peek};
use crate::{Content, Fault, LoadRun, Source};

/// The longest file, and the most nodes of a document.
const FILE_BYTES_MAX: u64 = 64 << 20;
const NODES_MAX: u32 = 4_000_000;

const BEGIN: &str = "<Results>";
const END: &str = "</Results>";

pub(super) fn is_it(head: &str) -> bool {
    let Some(at) = head.find(BEGIN) else { return false };
    let after = head[at + BEGIN.len()..].trim_start();
    ["<System>", "<Profile>", "<TimeSpan>"].iter().any(|name| after.starts_with(name))
}

/// Whether it is XML; and the whole of it again.
pub(super) fn recognize(from: Source) -> Result<(bool, Source), Fault> {
    let (head, whole) = peek(from)?;
    Ok((is_it(&decoded(&head)), whole))
}

pub(super) fn open(from: Source) -> Result<Content, Fault> {
    let mut bytes = Vec::new();
    let read: io::Result<usize> = Text::new(from).take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Fault::of_file(&error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Fault::at(0, "the file is longer than 64 MiB", "split it"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let (mut runs, mut faults): (Vec<LoadRun>, Vec<Fault>) = (Vec::new(), Vec::new());
    let (mut rest, mut line) = (text.as_ref(), 1);
    let feeds = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count() as u64;
    while let Some(at) = rest.find(BEGIN) {
        line += feeds(&rest[..at]);
        rest = &rest[at..];
        // Without an end it goes on to the next one, or to the end of the file.
        let next = rest[BEGIN.len()..].find(BEGIN).map_or(rest.len(), |at| BEGIN.len() + at);
        let end = rest[..next].find(END).map(|at| at + END.len());
        read_document(&rest[..end.unwrap_or(next)], line, end.is_none(), &mut runs, &mut faults);
        if runs.len() > RUNS_MAX {
            return Err(Fault::at(line, "the file has more than 10,000 runs", "split it"));
        }
        line += feeds(&rest[..end.unwrap_or(next)]);
        rest = &rest[end.unwrap_or(next)..];
    }
    match (runs.first_mut(), faults.is_empty()) {
        (None, true) => Err(Fault::at(0, "no time span of diskspd has results", "was it stopped too early?")),
        (None, false) => Err(faults.swap_remove(0)),
        (Some(first), _) => {
            first.notes.extend(faults.iter().map(|fault| format!("left out: {fault}")));
            Content::load(runs)
        }
    }
}

/// Reads the time spans of a document.
fn read_document(text: &str, line: u64, is_cut: bool, runs: &mut Vec<LoadRun>, faults: &mut Vec<Fault>) {
    let mut text = escaped(text);
    if is_cut {
        faults.push(Fault::at(
            line,
            "the document that begins here has no end",
            "diskspd was stopped, or the file was cut",
        ));
        // The time spans after the profile are results.
        let profile = text.find("</Profile>").unwrap_or(text.len());
        let Some(whole) = text[profile..].rfind("</TimeSpan>") else { return };
        text.truncate(profile + whole + "</TimeSpan>".len());
        text.push_str(END);
    }
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(&text, options) {
        Ok(document) => document,
        Err(error) => {
            let row = u64::from(error.pos().row).max(1);
            faults.push(Fault::at(line + row - 1, format!("is not XML: {error}"), "write the result again"));
            return;
        }
    };
    let root = document.root_element();
    let system = child(root, "System");
    let version = system.and_then(|of| child(of, "Tool")).map_or("", |tool| text_of(tool, "Version"));
    let host = system.map_or("", |of| text_of(of, "ComputerName"));
    let started = system.and_then(|of| start_of(text_of(of, "RunTime")));
    let spans = child(root, "Profile").and_then(|profile| child(profile, "TimeSpans"));
    let plans: Vec<Plan> =
        spans.into_iter().flat_map(|spans| children(spans, "TimeSpan")).map(plan_of).collect();
    for (at, span) in children(root, "TimeSpan").enumerate() {
        let mut outcome = outcome_of(span);
        outcome.line = line + u64::from(document.text_pos_at(span.range().start).row).saturating_sub(1);
        outcome.number = at + 1;
        let began = began_of(started, plans.get(..at).unwrap_or_default());
        let line = outcome.line;
        match outcome.finish(plans.get(at), version, began) {
            Ok(run) => runs.push(LoadRun { host: host.to_string(), ..run }),
            Err(missing) => {
                let what = format!("the time span that begins here has no {missing}");
                faults.push(Fault::at(line, what, "run diskspd again"));
            }
        }
    }
}

/// The text with each `&` that begins no entity escaped.
fn escaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let name = part.split(';').next().filter(|name| name.len() < part.len()).unwrap_or_default();
        let is_entity = matches!(name, "amp" | "lt" | "gt" | "quot" | "apos")
            || name.strip_prefix('#').is_some_and(|code| {
                !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
            });
        out.push_str(if is_entity { "&" } else { "&amp;" });
        out.push_str(part);
    }
    out
}

fn children<'a, 'b>(of: Node<'a, 'b>, name: &str) -> impl Iterator<Item = Node<'a, 'b>> {
    of.children().filter(move |node| node.has_tag_name(name))
}

fn child<'a, 'b>(of: Node<'a, 'b>, name: &str) -> Option<Node<'a, 'b>> {
    of.children().find(|node| node.has_tag_name(name))
}

fn text_of<'a>(of: Node<'a, '_>, name: &str) -> &'a str {
    child(of, name).and_then(|node| node.text()).unwrap_or_default().trim()
}

fn number(of: Node<'_, '_>, name: &str) -> Option<f64> {
    number_of(text_of(of, name))
}

fn count(of: Node<'_, '_>, name: &str) -> Option<u64> {
    text_of(of, name).parse().ok()
}

fn is_true(of: Node<'_, '_>, name: &str) -> bool {
    matches!(text_of(of, name), "true" | "1")
}

fn plan_of(span: Node<'_, '_>) -> Plan {
    let targets = child(span, "Targets").into_iter().flat_map(|targets| children(targets, "Target"));
    Plan {
        duration_s: count(span, "Duration").unwrap_or(0),
        warm_up_s: count(span, "Warmup").unwrap_or(0),
        cool_down_s: count(span, "Cooldown").unwrap_or(0),
        pool_threads: count(span, "ThreadCount").unwrap_or(0),
        pool_outstanding: count(span, "RequestCount").unwrap_or(0),
        targets: targets.take(TARGETS_MAX).map(target_of).collect(),
    }
}

fn target_of(of: Node<'_, '_>) -> Target {
    let random_percent = match child(of, "Random") {
        Some(_) => number(of, "RandomRatio").unwrap_or(100.0),
        None => 0.0,
    };
    // Until 2.0.17, one element for both caches.
    let is_uncached = is_true(of, "DisableAllCache");
    let throughput =
        child(of, "Throughput").and_then(|node| Some((node.text()?.trim(), node.attribute("unit"))));
    let limit = throughput.filter(|(limit, _)| *limit != "0").map(|(limit, unit)| match unit {
        Some("IOPS") => format!("{limit} IOPS"),
        _ => format!("{limit} B/ms"),
    });
    Target {
        path: text_of(of, "Path").to_string(),
        block_bytes: count(of, "BlockSize"),
        random_percent: Some(random_percent),
        is_interlocked: is_true(of, "InterlockedSequential"),
        stride_bytes: count(of, "StrideSize"),
        write_percent: number(of, "WriteRatio"),
        outstanding: count(of, "RequestCount"),
        threads: count(of, "ThreadsPerFile"),
        is_cached: Some(!is_uncached && !is_true(of, "DisableOSCache")),
        is_write_through: Some(is_uncached || is_true(of, "WriteThrough")),
        offset_bytes: count(of, "BaseFileOffset").filter(|bytes| *bytes > 0),
        size_bytes: count(of, "MaxFileSize").filter(|bytes| *bytes > 0),
        limit,
    }
}

fn outcome_of(span: Node<'_, '_>) -> Outcome {
    let mut outcome = Outcome {
        seconds: number(span, "TestTimeSeconds"),
        threads: count(span, "ThreadCount"),
        has_error: child(span, "Error").is_some(),
        ..Outcome::default()
    };
    let mut sizes = Vec::new();
    for target in children(span, "Thread").flat_map(|thread| children(thread, "Target")) {
        for (part, ios, bytes) in [
            (&mut outcome.reads, "ReadCount", "ReadBytes"),
            (&mut outcome.writes, "WriteCount", "WriteBytes"),
        ] {
            if let Some(ios) = count(target, ios) {
                part.completed = Some(part.completed.unwrap_or(0).saturating_add(ios));
                part.bytes = part.bytes.saturating_add(count(target, bytes).unwrap_or(0));
            }
        }
        sizes.push(count(target, "FileSize").filter(|bytes| *bytes > 0));
    }
    outcome.file_bytes = super::common(sizes.into_iter());
    if let Some(latency) = child(span, "Latency") {
        for (part, mean, deviation, name) in [
            (&mut outcome.reads, "AverageReadMilliseconds", "ReadLatencyStdev", "ReadMilliseconds"),
            (&mut outcome.writes, "AverageWriteMilliseconds", "WriteLatencyStdev", "WriteMilliseconds"),
        ] {
            read_latency(part, latency, [mean, deviation, name]);
        }
    }
    let average = child(span, "CpuUtilization").and_then(|cpu| child(cpu, "Average"));
    for (name, element) in [("usage", "UsagePercent"), ("user", "UserPercent"), ("kernel", "KernelPercent")] {
        outcome
            .cpu
            .extend(average.and_then(|average| number(average, element)).map(|percent| (name, percent)));
    }
    outcome
}

fn read_latency(part: &mut Part, latency: Node<'_, '_>, [mean, deviation, value]: [&str; 3]) {
    part.mean_ms = number(latency, mean);
    part.deviation_ms = number(latency, deviation);
    let point = |bucket| number(bucket, "Percentile").zip(number(bucket, value));
    part.points = children(latency, "Bucket").filter_map(point).collect();
}
