//! What people see: a result as a terminal page, an HTML file, JSON, CSV, Markdown and JUnit.
//!
//! Pure functions. Nothing here reads a file, a clock or the environment, so the same result gives the same
//! bytes; `clippy.toml` in this folder bans the calls that could change that.
//!
//! Findings and the verdict come as data: [`sentences`] is the one place where they become text.
//!
//! Terminal, page and Markdown draw the same [`table::Table`]s, whose numbers are taken from the result
//! document and written by [`text`]; a test holds every one of them against the JSON.
//!
//! Texts of a record are those of whoever made it: each form here shows them as text and nothing else, see
//! [`text::visible`].
#![forbid(unsafe_code)]

pub mod chart;
mod costs;
mod exchange;
mod explanation;
mod html;
mod json;
mod labels;
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

pub use exchange::{csv, junit, markdown};
pub use explanation::explanation;
pub use html::html;
pub use json::{escaped_json, json, verdict_json};
pub use sizing::sizing;
pub use terminal::{Terminal, terminal};
