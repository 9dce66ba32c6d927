//! SQLIO's flags on the first line, cut at blanks; the parameter file on the rest.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Load;
use workloads::disk::sqlio::{SqlioNumbers, parse, report};

fuzz_target!(|text: &str| {
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
});
