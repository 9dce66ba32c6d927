//! A HAR file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use workloads::http::scenario::Scenario;
use workloads::http::scenario::har::{HarOptions, read};

fuzz_target!(|text: &str| {
    let Ok(import) = read(text, &HarOptions { third_party: true, think_scale: 1.0 }) else { return };
    let written = import.file.write();
    let mut find_secret = |_: model::Placeholder<'_>| Ok("secret".to_string());
    if let Err(problems) = Scenario::parse(&written, "s.toml", Path::new("/nonexistent"), &mut find_secret) {
        panic!("{problems}\n{written}");
    }
});
