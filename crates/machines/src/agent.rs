//! The agent: takes part in the trials of a coordinator, which speaks to it over a stream.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::allowed::Allowed;
use engine::clock::{Clock, unix_ns};
use engine::inputs::Inputs;
use engine::part::{Coordinator, Part, PartEnd, PartInterval, drive_part, watch_part};
use engine::restore::{SharedJournal, end_made};
use engine::sampler::Sampler;
use engine::session::Registry;
use engine::source::HostRoot;
use engine::target;
use engine::workload::{LoadError, Workload};
use model::experiment::watched_url;
use model::{Experiment, Host, MILLISECOND, Nanos, Problem, Problems, Readings, SECOND};
use record::Journal;

use crate::frame::{self, Frame, FrameError};
use crate::host_factors::{self, Job};
use crate::message::{FORMAT, FromAgent, ToAgent, TrialPart, check_format, of_book};
use crate::received::{Arriving, Received};

/// A coordinator that says nothing for this long is gone: the load must not go on without it.
const SILENCE_MAX: Nanos = 5_500 * MILLISECOND;

/// A start that arrives later than this after its time is refused.
const LATE_START_MAX: Nanos = MILLISECOND;

/// What an agent needs from its host.
pub struct Setup {
    /// All plug-ins.
    pub registry: Registry,
    /// The root of the host's files.
    pub root: HostRoot,
    /// The host.
    pub host: Host,
    /// The folder that its journal names as the run directory.
    pub folder: PathBuf,
    /// What loads may reach; none if everything.
    pub limits: Option<Arc<Allowed>>,
}

/// What the coordinator has said about the present trial.
#[derive(Debug, Default)]
struct Said {
    start: Option<Nanos>,
    measured_from: Option<Nanos>,
    stop: bool,
    abandon: bool,
}

/// What the thread that reads and the thread that works share.
struct Shared<W> {
    out: Mutex<W>,
    said: Mutex<Said>,
    changed: Condvar,
    /// Called when it has changed.
    wake: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    heard: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Write> Shared<W> {
    /// A message that cannot be sent is not missed: the connection has ended, and the reader sees that.
    fn send(&self, message: FromAgent, body: Vec<u8>) {
        let mut out = lock(&self.out);
        if frame::write(&mut *out, &Frame { head: message, body }).is_err() {
            drop(out);
            self.give_up();
        }
    }

    fn say(&self, said: impl FnOnce(&mut Said)) {
        said(&mut lock(&self.said));
        self.changed.notify_all();
        if let Some(wake) = &*lock(&self.wake) {
            wake();
        }
    }

    fn give_up(&self) {
        self.say(|said| (said.stop, said.abandon) = (true, true));
    }

    /// How long the coordinator may still be silent.
    fn patience(&self) -> Nanos {
        let end = self.heard.load(Ordering::Relaxed) + SILENCE_MAX;
        end.saturating_sub(Clock::get().now())
    }

    fn is_silent(&self) -> bool {
        self.patience() == 0
    }
}

/// Takes part in the trials of one coordinator, until it ends the experiment or goes away. Either way, everything is undone
/// and removed at the end. Returns what could not be.
///
/// # Errors
/// When the first message is not that of a coordinator of this version, or the host cannot be used.
pub fn serve<R, W>(setup: &Setup, input: R, output: W) -> Result<Vec<String>, String>
where
    R: Read + Send + 'static,
    W: Write + Send,
{
    let clock = Clock::get();
    let shared = Shared {
        out: Mutex::new(output),
        said: Mutex::default(),
        changed: Condvar::new(),
        wake: Mutex::default(),
        heard: AtomicU64::new(clock.now()),
    };
    let journal = HostJournal { setup, begun: Mutex::default() };
    let (arrived, inbox) = channel();
    std::thread::scope(|scope| {
        let (shared, journal) = (&shared, &journal);
        // It ends when the coordinator closes the stream; after the experiment, nothing waits for it.
        let (stream, chunks) = channel();
        std::thread::spawn(move || forward(input, &stream));
        let (jobs, of_factors) = channel();
        let to_factors = jobs.clone();
        scope.spawn(move || listen(&chunks, shared, &arrived, &to_factors));
        let factors = scope.spawn(move || {
            let answer = |number, answer| shared.send(FromAgent::Factor { number, answer }, Vec::new());
            host_factors::serve(setup, journal, &of_factors, &answer)
        });
        let (received, pending) = (Received::default(), VecDeque::new());
        let mut agent = Agent { setup, shared, inbox, pending, received, workloads: Vec::new(), journal };
        let result = agent.serve();
        // Its end is the end of what it receives.
        let _ = jobs.send(Job::End);
        let mut left = factors.join().unwrap_or_else(|_| vec!["a factor could not be undone".into()]);
        left.extend(agent.clean_up(&left));
        shared.give_up();
        match result {
            Ok(is_asked) => {
                if is_asked {
                    shared.send(FromAgent::Ended { left: left.clone() }, Vec::new());
                }
                Ok(left)
            }
            Err(why) => Err(why),
        }
    })
}

type Arrived = Result<Frame<ToAgent>, FrameError>;

/// Reads frames with the time of their arrival, on a thread that nothing waits for.
fn forward(mut input: impl Read, to: &Sender<(Nanos, Arrived)>) {
    loop {
        let frame = frame::read(&mut input);
        let is_last = frame.is_err();
        if to.send((Clock::get().now(), frame)).is_err() || is_last {
            return;
        }
    }
}

/// Answers pings at once, and passes on what else arrives.
fn listen<W: Write>(
    from: &Receiver<(Nanos, Arrived)>,
    shared: &Shared<W>,
    to: &Sender<Arrived>,
    to_factors: &Sender<Job>,
) {
    loop {
        match from.recv_timeout(Duration::from_nanos(shared.patience())) {
            Ok((at, Ok(frame))) => {
                shared.heard.store(at, Ordering::Relaxed);
                match frame.head {
                    ToAgent::Ping { number } => {
                        let unix_ns = unix_ns();
                        shared.send(FromAgent::Pong { number, at: Clock::get().now(), unix_ns }, Vec::new());
                    }
                    ToAgent::Factor { number, factor, ask } => {
                        if to_factors.send(Job::Ask(number, factor, ask)).is_err() {
                            return;
                        }
                    }
                    ToAgent::Start { at } => shared.say(|said| said.start = Some(at)),
                    ToAgent::MeasureFrom { at } => shared.say(|said| said.measured_from = Some(at)),
                    ToAgent::Stop { abandon } => shared.say(|said| {
                        said.stop = true;
                        said.abandon |= abandon;
                    }),
                    _ => {
                        if to.send(Ok(frame)).is_err() {
                            return;
                        }
                    }
                }
            }
            Ok((_, Err(error))) => {
                shared.give_up();
                let _ = to.send(Err(error));
                return;
            }
            Err(RecvTimeoutError::Timeout) => {
                // The agent has ended when it no longer receives, which the next message would show.
                if shared.is_silent() {
                    shared.give_up();
                    let _ = to.send(Err(FrameError::Closed));
                    return;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The thread that works.
struct Agent<'a, W> {
    setup: &'a Setup,
    shared: &'a Shared<W>,
    inbox: Receiver<Arrived>,
    /// Taken from the inbox while a file was waited for.
    pending: VecDeque<Arrived>,
    /// The files of the load.
    received: Received,
    /// Kept until the end, so that later trials can use the files of earlier ones.
    workloads: Vec<Box<dyn Workload>>,
    journal: &'a HostJournal<'a>,
}

/// The journal of this host, which is begun when something is to be recorded in it.
pub(crate) struct HostJournal<'a> {
    setup: &'a Setup,
    begun: Mutex<Option<SharedJournal>>,
}

impl HostJournal<'_> {
    /// The journal.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn get(&self) -> Result<SharedJournal, String> {
        let mut begun = lock(&self.begun);
        if let Some(journal) = &*begun {
            return Ok(journal.clone());
        }
        let experiment = Experiment::recorded("agent", "agent");
        let journal =
            Journal::begin_for_agent(&self.setup.folder, &experiment).map_err(|error| error.to_string())?;
        Ok(begun.insert(SharedJournal::new(journal)).clone())
    }
}

impl<W: Write + Send> Agent<'_, W> {
    /// Answers one message after another. Returns whether the coordinator ended the experiment, and did not just go.
    fn serve(&mut self) -> Result<bool, String> {
        let mut is_greeted = false;
        while let Some(arrived) = self.pending.pop_front().or_else(|| self.inbox.recv().ok()) {
            let frame = match arrived {
                Ok(frame) => frame,
                Err(FrameError::Closed) if is_greeted => return Ok(false),
                Err(error) if is_greeted => return Err(error.to_string()),
                Err(_) => {
                    return Err("the standard input is not a coordinator: an agent is started by `plimsoll run` with `machines`, or by --on".into());
                }
            };
            match frame.head {
                ToAgent::Hello { format, .. } => {
                    if let Err(why) = check_format(&format) {
                        self.fail(why.clone(), "");
                        return Err(why);
                    }
                    is_greeted = true;
                    let host = Box::new(self.setup.host.clone());
                    self.shared.send(FromAgent::Hello { format: FORMAT.into(), host }, Vec::new());
                }
                _ if !is_greeted => return Err("the coordinator did not say its version".into()),
                ToAgent::Check { trial } => {
                    let problems = self.check(trial.reveal());
                    self.shared.send(FromAgent::Checked { problems }, Vec::new());
                }
                ToAgent::Prepare { trial } => self.trial(trial.reveal()),
                ToAgent::End => return Ok(true),
                // A piece of a file that is not waited for any more; the others are taken by the listener.
                ToAgent::File { .. }
                | ToAgent::Ping { .. }
                | ToAgent::Factor { .. }
                | ToAgent::Start { .. }
                | ToAgent::MeasureFrom { .. }
                | ToAgent::Stop { .. } => {}
            }
        }
        Ok(false)
    }

    fn fail(&self, what: impl Into<String>, help: impl Into<String>) {
        self.shared.send(FromAgent::Failed(LoadError::new(what, help)), Vec::new());
    }

    /// The files of a trial. Those that are not here yet are asked for.
    fn receive(&mut self, trial: &TrialPart) -> Result<Inputs, LoadError> {
        let Some(heads) = &trial.inputs else {
            // A coordinator of an earlier version, whose load reads the files of this host.
            return Ok(match self.setup.limits.is_some() {
                true => Inputs::sent(BTreeMap::new()),
                false => Inputs::host(),
            });
        };
        let missing = self.received.missing(heads)?;
        let bytes: u64 = missing.iter().map(|head| head.bytes).sum();
        if bytes > 1_000_000 {
            let text = format!("receiving {} MB of files", bytes / 1_000_000);
            self.shared.send(FromAgent::Preparing { text }, Vec::new());
        }
        for head in missing {
            let mut arriving = Arriving::begin(head)?;
            while !arriving.is_whole() {
                while let Some((sha256, offset, bytes)) = arriving.ask() {
                    self.shared.send(FromAgent::Want { sha256, offset, bytes }, Vec::new());
                }
                match self.inbox.recv_timeout(Duration::from_nanos(SECOND / 10)) {
                    Ok(Ok(Frame { head: ToAgent::File { sha256, offset }, body })) => {
                        arriving.take(&sha256, offset, &body)?;
                    }
                    Err(RecvTimeoutError::Timeout) if !lock(&self.shared.said).stop => {}
                    other => {
                        self.pending.extend(other.ok());
                        return Err(LoadError::new("the coordinator called the trial off", ""));
                    }
                }
            }
            self.received.add(arriving)?;
        }
        Ok(Inputs::sent(self.received.named(heads)))
    }

    fn configure(&mut self, trial: &TrialPart) -> Result<Box<dyn Workload>, Problems> {
        let inputs =
            self.receive(trial).map_err(|error| Problems::from(Problem::new(error.what, error.help)))?;
        let known = self.setup.registry.workloads.iter().find(|kind| kind.info().name == trial.workload);
        match known {
            Some(kind) => {
                let mut workload = kind.configure_with(&trial.settings, &inputs)?;
                let refused =
                    self.setup.limits.as_ref().map_or_else(Problems::new, |limits| workload.limit_to(limits));
                refused.or(workload)
            }
            None => {
                Err(Problem::new(format!("there is no workload `{}` in this version", trial.workload), "")
                    .into())
            }
        }
    }

    fn check(&mut self, trial: TrialPart) -> Vec<(String, String)> {
        if let Some(Err(why)) = trial.target.as_ref().map(target::running) {
            return vec![(why, "start the system under test on that machine first".into())];
        }
        // No coordinator asks for this: it reads exporters itself.
        let is_url = |entry: &String| watched_url(entry).is_some();
        if self.setup.limits.is_some() && trial.watch.iter().any(is_url) {
            return vec![("this agent reads counters of its own host only".into(), String::new())];
        }
        if trial.part.is_none() {
            return Vec::new();
        }
        self.shared.say(|said| *said = Said::default());
        let problems = match self.configure(&trial) {
            Ok(workload) => {
                let mut problems = workload.check();
                if problems.is_empty() {
                    problems.extend(workload.reach(&mut Vec::new()));
                }
                problems
            }
            Err(problems) => problems,
        };
        problems.0.into_iter().map(|problem| (problem.what, problem.help)).collect()
    }

    /// Takes part in a trial.
    fn trial(&mut self, trial: TrialPart) {
        self.shared.say(|said| *said = Said::default());
        if self.shared.is_silent() {
            return self.shared.give_up();
        }
        if let Some(Err(why)) = trial.target.as_ref().map(target::running) {
            return self.fail(why, "the system under test has ended on that machine");
        }
        let is_read = |entry: &&String| self.setup.limits.is_none() || watched_url(entry).is_none();
        let watch: Vec<String> = trial.watch.iter().filter(is_read).cloned().collect();
        let sampler = Sampler::open(self.setup.registry.sources, &self.setup.root, &watch);
        let Some(part) = trial.part else {
            let end = watch_part(sampler, trial.sample_every, &Speaker::new(self.shared, None));
            return self.finished(end);
        };
        let workload = match self.prepare(&trial) {
            Ok(workload) => workload,
            Err(_) if lock(&self.shared.said).stop => return self.finished(PartEnd::default()),
            Err(error) => return self.fail(error.what, error.help),
        };
        let shape = trial.shape.or(trial.load.shape.clone()).unwrap_or_else(|| workload.default_shape());
        let end = drive_part(
            Part {
                workload: &*workload,
                load: &trial.load,
                shape: &shape,
                seed: trial.seed,
                part,
                sampler,
                sample_every: trial.sample_every,
            },
            &Speaker::new(self.shared, Some(&*workload)),
        );
        self.workloads.push(workload);
        if let Some(workload) = self.workloads.last_mut() {
            workload.release();
        }
        self.finished(end);
    }

    /// A workload whose data exists.
    fn prepare(&mut self, trial: &TrialPart) -> Result<Box<dyn Workload>, LoadError> {
        let mut workload =
            self.configure(trial).map_err(|problems| LoadError::new(problems.to_string(), ""))?;
        let journal = self
            .journal
            .get()
            .map_err(|why| LoadError::new(why, "Plimsoll makes no files without a journal to remove them"))?;
        workload.announce_to(&journal.announcements(&trial.workload));
        let mut say = |text: &str| {
            self.shared.send(FromAgent::Preparing { text: text.into() }, Vec::new());
            !lock(&self.shared.said).stop
        };
        match workload.prepare(trial.seed, &mut say) {
            Ok(()) => Ok(workload),
            Err(error) => {
                // Part of its data may exist, which is removed at the end.
                self.workloads.push(workload);
                Err(error)
            }
        }
    }

    /// A trial that the coordinator called off did not fail here.
    fn finished(&self, mut end: PartEnd) {
        if lock(&self.shared.said).stop {
            end.failed = None;
        }
        self.shared.send(FromAgent::Finished(Box::new(end)), Vec::new());
    }

    /// Removes what was made, also when the coordinator has gone. `not_undone` is what of the factors is left: it stays in the
    /// journal.
    fn clean_up(&mut self, not_undone: &[String]) -> Vec<String> {
        let mut left = Vec::new();
        for mut workload in self.workloads.drain(..).rev() {
            left.extend(workload.clean_up().err().map(|error| error.in_line()));
        }
        if let Some(journal) = lock(&self.journal.begun).take() {
            match end_made(&journal, self.setup.registry.workloads) {
                Ok(not_removed) => left.extend(not_removed),
                Err(error) => left.push(error.to_string()),
            }
            if left.is_empty() && not_undone.is_empty() {
                left.extend(journal.complete().err().map(|error| error.to_string()));
            }
        }
        left
    }
}

/// Speaks to the coordinator during a trial.
struct Speaker<'a, W> {
    shared: &'a Shared<W>,
    /// None if only counters are read.
    workload: Option<&'a dyn Workload>,
    zero: AtomicU64,
    /// Number of columns that the coordinator knows.
    columns: Mutex<usize>,
    /// Failures that the coordinator knows.
    failures: Mutex<HashSet<(u16, u32)>>,
}

impl<'a, W> Speaker<'a, W> {
    fn new(shared: &'a Shared<W>, workload: Option<&'a dyn Workload>) -> Speaker<'a, W> {
        let (columns, failures) = (Mutex::new(0), Mutex::default());
        Speaker { shared, workload, zero: AtomicU64::new(0), columns, failures }
    }
}

impl<W: Write + Send> Coordinator for Speaker<'_, W> {
    fn ready(&self) -> Result<Nanos, LoadError> {
        let facts = self.workload.map(Workload::facts).unwrap_or_default();
        let operations = self.workload.map(Workload::operations).unwrap_or_default();
        self.shared.send(FromAgent::Ready { facts, operations }, Vec::new());
        let mut said = lock(&self.shared.said);
        loop {
            if said.stop {
                return Err(LoadError::new("the trial was called off before its start", ""));
            }
            if let Some(at) = said.start {
                let late = Clock::get().now().saturating_sub(at);
                if late > LATE_START_MAX {
                    let what = format!("the start arrived {:.1} ms late", late as f64 / 1e6);
                    return Err(LoadError::new(what, "use a faster connection to the machines"));
                }
                self.zero.store(at, Ordering::Relaxed);
                return Ok(at);
            }
            said = self.shared.changed.wait(said).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn measured_from(&self) -> Option<Nanos> {
        lock(&self.shared.said).measured_from
    }

    fn stops(&self) -> bool {
        lock(&self.shared.said).stop
    }

    fn abandons(&self) -> bool {
        lock(&self.shared.said).abandon
    }

    fn wake_on_change(&self, wake: Box<dyn Fn() + Send + Sync>) {
        *lock(&self.shared.wake) = Some(wake);
    }

    fn interval(&self, interval: PartInterval<'_>) {
        let PartInterval { phase, end, book } = interval;
        for (kind, code, _) in &book.failures {
            if lock(&self.failures).insert((*kind, *code)) {
                let Some(workload) = self.workload else { continue };
                let (text, doubt) = (workload.describe_failure(*code), workload.doubt_of_failure(*code));
                self.shared.send(FromAgent::Failure { kind: *kind, code: *code, text, doubt }, Vec::new());
            }
        }
        let (head, body) = of_book(phase, end, self.zero.load(Ordering::Relaxed), book);
        self.shared.send(FromAgent::Interval(Box::new(head)), body);
    }

    fn readings(&self, end: Nanos, readings: &Readings) {
        let mut known = lock(&self.columns);
        let columns = readings.columns().get(*known..).unwrap_or_default();
        if !columns.is_empty() {
            let columns: Vec<_> =
                columns.iter().map(|column| (column.metric.clone(), column.instance.clone())).collect();
            *known += columns.len();
            self.shared.send(FromAgent::Columns { columns }, Vec::new());
        }
        let body = readings.values().iter().flat_map(|value| value.to_le_bytes()).collect();
        self.shared.send(FromAgent::Readings { end }, body);
    }

    fn event(&self, text: String) {
        self.shared.send(FromAgent::Event { text }, Vec::new());
    }
}
