//! Two commits of a repository, each checked out into a directory of its own and built there.
//!
//! The names of both directories have the same length, because the length of a path alone can change how fast a program
//! runs: it moves the stack (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong", ASPLOS 2009).

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// The directories of both versions.
const NAMES: [&str; 2] = ["base", "head"];

/// What is built.
pub(super) struct Wanted<'a> {
    /// A commit, a branch or a tag.
    pub(super) base: &'a str,
    /// Likewise.
    pub(super) head: &'a str,
    /// Shell command that builds one version.
    pub(super) build: Option<&'a str>,
    /// The folder for both builds, which stays; none for one that is removed.
    pub(super) folder: Option<&'a Path>,
    pub(super) quiet: bool,
}

/// Both builds. Dropped, the directories are removed, unless they stay.
pub(super) struct Builds {
    repository: PathBuf,
    folder: PathBuf,
    stays: bool,
    /// The present folder inside the repository.
    prefix: PathBuf,
    /// What is measured: `3f1c2ab Read the header once`.
    pub(super) commits: [String; 2],
}

impl Builds {
    /// Checks both commits out and builds them.
    pub(super) fn make(wanted: &Wanted<'_>) -> Result<Builds, Failure> {
        let here = Path::new(".");
        let repository = PathBuf::from(git(here, &["rev-parse", "--show-toplevel"])?);
        let prefix = PathBuf::from(git(here, &["rev-parse", "--show-prefix"])?);
        let commit = |name: &str| {
            git(
                here,
                &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")],
            )
            .map_err(|_| unknown_commit(here, name))
        };
        let (named, head) = (commit(wanted.base)?, commit(wanted.head)?);
        // What the base branch has got since then is not part of the change.
        let base =
            git(here, &["merge-base", &named, &head]).map_err(|_| unknown_commit(here, wanted.base))?;
        if base == head {
            return Err(Failure::usage(format!(
                "error: {} has no commit that {} has not: nothing to compare\n  name an older commit with --base-commit",
                wanted.head, wanted.base
            )));
        }
        if !wanted.quiet
            && git(here, &["status", "--porcelain", "--untracked-files=no"])
                .is_ok_and(|text| !text.is_empty())
        {
            output::say("note: changes that are not committed are not measured");
        }
        let title = |commit: &str| git(here, &["log", "-1", "--format=%h %s", commit]);
        let commits = [title(&base)?, title(&head)?];
        let folder = folder(wanted.folder)?;
        let builds = Builds { repository, folder, stays: wanted.folder.is_some(), prefix, commits };
        for ((name, commit), title) in NAMES.into_iter().zip([&base, &head]).zip(&builds.commits) {
            if crate::interrupt::flag().load(Ordering::Relaxed) {
                return Err(Failure { text: "interrupted".into(), exit: Exit::Interrupted });
            }
            builds.check_out(name, commit)?;
            if let Some(line) = wanted.build {
                if !wanted.quiet {
                    output::say(&format!("building {name}: {title}"));
                }
                builds.build(name, line)?;
            }
        }
        Ok(builds)
    }

    /// The directory of a version that corresponds to the present folder.
    pub(super) fn directories(&self) -> [String; 2] {
        NAMES.map(|name| {
            let inside = self.folder.join(name).join(&self.prefix);
            // Without the separator that `join` of an empty prefix adds.
            inside.components().collect::<PathBuf>().display().to_string()
        })
    }

    fn check_out(&self, name: &str, commit: &str) -> Result<(), Failure> {
        let place = self.folder.join(name);
        match place.join(".git").exists() {
            // From the gate before: what is built already stays.
            true => git(&place, &["checkout", "--quiet", "--force", "--detach", commit])?,
            false => {
                let path = place.display().to_string();
                git(&self.repository, &["worktree", "add", "--quiet", "--force", "--detach", &path, commit])?
            }
        };
        if place.join(".gitmodules").exists() {
            git(&place, &["submodule", "update", "--quiet", "--init", "--recursive"])?;
        }
        Ok(())
    }

    fn build(&self, name: &str, line: &str) -> Result<(), Failure> {
        let place = self.folder.join(name).join(&self.prefix);
        let cannot =
            |error| Failure::failed(format!("--build cannot be run in {}: {error}", place.display()));
        // What it prints is for people: standard output has the result.
        let terminal = std::io::stderr();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).current_dir(&place).env("PLIMSOLL_BUILD", name).stdin(Stdio::null());
        let output = std::os::fd::AsFd::as_fd(&terminal).try_clone_to_owned().map_err(cannot)?;
        let status = command.stdout(output).status().map_err(cannot)?;
        if status.success() {
            return Ok(());
        }
        if crate::interrupt::flag().load(Ordering::Relaxed) {
            return Err(Failure { text: "interrupted".into(), exit: Exit::Interrupted });
        }
        let commit = if name == NAMES[0] { &self.commits[0] } else { &self.commits[1] };
        Err(Failure::failed(format!(
            "the build of {name} ({commit}) ended with {status}: {}",
            model::SecretParts::Command.hide(line)
        )))
    }
}

impl Drop for Builds {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        for name in NAMES {
            let path = self.folder.join(name).display().to_string();
            // One that was not made yet cannot be removed.
            let _ = git(&self.repository, &["worktree", "remove", "--force", "--force", &path]);
        }
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            output::say(&format!("warning: {} is left: {error}", self.folder.display()));
        }
    }
}

/// The folder of both builds.
fn folder(stated: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = match stated {
        Some(path) => std::path::absolute(path).map_err(Failure::failed)?,
        None => {
            let name = files::random_name().map_err(Failure::failed)?;
            std::env::temp_dir().join(format!("plimsoll-gate-{name}"))
        }
    };
    let made = DirBuilder::new().recursive(stated.is_some()).mode(0o700).create(&path);
    made.map_err(|error| Failure::failed(format!("{} cannot be made: {error}", path.display())))?;
    Ok(path)
}

fn unknown_commit(here: &Path, name: &str) -> Failure {
    let is_shallow = git(here, &["rev-parse", "--is-shallow-repository"]).is_ok_and(|text| text == "true");
    let help = match is_shallow {
        true => {
            "the clone is shallow: fetch its history, such as with `git fetch --unshallow`, or fetch-depth: 0 of actions/checkout"
        }
        false => {
            "name a commit, a branch such as origin/main, or a tag; `git fetch` gets those of the server"
        }
    };
    Failure::usage(format!("error: {name} is not a commit here, or has no history in common\n  {help}"))
}

/// Runs git, and returns the line that it prints.
fn git(place: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let done = Command::new("git").arg("-C").arg(place).args(arguments).stdin(Stdio::null()).output();
    let done = done.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::failed(
            "git is not installed: build both versions yourself, and name them with --base and --head",
        ),
        _ => Failure::failed(format!("git cannot be run: {error}")),
    })?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr);
        return Err(Failure::failed(format!("git {}: {}", arguments.join(" "), why.trim())));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim_end_matches('\n').to_string())
}
