//! Running the program in a folder of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A folder on the disk the project is on (a temporary folder may be memory, which is no disk to measure); removed in
/// the end.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a finished program left.
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Finished {
    /// Runs a command to its end.
    pub(crate) fn of(mut command: Command) -> Finished {
        let output = command.output().unwrap();
        Finished {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Whether it measured: a machine that is busy with other tests may make the generator the limit, or the verdict
    /// inconclusive.
    pub(crate) fn measured(&self) -> bool {
        matches!(self.code, 0 | 97 | 98)
    }
}

/// The program, ready to be started in a place.
pub(crate) fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command
        .args(arguments)
        .current_dir(&place.0)
        .env("NO_COLOR", "1")
        // Journals of other users' runs on this host are none of a test's business.
        .env("PLIMSOLL_STATE_DIR", place.path("state"))
        .stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn run(place: &Place, arguments: &[&str]) -> Finished {
    Finished::of(command(place, arguments))
}
