//! The kind of a step, which is the operation that its objects count as.

use std::collections::BTreeSet;

/// Names of the operations; a [`Kind`] is an index.
pub(super) static OPERATIONS: &[&str] =
    &["staging", "synchronization", "export", "confirmation", "propagation"];

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Import into a connector space.
    Staging,
    /// From connector space to metaverse to connector space.
    Synchronization,
    /// To a connected system.
    Export,
    /// An import that confirms what was exported.
    Confirmation,
    /// From a change at the source to its arrival at the target.
    Propagation,
}

impl Kind {
    /// Its place in [`OPERATIONS`].
    pub(super) fn place(self) -> u16 {
        self as u16
    }

    /// The kind by its name in a setting.
    pub(super) fn of_word(word: &str) -> Option<Kind> {
        match word {
            "staging" => Some(Kind::Staging),
            "synchronization" => Some(Kind::Synchronization),
            "export" => Some(Kind::Export),
            "confirmation" => Some(Kind::Confirmation),
            _ => None,
        }
    }

    /// The kind by the name of a step or run: `phones full-import` is staging, and a confirmation once something was
    /// exported to `phones`.
    pub(super) fn of_name(name: &str, exported: &BTreeSet<String>) -> Option<Kind> {
        let name = name.to_lowercase();
        match () {
            () if name.contains("export") => Some(Kind::Export),
            () if name.contains("import") || name.contains("staging") => {
                match exported.contains(agent(&name)) {
                    true => Some(Kind::Confirmation),
                    false => Some(Kind::Staging),
                }
            }
            () if name.contains("sync") => Some(Kind::Synchronization),
            () => None,
        }
    }
}

/// The first word of a step's name, which is its management agent.
pub(super) fn agent(name: &str) -> &str {
    name.split_whitespace().next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_shows_the_kind() {
        let exported = BTreeSet::from(["phones".to_string()]);
        for (name, expected) in [
            ("staff full-import", Some(Kind::Staging)),
            ("staff delta-synchronization", Some(Kind::Synchronization)),
            ("Phones Export", Some(Kind::Export)),
            ("phones full-import", Some(Kind::Confirmation)),
            ("triggerFullSync", Some(Kind::Synchronization)),
            ("full", None),
        ] {
            assert_eq!(Kind::of_name(name, &exported), expected, "{name}");
        }
        for (at, name) in OPERATIONS.iter().enumerate().take(4) {
            assert_eq!(Kind::of_word(name).map(Kind::place), Some(at as u16));
        }
        assert_eq!(OPERATIONS[usize::from(Kind::Propagation.place())], "propagation");
    }
}
