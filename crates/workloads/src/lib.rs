//! The workloads. Each is a folder and one line in [`KINDS`]; none depends on another.

pub mod command;
pub mod copy;
pub mod disk;
mod group;
pub mod http;
pub mod ldap;
mod network;
pub mod null;
mod own_folder;
pub mod sync;
mod template;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use engine::workload::WorkloadKind;

pub use group::is_program;

/// Every kind of workload, in the order the handbook lists them.
pub static KINDS: &[&dyn WorkloadKind] = &[
    &disk::KIND,
    &http::HTTP,
    &ldap::LDAP,
    &ldap::LDAP_IMPORT,
    &copy::COPY,
    &command::COMMAND,
    &sync::SYNC,
    &null::NULL,
];
