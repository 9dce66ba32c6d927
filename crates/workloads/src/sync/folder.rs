//! The folder of an experiment: created for it, found empty, or an existing one.
//!
//! Only files and folders that this process created are removed, identified by device and inode. An existing folder that is not empty
//! belongs to the user.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::workload::LoadError;
use files::private::OwnFolder;
use files::{Directory, Identity, PRIVATE_FILE};
use model::Problems;

use super::settings::DIRECTORY;

/// The marker for users who find the folder of a killed run. It grants no permission.
pub(super) const MARK: &str = ".plimsoll-sync";

pub(super) const MARK_TEXT: &[u8] =
    b"Created by plimsoll sync. If plimsoll is no longer running, it was killed: `plimsoll restore --remove-files`.\n";

/// Folders that this process created, or found empty, in an earlier trial of its experiment. They are open, so that no other
/// folder can have their identity.
static TAKEN: Mutex<BTreeMap<Identity, Arc<Directory>>> = Mutex::new(BTreeMap::new());

fn reserved_folders() -> MutexGuard<'static, BTreeMap<Identity, Arc<Directory>>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the folder's path.
enum FolderState {
    Nothing,
    /// One of this process's.
    Taken(Arc<Directory>),
    /// An empty one that nobody else can fill.
    Empty(Directory),
    /// Why it cannot be used, and what to do.
    Other(String, String),
}

fn inspect(path: &Path) -> io::Result<FolderState> {
    let found = match files::locate(path) {
        Ok(named) => {
            let above = rustix::fs::fstat(&named.directory)?;
            if above.st_mode & 0o002 != 0 && above.st_mode & 0o1000 == 0 {
                return Ok(FolderState::Other(
                    format!(
                        "other users could replace the folder `{}`: its parent folder is writable by everyone",
                        path.display()
                    ),
                    "name a folder in another place".into(),
                ));
            }
            match named.found {
                Some(found) => found,
                None => return Ok(FolderState::Nothing),
            }
        }
        // The path may end with no name, as `.` does.
        Err(error) if path.file_name().is_some() => return Err(error),
        Err(_) => {
            let inside = files::locate(&path.join("any"))?;
            rustix::io::dup(&inside.directory)?
        }
    };
    let identity = Identity::of(&found)?;
    if let Some(directory) = reserved_folders().get(&identity) {
        return Ok(FolderState::Taken(Arc::clone(directory)));
    }
    let shown = path.display();
    let status = rustix::fs::fstat(&found)?;
    let user = rustix::process::geteuid().as_raw();
    if status.st_uid != user && status.st_uid != 0 {
        return Ok(FolderState::Other(
            format!("the folder `{shown}` belongs to user {}", status.st_uid),
            "name a folder that does not exist: with `template` it is created, and removed at the end".into(),
        ));
    }
    if status.st_mode & 0o022 != 0 {
        return Ok(FolderState::Other(
            format!("other users may write to the folder `{shown}` and to the configuration in it"),
            format!("`chmod go-w {shown}`, or name a folder that does not exist"),
        ));
    }
    let directory = Directory::open(path)?;
    if directory.identity()? != identity {
        return Err(io::Error::other("it was replaced while it was checked"));
    }
    let names = directory.names()?;
    if names.is_empty() {
        return Ok(FolderState::Empty(directory));
    }
    Ok(if names.iter().any(|name| name == MARK) {
        FolderState::Other(
            format!("the folder `{shown}` was left by an earlier run"),
            format!(
                "`plimsoll restore --remove-files` removes the files of a killed run of this user; \
                otherwise check its content and remove it with `rm -r {shown}`, or name a folder that \
                does not exist"
            ),
        )
    } else {
        FolderState::Other(
            format!("the folder `{shown}` exists already and was not created by Plimsoll"),
            "name a folder that does not exist: with `template` it is created, and removed at the end".into(),
        )
    })
}

/// Checks the folder of a load whose configuration is written there. Changes nothing.
pub(super) fn check(path: &Path, problems: &mut Problems) {
    match inspect(path) {
        Ok(FolderState::Other(what, help)) => problems.add(&[&DIRECTORY], what, help),
        Ok(_) => {}
        // That the folder above is missing is reported elsewhere.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            problems.add(
                &[&DIRECTORY],
                format!("the folder `{}`: {error}", path.display()),
                "name another one",
            );
        }
    }
}

/// Creates the folder if it does not exist; it is removed when the result is dropped. With `template`, the text of the
/// configuration and its name, this is written there, and the folder must not be used by anything else. A folder that
/// was created is announced before anything is written to it.
pub(super) fn prepare(
    path: &Path,
    template: Option<(&str, &str)>,
    announce: impl FnOnce(&OwnFolder) -> Result<(), LoadError>,
) -> Result<Option<OwnFolder>, LoadError> {
    let failed =
        |what: &str, error: io::Error| LoadError::new(format!("{what} {}: {error}", path.display()), "");
    let using = |error| failed("using the folder", error);
    let making = |error| failed("creating the folder", error);
    let mut own = None;
    let is_there = template.is_none() && path.is_dir();
    let directory = match if is_there { None } else { Some(inspect(path).map_err(using)?) } {
        None => None,
        Some(FolderState::Taken(directory)) => Some(directory),
        Some(FolderState::Empty(directory)) => Some(Arc::new(directory)),
        Some(FolderState::Other(what, help)) => return Err(LoadError::new(what, help)),
        Some(FolderState::Nothing) => {
            let made = OwnFolder::named(path).map_err(making)?;
            announce(&made)?;
            let directory = made.open().map_err(making)?;
            let mut mark = directory.create_new(MARK, PRIVATE_FILE).map_err(making)?;
            io::Write::write_all(&mut mark, MARK_TEXT).map_err(making)?;
            own = Some(made);
            Some(Arc::new(directory))
        }
    };
    if let Some(directory) = directory {
        if let Some((text, name)) = template {
            write(&directory, Path::new(name), &format!("{text}\n"))
                .map_err(|error| failed("writing the configuration in", error))?;
        }
        let identity = directory.identity().map_err(using)?;
        reserved_folders().insert(identity, directory);
    }
    Ok(own)
}

/// Writes a file in the folder, replacing an existing one.
fn write(directory: &Directory, name: &Path, text: &str) -> io::Result<()> {
    let mut inner: Option<Directory> = None;
    for part in name.parent().into_iter().flat_map(Path::components) {
        if let Component::Normal(part) = part {
            inner = Some(inner.as_ref().unwrap_or(directory).open_folder(part)?);
        }
    }
    let name = name.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    inner.as_ref().unwrap_or(directory).replace(name, PRIVATE_FILE, text.as_bytes())
}

/// Removes a folder that [`prepare`] created, with its content, or keeps it for the user.
pub(super) fn finish(own: OwnFolder, keep: bool) -> Result<(), LoadError> {
    let path = own.path().to_path_buf();
    if let Ok(identity) = own.open().and_then(|directory| directory.identity()) {
        reserved_folders().remove(&identity);
    }
    if keep {
        return Ok(());
    }
    own.remove().map_err(|error| {
        LoadError::new(
            format!("the folder {} cannot be removed: {error}", path.display()),
            "remove it by hand",
        )
    })
}
