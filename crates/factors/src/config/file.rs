//! A configuration file on disk: reads it, computes its fingerprint, and replaces it.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use engine::source::Unavailable;
use files::Directory;
use rustix::fs::{Gid, Mode, Uid, XattrFlags};

/// The size limit of a configuration file.
const BYTES_MAX: u64 = 4 << 20;

fn wrong(path: &Path, what: impl std::fmt::Display) -> Unavailable {
    Unavailable(format!("{}: {what}", path.display()))
}

/// The text of a file. Links are followed, because the author of the experiment named the file.
pub(crate) fn read(path: &Path) -> Result<String, Unavailable> {
    files::read_text(path, BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => wrong(path, "it is too large for a configuration"),
        _ => wrong(path, error),
    })
}

/// A hash that identifies the content of a file.
pub(crate) fn fingerprint(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Checks whether the file can be replaced; the error names the obstacle.
pub(crate) fn check(path: &Path) -> Result<(), Unavailable> {
    use std::os::unix::fs::MetadataExt;
    let real = files::locate(path).map_err(|error| wrong(path, error))?.path();
    let metadata = std::fs::metadata(&real).map_err(|error| wrong(path, error))?;
    if metadata.nlink() > 1 {
        return Err(wrong(
            path,
            "it has other hard links, which would keep the old content: use `target.command`",
        ));
    }
    let folder = real.parent().unwrap_or(Path::new("/"));
    if std::fs::metadata(folder).map_err(|error| wrong(path, error))?.dev() != metadata.dev() {
        return Err(wrong(path, "it is mounted on its own and cannot be replaced: use `target.command`"));
    }
    for (place, what) in [(real.as_path(), "it"), (folder, "its folder")] {
        rustix::fs::access(place, rustix::fs::Access::WRITE_OK).map_err(|error| {
            wrong(path, format!("{what} is not writable: {error}; run as its owner or as root"))
        })?;
    }
    Ok(())
}

/// Replaces a file with the content `expected` by one with another text and the same owner, mode and
/// attributes. A reader, or a kill at any moment, finds the old text or the new one.
///
/// # Errors
/// When the content is not `expected` any more, or the file cannot be replaced.
pub(crate) fn replace(path: &Path, expected: &str, text: &str) -> Result<(), Unavailable> {
    let failed = |error: io::Error| wrong(path, error);
    let real = files::locate(path).map_err(failed)?.path();
    let (folder, name) = Directory::of_file(&real).map_err(failed)?;
    let old = folder.open_file(&name).map_err(failed)?;
    if io::read_to_string(&old).map_err(failed)? != expected {
        return Err(wrong(path, "another program edited it at the same time, so Plimsoll did not change it"));
    }
    let status = rustix::fs::fstat(&old).map_err(|error| failed(error.into()))?;
    let mode = status.st_mode & 0o7777;
    let mut new = folder.replacement(&name, files::PRIVATE_FILE).map_err(failed)?;
    new.file().write_all(text.as_bytes()).map_err(failed)?;
    copy_attributes(&old, new.file()).map_err(failed)?;
    let (user, group) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
    // The mode is set after the owner, because a change of the owner may clear some of its bits.
    rustix::fs::fchown(new.file().as_fd(), Some(user), Some(group)).map_err(|error| failed(error.into()))?;
    rustix::fs::fchmod(new.file().as_fd(), Mode::from_raw_mode(mode))
        .map_err(|error| failed(error.into()))?;
    new.file().sync_all().map_err(failed)?;
    let now = rustix::fs::statat(&folder, &name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| failed(error.into()))?;
    let of =
        |status: &rustix::fs::Stat| (status.st_ino, status.st_size, status.st_mtime, status.st_mtime_nsec);
    if of(&now) != of(&status) {
        return Err(wrong(path, "another program edited it at the same time, so Plimsoll did not change it"));
    }
    new.finish().and_then(|()| folder.sync()).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => {
            wrong(path, "it is mounted on its own and cannot be replaced: use `target.command`")
        }
        _ => failed(error),
    })
}

/// Copies extended attributes: access control lists, SELinux labels, and others.
fn copy_attributes(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    const BYTES_MAX: usize = 64 << 10;
    let mut names = vec![0; BYTES_MAX];
    let length = match rustix::fs::flistxattr(&from, &mut names[..]) {
        Ok(length) => length,
        // The file system does not support attributes.
        Err(_) => return Ok(()),
    };
    let mut value = vec![0; BYTES_MAX];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let length = rustix::fs::fgetxattr(&from, name, &mut value[..])?;
        rustix::fs::fsetxattr(&to, name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}
