//! The format file of a tracepoint: where its fields are.

use std::fs;
use std::path::PathBuf;

use engine::source::HostRoot;

use crate::reader::{fields, lines, number};

/// Where tracefs is mounted, the newer place first.
const FOLDERS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// A tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tracepoint {
    /// Its number.
    pub(super) id: u64,
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    offset: i16,
    bytes: u64,
}

impl Tracepoint {
    /// Reads `events/NAME/format`; the error has the reason.
    pub(super) fn read(root: &HostRoot, name: &str) -> Result<Tracepoint, String> {
        let folder: Option<PathBuf> =
            FOLDERS.into_iter().map(|folder| root.join(folder)).find(|folder| folder.join("events").is_dir());
        let folder = folder.ok_or("tracefs is not readable at /sys/kernel/tracing")?;
        let path = folder.join("events").join(name).join("format");
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Tracepoint::parse(&text).ok_or_else(|| format!("{} has no number", path.display()))
    }

    /// Parses a format file. Lines that are not understood are left out.
    fn parse(text: &[u8]) -> Option<Tracepoint> {
        let id = lines(text).find_map(|line| number(line.strip_prefix(b"ID:")?.trim_ascii()))?;
        Some(Tracepoint { id, fields: lines(text).filter_map(field).collect() })
    }

    /// The offset of a field of this size.
    pub(super) fn offset(&self, name: &str, bytes: u64) -> Result<i16, String> {
        let field = self.fields.iter().find(|field| field.name == name && field.bytes == bytes);
        field.map(|field| field.offset).ok_or_else(|| format!("it has no field `{name}` of {bytes} bytes"))
    }

    /// The offset of a field with at least this size, such as a text.
    pub(super) fn text_offset(&self, name: &str, bytes: u64) -> Result<i16, String> {
        let field = self.fields.iter().find(|field| field.name == name && field.bytes >= bytes);
        field.map(|field| field.offset).ok_or_else(|| format!("it has no text `{name}`"))
    }
}

/// `field:unsigned int bytes; offset:28; size:4; signed:0;`
fn field(line: &[u8]) -> Option<Field> {
    let mut parts = line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let declaration = parts.next()?.strip_prefix(b"field:")?;
    // The name is the last word, without the length of an array.
    let name = fields(declaration).last()?.split(|byte| *byte == b'[').next()?;
    let mut value = |key: &[u8]| number(parts.next()?.strip_prefix(key)?);
    let (offset, bytes) = (value(b"offset:")?, value(b"size:")?);
    Some(Field {
        name: String::from_utf8_lossy(name).into_owned(),
        offset: i16::try_from(offset).ok()?,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of Linux 6.18, 5.10 and 4.18: the fields moved twice.
    const NEW: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned short ioprio;\toffset:32;\tsize:2;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n";
    const OLD: &str = "name: block_rq_issue\nID: 1130\nformat:\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[8];\toffset:32;\tsize:8;\tsigned:1;\n";

    #[test]
    fn fields_are_where_the_kernel_says() {
        for (text, id, rwbs) in [(NEW, 2104, 34), (OLD, 1130, 32)] {
            let found = Tracepoint::parse(text.as_bytes()).unwrap();
            assert_eq!((found.id, found.offset("bytes", 4), found.offset("dev", 4)), (id, Ok(28), Ok(8)));
            assert_eq!(found.text_offset("rwbs", 8), Ok(rwbs));
            assert!(found.offset("bytes", 8).is_err() && found.offset("none", 4).is_err());
        }
        assert_eq!(Tracepoint::parse(b"format:\n"), None);
        assert_eq!(Tracepoint::parse(b"ID: x\n"), None);
    }

    proptest! {
        #[test]
        fn damage_causes_no_panic(text: Vec<u8>, at in 0_usize..400, value: u8) {
            let _ = Tracepoint::parse(&text);
            let mut damaged = NEW.as_bytes().to_vec();
            if let Some(byte) = damaged.get_mut(at) {
                *byte = value;
            }
            let _ = Tracepoint::parse(&damaged);
        }
    }
}
