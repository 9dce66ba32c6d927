//! What the crate answers, held against what others published and against simulated systems whose truth is known.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests say what they found, and fail where they stand"
)]

mod coverage;
mod datasets;
mod prediction;
