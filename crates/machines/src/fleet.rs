//! The state of all machines of an experiment, as a function of what arrives and of the time: no connection, no thread and
//! no clock, so that it can be simulated.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use engine::drive::Book;
use engine::machines::MachineFactor;
use engine::part::PartEnd;
use model::run::MachineRun;
use model::{DoubtKind, Host, Level, MILLISECOND, Nanos, Phase, SECOND, WarmUp};
use record::HistogramDecoder;

use crate::clock::{Exchanges, Offset, ours, theirs};
use crate::frame::Frame;
use crate::message::{
    FILE_PIECE_BYTES_MAX, FORMAT, FactorAnswer, FactorAsk, FromAgent, ToAgent, TrialPart, check_format,
    to_book,
};

/// A machine from which nothing came for this long is asked for an answer.
pub const PING_EVERY: Nanos = 500 * MILLISECOND;

/// It is asked this often in any case: the answers have its clock, and it learns that the coordinator is there.
const ASKED_EVERY: Nanos = SECOND;

/// A machine that does not answer for this long is lost.
pub const LOST_AFTER: Nanos = 1_250 * MILLISECOND;

/// An interval that arrives later than this after its end is lost, and its machine too.
const LATE_MAX: Nanos = 1_250 * MILLISECOND;

/// How often deadlines of states are looked at.
const EXPIRE_EVERY: Nanos = 250 * MILLISECOND;

/// Exchanges of clocks before the first trial, one after another.
const EXCHANGES_FIRST: u64 = 20;

/// The time between the decision to start and the start, besides the longest round trip.
const START_LEAD: Nanos = 200 * MILLISECOND;

/// The time between the decision to begin the measured phase and its begin, at least.
const MEASURE_LEAD: Nanos = 600 * MILLISECOND;

/// The most machines that are named where others wait for them.
const NAMED_MAX: usize = 3;

/// The most characters of a text of a machine that are shown.
const TEXT_MAX: usize = 500;

mod deadline;

pub use deadline::JOIN_MAX;
use deadline::{COLUMNS_MAX, REPORTS_MAX, Since};

/// What a machine is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It is reached, or its program is copied.
    Joining,
    /// It answered.
    Present,
    /// It checks a trial.
    Checking,
    /// It prepares a trial.
    Preparing,
    /// It waits for the start.
    Ready,
    /// It drives its part of the load.
    Running,
    /// Its load has ended.
    Finished,
    /// It removes what it made.
    Ending,
    /// It has gone, as it should.
    Ended,
    /// It has gone, with the reason.
    Lost(String),
    /// It was lost, and takes part no more.
    LeftOut,
}

/// One machine.
#[derive(Debug)]
pub struct Machine {
    /// Its name in the experiment.
    pub name: String,
    /// What it is doing.
    pub state: State,
    /// Its host; none before it answered.
    pub host: Option<Host>,
    /// Its clock.
    pub clock: Exchanges,
    /// Facts about the present trial.
    pub facts: BTreeMap<String, Level>,
    /// The names of the operations of the present trial.
    pub operations: Vec<String>,
    /// How its part of the present trial ended.
    pub finished: Option<PartEnd>,
    /// The answer to the open question about a factor, until it is taken.
    answer: Option<Result<FactorAnswer, String>>,
    asked_factors: u64,
    /// What it has done since it is waited for.
    since: Since,
    /// Problems of the last check.
    pub problems: Vec<(String, String)>,
    /// Operations completed in the present trial, in the measured phase.
    pub completed: u64,
    /// Whether it drives load, and is not only watched.
    drives: bool,
    /// Its time of day minus ours, ns, at the best exchange.
    unix_offset: i64,
    heard: Nanos,
    pinged: Option<(u64, Nanos)>,
    asked: Nanos,
    /// Nothing is late before this time.
    excused: Nanos,
    pings: u64,
    /// The end of its last interval, after the start of the load.
    delivered: Nanos,
    /// Codes of failures here, by those of the machine.
    codes: HashMap<(u16, u32), u32>,
}

impl Machine {
    fn is_gone(&self) -> bool {
        matches!(self.state, State::Ended | State::Lost(_) | State::LeftOut)
    }

    /// Whether it takes part no more, although the experiment goes on.
    pub fn is_left_out(&self) -> bool {
        self.state == State::LeftOut
    }

    /// Whether it has gone, and should not have.
    pub fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost(_))
    }

    /// Whether its clock is known as well as a trial needs it.
    pub fn has_clock(&self) -> bool {
        self.clock.count() >= EXCHANGES_FIRST
    }

    /// When it is lost unless it has answered by then; none if it was not asked.
    fn answer_due(&self) -> Option<Nanos> {
        self.pinged.map(|(_, at)| at.max(self.heard) + LOST_AFTER)
    }

    /// When it is to be asked again.
    fn ping_due(&self) -> Option<Nanos> {
        let due = match self.has_clock() {
            true => (self.heard.max(self.asked) + PING_EVERY).min(self.asked + ASKED_EVERY),
            false => self.asked,
        };
        (self.pinged.is_none() && self.host.is_some()).then_some(due)
    }

    /// Counts what it reported in a trial.
    fn report(&mut self) -> Result<(), String> {
        self.since.reports += 1;
        match self.since.reports > REPORTS_MAX {
            true => Err(format!("it reported more than {REPORTS_MAX} events in one trial")),
            false => Ok(()),
        }
    }

    /// The offset of its clock.
    pub fn offset(&self) -> Option<Offset> {
        self.clock.offset()
    }

    /// Its time of day minus ours, seconds.
    pub fn clock_offset_s(&self) -> f64 {
        self.unix_offset as f64 / 1e9
    }

    /// What it did in the present trial.
    pub fn run(&self) -> MachineRun {
        let finished = self.finished.as_ref();
        let host = self.host.as_ref();
        MachineRun {
            name: self.name.clone(),
            host: host.map_or(String::new(), |host| host.name.clone()),
            cpus: host.map_or(0, |host| host.cpus),
            drives: self.drives,
            completed: self.completed,
            generator: finished.and_then(|finished| finished.generator),
            clock_offset_s: self.offset().map(|_| self.clock_offset_s()),
            clock_uncertainty_s: self.clock.kept().map(|of| of.uncertainty as f64 / 1e9),
            clock_drift_s: self.clock.drifted().map_or(0.0, |drift| drift as f64 / 1e9),
            interval_late_s: finished.map_or(0.0, |finished| finished.late as f64 / 1e9),
            start_late_s: finished.map_or(0.0, |finished| finished.start_late as f64 / 1e9),
            readings_age_s: 0.0,
            sampler: finished.map(|finished| finished.sampler).unwrap_or_default(),
            sources: finished.map(|finished| finished.sources.clone()).unwrap_or_default(),
            lost: match &self.state {
                State::Lost(why) => Some(why.clone()),
                _ => None,
            },
        }
    }
}

/// What happened that the coordinator has to pass on.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Progress in words.
    Preparing {
        /// The index of the machine.
        machine: usize,
        /// One line.
        text: String,
    },
    /// To be recorded.
    Event {
        /// The index of the machine.
        machine: usize,
        /// In words.
        text: String,
    },
    /// New columns of its readings.
    Columns {
        /// The index of the machine.
        machine: usize,
        /// Metrics and instances.
        columns: Vec<(model::MetricInfo, String)>,
    },
    /// Its counters were read.
    Readings {
        /// The index of the machine.
        machine: usize,
        /// The end of their window on our clock.
        end: Nanos,
        /// One value for each column.
        values: Vec<f64>,
    },
}

/// A failure of operations on any machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    kind: u16,
    text: String,
    doubt: DoubtKind,
}

/// The timing of the present trial.
#[derive(Clone, Copy, Debug)]
struct Timing {
    zero: Nanos,
    interval: Nanos,
    /// After the start of the load.
    measured_from: Option<Nanos>,
}

/// All machines.
#[derive(Debug)]
pub struct Fleet {
    machines: Vec<Machine>,
    outbox: Vec<(usize, Frame<ToAgent>)>,
    /// Files that machines may ask for, by their SHA-256.
    files: HashMap<String, Arc<Vec<u8>>>,
    notices: Vec<Notice>,
    timing: Option<Timing>,
    /// Intervals that not all machines have delivered, and complete ones, by their end after the start.
    merges: BTreeMap<Nanos, Book>,
    failures: Vec<Failure>,
    /// For each operation, whether it counts as throughput.
    counted: Vec<bool>,
    decoder: HistogramDecoder,
    run: String,
    /// The time of day at the zero of our clock.
    unix_zero: u64,
    /// When the user stopped the run.
    hurried: Option<Nanos>,
    /// When deadlines were last looked at.
    expired_until: Nanos,
}

impl Fleet {
    /// Machines that are being reached: their names, and whether they drive load. `run` is a label of the run, `unix_zero` the
    /// time of day at the zero of our clock. Each may take `join_max` to be reached.
    pub fn new(
        names: impl IntoIterator<Item = (String, bool)>,
        run: &str,
        unix_zero: u64,
        now: Nanos,
        join_max: Nanos,
    ) -> Fleet {
        let machine = |(name, drives)| Machine {
            name,
            state: State::Joining,
            host: None,
            clock: Exchanges::default(),
            facts: BTreeMap::new(),
            operations: Vec::new(),
            finished: None,
            answer: None,
            asked_factors: 0,
            since: Since { begun: now, progress: now, join_max, ..Since::default() },
            problems: Vec::new(),
            completed: 0,
            drives,
            unix_offset: 0,
            heard: now,
            pinged: None,
            asked: now,
            excused: 0,
            pings: 0,
            delivered: 0,
            codes: HashMap::new(),
        };
        Fleet {
            machines: names.into_iter().map(machine).collect(),
            outbox: Vec::new(),
            files: HashMap::new(),
            notices: Vec::new(),
            timing: None,
            merges: BTreeMap::new(),
            failures: Vec::new(),
            counted: Vec::new(),
            decoder: HistogramDecoder::default(),
            run: run.into(),
            unix_zero,
            hurried: None,
            expired_until: now,
        }
    }

    /// Begins anew with a machine that was lost. Returns whether it was.
    pub fn rejoin(&mut self, now: Nanos, machine: usize) -> bool {
        let of = &mut self.machines[machine];
        if !matches!(of.state, State::Lost(_)) {
            return false;
        }
        of.enter(now, State::Joining);
        of.host = None;
        of.clock = Exchanges::default();
        of.answer = None;
        of.since.question = None;
        (of.heard, of.asked, of.pinged) = (now, now, None);
        true
    }

    /// Goes on without a machine that was lost. Returns why it was; none if it was not.
    pub fn leave_out(&mut self, machine: usize) -> Option<String> {
        let State::Lost(why) = &self.machines[machine].state else { return None };
        let why = why.clone();
        self.machines[machine].state = State::LeftOut;
        Some(why)
    }

    /// Whether no machine is in a trial any more.
    pub fn is_settled(&self) -> bool {
        !self.machines.iter().any(|machine| {
            matches!(machine.state, State::Preparing | State::Ready | State::Running | State::Checking)
        })
    }

    /// Whether all machines have gone.
    pub fn has_ended(&self) -> bool {
        self.machines.iter().all(Machine::is_gone)
    }

    /// The trial is over on all machines; one that is still in it is lost.
    pub fn trial_over(&mut self) {
        self.timing = None;
        self.merges.clear();
        for machine in &mut self.machines {
            match machine.state {
                State::Finished => machine.state = State::Present,
                State::Preparing | State::Ready | State::Running => {
                    machine.state = State::Lost("it did not end its part of a trial".into());
                }
                _ => {}
            }
        }
    }

    /// All machines.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Takes the messages to send, in order.
    pub fn take_outbox(&mut self) -> Vec<(usize, Frame<ToAgent>)> {
        std::mem::take(&mut self.outbox)
    }

    /// Puts back a message that could not be sent yet; one to a lost machine is dropped.
    pub fn send_later(&mut self, machine: usize, message: Frame<ToAgent>) {
        if !self.machines[machine].is_gone() {
            self.outbox.push((machine, message));
        }
    }

    /// Takes what is to be passed on.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether all machines are in this state.
    pub fn all(&self, state: &State) -> bool {
        self.machines.iter().all(|machine| machine.state == *state || machine.is_left_out())
    }

    /// The first machine that is lost, and why.
    pub fn lost(&self) -> Option<(&Machine, &str)> {
        self.machines.iter().find_map(|machine| match &machine.state {
            State::Lost(why) => Some((machine, why.as_str())),
            _ => None,
        })
    }

    /// Which of several machines the others wait for, in a few words; empty if none.
    pub fn waiting(&self) -> String {
        let machines = || self.machines.iter().filter(|machine| !machine.is_left_out());
        let all = machines().count();
        let of = |state: &State| -> Vec<&str> {
            machines()
                .filter(|machine| machine.state == *state)
                .map(|machine| machine.name.as_str())
                .collect()
        };
        let (word, open) = match (of(&State::Joining), of(&State::Preparing)) {
            (joining, _) if !joining.is_empty() => ("reached", joining),
            (_, preparing) => ("ready", preparing),
        };
        if all < 2 || open.is_empty() {
            return String::new();
        }
        let named = open[..open.len().min(NAMED_MAX)].join(", ");
        let more = match open.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} of {all} machines {word}, waiting for {named}{more}", all - open.len())
    }

    /// Whether the clocks of all machines are known.
    pub fn has_clocks(&self) -> bool {
        self.machines.iter().all(|machine| machine.has_clock() || machine.is_left_out())
    }

    /// The program is copied to a machine that is being reached, which takes as long as the connection needs.
    pub fn connecting(&mut self, now: Nanos, machine: usize) {
        let since = &mut self.machines[machine].since;
        (since.progress, since.join_max) = (now, JOIN_MAX);
    }

    /// A machine is connected.
    pub fn connected(&mut self, now: Nanos, machine: usize) {
        let name = self.machines[machine].name.clone();
        self.machines[machine].heard = now;
        self.send(machine, ToAgent::Hello { format: FORMAT.into(), name, run: self.run.clone() });
    }

    /// The connection of a machine has ended.
    pub fn closed(&mut self, machine: usize, why: &str) {
        let of = &mut self.machines[machine];
        match of.state {
            State::Ended | State::Lost(_) | State::LeftOut => {}
            _ => of.state = State::Lost(why.into()),
        }
    }

    /// The connection to a machine is known to be interrupted: until it is back, its silence says nothing about the machine.
    pub fn excuse(&mut self, now: Nanos, machine: usize) {
        let of = &mut self.machines[machine];
        (of.heard, of.excused) = (now, now);
    }

    /// Offers a file, by its SHA-256.
    pub fn offer(&mut self, sha256: &str, content: &Arc<Vec<u8>>) {
        self.files.entry(sha256.into()).or_insert_with(|| content.clone());
    }

    /// Asks all machines to check a trial.
    pub fn check(&mut self, now: Nanos, parts: Vec<TrialPart>) {
        for machine in &mut self.machines {
            machine.problems.clear();
        }
        self.ask(now, parts, State::Checking, |trial| ToAgent::Check { trial });
    }

    /// Asks all machines to prepare a trial. `counted` has for each operation whether it counts as throughput.
    pub fn prepare(&mut self, now: Nanos, parts: Vec<TrialPart>, counted: Vec<bool>) {
        self.counted = counted;
        self.timing = None;
        self.merges.clear();
        self.failures.clear();
        for machine in &mut self.machines {
            machine.facts.clear();
            machine.finished = None;
            machine.completed = 0;
            machine.delivered = 0;
            machine.codes.clear();
            (machine.since.reports, machine.since.columns) = (0, 0);
        }
        self.ask(now, parts, State::Preparing, |trial| ToAgent::Prepare { trial });
    }

    fn ask(
        &mut self,
        now: Nanos,
        parts: Vec<TrialPart>,
        state: State,
        message: impl Fn(Box<TrialPart>) -> ToAgent,
    ) {
        for (machine, part) in parts.into_iter().enumerate() {
            let of = &mut self.machines[machine];
            if !of.is_gone() {
                of.enter(now, state.clone());
                of.since.files = part.inputs.iter().flatten().map(|head| head.bytes).sum();
                self.send(machine, message(Box::new(part)));
            }
        }
    }

    /// Starts the load of all machines at one time, which is returned. `interval` is the length of an interval.
    pub fn start(&mut self, now: Nanos, interval: Nanos, warm_up: WarmUp) -> Nanos {
        let offsets: Vec<Offset> = self
            .machines
            .iter()
            .map(|machine| machine.offset().unwrap_or(Offset { offset: 0, uncertainty: 0 }))
            .collect();
        let slowest = offsets.iter().map(|of| of.uncertainty).max().unwrap_or(0);
        let zero = now + START_LEAD + 4 * slowest;
        for (machine, offset) in offsets.into_iter().enumerate() {
            if self.machines[machine].state == State::Ready {
                self.machines[machine].clock.keep();
                self.machines[machine].state = State::Running;
                self.send(machine, ToAgent::Start { at: theirs(zero, offset) });
            }
        }
        let measured_from = match warm_up {
            WarmUp::For(length) => Some(length),
            WarmUp::Auto => None,
        };
        self.timing = Some(Timing { zero, interval, measured_from });
        zero
    }

    /// Begins the measured phase at the end of an interval, soon after `now`. Returns when, on our clock.
    /// `end` is the end of the interval after which it is to begin.
    pub fn begin_measured(&mut self, end: Nanos, now: Nanos) -> Nanos {
        let Some(mut timing) = self.timing else { return end };
        if let Some(from) = timing.measured_from {
            return timing.zero + from;
        }
        let passed = now.saturating_sub(timing.zero) + MEASURE_LEAD;
        let from = passed.div_ceil(timing.interval) * timing.interval;
        timing.measured_from = Some(from);
        self.timing = Some(timing);
        for machine in 0..self.machines.len() {
            if let (State::Running, Some(offset)) =
                (&self.machines[machine].state, self.machines[machine].clock.kept())
            {
                self.send(machine, ToAgent::MeasureFrom { at: theirs(timing.zero + from, offset) });
            }
        }
        timing.zero + from
    }

    /// Ends the load of all machines; with `abandon`, also the operations in flight.
    pub fn stop(&mut self, now: Nanos, abandon: bool) {
        for machine in 0..self.machines.len() {
            let of = &mut self.machines[machine];
            if matches!(of.state, State::Preparing | State::Ready | State::Running) {
                if abandon {
                    of.since.called_off.get_or_insert(now);
                }
                self.send(machine, ToAgent::Stop { abandon });
            }
        }
    }

    /// Asks a machine about a factor. Returns the number of the question.
    pub fn ask_factor(&mut self, now: Nanos, machine: usize, factor: MachineFactor, ask: FactorAsk) -> u64 {
        let of = &mut self.machines[machine];
        of.asked_factors += 1;
        let number = of.asked_factors;
        (of.since.question, of.answer) = (Some((number, now)), None);
        self.send(machine, ToAgent::Factor { number, factor: Box::new(factor), ask });
        number
    }

    /// Takes the answer to the last question, once it is there.
    pub fn take_answer(&mut self, machine: usize) -> Option<Result<FactorAnswer, String>> {
        self.machines[machine].answer.take()
    }

    /// Ends the experiment on all machines.
    pub fn end(&mut self, now: Nanos) {
        for machine in 0..self.machines.len() {
            if !self.machines[machine].is_gone() {
                self.machines[machine].enter(now, State::Ending);
                self.send(machine, ToAgent::End);
            }
        }
    }

    /// Whether all machines have delivered the interval that ends at `until` on our clock, or have ended before it.
    pub fn has_interval(&self, until: Nanos) -> bool {
        let Some(timing) = self.timing else { return false };
        let end = until.saturating_sub(timing.zero);
        self.driving().all(|machine| machine.delivered >= end || machine.finished.is_some())
    }

    /// Whether there are intervals that end after `until` on our clock and were not taken.
    pub fn has_after(&self, until: Nanos) -> bool {
        let zero = self.timing.map_or(0, |timing| timing.zero);
        self.merges.range(until.saturating_sub(zero) + 1..).next().is_some()
    }

    /// Whether the load of all machines has ended.
    pub fn is_finished(&self) -> bool {
        self.driving().all(|machine| machine.finished.is_some() || machine.is_gone())
    }

    /// Those that drive load and take part.
    pub fn driving(&self) -> impl Iterator<Item = &Machine> {
        self.machines.iter().filter(|machine| machine.drives && !machine.is_left_out())
    }

    /// Adds what all machines did until `until` on our clock to `book`.
    pub fn take(&mut self, until: Nanos, book: &mut Book) {
        let Some(timing) = self.timing else { return };
        let later = self.merges.split_off(&(until.saturating_sub(timing.zero) + 1));
        for (_, mut merged) in std::mem::replace(&mut self.merges, later) {
            book.add(&mut merged);
        }
    }

    /// A description of a failure with this code.
    pub fn describe_failure(&self, code: u32) -> (String, DoubtKind) {
        match self.failures.get(code as usize) {
            Some(failure) => (failure.text.clone(), failure.doubt),
            None => (format!("failure {code}"), DoubtKind::Failures),
        }
    }

    /// Time has passed: asks machines for answers, and finds those that do not answer or deliver.
    pub fn tick(&mut self, now: Nanos) {
        // They are far longer than the time between two looks.
        if now >= self.expired_until + EXPIRE_EVERY {
            self.expired_until = now;
            self.expire(now);
        }
        for machine in 0..self.machines.len() {
            let of = &self.machines[machine];
            if of.is_gone() || of.state == State::Joining {
                continue;
            }
            if of.answer_due().is_some_and(|due| now >= due) {
                let silent = now.saturating_sub(of.heard);
                let why = format!("it did not answer for {:.1} s", silent as f64 / 1e9);
                self.machines[machine].state = State::Lost(why);
                continue;
            }
            if let Some(due) = self.figures_due(of).filter(|due| now >= due + LATE_MAX) {
                let why = format!("its figures are {:.1} s late", (now - due) as f64 / 1e9);
                self.machines[machine].state = State::Lost(why);
                continue;
            }
            if of.ping_due().is_some_and(|due| now >= due) {
                self.ping(now, machine);
            }
        }
    }

    /// When [`Fleet::tick`] has something to do, unless something else happens before; at the latest after [`PING_EVERY`].
    pub fn next_tick(&self, now: Nanos) -> Nanos {
        let present = self.machines.iter().filter(|of| !of.is_gone() && of.state != State::Joining);
        let due = present.flat_map(|of| {
            let figures = self.figures_due(of).map(|due| due + LATE_MAX);
            [of.answer_due(), of.ping_due(), figures].into_iter().flatten()
        });
        due.min().unwrap_or(Nanos::MAX).min(now + PING_EVERY)
    }

    /// When the figures of the next interval of a machine are due; none while it has no load.
    fn figures_due(&self, of: &Machine) -> Option<Nanos> {
        let timing = self.timing.filter(|_| of.state == State::Running && of.drives)?;
        Some((timing.zero + of.delivered + timing.interval * 5 / 4).max(of.excused))
    }

    fn ping(&mut self, now: Nanos, machine: usize) {
        let of = &mut self.machines[machine];
        of.pings += 1;
        of.asked = now;
        of.pinged = Some((of.pings, now));
        let number = of.pings;
        self.send(machine, ToAgent::Ping { number });
    }

    fn send(&mut self, machine: usize, message: ToAgent) {
        self.outbox.push((machine, message.into()));
    }

    /// A message arrived.
    pub fn received(&mut self, now: Nanos, machine: usize, frame: Frame<FromAgent>) {
        if machine >= self.machines.len() || self.machines[machine].is_gone() {
            return;
        }
        self.machines[machine].heard = now;
        if let Err(why) = self.understand(now, machine, frame) {
            self.machines[machine].state = State::Lost(why);
        }
    }

    /// What a message means. The error is why the machine is lost.
    fn understand(&mut self, now: Nanos, machine: usize, frame: Frame<FromAgent>) -> Result<(), String> {
        let of = &mut self.machines[machine];
        match frame.head {
            FromAgent::Hello { format, host } => {
                expect(&mut of.state, &State::Joining, State::Present)?;
                check_format(&format)?;
                of.host = Some(*host);
                self.ping(now, machine);
            }
            FromAgent::Pong { number, at, unix_ns } => {
                if let Some((_, sent)) = of.pinged.take_if(|(asked, _)| *asked == number) {
                    if of.clock.add(sent, at, now) {
                        let middle = self.unix_zero + sent + (now - sent) / 2;
                        of.unix_offset = unix_ns.cast_signed().wrapping_sub(middle.cast_signed());
                    }
                    if of.clock.count() < EXCHANGES_FIRST {
                        self.ping(now, machine);
                    }
                }
            }
            FromAgent::Checked { problems } => {
                of.problems = problems;
                expect(&mut of.state, &State::Checking, State::Present)?;
            }
            FromAgent::Want { sha256, offset, bytes } => {
                let file = self.files.get(&sha256).ok_or("it requested a file that is not of this run")?;
                let end = offset.saturating_add(bytes.min(FILE_PIECE_BYTES_MAX));
                let piece = file.get(offset as usize..end as usize).filter(|piece| !piece.is_empty());
                let body = piece.ok_or("it requested a piece that its file does not have")?.to_vec();
                let rest = of.since.files.checked_sub(body.len() as u64);
                of.since.files = rest.ok_or("it requested more than the files of its load")?;
                of.since.progress = now;
                self.outbox.push((machine, Frame { head: ToAgent::File { sha256, offset }, body }));
            }
            FromAgent::Preparing { text } => {
                let text = shortened(text);
                // What it repeats is no progress.
                if text != of.since.reported {
                    of.since.reported.clone_from(&text);
                    if of.state == State::Preparing {
                        of.since.progress = now;
                    }
                    self.notices.retain(|notice| {
                        !matches!(notice, Notice::Preparing { machine: known, .. } if *known == machine)
                    });
                    self.notices.push(Notice::Preparing { machine, text });
                }
            }
            FromAgent::Ready { facts, operations } => {
                (of.facts, of.operations) = (facts, operations);
                expect(&mut of.state, &State::Preparing, State::Ready)?;
            }
            FromAgent::Interval(head) => return self.interval(machine, *head, &frame.body),
            FromAgent::Failure { kind, code, text, doubt } => {
                of.report()?;
                let failure = Failure { kind, text: shortened(text), doubt };
                let known = self.failures.iter().position(|known| *known == failure);
                let index = known.unwrap_or(self.failures.len());
                if known.is_none() {
                    self.failures.push(failure);
                }
                of.codes.insert((kind, code), index as u32);
            }
            FromAgent::Columns { columns } => {
                of.since.columns += columns.len().max(1);
                if of.since.columns > COLUMNS_MAX {
                    return Err("it reports too many counters".into());
                }
                self.notices.push(Notice::Columns { machine, columns });
            }
            FromAgent::Readings { end } => {
                let (chunks, rest) = frame.body.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err("its counters are cut off".into());
                }
                let values = chunks.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
                let offset = of.offset().unwrap_or(Offset { offset: 0, uncertainty: 0 });
                self.notices.push(Notice::Readings { machine, end: ours(end, offset), values });
            }
            FromAgent::Event { text } => {
                of.report()?;
                self.notices.push(Notice::Event { machine, text: shortened(text) });
            }
            FromAgent::Finished(head) => {
                // A trial may be called off before its start.
                match of.state {
                    State::Preparing | State::Ready | State::Running => of.state = State::Finished,
                    _ => return Err("it ended a trial that it is not in".into()),
                }
                let failed = head.failed.clone();
                of.finished = Some(*head);
                if let Some(error) = failed {
                    return Err(error.in_line());
                }
            }
            FromAgent::Factor { number, answer } => {
                if number > of.asked_factors {
                    return Err("it answered about a factor that it was not asked".into());
                }
                // The answer to an earlier question is not waited for any more.
                if of.since.question.take_if(|(open, _)| *open == number).is_some() {
                    of.answer = Some(answer);
                }
            }
            FromAgent::Failed(error) => return Err(error.in_line()),
            FromAgent::Ended { left } => {
                expect(&mut of.state, &State::Ending, State::Ended)?;
                if !left.is_empty() {
                    return Err(format!("it could not restore: {}", left.join("; ")));
                }
            }
        }
        Ok(())
    }

    /// Adds an interval of a machine to that of all.
    fn interval(
        &mut self,
        machine: usize,
        head: crate::message::IntervalHead,
        body: &[u8],
    ) -> Result<(), String> {
        let Some(timing) = self.timing else { return Err("it drives load that was not started".into()) };
        let (end, phase) = (head.end, head.phase);
        let of = &mut self.machines[machine];
        if of.state != State::Running || end < of.delivered {
            return Err("its intervals are not in order".into());
        }
        let mut book = to_book(head, body, timing.zero, &mut self.decoder)
            .filter(|book| book.kinds.len() == of.operations.len())
            .ok_or("its figures could not be understood")?;
        for (kind, code, _) in &mut book.failures {
            *code = *of.codes.get(&(*kind, *code)).ok_or("it reported a failure without its description")?;
        }
        of.delivered = end;
        if phase == Phase::Measure {
            let counted = book.kinds.iter().zip(&self.counted).filter(|(_, counts)| **counts);
            of.completed += counted.map(|(kind, _)| kind.completed).sum::<u64>();
        }
        let kinds = book.kinds.len();
        let merged = self.merges.entry(end).or_insert_with(|| Book::new(kinds));
        if merged.kinds.len() != kinds {
            return Err("it has other operations than the other machines".into());
        }
        merged.add(&mut book);
        Ok(())
    }
}

/// The beginning of a text of a machine.
fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

fn expect(state: &mut State, expected: &State, next: State) -> Result<(), String> {
    if state != expected {
        return Err(format!("it answered what it was not asked ({state:?})"));
    }
    *state = next;
    Ok(())
}

#[cfg(test)]
mod simulation;
