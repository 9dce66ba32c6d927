//! What a reader copies and runs, perhaps as root, names no fixed file in a folder that everybody may write: another user
//! could have put a link or a configuration there.

use crate::fault::Fault;

/// Folders in which everybody may make files.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Checks one file, if it is such.
pub(super) fn check(name: &str, text: &str) -> Vec<Fault> {
    let is_handbook = name == "README.md" || name.starts_with("docs/handbook/");
    let is_run = ["examples/", "crates/cli/templates/", ".ci/"].iter().any(|folder| name.starts_with(folder));
    if !is_handbook && !is_run {
        return Vec::new();
    }
    let mut is_code = !name.ends_with(".md");
    let mut faults = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if name.ends_with(".md") && line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code
            && !line.contains("mktemp")
            && let Some(folder) = SHARED.iter().find(|folder| names(line, folder))
        {
            faults.push(Fault::new(
                format!("{name}:{}", at + 1),
                format!("works in {folder}, where other users can put links and files"),
                "make a folder with `mktemp -d`, or work in the folder it is run in",
            ));
        }
    }
    faults
}

/// Whether a line names a folder or something in it, not something of a longer name.
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        !before.is_some_and(|c| is_part(c) || matches!(c, '/' | '}')) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_names_in_shared_folders_are_found() {
        for (name, text, faults) in [
            ("examples/a.toml", "directory = \"/tmp\"\n", 1),
            ("examples/a.toml", "# it is in /var/tmp/x\nstart = 'cd /tmp/x; slapd'\n", 2),
            ("examples/a.sh", "cp page /dev/shm/page\n", 1),
            ("crates/cli/templates/a/b.sh", "folder=$(mktemp -d -p /var/tmp)\ncd \"$folder\"\n", 0),
            ("examples/a.sh", "ls /srv/tmp /tmpfs data/tmp \"$HOME/tmp\"\n", 0),
            ("README.md", "A folder in /tmp is not private.\n```\nplimsoll disk /tmp/f\n```\n", 1),
            ("docs/handbook/a.md", "```\nplimsoll copy a b > /tmp/log\n```\n", 1),
            ("docs/adr/a.md", "```\nls /tmp/f\n```\n", 0),
            ("crates/a/src/b.rs", "open(\"/tmp/f\")\n", 0),
        ] {
            assert_eq!(check(name, text).len(), faults, "{name}: {text}");
        }
    }
}
