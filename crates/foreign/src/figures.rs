//! Figures that a report states: a file in which they were written down, or a table of results.

mod columns;
mod file;
mod table;

pub(crate) use file::FORMAT as FILE;
pub(crate) use table::FORMAT as TABLE;

/// The largest file of figures.
const BYTES_MAX: usize = 4 << 20;
