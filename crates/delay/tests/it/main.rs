//! The proxy between real sockets of the loopback interface.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod control;
mod exchanges;
mod impairments;
mod net;
mod transparency;
mod unreachable;
