//! A folder for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own, removed when dropped. It can be made to look like a host: `proc/`, `sys/`. Its methods panic when
/// the file system refuses, which is a failed test.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder in the system's folder for temporary files.
    pub fn new() -> Self {
        Scratch::inside(&std::env::temp_dir())
    }

    /// A new, empty folder inside another one, for a test that needs a particular file system.
    pub fn inside(parent: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("plimsoll-test-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        check(&path, fs::create_dir_all(&path));
        Scratch(path)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path in the folder.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// Writes a file and the folders it is in; its path.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(path);
        if let Some(parent) = path.parent() {
            check(parent, fs::create_dir_all(parent));
        }
        check(&path, fs::write(&path, content));
        path
    }

    /// Writes a file that nobody else may read; its path.
    pub fn secret(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(path, content);
        check(&path, fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)));
        path
    }

    /// Makes a symbolic link and the folders it is in. `to` is taken as it stands.
    pub fn link(&self, path: &str, to: &str) {
        let path = self.join(path);
        if let Some(parent) = path.parent() {
            check(parent, fs::create_dir_all(parent));
        }
        check(&path, std::os::unix::fs::symlink(to, &path));
    }

    /// The text of a file in the folder.
    pub fn text(&self, path: &str) -> String {
        let path = self.join(path);
        check(&path, fs::read_to_string(&path))
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn check<T>(path: &Path, result: std::io::Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}
