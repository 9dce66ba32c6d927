//! An experiment file: an experiment or problems, and what is understood can be written, read again, configured and
//! planned.

use std::sync::LazyLock;

use model::experiment::write;
use model::{Experiment, Load, Vocabulary};

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(super::vocabulary);

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let experiment = match Experiment::parse(text, "experiment.toml", &VOCABULARY) {
        Ok(experiment) => experiment,
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            assert!(!problems.to_string().is_empty());
            return;
        }
    };
    if let Some(shape) = Load::read(&experiment.load).ok().and_then(|load| load.shape) {
        shape.describe();
    }
    if let Some(kind) = workloads::KINDS.iter().find(|kind| kind.info().name == experiment.workload.kind) {
        // Looks at settings only; nothing is opened before `check`.
        let _ = kind.configure(&experiment.workload.settings);
    }
    analysis::trial_count(&experiment);
    let written = write(&experiment, &VOCABULARY);
    let again = Experiment::parse(&written, "written.toml", &VOCABULARY)
        .unwrap_or_else(|problems| panic!("what was written is refused: {problems}\n{written}"));
    assert_eq!(write(&again, &VOCABULARY), written, "another experiment after it was written and read");
}
