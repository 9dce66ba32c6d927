//! The machines of a running experiment: their connections, and one thread that listens to all of them.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::clock::{Clock, unix_ns};
use engine::crew::{Crew, WakeReason, Watch};
use engine::drive::Book;
use engine::factor::Factor;
use engine::inputs::{Input, KeptInputs};
use engine::lanes::MachinePart;
use engine::machines::{LEFT, MachineFactor, MachineTrial, Machines, combine_facts};
use engine::source::{Source, SourceKind, Unavailable};
use engine::target;
use engine::workload::{Combined, LoadError};
use model::metric::instance_on;
use model::run::{GeneratorUse, MachineRun};
use model::{
    ColumnId, DoubtKind, Ending, Level, MetricInfo, Nanos, Problem, Problems, Readings, SECOND, WarmUp,
};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::address::{Address, Reach};
use crate::fleet::{Fleet, JOIN_MAX, Machine, Notice, State};
use crate::frame::Frame;
use crate::link::{Arrived, FromLink, Inbox, Incoming, LINK_END_MAX, Link};
use crate::message::{FactorAnswer, FactorAsk, FromAgent, InputHead, TrialPart};
use crate::program::Program;
use crate::received::sha256;
use crate::remote_factor::RemoteFactor;

mod listener;
pub mod survey;

use listener::{Happened, Listener};

/// How long a wait lasts until it looks for an interrupt.
const LOOK_UP: Duration = Duration::from_millis(250);

/// A machine of the experiment.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name and how it is reached.
    pub address: Address,
    /// Whether it drives load, and is not only watched.
    pub drives: bool,
    /// What is watched there.
    pub watch: Vec<String>,
}

/// The latest counters of a machine.
#[derive(Debug, Default)]
struct Latest {
    /// Columns that the source does not have yet.
    columns: Vec<(MetricInfo, String)>,
    /// The end of their window, and the values.
    values: Option<(Nanos, Vec<f64>)>,
    /// The largest age that they had when they were recorded.
    age_max: Nanos,
    lost: Option<String>,
}

/// What the listening thread and the experiment share.
struct Inner {
    fleet: Fleet,
    links: Vec<Option<Link>>,
    /// The number of the present connection of each machine.
    connections: Vec<u64>,
    latest: Vec<Arc<Mutex<Latest>>>,
    /// The metrics of this program.
    metrics: HashMap<&'static str, &'static MetricInfo>,
    /// The latest progress of each machine in words.
    progress: BTreeMap<usize, String>,
    /// Whether a trial was prepared.
    has_trials: bool,
    /// To be recorded.
    events: Vec<String>,
}

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
    ends: AtomicBool,
    /// Set when the user stops the run.
    interrupted: &'static AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitFor {
    /// Work of a run, which the user can stop.
    Work,
    /// The end of work, or an undo. It goes on after the user stopped the run, but not for long.
    CleanUp,
}

impl Shared {
    /// Waits until `look` finds something. Nothing else waits for machines. It ends: a machine that does not do what is waited for is
    /// lost (see `fleet/deadline.rs`), and the user can stop the run. `look` must find something when a machine is lost.
    ///
    /// # Errors
    /// The user stopped the run.
    fn wait<T>(
        &self,
        wait_for: WaitFor,
        mut say: Option<&mut dyn FnMut(&str)>,
        mut look: impl FnMut(&mut Inner) -> Option<T>,
    ) -> Result<T, Ending> {
        let mut waiting = String::new();
        let mut inner = lock(&self.inner);
        loop {
            let now = Clock::get().now();
            // The listener does so too, unless it is busy.
            inner.fleet.expire(now);
            if let Some(say) = &mut say {
                let news = inner.news(&mut waiting);
                drop(inner);
                news.iter().for_each(|text| say(text));
                inner = lock(&self.inner);
            }
            if let Some(found) = look(&mut inner) {
                return Ok(found);
            }
            if self.interrupted.load(Ordering::Relaxed) {
                match wait_for {
                    WaitFor::Work => return Err(Ending::Interrupted),
                    WaitFor::CleanUp => inner.fleet.hurry(now),
                }
            }
            inner = self.changed.wait_timeout(inner, LOOK_UP).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until `is_done`; a lost machine ends it.
    fn wait_until(
        &self,
        say: &mut dyn FnMut(&str),
        is_done: impl Fn(&Fleet) -> bool,
    ) -> Result<MutexGuard<'_, Inner>, Ending> {
        self.wait(WaitFor::Work, Some(say), |inner| match inner.fleet.lost() {
            Some((machine, why)) => Some(Err(Ending::Failed(lost(machine, why)))),
            None => is_done(&inner.fleet).then_some(Ok(())),
        })??;
        Ok(lock(&self.inner))
    }

    /// Asks a machine about a factor, and waits for its answer.
    ///
    /// # Errors
    /// What the machine answered, or why it did not.
    pub(crate) fn ask(
        &self,
        machine: usize,
        factor: &MachineFactor,
        ask: FactorAsk,
    ) -> Result<FactorAnswer, Unavailable> {
        let wait_for = match ask {
            FactorAsk::Restore | FactorAsk::Facts => WaitFor::CleanUp,
            FactorAsk::Check(_) | FactorAsk::Read | FactorAsk::Scaled(_) | FactorAsk::Set(_) => WaitFor::Work,
        };
        {
            let mut inner = lock(&self.inner);
            inner.fleet.ask_factor(Clock::get().now(), machine, factor.clone(), ask);
            inner.pass_on();
        }
        let answered = self.wait(wait_for, None, |inner| {
            let of = &inner.fleet.machines()[machine];
            let name = format!("machine {}", of.name);
            if let State::Lost(why) = &of.state {
                return Some(Err(Unavailable(format!("{name}: {why}"))));
            }
            let answer = inner.fleet.take_answer(machine)?;
            Some(answer.map_err(|why| Unavailable(format!("{name}: {why}"))))
        });
        answered.unwrap_or_else(|ending| Err(Unavailable(ending.to_string())))
    }

    /// Waits until `is_done`, whatever becomes of single machines.
    fn settle(&self, wait_for: WaitFor, is_done: impl Fn(&Fleet) -> bool) -> Result<(), Ending> {
        self.wait(wait_for, None, |inner| is_done(&inner.fleet).then_some(()))
    }
}

/// That a machine is lost, in words.
fn lost(machine: &Machine, why: &str) -> String {
    format!("machine {}: {why}", machine.name)
}

/// The machines of an experiment. Dropping it ends the agents.
pub struct Hub {
    members: Vec<Member>,
    program: Arc<Program>,
    shared: Arc<Shared>,
    arrived: Inbox,
    listener: Option<JoinHandle<()>>,
    interval: Nanos,
    warm_up: WarmUp,
    /// Whether the load of a lost machine is divided among the others in further trials.
    divides: bool,
    /// The files of the load, as the run read them first.
    kept: Arc<KeptInputs>,
    /// The SHA-256 of each, by its name.
    hashes: HashMap<String, String>,
}

impl Hub {
    /// Reaches all machines, copies the program where it is missing, and compares the clocks. `run` is a label of the run,
    /// `sources` are those of this program; `say` receives progress. With `divides`, further trials divide the load of a lost machine
    /// among the others.
    ///
    /// # Errors
    /// How it ended: a machine could not be reached, or the user stopped it.
    pub fn connect(
        members: Vec<Member>,
        divides: bool,
        run: &str,
        sources: &'static [SourceKind],
        say: &mut dyn FnMut(&str),
        interrupted: &'static AtomicBool,
    ) -> Result<Hub, Ending> {
        let members = crate::nats::bus::expand(members, say, interrupted)?;
        let hub = Hub::open(members, divides, run, sources, JOIN_MAX, interrupted)?;
        drop(hub.shared.wait_until(say, Fleet::has_clocks)?);
        Ok(hub)
    }

    /// Begins to reach all machines.
    fn open(
        members: Vec<Member>,
        divides: bool,
        run: &str,
        sources: &'static [SourceKind],
        join_max: Nanos,
        interrupted: &'static AtomicBool,
    ) -> Result<Hub, Ending> {
        let failed = |why: String| Ending::Failed(why);
        let is_copied = members.iter().any(|member| matches!(member.address.reach, Reach::Ssh { .. }));
        let program = Program::this(is_copied)
            .map_err(|error| failed(format!("this program cannot be read: {error}")))?;
        let clock = Clock::get();
        let names = members.iter().map(|member| (member.address.name.clone(), member.drives));
        let unix_zero = unix_ns().saturating_sub(clock.now());
        let fleet = Fleet::new(names, run, unix_zero, clock.now(), join_max);
        let (to, inbox) = channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(|error| failed(error.to_string()))?);
        let arrived = Inbox::new(to, wake.clone());
        let listener = Listener::new(members.len(), inbox, wake, arrived.clone());
        let listener = listener.map_err(|error| failed(error.to_string()))?;
        let inner = Inner {
            fleet,
            links: members.iter().map(|_| None).collect(),
            connections: vec![0; members.len()],
            latest: members.iter().map(|_| Arc::default()).collect(),
            metrics: sources
                .iter()
                .flat_map(|kind| kind.metrics)
                .map(|metric| (metric.name.as_ref(), metric))
                .collect(),
            progress: BTreeMap::new(),
            has_trials: false,
            events: Vec::new(),
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            ends: AtomicBool::new(false),
            interrupted,
        });
        let listener = std::thread::Builder::new().name("machines".into()).spawn({
            let shared = shared.clone();
            move || listener.listen(&shared)
        });
        let listener = listener.map_err(|error| failed(error.to_string()))?;
        let hub = Hub {
            members,
            program: Arc::new(program),
            shared,
            arrived,
            listener: Some(listener),
            interval: SECOND,
            warm_up: WarmUp::Auto,
            divides,
            kept: Arc::default(),
            hashes: HashMap::new(),
        };
        hub.open_missing();
        Ok(hub)
    }

    /// Opens the connections that do not exist.
    fn open_missing(&self) {
        for (machine, member) in self.members.iter().enumerate() {
            let connection = {
                let mut inner = lock(&self.shared.inner);
                if inner.links[machine].is_some() || inner.fleet.machines()[machine].is_left_out() {
                    continue;
                }
                inner.connections[machine] += 1;
                inner.connections[machine]
            };
            let of = (machine, connection);
            let opened = Link::open(&member.address, &self.program, of, &self.arrived);
            let mut inner = lock(&self.shared.inner);
            match opened {
                Ok(link) => inner.links[machine] = Some(link),
                Err(why) => inner.fleet.closed(machine, &why),
            }
        }
    }

    /// Reaches the machines again that were lost in an earlier trial, or goes on without them. Returns which, in words.
    fn reconnect(&self, say: &mut dyn FnMut(&str)) -> Result<Vec<String>, Ending> {
        let (mut closed, mut left_out, mut any_again) = (Vec::new(), Vec::new(), false);
        {
            let mut inner = lock(&self.shared.inner);
            let now = Clock::get().now();
            for (machine, member) in self.members.iter().enumerate() {
                if self.divides
                    && member.drives
                    && let Some(why) = inner.fleet.leave_out(machine)
                {
                    let name = &member.address.name;
                    left_out.push(format!(
                        "machine {name} is left out from here on ({why}): its part is divided among the others"
                    ));
                    closed.extend(inner.links[machine].take());
                }
                if inner.fleet.rejoin(now, machine) {
                    any_again = true;
                    closed.extend(inner.links[machine].take());
                    *lock(&inner.latest[machine]) = Latest::default();
                }
            }
        }
        // Outside the lock, as it waits for the end of processes.
        drop(closed);
        if self.drive() && lock(&self.shared.inner).fleet.driving().next().is_none() {
            return Err(Ending::Failed("no machine is left to drive the load".into()));
        }
        if !any_again {
            return Ok(left_out);
        }
        self.open_missing();
        self.shared.wait_until(say, Fleet::has_clocks).map(|_| left_out)
    }

    /// Offers the files of a trial to the machines.
    ///
    /// # Errors
    /// Why they cannot be sent, and what to do.
    fn offer(&mut self, trial: MachineTrial<'_>) -> Result<Vec<InputHead>, (String, &'static str)> {
        let inputs = trial.inputs.used();
        // Each is read through once.
        let is_new = |input: &&Input| input.is_secret == Some(true) || !self.hashes.contains_key(&input.name);
        let new: Vec<&Input> = inputs.iter().filter(is_new).collect();
        if let Some(what) = crate::nats::bus::unencrypted_secret(&self.members, trial.settings, &new) {
            return Err((what, crate::nats::bus::ENCRYPT));
        }
        let mut inner = lock(&self.shared.inner);
        let mut head = |Input { name, content, .. }: Input| {
            let hash = self.hashes.entry(name.clone()).or_insert_with(|| sha256(&content)).clone();
            inner.fleet.offer(&hash, &content);
            InputHead { name, sha256: hash, bytes: content.len() as u64 }
        };
        Ok(inputs.into_iter().map(&mut head).collect())
    }

    /// The parts of a trial, which reads these files.
    fn parts(&self, trial: MachineTrial<'_>, inputs: &[InputHead]) -> Vec<TrialPart> {
        let inner = lock(&self.shared.inner);
        let of = inner.fleet.driving().count() as u32;
        let mut index = 0;
        let part = |(member, machine): (&Member, &Machine)| {
            let drives = member.drives && !machine.is_left_out();
            let part = drives.then_some(MachinePart { index, of });
            index += u32::from(drives);
            let name = member.address.name.as_str();
            let mut watch = member.watch.clone();
            target::watched_on(name, trial.target, &mut watch);
            let part = TrialPart {
                workload: trial.workload.into(),
                settings: trial.settings.clone(),
                secrets: Vec::new(),
                load: trial.load.clone(),
                shape: trial.shape.cloned(),
                seed: trial.seed,
                part,
                watch,
                sample_every: trial.sample_every,
                target: trial.target.filter(|target| target.machine() == Some(name)).cloned(),
                inputs: drives.then(|| inputs.to_vec()),
            };
            part.hide()
        };
        self.members.iter().zip(inner.fleet.machines()).map(part).collect()
    }

    fn stop(&self, abandon: bool) {
        let mut inner = lock(&self.shared.inner);
        inner.fleet.stop(Clock::get().now(), abandon);
        inner.pass_on();
    }

    /// The uncertainty of the clock of each machine, in the order of the experiment.
    pub fn describe(&self) -> Vec<String> {
        let inner = lock(&self.shared.inner);
        let describe = |machine: &Machine| {
            let host = machine.host.as_ref();
            let of_host = host
                .map_or(String::new(), |host| format!("{}, {} CPUs, {}", host.name, host.cpus, host.kernel));
            let clock = machine.offset().map_or(String::new(), |offset| {
                format!(
                    ", clock {:+.1} ms (known to {:.3} ms)",
                    machine.clock_offset_s() * 1e3,
                    offset.uncertainty as f64 / 1e6
                )
            });
            format!("machine {}: {of_host}{clock}", machine.name)
        };
        inner.fleet.machines().iter().map(describe).collect()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let mut inner = lock(&self.shared.inner);
        // All at once, so that they end together.
        inner.links.iter_mut().flatten().for_each(Link::close);
        let deadline = Instant::now() + LINK_END_MAX;
        inner.links.iter_mut().flatten().for_each(|link| link.end(deadline));
    }
}

impl Inner {
    /// Progress to be shown, with how many machines are waited for. `waiting` is what was said about that last.
    fn news(&mut self, waiting: &mut String) -> Vec<String> {
        // Before the first trial, each machine is named anyway.
        let now = if self.has_trials { self.fleet.waiting() } else { String::new() };
        let count = now.split(',').next().unwrap_or_default();
        let progress = std::mem::take(&mut self.progress).into_values();
        let mut news: Vec<String> = match count {
            "" => progress.collect(),
            count => progress.map(|text| format!("{count} · {text}")).collect(),
        };
        if now != *waiting && !now.is_empty() {
            news.push(now.clone());
        }
        *waiting = now;
        news
    }

    /// Nothing is late from machines whose connection is interrupted for a moment.
    /// Returns whether there is one.
    fn excuse(&mut self, now: Nanos) -> bool {
        let mut is_any_away = false;
        for (machine, link) in self.links.iter().enumerate() {
            if link.as_ref().is_some_and(Link::is_away) {
                self.fleet.excuse(now, machine);
                is_any_away = true;
            }
        }
        is_any_away
    }

    fn arrived(&mut self, machine: usize, happened: Happened) {
        let now = Clock::get().now();
        match happened {
            Happened::Connecting(text) => {
                self.fleet.connecting(now, machine);
                let name = &self.fleet.machines()[machine].name;
                self.progress.insert(machine, format!("machine {name}: {text}"));
            }
            Happened::Connected => self.fleet.connected(now, machine),
            Happened::Message(at, frame) => self.fleet.received(at, machine, *frame),
            Happened::Closed(why) => self.fleet.closed(machine, &why),
        }
    }

    /// Sends what is to be sent, and passes on what arrived.
    fn pass_on(&mut self) {
        for (machine, message) in self.fleet.take_outbox() {
            let Some(link) = &mut self.links[machine] else {
                // An agent may have started before its connection is entered here.
                self.fleet.send_later(machine, message);
                continue;
            };
            if let Err(error) = link.send(&message) {
                // Why the process ended arrives with its end, and says more.
                if !matches!(error, crate::frame::FrameError::Closed) && !is_broken(&error) {
                    self.fleet.closed(machine, &error.to_string());
                }
            }
        }
        for notice in self.fleet.take_notices() {
            let name = |machine: usize| &self.fleet.machines()[machine].name;
            match notice {
                Notice::Preparing { machine, text } => {
                    let text = format!("machine {}: {text}", name(machine));
                    self.progress.insert(machine, text);
                }
                Notice::Event { machine, text } => {
                    self.events.push(format!("machine {}: {text}", name(machine)));
                }
                Notice::Columns { machine, columns } => {
                    // The texts of two hundred times a hundred metrics would be 20 MB.
                    let known = |(metric, instance): (MetricInfo, String)| {
                        let ours = self.metrics.get(metric.name.as_ref()).filter(|ours| ***ours == metric);
                        (ours.map_or(metric, |ours| (*ours).clone()), instance)
                    };
                    lock(&self.latest[machine]).columns.extend(columns.into_iter().map(known));
                }
                Notice::Readings { machine, end, values } => {
                    lock(&self.latest[machine]).values = Some((end, values));
                }
            }
        }
        for ((machine, latest), link) in self.fleet.machines().iter().zip(&self.latest).zip(&mut self.links) {
            if let State::Lost(why) = &machine.state {
                lock(latest).lost.get_or_insert_with(|| why.clone());
                // It may be frozen, and would not end by itself.
                link.iter_mut().for_each(Link::kill);
            }
        }
    }
}

/// Whether the other side has closed the pipe.
fn is_broken(error: &crate::frame::FrameError) -> bool {
    matches!(error, crate::frame::FrameError::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
}

impl Machines for Hub {
    fn drive(&self) -> bool {
        self.members.iter().any(|member| member.drives)
    }

    fn taking_part(&self) -> (usize, usize) {
        let inner = lock(&self.shared.inner);
        let machines = inner.fleet.machines();
        (machines.iter().filter(|machine| !machine.is_left_out()).count(), machines.len())
    }

    fn inputs(&self) -> Option<Arc<KeptInputs>> {
        self.drive().then(|| self.kept.clone())
    }

    fn check(&mut self, trial: MachineTrial<'_>) -> Problems {
        let mut problems = Problems::new();
        let inputs = match self.offer(trial) {
            Ok(inputs) => inputs,
            Err((what, help)) => return Problem::new(what, help).into(),
        };
        let parts = self.parts(trial, &inputs);
        {
            let mut inner = lock(&self.shared.inner);
            inner.fleet.check(Clock::get().now(), parts);
            inner.pass_on();
        }
        if let Err(ending) = self.shared.settle(WaitFor::Work, Fleet::is_settled) {
            return Problem::new(ending.to_string(), "").into();
        }
        let inner = lock(&self.shared.inner);
        for machine in inner.fleet.machines() {
            if let State::Lost(why) = &machine.state {
                problems.push(Problem::new(lost(machine, why), ""));
            }
            for (what, help) in &machine.problems {
                problems.push(Problem::new(lost(machine, what), help.clone()));
            }
        }
        problems
    }

    fn prepare(
        &mut self,
        trial: MachineTrial<'_>,
        operations: &[(String, bool)],
        say: &mut dyn FnMut(&str),
    ) -> Result<BTreeMap<String, Level>, Ending> {
        (self.interval, self.warm_up) = (trial.load.interval, trial.load.warm_up);
        lock(&self.shared.inner).has_trials = true;
        let left_out = self.reconnect(say)?;
        let inputs = self.offer(trial).map_err(|(what, help)| Ending::Failed(format!("{what}; {help}")))?;
        let parts = self.parts(trial, &inputs);
        {
            let mut inner = lock(&self.shared.inner);
            inner.events = left_out;
            let now = Clock::get().now();
            inner.fleet.prepare(now, parts, operations.iter().map(|(_, counts)| *counts).collect());
            inner.pass_on();
            for latest in &inner.latest {
                *lock(latest) = Latest::default();
            }
        }
        let inner = self.shared.wait_until(say, |fleet| fleet.all(&State::Ready))?;
        let drive = || inner.fleet.driving();
        if let Some(machine) =
            drive().find(|machine| !machine.operations.iter().eq(operations.iter().map(|(name, _)| name)))
        {
            return Err(Ending::Failed(format!("machine {}: its load has other operations", machine.name)));
        }
        // Nothing has been counted yet.
        let of_machines = drive().map(|machine| (machine.name.clone(), machine.facts.clone()));
        let mut facts = combine_facts(&of_machines.collect::<Vec<_>>(), &|_| Combined::Equal);
        facts.extend(crate::nats::bus::facts(&self.members));
        Ok(facts)
    }

    fn sources(&mut self) -> Vec<(String, Box<dyn Source>)> {
        let inner = lock(&self.shared.inner);
        let source = |(machine, latest): (&Machine, &Arc<Mutex<Latest>>)| {
            let name = machine.name.clone();
            let source: Box<dyn Source> =
                Box::new(Pushed { host: name.clone(), latest: latest.clone(), ids: Vec::new() });
            (format!("machine {name}"), source)
        };
        let present = inner.fleet.machines().iter().zip(&inner.latest).filter(|(of, _)| !of.is_left_out());
        present.map(source).collect()
    }

    fn factor(&mut self, machine: &str, factor: MachineFactor) -> Result<Box<dyn Factor>, Unavailable> {
        let place = self.members.iter().position(|member| member.address.name == machine);
        let place = place.ok_or_else(|| Unavailable(format!("there is no machine {machine}")))?;
        Ok(Box::new(RemoteFactor {
            shared: self.shared.clone(),
            machine: place,
            name: machine.into(),
            factor,
            set: None,
            remark: String::new(),
        }))
    }

    fn crew(&mut self) -> &mut dyn Crew {
        self
    }

    fn finish(&mut self) -> Vec<MachineRun> {
        self.stop(true);
        // A machine that does not end its part is lost.
        let _ = self.shared.settle(WaitFor::CleanUp, Fleet::is_settled);
        let mut inner = lock(&self.shared.inner);
        let machines = inner.fleet.machines().iter().zip(&inner.latest);
        let run = |(machine, latest): (&Machine, &Arc<Mutex<Latest>>)| MachineRun {
            readings_age_s: lock(latest).age_max as f64 / 1e9,
            ..machine.run()
        };
        let runs = machines.filter(|(machine, _)| !machine.is_left_out()).map(run).collect();
        inner.fleet.trial_over();
        runs
    }

    fn facts(&self) -> Vec<(String, BTreeMap<String, Level>)> {
        let inner = lock(&self.shared.inner);
        let ended = inner.fleet.driving().filter_map(|machine| {
            let finished = machine.finished.as_ref().filter(|finished| finished.failed.is_none())?;
            Some((machine.name.clone(), finished.facts.clone()))
        });
        ended.collect()
    }

    fn end(&mut self) -> Vec<String> {
        {
            let mut inner = lock(&self.shared.inner);
            inner.fleet.end(Clock::get().now());
            inner.pass_on();
        }
        // A machine that does not end is lost.
        let _ = self.shared.settle(WaitFor::CleanUp, Fleet::has_ended);
        let inner = lock(&self.shared.inner);
        let left = inner.fleet.machines().iter().filter_map(|machine| match &machine.state {
            State::Ended | State::LeftOut => None,
            State::Lost(why) => Some(lost(machine, why)),
            _ => Some(format!("machine {} did not end", machine.name)),
        });
        left.collect()
    }
}

impl Crew for Hub {
    fn wait_until_ready(&mut self, _interrupted: &AtomicBool) -> Result<(), Ending> {
        let inner = lock(&self.shared.inner);
        match inner.fleet.lost() {
            Some((machine, why)) => Err(Ending::Failed(lost(machine, why))),
            None => Ok(()),
        }
    }

    fn start(&mut self) -> Nanos {
        let mut inner = lock(&self.shared.inner);
        let zero = inner.fleet.start(Clock::get().now(), self.interval, self.warm_up);
        inner.pass_on();
        zero
    }

    fn begin_measured(&mut self, now: Nanos) -> Nanos {
        let mut inner = lock(&self.shared.inner);
        let begins = inner.fleet.begin_measured(now, Clock::get().now());
        inner.pass_on();
        begins
    }

    fn wait(&mut self, _begin: Nanos, until: Nanos, _shortest: Nanos, watch: &Watch<'_>) -> WakeReason {
        let woke = self.shared.wait(WaitFor::Work, None, |inner| {
            if let Some((machine, why)) = inner.fleet.lost() {
                let help =
                    format!("its part of the load is missing from this trial, which does not count; {LEFT}");
                return Some(WakeReason::Failed(LoadError::new(lost(machine, why), help)));
            }
            if inner.fleet.has_interval(until) {
                return Some(match inner.fleet.is_finished() && !inner.fleet.has_after(until) {
                    true => WakeReason::AllFinished,
                    false => WakeReason::Time,
                });
            }
            watch.look()
        });
        woke.unwrap_or(WakeReason::Interrupted)
    }

    fn take(&mut self, until: Nanos, book: &mut Book) -> Nanos {
        let mut inner = lock(&self.shared.inner);
        inner.fleet.take(until, book);
        book.remarks.append(&mut inner.events);
        until
    }

    fn describe_failure(&self, _kind: u16, code: u32) -> (String, DoubtKind) {
        lock(&self.shared.inner).fleet.describe_failure(code)
    }

    fn measured_use(&mut self, wall_s: f64) -> GeneratorUse {
        // Each machine reports its use when its load has ended; `finish` has it.
        GeneratorUse { wall_s, ..GeneratorUse::default() }
    }

    fn stop_issuing(&mut self, _at: Nanos) {
        // At the end of the measured phase, all machines do so by themselves.
        self.stop(false);
    }

    fn stop_waiting(&mut self) {
        self.stop(true);
    }

    fn is_finished(&self) -> bool {
        let inner = lock(&self.shared.inner);
        inner.fleet.is_finished() && !inner.fleet.has_after(0)
    }

    fn must_finish(&self) -> bool {
        false
    }
}

/// The counters of a machine, which it sends.
struct Pushed {
    host: String,
    latest: Arc<Mutex<Latest>>,
    ids: Vec<ColumnId>,
}

impl Source for Pushed {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let (columns, values, lost) = {
            let mut latest = lock(&self.latest);
            let age = latest.values.as_ref().map_or(0, |(end, _)| now.saturating_sub(*end));
            latest.age_max = latest.age_max.max(age);
            (std::mem::take(&mut latest.columns), latest.values.take(), latest.lost.clone())
        };
        for (metric, instance) in columns {
            self.ids.push(out.column(&metric, &instance_on(&self.host, &instance)));
        }
        if let Some((_, values)) = values {
            for (id, value) in self.ids.iter().zip(values).filter(|(_, value)| value.is_finite()) {
                out.set(*id, value);
            }
        }
        lost.map_or(Ok(()), |why| Err(Unavailable(why)))
    }
}
