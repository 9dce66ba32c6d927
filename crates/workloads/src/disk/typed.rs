//! Command lines of other tools as people type and paste them: what the readers of SQLIO's and diskspd's flags share.

/// What is wrong with a flag, and what to write instead.
pub(super) type Wrong = (String, String);

/// The words of a command line as a keyboard writes them: a word processor changes the hyphen of a flag to a dash and
/// straight quotes into typographic ones, and a web page puts no-break spaces between flags.
pub(super) fn words(arguments: &[String]) -> Vec<String> {
    let is_space = |letter: char| letter.is_whitespace() && !letter.is_ascii();
    let mut words = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let argument = argument.trim_matches(|letter| is_space(letter) || is_unseen(letter));
        match plain(argument).starts_with('-') {
            true => words.extend(argument.split(is_space).filter(|word| !word.is_empty()).map(plain)),
            false => words.push(plain(argument)),
        }
    }
    words
}

/// One word as a keyboard writes it. A flag loses all its quotes, a path those around it.
pub(super) fn plain(word: &str) -> String {
    let word = word.trim_matches(|letter| is_quote(letter) || is_unseen(letter));
    match word.strip_prefix(['-', '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}']) {
        Some(flag) => format!("-{}", flag.replace(is_quote, "")),
        None => word.into(),
    }
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '"')
}

/// Takes no space and is not seen.
fn is_unseen(letter: char) -> bool {
    matches!(letter, '\u{200b}' | '\u{2060}' | '\u{feff}')
}

/// The first character of a word that no keyboard has, for an error about the word: "it contains an en dash (U+2013): type
/// it anew". Empty for a plain word.
pub(super) fn odd_letter(word: &str) -> String {
    let Some(letter) = word.chars().find(|letter| !letter.is_ascii()) else { return String::new() };
    let name = match letter {
        '\u{2010}' | '\u{2011}' => "a typographic hyphen",
        '\u{2012}' => "a figure dash",
        '\u{2013}' => "an en dash",
        '\u{2014}' => "an em dash",
        '\u{2212}' => "a minus sign",
        '\u{ad}' => "a soft hyphen",
        '\u{2018}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{b4}' | '\u{2032}' => "a typographic quote",
        '\u{d7}' => "a multiplication sign",
        '\u{2026}' => "an ellipsis",
        _ if letter.is_whitespace() => "a special space",
        _ if is_unseen(letter) => "an invisible character",
        _ => "the character",
    };
    let shown = if name == "the character" { format!(" `{letter}`") } else { String::new() };
    format!("it contains {name}{shown} (U+{:04X}): type the flag again", letter as u32)
}

/// A help text with the odd letter of the word that it is about.
pub(super) fn with_odd_letter(help: String, word: &str) -> String {
    match (help.as_str(), odd_letter(word)) {
        (_, odd) if odd.is_empty() => help,
        ("", odd) => odd,
        (help, odd) => format!("{odd}; {help}"),
    }
}

/// A whole number between two others.
pub(super) fn number(text: &str, min: u64, max: u64) -> Result<u64, Wrong> {
    match text.parse::<u64>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ if text.is_empty() => {
            Err((format!("a whole number from {min} to {max} is missing"), String::new()))
        }
        _ => Err((format!("`{text}` is not a whole number from {min} to {max}"), String::new())),
    }
}

/// An error for what the other tool has and Plimsoll does not.
pub(super) fn unsupported<T>(what: &str, help: impl Into<String>) -> Result<T, Wrong> {
    Err((format!("{what} is not supported"), help.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_typed() {
        for (typed, expected) in [
            ("\u{2013}kW", vec!["-kW"]),
            ("\u{2212}b64", vec!["-b64"]),
            ("\u{201c}/data/f.dat\u{201d}", vec!["/data/f.dat"]),
            ("-F\u{201c}param.txt\u{201d}", vec!["-Fparam.txt"]),
            ("\u{201c}\u{2013}Sh\u{201d}", vec!["-Sh"]),
            ("-b4K\u{a0}\u{2013}d10", vec!["-b4K", "-d10"]),
            ("/data/a\u{a0}b", vec!["/data/a\u{a0}b"]),
            ("\u{feff}-t2", vec!["-t2"]),
            ("-", vec!["-"]),
            ("", vec![""]),
        ] {
            assert_eq!(words(&[typed.to_string()]), expected, "{typed:?}");
        }
    }

    #[test]
    fn an_odd_letter_has_a_name() {
        for (word, expected) in [
            ("-t2\u{2013}o8", "it contains an en dash (U+2013): type the flag again"),
            ("-t2\u{2019}", "it contains a typographic quote (U+2019): type the flag again"),
            ("-t\u{443}", "it contains the character `\u{443}` (U+0443): type the flag again"),
            ("-t2", ""),
        ] {
            assert_eq!(odd_letter(word), expected);
        }
        assert_eq!(
            with_odd_letter("write -t2".into(), "-t\u{2014}2"),
            "it contains an em dash (U+2014): type the flag again; write -t2"
        );
    }
}
