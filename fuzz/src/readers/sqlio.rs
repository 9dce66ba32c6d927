//! SQLIO's flags on the first line, cut at blanks; the parameter file on the rest.

use model::Load;
use workloads::disk::sqlio::{SqlioNumbers, parse, report};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (flags, parameters) = text.split_once('\n').unwrap_or((text, ""));
    let flags: Vec<String> = flags.split_whitespace().map(str::to_string).collect();
    match parse(&flags, &|_| Ok(parameters.to_string())) {
        Ok(run) => {
            // Looks at settings only; nothing is opened before `check`. What cannot be is reported there, with words.
            let _ = engine::workload::WorkloadKind::configure(&workloads::disk::KIND, &run.settings());
            let load = Load::read(&run.load());
            assert!(
                load.is_ok(),
                "{flags:?} became a load that cannot be: {}",
                load.err().unwrap_or_default()
            );
            let nothing = SqlioNumbers::from_histogram(&model::study::new_histogram(), 1.0, 0);
            assert!(!report(&run, &nothing).is_empty());
        }
        Err(problems) => assert!(!problems.is_empty(), "refused without a reason"),
    }
}
