//! Captures as the analysis sees them: of real servers, beside tshark, and made of segments in any order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod build;
mod captures;
mod live;
mod protocols;
mod streams;
