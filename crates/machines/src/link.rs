//! Connections to agents: processes whose standard streams carry the messages.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::clock::Clock;
use model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::address::{Address, Reach};
use crate::frame::{self, Frame, FrameError, Pieces};
use crate::message::{FromAgent, ToAgent};
use crate::nats::bus::{Pipes, Slot};
use crate::program::Program;

/// How long a message may wait for a machine to take it.
const WRITE_MAX: Duration = Duration::from_secs(1);

/// How long an agent may take to end by itself.
pub const LINK_END_MAX: Duration = Duration::from_secs(2);

/// The last lines of the standard error that explain why a connection ended.
const LINES_KEPT: usize = 4;

/// Bytes of it that are kept.
const SAID_MAX: usize = 2048;

/// What arrives from a machine.
#[derive(Debug)]
pub enum Arrived {
    /// The agent has started: what it sends.
    Connected(Box<Incoming>),
    /// Progress before that, in words.
    Connecting(String),
    /// The connection has ended, with the reason.
    Closed(String),
}

/// What arrives, with the index of its machine and the number of its connection.
pub type FromLink = ((usize, u64), Arrived);

/// Where threads leave what they found out about a connection. The listener wakes up for it.
#[derive(Clone, Debug)]
pub struct Inbox {
    to: Sender<FromLink>,
    wake: Arc<OwnedFd>,
}

impl Inbox {
    /// What is sent arrives at the receiver of `to`, whose thread waits for the event descriptor `wake` too.
    pub fn new(to: Sender<FromLink>, wake: Arc<OwnedFd>) -> Inbox {
        Inbox { to, wake }
    }

    fn send(&self, what: FromLink) {
        // Without a receiver, the experiment is over.
        let _ = self.to.send(what);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

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
        arrived: &Inbox,
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
        // One thread listens to all machines.
        rustix::io::ioctl_fionbio(&from, true).map_err(|error| error.to_string())?;
        rustix::io::ioctl_fionbio(&errors, true).map_err(|error| error.to_string())?;
        let child = Arc::new(Mutex::new(child));
        let streams = Streams { from, errors: Some(errors), said: Vec::new() };
        let incoming = Incoming { streams, pieces: Pieces::default(), child: Some(child.clone()) };
        if copies {
            // Until the agent has started, a thread writes to it: the program, where it is missing.
            let first = to.as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
            let (program, arrived) = (program.clone(), arrived.clone());
            let thread = std::thread::Builder::new().name(format!("machine-{machine}"));
            let joining = thread.spawn(move || incoming.join(&program, first, of, &arrived));
            joining.map_err(|error| error.to_string())?;
        } else {
            arrived.send((of, Arrived::Connected(Box::new(incoming))));
        }
        rustix::io::ioctl_fionbio(&to, true).map_err(|error| error.to_string())?;
        Ok(Link { to: Some(to), child: Some(child), slot: None })
    }

    /// Begins a session with an agent on a NATS server.
    fn to_agent(slot: &Slot, of: (usize, u64), arrived: &Inbox) -> Result<Link, String> {
        let failed = |error: std::io::Error| error.to_string();
        let Pipes { input, output, errors } = slot.open().map_err(failed)?;
        for pipe in [&input, &output, &errors] {
            rustix::io::ioctl_fionbio(pipe, true).map_err(|error| error.to_string())?;
        }
        let (from, errors) = (ChildStdout::from(output), Some(ChildStderr::from(errors)));
        let streams = Streams { from, errors, said: Vec::new() };
        let incoming = Incoming { streams, pieces: Pieces::default(), child: None };
        arrived.send((of, Arrived::Connected(Box::new(incoming))));
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
    pub fn send(&mut self, message: &Frame<ToAgent>) -> Result<(), FrameError> {
        let Some(to) = &mut self.to else { return Err(FrameError::Closed) };
        let bytes = frame::encode(message)?;
        let mut rest = &bytes[..];
        let deadline = Instant::now() + WRITE_MAX;
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(0) => return Err(FrameError::Closed),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
                    let mut polled = [PollFd::new(&*to, PollFlags::OUT)];
                    if left.is_zero() || poll(&mut polled, Some(&timeout)) == Ok(0) {
                        let why =
                            std::io::Error::new(ErrorKind::TimedOut, "the machine does not take messages");
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

impl Link {
    /// Ends the connection, and at `deadline` the process that carries it.
    pub fn end(&mut self, deadline: Instant) {
        self.close();
        let Some(child) = self.child.take() else { return };
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        // An agent ends by itself when its input ends. One that hangs is left to its host.
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

impl Drop for Link {
    fn drop(&mut self) {
        self.end(Instant::now() + LINK_END_MAX);
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
#[derive(Debug)]
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
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
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
                match self.from.read(out) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    result => return result,
                }
            }
        }
    }
}

/// What an agent sends.
#[derive(Debug)]
pub struct Incoming {
    streams: Streams,
    pieces: Pieces,
    /// None for an agent on a NATS server.
    child: Option<Arc<Mutex<Child>>>,
}

impl Incoming {
    /// The descriptors to wait for: the messages, and the standard error until its end.
    pub(crate) fn descriptors(&self) -> (BorrowedFd<'_>, Option<BorrowedFd<'_>>) {
        (self.streams.from.as_fd(), self.streams.errors.as_ref().map(AsFd::as_fd))
    }

    /// Speaks with the shell of the host until the agent has started.
    fn join(mut self, program: &Program, to: OwnedFd, of: (usize, u64), arrived: &Inbox) {
        let mut say = |text: &str| arrived.send((of, Arrived::Connecting(text.into())));
        let mut from = BufReader::with_capacity(4 << 10, self.streams);
        let delivered = program.deliver(&mut from, to, &mut say);
        self.pieces.add(from.buffer());
        self.streams = from.into_inner();
        match delivered {
            Ok(()) => arrived.send((of, Arrived::Connected(Box::new(self)))),
            Err(why) => arrived.send((of, Arrived::Closed(self.explain(why)))),
        }
    }

    /// Takes what has arrived, without waiting. `buffer` is for what is read; each message goes to `take` with the time of its arrival.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        take: &mut dyn FnMut(Nanos, Box<Frame<FromAgent>>),
    ) -> Result<(), String> {
        self.take_whole(take)?;
        match self.streams.from.read(buffer) {
            Ok(0) if self.pieces.is_empty() => Err(FrameError::Closed.to_string()),
            Ok(0) => Err(FrameError::Malformed("it is cut off".into()).to_string()),
            Ok(read) => {
                self.pieces.add(&buffer[..read]);
                self.take_whole(take)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(FrameError::Io(error).to_string()),
        }
    }

    fn take_whole(&mut self, take: &mut dyn FnMut(Nanos, Box<Frame<FromAgent>>)) -> Result<(), String> {
        let now = Clock::get().now();
        while let Some(frame) = self.pieces.take().map_err(|error| error.to_string())? {
            take(now, Box::new(frame));
        }
        Ok(())
    }

    /// Takes what has arrived of the standard error.
    pub(crate) fn read_errors(&mut self) {
        self.streams.keep_errors();
    }

    /// Says that the connection has ended, and what its process wrote about it. That is waited for on a thread.
    pub(crate) fn end(self, epoll: &OwnedFd, why: String, of: (usize, u64), arrived: &Inbox) {
        // They stay open until the end is explained, and would be reported again and again.
        let (messages, errors) = self.descriptors();
        for descriptor in [Some(messages), errors].into_iter().flatten() {
            let _ = rustix::event::epoll::delete(epoll, descriptor);
        }
        let arrived = arrived.clone();
        let thread = std::thread::Builder::new().name(format!("machine-{}", of.0));
        // Without another thread, there is no memory left, and the run ends for that reason.
        let _ = thread.spawn(move || arrived.send((of, Arrived::Closed(self.explain(why)))));
    }

    /// What the process wrote explains the end better than the end of its output.
    fn explain(self, why: String) -> String {
        if let Some(child) = &self.child {
            let _ = child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
        }
        let lines = self.streams.last_lines();
        if lines.is_empty() { why } else { format!("{why}: {lines}") }
    }
}
