//! Where an export is written: standard output, or a file that replaces an old one when it is complete.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use report::text::visible;

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output::Standard;

/// How hidden characters of foreign texts are made harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// They are escaped as JSON has it.
    Json,
    /// They are made visible.
    Text,
}

/// An export that is being written. It is filtered line by line.
pub(super) struct Output {
    to: To,
    filter: Filter,
    /// The begin of a line.
    line: Vec<u8>,
}

enum To {
    Standard(BufWriter<Standard>),
    File(PathBuf, BufWriter<std::fs::File>, files::Output),
}

const BUFFER: usize = 64 << 10;

impl Output {
    pub(super) fn open(file: Option<PathBuf>, filter: Filter) -> Result<Output, Failure> {
        let to = match file {
            None => To::Standard(BufWriter::with_capacity(BUFFER, Standard)),
            Some(path) => {
                let failed = |error: io::Error| unwritable(&path, &error);
                let mut output = files::Output::create(&path, files::SHARED_FILE).map_err(failed)?;
                let file = output.file().try_clone().map_err(failed)?;
                To::File(path.clone(), BufWriter::with_capacity(BUFFER, file), output)
            }
        };
        Ok(Output { to, filter, line: Vec::new() })
    }

    /// The failure for an error of a write. That of standard output is kept for the end of the program.
    pub(super) fn failed(&self, error: &io::Error) -> Failure {
        match &self.to {
            To::Standard(_) => Failure::ended(Exit::Good),
            To::File(path, ..) => unwritable(path, error),
        }
    }

    /// Completes the export, with a newline at its end.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if !self.line.is_empty() {
            let _ = self.write(b"\n").map_err(|error| self.failed(&error))?;
        }
        let flushed = self.flush();
        flushed.map_err(|error| self.failed(&error))?;
        match self.to {
            To::Standard(_) => Ok(()),
            To::File(path, _, output) => output.finish().map_err(|error| unwritable(&path, &error)),
        }
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        let out: &mut dyn Write = match &mut self.to {
            To::Standard(out) => out,
            To::File(_, out, _) => out,
        };
        out.write_all(text.as_bytes())
    }
}

fn unwritable(path: &std::path::Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", path.display()))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            self.line.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        let mut whole = std::mem::take(&mut self.line);
        whole.extend_from_slice(&bytes[..=end]);
        self.line.extend_from_slice(&bytes[end + 1..]);
        // Lines are whole, so no character is cut.
        let text = String::from_utf8_lossy(&whole);
        for line in text.split_inclusive('\n') {
            let content = line.trim_end_matches(['\r', '\n']);
            let ending = &line[content.len()..];
            let shown = match self.filter {
                Filter::Json => report::escaped_json(content),
                Filter::Text => visible(content).into_owned(),
            };
            self.put(&(shown + ending))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Standard(out) => out.flush(),
            To::File(_, out, _) => out.flush(),
        }
    }
}
