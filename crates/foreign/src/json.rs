//! Small JSON files.

use serde_json::Value;

use crate::{Fault, Source, lines};

/// The largest file.
const BYTES_MAX: usize = 16 << 20;

/// A document.
pub(crate) fn document(from: Source) -> Result<Value, Fault> {
    let text = lines::whole(from, BYTES_MAX)?;
    serde_json::from_str(&text).map_err(|error| {
        let what = match error.is_eof() {
            true => "the JSON is not complete".to_string(),
            false => format!("the JSON is damaged: {error}"),
        };
        Fault::at(error.line() as u64, what, "write the result again")
    })
}

/// The names of the outermost object, as far as they are in the text.
pub(crate) fn names(head: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let bytes = head.as_bytes();
    if !head.trim_start().starts_with('{') {
        return names;
    }
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let begin = at + 1;
                at = begin;
                while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'"') {
                    at += if *byte == b'\\' { 2 } else { 1 };
                }
                let is_name = head.get(at + 1..).is_some_and(|rest| rest.trim_start().starts_with(':'));
                if let (1, true, Some(name)) = (depth, is_name, head.get(begin..at)) {
                    names.push(name);
                }
            }
            _ => {}
        }
        at += 1;
        if depth == 0 && !names.is_empty() {
            break;
        }
    }
    names
}

/// A number at a path of names.
pub(crate) fn number(value: &Value, path: &[&str]) -> Option<f64> {
    let found = path.iter().try_fold(value, |value, name| value.get(name))?;
    found.as_f64().filter(|number| number.is_finite())
}

/// The same, absent as NaN, times a factor.
pub(crate) fn scaled(value: &Value, path: &[&str], factor: f64) -> f64 {
    number(value, path).map_or(f64::NAN, |number| number * factor)
}

/// A count at a path of names; large ones may be written as a number with a point or exponent.
pub(crate) fn count(value: &Value, path: &[&str]) -> Option<u64> {
    number(value, path).and_then(crate::number::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_outermost_object_are_found_in_a_part() {
        for (text, expected) in [
            (r#"{"a": {"x": 1}, "b":["c", {"d": 1}], "e\"" : 2, "f"#, vec!["a", "b", "e\\\""]),
            (r#"{"a": "b", "c": 1} {"d": 1}"#, vec!["a", "c"]),
            (r#"["a"]"#, vec![]),
            ("", vec![]),
            (r#"{"a\"#, vec![]),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn damaged_documents_have_a_line() {
        let fault =
            |text: &str| document(Box::new(std::io::Cursor::new(text.as_bytes().to_vec()))).unwrap_err();
        assert_eq!(fault("{\n\"a\": ").to_string(), "line 2: the JSON is not complete");
        assert_eq!(fault("{\n\n!}").line, 3);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "[{}\\[\\]\",:a\\\\é ]{0,60}") {
            names(&text);
        }
    }
}
