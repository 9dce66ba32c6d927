//! Binary files of `sadc` (`/var/log/sa/sa01`, `sar -o FILE`). They are recognized and refused: their structures depend on the
//! version and the machine, and `sadf` writes them as JSON, which is read.

use crate::{Content, Fault, Format, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "sadc",
    about: "binary files of sadc and sar -o: recognized only; convert them with sadf -j",
    recognize: |head| is_sadc(head.bytes),
    open: refuse,
};

/// The first two bytes, and the high byte of the format after them, in the byte order of the machine.
const MAGIC: u16 = 0xd596;
const FORMAT_HIGH: u8 = 0x21;

fn is_sadc(bytes: &[u8]) -> bool {
    let &[a, b, c, d, ..] = bytes else { return false };
    (u16::from_le_bytes([a, b]) == MAGIC && d == FORMAT_HIGH)
        || (u16::from_be_bytes([a, b]) == MAGIC && c == FORMAT_HIGH)
}

fn refuse(_: Source, _: &Options) -> Result<Content, Fault> {
    Err(Fault::at(
        0,
        "a binary file of sadc: it cannot be read",
        "convert it with sadf -j FILE -- -A > FILE.json, and import FILE.json",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_file_is_refused_with_what_to_do() {
        for (bytes, is_known) in [
            (&[0x96, 0xd5, 0x75, 0x21, 0x0c][..], true),
            (&[0xd5, 0x96, 0x21, 0x71, 0x0a], true),
            (&[0x96, 0xd5, 0x75, 0x22], false),
            (&[0x96, 0xd5], false),
        ] {
            let source: Source = Box::new(std::io::Cursor::new(bytes.to_vec()));
            let Err(fault) = crate::open(source, &Options::default()) else { panic!("{bytes:?}") };
            assert_eq!(fault.what == "a binary file of sadc: it cannot be read", is_known, "{bytes:?}");
        }
    }
}
