//! The forms of a result: terminal page, HTML file, JSON, CSV, Markdown and JUnit.
//!
//! Pure functions. Nothing here reads a file, a clock or the environment, so the same result gives the same
//! bytes; `clippy.toml` in this folder bans the calls that could change that.
//!
//! Findings and the verdict come as data: [`sentences`] is the one place where they become text.
//!
//! Terminal, page and Markdown draw the same [`table::Table`]s, whose numbers are taken from the result
//! document and formatted by [`text`]; a test compares each of them with the JSON.
//!
//! Texts of a record are untrusted: each form shows them only as text, see
//! [`text::visible`].
#![forbid(unsafe_code)]

mod audit;
pub mod chart;
mod copy_time;
mod costs;
mod exchange;
mod explanation;
mod html;
mod import_time;
mod json;
mod labels;
mod launches;
mod mix_price;
mod operation_io;
mod patterns;
#[cfg(test)]
mod recorded;
pub mod sentences;
mod sizing;
#[cfg(test)]
mod snapshot_tests;
pub mod table;
mod tables;
mod terminal;
pub mod text;
mod wire;

pub use audit::{audit, audit_json};
pub use copy_time::{copy_time, copy_time_json};
pub use exchange::{csv, csv_text, gate_summary, junit, markdown, steps_csv};
pub use explanation::explanation;
pub use html::html;
pub use import_time::{import_time, import_time_json};
pub use json::{escaped_json, json, verdict_json};
pub use launches::{hyperfine_json, hyperfine_markdown};
pub use mix_price::{mix_price, mix_price_json};
pub use operation_io::{
    TraceDetail, findings as trace_findings, io_price, price_answer, trace_csv, trace_csv_heads, trace_heads,
    trace_line, trace_summary,
};
pub use sizing::sizing;
pub use terminal::{Terminal, terminal};
pub use wire::{
    wire, wire_html, wire_json, wire_missed, wire_operation_csv, wire_operation_csv_head,
    wire_operation_head, wire_operation_json, wire_operation_text,
};
