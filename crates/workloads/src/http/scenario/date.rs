//! Dates of cookies (RFC 6265 section 5.1.1) and of HAR files (RFC 3339).

/// Days from 1970-01-01 to a date of the Gregorian calendar (Hinnant: "chrono-compatible low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date of a cookie in seconds since 1970; none if it is not a date.
pub(super) fn cookie_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let is_delimiter = |c: char| !(c.is_ascii_alphanumeric() || c == ':') && (c as u32) < 128;
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(is_delimiter).filter(|token| !token.is_empty()) {
        if time.is_none()
            && let Some(found) = time_of_day(token)
        {
            time = Some(found);
            continue;
        }
        let digits = token.bytes().take_while(u8::is_ascii_digit).count();
        let number = || token.get(..digits).and_then(|digits| digits.parse::<i64>().ok());
        if day.is_none() && (1..=2).contains(&digits) {
            day = number();
        } else if month.is_none()
            && let Some(at) = token
                .get(..3)
                .and_then(|name| MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name)))
        {
            month = Some(at as i64 + 1);
        } else if year.is_none() && matches!(digits, 2 | 4) {
            year = number();
        }
    }
    let year = match year? {
        year @ 70..=99 => year + 1900,
        year @ 0..=69 => year + 2000,
        year => year,
    };
    let (day, (hour, minute, second)) = (day?, time?);
    if !(1..=31).contains(&day) || year < 1601 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(days(year, month?, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// `H:M:S` with one or two digits each.
fn time_of_day(token: &str) -> Option<(i64, i64, i64)> {
    let mut fields = token.split(':').map(|field| {
        let digits = field.bytes().take_while(u8::is_ascii_digit).count();
        field.get(..digits).filter(|_| (1..=2).contains(&digits))?.parse::<i64>().ok()
    });
    let time = (fields.next()??, fields.next()??, fields.next()??);
    fields.next().is_none().then_some(time)
}

/// A time such as `2026-03-01T12:00:00.123+01:00` in milliseconds since 1970; without a zone it is UTC.
pub(super) fn rfc3339_ms(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| text.as_bytes().get(*at) != Some(byte)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let valid =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !valid {
        return None;
    }
    let rest = text.get(19..)?;
    let fraction =
        rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let milliseconds = match fraction {
        0 => 0,
        _ => format!("{:0<3}", rest.get(1..1 + fraction.min(3))?).parse::<i64>().ok()?,
    };
    let zone = rest.get(if fraction == 0 { 0 } else { fraction + 1 }..)?;
    let zone_minutes = match zone.as_bytes().first() {
        Some(sign @ (b'+' | b'-')) => {
            let digits = zone.get(1..)?.replace(':', "");
            let value: i64 = digits.parse().ok().filter(|_| digits.len() == 4)?;
            (value / 100 * 60 + value % 100) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => 0,
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone_minutes * 60;
    Some(seconds * 1000 + milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_servers_write_them() {
        for (text, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Thu, 01-Jan-1970 00:00:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
            ("Tue, 29 Feb 2028 0:0:0 UTC", Some(1_835_395_200)),
            ("06 Nov 1994 24:00:00", None),
            ("0", None),
            ("Nov 1994 08:49:37", None),
        ] {
            assert_eq!(cookie_date(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1970-01-01T00:00:01Z", Some(1000)),
            ("1970-01-01T00:00:01.5", Some(1500)),
            ("1970-01-01T00:00:01.123456Z", Some(1123)),
            ("1970-01-01T01:00:00.000+01:00", Some(0)),
            ("1970-01-01T00:00:00-0130", Some(5_400_000)),
            ("1970-13-01T00:00:00Z", None),
            ("yesterday", None),
        ] {
            assert_eq!(rfc3339_ms(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "([0-9]{1,4}|:|-|T|\\.|\\+|Nov| |\\PC){0,20}") {
            let _ = (cookie_date(&text), rfc3339_ms(&text));
        }
    }
}
