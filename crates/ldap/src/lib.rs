//! LDAP: LDIF files (RFC 2849), distinguished names (RFC 4514) and search filters (RFC 4515). Uses none of our crates, and
//! does no I/O but where a type says so.

mod change;
pub mod dn;
pub mod filter;
pub mod ldif;
mod text;

pub use change::{Control, Modification, ModifyOperation};
pub use dn::{Dn, Rdn};
pub use filter::Filter;
pub use text::TextError;
