//! Running programs to be measured: what they print, the time and memory they took.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::files::Repository;

/// Builds the program, optimized, and returns its path.
pub(crate) fn plimsoll(repository: &Repository) -> Result<PathBuf, String> {
    cargo(repository, &["build", "--release", "--locked", "-p", "plimsoll-cli"])?;
    Ok(target(repository).join("release/plimsoll"))
}

/// The folder of what is built.
pub(crate) fn target(repository: &Repository) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.root().join("target"), PathBuf::from)
}

/// Runs cargo in the repository.
pub(crate) fn cargo(repository: &Repository, arguments: &[&str]) -> Result<(), String> {
    cargo_with(repository, arguments, &[])
}

/// The same with variables of the environment.
pub(crate) fn cargo_with(
    repository: &Repository,
    arguments: &[&str],
    environment: &[(String, String)],
) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(repository.root());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    // What `cargo run` says of the chore: build scripts that look at these would run again, and what depends on them be built anew.
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    let status = command.status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo {}: {status}", arguments.join(" "))),
        Err(error) => Err(format!("cargo {}: {error}", arguments.join(" "))),
    }
}

/// Runs cargo in the repository and returns what it prints.
pub(crate) fn printed(repository: &Repository, arguments: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(repository.root())
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo {}: {error}", arguments.join(" ")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("cargo {}: {}", arguments.join(" "), output.status)),
    }
}

/// Runs a program in `folder` and returns the JSON it prints; what comes before the first line that is `{` is left out.
pub(crate) fn json(program: &Path, arguments: &[String], folder: &Path) -> Result<Value, String> {
    let shown = || format!("{} {}", program.display(), arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("{}: {error}", shown()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let begin = text
        .find("{\n")
        .ok_or_else(|| format!("{} printed no JSON: {}", shown(), String::from_utf8_lossy(&output.stderr)))?;
    serde_json::from_str(&text[begin..]).map_err(|error| format!("{}: {error}", shown()))
}

/// Clock ticks of a second in `/proc`, the same on every Linux.
const TICKS_PER_S: f64 = 100.0;

/// Two fields of a process's `stat` after the one with this number counted from 1, as microseconds: 13 for user and system time of
/// the process, 15 for those of its children that ended.
pub(crate) fn cpu_us(process: &str, after: usize) -> Result<f64, String> {
    let (user, system) = cpu_times_us(process, after)?;
    Ok(user + system)
}

/// The same two apart: user and system time, microseconds.
pub(crate) fn cpu_times_us(process: &str, after: usize) -> Result<(f64, f64), String> {
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // The second field, a name in brackets, may hold blanks.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: Vec<f64> = fields.skip(after - 2).take(2).filter_map(|field| field.parse().ok()).collect();
    match ticks.as_slice() {
        [user, system] => Ok((user / TICKS_PER_S * 1e6, system / TICKS_PER_S * 1e6)),
        _ => Err(format!("{path} holds no times")),
    }
}

/// CPU time of a process, of its children, of theirs, and of those that ended, microseconds.
pub(crate) fn family_cpu_us(process: &str) -> Result<f64, String> {
    let mut sum = cpu_us(process, 13)? + cpu_us(process, 15)?;
    // Its threads each have children of their own.
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        // One that ends in between is counted by its parent the next time.
        sum += children.split_whitespace().filter_map(|child| family_cpu_us(child).ok()).sum::<f64>();
    }
    Ok(sum)
}

/// The most memory that a process has used, in MiB; none if it has ended.
pub(crate) fn peak_mib(process: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}

/// Median of some values; the mean of the middle two for an even number.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// A folder that is removed in the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// On the disk that the repository is on, as `/tmp` may be memory.
    pub(crate) fn new(repository: &Repository, name: &str) -> Result<Folder, String> {
        let path = repository.root().join("target").join(format!("bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind is in `target`, where `cargo clean` finds it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program of the testkit with servers, which end when this is dropped.
pub(crate) struct Servers {
    child: Child,
    reported: BTreeMap<String, String>,
}

impl Servers {
    /// Builds and starts it, and waits until its servers are ready.
    pub(crate) fn start(repository: &Repository, name: &str, arguments: &[&str]) -> Result<Servers, String> {
        cargo(
            repository,
            &["build", "--release", "--locked", "-q", "-p", "plimsoll-testkit", "--bin", name],
        )?;
        let program = target(repository).join("release").join(name);
        let mut child = Command::new(&program)
            .args(arguments)
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
        Err(format!("{name} did not start its servers; why is said above"))
    }

    /// Something that it reported of them.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.reported.get(name).map_or("", String::as_str)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // They live until their input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A process that is ended with its case.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
