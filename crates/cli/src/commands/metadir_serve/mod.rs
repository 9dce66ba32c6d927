//! `plimsoll metadir serve`: runs begin by themselves, at times and after changes.

mod configuration;
pub(crate) mod published;
mod state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::{ArgMatches, Command};
use metadir::config::{AgentConfig, Config};
use metadir::metadirectory::Metadirectory;
use metadir::schedule::{ScheduleState, due_unix_s, zone};
use metadir::stage::StepError;
use metadir::store::{StepRecord, StoreError};
use metadir::watch::{WatchEvent, Watcher};
use monitor::{Answer, METRICS_TYPE, Server, TEXT_TYPE, text_of};
use report::text::Quantity;

use self::configuration::{ConfigurationFile, Reloaded};
use self::published::Published;
use self::state::{Planned, State, Trouble, time};
use super::metadir::{interruptible, reported};
use super::metadir_run::{RunDisplay, RunLine, carry_out, titles};
use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// How often the clock and the configuration are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Its arguments.
pub(crate) fn arguments(config: clap::Arg) -> Command {
    Command::new("serve")
        .about("Execute the runs of [[schedule]] at their times and after changes, until it is stopped")
        .after_help(
            "Messages go to standard error. Ctrl-C or SIGTERM ends it after the next commit.\n\
             plimsoll metadir status shows what it does and what is next.",
        )
        .arg(config)
}

/// When the runs of a configuration begin, a line for each schedule.
pub(crate) fn described(config: &Config) -> Vec<String> {
    let of_zone = config.serve.time_zone.as_deref().unwrap_or("the time zone of this host");
    let line = |schedule: &metadir::config::Schedule| {
        let mut parts = Vec::new();
        parts.extend(schedule.every.map(|every| format!("every {}", in_largest_unit(every))));
        if !schedule.at.is_empty() {
            let times = schedule.at.iter().map(|(hour, minute)| format!("{hour:02}:{minute:02}"));
            let names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
            let days: Vec<&str> =
                schedule.days.iter().filter_map(|day| names.get(usize::from(*day)).copied()).collect();
            let on = if days.is_empty() { "every day".into() } else { format!("on {}", days.join(", ")) };
            parts.push(format!("at {} ({of_zone}) {on}", times.collect::<Vec<_>>().join(", ")));
        }
        if !schedule.on_change.is_empty() {
            let agents = schedule.on_change.iter().filter_map(|at| config.agents.get(*at));
            let names: Vec<&str> = agents.map(|agent| agent.name.as_str()).collect();
            parts.push(format!(
                "when {} changed and is quiet for {}",
                names.join(" or "),
                in_largest_unit(schedule.quiet)
            ));
        }
        let run = config.runs.get(schedule.run).map_or("", |run| run.name.as_str());
        format!("serve begins {run} {}", parts.join("; "))
    };
    config.serve.schedules.iter().map(line).collect()
}

fn in_largest_unit(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3600, "h"), (60, "min")];
    match units.iter().find(|(unit, _)| seconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}

/// Serves until a signal.
pub(crate) fn serve(matches: &ArgMatches) -> Result<Exit, Failure> {
    let interrupted = crate::interrupt::flag();
    let path = text(matches, "config");
    let file = ConfigurationFile::open(path)?;
    let config = file.config()?;
    if config.serve.schedules.is_empty() {
        return Err(Failure::usage(format!(
            "error: {path} has no [[schedule]]\n  \
             write which run begins when: [[schedule]] with run = \"NAME\" and every = \"5 min\""
        )));
    }
    let published = Published::begin(&config, path)?;
    let mut service = Service::new(file, published);
    service.take_up(&config, true)?;
    service.load_states(config)?;
    service.report_begin();
    while !interrupted.load(Ordering::Relaxed) {
        service.turn(interrupted);
    }
    service.watchers.clear();
    log("stopped by a signal");
    Ok(Exit::Good)
}

/// A line with its time.
fn log(text: &str) {
    output::say(&format!("{}  {text}", time(now_unix_s())));
}

fn now_unix_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// A watched system.
struct Watched {
    agent: String,
    /// Its settings as text: another text is another system.
    system: String,
    watcher: Watcher,
}

/// The state, shared with the thread that answers requests.
type Shared = Arc<Mutex<State>>;

fn locked(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Service {
    file: ConfigurationFile,
    published: Published,
    state: Shared,
    zone: jiff::tz::TimeZone,
    watchers: Vec<Watched>,
    sender: Sender<(String, WatchEvent)>,
    events: Receiver<(String, WatchEvent)>,
    server: Option<Server>,
}

impl Service {
    fn new(file: ConfigurationFile, published: Published) -> Service {
        let (sender, events) = channel();
        Service {
            file,
            published,
            state: Arc::new(Mutex::new(State::new(now_unix_s()))),
            zone: jiff::tz::TimeZone::UTC,
            watchers: Vec::new(),
            sender,
            events,
            server: None,
        }
    }

    /// Takes up a configuration: schedules, watchers and the address of the metrics. Schedules keep their states.
    fn take_up(&mut self, config: &Config, is_first: bool) -> Result<(), Failure> {
        self.zone = zone(&config.serve).map_err(Failure::failed)?;
        self.listen(config)?;
        let names = |agents: &[usize]| -> Vec<String> {
            agents.iter().filter_map(|at| config.agents.get(*at)).map(|agent| agent.name.clone()).collect()
        };
        let now = now_unix_s();
        let mut state = locked(&self.state);
        let before = std::mem::take(&mut state.planned);
        for schedule in &config.serve.schedules {
            let Some(run) = config.runs.get(schedule.run).map(|run| run.name.clone()) else { continue };
            let old = before.iter().find(|planned| planned.run == run);
            state.planned.push(Planned {
                schedule: schedule.clone(),
                watched: names(&schedule.on_change),
                state: old.map_or_else(ScheduleState::default, |old| old.state.clone()),
                since_unix_s: old.map_or(now, |old| old.since_unix_s),
                due_unix_s: None,
                change: old.and_then(|old| old.change.clone()),
                is_unfinished: old.is_some_and(|old| old.is_unfinished),
                run,
            });
        }
        drop(state);
        self.watch(config, is_first)
    }

    /// Starts and ends watchers, so that those of the configuration run.
    fn watch(&mut self, config: &Config, is_first: bool) -> Result<(), Failure> {
        let mut wanted: Vec<&AgentConfig> = Vec::new();
        for at in config.serve.schedules.iter().flat_map(|schedule| &schedule.on_change) {
            if let Some(agent) = config.agents.get(*at)
                && !wanted.iter().any(|known| known.name == agent.name)
            {
                wanted.push(agent);
            }
        }
        let is_wanted = |watched: &Watched| {
            wanted
                .iter()
                .any(|agent| agent.name == watched.agent && format!("{:?}", agent.system) == watched.system)
        };
        self.watchers.retain(is_wanted);
        let running: Vec<String> = self.watchers.iter().map(|watched| watched.agent.clone()).collect();
        let mut state = locked(&self.state);
        state.watched = wanted.iter().map(|agent| agent.name.clone()).collect();
        state.lost.retain(|agent, _| running.contains(agent));
        drop(state);
        for agent in wanted.iter().filter(|agent| !running.contains(&agent.name)) {
            let (sender, name) = (self.sender.clone(), agent.name.clone());
            // The service may end first.
            let sink = Box::new(move |event| drop(sender.send((name.clone(), event))));
            let watcher = Watcher::begin(agent, sink)
                .map_err(|error| Failure::failed(format!("{} cannot be watched: {error}", agent.name)))?;
            let must_be_quiet = watcher.must_be_quiet();
            self.watchers.push(Watched {
                agent: agent.name.clone(),
                system: format!("{:?}", agent.system),
                watcher,
            });
            // What happened before is not known.
            let why = if is_first {
                "serve started".into()
            } else {
                format!("{} is watched from now on", agent.name)
            };
            self.change(&agent.name, &why, must_be_quiet);
        }
        Ok(())
    }

    fn listen(&mut self, config: &Config) -> Result<(), Failure> {
        let Some(address) = config.serve.listen else {
            self.server = None;
            return Ok(());
        };
        // A free port that was chosen stays.
        let is_same = |server: &Server| {
            server.address() == address || address.port() == 0 && server.address().ip() == address.ip()
        };
        if self.server.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        self.server = None;
        let state = Arc::clone(&self.state);
        let server = Server::start(address, move |path| answer(&state, path)).map_err(|error| {
            Failure::failed(format!(
                "cannot listen on {address}: {error}\n  choose a free port with `listen` in [serve]"
            ))
        })?;
        log(&format!("metrics: http://{0}/metrics, health: http://{0}/health", server.address()));
        self.server = Some(server);
        Ok(())
    }

    /// Reads what the store has of earlier runs.
    fn load_states(&mut self, config: Config) -> Result<(), Failure> {
        let Some(mut directory) = Metadirectory::look(config).map_err(super::metadir::not_opened)? else {
            return Ok(());
        };
        let mut state = locked(&self.state);
        for planned in &mut state.planned {
            planned.state = directory.schedule_state(&planned.run).map_err(Failure::failed)?;
            planned.is_unfinished =
                planned.state.began_unix_s.is_some() && planned.state.ended_unix_s.is_none();
        }
        let (gauges, _) = directory.status().map_err(Failure::failed)?;
        state.gauges = gauges;
        Ok(())
    }

    fn report_begin(&mut self) {
        self.plan();
        log(&format!("serve: process {}, configuration {}", std::process::id(), self.file.path()));
        for planned in &locked(&self.state).planned {
            log(&format!("{}: next {}", planned.run, planned.when(now_unix_s())));
        }
    }

    /// Looks at the configuration, changes and the clock, and carries out a run that is due.
    fn turn(&mut self, interrupted: &AtomicBool) {
        match self.events.recv_timeout(LOOK_EVERY) {
            Ok(event) => self.take_event(event),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        while let Ok(event) = self.events.try_recv() {
            self.take_event(event);
        }
        self.reload();
        self.plan();
        if interrupted.load(Ordering::Relaxed) {
            return;
        }
        let now = (now_unix_s(), Instant::now());
        let due = locked(&self.state).next(now.0, now.1);
        match due {
            Some((at, reason)) => self.begin(at, &reason),
            None => locked(&self.state).waiting = None,
        }
        self.publish();
    }

    /// Computes when each run is due.
    fn plan(&mut self) {
        let now = now_unix_s();
        for planned in &mut locked(&self.state).planned {
            let last = planned.state.began_unix_s;
            planned.due_unix_s = due_unix_s(&planned.schedule, &self.zone, last, planned.since_unix_s, now);
        }
    }

    fn publish(&mut self) {
        let value = locked(&self.state).published(now_unix_s());
        self.published.publish(&value);
    }

    fn take_event(&mut self, (agent, event): (String, WatchEvent)) {
        let Some(watched) = self.watchers.iter().find(|watched| watched.agent == agent) else { return };
        let must_be_quiet = watched.watcher.must_be_quiet();
        match event {
            WatchEvent::Changed => self.change(&agent, &format!("{agent} changed"), must_be_quiet),
            WatchEvent::Lost(why) => {
                log(&format!("{agent} is not watched: {why}; it is tried again"));
                locked(&self.state).lost.insert(agent, Trouble { since_unix_s: now_unix_s(), why });
            }
            WatchEvent::Restored => {
                log(&format!("{agent} is watched again; it may have changed meanwhile"));
                locked(&self.state).lost.remove(&agent);
                self.change(&agent, &format!("{agent} was not watched for a while"), must_be_quiet);
            }
        }
    }

    /// Notes a change for the schedules that it begins.
    fn change(&mut self, agent: &str, why: &str, must_be_quiet: bool) {
        let now = Instant::now();
        for planned in &mut locked(&self.state).planned {
            if planned.watched.iter().any(|watched| watched == agent) {
                planned.changed(why, must_be_quiet, now);
            }
        }
    }

    /// Reads the configuration again if its file changed.
    fn reload(&mut self) {
        let taken = match self.file.reload() {
            Reloaded::Same => return,
            Reloaded::Valid(config) => {
                self.take_up(&config, false).map(|()| log("the configuration was read again"))
            }
            Reloaded::Broken(failure) => Err(failure),
        };
        let mut state = locked(&self.state);
        state.configuration = taken.err().map(|failure| {
            log(&format!(
                "the configuration cannot be used, and the last valid one stays in force:\n{}",
                failure.text
            ));
            let why = failure.text.lines().next().unwrap_or_default().to_string();
            Trouble { since_unix_s: now_unix_s(), why }
        });
    }

    /// Carries out a run, unless another process has the store: then it is tried again.
    fn begin(&mut self, at: usize, reason: &str) {
        let Some(planned) = locked(&self.state).planned.get(at).cloned() else { return };
        let began = Instant::now();
        let state =
            ScheduleState { began_unix_s: Some(now_unix_s()), ended_unix_s: None, ..planned.state.clone() };
        super::restore::remove_unfinished();
        let opened = self.file.config().map_err(|failure| failure.text).and_then(|config| {
            let found = config.runs.iter().find(|run| run.name == planned.run).cloned();
            let run = found.ok_or_else(|| format!("there is no run {:?}", planned.run))?;
            let titles = titles(&config, &run.steps);
            Ok((run, titles, Metadirectory::open(interruptible(config))))
        });
        let (run, titles, directory) = match opened {
            Err(why) => return self.ended(at, state, &Ended::stopped(why), began),
            Ok((_, _, Err(StepError::Store(StoreError::Busy)))) => return self.wait(&planned.run),
            Ok((_, _, Err(StepError::Interrupted))) => return,
            Ok((_, _, Err(error))) => {
                return self.ended(at, state, &Ended::stopped(error.to_string()), began);
            }
            Ok((run, titles, Ok(directory))) => (run, titles, directory),
        };
        let mut directory = directory;
        log(&format!("{}: begins, because {reason}", planned.run));
        {
            let mut shared = locked(&self.state);
            shared.waiting = None;
            shared.running = Some(planned.run.clone());
            if let Some(planned) = shared.planned.get_mut(at) {
                // What changes from now on may come too late for this run.
                (planned.change, planned.is_unfinished) = (None, true);
            }
        }
        self.publish();
        let kept = directory.keep_schedule_state(&run.name, &state).map_err(StepError::from);
        let ended = match kept.and_then(|()| directory.begin_run()) {
            Err(error) => Ended::stopped(error.to_string()),
            Ok(_) => {
                let mut display = Log { run: &run.name, state: &self.state, why: None };
                let (_, exit) = carry_out(&mut directory, &run, &titles, &mut display);
                let why = display.why;
                match (exit, why) {
                    (Exit::Interrupted, _) => Ended::Interrupted,
                    (_, Some(why)) => Ended::stopped(why),
                    (Exit::Good, None) => Ended::Completed("success"),
                    (_, None) => Ended::Completed("errors"),
                }
            }
        };
        if ended != Ended::Interrupted
            && let Err(error) = directory.end_run()
        {
            log(&format!("{}: the trail of changes was not shortened: {error}", run.name));
        }
        if let Ok((gauges, _)) = directory.status() {
            locked(&self.state).gauges = gauges;
        }
        let state = ended.state(state);
        if ended != Ended::Interrupted
            && let Err(error) = directory.keep_schedule_state(&run.name, &state)
        {
            log(&format!("{}: its result was not stored: {error}", run.name));
        }
        drop(directory);
        self.ended(at, state, &ended, began);
    }

    /// Notes that another process has the store while a run is due.
    fn wait(&mut self, run: &str) {
        let mut state = locked(&self.state);
        if state.waiting.is_none() {
            let why = format!("{run} is due, and another process uses the metadirectory");
            log(&format!("{why}; it begins when that process ends"));
            state.waiting = Some(Trouble { since_unix_s: now_unix_s(), why });
        }
    }

    fn ended(&mut self, at: usize, state: ScheduleState, ended: &Ended, began: Instant) {
        let state = if state.ended_unix_s.is_none() { ended.state(state) } else { state };
        let mut shared = locked(&self.state);
        shared.running = None;
        let Some(planned) = shared.planned.get_mut(at) else { return };
        let run = planned.run.clone();
        planned.is_unfinished = *ended == Ended::Interrupted;
        // Changes during the run were not received yet.
        planned.change = None;
        planned.state = state;
        drop(shared);
        let took = Quantity::Seconds.show(began.elapsed().as_secs_f64());
        let (result, words) = match ended {
            Ended::Interrupted => return log(&format!("{run}: interrupted; the next serve continues it")),
            Ended::Completed("success") => ("success", "completed".to_string()),
            Ended::Completed(result) => {
                (*result, "completed with errors; plimsoll metadir errors lists them".to_string())
            }
            Ended::Stopped(why) => ("stopped", format!("stopped: {why}")),
        };
        self.plan();
        let mut shared = locked(&self.state);
        shared.count_run(&run, result, began.elapsed().as_secs_f64());
        let next = shared.planned.get(at).map(|planned| planned.when(now_unix_s())).unwrap_or_default();
        drop(shared);
        log(&format!("{run}: {words}, in {took}; next {next}"));
    }
}

/// How a run ended.
#[derive(Debug, PartialEq)]
enum Ended {
    Completed(&'static str),
    /// With the reason.
    Stopped(String),
    Interrupted,
}

impl Ended {
    fn stopped(why: String) -> Ended {
        Ended::Stopped(why)
    }

    /// The state of a schedule after a run.
    fn state(&self, began: ScheduleState) -> ScheduleState {
        let ended_unix_s = Some(now_unix_s());
        match self {
            Ended::Interrupted => began,
            Ended::Completed(result) => ScheduleState {
                ended_unix_s,
                result: (*result).into(),
                why: String::new(),
                success_unix_s: began.began_unix_s,
                failing_unix_s: None,
                ..began
            },
            Ended::Stopped(why) => ScheduleState {
                ended_unix_s,
                result: "stopped".into(),
                why: why.clone(),
                failing_unix_s: began.failing_unix_s.or(began.began_unix_s),
                ..began
            },
        }
    }
}

/// Reports the steps of a run as lines, and counts them.
struct Log<'a> {
    run: &'a str,
    state: &'a Shared,
    /// Why the run stopped.
    why: Option<String>,
}

impl RunDisplay for Log<'_> {
    fn begin(&mut self, _at: usize, _title: &str) {}

    fn progress(&mut self, _objects: u64) {}

    fn end(&mut self, _at: usize, title: &str, ended: &Result<StepRecord, StepError>) {
        match ended {
            Ok(record) => {
                locked(self.state).count_step(record);
                // A step without objects is not worth a line every few minutes.
                if record.outcome != "completed-no-objects" {
                    log(&format!("{}: {}", self.run, reported(record)));
                }
            }
            Err(error) => self.why = Some(format!("{title}: {error}")),
        }
    }

    fn note(&mut self, _at: usize, note: RunLine) {
        match note {
            RunLine::Result(text) => log(&format!("{}: {text}", self.run)),
            RunLine::Message(text) => self.why = Some(text),
        }
    }
}

/// Answers a request.
fn answer(state: &Shared, path: &str) -> Option<Answer> {
    match path {
        "/metrics" => {
            let families = locked(state).families();
            let (status, text) = match text_of(families) {
                Ok(text) => (200, text),
                Err(error) => (500, format!("{error}\n")),
            };
            Some(Answer { status, content_type: METRICS_TYPE, text })
        }
        "/health" => {
            let (is_well, text) = locked(state).health();
            Some(Answer { status: if is_well { 200 } else { 503 }, content_type: TEXT_TYPE, text })
        }
        "/" => {
            let text =
                "/metrics: OpenMetrics for Prometheus\n/health: 200 or 503, with the problems\n".into();
            Some(Answer { status: 200, content_type: TEXT_TYPE, text })
        }
        _ => None,
    }
}
