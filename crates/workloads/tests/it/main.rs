//! Integration tests of workloads.

mod allocation;
