//! The single event stream of a run. The record and the live display both receive it, so they always agree.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{Decision, Event, EventKind, Interval, Phase, Readings, Run, TrialSteps};
use record::{OperationIntervals, RecordError, TrialWriter};

/// An event of the stream.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// A trial begins.
    Trial {
        /// The trial, and why it was chosen.
        decision: &'a Decision,
        /// The total number of trials, if known.
        planned: Option<usize>,
    },
    /// Progress before the clock starts, in words.
    Preparing(&'a str),
    /// The trial begins with fewer machines than the experiment has: how many, and of how many.
    Machines(usize, usize),
    /// Something that the user should know, in words.
    Note(&'a str),
    /// The clock of the trial starts: nanoseconds since 1970-01-01 UTC.
    Started(u64),
    /// A phase begins.
    Phase {
        /// The phase.
        phase: Phase,
        /// Seconds on the trial's clock.
        at_s: f64,
        /// Its expected length, if known.
        length_s: Option<f64>,
    },
    /// An interval ended: one row per operation.
    Interval {
        /// A row for each operation.
        rows: &'a [Interval],
        /// For each row, whether its operation is derived from others, and does not count as throughput.
        derived: &'a [bool],
        /// For each row, the times of its operation.
        histograms: &'a [OperationIntervals<'a>],
    },
    /// The counters were read.
    Readings {
        /// Start of the window, seconds on the trial's clock.
        begin_s: f64,
        /// End of the window.
        end_s: f64,
        /// The sample.
        readings: &'a Readings,
    },
    /// The load has ended, and its device still writes.
    Draining {
        /// Seconds since the load ended.
        since_s: f64,
        /// The limit in seconds.
        at_most_s: f64,
        /// Bytes in memory that are not written yet, and writes of the devices in bytes per second; none if they
        /// were not read.
        writes: Option<(f64, f64)>,
    },
    /// A recorded event.
    Event(&'a Event),
    /// The trial ended.
    Ended(&'a Run),
}

/// Receives events. Called from the engine's threads; must be fast.
pub trait Subscriber: Sync {
    /// Called for each event.
    fn happens(&self, happening: &RunEvent<'_>);

    /// Why the trial can end now, because nothing more can be learned from it. Asked at the end of each interval, after it was
    /// received.
    fn ends(&self) -> Option<String> {
        None
    }

    /// Called once at the end of a trial, before its record is complete: sentences that the record should have about what
    /// became of its events.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The stream of one trial: to the record first, then to the subscriber.
pub(crate) struct Stream<'a> {
    writer: Mutex<TrialWriter>,
    failure: Mutex<Option<RecordError>>,
    failed: AtomicBool,
    subscriber: &'a dyn Subscriber,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(writer: TrialWriter, subscriber: &'a dyn Subscriber) -> Self {
        Stream {
            writer: Mutex::new(writer),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            subscriber,
        }
    }

    pub(crate) fn interval(
        &self,
        rows: &[Interval],
        derived: &[bool],
        histograms: &[OperationIntervals<'_>],
    ) {
        self.keep(|writer| writer.interval(rows, histograms));
        self.subscriber.happens(&RunEvent::Interval { rows, derived, histograms });
    }

    pub(crate) fn readings(&self, begin_s: f64, end_s: f64, readings: &Readings) {
        self.keep(|writer| writer.readings(begin_s, end_s, readings));
        self.subscriber.happens(&RunEvent::Readings { begin_s, end_s, readings });
    }

    pub(crate) fn event(&self, at_s: f64, kind: EventKind, text: impl Into<String>) {
        let event = Event { at_s, kind, text: text.into(), data: Default::default() };
        self.keep_event(&event);
    }

    pub(crate) fn keep_event(&self, event: &Event) {
        self.keep(|writer| writer.event(event));
        self.subscriber.happens(&RunEvent::Event(event));
    }

    pub(crate) fn phase(&self, phase: Phase, at_s: f64, length_s: Option<f64>) {
        self.event(at_s, EventKind::Phase, format!("{} begins", phase.word().replace('_', "-")));
        self.subscriber.happens(&RunEvent::Phase { phase, at_s, length_s });
    }

    /// Why the trial can end now.
    pub(crate) fn ends(&self) -> Option<String> {
        self.subscriber.ends()
    }

    pub(crate) fn note(&self, text: &str) {
        self.subscriber.happens(&RunEvent::Note(text));
    }

    pub(crate) fn draining(&self, since_s: f64, at_most_s: f64, writes: Option<(f64, f64)>) {
        self.subscriber.happens(&RunEvent::Draining { since_s, at_most_s, writes });
    }

    pub(crate) fn run(&self, run: &Run) {
        self.keep(|writer| writer.run(run));
    }

    pub(crate) fn steps(&self, steps: &TrialSteps) {
        self.keep(|writer| writer.steps(steps));
    }

    pub(crate) fn start(&self, started_unix_ns: u64) {
        self.keep(|writer| writer.start(started_unix_ns));
        self.subscriber.happens(&RunEvent::Started(started_unix_ns));
    }

    /// Whether the record could not be written: the trial must then end, because its data is lost.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Ends the record.
    pub(crate) fn finish(self, run: &Run) -> Result<(), RecordError> {
        self.subscriber.happens(&RunEvent::Ended(run));
        let end_s = run.phases.last().map_or(0.0, |span| span.end_s);
        for remark in self.subscriber.remarks() {
            self.event(end_s, EventKind::Source, remark);
        }
        let writer = self.writer.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let finished = writer.finish(run);
        match self.failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(first) => Err(first),
            None => finished,
        }
    }

    fn keep(&self, write: impl FnOnce(&mut TrialWriter) -> Result<(), RecordError>) {
        let mut writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Err(error) = write(&mut writer) {
            self.failed.store(true, Ordering::Relaxed);
            let mut failure = self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }
}
