//! The mounted file systems, from `/proc/mounts`.

use engine::mounts::unescape;

use crate::reader::{fields, lines};

/// One line of `/proc/mounts`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The device or whatever was given in its place.
    pub(crate) device: String,
    /// The folder it is mounted on.
    pub(crate) folder: String,
    /// The type, such as `ext4`.
    pub(crate) kind: String,
    /// Options, between commas.
    pub(crate) options: String,
}

/// All mounts in the order they were made; lines that are not understood are left out.
pub(crate) fn parse(text: &[u8]) -> Vec<Mount> {
    lines(text)
        .filter_map(|line| {
            let mut fields = fields(line).map(unescape);
            Some(Mount {
                device: fields.next()?,
                folder: fields.next()?,
                kind: fields.next()?,
                options: fields.next()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_with_blanks_are_unescaped_and_short_lines_left_out() {
        let mounts = parse(
            b"/dev/sda1 /mnt/my\\040disk ext4 rw,relatime 0 0\nbroken line\nnone /a\\9b tmpfs rw 0 0\n",
        );
        let folders: Vec<_> = mounts.iter().map(|mount| mount.folder.as_str()).collect();
        assert_eq!(folders, ["/mnt/my disk", "/a\\9b"]);
        assert_eq!((mounts[0].kind.as_str(), mounts[0].options.as_str()), ("ext4", "rw,relatime"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
