//! Unsafe code stays where it is needed: every crate of ours forbids it, but for those that talk to the kernel's rings,
//! map memory, read the processor's clock and load programs into the kernel.

use crate::fault::Fault;
use crate::files::Repository;

/// The crates that may have unsafe code.
const MAY: [&str; 3] = ["crates/engine", "crates/workloads", "crates/counters"];

/// What each of the others says at the top of its code.
const FORBIDDEN: &str = "#![forbid(unsafe_code)]";

/// Checks the roots of the crates: libraries, programs, build scripts.
pub(super) fn check(repository: &Repository) -> Result<Vec<Fault>, String> {
    let mut faults = Vec::new();
    for path in repository.files()? {
        let name = repository.name(&path);
        let Some((folder, inner)) = name.split_once("/src/") else { continue };
        let is_root =
            matches!(inner, "lib.rs" | "main.rs") || (inner.starts_with("bin/") && inner.ends_with(".rs"));
        let is_ours = folder.starts_with("crates/") || folder == "xtask";
        if is_root && is_ours && !MAY.contains(&folder) {
            faults.extend(examine(&name, &repository.read(&name)?));
        }
    }
    Ok(faults)
}

fn examine(name: &str, text: &str) -> Option<Fault> {
    (!text.lines().any(|line| line == FORBIDDEN)).then(|| {
        Fault::new(
            name,
            format!("does not say {FORBIDDEN}"),
            "unsafe code belongs to engine, workloads and counters alone: add the line below the module's text",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_code_is_reported() {
        assert!(examine("crates/a/src/lib.rs", "//! A.\n\npub fn a() {}\n").is_some());
        assert!(examine("crates/a/src/lib.rs", "//! A.\n// #![forbid(unsafe_code)]\n").is_some());
        assert!(
            examine("crates/a/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n\npub fn a() {}\n").is_none()
        );
    }
}
