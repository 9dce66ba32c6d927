//! How far the copy is: hands out blocks and flushes, opens files when their turn comes and finishes them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::allowed::Opener;
use engine::workload::{LoadError, Made};
use files::Identity;
use model::Level;

use super::block::{Block, OpenFile};
use super::failure::failed;
use super::place::{self, Place};
use super::plan::{Places, Plan};
use super::settings::{CopySettings, Flush, SECTOR};

/// Which copy of this process made a file last, and which file it is, by the file's path. A trial may replace what the trial before has copied,
/// and the copy of an earlier trial, cleaned up at the end, must not remove what a later one made.
static MADE: Mutex<BTreeMap<PathBuf, (u64, Identity)>> = Mutex::new(BTreeMap::new());

fn made() -> MutexGuard<'static, BTreeMap<PathBuf, (u64, Identity)>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The copy, shared by its workers.
#[derive(Debug)]
pub(super) struct Progress {
    /// Which copy of this process it is.
    id: u64,
    plan: Plan,
    places: Places,
    opener: Opener,
    pub(super) block_bytes: u32,
    pub(super) direct: bool,
    pub(super) seed: u64,
    sync: Flush,
    overwrite: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The file whose blocks are handed out: its place in the plan, and where its next block begins.
    next: usize,
    offset: u64,
    open: Option<Arc<OpenFile>>,
    /// The destination of the first file, when it was made before the clock started.
    first: Option<File>,
    /// Blocks handed out.
    blocks: u64,
    finished: Vec<bool>,
    files_finished: usize,
    bytes_copied: u64,
    /// Files whose flush was handed out.
    flushes: usize,
}

/// A copy that is over. A later trial may replace it.
#[derive(Debug)]
pub(super) struct Copied {
    id: u64,
}

impl Copied {
    /// From here on what it has copied is the user's.
    pub(super) fn hand_over(self) {
        made().retain(|_, (id, _)| *id != self.id);
    }
}

/// What a worker is to do next.
#[derive(Debug)]
pub(super) enum Next {
    Copy(Block),
    /// Flush this file.
    Sync(File, PathBuf),
    /// Flush the file system of this file.
    SyncAll(File, PathBuf),
    /// Every block is handed out, and the flushes have to wait until the last is copied.
    NotYet,
    Nothing,
}

impl Progress {
    pub(super) fn new(plan: Plan, places: Places, settings: &CopySettings, seed: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let finished = vec![false; plan.files.len()];
        Progress {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            plan,
            places,
            opener: settings.opener.clone(),
            block_bytes: settings.block_bytes,
            direct: settings.direct,
            seed,
            sync: settings.sync,
            overwrite: settings.overwrite,
            state: Mutex::new(State { finished, ..State::default() }),
        }
    }

    /// Removes what an earlier trial has copied to the same place, and takes the source out of the page cache when it is to
    /// be read through it, so that every trial begins alike.
    pub(super) fn begin_as_if_new(&self) -> Result<(), LoadError> {
        for (copy, (from, to)) in self.plan.files.iter().zip(&self.places.files) {
            let earlier = made().remove(&copy.destination);
            if let Some((_, identity)) = earlier {
                to.act(|directory, name| directory.remove_if(name, identity))
                    .map_err(|error| failed("removing", &copy.destination, &error))?;
            }
            if let Some(source) = copy.source.as_ref().filter(|_| !self.direct) {
                let file = open_source(from.as_ref()).map_err(|error| failed("opening", source, &error))?;
                // Advice: a file system that does not take it has no page cache to speak of.
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
        }
        Ok(())
    }

    /// Makes the file of a copy of one file, before the clock starts. Returns what is to be announced before anything is
    /// written: this file, or the folder that the files of a folder go to.
    pub(super) fn begin(&self) -> Result<Option<Made>, LoadError> {
        let bytes = self.plan.bytes;
        if let Some((top, _)) = self.plan.folders.first() {
            let made = place::folder(&self.opener, top)
                .and_then(|folder| Made::new(folder.path(), &folder, bytes, true));
            return made.map(Some).map_err(|error| failed("looking at", top, &error));
        }
        let Some((_, place)) = self.places.files.first() else { return Ok(None) };
        let file = self.make(0)?;
        let made = Made::new(&place.path(), &file, bytes, true)
            .map_err(|error| failed("looking at", &self.plan.files[0].destination, &error))?;
        self.state().first = Some(file);
        Ok(Some(made))
    }

    /// Makes the destination of a file.
    fn make(&self, index: usize) -> Result<File, LoadError> {
        let (copy, (_, to)) = (&self.plan.files[index], &self.places.files[index]);
        let making = |error: std::io::Error| failed("making", &copy.destination, &error);
        let destination = to.make(copy.mode | 0o200, self.overwrite).map_err(making)?;
        let identity = Identity::of(&destination).map_err(making)?;
        made().insert(copy.destination.clone(), (self.id, identity));
        Ok(destination)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is in there is consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next block, then the flushes. A file without bytes is one block without bytes.
    pub(super) fn next(&self) -> Result<Next, LoadError> {
        let state = &mut *self.state();
        if let Some(copy) = self.plan.files.get(state.next) {
            let file = match &state.open {
                Some(file) => Arc::clone(file),
                None => {
                    let file = Arc::new(self.open(state.next, state.first.take())?);
                    state.open = Some(Arc::clone(&file));
                    file
                }
            };
            let bytes = u64::from(self.block_bytes).min(copy.bytes - state.offset);
            let block = Block { file, number: state.blocks, offset: state.offset, bytes: bytes as u32 };
            state.blocks += 1;
            state.offset += bytes;
            if state.offset >= copy.bytes {
                (state.next, state.offset, state.open) = (state.next + 1, 0, None);
            }
            return Ok(Next::Copy(block));
        }
        let flushes = match self.sync {
            Flush::AtEnd => self.plan.files.len(),
            Flush::FileSystem => 1,
            Flush::Never => 0,
        };
        if state.flushes >= flushes {
            return Ok(Next::Nothing);
        }
        if state.files_finished < self.plan.files.len() {
            return Ok(Next::NotYet);
        }
        let index = state.flushes;
        let path = self.plan.files[index].destination.clone();
        state.flushes += 1;
        let file = self.places.files[index].1.open().map_err(|error| failed("opening", &path, &error))?;
        Ok(match self.sync {
            Flush::FileSystem => Next::SyncAll(file, path),
            _ => Next::Sync(file, path),
        })
    }

    /// Opens the source of a file, and makes its destination unless it is made.
    fn open(&self, index: usize, made: Option<File>) -> Result<OpenFile, LoadError> {
        let copy = &self.plan.files[index];
        let (from, _) = &self.places.files[index];
        let source = match &copy.source {
            None => None,
            Some(path) => {
                let file = open_source(from.as_ref())
                    .and_then(|file| place::direct(file, self.direct, false))
                    .map_err(|error| failed("opening", path, &error))?;
                Some((file, path.clone()))
            }
        };
        let destination = made.map_or_else(|| self.make(index), Ok)?;
        let destination = place::direct(destination, self.direct, true)
            .map_err(|error| failed("making", &copy.destination, &error))?;
        let blocks = copy.bytes.div_ceil(u64::from(self.block_bytes)).max(1);
        Ok(OpenFile {
            index,
            source,
            destination,
            destination_path: copy.destination.clone(),
            blocks_left: AtomicU64::new(blocks),
        })
    }

    /// Takes a block back that is copied; finishes its file when it was the last of it.
    pub(super) fn copied(&self, block: &Block) -> Result<(), LoadError> {
        let file = &block.file;
        let last = file.blocks_left.fetch_sub(1, Ordering::AcqRel) == 1;
        let copy = &self.plan.files[file.index];
        if last && self.direct && !copy.bytes.is_multiple_of(u64::from(SECTOR)) {
            file.destination
                .set_len(copy.bytes)
                .map_err(|error| failed("cutting to its length", &copy.destination, &error))?;
        }
        let mut state = self.state();
        state.bytes_copied += u64::from(block.bytes);
        if last {
            state.finished[file.index] = true;
            state.files_finished += 1;
        }
        Ok(())
    }

    /// Bytes of the copies that are in the page cache and on no device yet; none where the kernel does not say, and for
    /// many files, which would take too long.
    pub(super) fn unwritten_bytes(&self) -> Option<u64> {
        const FILES_MAX: usize = 64;
        if self.places.files.len() > FILES_MAX {
            return None;
        }
        let mut bytes = 0;
        for (_, place) in &self.places.files {
            match place.open() {
                Ok(file) => bytes += engine::page_cache::unwritten_bytes(&file)?,
                // Not begun yet.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => return None,
            }
        }
        Some(bytes)
    }

    /// Facts about the plan, and how far it is carried out.
    pub(super) fn facts(&self) -> BTreeMap<String, Level> {
        let state = self.state();
        let done = state.files_finished == self.plan.files.len();
        let words = match (done, state.blocks) {
            (true, _) => "complete",
            (false, 0) => "not begun",
            (false, _) => "partial: files that are not complete are removed",
        };
        let mut facts = BTreeMap::from([
            ("files".into(), Level::Count(self.plan.files.len() as u64)),
            ("bytes".into(), Level::Bytes(self.plan.bytes)),
            ("files.copied".into(), Level::Count(state.files_finished as u64)),
            ("bytes.copied".into(), Level::Bytes(state.bytes_copied)),
            ("destination.state".into(), Level::Text(words.into())),
        ]);
        if self.plan.left_out > 0 {
            facts.insert("files.left_out".into(), Level::Count(self.plan.left_out));
        }
        facts
    }

    /// Removes files that were begun and not finished, since they look like a copy; everything when the copy
    /// is not wanted. The files of the copy are closed.
    pub(super) fn finish(self, discard: bool) -> Result<Copied, LoadError> {
        let state = self.state();
        let mut first = None;
        for ((copy, (_, to)), finished) in self.plan.files.iter().zip(&self.places.files).zip(&state.finished)
        {
            if *finished && !discard {
                continue;
            }
            let mut all = made();
            let Some((_, identity)) = all.get(&copy.destination).copied().filter(|(id, _)| *id == self.id)
            else {
                continue;
            };
            all.remove(&copy.destination);
            drop(all);
            if let Err(error) = to.act(|directory, name| directory.remove_if(name, identity))
                && error.kind() != ErrorKind::NotFound
            {
                first.get_or_insert_with(|| failed("removing", &copy.destination, &error));
            }
        }
        if discard {
            for folder in self.places.folders_made.iter().rev() {
                // One that holds something else stays.
                let _ = folder.act(|directory, name| directory.remove_folder(name));
            }
        }
        first.map_or(Ok(Copied { id: self.id }), Err)
    }
}

/// Opens a source where it was found.
fn open_source(place: Option<&Place>) -> std::io::Result<File> {
    place.ok_or(std::io::ErrorKind::NotFound)?.open()
}
