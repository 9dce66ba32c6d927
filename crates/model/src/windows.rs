//! Paths of Windows where a path of this system is expected. Taken literally they would name files of the working
//! directory.

/// What is wrong with a path of Windows, and what to write instead: `C:\data`, `c:test.dat`, `\\server\share`, `a\b`,
/// `\\.\PhysicalDrive1`, `#1` or `NUL`. None for another path. One that begins with `./` or `/` is always a path of this system.
pub fn windows_path(path: &str) -> Option<(String, String)> {
    if path.starts_with("./") || path.starts_with('/') {
        return None;
    }
    let lower = path.to_ascii_lowercase();
    let number = ["#", "\\\\.\\physicaldrive", "\\\\?\\physicaldrive"]
        .iter()
        .find_map(|prefix| lower.strip_prefix(prefix))
        .filter(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    if number.is_some() {
        return Some((
            format!("`{path}` is a disk of Windows"),
            "name the block device, such as /dev/sdb (`lsblk` lists them)".into(),
        ));
    }
    if ["nul", "con", "prn", "aux"].contains(&lower.as_str()) {
        return Some((
            format!("`{path}` is a device of Windows"),
            format!("name a file of this system; a file with this very name is `./{path}`"),
        ));
    }
    let mut letters = path.chars();
    let is_drive =
        letters.next().is_some_and(|letter| letter.is_ascii_alphabetic()) && letters.next() == Some(':');
    (is_drive || path.contains('\\')).then(|| {
        (
            format!("`{path}` is a path of Windows"),
            format!(
                "name a file of this system, such as /data/testfile.dat; a file with this very name is `./{path}`"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_windows_are_recognized() {
        for (path, expected) in [
            ("E:\\testfile.dat", "a path of Windows"),
            ("e:", "a path of Windows"),
            ("c:test.dat", "a path of Windows"),
            ("C:/x", "a path of Windows"),
            ("\\\\server\\share\\f.dat", "a path of Windows"),
            ("\\test.dat", "a path of Windows"),
            ("data\\test.dat", "a path of Windows"),
            ("%TEMP%\\test.dat", "a path of Windows"),
            ("\\\\.\\C:", "a path of Windows"),
            ("\\\\?\\Volume{1}\\f", "a path of Windows"),
            ("\\\\.\\PhysicalDrive1", "a disk of Windows"),
            ("\\\\?\\physicaldrive0", "a disk of Windows"),
            ("#1", "a disk of Windows"),
            ("NUL", "a device of Windows"),
        ] {
            let (what, _) = windows_path(path).unwrap();
            assert!(what.ends_with(expected), "{path}: {what}");
        }
        for path in
            ["./c:test.dat", "/mnt/c:x", "/a\\b", "#", "#notes", "/data/f", "C", "12:30.dat", "é:x", ""]
        {
            assert_eq!(windows_path(path), None, "{path}");
        }
    }
}
