//! nginx with one small page, on the first CPU.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::program::cpu_us;

/// What the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Protocol {
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 over TLS.
    Http2,
}

/// What the server logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Log {
    Nothing,
    /// A line for each request.
    Requests,
}

/// Stopped in the end.
pub(in crate::bench) struct Server {
    child: Child,
    log: PathBuf,
    pub(in crate::bench) url: String,
    /// The certificate of the authority; none without TLS.
    pub(in crate::bench) authority: Option<PathBuf>,
}

impl Server {
    /// Serves 64 bytes at `url`.
    pub(in crate::bench) fn start(folder: &Path, protocol: Protocol, log: Log) -> Result<Server, String> {
        let text = |error: std::io::Error| error.to_string();
        std::fs::write(folder.join("tiny"), [b'x'; 64]).map_err(text)?;
        // Free a moment ago.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(text)?.port();
        let place = folder.display();
        let authority = match protocol {
            Protocol::Http => None,
            Protocol::Https | Protocol::Http2 => Some(certificates(folder)?),
        };
        let secure = match protocol {
            Protocol::Http => String::new(),
            _ => format!(
                "ssl_certificate {place}/server.pem; ssl_certificate_key {place}/server.key; ssl_session_cache shared:s:1m;"
            ),
        };
        let words = match protocol {
            Protocol::Http => "",
            Protocol::Https => "ssl",
            Protocol::Http2 => "ssl http2",
        };
        let log_file = folder.join("access.log");
        let access = match log {
            Log::Nothing => "off".into(),
            Log::Requests => log_file.display().to_string(),
        };
        let configuration = format!(
            "daemon off; master_process off; pid {place}/pid; error_log stderr crit; worker_rlimit_nofile 65536;
             events {{ worker_connections 32768; }}
             http {{ access_log {access}; keepalive_requests 1000000000; keepalive_timeout 3600; client_body_temp_path {place}/b;
               proxy_temp_path {place}/p; fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
               server {{ listen 127.0.0.1:{port} {words} backlog=32768; {secure} root {place}; }} }}"
        );
        let file = folder.join("nginx.conf");
        std::fs::write(&file, configuration).map_err(text)?;
        let child = nginx()
            .args(["-e", "stderr", "-c"])
            .arg(&file)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("nginx: {error}; apt-get install nginx"))?;
        let scheme = if authority.is_some() { "https" } else { "http" };
        let server =
            Server { child, log: log_file, url: format!("{scheme}://127.0.0.1:{port}/tiny"), authority };
        // A server without a master does not set its affinity itself.
        let pid = server.child.id().to_string();
        let _ = Command::new("taskset").args(["-pc", "0", &pid]).stdout(Stdio::null()).status();
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("nginx does not answer".into())
    }

    /// User and system time so far, microseconds.
    pub(in crate::bench) fn cpu_us(&self) -> Result<f64, String> {
        cpu_us(&self.child.id().to_string(), 13)
    }

    /// The requests that it has logged. All responses have arrived, so that all are in the file.
    pub(in crate::bench) fn logged(&self) -> Result<u64, String> {
        let text = std::fs::read(&self.log).map_err(|error| format!("{}: {error}", self.log.display()))?;
        Ok(text.iter().filter(|byte| **byte == b'\n').count() as u64)
    }

    /// Forgets them. The server appends to the file.
    pub(in crate::bench) fn clear_log(&self) -> Result<(), String> {
        std::fs::File::create(&self.log).map(drop).map_err(|error| error.to_string())
    }

    /// Stops it with a signal, or lets it go on.
    pub(in crate::bench) fn signal(&self, signal: &str) -> Result<(), String> {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("kill {signal}: {other:?}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(in crate::bench) fn nginx() -> Command {
    let mut command = Command::new("nginx");
    let path = std::env::var("PATH").unwrap_or_default();
    // Debian keeps it where only root looks.
    command.env("PATH", format!("{path}:/usr/sbin"));
    command
}

/// An authority and a certificate of the server; returns the file of the authority.
fn certificates(folder: &Path) -> Result<PathBuf, String> {
    let script = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
          -keyout authority.key -out authority.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=127.0.0.1 \
          -keyout server.key -out server.csr
        printf 'subjectAltName=IP:127.0.0.1\\nbasicConstraints=CA:FALSE\\n' > server.ext
        openssl x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 \
          -extfile server.ext -out server.pem";
    let output = Command::new("sh").args(["-c", script]).current_dir(folder).output();
    match output {
        Ok(output) if output.status.success() => Ok(folder.join("authority.pem")),
        Ok(output) => Err(format!("openssl: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("openssl: {error}")),
    }
}
