//! A fio job file.

use model::Load;
use workloads::disk::fio::{Surroundings, parse};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
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
}
