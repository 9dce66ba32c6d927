//! A range of levels: `"1..64"`, `"1GiB..16GiB"`.

use crate::{Level, SettingKind};

/// Most levels of a range of whole numbers.
const WHOLE_MAX: u64 = 1000;
/// Steps of a doubling of a size: 1.6 % to 3.1 % each.
const STEPS_OF_DOUBLING: u64 = 32;

/// The levels of a range, both ends included; none for a text that is no range. A range of whole numbers has all of
/// them; of sizes, steps of 1/32 of a power of two; of other quantities, all numbers with two significant digits.
///
/// # Errors
/// Why it is no range of this kind, with what to write.
pub(super) fn levels(text: &str, kind: &SettingKind) -> Option<Result<Vec<Level>, String>> {
    let can_be = !matches!(kind, SettingKind::Text | SettingKind::Texts | SettingKind::Choice(_))
        && kind.path_use().is_none();
    let (from, to) = text.split_once("..").filter(|_| can_be && !kind.is_secret())?;
    Some(between(from, to, kind).map_err(|why| format!("`{text}`: {why}")))
}

fn between(from: &str, to: &str, kind: &SettingKind) -> Result<Vec<Level>, String> {
    let (low, high) = (kind.parse(from)?, kind.parse(to)?);
    let of_grid = |low: f64, high: f64, level: fn(f64) -> Level| {
        two_digits(low, high).map(|numbers| numbers.into_iter().map(level).collect::<Vec<Level>>())
    };
    let steps = match (&low, &high) {
        (Level::Count(low), Level::Count(high)) => whole(*low, *high)?.map(Level::Count).collect(),
        (Level::Bytes(low), Level::Bytes(high)) => sizes(*low, *high)?,
        (Level::Number(low), Level::Number(high)) => of_grid(*low, *high, Level::Number)?,
        (Level::Rate(low), Level::Rate(high)) => of_grid(*low, *high, Level::Rate)?,
        (Level::Percent(low), Level::Percent(high)) => of_grid(*low, *high, Level::Percent)?,
        (Level::BytesPerSecond(low), Level::BytesPerSecond(high)) => {
            of_grid(*low, *high, Level::BytesPerSecond)?
        }
        (Level::Time(low), Level::Time(high)) => {
            of_grid(*low as f64, *high as f64, |ns| Level::Time(ns.round() as u64))?
        }
        // Values of configuration files have no kind.
        (Level::Text(low), Level::Text(high)) => match (low.parse::<u64>(), high.parse::<u64>()) {
            (Ok(low), Ok(high)) => whole(low, high)?.map(|number| Level::Text(number.to_string())).collect(),
            _ => return Err("a range is between two numbers; list the levels instead".into()),
        },
        _ => return Err("a range is between two numbers; list the levels instead".into()),
    };
    let mut levels = vec![low];
    for level in steps.into_iter().chain([high]) {
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    Ok(levels)
}

const NOT_ASCENDING: &str = "the first end of a range must be smaller than the second";

fn whole(low: u64, high: u64) -> Result<std::ops::RangeInclusive<u64>, String> {
    match high.checked_sub(low) {
        None | Some(0) => Err(NOT_ASCENDING.into()),
        Some(steps) if steps >= WHOLE_MAX => {
            Err(format!("a range has at most {WHOLE_MAX} whole numbers; list the levels instead"))
        }
        Some(_) => Ok(low..=high),
    }
}

fn sizes(low: u64, high: u64) -> Result<Vec<Level>, String> {
    if low >= high {
        return Err(NOT_ASCENDING.into());
    }
    let mut sizes = Vec::new();
    let mut size = low.max(1);
    while size < high {
        let step = ((1 << size.ilog2()) / STEPS_OF_DOUBLING).max(1);
        size = (size / step + 1) * step;
        if size < high {
            sizes.push(Level::Bytes(size));
        }
    }
    Ok(sizes)
}

/// The numbers with two significant digits between two others.
fn two_digits(low: f64, high: f64) -> Result<Vec<f64>, String> {
    // Ten decades are more than a thousand levels.
    if low >= high || low < 0.0 || high > 1e10 * low.max(f64::MIN_POSITIVE) {
        let why =
            "a range needs two numbers greater than 0, the smaller one first; list other levels instead";
        return Err(why.into());
    }
    let mut numbers = Vec::new();
    let mut exponent = low.log10().floor() as i32 - 1;
    loop {
        for digits in 10..100_u32 {
            // Parsed from its decimal notation, which is exact to the last digit.
            let number = format!("{digits}e{exponent}").parse::<f64>().unwrap_or(f64::NAN);
            if number >= high {
                return Ok(numbers);
            }
            if number > low {
                numbers.push(number);
            }
        }
        exponent += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, kind: SettingKind) -> Vec<String> {
        levels(text, &kind).unwrap().unwrap().iter().map(Level::to_string).collect()
    }

    #[test]
    fn a_range_has_both_ends_and_what_is_between() {
        let count = SettingKind::Count { min: 1, max: 5000 };
        assert_eq!(texts("1..5", count), ["1", "2", "3", "4", "5"]);
        assert_eq!(texts("8 .. 10", SettingKind::Value), ["8", "9", "10"]);
        let sizes = texts("1GiB..2GiB", SettingKind::Bytes);
        assert_eq!((sizes.len(), sizes[1].as_str(), sizes[31].as_str()), (33, "1056MiB", "2016MiB"));
        assert_eq!(texts("1000B..1100B", SettingKind::Bytes)[..3], ["1000B", "1008B", "1KiB"]);
        assert_eq!(
            texts("98ms..130ms", SettingKind::Time),
            ["98ms", "99ms", "100ms", "110ms", "120ms", "130ms"]
        );
        assert_eq!(
            texts("0.95..1.2", SettingKind::CpuLimit),
            ["0.95", "0.96", "0.97", "0.98", "0.99", "1", "1.1", "1.2"]
        );
        assert_eq!(texts("10%..50%", SettingKind::Percent).len(), 41);
    }

    #[test]
    fn what_is_no_range_is_said() {
        let count = SettingKind::Count { min: 1, max: 5000 };
        for (text, kind, expected) in [
            ("5..1", count, "the first end of a range must be smaller"),
            ("1..5000", count, "a range has at most 1000 whole numbers"),
            ("0..5", count, "`0` is not"),
            ("4KiB..2KiB", SettingKind::Bytes, "the first end of a range must be smaller"),
            ("0s..2s", SettingKind::Time, "a range needs two numbers greater than 0"),
            ("a..b", SettingKind::Value, "a range is between two numbers"),
            ("1..", count, "`` is not"),
        ] {
            let why = levels(text, &kind).unwrap().unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
        assert_eq!(levels("a..b", &SettingKind::Text), None);
        assert_eq!(levels("12", &count), None);
    }
}
