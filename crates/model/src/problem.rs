//! Errors in something that a user wrote: all of them together, each with its place and what to write
//! instead.

use std::fmt;

use crate::experiment::toml_value;
use crate::secret::{mask, mask_line};
use crate::{Level, SettingInfo, Settings};

/// One error in a user's file or arguments.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Problem {
    /// The error, as a sentence fragment in lower case: "unknown key `concurency` in [load]".
    pub what: String,
    /// What to do instead; shown under the snippet. Empty if `what` says everything.
    pub help: String,
    /// The names of its settings, the wrong one first. The text names them as `` `name` ``.
    pub settings: Vec<&'static str>,
    /// Settings with valid levels, as suggestions. They follow `help`, in the notation of a file or of flags.
    pub advice: Vec<(&'static str, Level)>,
    /// The file, as the user named it; empty if the problem is not in a file.
    pub file: String,
    /// Line number, from 1; 0 if unknown.
    pub line: u32,
    /// First column of the underlined token, from 1; 0 if unknown.
    pub column: u32,
    /// Number of characters to underline.
    pub width: u32,
    /// The line as written, without its secrets; of a long one, what is around the token. Empty if unknown.
    pub snippet: String,
    /// Number of characters of the line before the snippet.
    pub cut: u32,
}

impl Problem {
    /// A problem without a place in a file, for example a missing permission.
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Problem { what: mask(&what.into()), help: mask(&help.into()), ..Problem::default() }
    }

    /// Adds its settings, the wrong one first.
    #[must_use]
    pub fn about(mut self, settings: &[&SettingInfo]) -> Self {
        self.settings.extend(settings.iter().map(|setting| setting.name));
        self
    }

    /// Adds a suggestion: this setting with this level.
    #[must_use]
    pub fn or_set(mut self, setting: &SettingInfo, level: Level) -> Self {
        self.advice.push((setting.name, level));
        self
    }

    /// Sets its place in a file.
    #[must_use]
    pub fn at(self, place: Place) -> Self {
        let Place { line, column, width } = place;
        Problem { line, column, width, ..self }
    }

    /// Sets its line in the experiment file, if one of these settings is wrong and was written there.
    #[must_use]
    pub fn on_line_of(mut self, settings: &Settings) -> Self {
        if let (0, Some(name)) = (self.line, self.settings.first()) {
            self.line = settings.line(name);
        }
        self
    }

    /// Adds the file and, if the line is known, its text. The whole line is underlined if the column is not known. `text`
    /// is the content of `file`.
    #[must_use]
    pub fn in_file(self, file: &str, text: &str) -> Self {
        match self.line {
            0 => Problem { file: file.into(), ..self },
            line => {
                let mut placed = Problem::at_line(file, text, line, self.what, self.help);
                if self.column > 0 {
                    placed = placed.on_line(text, Place { line, column: self.column, width: self.width });
                }
                Problem { settings: self.settings, advice: self.advice, ..placed }
            }
        }
    }

    /// The same problem in the notation of flags, or of other programs, instead of keys. `name` gives the
    /// word for a setting, `set` the words for a setting with a level; without words, a suggestion is
    /// dropped.
    #[must_use]
    pub fn in_words(
        self,
        name: impl Fn(&str) -> String,
        set: impl Fn(&str, &Level) -> Option<String>,
    ) -> Self {
        let advice: Vec<String> =
            self.advice.iter().filter_map(|(setting, level)| set(setting, level)).collect();
        let renamed = |words: &str| {
            self.settings.iter().fold(words.to_string(), |words, setting| {
                words.replace(&format!("`{setting}`"), &name(setting))
            })
        };
        let (what, help) = (renamed(&self.what), with_advice(&renamed(&self.help), "use", &advice));
        Problem { what, help, settings: Vec::new(), advice: Vec::new(), ..self }
    }

    /// The help text with the suggestions, in the notation of keys.
    fn whole_help(&self) -> String {
        let advice: Vec<String> =
            self.advice.iter().map(|(setting, level)| format!("{setting} = {}", toml_value(level))).collect();
        with_advice(&self.help, "write", &advice)
    }

    /// A problem on one line of `text`, which was read from `file`. `line` is 1-based.
    pub fn at_line(
        file: &str,
        text: &str,
        line: u32,
        what: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let snippet = mask_line(text, line.saturating_sub(1) as usize, 0, 0).text;
        let indent = snippet.len() - snippet.trim_start().len();
        let width = snippet.trim().chars().count() as u32;
        Problem {
            file: file.into(),
            line,
            column: if width == 0 { 0 } else { indent as u32 + 1 },
            width,
            snippet,
            ..Problem::new(what, help)
        }
    }

    /// A problem at a byte range of `text`, which was read from `file`.
    pub fn at_span(
        file: &str,
        text: &str,
        span: std::ops::Range<usize>,
        what: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Problem { file: file.into(), ..Problem::new(what, help) }.on_line(text, Place::of_span(text, span))
    }

    /// Quotes a line of `text` without its secrets, and sets the place in it.
    fn on_line(self, text: &str, place: Place) -> Self {
        let Place { line, column, width } = place;
        let (at, width) = (column.saturating_sub(1) as usize, width as usize);
        let line_of = mask_line(text, line.saturating_sub(1) as usize, at, width);
        let problem = Problem { snippet: line_of.text, cut: line_of.before as u32, ..self };
        problem.at(Place { line, column: line_of.column as u32 + 1, width: line_of.width as u32 })
    }
}

/// The place of a token in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line number, from 1; 0 if unknown.
    pub line: u32,
    /// First column of the token, from 1; 0 if unknown.
    pub column: u32,
    /// Number of characters of the token on this line.
    pub width: u32,
}

impl Place {
    /// The place of a byte range of `text`.
    pub fn of_span(text: &str, span: std::ops::Range<usize>) -> Place {
        let mut start = span.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let mut end = span.end.clamp(start, line_end);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Place {
            line: text[..start].matches('\n').count() as u32 + 1,
            column: text[line_start..start].chars().count() as u32 + 1,
            width: (text[start..end].chars().count() as u32).max(1),
        }
    }
}

/// "round it, or write cache = \"page-cache\"".
fn with_advice(help: &str, verb: &str, advice: &[String]) -> String {
    let joint = if help.is_empty() || advice.is_empty() { "" } else { ", or " };
    let advice = advice.iter().map(|words| format!("{verb} {words}")).collect::<Vec<_>>().join(", or ");
    format!("{help}{joint}{advice}")
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report(f, "error")
    }
}

/// Formats a problem as a warning, which prevents nothing.
#[derive(Clone, Copy, Debug)]
pub struct Warning<'a>(pub &'a Problem);

impl fmt::Display for Warning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.report(f, "warning")
    }
}

/// The longest line of a report, characters.
const COLUMNS: usize = 120;

impl Problem {
    fn report(&self, f: &mut fmt::Formatter<'_>, word: &str) -> fmt::Result {
        // Whatever was put together since it was made.
        let help = mask(&self.whole_help());
        let what = format!("{word}: {}", mask(&self.what));
        if self.file.is_empty() {
            // A message about a command has paths of any length: it stays one line, for programs that search it.
            write!(f, "{what}")?;
            return if help.is_empty() { Ok(()) } else { write!(f, "\n  {help}") };
        }
        let what: Vec<String> = what.split('\n').map(|line| folded(line, "", "  ")).collect();
        write!(f, "{}\n --> {}", what.join("\n"), self.file)?;
        if self.line == 0 {
            return if help.is_empty() { Ok(()) } else { write!(f, "\n{}", folded(&help, "  ", "  ")) };
        }
        write!(f, ":{}", self.line)?;
        let number = self.line.to_string();
        let margin = format!(" {} | ", " ".repeat(number.len()));
        let (snippet, column, width) = self.window(COLUMNS - margin.len());
        write!(f, "\n {number} | {snippet}")?;
        let indent: String =
            snippet.chars().take(column).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        write!(f, "\n{margin}{indent}{}", "^".repeat(width))?;
        match margin.len() + column + width + 1 + help.chars().count() {
            _ if help.is_empty() => Ok(()),
            length if length <= COLUMNS => write!(f, " {help}"),
            _ => write!(f, "\n{}", folded(&help, &margin, &margin)),
        }
    }

    /// The part of the snippet around the underlined token that is at most `most` characters long, with the column of
    /// the token in it, from 0, and the width of the token.
    fn window(&self, most: usize) -> (String, usize, usize) {
        let column = self.column.saturating_sub(1).saturating_sub(self.cut) as usize;
        let masked = mask_line(&self.snippet, 0, column, (self.width as usize).max(1));
        let (width, is_cut) = (masked.width, self.cut > 0 || masked.before > 0);
        let characters: Vec<char> = masked.text.chars().collect();
        let column = (masked.column - masked.before).min(characters.len());
        if characters.len() <= most && !is_cut {
            return (masked.text, column, width);
        }
        const CUT: &str = "...";
        // A third of the line is before the token.
        let begin = column.saturating_sub(most / 3).min(characters.len().saturating_sub(most));
        let end = characters.len().min(begin + most);
        let mut part: String = characters[begin..end].iter().collect();
        if end < characters.len() {
            part = characters[begin..end - CUT.len()].iter().collect::<String>() + CUT;
        }
        if begin > 0 || is_cut {
            part = CUT.to_string() + &part.chars().skip(CUT.len()).collect::<String>();
        }
        let column = column - begin;
        (part, column, width.min(most - column))
    }
}

/// A text in lines of at most 120 characters, with what begins the first and the other lines.
fn folded(text: &str, first: &str, others: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (at, paragraph) in text.split('\n').enumerate() {
        let mut line = if at == 0 { first.to_string() } else { others.to_string() };
        let mut is_empty = true;
        for word in paragraph.split(' ') {
            let length = line.chars().count() + usize::from(!is_empty) + word.chars().count();
            if !is_empty && length > COLUMNS {
                lines.push(std::mem::replace(&mut line, others.to_string()));
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// All problems of a check. Empty if there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// No problems.
    pub fn new() -> Self {
        Problems::default()
    }

    /// Whether there are no problems.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one problem.
    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Adds a problem with these settings, the wrong one first.
    pub fn add(&mut self, about: &[&SettingInfo], what: impl Into<String>, help: impl Into<String>) {
        self.push(Problem::new(what, help).about(about));
    }

    /// Sorts the problems by their place in the file.
    pub fn sort(&mut self) {
        self.0.sort_by_key(|problem| (problem.line, problem.column));
    }

    /// Adds all problems of another check.
    pub fn extend(&mut self, other: Problems) {
        self.0.extend(other.0);
    }

    /// `Ok(value)` without problems, otherwise all problems.
    pub fn or<T>(self, value: T) -> Result<T, Problems> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Problems(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            writeln!(f, "{problem}\n")?;
        }
        match self.0.len() {
            1 => write!(f, "1 mistake, nothing was run"),
            n => write!(f, "{n} mistakes, nothing was run"),
        }
    }
}

impl std::error::Error for Problems {}

/// The candidate most similar to `word`, if it is similar enough.
pub fn near_word<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let characters = word.chars().count();
    let most = |candidate: &str| 1.max(candidate.len().min(word.len()) / 3);
    candidates
        .into_iter()
        // Their distance is at least this, and is found in a time that grows with the product of their lengths.
        .filter(|candidate| candidate.chars().count().abs_diff(characters) <= most(candidate))
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= most(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?" if there is a similar word, otherwise the list of possible words.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match near_word(word, candidates.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let all: Vec<String> = candidates.into_iter().map(|c| format!("`{c}`")).collect();
            format!("one of {}", all.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    static BLOCK_SIZE: Key<String> = Key::sizes("block_size", "4KiB", "Bytes of one operation.");
    static CACHE: Key<Option<String>> = Key::text("cache", "", "Which cache.");
    static SHELL: Key<bool> = Key::flag("shell", "false", "Whether a shell runs it.");

    fn problem() -> Problem {
        Problem::new("`block_size` of 1000B in `size`", "round `block_size`")
            .about(&[&BLOCK_SIZE])
            .or_set(&CACHE, Level::Text("page-cache".into()))
            .or_set(&SHELL, Level::Flag(true))
    }

    #[test]
    fn advice_is_written_as_keys() {
        assert_eq!(
            problem().to_string(),
            "error: `block_size` of 1000B in `size`\n  round `block_size`, or write cache = \"page-cache\", or write shell = true"
        );
        assert_eq!(problem().in_file("f.toml", "").file, "f.toml");
        let placed = Problem { line: 2, ..problem() }.in_file("f.toml", "a = 1\nblock_size = 1\n");
        assert_eq!((placed.snippet.as_str(), placed.advice.len()), ("block_size = 1", 2));
        assert_eq!((placed.column, placed.width), (1, 14));
        let place = Place::of_span("a = 1\nblock_size = 1\n", 19..20);
        let placed = problem().at(place).in_file("f.toml", "a = 1\nblock_size = 1\n");
        assert_eq!((placed.line, placed.column, placed.width), (2, 14, 1));
    }

    #[test]
    fn no_line_of_a_report_is_too_long() {
        let text = format!("a = {{ {} }}\n", "b = \"text\", ".repeat(40));
        let at = text.find("b = \"text\", b").unwrap() + 200;
        let long = "a sentence of several words ".repeat(8);
        let shown = Problem::at_span("f.toml", &text, at..at + 5, long.clone(), long.clone()).to_string();
        assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
        assert_eq!(shown.split_whitespace().filter(|word| *word == "sentence").count(), 16, "{shown}");
        // The underlined token is the same as in the text.
        let lines: Vec<&str> = shown.lines().collect();
        let marked = lines.iter().position(|line| line.contains('^')).unwrap();
        let column = lines[marked].find('^').unwrap();
        assert_eq!(lines[marked - 1].get(column..column + 5), text.get(at..at + 5), "{shown}");
    }

    #[test]
    fn only_settings_it_is_about_are_reworded() {
        let flags = problem().in_words(
            |setting| format!("--{}", setting.replace('_', "-")),
            |setting, level| (setting == "cache").then(|| format!("--{level}")),
        );
        assert_eq!(
            flags.to_string(),
            "error: --block-size of 1000B in `size`\n  round --block-size, or use --page-cache"
        );
    }
}
