//! The metadirectory: an identity synchronization engine for production use, and the system under test of
//! identity workloads.
//!
//! [`config`] is what an administrator writes. [`agent`]s read and change connected systems. [`stage`] writes
//! what they import into connector spaces. [`synchronize`] applies the rules: from a connector space into the
//! metaverse, and from there to the other connector spaces. [`export`] sends the pending changes. [`preview`]
//! reports what these steps would do, [`observer`] what a step has done so far. [`store`] stores everything; [`metadirectory`] combines the parts.
//! [`schedule`] knows when a run is due, and [`watch`] reports changes of connected systems.
//! [`sqlite_script`] creates sources for trials.
#![forbid(unsafe_code)]

pub mod agent;
pub mod comparison;
pub mod config;
mod existing;
pub mod export;
pub mod expression;
mod fingerprint;
pub mod hologram;
pub mod index_key;
pub mod metadirectory;
pub mod naming;
pub mod network;
pub mod object;
pub mod observer;
pub mod password;
pub mod postgresql;
pub mod preview;
pub(crate) mod rules;
pub mod schedule;
pub mod schema;
mod secret;
pub mod sqlite_script;
pub mod stage;
pub mod statistics;
pub mod store;
pub mod synchronize;
pub mod trail;
pub mod watch;
mod write_only;

pub use ldap::session::wait::Interrupt;
