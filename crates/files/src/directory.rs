//! A folder held open by its descriptor, and what is done below it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::{Identity, random_name};

/// How often a name that exists already is drawn again.
const NAMES_MAX: u32 = 16;

/// An open folder. What happens to its name afterwards does not matter.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Directory {
    pub(crate) fn from_descriptor(descriptor: OwnedFd, path: PathBuf) -> Directory {
        Directory { descriptor, path }
    }

    /// Opens the folder that the user named. Links in `path` are followed: the user wrote it.
    ///
    /// # Errors
    /// When it does not exist, is no folder, or may not be read.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(named, flags, Mode::empty())?;
        Ok(Directory { descriptor, path: path.to_path_buf() })
    }

    /// Opens the folder that holds the file `path`, and returns the file's name in it.
    ///
    /// # Errors
    /// As [`Directory::open`]; and when `path` ends with no name, as `..` and `/` do.
    pub fn of_file(path: &Path) -> io::Result<(Directory, OsString)> {
        let name = path.file_name().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the path does not end with the name of a file")
        })?;
        Ok((Directory::open(path.parent().unwrap_or(Path::new("")))?, name.to_os_string()))
    }

    /// Opens a folder directly below. A link is refused.
    ///
    /// # Errors
    /// When there is no folder of this name itself.
    pub fn open_folder(&self, name: impl AsRef<OsStr>) -> io::Result<Directory> {
        let name = one_name(name.as_ref())?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())
            .map_err(|error| self.explained(name, error))?;
        Ok(Directory { descriptor, path: self.path.join(name) })
    }

    /// The error of something that was not opened; in words when it is a link.
    fn explained(&self, name: &OsStr, error: Errno) -> io::Error {
        let is_link = matches!(error, Errno::LOOP | Errno::NOTDIR)
            && rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink);
        match is_link {
            true => io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is a symbolic link, which is not followed: put what it points at in its place",
            ),
            false => error.into(),
        }
    }

    /// Makes a folder directly below, or opens the one that is there. A link is refused.
    ///
    /// # Errors
    /// When it can be neither made nor opened.
    pub fn make_folder(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Directory> {
        match rustix::fs::mkdirat(&self.descriptor, one_name(name.as_ref())?, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => self.open_folder(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Where it was when it was opened; for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its identity.
    ///
    /// # Errors
    /// When the kernel cannot say.
    pub fn identity(&self) -> io::Result<Identity> {
        Identity::of(&self.descriptor)
    }

    /// Creates a file for reading and writing that did not exist. A link of this name counts as existing.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when something of this name is there.
    pub fn create_new(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        let name = one_name(name.as_ref())?;
        Ok(File::from(rustix::fs::openat(&self.descriptor, name, flags, Mode::from_raw_mode(mode))?))
    }

    /// Opens a regular file for reading; a link, a FIFO or a device is refused, and none of them blocks.
    ///
    /// # Errors
    /// When there is no regular file of this name.
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
    /// When there is no regular file of this name that may be written.
    pub fn open_file_to_write(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.descriptor, one_name(name.as_ref())?, flags, Mode::empty())?;
        regular(File::from(file))
    }

    /// Opens a regular file for appending, and creates it where it is missing. A link, and a file that has another name
    /// too, is refused: what it is known as elsewhere may be anything.
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
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is a hard link to a file that has another name too: remove it",
            )),
        }
    }

    /// A whole regular file of at most `bytes_max`.
    ///
    /// # Errors
    /// As [`Directory::open_file`]; [`io::ErrorKind::FileTooLarge`] for a larger one.
    pub fn read(&self, name: impl AsRef<OsStr>, bytes_max: u64) -> io::Result<Vec<u8>> {
        whole(self.open_file(name)?, bytes_max)
    }

    /// Begins a file that takes the place of `name` when it is complete.
    ///
    /// # Errors
    /// When no file can be created here.
    pub fn replacement(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Replacement<'_>> {
        let name = one_name(name.as_ref())?.to_os_string();
        let (fresh, file) = self.fresh(mode)?;
        Ok(Replacement { directory: Folder::Borrowed(self), name, fresh, file, done: false })
    }

    /// Begins a file that takes the place of `name` and keeps its mode, its group and, as far as the kernel permits, its
    /// owner. A new file has `mode`. So has one that takes the place of what is no regular file, or of a file of another user
    /// in a folder that everybody may write to: whoever put it there does not decide who reads the new one.
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
        let (fresh, file) = self.fresh(if old.is_some() { 0o600 } else { mode })?;
        let successor = Replacement { directory: Folder::Owned(self), name, fresh, file, done: false };
        if let Some(old) = old {
            let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
            let mut mode = old.st_mode & 0o777;
            if rustix::fs::fchown(&successor.file, Some(owner), Some(group)).is_err()
                && rustix::fs::fchown(&successor.file, None, Some(group)).is_err()
            {
                // What the old group may do, another group may not.
                mode &= 0o707;
            }
            rustix::fs::fchmod(&successor.file, Mode::from_raw_mode(mode))?;
        }
        Ok(successor)
    }

    /// A new file under a name that nobody can predict.
    fn fresh(&self, mode: u32) -> io::Result<(String, File)> {
        for _ in 0..NAMES_MAX {
            let fresh = format!(".plimsoll-{}.new", random_name()?);
            match self.create_new(&fresh, mode) {
                Ok(file) => return Ok((fresh, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no unused name was found for a new file"))
    }

    /// Replaces the file `name` whole. A link of this name is replaced itself; what it points at stays as it is.
    ///
    /// # Errors
    /// When the new file cannot be written; the old one is unchanged then.
    pub fn replace(&self, name: impl AsRef<OsStr>, mode: u32, content: &[u8]) -> io::Result<()> {
        let mut replacement = self.replacement(name, mode)?;
        replacement.file().write_all(content)?;
        replacement.finish()
    }

    /// Removes a file, a link or another thing that is no folder.
    ///
    /// # Errors
    /// When there is none, or it may not be removed.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, one_name(name.as_ref())?, AtFlags::empty())?)
    }

    /// Removes a file only if it is still the one with this identity; false when another one, or none, has its name.
    ///
    /// # Errors
    /// When it may not be looked at or removed.
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
    /// When it is not empty, is no folder, or may not be removed.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, one_name(name.as_ref())?, AtFlags::REMOVEDIR)?)
    }

    /// The identity of what has this name now; of a link itself, not of what it points at.
    ///
    /// # Errors
    /// When nothing has it.
    pub fn identity_of(&self, name: impl AsRef<OsStr>) -> io::Result<Identity> {
        let name = one_name(name.as_ref())?;
        let status = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Identity { device: status.st_dev, inode: status.st_ino })
    }

    /// The names of what is in it, sorted.
    ///
    /// # Errors
    /// When it may not be read.
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

    /// Makes what was created, renamed and removed here durable.
    ///
    /// # Errors
    /// When the file system cannot.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.descriptor)?)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A folder that is borrowed, or kept open by who uses it.
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

/// A file that is being written and has no place yet. Dropping it unfinished removes it.
#[derive(Debug)]
pub struct Replacement<'a> {
    directory: Folder<'a>,
    name: OsString,
    fresh: String,
    file: File,
    done: bool,
}

impl Replacement<'_> {
    /// The new file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts it in its place. Call [`File::sync_all`] before, where it must outlive a power failure.
    ///
    /// # Errors
    /// When it cannot be renamed; it is removed then.
    pub fn finish(mut self) -> io::Result<()> {
        self.rename()
    }

    /// Makes it durable and puts it in its place. That it has its name after a power failure is sure only where the file
    /// system syncs folders.
    ///
    /// # Errors
    /// When it cannot be written or renamed; it is removed then.
    pub fn finish_durably(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.rename()?;
        // The file is complete, and some file systems cannot do this.
        let _ = self.directory.sync();
        Ok(())
    }

    fn rename(&mut self) -> io::Result<()> {
        let at = &self.directory.descriptor;
        rustix::fs::renameat(at, self.fresh.as_str(), at, &self.name)?;
        self.done = true;
        Ok(())
    }

    /// Puts it in its place as [`Replacement::finish`] does, and returns it, still open.
    ///
    /// # Errors
    /// As [`Replacement::finish`], and when the process has no descriptor left.
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
            // Half a file helps nobody, and on a full disk its space does.
            let _ = self.directory.remove(&self.fresh);
        }
    }
}

/// Creates a file that did not exist; links in the path of its folder are followed, one of its own name is not.
///
/// # Errors
/// As [`Directory::create_new`].
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let (directory, name) = Directory::of_file(path)?;
    directory.create_new(name, mode)
}

/// Replaces a file whole; see [`Directory::replace`].
///
/// # Errors
/// As [`Directory::replace`].
pub fn replace(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let (directory, name) = Directory::of_file(path)?;
    directory.replace(name, mode, content)
}

/// Opens the regular file that the user named, for reading. Links are followed; a FIFO or a device is refused, and none
/// of them blocks.
///
/// # Errors
/// When there is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    regular(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// A whole regular file of at most `bytes_max`.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::FileTooLarge`] for a larger one.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    whole(open_regular(path)?, bytes_max)
}

/// A whole regular text file in UTF-8 of at most `bytes_max`.
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`] for one that is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text(read(path, bytes_max)?)
}

/// A whole text in UTF-8 of at most `bytes_max`, from whatever the user named: a pipe is read to its end.
///
/// # Errors
/// As [`read_text`], but for what is no regular file.
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
            format!("it has more than the {bytes_max} bytes that are read"),
        ));
    }
    Ok(bytes)
}

/// A name without a folder in it, so that nothing outside is reached.
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
