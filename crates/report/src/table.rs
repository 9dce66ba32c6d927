//! Tables as data: what the terminal, the page and Markdown draw alike, so that they cannot disagree.

use model::LatencySummary;

use crate::text::{Scale, bounded, name_parts, visible_line, wrap_names};

/// A piece of a cell: words, or a number of the result with the text it is shown as.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Words.
    Words(String),
    /// A number exactly as in the result document, and how it is shown.
    Number {
        /// As in the document.
        value: f64,
        /// As shown.
        text: String,
    },
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell(pub Vec<Piece>);

impl Cell {
    /// Words.
    pub fn words(text: impl Into<String>) -> Self {
        Cell(vec![Piece::Words(text.into())])
    }

    /// A number on a column's scale.
    pub fn number(value: f64, scale: &Scale) -> Self {
        Cell::shown(value, scale.number(value))
    }

    /// The cell, marked as a lower bound if it is one.
    pub fn bounded(self, is_bound: bool) -> Self {
        match (is_bound, self.0.as_slice()) {
            (true, [Piece::Number { value, text }]) => Cell::shown(*value, bounded(true, text.clone())),
            _ => self,
        }
    }

    /// A statistic of times on a column's scale, with its bound; `part` as in [`LatencySummary::PARTS`].
    pub fn statistic(summary: &LatencySummary, part: &str, scale: &Scale) -> Self {
        let (value, is_bound) = summary.bounded(part).unwrap_or((f64::NAN, false));
        Cell::number(value, scale).bounded(is_bound)
    }

    /// A number shown as `text`. One that is not finite is words: there is nothing to hold it against.
    pub fn shown(value: f64, text: impl Into<String>) -> Self {
        match value.is_finite() {
            true => Cell(vec![Piece::Number { value, text: text.into() }]),
            false => Cell::words("-"),
        }
    }

    /// This cell followed by another one.
    pub fn then(mut self, other: Cell) -> Self {
        self.0.extend(other.0);
        self
    }

    /// As a line of a terminal.
    fn line(&self) -> String {
        visible_line(&self.text()).into_owned()
    }

    /// As plain text.
    pub fn text(&self) -> String {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Words(text) | Piece::Number { text, .. } => text.as_str(),
            })
            .collect()
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its head.
    pub head: String,
    /// Numbers stand right, words left.
    pub right: bool,
    /// Left out of a terminal that is too narrow for it.
    pub optional: bool,
}

/// The longest word that a column makes room for when a table is too wide; longer ones are broken.
const WORD_MAX: usize = 24;

/// The narrowest column in which words are broken.
const BROKEN_MIN: usize = 8;

fn longest_word(text: &str) -> usize {
    text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0)
}

fn longest_part(text: &str) -> usize {
    text.split(' ').flat_map(name_parts).map(|part| part.chars().count()).max().unwrap_or(0)
}

/// Rows under heads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows, for the page's caption and the terminal's line above it; may be empty.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
    /// A line below it; may be empty.
    pub note: String,
}

impl Table {
    /// An empty table. A head that begins with `>` is that of a column of numbers, with `?` before that of one that may be
    /// left out.
    pub fn new(title: impl Into<String>, heads: &[&str]) -> Self {
        let columns = heads.iter().map(|head| {
            let name = head.trim_start_matches('?');
            Column {
                head: name.trim_start_matches('>').to_string(),
                right: name.starts_with('>'),
                optional: head.starts_with('?'),
            }
        });
        Table { title: title.into(), columns: columns.collect(), ..Table::default() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Every number in it.
    pub fn numbers(&self) -> impl Iterator<Item = (f64, &str)> {
        self.rows.iter().flatten().flat_map(|cell| &cell.0).filter_map(|piece| match piece {
            Piece::Number { value, text } => Some((*value, text.as_str())),
            Piece::Words(_) => None,
        })
    }

    /// As lines of text at most `width` wide: the last column of words gives way first, by wrapping.
    pub fn lines(&self, width: usize) -> Vec<String> {
        let texts: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::line).collect()).collect();
        let heads: Vec<String> =
            self.columns.iter().map(|column| visible_line(&column.head).into_owned()).collect();
        let mut widths: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
        for row in &texts {
            for (at, text) in row.iter().enumerate().take(widths.len()) {
                widths[at] = widths[at].max(text.chars().count());
            }
        }
        let total = |widths: &[usize]| widths.iter().map(|width| width + 2).sum::<usize>().saturating_sub(1);
        // The widest column gives way first.
        let reduce = |widths: &mut [usize], least: &[usize], right: bool| {
            while total(widths) > width {
                let wide = (0..widths.len())
                    .filter(|at| self.columns[*at].right == right && widths[*at] > least[*at]);
                match wide.max_by_key(|at| widths[*at]) {
                    Some(at) => widths[at] -= 1,
                    None => break,
                }
            }
        };
        let column = |at: usize| texts.iter().filter_map(move |row| row.get(at));
        let places = 0..heads.len();
        let numbers: Vec<usize> = places
            .clone()
            .map(|at| {
                let cells = column(at).map(|text| text.chars().count()).max().unwrap_or(0);
                cells.max(longest_word(&heads[at]))
            })
            .collect();
        let words = |longest: fn(&str) -> usize| -> Vec<usize> {
            let all = |at: usize| column(at).chain([&heads[at]]);
            places
                .clone()
                .map(|at| all(at).map(|text| longest(text)).max().unwrap_or(0).min(WORD_MAX))
                .collect()
        };
        // Heads of numbers first, then words, down to the longest word.
        reduce(&mut widths, &numbers, true);
        reduce(&mut widths, &words(longest_word), false);
        let is_too_wide = total(&widths) > width;
        if let Some(at) = self.columns.iter().rposition(|column| column.optional).filter(|_| is_too_wide) {
            return self.with_columns(|column| column != at).lines(width);
        }
        // Names are broken, between their parts and then anywhere.
        reduce(&mut widths, &words(longest_part), false);
        reduce(&mut widths, &vec![BROKEN_MIN; heads.len()], false);
        // Where nothing helps, the columns that do not fit follow below, with the first one repeated.
        let fitting = (1..=widths.len()).rev().find(|count| total(&widths[..*count]) <= width).unwrap_or(1);
        if let 2.. = fitting
            && fitting < widths.len()
        {
            let mut lines = self.with_columns(|column| column < fitting).lines(width);
            lines.push(String::new());
            lines.extend(self.with_columns(|column| column == 0 || column >= fitting).lines(width));
            return lines;
        }
        let has_heads = heads.iter().any(|head| !head.is_empty());
        let mut lines = Vec::new();
        if has_heads {
            lines.extend(self.row_lines(&heads, &widths));
        }
        for row in &texts {
            lines.extend(self.row_lines(row, &widths));
        }
        lines
    }

    /// The same with only some of its columns.
    fn with_columns(&self, keeps: impl Fn(usize) -> bool) -> Table {
        fn kept<T: Clone>(all: &[T], keeps: &impl Fn(usize) -> bool) -> Vec<T> {
            all.iter().enumerate().filter(|(at, _)| keeps(*at)).map(|(_, one)| one.clone()).collect()
        }
        Table {
            columns: kept(&self.columns, &keeps),
            rows: self.rows.iter().map(|row| kept(row, &keeps)).collect(),
            ..self.clone()
        }
    }

    fn row_lines(&self, texts: &[String], widths: &[usize]) -> Vec<String> {
        let wrapped: Vec<Vec<String>> = texts
            .iter()
            .zip(widths)
            .map(|(text, width)| match text.chars().count() > *width {
                true => wrap_names(text, *width),
                false => vec![text.clone()],
            })
            .collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        (0..height)
            .map(|line| {
                let mut out = String::from(" ");
                for (at, column) in self.columns.iter().enumerate() {
                    let text = wrapped.get(at).and_then(|lines| lines.get(line)).map_or("", String::as_str);
                    let width = widths[at];
                    match column.right {
                        true => out.push_str(&format!("{text:>width$}  ")),
                        false => out.push_str(&format!("{text:<width$}  ")),
                    }
                }
                out.trim_end().to_string()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_words_give_way() {
        let mut table = Table::new("", &["what", ">n"]);
        table.row(vec![Cell::words("a long sentence that has to wrap"), Cell::shown(1.0, "1.00")]);
        table.row(vec![Cell::words("b"), Cell::shown(f64::NAN, "no")]);
        assert_eq!(
            table.lines(25),
            [
                " what                   n",
                " a long sentence     1.00",
                " that has to wrap",
                " b                      -"
            ]
            .map(String::from)
        );
        // Columns that may be left out go first, then the rest follows below.
        let mut table = Table::new("", &["name", ">alpha", "?>beta", ">gamma"]);
        table.row(["one", "1111111", "2222222", "3333333"].map(Cell::words).to_vec());
        assert_eq!(table.lines(28), [" name    alpha    gamma", " one   1111111  3333333"].map(String::from));
        assert_eq!(
            table.lines(16),
            [" name    alpha", " one   1111111", "", " name    gamma", " one   3333333"].map(String::from)
        );
        // Names are broken, and no part of them is lost.
        let mut table = Table::new("", &["enumerate.response.p95", ">n"]);
        table.row(["network.delay.store", "1111"].map(Cell::words).to_vec());
        assert_eq!(
            table.lines(20),
            [" enumerate.        n", " response.p95", " network.       1111", " delay.store"]
                .map(String::from)
        );
        assert_eq!(
            table.lines(17),
            [" enumerate.     n", " response.", " p95", " network.    1111", " delay.", " store"]
                .map(String::from)
        );
        let mut table = Table::new("", &["", ">n"]);
        table.row(["synchronization", "1111"].map(Cell::words).to_vec());
        assert_eq!(
            table.lines(19),
            ["                  n", " synchroniza-  1111", " tion"].map(String::from)
        );
        let mut table = Table::new("", &["what", ">n"]);
        table.row(vec![Cell::words("b"), Cell::shown(1.0, "1.00")]);
        assert_eq!(table.numbers().collect::<Vec<_>>(), [(1.0, "1.00")]);
    }
}
