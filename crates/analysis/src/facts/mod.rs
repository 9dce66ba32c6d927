//! The facts of a trial in numbers: the activity of the generator, the services and the devices, pauses,
//! reached limits. Doubts, detectors and the proof use them; this module judges nothing.

pub(crate) mod changes;
pub(crate) mod device;
pub(crate) mod generator;
pub(crate) mod headroom;
pub(crate) mod io_limit;
pub(crate) mod launches;
pub(crate) mod pauses;
pub(crate) mod service;
pub(crate) mod threads;
pub(crate) mod write_cache;

/// Share of the arrivals that must be issued and completed if an open load counts as completed.
pub(crate) const ISSUED_SHARE: f64 = 0.99;

/// Share of failed operations above which a trial says nothing about limits.
pub(crate) const FAILED_SHARE: f64 = 0.01;
