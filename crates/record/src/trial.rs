//! Writes the folder of a trial while the trial runs.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use files::{Directory, PRIVATE_FILE, PRIVATE_FOLDER};
use model::{Event, Interval, MetricInfo, Phase, Readings, Run, TrialSteps};

use crate::compress::compress;
use crate::directory::{Durability, to_json, write_whole};
use crate::histogram_log::{HistogramLog, OperationIntervals};
use crate::mirror::{Mirror, WrittenReadings};
use crate::{RecordError, interval_csv, readings_csv};

/// Size above which `intervals.csv` is compressed after the trial; smaller files stay readable for users.
const INTERVALS_PLAIN_MAX: u64 = 256 * 1024;

/// Writes the folder of one trial. Each call writes to its file before it returns, with one write per file,
/// so a kill loses only the data that was not passed yet.
pub struct TrialWriter {
    directory: Directory,
    started_unix_ns: u64,
    intervals: File,
    logs: Option<[HistogramLog; 3]>,
    readings: File,
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
            readings: create(&directory, "readings.csv", "")?,
            columns_written: 0,
            events: create(&directory, "events.jsonl", "")?,
            mirror: None,
            directory,
        })
    }

    /// Keeps the samples of the counters in memory too, for [`TrialWriter::finish_with_readings`]. Called before the first one.
    pub fn keep_readings(&mut self) {
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
        self.logs = Some([log("response.hlog")?, log("service.hlog")?, log("lag.hlog")?]);
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
    pub fn histograms(
        &mut self,
        phase: Phase,
        begin_s: f64,
        end_s: f64,
        histograms: &[OperationIntervals<'_>],
    ) -> Result<(), RecordError> {
        if let Some([response, service, lag]) = &mut self.logs {
            response.append(
                phase,
                begin_s,
                end_s,
                histograms.iter().map(|of| (of.operation, of.response)),
            )?;
            service.append(phase, begin_s, end_s, histograms.iter().map(|of| (of.operation, of.service)))?;
            lag.append(phase, begin_s, end_s, histograms.iter().map(|of| (of.operation, of.lag)))?;
        }
        Ok(())
    }

    /// Appends one sample of the counters.
    pub fn readings(&mut self, begin_s: f64, end_s: f64, readings: &Readings) -> Result<(), RecordError> {
        let mut text = Vec::new();
        if readings.columns().len() != self.columns_written {
            let mut metrics: Vec<&MetricInfo> = Vec::new();
            for column in readings.columns() {
                if !metrics.iter().any(|metric| metric.name == column.metric.name) {
                    metrics.push(&column.metric);
                }
            }
            let described = to_json(&self.file_path("metrics.json"), &metrics)?;
            write_whole(&self.directory, "metrics.json", &described, Durability::Written)?;
            readings_csv::write_titles(&mut text, readings.columns())
                .map_err(|error| RecordError::malformed(&self.file_path("readings.csv"), error))?;
            self.columns_written = readings.columns().len();
        }
        let mut sample = String::new();
        readings_csv::write_sample(&mut sample, begin_s, end_s, readings);
        text.extend(sample.into_bytes());
        if let Some(mirror) = &mut self.mirror {
            mirror.sample(begin_s, end_s, readings);
        }
        self.append("readings.csv", |writer| &mut writer.readings, &text)
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
    pub fn finish_with_readings(mut self, run: &Run) -> Result<Option<WrittenReadings>, RecordError> {
        let readings = self.mirror.take().and_then(Mirror::finish);
        let mut outcome = self.write_run(run, Durability::Synced);
        for log in self.logs.take().into_iter().flatten() {
            outcome = outcome.and(log.finish(&self.directory, self.started_unix_ns));
        }
        outcome = outcome.and(compress(&self.directory, "readings.csv", &mut self.readings));
        if self.intervals.metadata().is_ok_and(|data| data.len() > INTERVALS_PLAIN_MAX) {
            outcome = outcome.and(compress(&self.directory, "intervals.csv", &mut self.intervals));
        }
        for (name, file) in [("intervals.csv", &self.intervals), ("events.jsonl", &self.events)] {
            outcome = outcome.and(file.sync_all().map_err(RecordError::io("sync", &self.file_path(name))));
        }
        outcome.and(self.directory.sync().map_err(RecordError::io("sync", self.path())))?;
        Ok(readings)
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
