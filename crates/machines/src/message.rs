//! What a coordinator and its agents say to each other. `docs/formats/machines.md` describes the format.

use std::collections::BTreeMap;

use engine::drive::{Book, CompletedLaunch, KindBook};
use engine::flight::InFlight;
use engine::lanes::MachinePart;
use engine::machines::MachineFactor;
use engine::part::PartEnd;
use engine::workload::LoadError;
use hdrhistogram::Histogram;
use model::launch::Usage;
use model::{
    DoubtKind, Host, Level, Load, MILLISECOND, MetricInfo, Nanos, Phase, Profile, Settings, Shape, Target,
    Times, WarmUp,
};
use record::{HistogramDecoder, encode_histogram};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The format of the messages: major.minor. Both sides need the same major version.
pub const FORMAT: &str = "plimsoll.machines/2.0";

/// The most bytes of a file in one message.
pub const FILE_PIECE_BYTES_MAX: u64 = 64 << 10;

/// Whether the other side speaks the same major version.
///
/// # Errors
/// What it speaks, and what to do.
pub fn check_format(found: &str) -> Result<(), String> {
    let major = |format: &str| {
        let (name, version) = format.split_once('/')?;
        Some((name.to_string(), version.split('.').next()?.to_string()))
    };
    match major(found) == major(FORMAT) {
        true => Ok(()),
        false => Err(format!("it speaks `{found}`, and this program `{FORMAT}`: use the same version")),
    }
}

/// The most machines of a load.
const MACHINES_MAX: u32 = 1 << 16;

/// The latest time, and the longest: about 95 years. A few of them together are still a time.
const TIME_MAX: Nanos = 3_000_000_000_000_000_000;

/// The shortest interval, and the shortest time between two readings of the counters.
const INTERVAL_MIN: Nanos = MILLISECOND;

/// The most virtual users.
const USERS_MAX: f64 = u32::MAX as f64;

/// A message as it is read: nothing behind the reader meets a number that no sender means.
pub trait Message: DeserializeOwned {
    /// Checks the numbers.
    ///
    /// # Errors
    /// Which one is not possible.
    fn check(&self) -> Result<(), String>;
}

/// Checks times.
fn check_times(times: &[(&str, Nanos)]) -> Result<(), String> {
    match times.iter().find(|(_, time)| *time > TIME_MAX) {
        Some((name, time)) => Err(format!("`{name}` of {time} ns is not possible")),
        None => Ok(()),
    }
}

/// Checks the size of a load.
fn check_shape(shape: &Shape) -> Result<(), String> {
    let (most, think) = match shape {
        Shape::Closed { think, .. } => (USERS_MAX, *think),
        Shape::Open { .. } => (f64::MAX, 0),
    };
    check_times(&[("think", think)])?;
    let sizes = match shape.profile() {
        Profile::Constant(size) => &[*size][..],
        Profile::Ramp(from, to) => &[*from, *to],
        Profile::Steps(sizes) => sizes,
    };
    match sizes.iter().find(|size| !(0.0..=most).contains(*size)) {
        Some(size) => Err(format!("a load of {size} is not possible")),
        None if sizes.is_empty() => Err("a load of no steps is not possible".into()),
        None => Ok(()),
    }
}

/// A file that a machine needs for a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputHead {
    /// Its path as the load names it; `${file:PATH}` or `${env:NAME}` for a text that one of its files refers to.
    pub name: String,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
}

/// One trial, as far as a machine takes part in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialPart {
    /// The kind of the workload.
    pub workload: String,
    /// Its settings, without secrets.
    pub settings: Settings,
    /// The texts of the settings with secret parts, in the order of [`Settings`].
    pub secrets: Vec<String>,
    /// The load of all machines.
    pub load: Load,
    /// Its shape; none for the default of the workload.
    pub shape: Option<Shape>,
    /// The seed of the trial.
    pub seed: u64,
    /// The part of this machine; none if it drives no load.
    pub part: Option<MachinePart>,
    /// What is watched.
    pub watch: Vec<String>,
    /// How often the counters are read.
    pub sample_every: Nanos,
    /// The system under test, if it runs on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The files that the load reads; none from a coordinator that sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<InputHead>>,
}

impl TrialPart {
    /// Takes the secret texts out of the settings.
    pub fn hide(mut self) -> TrialPart {
        self.secrets = each_secret(&mut self.settings).map(|secret| secret.reveal().to_string()).collect();
        self
    }

    /// Checks the numbers.
    fn check(&self) -> Result<(), String> {
        if let Some(MachinePart { index, of }) = self.part
            && (index >= of || of > MACHINES_MAX)
        {
            return Err(format!("part {index} of {of} is not possible"));
        }
        let Load { shape, warm_up, warm_up_round, measure, interval, .. } = &self.load;
        for shape in [shape, &self.shape].into_iter().flatten() {
            check_shape(shape)?;
        }
        let warm_up = match warm_up {
            WarmUp::For(time) => *time,
            WarmUp::Auto => 0,
        };
        check_times(&[
            ("warm_up", warm_up),
            ("warm_up_round", *warm_up_round),
            ("measure", measure.unwrap_or(0)),
            ("interval", *interval),
            ("sample_every", self.sample_every),
        ])?;
        match [("interval", *interval), ("sample_every", self.sample_every)]
            .iter()
            .find(|(_, time)| *time < INTERVAL_MIN)
        {
            Some((name, time)) => Err(format!("`{name}` of {time} ns is not possible")),
            None => Ok(()),
        }
    }

    /// Puts the secret texts back. What does not fit is left as it is, and is reported as missing by its check.
    pub fn reveal(mut self) -> TrialPart {
        for (secret, text) in each_secret(&mut self.settings).zip(std::mem::take(&mut self.secrets)) {
            secret.change(|_| text);
        }
        self
    }
}

fn each_secret(settings: &mut Settings) -> impl Iterator<Item = &mut model::Secret> {
    settings.0.values_mut().flat_map(|setting| setting.level.secrets_mut())
}

/// A message of the coordinator. Times are on the clock of the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "message")]
pub enum ToAgent {
    /// The first message.
    Hello {
        /// [`FORMAT`].
        format: String,
        /// The name of the machine in the experiment, for its messages.
        name: String,
        /// A label of the run, for the journal of the host.
        run: String,
    },
    /// To be answered at once.
    Ping {
        /// Repeated in the answer.
        number: u64,
    },
    /// Check whether the agent can take part in such a trial. Changes nothing.
    Check {
        /// The trial.
        trial: Box<TrialPart>,
    },
    /// Prepare a trial.
    Prepare {
        /// The trial.
        trial: Box<TrialPart>,
    },
    /// Start the load.
    Start {
        /// When.
        at: Nanos,
    },
    /// The measured phase begins.
    MeasureFrom {
        /// When.
        at: Nanos,
    },
    /// End the load now.
    Stop {
        /// Do not wait for operations in flight.
        abandon: bool,
    },
    /// Do something with a factor.
    Factor {
        /// Repeated in the answer.
        number: u64,
        /// The factor.
        factor: Box<MachineFactor>,
        /// What to do.
        ask: FactorAsk,
    },
    /// A piece of a file is the body.
    File {
        /// Of the file.
        sha256: String,
        /// Where the piece begins.
        offset: u64,
    },
    /// The experiment is over: remove what was made, and undo what was set.
    End,
}

impl Message for ToAgent {
    fn check(&self) -> Result<(), String> {
        match self {
            ToAgent::Check { trial } | ToAgent::Prepare { trial } => trial.check(),
            ToAgent::Start { at } | ToAgent::MeasureFrom { at } => check_times(&[("at", *at)]),
            ToAgent::Factor { ask: FactorAsk::Scaled(share), .. } if !share.is_finite() || *share < 0.0 => {
                Err(format!("a share of {share} is not possible"))
            }
            ToAgent::Factor { .. }
            | ToAgent::Hello { .. }
            | ToAgent::Ping { .. }
            | ToAgent::Stop { .. }
            | ToAgent::File { .. }
            | ToAgent::End => Ok(()),
        }
    }
}

/// What an agent is to do with a factor. A level that is set is in the journal of its host first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorAsk {
    /// Check whether a level can be set. Changes nothing.
    Check(Level),
    /// Read the level in force.
    Read,
    /// Find the level that is a share of the present one. Changes nothing.
    Scaled(f64),
    /// Set a level.
    Set(Level),
    /// What it observed since.
    Facts,
    /// Undo it.
    Restore,
}

/// What an agent answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorAnswer {
    /// It is so, or it is done.
    Done,
    /// The level.
    Level(Level),
    /// A level is set.
    Set {
        /// The time until it takes effect.
        settling: Nanos,
        /// How it was set, in words.
        remark: String,
    },
    /// Facts.
    Facts(BTreeMap<String, Level>),
}

/// A message of an agent. Times are on its clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "message")]
pub enum FromAgent {
    /// The answer to the first message.
    Hello {
        /// [`FORMAT`].
        format: String,
        /// The host.
        host: Box<Host>,
    },
    /// The answer to a ping.
    Pong {
        /// Of the ping.
        number: u64,
        /// The time at the agent.
        at: Nanos,
        /// The time of day there: nanoseconds since 1970-01-01 UTC.
        unix_ns: u64,
    },
    /// The answer to a check.
    Checked {
        /// What is wrong, and what to do.
        problems: Vec<(String, String)>,
    },
    /// Send a piece of a file.
    Want {
        /// Of the file.
        sha256: String,
        /// Where the piece begins.
        offset: u64,
        /// Its length, at most [`FILE_PIECE_BYTES_MAX`].
        bytes: u64,
    },
    /// Progress in words.
    Preparing {
        /// One line.
        text: String,
    },
    /// A trial is prepared, and its workers wait for the start.
    Ready {
        /// Facts about the system, and those of the workload.
        facts: BTreeMap<String, Level>,
        /// The names of its operations.
        operations: Vec<String>,
    },
    /// An interval ended.
    Interval(Box<IntervalHead>),
    /// Operations failed in a new way.
    Failure {
        /// The index of the operation.
        kind: u16,
        /// The code, as in [`IntervalHead::failures`].
        code: u32,
        /// In words.
        text: String,
        /// The doubt that follows.
        doubt: DoubtKind,
    },
    /// New columns of the readings, after those before.
    Columns {
        /// Metrics and instances.
        columns: Vec<(MetricInfo, String)>,
    },
    /// The counters were read; the body has the values of all columns as 64-bit floating-point numbers.
    Readings {
        /// The end of their window.
        end: Nanos,
    },
    /// To be recorded.
    Event {
        /// In words.
        text: String,
    },
    /// The load of this machine has ended.
    Finished(Box<PartEnd>),
    /// Something that the coordinator asked for could not be done.
    Failed(LoadError),
    /// The answer about a factor; the error says why it was not done.
    Factor {
        /// Of the question.
        number: u64,
        /// The answer.
        answer: Result<FactorAnswer, String>,
    },
    /// What was made is removed.
    Ended {
        /// What could not be removed or restored.
        left: Vec<String>,
    },
}

impl Message for FromAgent {
    fn check(&self) -> Result<(), String> {
        match self {
            FromAgent::Pong { at, .. } => check_times(&[("at", *at)]),
            FromAgent::Interval(head) => check_times(&[("end", head.end)]),
            FromAgent::Readings { end } => check_times(&[("end", *end)]),
            FromAgent::Factor { answer: Ok(FactorAnswer::Set { settling, .. }), .. } => {
                check_times(&[("settling", *settling)])
            }
            FromAgent::Finished(end) => check_times(&[("late", end.late), ("start_late", end.start_late)]),
            FromAgent::Want { bytes, .. } if *bytes > FILE_PIECE_BYTES_MAX => {
                Err(format!("a piece of {bytes} bytes is not possible"))
            }
            FromAgent::Want { .. }
            | FromAgent::Factor { .. }
            | FromAgent::Hello { .. }
            | FromAgent::Checked { .. }
            | FromAgent::Preparing { .. }
            | FromAgent::Ready { .. }
            | FromAgent::Failure { .. }
            | FromAgent::Columns { .. }
            | FromAgent::Event { .. }
            | FromAgent::Failed(_)
            | FromAgent::Ended { .. } => Ok(()),
        }
    }
}

/// What was done in an interval, without histograms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IntervalHead {
    /// The phase.
    pub phase: Phase,
    /// The end of the interval, after the start of the load.
    pub end: Nanos,
    /// As in [`Book`].
    pub offered: u64,
    /// As in [`Book`].
    pub issued: u64,
    /// As in [`Book`].
    pub spun_ns: u64,
    /// As in [`Book`].
    pub held: u64,
    /// Completed, late, failed, bytes of each operation, the failed ones that were due in the measured time, those that were
    /// never sent, and 1 for each of the sets of times that it has: due, other, censored. The body has the three histograms of
    /// each set.
    pub kinds: Vec<[u64; 9]>,
    /// Of each operation those in flight at the end, their time in flight, and how long they were in flight, as in
    /// [`InFlight`].
    pub flights: Vec<[u64; 3]>,
    /// As in [`Book`].
    pub failures: Vec<(u16, u32, u64)>,
    /// As in [`Book`].
    pub remarks: Vec<String>,
    /// Kind, when after the start of the load, time, whether it failed, use.
    pub launches: Vec<LaunchHead>,
}

/// A completed launch of a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchHead {
    kind: u16,
    at: Nanos,
    time: Nanos,
    failed: bool,
    usage: Usage,
}

/// Takes a book apart. `zero` is the start of the load.
pub fn of_book(phase: Phase, end: Nanos, zero: Nanos, book: &mut Book) -> (IntervalHead, Vec<u8>) {
    let mut body = Vec::new();
    let kind_of = |kind: &KindBook| {
        let sets = [Some(&kind.due), kind.other.as_deref(), kind.censored.as_deref()];
        let sets = sets.map(|times| times.filter(|times| !times.is_empty()));
        sets.iter().flatten().flat_map(|times| times.each()).for_each(|histogram| put(&mut body, histogram));
        let [due, other, censored] = sets.map(|times| u64::from(times.is_some()));
        [
            kind.completed,
            kind.late,
            kind.failed,
            kind.bytes,
            kind.due_failed,
            kind.unsent,
            due,
            other,
            censored,
        ]
    };
    let kinds = book.kinds.iter().map(kind_of).collect();
    let launch = |launch: CompletedLaunch| {
        let CompletedLaunch { kind, at, time, failed, usage } = launch;
        LaunchHead { kind, at: at.saturating_sub(zero), time, failed, usage }
    };
    let head = IntervalHead {
        phase,
        end: end.saturating_sub(zero),
        offered: book.offered,
        issued: book.issued,
        spun_ns: book.spun_ns,
        held: book.held,
        kinds,
        flights: book.flights.iter().map(|of| [of.count, of.time_ns, of.age_ns]).collect(),
        failures: std::mem::take(&mut book.failures),
        remarks: std::mem::take(&mut book.remarks),
        launches: book.launches.drain(..).map(launch).collect(),
    };
    (head, body)
}

/// Puts a book together. `zero` is the start of the load on the clock of the reader. None if the body does not fit the head
/// or a number is not possible.
pub fn to_book(head: IntervalHead, body: &[u8], zero: Nanos, decoder: &mut HistogramDecoder) -> Option<Book> {
    if head.flights.len() != head.kinds.len() {
        return None;
    }
    let mut book = Book::new(0);
    let mut rest = body;
    for [completed, late, failed, bytes, due_failed, unsent, sets @ ..] in head.kinds {
        if late > completed || failed > completed || due_failed > failed {
            return None;
        }
        let mut times = sets.map(|is_there| match is_there {
            0 => Some(None),
            _ => {
                let mut times = Times::default();
                for histogram in times.each_mut() {
                    *histogram = get(&mut rest, decoder)?;
                }
                Some(Some(times))
            }
        });
        let [due, other, censored] = times.each_mut().map(Option::take);
        let (due, other, censored) =
            (due?.unwrap_or_default(), other?.map(Box::new), censored?.map(Box::new));
        // Each operation has a response time; a part of one has no other. The lag of a censored one is known if it was issued.
        let other_ended = other.as_ref().map_or(0, |times| times.response.len());
        let censored_count = censored.as_ref().map_or(0, |times| times.response.len());
        let ended = due.response.len();
        if ended.checked_add(other_ended) != Some(completed)
            || due.service.len() > ended
            || unsent > censored_count
            || due.lag.len() > ended.saturating_add(censored_count)
        {
            return None;
        }
        book.kinds.push(KindBook {
            completed,
            late,
            failed,
            bytes,
            due_failed,
            due,
            other,
            censored,
            unsent,
        });
    }
    let launch = |launch: LaunchHead| {
        let LaunchHead { kind, at, time, failed, usage } = launch;
        CompletedLaunch { kind, at: zero.saturating_add(at), time, failed, usage }
    };
    (book.offered, book.issued) = (head.offered, head.issued);
    (book.held, book.spun_ns) = (head.held, head.spun_ns);
    book.flights =
        head.flights.into_iter().map(|[count, time, age]| InFlight::ended(count, time, age)).collect();
    (book.failures, book.remarks) = (head.failures, head.remarks);
    book.launches = head.launches.into_iter().map(launch).collect();
    rest.is_empty().then_some(book)
}

/// A histogram with its length before it.
fn put(body: &mut Vec<u8>, histogram: &Histogram<u64>) {
    let at = body.len();
    body.extend([0; 4]);
    encode_histogram(body, histogram);
    let length = (body.len() - at - 4) as u32;
    body[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

fn get(rest: &mut &[u8], decoder: &mut HistogramDecoder) -> Option<Histogram<u64>> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (payload, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    decoder.decode(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an agent answers to a trial, of which one value is replaced.
    fn trial(path: &[&str], value: serde_json::Value) -> Result<(), String> {
        let trial = TrialPart {
            workload: "null".into(),
            settings: Settings::default(),
            secrets: Vec::new(),
            load: Load {
                shape: Some(Shape::closed(3)),
                warm_up: WarmUp::For(0),
                ..Load::of_workload(Some(1))
            },
            shape: None,
            seed: 1,
            part: Some(MachinePart { index: 1, of: 2 }),
            watch: Vec::new(),
            sample_every: MILLISECOND,
            target: None,
            inputs: None,
        };
        let mut message = serde_json::to_value(ToAgent::Prepare { trial: Box::new(trial) }).unwrap();
        let mut place = &mut message;
        for name in path {
            place = place.get_mut(*name).unwrap_or_else(|| panic!("{path:?}"));
        }
        *place = value;
        let head = serde_json::to_vec(&message).unwrap();
        let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
        bytes.extend(head);
        crate::frame::decode::<ToAgent>(&bytes).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_number_that_is_not_possible_is_refused_where_it_is_read() {
        use serde_json::json;
        let users = |profile| json!({"closed": {"users": profile, "think": 0}});
        let rate = |profile| json!({"open": {"rate_per_s": profile, "arrivals": "constant"}});
        for (path, value, expected) in [
            (&["trial", "seed"][..], json!(u64::MAX), ""),
            (&["trial", "part"], json!(null), ""),
            (&["trial", "part", "of"], json!(0), "part 1 of 0"),
            (&["trial", "part", "of"], json!(1), "part 1 of 1"),
            (&["trial", "part", "of"], json!(u32::MAX), "part 1 of 4294967295"),
            (&["trial", "part", "index"], json!(2), "part 2 of 2"),
            (&["trial", "sample_every"], json!(0), "`sample_every` of 0 ns"),
            (&["trial", "sample_every"], json!(u64::MAX), "`sample_every` of"),
            (&["trial", "load", "interval"], json!(0), "`interval` of 0 ns"),
            (&["trial", "load", "measure"], json!(u64::MAX), "`measure` of"),
            (&["trial", "load", "warm_up"], json!({"for": u64::MAX}), "`warm_up` of"),
            (&["trial", "load", "shape"], users(json!({"constant": 1e300})), "a load of"),
            (&["trial", "load", "shape"], users(json!({"constant": -1.0})), "a load of -1"),
            (&["trial", "load", "shape"], users(json!({"steps": []})), "no steps"),
            (&["trial", "shape"], rate(json!({"ramp": [1.0, -1.0]})), "a load of -1"),
            (&["trial", "shape"], rate(json!({"ramp": [1.0, 2.0]})), ""),
            (
                &["trial", "shape"],
                json!({"closed": {"users": {"constant": 1.0}, "think": u64::MAX}}),
                "`think` of",
            ),
        ] {
            let found = trial(path, value.clone());
            match expected {
                "" => assert_eq!(found, Ok(()), "{path:?} {value}"),
                expected => assert!(
                    found.as_ref().is_err_and(|why| why.contains(expected)),
                    "{path:?} {value}: {found:?}"
                ),
            }
        }
        for message in
            [json!({"message": "start", "at": u64::MAX}), json!({"message": "measure_from", "at": u64::MAX})]
        {
            let message: ToAgent = serde_json::from_value(message).unwrap();
            assert!(message.check().is_err(), "{message:?}");
        }
        for message in [
            json!({"message": "pong", "number": 1, "at": u64::MAX, "unix_ns": 1}),
            json!({"message": "readings", "end": u64::MAX}),
            json!({"message": "want", "sha256": "a", "offset": 0, "bytes": u64::MAX}),
        ] {
            let message: FromAgent = serde_json::from_value(message).unwrap();
            assert!(message.check().is_err(), "{message:?}");
        }
    }

    #[test]
    fn both_sides_need_the_same_major_version() {
        for (found, expected) in [
            (FORMAT, true),
            ("plimsoll.machines/2.7", true),
            ("plimsoll.machines/1.2", false),
            ("plimsoll.machines/20.0", false),
            ("plimsoll.run/1.0", false),
            ("plimsoll.machines", false),
            ("", false),
        ] {
            assert_eq!(check_format(found).is_ok(), expected, "{found}");
        }
    }
}
