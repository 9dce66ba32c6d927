//! Standard output carries the result and nothing else; progress and advice go to standard error.

use std::io::{IsTerminal, Write};

use report::Terminal;

/// Prints a result. A closed pipe (`| head`) ends the program quietly, as people expect.
pub(crate) fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    if write!(out, "{text}{newline}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Says something beside the result.
pub(crate) fn say(text: &str) {
    // There is nobody left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// One line on standard error that is redrawn, for a terminal only; empty removes it.
pub(crate) fn redraw(text: &str) {
    // There is nobody left to tell when standard error is closed.
    let _ = write!(std::io::stderr().lock(), "\r\x1b[2K{text}");
}

/// How standard output is to be drawn: its width, and colour unless `NO_COLOR` or a pipe says otherwise.
pub(crate) fn terminal(verbose: bool) -> Terminal {
    let stdout = std::io::stdout();
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let color = set("CLICOLOR_FORCE")
        || (stdout.is_terminal()
            && !set("NO_COLOR")
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb"));
    Terminal { width: width(), color, verbose }
}

/// Columns of the terminal; 100 on a pipe.
pub(crate) fn width() -> u16 {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .map(|size| size.ws_col)
        .ok()
        .filter(|width| *width > 0)
        .unwrap_or(100)
        .clamp(60, 160)
}
