//! The context of the container image: recipe, filter of system calls, executable. No container engine is needed to check it: the
//! executable runs under the filter as the kernel enforces it, with and without io_uring.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{NAME, Package, bare, shown, write};
use crate::fault::Fault;
use crate::program;

const PROFILE: &str = "seccomp.json";
const IO_URING: &str = "io_uring_setup,io_uring_enter,io_uring_register";

/// Writes the folder from which an image is built.
pub(super) fn write_context(
    package: &Package,
    executable: &Path,
    licences: &Path,
) -> Result<PathBuf, String> {
    let folder = package.folder.join("container");
    for file in ["Containerfile", PROFILE] {
        write(&folder.join(file), package.template(&format!("container/{file}"))?)?;
    }
    for (from, to) in [(executable, NAME), (licences, "licences.txt")] {
        fs::copy(from, folder.join(to)).map_err(|error| format!("copy {}: {error}", from.display()))?;
    }
    Ok(folder)
}

/// Runs a disk load under the profile.
pub(super) fn check(package: &Package, folder: &Path) -> Result<Vec<Fault>, String> {
    let build = ["build", "--quiet", "--locked", "--package", "plimsoll-testkit", "--bin", "seccomp"];
    program::cargo(package.repository, &build)?;
    let filter = program::target(package.repository).join("debug/seccomp");
    let place = package.folder.join("container-check");
    fs::create_dir_all(&place).map_err(|error| format!("create {}: {error}", place.display()))?;
    let mut faults = Vec::new();
    for (without, expected) in [(None, "io_uring"), (Some(IO_URING), "system-calls")] {
        let mut command = Command::new(&filter);
        command.arg(folder.join(PROFILE));
        if let Some(names) = without {
            command.args(["--without", names, "--errno", "1"]);
        }
        command.arg(folder.join(NAME)).args([
            "disk",
            "test.bin",
            "--size",
            "16MiB",
            "--duration",
            "1s",
            "--json",
        ]);
        // Where both work, a comparison may choose either.
        let back_end_asked = if without.is_some() { "auto" } else { "io_uring" };
        command.args(["--back-end", back_end_asked, "--outstanding", "8"]).current_dir(&place);
        let output = command.output().map_err(|error| format!("{}: {error}", shown(&command)))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let judged = bare::measured(&text).and_then(|what| match back_end(&text)? == expected {
            true => Ok(what),
            false => Err(format!("{what}, not by {expected}")),
        });
        let kind = if without.is_some() { "the profile without io_uring" } else { "the profile" };
        match judged {
            Ok(what) => println!("{kind}: {what}"),
            Err(why) => faults.push(Fault::new(
                format!("packaging/container/{PROFILE}"),
                format!("{kind}: {why}\n{}", String::from_utf8_lossy(&output.stderr).trim_end()),
                "find the missing system call with strace -f, and add it",
            )),
        }
    }
    fs::remove_dir_all(&place).map_err(|error| format!("remove {}: {error}", place.display()))?;
    Ok(faults)
}

fn back_end(text: &str) -> Result<String, String> {
    let begin = text.find("{\n").ok_or("no JSON is printed")?;
    let document: Value = serde_json::from_str(&text[begin..]).map_err(|error| error.to_string())?;
    Ok(document["trials"][0]["facts"]["back_end"]["text"].as_str().unwrap_or_default().to_string())
}
