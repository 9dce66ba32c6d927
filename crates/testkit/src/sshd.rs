//! A real SSH server: `sshd` on loopback, which lets this user in with a key.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{Need, Scratch, lacks};

/// A running server, ended when dropped.
pub struct Sshd {
    process: Child,
    folder: Scratch,
    /// Its port on 127.0.0.1.
    pub port: u16,
}

impl Sshd {
    /// Starts a server. None where there is no sshd.
    pub fn start() -> Option<Sshd> {
        if lacks(Need::Program("sshd")) || lacks(Need::Program("ssh")) {
            return None;
        }
        let folder = Scratch::new();
        for name in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.join(name))
                .status()
                .unwrap();
            assert!(made.success());
        }
        std::fs::copy(folder.join("user.pub"), folder.join("authorized_keys")).unwrap();
        if rustix::process::geteuid().is_root() {
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        // Free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = folder.path().display();
        let configuration = folder.file(
            "sshd_config",
            format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {path}/host\nPidFile {path}/pid\nUsePAM no\nStrictModes no\n\
                 AuthorizedKeysFile {path}/authorized_keys\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 PermitRootLogin prohibit-password\nMaxStartups 200\nMaxSessions 200\n"
            ),
        );
        let program = crate::need::program("sshd").unwrap();
        let process = Command::new(program)
            .args(["-D", "-e", "-f"])
            .arg(configuration)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        folder.file(
            "ssh_config",
            format!(
                "Host *\n  IdentityFile {path}/user\n  IdentitiesOnly yes\n  UserKnownHostsFile {path}/known_hosts\n  \
                 StrictHostKeyChecking accept-new\n  LogLevel ERROR\nHost gen1 gen2\n  HostName 127.0.0.1\n  Port {port}\n"
            ),
        );
        let ssh = folder.file(
            "bin/ssh",
            format!(
                "#!/bin/sh\nexec {} -F {path}/ssh_config \"$@\"\n",
                crate::need::program("ssh").unwrap().display()
            ),
        );
        std::fs::set_permissions(ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
        let server = Sshd { process, folder, port };
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("sshd does not listen on port {port}");
    }

    /// A search path in which `ssh` trusts this server, has its key, and knows it as `gen1` and `gen2`.
    pub fn search_path(&self) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        format!("{}:{path}", PathBuf::from(self.folder.path()).join("bin").display())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
