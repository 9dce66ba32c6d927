//! LDAP: LDIF files (RFC 2849). Uses none of our crates, and does no I/O but where a type says so.

mod change;
pub mod ldif;

pub use change::{Control, Modification, ModifyOperation};
