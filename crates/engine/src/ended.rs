//! How an experiment ended, and what was left of it.

/// How an experiment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The design is complete.
    Complete,
    /// The user stopped it; the record is kept. What could not be stopped or removed.
    Interrupted(Vec<String>),
    /// It failed, with the reason.
    Failed(String),
}

impl Ended {
    /// The same, where this could not be stopped or removed.
    pub(crate) fn leaving(self, mut remains: Vec<String>) -> Ended {
        match self {
            ended if remains.is_empty() => ended,
            Ended::Complete => Ended::Failed(remains.join("; ")),
            Ended::Interrupted(_) => Ended::Interrupted(remains),
            Ended::Failed(why) => {
                remains.insert(0, why);
                Ended::Failed(remains.join("; "))
            }
        }
    }
}
