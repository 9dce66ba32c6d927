//! What binds a journal to its run directory: a random identity that is in both, as long as the run is not
//! complete. Device and inode would not do, because a file system gives a new directory the inode of a deleted
//! one. A directory keeps its identity when it is moved or copied.

use std::io::Write;
use std::path::{Path, PathBuf};

use files::{Directory, PRIVATE_FILE};
use serde::{Deserialize, Serialize};

use crate::{RecordError, check_format};

/// The file in the run directory.
const FILE: &str = "unfinished.json";

/// The format identifier of the file.
const FORMAT: &str = "plimsoll.unfinished/1.0";

/// The size limit of the file.
const BYTES_MAX: u64 = 64 << 10;

/// The content of the file. It may come from anybody: it is compared and reported, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bond {
    format: String,
    /// The identity, which is in the header of the journal too.
    pub(crate) identity: String,
    /// The host that the run may have changed.
    pub(crate) host: String,
    /// The state folder with the journal.
    pub(crate) state: PathBuf,
}

impl Bond {
    /// A new identity.
    ///
    /// # Errors
    /// When the kernel provides no random bytes.
    pub(crate) fn new(host: String, state: PathBuf) -> std::io::Result<Bond> {
        let identity = files::random_name()? + &files::random_name()?;
        Ok(Bond { format: FORMAT.into(), identity, host, state })
    }

    /// Writes it into a run directory, durably: changes of the host follow.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, run: &Directory) -> Result<(), RecordError> {
        let path = run.path().join(FILE);
        let mut text = serde_json::to_vec(self).map_err(|error| RecordError::malformed(&path, error))?;
        text.push(b'\n');
        let write = || {
            let mut replacement = run.replacement(FILE, PRIVATE_FILE)?;
            replacement.file().write_all(&text)?;
            replacement.finish_durably()
        };
        write().map_err(RecordError::io("write", &path))
    }

    /// That of a directory; none if it is not an unfinished run, or one of a version without identities.
    pub(crate) fn read(run: &Directory) -> Option<Bond> {
        let bytes = run.read(FILE, BYTES_MAX).ok()?;
        let bond: Bond = serde_json::from_slice(&bytes).ok()?;
        check_format(Path::new(FILE), &bond.format, FORMAT).ok()?;
        Some(bond)
    }

    /// Removes it from the directory of a complete run.
    pub(crate) fn remove(run: &Directory) {
        // Without a journal it has no effect.
        let _ = run.remove(FILE);
    }
}
