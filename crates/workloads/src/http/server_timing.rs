//! The `Server-Timing` field of a response: what a server says about the time of a request (W3C Server Timing).

use model::Nanos;

/// The longest duration that is believed: a day.
const DURATION_MS_MAX: f64 = 86_400e3;

/// Calls `found` with the index in `names` and the duration of each metric in a field value that has one of the names
/// and a valid duration. Names are compared with their case, as the specification says.
pub(super) fn durations(value: &[u8], names: &[String], mut found: impl FnMut(usize, Nanos)) {
    let Ok(text) = std::str::from_utf8(value) else { return };
    for metric in split(text, ',') {
        let mut parts = split(metric, ';');
        let Some(name) = parts.next().map(str::trim) else { continue };
        let Some(at) = names.iter().position(|known| known == name) else { continue };
        let duration = parts.find_map(|part| {
            let (key, value) = part.split_once('=')?;
            key.trim().eq_ignore_ascii_case("dur").then_some(value.trim().trim_matches('"'))
        });
        let ms = duration.and_then(|text| text.parse::<f64>().ok());
        if let Some(ms) = ms.filter(|ms| (0.0..=DURATION_MS_MAX).contains(ms)) {
            found(at, (ms * 1e6).round() as Nanos);
        }
    }
}

/// The parts of a text between separators that are not in a quoted string.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |c: char| {
        let ends = c == separator && !is_quoted;
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        ends
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(value: &str) -> Vec<(usize, Nanos)> {
        let names = ["queue".to_string(), "db".into()];
        let mut all = Vec::new();
        durations(value.as_bytes(), &names, |at, duration| all.push((at, duration)));
        all
    }

    #[test]
    fn durations_of_named_metrics_are_read() {
        for (value, expected) in [
            ("queue;dur=16.5, execute;dur=14", vec![(0, 16_500_000)]),
            (
                "miss, db;desc=\"a, b; dur=7\";dur=53 , queue ; DUR = \"2\"",
                vec![(1, 53_000_000), (0, 2_000_000)],
            ),
            ("db;desc=\"\\\"\";dur=1", vec![(1, 1_000_000)]),
            ("db;dur=0", vec![(1, 0)]),
            ("db, db;dur=, db;dur=x, db;dur=-1, db;dur=NaN, db;dur=1e99, Queue;dur=1", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_field_fails(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            durations(&value, &["a".to_string()], |at, _| assert_eq!(at, 0));
        }
    }
}
