//! Every number of every importer, replaced by extreme ones: there is a result without an absurd figure, or a refusal with a reason.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use model::{LatencySummary, Level};

use crate::{Content, CounterLog as _, FORMATS, Fault, LoadRun, Options, Sample, join_fio_logs, open};

/// What a number is replaced by.
const EXTREMES: [&str; 13] = [
    "",
    "0",
    "-1",
    "1e308",
    "-1e308",
    "1e-320",
    "NaN",
    "inf",
    "12345678901234567890123456",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.00000000000000000000000001",
];

/// The same in eight bytes.
const PATTERNS: [u64; 7] = [
    0,
    u64::MAX,
    1 << 63,
    (1 << 63) - 1,
    0x7fe1_ccf3_85eb_c8a0, // 1e308
    0x7ff8_0000_0000_0000, // NaN
    0x7ff0_0000_0000_0000, // infinity
];

/// The most places of a binary file that are changed.
const BINARY_MAX: usize = 60;

/// The figures of any run of any tool, whatever their unit, are smaller.
const ABSURD: f64 = 1.5e18;

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_none_or(|of| of != "md"));
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.into_iter().map(|path| (name(&path), std::fs::read(&path).unwrap())).collect()
}

/// The spans of all numbers in a text.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, sign) in text.char_indices() {
        let is_part = sign.is_ascii_digit() || (sign == '.' && found.last().is_some_and(|of| of.end == at));
        match found.last_mut() {
            Some(last) if is_part && last.end == at => last.end = at + 1,
            _ if is_part => found.push(at..at + 1),
            _ => {}
        }
    }
    found
}

/// Reads all of a file as an import does.
fn read(name: &str, bytes: &[u8]) -> Result<(), Fault> {
    let (_, content) = open(Box::new(std::io::Cursor::new(bytes.to_vec())), &Options::default())?;
    match content {
        Content::Load(runs) => runs.iter().for_each(|run| check(run)),
        Content::FioLog(log) => {
            let mut runs = Vec::new();
            join_fio_logs(vec![(name.to_string(), *log)], &mut runs).map_err(|(_, fault)| fault)?;
            runs.iter().for_each(|(_, run)| check(run));
        }
        Content::Counters(mut log) => {
            let mut sample = Sample::default();
            while log.next(&mut sample)? {
                assert!(sample.begin_unix_ns <= sample.end_unix_ns);
                assert!(sample.values.iter().all(|value| value.is_nan() || value.abs() <= 1e21));
            }
            log.notes();
        }
        Content::Figures(results) => {
            for figure in results.iter().flat_map(|of| &of.figures) {
                assert!(figure.value.is_finite() && figure.span.high <= 1e21, "{figure:?}");
            }
        }
    }
    Ok(())
}

fn check(run: &LoadRun) {
    let is_sound = |value: f64| value.is_finite() && (0.0..ABSURD).contains(&value);
    assert!(is_sound(run.seconds), "{}", run.seconds);
    assert!(run.began_unix_ns.is_none_or(|began| began >= 0));
    for interval in &run.intervals {
        let seconds = interval.end_s - interval.begin_s;
        assert!(is_sound(interval.begin_s) && is_sound(seconds), "{interval:?}");
        assert!(interval.failed <= interval.completed, "{interval:?}");
        assert!(is_sound(interval.completed as f64) && is_sound(interval.bytes as f64), "{interval:?}");
        assert!(is_sound(interval.load), "{interval:?}");
        assert!(interval.concurrency.is_nan() || is_sound(interval.concurrency), "{interval:?}");
        let LatencySummary { min, mean, p50, p90, p95, p99, p999, max, .. } = interval.response;
        let times = [min, mean, p50, p90, p95, p99, p999, max];
        assert!(times.iter().all(|ms| ms.is_nan() || (0.0..=86_400_000.0).contains(ms)), "{interval:?}");
    }
    if run.seconds > 0.0 {
        let completed: f64 = run.intervals.iter().map(|of| of.completed as f64).sum();
        assert!(is_sound(completed / run.seconds), "{completed} in {} s", run.seconds);
    }
    for times in run.histograms.values().chain(run.interval_times.values()) {
        assert!(times.max() <= 87_000_000_000_000 && times.len() <= 1 << 46);
    }
    for (name, level) in run.settings.iter().chain(&run.facts) {
        let is_sound = match level {
            Level::Count(count) | Level::Bytes(count) | Level::Time(count) => is_sound(*count as f64),
            Level::Number(value) | Level::Percent(value) | Level::Rate(value) => is_sound(*value),
            _ => true,
        };
        assert!(is_sound, "{name} {level}");
    }
}

/// Reads a file in which something was replaced; what was, if that is a panic or a refusal without a reason.
fn failure(name: &str, what: impl Fn() -> String, bytes: &[u8]) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| read(name, bytes))) {
        Ok(Ok(())) => None,
        Ok(Err(fault)) if !fault.what.is_empty() => None,
        Ok(Err(_)) => Some(format!("{name}: {}: refused without a reason", what())),
        Err(_) => Some(format!("{name}: {}: a panic", what())),
    }
}

#[test]
fn every_format_has_a_fixture() {
    let mut known = BTreeSet::new();
    for (name, bytes) in fixtures() {
        let opened = open(Box::new(std::io::Cursor::new(bytes.clone())), &Options::default());
        let (format, _) = opened.unwrap_or_else(|fault| panic!("{name}: {fault}"));
        read(&name, &bytes).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        known.insert(format.name);
    }
    // Those that are recognized only, to say what to do.
    known.extend(["sadc", "fio (other)"]);
    let missing: Vec<&str> =
        FORMATS.iter().map(|format| format.name).filter(|name| !known.contains(name)).collect();
    assert!(missing.is_empty(), "a file in fixtures/ is missing for {missing:?}");
}

#[test]
fn no_number_is_a_panic_or_an_absurd_figure() {
    let (mut failures, mut count) = (Vec::new(), 0);
    for (name, bytes) in fixtures() {
        if let Some(text) = std::str::from_utf8(&bytes).ok().filter(|text| !text.contains('\0')) {
            for span in numbers(text) {
                for extreme in EXTREMES {
                    let changed = format!("{}{extreme}{}", &text[..span.start], &text[span.end..]);
                    let what = || {
                        let line = 1 + text[..span.start].matches('\n').count();
                        format!("line {line}: {} became {extreme:?}", &text[span.clone()])
                    };
                    count += 1;
                    failures.extend(failure(&name, what, changed.as_bytes()));
                }
            }
        } else {
            // Zeros between the parts of a large file are no numbers.
            let used = |at: &usize| bytes[*at..].iter().take(8).any(|byte| *byte != 0);
            let places: Vec<usize> = (0..bytes.len().saturating_sub(8)).filter(used).collect();
            for at in places.iter().copied().step_by(places.len().div_ceil(BINARY_MAX)) {
                for pattern in PATTERNS {
                    for number in [pattern.to_le_bytes(), pattern.to_be_bytes()] {
                        let mut changed = bytes.clone();
                        changed[at..at + 8].copy_from_slice(&number);
                        count += 1;
                        failures.extend(failure(&name, || format!("byte {at} became {number:?}"), &changed));
                    }
                }
            }
        }
    }
    assert!(count > 10_000, "{count}");
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}
