//! `response.hlog`, `service.hlog`, `lag.hlog`: the HdrHistogram log format, version 1.3, V2 compressed payloads, which
//! the usual viewers read. One line per interval and operation; values are nanoseconds. The tag is the operation's
//! name in the measured phase and `name@phase` in any other, so that a viewer keeps them apart.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Cursor, Write as _};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use model::Phase;

use crate::RecordError;
use crate::directory::write_whole;

/// The histograms of one operation over one interval, in nanoseconds.
#[derive(Clone, Debug)]
pub struct OperationIntervals<'a> {
    /// Name of the operation.
    pub operation: &'a str,
    /// Intended start to done.
    pub response: &'a Histogram<u64>,
    /// Issued to done.
    pub service: &'a Histogram<u64>,
    /// Intended to issued.
    pub lag: &'a Histogram<u64>,
}

/// Lines per tag that a finished log is folded to: an hour at one a second becomes twenty-second lines.
const LINES_AFTER_FOLDING: usize = 180;

/// One line of a log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) operation: String,
    pub(crate) phase: Phase,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    pub(crate) histogram: Histogram<u64>,
}

pub(crate) struct HistogramLog {
    file: File,
    path: std::path::PathBuf,
}

impl HistogramLog {
    pub(crate) fn create(path: &Path, started_unix_ns: u64) -> Result<HistogramLog, RecordError> {
        let mut file = File::create(path).map_err(RecordError::io("create", path))?;
        file.write_all(header(started_unix_ns).as_bytes()).map_err(RecordError::io("write", path))?;
        Ok(HistogramLog { file, path: path.to_path_buf() })
    }

    /// Appends the lines of one interval in one write.
    pub(crate) fn append<'a>(
        &mut self,
        phase: Phase,
        begin_s: f64,
        end_s: f64,
        histograms: impl Iterator<Item = (&'a str, &'a Histogram<u64>)>,
    ) -> Result<(), RecordError> {
        let mut text = Vec::new();
        for (operation, histogram) in histograms {
            if !histogram.is_empty() {
                encode(&mut text, operation, phase, begin_s, end_s, histogram)
                    .map_err(|what| RecordError::malformed(&self.path, what))?;
            }
        }
        self.file.write_all(&text).map_err(RecordError::io("write", &self.path))
    }

    /// Folds neighbouring lines of a long log together and syncs it.
    pub(crate) fn finish(self, started_unix_ns: u64) -> Result<(), RecordError> {
        let text = std::fs::read(&self.path).map_err(RecordError::io("read", &self.path))?;
        let (lines, whole) = decode(&text);
        let longest = lines.iter().filter(|line| line.phase == Phase::Measure).count();
        let operations =
            lines.iter().map(|line| line.operation.as_str()).collect::<std::collections::BTreeSet<_>>().len();
        let fold = longest.div_ceil(LINES_AFTER_FOLDING * operations.max(1)).max(1);
        if fold > 1 && whole {
            let mut folded = header(started_unix_ns).into_bytes();
            for line in fold_lines(lines, fold) {
                encode(&mut folded, &line.operation, line.phase, line.begin_s, line.end_s, &line.histogram)
                    .map_err(|what| RecordError::malformed(&self.path, what))?;
            }
            write_whole(&self.path, &folded)?;
        }
        let file = File::open(&self.path).map_err(RecordError::io("open", &self.path))?;
        file.sync_all().map_err(RecordError::io("sync", &self.path))
    }
}

fn header(started_unix_ns: u64) -> String {
    let mut text = String::from("#[Histogram log format version 1.3]\n");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "#[StartTime: {:.3} (seconds since epoch)]", started_unix_ns as f64 / 1e9);
    let _ = writeln!(text, "#values are nanoseconds; a tag without @ is the measured phase");
    text.push_str(
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
    );
    text
}

fn encode(
    out: &mut Vec<u8>,
    operation: &str,
    phase: Phase,
    begin_s: f64,
    end_s: f64,
    histogram: &Histogram<u64>,
) -> Result<(), String> {
    let tag = match phase {
        Phase::Measure => operation.to_string(),
        other => format!("{operation}@{}", other.word()),
    };
    let tag = Tag::new(&tag).ok_or_else(|| format!("`{tag}` cannot be a tag in a histogram log"))?;
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .begin_log_with(out, &mut serializer)
        .map_err(|error| error.to_string())?;
    let duration = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0));
    writer
        .write_histogram(histogram, duration(begin_s), duration(end_s - begin_s), Some(tag))
        .map_err(|error| format!("{error:?}"))
}

/// Every line that can be read, and whether that was all of them.
pub(crate) fn decode(text: &[u8]) -> (Vec<Line>, bool) {
    // A line is over when its newline is there: what follows the last one was cut short.
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut whole = end == text.len();
    let mut lines = Vec::new();
    let mut deserializer = Deserializer::new();
    // The column titles are a quoted line that the parser of the log format does not expect.
    for raw in text[..end]
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !matches!(line.first(), Some(b'#' | b'"')))
    {
        let line = IntervalLogIterator::new(raw).next().and_then(|entry| match entry {
            Ok(LogEntry::Interval(interval)) => {
                let tag = interval.tag()?.as_str().to_string();
                let (operation, phase) = match tag.rsplit_once('@') {
                    Some((operation, word)) => (operation.to_string(), Phase::from_word(word)?),
                    None => (tag, Phase::Measure),
                };
                let bytes =
                    base64::engine::general_purpose::STANDARD.decode(interval.encoded_histogram()).ok()?;
                let histogram = deserializer.deserialize(&mut Cursor::new(bytes)).ok()?;
                let begin_s = interval.start_timestamp().as_secs_f64();
                Some(Line {
                    operation,
                    phase,
                    begin_s,
                    end_s: begin_s + interval.duration().as_secs_f64(),
                    histogram,
                })
            }
            _ => None,
        });
        match line {
            Some(line) => lines.push(line),
            None => whole = false,
        }
    }
    (lines, whole)
}

/// Adds up runs of `fold` lines of the same operation and phase.
fn fold_lines(lines: Vec<Line>, fold: usize) -> Vec<Line> {
    let mut folded: Vec<(usize, Line)> = Vec::new();
    let mut open: std::collections::HashMap<(String, u8), usize> = std::collections::HashMap::new();
    for line in lines {
        let key = (line.operation.clone(), line.phase as u8);
        match open.get(&key).copied() {
            Some(at) if folded[at].0 < fold && folded[at].1.histogram.add(&line.histogram).is_ok() => {
                folded[at].0 += 1;
                folded[at].1.end_s = line.end_s;
            }
            _ => {
                open.insert(key, folded.len());
                folded.push((1, line));
            }
        }
    }
    folded.into_iter().map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(begin_s: f64, values: &[u64]) -> Line {
        let mut histogram = model::study::new_histogram();
        for value in values {
            histogram.record(*value).unwrap();
        }
        Line { operation: "read".into(), phase: Phase::Measure, begin_s, end_s: begin_s + 1.0, histogram }
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut text = header(1_700_000_000_000_000_000).into_bytes();
        let values = [900u64, 1_500_000, 3_000_000_000];
        for (phase, tag) in [(Phase::WarmUp, "read"), (Phase::Measure, "write")] {
            encode(&mut text, tag, phase, 1.0, 2.0, &line(1.0, &values).histogram).unwrap();
        }
        let (lines, whole) = decode(&text);
        assert!(whole);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].operation.as_str(), lines[0].phase), ("read", Phase::WarmUp));
        assert_eq!((lines[1].operation.as_str(), lines[1].phase), ("write", Phase::Measure));
        assert_eq!(lines[1].histogram.len(), 3);
        assert_eq!((lines[1].begin_s, lines[1].end_s), (1.0, 2.0));
        // Cut anywhere: what is whole is read, and the rest is said to be missing.
        for cut in 1..text.len() {
            let (lines, whole) = decode(&text[..cut]);
            assert!(lines.len() <= 2);
            assert_eq!(whole, text[cut - 1] == b'\n');
        }
    }

    #[test]
    fn folding_keeps_every_count() {
        let lines: Vec<Line> = (0..25).map(|at| line(f64::from(at), &[1000, 2000 * at as u64 + 1])).collect();
        let folded = fold_lines(lines, 10);
        assert_eq!(folded.len(), 3);
        assert_eq!(folded.iter().map(|line| line.histogram.len()).sum::<u64>(), 50);
        assert_eq!((folded[0].begin_s, folded[0].end_s, folded[2].end_s), (0.0, 10.0, 25.0));
    }
}
