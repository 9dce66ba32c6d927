//! Reads a HAR file (HTTP Archive 1.1 and 1.2), which browsers and proxies record, as a [`recording`](super::recording).

mod entry;

use model::Problem;
use serde_json::Value;

use super::file::Import;
use super::recording::{self, RecordingOptions};

/// Begins the names of the environment variables for credentials.
const SECRET_PREFIX: &str = "HAR_";

/// Reads a HAR file.
///
/// # Errors
/// If it is not a HAR file, or if no request of it can be used.
pub fn read(text: &str, options: &RecordingOptions) -> Result<Import, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document: Value = serde_json::from_str(text).map_err(|error| {
        let help = "export the file again as \"HAR with content\"";
        Problem { line: error.line() as u32, ..Problem::new(format!("the file is not JSON: {error}"), help) }
    })?;
    let Some(entries) = document.pointer("/log/entries").and_then(Value::as_array) else {
        let help = "a HAR file has `log` with `entries`: export it in the network panel of a browser";
        return Err(Problem::new("the file is JSON, but not a HAR file", help));
    };
    let mut notes = Vec::new();
    let mut kept = Vec::new();
    for (at, value) in entries.iter().enumerate() {
        kept.extend(entry::read(value, at as u32 + 1, &mut notes));
    }
    recording::scenario_of(kept, notes, options, SECRET_PREFIX)
}

#[cfg(test)]
mod tests;
