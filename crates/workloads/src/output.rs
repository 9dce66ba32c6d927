//! The file that a user named for what a command prints.

use std::fs::File;
use std::io;
use std::path::Path;

use engine::workload::LoadError;
use rustix::fs::{FileType, OFlags};

/// Mode of a file that is made.
const MODE: u32 = 0o644;

/// Opens it for writing, behind what it holds with `append` and empty without. Another user's link is not followed, and a
/// link that points nowhere makes nothing.
///
/// # Errors
/// When it cannot be made or written, with what to do.
pub(crate) fn open(path: &Path, append: bool) -> Result<File, LoadError> {
    file(path, append).map_err(|error| {
        LoadError::new(format!("the output cannot be written to `{}`: {error}", path.display()), "")
    })
}

fn file(path: &Path, append: bool) -> io::Result<File> {
    let appending = if append { OFlags::APPEND } else { OFlags::empty() };
    if path.parent() == Some(Path::new("/dev")) {
        // `/dev/stderr` leads to what has no path. Root alone puts names here.
        return stream(File::from(rustix::fs::open(
            path,
            OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC | appending,
            rustix::fs::Mode::empty(),
        )?));
    }
    let named = files::locate(path)?;
    let Some(found) = named.found else {
        let file = named.directory.create_new(&named.name, MODE)?;
        return if append { files::reopen(file, OFlags::WRONLY | OFlags::APPEND) } else { Ok(file) };
    };
    let status = rustix::fs::fstat(&found)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => {
            let user = rustix::process::geteuid().as_raw();
            if status.st_uid != user && status.st_uid != 0 {
                return Err(refused(format!("the file belongs to user {}: name another one", status.st_uid)));
            }
            if status.st_nlink > 1 {
                return Err(refused(
                    "the file has a second name, which would change too: name another one".into(),
                ));
            }
            let truncating = if append { OFlags::APPEND } else { OFlags::TRUNC };
            files::reopen(found, OFlags::WRONLY | truncating)
        }
        FileType::CharacterDevice => stream(files::reopen(found, OFlags::WRONLY | OFlags::NOCTTY)?),
        _ => Err(refused("it is no file".into())),
    }
}

/// Anything but a block device.
fn stream(file: File) -> io::Result<File> {
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::BlockDevice => Err(refused("it is a block device".into())),
        _ => Ok(file),
    }
}

fn refused(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use testkit::Scratch;

    fn write(path: &Path, append: bool) -> Result<(), LoadError> {
        open(path, append).map(|mut file| file.write_all(b"new").unwrap())
    }

    #[test]
    fn a_file_is_made_emptied_or_continued() {
        let folder = Scratch::new();
        let path = folder.join("log");
        write(&path, true).unwrap();
        write(&path, true).unwrap();
        assert_eq!(folder.text("log"), "newnew");
        write(&path, false).unwrap();
        assert_eq!(folder.text("log"), "new");
        symlink("log", folder.join("link")).unwrap();
        write(&folder.join("link"), true).unwrap();
        assert_eq!(folder.text("log"), "newnew");
        write(Path::new("/dev/null"), false).unwrap();
    }

    #[test]
    fn what_is_not_the_users_own_is_left_alone() {
        let folder = Scratch::new();
        let precious = folder.file("precious", "precious");
        std::fs::hard_link(&precious, folder.join("second")).unwrap();
        symlink("nowhere", folder.join("dangling")).unwrap();
        let mut paths = vec![folder.join("second"), folder.join("dangling"), folder.path().to_path_buf()];
        if rustix::process::geteuid().is_root() {
            let theirs = folder.file("theirs", "precious");
            std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
            symlink("theirs", folder.join("link")).unwrap();
            std::os::unix::fs::lchown(folder.join("link"), Some(65534), None).unwrap();
            paths.extend([theirs, folder.join("link")]);
        } else {
            println!("skipped in part: needs root, to make what belongs to another user");
        }
        for path in paths {
            for append in [true, false] {
                assert!(write(&path, append).is_err(), "{}", path.display());
            }
        }
        assert_eq!(folder.text("precious"), "precious");
        assert!(!folder.join("nowhere").exists());
    }
}
