//! Figures that somebody wrote down from a report: TOML, a table `[[figures]]` for each result.

use model::figure::{Figure, Figures, Quantity};
use toml::de::{DeTable, DeValue};

use super::BYTES_MAX;
use crate::{Content, Fault, Format, Options, Source, lines};

pub(crate) static FORMAT: Format = Format {
    name: "figures",
    about: "figures of a report, written down in TOML: `[[figures]]` with rate, elapsed, count, mean, ... (audit)",
    recognize: |head| head.text.lines().any(|line| line.trim_end() == "[[figures]]"),
    open,
};

/// The most mistakes that are listed.
const SHOWN_MAX: usize = 20;

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    read(&lines::whole(from, BYTES_MAX)?).map(Content::Figures)
}

fn read(text: &str) -> Result<Vec<Figures>, Fault> {
    let line_of = |at: usize| {
        1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() as u64
    };
    let mut faults: Vec<Fault> = Vec::new();
    let document = DeTable::parse(text).map_err(|error| {
        Fault::at(error.span().map_or(0, |span| line_of(span.start)), error.message(), "write TOML")
    })?;
    let mut found = Vec::new();
    for (key, value) in document.get_ref() {
        let line = line_of(key.span().start);
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("figures", DeValue::Array(results)) => {
                for result in results.iter() {
                    match result.get_ref() {
                        DeValue::Table(table) => {
                            found.push(of_result(table, line_of(result.span().start), &line_of, &mut faults))
                        }
                        _ => faults.push(Fault::at(
                            line,
                            "`figures` is not a list of tables",
                            "write [[figures]]",
                        )),
                    }
                }
            }
            ("source" | "title", _) => {}
            (other, _) => faults.push(Fault::at(
                line,
                format!("`{other}` is not known"),
                "the tables are [[figures]]; `source` and `title` are for the reader",
            )),
        }
    }
    faults.sort_by_key(|fault| fault.line);
    if let Some(fault) = faults.first_mut().map(std::mem::take) {
        let rest = &faults[1..];
        let mut more: Vec<String> = rest.iter().take(SHOWN_MAX).map(Fault::to_string).collect();
        if rest.len() > SHOWN_MAX {
            more.push(format!("and {} more", rest.len() - SHOWN_MAX));
        }
        let help = std::iter::once(fault.help)
            .chain(more)
            .filter(|text| !text.is_empty())
            .collect::<Vec<String>>()
            .join("\n  ");
        return Err(Fault { help, ..Fault::at(fault.line, fault.what, "") });
    }
    let names: Vec<&str> = found.iter().map(|result| result.name.as_str()).collect();
    for result in &found {
        if let Some(base) = result.base.as_deref().filter(|base| !names.contains(base)) {
            return Err(Fault::at(
                result.line,
                format!("there is no result with the name `{base}`"),
                format!("the results are {}", names.join(", ")),
            ));
        }
    }
    Ok(found)
}

fn of_result(
    table: &DeTable<'_>,
    line: u64,
    line_of: &dyn Fn(usize) -> u64,
    faults: &mut Vec<Fault>,
) -> Figures {
    let mut result = Figures { line, ..Figures::default() };
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let line = line_of(key.span().start);
        let text = || match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => None,
        };
        match name {
            "name" => result.name = text().unwrap_or_default(),
            "base" => result.base = text(),
            "source" => {}
            // For the reader.
            "settings" => match value.get_ref() {
                DeValue::Table(_) => {}
                _ => faults.push(Fault::at(line, "`settings` is not a table", "write settings = { disk = \"SSD\" }")),
            },
            "histogram" => match histogram(value.get_ref()) {
                Ok(columns) => result.histogram = columns,
                Err(what) => faults.push(Fault::at(line, what, "write histogram = [[\"0 ms\", 4], [\"1 ms\", 96]]: the lower end of each column, and its percent")),
            },
            _ => match Quantity::of_name(name) {
                Some(quantity) => match figures(quantity, value.get_ref()) {
                    Ok(figures) => result.figures.extend(figures),
                    Err(what) => faults.push(Fault::at(line, what, "")),
                },
                None => {
                    let known: Vec<&str> = Quantity::NAMED.iter().map(|(name, _)| *name).collect();
                    faults.push(Fault::at(line, format!("`{name}` is not known"), format!("the figures are {}, p50, p99, ...; others: name, base, histogram, settings, source", known.join(", "))));
                }
            },
        }
    }
    if result.name.is_empty() {
        result.name = format!("result in line {line}");
    }
    result
}

/// A value as it is written.
fn written(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(is) => Some(is.to_string()),
        _ => None,
    }
}

/// The figures of a key: one, or a list where the report states several.
fn figures(quantity: Quantity, value: &DeValue<'_>) -> Result<Vec<Figure>, String> {
    match value {
        DeValue::Array(values) => values.iter().map(|value| figure(quantity, value.get_ref())).collect(),
        value => figure(quantity, value).map(|figure| vec![figure]),
    }
}

fn figure(quantity: Quantity, value: &DeValue<'_>) -> Result<Figure, String> {
    let text = written(value).ok_or_else(|| format!("`{quantity}` is neither a text nor a number"))?;
    Figure::parse(quantity, &text)
}

fn histogram(value: &DeValue<'_>) -> Result<Vec<(f64, Figure)>, String> {
    let DeValue::Array(columns) = value else { return Err("`histogram` is not a list".into()) };
    let mut found = Vec::new();
    for column in columns.iter() {
        let DeValue::Array(pair) = column.get_ref() else {
            return Err("a column of the histogram is not a pair".into());
        };
        let (Some(edge), Some(share), 2) = (pair.first(), pair.get(1), pair.len()) else {
            return Err("a column of the histogram is not a pair".into());
        };
        let edge = figure(Quantity::Min, edge.get_ref())?;
        found.push((edge.value, figure(Quantity::RatePercent, share.get_ref())?));
    }
    Ok(found)
}
