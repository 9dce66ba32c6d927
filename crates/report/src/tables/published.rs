//! Measured figures beside published ones.

use model::result::{FigureRow, PublishedFigure, PublishedRow};
use model::run::WorkloadTraits;
use model::{ResultDocument, quantity};

use super::{SIDE_BY_SIDE, interval_of, metric};
use crate::labels;
use crate::table::{Cell, Table};
use crate::text::{Quantity, RatioStyle, rate_word};

/// What was measured beside what others have published: a table for each operation.
pub(crate) fn published(document: &ResultDocument) -> Vec<Table> {
    let mut operations: Vec<&str> = Vec::new();
    for row in &document.published {
        if !operations.contains(&row.operation.as_str()) {
            operations.push(&row.operation);
        }
    }
    let mut tables: Vec<Table> =
        operations.into_iter().map(|operation| published_of(document, operation)).collect();
    // Once, below them all.
    if let Some(last) = tables.last_mut() {
        last.note = published_in(
            document.published.iter().flat_map(|row| &row.published).map(|figure| figure.source.as_str()),
        );
    }
    tables
}

fn published_of(document: &ResultDocument, operation: &str) -> Table {
    let rows: Vec<&PublishedRow> =
        document.published.iter().filter(|row| row.operation == operation).collect();
    let mut figures: Vec<&PublishedFigure> = Vec::new();
    for figure in rows.iter().flat_map(|row| &row.published) {
        if figures.iter().all(|known| known.name != figure.name) {
            figures.push(figure);
        }
    }
    let word = rate_word(&document.traits);
    let several = rows.iter().any(|row| !row.series.is_empty());
    let mut heads = vec![format!(">{}", rows.first().map_or("", |row| labels::setting(&row.factor)))];
    if several {
        heads.push("configuration".into());
    }
    heads.push(format!(">{word}"));
    heads.extend(figures.iter().map(|figure| format!(">{}", figure.name)));
    heads.push(">against the largest".into());
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(format!("{operation} beside published figures"), &heads);
    let whole = Quantity::Rate(word).scale([1.0]);
    for row in rows {
        let mut cells = vec![Cell::words(labels::level_text(&row.level))];
        if several {
            cells.push(Cell::words(labels::series_text(&row.series)));
        }
        cells.push(Cell::number(row.measured_per_s, &whole));
        for figure in &figures {
            let published = row.published.iter().find(|published| published.name == figure.name);
            cells.push(published.map_or_else(Cell::default, |of| Cell::number(of.rate_per_s, &whole)));
        }
        cells.push(Cell::shown(row.times_largest, format!("x {}", whole.number(row.times_largest))));
        table.row(cells);
    }
    table
}

/// The note of a table with published figures: each of their sources once.
pub(super) fn published_in<'a>(sources: impl Iterator<Item = &'a str>) -> String {
    let mut listed: Vec<&str> = Vec::new();
    for source in sources {
        if !listed.contains(&source) {
            listed.push(source);
        }
    }
    format!("Published in: {}.", listed.join("; "))
}

/// Requested figures, and figures that were published for no factor: a row for each figure, or, of many configurations, a row for
/// each of these.
pub(crate) fn beside(document: &ResultDocument) -> Option<Table> {
    let first = document.beside.first()?;
    let is_published = document.beside.iter().any(|row| !row.published.is_empty());
    let mut columns: Vec<String> = Vec::new();
    let across = document.configurations.len() <= SIDE_BY_SIDE + 2;
    for figure in &first.measured {
        let at = document.configurations.iter().position(|each| each.treatment.label == figure.name);
        columns.push(match at {
            Some(at) if across => labels::head(document, at),
            Some(at) => labels::configuration(document, at),
            None => figure.name.clone(),
        });
    }
    let published = document.beside.iter().map(|row| &row.published).max_by_key(|row| row.len());
    let published: Vec<&str> = published.into_iter().flatten().map(|figure| figure.name.as_str()).collect();
    columns.extend(published.iter().map(ToString::to_string));
    let cell = |row: &FigureRow, at: usize| {
        let figure = match at.checked_sub(row.measured.len()) {
            None => row.measured.get(at),
            Some(at) => row.published.iter().find(|figure| Some(&figure.name.as_str()) == published.get(at)),
        };
        let value = figure.and_then(|figure| figure.value);
        value.map_or_else(|| Cell::words("-"), |value| Cell::shown(value, Quantity::of(row.unit).show(value)))
    };
    let times = |row: &FigureRow| {
        row.times.map_or_else(Cell::default, |times| {
            Cell::shown(times, format!("x {}", quantity::three_figures(times)))
        })
    };
    let title = if is_published { "figures beside published ones" } else { "requested figures" };
    if is_published {
        columns.push("at least".into());
    }
    let cells = |row: &FigureRow| -> Vec<Cell> {
        let last = columns.len() - usize::from(is_published);
        (0..columns.len()).map(|at| if at < last { cell(row, at) } else { times(row) }).collect()
    };
    let names = document.beside.iter().map(|row| figure_name(row, &document.traits));
    let body: Vec<Vec<Cell>> = document.beside.iter().map(cells).collect();
    let (corner, heads, sides): (_, Vec<String>, Vec<String>) = match across {
        true => ("figure", columns.clone(), names.collect()),
        false => ("configuration", names.collect(), columns.clone()),
    };
    let heads: Vec<String> =
        std::iter::once(corner.to_string()).chain(heads.iter().map(|head| format!(">{head}"))).collect();
    let mut table = Table::new(title, &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, side) in sides.into_iter().enumerate() {
        let row: Vec<Cell> = match across {
            true => body[at].clone(),
            false => body.iter().map(|row| row[at].clone()).collect(),
        };
        table.row(std::iter::once(Cell::words(side)).chain(row).collect());
    }
    if is_published {
        table.note = published_in(
            document.beside.iter().flat_map(|row| &row.published).map(|figure| figure.source.as_str()),
        );
    }
    Some(table)
}

/// Changes against the baseline beside published ones; none if none were published.
pub(crate) fn published_changes(document: &ResultDocument) -> Option<Table> {
    let rows = &document.published_changes;
    let style = RatioStyle::for_ratios(rows.iter().flat_map(|row| [row.ratio, row.published]));
    let mut table = Table::new(
        "changes beside published ones",
        &["configuration", "figure", ">change", ">95 % interval", "published as", ">published"],
    );
    for row in rows {
        let limits = row.low.zip(row.high);
        let figure = metric(&row.metric, &document.traits).name;
        table.row(vec![
            Cell::words(labels::labelled(document, &row.configuration)),
            Cell::words(figure),
            Cell::shown(row.ratio, style.show(row.ratio, limits)),
            interval_of(row.low, row.high, style),
            Cell::words(row.name.clone()),
            Cell::shown(row.published, style.show(row.published, None)),
        ]);
    }
    table.note = published_in(rows.iter().map(|row| row.source.as_str()));
    (!rows.is_empty()).then_some(table)
}

/// Response times beside published ones; none if none were published.
pub(crate) fn published_times(document: &ResultDocument) -> Option<Table> {
    let rows = &document.published_times;
    let heads = ["factor", ">level", "response time", ">published", ">measured", "published as"];
    let mut table = Table::new("response times beside published ones", &heads);
    for row in rows {
        let time = |ms: f64| Quantity::Milliseconds.show(ms);
        let [low, high] = row.published_ms;
        let published = if low == high { time(low) } else { format!("{} to {}", time(low), time(high)) };
        table.row(vec![
            Cell::words(labels::setting(&row.factor)),
            Cell::words(labels::level_text(&row.level)),
            Cell::words(row.metric.strip_prefix("response.").unwrap_or(&row.metric).to_string()),
            Cell::shown(high, published),
            row.measured_ms.map_or_else(|| Cell::words("-"), |ms| Cell::shown(ms, time(ms))),
            Cell::words(row.name.clone()),
        ]);
    }
    table.note = published_in(rows.iter().map(|row| row.source.as_str()));
    (!rows.is_empty()).then_some(table)
}

/// What a figure is called: `disk flush vda`, `metadir busy`, `export, objects/s`. Its unit stands with the values.
fn figure_name(row: &FigureRow, traits: &WorkloadTraits) -> String {
    if let Some(operation) = row.metric.strip_suffix(".rate_per_s") {
        return format!("{operation}, {}", rate_word(traits));
    }
    if let Some(operation) = row.metric.strip_suffix(".busy_s") {
        return format!("{operation}, time at work");
    }
    labels::counter(&row.metric, &row.instance)
}
