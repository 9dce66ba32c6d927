//! Counters of other hosts and processes: expositions of Prometheus and OpenMetrics text, over HTTP.
//!
//! Each exporter has a thread, so that a slow one delays neither the other sources nor the load. It scrapes at most once in
//! [`Exporter::every`], shortly before the next sample is due, and a sample takes the last complete exposition once. The columns
//! have the host in their instance ([`model::metric::instance_on`]). A scrape that fails is a gap, and is counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::clock::Clock;
use engine::source::{EXPORTER, HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Rate};
use model::metric::instance_on;
use model::{ColumnId, MILLISECOND, MetricInfo, Nanos, Readings, Unit};
use rustix::time::{ClockId, clock_gettime};

use crate::series::{Columns, metrics};
use entry::Exporter;
use exposition::Expositions;
use http::Client;

mod entry;
mod exposition;
mod http;
mod mapping;
mod table;
#[cfg(test)]
mod tests;

pub use mapping::{Mapping, Seen};

metrics! {
    Age => MetricInfo::new("scrape.age_s", Unit::Seconds, Gauge,
        "The age of the exposition that this sample took: the time since the exporter made it."),
    Duration => MetricInfo::new("scrape.duration_s", Unit::Seconds, Gauge,
        "The time from the request to the end of the exposition."),
    Bytes => MetricInfo::new("scrape.body_bytes", Unit::Bytes, Gauge, "The size of the exposition."),
    Series => MetricInfo::new("scrape.series", Unit::Count, Gauge, "Series in the exposition."),
    Busy => MetricInfo::new("scrape.busy_cpus", Unit::Cpus, Rate,
        "CPU time of Plimsoll's thread that scrapes this exporter, since its last exposition."),
}

/// The source `scrape`.
pub const KIND: SourceKind = SourceKind {
    name: "scrape",
    about: "Counters of other hosts and processes, from exporters of Prometheus or OpenMetrics text, under our names where they say the same.",
    metrics: METRICS,
    selector: EXPORTER,
    open,
};

/// The time that a scrape has before a sample, beside twice its usual time: samples are taken up to 100 ms earlier or later.
const LEAD: Nanos = 120 * MILLISECOND;

/// Whether an entry of `watch` names an exporter as it should; placeholders of secrets may not be replaced yet.
///
/// # Errors
/// The problem and what to write.
pub fn check(entry: &str) -> Result<(), (String, String)> {
    Exporter::parse(entry).map(|_| ())
}

/// The metrics that series of known exporters are, each with the label of its instances and its value.
pub fn table() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    table::TABLE.iter().copied()
}

fn open(_: &HostRoot, selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    let entry = selected.first().map_or("", String::as_str);
    let exporter = Exporter::parse(entry).map_err(|(what, help)| Unavailable(format!("{what}; {help}")))?;
    let client = Client::new(&exporter).map_err(Unavailable)?;
    let state = Arc::new(State::default());
    let name = format!("scrape {}", exporter.host);
    let instance = instance_on(&exporter.host, "");
    let (host, every) = (exporter.host, exporter.every);
    let of_thread = Arc::clone(&state);
    let thread = std::thread::Builder::new()
        .name(name.chars().take(15).collect())
        .spawn(move || Scraper { client, every, state: of_thread, expositions: Expositions::default() }.run())
        .map_err(|error| Unavailable(format!("no thread can be started: {error}")))?;
    Ok(Box::new(Scraped {
        host,
        state,
        thread,
        ids: Vec::new(),
        values: Vec::new(),
        own: Columns::new(&instance),
        every,
        last_read: None,
        waited_to: 0,
        left_out: 0,
    }))
}

/// What the thread and the source share.
#[derive(Default)]
struct State {
    stop: AtomicBool,
    latest: Mutex<Latest>,
}

/// The last exposition, and what happened since the last sample.
#[derive(Default)]
struct Latest {
    /// Columns that the source has not seen yet.
    columns: Vec<(MetricInfo, String)>,
    /// None if it was taken already.
    exposition: Option<Exposition>,
    /// Scrapes that failed since the last sample, and why the last one did.
    failures: u64,
    why: String,
    /// When the scrape began that is under way.
    begun: Option<Nanos>,
    /// When the last two samples were taken.
    last_read: Nanos,
    interval: Nanos,
}

/// A complete exposition.
#[derive(Default)]
struct Exposition {
    values: Vec<f64>,
    at: Nanos,
    duration: Nanos,
    bytes: usize,
    series: usize,
    left_out: usize,
    busy_cpus: f64,
}

impl State {
    fn lock(&self) -> std::sync::MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An exporter as a source.
struct Scraped {
    host: String,
    state: Arc<State>,
    thread: JoinHandle<()>,
    ids: Vec<ColumnId>,
    values: Vec<f64>,
    own: Columns<Metric>,
    every: Nanos,
    last_read: Option<Nanos>,
    /// Until when a scrape without an answer is counted.
    waited_to: Nanos,
    left_out: usize,
}

impl Source for Scraped {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let interval = self.last_read.replace(now).map_or(0, |last| now.saturating_sub(last));
        let is_new_interval;
        let (columns, taken, failures, why, begun) = {
            let mut latest = self.state.lock();
            is_new_interval = latest.interval == 0 && interval > 0;
            (latest.last_read, latest.interval) = (now, interval);
            let taken = latest.exposition.take().map(|mut exposition| {
                std::mem::swap(&mut self.values, &mut exposition.values);
                exposition
            });
            let failures = std::mem::take(&mut latest.failures);
            let why = if failures > 0 { latest.why.clone() } else { String::new() };
            (std::mem::take(&mut latest.columns), taken, failures, why, latest.begun)
        };
        if is_new_interval {
            // The thread knows now when samples are taken.
            self.thread.thread().unpark();
        }
        for (metric, instance) in columns {
            self.ids.push(out.column(&metric, &instance_on(&self.host, &instance)));
        }
        if let Some(taken) = taken {
            for (id, value) in self.ids.iter().zip(&self.values).filter(|(_, value)| value.is_finite()) {
                out.set(*id, *value);
            }
            self.left_out = taken.left_out;
            self.own.set(out, Metric::Age, now.saturating_sub(taken.at) as f64 / 1e9);
            self.own.set(out, Metric::Duration, taken.duration as f64 / 1e9);
            self.own.set(out, Metric::Bytes, taken.bytes as f64);
            self.own.set(out, Metric::Series, taken.series as f64);
            self.own.set(out, Metric::Busy, taken.busy_cpus);
        }
        if failures > 0 {
            return Err(Unavailable(why));
        }
        // Without an answer for longer than to the next scrape, that one is missing too.
        let every = self.every.max(interval);
        if let Some(begun) = begun.filter(|begun| now > (begun + every).max(self.waited_to) + every) {
            self.waited_to = now - every;
            let seconds = (now - begun) as f64 / 1e9;
            return Err(Unavailable(format!("it did not answer for {seconds:.1} s")));
        }
        Ok(())
    }

    fn limits(&self) -> String {
        match self.left_out {
            0 => String::new(),
            count => format!(
                "{count} series of {} have no column: it has too many, or their names are too long",
                self.host
            ),
        }
    }
}

impl Drop for Scraped {
    /// A scrape that is under way ends by itself, at its time limit at the latest.
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
    }
}

/// The thread of an exporter.
struct Scraper {
    client: Client,
    every: Nanos,
    state: Arc<State>,
    expositions: Expositions,
}

impl Scraper {
    fn run(mut self) {
        let clock = Clock::get();
        let (mut body, mut values, mut sent) = (Vec::new(), Vec::new(), 0);
        let mut counted: Option<(Nanos, f64)> = None;
        let mut usual: Nanos = 0;
        loop {
            let begin = clock.now();
            self.state.lock().begun = Some(begin);
            let mut answered = begin;
            let read = self.client.read(&mut body, || answered = clock.now());
            let end = clock.now();
            // The exporter made it between the request and the answer.
            let at = begin + answered.saturating_sub(begin) / 2;
            let done = read.and_then(|mark| self.expositions.take(&body, mark, at as i64));
            if done.is_ok() {
                self.expositions.values(&mut values);
                usual = end - begin;
            }
            let columns = self.expositions.mapping.columns();
            let new = columns[sent..].iter().map(|of| (of.metric.clone(), of.instance.clone()));
            let new: Vec<(MetricInfo, String)> = new.collect();
            sent = columns.len();
            let now = (clock.now(), thread_cpu_s());
            let due = {
                let mut latest = self.state.lock();
                latest.begun = None;
                latest.columns.extend(new);
                match done {
                    Ok(()) => {
                        let exposition = latest.exposition.get_or_insert_with(Exposition::default);
                        std::mem::swap(&mut exposition.values, &mut values);
                        exposition.at = at;
                        exposition.duration = end - begin;
                        exposition.bytes = body.len();
                        exposition.series = self.expositions.series;
                        exposition.left_out = self.expositions.mapping.left_out();
                        exposition.busy_cpus = counted.map_or(f64::NAN, |(at, cpu_s)| {
                            (now.1 - cpu_s) / ((now.0 - at).max(1) as f64 / 1e9)
                        });
                        counted = Some(now);
                    }
                    Err(why) => {
                        latest.failures += 1;
                        latest.why = why;
                    }
                }
                latest.due(begin, self.every, usual)
            };
            // A large exposition is rare, and its memory is not held for it.
            if body.capacity() > 4 * body.len().max(1 << 20) {
                body = Vec::new();
            }
            if !self.wait(clock, due, begin, usual) {
                return;
            }
        }
    }

    /// Waits until the next scrape; false if there is none. When the interval of the samples becomes known, it is due at
    /// another time.
    fn wait(&self, clock: Clock, mut due: Nanos, begin: Nanos, usual: Nanos) -> bool {
        loop {
            if self.state.stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = due.saturating_sub(clock.now());
            if left == 0 {
                return true;
            }
            std::thread::park_timeout(Duration::from_nanos(left));
            if clock.now() < due {
                due = self.state.lock().due(begin, self.every, usual);
            }
        }
    }
}

impl Latest {
    /// When to scrape again: at least nearly `every` after the last begin, and shortly before a sample.
    fn due(&self, begin: Nanos, every: Nanos, usual: Nanos) -> Nanos {
        let every = every.max(self.interval);
        let earliest = begin + every / 10 * 9;
        if self.interval == 0 {
            return begin + every;
        }
        let lead = (2 * usual + LEAD).min(self.interval / 2);
        // The first sample that such a scrape is in time for.
        let samples = (earliest + lead).saturating_sub(self.last_read).div_ceil(self.interval).max(1);
        self.last_read + samples * self.interval - lead
    }
}

fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
