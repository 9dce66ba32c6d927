//! Reads a run directory into memory, as far as it is valid.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use files::Directory;
use model::run::RUN_FORMAT;
use model::steps::{RequestSteps, STEPS_FORMAT, STEPS_MAX};
use model::study::{HeatColumn, OperationHistograms, heat_row};
use model::{
    Event, EventKind, Host, MetricInfo, Phase, Plan, Run, RunRecord, SourceState, Study, TrialSteps,
};
use serde::{Deserialize, de::DeserializeOwned};

use crate::histogram_log::{Decoded, Decoder};
use crate::limits::{
    Budget, COUNTED_MAX, ENTRIES_MAX, FACTS_BYTES_MAX, HEAT_COLUMNS_MAX, METRICS_BYTES_MAX, OPERATION_COST,
    OPERATIONS_MAX, PLAN_BYTES_MAX, PLANNED_MAX, READINGS_MAX, RECORD_READINGS_MAX, STEPS_BYTES_MAX,
    TRIALS_MAX, too_large,
};
use crate::lines::Lines;
use crate::memory;
use crate::mirror::WrittenReadings;
use crate::trial::{EVENTS, INTERVALS, LOGS, READINGS};
use crate::{RecordError, check_format, directory, interval_csv, readings_csv, unended};

/// The format identifier of `plan.json`.
pub const PLAN_FORMAT: &str = "plimsoll.plan/1.0";

/// Reads a whole run directory. Damaged files, other files than regular ones, and data beyond a limit are
/// omitted and reported in [`Study::damage`]. Only a folder that is not a run directory, or has a newer major
/// version, is an error.
///
/// Of a log with more than 16 million readings in a trial, or 32 million in all trials, such as one of many hours with a thousand
/// counters, neighbouring samples are combined, which is an event of the trial. The histograms of many trials have two significant
/// digits, which is an event of the first.
pub fn read(path: &Path) -> Result<Study, RecordError> {
    read_up_to(path, READINGS_MAX, &mut BTreeMap::new(), Budget::new())
}

/// The same, with counters that were kept when they were written, by the id of their trial: they are not read.
pub fn read_with(path: &Path, mut kept: BTreeMap<String, WrittenReadings>) -> Result<Study, RecordError> {
    read_up_to(path, READINGS_MAX, &mut kept, Budget::new())
}

/// The same with every sample, however many there are.
pub fn read_every_sample(path: &Path) -> Result<Study, RecordError> {
    read_up_to(path, usize::MAX, &mut BTreeMap::new(), Budget::new())
}

fn read_up_to(
    path: &Path,
    readings_max: usize,
    kept: &mut BTreeMap<String, WrittenReadings>,
    mut budget: Budget,
) -> Result<Study, RecordError> {
    let (folder, trials) = directory::open(path)?;
    let mut study = Study { directory: path.display().to_string(), ..Study::default() };
    match read_json::<Host>(&folder, "host.json", FACTS_BYTES_MAX, &mut budget) {
        Ok(Some(host)) => study.host = host,
        Ok(None) => study.damage.push("host.json is missing".into()),
        Err(error) => study.damage.push(error.to_string()),
    }
    match plan_of(&folder, &mut budget) {
        Ok(plan) => study.plan = plan,
        Err(error @ RecordError::TooNew { .. }) => return Err(error),
        Err(error) => study.damage.push(error.to_string()),
    }
    // The number of the folder is the order of execution, and names are sorted.
    let names = trials.names().map_err(RecordError::io("read", trials.path()))?;
    let count = names.len().clamp(1, TRIALS_MAX);
    let readings_max = match readings_max {
        usize::MAX => usize::MAX,
        most => most.min(RECORD_READINGS_MAX / count),
    };
    let mut are_coarse = false;
    for (at, name) in names.iter().enumerate() {
        if at == TRIALS_MAX {
            let more = names.len() - TRIALS_MAX;
            study.damage.push(format!(
                "{}: it has more than {TRIALS_MAX} trials; the other {more} are ignored",
                trials.path().display()
            ));
            break;
        }
        let trial = match trials.open_folder(name) {
            Ok(trial) => trial,
            // A foreign file.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            Err(error) => {
                study.damage.push(RecordError::io("open", &trials.path().join(name))(error).to_string());
                continue;
            }
        };
        let written = name.to_str().and_then(|name| kept.remove(name));
        match trial_of(&trial, &mut budget, readings_max, written, are_coarse) {
            Ok((mut record, damage)) => {
                if study.runs.is_empty() {
                    are_coarse = coarsen_many(&mut record, count, &mut budget);
                }
                study.runs.push(record);
                study.damage.extend(damage);
            }
            Err(error @ RecordError::TooNew { .. }) => return Err(error),
            Err(error) => study.damage.push(error.to_string()),
        }
    }
    Ok(study)
}

/// Reads `plan.json`; none if it does not exist yet.
pub fn read_plan(path: &Path) -> Result<Option<Plan>, RecordError> {
    let folder = Directory::open(path).map_err(RecordError::io("open", path))?;
    plan_of(&folder, &mut Budget::new())
}

fn plan_of(folder: &Directory, budget: &mut Budget) -> Result<Option<Plan>, RecordError> {
    let Some(plan) = read_json::<Plan>(folder, "plan.json", PLAN_BYTES_MAX, budget)? else { return Ok(None) };
    let path = folder.path().join("plan.json");
    check_format(&path, &plan.format, PLAN_FORMAT)?;
    let experiment = &plan.experiment;
    // A grid has every combination of levels.
    let combinations = experiment.vary.iter().try_fold(1_usize, |product, factor| {
        product.checked_mul(factor.levels.len().max(1)).filter(|product| *product <= PLANNED_MAX)
    });
    let levels: usize = experiment.vary.iter().map(|factor| factor.levels.len()).sum();
    let planned = combinations.map(|combinations| combinations.max(levels).max(plan.decisions.len()));
    let entries = experiment.goals.len().max(experiment.watch.len()).max(experiment.published.len());
    if planned.is_none_or(|planned| planned > PLANNED_MAX) || entries > ENTRIES_MAX {
        return Err(RecordError::malformed(
            &path,
            format!(
                "it has more than {PLANNED_MAX} planned trials or more than {ENTRIES_MAX} goals: it is ignored"
            ),
        ));
    }
    Ok(Some(plan))
}

/// Reads the folder of one trial, and its damage.
pub fn read_trial(path: &Path) -> Result<(RunRecord, Vec<String>), RecordError> {
    let folder = Directory::open(path).map_err(RecordError::io("open", path))?;
    trial_of(&folder, &mut Budget::new(), READINGS_MAX, None, false)
}

/// Whether the histograms of as many trials as the first are too large: those of the first are made coarse then.
fn coarsen_many(first: &mut RunRecord, count: usize, budget: &mut Budget) -> bool {
    let before = memory::of_histograms(first);
    let is_large = budget.makes_coarse(before.saturating_mul(count as u64));
    if is_large {
        memory::coarsen(first);
        budget.drop_kept(before.saturating_sub(memory::of_histograms(first)));
        first.events.push(event(format!(
            "the record has {count} trials: their histograms have two significant digits in this report, \
            and percentiles are up to 1 % too large; the logs have three"
        )));
    }
    is_large
}

fn event(text: String) -> Event {
    Event { at_s: 0.0, kind: EventKind::Source, text, data: Default::default() }
}

fn trial_of(
    folder: &Directory,
    budget: &mut Budget,
    readings_max: usize,
    written: Option<WrittenReadings>,
    is_coarse: bool,
) -> Result<(RunRecord, Vec<String>), RecordError> {
    let mut damage = Vec::new();
    let taken_before = budget.taken();
    let mut trial = TrialFolder { folder, budget, damage: &mut damage, recorded: BTreeMap::new() };
    let run = trial.run()?;
    trial.recorded = run.recorded.clone();
    trial.budget.keep_beside(0);
    let intervals = trial.lines(INTERVALS, interval_csv::read);
    trial.budget.keep_none();
    let described = folder.path().join("metrics.json");
    let metrics: Vec<MetricInfo> =
        read_json(folder, "metrics.json", METRICS_BYTES_MAX, trial.budget).ok().flatten().unwrap_or_default();
    let read =
        |lines: &mut Lines, budget: &mut Budget| readings_csv::read(lines, &metrics, budget, readings_max);
    let readings_csv::Read { table: readings, samples } = match written {
        Some(WrittenReadings(written)) => written,
        None => trial.lines(READINGS, read),
    };
    trial.budget.keep_beside(memory::of_intervals(&intervals) + memory::of_readings(&readings));
    let mut events = trial.lines(EVENTS, read_events);
    if samples > 1 {
        events.push(event(format!(
            "the log of counters is long: each value in this report is the mean of {samples} samples; readings.csv has all"
        )));
    }
    let steps = trial.steps();
    let mut record = RunRecord { run, intervals, histograms: Default::default(), readings, events, steps };
    for (at, name) in LOGS.into_iter().enumerate() {
        trial.lines(name, |lines, budget| read_histograms(lines, budget, at, &mut record));
    }
    unended::censor(&mut record);
    if is_coarse {
        memory::coarsen(&mut record);
    }
    if !trial.budget.keep(taken_before, memory::of_trial(&record)) {
        trial.budget.drop_kept(memory::of_trial(&record));
        return Err(RecordError::malformed(folder.path(), too_large()));
    }
    // The first sample has no predecessor for rates and is not stored.
    let samples = record.run.sampler.samples.saturating_sub(1);
    // Where no source could be read, as exporters that are gone, there was nothing to lose.
    let sources = &record.run.sources;
    let was_read = sources.is_empty() || sources.iter().any(|of| of.state == SourceState::Active);
    // Else the file was counted.
    let is_older = record.run.recorded.is_empty();
    if is_older && record.readings.columns.is_empty() && samples > 0 && was_read {
        damage.push(format!(
            "{} is missing or empty: {samples} samples of the counters are lost",
            folder.path().join("readings.csv").display()
        ));
    }
    if metrics.is_empty() && !record.readings.columns.is_empty() {
        damage.push(format!(
            "{} is missing or damaged: the meaning of the counters and their saturation limits are not known",
            described.display()
        ));
    }
    Ok((record, damage))
}

/// The folder of a trial that is being read.
struct TrialFolder<'a> {
    folder: &'a Directory,
    budget: &'a mut Budget,
    damage: &'a mut Vec<String>,
    /// See [`Run::recorded`].
    recorded: BTreeMap<String, u64>,
}

impl TrialFolder<'_> {
    /// Reads a file line by line; gives the default if it does not exist or is not a regular file. That it has another number of
    /// lines or operations than were recorded is damage, too: what is lost may end with a whole line.
    fn lines<T: Default>(&mut self, name: &str, read: impl FnOnce(&mut Lines, &mut Budget) -> T) -> T {
        let path = self.folder.path().join(name);
        let recorded = self.recorded.get(name).copied();
        let unit = if LOGS.contains(&name) { "operations" } else { "lines" };
        match Lines::open(self.folder, name, self.budget) {
            Ok(Some(mut lines)) => {
                let content = read(&mut lines, self.budget);
                let other = recorded.filter(|recorded| *recorded != lines.count());
                if let Some(what) = lines.damage() {
                    self.damage.push(format!("{}: {what}", path.display()));
                } else if let Some(recorded) = other {
                    let count = lines.count();
                    self.damage.push(format!(
                        "{}: it has {count} {unit}, and {recorded} were recorded: a part is lost",
                        path.display()
                    ));
                }
                content
            }
            Ok(None) => {
                if let Some(recorded) = recorded.filter(|recorded| *recorded > 0) {
                    self.damage.push(format!("{} is missing: {recorded} {unit} are lost", path.display()));
                }
                T::default()
            }
            Err(error) => {
                self.damage.push(RecordError::io("read", &path)(error).to_string());
                T::default()
            }
        }
    }

    /// `steps.json`.
    fn steps(&mut self) -> Option<RequestSteps> {
        let path = self.folder.path().join("steps.json");
        let read = read_json::<TrialSteps>(self.folder, "steps.json", STEPS_BYTES_MAX, self.budget);
        let checked = read.and_then(|found| match found {
            Some(found) => check_format(&path, &found.format, STEPS_FORMAT).map(|()| Some(found.request)),
            None => Ok(None),
        });
        let mut steps = checked.map_err(|error| self.damage.push(error.to_string())).ok()??;
        if steps.steps.len() > STEPS_MAX || steps.dependencies.len() > STEPS_MAX {
            self.damage.push(format!(
                "{}: it has more than {STEPS_MAX} entries; the others are ignored",
                path.display()
            ));
            steps.steps.truncate(STEPS_MAX);
            steps.dependencies.truncate(STEPS_MAX);
        }
        Some(steps)
    }

    /// `run.json`.
    fn run(&mut self) -> Result<Run, RecordError> {
        /// Read first, because a newer major version may have another structure.
        #[derive(Deserialize)]
        struct Word {
            format: Option<String>,
        }
        let path = self.folder.path().join("run.json");
        let bytes = self.folder.read("run.json", FACTS_BYTES_MAX).map_err(RecordError::io("read", &path))?;
        if !self.budget.take_json(bytes.len()) {
            return Err(RecordError::malformed(&path, too_large()));
        }
        if let Ok(Word { format: Some(format) }) = serde_json::from_slice(&bytes) {
            check_format(&path, &format, RUN_FORMAT)?;
        }
        let mut run: Run =
            serde_json::from_slice(&bytes).map_err(|error| RecordError::malformed(&path, error))?;
        let mut is_cut = run.operations.len() > OPERATIONS_MAX;
        run.operations.truncate(OPERATIONS_MAX);
        fn cut<T>(list: &mut Vec<T>, is_cut: &mut bool) {
            *is_cut |= list.len() > ENTRIES_MAX;
            list.truncate(ENTRIES_MAX);
        }
        cut(&mut run.phases, &mut is_cut);
        cut(&mut run.sources, &mut is_cut);
        cut(&mut run.errors, &mut is_cut);
        cut(&mut run.doubts, &mut is_cut);
        if is_cut {
            self.damage.push(format!(
                "{}: it has more than {OPERATIONS_MAX} operations or {ENTRIES_MAX} entries in a list; \
                the others are ignored",
                path.display()
            ));
        }
        Ok(run)
    }
}

fn read_events(lines: &mut Lines, budget: &mut Budget) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(line) = lines.next(budget) {
        let length = line.len();
        match serde_json::from_slice::<Event>(line) {
            Ok(_) if !budget.take_json(length) => {
                lines.full();
                break;
            }
            Ok(event) => events.push(event),
            Err(_) => lines.unreadable(),
        }
    }
    events
}

/// Reads the log at this place of [`LOGS`].
fn read_histograms(lines: &mut Lines, budget: &mut Budget, log: usize, record: &mut RunRecord) {
    let mut decoder = Decoder::default();
    let mut operations = 0_u64;
    while let Some(raw) = lines.next(budget) {
        let line = match decoder.decode(raw) {
            Decoded::Line(line) => line,
            Decoded::Comment => continue,
            Decoded::Unreadable => {
                lines.unreadable();
                continue;
            }
        };
        operations = operations.saturating_add(line.histogram.len());
        if !record.histograms.contains_key(&line.operation) {
            if record.histograms.len() == OPERATIONS_MAX {
                lines.note(&format!("it has more than {OPERATIONS_MAX} operations; the others are ignored"));
                continue;
            }
            if !budget.take(OPERATION_COST) {
                return lines.full();
            }
        }
        let of: &mut OperationHistograms = record.histograms.entry(line.operation).or_default();
        if log == 0 && !line.is_censored {
            let column = heat_column(line.begin_s, line.end_s, &line.histogram);
            if !budget.take((size_of::<HeatColumn>() + 16 * column.cells.len()) as u64) {
                return lines.full();
            }
            of.heat.push(column);
            if of.heat.len() > HEAT_COLUMNS_MAX {
                let before = memory::of_heat(&of.heat);
                halve(&mut of.heat);
                budget.release(before.saturating_sub(memory::of_heat(&of.heat)));
            }
        }
        // After the measured phase, logs of older versions have operations of any time, under another tag.
        if line.phase == Phase::Measure || line.is_censored {
            if line.is_censored && of.censored.is_none() {
                if !budget.take(OPERATION_COST) {
                    return lines.full();
                }
                of.censored = Some(Box::default());
            }
            let [response, service, lag] = match &mut of.censored {
                Some(censored) if line.is_censored => censored.each_mut(),
                _ => [&mut of.response, &mut of.service, &mut of.lag],
            };
            let total = match log {
                0 => response,
                1 => service,
                _ => lag,
            };
            let counted = total.len().saturating_add(line.histogram.len());
            if counted > COUNTED_MAX || total.add(&line.histogram).is_err() {
                lines.unreadable();
            }
        }
    }
    lines.count_as(operations);
}

fn heat_column(begin_s: f64, end_s: f64, histogram: &hdrhistogram::Histogram<u64>) -> HeatColumn {
    let mut cells: Vec<(u16, u64)> = Vec::new();
    for step in histogram.iter_recorded() {
        add_cell(&mut cells, heat_row(step.value_iterated_to()), step.count_at_value());
    }
    HeatColumn { begin_s, end_s, cells }
}

/// Adds to the last cell, or appends a new one.
fn add_cell(cells: &mut Vec<(u16, u64)>, row: u16, count: u64) {
    match cells.last_mut() {
        Some((last, sum)) if *last == row => *sum = sum.saturating_add(count),
        _ => cells.push((row, count)),
    }
}

/// Merges neighbouring columns: a log that was not folded has a line per second.
fn halve(columns: &mut Vec<HeatColumn>) {
    let mut whole = std::mem::take(columns).into_iter();
    while let Some(mut column) = whole.next() {
        if let Some(next) = whole.next() {
            column.end_s = next.end_s;
            let mut cells = [column.cells, next.cells].concat();
            cells.sort_by_key(|(row, _)| *row);
            column.cells = Vec::new();
            cells.into_iter().for_each(|(row, count)| add_cell(&mut column.cells, row, count));
        }
        columns.push(column);
    }
}

/// Reads a JSON file; none if it does not exist.
fn read_json<T: DeserializeOwned>(
    folder: &Directory,
    name: &str,
    bytes_max: u64,
    budget: &mut Budget,
) -> Result<Option<T>, RecordError> {
    let path = folder.path().join(name);
    let bytes = match folder.read(name, bytes_max) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RecordError::io("read", &path)(error)),
    };
    if !budget.take_json(bytes.len()) {
        return Err(RecordError::malformed(&path, too_large()));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| RecordError::malformed(&path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with so many trials, each that of the stored run `disk`.
    fn many(name: &str, count: usize) -> std::path::PathBuf {
        let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/fixtures/disk");
        let folder = std::env::temp_dir().join(format!("plimsoll-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        for at in 1..=count {
            let trial = folder.join(format!("trials/{at:03}-baseline.r{at}"));
            std::fs::create_dir_all(&trial).unwrap();
            for file in std::fs::read_dir(stored.join("trials/001-baseline.r1")).unwrap().flatten() {
                std::fs::copy(file.path(), trial.join(file.file_name())).unwrap();
            }
        }
        for file in ["plan.json", "host.json"] {
            std::fs::copy(stored.join(file), folder.join(file)).unwrap();
        }
        folder
    }

    #[test]
    fn the_histograms_of_many_trials_are_coarse_and_all_trials_are_read() {
        let folder = many("coarse", 12);
        let read = |budget| read_up_to(&folder, READINGS_MAX, &mut BTreeMap::new(), budget).unwrap();
        let of = |study: &Study| -> u64 { study.runs.iter().map(memory::of_histograms).sum() };
        let fine = read(Budget::new());
        let most = of(&fine) / 2;
        let coarse = read(Budget::of(u64::MAX, most));
        assert!(of(&coarse) < most, "{} {most}", of(&coarse));
        for (study, expected) in [(&fine, false), (&coarse, true)] {
            assert_eq!((study.runs.len(), study.damage.as_slice()), (12, &[] as &[String]));
            let is_said = |event: &Event| {
                event.text.contains("12 trials: their histograms have two significant digits")
            };
            assert_eq!(study.runs[0].events.iter().any(is_said), expected);
        }
        for (fine, coarse) in fine.runs.iter().zip(&coarse.runs) {
            for (name, of) in &fine.histograms {
                let other = &coarse.histograms[name];
                assert_eq!(of.response.len(), other.response.len());
                let ratio = other.response.value_at_quantile(0.95) as f64
                    / of.response.value_at_quantile(0.95) as f64;
                assert!((0.99..1.011).contains(&ratio), "{name}: {ratio}");
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_stays_in_memory_has_a_limit_whatever_is_counted() {
        let folder = many("kept", 6);
        let mut budget = Budget::of(u64::MAX, u64::MAX);
        let trial = Directory::open(&folder.join("trials/001-baseline.r1")).unwrap();
        let (record, _) = trial_of(&trial, &mut budget, READINGS_MAX, None, false).unwrap();
        let of_one = memory::of_trial(&record);
        // Not what was counted while it was read, which is several times as much.
        assert_eq!(budget.taken(), of_one);
        let limited = Budget::of(3 * of_one + of_one / 2, u64::MAX);
        let study = read_up_to(&folder, READINGS_MAX, &mut BTreeMap::new(), limited).unwrap();
        let all: u64 = study.runs.iter().map(memory::of_trial).sum();
        assert!(study.runs.len() >= 2 && all <= 3 * of_one + of_one / 2, "{} {all}", study.runs.len());
        assert!(
            study.damage.iter().all(|what| what.contains("more memory than its limit")),
            "{:?}",
            study.damage
        );
        assert!(!study.damage.is_empty());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn halving_keeps_every_count() {
        let column = |at: u32| HeatColumn {
            begin_s: f64::from(at),
            end_s: f64::from(at + 1),
            cells: vec![(at as u16 % 2, 1), (7, 2)],
        };
        let mut columns: Vec<HeatColumn> = (0..5).map(column).collect();
        halve(&mut columns);
        assert_eq!(columns.len(), 3);
        assert_eq!((columns[0].begin_s, columns[0].end_s, columns[2].end_s), (0.0, 2.0, 5.0));
        assert_eq!(columns[0].cells, [(0, 1), (1, 1), (7, 4)]);
    }
}
