//! Text of exporters: Prometheus and OpenMetrics (node_exporter, windows_exporter), one snapshot or several in a file.
//!
//! A snapshot ends with `# EOF`, or where a series is repeated. Its time is that of its lines; if they have none, that of the
//! exporter's clock (`node_time_seconds`, `windows_os_time`, `windows_time_current_timestamp_seconds`). Without any time,
//! snapshots are one second apart from 1970 on, which is noted. Values with times of their own are joined by these, also if
//! the file has one series after the other; the values of 128 MiB are held for this.
//!
//! Values are those of the exporter: a counter counts up from its start ([`CounterLog::is_cumulative`]). An infinite value is
//! absent. A path is `name{label="value",...}` with the labels in the order of their names.

mod parser;

pub use parser::{ParsedLine, Point, Series, SeriesKind, SeriesParser};

use crate::counters::{AFTER_LAST, CounterColumn, CounterFamily, CounterLog, Joined, Sample, ahead};
use crate::input::Lines;
use crate::{Content, DateOrder, Fault, Format, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "openmetrics",
    about: "Prometheus or OpenMetrics text: all series of one or several snapshots",
    recognize: |head| recognize(head.text),
    open,
};

/// Lines of the head that are examined.
const HEAD_LINES: usize = 100;

const SECOND_NS: i64 = 1_000_000_000;

/// The clocks of exporters, in seconds since 1970.
const CLOCKS: &[&str] = &["node_time_seconds", "windows_os_time", "windows_time_current_timestamp_seconds"];

/// Whether the first lines are types and series.
fn recognize(head: &str) -> bool {
    let (mut parser, mut has_type) = (SeriesParser::new(), false);
    let (mut points, mut labelled, mut wrong) = (0, 0, 0);
    // The last line may be cut.
    let end = head.rfind('\n').map_or(head.len(), |end| end + 1);
    for line in head[..end].lines().filter(|line| !line.trim().is_empty()).take(HEAD_LINES) {
        match parser.parse_line(line.as_bytes()) {
            ParsedLine::Point(_) => {
                points += 1;
                labelled += usize::from(line.contains("=\""));
            }
            ParsedLine::Wrong(_) => wrong += 1,
            ParsedLine::End | ParsedLine::Other => {
                has_type |= line.starts_with("# TYPE ") || line.starts_with("# HELP ");
            }
        }
    }
    match has_type {
        true => points > wrong,
        false => labelled > 0 && wrong == 0,
    }
}

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let log = ExporterLog {
        lines: Lines::new(from),
        parser: SeriesParser::new(),
        joined: Joined::default(),
        places: Vec::new(),
        cumulative: Vec::new(),
        snapshot: Vec::new(),
        in_snapshot: Vec::new(),
        number: 1,
        clock_ns: None,
        last: None,
        last_ns: None,
        is_at_end: false,
    };
    ahead(log, |log| {
        let none = || Fault::at(0, "the file has no value", "");
        log.joined.notes.list().into_iter().next().unwrap_or_else(none)
    })
}

struct ExporterLog {
    lines: Lines,
    parser: SeriesParser,
    joined: Joined,
    /// The column of each series.
    places: Vec<Option<usize>>,
    /// Whether each column counts up.
    cumulative: Vec<bool>,
    /// The values of the snapshot that have no time, and the snapshot in which each series was last.
    snapshot: Vec<(usize, f64)>,
    in_snapshot: Vec<u64>,
    number: u64,
    /// The clock of the exporter in this snapshot.
    clock_ns: Option<i64>,
    /// The series with a time that was last, and its time.
    last: Option<(usize, i64)>,
    /// The time of the last snapshot without times.
    last_ns: Option<i64>,
    is_at_end: bool,
}

impl ExporterLog {
    fn add(&mut self, point: Point, line: u64) {
        let Some(place) = self.place(point.series, line) else { return };
        let value = if point.value.is_finite() { point.value } else { f64::NAN };
        let Some(time_ns) = point.unix_ns else {
            if self.in_snapshot[point.series] == self.number {
                self.end_snapshot(line);
            }
            self.in_snapshot[point.series] = self.number;
            let name = self.parser.series()[point.series].path.as_str();
            if CLOCKS.contains(&name) && value > 0.0 && value < 1e10 {
                self.clock_ns = Some((value * 1e9) as i64);
            }
            self.snapshot.push((place, value));
            return;
        };
        // A series that appears again after another one: the snapshots follow each other.
        if let Some((series, last_ns)) = self.last
            && series != point.series
            && self.in_snapshot[point.series] > 0
            && time_ns > last_ns
        {
            self.joined.complete_to(last_ns);
        }
        self.in_snapshot[point.series] = self.number;
        self.last = Some((point.series, time_ns));
        if self.joined.begin(AFTER_LAST, time_ns, line) {
            self.joined.set(time_ns, place, value);
        }
    }

    /// The column of a series, which is added if it is new.
    fn place(&mut self, series: usize, line: u64) -> Option<usize> {
        while self.places.len() <= series {
            let found = &self.parser.series()[self.places.len()];
            let place = self.joined.columns.place("", found.path.clone(), found.written.clone());
            if place == Some(self.cumulative.len()) {
                self.cumulative.push(found.kind == SeriesKind::Counter);
            }
            self.places.push(place);
            self.in_snapshot.push(0);
        }
        let place = self.places.get(series).copied().flatten();
        if place.is_none() {
            self.joined.notes.add("a series is over the limit of 65,536 and was left out", line, "");
        }
        place
    }

    /// Ends the snapshot whose values have no times.
    fn end_snapshot(&mut self, line: u64) {
        self.number += 1;
        let clock_ns = self.clock_ns.take();
        if self.snapshot.is_empty() {
            return;
        }
        let end_ns = clock_ns.or(self.last.map(|(_, time_ns)| time_ns)).unwrap_or_else(|| {
            let help = "write them with a time in each line, or with the clock of the exporter";
            self.joined.notes.add(
                "a snapshot has no time: snapshots are 1 s apart, from 1970 on",
                line,
                help,
            );
            self.last_ns.map_or(0, |last_ns| last_ns.saturating_add(SECOND_NS))
        });
        self.last_ns = Some(end_ns);
        if self.joined.begin(AFTER_LAST, end_ns, line) {
            for (place, value) in &self.snapshot {
                self.joined.set(end_ns, *place, *value);
            }
            self.joined.complete_to(end_ns);
        }
        self.snapshot.clear();
    }
}

impl CounterLog for ExporterLog {
    fn family(&self) -> CounterFamily {
        CounterFamily::OpenMetrics
    }

    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault> {
        loop {
            if self.joined.take(sample) {
                return Ok(true);
            }
            if self.is_at_end {
                return Ok(false);
            }
            match self.lines.next() {
                Ok(Some(line)) => {
                    let number = line.number;
                    let parsed = match line.is_cut {
                        true => ParsedLine::Wrong("a line is longer than 1 MiB"),
                        false => self.parser.parse_line(line.text.as_bytes()),
                    };
                    match parsed {
                        ParsedLine::Point(point) => self.add(point, number),
                        ParsedLine::End => self.end_snapshot(number),
                        ParsedLine::Wrong(what) => {
                            self.joined.notes.add(&format!("{what}: it was left out"), number, "");
                        }
                        ParsedLine::Other => {}
                    }
                }
                Ok(None) => {
                    self.is_at_end = true;
                    self.end_snapshot(0);
                    self.joined.complete_all();
                }
                Err(fault) => {
                    self.is_at_end = true;
                    return Err(fault);
                }
            }
        }
    }

    fn columns(&self) -> (&[CounterColumn], usize) {
        self.joined.columns.list()
    }

    fn is_cumulative(&self, column: usize) -> bool {
        self.cumulative.get(column).copied().unwrap_or(false)
    }

    fn clock(&self) -> (Option<DateOrder>, Option<i64>) {
        // Times are UTC.
        (None, Some(0))
    }

    fn notes(&self) -> Vec<Fault> {
        self.joined.notes.list()
    }
}

#[cfg(test)]
mod tests;
