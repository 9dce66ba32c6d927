//! Configurations with different back ends: whether the factor or the back end caused the difference is
//! unknown.

use std::collections::BTreeMap;

use model::result::{Configuration, ResultDocument};
use model::{Doubt, DoubtKind, Ending, Level};

use crate::words;

/// The fact with the back end of a workload, and the setting that requests one.
const FACT: &str = "back_end";
const SETTING: &str = "workload.back_end";

/// A doubt if compared configurations used different back ends and none requested another one than the
/// baseline: the choice of the workload may depend on the load.
pub(crate) fn back_ends(document: &ResultDocument) -> Option<Doubt> {
    // Without a comparison, different back ends do not matter.
    if document.comparison.is_empty() {
        return None;
    }
    let requests_one = |configuration: &&Configuration| {
        configuration.treatment.changes.iter().any(|change| change.factor.0 == SETTING)
    };
    let mut configurations: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for configuration in document.configurations.iter().filter(|configuration| !requests_one(configuration)) {
        let label = configuration.treatment.label.as_str();
        for trial in &document.trials {
            if trial.treatment.label == label
                && trial.ending == Ending::Completed
                && let Some(Level::Text(back_end)) = trial.facts.get(FACT)
            {
                let labels = configurations.entry(back_end).or_default();
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
        }
    }
    (configurations.len() > 1).then(|| {
        let each = configurations.iter().map(|(back_end, labels)| {
            let more = labels.len().saturating_sub(LABELS_SHOWN);
            let shown = labels[..labels.len() - more].join(", ");
            let more = if more > 0 { format!(" and {}", words::count(more, "more configuration")) } else { String::new() };
            format!("{back_end} in {shown}{more}")
        });
        let text = format!(
            "the configurations used different back ends: {}; part of their difference may come from the back end",
            each.collect::<Vec<_>>().join("; ")
        );
        let help = "set the same for all: `--back-end io_uring`, or `back_end` in `[workload]`";
        Doubt::new(DoubtKind::BackEndsDiffer, text, help)
    })
}

/// Number of configurations that are named for each back end.
const LABELS_SHOWN: usize = 4;
