//! A real NATS server on loopback.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;

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

/// What a configuration has for TLS with this certificate and its key, and `more` words.
pub fn tls(certificate: &Path, key: &Path, more: &str) -> String {
    let quoted = |file: &Path| format!("{:?}", file.display().to_string());
    format!("tls {{ cert_file: {}, key_file: {}{more} }}\n", quoted(certificate), quoted(key))
}

/// The seed and the public key of a new user.
pub fn nkey() -> (String, String) {
    let pair = KeyPair::new_user();
    (pair.seed().unwrap(), pair.public_key())
}

/// The configuration of a server whose users have JWTs, as `nsc` makes it, and the credentials file of one of them.
pub fn jwt_accounts() -> (String, String) {
    let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
    let unlimited = r#""subs":-1,"data":-1,"payload":-1"#;
    let limits = format!(r#"{{{unlimited},"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}}"#);
    let of_operator = jwt(&operator, &operator, r#""type":"operator""#);
    let of_account = jwt(&operator, &account, &format!(r#""type":"account","limits":{limits}"#));
    let of_user = jwt(&account, &user, &format!(r#""type":"user",{unlimited}"#));
    let configuration = format!(
        "operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {}: {of_account} }}\n",
        account.public_key()
    );
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        user.seed().unwrap()
    );
    (configuration, credentials)
}

/// A token of the second version of NATS: what `issuer` claims about `subject`, signed by it.
fn jwt(issuer: &KeyPair, subject: &KeyPair, claims: &str) -> String {
    let (by, of) = (issuer.public_key(), subject.public_key());
    let claims = format!(
        r#"{{"jti":"{of}","iat":1700000000,"iss":"{by}","sub":"{of}","name":"test","nats":{{{claims},"version":2}}}}"#
    );
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"ed25519-nkey"}"#),
        URL_SAFE_NO_PAD.encode(claims)
    );
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
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
