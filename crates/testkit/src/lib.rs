//! Fixture hosts, servers, and helpers for tests. A dev-dependency only.
#![forbid(unsafe_code)]

pub mod certificates;
pub mod dirsrv;
pub mod nats;
pub mod need;
pub mod nginx;
pub mod postgres;
pub mod samba;
pub mod scratch;
pub mod slapd;
pub mod sshd;
pub mod stub_directory;

pub use certificates::{Authority, Bearer, SelfSigned};
pub use dirsrv::Dirsrv;
pub use nats::NatsServer;
pub use need::{Need, lacks, partly_lacks};
pub use nginx::Nginx;
pub use postgres::Postgres;
pub use samba::Samba;
pub use scratch::Scratch;
pub use slapd::Slapd;
pub use sshd::Sshd;
