//! HTTP/1.1, as much as a service needs: requests with a length, connections that stay.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::SystemTime;

use super::service::Reply;
use super::time;

const HEAD_BYTES_MAX: usize = 64 << 10;
pub(super) const BODY_BYTES_MAX: usize = 16 << 20;

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`, `POST`, ...
    pub method: String,
    /// The parts of the path behind the base.
    pub path: Vec<String>,
    /// What is asked for behind the path.
    pub query: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    pub(super) authorization: Option<String>,
    pub(super) if_match: Option<String>,
    pub(super) keeps_alive: bool,
}

pub(super) enum Read {
    Request(Request),
    /// It cannot be understood: a status, and why.
    Wrong(u16, &'static str),
    End,
}

pub(super) struct Connection {
    stream: TcpStream,
    /// Bytes that came and belong to no request yet.
    bytes: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Connection {
        Connection { stream, bytes: Vec::new() }
    }

    /// Reads a request.
    pub(super) fn read(&mut self) -> io::Result<Read> {
        let (request, length, head_bytes, expects) = loop {
            match head(&self.bytes) {
                Head::Whole { request, length, bytes, expects } => break (request, length, bytes, expects),
                Head::Wrong(status, why) => return Ok(Read::Wrong(status, why)),
                Head::Part if self.bytes.len() > HEAD_BYTES_MAX => {
                    return Ok(Read::Wrong(431, "the headers are too long"));
                }
                Head::Part => {
                    if !self.more()? {
                        return Ok(Read::End);
                    }
                }
            }
        };
        if length > BODY_BYTES_MAX {
            return Ok(Read::Wrong(413, "the request is larger than maxPayloadSize"));
        }
        if expects && self.bytes.len() == head_bytes {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        while self.bytes.len() < head_bytes + length {
            if !self.more()? {
                return Ok(Read::End);
            }
        }
        let body = self.bytes[head_bytes..head_bytes + length].to_vec();
        self.bytes.drain(..head_bytes + length);
        Ok(Read::Request(Request { body, ..*request }))
    }

    fn more(&mut self) -> io::Result<bool> {
        let mut block = [0; 16 << 10];
        let read = self.stream.read(&mut block)?;
        self.bytes.extend_from_slice(&block[..read]);
        Ok(read > 0)
    }

    /// Writes an answer, in one piece.
    pub(super) fn write(&mut self, reply: &Reply, keeps_alive: bool) -> io::Result<()> {
        let mut text = format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status));
        let now = time::unix_ms(SystemTime::now()).div_euclid(1000);
        text += &format!("Date: {}\r\n", time::http(now));
        if !reply.body.is_empty() {
            text += "Content-Type: application/scim+json\r\n";
        }
        if reply.status != 204 {
            text += &format!("Content-Length: {}\r\n", reply.body.len());
        }
        for (name, value) in &reply.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !keeps_alive {
            text += "Connection: close\r\n";
        }
        text += "\r\n";
        text += &reply.body;
        self.stream.write_all(text.as_bytes())
    }
}

enum Head {
    Whole { request: Box<Request>, length: usize, bytes: usize, expects: bool },
    Part,
    Wrong(u16, &'static str),
}

fn head(bytes: &[u8]) -> Head {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let head_bytes = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) => return Head::Part,
        Err(_) => return Head::Wrong(400, "this is not HTTP"),
    };
    let mut request = Request {
        method: parsed.method.unwrap_or_default().into(),
        keeps_alive: parsed.version == Some(1),
        ..Request::default()
    };
    let target = parsed.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.strip_prefix("/scim/v2").unwrap_or(path);
    let parts: Option<Vec<String>> =
        path.split('/').filter(|part| !part.is_empty()).map(|part| unescaped(part, false)).collect();
    let pairs: Option<Vec<(String, String)>> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescaped(name, true)?, unescaped(value, true)?))
        })
        .collect();
    let (Some(parts), Some(pairs)) = (parts, pairs) else { return Head::Wrong(400, "the URL is not UTF-8") };
    (request.path, request.query) = (parts, pairs);
    let (mut length, mut expects) = (None, false);
    for header in parsed.headers.iter() {
        let Ok(value) = std::str::from_utf8(header.value) else { continue };
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" => match value.trim().parse::<usize>() {
                Ok(bytes) if length.is_none_or(|known| known == bytes) => length = Some(bytes),
                _ => return Head::Wrong(400, "the length is no number"),
            },
            "transfer-encoding" => return Head::Wrong(411, "a request states its length"),
            "connection" if value.eq_ignore_ascii_case("close") => request.keeps_alive = false,
            "expect" => expects = value.eq_ignore_ascii_case("100-continue"),
            "authorization" => request.authorization = Some(value.into()),
            "if-match" => request.if_match = Some(value.into()),
            _ => {}
        }
    }
    Head::Whole { request: Box::new(request), length: length.unwrap_or(0), bytes: head_bytes, expects }
}

/// Text of a URL; none when it is not UTF-8.
fn unescaped(text: &str, is_query: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        match (byte, digits.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                at += 2;
            }
            (b'+', _) if is_query => plain.push(b' '),
            (byte, _) => plain.push(*byte),
        }
        at += 1;
    }
    String::from_utf8(plain).ok()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_whole_or_not_at_all() {
        let text = b"GET /scim/v2/Groups/a%2Fb?filter=userName+eq%20%22%C3%A9%22&count=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n";
        for end in 0..text.len() {
            assert!(matches!(head(&text[..end]), Head::Part), "{end}");
        }
        let Head::Whole { request, length, bytes, .. } = head(text) else { panic!() };
        assert_eq!((length, bytes), (2, text.len()));
        assert_eq!(request.path, ["Groups", "a/b"]);
        assert_eq!(request.query[0], ("filter".into(), "userName eq \"é\"".into()));
        assert!(request.keeps_alive);
    }

    #[test]
    fn lengths_that_differ_are_refused() {
        for lines in
            ["Content-Length: 1\r\nContent-Length: 2", "Content-Length: x", "Transfer-Encoding: chunked"]
        {
            let text = format!("POST /Users HTTP/1.1\r\n{lines}\r\n\r\n");
            assert!(matches!(head(text.as_bytes()), Head::Wrong(..)), "{lines}");
        }
    }
}
