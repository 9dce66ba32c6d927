//! Folders that a workload creates, and that are found after a kill.

use std::io;
use std::os::unix::fs::MetadataExt;

use engine::workload::{Made, Remains, find};
use files::private::OwnFolder;
use files::{Identity, Named};

/// What there is of a folder that an earlier process made, and removes it with all that is in it if it is this one, of this
/// user, and marked with a file of this name and text.
pub(crate) fn remains(made: &Made, remove: bool, mark: &str, mark_text: &[u8]) -> Remains {
    let (Named { directory, name, .. }, metadata) = match find(made) {
        Ok(found) => found,
        Err(remains) => return remains,
    };
    let not_removable = |why: &str| Remains::NotRemovable(why.to_string());
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
    if !metadata.is_dir() || !is_own {
        return not_removable("it is not a folder, or other users may write to it");
    }
    let look = || -> io::Result<(OwnFolder, bool)> {
        let folder = OwnFolder::left(directory, name)?;
        let inside = folder.open()?;
        let names = inside.names()?;
        // The process may be killed between the creation of the folder and of its marker.
        let is_marked =
            names.is_empty() || inside.read(mark, mark_text.len() as u64).is_ok_and(|text| text == mark_text);
        Ok((folder, is_marked && inside.identity()? == Identity::of_metadata(&metadata)))
    };
    match look() {
        _ if made.keep => Remains::Kept,
        Err(error) => Remains::NotRemovable(error.to_string()),
        Ok((_, false)) => not_removable("Plimsoll's marker file is missing in it"),
        Ok((_, true)) if !remove => Remains::Removable(None),
        Ok((folder, true)) => match folder.remove() {
            Ok(()) => Remains::Removed(None),
            Err(error) => Remains::NotRemovable(error.to_string()),
        },
    }
}
