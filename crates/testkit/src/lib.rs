//! Fixture hosts and helpers for tests. A dev-dependency only.
