//! Dates and times without a zone, in the orders of several countries.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Which of day and month comes first, where the year comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOrder {
    /// `12/31/2014`.
    MonthFirst,
    /// `31/12/2014`.
    DayFirst,
}

/// The order of dates such as these; the month comes first if nothing contradicts it. None if both orders are contradicted.
pub(crate) fn order_of<'a>(dates: impl Iterator<Item = &'a [u8]>) -> Option<DateOrder> {
    let (mut month_first, mut day_first) = (true, true);
    let mut has_dots = false;
    for date in dates {
        let Some(([a, b, _], separator)) = split(date) else { continue };
        if a > 31 {
            continue;
        }
        month_first &= a <= 12;
        day_first &= b <= 12;
        has_dots |= separator == b'.';
    }
    match (month_first, day_first) {
        (false, false) => None,
        (false, true) => Some(DateOrder::DayFirst),
        // Dates with points are written in countries where the day comes first.
        (true, true) if has_dots => Some(DateOrder::DayFirst),
        _ => Some(DateOrder::MonthFirst),
    }
}

/// The three numbers of a date with their separator.
fn split(text: &[u8]) -> Option<([u32; 3], u8)> {
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'T')).unwrap_or(text.len());
    let separator = *text[..end].iter().find(|byte| matches!(byte, b'/' | b'-' | b'.'))?;
    let mut numbers = text[..end].split(|byte| *byte == separator).map(whole);
    let found = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some((found, separator))
}

fn whole(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| 10 * sum + u32::from(digit - b'0')))
}

/// Nanoseconds since 1970 of `12/31/2014 17:04:05.678`, as if the time were UTC. Year first, or as `order` says; a time with
/// AM or PM; a fraction of any length after a point or comma.
pub(crate) fn unix_ns(text: &[u8], order: DateOrder) -> Option<i64> {
    let text = text.trim_ascii();
    let ([a, b, c], _) = split(text)?;
    let (year, month, day) = match (a > 31, order) {
        (true, _) => (a, b, c),
        (false, DateOrder::MonthFirst) => (c, a, b),
        (false, DateOrder::DayFirst) => (c, b, a),
    };
    let year = if year < 70 { year + 2000 } else { year };
    let at = text.iter().position(|byte| matches!(byte, b' ' | b'T'))?;
    let rest = text[at + 1..].trim_ascii();
    let (clock, half) = match rest.iter().position(u8::is_ascii_alphabetic) {
        None => (rest, None),
        Some(at) => (rest[..at].trim_ascii(), Some(rest[at].to_ascii_lowercase())),
    };
    let mut parts = clock.split(|byte| *byte == b':');
    let (mut hour, minute) = (whole(parts.next()?)?, whole(parts.next()?)?);
    let seconds = parts.next().unwrap_or(b"0");
    let point = seconds.iter().position(|byte| matches!(byte, b'.' | b',')).unwrap_or(seconds.len());
    let second = whole(&seconds[..point])?;
    // Iometer and others write the milliseconds after a colon.
    let fraction = match parts.next() {
        Some(fraction) => fraction,
        None => seconds.get(point + 1..).unwrap_or_default(),
    };
    let mut nanos: u32 = 0;
    for at in 0..9 {
        let digit = match fraction.get(at) {
            Some(digit) if digit.is_ascii_digit() => u32::from(digit - b'0'),
            Some(_) => return None,
            None => 0,
        };
        nanos = 10 * nanos + digit;
    }
    match half {
        None => {}
        Some(b'a') if (1..=12).contains(&hour) => hour %= 12,
        Some(b'p') if (1..=12).contains(&hour) => hour = hour % 12 + 12,
        // A zone that is no half of a day.
        Some(b'z') => {}
        Some(_) => return None,
    }
    let small = |number: u32| i8::try_from(number).ok();
    let date = DateTime::new(
        i16::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        i32::try_from(nanos).ok()?,
    );
    let stamp = TimeZone::UTC.to_timestamp(date.ok()?).ok()?;
    i64::try_from(stamp.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_several_countries_are_read() {
        use DateOrder::{DayFirst, MonthFirst};
        for (text, order, expected) in [
            ("12/31/2014 17:04:05.678", MonthFirst, Some("2014-12-31T17:04:05.678Z")),
            ("31/12/2014 17:04:05.678", DayFirst, Some("2014-12-31T17:04:05.678Z")),
            ("31.12.2014 17:04:05,5", DayFirst, Some("2014-12-31T17:04:05.5Z")),
            ("2014-12-31 17:04:05", DayFirst, Some("2014-12-31T17:04:05Z")),
            ("2014-12-31T17:04:05.123456789Z", MonthFirst, Some("2014-12-31T17:04:05.123456789Z")),
            ("1/2/2014 5:04:05 PM", MonthFirst, Some("2014-01-02T17:04:05Z")),
            ("1/2/14 12:04 AM", MonthFirst, Some("2014-01-02T00:04:00Z")),
            ("2014-12-31 17:04:05:678", MonthFirst, Some("2014-12-31T17:04:05.678Z")),
            ("31/12/2014 17:04:05", MonthFirst, None),
            ("12/31/2014", MonthFirst, None),
            ("12/31/2014 25:00:00", MonthFirst, None),
            ("1/2/2014 13:04:05 PM", MonthFirst, None),
            ("noon", MonthFirst, None),
        ] {
            let expected =
                expected.map(|text| text.parse::<jiff::Timestamp>().unwrap().as_nanosecond() as i64);
            assert_eq!(unix_ns(text.as_bytes(), order), expected, "{text}");
        }
    }

    #[test]
    fn the_order_of_day_and_month_is_that_which_fits() {
        use DateOrder::{DayFirst, MonthFirst};
        let of = |dates: &[&str]| order_of(dates.iter().map(|date| date.as_bytes()));
        assert_eq!(of(&["01/02/2014 00:00:00", "01/13/2014 00:00:00"]), Some(MonthFirst));
        assert_eq!(of(&["01/02/2014 00:00:00", "13/02/2014 00:00:00"]), Some(DayFirst));
        assert_eq!(of(&["01/02/2014 00:00:00"]), Some(MonthFirst));
        assert_eq!(of(&["01.02.2014 00:00:00"]), Some(DayFirst));
        assert_eq!(of(&["13/02/2014 00:00:00", "02/13/2014 00:00:00"]), None);
        assert_eq!(of(&["2014-13-02 00:00:00", "x"]), Some(MonthFirst));
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            for order in [DateOrder::MonthFirst, DateOrder::DayFirst] {
                unix_ns(&text, order);
            }
            order_of([text.as_slice()].into_iter());
        }
    }
}
