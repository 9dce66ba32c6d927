//! What the targets share: the readers of foreign data.

pub mod readers;
