//! A HAR file.

use std::path::Path;

use workloads::http::scenario::Scenario;
use workloads::http::scenario::har::read;
use workloads::http::scenario::recording::RecordingOptions;

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let options = RecordingOptions { third_party: true, ..RecordingOptions::default() };
    let Ok(import) = read(text, &options) else { return };
    let written = import.file.write();
    let mut find_secret = |_: model::Placeholder<'_>| Ok("secret".to_string());
    if let Err(problems) = Scenario::parse(&written, "s.toml", Path::new("/nonexistent"), &mut find_secret) {
        panic!("{problems}\n{written}");
    }
}
