//! A scenario file or a settings file of WCAT.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use workloads::http::scenario::Scenario;
use workloads::http::scenario::wcat::{WcatOptions, read_scenario, read_settings};

fuzz_target!(|text: &str| {
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
});
