//! The metadirectory: an identity synchronization engine that administrators can run for real, and the system under test of
//! identity loads.
//!
//! [`config`] is what an administrator writes. [`agent`]s read and change connected systems. [`stage`] brings what they find
//! into connector spaces, [`synchronize`] takes it through the rules into the metaverse and out to the other connector
//! spaces, [`export`] sends what is pending there. [`preview`] tells what all that would do. [`store`] keeps it all;
//! [`metadirectory`] puts the parts together. [`sqlite_script`] makes sources to try it on.
#![forbid(unsafe_code)]

pub mod agent;
pub mod config;
pub mod export;
pub mod expression;
pub mod hologram;
pub mod index_key;
pub mod metadirectory;
pub mod naming;
pub mod object;
mod postgresql;
pub mod preview;
pub(crate) mod rules;
pub mod schema;
pub mod sqlite_script;
pub mod stage;
pub mod statistics;
pub mod store;
pub mod synchronize;
mod tls;

pub use ldap::session::wait::Interrupt;
