//! The files of a run directory beside its trials: `plan.json`, `host.json` and the `steps.json` of its only trial are the parts of
//! the input between zero bytes. What is read is judged and shown in every form.

use std::path::PathBuf;
use std::sync::LazyLock;

/// By their paths in the directory.
const FILES: [&str; 3] = ["plan.json", "host.json", "trials/001-baseline.r1/steps.json"];

const RUN: &str = include_str!("run.json");

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = super::folder("record-directory");
    let trial = folder.join("trials/001-baseline.r1");
    std::fs::create_dir_all(&trial).expect("the scratch folder can be written");
    std::fs::write(trial.join("run.json"), RUN).expect("the scratch folder can be written");
    folder
});

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let mut parts = bytes.splitn(FILES.len(), |byte| *byte == 0);
    for name in FILES {
        std::fs::write(FOLDER.join(name), parts.next().unwrap_or_default())
            .expect("the scratch folder can be written");
    }
    let _ = record::read_plan(&FOLDER);
    let Ok(study) = record::read(&FOLDER) else { return };
    super::record_trial::show(&study);
    if let Some(plan) = &study.plan {
        analysis::design(&plan.experiment).next(&study);
    }
}
