//! `plimsoll metadir import-mim`: a configuration from a server configuration export of MIM.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use connectors::mim::{self, Count, Kind, MimImport, Note};
use report::table::{Cell, Table};
use serde_json::json;

use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// More than any file of an export.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// Notes of one kind that are printed; the file has all of them.
const SHOWN: usize = 10;

/// Its arguments.
pub(crate) fn arguments(json: Arg) -> Command {
    Command::new("import-mim")
        .about("Write a configuration from the server configuration export of Microsoft Identity Manager (MIM, FIM, ILM)")
        .arg(
            Arg::new("folder")
                .value_name("FOLDER")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The folder of the export, with MV.XML and a file MA-{...}.XML for each management agent"),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .default_value("metadirectory.toml")
                .help("The configuration to write; the list of what was not converted is written beside it, FILE.notes.txt"),
        )
        .arg(json)
}

/// Reads the export and writes both files.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let folder = matches.get_one::<PathBuf>("folder").cloned().unwrap_or_default();
    let path = PathBuf::from(text(matches, "output"));
    let notes = PathBuf::from(format!("{}.notes.txt", path.display()));
    let import = mim::import(&read(&folder)?).map_err(|error| {
        Failure::usage(format!(
            "error: {}: {error}\n  name the folder that the server export wrote",
            folder.display()
        ))
    })?;
    // Checked before anything is written.
    if let Some(there) = [&path, &notes].into_iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(exists(there));
    }
    write(&path, &import.configuration)?;
    write(&notes, &listed(&import.notes))?;
    if matches.get_flag("json") {
        output::json(&document(&import, &path).to_string());
        return Ok(Exit::Good);
    }
    output::result(&summary(&import, &path, &notes));
    Ok(Exit::Good)
}

/// The XML files of a folder, in order of name.
fn read(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let cannot = |path: &Path, error: std::io::Error| {
        Failure::usage(format!("error: {} cannot be read: {error}", path.display()))
    };
    let entries = std::fs::read_dir(folder).map_err(|error| cannot(folder, error))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml")))
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let bytes = files::read(&path, FILE_BYTES_MAX).map_err(|error| cannot(&path, error))?;
            Ok((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), bytes))
        })
        .collect()
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!(
        "error: {} exists already; nothing was written\n  name another file with --output FILE",
        path.display()
    ))
}

fn write(path: &Path, content: &str) -> Result<(), Failure> {
    let written = files::create_new(path, 0o644).and_then(|mut file| file.write_all(content.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(path),
        _ => Failure::failed(format!("{} cannot be written: {error}", path.display())),
    })
}

/// All notes, those about what is missing first.
fn listed(notes: &[Note]) -> String {
    let mut out = String::new();
    for (kind, title) in [(Kind::NotConverted, "Not converted"), (Kind::Review, "To review")] {
        out += &format!("{title}\n\n");
        for note in notes.iter().filter(|note| note.kind == kind) {
            out += &format!("{}\n  {}\n", note.place, note.what);
            if !note.help.is_empty() {
                out += &format!("  -> {}\n", note.help);
            }
        }
        out.push('\n');
    }
    out
}

fn counts(import: &MimImport) -> [(&'static str, Count); 8] {
    let of = &import.counts;
    [
        ("agents with a supported system", of.agents),
        ("declared import flows", of.import_flows),
        ("declared export flows", of.export_flows),
        ("declared join rules", of.joins),
        ("declared projections", of.projections),
        ("declared filters", of.filters),
        ("run profiles", of.profiles),
        ("functions of rules extensions", of.scripts),
    ]
}

fn summary(import: &MimImport, path: &Path, file: &Path) -> String {
    let mut table = Table::new("", &["", ">converted", ">of"]);
    for (name, count) in counts(import).into_iter().filter(|(_, count)| count.all > 0) {
        let number = |value: usize| Cell::shown(value as f64, value.to_string());
        table.row(vec![Cell::words(name), number(count.converted), number(count.all)]);
    }
    let lines = table.lines(usize::from(output::width()));
    let mut out = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    for (kind, title) in [(Kind::NotConverted, "not converted"), (Kind::Review, "to review")] {
        let notes: Vec<&Note> = import.notes.iter().filter(|note| note.kind == kind).collect();
        if notes.is_empty() {
            continue;
        }
        out += &format!("\n {title}: {}\n", notes.len());
        for note in notes.iter().take(SHOWN) {
            out += &format!("   {}: {}\n", note.place, note.what);
        }
        if notes.len() > SHOWN {
            out += &format!("   and {} more in {}\n", notes.len() - SHOWN, file.display());
        }
    }
    let config = match path.to_str() {
        Some("metadirectory.toml") => String::new(),
        _ => format!(" --config {}", path.display()),
    };
    out + &format!(
        "\nwrote {} and {}\nnext: plimsoll metadir check{config}\n",
        path.display(),
        file.display()
    )
}

fn document(import: &MimImport, path: &Path) -> serde_json::Value {
    let counts = counts(import).into_iter();
    json!({
        "format": "plimsoll.mim-import/1",
        "configuration": path.display().to_string(),
        "counts": counts.map(|(name, count)| json!({ "what": name, "converted": count.converted, "all": count.all })).collect::<Vec<_>>(),
        "notes": import.notes.iter().map(|note| json!({
            "file": note.place.file,
            "line": note.place.line,
            "kind": match note.kind { Kind::NotConverted => "not_converted", Kind::Review => "review" },
            "what": note.what,
            "help": note.help,
        })).collect::<Vec<_>>(),
    })
}
