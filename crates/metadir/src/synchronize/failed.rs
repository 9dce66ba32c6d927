//! Why an object is not synchronized.

use crate::store::{FailureKind, StoreError};

/// Why an object was not synchronized.
pub(super) enum Failed {
    Object(FailureKind, String),
    Store(StoreError),
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
