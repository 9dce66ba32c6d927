//! sqlio
