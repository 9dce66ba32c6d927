//! The directory and the database that both work with.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::Sample;
use crate::files::Repository;
use crate::program::{self, cpu_us, family_cpu_us};

/// Settings of the database server, the same for both: what it was installed with is for the smallest machine.
pub(super) const SETTINGS: [&str; 2] = ["shared_buffers=1GB", "max_wal_size=8GB"];

/// `servers` of the testkit.
pub(super) struct Servers(program::Servers);

impl Servers {
    /// A directory with the entries of a file, and an empty database server.
    pub(super) fn start(repository: &Repository, ldif: &Path) -> Result<Servers, String> {
        let ldif = ldif.display().to_string();
        let mut arguments = vec!["--ldif", &ldif];
        arguments.extend(SETTINGS.iter().flat_map(|setting| ["--setting", setting]));
        program::Servers::start(repository, "servers", &arguments).map(Servers)
    }

    /// Something that they reported of themselves.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name)
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
