//! The process of a neighbour, seen from Plimsoll.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use engine::factor::TARGET_VARIABLE;
use engine::source::HostRoot;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::load::Options;
use crate::process::{self, Beside, Stat};

/// Limit of a line of its output.
const LINE_MAX: usize = 4096;

/// How long a report may take: the process may have to wait for a CPU.
const REPORT_MAX: Duration = Duration::from_secs(10);

/// What it did in the measured time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// Length of the measured time.
    pub(super) seconds: f64,
    /// CPU time that the process used.
    pub(super) cpu_s: f64,
    /// CPU seconds, bytes or operations of each load.
    pub(super) amounts: Vec<f64>,
}

/// A running neighbour. It is ended when this is dropped.
pub(super) struct Neighbour {
    child: Child,
    /// None once it has been closed, which ends the process.
    input: Option<ChildStdin>,
    output: ChildStdout,
    read: Vec<u8>,
    /// Whether a report was requested.
    has_report: bool,
    _beside: Beside,
}

/// The command of the process: this program, also if its file was replaced since.
#[cfg(not(test))]
fn command() -> std::process::Command {
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg0("plimsoll").arg(super::load::ARGUMENT);
    command
}

#[cfg(test)]
use super::tests::command;

impl Neighbour {
    /// Starts the process in a directory, and waits until it makes its loads.
    pub(super) fn start(
        level: &str,
        options: &Options,
        directory: &Path,
        mark: &str,
        within: Duration,
    ) -> Result<Neighbour, String> {
        let cannot = |error: std::io::Error| format!("its process cannot be started: {error}");
        let mut command = command();
        command
            .arg(level)
            .args(options.to_arguments())
            .env(TARGET_VARIABLE, mark)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in the terminal is for Plimsoll, which ends it.
            .process_group(0);
        let mut child = engine::shell::spawn(&mut command).map_err(cannot)?;
        let beside = process::beside(child.id());
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("its process has no input or output".into());
        };
        let mut started = Neighbour {
            child,
            input: Some(input),
            output,
            read: Vec::new(),
            has_report: false,
            _beside: beside,
        };
        match started.line(within)?.as_str() {
            "ready" => Ok(started),
            other => Err(format!("its process is not ready: {other}")),
        }
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn is_running(&self) -> bool {
        Stat::of(&HostRoot::live(), self.process()).is_some_and(|stat| stat.is_alive)
    }

    /// The measured time begins.
    pub(super) fn begin(&mut self) {
        self.write("begin\n");
    }

    /// The measured time ends.
    pub(super) fn end(&mut self) {
        self.write("end\n");
        self.has_report = true;
    }

    /// Without a reader the process has ended, which the missing report shows.
    fn write(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(line.as_bytes());
        }
    }

    /// What it did in the measured time; none if that did not end.
    pub(super) fn report(&mut self) -> Result<Option<Report>, String> {
        if !std::mem::take(&mut self.has_report) {
            return Ok(None);
        }
        let line = self.line(REPORT_MAX)?;
        let numbers = line.strip_prefix("report ").map(|rest| rest.split(' ').map(str::parse::<f64>));
        let numbers: Option<Vec<f64>> = numbers.and_then(|numbers| numbers.map(Result::ok).collect());
        match numbers.as_deref() {
            Some([seconds, cpu_s, amounts @ ..]) if *seconds > 0.0 => {
                Ok(Some(Report { seconds: *seconds, cpu_s: *cpu_s, amounts: amounts.to_vec() }))
            }
            _ => Err(format!("its process reported `{line}`")),
        }
    }

    /// The next line. One that begins with `failed` is an error.
    fn line(&mut self, within: Duration) -> Result<String, String> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim().to_string();
                match line.split_once(' ') {
                    Some(("failed", why)) => return Err(why.into()),
                    _ if ["ready", "report"].iter().any(|word| line.starts_with(word)) => return Ok(line),
                    _ => continue,
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let mut poll = [PollFd::new(&self.output, PollFlags::IN)];
            match rustix::event::poll(&mut poll, Some(&timeout)) {
                Ok(0) => return Err(format!("its process did not answer within {} s", within.as_secs())),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.to_string()),
            }
            let mut bytes = [0; LINE_MAX];
            match self.output.read(&mut bytes) {
                Ok(0) => return Err(self.how_it_ended()),
                Ok(_) if self.read.len() > 4 * LINE_MAX => return Err("its output is too long".into()),
                Ok(count) => self.read.extend(&bytes[..count]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn how_it_ended(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => format!("its process ended with {}", engine::shell::in_words(status)),
            Err(error) => format!("its process ended: {error}"),
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
