//! Elements of the page.

use crate::chart::{SeriesStyle, escape, swatch};
use crate::table::{Cell, Piece, Table};
use crate::text::capitalized;

/// The source of the numbers of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The result document: each is in `result.json`.
    Result,
    /// The record of a trial: each is in its files.
    Record,
}

/// A number to six digits: `result.json` and the files of the record have the rest.
pub(crate) fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn cell(cell: &Cell) -> String {
    cell.0
        .iter()
        .map(|piece| match piece {
            Piece::Words(text) => escape(text),
            Piece::Number { value, text } => {
                format!("<data value={}>{}</data>", six_digits(*value), escape(text.trim_end()))
            }
        })
        .collect()
}

/// A table. The first column heads its rows.
pub(crate) fn table(table: &Table, origin: Origin) -> String {
    let class = if origin == Origin::Record { r#" class="record""# } else { "" };
    let mut out = format!(r#"<div class="scroll"><table{class}>"#);
    if !table.title.is_empty() {
        out.push_str(&format!("<caption>{}</caption>", escape(&capitalized(&table.title))));
    }
    let class = |right: bool| if right { "" } else { " class=w" };
    out.push_str("<thead><tr>");
    for column in &table.columns {
        let tag = if column.head.is_empty() { "td" } else { "th" };
        let scope = if tag == "th" { " scope=col" } else { "" };
        out.push_str(&format!("<{tag}{scope}{}>{}</{tag}>", class(column.right), escape(&column.head)));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, (content, column)) in row.iter().zip(&table.columns).enumerate() {
            let content = cell(content);
            match at == 0 && !column.right && !content.is_empty() {
                true => out.push_str(&format!("<th scope=row>{content}</th>")),
                false => out.push_str(&format!("<td{}>{content}</td>", class(column.right))),
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    if !table.note.is_empty() {
        out.push_str(&format!(r#"<p class="note">{}</p>"#, sentence(&table.note)));
    }
    out
}

/// A chart with its message, its question, its legend and its numbers.
pub(crate) struct Figure<'a> {
    /// The message, as a sentence.
    pub(crate) title: &'a str,
    /// The question that the chart answers.
    pub(crate) question: &'a str,
    /// One or more `<svg>` elements.
    pub(crate) charts: &'a str,
    /// Names and styles of the series; empty if there is only one.
    pub(crate) legend: &'a [(String, SeriesStyle)],
    /// Its numbers, as markup.
    pub(crate) numbers: String,
    /// A line below; may be empty.
    pub(crate) note: &'a str,
}

/// Draws a figure.
pub(crate) fn figure(figure: &Figure<'_>) -> String {
    let mut out = format!("<figure><figcaption><strong>{}</strong>", sentence(figure.title));
    if !figure.question.is_empty() {
        out.push_str(&format!(" <span>{}</span>", sentence(figure.question)));
    }
    out.push_str("</figcaption>");
    if !figure.legend.is_empty() {
        out.push_str(r#"<div class="legend" role="group" aria-label="series">"#);
        // The script makes the buttons work, in the order of the series.
        for (name, look) in figure.legend {
            out.push_str(&format!("<button>{}{}</button>", swatch(*look), escape(name)));
        }
        out.push_str("</div>");
    }
    out.push_str(&format!(r#"<div class="chart">{}</div>"#, figure.charts));
    if !figure.note.is_empty() {
        out.push_str(&format!(r#"<p class="note">{}</p>"#, sentence(figure.note)));
    }
    if !figure.numbers.is_empty() {
        out.push_str(&format!("<details><summary>Numbers</summary>{}</details>", figure.numbers));
    }
    out.push_str("</figure>");
    out
}

/// A sentence: what is in backticks is code, as on a terminal.
pub(crate) fn sentence(text: &str) -> String {
    let mut out = String::new();
    let parts: Vec<&str> = text.split('`').collect();
    for (at, part) in parts.iter().enumerate() {
        match (at % 2 == 1, at + 1 < parts.len()) {
            (true, true) => out.push_str(&format!("<code>{}</code>", escape(part))),
            // Without a second one.
            (true, false) => out.push_str(&escape(&format!("`{part}"))),
            (false, _) => out.push_str(&escape(part)),
        }
    }
    out
}

/// A section with its heading; empty without content.
pub(crate) fn section(id: &str, title: &str, content: &str) -> String {
    match content.is_empty() {
        true => String::new(),
        false => format!(r#"<section id="{id}"><h2>{}</h2>{content}</section>"#, escape(title)),
    }
}
