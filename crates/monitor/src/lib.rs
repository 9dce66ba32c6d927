//! Metrics and health of a long-lived process, over HTTP on the loopback interface, for Prometheus and for checks of
//! a load balancer or a supervisor.
#![forbid(unsafe_code)]

mod metrics;
mod server;

pub use metrics::{Family, Kind, Sample, text_of};
pub use server::{Answer, METRICS_TYPE, Server, TEXT_TYPE};
