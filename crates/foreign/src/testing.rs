//! Files of tests, opened as those of users are.

use crate::{Content, CounterLog, Fault, LoadRun, Options, Sample, open};

fn content(format: &str, bytes: &[u8], options: &Options) -> Result<Content, Fault> {
    let (found, content) = open(Box::new(std::io::Cursor::new(bytes.to_vec())), options)?;
    assert_eq!(found.name, format);
    Ok(content)
}

/// The log of counters in a file, which must be of this format.
pub(crate) fn log(format: &str, bytes: &[u8], options: &Options) -> Result<Box<dyn CounterLog>, Fault> {
    match content(format, bytes, options)? {
        Content::Counters(log) => Ok(Box::new(log)),
        Content::Load(_) => panic!("a load"),
        Content::FioLog(_) | Content::Figures(_) => panic!("logs or figures"),
    }
}

/// The only run in a file, which must be of this format.
pub(crate) fn run(format: &str, bytes: &[u8], options: &Options) -> Result<LoadRun, Fault> {
    let mut runs = runs(format, bytes, options)?;
    assert_eq!(runs.len(), 1);
    Ok(runs.remove(0))
}

/// The runs in a file, which must be of this format.
pub(crate) fn runs(format: &str, bytes: &[u8], options: &Options) -> Result<Vec<LoadRun>, Fault> {
    match content(format, bytes, options)? {
        Content::Load(runs) => Ok(runs.iter().map(|run| (**run).clone()).collect()),
        Content::Counters(_) => panic!("counters"),
        Content::FioLog(_) | Content::Figures(_) => panic!("logs or figures"),
    }
}

/// The begin and end of each sample, and its values that are there with their paths.
pub(crate) fn samples(log: &mut dyn CounterLog, time: impl Fn(i64) -> String) -> Vec<String> {
    let mut found = Vec::new();
    let mut sample = Sample::default();
    while log.next(&mut sample).unwrap() {
        let mut text = format!("{}..{}", time(sample.begin_unix_ns), time(sample.end_unix_ns));
        let (columns, _) = log.columns();
        assert_eq!(columns.len(), sample.values.len());
        for (column, value) in columns.iter().zip(&sample.values).filter(|(_, value)| !value.is_nan()) {
            text += &format!(" {}={value}", column.path);
        }
        found.push(text);
    }
    found
}

/// Seconds since 1970.
pub(crate) fn seconds(ns: i64) -> String {
    (ns / 1_000_000_000).to_string()
}

pub(crate) fn texts(notes: &[Fault]) -> Vec<String> {
    notes.iter().map(ToString::to_string).collect()
}
