//! The run directory: written as it happens, read back.
