//! The engine: checks, sets, warms up, measures, restores. It has a single measuring loop and four ports.
//!
//! [`workload`] drives the load, [`source`] reads counters, [`factor`] changes settings, [`machines`] are other hosts that
//! take part. The adapters behind these ports are independent of each other.

pub mod allowed;
pub mod answer_wait;
pub mod arrivals;
mod border;
pub mod cgroup;
pub mod check;
pub mod clock;
mod cost;
pub mod crew;
mod dependencies;
pub mod devices;
pub mod documents;
mod drain;
pub mod drive;
mod ended;
pub mod factor;
mod factor_changes;
pub mod flight;
pub mod in_use;
pub mod inputs;
pub mod lanes;
pub mod loop_device;
pub mod machines;
pub mod mounts;
pub mod pace;
pub mod page_cache;
pub mod part;
pub mod process_stat;
pub mod readiness;
pub mod restore;
pub mod sampler;
pub mod session;
pub mod shell;
pub mod signature;
pub mod single;
pub mod source;
pub mod standard_output;
pub mod stream;
pub mod system_call;
pub mod target;
pub mod threads;
pub mod trial;
mod warm_up;
pub mod workload;
