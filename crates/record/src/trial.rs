//! Writes the folder of a trial while the trial runs.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use files::{Directory, PRIVATE_FILE, PRIVATE_FOLDER};
use model::{Event, Interval, MetricInfo, Phase, Readings, Run, TrialSteps};

use crate::compress::compress;
use crate::directory::{Durability, to_json, write_whole};
use crate::histogram_log::{HistogramLog, OperationIntervals};
use crate::mirror::{Mirror, WrittenReadings};
use crate::readings_csv::{self, SampleText};
use crate::{RecordError, interval_csv};

/// Size above which `intervals.csv` is compressed after the trial; smaller files stay readable for users.
const INTERVALS_PLAIN_MAX: u64 = 256 * 1024;

const READINGS: &str = "readings.csv";

/// The logs of times: response, service, lag.
pub(crate) const LOGS: [&str; 3] = ["response.hlog", "service.hlog", "lag.hlog"];

/// The latest time of a trial, about 300 years.
const TIME_S_MAX: f64 = 1e10;

/// Writes the folder of one trial. Each call writes to its file before it returns, with one write per file,
/// so a kill loses only the data that was not passed yet.
pub struct TrialWriter {
    directory: Directory,
    started_unix_ns: u64,
    intervals: File,
    logs: Option<[HistogramLog; 3]>,
    readings: File,
    samples: SampleText,
    columns_written: usize,
    events: File,
    mirror: Option<Mirror>,
}

/// Creates a file that replaces an existing one, or a link, and stays open for reading and writing.
pub(crate) fn create(directory: &Directory, name: &str, text: &str) -> Result<File, RecordError> {
    let create = || {
        let mut replacement = directory.replacement(name, PRIVATE_FILE)?;
        replacement.file().write_all(text.as_bytes())?;
        let file = replacement.file().try_clone()?;
        replacement.finish().map(|()| file)
    };
    create().map_err(RecordError::io("create", &directory.path().join(name)))
}

impl TrialWriter {
    pub(crate) fn create(trials: &Directory, id: &str) -> Result<TrialWriter, RecordError> {
        let directory = trials
            .make_folder(id, PRIVATE_FOLDER)
            .map_err(RecordError::io("create", &trials.path().join(id)))?;
        Ok(TrialWriter {
            started_unix_ns: 0,
            intervals: create(&directory, "intervals.csv", interval_csv::HEADER)?,
            logs: None,
            readings: create(&directory, READINGS, "")?,
            samples: SampleText::default(),
            columns_written: 0,
            events: create(&directory, "events.jsonl", "")?,
            mirror: None,
            directory,
        })
    }

    /// The samples of the counters are those of another tool: they are kept in memory too, for
    /// [`TrialWriter::finish_with_readings`], and are not compressed, as that takes a third of the time of an import whose log
    /// is larger. Called before the first one.
    pub fn import_readings(&mut self) {
        self.mirror = Some(Mirror::new());
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Sets the zero of the trial's clock; called once, before the first interval.
    pub fn start(&mut self, started_unix_ns: u64) -> Result<(), RecordError> {
        self.started_unix_ns = started_unix_ns;
        let log = |name| HistogramLog::create(&self.directory, name, started_unix_ns);
        let [response, service, lag] = LOGS;
        self.logs = Some([log(response)?, log(service)?, log(lag)?]);
        Ok(())
    }

    /// Appends one interval: a row and three histograms per operation.
    pub fn interval(
        &mut self,
        rows: &[Interval],
        histograms: &[OperationIntervals<'_>],
    ) -> Result<(), RecordError> {
        let Some(first) = rows.first() else { return Ok(()) };
        // Histograms come first: a row without its histogram would report operations without times.
        self.histograms(first.phase, first.begin_s, first.end_s, histograms)?;
        let mut text = Vec::new();
        for row in rows {
            interval_csv::write(&mut text, row)
                .map_err(|error| RecordError::malformed(&self.file_path("intervals.csv"), error))?;
        }
        self.append("intervals.csv", |writer| &mut writer.intervals, &text)
    }

    /// Appends the histograms of a span of time, where they are of several intervals together.
    ///
    /// # Errors
    /// If they cannot be written, or if the span is no time that a trial can have, as that of another machine may be.
    pub fn histograms(
        &mut self,
        phase: Phase,
        begin_s: f64,
        end_s: f64,
        histograms: &[OperationIntervals<'_>],
    ) -> Result<(), RecordError> {
        if ![begin_s, end_s].iter().all(|at_s| at_s.abs() <= TIME_S_MAX) {
            let what = format!("an interval from {begin_s:e} s to {end_s:e} s is not possible");
            return Err(RecordError::malformed(&self.file_path("intervals.csv"), what));
        }
        for (at, log) in self.logs.iter_mut().flatten().enumerate() {
            let of = histograms.iter().map(|of| {
                let ended = [of.response, of.service, of.lag][at];
                (of.operation, ended, of.censored.map(|censored| censored.each()[at]))
            });
            log.append(phase, begin_s, end_s, of)?;
        }
        Ok(())
    }

    /// Appends one sample of the counters.
    pub fn readings(&mut self, begin_s: f64, end_s: f64, readings: &Readings) -> Result<(), RecordError> {
        if readings.columns().len() != self.columns_written {
            let mut known: HashSet<&str> = HashSet::new();
            let metrics = readings.columns().iter().map(|column| &column.metric);
            let metrics: Vec<&MetricInfo> = metrics.filter(|metric| known.insert(&metric.name)).collect();
            let described = to_json(&self.file_path("metrics.json"), &metrics)?;
            write_whole(&self.directory, "metrics.json", &described, Durability::Written)?;
            let mut titles = Vec::new();
            readings_csv::write_titles(&mut titles, readings.columns())
                .map_err(|error| RecordError::malformed(&self.file_path(READINGS), error))?;
            self.append(READINGS, |writer| &mut writer.readings, &titles)?;
            self.columns_written = readings.columns().len();
        }
        let row = self.samples.row(begin_s, end_s, readings);
        let bytes = row.len() as u64;
        let written = self.readings.write_all(row);
        if let Some(mirror) = &mut self.mirror {
            mirror.sample((begin_s, end_s), bytes, readings.columns(), self.samples.recorded());
        }
        written.map_err(RecordError::io("write", &self.file_path(READINGS)))
    }

    /// Appends one event.
    pub fn event(&mut self, event: &Event) -> Result<(), RecordError> {
        let path = self.file_path("events.jsonl");
        let mut text = serde_json::to_vec(event).map_err(|error| RecordError::malformed(&path, error))?;
        text.push(b'\n');
        self.append("events.jsonl", |writer| &mut writer.events, &text)
    }

    /// Writes or replaces `run.json`.
    pub fn run(&self, run: &Run) -> Result<(), RecordError> {
        self.write_run(run, Durability::Written)
    }

    /// Writes `steps.json`.
    pub fn steps(&self, steps: &TrialSteps) -> Result<(), RecordError> {
        let text = to_json(&self.file_path("steps.json"), steps)?;
        write_whole(&self.directory, "steps.json", &text, Durability::Written)
    }

    fn write_run(&self, run: &Run, durability: Durability) -> Result<(), RecordError> {
        let text = to_json(&self.file_path("run.json"), run)?;
        write_whole(&self.directory, "run.json", &text, durability)
    }

    /// Ends the trial: writes `run.json` for the last time, folds long histogram logs, compresses counters,
    /// and syncs all files. Every step is tried even if an earlier one fails; the first failure is returned.
    pub fn finish(self, run: &Run) -> Result<(), RecordError> {
        self.finish_with_readings(run).map(drop)
    }

    /// The same, and returns the counters as reading them would give them; none if they were not kept, or if a limit was met
    /// that reading them reports.
    pub fn finish_with_readings(self, run: &Run) -> Result<Option<WrittenReadings>, RecordError> {
        let mut outcome = self.write_run(run, Durability::Synced);
        let TrialWriter {
            directory, started_unix_ns, mut intervals, logs, mut readings, events, mirror, ..
        } = self;
        for log in logs.into_iter().flatten() {
            outcome = outcome.and(log.finish(&directory, started_unix_ns));
        }
        let at = |name: &str| directory.path().join(name);
        outcome = outcome.and(match mirror {
            Some(_) => readings.sync_all().map_err(RecordError::io("sync", &at(READINGS))),
            None => compress(&directory, READINGS, &mut readings),
        });
        if intervals.metadata().is_ok_and(|data| data.len() > INTERVALS_PLAIN_MAX) {
            outcome = outcome.and(compress(&directory, "intervals.csv", &mut intervals));
        }
        for (name, file) in [("intervals.csv", &intervals), ("events.jsonl", &events)] {
            outcome = outcome.and(file.sync_all().map_err(RecordError::io("sync", &at(name))));
        }
        outcome.and(directory.sync().map_err(RecordError::io("sync", directory.path())))?;
        Ok(mirror.and_then(Mirror::finish))
    }

    fn file_path(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn append(
        &mut self,
        name: &str,
        file: impl FnOnce(&mut TrialWriter) -> &mut File,
        bytes: &[u8],
    ) -> Result<(), RecordError> {
        let path = self.file_path(name);
        file(self).write_all(bytes).map_err(RecordError::io("write", &path))
    }
}
