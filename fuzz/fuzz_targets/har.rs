//! A HAR file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use workloads::http::scenario::Scenario;
use workloads::http::scenario::har::read;
use workloads::http::scenario::recording::RecordingOptions;

fuzz_target!(|text: &str| {
    let options = RecordingOptions { third_party: true, ..RecordingOptions::default() };
    let Ok(import) = read(text, &options) else { return };
    let written = import.file.write();
    let mut find_secret = |_: model::Placeholder<'_>| Ok("secret".to_string());
    if let Err(problems) = Scenario::parse(&written, "s.toml", Path::new("/nonexistent"), &mut find_secret) {
        panic!("{problems}\n{written}");
    }
});
