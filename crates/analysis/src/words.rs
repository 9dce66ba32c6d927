//! Formats numbers in sentences: three significant digits and common units.

use model::quantity::{thousands, three_figures, three_figures_of};

/// A plain number: `0.52`, `31.8`, `1,530`.
pub(crate) fn number(value: f64) -> String {
    if value.abs() >= 1000.0 { thousands(three_figures_of(value)) } else { three_figures(value) }
}

/// A mean count: `24` if it is nearly an integer, otherwise `2.31`.
pub(crate) fn things(mean: f64) -> String {
    if (mean - mean.round()).abs() < 0.05 { thousands(mean.round() + 0.0) } else { number(mean) }
}

/// A count: `19`, `61,200`.
pub(crate) fn whole(count: u64) -> String {
    thousands(count as f64)
}

/// Per second: `61,200/s`.
pub(crate) fn per_s(value: f64) -> String {
    format!("{}/s", number(value))
}

/// A size with binary prefixes, as usual for memory and caches: `2.00 GiB`, `640 MiB`.
pub(crate) fn bytes(value: f64) -> String {
    const GIB: f64 = 1_073_741_824.0;
    for (unit, size) in [("GiB", GIB), ("MiB", 1_048_576.0), ("KiB", 1024.0)] {
        if value >= size {
            return format!("{} {unit}", number(value / size));
        }
    }
    format!("{} B", number(value))
}

/// Milliseconds.
pub(crate) fn ms(value: f64) -> String {
    format!("{} ms", number(value))
}

/// Seconds.
pub(crate) fn seconds(value: f64) -> String {
    format!("{} s", number(value))
}

/// A share as a percentage: `14 %`, `0.3 %`.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if !value.is_finite() {
        "-".into()
    } else if value == 0.0 || value.abs() >= 9.95 {
        format!("{value:.0} %")
    } else if value.abs() < 0.05 {
        "under 0.1 %".into()
    } else {
        format!("{value:.1} %")
    }
}

/// A count with its noun: `1 trial`, `3 trials`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", whole(number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_they_stand_in_sentences() {
        assert_eq!(bytes(2.0 * 1_073_741_824.0), "2.00 GiB");
        assert_eq!((ms(0.5213), seconds(3.1)), ("0.521 ms".into(), "3.10 s".into()));
        assert_eq!(per_s(61_234.0), "61,200/s");
        for (share, text) in
            [(0.14, "14 %"), (0.0031, "0.3 %"), (0.0001, "under 0.1 %"), (0.0, "0 %"), (0.0996, "10 %")]
        {
            assert_eq!(percent(share), text);
        }
        assert_eq!((count(1, "trial"), count(1200, "trial")), ("1 trial".into(), "1,200 trials".into()));
    }
}
