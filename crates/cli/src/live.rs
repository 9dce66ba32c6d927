//! `--live FILE`: a CSV line for each operation and interval while a measurement runs, to be followed with `tail -f` or plotted.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::stream::{RunEvent, Subscriber};
use model::Interval;

use crate::carry_out::Failure;
use crate::output;

/// The columns. Times of operations in milliseconds.
const HEAD: &str = "unix_s,trial,phase,elapsed_s,operation,load,rate_per_s,bytes_per_s,failed,in_flight,response_mean_ms,\
                    response_p50_ms,response_p99_ms,response_max_ms\n";

/// The file with its path, and the trial that runs.
pub(crate) struct Live(Mutex<Option<Open>>);

struct Open {
    path: PathBuf,
    file: File,
    trial: String,
}

impl Live {
    /// Opens the file and writes the head; nothing is written without a path.
    pub(crate) fn begin(path: Option<&Path>) -> Result<Live, Failure> {
        let Some(path) = path else { return Ok(Live(Mutex::new(None))) };
        let failed = |error: std::io::Error| {
            Failure::failed(format!("--live: {} cannot be written: {error}", path.display()))
        };
        let output = files::Output::create(path, files::SHARED_FILE).map_err(failed)?;
        let mut file = output.into_file().map_err(failed)?;
        // The reader of a pipe could block the measurement by not reading.
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(Failure::usage(format!(
                "error: --live: {} is not a regular file\n  name a file, and follow it with tail -f",
                path.display()
            )));
        }
        file.write_all(HEAD.as_bytes()).map_err(failed)?;
        Ok(Live(Mutex::new(Some(Open { path: path.into(), file, trial: String::new() }))))
    }

    /// Completes the file.
    pub(crate) fn end(self) {
        let state = self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(open) = state
            && let Err(error) = files::settle(&open.file)
        {
            open.fail(&error);
        }
    }
}

impl Open {
    /// The run goes on, because the record has the same figures; the end of the program is an error.
    fn fail(&self, error: &std::io::Error) {
        output::lose(format!("--live: {} is not complete: {error}", self.path.display()));
    }
}

impl Subscriber for Live {
    /// A write error, for instance on a full disk, ends the file.
    fn happens(&self, happening: &RunEvent<'_>) {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(open) = state.as_mut() else { return };
        let written = match happening {
            RunEvent::Trial { decision, .. } => {
                open.trial = decision.trial.id();
                Ok(())
            }
            RunEvent::Interval { rows, .. } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                let lines: String = rows.iter().map(|row| line(now, &open.trial, row)).collect();
                open.file.write_all(lines.as_bytes())
            }
            _ => Ok(()),
        };
        if let Err(error) = written {
            output::say_at_once(&format!("warning: --live: no more lines are written: {error}"));
            open.fail(&error);
            *state = None;
        }
    }
}

fn line(now_s: f64, trial: &str, row: &Interval) -> String {
    let Interval { phase, end_s, operation, load, failed, concurrency, response, .. } = row;
    let (rate, bytes) = (row.rate_per_s(), row.bytes_per_s());
    let times = [response.mean, response.p50, response.p99, response.max].map(|ms| format!("{ms:.4}"));
    // An operation without a completion has no times.
    let times = if row.completed > 0 { times.join(",") } else { ",,,".into() };
    format!(
        "{now_s:.3},{},{},{end_s:.3},{},{load},{rate:.3},{bytes:.0},{failed},{concurrency:.3},{times}\n",
        report::csv_text(trial),
        phase.word(),
        report::csv_text(operation),
    )
}

/// All that receive the events of a run, in this order.
pub(crate) struct Subscribers<'a>(pub(crate) &'a [&'a dyn Subscriber]);

impl Subscriber for Subscribers<'_> {
    fn happens(&self, happening: &RunEvent<'_>) {
        self.0.iter().for_each(|each| each.happens(happening));
    }

    fn ends(&self) -> Option<String> {
        self.0.iter().find_map(|each| each.ends())
    }

    fn remarks(&self) -> Vec<String> {
        self.0.iter().flat_map(|each| each.remarks()).collect()
    }
}
