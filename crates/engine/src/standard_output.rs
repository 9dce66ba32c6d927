//! Whether this process was started with a standard output.
//!
//! Before `main`, the library of Rust opens `/dev/null` for each standard stream that is closed, so that no other file gets
//! its number. A result would then be lost in silence, and afterwards nothing distinguishes it from a result for `/dev/null`.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when the process started, as by `>&-`.
pub fn is_closed_at_start() -> bool {
    // The linker keeps what is used.
    std::hint::black_box(&LOOK);
    IS_CLOSED.load(Ordering::Relaxed)
}

// SAFETY: the section holds pointers to functions of this type, which are called once, in the only thread, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: it only asks for the flags of a descriptor, which need not be open.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    IS_CLOSED.store(flags < 0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_has_a_standard_output() {
        assert!(!super::is_closed_at_start());
    }
}
