//! What a trial shows, in numbers: what the generator, the services and the devices did, pauses, limits reached. Doubts,
//! detectors and the proof judge by these; nothing here judges.

pub(crate) mod device;
pub(crate) mod generator;
pub(crate) mod headroom;
pub(crate) mod io_limit;
pub(crate) mod launches;
pub(crate) mod pauses;
pub(crate) mod service;
pub(crate) mod threads;

/// Share of the arrivals that must be issued, and done, for an open load to count as carried.
pub(crate) const ISSUED_SHARE: f64 = 0.99;

/// Share of failed operations beyond which a trial says nothing about limits.
pub(crate) const FAILED_SHARE: f64 = 0.01;
