//! The file that a preview of the metadirectory writes.

use std::io;
use std::path::Path;

/// Where a preview writes every change.
pub(super) enum Output {
    /// A file that takes its place when it is complete; it holds data of people.
    File(files::Replacement<'static>),
    /// A pipe or a terminal.
    Stream(std::fs::File),
}

impl Output {
    pub(super) fn create(path: &Path) -> io::Result<Output> {
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return std::fs::File::options().write(true).open(path).map(Output::Stream);
        }
        let (folder, name) = files::Directory::of_file(path)?;
        folder.into_successor(name, files::PRIVATE_FILE).map(Output::File)
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::File(file) => file.write(bytes),
            Output::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::File(file) => file.flush(),
            Output::Stream(file) => file.flush(),
        }
    }
}
