//! Writes the folder of a trial while the trial runs.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

pub(crate) const INTERVALS: &str = "intervals.csv";
pub(crate) const READINGS: &str = "readings.csv";
pub(crate) const EVENTS: &str = "events.jsonl";

/// The logs of times: response, service, lag.
pub(crate) const LOGS: [&str; 3] = ["response.hlog", "service.hlog", "lag.hlog"];

/// The latest time of a trial, about 300 years.
const TIME_S_MAX: f64 = 1e10;

/// Writes the folder of one trial. Each call writes to its file before it returns, with one write per file,
/// so a kill loses only the data that was not passed yet.
pub struct TrialWriter {
    place: Place,
    started_unix_ns: u64,
    samples: SampleText,
    columns_written: usize,
    /// For [`Run::recorded`].
    recorded: BTreeMap<&'static str, u64>,
    mirror: Option<Mirror>,
}

/// The folder of a trial.
struct Place {
    trials: Arc<Directory>,
    id: String,
    path: PathBuf,
    /// None while they are closed.
    files: Option<Files>,
    /// Whether the logs of times exist.
    has_logs: bool,
}

/// The open files of a trial.
struct Files {
    directory: Directory,
    intervals: File,
    logs: Option<[HistogramLog; 3]>,
    readings: File,
    events: File,
}

impl Place {
    /// The open files. Those that were closed are opened again.
    fn files(&mut self) -> Result<&mut Files, RecordError> {
        let files = match self.files.take() {
            Some(files) => files,
            None => self.open()?,
        };
        Ok(self.files.insert(files))
    }

    fn open(&self) -> Result<Files, RecordError> {
        let directory = self.directory()?;
        let open = |name: &str| {
            let open = || {
                let mut file = directory.open_file_to_write(name)?;
                file.seek(SeekFrom::End(0)).map(|_| file)
            };
            open().map_err(RecordError::io("open", &self.path.join(name)))
        };
        let log = |name| open(name).map(|file| HistogramLog::of_file(&directory, name, file));
        let [response, service, lag] = LOGS;
        Ok(Files {
            intervals: open(INTERVALS)?,
            logs: match self.has_logs {
                true => Some([log(response)?, log(service)?, log(lag)?]),
                false => None,
            },
            readings: open(READINGS)?,
            events: open(EVENTS)?,
            directory,
        })
    }

    fn directory(&self) -> Result<Directory, RecordError> {
        self.trials.open_folder(&self.id).map_err(RecordError::io("open", &self.path))
    }

    /// Writes or replaces a file as a whole.
    fn write(&self, name: &str, text: &[u8], durability: Durability) -> Result<(), RecordError> {
        match &self.files {
            Some(files) => write_whole(&files.directory, name, text, durability),
            None => write_whole(&self.directory()?, name, text, durability),
        }
    }
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
    pub(crate) fn create(trials: &Arc<Directory>, id: &str) -> Result<TrialWriter, RecordError> {
        let directory = trials
            .make_folder(id, PRIVATE_FOLDER)
            .map_err(RecordError::io("create", &trials.path().join(id)))?;
        let path = directory.path().to_path_buf();
        let files = Files {
            intervals: create(&directory, INTERVALS, interval_csv::HEADER)?,
            logs: None,
            readings: create(&directory, READINGS, "")?,
            events: create(&directory, EVENTS, "")?,
            directory,
        };
        let (trials, id) = (Arc::clone(trials), id.to_string());
        Ok(TrialWriter {
            place: Place { trials, id, path, files: Some(files), has_logs: false },
            started_unix_ns: 0,
            samples: SampleText::default(),
            columns_written: 0,
            recorded: BTreeMap::from([(INTERVALS, 1), (READINGS, 0), (EVENTS, 0)]),
            mirror: None,
        })
    }

    /// Closes the files until something is written again. Of many trials that are written together, only one needs open files.
    pub fn close(&mut self) {
        self.place.files = None;
    }

    /// The samples of the counters are those of another tool: they are kept in memory too, for
    /// [`TrialWriter::finish_with_readings`], and are not compressed, as that takes a third of the time of an import whose log
    /// is larger. Called before the first one.
    pub fn import_readings(&mut self) {
        self.mirror = Some(Mirror::new());
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// Sets the zero of the trial's clock; called once, before the first interval.
    pub fn start(&mut self, started_unix_ns: u64) -> Result<(), RecordError> {
        self.started_unix_ns = started_unix_ns;
        let files = self.place.files()?;
        let log = |name| HistogramLog::create(&files.directory, name, started_unix_ns);
        let [response, service, lag] = LOGS;
        files.logs = Some([log(response)?, log(service)?, log(lag)?]);
        self.place.has_logs = true;
        self.recorded.extend(LOGS.map(|name| (name, 0)));
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
                .map_err(|error| RecordError::malformed(&self.file_path(INTERVALS), error))?;
        }
        self.append(INTERVALS, |files| &mut files.intervals, &text)
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
            return Err(RecordError::malformed(&self.file_path(INTERVALS), what));
        }
        for (at, log) in self.place.files()?.logs.iter_mut().flatten().enumerate() {
            let of = histograms.iter().map(|of| {
                let ended = [of.response, of.service, of.lag][at];
                (of.operation, ended, of.censored.map(|censored| censored.each()[at]))
            });
            let operations = log.append(phase, begin_s, end_s, of)?;
            *self.recorded.entry(LOGS[at]).or_default() += operations;
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
            self.place.write("metrics.json", &described, Durability::Written)?;
            let mut titles = Vec::new();
            readings_csv::write_titles(&mut titles, readings.columns())
                .map_err(|error| RecordError::malformed(&self.file_path(READINGS), error))?;
            self.append(READINGS, |files| &mut files.readings, &titles)?;
            self.columns_written = readings.columns().len();
        }
        let row = self.samples.row(begin_s, end_s, readings);
        let bytes = row.len() as u64;
        let written = self.place.files()?.readings.write_all(row);
        *self.recorded.entry(READINGS).or_default() += 1;
        if let Some(mirror) = &mut self.mirror {
            mirror.sample((begin_s, end_s), bytes, readings.columns(), self.samples.recorded());
        }
        written.map_err(RecordError::io("write", &self.file_path(READINGS)))
    }

    /// Appends one event.
    pub fn event(&mut self, event: &Event) -> Result<(), RecordError> {
        let path = self.file_path(EVENTS);
        let mut text = serde_json::to_vec(event).map_err(|error| RecordError::malformed(&path, error))?;
        text.push(b'\n');
        self.append(EVENTS, |files| &mut files.events, &text)
    }

    /// Writes or replaces `run.json`.
    pub fn run(&self, run: &Run) -> Result<(), RecordError> {
        self.write_run(run, Durability::Written)
    }

    /// Writes `steps.json`.
    pub fn steps(&self, steps: &TrialSteps) -> Result<(), RecordError> {
        let text = to_json(&self.file_path("steps.json"), steps)?;
        self.place.write("steps.json", &text, Durability::Written)
    }

    fn write_run(&self, run: &Run, durability: Durability) -> Result<(), RecordError> {
        let text = to_json(&self.file_path("run.json"), run)?;
        self.place.write("run.json", &text, durability)
    }

    /// Ends the trial: writes `run.json` for the last time, folds long histogram logs, compresses counters,
    /// and syncs all files. Every step is tried even if an earlier one fails; the first failure is returned.
    pub fn finish(self, run: &Run) -> Result<(), RecordError> {
        self.finish_with_readings(run).map(drop)
    }

    /// The same, and returns the counters as reading them would give them; none if they were not kept, or if a limit was met
    /// that reading them reports.
    pub fn finish_with_readings(mut self, run: &Run) -> Result<Option<WrittenReadings>, RecordError> {
        let recorded = self.recorded.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        let mut outcome = self.write_run(&Run { recorded, ..run.clone() }, Durability::Synced);
        let files = match self.place.files.take() {
            Some(files) => files,
            None => self.place.open()?,
        };
        let Files { directory, mut intervals, logs, mut readings, events } = files;
        let TrialWriter { started_unix_ns, mirror, .. } = self;
        for log in logs.into_iter().flatten() {
            outcome = outcome.and(log.finish(&directory, started_unix_ns));
        }
        let at = |name: &str| directory.path().join(name);
        outcome = outcome.and(match mirror {
            Some(_) => readings.sync_all().map_err(RecordError::io("sync", &at(READINGS))),
            None => compress(&directory, READINGS, &mut readings),
        });
        if intervals.metadata().is_ok_and(|data| data.len() > INTERVALS_PLAIN_MAX) {
            outcome = outcome.and(compress(&directory, INTERVALS, &mut intervals));
        }
        for (name, file) in [(INTERVALS, &intervals), (EVENTS, &events)] {
            outcome = outcome.and(file.sync_all().map_err(RecordError::io("sync", &at(name))));
        }
        outcome.and(directory.sync().map_err(RecordError::io("sync", directory.path())))?;
        Ok(mirror.and_then(Mirror::finish))
    }

    fn file_path(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Appends whole lines.
    fn append(
        &mut self,
        name: &'static str,
        file: impl FnOnce(&mut Files) -> &mut File,
        lines: &[u8],
    ) -> Result<(), RecordError> {
        let path = self.file_path(name);
        file(self.place.files()?).write_all(lines).map_err(RecordError::io("write", &path))?;
        let count = lines.iter().filter(|byte| **byte == b'\n').count();
        *self.recorded.entry(name).or_default() += count as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::{EventKind, Host, Load, Treatment, Trial};

    use super::*;
    use crate::RunDirectory;

    /// Writes a trial, and closes its files after each call if `closes` says so. Its files.
    fn files(closes: bool) -> BTreeMap<String, Vec<u8>> {
        let scratch = testkit::Scratch::new();
        let directory = RunDirectory::create(&scratch.join("run"), "", &Host::default()).unwrap();
        let trial = Trial { number: 1, treatment: Treatment::Baseline, replicate: 1 };
        let mut writer = directory.trial(&trial.id()).unwrap();
        let folder = writer.path().to_path_buf();
        let run = Run::begun(trial, "null", Load::of_workload(None), 0);
        let mut times = model::study::new_histogram();
        times.record(900).unwrap();
        let empty = model::study::new_histogram();
        let descriptors = || {
            std::fs::read_dir("/proc/self/fd")
                .unwrap()
                .filter(|entry| {
                    let path = entry.as_ref().unwrap().path();
                    std::fs::read_link(path).is_ok_and(|target| target.starts_with(&folder))
                })
                .count()
        };
        writer.run(&run).unwrap();
        for step in 0..400_u32 {
            let at_s = f64::from(step);
            match step % 4 {
                0 if step == 0 => writer.start(0).unwrap(),
                1 => writer
                    .event(&Event { at_s, kind: EventKind::Source, text: "e".into(), data: BTreeMap::new() })
                    .unwrap(),
                2 => {
                    let of = crate::OperationIntervals::of_times("read", &times, &empty);
                    writer.histograms(Phase::Measure, at_s, at_s + 1.0, &[of]).unwrap();
                }
                _ => writer.readings(at_s, at_s + 1.0, &Readings::new()).unwrap(),
            }
            if closes {
                writer.close();
                assert_eq!(descriptors(), 0, "step {step}");
            }
        }
        writer.run(&run).unwrap();
        writer.finish(&run).unwrap();
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
            .collect()
    }

    #[test]
    fn a_trial_that_was_closed_goes_on_where_it_was() {
        let open = files(false);
        assert!(open.len() >= 6, "{:?}", open.keys());
        assert_eq!(open, files(true));
    }
}
