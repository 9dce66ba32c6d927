//! The file that a user named to write to, as with `--output`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::{Directory, Replacement};

/// Mode of a file that the user named, before the umask: what a shell's `>` gives it.
const MODE: u32 = 0o666;

/// Links to links that are followed.
const LINKS_MAX: u32 = 16;

/// A file that is written at the place the user named.
///
/// - What does not exist, and a regular file, is replaced whole when it is complete.
/// - A device or a FIFO is written to: `/dev/stdout`, a process substitution.
/// - A link is followed only when this user or root made it and it points at something: another user may have put it
///   there to have a file of this user's replaced.
#[derive(Debug)]
pub struct Output(Target);

#[derive(Debug)]
enum Target {
    Replaced(Replacement<'static>),
    Written(File),
}

impl Output {
    /// Opens it.
    ///
    /// # Errors
    /// When nothing can be written there; the message says what to do about a link.
    pub fn create(path: &Path) -> io::Result<Output> {
        match resolve(path)? {
            Place::Absent(path) => replaced(&path, MODE),
            Place::Regular(path, mode) => replaced(&path, mode),
            Place::Other(path, flags) => Ok(Output(Target::Written(written(&path, flags)?))),
        }
    }

    /// Opens it to write behind what it has; what does not exist is created. Nothing is replaced.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn append(path: &Path) -> io::Result<File> {
        match resolve(path)? {
            Place::Absent(path) | Place::Regular(path, _) => {
                let (directory, name) = Directory::of_file(&path)?;
                directory.open_append(name, MODE)
            }
            Place::Other(path, flags) => written(&path, flags),
        }
    }

    /// The file to write into.
    pub fn file(&mut self) -> &mut File {
        match &mut self.0 {
            Target::Replaced(replacement) => replacement.file(),
            Target::Written(file) => file,
        }
    }

    /// Puts what was written in its place. An output that is dropped before leaves the old file as it was.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Target::Replaced(replacement) => replacement.finish(),
            Target::Written(_) => Ok(()),
        }
    }

    /// Puts it in its place now and returns it: for what is written bit by bit while others look.
    ///
    /// # Errors
    /// As [`Output::finish`].
    pub fn into_file(self) -> io::Result<File> {
        match self.0 {
            Target::Replaced(mut replacement) => {
                let file = replacement.file().try_clone()?;
                replacement.finish().map(|()| file)
            }
            Target::Written(file) => Ok(file),
        }
    }

    /// Writes a whole file.
    ///
    /// # Errors
    /// As [`Output::create`], and when it cannot be written; the old file is unchanged then.
    pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
        let mut output = Output::create(path)?;
        output.file().write_all(content)?;
        output.finish()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// What is at the place that the user named.
enum Place {
    Absent(PathBuf),
    /// With its mode.
    Regular(PathBuf, u32),
    /// A device or a FIFO, and the flags to open it with.
    Other(PathBuf, OFlags),
}

/// Follows the links that may be followed.
fn resolve(path: &Path) -> io::Result<Place> {
    let user = rustix::process::geteuid().as_raw();
    let mut path = path.to_path_buf();
    for followed in 0..LINKS_MAX {
        let metadata = match std::fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound && followed > 0 => {
                return Err(refused(&format!(
                    "it is a symbolic link to {}, which does not exist: name that file itself",
                    path.display()
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::Absent(path)),
            Err(error) => return Err(error),
        };
        let kind = metadata.file_type();
        if kind.is_file() {
            return Ok(Place::Regular(path, metadata.permissions().mode() & 0o777));
        }
        if !kind.is_symlink() {
            return match kind.is_char_device() || kind.is_block_device() || kind.is_fifo() {
                true => Ok(Place::Other(path, OFlags::NOFOLLOW)),
                false => Err(refused("it is a folder or a socket, not a file")),
            };
        }
        // The links of /proc lead to files that are open already and may have no name.
        if is_in_proc(&path) {
            return Ok(Place::Other(path, OFlags::APPEND));
        }
        if metadata.uid() != user && metadata.uid() != 0 {
            return Err(refused(&format!(
                "it is a symbolic link of user {}, which is not followed: name the file it points at",
                metadata.uid()
            )));
        }
        let target = std::fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(refused("too many symbolic links lead to it"))
}

fn replaced(path: &Path, mode: u32) -> io::Result<Output> {
    let (directory, name) = Directory::of_file(path)?;
    Ok(Output(Target::Replaced(directory.into_replacement(name, mode)?)))
}

fn written(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC | flags;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Whether its folder is one of the file system `proc`, as that of `/dev/stdout`'s target is.
fn is_in_proc(path: &Path) -> bool {
    const PROC_SUPER_MAGIC: i64 = 0x9fa0;
    let parent =
        path.parent().filter(|parent| *parent != OsStr::new("")).map_or(PathBuf::from("."), PathBuf::from);
    rustix::fs::statfs(&parent).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use testkit::Scratch;

    #[test]
    fn a_file_is_replaced_and_keeps_its_mode() {
        let folder = Scratch::new();
        let path = folder.file("page", "old");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        Output::write_file(&path, b"new").unwrap();
        assert_eq!(folder.text("page"), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(Output::create(&path).unwrap());
        assert_eq!(folder.text("page"), "new", "an unfinished output changes nothing");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_of_this_user_is_followed_and_a_dangling_one_is_not() {
        let folder = Scratch::new();
        folder.file("real", "old");
        symlink("real", folder.join("link")).unwrap();
        symlink("link", folder.join("chain")).unwrap();
        symlink("nowhere", folder.join("dangling")).unwrap();
        symlink("circle", folder.join("circle")).unwrap();
        Output::write_file(&folder.join("chain"), b"new").unwrap();
        assert_eq!(folder.text("real"), "new");
        assert!(std::fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
        Output::append(&folder.join("chain")).unwrap().write_all(b"er").unwrap();
        assert_eq!(folder.text("real"), "newer");
        for refused in ["dangling", "circle"] {
            assert!(Output::write_file(&folder.join(refused), b"new").is_err(), "{refused}");
            assert!(Output::append(&folder.join(refused)).is_err(), "{refused}");
        }
        assert!(!folder.join("nowhere").exists());
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root, to make a link of another user");
            return;
        }
        let folder = Scratch::new();
        folder.file("authorized_keys", "key");
        symlink("authorized_keys", folder.join("page")).unwrap();
        std::os::unix::fs::lchown(folder.join("page"), Some(65534), Some(65534)).unwrap();
        let error = Output::write_file(&folder.join("page"), b"new").unwrap_err().to_string();
        assert!(error.contains("a symbolic link of user 65534"), "{error}");
        assert_eq!(folder.text("authorized_keys"), "key");
    }

    #[test]
    fn a_device_is_written_to() {
        Output::write_file(Path::new("/dev/null"), b"x").unwrap();
    }

    #[test]
    fn a_log_is_not_appended_to_through_a_link() {
        let folder = Scratch::new();
        folder.file("precious", "x");
        symlink("precious", folder.join("link")).unwrap();
        std::fs::hard_link(folder.join("precious"), folder.join("hard")).unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        for name in ["link", "hard"] {
            assert!(directory.open_append(name, 0o600).is_err(), "{name}");
        }
        directory.open_append("log", 0o600).unwrap().write_all(b"a").unwrap();
        directory.open_append("log", 0o600).unwrap().write_all(b"b").unwrap();
        assert_eq!(folder.text("log"), "ab");
    }
}
