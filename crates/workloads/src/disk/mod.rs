//! The `disk` workload.
