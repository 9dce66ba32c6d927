//! Runs the engine and counts what it reports.
//!
//! While no step is at work the worker answers `Preparing`: the loop then reaps, and the reap launches and reads. When a step
//! begins, an operation is accepted; each report completes as many as were done since the one before.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::clock::Clock;
use engine::shell::SHELL;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Worker};
use model::{Nanos, SECOND, quantity};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::kind::{Kind, agent};
use super::lines::{Lines, Report};
use super::process;
use super::settings::SyncSettings;
use super::{Progress, StepDone};
use crate::group::{Ending, Group, Guard, Stopping};

/// The step that is at work.
struct Step {
    kind: Kind,
    name: String,
    /// Objects it has reported.
    reported: u64,
    /// Objects that were completed as operations.
    counted: u64,
    begin: Nanos,
}

/// An engine that runs.
struct Running<'a> {
    /// Which of the runs it is.
    run: usize,
    group: Group,
    lines: Lines<'a>,
    deadline: Nanos,
    /// Reports that were read and not yet counted.
    reports: VecDeque<Report>,
    step: Option<Step>,
}

enum Stage<'a> {
    /// What every round begins with is being made once more, until this time at most.
    Preparing(Group, Lines<'a>, Nanos),
    /// This run is to be launched.
    Next(usize),
    Running(Running<'a>),
    /// This run is over; what it left running is being ended.
    Stopping(usize, Stopping, Lines<'a>),
    /// All runs are over.
    Over,
}

/// A worker that runs the engine.
pub(super) struct SyncWorker<'a> {
    settings: &'a SyncSettings,
    output: Option<&'a File>,
    done: &'a Mutex<Progress>,
    clock: Clock,
    guard: Guard,
    stage: Stage<'a>,
    /// The operation that is in flight.
    ticket: Option<u32>,
    /// Agents to which something was exported.
    exported: BTreeSet<String>,
    /// Whether any line reported progress.
    reported: bool,
    /// How long steps have been at work.
    worked: Nanos,
    remarks: Vec<String>,
}

impl<'a> SyncWorker<'a> {
    pub(super) fn new(
        settings: &'a SyncSettings,
        output: Option<&'a File>,
        done: &'a Mutex<Progress>,
    ) -> Result<Self, LoadError> {
        let guard = Guard::start()
            .map_err(|error| LoadError::new(format!("{SHELL} cannot be started: {error}"), ""))?;
        Ok(SyncWorker {
            settings,
            output,
            done,
            clock: Clock::get(),
            guard,
            stage: Stage::Next(0),
            ticket: None,
            exported: BTreeSet::new(),
            reported: false,
            worked: 0,
            remarks: Vec::new(),
        })
    }

    fn progress(&self) -> MutexGuard<'a, Progress> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&mut self, run: usize) -> Result<Stage<'a>, LoadError> {
        let Some(line) = self.settings.runs.get(run) else {
            if !self.reported {
                return Err(LoadError::new(
                    format!(
                        "no line of the output matched `{}`: nothing was counted",
                        self.settings.progress
                    ),
                    "set `progress` to match the lines that report the number of processed objects; `output` saves the output to a file",
                ));
            }
            return if self.worked < self.settings.repeat_for { self.begin_round() } else { Ok(Stage::Over) };
        };
        if run == 0 {
            self.progress().rounds += 1;
        }
        let mut command = line.command(&self.settings.directory);
        let (group, lines) = process::launch(&mut command, self.output).map_err(|error| {
            LoadError::new(format!("`{}` cannot be launched: {error}", line.command_line()), "")
        })?;
        self.guard.watch(&group);
        let deadline = self.clock.now().saturating_add(self.settings.timeout);
        Ok(Stage::Running(Running { run, group, lines, deadline, reports: VecDeque::new(), step: None }))
    }

    /// Another round of all runs, after the preparation.
    fn begin_round(&mut self) -> Result<Stage<'a>, LoadError> {
        let Some(script) = &self.settings.prepare else { return Ok(Stage::Over) };
        let mut command = process::shell(script.reveal(), self.settings);
        let (group, lines) = process::launch(&mut command, None).map_err(process::not_prepared)?;
        self.guard.watch(&group);
        // What comes back from a target counts as a confirmation only once something was exported.
        self.exported.clear();
        Ok(Stage::Preparing(group, lines, self.clock.now().saturating_add(self.settings.timeout)))
    }

    /// Reads the output of the engine, and its exit status if it has ended. Output before the end is read first.
    fn poll(&mut self, running: &mut Running<'a>) -> Result<Option<Ending>, LoadError> {
        let ending = running.group.ending();
        let (pattern, reports) = (&self.settings.progress, &mut running.reports);
        let mut take = |line: &[u8]| match Report::read(pattern, line) {
            Some(report) => {
                reports.push_back(report);
                true
            }
            None => false,
        };
        let more = running.lines.read(&mut take).map_err(|error| {
            LoadError::new(format!("the output of the engine cannot be read or saved: {error}"), "")
        })?;
        self.reported |= !running.reports.is_empty();
        Ok(ending.filter(|_| !more))
    }

    /// The kind of a step.
    fn kind(&self, run: usize, name: &str) -> Result<Kind, LoadError> {
        let stated = self.settings.runs.get(run).and_then(|run| run.kind);
        stated.or_else(|| Kind::of_name(name, &self.exported)).ok_or_else(|| {
            LoadError::new(
                format!("the kind of the objects of the step `{name}` is not known"),
                format!("write run = \"staging: {name}\", or synchronization, export or confirmation"),
            )
        })
    }

    /// Counts a report. How many operations of which kind are done by it; none while there is nothing to complete.
    fn count(&mut self, running: &mut Running<'a>) -> Result<Option<(Kind, u64)>, LoadError> {
        while let Some(report) = running.reports.front() {
            let name = match &report.step {
                Some(name) => name.clone(),
                None => self.settings.runs.get(running.run).map(|run| run.name.clone()).unwrap_or_default(),
            };
            let Some(step) = &mut running.step else {
                // Its operation is accepted before the report is counted.
                let kind = self.kind(running.run, &name)?;
                running.step = Some(Step { kind, name, reported: 0, counted: 0, begin: self.clock.now() });
                return Ok(None);
            };
            if self.ticket.is_none() {
                return Ok(None);
            }
            if step.name != name {
                // An engine that does not say when a step is over.
                return Ok(self.finish(running));
            }
            step.reported = step.reported.max(report.objects);
            let is_done = report.done;
            running.reports.pop_front();
            if is_done {
                return Ok(self.finish(running));
            }
            // The last object is done when the step is.
            let count = step.reported.saturating_sub(1).saturating_sub(step.counted);
            if count > 0 {
                step.counted += count;
                return Ok(Some((step.kind, count)));
            }
        }
        Ok(None)
    }

    /// The step is over: what is left of it is done.
    fn finish(&mut self, running: &mut Running<'a>) -> Option<(Kind, u64)> {
        let step = running.step.take()?;
        if step.kind == Kind::Export {
            self.exported.insert(agent(&step.name.to_lowercase()).to_string());
        }
        let worked = self.clock.now().saturating_sub(step.begin);
        self.worked += worked;
        let seconds = worked as f64 / SECOND as f64;
        let done = StepDone { name: step.name, objects: step.reported, seconds };
        self.remarks.push(done.to_string());
        let mut progress = self.progress();
        if progress.rounds <= 1 {
            progress.steps.push(done);
        }
        drop(progress);
        Some((step.kind, step.reported - step.counted))
    }

    /// Waits until the engine prints something or ends.
    fn wait(&self, running: &Running<'a>, until: Nanos) -> Result<(), LoadError> {
        wait(&self.clock, &running.group, Some(&running.lines), until)
    }

    /// Follows the engine until operations complete, an operation is to be accepted, it ends, or the time is up.
    fn follow(
        &mut self,
        mut running: Running<'a>,
        until: Nanos,
        done: &mut Vec<Completion>,
    ) -> Result<Stage<'a>, LoadError> {
        loop {
            let ending = self.poll(&mut running)?;
            let counted = match self.count(&mut running)? {
                // Nothing is left to be read: it ended its last step by ending.
                None if ending == Some(Ending::Exited(0))
                    && running.reports.is_empty()
                    && self.ticket.is_some() =>
                {
                    self.finish(&mut running)
                }
                counted => counted,
            };
            if let Some((kind, count)) = counted
                && let Some(ticket) = self.ticket.take()
            {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                let completed = Done { count, ..Done::new(kind.place(), Outcome::Well, 0) };
                done.push(Completion::new(ticket, completed));
                return Ok(Stage::Running(running));
            }
            // An engine that failed has its say at once.
            if let Some(ending) = ending.filter(|ending| *ending != Ending::Exited(0)) {
                let line =
                    self.settings.runs.get(running.run).map(|run| run.command_line()).unwrap_or_default();
                return Err(process::failure(&format!("`{line}`"), ending, &running.lines));
            }
            if running.step.is_some() && self.ticket.is_none() {
                return Ok(Stage::Running(running));
            }
            if ending.is_some() && running.step.is_none() && running.reports.is_empty() {
                let stopping = Stopping::new(running.group, self.settings.stop);
                return Ok(Stage::Stopping(running.run, stopping, running.lines));
            }
            let now = self.clock.now();
            if now >= running.deadline {
                let timeout = quantity::duration(self.settings.timeout);
                let name = self.settings.runs.get(running.run).map_or("", |run| run.name.as_str());
                return Err(LoadError::new(
                    format!("`{name}` took longer than {timeout}"),
                    "raise `timeout`",
                ));
            }
            if now >= until {
                return Ok(Stage::Running(running));
            }
            if ending.is_none() && running.reports.is_empty() {
                self.wait(&running, until.min(running.deadline))?;
            }
        }
    }
}

/// Waits until a group's first process ends or there is something to read.
pub(super) fn wait(
    clock: &Clock,
    group: &Group,
    lines: Option<&Lines<'_>>,
    until: Nanos,
) -> Result<(), LoadError> {
    let left = until.saturating_sub(clock.now());
    let time = Timespec { tv_sec: (left / SECOND) as i64, tv_nsec: (left % SECOND) as i64 };
    let mut sources = vec![PollFd::from_borrowed_fd(group.ended_source(), PollFlags::IN)];
    if let Some(source) = lines.and_then(Lines::source) {
        sources.push(PollFd::from_borrowed_fd(source, PollFlags::IN));
    }
    match poll(&mut sources, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(LoadError::new(format!("waiting for the engine failed: {error}"), "")),
    }
}

impl Worker for SyncWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        match &self.stage {
            _ if self.ticket.is_some() => Admission::Busy,
            Stage::Over => Admission::Exhausted,
            Stage::Running(running) if running.step.is_some() => {
                self.ticket = Some(operation.ticket);
                Admission::Accepted
            }
            _ => Admission::Preparing,
        }
    }

    fn kind_of(&self, _operation: Operation, _accepted: bool) -> Option<u16> {
        match &self.stage {
            Stage::Running(running) => Some(running.step.as_ref()?.kind.place()),
            _ => None,
        }
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        loop {
            self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Preparing(group, mut lines, deadline) => {
                    wait(&self.clock, &group, Some(&lines), until.min(deadline))?;
                    match process::prepared(&group, &mut lines)? {
                        true => Stage::Next(0),
                        false if self.clock.now() >= deadline => {
                            return Err(process::prepared_too_long(self.settings));
                        }
                        false => Stage::Preparing(group, lines, deadline),
                    }
                }
                Stage::Next(run) => self.launch(run)?,
                Stage::Running(running) => {
                    let stage = self.follow(running, until, done)?;
                    let goes_on = matches!(stage, Stage::Stopping(..));
                    self.stage = stage;
                    if goes_on {
                        continue;
                    }
                    return Ok(());
                }
                Stage::Stopping(run, mut stopping, mut lines) => {
                    lines.discard();
                    match stopping.step(self.clock.now())? {
                        true => Stage::Next(run + 1),
                        false => Stage::Stopping(run, stopping, lines),
                    }
                }
                Stage::Over => return Ok(()),
            };
            if self.clock.now() >= until {
                return Ok(());
            }
        }
    }

    fn remarks(&mut self, out: &mut Vec<String>) {
        out.append(&mut self.remarks);
    }
}

impl Drop for SyncWorker<'_> {
    /// Ends what runs, politely at first: an engine that is asked to end keeps what it has committed.
    fn drop(&mut self) {
        let (mut stopping, mut lines) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Running(running) => (Stopping::new(running.group, self.settings.stop), running.lines),
            Stage::Stopping(_, stopping, lines) => (stopping, lines),
            Stage::Preparing(group, lines, _) => (Stopping::new(group, self.settings.stop), lines),
            Stage::Next(_) | Stage::Over => return,
        };
        while let Ok(false) = stopping.step(self.clock.now()) {
            lines.discard();
        }
    }
}
