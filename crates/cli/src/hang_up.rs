//! The end of the terminal: SIGHUP, and streams that can no longer be read or written. It ends what records nothing. A record
//! goes on, and says so.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use signal_hook::SigId;
use signal_hook::consts::SIGHUP;

use crate::output;

/// How the sentences begin that a record has about it.
pub(crate) const CLOSED: &str = "the terminal was closed (hangup)";

/// Set by SIGHUP.
static RECEIVED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// What makes SIGHUP an interruption.
static INTERRUPTION: Mutex<Option<SigId>> = Mutex::new(None);

/// SIGHUP sets a flag from now on, unless the process was started to outlive its terminal, as by nohup. It never counts as
/// a second signal: a shell and the kernel both send it.
///
/// # Errors
/// When the signal cannot be handled.
pub(crate) fn interrupts(flag: &Arc<AtomicBool>) -> std::io::Result<()> {
    if is_ignored() {
        return Ok(());
    }
    signal_hook::flag::register(SIGHUP, Arc::clone(&RECEIVED))?;
    let id = signal_hook::flag::register(SIGHUP, Arc::clone(flag))?;
    *INTERRUPTION.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
    Ok(())
}

/// There is a record from now on, which SIGHUP does not interrupt.
pub(crate) fn outlive() {
    if let Some(id) = INTERRUPTION.lock().unwrap_or_else(PoisonError::into_inner).take() {
        signal_hook::low_level::unregister(id);
    }
}

/// Whether the process was started with SIGHUP ignored: bit 0 of the mask.
fn is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// The terminal of the standard streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal([bool; 3]);

impl Terminal {
    /// The one that the process has now.
    pub(crate) fn of_process() -> Terminal {
        Terminal([std::io::stdin().is_terminal(), output::is_terminal(), std::io::stderr().is_terminal()])
    }

    /// Whether it was closed: SIGHUP was received, or a stream that was a terminal is none now.
    pub(crate) fn is_closed(self) -> bool {
        let now = Terminal::of_process().0;
        RECEIVED.load(Ordering::Relaxed) || self.0.iter().zip(now).any(|(before, now)| *before && !now)
    }
}
