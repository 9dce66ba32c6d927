//! When a launch counts as done, and how that is found out.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use model::{MILLISECOND, Nanos, SECOND};
use regex::bytes::Regex;

/// How often a port is tried: the resolution of what is measured.
const RETRY: Nanos = MILLISECOND;

/// How long a connection may take to be made; a local one is accepted or refused at once.
const CONNECT: Duration = Duration::from_millis(200);

/// How long a page may take before it is asked for again.
const ANSWER_MAX: Nanos = 5 * SECOND;

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
}

impl Until {
    /// The `host:port` that is asked.
    pub(super) fn host(&self) -> Option<&str> {
        match self {
            Until::Port(host) => Some(host),
            Until::Http(page) => Some(&page.host),
            Until::Exit | Until::Line(_) => None,
        }
    }

    /// The setting that names the port or page.
    pub(super) fn setting(&self) -> Option<&'static str> {
        match self {
            Until::Port(_) => Some("until_port"),
            Until::Http(_) => Some("until_http"),
            Until::Exit | Until::Line(_) => None,
        }
    }

    /// How finely the time is known, where it is found out by asking again and again.
    pub(super) fn resolution(&self) -> Option<Nanos> {
        self.host().map(|_| RETRY)
    }
}

/// A page of a web server without encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// `host:port`.
    pub(super) host: String,
    /// From the first slash.
    pub(super) path: String,
}

impl Page {
    /// Reads `http://HOST[:PORT][/PATH]`; else what is wrong, and what to write.
    pub(super) fn parse(url: &str) -> Result<Page, (String, &'static str)> {
        const HELP: &str = "such as \"http://127.0.0.1:8080/\"";
        if url.starts_with("https:") {
            return Err((
                format!("https is not supported: `{url}`"),
                "wait for its port instead, or for a plain http page",
            ));
        }
        let wrong = || (format!("`{url}` is not the address of a page"), HELP);
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        if host.is_empty() || url.chars().any(|c| c.is_control() || c == ' ') {
            return Err(wrong());
        }
        // The colons of an IPv6 address are inside brackets.
        let host = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => {
                let known = !name.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
                if known { host.to_string() } else { return Err(wrong()) }
            }
            _ => format!("{host}:80"),
        };
        Ok(Page { host, path: path.to_string() })
    }
}

/// The addresses of `host:port`.
pub(super) fn resolve(host: &str) -> Result<Vec<SocketAddr>, String> {
    match host.to_socket_addrs() {
        Ok(addresses) => {
            let addresses: Vec<SocketAddr> = addresses.collect();
            if addresses.is_empty() { Err(format!("{host} has no address")) } else { Ok(addresses) }
        }
        Err(error) => Err(format!("{host} has no address: {error}")),
    }
}

/// A connection to the first of these that accepts one.
pub(super) fn connect(addresses: &[SocketAddr]) -> Option<TcpStream> {
    addresses.iter().find_map(|address| TcpStream::connect_timeout(address, CONNECT).ok())
}

/// Finds out for one launch whether it is done.
pub(super) enum Probe<'a> {
    Exit,
    Port(&'a [SocketAddr]),
    Line(Lines<'a>),
    Http(Request<'a>),
}

impl Probe<'_> {
    /// Is it done? Never waits for long.
    pub(super) fn is_ready(&mut self, now: Nanos) -> io::Result<bool> {
        match self {
            Probe::Exit => Ok(false),
            Probe::Port(addresses) => Ok(connect(addresses).is_some()),
            Probe::Line(lines) => lines.read(),
            Probe::Http(request) => Ok(request.is_answered(now)),
        }
    }

    /// What becomes readable when there is something new to look at.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Probe::Line(lines) if !lines.ended => Some(lines.pipe.as_fd()),
            Probe::Http(Request { connection: Some(connection), .. }) => Some(connection.stream.as_fd()),
            _ => None,
        }
    }

    /// When to look again even if nothing becomes readable.
    pub(super) fn look_again(&self, now: Nanos) -> Nanos {
        match self {
            Probe::Exit | Probe::Line(_) => Nanos::MAX,
            Probe::Port(_) | Probe::Http(Request { connection: None, .. }) => now + RETRY,
            Probe::Http(Request { connection: Some(connection), .. }) => connection.until,
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

/// Asks for a page until it is served.
pub(super) struct Request<'a> {
    addresses: &'a [SocketAddr],
    page: &'a Page,
    connection: Option<Connection>,
}

struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
    until: Nanos,
}

impl<'a> Request<'a> {
    pub(super) fn new(addresses: &'a [SocketAddr], page: &'a Page) -> Self {
        Request { addresses, page, connection: None }
    }

    /// Asks, or looks at what was answered. A connection that breaks, answers too late or with another status is given up
    /// and made anew.
    fn is_answered(&mut self, now: Nanos) -> bool {
        if self.connection.is_none() {
            self.connection = self.ask(now).ok();
        }
        let Some(connection) = &mut self.connection else { return false };
        match connection.status() {
            Ok(None) if now < connection.until => false,
            Ok(Some(200..=399)) => {
                self.connection = None;
                true
            }
            _ => {
                self.connection = None;
                false
            }
        }
    }

    fn ask(&self, now: Nanos) -> io::Result<Connection> {
        let mut stream = connect(self.addresses).ok_or(ErrorKind::ConnectionRefused)?;
        let Page { host, path } = self.page;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: plimsoll\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )?;
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, answer: Vec::new(), until: now + ANSWER_MAX })
    }
}

impl Connection {
    /// The status, once enough has come to know it.
    fn status(&mut self) -> io::Result<Option<u16>> {
        let mut part = [0; 64];
        loop {
            if let Some(status) = status_of(&self.answer)? {
                return Ok(Some(status));
            }
            match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.answer.extend_from_slice(&part[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The status of `HTTP/1.1 200 OK`; none when it has not come whole; an error when this is something else.
fn status_of(answer: &[u8]) -> io::Result<Option<u16>> {
    const START: &[u8] = b"HTTP/1.";
    let other = || Err(io::Error::from(ErrorKind::InvalidData));
    let common = answer.len().min(START.len());
    if answer[..common] != START[..common] {
        return other();
    }
    match answer.get(8..12) {
        None => Ok(None),
        Some([b' ', digits @ ..]) if digits.iter().all(u8::is_ascii_digit) => {
            Ok(Some(digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))))
        }
        Some(_) => other(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        for (url, host, path) in [
            ("http://a:8080/x/y?z", "a:8080", "/x/y?z"),
            ("http://a", "a:80", "/"),
            ("http://[::1]:81/", "[::1]:81", "/"),
            ("http://[::1]/", "[::1]:80", "/"),
        ] {
            assert_eq!(Page::parse(url), Ok(Page { host: host.into(), path: path.into() }), "{url}");
        }
        for url in ["", "ftp://a", "http://", "http:///x", "http://a:0/", "http://a:b/", "http://a/\r\nX: y"]
        {
            assert!(Page::parse(url).is_err(), "{url:?}");
        }
    }

    #[test]
    fn a_status_is_known_as_soon_as_it_has_come() {
        for (answer, expected) in [
            ("", Some(None)),
            ("HTTP/1.1 20", Some(None)),
            ("HTTP/1.1 200", Some(Some(200))),
            ("HTTP/1.0 503 no", Some(Some(503))),
            ("SSH-2.0", None),
            ("HTTP/1.1 2x0", None),
        ] {
            assert_eq!(status_of(answer.as_bytes()).ok(), expected, "{answer}");
        }
    }

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

    proptest::proptest! {
        #[test]
        fn no_address_and_no_answer_panics(text in "\\PC{0,40}") {
            let _ = (Page::parse(&text), status_of(text.as_bytes()));
        }
    }
}
