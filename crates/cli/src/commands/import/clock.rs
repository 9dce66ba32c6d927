//! The clock of each file: corrected as the user says, and compared with that of the load. An estimate is only reported.

use std::collections::HashMap;

use analysis::clock::{self, Done, NoOffset, Samples};
use foreign::{Checked, CounterLog, LoadRun, Sample};
use model::{MetricInfo, metrics};

use super::keep::Read;
use super::{NamedLog, Opener};
use crate::carry_out::Failure;

/// Counters that may follow the rate of a load.
const FOLLOWERS: &[&str] = &[
    "disk.transfers_per_s",
    "disk.reads_per_s",
    "disk.writes_per_s",
    "network.received_packets_per_s",
    "network.sent_packets_per_s",
    "network.received_bytes_per_s",
    "network.sent_bytes_per_s",
    metrics::CPU_BUSY_SHARE,
];

/// The most counters that are compared, and the most samples of each: one per second for 3 days.
const COUNTERS_MAX: usize = 32;
const SAMPLES_MAX: usize = 260_000;

/// Seconds that are added to the times of files: `FILE=SECONDS`.
#[derive(Default)]
pub(super) struct Offsets(Vec<(String, f64)>);

impl Offsets {
    /// Parses them.
    pub(super) fn parse<'a>(texts: impl Iterator<Item = &'a String>) -> Result<Offsets, Failure> {
        let parse = |text: &String| {
            let (name, seconds) = text.rsplit_once('=')?;
            let seconds: f64 = seconds.trim().trim_end_matches('s').parse().ok()?;
            (!name.is_empty() && seconds.is_finite() && seconds.abs() < 1e9)
                .then(|| (name.to_string(), seconds))
        };
        let each = |text: &String| {
            parse(text).ok_or_else(|| {
                let help = "write FILE=SECONDS, such as server.csv=-3612: the seconds are added to the times of the file";
                Failure::usage(format!("error: --clock-offset {text}: {help}"))
            })
        };
        texts.map(each).collect::<Result<Vec<(String, f64)>, Failure>>().map(Offsets)
    }

    /// Corrects the times of the files.
    ///
    /// # Errors
    /// If a file is none of those that are imported, or has no time.
    pub(super) fn apply(
        &self,
        loads: &mut [(String, Checked<LoadRun>)],
        logs: &mut [NamedLog],
    ) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        for (name, seconds) in &self.0 {
            let ns = (seconds * 1e9) as i64;
            let mut is_there = false;
            for log in logs.iter_mut().filter(|log| log.name == *name) {
                (log.offset_ns, is_there) = (Some(ns), true);
            }
            for (_, run) in loads.iter_mut().filter(|(of, _)| of == name) {
                is_there = true;
                let Some(began) = run.began_unix_ns else {
                    return Err(Failure::usage(format!(
                        "error: --clock-offset {name}={seconds}: the file has no time\n  say when it began: --begin TIME"
                    )));
                };
                run.set_begin(began.saturating_add(ns)).map_err(|fault| {
                    Failure::usage(format!("error: --clock-offset {name}={seconds}: {fault}"))
                })?;
            }
            if !is_there {
                return Err(Failure::usage(format!(
                    "error: --clock-offset {name}={seconds}: no file of this name is imported"
                )));
            }
            notes.push(format!("clock of {name}: {seconds:+} s were added to its times, as given"));
        }
        Ok(notes)
    }
}

/// What the clocks of the logs seem to be ahead by, in sentences. Logs whose offset was given are left out.
pub(super) fn estimates(
    loads: &[(String, Checked<LoadRun>)],
    logs: &[NamedLog],
    open: &Opener<'_>,
) -> Vec<String> {
    let load = done(loads);
    let (Some(first), Some(last)) = (load.first(), load.last()) else { return Vec::new() };
    let mut notes = Vec::new();
    for log in logs.iter().filter(|log| log.offset_ns.is_none()) {
        let Some((titles, samples)) = collected(&log.name, open) else { continue };
        let is_inside = |(begin, end): &(f64, f64)| *end > first.begin_s && *begin < last.end_s;
        let overlaps = samples.spans.iter().any(is_inside);
        let longest_s = samples.spans.iter().map(|(begin, end)| end - begin).fold(0.0, f64::max).min(60.0);
        let name = &log.name;
        match clock::offset(&load, &samples) {
            Ok(found) if overlaps && (found.ahead_s.abs() as f64) <= longest_s.max(2.0) => {}
            Ok(found) => {
                let (seconds, is) = match found.ahead_s {
                    ahead if ahead < 0 => (-ahead, "behind"),
                    ahead => (ahead, "ahead of"),
                };
                let counter = titles.get(found.counter).map_or("", String::as_str);
                notes.push(format!(
                    "clock of {name}: probably {seconds} s {is} that of the load: {counter} follows the rate of the load with r = {:.2} \
                     in {} samples, and with no other offset. It is not changed; to change it: --clock-offset {name}={}",
                    found.correlation, found.samples, -found.ahead_s
                ));
            }
            Err(NoOffset::Ambiguous(one, other)) if !overlaps => notes.push(format!(
                "clock of {name}: its offset cannot be estimated: the counters follow the load with {one} s as well as with {other} s. \
                 Say it with --clock-offset {name}=SECONDS"
            )),
            Err(NoOffset::NoneFollows(highest)) if !overlaps && highest.is_finite() => notes.push(format!(
                "clock of {name}: its offset cannot be estimated: no counter follows the rate of the load (r is at most {highest:.2}). \
                 Say it with --clock-offset {name}=SECONDS"
            )),
            Err(_) => {}
        }
    }
    notes
}

/// The rate of the load over time, seconds since 1970.
fn done(loads: &[(String, Checked<LoadRun>)]) -> Vec<Done> {
    let mut found: Vec<Done> = Vec::new();
    for (_, run) in loads {
        let Some(began) = run.began_unix_ns else { continue };
        let began_s = began as f64 / 1e9;
        for interval in &run.intervals {
            let seconds = interval.end_s - interval.begin_s;
            let done = Done {
                begin_s: began_s + interval.begin_s,
                end_s: began_s + interval.end_s,
                rate_per_s: interval.completed as f64 / seconds,
            };
            // Operations of the same interval are adjacent.
            match found.last_mut().filter(|last| last.begin_s == done.begin_s && last.end_s == done.end_s) {
                Some(last) => last.rate_per_s += done.rate_per_s,
                None if seconds > 0.0 => found.push(done),
                None => {}
            }
        }
    }
    found.sort_by(|a, b| a.begin_s.total_cmp(&b.begin_s));
    found
}

/// The counters of a log that may follow a load, with their titles; none if there are none.
fn collected(name: &str, open: &Opener<'_>) -> Option<(Vec<String>, Samples)> {
    let mut log = open(name)?;
    let mut read = Read::of(&log);
    let (mut titles, mut samples) = (Vec::new(), Samples::default());
    let mut by_title: HashMap<String, usize> = HashMap::new();
    // The places of the counters among the columns, for a number of columns.
    let (mut known, mut places): (usize, Vec<(usize, usize)>) = (usize::MAX, Vec::new());
    let mut sample = Sample::default();
    while let Ok(true) = log.next(&mut sample) {
        if samples.spans.len() == SAMPLES_MAX {
            break;
        }
        read.read(&log, &sample);
        if known != read.len() {
            known = read.len();
            places.clear();
            for (at, (metric, host, instance)) in
                read.columns().enumerate().filter(|(_, of)| may_follow(of.0, of.2))
            {
                let title = titled(metric, host, instance);
                let count = titles.len();
                let slot = match by_title.get(&title) {
                    Some(slot) => *slot,
                    None if count == COUNTERS_MAX => continue,
                    None => {
                        by_title.insert(title.clone(), count);
                        titles.push(title);
                        samples.counters.push(vec![f64::NAN; samples.spans.len()]);
                        count
                    }
                };
                places.push((at, slot));
            }
        }
        samples.spans.push((sample.begin_unix_ns as f64 / 1e9, sample.end_unix_ns as f64 / 1e9));
        samples.counters.iter_mut().for_each(|values| values.push(f64::NAN));
        for (at, slot) in &places {
            if let Some(last) = samples.counters[*slot].last_mut() {
                *last = read.value(*at, &sample);
            }
        }
    }
    (!titles.is_empty()).then_some((titles, samples))
}

/// Whether a counter is one of a whole disk, of an interface, or of all CPUs.
fn may_follow(metric: &MetricInfo, instance: &str) -> bool {
    FOLLOWERS.contains(&&*metric.name) && (metric.name != metrics::CPU_BUSY_SHARE || instance.is_empty())
}

fn titled(metric: &MetricInfo, host: &str, instance: &str) -> String {
    let parts = [host, instance].into_iter().filter(|part| !part.is_empty());
    match parts.collect::<Vec<&str>>().join(" ") {
        of if of.is_empty() => metric.name.to_string(),
        of => format!("{} of {of}", metric.name),
    }
}
