//! `restore.jsonl`: what was changed on the host, written and synced *before* the change, so that a run killed at any
//! moment can be undone.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::RecordError;

/// One line of the journal. The undo itself is data of the engine's; the record keeps it as it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<U> {
    /// Something is about to be changed; this is how to put it back.
    Pending {
        id: u64,
        factor: String,
        /// The process that is about to change it, and its start in clock ticks since boot.
        process: u32,
        started_ticks: u64,
        undo: U,
    },
    /// It was put back.
    Undone { id: u64 },
}

/// An undo that was announced and not reported done.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending<U> {
    /// Its number in the journal.
    pub id: u64,
    /// Which factor changed it.
    pub factor: String,
    /// The process that changed it.
    pub process: u32,
    /// That process's start, in clock ticks since boot.
    pub started_ticks: u64,
    /// How to put it back.
    pub undo: U,
}

/// The journal of one run directory.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    next_id: u64,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Journal, RecordError> {
        let next_id = match std::fs::read_to_string(path) {
            Ok(text) => lines::<serde_json::Value>(&text)
                .map(|line| match line {
                    Line::Pending { id, .. } | Line::Undone { id } => id,
                })
                .max()
                .unwrap_or(0),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(RecordError::io("read", path)(error)),
        } + 1;
        let mut file =
            OpenOptions::new().create(true).append(true).open(path).map_err(RecordError::io("open", path))?;
        // A line cut short by a kill must not swallow the next one.
        let cut_short =
            std::fs::read(path).is_ok_and(|bytes| bytes.last().is_some_and(|byte| *byte != b'\n'));
        if cut_short {
            file.write_all(b"\n").map_err(RecordError::io("write", path))?;
        }
        Ok(Journal { path: path.to_path_buf(), file, next_id })
    }

    /// Writes down how to undo a change that is about to be made, and syncs it. The change may be made once this
    /// returned; the number is for [`Journal::undone`].
    pub fn pending<U: Serialize>(
        &mut self,
        factor: &str,
        process: u32,
        started_ticks: u64,
        undo: &U,
    ) -> Result<u64, RecordError> {
        let id = self.next_id;
        self.next_id += 1;
        self.append(&Line::Pending { id, factor: factor.into(), process, started_ticks, undo })?;
        Ok(id)
    }

    /// Writes down that a change was undone.
    pub fn undone(&mut self, id: u64) -> Result<(), RecordError> {
        self.append(&Line::<()>::Undone { id })
    }

    fn append<U: Serialize>(&mut self, line: &Line<U>) -> Result<(), RecordError> {
        let mut text = serde_json::to_vec(line).map_err(|error| RecordError::malformed(&self.path, error))?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(RecordError::io("write", &self.path))?;
        self.file.sync_data().map_err(RecordError::io("sync", &self.path))
    }

    /// What was announced and not undone in the run directory `directory`, the latest first: the order to undo it in.
    pub fn read_pending<U: for<'de> Deserialize<'de>>(
        directory: &Path,
    ) -> Result<Vec<Pending<U>>, RecordError> {
        let path = directory.join("restore.jsonl");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(RecordError::io("read", &path)(error)),
        };
        let mut pending: Vec<Pending<U>> = Vec::new();
        for line in lines::<U>(&text) {
            match line {
                Line::Pending { id, factor, process, started_ticks, undo } => {
                    pending.push(Pending { id, factor, process, started_ticks, undo });
                }
                Line::Undone { id } => pending.retain(|line| line.id != id),
            }
        }
        pending.reverse();
        Ok(pending)
    }
}

/// The lines that can be read. One that was cut short announced a change that was not made: the line is synced first.
fn lines<U: for<'de> Deserialize<'de>>(text: &str) -> impl Iterator<Item = Line<U>> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_undone_is_pending_latest_first() {
        let folder = std::env::temp_dir().join(format!("plimsoll-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("restore.jsonl");
        let _ = std::fs::remove_file(&path);
        let mut journal = Journal::open(&path).unwrap();
        let first = journal.pending("host.cpus", 7, 70, &vec!["a"]).unwrap();
        journal.pending("host.disk.io_limit", 7, 70, &vec!["b"]).unwrap();
        let third = journal.pending("host.cpus", 7, 70, &vec!["c"]).unwrap();
        journal.undone(first).unwrap();
        drop(journal);
        // A kill in the middle of a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"pending\":{\"id\":9,").unwrap();
        let pending = Journal::read_pending::<Vec<String>>(&folder).unwrap();
        let seen: Vec<&str> = pending.iter().map(|line| line.undo[0].as_str()).collect();
        assert_eq!(seen, ["c", "b"]);
        // The next line is not swallowed by it, and its number is new.
        let mut journal = Journal::open(&path).unwrap();
        journal.undone(third).unwrap();
        assert!(journal.pending("x", 1, 1, &vec!["d"]).unwrap() > third);
        let pending = Journal::read_pending::<Vec<String>>(&folder).unwrap();
        assert_eq!(pending.iter().map(|line| line.undo[0].as_str()).collect::<Vec<_>>(), ["d", "b"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
