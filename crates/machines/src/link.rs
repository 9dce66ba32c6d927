//! Connections to agents: processes whose standard streams carry the messages.

use std::io::{BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::clock::Clock;
use model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::address::{Address, Reach};
use crate::frame::{self, Frame, FrameError};
use crate::message::{FromAgent, ToAgent};
use crate::nats::bus::{Pipes, Slot};
use crate::program::Program;

/// How long a message may wait for a machine to take it.
const WRITE_MAX: Duration = Duration::from_secs(1);

/// The last lines of the standard error that explain why a connection ended.
const LINES_KEPT: usize = 4;

/// Bytes of it that are kept.
const SAID_MAX: usize = 2048;

/// What arrives from a machine.
#[derive(Debug)]
pub enum Arrived {
    /// The agent has started.
    Connected,
    /// Progress before that, in words.
    Connecting(String),
    /// A message, and when it was read.
    Message(Nanos, Box<Frame<FromAgent>>),
    /// The connection has ended, with the reason.
    Closed(String),
}

/// What arrives, with the index of its machine and the number of its connection.
pub type FromLink = ((usize, u64), Arrived);

/// A connection to one agent. It ends when it is dropped, and the agent with it.
pub struct Link {
    to: Option<ChildStdin>,
    /// None for an agent on a NATS server, which pipes stand for.
    child: Option<Arc<Mutex<Child>>>,
    slot: Option<Slot>,
}

impl Link {
    /// Starts the process that connects to a machine. What arrives goes to `arrived`, with `of`: the index of the machine, and the
    /// number of this connection.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn open(
        address: &Address,
        program: &Arc<Program>,
        of: (usize, u64),
        arrived: Sender<FromLink>,
    ) -> Result<Link, String> {
        let (machine, _) = of;
        let mut command = match &address.reach {
            Reach::Ssh { destination, port } => ssh(destination, *port, program),
            Reach::Command(words) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command
            }
            Reach::Agent(slot) => return Link::to_agent(slot, of, arrived),
            Reach::Fleet(_) => return Err("a fleet is no machine".into()),
        };
        let copies = matches!(address.reach, Reach::Ssh { .. });
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // In a group of its own, so that Ctrl-C reaches only the coordinator, which ends the trial and then the agents.
        command.process_group(0);
        let named = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| format!("{named} could not be started: {error}"))?;
        let (Some(to), Some(from), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(format!("{named} has no standard streams"));
        };
        rustix::io::ioctl_fionbio(&errors, true).map_err(|error| error.to_string())?;
        let child = Arc::new(Mutex::new(child));
        // Until the agent has started, the reader writes to it: the program, where it is missing.
        let first = to.as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
        let reader = std::thread::Builder::new().name(format!("machine-{machine}"));
        let program = program.clone();
        let of_reader = child.clone();
        reader
            .spawn(move || {
                let streams = Streams { from, errors: Some(errors), said: Vec::new() };
                let mut from = BufReader::with_capacity(4 << 10, streams);
                let why = listen(&mut from, copies.then_some((first, &*program)), of, &arrived);
                let _ = of_reader.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
                // What the process wrote explains the end better than the end of its output.
                let lines = from.into_inner().last_lines();
                let why = if lines.is_empty() { why } else { format!("{why}: {lines}") };
                let _ = arrived.send((of, Arrived::Closed(why)));
            })
            .map_err(|error| error.to_string())?;
        rustix::io::ioctl_fionbio(&to, true).map_err(|error| error.to_string())?;
        Ok(Link { to: Some(to), child: Some(child), slot: None })
    }

    /// Begins a session with an agent on a NATS server.
    fn to_agent(slot: &Slot, of: (usize, u64), arrived: Sender<FromLink>) -> Result<Link, String> {
        let failed = |error: std::io::Error| error.to_string();
        let Pipes { input, output, errors } = slot.open().map_err(failed)?;
        rustix::io::ioctl_fionbio(&errors, true).map_err(|error| error.to_string())?;
        rustix::io::ioctl_fionbio(&input, true).map_err(|error| error.to_string())?;
        let streams = Streams {
            from: ChildStdout::from(output),
            errors: Some(ChildStderr::from(errors)),
            said: Vec::new(),
        };
        let reader = std::thread::Builder::new().name(format!("machine-{}", of.0));
        reader
            .spawn(move || {
                let mut from = BufReader::with_capacity(4 << 10, streams);
                let why = listen(&mut from, None, of, &arrived);
                let lines = from.into_inner().last_lines();
                let why = if lines.is_empty() { why } else { format!("{why}: {lines}") };
                let _ = arrived.send((of, Arrived::Closed(why)));
            })
            .map_err(failed)?;
        Ok(Link { to: Some(ChildStdin::from(input)), child: None, slot: Some(slot.clone()) })
    }

    /// Whether the connection to the server that the agent is reached through is interrupted for a moment.
    pub fn is_away(&self) -> bool {
        self.slot.as_ref().is_some_and(Slot::is_away)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the connection has ended, or does not take the message in time.
    pub fn send(&mut self, message: ToAgent) -> Result<(), FrameError> {
        let Some(to) = &mut self.to else { return Err(FrameError::Closed) };
        let bytes = frame::encode(&Frame::from(message))?;
        let mut rest = &bytes[..];
        let deadline = Instant::now() + WRITE_MAX;
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(0) => return Err(FrameError::Closed),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
                    let mut polled = [PollFd::new(&*to, PollFlags::OUT)];
                    if left.is_zero() || poll(&mut polled, Some(&timeout)) == Ok(0) {
                        let why = std::io::Error::new(
                            std::io::ErrorKind::TimedOut,
                            "the machine does not take messages",
                        );
                        return Err(FrameError::Io(why));
                    }
                }
                Err(error) => return Err(FrameError::Io(error)),
            }
        }
        Ok(())
    }

    /// Ends the connection: the agent sees the end of its input.
    pub fn close(&mut self) {
        self.to = None;
    }

    /// Ends the connection and the process that carries it.
    pub fn kill(&mut self) {
        if let (Some(_), Some(child)) = (self.to.take(), &self.child) {
            // It may have ended already.
            let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
        let Some(child) = &self.child else { return };
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        // An agent ends by itself when its input ends. One that hangs is left to its host.
        let deadline = Instant::now() + Duration::from_secs(2);
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The command that connects to a host, and starts the program there.
fn ssh(destination: &str, port: Option<u16>, program: &Program) -> Command {
    let mut command = Command::new("ssh");
    // Standard input carries messages, so that a question for a password would wait for ever.
    command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]);
    if let Some(port) = port {
        command.args(["-p", &port.to_string()]);
    }
    command.arg("--").arg(destination).arg(program.remote_command());
    command
}

/// The standard output of a process. While it is read, the last bytes of the standard error are kept.
struct Streams {
    from: ChildStdout,
    /// None after its end.
    errors: Option<ChildStderr>,
    said: Vec<u8>,
}

impl Streams {
    /// Waits until one of both can be read or has ended; returns which: the output, the errors.
    fn wait(&self) -> std::io::Result<(bool, bool)> {
        let mut polled = vec![PollFd::new(&self.from, PollFlags::IN)];
        polled.extend(self.errors.as_ref().map(|errors| PollFd::new(errors, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) => {
                let is_ready = |at: usize| polled.get(at).is_some_and(|of| !of.revents().is_empty());
                Ok((is_ready(0), is_ready(1)))
            }
            Err(rustix::io::Errno::INTR) => Ok((false, false)),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps what is there of the standard error.
    fn keep_errors(&mut self) {
        let Some(errors) = &mut self.errors else { return };
        let mut piece = [0; 1024];
        loop {
            match errors.read(&mut piece) {
                Ok(0) => {
                    self.errors = None;
                    return;
                }
                Ok(read) => {
                    self.said.extend_from_slice(&piece[..read]);
                    let surplus = self.said.len().saturating_sub(SAID_MAX);
                    self.said.drain(..surplus);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// The last lines of the standard error, in one.
    fn last_lines(mut self) -> String {
        let deadline = Instant::now() + Duration::from_secs(1);
        loop {
            self.keep_errors();
            if self.errors.is_none() || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = String::from_utf8_lossy(&self.said).replace(|c: char| c.is_control() && c != '\n', " ");
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LINES_KEPT)..].join("; ")
    }
}

impl Read for Streams {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let (has_output, has_errors) = self.wait()?;
            if has_errors {
                self.keep_errors();
            }
            if has_output {
                return self.from.read(out);
            }
        }
    }
}

/// Reads messages until the connection ends. Returns why it did.
fn listen(
    from: &mut BufReader<Streams>,
    copy: Option<(OwnedFd, &Program)>,
    of: (usize, u64),
    arrived: &Sender<FromLink>,
) -> String {
    if let Some((to, program)) = copy {
        let mut say = |text: &str| {
            let _ = arrived.send((of, Arrived::Connecting(text.into())));
        };
        if let Err(why) = program.deliver(from, to, &mut say) {
            return why;
        }
    }
    if arrived.send((of, Arrived::Connected)).is_err() {
        return "the run has ended".into();
    }
    loop {
        match frame::read(from) {
            Ok(frame) => {
                let at = Clock::get().now();
                if arrived.send((of, Arrived::Message(at, Box::new(frame)))).is_err() {
                    return "the run has ended".into();
                }
            }
            Err(error) => return error.to_string(),
        }
    }
}
