//! Tests of the service over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod common;
mod conformance;
mod database;
mod framing;
mod limits;
mod token;
mod waiting;
mod web;
