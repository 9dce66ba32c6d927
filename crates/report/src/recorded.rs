//! Stored runs, recorded by the program on a real machine and judged by its analysis. For tests, and for the
//! `page` example. `fixtures/README.md` says how they are recorded.

use std::path::Path;
use std::sync::LazyLock;

use model::{ResultDocument, Study};

/// A record, and the result that the analysis makes of it.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) document: ResultDocument,
    pub(crate) study: Study,
}

impl Recorded {
    /// Judges a record.
    pub(crate) fn of(study: Study) -> Recorded {
        Recorded { document: analysis::result(&study), study }
    }
}

/// Experiments that went to their end and have numbers: one of each kind.
pub(crate) const WHOLE: [&str; 13] = [
    "disk",
    "queue-depth",
    "distributions",
    "block-size",
    "grid",
    "users",
    "limit",
    "dependencies",
    "proof",
    "http",
    "exec",
    "sync",
    "copy",
];

/// What was only watched, and runs in which something went wrong.
pub(crate) const ODD: [&str; 8] =
    ["watch", "interrupted", "killed", "failed", "all-failed", "failing", "nothing-completed", "generator"];

/// Every stored run by its name, read once.
static STORED: LazyLock<Vec<(&'static str, Recorded)>> = LazyLock::new(|| {
    let names = WHOLE.into_iter().chain(ODD);
    names.map(|name| (name, Recorded::of(read(name)))).collect()
});

/// From the folder of this crate, where its tests run, so that no path of one machine is shown anywhere.
fn read(name: &str) -> Study {
    record::read(&Path::new("fixtures").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every stored run, those of whole experiments first.
pub(crate) fn all() -> &'static [(&'static str, Recorded)] {
    &STORED
}

/// The stored runs of whole experiments.
pub(crate) fn whole() -> &'static [(&'static str, Recorded)] {
    &STORED[..WHOLE.len()]
}

/// One of them, to be changed.
pub(crate) fn run(name: &str) -> Recorded {
    let found = STORED.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no run is stored as {name}")).1.clone()
}

/// The first so many configurations of a run, as if no others had been measured, each in so many replicates at most.
pub(crate) fn part(name: &str, configurations: usize, replicates: u32) -> Recorded {
    let Recorded { document, mut study } = run(name);
    let kept: Vec<String> =
        document.configurations.into_iter().take(configurations).map(|each| each.treatment.label).collect();
    study.runs.retain(|record| {
        let trial = &record.run.trial;
        kept.contains(&trial.treatment.label()) && trial.replicate <= replicates
    });
    Recorded::of(study)
}
