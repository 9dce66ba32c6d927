//! The `command` workload.
