//! A metadirectory in action: real files, a real store.

mod life;
mod properties;
