//! Termination signals: the first ends the experiment cleanly, a second one during the wait for operations in flight ends that
//! wait with the result, and any other one ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use engine::answer_wait::AnswerWait;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The wait for operations in flight at the end of a load.
pub(crate) static ANSWERS: AnswerWait = AnswerWait::new();

/// A flag that is set when the user wants to stop. What was changed on the host when the program ends at once, with code 130,
/// is undone by `plimsoll restore`.
pub(crate) fn flag() -> &'static AtomicBool {
    INTERRUPTED.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        if let Err(error) = crate::hang_up::interrupts(&flag) {
            output::say(&format!("warning: SIGHUP cannot be handled: {error}"));
        }
        let handled = Signals::new([SIGINT, SIGTERM]).and_then(|mut signals| {
            let flag = Arc::clone(&flag);
            let receive = move || signals.forever().for_each(|_| receive(&flag, &ANSWERS));
            std::thread::Builder::new().name("signals".into()).spawn(receive)
        });
        if let Err(error) = handled {
            output::say(&format!(
                "warning: signals cannot be handled, Ctrl-C ends the program at once: {error}"
            ));
        }
        flag
    })
}

fn receive(interrupted: &AtomicBool, answers: &AnswerWait) {
    match next(interrupted, answers) {
        Next::Stop => {}
        Next::Wait => {
            output::redraw("");
            output::say("waiting for operations in flight: Ctrl-C again ends the wait, with the result");
        }
        Next::EndWait => {}
        Next::Exit => signal_hook::low_level::exit(130),
    }
}

/// What a signal does.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The experiment stops.
    Stop,
    /// The same, and nothing but the wait for operations in flight goes on.
    Wait,
    /// That wait ends, with the result.
    EndWait,
    /// The program ends at once.
    Exit,
}

fn next(interrupted: &AtomicBool, answers: &AnswerWait) -> Next {
    let waits = answers.waits.load(Ordering::Relaxed);
    match interrupted.swap(true, Ordering::Relaxed) {
        false if waits => Next::Wait,
        false => Next::Stop,
        true if waits && !answers.ended.swap(true, Ordering::Relaxed) => Next::EndWait,
        true => Next::Exit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_what_goes_on() {
        // Whether the wait goes on at each signal, and what the signal does.
        for signals in [
            vec![(false, Next::Stop), (false, Next::Exit)],
            vec![(false, Next::Stop), (true, Next::EndWait), (true, Next::Exit)],
            vec![(true, Next::Wait), (true, Next::EndWait), (false, Next::Exit)],
            vec![(true, Next::Wait), (false, Next::Exit)],
        ] {
            let (interrupted, answers) = (AtomicBool::new(false), AnswerWait::new());
            for (waits, expected) in signals {
                answers.waits.store(waits, Ordering::Relaxed);
                assert_eq!(next(&interrupted, &answers), expected);
            }
        }
    }
}
