//! How long a change takes from the source to the target: it is made, the engine's runs carry it over (or an engine that runs
//! all the time does), and the target is looked at until it shows.

use std::fs::File;

use engine::clock::Clock;
use engine::shell::SHELL;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Worker};
use model::{MILLISECOND, Nanos, Secret, quantity};

use super::kind::Kind;
use super::lines::Lines;
use super::process;
use super::settings::{Propagation, SyncSettings};
use super::worker::wait;
use crate::group::{Ending, Group, Guard, Stopping};

/// Code of a change that did not show in time.
const NOT_SHOWN: u32 = 1;

/// Words for the code of a failed change.
pub(super) fn describe_failure(code: u32) -> String {
    match code {
        NOT_SHOWN => "the target did not show the change before the timeout".into(),
        code => format!("failure {code}"),
    }
}

/// What happens to a change, in this order.
enum Stage<'a> {
    /// No change is under way.
    Idle,
    /// It is being made at the source.
    Changing(Group, Lines<'a>),
    /// This run carries it over.
    Carrying(usize, Group, Lines<'a>),
    /// The target is being looked at.
    Looking(Group, Lines<'a>),
    /// It did not show; the target is looked at again at this time.
    Waiting(Nanos),
}

/// A worker that makes changes and waits for them.
pub(super) struct PropagationWorker<'a> {
    settings: &'a SyncSettings,
    propagation: &'a Propagation,
    output: Option<&'a File>,
    /// Differs from trial to trial, so that no change is the one of a trial before.
    first: u64,
    made: u64,
    clock: Clock,
    guard: Guard,
    stage: Stage<'a>,
    ticket: u32,
    deadline: Nanos,
    /// Told by the next `reap`, since `submit` has no words for it.
    failed: Option<LoadError>,
}

impl<'a> PropagationWorker<'a> {
    pub(super) fn new(
        settings: &'a SyncSettings,
        propagation: &'a Propagation,
        output: Option<&'a File>,
        seed: u64,
    ) -> Result<Self, LoadError> {
        let guard = Guard::start()
            .map_err(|error| LoadError::new(format!("{SHELL} cannot be started: {error}"), ""))?;
        Ok(PropagationWorker {
            settings,
            propagation,
            output,
            first: (seed % 1_000_000) * 1_000_000,
            made: 0,
            clock: Clock::get(),
            guard,
            stage: Stage::Idle,
            ticket: 0,
            deadline: 0,
            failed: None,
        })
    }

    /// Launches a shell command of the user's, with the number of the change in it.
    fn shell(&mut self, script: &Secret) -> Result<(Group, Lines<'a>), LoadError> {
        let number = (self.first + self.made).to_string();
        let script = Secret::filled(script, "{number}", &number, &number);
        let mut command = process::shell(script.reveal(), self.settings);
        let launched = process::launch(&mut command, self.output);
        let (group, lines) = launched
            .map_err(|error| LoadError::new(format!("`{script}` cannot be launched: {error}"), ""))?;
        self.guard.watch(&group);
        Ok((group, lines))
    }

    /// The stage after run number `run - 1`: the next run, or a look at the target.
    fn carry(&mut self, run: usize) -> Result<Stage<'a>, LoadError> {
        let settings = self.settings;
        let Some(line) = settings.runs.get(run) else { return self.check_target() };
        let mut command = line.command(&settings.directory);
        let (group, lines) = process::launch(&mut command, self.output).map_err(|error| {
            LoadError::new(format!("`{}` cannot be launched: {error}", line.command_line()), "")
        })?;
        self.guard.watch(&group);
        Ok(Stage::Carrying(run, group, lines))
    }

    fn check_target(&mut self) -> Result<Stage<'a>, LoadError> {
        let propagation = self.propagation;
        let (group, lines) = self.shell(&propagation.shows)?;
        Ok(Stage::Looking(group, lines))
    }

    /// Goes on with the change. True when it shows.
    fn step(&mut self, until: Nanos) -> Result<bool, LoadError> {
        let until = until.min(self.deadline);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => return Ok(false),
            Stage::Changing(group, mut lines) => match ended(&self.clock, &group, &mut lines, until)? {
                None => Stage::Changing(group, lines),
                Some(Ending::Exited(0)) => {
                    drop(group);
                    self.carry(0)?
                }
                Some(ending) => {
                    return Err(process::failure("the command `change`", ending, &lines));
                }
            },
            Stage::Carrying(run, group, mut lines) => match ended(&self.clock, &group, &mut lines, until)? {
                None => Stage::Carrying(run, group, lines),
                Some(Ending::Exited(0)) => {
                    drop(group);
                    self.carry(run + 1)?
                }
                Some(ending) => {
                    let line = self.settings.runs.get(run).map(|run| run.command_line()).unwrap_or_default();
                    return Err(process::failure(&format!("`{line}`"), ending, &lines));
                }
            },
            Stage::Looking(group, mut lines) => match ended(&self.clock, &group, &mut lines, until)? {
                None => Stage::Looking(group, lines),
                Some(Ending::Exited(0)) => {
                    drop(group);
                    return Ok(true);
                }
                Some(_) => {
                    drop(group);
                    Stage::Waiting(self.clock.now().saturating_add(self.propagation.look_every))
                }
            },
            Stage::Waiting(at) => {
                let now = self.clock.now();
                if now >= at {
                    self.check_target()?
                } else {
                    let rest = at.min(until).saturating_sub(now);
                    std::thread::sleep(std::time::Duration::from_nanos(rest));
                    Stage::Waiting(at)
                }
            }
        };
        Ok(false)
    }
}

/// How a command ended; none when it still runs at `until`.
fn ended(
    clock: &Clock,
    group: &Group,
    lines: &mut Lines<'_>,
    until: Nanos,
) -> Result<Option<Ending>, LoadError> {
    loop {
        let ending = group.ending();
        let read = lines.read(&mut |_| false);
        let more = read.map_err(|error| {
            LoadError::new(format!("the output of a command cannot be read or saved: {error}"), "")
        })?;
        if ending.is_some() && !more {
            return Ok(ending);
        }
        if clock.now() >= until {
            return Ok(None);
        }
        if !more {
            wait(clock, group, Some(lines), until)?;
        }
    }
}

impl Worker for PropagationWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if !matches!(self.stage, Stage::Idle) || self.failed.is_some() {
            return Admission::Busy;
        }
        if self.made >= self.propagation.changes {
            return Admission::Exhausted;
        }
        self.made += 1;
        let propagation = self.propagation;
        match self.shell(&propagation.change) {
            Ok((group, lines)) => {
                self.ticket = operation.ticket;
                self.deadline = self.clock.now().saturating_add(self.settings.timeout);
                self.stage = Stage::Changing(group, lines);
                Admission::Accepted
            }
            Err(error) => {
                self.failed = Some(error);
                Admission::Busy
            }
        }
    }

    fn kind_of(&self, _operation: Operation, _accepted: bool) -> Option<u16> {
        Some(Kind::Propagation.place())
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let completed = |outcome| Done::new(Kind::Propagation.place(), outcome, 0);
        while !matches!(self.stage, Stage::Idle) {
            if self.step(until)? {
                done.push(Completion::new(self.ticket, completed(Outcome::Well)));
                return Ok(());
            }
            let now = self.clock.now();
            if now >= self.deadline {
                let what = match &self.stage {
                    Stage::Changing(..) => "making a change",
                    Stage::Carrying(..) => "a run",
                    _ => {
                        self.stage = Stage::Idle;
                        done.push(Completion::new(self.ticket, completed(Outcome::Failed(NOT_SHOWN))));
                        return Ok(());
                    }
                };
                let timeout = quantity::duration(self.settings.timeout);
                return Err(LoadError::new(format!("{what} took longer than {timeout}"), "raise `timeout`"));
            }
            if now >= until {
                break;
            }
        }
        Ok(())
    }
}

impl Drop for PropagationWorker<'_> {
    /// Ends what runs, politely at first.
    fn drop(&mut self) {
        let (group, mut lines) = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Changing(group, lines)
            | Stage::Carrying(_, group, lines)
            | Stage::Looking(group, lines) => (group, lines),
            Stage::Idle | Stage::Waiting(_) => return,
        };
        let mut stopping = Stopping::new(group, self.settings.stop.max(MILLISECOND));
        while let Ok(false) = stopping.step(self.clock.now()) {
            lines.discard();
        }
    }
}
