//! Tests of scenarios.
