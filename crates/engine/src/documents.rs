//! Texts that an experiment refers to, such as a scenario: they are kept in the run directory, so that the run can be
//! explained when their files have changed.

use std::fmt;
use std::sync::Arc;

use model::Experiment;
use model::experiment::Proxies;
use record::{RecordError, RunDirectory};

use crate::check::treatments;
use crate::inputs::KeptInputs;
use crate::session::{Registry, make_ready};

/// Why the texts are not kept.
#[derive(Debug)]
pub enum DocumentError {
    /// The run directory cannot be read or written.
    Record(RecordError),
    /// This file of the run directory has another content: what the experiment refers to has changed.
    Changed(String),
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentError::Record(error) => error.fmt(f),
            DocumentError::Changed(file) => write!(f, "{file} is not what the experiment refers to now"),
        }
    }
}

/// Writes the texts of all treatments into a run directory, or compares them with those that are there. With `kept`, they are those
/// of the files that are sent to machines.
///
/// # Errors
/// When a text is there that differs, or the directory cannot be read or written.
pub fn keep(
    directory: &RunDirectory,
    experiment: &Experiment,
    registry: &Registry,
    kept: Option<&Arc<KeptInputs>>,
) -> Result<(), DocumentError> {
    for (name, text) in of_treatments(experiment, registry, kept) {
        match directory.read_text(&name).map_err(DocumentError::Record)? {
            Some(kept) if kept == text => {}
            Some(_) => return Err(DocumentError::Changed(name)),
            None => directory.write_text(&name, &text).map_err(DocumentError::Record)?,
        }
    }
    Ok(())
}

/// The texts of all treatments: `scenario.toml`, and `scenario-2.toml` for a second one that differs.
fn of_treatments(
    experiment: &Experiment,
    registry: &Registry,
    kept: Option<&Arc<KeptInputs>>,
) -> Vec<(String, String)> {
    let mut all: Vec<(&str, String, String)> = Vec::new();
    // The addresses of proxies differ between runs.
    let proxies = Proxies::absent(&experiment.dependencies);
    for treatment in &treatments(experiment) {
        // What cannot be configured has been reported by the check.
        let Ok(ready) = make_ready(experiment, registry, treatment, &proxies, kept) else { continue };
        for (name, text) in ready.workload.documents() {
            if all.iter().any(|(known, _, kept)| *known == name && *kept == text) {
                continue;
            }
            let number = all.iter().filter(|(known, ..)| *known == name).count() + 1;
            let file = match (number, name.rsplit_once('.')) {
                (1, _) => name.to_string(),
                (number, Some((stem, ending))) => format!("{stem}-{number}.{ending}"),
                (number, None) => format!("{name}-{number}"),
            };
            all.push((name, file, text));
        }
    }
    all.into_iter().map(|(_, file, text)| (file, text)).collect()
}
