//! Launches the command, one launch at a time.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use engine::clock::Clock;
use engine::page_cache::DROP_CACHES;
use engine::readiness::{Request, connect};
use engine::shell::SHELL;
use engine::workload::{self, Admission, Completion, LoadError, Operation, Outcome, Worker};
use model::launch::Usage;
use model::random::Random;
use model::{MILLISECOND, Nanos, SECOND, quantity};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::group::{Ending, Group, Guard, Stopping};

use super::looks::Looks;
use super::readiness::{Lines, Probe, Until};
use super::settings::CommandSettings;
use super::usage;
use super::window::Windows;

/// Why a launch failed, and its code in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Ended(Ending),
    /// It ended before the port answered, the line appeared or the page was served.
    EndedEarly(Ending),
    TimedOut,
}

const KILLED: u32 = 0x100;
const TIMED_OUT: u32 = 0x200;
const EARLY: u32 = 0x400;

impl Failure {
    fn code(self) -> u32 {
        let ending = |ending| match ending {
            Ending::Exited(status) => u32::from(status),
            Ending::Killed(signal) => KILLED | u32::from(signal),
        };
        match self {
            Failure::Ended(how) => ending(how),
            Failure::EndedEarly(how) => EARLY | ending(how),
            Failure::TimedOut => TIMED_OUT,
        }
    }

    /// Words for a code: "exit status 3", "signal 9", "timed out".
    pub(super) fn describe(code: u32) -> String {
        let value = code & 0xff;
        match code & !0xff {
            0 => format!("exit status {value}"),
            KILLED => format!("signal {value}"),
            TIMED_OUT => "timed out".into(),
            early if early == EARLY => format!("exit status {value} before it was ready"),
            early if early == EARLY | KILLED => format!("signal {value} before it was ready"),
            _ => format!("failure {code}"),
        }
    }
}

/// A launch that is under way.
struct Launch<'a> {
    group: Group,
    probe: Probe<'a>,
    ticket: u32,
    number: u64,
    deadline: Nanos,
    looks: Looks,
}

/// A launch that is done, and that is not ended yet.
struct Done {
    ticket: u32,
    number: u64,
    looks: Looks,
}

/// Where the worker is between two launches, in this order.
enum Stage<'a> {
    /// The previous launch is being ended.
    Stopping(Stopping, Probe<'a>),
    /// The `prepare` command is to be started.
    Unprepared,
    /// The `prepare` command runs, until this time at most.
    Preparing(Group, Nanos),
    /// The port of the previous launch may still answer, until this time at most.
    Vacating(Nanos),
    /// Everything before the launch is done.
    Ready(Command, Probe<'a>),
    Launched(Launch<'a>),
}

/// A worker that launches the command.
pub(super) struct CommandWorker<'a> {
    settings: &'a CommandSettings,
    output: Option<&'a File>,
    addresses: &'a [SocketAddr],
    launched: &'a AtomicU64,
    clock: Clock,
    stage: Stage<'a>,
    guard: Guard,
    /// Told by the next `reap`, since `submit` has no words for it.
    failed: Option<LoadError>,
    remarks: Vec<String>,
    /// The launch that is done, until what it has used is read.
    done: Option<Done>,
    /// What launches that are done had used, until it is taken.
    usages: Vec<(u32, Usage)>,
    /// When to look at what runs.
    random: Random,
    /// Whether it was said that a launch left processes behind.
    said_left_behind: bool,
}

impl<'a> CommandWorker<'a> {
    pub(super) fn new(
        settings: &'a CommandSettings,
        output: Option<&'a File>,
        addresses: &'a [SocketAddr],
        launched: &'a AtomicU64,
        random: Random,
    ) -> Result<Self, LoadError> {
        let guard = Guard::start()
            .map_err(|error| LoadError::new(format!("{SHELL} cannot be started: {error}"), ""))?;
        Ok(CommandWorker {
            settings,
            output,
            addresses,
            launched,
            clock: Clock::get(),
            stage: Stage::Unprepared,
            guard,
            failed: None,
            remarks: Vec::new(),
            done: None,
            usages: Vec::new(),
            random,
            said_left_behind: false,
        })
    }

    /// Goes on towards the next launch. True when it is ready.
    fn prepare_more(&mut self, until: Nanos) -> Result<bool, LoadError> {
        self.keep_usage();
        let now = self.clock.now();
        let stage = std::mem::replace(&mut self.stage, Stage::Unprepared);
        self.stage = match stage {
            Stage::Stopping(mut stopping, mut probe) => {
                probe.discard();
                if !stopping.step(now)? {
                    Stage::Stopping(stopping, probe)
                } else {
                    let until_exit = matches!(self.settings.until, Until::Exit);
                    if until_exit && stopping.left_behind() && !self.said_left_behind {
                        self.said_left_behind = true;
                        let text = "a launch left processes in the background, which were ended: what they used is not counted";
                        self.remarks.push(text.into());
                    }
                    if stopping.was_killed() {
                        let grace = quantity::duration(self.settings.stop);
                        self.remarks.push(format!("a launch did not end within {grace} and was killed"));
                    }
                    Stage::Unprepared
                }
            }
            Stage::Unprepared => match &self.settings.prepare {
                None => Stage::Vacating(now.saturating_add(self.settings.stop).saturating_add(SECOND)),
                Some(script) => {
                    let mut command = self.settings.in_shell(script.reveal());
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                    let group = Group::launch(&mut command).map_err(|error| {
                        LoadError::new(
                            format!("the command to prepare a launch cannot be started: {error}"),
                            "",
                        )
                    })?;
                    self.guard.watch(&group);
                    Stage::Preparing(group, now.saturating_add(self.settings.timeout))
                }
            },
            Stage::Preparing(group, deadline) => match group.ending() {
                Some(Ending::Exited(0)) => {
                    drop(group);
                    Stage::Vacating(now.saturating_add(self.settings.stop).saturating_add(SECOND))
                }
                Some(ending) => {
                    return Err(LoadError::new(
                        format!(
                            "the command to prepare a launch ended with {}",
                            Failure::describe(Failure::Ended(ending).code())
                        ),
                        "it must succeed before each launch",
                    ));
                }
                None if now >= deadline => {
                    let timeout = quantity::duration(self.settings.timeout);
                    return Err(LoadError::new(
                        format!("the command to prepare a launch took longer than {timeout}"),
                        "raise the timeout, or make it shorter",
                    ));
                }
                None => {
                    self.wait(&group, None, until.min(deadline))?;
                    Stage::Preparing(group, deadline)
                }
            },
            Stage::Vacating(deadline) => {
                if !self.addresses.is_empty() && connect(self.addresses).is_some() {
                    if now >= deadline {
                        return Err(LoadError::new(
                            format!(
                                "{} answers although the command is not running",
                                self.settings.until.host().unwrap_or("the port")
                            ),
                            "stop what listens there, or take another port",
                        ));
                    }
                    std::thread::sleep(std::time::Duration::from_nanos(10 * MILLISECOND));
                    Stage::Vacating(deadline)
                } else {
                    if self.settings.cold {
                        drop_page_cache()?;
                    }
                    let (command, probe) = self.make_ready()?;
                    Stage::Ready(command, probe)
                }
            }
            stage @ (Stage::Ready(..) | Stage::Launched(_)) => stage,
        };
        Ok(matches!(self.stage, Stage::Ready(..)))
    }

    /// Everything that a launch needs, so that nothing but the launch itself is timed.
    fn make_ready(&self) -> Result<(Command, Probe<'a>), LoadError> {
        let wrong =
            |error: std::io::Error| LoadError::new(format!("the output cannot be redirected: {error}"), "");
        let mut command = self.settings.command();
        let probe = match &self.settings.until {
            Until::Exit => Probe::Exit,
            Until::Port(_) => Probe::Port(self.addresses),
            Until::Http(page) => Probe::Http(Request::new(self.addresses, page)),
            Until::Window(title) => {
                let windows = Windows::open(title).map_err(|(what, help)| LoadError::new(what, help))?;
                Probe::Window(Box::new(windows))
            }
            Until::Line(pattern) => {
                let (reader, writer) = std::io::pipe().map_err(wrong)?;
                command.stdout(writer.try_clone().map_err(wrong)?).stderr(writer);
                Probe::Line(Lines::new(reader, pattern, self.output).map_err(wrong)?)
            }
        };
        if !matches!(probe, Probe::Line(_)) {
            match self.output {
                Some(file) => {
                    command.stdout(file.try_clone().map_err(wrong)?);
                    command.stderr(file.try_clone().map_err(wrong)?);
                }
                None => {
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                }
            }
        }
        Ok((command, probe))
    }

    /// Waits until the group's first process ends or the probe has something to look at.
    fn wait(&self, group: &Group, probe: Option<&Probe<'_>>, until: Nanos) -> Result<(), LoadError> {
        let now = self.clock.now();
        let until = probe.map_or(until, |probe| until.min(probe.look_again(now)));
        let left = until.saturating_sub(now);
        let time = Timespec { tv_sec: (left / SECOND) as i64, tv_nsec: (left % SECOND) as i64 };
        let ended = group.ended_source();
        let mut sources = vec![PollFd::from_borrowed_fd(ended, PollFlags::IN)];
        if let Some(source) = probe.and_then(|probe| probe.source()) {
            sources.push(PollFd::from_borrowed_fd(source, PollFlags::IN));
        }
        match poll(&mut sources, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(LoadError::new(format!("waiting for the command failed: {error}"), "")),
        }
    }

    /// What became of the launch; none when it is still under way at `until`.
    fn watch(
        &mut self,
        launch: &mut Launch<'a>,
        until: Nanos,
    ) -> Result<Option<Result<(), Failure>>, LoadError> {
        let exit = matches!(launch.probe, Probe::Exit);
        loop {
            // Asked before the probe, so that output written before the end is seen before the end is.
            let ending = launch.group.ending();
            let group = launch.group.number();
            let ready = launch.probe.is_ready(self.clock.now(), group).map_err(|error| {
                let what = match launch.probe {
                    Probe::Window(_) => "windows can no longer be watched",
                    _ => "the output of the command cannot be read or kept",
                };
                LoadError::new(format!("{what}: {error}"), "")
            })?;
            match ending {
                _ if ready => return Ok(Some(Ok(()))),
                Some(Ending::Exited(0)) if exit => return Ok(Some(Ok(()))),
                Some(ending) if exit => return Ok(Some(Err(Failure::Ended(ending)))),
                Some(ending) => return Ok(Some(Err(Failure::EndedEarly(ending)))),
                None => {}
            }
            let now = self.clock.now();
            if now >= launch.deadline {
                return Ok(Some(Err(Failure::TimedOut)));
            }
            if now >= until {
                return Ok(None);
            }
            if now >= launch.looks.due {
                launch.looks.look(launch.group.number(), now, &mut self.random);
            }
            let until = until.min(launch.deadline).min(launch.looks.due);
            self.wait(&launch.group, Some(&launch.probe), until)?;
        }
    }

    /// Keeps what the launch that is done has used. Not before its end was timed: it takes some time itself.
    fn keep_usage(&mut self) {
        let Some(Done { ticket, number, looks }) = self.done.take() else { return };
        let Stage::Stopping(stopping, _) = &self.stage else { return };
        let group = stopping.group();
        let goes_on = group.ending().is_none();
        let used = match goes_on {
            true => usage::of_running(group.number()),
            false => {
                usage::of_ended(group.number(), group.ended_source(), looks.peak_bytes(self.clock.now()))
            }
        };
        let Looks { seen, running_threads, .. } = looks;
        let usage = Usage { number: number + 1, goes_on, used, looks: seen, running_threads };
        self.usages.push((ticket, usage));
    }

    fn failure(&self, failure: Failure, probe: &Probe<'_>) -> LoadError {
        let help = match failure {
            Failure::TimedOut => {
                "raise the timeout, or allow failure (`allow_failure`, --allow-failure) to count such launches"
            }
            _ => {
                "keep what it prints in a file (`output`, --output), or allow failure (`allow_failure`, --allow-failure) to count such launches"
            }
        };
        let how = Failure::describe(failure.code());
        let verb = if failure == Failure::TimedOut { "" } else { "ended with " };
        let seen = match probe.seen() {
            seen if seen.is_empty() => seen,
            seen => format!("; {seen}"),
        };
        LoadError::new(format!("`{}` {verb}{how}{seen}", self.settings.command_line()), help)
    }

    /// The kind of the launch with this number: the first one or a later one.
    fn kind(&self, number: u64) -> u16 {
        u16::from(number > 0 || self.settings.warmup > 0)
    }
}

fn drop_page_cache() -> Result<(), LoadError> {
    engine::page_cache::drop_all().map_err(|error| {
        LoadError::new(
            format!("the page cache cannot be dropped: {DROP_CACHES}: {error}"),
            "run as root, or leave out `cold`",
        )
    })
}

impl Worker for CommandWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        if matches!(self.stage, Stage::Launched(_)) {
            return Admission::Busy;
        }
        if self.launched.load(Ordering::Relaxed) >= self.settings.repeat {
            return Admission::Exhausted;
        }
        let (mut command, probe) = match std::mem::replace(&mut self.stage, Stage::Unprepared) {
            Stage::Ready(command, probe) => (command, probe),
            stage => {
                self.stage = stage;
                return Admission::Preparing;
            }
        };
        let number = self.launched.fetch_add(1, Ordering::Relaxed);
        if number >= self.settings.repeat {
            self.launched.fetch_sub(1, Ordering::Relaxed);
            return Admission::Exhausted;
        }
        let deadline = self.clock.now().saturating_add(self.settings.timeout);
        match Group::launch(&mut command) {
            Ok(group) => {
                self.guard.watch(&group);
                let ticket = operation.ticket;
                let looks = Looks::new(self.clock.now(), &mut self.random);
                self.stage = Stage::Launched(Launch { group, probe, ticket, number, deadline, looks });
                Admission::Accepted
            }
            Err(error) => {
                let line = self.settings.command_line();
                self.failed = Some(LoadError::new(format!("`{line}` cannot be launched: {error}"), ""));
                Admission::Busy
            }
        }
    }

    fn kind_of(&self, operation: Operation, accepted: bool) -> Option<u16> {
        Some(match &self.stage {
            Stage::Launched(launch) if accepted => self.kind(launch.number),
            _ => self.kind(self.launched.load(Ordering::Relaxed).max(operation.number)),
        })
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut launch = match std::mem::replace(&mut self.stage, Stage::Unprepared) {
            Stage::Launched(launch) => launch,
            stage => {
                self.stage = stage;
                while !self.prepare_more(until)? && self.clock.now() < until {}
                return Ok(());
            }
        };
        let outcome = match self.watch(&mut launch, until)? {
            None => {
                self.stage = Stage::Launched(launch);
                return Ok(());
            }
            Some(Ok(())) => Outcome::Well,
            Some(Err(failure)) if self.settings.allow_failure => Outcome::Failed(failure.code()),
            Some(Err(failure)) => {
                let error = self.failure(failure, &launch.probe);
                self.stage = Stage::Stopping(Stopping::new(launch.group, self.settings.stop), launch.probe);
                return Err(error);
            }
        };
        let Launch { ticket, number, looks, .. } = launch;
        done.push(Completion::new(ticket, workload::Done::new(self.kind(number), outcome, 0)));
        self.done = Some(Done { ticket, number, looks });
        self.stage = Stage::Stopping(Stopping::new(launch.group, self.settings.stop), launch.probe);
        Ok(())
    }

    fn usages(&mut self) -> Option<&mut Vec<(u32, Usage)>> {
        self.keep_usage();
        Some(&mut self.usages)
    }

    fn remarks(&mut self, out: &mut Vec<String>) {
        out.append(&mut self.remarks);
    }
}

impl Drop for CommandWorker<'_> {
    /// Ends what runs as politely as between two launches. What is left then is killed as its group is dropped.
    fn drop(&mut self) {
        let (mut stopping, mut probe) = match std::mem::replace(&mut self.stage, Stage::Unprepared) {
            Stage::Launched(launch) => (Stopping::new(launch.group, self.settings.stop), launch.probe),
            Stage::Stopping(stopping, probe) => (stopping, probe),
            Stage::Preparing(group, _) => (Stopping::new(group, self.settings.stop), Probe::Exit),
            Stage::Unprepared | Stage::Vacating(_) | Stage::Ready(..) => return,
        };
        while let Ok(false) = stopping.step(self.clock.now()) {
            probe.discard();
        }
    }
}
