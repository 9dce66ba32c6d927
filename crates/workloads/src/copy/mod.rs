//! The `copy` workload.
