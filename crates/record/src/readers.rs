//! Readers of single files for fuzz targets; not a public interface.

use std::io::Cursor;

use hdrhistogram::Histogram;

use crate::histogram_log::{Decoded, Decoder, HistogramDecoder};
use crate::limits::Budget;
use crate::lines::Lines;

/// Passes each histogram of a log to `found`; returns the number of unreadable lines.
pub fn histogram_log(bytes: &[u8], mut found: impl FnMut(&str, &Histogram<u64>)) -> usize {
    let mut lines = Lines::new(Box::new(Cursor::new(bytes.to_vec())));
    let (mut budget, mut decoder, mut unreadable) = (Budget::new(), Decoder::default(), 0);
    while let Some(raw) = lines.next(&mut budget) {
        match decoder.decode(raw) {
            Decoded::Line(line) => found(&line.operation, &line.histogram),
            Decoded::Comment => {}
            Decoded::Unreadable => unreadable += 1,
        }
    }
    unreadable
}

/// A histogram without compression and surrounding text, which a fuzzer rarely gets past.
pub fn histogram(payload: &[u8]) -> Option<Histogram<u64>> {
    HistogramDecoder::default().decode(payload)
}

/// The number of lines of a gzip file, the length of its longest line, and its damage.
pub fn gzip(bytes: &[u8]) -> (usize, usize, Option<String>) {
    let mut lines = Lines::of_gzip(Cursor::new(bytes.to_vec()));
    let (mut budget, mut count, mut longest) = (Budget::new(), 0, 0);
    while let Some(line) = lines.next(&mut budget) {
        count += 1;
        longest = longest.max(line.len());
    }
    (count, longest, lines.damage().map(str::to_string))
}
