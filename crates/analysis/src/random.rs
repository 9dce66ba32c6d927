//! Seeded pseudo-random numbers.

pub use model::random::Random;
