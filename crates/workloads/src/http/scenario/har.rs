//! HAR.
