//! The histogram logs of several trials as one log, for other programs.

use std::io::Write;
use std::path::Path;

use crate::histogram_log::{Decoded, Decoder, TITLES, header_of};
use crate::limits::Budget;
use crate::lines::Lines;
use crate::{RecordError, directory};

/// A trial whose logs are copied.
#[derive(Clone, Debug)]
pub struct LogOf {
    /// The id of the trial, which is the name of its folder.
    pub trial: String,
    /// Zero of its clock, nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Put before each tag; may be empty. A tag has no comma and no blank.
    pub prefix: String,
}

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCopy {
    /// Lines with a histogram.
    pub lines: u64,
    /// Damage of the logs, in words.
    pub damage: Vec<String>,
}

/// The logs, and what distinguishes their tags.
const LOGS: [(&str, &str); 3] = [("response.hlog", ""), ("service.hlog", ".service"), ("lag.hlog", ".lag")];

/// Writes the logs of trials as one: times are relative to the begin of the first trial. The histograms are those of the
/// record, byte for byte. A tag is `[PREFIX]operation`, with `.service` or `.lag` for service times and lags, and with
/// `@phase` for other phases than the measured one. Nothing is written if there is no histogram.
///
/// # Errors
/// If a folder cannot be opened, or the error of `out`.
pub fn copy_histogram_logs(
    run: &Path,
    trials: &[LogOf],
    out: &mut dyn Write,
) -> Result<LogCopy, RecordError> {
    let mut copied = LogCopy::default();
    let (_, folders) = directory::open(run)?;
    let Some(base_ns) = trials.iter().map(|trial| trial.started_unix_ns).min() else { return Ok(copied) };
    for trial in trials {
        let at = folders.path().join(&trial.trial);
        let folder = folders.open_folder(&trial.trial).map_err(RecordError::io("open", &at))?;
        let later_s = (trial.started_unix_ns - base_ns) as f64 / 1e9;
        for (name, kind) in LOGS {
            let path = at.join(name);
            let mut budget = Budget::new();
            let found = Lines::open(&folder, name, &mut budget).map_err(RecordError::io("read", &path))?;
            let Some(mut lines) = found else { continue };
            let mut decoder = Decoder::default();
            while let Some(raw) = lines.next(&mut budget) {
                let decoded = match decoder.decode(raw) {
                    Decoded::Comment => continue,
                    Decoded::Unreadable => None,
                    // Its length, largest value and histogram stay as they are.
                    Decoded::Line(line) => std::str::from_utf8(raw)
                        .ok()
                        .and_then(|raw| raw.splitn(3, ',').nth(2))
                        .map(|rest| (line, rest.to_string())),
                };
                let Some((line, rest)) = decoded else {
                    lines.unreadable();
                    continue;
                };
                if copied.lines == 0 {
                    let head = header_of(base_ns) + TITLES;
                    out.write_all(head.as_bytes()).map_err(RecordError::io("write", &path))?;
                }
                copied.lines += 1;
                let phase = match line.phase {
                    model::Phase::Measure => String::new(),
                    phase => format!("@{}", phase.word()),
                };
                let (prefix, operation, begin_s) = (&trial.prefix, &line.operation, line.begin_s + later_s);
                writeln!(out, "Tag={prefix}{operation}{kind}{phase},{begin_s:.3},{rest}")
                    .map_err(RecordError::io("write", &path))?;
            }
            if let Some(what) = lines.damage() {
                copied.damage.push(format!("{}: {what}", path.display()));
            }
        }
    }
    Ok(copied)
}
