//! What the tools have in common.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use engine::clock::Clock;
use engine::shell::SHELL;
use engine::workload::LoadError;
use model::Secret;

use super::ldif::LdifFile;
use crate::group::{Ending, Group, Guard, set_search_path};

/// Bytes of the end of a log that are read for an error message.
const TAIL_BYTES: u64 = 4 << 10;

/// How often a preparation is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// An import that is ready to be launched.
#[derive(Debug)]
pub(super) struct Import {
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    /// The command line of the user without its secrets; none for the words.
    pub(super) shown: Option<String>,
    /// The folder in which it runs.
    pub(super) directory: PathBuf,
    /// The file in which the tool says what it does, besides its output.
    pub(super) log: Option<PathBuf>,
    /// The folder of the database.
    pub(super) database: Option<PathBuf>,
}

impl Import {
    pub(super) fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or_else(OsString::new, OsString::clone));
        command.args(words).current_dir(&self.directory);
        set_search_path(&mut command);
        command
    }

    /// The command line for display, without the folder of the trial.
    pub(super) fn command_line(&self) -> String {
        let folder = format!("{}/", self.directory.display());
        if let Some(shown) = &self.shown {
            return shown.replace(&folder, "");
        }
        let words: Vec<String> =
            self.words.iter().map(|word| word.to_string_lossy().replace(&folder, "")).collect();
        words.join(" ")
    }
}

pub(super) fn missing_program(program: &str, package: &str) -> LoadError {
    LoadError::new(
        format!("there is no program `{program}`"),
        format!("install it: apt-get install {package}"),
    )
}

pub(super) fn make_folder(path: &Path) -> Result<(), LoadError> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| {
        LoadError::new(format!("the folder {} cannot be created: {error}", path.display()), "")
    })
}

pub(super) fn write_file(path: &Path, text: &str) -> Result<(), LoadError> {
    let write = || -> std::io::Result<()> {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        std::io::Write::write_all(&mut file, text.as_bytes())
    };
    write().map_err(|error| LoadError::new(format!("{} cannot be written: {error}", path.display()), ""))
}

/// The file that gets what a program prints.
pub(super) fn output_file(path: &Path) -> Result<File, LoadError> {
    File::options()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| LoadError::new(format!("{} cannot be written: {error}", path.display()), ""))
}

/// `what ended with exit status 3: its last words`, of the first file that has any.
pub(super) fn failure(what: &str, ending: Ending, files: &[PathBuf]) -> LoadError {
    let words = files.iter().find_map(|path| last_words(path));
    let words = words.map_or_else(String::new, |words| format!(": {words}"));
    LoadError::new(format!("{what} ended with {ending}{words}"), "")
}

/// The last lines of a file.
fn last_words(path: &Path) -> Option<String> {
    use std::os::unix::fs::FileExt as _;
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let mut tail = vec![0; length.min(TAIL_BYTES) as usize];
    let from = length - tail.len() as u64;
    file.read_exact_at(&mut tail, from).ok()?;
    engine::shell::last_lines(&String::from_utf8_lossy(&tail), 3)
}

/// A command of the user, run by the shell.
pub(super) fn of_command(command: &Secret, folder: &Path, ldif: &LdifFile) -> Import {
    let path = shlex::try_quote(&ldif.path.to_string_lossy())
        .map_or_else(|_| String::new(), |path| path.into_owned());
    let script = Secret::filled(command, "{ldif}", &path, &path);
    let words = vec![SHELL.into(), "-c".into(), script.reveal().into()];
    let shown = Some(format!("{SHELL} -c {}", script.shown()));
    Import { words, shown, directory: folder.to_path_buf(), log: None, database: None }
}

/// Runs a shell command to its end.
pub(super) fn run_script(script: &str, folder: &Path, timeout: Duration) -> Result<(), LoadError> {
    let cannot =
        |error: std::io::Error| LoadError::new(format!("the preparation cannot be started: {error}"), "");
    let output = folder.join("prepare.log");
    let file = output_file(&output)?;
    let mut command = Command::new(SHELL);
    command.args(["-c", script]).current_dir(folder);
    set_search_path(&mut command);
    command.stdout(file.try_clone().map_err(cannot)?).stderr(file);
    let mut guard = Guard::start().map_err(cannot)?;
    let group = Group::launch(&mut command).map_err(cannot)?;
    guard.watch(&group);
    let clock = Clock::get();
    let deadline = clock.now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
    loop {
        match group.ending() {
            Some(Ending::Exited(0)) => return Ok(()),
            Some(ending) => return Err(failure("the preparation", ending, &[output])),
            None if clock.now() >= deadline => {
                return Err(LoadError::new("the preparation took longer than `timeout`", "raise `timeout`"));
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Bytes that the files in a folder take on the disk.
pub(super) fn allocated_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => allocated_bytes(&entry.path()),
            Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |metadata| metadata.blocks() * 512),
            _ => 0,
        })
        .sum()
}
