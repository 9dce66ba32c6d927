//! A fio job file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Load;
use workloads::disk::fio::{Surroundings, parse};

fuzz_target!(|text: &str| {
    let surroundings = Surroundings {
        read_file: &|_| Ok("[b]\nrw=write\ninclude again".into()),
        variable: &|name| (!name.is_empty()).then(|| "4k".into()),
        size_of: &|_| Some(1 << 30),
        ..Surroundings::NONE
    };
    match parse(text, "job.fio", &surroundings) {
        Ok(jobs) => {
            // Looks at settings only; nothing is opened before `check`. What cannot be is reported there, with words.
            for step in jobs.steps {
                let _ = engine::workload::WorkloadKind::configure(&workloads::disk::KIND, &step.workload);
                let _ = Load::read(&step.load);
            }
        }
        Err(problems) => assert!(!problems.is_empty() && !problems.to_string().is_empty()),
    }
});
