//! The one stream of what happens. The record is written from it, and whatever shows a run live listens to it, so that
//! what is seen is what is kept.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{Decision, Event, EventKind, Interval, Phase, Readings, Run};
use record::{OperationIntervals, RecordError, TrialWriter};

/// Something that happened.
#[derive(Debug)]
pub enum Happening<'a> {
    /// A trial begins.
    Trial {
        /// Which, and why.
        decision: &'a Decision,
        /// How many there will be, when that is known.
        planned: Option<usize>,
    },
    /// Progress before the clock starts, in words.
    Preparing(&'a str),
    /// A phase begins.
    Phase {
        /// Which.
        phase: Phase,
        /// Seconds on the trial's clock.
        at_s: f64,
        /// How long it will take, when that is known.
        length_s: Option<f64>,
    },
    /// An interval is over: a row per operation.
    Interval(&'a [Interval]),
    /// The counters were read.
    Readings {
        /// Start of the window, seconds on the trial's clock.
        begin_s: f64,
        /// End of the window.
        end_s: f64,
        /// The sample.
        readings: &'a Readings,
    },
    /// A dated fact.
    Event(&'a Event),
    /// The trial is over.
    Ended(&'a Run),
}

/// Listens to what happens. Called from the engine's threads; must be quick.
pub trait Subscriber: Sync {
    /// Something happened.
    fn happens(&self, happening: &Happening<'_>);
}

/// One trial's stream: to the record first, then to who listens.
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

    pub(crate) fn interval(&self, rows: &[Interval], histograms: &[OperationIntervals<'_>]) {
        self.keep(|writer| writer.interval(rows, histograms));
        self.subscriber.happens(&Happening::Interval(rows));
    }

    pub(crate) fn readings(&self, begin_s: f64, end_s: f64, readings: &Readings) {
        self.keep(|writer| writer.readings(begin_s, end_s, readings));
        self.subscriber.happens(&Happening::Readings { begin_s, end_s, readings });
    }

    pub(crate) fn event(&self, at_s: f64, kind: EventKind, text: impl Into<String>) {
        let event = Event { at_s, kind, text: text.into(), data: Default::default() };
        self.keep_event(&event);
    }

    pub(crate) fn keep_event(&self, event: &Event) {
        self.keep(|writer| writer.event(event));
        self.subscriber.happens(&Happening::Event(event));
    }

    pub(crate) fn phase(&self, phase: Phase, at_s: f64, length_s: Option<f64>) {
        self.event(at_s, EventKind::Phase, format!("{} begins", phase.word().replace('_', "-")));
        self.subscriber.happens(&Happening::Phase { phase, at_s, length_s });
    }

    pub(crate) fn run(&self, run: &Run) {
        self.keep(|writer| writer.run(run));
    }

    pub(crate) fn start(&self, started_unix_ns: u64) {
        self.keep(|writer| writer.start(started_unix_ns));
    }

    /// True once the record could not be written: the trial must end, since what is not kept did not happen.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Ends the record.
    pub(crate) fn finish(self, run: &Run) -> Result<(), RecordError> {
        self.subscriber.happens(&Happening::Ended(run));
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
