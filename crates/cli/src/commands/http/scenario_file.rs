//! Writing a scenario file from another format, and the notes on what was not carried over.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction};
use files::{Output, PRIVATE_FILE};
use workloads::http::scenario::{Import, Note};

use crate::carry_out::Failure;

/// Numbers of entries that are listed with a note.
const NUMBERS_MAX: usize = 6;

/// `--overwrite`.
pub(super) fn overwrite() -> Arg {
    Arg::new("overwrite").long("overwrite").action(ArgAction::SetTrue).help("Replace the file if it exists")
}

/// Refuses a file that exists, unless it may be replaced.
pub(super) fn refuse_existing(path: &Path, may_replace: bool) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Ok(found) if found.is_file() && !may_replace => Err(Failure::usage(format!(
            "error: {} exists already and is not overwritten\n  name another file with --output, or add --overwrite",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes the scenario; a reader finds the old file or the new one. Other users cannot read it, because a session can
/// contain personal data.
pub(super) fn write(path: &Path, import: &Import) -> Result<(), Failure> {
    let text = import.file.write();
    let written = Output::create(path, PRIVATE_FILE).and_then(|mut output| {
        output.write_all(text.as_bytes())?;
        output.finish()
    });
    written.map_err(|error| Failure::failed(format!("{} cannot be written: {error}", path.display())))
}

/// What was written: the numbers of transactions and requests, and the notes.
pub(super) fn summary(path: &Path, import: &Import, place: &str) -> String {
    let file = path.display();
    let transactions = import.file.transactions.len();
    let requests = import.file.transactions.iter().map(|of| of.requests.len()).sum();
    let mut out =
        format!("{file}: {}, {}\n", counted(transactions, "transaction"), counted(requests, "request"));
    if !import.notes.is_empty() {
        out += &format!("\n{}:\n{}", counted(import.notes.len(), "note"), notes(&import.notes, place));
    }
    out + &format!("\nnext: plimsoll http --from {file} --concurrency 1 --duration 10s")
}

/// The notes, equal ones together. `place` is what they number: entries or lines.
pub(super) fn notes(notes: &[Note], place: &str) -> String {
    let mut groups: Vec<(&Note, Vec<u32>)> = Vec::new();
    let mut places = BTreeMap::new();
    for note in notes {
        let at = *places.entry((&note.what, &note.help)).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, numbers)) => numbers.push(note.number),
            None => groups.push((note, vec![note.number])),
        }
    }
    let mut out = String::new();
    for (note, numbers) in groups {
        let known: Vec<String> =
            numbers.iter().filter(|number| **number > 0).take(NUMBERS_MAX).map(u32::to_string).collect();
        let more = if numbers.len() > NUMBERS_MAX { ", ..." } else { "" };
        let of = match known.as_slice() {
            [] => String::new(),
            [only] => format!(" ({place} {only})"),
            known => format!(" ({} {}{more})", plural(place), known.join(", ")),
        };
        out += &format!("{:>5}  {}{of}\n", numbers.len(), note.what);
        if !note.help.is_empty() {
            out += &format!("       {}\n", note.help);
        }
    }
    out
}

/// `1 request`, `2 requests`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {}", plural(noun)) }
}

fn plural(noun: &str) -> String {
    noun.strip_suffix('y').map_or_else(|| format!("{noun}s"), |begin| format!("{begin}ies"))
}
