//! What `make package` builds in `target/package`: a static executable, a Debian package, the context of a container, a bill of
//! materials, the licences of what is linked, and checksums. Each is checked: the executable in a bare root directory and under
//! the container's filter of system calls, the package by unpacking and, where it is installed, by lintian.

mod bare;
mod build;
mod container;
mod deb;
mod elf;
mod licences;
mod materials;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fault::Fault;
use crate::files::Repository;
use crate::metadata::Metadata;
use crate::program;

/// The name of the program and of its package.
const NAME: &str = "plimsoll";

/// Who a user of the Debian package writes to, unless the environment names somebody.
const MAINTAINER: &str = "The Plimsoll authors <authors@plimsoll.invalid>";

/// What is packaged, for whom and when.
struct Package<'a> {
    repository: &'a Repository,
    version: String,
    /// Rust's name of the platform.
    target: String,
    /// Debian's name of the processor architecture.
    architecture: &'static str,
    /// The time in all files, seconds since 1970.
    epoch: u64,
    maintainer: String,
    /// The folder of the results.
    folder: PathBuf,
}

/// Builds all of it; with `--executable FILE`, from an executable that was built before.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Vec<Fault>, String> {
    let package = Package::new(repository)?;
    let built = match arguments {
        [] => build::executable(&package)?,
        [flag, path] if flag == "--executable" => PathBuf::from(path),
        _ => return Err("usage: cargo xtask package [--executable FILE]".into()),
    };
    replace_folder(&package.folder)?;
    let executable =
        package.folder.join(format!("{NAME}-{}-linux-{}", package.version, std::env::consts::ARCH));
    build::strip(&built, &executable)?;
    println!("{}: {} bytes", package.shown(&executable), size(&executable)?);

    let mut faults = build::check(&package, &executable)?;
    faults.extend(bare::check(&package, &executable)?);
    let (materials, licences) =
        (package.folder.join("materials.cdx.json"), package.folder.join("licences.txt"));
    materials::write_bill(&package, &executable, &materials)?;
    faults.extend(licences::write_text(&package, &licences)?);
    let deb = deb::build(&package, &executable, &licences, &materials)?;
    faults.extend(deb::check(&package, &deb, &executable)?);
    let container = container::write_context(&package, &executable, &licences)?;
    faults.extend(container::check(&package, &container)?);
    println!("{}: written", package.shown(&sums(&package)?));
    Ok(faults)
}

impl<'a> Package<'a> {
    fn new(repository: &'a Repository) -> Result<Self, String> {
        let metadata = Metadata::of(repository)?;
        let program = metadata.ours().find(|package| package.name == "plimsoll-cli");
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => return Err(format!("there is no package for {other}: build on x86_64 or aarch64")),
        };
        Ok(Package {
            repository,
            version: program.ok_or("the workspace has no package plimsoll-cli")?.version.clone(),
            target: format!("{}-unknown-linux-musl", std::env::consts::ARCH),
            architecture,
            epoch: epoch(repository)?,
            maintainer: std::env::var("PLIMSOLL_MAINTAINER").unwrap_or_else(|_| MAINTAINER.into()),
            folder: program::target(repository).join("package"),
        })
    }

    /// A path below the results as a user reads it.
    fn shown(&self, path: &Path) -> String {
        let above = self.folder.ancestors().nth(2).unwrap_or(&self.folder);
        path.strip_prefix(above).unwrap_or(path).display().to_string()
    }

    /// The time in all files in a format of `date`.
    fn date(&self, format: &str) -> Result<String, String> {
        let mut date = Command::new("date");
        date.args(["--utc", &format!("--date=@{}", self.epoch), format]).env("LC_ALL", "C");
        Ok(output(&mut date)?.trim().to_string())
    }

    /// A file of the repository's folder `packaging`.
    fn template(&self, path: &str) -> Result<String, String> {
        self.repository.read(&format!("packaging/{path}"))
    }
}

/// The time of what is packaged: the same sources give the same files.
fn epoch(repository: &Repository) -> Result<u64, String> {
    let read = |text: &str, from: &str| {
        text.trim().parse().map_err(|error| format!("{from} is not a number of seconds: {error}"))
    };
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        return read(&text, "SOURCE_DATE_EPOCH");
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(repository.root());
    let help =
        "outside a git repository, set SOURCE_DATE_EPOCH to the time of the sources in seconds since 1970";
    read(&output(&mut git).map_err(|error| format!("{error}\n  {help}"))?, "the time of the last commit")
}

/// Runs a program to its end and returns what it prints.
fn output(command: &mut Command) -> Result<String, String> {
    let shown = shown(command);
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            Err(format!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end()))
        }
    }
}

/// The command line of a program.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Whether a program is on the search path.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn size(path: &Path) -> Result<u64, String> {
    fs::metadata(path).map(|data| data.len()).map_err(|error| format!("{}: {error}", path.display()))
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("read {}: {error}", path.display()))
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    let wrong = |error| format!("write {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    fs::write(path, content).map_err(wrong)
}

/// An empty folder, whatever was there.
fn replace_folder(path: &Path) -> Result<(), String> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("remove {}: {error}", path.display()));
        }
        _ => {}
    }
    fs::create_dir_all(path).map_err(|error| format!("create {}: {error}", path.display()))
}

/// Every file below a folder, from that folder, in order of name.
fn files_below(folder: &Path) -> Result<Vec<String>, String> {
    let (mut folders, mut found) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(path) = folders.pop() {
        let wrong = |error| format!("read {}: {error}", path.display());
        for entry in fs::read_dir(&path).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            let path = entry.path();
            if entry.file_type().map_err(wrong)?.is_dir() {
                folders.push(path);
            } else if let Ok(below) = path.strip_prefix(folder) {
                found.push(below.display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// `SHA256SUMS` of everything else.
fn sums(package: &Package) -> Result<PathBuf, String> {
    let mut files = files_below(&package.folder)?;
    files.retain(|file| file != SUMS);
    let mut command = Command::new("sha256sum");
    command.args(&files).current_dir(&package.folder);
    let path = package.folder.join(SUMS);
    write(&path, output(&mut command)?)?;
    Ok(path)
}

const SUMS: &str = "SHA256SUMS";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Sample;

    #[test]
    fn files_are_listed_from_their_folder() {
        let sample = Sample::new("package-files", &[("b/c", ""), ("a", ""), ("b/a/d", "")]);
        assert_eq!(files_below(sample.repository.root()).unwrap(), ["a", "b/a/d", "b/c"]);
    }

    #[test]
    fn a_program_that_fails_is_reported_with_its_command() {
        let error = output(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(error.starts_with("sh -c echo why") && error.ends_with("exit status: 3\nwhy"), "{error}");
        assert!(output(&mut Command::new("/no/such/program")).unwrap_err().starts_with("/no/such/program: "));
    }
}
