//! A PostgreSQL server for tests.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::need::program;
use crate::{Need, lacks};

/// Ends the server and takes its folder away as soon as its input ends, which it does with the process of the tests, however
/// that ends.
const KEEPER: &str =
    "folder=$1; shift; \"$@\" & server=$!; read -r _; kill -INT $server; wait $server; rm -rf \"$folder\"";
/// The programs of the server are beside each other.
const NEED: Need<'static> = Need::Program("initdb");
/// How long a server may take to begin.
const BEGIN: Duration = Duration::from_secs(60);

/// A separate server in a scratch folder with a socket there.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
}

impl Postgres {
    /// The server of this process, which is started at its first use and lives as long as the process; `None` where
    /// PostgreSQL is not installed, which is recorded as a skip.
    pub fn of_process() -> Option<&'static Postgres> {
        static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
        if lacks(NEED) {
            return None;
        }
        SERVER.get_or_init(|| Postgres::start(&["fsync=off", "shared_buffers=32MB"])).as_ref()
    }

    /// The folder that holds the server's socket and its data in `data`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How it is reached by its superuser, in words of libpq.
    pub fn connection(&self) -> String {
        format!("host={} user=plimsoll dbname=postgres", self.folder.display())
    }

    /// A server with these settings, `name=value`, which lives as long as the process. What is installed and does not work
    /// panics: that is a failed test, not a skipped one. `None` where it is not installed, which is recorded as a skip.
    pub fn start(settings: &[&str]) -> Option<Postgres> {
        Postgres::with_files(settings, &[])
    }

    /// A server that speaks TLS on a port of the loopback interface, with a certificate and its key in PEM form; and its port.
    pub fn start_tls(certificate: &str, key: &str) -> Option<(Postgres, u16)> {
        let listener = check("a port", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let port = check("a port", listener.local_addr()).port();
        drop(listener);
        let port_setting = format!("port={port}");
        let settings = [
            "fsync=off",
            "shared_buffers=16MB",
            "listen_addresses=127.0.0.1",
            port_setting.as_str(),
            "ssl=on",
            "ssl_cert_file=../server.pem",
            "ssl_key_file=../server.key",
        ];
        let files = [("server.pem", certificate), ("server.key", key)];
        Some((Postgres::with_files(&settings, &files)?, port))
    }

    /// A server with these files beside its data, which nobody else can read.
    fn with_files(settings: &[&str], files: &[(&str, &str)]) -> Option<Postgres> {
        if lacks(NEED) {
            return None;
        }
        let initdb = program("initdb")?;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("plimsoll-pg-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        check("the folder", fs::create_dir(&folder));
        let owner = unprivileged();
        if let Some((user, group)) = owner {
            check("the folder's owner", chown(&folder, Some(user), Some(group)));
        }
        for (name, content) in files {
            let path = folder.join(name);
            check(name, fs::write(&path, content));
            check(name, fs::set_permissions(&path, fs::Permissions::from_mode(0o600)));
            if let Some((user, group)) = owner {
                check(name, chown(&path, Some(user), Some(group)));
            }
        }
        let data = folder.join("data");
        let log = folder.join("log");
        let as_owner = |command: &mut Command| {
            if let Some((user, group)) = owner {
                command.uid(user).gid(group);
            }
            // A folder that this user may not look into is no place to begin in.
            command.current_dir(&folder).env_remove("PGPASSWORD");
        };
        let mut make = Command::new(&initdb);
        as_owner(make.args(["--no-sync", "--auth=trust", "--username=plimsoll", "--encoding=UTF8"]));
        let made = check("initdb", make.args(["--locale=C", "--pgdata"]).arg(&data).output());
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut serve = Command::new("/bin/sh");
        as_owner(serve.args(["-c", KEEPER, "keeper"]).arg(&folder).arg(initdb.with_file_name("postgres")));
        serve.arg("-D").arg(&data).arg("-k").arg(&folder);
        serve.args(["-c", "listen_addresses="]).args(settings.iter().flat_map(|setting| ["-c", setting]));
        let output = check("the log", File::create(&log));
        serve.stdout(check("the log", output.try_clone())).stderr(output).stdin(Stdio::piped());
        // Its input stays open as long as this process lives.
        std::mem::forget(check("the server", serve.spawn()));
        let is_ready = || {
            // The last line of this file is how it stands.
            let reported = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
            reported.lines().nth(7).is_some_and(|line| line.trim() == "ready")
        };
        let begin = Instant::now();
        while !is_ready() {
            let reported = || fs::read_to_string(&log).unwrap_or_default();
            assert!(begin.elapsed() < BEGIN, "PostgreSQL did not start: {}", reported());
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Postgres { folder })
    }
}

/// For root, which PostgreSQL refuses to run as: user and group of `postgres` or of `nobody`.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    of("postgres").or_else(|| of("nobody")).or(Some((65_534, 65_534)))
}

fn check<T>(what: &str, result: std::io::Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("PostgreSQL for tests: {what}: {error}"),
    }
}
