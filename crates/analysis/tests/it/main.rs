//! Tests of the crate with published results and with simulated systems of known properties.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests say what they found, and fail where they stand"
)]

mod coverage;
mod datasets;
mod prediction;
