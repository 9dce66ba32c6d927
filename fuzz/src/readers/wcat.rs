//! A scenario file or a settings file of WCAT.

use std::path::Path;

use workloads::http::scenario::Scenario;
use workloads::http::scenario::wcat::{WcatOptions, read_scenario, read_settings};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = read_settings(text);
    let Ok(scenario) = read_scenario(text, &WcatOptions::default()) else { return };
    let written = scenario.import.file.write();
    let mut find_secret = |_: model::Placeholder<'_>| Ok("secret".to_string());
    if let Err(problems) = Scenario::parse(&written, "s.toml", Path::new("/nonexistent"), &mut find_secret) {
        // Servers and files are names of the file, and are checked here.
        let of_names = |what: &str| {
            what.contains("URL")
                || what.contains("cannot be read")
                || what.contains("servers")
                || what.contains("host and port")
        };
        assert!(problems.0.iter().all(|problem| of_names(&problem.what)), "{problems}\n{written}");
    }
}
