//! Texts use the field's words: paraphrases of a term that exists, and phrases that a reader has to decode, are
//! found in strings of the sources and in Markdown.

use crate::fault::Fault;
use crate::files::line_of;

/// A phrase in lower case, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("foretell", "predict"),
    ("foretells", "predicts"),
    ("foretold", "predicted"),
    ("held against", "compared with"),
    ("hold against", "compare with"),
    ("put back", "restored"),
    ("puts back", "restores"),
    ("another hand", "outside the metadirectory"),
    ("stood still", "stalled, paused or waited"),
    ("standstill", "pause or stall"),
    ("not spoken", "not supported"),
    ("says nothing to", "has no effect on"),
    ("is well", "is valid"),
    ("well, but for", "valid, with"),
    ("in no time", "must be greater than 0"),
    ("is no run directory", "is not a run directory"),
    ("so in all", "in all"),
    ("what it may be", "confidence interval"),
    ("not it", "ruled out"),
    ("gave no more", "added nothing"),
    ("for want of", "without"),
    ("foretelling", "predicting"),
    ("told", "reported"),
    ("asked for", "requested"),
    ("was asked", "was requested"),
    ("what is turned", "what is changed"),
    ("what was turned", "what was changed"),
    ("without rest", "always busy"),
    ("stands there", "is there"),
    ("hand in hand", "together"),
    ("what it takes", "demand, or what is needed"),
    ("done most", "most frequent"),
    ("needed again", "refaulted"),
    ("held back", "throttled or delayed"),
    ("twice of", "twice as much of"),
    ("for one op", "per operation"),
    ("objects a second", "objects per second"),
    ("object a commit", "object per commit"),
    ("objects a commit", "objects per commit"),
    ("such that", "so that"),
    ("whoever", "the user or the process that"),
    ("would join two", "is an ambiguous join"),
    ("to send or confirm", "pending export"),
    ("where it was read up to", "watermark"),
    ("it is not known how much", "what the counters do not show"),
    ("something else used it", "another program used it"),
    ("so it and all above it", "too few samples for"),
    ("what runs already", "a process that is already running"),
    ("take it out", "remove it"),
    ("is no text", "is not a text"),
    ("is no list", "is not a list"),
    ("is no name", "is not a name"),
    ("is no url", "is not a URL"),
    ("was looked at", "was checked"),
    ("looked at each time", "sampled each time"),
    ("what came is", "the response is"),
    ("goes on from there", "continues from there"),
    ("gone on with", "resumed"),
    ("go on with", "continue with"),
    ("said beside", "combined with"),
    ("put off to", "deferred to"),
    ("of each millisecond", "each millisecond"),
    ("nothing was touched", "nothing was changed"),
    ("touching nothing", "without changing anything"),
    ("is another one", "is different"),
    ("when nothing else runs", "when other programs are idle"),
    ("what else runs", "other programs"),
    ("in no interval", "without intervals"),
    ("stays out", "is excluded"),
    ("would lift", "would remove"),
    ("is not yours to set", "cannot be set"),
    ("handed down", "delegated"),
    ("as it goes", "up to the damage"),
    ("was cut short", "is incomplete"),
    ("the neighbours", "other virtual machines"),
    ("which counts for itself", "specific to"),
    ("memory used for nothing", "unused memory"),
    ("kept in step", "synchronized"),
    ("way back", "undo"),
    ("see that the", "check that the"),
    ("what could be read", "the readable part"),
    ("not shown that", "not proved that"),
    ("not what was written", "differs from the data written"),
    ("there is nothing to judge", "name what is missing"),
    ("left as it is", "not changed, or not overwritten"),
    ("has more behind", "has a query or a fragment"),
    ("and never may", "which is not allowed"),
    ("to be looked at", "to be checked"),
    ("begins anew", "is reset, or starts again"),
    ("written anew", "written again"),
    ("goes on for", "runs for, or takes"),
    ("stands beside", "is next to"),
    ("stand beside", "are next to"),
    ("stands with", "is shown with"),
    ("again and again", "repeatedly"),
    ("stands in front of", "comes before"),
    ("stand in front of", "come before"),
    ("the last but one", "the second to last"),
    ("takes the place of", "replaces"),
    ("take the place of", "replace"),
    ("no disk's", "not the result of a disk"),
    ("worked out", "computed"),
    ("from which on", "above which"),
];

/// Files that hold these words for a reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("xtask/src/tidy/words.rs", "the table itself"),
    ("crates/report/src/sentences/tests/", "words that no sentence may have"),
    ("crates/workloads/src/sync/tests.rs", "the output of an engine that is played"),
    ("fuzz/", "messages of assertions"),
];

/// Checks one file.
pub(super) fn check(name: &str, text: &str) -> Vec<Fault> {
    let is_excepted = EXCEPTIONS.iter().any(|(prefix, _)| name.starts_with(prefix));
    if is_excepted || name.contains("fixtures/") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut examine = |from: usize, part: &str| {
        let lower = part.to_lowercase();
        // A letter whose small form has another length would move the places.
        let lower = if lower.len() == part.len() { lower } else { part.to_ascii_lowercase() };
        for (phrase, instead) in PHRASES {
            for (at, _) in
                lower.match_indices(phrase).filter(|(at, _)| stands_alone(&lower, *at, phrase.len()))
            {
                faults.push(Fault::new(
                    format!("{name}:{}", line_of(text, from + at)),
                    format!("says \"{phrase}\""),
                    format!("write: {instead}"),
                ));
            }
        }
    };
    if name.ends_with(".md") {
        examine(0, text);
    } else if name.ends_with(".rs") {
        for (from, literal) in strings(text) {
            examine(from, literal);
        }
    }
    faults
}

fn stands_alone(text: &str, at: usize, length: usize) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + length..].chars().next())
}

/// The string literals of a Rust source with their places; comments and characters are passed over.
fn strings(text: &str) -> Vec<(usize, &str)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if bytes[at] == b'\'' {
            at += character(rest);
        } else if let Some(hashes) = raw_string(text, at) {
            let begin = at + 2 + hashes;
            let end = format!("\"{}", "#".repeat(hashes));
            let length = text[begin..].find(&end).unwrap_or(text.len() - begin);
            found.push((begin, &text[begin..begin + length]));
            at = (begin + length + end.len()).min(text.len());
        } else if bytes[at] == b'"' {
            let begin = at + 1;
            let mut end = begin;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            let end = end.min(bytes.len());
            found.push((begin, &text[begin..end]));
            at = end + 1;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

/// The length of a character literal; of a lifetime that of its apostrophe.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_), _) => {
            rest[2..].char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 3)
        }
        (Some(_), Some((end, '\'')), _) => end + 1,
        _ => 1,
    }
}

/// The number of `#` of a raw string that begins here.
fn raw_string(text: &str, at: usize) -> Option<usize> {
    let rest = text[at..].strip_prefix('r')?;
    let is_word = text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let may_begin = !is_word || text[..at].ends_with('b');
    (may_begin && rest[hashes..].starts_with('"')).then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_and_nothing_else() {
        let text = r####"let a = "one \" two"; // "no"
let b = '"'; let c: &'static str = r#"three "x" four"#; let d = b'\''; /* "no" */ let e = "\\"; let f = '\u{7f}'; let g = "é";"####;
        let read: Vec<&str> = strings(text).into_iter().map(|(_, literal)| literal).collect();
        assert_eq!(read, [r#"one \" two"#, "three \"x\" four", r"\\", "é"]);
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let _ = strings(&text[..cut]);
        }
    }

    #[test]
    fn phrases_are_found_in_strings_and_in_markdown() {
        for (name, text, expected) in [
            ("a.rs", "let a = 1;\nlet b = \"it is Foretold\";", vec!["a.rs:2"]),
            ("a.rs", "// it is foretold\nlet foretold = 1;", vec![]),
            ("a.rs", "let a = \"foretold_per_s\";", vec![]),
            ("a.md", "One.\n\nThe file is put back.", vec!["a.md:3"]),
            ("a.toml", "# foretold", vec![]),
            ("crates/report/fixtures/a.md", "foretold", vec![]),
        ] {
            let places: Vec<String> = check(name, text).into_iter().map(|fault| fault.place).collect();
            assert_eq!(places, expected, "{name}: {text}");
        }
    }
}
