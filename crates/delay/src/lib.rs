//! A TCP proxy between a system and one of its dependencies. It adds latency, jitter, bandwidth caps, stalls, losses,
//! resets and refusals to the traffic of each direction, and reports what it really added and what it saw.
//!
//! - [`Shaper`] decides when each byte is due: a pure function of [`settings`], arrival times and a seed.
//! - An event loop on one thread moves the bytes (epoll, edge-triggered, with a timer of nanoseconds).
//! - [`Proxy`] starts it, [`Handle`] changes its settings and reads its [`Snapshot`] while it runs.
//! - [`control`] does the same over a Unix domain socket, for other processes.
//!
//! The proxy works on the bytes of TCP connections, not on packets: it cannot drop, duplicate or reorder packets. A loss
//! is the stall that it causes in TCP.
#![forbid(unsafe_code)]

mod buffer;
mod connection;
pub mod control;
mod distribution;
mod event_loop;
mod exchange;
mod log;
mod proxy;
mod recording;
mod route;
pub mod settings;
mod shaper;
mod shared;
mod snapshot;
mod sockets;
mod statistics;

pub use distribution::Distribution;
pub use exchange::SeenExchange;
pub use proxy::{Handle, Options, Proxy, RouteOptions, StartError};
pub use recording::Recording;
pub use route::BUFFER_BYTES_MAX;
pub use settings::{Change, Direction, PathSettings, RouteSettings, Scheduled};
pub use shaper::{End, Piece, Shaper};
pub use snapshot::{ExchangeSnapshot, LogSnapshot, PathSnapshot, RouteSnapshot, Snapshot};
pub use statistics::{ConnectionCounts, TimesSummary};
