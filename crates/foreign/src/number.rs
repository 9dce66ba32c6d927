//! Numbers as tools print them, with a decimal point or comma, or with a unit.

/// A number; none for what is no number. `has_comma` if a comma is the decimal sign.
pub(crate) fn decimal(cell: &[u8], has_comma: bool) -> Option<f64> {
    let cell = cell.trim_ascii();
    if has_comma && cell.contains(&b',') {
        let text: Vec<u8> = cell
            .iter()
            .filter(|byte| **byte != b'.')
            .map(|byte| if *byte == b',' { b'.' } else { *byte })
            .collect();
        return decimal(&text, false);
    }
    if let Some(value) = short(cell) {
        return Some(value);
    }
    let value: f64 = std::str::from_utf8(cell).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// A number without sign and exponent, as almost all in a log are: where its digits are an integer of up to 2^53, both they and the
/// power of ten are exact, so that their quotient is the closest number (Clinger, How to Read Floating Point Numbers Accurately,
/// 1990). None for others.
fn short(cell: &[u8]) -> Option<f64> {
    const POWERS: [f64; 20] = [
        1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19,
    ];
    // 19 digits are less than 2^64.
    if cell.len() > 20 {
        return None;
    }
    let (mut digits, mut point) = (0_u64, None);
    for (at, byte) in cell.iter().enumerate() {
        match byte {
            b'0'..=b'9' => digits = digits.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')),
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let count = cell.len() - usize::from(point.is_some());
    if !(1..=19).contains(&count) || digits > 1 << 53 {
        return None;
    }
    let decimals = point.map_or(0, |at| cell.len() - 1 - at);
    Some(digits as f64 / POWERS[decimals])
}

/// A figure that a program prints with decimals, in the locale of its user: `1500.25`, `1500,25`, `1.500,25`, `1 500,25`. A
/// single sign is that of the decimals, because C libraries print no groups.
pub(crate) fn printed(text: &str) -> Option<f64> {
    let text: String = text.trim().chars().filter(|sign| !is_group_sign(*sign)).collect();
    let Some(last) = text.rfind(['.', ',']) else { return decimal(text.as_bytes(), false) };
    let (whole, decimals) = (&text[..last], &text[last + 1..]);
    let sign = &text[last..=last];
    match whole.contains(['.', ',']) {
        false => decimal(format!("{whole}.{decimals}").as_bytes(), false),
        // `1.234.567` has no decimals.
        true if whole.contains(sign) => printed_count(&text).map(|count| count as f64),
        true => decimal(format!("{}.{decimals}", printed_count(whole)?).as_bytes(), false),
    }
}

/// A count, with or without a separator of thousands: `1234567`, `1.234.567`, `1 234 567`.
pub(crate) fn printed_count(text: &str) -> Option<u64> {
    let text: String = text.trim().chars().filter(|sign| !is_group_sign(*sign)).collect();
    let mut groups = text.split(['.', ',']);
    let first = groups.next()?;
    let is_grouped = groups.clone().next().is_none() || (1..=3).contains(&first.len());
    (is_grouped && groups.all(|group| group.len() == 3)).then(|| text.replace(['.', ','], "").parse().ok())?
}

/// What separates thousands and is no decimal sign.
fn is_group_sign(sign: char) -> bool {
    matches!(sign, ' ' | '\u{a0}' | '\u{202f}' | '\'' | '\u{2019}')
}

/// A duration such as `1.5ms`, `2.00m` or `1m30.5s` in milliseconds.
pub(crate) fn milliseconds(text: &str) -> Option<f64> {
    // Factor and divisor.
    const UNITS: [(&str, f64, f64); 8] = [
        ("ns", 1.0, 1e6),
        ("us", 1.0, 1e3),
        ("µs", 1.0, 1e3),
        ("μs", 1.0, 1e3),
        ("ms", 1.0, 1.0),
        ("s", 1e3, 1.0),
        ("m", 6e4, 1.0),
        ("h", 3.6e6, 1.0),
    ];
    let mut rest = text.trim();
    let mut sum = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.')?;
        let amount: f64 = rest[..end].parse().ok()?;
        let (unit, factor, divisor) = UNITS.iter().find(|(unit, ..)| rest[end..].starts_with(unit))?;
        sum += amount * factor / divisor;
        rest = &rest[end + unit.len()..];
    }
    sum.is_finite().then_some(sum)
}

/// The count that is closest to a number; none for what no count is: a negative number, one above 2^63, and no number.
///
/// The only place of the crate where a number becomes an integer: elsewhere the lints of [`crate`] refuse it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number is checked before")]
pub(crate) fn count(value: f64) -> Option<u64> {
    // 2^63 is the largest power of two that both an `i64` and an `f64` bound.
    let rounded = value.round();
    (0.0..9_223_372_036_854_775_808.0).contains(&rounded).then_some(rounded as u64)
}

/// Nanoseconds of a number of seconds; none beyond 292 years, and for negative ones.
pub(crate) fn nanoseconds(seconds: f64) -> Option<i64> {
    count(seconds * 1e9).and_then(|ns| i64::try_from(ns).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn short_numbers_are_those_of_the_library(text in "[0-9]{0,9}[.]?[0-9]{0,8}|0[.]0{0,8}[0-9]{0,17}|[0-9]{12,20}|[0-9.+eE-]{0,8}") {
            let expected = text.parse::<f64>().ok().filter(|value| value.is_finite());
            proptest::prop_assert_eq!(decimal(text.as_bytes(), false), expected);
        }
    }

    #[test]
    fn figures_are_read_in_the_locale_of_their_user() {
        for (text, expected) in [
            ("1500.25", Some(1500.25)),
            ("1500,25", Some(1500.25)),
            ("1.500,25", Some(1500.25)),
            ("1,500.25", Some(1500.25)),
            ("1 500,25", Some(1500.25)),
            ("1\u{a0}500,25", Some(1500.25)),
            ("1'500.25", Some(1500.25)),
            ("1.234.567,5", Some(1_234_567.5)),
            ("1.234.567", Some(1_234_567.0)),
            ("0,512", Some(0.512)),
            ("7", Some(7.0)),
            ("1.2.3,4", None),
            ("1,2,3", None),
            ("x", None),
            ("", None),
            (",", None),
        ] {
            assert_eq!(printed(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1234567", Some(1_234_567)),
            ("1.234.567", Some(1_234_567)),
            ("1,234", Some(1234)),
            ("12,5", None),
            ("", None),
            ("1234,567", None),
        ] {
            assert_eq!(printed_count(text), expected, "{text}");
        }
    }

    #[test]
    fn only_what_is_a_count_becomes_one() {
        for (value, expected) in [
            (0.0, Some(0)),
            (-0.4, Some(0)),
            (2.5, Some(3)),
            (1e15, Some(1_000_000_000_000_000)),
            (-1.0, None),
            (9_223_372_036_854_775_808.0, None),
            (1e308, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (f64::NEG_INFINITY, None),
        ] {
            assert_eq!(count(value), expected, "{value}");
        }
        assert_eq!([1.5, -1.0, 1e300].map(nanoseconds), [Some(1_500_000_000), None, None]);
    }

    #[test]
    fn durations_have_units() {
        for (text, expected) in [
            ("635.91us", Some(0.63591)),
            ("250µs", Some(0.25)),
            ("12.92ms", Some(12.92)),
            ("1.50m", Some(90_000.0)),
            ("1m30.5s", Some(90_500.0)),
            ("2h", Some(7_200_000.0)),
            ("7ns", Some(7e-6)),
            ("0s", Some(0.0)),
            ("", None),
            ("5", None),
            ("-1s", None),
            ("1.2.3s", None),
            ("nans", None),
            ("3 s", None),
        ] {
            let found = milliseconds(text);
            let is_near = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (found, expected) => found == expected,
            };
            assert!(is_near, "{text}: {found:?}");
        }
    }

    #[test]
    fn numbers_have_points_or_commas() {
        for (text, has_comma, expected) in [
            ("12.5", false, Some(12.5)),
            (" 7 ", false, Some(7.0)),
            ("1.5E-05", false, Some(1.5e-5)),
            ("12,5", true, Some(12.5)),
            ("1.234,5", true, Some(1234.5)),
            ("12.5", true, Some(12.5)),
            ("12,5", false, None),
            ("", false, None),
            ("NaN", false, None),
            ("x", false, None),
        ] {
            assert_eq!(decimal(text.as_bytes(), has_comma), expected, "{text}");
        }
    }
}
