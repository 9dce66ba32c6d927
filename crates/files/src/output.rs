//! The output file that a user named, for example with `--output`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use crate::{Replacement, locate, reopen};

/// Mode of an output file without private content, before the umask: the same as with a shell's `>`.
pub const SHARED_FILE: u32 = 0o666;

/// An output file at the place that the user named.
///
/// - A missing or regular file is replaced when the new one is complete; the new file keeps mode and owner.
/// - A FIFO, or a device other than a disk, is written to directly: `/dev/stdout`, a process substitution.
/// - A link is followed as by [`locate`]: only if this user or root made it and its target exists.
#[derive(Debug)]
pub struct Output(Target);

#[derive(Debug)]
enum Target {
    Replaced(Replacement<'static>),
    Written(File),
}

impl Output {
    /// Opens the output; a new file has `mode`, reduced by the umask.
    ///
    /// # Errors
    /// When nothing can be written there; for a link, the message says what to do.
    pub fn create(path: &Path, mode: u32) -> io::Result<Output> {
        if let Some(stream) = standard_stream(path)? {
            return Ok(Output(Target::Written(stream)));
        }
        let named = locate(path)?;
        match named.found {
            Some(found) if !is_regular(&found)? => {
                Ok(Output(Target::Written(reopen(found, OFlags::WRONLY | OFlags::NOCTTY)?)))
            }
            _ => Ok(Output(Target::Replaced(named.directory.into_successor(&named.name, mode)?))),
        }
    }

    /// Opens the output for appending, or creates it. Nothing is replaced, so a regular file must belong to
    /// this user or root, and must have only one name.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn append(path: &Path, mode: u32) -> io::Result<File> {
        if let Some(stream) = standard_stream(path)? {
            return Ok(stream);
        }
        let named = locate(path)?;
        let Some(found) = named.found else {
            let file = named.directory.create_new(&named.name, mode)?;
            return reopen(file, OFlags::WRONLY | OFlags::APPEND);
        };
        if is_regular(&found)? {
            let status = rustix::fs::fstat(&found)?;
            if status.st_uid != rustix::process::geteuid().as_raw() && status.st_uid != 0 {
                return Err(refused(&format!("it belongs to user {}: name another file", status.st_uid)));
            }
            if status.st_nlink > 1 {
                return Err(refused("it has several hard links, which would change too: name another file"));
            }
            return reopen(found, OFlags::WRONLY | OFlags::APPEND);
        }
        reopen(found, OFlags::WRONLY | OFlags::NOCTTY)
    }

    /// The file to write into.
    pub fn file(&mut self) -> &mut File {
        match &mut self.0 {
            Target::Replaced(replacement) => replacement.file(),
            Target::Written(file) => file,
        }
    }

    /// Moves the output to its place. If it is dropped before, the old file is unchanged.
    ///
    /// # Errors
    /// When it could not be written, as by [`settle`], or cannot be renamed.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Target::Replaced(mut replacement) => {
                settle(&*replacement.file())?;
                replacement.finish()
            }
            Target::Written(file) => settle(file),
        }
    }

    /// Moves the output to its place now and returns it, for output that others read while it is written.
    ///
    /// # Errors
    /// As [`Output::finish`].
    pub fn into_file(self) -> io::Result<File> {
        match self.0 {
            Target::Replaced(replacement) => replacement.finish_open(),
            Target::Written(file) => Ok(file),
        }
    }

    /// Writes a whole file without private content.
    ///
    /// # Errors
    /// As [`Output::create`], and when it cannot be written; the old file is then unchanged.
    pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
        let mut output = Output::create(path, SHARED_FILE)?;
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

/// Types of file systems that may report that a write failed only when the file is closed or synced: NFS, SMB, Ceph, 9P, AFS,
/// and those of FUSE (linux/magic.h).
const LATE: [u32; 8] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x0102_1997, 0x5346_414f, 0x6573_5546];

/// Asks a file system that reports errors late whether everything was written. Others have reported it with the writes, and
/// are not asked, because syncing waits for the disk.
///
/// # Errors
/// When something was not written, for instance because a quota or the disk of a server is full.
pub fn settle(file: impl AsFd) -> io::Result<()> {
    let is_late = rustix::fs::fstatfs(&file).is_ok_and(|found| LATE.contains(&(found.f_type as u32)));
    if is_late && is_regular(&file).unwrap_or(false) {
        rustix::fs::fsync(file)?;
    }
    Ok(())
}

/// Opens a name of an open descriptor, such as `/dev/stdout` and `/dev/fd/63`, which may have no path. It is
/// opened for appending, because it may be a file that a shell writes to.
fn standard_stream(path: &Path) -> io::Result<Option<File>> {
    let is_name = ["/dev/stdout", "/dev/stderr"].iter().any(|name| path == Path::new(name))
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc");
    if !is_name || path.components().any(|part| part == std::path::Component::ParentDir) {
        return Ok(None);
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(Some(File::from(rustix::fs::open(path, flags, Mode::empty())?)))
}

/// Whether it is a regular file.
fn is_regular(found: &impl AsFd) -> io::Result<bool> {
    match FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode) {
        FileType::RegularFile => Ok(true),
        FileType::CharacterDevice | FileType::Fifo => Ok(false),
        FileType::BlockDevice => Err(refused("it is a block device")),
        _ => Err(refused("it is a folder or a socket, not a file")),
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use testkit::Scratch;

    #[test]
    fn a_file_is_replaced_and_keeps_its_mode() {
        let folder = Scratch::new();
        let path = folder.file("page", "old");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        Output::write_file(&path, b"new").unwrap();
        assert_eq!(folder.text("page"), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(Output::create(&path, SHARED_FILE).unwrap());
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
        Output::append(&folder.join("chain"), SHARED_FILE).unwrap().write_all(b"er").unwrap();
        assert_eq!(folder.text("real"), "newer");
        for refused in ["dangling", "circle"] {
            assert!(Output::write_file(&folder.join(refused), b"new").is_err(), "{refused}");
            assert!(Output::append(&folder.join(refused), SHARED_FILE).is_err(), "{refused}");
        }
        assert!(!folder.join("nowhere").exists());
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        if testkit::lacks(testkit::Need::Root) {
            return;
        }
        let folder = Scratch::new();
        folder.file("authorized_keys", "key");
        symlink("authorized_keys", folder.join("page")).unwrap();
        std::os::unix::fs::lchown(folder.join("page"), Some(65534), Some(65534)).unwrap();
        let error = Output::write_file(&folder.join("page"), b"new").unwrap_err().to_string();
        assert!(error.contains("belongs to user 65534"), "{error}");
        assert_eq!(folder.text("authorized_keys"), "key");
    }

    #[test]
    fn nothing_is_appended_to_a_file_of_another_user_or_with_a_second_name() {
        let folder = Scratch::new();
        let precious = folder.file("precious", "precious");
        std::fs::hard_link(&precious, folder.join("second")).unwrap();
        let mut paths = vec![folder.join("second"), folder.path().to_path_buf()];
        if rustix::process::geteuid().is_root() {
            let theirs = folder.file("theirs", "precious");
            std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
            paths.push(theirs);
        }
        for path in paths {
            assert!(Output::append(&path, SHARED_FILE).is_err(), "{}", path.display());
        }
        assert_eq!(folder.text("precious"), "precious");
        for expected in ["new", "newnew"] {
            Output::append(&folder.join("log"), SHARED_FILE).unwrap().write_all(b"new").unwrap();
            assert_eq!(folder.text("log"), expected);
        }
    }

    #[test]
    fn a_private_output_is_private() {
        let folder = Scratch::new();
        Output::create(&folder.join("people"), crate::PRIVATE_FILE).unwrap().finish().unwrap();
        assert_eq!(std::fs::metadata(folder.join("people")).unwrap().mode() & 0o777, 0o600);
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
