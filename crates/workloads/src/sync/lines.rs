//! The output of the engine: the active step and its number of processed objects.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use regex::bytes::Regex;

/// Maximum length of a line; the rest of a longer one is ignored.
const LINE_MAX: usize = 64 << 10;

/// Number of kept bytes of other lines, for error messages.
const KEPT_MAX: usize = 4 << 10;

/// A progress line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// The step, where the pattern has a group of this name.
    pub(super) step: Option<String>,
    /// Objects that the step has done so far.
    pub(super) objects: u64,
    /// Whether the step is over, where the pattern has a group of this name.
    pub(super) done: bool,
}

impl Report {
    /// Parses a line; none if it does not match or has no number.
    pub(super) fn read(pattern: &Regex, line: &[u8]) -> Option<Report> {
        let found = pattern.captures(line)?;
        let text =
            |name: &str| found.name(name).map(|part| String::from_utf8_lossy(part.as_bytes()).into_owned());
        let objects = match found.name("objects") {
            Some(part) => part,
            None => found.get(1)?,
        };
        // The number may have thousands separators, as in 12,000.
        let digits: Vec<u8> = objects.as_bytes().iter().copied().filter(u8::is_ascii_digit).collect();
        Some(Report {
            step: text("step"),
            objects: std::str::from_utf8(&digits).ok()?.parse().ok()?,
            done: found.name("done").is_some(),
        })
    }
}

/// The lines of an engine's output.
pub(super) struct Lines<'a> {
    pipe: PipeReader,
    /// The file for the output.
    copy: Option<&'a File>,
    line: Vec<u8>,
    kept: Vec<u8>,
    ended: bool,
}

impl<'a> Lines<'a> {
    /// Reads from a pipe without waiting.
    pub(super) fn new(pipe: PipeReader, copy: Option<&'a File>) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Lines { pipe, copy, line: Vec::new(), kept: Vec::new(), ended: false })
    }

    /// What becomes readable when there is more; none after the end.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended).then(|| self.pipe.as_fd())
    }

    /// Reads the available lines: each goes to `take`, which returns whether it understood it. True if there may be more.
    pub(super) fn read(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<bool> {
        let mut part = [0; 8192];
        // Endless output must not prevent the check of the time limit.
        for _ in 0..64 {
            match self.pipe.read(&mut part) {
                Ok(0) => {
                    self.ended = true;
                    // The last line counts even without an end.
                    if !self.line.is_empty() {
                        self.take_line(take);
                    }
                    return Ok(false);
                }
                Ok(bytes) => {
                    if let Some(mut copy) = self.copy {
                        copy.write_all(&part[..bytes])?;
                    }
                    for byte in &part[..bytes] {
                        if *byte == b'\n' {
                            self.take_line(take);
                        } else if self.line.len() < LINE_MAX {
                            self.line.push(*byte);
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes what nobody waits for any more, so that the engine can go on to end.
    pub(super) fn discard(&mut self) {
        let _ = self.read(&mut |_| true);
    }

    fn take_line(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) {
        let end = if self.line.last() == Some(&b'\r') { self.line.len() - 1 } else { self.line.len() };
        if !take(&self.line[..end]) {
            self.kept.extend_from_slice(&self.line[..end]);
            self.kept.push(b'\n');
            if self.kept.len() > KEPT_MAX {
                self.kept.drain(..self.kept.len() - KEPT_MAX);
            }
        }
        self.line.clear();
    }

    /// The last of what it said beside its progress, in one line.
    pub(super) fn last_words(&self) -> Option<String> {
        engine::shell::last_lines(&String::from_utf8_lossy(&self.kept), 3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::PROGRESS_LINES;
    use super::*;

    fn report(pattern: &str, line: &str) -> Option<(Option<String>, u64, bool)> {
        let report = Report::read(&Regex::new(pattern).unwrap(), line.as_bytes())?;
        Some((report.step, report.objects, report.done))
    }

    #[test]
    fn progress_is_read_off_lines() {
        let staff = || Some("staff full-import".to_string());
        for (pattern, line, expected) in [
            (PROGRESS_LINES, "progress staff full-import 0", Some((staff(), 0, false))),
            (PROGRESS_LINES, "progress staff full-import 12000 done", Some((staff(), 12_000, true))),
            (PROGRESS_LINES, "staff full-import: success in 0.12 s", None),
            (r"(\d[\d,]*) users", "synchronized 12,000 users", Some((None, 12_000, false))),
            // A number that no machine can count to is no number.
            (r"(\d+)", "99999999999999999999999", None),
            (r"users", "all users", None),
        ] {
            assert_eq!(report(pattern, line), expected, "{line}");
        }
    }

    #[test]
    fn lines_come_whole_and_the_others_are_kept() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = Lines::new(reader, None).unwrap();
        let mut seen: Vec<String> = Vec::new();
        for part in ["one\r\ntw", "o\nwhat went wr", "ong"] {
            writer.write_all(part.as_bytes()).unwrap();
            let more = lines.read(&mut |line| {
                seen.push(String::from_utf8_lossy(line).into_owned());
                line.len() == 3
            });
            assert!(!more.unwrap());
        }
        drop(writer);
        lines.read(&mut |line| line.is_empty()).unwrap();
        assert_eq!(seen, ["one", "two"]);
        assert_eq!(lines.last_words().unwrap(), "what went wrong");
        assert!(lines.source().is_none());
    }
}
