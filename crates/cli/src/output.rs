//! Standard output carries the result and nothing else; progress and advice go to standard error.
//!
//! Much of the output is untrusted text: names in a record, messages of a server, paths. It must not move the
//! cursor or change colours: hidden characters are made visible only in this module. Only a page of the report, which has
//! done this itself, may contain colours.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use report::Terminal;
use report::text::{fold, is_hidden, visible, visible_line};

/// Prints a result for a person to read. A closed pipe (`| head`) ends the program quietly, as people expect.
pub(crate) fn result(text: &str) {
    print(&folded(&visible(text), &std::io::stdout()));
}

/// Prints a text in a format that programs read, line by line as it is.
pub(crate) fn verbatim(text: &str) {
    print(&visible(text));
}

/// A text as it is on a pipe, and folded to the width of a terminal.
pub(crate) fn folded(text: &str, stream: &(impl IsTerminal + AsFd)) -> String {
    match stream.is_terminal() {
        true => fold(text, usize::from(columns(stream, 80))),
        false => text.to_string(),
    }
}

/// Prints a page of the report with its colours, but without other terminal control sequences.
pub(crate) fn page(text: &str) {
    print(&only_colours(text));
}

/// Prints a JSON document.
pub(crate) fn json(text: &str) {
    print(&report::escaped_json(text));
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    if write!(out, "{text}{newline}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Many lines that programs read, each of which is visible already.
pub(crate) struct Lines(std::io::BufWriter<std::io::StdoutLock<'static>>);

impl Lines {
    pub(crate) fn new() -> Self {
        Lines(std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock()))
    }

    /// Adds a line. A closed pipe ends the program quietly.
    pub(crate) fn add(&mut self, line: &str) {
        if writeln!(self.0, "{line}").is_err() {
            std::process::exit(0);
        }
    }

    pub(crate) fn flush(&mut self) {
        if self.0.flush().is_err() {
            std::process::exit(0);
        }
    }
}

/// A text in which `ESC [ digits m` is left as it is and every other hidden character is made visible.
fn only_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_hidden) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = colour(rest).or_else(|| rest.chars().next().map(char::len_utf8)).unwrap_or(rest.len());
        let (sequence, after) = rest.split_at(length);
        match colour(rest) {
            Some(_) => out.push_str(sequence),
            None => out.push_str(&visible(sequence)),
        }
        rest = after;
    }
    out + rest
}

/// The length of the colour that a text begins with.
fn colour(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("\u{1b}[")?;
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    digits[end..].starts_with('m').then_some(2 + end + 1)
}

/// Prints a message to standard error.
pub(crate) fn say(text: &str) {
    let stderr = std::io::stderr();
    let text = folded(&visible(text), &stderr);
    // If standard error is closed, nobody reads the message.
    let _ = writeln!(stderr.lock(), "{text}");
}

/// One line on standard error that is redrawn, for a terminal only; empty removes it.
pub(crate) fn redraw(text: &str) {
    // If standard error is closed, nobody reads the message.
    let _ = write!(std::io::stderr().lock(), "\r\x1b[2K{}", visible_line(text));
}

/// The format of standard output: its width, and colour unless `NO_COLOR` is set or it is a pipe.
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
    columns(&std::io::stdout(), 100)
}

/// Columns of a terminal, within what a page is drawn for; `unknown` where the stream does not have them.
fn columns(stream: &impl AsFd, unknown: u16) -> u16 {
    let size = rustix::termios::tcgetwinsize(stream).ok();
    size.map(|size| size.ws_col).filter(|width| *width > 0).unwrap_or(unknown).clamp(60, 160)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_colours_are_left() {
        for (text, expected) in [
            ("\u{1b}[1mbold\u{1b}[0m\n", "\u{1b}[1mbold\u{1b}[0m\n"),
            ("\u{1b}[2Jx", "␛[2Jx"),
            ("\u{1b}]8;;http://x\u{7}", "␛]8;;http://x␇"),
            ("\u{1b}[31", "␛[31"),
            ("\u{1b}", "␛"),
            ("\u{9b}1m", "\\u{9b}1m"),
            ("\u{1b}[1;2m", "␛[1;2m"),
        ] {
            assert_eq!(only_colours(text), expected);
        }
    }
}
