//! Numbers as tools print them, with a decimal point or comma.

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
    let value: f64 = std::str::from_utf8(cell).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
