//! The verbs: check, set, warm up, measure, restore. The one measuring loop and its three ports.
//!
//! [`workload`] is what we drive, [`source`] what we read, [`factor`] what we turn; the adapters behind these ports
//! never know each other.

pub mod clock;
pub mod factor;
pub mod source;
pub mod workload;
