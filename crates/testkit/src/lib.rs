//! Fixture hosts and helpers for tests. A dev-dependency only.

pub mod postgres;
pub mod scratch;

pub use postgres::Postgres;
pub use scratch::Scratch;
