//! Captured packets to operations with their response times: LDAP and HTTP/1 over TCP, from pcap, pcapng and snoop.
//!
//! A packet passes [`Capture`], the headers of its link, IP and TCP, the order of its direction, and the messages of its
//! protocol. What follows from it are [`Operation`]s. All tables are bounded, so the memory does not depend on the size
//! of the capture; what was missed or forgotten is counted.
//!
//! Credentials are not read. Paths of HTTP have no query, and filters no values of password attributes.
#![forbid(unsafe_code)]

mod analysis;
mod capture;
mod condition;
mod connection;
mod connections;
mod direction;
mod flow;
mod http;
mod ldap;
mod operation;
mod packet;
mod ports;
mod secret;
mod shared;
mod times;
mod totals;

pub use analysis::{Analysis, Settings, Window};
pub use capture::{Capture, CaptureError, Format, Packet};
pub use condition::{Condition, Mistake, fields};
pub use operation::{Kind, Operation, Outcome, Protocol};
pub use packet::Endpoint;
pub use ports::Ports;
