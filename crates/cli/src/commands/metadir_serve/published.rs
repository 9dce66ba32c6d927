//! What `serve` publishes for `status`: a locked file beside the store, or beside the configuration if the store is on a
//! server. The lock shows that the process lives.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use metadir::config::{Config, Database};
use serde_json::Value;

use crate::carry_out::Failure;

/// The limit of what is read.
const BYTES_MAX: u64 = 1 << 20;

fn path(config: &Config, file: &str) -> PathBuf {
    let beside = match &config.store.database {
        Database::Sqlite { path, .. } => path.as_path(),
        Database::Postgres { .. } => Path::new(file),
    };
    let mut name = beside.as_os_str().to_owned();
    name.push(".serve");
    name.into()
}

/// The locked file.
pub(super) struct Published {
    file: File,
    last: String,
}

impl Published {
    /// Takes the lock: only one process serves a metadirectory.
    pub(super) fn begin(config: &Config, configuration: &str) -> Result<Published, Failure> {
        let path = path(config, configuration);
        let cannot = |error: std::io::Error| {
            Failure::failed(format!(
                "{} cannot be written: {error}\n  let this user write to its folder",
                path.display()
            ))
        };
        let private = files::private::file(&path).map_err(cannot)?;
        let file = File::options().read(true).write(true).open(private).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => Ok(Published { file, last: String::new() }),
            Err(std::fs::TryLockError::Error(error)) => Err(cannot(error)),
            Err(std::fs::TryLockError::WouldBlock) => {
                let process = look(config, configuration).and_then(|value| value["process"].as_u64());
                let process = process.map_or("another process".into(), |number| format!("process {number}"));
                Err(Failure::failed(format!(
                    "{process} serves this metadirectory already\n  plimsoll metadir status shows what it does; stop it first"
                )))
            }
        }
    }

    /// Replaces what is published. A reader may see an incomplete text, and then reads it again.
    pub(super) fn publish(&mut self, value: &Value) {
        let text = value.to_string();
        if text == self.last {
            return;
        }
        // An error has no effect on the runs: readers see what was published before.
        let written = self
            .file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.write_all(text.as_bytes()))
            .and_then(|()| self.file.set_len(text.len() as u64));
        if written.is_ok() {
            self.last = text;
        }
    }
}

/// What the process that serves a metadirectory published; none if no process does.
pub(crate) fn look(config: &Config, configuration: &str) -> Option<Value> {
    let mut file = File::open(path(config, configuration)).ok()?;
    if file.try_lock_shared().is_ok() {
        return None;
    }
    for _ in 0..10 {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).ok()?;
        if (&mut file).take(BYTES_MAX).read_to_string(&mut text).is_ok()
            && let Ok(value) = serde_json::from_str(&text)
        {
            return Some(value);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Some(Value::Null)
}

/// The lines of `status` about the process that serves a metadirectory.
pub(crate) fn lines(value: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let moment = |value: &Value| value.as_i64().map(super::state::time);
    let process = value["process"].as_u64().map_or("starting".into(), |number| format!("process {number}"));
    let since = moment(&value["since_unix_s"]).map(|since| format!(", since {since}")).unwrap_or_default();
    let mut lines = vec![format!("serve: {process}{since}")];
    lines.extend(text(&value["health"]).lines().filter(|line| *line != "ok").map(|line| format!("  {line}")));
    for run in value["runs"].as_array().into_iter().flatten() {
        let name = text(&run["run"]);
        let now = match value["running"].as_str() {
            Some(running) if running == name => "runs now".into(),
            _ => format!("next {}", text(&run["next"])),
        };
        let last = match (text(&run["result"]).as_str(), moment(&run["began_unix_s"])) {
            ("", _) | (_, None) => "no run yet".into(),
            (result, Some(began)) => format!("last {began}: {result}"),
        };
        lines.push(format!("  {name}: {now}; {last}"));
    }
    lines
}
