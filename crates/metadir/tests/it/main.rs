//! Tests of the metadirectory with real files, real stores and real directories.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and one that is skipped says why"
)]
mod ahead;
mod changed_rules;
mod config;
mod counted;
mod directory;
mod explain;
mod export_order;
mod history;
mod inspection;
mod ldap;
mod life;
mod lifecycle;
mod mute;
mod newer;
mod one_member;
mod place;
mod postgres;
mod private;
mod properties;
mod reading;
mod reference_properties;
mod references;
mod scenario;
mod scim;
mod search;
mod sql;
mod steps;
mod store;
mod store_states;
mod text;
mod tls;
mod trail;
mod undo;
mod unique;
mod upgrade;
mod write_only;
