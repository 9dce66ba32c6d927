//! The files of this process's experiment that are Plimsoll's: what a later trial may take for granted about them, and
//! what becomes of them in the end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use engine::workload::{LoadError, Made, Remains, find as find_made};
use files::{Identity, Named};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::failure::failed;
use super::mark::{Beside, Mark};
use super::settings::DiskPlan;
use super::target::Place;

/// Those of this process by device and inode, as long as a workload has them.
static OWN: Mutex<BTreeMap<Identity, Weak<Own>>> = Mutex::new(BTreeMap::new());

/// A file that is Plimsoll's.
#[derive(Debug)]
pub(super) struct Own {
    /// Open, so that no other file can have its identity.
    file: File,
    place: Arc<Place>,
    identity: Identity,
    /// Made by this process, not found.
    is_made_here: bool,
    recognizable: AtomicBool,
}

impl Own {
    /// Whether all that was written so far can be recognized; else only the identity says whose it is.
    pub(super) fn is_recognizable(&self) -> bool {
        self.recognizable.load(Ordering::Relaxed)
    }
}

/// The file with this identity, when it is one of this process's.
pub(super) fn find(identity: Identity) -> Option<Arc<Own>> {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.get(&identity).and_then(Weak::upgrade)
}

/// Remembers an open file as Plimsoll's. `plan` is what will be written to it.
fn remember(file: File, place: Arc<Place>, is_made_here: bool, plan: &DiskPlan) -> io::Result<Arc<Own>> {
    let identity = Identity::of(&file)?;
    let known = find(identity);
    let own = known.unwrap_or_else(|| {
        // Says to `remains` in another process that it is in use. A file system without locks lets it be removed.
        let _ = flock(&file, FlockOperation::NonBlockingLockShared);
        let own = Arc::new(Own { file, place, identity, is_made_here, recognizable: AtomicBool::new(true) });
        let mut all = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, own| own.strong_count() > 0);
        all.insert(identity, Arc::downgrade(&own));
        own
    });
    if !plan.is_recognizable() {
        own.recognizable.store(false, Ordering::Relaxed);
    }
    Ok(own)
}

/// What is to become of a file in the end.
#[derive(Debug)]
pub(super) struct OwnFile {
    path: PathBuf,
    place: Arc<Place>,
    own: Arc<Own>,
    is_temporary: bool,
    is_written: bool,
}

impl OwnFile {
    /// Of an open file at its place.
    ///
    /// # Errors
    /// When the kernel cannot say which file it is.
    pub(super) fn new(
        (path, place): (PathBuf, Arc<Place>),
        file: File,
        plan: &DiskPlan,
        (is_made, is_written, is_temporary): (bool, bool, bool),
    ) -> io::Result<Self> {
        let own = remember(file, Arc::clone(&place), is_made, plan)?;
        // The folder that an earlier trial holds open, unless the file has been moved since.
        let place = if own.place.is_same(&place) { Arc::clone(&own.place) } else { place };
        Ok(OwnFile { path, place, own, is_temporary, is_written })
    }

    /// What a journal is to know of it: made for so many bytes.
    ///
    /// # Errors
    /// When the kernel cannot say which file it is.
    pub(super) fn announcement(&self, bytes: u64) -> io::Result<Made> {
        let path = self.place.directory.path().join(&self.place.name);
        Made::new(&path, &self.own.file, bytes, !self.is_temporary)
    }

    /// Marks it as Plimsoll's, with headers of blocks of `unit` bytes, and as being written if it is.
    ///
    /// # Errors
    /// When the mark can be neither in an attribute nor beside the file.
    pub(super) fn mark(&self, unit: u64, is_being_written: bool) -> Result<(), LoadError> {
        let (file, beside) = (&self.own.file, self.place.beside());
        let marked = Mark::writing(unit, self.is_temporary).write(file, &beside);
        let marked =
            if is_being_written { marked } else { marked.and_then(|()| Mark::finish(file, &beside)) };
        marked.map_err(|error| failed("mark", &self.path, &error))
    }

    /// Removes it when it was not to be kept, and else says in its mark that nobody writes it any more. A file that this
    /// process found is removed only when it wrote to it and it is still Plimsoll's in all; one that took its name stays.
    ///
    /// # Errors
    /// When it may not be removed or marked, or something else has written to it.
    pub(super) fn clean_up(&self) -> Result<(), LoadError> {
        let (path, file, beside) = (&self.path, &self.own.file, self.place.beside());
        if !self.is_temporary {
            return match self.is_written {
                true => Mark::finish(file, &beside).map_err(|error| failed("mark", path, &error)),
                false => Ok(()),
            };
        }
        if !self.own.is_made_here {
            // An earlier trial of this process may have removed it.
            let is_there = self.place.directory.identity_of(&self.place.name).ok() == Some(self.own.identity);
            if !self.is_written || !is_there {
                return Ok(());
            }
            // What this process wrote since it found the file may be unlike what Plimsoll writes otherwise.
            if self.own.is_recognizable() && !is_proved(file, &beside) {
                return Err(LoadError::new(
                    format!(
                        "`{}` was left by an earlier run and is not removed: it may hold data of others",
                        path.display()
                    ),
                    "look at what it holds, and remove it if you do not need it",
                ));
            }
        }
        match self.place.directory.remove_if(&self.place.name, self.own.identity) {
            Ok(is_removed) => {
                if is_removed {
                    beside.remove();
                }
                Ok(())
            }
            Err(error) => Err(failed("remove", path, &error)),
        }
    }
}

/// Whether an open file is marked as Plimsoll's and the mark is true: see [`Mark::proves`].
fn is_proved(file: &File, beside: &Beside<'_>) -> bool {
    Mark::read(file, beside).is_some_and(|mark| mark.proves(file))
}

/// What there is of a file that an earlier process made, and removes it with `remove` if it is Plimsoll's in all and no run
/// uses it.
pub(super) fn remains(made: &Made, remove: bool) -> Remains {
    let (Named { directory, name, found }, metadata) = match find_made(made) {
        Ok(found) => found,
        Err(remains) => return remains,
    };
    if !metadata.is_file() {
        return Remains::NotRemovable("it is no file".into());
    }
    let opened =
        found.map_or(Err(io::ErrorKind::NotFound.into()), |found| files::reopen(found, OFlags::RDONLY));
    let file = match opened {
        Ok(file) => file,
        Err(error) => return Remains::NotRemovable(error.to_string()),
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Remains::InUse;
    }
    let place = Place { directory, name };
    let beside = place.beside();
    // Made with `keep`, or taken over by a run with it.
    if made.keep || Mark::read(&file, &beside).is_some_and(|mark| !mark.temporary) {
        return Remains::Kept;
    }
    // A kill may come between the making of a file and its mark.
    let is_empty = metadata.len() == 0 && metadata.nlink() == 1;
    if !is_empty && !is_proved(&file, &beside) {
        return Remains::NotRemovable("it holds data that is not recognized as written by Plimsoll".into());
    }
    let bytes = Some(metadata.len());
    if !remove {
        return Remains::Removable(bytes);
    }
    match place.directory.remove_if(&place.name, Identity::of_metadata(&metadata)) {
        Ok(true) => {
            beside.remove();
            Remains::Removed(bytes)
        }
        Ok(false) => Remains::Replaced,
        Err(error) => Remains::NotRemovable(error.to_string()),
    }
}
