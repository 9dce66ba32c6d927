//! The exclusive right to write a block device, held from the check before the first byte to the end of the experiment.
//!
//! An open with `O_EXCL` fails while the kernel itself uses the device: mounted in any mount namespace, as swap space, as
//! part of another device. While it is held nothing of that can begin. Other descriptors of the device may come and go,
//! with other flags; the claim must outlive them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Claims of this process by device number: a later trial uses that of an earlier one, which is still held.
static CLAIMS: Mutex<BTreeMap<u64, Weak<File>>> = Mutex::new(BTreeMap::new());

/// Claims the device that an open descriptor stands for.
///
/// # Errors
/// `EBUSY` when something else uses it.
pub(super) fn claim(device: impl AsFd, number: u64) -> io::Result<Arc<File>> {
    let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(held) = claims.get(&number).and_then(Weak::upgrade) {
        return Ok(held);
    }
    let held = Arc::new(files::reopen(device, OFlags::RDWR | OFlags::EXCL)?);
    claims.insert(number, Arc::downgrade(&held));
    Ok(held)
}

/// Whether something outside this process has claimed a device.
pub(super) fn is_claimed_elsewhere(device: impl AsFd, number: u64) -> bool {
    let claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
    if claims.get(&number).is_some_and(|held| held.strong_count() > 0) {
        return false;
    }
    match files::reopen(device, OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK) {
        Err(error) => error.raw_os_error() == Some(Errno::BUSY.raw_os_error()),
        Ok(_) => false,
    }
}
