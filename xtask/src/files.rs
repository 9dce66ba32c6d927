//! The repository's files.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold what is built, recorded or found by a fuzzer, not what is written.
const NOT_SOURCE: [&str; 5] = [".git", "target", "runs", "fuzz/corpus", "fuzz/artifacts"];

/// A checked-out repository, or a made-up one in a test.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    root: PathBuf,
}

impl Repository {
    /// The repository this program was built from.
    pub(crate) fn find() -> Result<Repository, String> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().ok_or("xtask is not in a folder of the repository")?;
        if !root.join("Cargo.toml").is_file() {
            return Err(format!("{} is gone: build xtask again", root.display()));
        }
        Ok(Repository { root: root.to_path_buf() })
    }

    /// A repository at a folder.
    #[cfg(test)]
    pub(crate) fn at(root: impl Into<PathBuf>) -> Repository {
        Repository { root: root.into() }
    }

    /// Its top folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path inside it.
    pub(crate) fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// The text of a file given from the root.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        let full = self.join(path);
        fs::read_to_string(&full).map_err(|error| format!("read {}: {error}", full.display()))
    }

    /// The name of a path as seen from the root, with `/` between its parts.
    pub(crate) fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().replace('\\', "/")
    }

    /// Every file that someone wrote, in order of name.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, String> {
        let mut found = Vec::new();
        walk(&self.root, &mut found)?;
        found.sort();
        Ok(found)
    }

    /// The folders directly inside `path`, in order of name; none when it does not exist.
    pub(crate) fn folders(&self, path: &str) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = fs::read_dir(self.join(path))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_dir())
            .collect();
        folders.sort();
        folders
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let wrong = |error| format!("read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let kind = entry.file_type().map_err(wrong)?;
        let path = entry.path();
        if kind.is_dir() {
            if !NOT_SOURCE.iter().any(|name| path.ends_with(name)) {
                walk(&path, found)?;
            }
        } else if kind.is_file() && !path.ends_with(".git") {
            found.push(path);
        }
    }
    Ok(())
}

/// The line number, from 1, of a byte offset.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A small repository for a test, removed when dropped.
#[cfg(test)]
pub(crate) struct Sample {
    /// The repository.
    pub(crate) repository: Repository,
}

#[cfg(test)]
impl Sample {
    /// Makes one from paths and texts. `name` keeps tests apart.
    pub(crate) fn new(name: &str, files: &[(&str, &str)]) -> Sample {
        let root = std::env::temp_dir().join(format!("plimsoll-xtask-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Sample { repository: Repository::at(root) }
    }
}

#[cfg(test)]
impl Drop for Sample {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.repository.root);
    }
}
