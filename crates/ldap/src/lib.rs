//! LDAP: LDIF files (RFC 2849), distinguished names (RFC 4514), search filters (RFC 4515), LDAPv3 messages
//! (RFC 4511), and a client session. It uses no other crate of this workspace. Only `session`, and reading
//! files that LDIF refers to, perform I/O.
#![forbid(unsafe_code)]

pub mod ber;
mod change;
pub mod controls;
pub mod dn;
pub mod filter;
pub mod ldif;
pub mod message;
mod result;
pub mod session;
pub mod template;
mod text;

pub use change::{Control, Modification, ModifyOperation};
pub use dn::{Dn, Rdn};
pub use filter::Filter;
pub use message::Message;
pub use result::ResultCode;
pub use session::Session;
pub use text::TextError;
