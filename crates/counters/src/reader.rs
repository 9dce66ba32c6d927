//! Reading the kernel's text files without an allocation per read: files stay open and are read again from the
//! start into one buffer, and numbers are parsed from the bytes.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use engine::source::HostRoot;

/// No file of the kernel worth reading every second is longer; what follows is not read.
const LONGEST: usize = 4 << 20;

/// The buffer every file of one source is read into.
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    pub(crate) fn new() -> Self {
        Buffer(vec![0; 16 << 10])
    }
}

/// A file that is read again and again. It need not exist: each read tries to open it until it does.
pub(crate) struct KernelFile {
    path: PathBuf,
    file: Option<File>,
}

impl KernelFile {
    /// The file at a path given from the host's root. Nothing is opened yet.
    pub(crate) fn new(root: &HostRoot, path: &str) -> Self {
        KernelFile::at(root.join(path))
    }

    /// The file at a full path. Nothing is opened yet.
    pub(crate) fn at(path: PathBuf) -> Self {
        KernelFile { path, file: None }
    }

    /// The whole text as it is now; nothing when the file does not exist or may not be read.
    pub(crate) fn read<'b>(&mut self, buffer: &'b mut Buffer) -> Option<&'b [u8]> {
        // What was open may belong to something that is gone (a removed cgroup, an ended process) while the same
        // path names a new one, so a failed read is tried once more on a freshly opened file.
        let kept = self.file.is_some();
        let length = match self.fill(&mut buffer.0, false) {
            None if kept => self.fill(&mut buffer.0, false)?,
            length => length?,
        };
        Some(&buffer.0[..length])
    }

    /// Like [`KernelFile::read`], for a file of a process or a thread: these never come back under their path, and
    /// the kernel gives them whole in one call.
    pub(crate) fn read_once<'b>(&mut self, buffer: &'b mut Buffer) -> Option<&'b [u8]> {
        let length = self.fill(&mut buffer.0, true)?;
        Some(&buffer.0[..length])
    }

    /// Gives the descriptor back; the next read opens the file again.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    fn fill(&mut self, buffer: &mut Vec<u8>, is_given_whole: bool) -> Option<usize> {
        if self.file.is_none() {
            self.file = Some(File::open(&self.path).ok()?);
        }
        let file = self.file.as_ref()?;
        let mut length = 0;
        loop {
            if length == buffer.len() {
                if length >= LONGEST {
                    return Some(length);
                }
                buffer.resize(length * 2, 0);
            }
            match file.read_at(&mut buffer[length..], length as u64) {
                Ok(0) => return Some(length),
                Ok(more) => {
                    length += more;
                    if is_given_whole && length < buffer.len() {
                        return Some(length);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.file = None;
                    return None;
                }
            }
        }
    }
}

/// The lines of a text.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

/// The fields of a line, between blanks.
pub(crate) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ' || byte == b'\t').filter(|field| !field.is_empty())
}

/// A whole number, when the field is one and fits.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0_u64, |value, &byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// The first `N` numbers of a line, from its current field on; a field that is missing or no number is nothing.
pub(crate) fn numbers<'a, const N: usize>(fields: impl IntoIterator<Item = &'a [u8]>) -> [Option<u64>; N] {
    let mut values = [None; N];
    for (value, field) in values.iter_mut().zip(fields) {
        *value = number(field);
    }
    values
}

/// The lines made of a name and a number, such as those of `/proc/vmstat`, `/proc/meminfo` and `cpu.stat`; a
/// colon after the name is taken off, what follows the number (a unit) is ignored.
pub(crate) fn named_numbers(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    lines(text).filter_map(|line| {
        let mut fields = fields(line);
        let name = fields.next()?;
        let value = number(fields.next()?)?;
        Some((name.strip_suffix(b":").unwrap_or(name), value))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_whole_and_fit() {
        let cases: [(&[u8], Option<u64>); 7] = [
            (b"0", Some(0)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"", None),
            (b"-1", None),
            (b"12kB", None),
            (b"\xff", None),
        ];
        for (field, expected) in cases {
            assert_eq!(number(field), expected, "{field:?}");
        }
    }

    #[test]
    fn missing_fields_are_nothing() {
        assert_eq!(numbers::<3>(fields(b"  7\t x")), [Some(7), None, None]);
    }

    #[test]
    fn named_numbers_skip_what_they_do_not_understand() {
        let text = b"MemTotal:  24684084 kB\npgpgin 12\nbroken\n\nname value\n";
        let found: Vec<_> = named_numbers(text).collect();
        assert_eq!(found, [(&b"MemTotal"[..], 24684084), (&b"pgpgin"[..], 12)]);
    }

    #[test]
    fn a_file_longer_than_the_buffer_is_read_whole_and_a_missing_one_is_nothing() {
        let mut small = Buffer(vec![0; 7]);
        let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/reader.rs"));
        let expected = std::fs::read(&path).unwrap();
        let mut file = KernelFile::at(path);
        for _ in 0..2 {
            assert_eq!(file.read(&mut small), Some(&expected[..]));
        }
        assert_eq!(KernelFile::at("/nonexistent/file".into()).read(&mut small), None);
    }

    proptest! {
        #[test]
        fn every_number_reads_back(value: u64) {
            prop_assert_eq!(number(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(text: Vec<u8>) {
            for line in lines(&text) {
                let _ = numbers::<8>(fields(line));
            }
            let _ = named_numbers(&text).count();
        }
    }
}
