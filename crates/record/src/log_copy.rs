//! The histogram logs of several trials as one log, for other programs.

use std::io::Write;
use std::path::Path;

use crate::histogram_log::{Decoded, Decoder, TITLES, encoded, header_of};
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
                let (prefix, operation, begin_s) =
                    (&trial.prefix, encoded(&line.operation), line.begin_s + later_s);
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

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use hdrhistogram::Histogram;
    use model::{Decision, Host, Interval, LatencySummary, Load, Phase, Run, Treatment, Trial};

    use super::*;
    use crate::{OperationIntervals, RunDirectory};

    /// Writes a trial with one operation in one interval of each phase.
    fn trial(directory: &RunDirectory, number: u32, started_unix_ns: u64, times: &Histogram<u64>) -> LogOf {
        let trial = Trial { number, treatment: Treatment::Baseline, replicate: number };
        let decision = Decision { trial, reason: String::new() };
        let id = decision.trial.id();
        let mut writer = directory.trial(&id).unwrap();
        writer.start(started_unix_ns).unwrap();
        for (phase, begin_s) in [(Phase::WarmUp, 0.0), (Phase::Measure, 1.0)] {
            let row = Interval {
                due: None,
                begin_s,
                end_s: begin_s + 1.0,
                phase,
                load: 1.0,
                operation: "read".into(),
                offered: None,
                issued: None,
                completed: times.len(),
                late: None,
                failed: 0,
                bytes: 0,
                concurrency: 1.0,
                response: LatencySummary::of(times),
                service: LatencySummary::of(times),
            };
            let empty = model::study::new_histogram();
            let of = OperationIntervals::of_times("read", times, &empty);
            writer.interval(&[row], &[of]).unwrap();
        }
        writer.finish(&Run::begun(decision.trial, "null", Load::of_workload(None), started_unix_ns)).unwrap();
        LogOf { trial: id.clone(), started_unix_ns, prefix: format!("{id}:") }
    }

    #[test]
    fn logs_of_several_trials_have_one_clock_and_the_same_histograms() {
        let scratch = testkit::Scratch::new();
        let run = scratch.join("run");
        let directory = RunDirectory::create(&run, "", &Host::default()).unwrap();
        let mut times = model::study::new_histogram();
        [900_u64, 1_500_000, 3_000_000_000].iter().for_each(|ns| times.record(*ns).unwrap());
        let second = 1_000_000_000;
        let trials = [trial(&directory, 1, 50 * second, &times), trial(&directory, 2, 60 * second, &times)];
        let mut out = Vec::new();
        let copied = copy_histogram_logs(&run, &trials, &mut out).unwrap();
        assert_eq!(copied, LogCopy { lines: 8, damage: Vec::new() });
        let text = String::from_utf8(out.clone()).unwrap();
        assert!(text.contains("#[StartTime: 50.000 (seconds since epoch)]\n"), "{text}");
        let mut lines = Lines::new(Box::new(Cursor::new(out)));
        let (mut decoder, mut budget, mut seen) = (Decoder::default(), Budget::new(), Vec::new());
        while let Some(raw) = lines.next(&mut budget) {
            if let Decoded::Line(line) = decoder.decode(raw) {
                assert!(line.histogram == times);
                seen.push((line.operation, line.phase, line.begin_s));
            }
        }
        let expected =
            ["001-baseline.r1", "002-baseline.r2"].into_iter().zip([0.0, 10.0]).flat_map(|(id, later)| {
                ["", ".service"].into_iter().flat_map(move |kind| {
                    let name = format!("{id}:read{kind}");
                    [(name.clone(), Phase::WarmUp, later), (name, Phase::Measure, later + 1.0)]
                })
            });
        assert_eq!(seen, expected.collect::<Vec<_>>());
        // What is damaged is left out and reported; nothing at all is an empty text.
        std::fs::write(run.join("trials/001-baseline.r1/response.hlog"), "Tag=read,0,1,2,HISTF\nTag=re")
            .unwrap();
        let mut out = Vec::new();
        let copied = copy_histogram_logs(&run, &trials[..1], &mut out).unwrap();
        assert_eq!((copied.lines, copied.damage.len()), (2, 1));
        let none = LogOf { trial: "003-x.r1".into(), ..trials[0].clone() };
        assert!(copy_histogram_logs(&run, &[none], &mut out).is_err());
        assert_eq!(copy_histogram_logs(&run, &[], &mut Vec::new()).unwrap(), LogCopy::default());
    }
}
