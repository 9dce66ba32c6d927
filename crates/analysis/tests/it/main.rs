//! What the crate answers, held against what others published and against simulated systems whose truth is known.

mod coverage;
mod datasets;
mod prediction;
