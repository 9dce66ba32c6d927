//! `response.hlog`, `service.hlog`, `lag.hlog`: the HdrHistogram log format, version 1.3, with V2 compressed
//! payloads, which common viewers can read. Each line has one interval and operation; values are nanoseconds.
//! The tag is the name of the operation in the measured phase and after it, and `name@phase` in other phases, so that
//! viewers separate them. The logs have the operations that were due in the measured phase; `name@censored` has, of those
//! that never ended, the times that they had. Signs of a name that a tag cannot have, and `@` and `%`, are percent-encoded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use files::{Directory, PRIVATE_FILE};
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer, V2Serializer};
use model::{Phase, Times};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::RecordError;
use crate::limits::{Budget, COUNTED_MAX, HISTOGRAM_BYTES_MAX};
use crate::lines::Lines;

/// The histograms of one operation over one interval, in nanoseconds.
#[derive(Clone, Debug)]
pub struct OperationIntervals<'a> {
    /// Name of the operation.
    pub operation: &'a str,
    /// Response time: from the intended start to completion. In the measured phase and after it, of the operations that were
    /// due in that phase.
    pub response: &'a Histogram<u64>,
    /// Service time: from the actual start to completion.
    pub service: &'a Histogram<u64>,
    /// Lag: from the intended start to the actual start.
    pub lag: &'a Histogram<u64>,
    /// The times that censored operations had.
    pub censored: Option<&'a Times>,
}

impl<'a> OperationIntervals<'a> {
    /// Those of another tool, which has one time for each operation and no lag: `empty` has no value.
    pub fn of_times(operation: &'a str, times: &'a Histogram<u64>, empty: &'a Histogram<u64>) -> Self {
        OperationIntervals { operation, response: times, service: times, lag: empty, censored: None }
    }
}

/// Number of lines per tag to which a finished log is folded: an hour with one line per second becomes lines
/// of twenty seconds.
const LINES_AFTER_FOLDING: usize = 180;

/// One line of a log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) operation: String,
    pub(crate) phase: Phase,
    /// Whether it has the times that censored operations had.
    pub(crate) is_censored: bool,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    pub(crate) histogram: Histogram<u64>,
}

pub(crate) struct HistogramLog {
    file: File,
    name: &'static str,
    path: PathBuf,
}

impl HistogramLog {
    pub(crate) fn create(
        directory: &Directory,
        name: &'static str,
        started_unix_ns: u64,
    ) -> Result<HistogramLog, RecordError> {
        let file = crate::trial::create(directory, name, &header(started_unix_ns))?;
        Ok(HistogramLog::of_file(directory, name, file))
    }

    /// The log in an open file, whose position is its end.
    pub(crate) fn of_file(directory: &Directory, name: &'static str, file: File) -> HistogramLog {
        HistogramLog { file, name, path: directory.path().join(name) }
    }

    /// Appends the lines of one interval in one write. Returns the number of operations that they have.
    pub(crate) fn append<'a>(
        &mut self,
        phase: Phase,
        begin_s: f64,
        end_s: f64,
        histograms: impl Iterator<Item = (&'a str, &'a Histogram<u64>, Option<&'a Histogram<u64>>)>,
    ) -> Result<u64, RecordError> {
        let (mut text, mut operations) = (Vec::new(), 0_u64);
        for (operation, ended, censored) in histograms {
            for (histogram, is_censored) in [(Some(ended), false), (censored, true)] {
                let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) else { continue };
                let tag = tag(operation, phase, is_censored);
                encode(&mut text, &tag, begin_s, end_s, histogram)
                    .map_err(|what| RecordError::malformed(&self.path, what))?;
                operations = operations.saturating_add(histogram.len());
            }
        }
        self.file.write_all(&text).map_err(RecordError::io("write", &self.path))?;
        Ok(operations)
    }

    /// Merges consecutive lines of a long log, and syncs it.
    pub(crate) fn finish(self, directory: &Directory, started_unix_ns: u64) -> Result<(), RecordError> {
        let fold = self.lines_to_fold().map_err(RecordError::io("read", &self.path))?;
        let folded = match fold {
            0 | 1 => None,
            fold => self.fold(fold, started_unix_ns)?,
        };
        let synced = match folded {
            Some(text) => (|| {
                let mut replacement = directory.replacement(self.name, PRIVATE_FILE)?;
                replacement.file().write_all(&text)?;
                replacement.file().sync_all()?;
                replacement.finish()
            })(),
            None => self.file.sync_all(),
        };
        synced.map_err(RecordError::io("write", &self.path))
    }

    /// Reads its lines from the first one.
    fn lines(&self) -> std::io::Result<Lines> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Lines::of_file(file, &mut Budget::new())
    }

    /// The number of lines of an operation that are merged to one.
    fn lines_to_fold(&self) -> std::io::Result<usize> {
        let mut lines = self.lines()?;
        let mut budget = Budget::unlimited();
        let (mut measured, mut operations) = (0_usize, BTreeSet::new());
        while let Some(raw) = lines.next(&mut budget) {
            if let Some((operation, phase, _)) = tag_of(raw) {
                measured += usize::from(phase == Phase::Measure);
                if !operations.contains(operation) {
                    operations.insert(operation.to_string());
                }
            }
        }
        Ok(measured.div_ceil(LINES_AFTER_FOLDING * operations.len().max(1)))
    }

    /// The log with every `fold` lines of the same operation and phase merged. None if a line cannot be read:
    /// the log is then kept as it is.
    fn fold(&self, fold: usize, started_unix_ns: u64) -> Result<Option<Vec<u8>>, RecordError> {
        let mut lines = self.lines().map_err(RecordError::io("read", &self.path))?;
        let mut budget = Budget::unlimited();
        let mut decoder = Decoder::default();
        let mut folding = LineMerger::new(fold);
        while let Some(raw) = lines.next(&mut budget) {
            match decoder.decode(raw) {
                Decoded::Line(line) => {
                    folding.add(line).map_err(|what| RecordError::malformed(&self.path, what))?;
                }
                Decoded::Comment => {}
                Decoded::Unreadable => return Ok(None),
            }
        }
        if lines.damage().is_some() {
            return Ok(None);
        }
        let mut text = header(started_unix_ns).into_bytes();
        text.extend(folding.finish().map_err(|what| RecordError::malformed(&self.path, what))?);
        Ok(Some(text))
    }
}

fn header(started_unix_ns: u64) -> String {
    format!(
        "{}#values are nanoseconds; a tag without @ is the measured phase{ESCAPES}\n{TITLES}",
        header_of(started_unix_ns)
    )
}

/// The titles of the columns, the last line of a head.
pub(crate) const TITLES: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// The first lines of a head.
pub(crate) fn header_of(started_unix_ns: u64) -> String {
    format!(
        "#[Histogram log format version 1.3]\n#[StartTime: {:.3} (seconds since epoch)]\n",
        started_unix_ns as f64 / 1e9
    )
}

/// The end of the comment of a log whose tags are percent-encoded.
pub(crate) const ESCAPES: &str = "; %XX in a tag is a byte in UTF-8";

/// What a name may have and a tag may not.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b',').add(b'@').add(b'%');

/// The name of an operation as it is in a tag.
pub(crate) fn encoded(operation: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(operation, ENCODED)
}

/// The end of the tag of censored operations.
const CENSORED: &str = "censored";

fn tag(operation: &str, phase: Phase, is_censored: bool) -> String {
    let operation = encoded(operation);
    match phase {
        _ if is_censored => format!("{operation}@{CENSORED}"),
        // What ended later was due in the measured phase, too.
        Phase::Measure | Phase::CoolDown => operation.to_string(),
        other => format!("{operation}@{}", other.word()),
    }
}

fn encode(
    out: &mut Vec<u8>,
    tag: &str,
    begin_s: f64,
    end_s: f64,
    histogram: &Histogram<u64>,
) -> Result<(), String> {
    let tag = Tag::new(tag).ok_or_else(|| format!("`{tag}` cannot be a tag in a histogram log"))?;
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .begin_log_with(out, &mut serializer)
        .map_err(|error| error.to_string())?;
    let duration = |seconds: f64| {
        Duration::try_from_secs_f64(seconds.max(0.0))
            .map_err(|error| format!("a time of {seconds:e} s: {error}"))
    };
    writer
        .write_histogram(histogram, duration(begin_s)?, duration(end_s - begin_s)?, Some(tag))
        .map_err(|error| format!("{error:?}"))
}

/// The operation and phase of a line, and whether it is of censored operations, without decoding its histogram.
fn tag_of(raw: &[u8]) -> Option<(&str, Phase, bool)> {
    let end = raw.iter().position(|byte| *byte == b',')?;
    parts_of(std::str::from_utf8(raw.get(..end)?).ok()?.strip_prefix("Tag=")?)
}

fn parts_of(tag: &str) -> Option<(&str, Phase, bool)> {
    match tag.rsplit_once('@') {
        Some((operation, CENSORED)) => Some((operation, Phase::CoolDown, true)),
        Some((operation, word)) => Some((operation, Phase::from_word(word)?, false)),
        None => Some((tag, Phase::Measure, false)),
    }
}

/// Appends a histogram in the V2 encoding, without compression.
pub fn encode_histogram(out: &mut Vec<u8>, histogram: &Histogram<u64>) {
    // Writing to memory does not fail, and no count of a run exceeds what the encoding has room for.
    let encoded = V2Serializer::new().serialize(histogram, out);
    debug_assert!(encoded.is_ok());
}

/// A decoded line of a log.
pub(crate) enum Decoded {
    Line(Line),
    /// A comment or the column titles.
    Comment,
    Unreadable,
}

/// Decodes histograms from an untrusted source.
#[derive(Default)]
pub struct HistogramDecoder(Deserializer);

impl std::fmt::Debug for HistogramDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistogramDecoder").finish_non_exhaustive()
    }
}

impl HistogramDecoder {
    /// Decodes a histogram in the V2 encoding. None if it is none of nanoseconds with at most three significant digits.
    pub fn decode(&mut self, payload: &[u8]) -> Option<Histogram<u64>> {
        if payload.len() as u64 > HISTOGRAM_BYTES_MAX || !is_plausible(payload) {
            return None;
        }
        self.0.deserialize(&mut Cursor::new(payload)).ok()
    }
}

/// Decodes lines of a log from an untrusted source.
#[derive(Default)]
pub(crate) struct Decoder {
    decoder: HistogramDecoder,
    payload: Vec<u8>,
    /// Whether its tags are percent-encoded: those of older logs are not.
    is_encoded: bool,
}

impl Decoder {
    pub(crate) fn decode(&mut self, raw: &[u8]) -> Decoded {
        // The parser of the log format does not support the column titles, which are a quoted line.
        if matches!(raw.first(), Some(b'#' | b'"')) {
            self.is_encoded |= raw.ends_with(ESCAPES.as_bytes());
            return Decoded::Comment;
        }
        self.line(raw).map_or(Decoded::Unreadable, Decoded::Line)
    }

    fn line(&mut self, raw: &[u8]) -> Option<Line> {
        // The parser requires the newline at the end.
        let raw = [raw, b"\n"].concat();
        let Ok(LogEntry::Interval(interval)) = IntervalLogIterator::new(&raw).next()? else { return None };
        let tag = interval.tag()?.as_str();
        let (operation, phase, is_censored) = parts_of(tag)?;
        let operation = match self.is_encoded {
            true => percent_decode_str(operation).decode_utf8().ok()?.into_owned(),
            false => operation.to_string(),
        };
        let histogram = self.histogram(interval.encoded_histogram())?;
        let begin_s = interval.start_timestamp().as_secs_f64();
        let end_s = begin_s + interval.duration().as_secs_f64();
        Some(Line { operation, phase, is_censored, begin_s, end_s, histogram })
    }

    /// Decodes a histogram in the V2 compressed encoding. Its header is validated before memory is allocated.
    fn histogram(&mut self, encoded: &str) -> Option<Histogram<u64>> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
        let (cookie, rest) = bytes.split_first_chunk::<4>()?;
        let (length, compressed) = rest.split_first_chunk::<4>()?;
        if u32::from_be_bytes(*cookie) != V2_COMPRESSED {
            return None;
        }
        let compressed = compressed.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        self.payload.clear();
        ZlibDecoder::new(compressed).take(HISTOGRAM_BYTES_MAX + 1).read_to_end(&mut self.payload).ok()?;
        let payload = std::mem::take(&mut self.payload);
        let histogram = self.decoder.decode(&payload);
        self.payload = payload;
        histogram
    }
}

/// Number of counts in the largest histogram.
const PLACES_MAX: u64 = 54 * 1024;
/// The first word of the V2 compressed encoding.
const V2_COMPRESSED: u32 = 0x1c84_9314;
/// The first word of the V2 encoding.
const V2: u32 = 0x1c84_9313;
/// Length of the header, bytes: cookie, length of the counts, offset, digits, lowest and highest value,
/// ratio.
const V2_HEADER: usize = 40;
/// The number of digits that Plimsoll writes; more digits would take up to a hundred times the memory.
const DIGITS_MAX: u32 = 3;
/// The highest trackable value, in ns: 292 years. Above it, the arithmetic of the histogram would overflow.
const HIGHEST_MAX: u64 = 1 << 63;

/// Whether a V2 encoding is within the limits of what Plimsoll writes: complete counts, and nanoseconds with
/// at most three significant digits.
fn is_plausible(payload: &[u8]) -> bool {
    let word =
        |at: usize| payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    let long =
        |at: usize| payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
    let (Some(cookie), Some(counts), Some(digits), Some(lowest), Some(highest)) =
        (word(0), word(4), word(12), long(16), long(24))
    else {
        return false;
    };
    cookie == V2
        && counts as usize <= payload.len().saturating_sub(V2_HEADER)
        && digits <= DIGITS_MAX
        && lowest == 1
        && (2..HIGHEST_MAX).contains(&highest)
        && payload.get(V2_HEADER..V2_HEADER + counts as usize).is_some_and(are_plausible)
}

/// Whether the counts, in groups of seven bits, fit into the largest histogram, and their sum does not
/// overflow. A negative count is a run of zeros. The library negates it, so the most negative one would
/// overflow.
fn are_plausible(mut counts: &[u8]) -> bool {
    let (mut places, mut operations) = (0_u64, 0_u64);
    while !counts.is_empty() {
        let mut value = 0_u64;
        let mut length = 0;
        loop {
            let Some(byte) = counts.get(length) else { return false };
            let is_last = *byte < 0x80 || length == 8;
            // The ninth byte has eight bits.
            let bits = if length == 8 { *byte } else { *byte & 0x7f };
            value |= u64::from(bits) << (7 * length);
            length += 1;
            if is_last {
                break;
            }
        }
        let is_run = value & 1 == 1;
        places = places.saturating_add(if is_run { (value >> 1).saturating_add(1) } else { 1 });
        operations = operations.saturating_add(if is_run { 0 } else { value >> 1 });
        counts = &counts[length..];
    }
    places <= PLACES_MAX && operations <= COUNTED_MAX
}

/// Merges lines of the same operation and phase. Only one decoded line of each is in memory; complete lines
/// are kept encoded.
struct LineMerger {
    fold: usize,
    /// Number of lines so far.
    count: usize,
    /// For each tag: the number of merged lines, the index of the first one, and their sum.
    open: BTreeMap<String, (usize, usize, Line)>,
    /// Complete lines, each with the index of its first line.
    done: Vec<(usize, Vec<u8>)>,
}

impl LineMerger {
    fn new(fold: usize) -> LineMerger {
        LineMerger { fold, count: 0, open: BTreeMap::new(), done: Vec::new() }
    }

    fn add(&mut self, line: Line) -> Result<(), String> {
        let number = self.count;
        self.count += 1;
        let key = tag(&line.operation, line.phase, line.is_censored);
        if let Some((added, _, sum)) = self.open.get_mut(&key)
            && *added < self.fold
            && sum.histogram.add(&line.histogram).is_ok()
        {
            *added += 1;
            sum.end_s = line.end_s;
            return Ok(());
        }
        match self.open.insert(key, (1, number, line)) {
            Some((_, first, sum)) => self.keep(first, &sum),
            None => Ok(()),
        }
    }

    fn keep(&mut self, first: usize, line: &Line) -> Result<(), String> {
        let mut text = Vec::new();
        let tag = tag(&line.operation, line.phase, line.is_censored);
        encode(&mut text, &tag, line.begin_s, line.end_s, &line.histogram)?;
        self.done.push((first, text));
        Ok(())
    }

    /// The merged lines, in the order of their first lines.
    fn finish(mut self) -> Result<Vec<u8>, String> {
        for (_, first, line) in std::mem::take(&mut self.open).into_values() {
            self.keep(first, &line)?;
        }
        self.done.sort_by_key(|(first, _)| *first);
        Ok(self.done.into_iter().flat_map(|(_, text)| text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(begin_s: f64, values: &[u64]) -> Line {
        let mut histogram = model::study::new_histogram();
        for value in values {
            histogram.record(*value).unwrap();
        }
        Line {
            operation: "read".into(),
            phase: Phase::Measure,
            is_censored: false,
            begin_s,
            end_s: begin_s + 1.0,
            histogram,
        }
    }

    fn decode(text: &[u8]) -> (Vec<Line>, bool) {
        let mut lines = Lines::new(Box::new(Cursor::new(text.to_vec())));
        let (mut budget, mut decoder, mut found) = (Budget::new(), Decoder::default(), Vec::new());
        let mut is_whole = true;
        while let Some(raw) = lines.next(&mut budget) {
            match decoder.decode(raw) {
                Decoded::Line(line) => found.push(line),
                Decoded::Comment => {}
                Decoded::Unreadable => is_whole = false,
            }
        }
        (found, is_whole && lines.damage().is_none())
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut text = header(1_700_000_000_000_000_000).into_bytes();
        let values = [900u64, 1_500_000, 3_000_000_000];
        for (operation, phase, is_censored) in [
            ("read", Phase::WarmUp, false),
            ("write", Phase::Measure, false),
            ("write", Phase::CoolDown, false),
            ("write", Phase::CoolDown, true),
        ] {
            let tag = tag(operation, phase, is_censored);
            encode(&mut text, &tag, 1.0, 2.0, &line(1.0, &values).histogram).unwrap();
        }
        let (lines, whole) = decode(&text);
        assert!(whole);
        let read: Vec<_> =
            lines.iter().map(|line| (line.operation.as_str(), line.phase, line.is_censored)).collect();
        // What ended after the measured phase was due in it.
        let expected = [
            ("read", Phase::WarmUp, false),
            ("write", Phase::Measure, false),
            ("write", Phase::Measure, false),
            ("write", Phase::CoolDown, true),
        ];
        assert_eq!(read, expected);
        assert_eq!(lines[1].histogram.len(), 3);
        assert_eq!((lines[1].begin_s, lines[1].end_s), (1.0, 2.0));
        // Truncated at any offset, complete lines are read and the damage is reported.
        for cut in 1..text.len() {
            let (lines, whole) = decode(&text[..cut]);
            assert!(lines.len() <= 4);
            assert_eq!(whole, text[cut - 1] == b'\n');
        }
    }

    #[test]
    fn any_name_is_read_back_and_the_tags_of_older_logs_are_names() {
        let names = [
            "HTTP Request",
            "a,b",
            "user@host",
            "x@warm_up",
            "100%",
            "%20",
            "a\r\nb",
            "Überweisung ≥ 5 €",
            "\"",
        ];
        let mut text = header(0).into_bytes();
        for name in names {
            let tag = tag(name, Phase::WarmUp, false);
            assert!(!tag.contains([' ', ',', '\n']), "{tag}");
            encode(&mut text, &tag, 1.0, 2.0, &line(1.0, &[1]).histogram).unwrap();
        }
        let (lines, whole) = decode(&text);
        assert!(whole);
        assert_eq!(lines.iter().map(|line| line.operation.as_str()).collect::<Vec<_>>(), names);
        assert!(lines.iter().all(|line| line.phase == Phase::WarmUp));
        let older = String::from_utf8(text).unwrap().replace(ESCAPES, "");
        assert_eq!(decode(older.as_bytes()).0[0].operation, "HTTP%20Request");
    }

    #[test]
    fn the_largest_histogram_that_can_be_written_is_read() {
        let mut histogram = model::study::new_histogram();
        // Every count occurs, and their sum is near the limit.
        for value in (0..53).flat_map(|power| (1024_u64..2048).map(move |at| at << power)) {
            if value < HIGHEST_MAX / 2 {
                histogram.record_n(value, (1 << 29) + value % 1_000_003).unwrap();
            }
        }
        let mut text = Vec::new();
        encode(&mut text, "read", 0.0, 1.0, &histogram).unwrap();
        assert!(text.len() < crate::limits::LINE_BYTES_MAX, "{}", text.len());
        let (lines, whole) = decode(&text);
        assert!(whole);
        assert!(lines[0].histogram == histogram);
    }

    #[test]
    fn what_a_header_claims_is_checked_before_memory_is_taken() {
        let header = |counts: u32, digits: u32, lowest: u64, highest: u64| {
            let mut bytes = V2.to_be_bytes().to_vec();
            bytes.extend(counts.to_be_bytes());
            bytes.extend(0_u32.to_be_bytes());
            bytes.extend(digits.to_be_bytes());
            bytes.extend(lowest.to_be_bytes());
            bytes.extend(highest.to_be_bytes());
            bytes.extend(1_f64.to_be_bytes());
            bytes.push(2);
            bytes
        };
        assert!(is_plausible(&header(1, 3, 1, 1 << 40)));
        let mut sum = header(18, 3, 1, 1 << 40);
        sum.truncate(V2_HEADER);
        sum.extend([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff].repeat(2));
        assert!(!is_plausible(&sum), "the sum of the counts overflows");
        let mut overflowing = header(10, 3, 1, 1 << 40);
        overflowing.truncate(V2_HEADER);
        overflowing.extend([0xff; 9]);
        overflowing.push(2);
        assert!(
            !is_plausible(&overflowing),
            "the most negative number is a run of zeros that cannot be negated"
        );
        for hostile in [
            header(1, 5, 1, u64::MAX),
            header(1, 4, 1, 1 << 40),
            header(u32::MAX, 3, 1, 1 << 40),
            header(2, 3, 1, 1 << 40),
            header(1, 3, 1 << 40, 1 << 50),
            header(1, 3, 1, 1),
            header(1, 3, 1, u64::MAX),
            Vec::new(),
        ] {
            assert!(!is_plausible(&hostile), "{hostile:?}");
        }
    }

    fn folded(lines: impl Iterator<Item = Line>, fold: usize) -> Vec<Line> {
        let mut folding = LineMerger::new(fold);
        for line in lines {
            folding.add(line).unwrap();
        }
        let (lines, whole) = decode(&folding.finish().unwrap());
        assert!(whole);
        lines
    }

    #[test]
    fn folding_keeps_every_count() {
        let lines = (0..25).map(|at| line(f64::from(at), &[1000, 2000 * at as u64 + 1]));
        let folded = folded(lines, 10);
        assert_eq!(folded.len(), 3);
        assert_eq!(folded.iter().map(|line| line.histogram.len()).sum::<u64>(), 50);
        assert_eq!((folded[0].begin_s, folded[0].end_s, folded[2].end_s), (0.0, 10.0, 25.0));
    }

    #[test]
    fn folded_lines_stay_in_the_order_of_time() {
        let write = |at: u32| Line { operation: "write".into(), ..line(f64::from(at), &[7]) };
        let lines = (0..10).flat_map(|at| [line(f64::from(at), &[5]), write(at)]);
        let seen: Vec<_> =
            folded(lines, 4).iter().map(|line| (line.operation.clone(), line.begin_s)).collect();
        let expected =
            [("read", 0.0), ("write", 0.0), ("read", 4.0), ("write", 4.0), ("read", 8.0), ("write", 8.0)];
        assert_eq!(seen, expected.map(|(name, at)| (name.to_string(), at)));
    }
}
