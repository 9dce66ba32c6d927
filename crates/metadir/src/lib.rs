//! The metadirectory.
pub mod expression;
pub mod hologram;
pub mod schema;
