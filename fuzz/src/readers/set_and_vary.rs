//! `--set` and `--vary` of the command line, a line each: set on an experiment of any workload, then written and read.

use std::sync::LazyLock;

use model::experiment::{set, variation, write};
use model::{Experiment, Load, Vocabulary};

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(super::vocabulary);

/// One plain experiment per workload.
static PLAIN: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    let texts = [
        "[workload.disk]\nfiles = [\"/data/a\"]\n",
        "[workload.copy]\nfrom = \"/data/a\"\nto = \"/data/b\"\n",
        "[workload.command]\nrun = \"true\"\n",
        "[workload.null]\n",
    ];
    texts.iter().filter_map(|text| Experiment::parse(text, "plain", &VOCABULARY).ok()).collect()
});

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for plain in PLAIN.iter() {
        let mut experiment = plain.clone();
        for line in text.lines().take(16) {
            let _ = set(&mut experiment, line, &VOCABULARY);
            if let Ok(variation) = variation(line, &experiment, &VOCABULARY) {
                assert!(!variation.levels.is_empty());
                experiment.vary.push(variation);
            }
        }
        let _ = Load::read(&experiment.load);
        if let Some(kind) = workloads::KINDS.iter().find(|kind| kind.info().name == experiment.workload.kind)
        {
            let _ = kind.configure(&experiment.workload.settings);
        }
        // What was set one by one may contradict itself; reading the file says so rather than failing.
        let _ = Experiment::parse(&write(&experiment, &VOCABULARY), "written.toml", &VOCABULARY);
    }
}
