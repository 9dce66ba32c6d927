//! toxiproxy, controlled over its HTTP interface.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// A running toxiproxy with one proxy, on CPU 1.
pub(crate) struct Toxiproxy {
    pub(crate) child: Child,
    pub(crate) version: String,
    pub(crate) address: SocketAddr,
    control: SocketAddr,
}

impl Toxiproxy {
    /// None if it is not installed.
    pub(crate) fn start(target: SocketAddr) -> Option<Toxiproxy> {
        let program = testkit::need::program("toxiproxy-server")?;
        let beside = program.with_file_name("version");
        let control = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new("taskset")
            .args(["-c", "1"])
            .arg(program)
            .args(["-host", "127.0.0.1", "-port", &control.port().to_string()])
            .env("GOMAXPROCS", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut peer = Toxiproxy { child, version: String::new(), address: target, control };
        let mut tries = 0;
        while TcpStream::connect(control).is_err() {
            tries += 1;
            assert!(tries < 100, "toxiproxy does not listen on {control}");
            std::thread::sleep(Duration::from_millis(50));
        }
        let version = peer.ask("GET", "/version", &Value::Null);
        peer.version = version.as_str().or(version["version"].as_str()).unwrap_or("unknown").to_string();
        // One that is built with Go reports "git"; .ci/toxiproxy writes its version beside it.
        if let Ok(version) = std::fs::read_to_string(beside) {
            peer.version = version.trim().to_string();
        }
        let proxy = json!({"name": "bench", "listen": "127.0.0.1:0", "upstream": target.to_string(), "enabled": true});
        let proxy = peer.ask("POST", "/proxies", &proxy);
        peer.address = proxy["listen"].as_str().expect("an address").parse().unwrap();
        Some(peer)
    }

    /// Delays what goes to the client.
    pub(crate) fn set_latency(&self, latency_ms: u64) {
        let toxic = json!({
            "name": "delay", "type": "latency", "stream": "downstream", "attributes": {"latency": latency_ms},
        });
        assert_eq!(self.ask("POST", "/proxies/bench/toxics", &toxic)["name"], "delay");
    }

    pub(crate) fn clear(&self) {
        self.ask("DELETE", "/proxies/bench/toxics/delay", &Value::Null);
    }

    /// The body of an answer: JSON, or a text.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(self.control).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.control,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.trim().into()))
    }
}

impl Drop for Toxiproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
