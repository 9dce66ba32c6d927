//! Agents that wait for work on a NATS server: for many machines, and where no connection to them can be opened.
//!
//! A coordinator asks on a subject of the fleet who is there, and claims agents one by one. From then on, the frames of
//! [`crate::frame`] go in both directions as numbered [`piece`]s. Both sides have pipes, so that nothing else differs from an agent
//! that is a process. See `docs/formats/machines.md` and ADR 0047.

pub(crate) mod bus;
mod carry;
mod connect;
pub mod piece;
pub mod place;
pub mod talk;
mod waiter;

pub use place::Place;
pub use waiter::{Claimed, Waited, Waiter};
