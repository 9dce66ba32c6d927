//! Running programs to be measured: what they print, the time and memory they took.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::files::Repository;

/// Builds the program, optimized, and tells where it is.
pub(crate) fn plimsoll(repository: &Repository) -> Result<PathBuf, String> {
    cargo(repository, &["build", "--release", "--locked", "-p", "plimsoll-cli"])?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.root().join("target"), PathBuf::from);
    Ok(target.join("release/plimsoll"))
}

/// Runs cargo in the repository.
pub(crate) fn cargo(repository: &Repository, arguments: &[&str]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).current_dir(repository.root()).status();
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
