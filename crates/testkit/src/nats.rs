//! A real NATS server on loopback.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{Need, Scratch, lacks};

/// A running server, ended when dropped.
pub struct NatsServer {
    process: Child,
    /// Its files.
    pub folder: Scratch,
    /// Its port on 127.0.0.1.
    pub port: u16,
    monitor: u16,
}

/// What a configuration has for JetStream.
pub const JETSTREAM: &str = "jetstream { store_dir: STORE }";

/// The seed and the public key of a new user.
pub fn nkey() -> (String, String) {
    let pair = nkeys::KeyPair::new_user();
    (pair.seed().unwrap(), pair.public_key())
}

impl NatsServer {
    /// Starts a server with this configuration besides its port; `STORE` in it is a folder of its own. None where there is no
    /// nats-server.
    pub fn start(folder: Scratch, configuration: &str) -> Option<NatsServer> {
        if lacks(Need::Program("nats-server")) {
            return None;
        }
        // Free a moment ago.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let ports = [free(), free()].map(|listener| listener.local_addr().unwrap().port());
        let [port, monitor] = ports;
        let store = format!("{:?}", folder.join("store").display().to_string());
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\n{}\n",
            configuration.replace("STORE", &store)
        );
        let path = folder.file("nats.conf", text);
        let log = std::fs::File::create(folder.join("nats.log")).unwrap();
        let process = Command::new(crate::need::program("nats-server").unwrap())
            .arg("-c")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = NatsServer { process, folder, port, monitor };
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("nats-server does not listen on port {port}: {}", server.folder.text("nats.log"));
    }

    /// What the server says about itself at a path of its monitoring port, such as `/jsz`.
    pub fn monitored(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.monitor)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_string()
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
