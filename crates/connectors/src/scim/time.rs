//! Times in the formats of HTTP and SCIM.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The `Date` of a response, `Sun, 06 Nov 1994 08:49:37 GMT`, in seconds since 1970.
pub(super) fn of_http(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words.as_slice() else { return None };
    let number =
        |text: &str, most: i64| text.parse::<i64>().ok().filter(|number| (0..=most).contains(number));
    let month = MONTHS.iter().position(|name| name == month)? as i64 + 1;
    let parts: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = parts.as_slice() else { return None };
    let days = days(number(year, 9999)?, month, number(day, 31)?);
    Some(days * 86_400 + number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?)
}

/// A time in the format of RFC 3339: `1994-11-06T08:49:37Z`.
pub(super) fn to_rfc3339(unix_s: i64) -> String {
    let (days, seconds) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    // Days of a year that begins in March, in eras of 400 years: Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Days since 1970.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_of_http_is_written_as_scim_has_it() {
        for (http, scim) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"),
            ("Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00Z"),
            ("Tue, 29 Feb 2000 23:59:59 GMT", "2000-02-29T23:59:59Z"),
            ("Sun, 31 Dec 2026 12:00:00 GMT", "2026-12-31T12:00:00Z"),
        ] {
            assert_eq!(to_rfc3339(of_http(http).unwrap()), scim);
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Sun, x Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(of_http(text), None, "{text}");
        }
    }
}
