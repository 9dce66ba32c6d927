//! LDAP: LDIF files (RFC 2849), distinguished names (RFC 4514), search filters (RFC 4515), and LDAPv3 messages (RFC 4511).
//! Uses none of our crates, and does no I/O but where a type says so.

pub mod ber;
mod change;
pub mod controls;
pub mod dn;
pub mod filter;
pub mod ldif;
pub mod message;
mod result;
mod text;

pub use change::{Control, Modification, ModifyOperation};
pub use dn::{Dn, Rdn};
pub use filter::Filter;
pub use message::Message;
pub use result::ResultCode;
pub use text::TextError;
