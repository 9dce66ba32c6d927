//! When a launch counts as done, and how that is found out.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use engine::readiness::{Page, Request, connect};
use model::{MILLISECOND, Nanos, SettingInfo};
use regex::bytes::Regex;

use super::settings::{UNTIL_HTTP, UNTIL_PORT};
use super::window::Windows;

/// How often a port is tried: the resolution of what is measured.
const RETRY: Nanos = MILLISECOND;

/// The longest line that is matched; the rest of a longer one is left out.
const LINE_MAX: usize = 64 << 10;

/// When a launch is done.
#[derive(Clone, Debug)]
pub(super) enum Until {
    /// When the command exits.
    Exit,
    /// When `host:port` accepts a connection.
    Port(String),
    /// When a line of its output matches.
    Line(Regex),
    /// When a page is served.
    Http(Page),
    /// When a window appears whose title contains this.
    Window(String),
}

impl Until {
    /// The `host:port` that is asked.
    pub(super) fn host(&self) -> Option<&str> {
        match self {
            Until::Port(host) => Some(host),
            Until::Http(page) => Some(&page.host),
            Until::Exit | Until::Line(_) | Until::Window(_) => None,
        }
    }

    /// The setting that names the port or page.
    pub(super) fn setting(&self) -> Option<&'static SettingInfo> {
        match self {
            Until::Port(_) => Some(&UNTIL_PORT),
            Until::Http(_) => Some(&UNTIL_HTTP),
            Until::Exit | Until::Line(_) | Until::Window(_) => None,
        }
    }

    /// How finely the time is known, where it is found out by asking again and again.
    pub(super) fn resolution(&self) -> Option<Nanos> {
        self.host().map(|_| RETRY)
    }
}

/// Finds out for one launch whether it is done.
pub(super) enum Probe<'a> {
    Exit,
    Port(&'a [SocketAddr]),
    Line(Lines<'a>),
    Http(Request),
    Window(Box<Windows>),
}

impl Probe<'_> {
    /// Is it done? Never waits for long. `group` is the process group of the launch.
    pub(super) fn is_ready(&mut self, now: Nanos, group: i32) -> io::Result<bool> {
        match self {
            Probe::Exit => Ok(false),
            Probe::Port(addresses) => Ok(connect(addresses).is_some()),
            Probe::Line(lines) => lines.read(),
            Probe::Http(request) => Ok(request.is_answered(now)),
            Probe::Window(windows) => windows.appeared(group),
        }
    }

    /// What becomes readable when there is something new to look at.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Probe::Line(lines) if !lines.ended => Some(lines.pipe.as_fd()),
            Probe::Http(request) => request.source(),
            Probe::Window(windows) => Some(windows.source()),
            _ => None,
        }
    }

    /// When to look again even if nothing becomes readable.
    pub(super) fn look_again(&self, now: Nanos) -> Nanos {
        match self {
            Probe::Window(windows) if windows.is_behind() => now,
            Probe::Exit | Probe::Line(_) | Probe::Window(_) => Nanos::MAX,
            Probe::Port(_) => now + RETRY,
            Probe::Http(request) => request.waits_until().unwrap_or(now + RETRY),
        }
    }

    /// What was seen of a launch that is not done, for its message; empty when there is nothing to say.
    pub(super) fn seen(&self) -> String {
        match self {
            Probe::Window(windows) => windows.seen(),
            _ => String::new(),
        }
    }

    /// Takes output that nobody waits for any more, so that the command can go on to end.
    pub(super) fn discard(&mut self) {
        if let Probe::Line(lines) = self {
            let _ = lines.read();
        }
    }
}

/// The lines of a command's output.
pub(super) struct Lines<'a> {
    pipe: PipeReader,
    pattern: &'a Regex,
    /// Where the output is kept.
    copy: Option<&'a File>,
    line: Vec<u8>,
    ended: bool,
}

impl<'a> Lines<'a> {
    /// Reads from a pipe without waiting.
    pub(super) fn new(pipe: PipeReader, pattern: &'a Regex, copy: Option<&'a File>) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Lines { pipe, pattern, copy, line: Vec::new(), ended: false })
    }

    /// Takes what is there; true when a line matches. The last line counts even without an end.
    fn read(&mut self) -> io::Result<bool> {
        let mut part = [0; 8192];
        let mut found = false;
        // A command that prints without end must not keep the time limit from being noticed.
        for _ in 0..64 {
            match self.pipe.read(&mut part) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(found || self.take_line());
                }
                Ok(bytes) => {
                    if let Some(mut copy) = self.copy {
                        copy.write_all(&part[..bytes])?;
                    }
                    for byte in &part[..bytes] {
                        if *byte == b'\n' {
                            found |= self.take_line();
                        } else if self.line.len() < LINE_MAX {
                            self.line.push(*byte);
                        }
                    }
                    if found {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(found),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn take_line(&mut self) -> bool {
        let end = if self.line.last() == Some(&b'\r') { self.line.len() - 1 } else { self.line.len() };
        let found = self.pattern.is_match(&self.line[..end]);
        self.line.clear();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_matched_whole_and_the_last_without_an_end() {
        let pattern = Regex::new("^ready$").unwrap();
        for (parts, expected) in [
            (vec!["rea", "dy\n"], vec![false, true]),
            (vec!["not ready\nready\r\nmore"], vec![true]),
            (vec!["ready"], vec![false]),
        ] {
            let (reader, mut writer) = io::pipe().unwrap();
            let mut lines = Lines::new(reader, &pattern, None).unwrap();
            for (part, expected) in parts.into_iter().zip(expected) {
                writer.write_all(part.as_bytes()).unwrap();
                assert_eq!(lines.read().unwrap(), expected, "{part}");
            }
            if lines.line == b"ready" {
                drop(writer);
                assert!(lines.read().unwrap());
            }
        }
    }
}
