//! A real web server: `nginx`, in a scratch folder, on loopback, with one process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Need, Scratch, lacks};

/// A running server, ended when dropped. Its methods panic when it does not start, which is a failed test.
pub struct Nginx {
    process: Child,
    /// The folder of its files. It serves those in it.
    pub folder: Scratch,
    /// Its port on 127.0.0.1.
    pub port: u16,
}

impl Nginx {
    /// Starts a server with the files of a folder, and these lines of configuration: of `http`, and of `server`.
    /// `listen` is what follows the port, such as `ssl`. None where there is no nginx.
    pub fn start(folder: Scratch, listen: &str, http: &str, server: &str) -> Option<Nginx> {
        if lacks(Need::Program("nginx")) {
            return None;
        }
        // Free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = folder.path().display();
        let configuration = folder.file(
            "nginx.conf",
            format!(
                "daemon off; master_process off; pid {path}/pid; error_log stderr;
                 events {{ worker_connections 4096; }}
                 http {{ access_log off; client_body_temp_path {path}/b; proxy_temp_path {path}/p;
                   fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; scgi_temp_path {path}/s; {http}
                   server {{ listen 127.0.0.1:{port} {listen}; root {path}; {server} }} }}"
            ),
        );
        let process = start(&configuration);
        let nginx = Nginx { process, folder, port };
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(nginx);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("nginx does not listen on port {port}");
    }
}

impl Nginx {
    /// Its process, which is the only one.
    pub fn process(&self) -> u32 {
        self.process.id()
    }
}

fn start(configuration: &Path) -> Child {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let mut command = Command::new("nginx");
    command.env("PATH", path).args(["-e", "stderr", "-c"]).arg(configuration).stderr(Stdio::null());
    command.spawn().unwrap()
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::QUIT);
        let _ = self.process.wait();
    }
}
