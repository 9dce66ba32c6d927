//! Runs an import tool to its end, and counts the entries that it has read.
//!
//! No tool reports its progress often enough. How far it has read the file is known to the kernel: the offset of its
//! descriptor (`/proc/PID/fdinfo`). The last entry is done when the tool is, so what the tool does after the file belongs to it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::clock::Clock;
use engine::shell::SHELL;
use engine::workload::{Admission, Completion, Done, LoadError, Operation, Outcome, Worker};
use model::{MILLISECOND, Nanos, SECOND, quantity};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Progress;
use super::ldif::LdifFile;
use super::phases::{Follower, Said, read};
use super::tool::{Import, allocated_bytes, failure, output_file};
use crate::group::{Ending, Group, Guard, Stopping};

/// How often the progress is read.
const LOOK: Nanos = 20 * MILLISECOND;

/// The phase before the first message of the log or the first byte that was read.
const START: &str = "start";
const READING: &str = "reading the file";
const AFTER: &str = "after the file";

/// Failure code of an entry that the tool left out.
pub(super) const LEFT_OUT: u32 = 1;

/// Exit status of ldif2db after a warning (`TASK_WARNING`).
const WARNING: u8 = 8;

/// A tool that runs.
struct Running {
    group: Group,
    begin: Nanos,
    deadline: Nanos,
    /// The descriptor of the file in `/proc`, once it is known.
    position: Option<PathBuf>,
    /// Whether the file was read to its end.
    is_read: bool,
    log: Option<Follower>,
    /// The present phase and when it began.
    phase: (&'static str, Nanos),
    pass: u32,
    /// Entries and bytes that were completed as operations.
    counted: u64,
    counted_bytes: u64,
}

enum Stage {
    Next,
    Running(Running),
    Stopping(Stopping),
    Over,
}

/// A worker that runs the tool.
pub(super) struct OfflineWorker<'a> {
    import: &'a Import,
    ldif: &'a LdifFile,
    /// The device and the inode of the file.
    identity: (u64, u64),
    output: PathBuf,
    timeout: Nanos,
    stop: Nanos,
    progress: &'a Mutex<Progress>,
    clock: Clock,
    guard: Guard,
    stage: Stage,
    ticket: Option<u32>,
    remarks: Vec<String>,
}

impl<'a> OfflineWorker<'a> {
    pub(super) fn new(
        import: &'a Import,
        ldif: &'a LdifFile,
        timeout: Nanos,
        stop: Nanos,
        progress: &'a Mutex<Progress>,
    ) -> Result<Self, LoadError> {
        let guard = Guard::start()
            .map_err(|error| LoadError::new(format!("{SHELL} cannot be started: {error}"), ""))?;
        let metadata = fs::metadata(&ldif.path)
            .map_err(|error| LoadError::new(format!("{}: {error}", ldif.path.display()), ""))?;
        Ok(OfflineWorker {
            import,
            ldif,
            identity: (metadata.dev(), metadata.ino()),
            output: import.directory.join("output.log"),
            timeout,
            stop,
            progress,
            clock: Clock::get(),
            guard,
            stage: Stage::Next,
            ticket: None,
            remarks: Vec::new(),
        })
    }

    fn progress(&self) -> MutexGuard<'a, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&mut self) -> Result<Running, LoadError> {
        let file = output_file(&self.output)?;
        let mut command = self.import.command();
        let cannot = |error: std::io::Error| {
            LoadError::new(format!("`{}` cannot be launched: {error}", self.import.command_line()), "")
        };
        command.stdout(file.try_clone().map_err(cannot)?).stderr(file);
        let log = self.import.log.as_ref().map(|path| Follower::open(path)).transpose().map_err(cannot)?;
        let begin = self.clock.now();
        let group = Group::launch(&mut command).map_err(cannot)?;
        self.guard.watch(&group);
        Ok(Running {
            group,
            begin,
            deadline: begin.saturating_add(self.timeout),
            position: None,
            is_read: false,
            log,
            phase: (START, begin),
            pass: 1,
            counted: 0,
            counted_bytes: 0,
        })
    }

    /// Bytes of the file that the tool has read; none while it does not have it open.
    fn position(&self, running: &mut Running) -> Option<u64> {
        // A search reads all of /proc, and a tool that has closed the file may work for a long time yet.
        if running.position.is_none() && !running.is_read {
            running.position = find_descriptor(running.group.number(), self.identity);
        }
        let text = fs::read_to_string(running.position.as_ref()?).ok();
        let position =
            text.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("pos:")));
        let position = position.and_then(|text| text.trim().parse().ok());
        match position {
            Some(position) => running.is_read = position >= self.ldif.bytes,
            None => running.position = None,
        }
        position
    }

    fn begin_phase(&mut self, running: &mut Running, name: &'static str) {
        let now = self.clock.now();
        let (before, since) = std::mem::replace(&mut running.phase, (name, now));
        let time = now.saturating_sub(since);
        let seconds = time as f64 / SECOND as f64;
        self.remarks.push(match running.pass {
            1 => format!("{before}: {seconds:.2} s"),
            pass => format!("{before} (pass {pass}): {seconds:.2} s"),
        });
        let mut progress = self.progress();
        match progress.phases.iter_mut().find(|(name, _)| *name == before) {
            Some((_, sum)) => *sum += time,
            None => progress.phases.push((before, time)),
        }
    }

    /// Reads the log.
    fn follow_log(&mut self, running: &mut Running) -> Result<(), LoadError> {
        let Some(mut log) = running.log.take() else { return Ok(()) };
        let mut said = Vec::new();
        log.lines(|line| said.extend(read(line)))
            .map_err(|error| LoadError::new(format!("the log of the server cannot be read: {error}"), ""))?;
        running.log = Some(log);
        for said in said {
            match said {
                Said::Phase(name) => self.begin_phase(running, name),
                Said::Pass(pass) => {
                    running.pass = pass;
                    self.progress().passes = pass;
                }
                Said::Cache(bytes) => self.progress().cache_bytes = Some(bytes),
                Said::Skipped(entries) => self.progress().left_out = entries,
            }
        }
        Ok(())
    }

    /// Follows the tool until entries complete, it ends, or the time is up.
    fn follow(
        &mut self,
        mut running: Running,
        until: Nanos,
        done: &mut Vec<Completion>,
    ) -> Result<Stage, LoadError> {
        loop {
            // Asked before the log is read, so that what was written before the end is not missed.
            let ending = running.group.ending();
            self.follow_log(&mut running)?;
            match ending {
                None => {}
                Some(Ending::Exited(0)) => return self.end(running, done),
                // A warning: entries were left out.
                Some(Ending::Exited(WARNING)) if self.progress().left_out > 0 => {
                    return self.end(running, done);
                }
                Some(ending) => {
                    let files: Vec<PathBuf> =
                        self.import.log.iter().cloned().chain([self.output.clone()]).collect();
                    return Err(failure(&format!("`{}`", self.import.command_line()), ending, &files));
                }
            }
            let position = self.position(&mut running);
            if running.log.is_none() {
                match (running.phase.0, position) {
                    (START, Some(1..)) => self.begin_phase(&mut running, READING),
                    (READING, position) if position.is_none_or(|position| position >= self.ldif.bytes) => {
                        self.begin_phase(&mut running, AFTER);
                    }
                    _ => {}
                }
            }
            let read = position.unwrap_or(0).min(self.ldif.bytes);
            // The last entry is done when the tool is.
            let entries = self.ldif.entries_before(read).min(self.ldif.entries.saturating_sub(1));
            if let (Some(ticket), Some(count @ 1..)) = (self.ticket, entries.checked_sub(running.counted)) {
                self.ticket = None;
                let bytes = read.saturating_sub(running.counted_bytes);
                running.counted = entries;
                running.counted_bytes = running.counted_bytes.max(read);
                done.push(completion(ticket, Outcome::Well, count, bytes));
                return Ok(Stage::Running(running));
            }
            let now = self.clock.now();
            if now >= running.deadline {
                let timeout = quantity::duration(self.timeout);
                return Err(LoadError::new(
                    format!("the import took longer than {timeout}"),
                    "raise `timeout`",
                ));
            }
            if now >= until || self.ticket.is_none() {
                return Ok(Stage::Running(running));
            }
            wait(
                &running.group,
                until.min(running.deadline).min(now.saturating_add(LOOK)).saturating_sub(now),
            )?;
        }
    }

    /// The tool has ended: the rest of the entries is done. Those that it left out have failed, in a completion of their own.
    fn end(&mut self, mut running: Running, done: &mut Vec<Completion>) -> Result<Stage, LoadError> {
        let Some(ticket) = self.ticket.take() else { return Ok(Stage::Running(running)) };
        let left = self.ldif.entries.saturating_sub(running.counted);
        let bytes = self.ldif.bytes.saturating_sub(running.counted_bytes);
        let left_out = self.progress().left_out;
        if left_out > 0 && left > left_out {
            running.counted += left - left_out;
            running.counted_bytes = self.ldif.bytes;
            done.push(completion(ticket, Outcome::Well, left - left_out, bytes));
            return Ok(Stage::Running(running));
        }
        self.begin_phase(&mut running, "end");
        let mut progress = self.progress();
        progress.seconds = self.clock.now().saturating_sub(running.begin) as f64 / SECOND as f64;
        progress.database_bytes = self.import.database.as_ref().map(|folder| allocated_bytes(folder));
        drop(progress);
        let outcome = if left_out == 0 { Outcome::Well } else { Outcome::Failed(LEFT_OUT) };
        done.push(completion(ticket, outcome, left, bytes));
        Ok(Stage::Stopping(Stopping::new(running.group, self.stop)))
    }
}

fn completion(ticket: u32, outcome: Outcome, count: u64, bytes: u64) -> Completion {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    Completion::new(ticket, Done { count, ..Done::new(0, outcome, bytes) })
}

/// Waits until the first process of the group ends, at most this time.
fn wait(group: &Group, time: Nanos) -> Result<(), LoadError> {
    let time = Timespec { tv_sec: (time / SECOND) as i64, tv_nsec: (time % SECOND) as i64 };
    let mut sources = [PollFd::from_borrowed_fd(group.ended_source(), PollFlags::IN)];
    match poll(&mut sources, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(LoadError::new(format!("waiting for the import failed: {error}"), "")),
    }
}

/// The `fdinfo` of the descriptor with which a process of the group reads the file.
fn find_descriptor(group: i32, identity: (u64, u64)) -> Option<PathBuf> {
    members(group).into_iter().find_map(|process| {
        let entries = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let found = entries
            .flatten()
            .find(|entry| fs::metadata(entry.path()).is_ok_and(|of| (of.dev(), of.ino()) == identity))?;
        Some(PathBuf::from(format!("/proc/{process}/fdinfo/{}", found.file_name().to_string_lossy())))
    })
}

/// The processes of a group, the first one first.
fn members(group: i32) -> Vec<i32> {
    let mut members = vec![group];
    let Ok(entries) = fs::read_dir("/proc") else { return members };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    members.extend(ids.filter(|id| *id != group && crate::group::is_member(*id, group)));
    members
}

impl Worker for OfflineWorker<'_> {
    fn submit(&mut self, operation: Operation) -> Admission {
        match &self.stage {
            _ if self.ticket.is_some() => Admission::Busy,
            Stage::Next | Stage::Running(_) => {
                self.ticket = Some(operation.ticket);
                Admission::Accepted
            }
            Stage::Stopping(_) => Admission::Preparing,
            Stage::Over => Admission::Exhausted,
        }
    }

    fn kind_of(&self, _operation: Operation, _accepted: bool) -> Option<u16> {
        Some(0)
    }

    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError> {
        loop {
            self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Next => Stage::Running(self.launch()?),
                Stage::Running(running) => {
                    let stage = self.follow(running, until, done)?;
                    if !done.is_empty() || matches!(stage, Stage::Running(_)) {
                        self.stage = stage;
                        return Ok(());
                    }
                    stage
                }
                Stage::Stopping(mut stopping) => match stopping.step(self.clock.now())? {
                    true => Stage::Over,
                    false => Stage::Stopping(stopping),
                },
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

impl Drop for OfflineWorker<'_> {
    fn drop(&mut self) {
        let mut stopping = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Running(running) => Stopping::new(running.group, self.stop),
            Stage::Stopping(stopping) => stopping,
            Stage::Next | Stage::Over => return,
        };
        while let Ok(false) = stopping.step(self.clock.now()) {}
    }
}
