//! Termination signals: the first ends the experiment cleanly, the second ends the program.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// A flag that is set when the user wants to stop. A second signal ends the program at once, with code 130; what was
/// changed on the host is then undone by `plimsoll restore`.
pub(crate) fn flag() -> &'static AtomicBool {
    INTERRUPTED.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Order matters: the first signal finds the flag unset and sets it, the second finds it set and ends.
            let registered = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)));
            if let Err(error) = registered {
                crate::output::say(&format!("warning: signal {signal} cannot be handled: {error}"));
            }
        }
        flag
    })
}
