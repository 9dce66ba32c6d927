//! What a client sends to the service of `plimsoll metadir scim-server`, over a socket.
//!
//! After `=` the bytes are sent as they are. After any other byte come requests with zero bytes between them: a method and a
//! target on the first line, the body below; their other headers are right.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use super::folder;
use scim::{Limits, Options, Server};
use serde_json::Value;

/// After so many inputs the database begins empty again.
const INPUTS: u32 = 2000;
const HOST: &str = "x";

/// The service.
struct Running {
    folder: PathBuf,
    server: Option<Server>,
    inputs: u32,
}

static RUNNING: LazyLock<Mutex<Running>> =
    LazyLock::new(|| Mutex::new(Running { folder: folder("scim-request"), server: None, inputs: 0 }));

impl Running {
    /// The address of a service that has not had too many inputs.
    fn address(&mut self) -> String {
        if self.inputs.is_multiple_of(INPUTS) {
            self.server = None;
            for file in ["scim.db", "scim.db-wal", "scim.db-shm"] {
                let _ = std::fs::remove_file(self.folder.join(file));
            }
            let options = Options {
                hosts: vec![HOST.into()],
                // A request that is cut off ends with its connection, not with its time.
                limits: Limits { wait: Duration::from_secs(3600), ..Limits::default() },
                ..Options::new(self.folder.join("scim.db"))
            };
            self.server = Some(Server::start(options).expect("a port of this host is free"));
        }
        self.inputs += 1;
        let url = self.server.as_ref().expect("it was started").url();
        url.trim_start_matches("http://").split('/').next().unwrap_or_default().to_string()
    }
}

/// A request with the headers that the service wants.
fn request(line: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Sends bytes on a connection; each answer's status and body.
fn exchange(address: &str, bytes: &[u8]) -> Vec<(u16, Value)> {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    // It may have closed the connection before it read all.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    let mut answers = Vec::new();
    let mut rest = all.as_slice();
    while let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = std::str::from_utf8(&rest[..end]).expect("headers are ASCII").to_ascii_lowercase();
        rest = &rest[end + 4..];
        let status: u16 = head[9..12].parse().expect("an answer begins with its status");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().expect("a length is a number"));
        // What was cut off with the connection is no answer.
        let Some(body) = rest.get(..length) else { break };
        rest = &rest[length..];
        if status != 100 {
            let body = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(body) };
            answers.push((status, body.expect("an answer is JSON")));
        }
    }
    answers
}

fn made(address: &str, kind: &str, body: &str) -> String {
    let answers = exchange(address, &request(&format!("POST /scim/v2/{kind}"), body.as_bytes()));
    let [(201, body)] = &answers[..] else { panic!("{answers:?}") };
    body["id"].as_str().expect("a resource has an id").to_string()
}

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let number = running.inputs;
    let address = running.address();
    let stream = if *first == b'=' {
        rest.to_vec()
    } else {
        let user =
            format!("{{\"userName\":\"own {number}\",\"emails\":[{{\"type\":\"work\",\"value\":\"a@b\"}}]}}");
        let user = made(&address, "Users", &user);
        let group = format!("{{\"displayName\":\"own\",\"members\":[{{\"value\":\"{user}\"}}]}}");
        let group = made(&address, "Groups", &group);
        let text = String::from_utf8_lossy(rest).replace("$USER", &user).replace("$GROUP", &group);
        let requests = text.split('\0').map(|text| {
            let (line, body) = text.split_once('\n').unwrap_or((text, ""));
            request(line, body.as_bytes())
        });
        requests.flatten().collect()
    };
    for (status, body) in exchange(&address, &stream) {
        assert!((200..500).contains(&status), "{status} {body}");
        assert!(
            status < 400 || body.is_null() || body["status"].as_str() == Some(&*status.to_string()),
            "{status} {body}"
        );
    }
    let after = exchange(&address, &request("GET /scim/v2/ServiceProviderConfig", b""));
    assert!(matches!(after[..], [(200, _)]), "{after:?}");
}
