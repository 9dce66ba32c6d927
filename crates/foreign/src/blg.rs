//! Binary logs of Windows Performance Monitor (BLG). They are recognized and refused: `relog` writes them as CSV, which is read.
//!
//! Since Windows XP, such a log is a file of Event Tracing for Windows. Its first structures are documented: a buffer header of
//! 72 bytes, a system trace header of 32 bytes with the marker 0xC0, and `TRACE_LOGFILE_HEADER`. The events with the counters
//! are not documented, so they are not read. By these structures, a log of counters cannot be distinguished from a trace.

use crate::{Content, Fault, Format, Options, Source};

pub(crate) static FORMAT: Format = Format {
    name: "blg",
    about: "binary logs of Performance Monitor: recognized only; convert them with relog",
    recognize: |head| Trace::parse(head.bytes).is_some(),
    open,
};

/// Bytes before `TRACE_LOGFILE_HEADER`, and the bytes of it that are read.
const BUFFER_HEADER: usize = 72;
const TRACE_HEADER: usize = 32;
const READ: usize = 8;

/// What the first structures have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trace {
    /// Bits of a pointer.
    bits: u8,
    /// The version of Windows.
    major: u8,
    minor: u8,
}

impl Trace {
    fn parse(bytes: &[u8]) -> Option<Trace> {
        let (buffer, rest) = bytes.split_at_checked(BUFFER_HEADER)?;
        let (header, rest) = rest.split_at_checked(TRACE_HEADER)?;
        let (file, _) = rest.split_at_checked(READ)?;
        // Version, type, marker, size of the event, and its type: that of the first event of each file.
        let &[version, 0, kind @ (1 | 2), 0xc0, _, _, 0, 0, ..] = header else { return None };
        // Both have the size of a buffer.
        let size = u32::from_le_bytes(buffer[..4].try_into().ok()?);
        let is_same = buffer[..4] == file[..4];
        let is_size = size > 0 && size.is_multiple_of(512) && size <= 64 << 20;
        (matches!(version, 1 | 2) && is_same && is_size).then_some(Trace {
            bits: 32 * kind,
            major: file[4],
            minor: file[5],
        })
    }
}

fn open(mut from: Source, _: &Options) -> Result<Content, Fault> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let length = BUFFER_HEADER + TRACE_HEADER + READ;
    from.by_ref().take(length as u64).read_to_end(&mut bytes).map_err(|error| Fault::of_file(&error))?;
    let system = Trace::parse(&bytes).map_or_else(String::new, |trace| {
        format!(" of Windows {}.{}, {} bits", trace.major, trace.minor, trace.bits)
    });
    Err(Fault::at(
        0,
        format!("a binary log{system}: its counters cannot be read"),
        "convert a log of Performance Monitor with relog FILE.blg -f CSV -o FILE.csv, and import FILE.csv",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open as open_any;

    fn head(size: u32, kind: u8) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[72..80].copy_from_slice(&[2, 0, kind, 0xc0, 0x18, 1, 0, 0]);
        bytes[104..108].copy_from_slice(&size.to_le_bytes());
        bytes[108..110].copy_from_slice(&[6, 1]);
        bytes
    }

    #[test]
    fn a_binary_log_is_refused_with_what_to_do() {
        for (size, kind, expected) in [
            (0x1_0000, 2, "a binary log of Windows 6.1, 64 bits: its counters cannot be read"),
            (0x2000, 1, "a binary log of Windows 6.1, 32 bits: its counters cannot be read"),
            (0x2000, 3, "the format is not known"),
            (0x2001, 2, "the format is not known"),
            (0, 2, "the format is not known"),
        ] {
            let source: Source = Box::new(std::io::Cursor::new(head(size, kind)));
            let Err(fault) = open_any(source, &Options::default()) else { panic!("{expected}") };
            assert_eq!(fault.what, expected);
        }
        assert_eq!(Trace::parse(&head(0x2000, 2)[..111]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..130)) {
            Trace::parse(&bytes);
            let _ = open(Box::new(std::io::Cursor::new(bytes)), &Options::default());
        }
    }
}
