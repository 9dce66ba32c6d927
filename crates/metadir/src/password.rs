//! Passwords and tokens in files and in the environment.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::agent::AgentError;

/// The place of a password or a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// A file that contains nothing else.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
}

impl fmt::Display for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Password::File(path) => path.display().fmt(f),
            Password::Environment(name) => write!(f, "${name}"),
        }
    }
}

impl Password {
    /// Resolves a relative path against a folder.
    pub fn relative_to(&mut self, folder: &Path) {
        if let Password::File(path) = self {
            *path = folder.join(&*path);
        }
    }

    /// Reads it, without the end of its line. Errors call it `what`.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn read(&self, what: &str) -> Result<Vec<u8>, AgentError> {
        let found = match self {
            Password::File(path) => files::secret::read_bytes(path),
            Password::Environment(name) => {
                let found = std::env::var_os(name).map(std::os::unix::ffi::OsStringExt::into_vec);
                let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "it is not set");
                found.ok_or(missing)
            }
        };
        let failed = |why: &dyn ToString| {
            AgentError::system(format!("reading the {what} from {self}"), why.to_string())
        };
        let mut password = found.map_err(|error| failed(&error))?;
        // Editors end the last line with a line end.
        for end in [b'\n', b'\r'] {
            if password.last() == Some(&end) {
                password.pop();
            }
        }
        if password.is_empty() { Err(failed(&"there is none")) } else { Ok(password) }
    }
}
