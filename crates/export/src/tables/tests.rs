use super::*;
use crate::openmetrics::tests::stored;

/// Checks the frame of a file: the magic words, and the footer at its length. A test of `cli` reads files with another library.
fn check_frame(bytes: &[u8]) {
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let length = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let footer = &bytes[bytes.len() - 8 - length..bytes.len() - 8];
    // The version is 1.
    assert_eq!((&footer[..2], footer.last()), (&[0x15, 2][..], Some(&0)));
}

#[test]
fn each_value_that_is_present_is_a_row() {
    let study = stored("disk");
    let mut out = Vec::new();
    let count = readings_parquet(&study, &mut out).unwrap();
    let table = &study.runs[0].readings;
    let present = table.values.iter().flatten().filter(|value| value.is_finite()).count() as u64;
    assert_eq!(count, present);
    check_frame(&out);
    let mut out = Vec::new();
    assert_eq!(intervals_parquet(&study, &mut out).unwrap(), study.runs[0].intervals.len() as u64);
    check_frame(&out);
}

#[test]
fn a_table_without_rows_is_a_table() {
    let mut out = Vec::new();
    assert_eq!(readings_parquet(&Study::default(), &mut out).unwrap(), 0);
    check_frame(&out);
}
