//! WCAT.
