//! A fio job file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Load;
use workloads::disk::fio::parse;

fuzz_target!(|text: &str| {
    match parse(text, "job.fio") {
        Ok(jobs) => {
            // Looks at settings only; nothing is opened before `check`. What cannot be is told there, with words.
            let _ = engine::workload::WorkloadKind::configure(&workloads::disk::KIND, &jobs.workload);
            let _ = Load::read(&jobs.load);
        }
        Err(problems) => assert!(!problems.is_empty() && !problems.to_string().is_empty()),
    }
});
