//! Times in the format of SCIM.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(super) fn unix_ms(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// `1994-11-06T08:49:37.250Z`.
pub(super) fn scim(unix_ms: i64) -> String {
    let unix_s = unix_ms.div_euclid(1000);
    let (year, month, day) = date(unix_s.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}T{}.{:03}Z", of_day(unix_s), unix_ms.rem_euclid(1000))
}

fn of_day(unix_s: i64) -> String {
    let seconds = unix_s.rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The date of a day, counted from 1 January 1970: Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_standard_has_them() {
        assert_eq!(scim(784_111_777_250), "1994-11-06T08:49:37.250Z");
        assert_eq!(scim(951_868_799_999), "2000-02-29T23:59:59.999Z");
    }
}
