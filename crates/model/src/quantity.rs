//! Parses and formats sizes, durations, rates and shares.
//!
//! A number without a required unit is rejected, because users have meant seconds, milliseconds and blocks by
//! "10".

use crate::{MILLISECOND, Nanos, SECOND};

/// The error of an invalid quantity: a sentence fragment with an example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QuantityError(pub String);

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let number = text[..end].replace('_', "");
    let value: f64 = number.parse().ok()?;
    value.is_finite().then(|| (value, text[end..].trim()))
}

fn bytes_factor(unit: &str) -> Option<f64> {
    const KI: f64 = 1024.0;
    Some(match unit.to_ascii_lowercase().as_str() {
        "b" | "byte" | "bytes" => 1.0,
        "k" | "ki" | "kib" => KI,
        "m" | "mi" | "mib" => KI * KI,
        "g" | "gi" | "gib" => KI * KI * KI,
        "t" | "ti" | "tib" => KI * KI * KI * KI,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return None,
    })
}

/// Bytes: `4KiB`, `4k`, `1GiB`, `4096B`. `k`, `m`, `g`, `t` are binary, as usual for storage; `kB`, `MB`,
/// `GB`, `TB` are decimal.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let wrong = || {
        QuantityError(format!(
            "`{text}` is not a size: write a number with B, KiB, MiB or GiB, such as \"64KiB\""
        ))
    };
    let (value, unit) = split(text).ok_or_else(wrong)?;
    let bytes = value * bytes_factor(unit).ok_or_else(wrong)?;
    if bytes >= 9.2e18 { Err(wrong()) } else { Ok(bytes.round() as u64) }
}

/// A duration: `10s`, `500us`, `1h30m`, `2.5ms`.
pub fn parse_duration(text: &str) -> Result<Nanos, QuantityError> {
    let wrong = || {
        QuantityError(format!(
            "`{text}` is not a duration: write a number with us, ms, s, m or h, such as \"30s\""
        ))
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let (value, after) = split(rest).ok_or_else(wrong)?;
        let unit_end = after.find(|c: char| !(c.is_alphabetic() || c == 'µ')).unwrap_or(after.len());
        let factor = match &after[..unit_end] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => MILLISECOND as f64,
            "s" | "sec" => SECOND as f64,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            _ => return Err(wrong()),
        };
        total += value * factor;
        rest = after[unit_end..].trim_start();
    }
    if total >= 9.2e18 { Err(wrong()) } else { Ok(total.round() as Nanos) }
}

/// Operations per second: `2000/s`, `60k/s`, `90/m`.
pub fn parse_rate(text: &str) -> Result<f64, QuantityError> {
    let wrong =
        || QuantityError(format!("`{text}` is not a rate: write operations per second, such as \"2000/s\""));
    let (value, unit) = split(text).ok_or_else(wrong)?;
    let (scale, per) = unit.split_once('/').ok_or_else(wrong)?;
    let scale = match scale.trim() {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        _ => return Err(wrong()),
    };
    let per_s = match per.trim() {
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let rate = value * scale / per_s;
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err(wrong()) }
}

/// Bytes per second: `100MB/s`, `64MiB/s`.
pub fn parse_bytes_per_s(text: &str) -> Result<f64, QuantityError> {
    let wrong = || {
        QuantityError(format!("`{text}` is not a transfer rate: write bytes per second, such as \"100MB/s\""))
    };
    let (size, per) = text.rsplit_once('/').ok_or_else(wrong)?;
    if per.trim() != "s" {
        return Err(wrong());
    }
    let (value, unit) = split(size).ok_or_else(wrong)?;
    let rate = value * bytes_factor(unit).ok_or_else(wrong)?;
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err(wrong()) }
}

/// A percentage: `95%` gives 95.0.
pub fn parse_percent(text: &str) -> Result<f64, QuantityError> {
    let wrong = || QuantityError(format!("`{text}` is not a share: write a percentage, such as \"70%\""));
    match split(text) {
        Some((value, "%")) if value <= 100.0 => Ok(value),
        _ => Err(wrong()),
    }
}

/// The shortest exact notation of a size: `64KiB`; `4096B` becomes `4KiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if value >= size && value.is_multiple_of(size) {
            return format!("{}{unit}", value / size);
        }
    }
    format!("{value}B")
}

/// A size of decimal units, of which a user may have meant binary ones: `64KB`, and the `64KiB` beside it. None for a size
/// of whole KiB, or of no whole kB.
pub fn decimal_size(value: u64) -> Option<(String, u64, String)> {
    const UNITS: [(u64, &str, u64, &str); 4] = [
        (1_000_000_000_000, "TB", 1 << 40, "TiB"),
        (1_000_000_000, "GB", 1 << 30, "GiB"),
        (1_000_000, "MB", 1 << 20, "MiB"),
        (1_000, "KB", 1 << 10, "KiB"),
    ];
    if value.is_multiple_of(1024) {
        return None;
    }
    let (size, unit, binary_size, binary) =
        UNITS.into_iter().find(|(size, ..)| value >= *size && value.is_multiple_of(*size))?;
    let count = value / size;
    Some((format!("{count}{unit}"), count.checked_mul(binary_size)?, format!("{count}{binary}")))
}

/// The shortest exact notation of a duration: `30s`, `1500ms`, `250us`.
pub fn duration(value: Nanos) -> String {
    for (unit, size) in
        [("h", 3600 * SECOND), ("m", 60 * SECOND), ("s", SECOND), ("ms", MILLISECOND), ("us", 1000)]
    {
        if value >= size && value.is_multiple_of(size) {
            return format!("{}{unit}", value / size);
        }
    }
    if value == 0 { "0s".into() } else { format!("{value}ns") }
}

/// A time of any length in seconds, with three significant digits: `22.0 s`, `38.5 min`, `14.6 h`, `5.79 days`.
pub fn long_time(seconds: f64) -> String {
    const UNITS: [(f64, f64, &str); 3] =
        [(2.0 * 86400.0, 86400.0, "days"), (2.0 * 3600.0, 3600.0, "h"), (120.0, 60.0, "min")];
    let (divisor, unit) =
        UNITS.iter().find(|of| seconds >= of.0).map_or((1.0, "s"), |(_, divisor, unit)| (*divisor, *unit));
    let value = seconds / divisor;
    let number = if value >= 1000.0 { thousands(value) } else { three_figures(value) };
    format!("{number} {unit}")
}

/// The shortest exact notation of a rate: `2000/s`.
pub fn rate(value: f64) -> String {
    format!("{value}/s")
}

/// The shortest exact notation of a transfer rate: `100MB/s`, `64MiB/s`.
pub fn bytes_per_s(value: f64) -> String {
    for (unit, size) in [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)] {
        if value >= size && (value / size).fract() == 0.0 {
            return format!("{}{unit}/s", value / size);
        }
    }
    for (unit, size) in [("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0), ("KiB", 1024.0)] {
        if value >= size && (value / size).fract() == 0.0 {
            return format!("{}{unit}/s", value / size);
        }
    }
    format!("{value}B/s")
}

/// The value rounded to three significant digits where it has more before the point: 2552 as 2550.
pub fn three_figures_of(value: f64) -> f64 {
    if !(value.abs() >= 1000.0 && value.is_finite()) {
        return value;
    }
    let step = 10f64.powf(value.abs().log10().floor() - 2.0);
    (value / step).round() * step
}

/// Three significant digits, without an exponent: 71.2, 0.410, 1230, 12.0.
pub fn three_figures(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let value = three_figures_of(value);
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    // 9.996 is rounded up to 10.00: one digit too many.
    let figures = text.trim_start_matches(['-', '0', '.']).chars().filter(char::is_ascii_digit).count();
    if decimals > 0 && figures > 3 { format!("{value:.prec$}", prec = decimals - 1) } else { text }
}

/// Groups the digits of a count by thousands with a thin separator: 61 200 as `61,200`.
pub fn thousands(value: f64) -> String {
    let text = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 && out != "0" { format!("-{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_in_the_unit_people_plan_with() {
        for (seconds, text) in [
            (0.0512, "0.0512 s"),
            (119.0, "119 s"),
            (120.0, "2.00 min"),
            (7200.0, "2.00 h"),
            (40_932.0, "11.4 h"),
            (524_288.0, "6.07 days"),
            (86_400.0 * 36_500.0, "36,500 days"),
        ] {
            assert_eq!(long_time(seconds), text);
        }
    }

    #[test]
    fn decimal_sizes_are_known_and_their_binary_neighbours() {
        let found =
            |value| decimal_size(value).map(|(written, bytes, binary)| format!("{written} {bytes} {binary}"));
        for (value, expected) in [
            (64_000, Some("64KB 65536 64KiB")),
            (1_000_000_000, Some("1GB 1073741824 1GiB")),
            (1_500_000, Some("1500KB 1536000 1500KiB")),
            (64 << 10, None),
            (512_000, None),
            (4096, None),
            (700, None),
            (0, None),
        ] {
            assert_eq!(found(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn reads_what_people_write() {
        for (text, expected) in [
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("4096B", 4096),
            ("1.5MiB", 1_572_864),
            ("1 GiB", 1 << 30),
        ] {
            assert_eq!(parse_bytes(text), Ok(expected), "{text}");
        }
        for (text, expected) in
            [("10s", 10 * SECOND), ("500us", 500_000), ("1h30m", 5400 * SECOND), ("2.5ms", 2_500_000)]
        {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
        for (text, expected) in [("2000/s", 2000.0), ("60k/s", 60_000.0), ("90/m", 1.5)] {
            assert_eq!(parse_rate(text), Ok(expected), "{text}");
        }
        assert_eq!(parse_percent("70%"), Ok(70.0));
        assert_eq!(parse_bytes_per_s("100MB/s"), Ok(1e8));
    }

    #[test]
    fn refuses_a_bare_number_where_a_unit_is_due() {
        for text in ["10", "", "s", "10 secnds", "1e99h", "-5s", "NaNs"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["10", "", "KiB", "4x", "-4k"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        for text in ["10", "0/s", "10/x", "k/s"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        // An overflow is rejected for every unit.
        let huge = "9".repeat(307);
        assert!(parse_rate(&format!("{huge}k/s")).is_err());
        assert!(parse_bytes_per_s(&format!("{huge}KiB/s")).is_err());
        assert!(parse_percent("101%").is_err());
    }

    #[test]
    fn three_figures_and_no_more() {
        for (value, expected) in [
            (71.23, "71.2"),
            (0.41, "0.410"),
            (1234.5, "1230"),
            (-8243.0, "-8240"),
            (9996.0, "10000"),
            (9.996, "10.0"),
            (0.0, "0"),
            (99.96, "100"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(three_figures(value), expected);
        }
        assert_eq!(thousands(61234.4), "61,234");
        assert_eq!(thousands(999.0), "999");
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_reads_back(value in 0u64..(1 << 50)) {
            proptest::prop_assert_eq!(parse_bytes(&bytes(value)), Ok(value));
            proptest::prop_assert_eq!(parse_duration(&duration(value)), Ok(value));
        }
        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = (parse_bytes(&text), parse_duration(&text), parse_rate(&text), parse_percent(&text), parse_bytes_per_s(&text));
        }
    }
}
