//! The mounted file systems, from `/proc/self/mountinfo` (proc_pid_mountinfo(5)).

use std::fs;
use std::path::PathBuf;

use crate::source::{HostRoot, Unavailable};

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The number of its device, `MAJOR:MINOR`.
    pub device: String,
    /// Which part of the file system is mounted; `/` for all of it.
    pub part: String,
    /// The folder it is mounted on, as this process sees it.
    pub point: PathBuf,
    /// The type, such as `ext4`.
    pub file_system: String,
    /// The device, or whatever was given in its place.
    pub source: String,
    /// Options of the file system, between commas.
    pub options: String,
}

/// All mounts in the order they were made; lines that are not understood are left out.
///
/// # Errors
/// When the table cannot be read.
pub fn mounts(root: &HostRoot) -> Result<Vec<Mount>, Unavailable> {
    let file = root.join("proc/self/mountinfo");
    let text =
        fs::read_to_string(&file).map_err(|error| Unavailable(format!("{}: {error}", file.display())))?;
    Ok(text.lines().filter_map(parse).collect())
}

/// Fields that no reader here needs stand between the mount point and the dash.
fn parse(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2).map(|field| unescape(field.as_bytes()));
    let mut file_system = file_system.split(' ').map(|field| unescape(field.as_bytes()));
    Some(Mount {
        device: mount.next()?,
        part: mount.next()?,
        point: mount.next()?.into(),
        file_system: file_system.next()?,
        source: file_system.next()?,
        options: file_system.next()?,
    })
}

/// A field of a table of mounts: blanks, tabs, newlines and backslashes are written as a backslash and three octal digits.
pub fn unescape(field: &[u8]) -> String {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if first == b'\\' => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::Scratch;

    use super::*;

    #[test]
    fn optional_fields_are_passed_over_and_names_with_blanks_unescaped() {
        let host = Scratch::new();
        assert!(mounts(&HostRoot::at(host.path())).is_err());
        host.file(
            "proc/self/mountinfo",
            "36 35 98:0 /sub /my\\040disk rw,noatime master:1 shared:7 - ext4 /dev/sda1 rw,errors=continue\n\
             broken line\n\
             30 25 0:26 / /cg rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        let mount =
            |device: &str, part: &str, point: &str, file_system: &str, source: &str, options: &str| Mount {
                device: device.into(),
                part: part.into(),
                point: point.into(),
                file_system: file_system.into(),
                source: source.into(),
                options: options.into(),
            };
        assert_eq!(
            mounts(&HostRoot::at(host.path())).unwrap(),
            [
                mount("98:0", "/sub", "/my disk", "ext4", "/dev/sda1", "rw,errors=continue"),
                mount("0:26", "/", "/cg", "cgroup", "cgroup", "rw,cpu,cpuacct"),
            ]
        );
    }

    proptest! {
        #[test]
        fn no_line_panics(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }
    }
}
