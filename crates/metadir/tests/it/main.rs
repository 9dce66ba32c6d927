//! A metadirectory in action: real files, real stores.

mod life;
mod place;
mod postgres;
mod store;
