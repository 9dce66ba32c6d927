//! Load and counters of other machines. An agent is this program on another machine: it takes part in trials, and reads the
//! counters of its host. A coordinator reaches agents by `ssh`, by a command or on a NATS server.
//!
//! [`fleet`] has the state of all machines as a function of what arrives and of the time; [`hub`] connects it with the agents.

#![forbid(unsafe_code)]

pub mod address;
pub mod agent;
pub mod clock;
pub mod fleet;
pub mod frame;
mod host_factors;
pub mod hub;
pub mod link;
pub mod message;
pub mod nats;
pub mod program;
mod received;
mod remote_factor;
