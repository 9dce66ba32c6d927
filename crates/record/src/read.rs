//! A run directory back into memory, as far as it can be read.

use std::path::Path;

use model::run::RUN_FORMAT;
use model::study::{HeatColumn, heat_row};
use model::{Event, Host, MetricInfo, Phase, Plan, Run, RunRecord, Study};

use crate::compress::read_text;
use crate::{RecordError, check_format, histogram_log, interval_csv, readings_csv};

/// The format word of `plan.json`.
pub const PLAN_FORMAT: &str = "plimsoll.plan/1.0";

/// Reads a whole run directory. What is damaged is left out and told in [`Study::damage`]; only a folder that is no run
/// directory, or one written by a newer major version, is refused.
pub fn read(directory: &Path) -> Result<Study, RecordError> {
    let trials = directory.join("trials");
    let entries =
        std::fs::read_dir(&trials).map_err(|_| RecordError::NotARun { path: directory.to_path_buf() })?;
    let mut study = Study { directory: directory.display().to_string(), ..Study::default() };
    match read_json::<Host>(&directory.join("host.json")) {
        Ok(Some(host)) => study.host = host,
        Ok(None) => study.damage.push("host.json is missing".into()),
        Err(error) => study.damage.push(error.to_string()),
    }
    match read_plan(directory) {
        Ok(plan) => study.plan = plan,
        Err(error @ RecordError::TooNew { .. }) => return Err(error),
        Err(error) => study.damage.push(error.to_string()),
    }
    let mut folders: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.path())
        .collect();
    // The folder's number is the order of execution.
    folders.sort();
    for folder in folders {
        match read_trial(&folder) {
            Ok((record, damage)) => {
                study.runs.push(record);
                study.damage.extend(damage);
            }
            Err(error @ RecordError::TooNew { .. }) => return Err(error),
            Err(error) => study.damage.push(error.to_string()),
        }
    }
    Ok(study)
}

/// Reads `plan.json`; none when there is none yet.
pub fn read_plan(directory: &Path) -> Result<Option<Plan>, RecordError> {
    let path = directory.join("plan.json");
    let plan: Option<Plan> = read_json(&path)?;
    if let Some(plan) = &plan {
        check_format(&path, &plan.format, PLAN_FORMAT)?;
    }
    Ok(plan)
}

/// Reads one trial's folder, and what is damaged in it.
pub fn read_trial(folder: &Path) -> Result<(RunRecord, Vec<String>), RecordError> {
    let path = folder.join("run.json");
    let text = std::fs::read_to_string(&path).map_err(RecordError::io("read", &path))?;
    // The format first: a newer major may not even parse as this one.
    if let Ok(serde_json::Value::Object(object)) = serde_json::from_str(&text)
        && let Some(serde_json::Value::String(format)) = object.get("format")
    {
        check_format(&path, format, RUN_FORMAT)?;
    }
    let run: Run = serde_json::from_str(&text).map_err(|error| RecordError::malformed(&path, error))?;
    let mut damage = Vec::new();
    let mut load = |name: &str| -> Result<String, RecordError> {
        match read_text(&folder.join(name))? {
            Some((text, true)) => Ok(text),
            Some((text, false)) => {
                damage.push(format!(
                    "{} is damaged; it was read as far as it goes",
                    folder.join(name).display()
                ));
                Ok(text)
            }
            None => Ok(String::new()),
        }
    };
    let (interval_text, reading_text, event_text) =
        (load("intervals.csv")?, load("readings.csv")?, load("events.jsonl")?);
    let mut cut_short = |name: &str, whole: bool| {
        if !whole {
            damage.push(format!("{}: a line was cut short and left out", folder.join(name).display()));
        }
    };
    let (intervals, whole) = interval_csv::read(&interval_text);
    cut_short("intervals.csv", whole);
    let described = folder.join("metrics.json");
    let metrics: Vec<MetricInfo> = read_json(&described).ok().flatten().unwrap_or_default();
    let (readings, whole) = readings_csv::read(&reading_text, &metrics);
    cut_short("readings.csv", whole);
    let mut events = Vec::new();
    for line in event_text.lines() {
        match serde_json::from_str::<Event>(line) {
            Ok(event) => events.push(event),
            Err(_) => cut_short("events.jsonl", false),
        }
    }
    let mut record = RunRecord { run, intervals, histograms: Default::default(), readings, events };
    for (name, which) in [("response.hlog", 0), ("service.hlog", 1), ("lag.hlog", 2)] {
        let bytes = match std::fs::read(folder.join(name)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(RecordError::io("read", &folder.join(name))(error)),
        };
        let (lines, whole) = histogram_log::decode(&bytes);
        cut_short(name, whole);
        for line in lines {
            let of = record.histograms.entry(line.operation).or_default();
            if which == 0 {
                of.heat.push(heat_column(line.begin_s, line.end_s, &line.histogram));
            }
            if line.phase == Phase::Measure {
                let total = match which {
                    0 => &mut of.response,
                    1 => &mut of.service,
                    _ => &mut of.lag,
                };
                if total.add(&line.histogram).is_err() {
                    cut_short(name, false);
                }
            }
        }
    }
    if record.readings.columns.is_empty() && record.run.sampler.samples > 0 {
        let samples = record.run.sampler.samples;
        let path = folder.join("readings.csv");
        damage.push(format!(
            "{} is missing or empty: {samples} samples of the counters are lost",
            path.display()
        ));
    } else if metrics.is_empty() && !record.readings.columns.is_empty() {
        damage.push(format!(
            "{} is missing or damaged: what the counters count, and where they are full, is not known",
            described.display()
        ));
    }
    Ok((record, damage))
}

fn heat_column(begin_s: f64, end_s: f64, histogram: &hdrhistogram::Histogram<u64>) -> HeatColumn {
    let mut cells: Vec<(u16, u64)> = Vec::new();
    for step in histogram.iter_recorded() {
        let row = heat_row(step.value_iterated_to());
        match cells.last_mut() {
            Some((last, count)) if *last == row => *count += step.count_at_value(),
            _ => cells.push((row, step.count_at_value())),
        }
    }
    HeatColumn { begin_s, end_s, cells }
}

/// A JSON file, or none when it does not exist.
fn read_json<T: for<'de> serde::Deserialize<'de>>(path: &Path) -> Result<Option<T>, RecordError> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            serde_json::from_str(&text).map(Some).map_err(|error| RecordError::malformed(path, error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RecordError::io("read", path)(error)),
    }
}
