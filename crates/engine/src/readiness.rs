//! Checks whether a server is available: a port accepts a connection, or a page is served.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use model::{Nanos, SECOND, SecretParts};

/// Timeout of a connection; a local one is accepted or refused immediately.
const CONNECT: Duration = Duration::from_millis(200);

/// Timeout of a response before the page is requested again.
const ANSWER_MAX: Nanos = 5 * SECOND;

/// A page of an unencrypted web server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// `host:port`.
    pub host: String,
    /// The path, from the first slash. It may have credentials.
    path: String,
}

/// Its address, without credentials.
impl std::fmt::Display for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&SecretParts::Url.hide(&format!("http://{}{}", self.host, self.path)))
    }
}

impl Page {
    /// Parses `http://HOST[:PORT][/PATH]`. The error is the problem and what to write.
    pub fn parse(url: &str) -> Result<Page, (String, &'static str)> {
        const HELP: &str = "such as \"http://127.0.0.1:8080/\"";
        if url.starts_with("https:") {
            return Err((
                format!("https is not supported: `{url}`"),
                "use \"tcp://HOST:PORT\", or an http page",
            ));
        }
        let wrong = || (format!("`{url}` is not the address of a page"), HELP);
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        if host.contains('@') {
            return Err((
                format!("a user name in the address of a page is not supported: `{url}`"),
                "name a page that needs no login, or use \"tcp://HOST:PORT\"",
            ));
        }
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
pub fn resolve(host: &str) -> Result<Vec<SocketAddr>, String> {
    match host.to_socket_addrs() {
        Ok(addresses) => {
            let addresses: Vec<SocketAddr> = addresses.collect();
            if addresses.is_empty() { Err(format!("{host} has no address")) } else { Ok(addresses) }
        }
        Err(error) => Err(format!("{host} has no address: {error}")),
    }
}

/// A connection to the first address that accepts one.
pub fn connect(addresses: &[SocketAddr]) -> Option<TcpStream> {
    addresses.iter().find_map(|address| TcpStream::connect_timeout(address, CONNECT).ok())
}

/// Requests a page until it is served.
#[derive(Debug)]
pub struct Request {
    addresses: Vec<SocketAddr>,
    page: Page,
    connection: Option<Connection>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
    until: Nanos,
}

impl Request {
    /// Requests a page from these addresses of its host.
    pub fn new(addresses: &[SocketAddr], page: &Page) -> Self {
        Request { addresses: addresses.to_vec(), page: page.clone(), connection: None }
    }

    /// Sends a request, or checks for a response; never waits for long. A connection that fails, times out or
    /// returns another status is closed and opened again.
    pub fn is_answered(&mut self, now: Nanos) -> bool {
        if self.connection.is_none() {
            self.connection = self.start_request(now).ok();
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

    /// The descriptor that becomes readable when there is data.
    pub fn source(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(|connection| connection.stream.as_fd())
    }

    /// The deadline of the current response; none without a connection.
    pub fn waits_until(&self) -> Option<Nanos> {
        self.connection.as_ref().map(|connection| connection.until)
    }

    fn start_request(&self, now: Nanos) -> io::Result<Connection> {
        let mut stream = connect(&self.addresses).ok_or(ErrorKind::ConnectionRefused)?;
        let Page { host, path } = &self.page;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: plimsoll\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )?;
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, answer: Vec::new(), until: now + ANSWER_MAX })
    }
}

impl Connection {
    /// The status, if enough of the response has arrived.
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

/// The status in `HTTP/1.1 200 OK`; none if it is incomplete; an error for anything else.
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

    proptest::proptest! {
        #[test]
        fn no_address_and_no_answer_panics(text in "\\PC{0,40}") {
            let _ = (Page::parse(&text), status_of(text.as_bytes()));
        }
    }
}
