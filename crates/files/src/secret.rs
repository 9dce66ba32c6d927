//! Files with a password, a key or a token.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::directory::open_regular;

/// Larger than any password or key.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// Refuses an open file with a secret if other users than its owner may read or change it.
///
/// # Errors
/// The message names the file and the command that corrects it.
pub fn check(file: &std::fs::File, path: &Path) -> io::Result<()> {
    let metadata = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    let path = path.display();
    let refused = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    if metadata.uid() != user && metadata.uid() != 0 {
        return refused(format!(
            "{path} holds a secret and belongs to user {}, not to the user {user} that runs this: `chown {user} {path}`",
            metadata.uid()
        ));
    }
    let mode = metadata.mode() & 0o7777;
    // A service may read root's file through its own group.
    let forbidden = if metadata.uid() == 0 && user != 0 { 0o037 } else { 0o077 };
    if mode & forbidden != 0 {
        return refused(format!(
            "{path} holds a secret that others may read or change (mode {mode:04o}): `chmod 600 {path}`"
        ));
    }
    Ok(())
}

/// Reads a file with a secret in UTF-8.
///
/// # Errors
/// As [`read_bytes`], and when it is not UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} is not text in UTF-8", path.display()))
    })
}

/// Reads a secret in UTF-8 that is the content of a file without its last line end.
///
/// # Errors
/// As [`read`].
pub fn read_line(path: &Path) -> io::Result<String> {
    let text = read(path)?;
    Ok(text.strip_suffix('\n').map_or(text.as_str(), |text| text.trim_end_matches('\r')).to_string())
}

/// Reads a file with a secret.
///
/// # Errors
/// When it is not a regular file, is too large, belongs to neither this user nor root, or others may read or
/// change it. The message names the file and the command that corrects it, and never the content.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    check(&file, path)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, SECRET_BYTES_MAX + 1), &mut bytes)?;
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("{} is too large for a secret", path.display()),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use testkit::Scratch;

    #[test]
    fn a_secret_that_others_may_read_is_refused_with_the_command_that_mends_it() {
        let folder = Scratch::new();
        let path = folder.file("password", "hidden\n");
        for (mode, good) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            match read(&path) {
                Ok(text) => assert!(good && text == "hidden\n"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!good && text.ends_with(&format!("`chmod 600 {}`", path.display())), "{text}");
                    assert!(!text.contains("hidden"));
                }
            }
        }
    }
}
