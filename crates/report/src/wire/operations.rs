//! One operation in a line: for people, as CSV, and as JSON.

use model::wire::WireOperation;

use super::tables::what;
use crate::exchange::csv_text;
use crate::json::escaped_json;
use crate::text::visible_line;

/// A time in milliseconds as microseconds are read from it: `0.291`.
fn ms(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.3}"))
}

/// The head above lines of operations.
pub fn wire_operation_head() -> String {
    format!(
        "{:>12}  {:>6}  {:<9} {:>12} {:>12}  {:<20} {:>7} {:>9}  {}",
        "at, s", "conn.", "kind", "time, ms", "first, ms", "result", "entries", "bytes", "what"
    )
}

/// An operation as a line of text.
pub fn wire_operation_text(operation: &WireOperation) -> String {
    let line = format!(
        "{:>12.6}  {:>6}  {:<9} {:>12} {:>12}  {:<20} {:>7} {:>9}  {}",
        operation.at_s,
        operation.connection,
        operation.kind,
        ms(operation.time_ms),
        ms(operation.first_ms),
        operation.result,
        operation.entries,
        operation.response_bytes,
        what(operation)
    );
    visible_line(line.trim_end()).into_owned()
}

/// The head of the CSV of operations.
pub fn wire_operation_csv_head() -> &'static str {
    "at_s,connection,client,server,protocol,kind,time_ms,first_ms,result,entries,response_bytes,base,filter,name,method,path"
}

/// An operation as a line of CSV.
pub fn wire_operation_csv(operation: &WireOperation) -> String {
    let numbers = format!(
        "{:.6},{},{},{},{},{},{},{}",
        operation.at_s,
        operation.connection,
        operation.client,
        operation.server,
        operation.protocol,
        operation.kind,
        ms(operation.time_ms),
        ms(operation.first_ms)
    );
    let texts = [&operation.base, &operation.filter, &operation.name, &operation.method, &operation.path]
        .map(|text| csv_text(&visible_line(text)));
    format!(
        "{numbers},{},{},{},{}",
        csv_text(&operation.result),
        operation.entries,
        operation.response_bytes,
        texts.join(",")
    )
}

/// An operation as one line of JSON.
pub fn wire_operation_json(operation: &WireOperation) -> String {
    escaped_json(&serde_json::to_string(operation).unwrap_or_default())
}
