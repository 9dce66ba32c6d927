//! Standard output carries the result and nothing else; progress and advice go to standard error.
//!
//! An output that is lost is an error. [`Standard`] writes everything. It keeps the first failure of a write, after which it
//! writes nothing more, and [`end`] makes it the exit code of the program, whatever its command returns. So a command prints
//! without looking at errors; one that prints for long asks [`is_open`] whether to go on. Lints reject other ways to standard
//! output, and other ends of the program.
//!
//! Standard error is written without waiting long, so that a reader that has stopped cannot hold up a run.
//!
//! Much of the output is untrusted text: names in a record, messages of a server, paths. It must not move the
//! cursor or change colours: hidden characters are made visible only in this module. Only a page of the report, which has
//! done this itself, may contain colours.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use model::mask;
use report::Terminal;
use report::text::{fold, is_hidden, visible, visible_line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::exit::Exit;

/// Why standard output was lost.
static FAILURE: OnceLock<Errno> = OnceLock::new();

/// Files of options that are not complete, and why.
static LOST_FILES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The run whose record has what was lost.
static RECORD: OnceLock<String> = OnceLock::new();

/// Prepares the output of the program.
pub(crate) fn begin() {
    // At the limit of the size of files, a write then fails instead of ending the program.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Default::default());
}

/// The exit code of the program: an output that was lost is an error, whatever the command found. A closed pipe (`| head`)
/// is none: its reader has read enough.
pub(crate) fn end(exit: Exit) -> Exit {
    if is_open()
        && let Err(error) = files::settle(stdout())
    {
        keep(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    let mut lost = std::mem::take(&mut *LOST_FILES.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(failure) = FAILURE.get().filter(|_| is_lost()) {
        let next = RECORD.get().map(|run| format!("; the record is complete: plimsoll show {run}"));
        let (why, next) = (io::Error::from(*failure), next.unwrap_or_default());
        lost.push(format!("standard output could not be written: {why}{next}"));
    }
    lost.iter().for_each(|what| say(&format!("error: {what}")));
    if lost.is_empty() { exit } else { Exit::Failed }
}

/// A file of an option is not complete, which is an error at the end of the program.
pub(crate) fn lose(what: String) {
    LOST_FILES.lock().unwrap_or_else(PoisonError::into_inner).push(what);
}

/// Names the run whose record has what is printed from now on.
pub(crate) fn prints_record(run: &str) {
    let _ = RECORD.set(run.into());
}

/// Whether everything that was printed has been written: nobody reads what is printed otherwise.
pub(crate) fn is_open() -> bool {
    FAILURE.get().is_none()
}

/// Whether standard output was lost for another reason than a reader that has read enough.
pub(crate) fn is_lost() -> bool {
    FAILURE.get().is_some_and(|failure| !matches!(*failure, Errno::PIPE | Errno::CONNRESET))
}

fn keep(failure: Errno) -> Errno {
    *FAILURE.get_or_init(|| failure)
}

#[expect(clippy::disallowed_methods, reason = "this is where standard output is written")]
fn stdout() -> Stdout {
    io::stdout()
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Standard output. Its first error is kept for [`end`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standard;

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(failure) = FAILURE.get() {
            return Err((*failure).into());
        }
        if engine::standard_output::is_closed_at_start() {
            return Err(keep(Errno::BADF).into());
        }
        // Without the writer of the library, which ignores that a stream cannot be written.
        let out = stdout();
        loop {
            match rustix::io::write(&out, bytes) {
                Ok(0) if !bytes.is_empty() => return Err(keep(Errno::IO).into()),
                Ok(count) => return Ok(count),
                Err(Errno::INTR) => {}
                // Another process made the stream non-blocking, which two may share.
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&out, PollFlags::OUT)], None);
                }
                Err(failure) => return Err(keep(failure).into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints a result for a person to read.
pub(crate) fn result(text: &str) {
    print(&folded(&visible(text), &stdout()));
}

/// Prints a text in a format that programs read, line by line as it is.
pub(crate) fn verbatim(text: &str) {
    print(&visible(text));
}

/// A text as it is on a pipe, and folded to the width of a terminal.
fn folded(text: &str, stream: &(impl IsTerminal + AsFd)) -> String {
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
    let out = stdout();
    // Lines of several threads stay whole.
    let _whole = out.lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    // An error is kept for the end.
    let _ = Standard.write_all(format!("{text}{newline}").as_bytes());
}

/// Many lines that programs read, each of which is visible already.
pub(crate) struct Lines(BufWriter<Standard>);

impl Lines {
    pub(crate) fn new() -> Self {
        Lines(BufWriter::with_capacity(1 << 16, Standard))
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, line: &str) {
        // An error is kept for the end.
        let _ = writeln!(self.0, "{line}");
    }

    pub(crate) fn flush(&mut self) {
        let _ = self.0.flush();
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

/// How long a message waits for a reader of standard error that has stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes that a stream takes without waiting, once it can be written at all.
const PIECE: usize = 512;

/// Whether the reader of standard error has stopped: further messages do not wait for it.
static IS_STUCK: AtomicBool = AtomicBool::new(false);

/// Messages that were left out because of it.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Prints a message to standard error, without secrets that it quotes.
pub(crate) fn say(text: &str) {
    say_within(text, PATIENCE);
}

/// Prints a message to standard error from a thread of a run, which must not wait.
pub(crate) fn say_at_once(text: &str) {
    say_within(text, Duration::ZERO);
}

fn say_within(text: &str, patience: Duration) {
    let text = folded(&visible(&mask(text)), &io::stderr());
    let patience = if IS_STUCK.load(Ordering::Relaxed) { Duration::ZERO } else { patience };
    let left_out = LEFT_OUT.swap(0, Ordering::Relaxed);
    let before = match left_out {
        0 => String::new(),
        count => format!("{count} messages were left out, because standard error was not read\n"),
    };
    match write_error(&format!("{before}{text}\n"), patience) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            IS_STUCK.fetch_or(!patience.is_zero(), Ordering::Relaxed);
            LEFT_OUT.fetch_add(left_out + 1, Ordering::Relaxed);
        }
        // If standard error is closed, nobody reads the message.
        Ok(()) | Err(_) => IS_STUCK.store(false, Ordering::Relaxed),
    }
}

/// One line on standard error that is redrawn, for a terminal only; empty removes it.
pub(crate) fn redraw(text: &str) {
    // It is drawn again soon.
    let _ = draw(&format!("\r\x1b[2K{}", visible_line(&mask(text))));
}

/// Draws on the terminal of standard error. A terminal that is stopped shows nothing.
///
/// # Errors
/// When the terminal is gone.
pub(crate) fn draw(text: &str) -> io::Result<()> {
    match write_error(text, Duration::ZERO) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        written => written,
    }
}

/// Writes to standard error, and gives up if it cannot be written within a time.
fn write_error(text: &str, patience: Duration) -> io::Result<()> {
    let until = Instant::now() + patience;
    let mut stderr = io::stderr().lock();
    for piece in text.as_bytes().chunks(PIECE) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let wait = Timespec::try_from(left).unwrap_or_default();
            match poll(&mut [PollFd::new(&io::stderr(), PollFlags::OUT)], Some(&wait)) {
                Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(Errno::INTR) => {}
                // Or an error, which the write reports.
                Ok(_) | Err(_) => break,
            }
        }
        stderr.write_all(piece)?;
    }
    Ok(())
}

/// The format of standard output: its width, and colour unless `NO_COLOR` is set or it is a pipe.
pub(crate) fn terminal(verbose: bool) -> Terminal {
    let stdout = stdout();
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let color = set("CLICOLOR_FORCE")
        || (stdout.is_terminal()
            && !set("NO_COLOR")
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb"));
    Terminal { width: width(), color, verbose }
}

/// Columns of the terminal; 100 on a pipe.
pub(crate) fn width() -> u16 {
    columns(&stdout(), 100)
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
