//! A pasted line in words, as the shells of Windows and of this system split it.

use super::{NO_EFFECT, PAUSES, SHELLS, Tool, is_comment, is_one_of};

/// Ends a line.
pub(super) const LINE_END: &str = "\n";

/// Whether a word ends a command.
pub(super) fn is_separator(word: &str) -> bool {
    matches!(word, "&" | "&&" | "||" | "|" | ";" | LINE_END)
}

/// The words of the arguments. A whole line in quotes is split as a shell does.
pub(super) fn tokens(arguments: &[String], tool: Tool) -> Vec<String> {
    let mut words = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        let is_line = argument.contains('\n')
            || (argument.contains(char::is_whitespace)
                && ((index == 0 && argument.contains(" -")) || is_line_of(argument, tool)));
        match is_line && !is_program_alone(argument, tool) {
            true => words.extend(line(argument)),
            false => words.push(argument.clone()),
        }
    }
    words.retain(|word| !matches!(word.as_str(), "^" | "`" | "\\"));
    words
}

/// Whether a word in quotes is a line: it begins with a command, starts the tool's program, or has more than one command.
pub(super) fn is_line_of(text: &str, tool: Tool) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default().trim_start_matches(is_double_quote);
    let lower = text.to_ascii_lowercase();
    let is_program = |word: &str| !word.contains(['/', '\\']) && tool.is_program(word);
    let begins = is_one_of(first, NO_EFFECT)
        || is_one_of(first, PAUSES)
        || is_one_of(first, SHELLS)
        || is_one_of(first, &["call", "start"])
        || is_comment(first);
    let is_shell = |word: &str| is_separator(word) || word.starts_with(['>', '|']) || word.contains("2>");
    begins
        || tool.is_program(first)
        || words.any(|word| is_program(word) || is_shell(word))
        || lower.contains(&format!("{}.exe\"", tool.program))
        || lower.contains(&format!("{}.exe ", tool.program))
}

/// `C:\Program Files\SQLIO\sqlio.exe`, which the shell of this system has already freed of its quotes.
pub(super) fn is_program_alone(argument: &str, tool: Tool) -> bool {
    tool.is_program(argument) && argument.to_ascii_lowercase().ends_with(".exe")
}

fn is_double_quote(letter: char) -> bool {
    matches!(letter, '"' | '\u{201c}'..='\u{201f}')
}

fn is_single_quote(letter: char) -> bool {
    matches!(letter, '\'' | '\u{2018}'..='\u{201b}')
}

/// A line without the prompt of a shell of Windows: `PS C:\Users\me>`, `C:\>`.
fn without_prompt(line: &str) -> &str {
    let line = line.trim_start();
    let mut letters = line.chars();
    let is_drive = letters.next().is_some_and(|letter| letter.is_ascii_alphabetic())
        && letters.as_str().starts_with(":\\");
    match line.split_once('>') {
        Some((prompt, rest)) if (line.starts_with("PS ") || is_drive) && !prompt.contains('"') => rest,
        _ => line,
    }
}

/// The words of one text, with a word for each end of a line.
pub(super) fn line(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, line) in logical_lines(text).iter().enumerate() {
        if index > 0 {
            words.push(LINE_END.into());
        }
        split(without_prompt(line), &mut words);
    }
    words
}

/// The lines of a text; one that ends with `^`, a backtick or a backslash goes on in the next.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.split('\n') {
        let line = line.trim_end();
        let part = line.strip_suffix(['^', '`', '\\']);
        let text = part.unwrap_or(line);
        match lines.last_mut().filter(|_| goes_on) {
            Some(before) => before.extend([" ", text]),
            None => lines.push(text.into()),
        }
        goes_on = part.is_some();
    }
    lines
}

fn split(line: &str, words: &mut Vec<String>) {
    let mut word = String::new();
    let mut quote: Option<fn(char) -> bool> = None;
    let mut is_word = false;
    let mut letters = line.chars().peekable();
    fn end(word: &mut String, is_word: &mut bool, words: &mut Vec<String>) {
        if std::mem::take(is_word) || !word.is_empty() {
            words.push(std::mem::take(word));
        }
    }
    while let Some(letter) = letters.next() {
        match letter {
            letter if quote.is_some_and(|is_quote| is_quote(letter)) => quote = None,
            letter if quote.is_some() => word.push(letter),
            letter if is_double_quote(letter) => {
                quote = Some(is_double_quote);
                is_word = true;
            }
            // An apostrophe within a word is none.
            letter if is_single_quote(letter) && (word.is_empty() || word.starts_with('-')) => {
                quote = Some(is_single_quote);
                is_word = true;
            }
            letter if letter.is_whitespace() => end(&mut word, &mut is_word, words),
            ';' if letters.peek().is_none_or(|next| next.is_whitespace()) => {
                end(&mut word, &mut is_word, words);
                words.push(letter.into());
            }
            // `2>&1` stays one word.
            '&' if word.ends_with('>') => word.push('&'),
            '&' | '|' => {
                end(&mut word, &mut is_word, words);
                let doubled = letters.next_if_eq(&letter).is_some();
                words.push(if doubled { format!("{letter}{letter}") } else { letter.to_string() });
            }
            '>' | '<' if !word.ends_with('>') && !matches!(word.as_str(), "1" | "2" | "*") => {
                end(&mut word, &mut is_word, words);
                word.push(letter);
            }
            letter => word.push(letter),
        }
    }
    end(&mut word, &mut is_word, words);
}
