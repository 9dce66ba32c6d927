//! Which streams and connections `h2` has something to do for. One thread uses it; `h2` wants wakers that any may use.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The numbers of those that were woken, since they were taken.
#[derive(Debug, Default)]
pub(super) struct Woken(Mutex<Vec<u32>>);

impl Woken {
    /// Moves the numbers to an empty list. A number can be in it twice.
    pub(super) fn take(&self, into: &mut Vec<u32>) {
        into.clear();
        std::mem::swap(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), into);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Adds a number.
    pub(super) fn add(&self, number: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }
}

/// Adds its number when it is woken.
struct Bell {
    woken: Arc<Woken>,
    number: u32,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.add(self.number);
    }
}

/// A waker that adds this number.
pub(super) fn waker(woken: &Arc<Woken>, number: u32) -> Waker {
    Waker::from(Arc::new(Bell { woken: woken.clone(), number }))
}
