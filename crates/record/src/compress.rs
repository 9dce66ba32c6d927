//! Compresses files with gzip that are only read after a trial.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};

use files::{Directory, Identity, PRIVATE_FILE};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::RecordError;

/// A longer file is compressed faster and less: an hour of 900 counters has 26 MB.
const LONG_BYTES: u64 = 32 << 20;

/// Replaces the file `name`, open as `file`, by its gzip. The plain file is removed only when the compressed
/// one is complete and synced.
pub(crate) fn compress(directory: &Directory, name: &str, file: &mut File) -> Result<(), RecordError> {
    let target = format!("{name}.gz");
    let path = directory.path().join(&target);
    let write = || -> std::io::Result<()> {
        let mut replacement = directory.replacement(&target, PRIVATE_FILE)?;
        file.seek(SeekFrom::Start(0))?;
        let level = if file.metadata()?.len() > LONG_BYTES { 1 } else { 6 };
        let mut encoder = GzEncoder::new(BufWriter::new(replacement.file()), Compression::new(level));
        std::io::copy(file, &mut encoder)?;
        encoder.finish()?.flush()?;
        replacement.file().sync_all()?;
        replacement.finish()?;
        directory.remove_if(name, Identity::of(&*file)?).map(drop)
    };
    let mut write = write;
    write().map_err(RecordError::io("compress", &path))
}
