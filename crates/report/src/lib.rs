//! Findings to terminal, HTML, CSV and JSON. Pure.
