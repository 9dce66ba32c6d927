//! Paths that a user named. Links in them are followed only if no other user can have made them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::Directory;

/// Limit of the links in one path, the same as in the kernel.
const LINKS_MAX: u32 = 40;

/// The result of resolving a path: an open folder, a name in it, and the file with this name.
#[derive(Debug)]
pub struct Named {
    /// The parent folder, opened without the right to list it.
    pub directory: Directory,
    /// Its name there, which is not a link.
    pub name: OsString,
    /// The file with the name, opened with `O_PATH`; none if it does not exist. See [`reopen`].
    pub found: Option<OwnedFd>,
}

impl Named {
    /// The path after links were followed; for messages.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }
}

/// Resolves a path that a user named. A link is followed only if it belongs to this user or to root, because
/// anybody may create a link in a shared folder. The result refers to the same file even if names change
/// later.
///
/// # Errors
/// When a folder in the path does not exist or is not accessible, when a link belongs to another user or is
/// dangling, and when the path does not end with a name, for example `..` and `/`. The message names the
/// link.
pub fn locate(path: &Path) -> io::Result<Named> {
    walk(path, Links::OfThisUser)
}

/// Resolves a path without links, for example one that was stored after its links were followed.
///
/// # Errors
/// As [`locate`], and when the path contains a link.
pub fn locate_exactly(path: &Path) -> io::Result<Named> {
    walk(path, Links::Refused)
}

/// Which links in a path are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    OfThisUser,
    Refused,
}

fn walk(path: &Path, followed: Links) -> io::Result<Named> {
    let user = rustix::process::geteuid().as_raw();
    let mut rest = Vec::new();
    let mut directory = begin(path, &mut rest)?;
    let mut links = 0;
    let mut last_link: Option<(PathBuf, PathBuf)> = None;
    while let Some(part) = rest.pop() {
        let is_last = rest.is_empty();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat(&directory, &part, flags, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT) if is_last => match last_link {
                Some((link, to)) => return Err(dangling(&link, &to)),
                None => return Ok(Named { directory, name: part, found: None }),
            },
            Err(error) => return Err(error.into()),
        };
        let status = rustix::fs::fstat(&found)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Symlink => {
                let link = directory.path().join(&part);
                if followed == Links::Refused {
                    return Err(refused(format!(
                        "{} is a symbolic link, which Plimsoll does not follow here",
                        link.display()
                    )));
                }
                let to = PathBuf::from(OsString::from_vec(
                    rustix::fs::readlinkat(&found, c"", Vec::new())?.into_bytes(),
                ));
                if status.st_uid != user && status.st_uid != 0 {
                    return Err(refused(format!(
                        "the symbolic link {} belongs to user {}: name its target, {}, if you trust it",
                        link.display(),
                        status.st_uid,
                        to.display()
                    )));
                }
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                if to.is_absolute() {
                    directory = begin(&to, &mut rest)?;
                } else {
                    push(&to, &mut rest);
                }
                if is_last {
                    last_link = Some((link, to));
                }
            }
            _ if is_last && part != ".." => return Ok(Named { directory, name: part, found: Some(found) }),
            FileType::Directory => {
                let mut so_far = directory.path().to_path_buf();
                if part != ".." {
                    so_far.push(&part);
                } else if so_far.is_absolute() || so_far.file_name().is_some() {
                    so_far.pop();
                } else {
                    so_far.push("..");
                }
                directory = Directory::from_descriptor(found, so_far);
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the path does not end with the name of a file"))
}

/// The folder at which a path begins; its components are pushed on the stack.
fn begin(path: &Path, rest: &mut Vec<OsString>) -> io::Result<Directory> {
    let start = if path.is_absolute() { "/" } else { "." };
    push(path, rest);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptor = rustix::fs::open(start, flags, Mode::empty())?;
    let so_far = if path.is_absolute() { PathBuf::from("/") } else { PathBuf::new() };
    Ok(Directory::from_descriptor(descriptor, so_far))
}

fn push(path: &Path, rest: &mut Vec<OsString>) {
    rest.extend(path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some(OsStr::new("..").to_os_string()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    }));
}

fn dangling(link: &Path, to: &Path) -> io::Error {
    refused(format!("the symbolic link {} points at {}, which does not exist", link.display(), to.display()))
}

fn refused(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Opens the file of a descriptor again with other flags: the same file or device, even if its name now
/// belongs to another one.
///
/// # Errors
/// When it cannot be opened with these flags, or `/proc` is not mounted.
pub fn reopen(file: impl AsFd, flags: OFlags) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    match rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(File::from(file)),
        // The descriptor is open, so its name in /proc is missing only together with /proc.
        Err(Errno::NOENT) => {
            let why = "/proc is not mounted, without which an open file cannot be opened again: mount -t proc proc /proc";
            Err(io::Error::new(io::ErrorKind::Unsupported, why))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use std::os::unix::fs::symlink;
    use testkit::Scratch;

    #[test]
    fn own_links_are_followed_to_what_they_point_at() {
        let folder = Scratch::new();
        let file = folder.file("real/inner/file", "x");
        symlink("real", folder.join("folder")).unwrap();
        symlink("inner/file", folder.join("real/relative")).unwrap();
        symlink(&file, folder.join("absolute")).unwrap();
        symlink("../real/../folder/relative", folder.join("real/twice")).unwrap();
        let identity = Identity::of_metadata(&std::fs::metadata(&file).unwrap());
        for path in ["real/inner/file", "folder/inner/file", "folder/relative", "absolute", "real/twice"] {
            let named = locate(&folder.join(path)).unwrap();
            assert_eq!(named.name, "file", "{path}");
            assert_eq!(Identity::of(named.found.as_ref().unwrap()).unwrap(), identity, "{path}");
            assert_eq!(std::fs::canonicalize(named.path()).unwrap(), std::fs::canonicalize(&file).unwrap());
        }
        let missing = locate(&folder.join("folder/inner/new")).unwrap();
        assert!(missing.found.is_none());
        missing.directory.create_new(&missing.name, 0o600).unwrap();
        assert!(folder.join("real/inner/new").exists());
    }

    #[test]
    fn no_link_is_followed_where_links_do_not_count() {
        let folder = Scratch::new();
        let file = folder.file("real/file", "x");
        symlink("real", folder.join("folder")).unwrap();
        symlink("file", folder.join("real/link")).unwrap();
        let real = std::fs::canonicalize(folder.path()).unwrap();
        let found = locate_exactly(&real.join("real/file")).unwrap().found.unwrap();
        let identity = Identity::of_metadata(&std::fs::metadata(&file).unwrap());
        assert_eq!(Identity::of(found).unwrap(), identity);
        assert!(locate_exactly(&real.join("real/none")).unwrap().found.is_none());
        for path in ["folder/file", "real/link", "folder/link"] {
            let error = locate_exactly(&real.join(path)).unwrap_err().to_string();
            assert!(
                error.contains("is a symbolic link, which Plimsoll does not follow here"),
                "{path}: {error}"
            );
        }
    }

    #[test]
    fn what_leads_nowhere_is_an_error() {
        let folder = Scratch::new();
        folder.file("file", "x");
        symlink("nothing", folder.join("dangling")).unwrap();
        symlink("loop", folder.join("loop")).unwrap();
        for (path, words) in [
            ("dangling", "points at nothing, which does not exist"),
            ("loop", "symbolic links"),
            ("file/below", "Not a directory"),
            ("no/such", "No such file"),
            ("..", "does not end with the name of a file"),
        ] {
            let error = locate(&folder.join(path)).unwrap_err().to_string();
            assert!(error.contains(words), "{path}: {error}");
        }
        assert!(locate(Path::new("/")).is_err());
        assert!(locate(Path::new("")).is_err());
    }

    #[test]
    fn a_link_of_another_user_is_refused() {
        if testkit::lacks(testkit::Need::Root) {
            return;
        }
        let folder = Scratch::new();
        folder.file("real/file", "x");
        for (link, to) in [("link", "real/file"), ("folder", "real")] {
            symlink(to, folder.join(link)).unwrap();
            std::os::unix::fs::lchown(folder.join(link), Some(65534), None).unwrap();
        }
        for path in ["link", "folder/file", "folder/new"] {
            let error = locate(&folder.join(path)).unwrap_err().to_string();
            assert!(error.contains("belongs to user 65534"), "{path}: {error}");
        }
    }

    #[test]
    fn a_descriptor_is_opened_again_whatever_has_its_name() {
        let folder = Scratch::new();
        let path = folder.file("file", "first");
        let named = locate(&path).unwrap();
        std::fs::rename(folder.file("other", "second"), &path).unwrap();
        let file = reopen(named.found.unwrap(), OFlags::RDONLY).unwrap();
        assert_eq!(std::io::read_to_string(file).unwrap(), "first");
    }
}
