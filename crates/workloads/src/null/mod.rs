//! The `null` workload.
