//! Fixture hosts and helpers for tests. A dev-dependency only.

pub mod scratch;

pub use scratch::Scratch;
