//! An open folder and operations on its contents.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::unfinished::Entry;
use crate::{Identity, random_name};

/// Limit of the attempts to find an unused random name.
const NAMES_MAX: u32 = 16;

/// An open folder. It remains valid if its name changes.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Directory {
    pub(crate) fn from_descriptor(descriptor: OwnedFd, path: PathBuf) -> Directory {
        Directory { descriptor, path }
    }

    /// Opens a folder that the user named. Links in `path` are followed, because the user wrote it.
    ///
    /// # Errors
    /// When it does not exist, is not a folder, or is not readable.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(named, flags, Mode::empty())?;
        Ok(Directory { descriptor, path: path.to_path_buf() })
    }

    /// Opens the parent folder of the file `path`, and returns the name of the file.
    ///
    /// # Errors
    /// As [`Directory::open`]; and when `path` does not end with a name, for example `..` and `/`.
    pub fn of_file(path: &Path) -> io::Result<(Directory, OsString)> {
        let name = path.file_name().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the path does not end with the name of a file")
        })?;
        Ok((Directory::open(path.parent().unwrap_or(Path::new("")))?, name.to_os_string()))
    }

    /// Opens a direct subfolder. A link is refused.
    ///
    /// # Errors
    /// When there is no folder with this name.
    pub fn open_folder(&self, name: impl AsRef<OsStr>) -> io::Result<Directory> {
        let name = one_name(name.as_ref())?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())
            .map_err(|error| self.explained(name, error))?;
        Ok(Directory { descriptor, path: self.path.join(name) })
    }

    /// The error of a failed open; says so if the name is a link.
    fn explained(&self, name: &OsStr, error: Errno) -> io::Error {
        let is_link = matches!(error, Errno::LOOP | Errno::NOTDIR)
            && rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink);
        match is_link {
            true => io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is a symbolic link, which Plimsoll does not follow: replace it with its target",
            ),
            false => error.into(),
        }
    }

    /// Creates or opens a direct subfolder. A link is refused.
    ///
    /// # Errors
    /// When it can be neither created nor opened.
    pub fn make_folder(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Directory> {
        match rustix::fs::mkdirat(&self.descriptor, one_name(name.as_ref())?, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => self.open_folder(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a direct subfolder.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when the name exists.
    pub fn create_folder(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Directory> {
        rustix::fs::mkdirat(&self.descriptor, one_name(name.as_ref())?, Mode::from_raw_mode(mode))?;
        self.open_folder(name)
    }

    /// Its path when it was opened; for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its identity.
    ///
    /// # Errors
    /// When the kernel reports an error.
    pub fn identity(&self) -> io::Result<Identity> {
        Identity::of(&self.descriptor)
    }

    /// Creates a new file for reading and writing. A link with this name counts as existing.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when the name exists.
    pub fn create_new(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        let name = one_name(name.as_ref())?;
        Ok(File::from(rustix::fs::openat(&self.descriptor, name, flags, Mode::from_raw_mode(mode))?))
    }

    /// Opens a regular file for reading. A link, a FIFO or a device is refused without blocking.
    ///
    /// # Errors
    /// When there is no regular file with this name.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let name = one_name(name.as_ref())?;
        let file = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())
            .map_err(|error| self.explained(name, error))?;
        regular(File::from(file))
    }

    /// Opens a regular file for reading and writing, as [`Directory::open_file`] does for reading.
    ///
    /// # Errors
    /// When there is no writable regular file with this name.
    pub fn open_file_to_write(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.descriptor, one_name(name.as_ref())?, flags, Mode::empty())?;
        regular(File::from(file))
    }

    /// Opens a regular file for appending, or creates it. A link is refused, and so is a file with another
    /// name (hard link), which could be any file.
    ///
    /// # Errors
    /// When it can be neither created nor opened.
    pub fn open_append(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::CREATE
            | OFlags::APPEND
            | OFlags::RDWR
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let name = one_name(name.as_ref())?;
        let file = rustix::fs::openat(&self.descriptor, name, flags, Mode::from_raw_mode(mode))
            .map_err(|error| self.explained(name, error))?;
        let file = regular(File::from(file))?;
        match rustix::fs::fstat(&file)?.st_nlink {
            0 | 1 => Ok(file),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it has several hard links: remove it")),
        }
    }

    /// Reads a whole regular file of at most `bytes_max`.
    ///
    /// # Errors
    /// As [`Directory::open_file`]; [`io::ErrorKind::FileTooLarge`] for a larger one.
    pub fn read(&self, name: impl AsRef<OsStr>, bytes_max: u64) -> io::Result<Vec<u8>> {
        whole(self.open_file(name)?, bytes_max)
    }

    /// Begins a file that replaces `name` when it is complete.
    ///
    /// # Errors
    /// When no file can be created here.
    pub fn replacement(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Replacement<'_>> {
        let name = one_name(name.as_ref())?.to_os_string();
        let (fresh, file, entry) = self.fresh(mode)?;
        Ok(Replacement { directory: Folder::Borrowed(self), name, fresh, file, done: false, _entry: entry })
    }

    /// Begins a file that replaces `name` and keeps its mode, its group and, as far as the kernel permits,
    /// its owner.
    ///
    /// `mode` applies to a new file, and to one that replaces something other than a regular file. It also
    /// applies if the old file belongs to another user and everybody may write to the folder: the owner of
    /// the old file must not decide who can read the new one.
    ///
    /// # Errors
    /// When no file can be created here.
    pub fn into_successor(self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Replacement<'static>> {
        let name = one_name(name.as_ref())?.to_os_string();
        let old = match rustix::fs::statat(&self.descriptor, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) if FileType::from_raw_mode(old.st_mode) == FileType::RegularFile => Some(old),
            Ok(_) | Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let user = rustix::process::geteuid().as_raw();
        let is_open_to_all = rustix::fs::fstat(&self.descriptor)?.st_mode & 0o002 != 0;
        let old = old.filter(|old| !is_open_to_all || old.st_uid == user);
        let (fresh, file, entry) = self.fresh(if old.is_some() { 0o600 } else { mode })?;
        let directory = Folder::Owned(self);
        let successor = Replacement { directory, name, fresh, file, done: false, _entry: entry };
        if let Some(old) = old {
            let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
            let mut mode = old.st_mode & 0o777;
            if rustix::fs::fchown(&successor.file, Some(owner), Some(group)).is_err()
                && rustix::fs::fchown(&successor.file, None, Some(group)).is_err()
            {
                // The permissions of the old group do not apply to another group.
                mode &= 0o707;
            }
            rustix::fs::fchmod(&successor.file, Mode::from_raw_mode(mode))?;
        }
        Ok(successor)
    }

    /// A new file with an unpredictable name, entered before it exists.
    fn fresh(&self, mode: u32) -> io::Result<(String, File, Option<Entry>)> {
        for _ in 0..NAMES_MAX {
            let fresh = format!(".plimsoll-{}.new", random_name()?);
            let entry = Entry::begin(self, &fresh);
            match self.create_new(&fresh, mode) {
                Ok(file) => return Ok((fresh, file, entry)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no unused name was found for a new file"))
    }

    /// Replaces the file `name`. A link with this name is itself replaced; its target is unchanged.
    ///
    /// # Errors
    /// When the new file cannot be written; the old one is then unchanged.
    pub fn replace(&self, name: impl AsRef<OsStr>, mode: u32, content: &[u8]) -> io::Result<()> {
        let mut replacement = self.replacement(name, mode)?;
        replacement.file().write_all(content)?;
        replacement.finish()
    }

    /// Removes a file, a link or anything else that is not a folder.
    ///
    /// # Errors
    /// When it does not exist or cannot be removed.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, one_name(name.as_ref())?, AtFlags::empty())?)
    }

    /// Removes a file only if it still has this identity; returns false if another file, or none, has its
    /// name.
    ///
    /// # Errors
    /// When its status cannot be read, or it cannot be removed.
    pub fn remove_if(&self, name: impl AsRef<OsStr>, identity: Identity) -> io::Result<bool> {
        let name = one_name(name.as_ref())?;
        match self.identity_of(name) {
            Ok(found) if found == identity => self.remove(name).map(|()| true),
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// When it is not empty, is not a folder, or cannot be removed.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, one_name(name.as_ref())?, AtFlags::REMOVEDIR)?)
    }

    /// The identity of the entry with this name; for a link, of the link itself.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn identity_of(&self, name: impl AsRef<OsStr>) -> io::Result<Identity> {
        let name = one_name(name.as_ref())?;
        let status = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Identity { device: status.st_dev, inode: status.st_ino })
    }

    /// The names of its entries, sorted.
    ///
    /// # Errors
    /// When it is not readable.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        use std::os::unix::ffi::OsStrExt;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_os_string());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Makes created, renamed and removed entries durable.
    ///
    /// # Errors
    /// When the file system reports an error.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.descriptor)?)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A borrowed or owned folder.
#[derive(Debug)]
enum Folder<'a> {
    Borrowed(&'a Directory),
    Owned(Directory),
}

impl std::ops::Deref for Folder<'_> {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        match self {
            Folder::Borrowed(directory) => directory,
            Folder::Owned(directory) => directory,
        }
    }
}

/// A new file that is not in its place yet. It is removed if it is dropped unfinished.
#[derive(Debug)]
pub struct Replacement<'a> {
    directory: Folder<'a>,
    name: OsString,
    fresh: String,
    file: File,
    done: bool,
    /// Dropped after the file is complete or removed.
    _entry: Option<Entry>,
}

impl Replacement<'_> {
    /// The new file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Moves the file to its place. Call [`File::sync_all`] before if it must survive a power failure.
    ///
    /// # Errors
    /// When it cannot be renamed; it is then removed.
    pub fn finish(mut self) -> io::Result<()> {
        self.rename()
    }

    /// Makes the file durable and moves it to its place. The name is guaranteed to survive a power failure
    /// only if the file system supports syncing of folders.
    ///
    /// # Errors
    /// When it cannot be written or renamed; it is then removed.
    pub fn finish_durably(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.rename()?;
        // The file is complete, and some file systems do not support this.
        let _ = self.directory.sync();
        Ok(())
    }

    fn rename(&mut self) -> io::Result<()> {
        let at = &self.directory.descriptor;
        rustix::fs::renameat(at, self.fresh.as_str(), at, &self.name)?;
        self.done = true;
        Ok(())
    }

    /// Moves the file to its place like [`Replacement::finish`], and returns it, still open.
    ///
    /// # Errors
    /// As [`Replacement::finish`], and when the process has no file descriptor left.
    pub fn finish_open(self) -> io::Result<File> {
        let file = self.file.try_clone()?;
        self.finish().map(|()| file)
    }
}

impl Write for Replacement<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.done {
            // A partial file is useless, and on a full disk its space is needed.
            let _ = self.directory.remove(&self.fresh);
        }
    }
}

/// Creates a new file. Links in the path of its folder are followed; a link with its own name is not.
///
/// # Errors
/// As [`Directory::create_new`].
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let (directory, name) = Directory::of_file(path)?;
    directory.create_new(name, mode)
}

/// Replaces a file; see [`Directory::replace`].
///
/// # Errors
/// As [`Directory::replace`].
pub fn replace(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let (directory, name) = Directory::of_file(path)?;
    directory.replace(name, mode, content)
}

/// Opens a regular file that the user named, for reading. Links are followed. A FIFO or a device is refused
/// without blocking.
///
/// # Errors
/// When there is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    regular(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Reads a whole regular file of at most `bytes_max`.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::FileTooLarge`] for a larger one.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    whole(open_regular(path)?, bytes_max)
}

/// Reads a whole regular file of UTF-8 text of at most `bytes_max`.
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`] for one that is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text(read(path, bytes_max)?)
}

/// Reads a UTF-8 text of at most `bytes_max` from any file that the user named: a pipe is read to its end.
///
/// # Errors
/// As [`read_text`], except that other files than regular ones are accepted.
pub fn read_named_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text(whole(File::open(path)?, bytes_max)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not text in UTF-8"))
}

pub(crate) fn regular(file: File) -> io::Result<File> {
    let status = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Ok(file),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Fifo => Err(not_regular("a FIFO")),
        FileType::Socket => Err(not_regular("a socket")),
        _ => Err(not_regular("a device")),
    }
}

fn not_regular(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file"))
}

fn whole(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(bytes_max)).unwrap_or(0));
    // A file may grow while it is read.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than the limit of {bytes_max} bytes"),
        ));
    }
    Ok(bytes)
}

/// Checks that a name has no folder in it, so that no other folder is accessed.
fn one_name(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(name),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is not the name of a file", name.to_string_lossy()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use testkit::Scratch;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_link_is_replaced_itself_and_what_it_points_at_is_not_touched() {
        let folder = Scratch::new();
        let precious = folder.file("authorized_keys", "key");
        symlink(&precious, folder.join("report.html")).unwrap();
        replace(&folder.join("report.html"), 0o600, b"page").unwrap();
        assert_eq!(
            (folder.text("report.html"), folder.text("authorized_keys")),
            ("page".into(), "key".into())
        );
        assert_eq!(mode(&folder.join("report.html")), 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside it");
    }

    #[test]
    fn an_unfinished_replacement_leaves_the_old_file_and_nothing_else() {
        let folder = Scratch::new();
        folder.file("a", "old");
        let directory = Directory::open(folder.path()).unwrap();
        directory.replacement("a", 0o600).unwrap().file().write_all(b"half").unwrap();
        assert_eq!((folder.text("a"), directory.names().unwrap().len()), ("old".into(), 1));
    }

    #[test]
    fn nothing_is_created_or_opened_through_a_link() {
        let folder = Scratch::new();
        std::fs::create_dir(folder.join("real")).unwrap();
        symlink("real", folder.join("link")).unwrap();
        symlink("nowhere", folder.join("dangling")).unwrap();
        folder.file("file", "x");
        symlink("file", folder.join("to_file")).unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        assert!(directory.create_new("dangling", 0o600).is_err());
        assert!(!folder.join("nowhere").exists());
        assert!(directory.open_folder("link").is_err());
        assert!(directory.make_folder("link", 0o700).is_err());
        assert!(directory.make_folder("real", 0o700).is_ok());
        assert!(directory.open_file("to_file").is_err());
        assert_eq!(directory.read("file", 1).unwrap(), b"x");
        for name in ["..", ".", "", "/etc/passwd", "real/x", "real/"] {
            assert!(directory.create_new(name, 0o600).is_err(), "{name}");
        }
    }

    #[test]
    fn only_regular_files_of_the_allowed_size_are_read_and_a_fifo_does_not_block() {
        let folder = Scratch::new();
        folder.file("a", "12345");
        let fifo = folder.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read(&folder.join("a"), 5).unwrap(), b"12345");
        assert_eq!(read(&folder.join("a"), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&fifo, 4).unwrap_err().to_string(), "it is a FIFO, not a regular file");
        assert_eq!(
            read(Path::new("/dev/zero"), 4).unwrap_err().to_string(),
            "it is a device, not a regular file"
        );
        assert!(read(folder.path(), 4).is_err());
    }

    #[test]
    fn a_file_that_took_the_name_of_another_is_not_removed() {
        let folder = Scratch::new();
        let directory = Directory::open(folder.path()).unwrap();
        let identity = Identity::of(directory.create_new("a", 0o600).unwrap()).unwrap();
        std::fs::rename(folder.join("a"), folder.join("b")).unwrap();
        folder.file("a", "the user's");
        assert!(!directory.remove_if("a", identity).unwrap());
        assert_eq!(folder.text("a"), "the user's");
        assert!(directory.remove_if("b", identity).unwrap());
        assert!(!directory.remove_if("b", identity).unwrap());
    }
}
