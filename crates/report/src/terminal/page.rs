//! Lines of text being put together.

use super::Terminal;
use crate::table::Table;
use crate::text::{visible, visible_line};

/// Lines of a text of others: visible before its length is counted.
fn wrap(text: &str, width: usize) -> Vec<String> {
    crate::text::wrap(&visible(text), width)
}

/// Width of the words before the sentences at the end: `RULED OUT `.
const LABEL: usize = 10;

/// A page of a terminal.
pub(crate) struct Page {
    out: String,
    width: usize,
    color: bool,
}

impl Page {
    /// An empty page.
    pub(crate) fn new(options: Terminal) -> Self {
        Page { out: String::new(), width: usize::from(options.width.clamp(60, 120)), color: options.color }
    }

    /// Columns.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    fn painted(&self, text: &str, code: &str) -> String {
        match self.color && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_string(),
        }
    }

    /// A line as it is.
    pub(crate) fn line(&mut self, text: &str) {
        // Names come from files and hosts: no escape sequence of theirs reaches the terminal.
        self.out.push_str(visible_line(text).trim_end());
        self.out.push('\n');
    }

    fn colored_line(&mut self, before: &str, text: &str, code: &str, after: &str) {
        let line = format!("{before}{}{}", self.painted(&visible_line(text), code), visible_line(after));
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// An empty line, never two.
    pub(crate) fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// The first lines: a name, and facts apart by points, each on one line where it fits.
    pub(crate) fn heading(&mut self, name: &str, facts: &[String]) {
        if !name.is_empty() {
            self.colored_line(" ", name, "1", "");
        }
        let width = self.width - 2;
        let mut lines: Vec<String> = Vec::new();
        for fact in facts {
            let fact = visible(fact);
            match lines.last_mut() {
                Some(line) if line.chars().count() + 3 + fact.chars().count() <= width => {
                    line.push_str(&format!(" · {fact}"));
                }
                _ => lines.push(fact.into_owned()),
            }
        }
        for line in lines.iter().flat_map(|line| wrap(line, width)) {
            self.colored_line(" ", &line, "2", "");
        }
        self.gap();
    }

    /// The line above a table.
    pub(crate) fn title(&mut self, text: &str) {
        self.gap();
        for line in wrap(text, self.width - 2) {
            self.colored_line(" ", &line, "1", "");
        }
    }

    /// A sentence on its own.
    pub(crate) fn sentence(&mut self, text: &str) {
        for line in wrap(text, self.width - 2) {
            self.line(&format!(" {line}"));
        }
    }

    /// A table; its heads are dim.
    pub(crate) fn table(&mut self, table: &Table) {
        let heads = table.columns.iter().any(|column| !column.head.is_empty());
        for (at, line) in table.lines(self.width).iter().enumerate() {
            match at == 0 && heads {
                true => self.colored_line("", line, "2", ""),
                false => self.line(line),
            }
        }
        if !table.note.is_empty() {
            for line in wrap(&table.note, self.width - 2) {
                self.line(&format!(" {line}"));
            }
        }
    }

    /// A word in capitals and a sentence, wrapped under itself.
    pub(crate) fn labelled(&mut self, label: &str, text: &str) {
        self.label(label, text, false);
    }

    /// The same, for the one sentence that matters most.
    pub(crate) fn strong_label(&mut self, label: &str, text: &str) {
        self.label(label, text, true);
    }

    fn label(&mut self, label: &str, text: &str, strong: bool) {
        for (at, line) in wrap(text, self.width - LABEL - 2).iter().enumerate() {
            let label = format!(" {:<LABEL$}", if at == 0 { label } else { "" });
            match strong {
                true => self.colored_line("", &format!("{label}{line}"), "1", ""),
                false if at == 0 => self.colored_line("", &label, "1", line),
                false => self.line(&format!("{label}{line}")),
            }
        }
    }

    /// More under the last labelled sentence.
    pub(crate) fn continued(&mut self, text: &str) {
        self.labelled("", text);
    }

    /// A sentence in points, indented by `depth`.
    pub(crate) fn point(&mut self, depth: usize, mark: &str, text: &str) {
        let indent = " ".repeat(1 + depth * 2);
        let room = self.width.saturating_sub(indent.len() + mark.chars().count() + 2).max(20);
        for (at, line) in wrap(text, room).iter().enumerate() {
            let mark = if at == 0 { mark.to_string() } else { " ".repeat(mark.chars().count()) };
            self.line(&format!("{indent}{mark} {line}"));
        }
    }

    /// The finished text.
    pub(crate) fn finish(mut self) -> String {
        while self.out.ends_with("\n\n") {
            self.out.pop();
        }
        self.out
    }
}
