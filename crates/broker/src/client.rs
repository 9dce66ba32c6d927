//! An HTTP/1.1 client with one connection, which it keeps.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The largest answer.
const BODY_BYTES_MAX: u64 = 16 << 20;

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    address: String,
    timeout: Duration,
    kept: Option<BufReader<TcpStream>>,
}

impl Client {
    /// A client of the server at `HOST:PORT`. It connects with the first request.
    pub fn new(address: &str, timeout: Duration) -> Client {
        Client { address: address.into(), timeout, kept: None }
    }

    /// Sends a body, and returns the status and the body of the answer. A connection that the server has closed meanwhile
    /// is opened once more.
    ///
    /// # Errors
    /// Where the server does not answer in time, or not with HTTP.
    pub fn post(&mut self, path: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let was_kept = self.kept.is_some();
        match self.try_post(path, body) {
            Err(error) if was_kept && error.kind() != io::ErrorKind::WouldBlock => self.try_post(path, body),
            done => done,
        }
    }

    fn try_post(&mut self, path: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let mut connection = match self.kept.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(&self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(self.timeout))?;
                BufReader::new(stream)
            }
        };
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        connection.get_mut().write_all(&request)?;
        let (status, length, is_kept) = read_head(&mut connection)?;
        let mut answer = Vec::new();
        (&mut connection).take(length).read_to_end(&mut answer)?;
        if (answer.len() as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.kept = is_kept.then_some(connection);
        Ok((status, answer))
    }
}

/// Status, length of the body, and whether the connection stays open.
fn read_head(connection: &mut impl BufRead) -> io::Result<(u16, u64, bool)> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
    let (mut line, mut status, mut length, mut is_kept) = (String::new(), 0, 0, true);
    loop {
        line.clear();
        if connection.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let field = line.trim_end();
        if status == 0 {
            status =
                field.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| wrong("status"))?;
            continue;
        }
        let Some((name, value)) = field.split_once(':') else { return Ok((status, length, is_kept)) };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().map_err(|_| wrong("Content-Length"))?,
            "connection" => is_kept = !value.trim().eq_ignore_ascii_case("close"),
            _ => {}
        }
        if length > BODY_BYTES_MAX {
            return Err(wrong("the body is too large"));
        }
    }
}
