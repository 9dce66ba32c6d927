//! A running service and its clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use plimsoll_scim::{Options, Server};
use serde_json::Value;
use testkit::Scratch;

/// Ends a test whose service never answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running service with its own database.
pub(crate) struct Running {
    /// The service ends with this value.
    _server: Server,
    pub(crate) address: SocketAddr,
    pub(crate) scratch: Scratch,
}

impl Running {
    pub(crate) fn new() -> Running {
        Running::with(|options| options)
    }

    pub(crate) fn with(change: impl FnOnce(Options) -> Options) -> Running {
        let scratch = Scratch::new();
        let server = Server::start(change(Options::new(scratch.join("scim.db")))).unwrap();
        let address = server.url().split('/').nth(2).unwrap().parse().unwrap();
        Running { _server: server, address, scratch }
    }

    pub(crate) fn connect(&self) -> Peer {
        Peer::new(self.address)
    }

    /// Sends one request over a new connection.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        self.connect().send(method, path, headers, body)
    }

    /// Creates a user and returns its id.
    pub(crate) fn user(&self, name: &str) -> String {
        let answer = self.send("POST", "/Users", &[SCIM], &serde_json::json!({"userName": name}).to_string());
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["id"].as_str().unwrap().to_string()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.send("GET", "/ServiceProviderConfig", &[], "").status == 200
    }
}

pub(crate) const SCIM: &str = "Content-Type: application/scim+json";

/// The path of one user.
pub(crate) fn path_of(id: &str) -> String {
    ["", "Users", id].join("/")
}

/// A client connection.
pub(crate) struct Peer {
    input: BufReader<TcpStream>,
    host: String,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr) -> Peer {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Peer { input: BufReader::new(stream), host: address.to_string() }
    }

    /// Sends raw bytes. It is not a test failure if the service no longer reads them.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.input.get_mut().write_all(bytes);
    }

    pub(crate) fn writer(&self) -> TcpStream {
        self.input.get_ref().try_clone().unwrap()
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        self.begin(method, path, headers, body);
        self.answer().expect("the service closed the connection without an answer")
    }

    /// Sends a request without waiting for its response.
    pub(crate) fn begin(&mut self, method: &str, path: &str, headers: &[&str], body: &str) {
        let mut text = format!("{method} /scim/v2{path} HTTP/1.1\r\n");
        if !headers.iter().any(|line| line.to_ascii_lowercase().starts_with("host:")) {
            text += &format!("Host: {}\r\n", self.host);
        }
        headers.iter().for_each(|line| text += &format!("{line}\r\n"));
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        self.write(format!("{text}\r\n{body}").as_bytes());
    }

    /// The next response; none if the connection is closed first.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let mut answer = Answer::default();
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if self.input.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if let Some(status) = text
                .strip_prefix("HTTP/1.1 ")
                .or(text.strip_prefix("HTTP/1.0 "))
                .filter(|_| answer.status == 0)
            {
                answer.status = status.split(' ').next()?.parse().ok()?;
            } else if let Some((name, value)) = text.split_once(':') {
                let (name, value) = (name.to_ascii_lowercase(), value.trim().to_string());
                if name == "content-length" {
                    length = value.parse().unwrap();
                }
                answer.headers.push((name, value));
            }
        }
        let mut body = vec![0; length];
        self.input.read_exact(&mut body).ok()?;
        answer.body = String::from_utf8(body).unwrap();
        Some(answer)
    }

    /// Whether the service closes the connection without a further response.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.input.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => {
                !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
            }
        }
    }
}

/// A response of the service.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn scim_type(&self) -> String {
        self.json()["scimType"].as_str().unwrap_or_default().to_string()
    }
}
