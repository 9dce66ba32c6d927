//! The verbs: check, set, warm up, measure, restore. The one measuring loop and its three ports.
//!
//! [`workload`] is what we drive, [`source`] what we read, [`factor`] what we turn; the adapters behind these ports
//! never know each other.

pub mod arrivals;
mod border;
pub mod cgroup;
pub mod check;
pub mod clock;
mod cost;
pub mod drive;
pub mod factor;
pub mod lanes;
pub mod mounts;
pub mod pace;
pub mod page_cache;
pub mod process_stat;
pub mod readiness;
pub mod restore;
pub mod sampler;
pub mod session;
pub mod shell;
pub mod source;
pub mod stream;
pub mod system_call;
mod target;
pub mod threads;
pub mod trial;
mod warm_up;
pub mod workload;
