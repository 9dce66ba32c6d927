//! Tables of results, as spreadsheets have them: a row for each result, or a row for each measure with a column for each result.

use std::collections::BTreeMap;

use model::figure::{Figure, Figures, Quantity};

use super::BYTES_MAX;
use super::columns::{Known, known};
use crate::table::Rows;
use crate::{Content, Fault, Format, Head, Options, Source, lines};

pub(crate) static FORMAT: Format = Format {
    name: "results-csv",
    about: "tables of results: a row for each, with columns such as IOPS, MB/s, latency and queue depth; or measure, unit and a column for each (audit)",
    recognize,
    open,
};

/// The most results of a table.
const RESULTS_MAX: usize = 100_000;

/// Columns with one of these names have text for the reader.
const NOTES: [&str; 5] = ["note", "notes", "source", "comment", "remark"];

/// The first line that has more than a comment.
fn header<'a>(head: &'a Head<'_>) -> Option<&'a str> {
    head.text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The delimiter of a header: that which it has most of.
fn delimiter(header: &str) -> u8 {
    let count = |of: u8| header.bytes().filter(|byte| *byte == of).count();
    [b',', b';', b'\t'].into_iter().max_by_key(|of| (count(*of), *of == b',')).unwrap_or(b',')
}

fn recognize(head: &Head<'_>) -> bool {
    let Some(header) = header(head) else { return false };
    let cells: Vec<&str> =
        header.split(delimiter(header) as char).map(|cell| cell.trim().trim_matches('"')).collect();
    if cells.len() > 200 {
        return false;
    }
    let quantities = cells.iter().filter_map(|cell| known(cell, None)).map(|known| known.quantity);
    let mut quantities: Vec<String> = quantities.map(|quantity| quantity.to_string()).collect();
    quantities.sort();
    quantities.dedup();
    quantities.len() >= 2 || is_tall(&cells).is_some()
}

/// The columns of the measure and of its unit.
fn is_tall(cells: &[&str]) -> Option<(usize, usize)> {
    let at = |names: &[&str]| cells.iter().position(|cell| names.contains(&cell.to_lowercase().as_str()));
    Some((at(&["measure", "metric", "quantity", "counter"])?, at(&["unit", "units"])?))
}

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let text = lines::whole(from, BYTES_MAX)?;
    // Comments become empty lines, so that the numbers of the others stay.
    let is_comment = |line: &&str| line.trim_start().starts_with('#');
    let plain: Vec<&str> = text.lines().map(|line| if is_comment(&line) { "" } else { line }).collect();
    let first = plain.iter().find(|line| !line.trim().is_empty()).copied().unwrap_or("");
    let by = delimiter(first);
    let plain = plain.join("\n");
    let mut rows = Rows::new(plain.as_bytes(), by);
    let mut cells: Vec<(u64, Vec<String>)> = Vec::new();
    while let Some(row) = rows.next()? {
        if cells.len() > RESULTS_MAX {
            return Err(Fault::at(row.line, "the table has more than 100,000 rows", "split it"));
        }
        cells.push((
            row.line,
            row.cells().map(|cell| String::from_utf8_lossy(cell).trim().to_string()).collect(),
        ));
    }
    let Some(((_, names), rows)) = cells.split_first() else {
        return Err(Fault::at(0, "the table has no header", ""));
    };
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = match is_tall(&texts) {
        Some(places) => tall(&texts, places, rows),
        None => wide(&texts, rows),
    };
    match found.iter().any(|result| !result.figures.is_empty()) {
        true => Ok(Content::Figures(found)),
        false => Err(Fault::at(
            0,
            "no cell of the table is a figure",
            "a figure is a number; the unit is in the name of its column",
        )),
    }
}

/// The figure of a cell: its own unit, or that of its column.
fn figure(known: &Known, cell: &str) -> Option<Figure> {
    let has_unit = cell.chars().any(char::is_alphabetic) && Figure::parse(known.quantity, cell).is_ok();
    if has_unit {
        return Figure::parse(known.quantity, cell).ok();
    }
    let text = format!("{cell} {}", known.unit);
    let text = if known.unit.starts_with('/') { format!("{cell}{}", known.unit) } else { text };
    Figure::parse(known.quantity, text.trim()).ok()
}

/// Multiplies the columns of what is in flight: threads and their queue depth.
fn one_in_flight(figures: &mut Vec<Figure>) {
    let parts: Vec<Figure> = figures.iter().filter(|of| of.quantity == Quantity::InFlight).cloned().collect();
    if parts.len() < 2 {
        return;
    }
    figures.retain(|of| of.quantity != Quantity::InFlight);
    let text: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    let span = parts.iter().skip(1).fold(parts[0].span, |span, part| span.times(part.span));
    let value = parts.iter().map(|part| part.value).product();
    figures.push(Figure::within(Quantity::InFlight, value, span).with_text(text.join(" x ")));
}

/// A row for each result.
fn wide(names: &[&str], rows: &[(u64, Vec<String>)]) -> Vec<Figures> {
    let columns: Vec<Option<Known>> = names.iter().map(|name| known(name, None)).collect();
    let mut results = Vec::new();
    for (line, cells) in rows {
        let (mut parts, mut common): (BTreeMap<&str, Vec<Figure>>, Vec<Figure>) = Default::default();
        let mut words: Vec<&str> = Vec::new();
        for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            let Some(name) = names.get(at) else { continue };
            match columns.get(at).and_then(Option::as_ref) {
                Some(known) => {
                    if let Some(figure) = figure(known, cell) {
                        if known.part.is_empty() {
                            common.push(figure);
                        } else {
                            parts.entry(&known.part).or_default().push(figure);
                        }
                    }
                }
                None if NOTES.contains(&name.to_lowercase().as_str()) => {}
                None => words.push(cell.as_str()),
            }
        }
        one_in_flight(&mut common);
        let name = if words.is_empty() { format!("row in line {line}") } else { words.join(", ") };
        // What is in flight and how long it took is about all parts together.
        let shared: Vec<Figure> =
            common.iter().filter(|of| of.quantity == Quantity::BlockSize).cloned().collect();
        let of =
            |name: String, figures: Vec<Figure>| Figures { name, line: *line, figures, ..Figures::default() };
        if parts.len() == 1
            && common
                .iter()
                .all(|of| !matches!(of.quantity, Quantity::Rate | Quantity::Mean | Quantity::Throughput))
        {
            let mut figures = common;
            figures.extend(parts.into_values().flatten());
            results.push(of(name, figures));
            continue;
        }
        if !common.is_empty() {
            results.push(of(name.clone(), common));
        }
        for (part, mut figures) in parts {
            figures.extend(shared.iter().cloned());
            results.push(of(format!("{name}: {part}"), figures));
        }
    }
    results
}

/// A row for each measure, and a column for each result. The first of the results is the base of the others.
fn tall(names: &[&str], (measure, unit): (usize, usize), rows: &[(u64, Vec<String>)]) -> Vec<Figures> {
    let is_text = |name: &str| NOTES.contains(&name.to_lowercase().as_str());
    let values: Vec<usize> =
        (0..names.len()).filter(|at| *at > measure.max(unit) && !is_text(names[*at])).collect();
    let key = |cells: &[String]| -> String {
        cells.iter().take(measure.min(unit)).cloned().collect::<Vec<String>>().join(", ")
    };
    let note = names.iter().position(|name| is_text(name));
    let mut results: Vec<Figures> = Vec::new();
    let mut keys: Vec<(String, usize)> = Vec::new();
    for (line, cells) in rows {
        let (Some(name), Some(unit)) = (cells.get(measure), cells.get(unit)) else { continue };
        // Worked out by whoever made the table, and not stated by the report.
        let is_computed =
            note.and_then(|at| cells.get(at)).is_some_and(|note| note.to_lowercase().starts_with("computed"));
        let Some(known) = known(name, Some(unit)).filter(|_| !is_computed) else { continue };
        // Times of other things than an operation have names of their own.
        let is_other = !known.part.is_empty()
            && !matches!(
                known.quantity,
                Quantity::Rate | Quantity::Elapsed | Quantity::Ceiling | Quantity::Count
            );
        if is_other {
            continue;
        }
        let group = key(cells);
        for at in &values {
            let Some(cell) = cells.get(*at).filter(|cell| !cell.is_empty()) else { continue };
            // `share_percent` compares the column `share` with the first one.
            let (column, quantity) =
                match names[*at].strip_suffix("_percent").filter(|column| names.contains(column)) {
                    None => (names[*at], known.quantity),
                    Some(column) => match known.quantity {
                        Quantity::Rate => (column, Quantity::RatePercent),
                        Quantity::Mean => (column, Quantity::TimePercent),
                        _ => continue,
                    },
                };
            let is_percent = quantity != known.quantity;
            let of = Known {
                quantity,
                unit: if is_percent { String::new() } else { known.unit.clone() },
                part: String::new(),
            };
            let Some(figure) = figure(&of, cell) else { continue };
            let place = values.iter().position(|at| names[*at] == column).unwrap_or(0);
            let at = match keys.iter().position(|(of, own)| *of == group && *own == place) {
                Some(at) => at,
                None => {
                    let title = |column: &str| {
                        if group.is_empty() { column.to_string() } else { format!("{group}: {column}") }
                    };
                    keys.push((group.clone(), place));
                    let base = (place > 0).then(|| title(names[values[0]]));
                    results.push(Figures { name: title(column), line: *line, base, ..Figures::default() });
                    results.len() - 1
                }
            };
            results[at].figures.push(figure);
        }
    }
    general(&mut results);
    results
}

/// Gives what is in a column `general` to all results.
fn general(results: &mut Vec<Figures>) {
    let Some(at) = results.iter().position(|result| result.name == "general") else { return };
    let shared = results.remove(at).figures;
    for result in results.iter_mut() {
        for figure in &shared {
            if result.get(figure.quantity).is_none() {
                result.figures.push(figure.clone());
            }
        }
    }
}
