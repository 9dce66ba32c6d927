//! The directory and the database that both work with.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::Sample;
use crate::files::Repository;
use crate::program::{cargo, cpu_us, family_cpu_us, target};

/// Settings of the database server, the same for both: what it was installed with is for the smallest machine.
pub(super) const SETTINGS: [&str; 2] = ["shared_buffers=1GB", "max_wal_size=8GB"];

/// `servers` of the testkit, which ends when this is dropped.
pub(super) struct Servers {
    child: Child,
    reported: BTreeMap<String, String>,
}

impl Servers {
    /// A directory with the entries of a file, and an empty database server.
    pub(super) fn start(repository: &Repository, ldif: &Path) -> Result<Servers, String> {
        cargo(
            repository,
            &["build", "--release", "--locked", "-q", "-p", "plimsoll-testkit", "--bin", "servers"],
        )?;
        let program = target(repository).join("release/servers");
        let mut command = Command::new(&program);
        command.arg("--ldif").arg(ldif).args(SETTINGS.iter().flat_map(|setting| ["--setting", setting]));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let output = child.stdout.take();
        let mut servers = Servers { child, reported: BTreeMap::new() };
        for line in output.map(BufReader::new).into_iter().flat_map(BufRead::lines) {
            let line = line.map_err(|error| error.to_string())?;
            match line.split_once(' ') {
                Some((name, value)) => drop(servers.reported.insert(name.into(), value.into())),
                None => return Ok(servers),
            }
        }
        Err("the directory or the database server did not start; why is said above".into())
    }

    /// Something that they reported of themselves.
    pub(super) fn get(&self, name: &str) -> &str {
        self.reported.get(name).map_or("", String::as_str)
    }

    /// A folder on the disk of the database.
    pub(super) fn folder(&self) -> &Path {
        Path::new(self.get("database-folder"))
    }

    /// What they are.
    pub(super) fn versions(&self) -> Result<String, String> {
        let database = self.sql("postgres", "SELECT current_setting('server_version')")?;
        let reported = Command::new("/usr/sbin/slapd").arg("-VV").output();
        let reported = reported.map_err(|error| format!("slapd: {error}; apt-get install slapd"))?;
        let text = String::from_utf8_lossy(&reported.stderr);
        // "@(#) $OpenLDAP: slapd 2.5.13+dfsg-5 (Feb  8 2023 01:56:12) $"
        let slapd = text.split("slapd ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let version = database.split_whitespace().next().unwrap_or("of unknown version");
        Ok(format!("slapd {}, PostgreSQL {version}", slapd.unwrap_or("of unknown version")))
    }

    /// Makes an empty database, and waits until the server has nothing left to write.
    pub(super) fn make_database(&self, name: &str) -> Result<(), String> {
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        self.sql("postgres", "CHECKPOINT").map(drop)
    }

    /// The answer of a statement, a line for each row.
    pub(super) fn sql(&self, database: &str, statement: &str) -> Result<String, String> {
        let output = Command::new("psql")
            .args(["-X", "-A", "-t", "-q", "-h", self.get("database-host"), "-p", self.get("database-port")])
            .args(["-U", self.get("database-user"), "-d", database, "-c", statement])
            .output()
            .map_err(|error| format!("psql: {error}; apt-get install postgresql-client"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
            false => Err(format!("{statement}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    /// Times some work from outside. `cpu_us` returns the CPU time of the measured process so far.
    pub(super) fn timed<T>(
        &self,
        cpu: impl Fn() -> Result<f64, String>,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<(T, Sample), String> {
        let directory = || cpu_us(self.get("directory-process"), 13);
        let database = || family_cpu_us(self.get("database-process"));
        let (cpu_before, directory_before, database_before) = (cpu()?, directory()?, database()?);
        let begin = Instant::now();
        let done = work()?;
        let sample = Sample {
            elapsed: begin.elapsed(),
            cpu_us: cpu()? - cpu_before,
            directory_cpu_us: directory()? - directory_before,
            database_cpu_us: database()? - database_before,
        };
        Ok((done, sample))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // They live until their input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
