//! Charts in text, for terminals.

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LEFT_EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Values as a row of block characters from zero to the largest, at most `width` characters. Each character shows the
/// largest of its values, so that a short stall or peak stays visible; a missing value is a space.
pub fn sparkline(values: &[f64], width: usize) -> String {
    let width = width.min(values.len());
    let largest = values.iter().copied().filter(|value| value.is_finite()).fold(0.0_f64, f64::max);
    (0..width)
        .map(|at| {
            let group = &values[at * values.len() / width..(at + 1) * values.len() / width];
            let value = group.iter().copied().filter(|value| value.is_finite()).reduce(f64::max);
            match value {
                None => ' ',
                Some(value) if value <= 0.0 || largest <= 0.0 => EIGHTHS[1],
                Some(value) => EIGHTHS[((value / largest * 8.0).ceil() as usize).clamp(1, 8)],
            }
        })
        .collect()
}

/// A bar for `value`, where `largest` has `width` characters, in eighths of a character.
pub fn bar(value: f64, largest: f64, width: usize) -> String {
    if !(value.is_finite() && value > 0.0 && largest > 0.0) {
        return String::new();
    }
    let eighths = ((value / largest).min(1.0) * width as f64 * 8.0).round() as usize;
    let mut out = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        out.push(LEFT_EIGHTHS[eighths % 8]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 4.0, 8.0], 10), "▁▁▂▄█");
        assert_eq!(sparkline(&[1.0, 1.0, 1.0, 8.0, 1.0, 1.0], 3), "▁█▁");
        assert_eq!(sparkline(&[f64::NAN, 3.0], 2), " █");
        assert_eq!(sparkline(&[], 5), "");
        assert_eq!(bar(5.0, 10.0, 4), "██");
        assert_eq!(bar(10.0, 10.0, 4), "████");
        assert_eq!(bar(1.0, 16.0, 4), "▎");
        assert_eq!(bar(f64::NAN, 16.0, 4), "");
    }
}
