//! The metadirectory.
pub mod config;
pub mod expression;
pub mod hologram;
pub mod schema;
