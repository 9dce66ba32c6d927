//! Text of exporters: Prometheus and OpenMetrics (node_exporter, windows_exporter), one snapshot or several in a file.
//!
//! A snapshot ends with `# EOF`, or where a series is repeated. Its time is that of its lines; if they have none, that of the
//! exporter's clock (`node_time_seconds`, `windows_os_time`, `windows_time_current_timestamp_seconds`). Without any time,
//! snapshots are one second apart from 1970 on, which is noted. Values with times of their own are joined by these, also if
//! the file has one series after the other; the values of 128 MiB are held for this.
//!
//! The host of a series is its label `instance` where it also has `job`, as those of a Prometheus server have; otherwise that of the
//! exporter (`node_uname_info`, `windows_os_hostname`, `windows_cs_hostname`) in its snapshot, or before.
//!
//! Values are those of the exporter: a counter counts up from its start ([`CounterLog::is_cumulative`]). An infinite value is
//! absent. A path is `name{label="value",...}` with the labels in the order of their names.

mod parser;

pub use parser::{ParsedLine, Point, Series, SeriesKind, SeriesParser};

use std::collections::{BTreeMap, HashMap};

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

/// The series that name their host, and the label that has its name.
const NAMES: &[(&str, &str)] = &[
    ("node_uname_info", "nodename"),
    ("windows_os_hostname", "hostname"),
    ("windows_cs_hostname", "hostname"),
];

/// The labels that a Prometheus server adds: the address of the exporter, and its job.
const OF_SERVER: &[&str] = &["instance", "job"];

/// The most hosts of a file.
const HOSTS_MAX: usize = 4096;

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
        places: HashMap::new(),
        hosts: Vec::new(),
        snapshot_host: None,
        series: Vec::new(),
        cumulative: Vec::new(),
        snapshot: Vec::new(),
        last_of_hosts: BTreeMap::new(),
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
    /// The column of each series of each host.
    places: HashMap<(usize, usize), usize>,
    /// The hosts of the snapshots. The first one has all series of which the host is not known otherwise.
    hosts: Vec<String>,
    /// The host of this snapshot.
    snapshot_host: Option<usize>,
    /// What is known of each series.
    series: Vec<Known>,
    /// Whether each column counts up.
    cumulative: Vec<bool>,
    /// The series of the snapshot whose values have no time, with these.
    snapshot: Vec<(usize, f64)>,
    /// The time of the last snapshot of each host.
    last_of_hosts: BTreeMap<usize, i64>,
    number: u64,
    /// The clock of the exporter in this snapshot.
    clock_ns: Option<i64>,
    /// The series with a time that was last, and its time.
    last: Option<(usize, i64)>,
    /// The time of the last snapshot without times.
    last_ns: Option<i64>,
    is_at_end: bool,
}

/// What is known of a series.
struct Known {
    /// Its host and its path there, if a Prometheus server says it.
    of_server: Option<(String, String)>,
    /// The host that it names.
    names: Option<String>,
    is_clock: bool,
    /// The snapshot in which it was last; 0 for none.
    in_snapshot: u64,
}

impl Known {
    fn of(series: &Series) -> Known {
        let instance =
            series.label("instance").filter(|name| !name.is_empty() && series.label("job").is_some());
        let of_server = instance.map(|host| (host.to_string(), series.path_without(OF_SERVER)));
        let label = NAMES.iter().find(|(name, _)| series.name == *name);
        let names = label.and_then(|(_, label)| series.label(label)).filter(|name| !name.is_empty());
        Known {
            names: names.filter(|_| of_server.is_none()).map(str::to_string),
            of_server,
            is_clock: CLOCKS.contains(&series.path.as_str()),
            in_snapshot: 0,
        }
    }
}

impl ExporterLog {
    fn add(&mut self, point: Point, line: u64) {
        while self.series.len() <= point.series {
            self.series.push(Known::of(&self.parser.series()[self.series.len()]));
        }
        let value = if point.value.is_finite() { point.value } else { f64::NAN };
        let known = &mut self.series[point.series];
        let Some(time_ns) = point.unix_ns else {
            if known.in_snapshot == self.number {
                self.end_snapshot(line);
            }
            let known = &mut self.series[point.series];
            known.in_snapshot = self.number;
            if known.is_clock
                && let Some(clock_ns) = crate::number::nanoseconds(value).filter(|ns| *ns > 0)
            {
                self.clock_ns = Some(clock_ns);
            }
            self.snapshot.push((point.series, value));
            self.read_host(point.series, line);
            return;
        };
        // A series that appears again after another one: the snapshots follow each other.
        if let Some((series, last_ns)) = self.last
            && series != point.series
            && known.in_snapshot > 0
            && time_ns > last_ns
        {
            self.joined.complete_to(last_ns);
        }
        known.in_snapshot = self.number;
        self.last = Some((point.series, time_ns));
        self.read_host(point.series, line);
        let host = self.snapshot_host.unwrap_or(0);
        let Some(place) = self.place(host, point.series, line) else { return };
        if self.joined.begin(AFTER_LAST, time_ns, line) {
            self.joined.set(time_ns, place, value);
        }
    }

    /// Takes the host that a series names as that of the snapshot. The first one is also that of all before.
    fn read_host(&mut self, series: usize, line: u64) {
        let Some(name) = &self.series[series].names else { return };
        let host = match self.hosts.iter().position(|known| known == name) {
            Some(host) => host,
            None if self.hosts.len() == HOSTS_MAX => {
                let help = "split the file";
                self.joined.notes.add(
                    "the file has more than 4,096 hosts: a further one has the name of the first",
                    line,
                    help,
                );
                return;
            }
            None => {
                if self.hosts.is_empty() && !self.joined.has_taken() {
                    self.joined.columns.set_host(name);
                }
                self.hosts.push(name.clone());
                self.hosts.len() - 1
            }
        };
        self.snapshot_host = Some(host);
    }

    /// The column of a series of a host, which is added if it is new.
    fn place(&mut self, host: usize, series: usize, line: u64) -> Option<usize> {
        let known = self.series.get(series)?;
        let host = if known.of_server.is_some() { 0 } else { host };
        if let Some(place) = self.places.get(&(host, series)) {
            return Some(*place);
        }
        let found = &self.parser.series()[series];
        let place = match &known.of_server {
            Some((host, path)) => self.joined.columns.place(host, path.clone(), found.path.clone()),
            None => {
                let host = self.hosts.get(host).map_or("", String::as_str);
                self.joined.columns.place(host, found.path.clone(), found.written.clone())
            }
        };
        match place {
            Some(place) => {
                if place == self.cumulative.len() {
                    self.cumulative.push(found.kind == SeriesKind::Counter);
                }
                self.places.insert((host, series), place);
            }
            None => self.joined.notes.add("a series is over the limit of 65,536 and was left out", line, ""),
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
        let host = self.snapshot_host.take().unwrap_or(0);
        let snapshot = std::mem::take(&mut self.snapshot);
        if self.joined.begin(AFTER_LAST, end_ns, line) {
            for (series, value) in &snapshot {
                if let Some(place) = self.place(host, *series, line) {
                    self.joined.set(end_ns, place, *value);
                }
            }
            // The clocks of hosts differ: the next snapshot may be of another one, and earlier.
            self.last_of_hosts.insert(host, end_ns);
            self.joined.complete_to(self.last_of_hosts.values().copied().min().unwrap_or(end_ns));
        }
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
