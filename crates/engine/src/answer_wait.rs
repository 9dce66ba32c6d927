//! The wait for answers at the end of a load.

use std::sync::atomic::AtomicBool;

/// The wait for the operations that are in flight when a load has ended.
#[derive(Debug, Default)]
pub struct AnswerWait {
    /// Whether nothing but this wait goes on.
    pub waits: AtomicBool,
    /// Set when the user wants to wait no longer: what has not ended is censored.
    pub ended: AtomicBool,
}

impl AnswerWait {
    /// No wait goes on.
    pub const fn new() -> Self {
        AnswerWait { waits: AtomicBool::new(false), ended: AtomicBool::new(false) }
    }
}
