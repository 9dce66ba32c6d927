//! gzip, for the files that are only read once a trial is over.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::RecordError;

/// `name.gz` beside `name`.
fn gz(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".gz");
    PathBuf::from(name)
}

/// Replaces a file by its gzip. The plain file goes only when the other one is whole and synced.
pub(crate) fn compress(path: &Path) -> Result<(), RecordError> {
    let target = gz(path);
    let mut partial = target.as_os_str().to_os_string();
    partial.push(".new");
    let partial = PathBuf::from(partial);
    let compressed = write_compressed(path, &partial);
    if compressed.is_err() {
        // The plain file is whole; half of the other one would only take room.
        let _ = std::fs::remove_file(&partial);
        return compressed;
    }
    std::fs::rename(&partial, &target).map_err(RecordError::io("replace", &target))?;
    std::fs::remove_file(path).map_err(RecordError::io("remove", path))
}

fn write_compressed(path: &Path, partial: &Path) -> Result<(), RecordError> {
    let mut input = File::open(path).map_err(RecordError::io("read", path))?;
    let output = File::create(partial).map_err(RecordError::io("create", partial))?;
    let mut encoder = GzEncoder::new(BufWriter::new(output), Compression::new(6));
    std::io::copy(&mut input, &mut encoder).map_err(RecordError::io("compress", path))?;
    let output = encoder.finish().map_err(RecordError::io("write", partial))?;
    let output =
        output.into_inner().map_err(|error| RecordError::io("write", partial)(error.into_error()))?;
    output.sync_all().map_err(RecordError::io("sync", partial))
}

/// The text of `name`, or of `name.gz` when only that is there; none when neither is. Bytes that are not UTF-8 are
/// replaced, and a gzip that ends early gives what came before: a damaged record is read as far as it goes.
pub(crate) fn read_text(path: &Path) -> Result<Option<(String, bool)>, RecordError> {
    let mut bytes = Vec::new();
    let mut whole = true;
    match File::open(path) {
        Ok(mut file) => {
            file.read_to_end(&mut bytes).map_err(RecordError::io("read", path))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match File::open(gz(path)) {
            Ok(file) => {
                whole = MultiGzDecoder::new(BufReader::new(file)).read_to_end(&mut bytes).is_ok();
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RecordError::io("read", path)(error)),
        },
        Err(error) => return Err(RecordError::io("read", path)(error)),
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            whole = false;
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
    };
    Ok(Some((text, whole)))
}
