//! Why an object is not synchronized.

use crate::hologram::Attribute;
use crate::store::{Failure, FailureKind, StoreError};

/// Why an object was not synchronized.
pub(super) enum Failed {
    Object(FailureKind, String),
    /// Another object has its name or its anchor, and may give it up later in the step.
    Taken(String),
    /// A flow to an attribute failed.
    Flow(Attribute, String),
    Store(StoreError),
}

impl Failed {
    /// The failure of a flow to an attribute.
    pub(super) fn to(self, attribute: Attribute) -> Failed {
        match self {
            Failed::Object(FailureKind::Flow, why) => Failed::Flow(attribute, why),
            other => other,
        }
    }

    /// As the store keeps it.
    ///
    /// # Errors
    /// When the store failed.
    pub(super) fn kept(self) -> Result<Failure, StoreError> {
        match self {
            Failed::Object(kind, why) => Ok(Failure::new(kind, why)),
            Failed::Taken(why) => Ok(Failure::new(FailureKind::Flow, why)),
            Failed::Flow(attribute, text) => {
                Ok(Failure { kind: FailureKind::Flow, attribute: Some(attribute), text })
            }
            Failed::Store(error) => Err(error),
        }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Failed {
        Failed::Store(error)
    }
}

impl From<crate::expression::Failed> for Failed {
    fn from(failed: crate::expression::Failed) -> Failed {
        Failed::Object(FailureKind::Flow, failed.to_string())
    }
}
