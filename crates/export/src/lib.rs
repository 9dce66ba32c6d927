//! A record in the formats of other programs, and its figures pushed to an endpoint while a run goes on.
//!
//! Every number is one of the record or of the result. A sum over time is the sum of the recorded counts, because the
//! formats require it. What is not known is left out; nothing is written as zero for it.
//!
//! Names: a metric of ours such as `disk.read_s` is `plimsoll.disk.read` with the unit `s` in OTLP, and
//! `plimsoll_disk_read_seconds` in OpenMetrics, which is also what Prometheus makes of the OTLP name.
#![forbid(unsafe_code)]

mod buckets;
mod figure;
mod identity;
mod k6;
mod name;
mod openmetrics;
mod otlp;
mod parquet;
mod perfmon;
pub mod push;
mod tables;
mod thrift;

pub use identity::Identity;
pub use k6::k6;
pub use openmetrics::openmetrics;
pub use otlp::{Otlp, Times, request};
pub use perfmon::{Counter, perfmon};
pub use tables::{intervals_parquet, operations_parquet, readings_parquet};
