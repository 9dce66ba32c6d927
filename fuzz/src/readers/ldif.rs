//! An LDIF file: the first byte says how large the pieces are in which it is read, the rest is the file.

use std::io::{BufRead, BufReader};

use ldap::ldif::{LdifError, Options, Reader, write_record};

/// Every record, written out, and every error.
fn read(input: impl BufRead) -> (Vec<Vec<u8>>, Vec<LdifError>) {
    let options = Options { line_bytes_max: 1 << 10, record_bytes_max: 1 << 12, read_file_urls: false };
    let mut reader = Reader::new(input, options);
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                let mut written = Vec::new();
                write_record(&mut written, &record);
                let mut again = Reader::new(written.as_slice(), Options::default());
                let mut read = again.next().expect("what is written is well").expect("and is there");
                read.line = record.line;
                assert_eq!(read, record);
                assert_eq!(again.next(), Ok(None));
                records.push(written);
            }
            Ok(None) => return (records, errors),
            Err(error) => errors.push(error),
        }
    }
}

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Some((size, file)) = bytes.split_first() else { return };
    // A byte order mark is looked for in the first piece.
    let size = usize::from(*size) + 3;
    assert_eq!(read(BufReader::with_capacity(size, file)), read(file), "in pieces of {size}");
}
