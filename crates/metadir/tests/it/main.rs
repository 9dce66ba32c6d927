//! A metadirectory in action: real files, a real store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod life;
mod properties;
