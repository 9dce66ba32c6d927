//! The time zone of a log: `TIME_ZONE_INFORMATION`. Its samples have local times.

use jiff::civil::{Date, DateTime, Time};

use super::bytes::{u16_at, u32_at};

/// Bytes of `TIME_ZONE_INFORMATION`.
pub(super) const BYTES: usize = 172;

const STANDARD_DATE: usize = 68;
const DAYLIGHT_DATE: usize = 152;

/// A time zone with its rules of daylight saving time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Zone {
    /// Seconds to add to local standard time so that it is UTC.
    pub(super) standard_s: i64,
    /// The same for daylight saving time, its begin in standard time, and its end in daylight saving time.
    pub(super) daylight: Option<(i64, Rule, Rule)>,
}

/// A date and time of each year, or of one year: `SYSTEMTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The year; 0 for each one.
    year: i16,
    month: i8,
    /// 0 is Sunday.
    weekday: i8,
    /// The day; in each year the week, where 5 is the last one.
    day: i8,
    hour: i8,
    minute: i8,
}

impl Rule {
    /// None if there is no such time.
    fn parse(bytes: &[u8], at: usize) -> Option<Rule> {
        let part = |index: usize| u16_at(bytes, at + 2 * index).and_then(|part| i16::try_from(part).ok());
        let small = |index: usize| part(index).and_then(|part| i8::try_from(part).ok());
        let rule = Rule {
            year: part(0)?,
            month: small(1)?,
            weekday: small(2)?,
            day: small(3)?,
            hour: small(4)?,
            minute: small(5)?,
        };
        (rule.month > 0 && rule.in_year(2001).is_some()).then_some(rule)
    }

    fn in_year(&self, year: i16) -> Option<DateTime> {
        let time = Time::new(self.hour, self.minute, 0, 0).ok()?;
        if self.year != 0 {
            return Some(Date::new(self.year, self.month, self.day).ok()?.to_datetime(time));
        }
        let weekday = jiff::civil::Weekday::from_sunday_zero_offset(self.weekday).ok()?;
        let nth = if self.day >= 5 { -1 } else { self.day };
        Some(Date::new(year, self.month, 1).ok()?.nth_weekday_of_month(nth, weekday).ok()?.to_datetime(time))
    }
}

impl Zone {
    pub(super) fn parse(bytes: &[u8]) -> Option<Zone> {
        let minutes = |at: usize| u32_at(bytes, at).map(|bias| i64::from(bias.cast_signed()));
        let bias = minutes(0)?;
        let (standard, daylight) = (bias + minutes(84)?, bias + minutes(168)?);
        let is_day = |minutes: i64| (-24 * 60..=24 * 60).contains(&minutes);
        let rules = Rule::parse(bytes, DAYLIGHT_DATE).zip(Rule::parse(bytes, STANDARD_DATE));
        is_day(standard).then(|| Zone {
            standard_s: 60 * standard,
            daylight: rules.filter(|_| is_day(daylight)).map(|(begin, end)| (60 * daylight, begin, end)),
        })
    }

    /// The seconds to add to a local time so that it is UTC, and those of the other time if it may have been that one.
    pub(super) fn offset_s(&self, local_unix_ns: i64) -> (i64, Option<i64>) {
        let standard = (self.standard_s, None);
        let Some((daylight_s, begin, end)) = &self.daylight else { return standard };
        let Ok(local) = jiff::Timestamp::from_nanosecond(i128::from(local_unix_ns)) else { return standard };
        let local = jiff::tz::TimeZone::UTC.to_datetime(local);
        let Some((begin, end)) = begin.in_year(local.year()).zip(end.in_year(local.year())) else {
            return standard;
        };
        let is_daylight = match begin < end {
            true => begin <= local && local < end,
            false => begin <= local || local < end,
        };
        match is_daylight {
            true => (*daylight_s, Some(self.standard_s)),
            false => standard,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The zone of the Pacific coast, as logs of the United States have it.
    pub(crate) fn pacific() -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        bytes[..4].copy_from_slice(&480_u32.to_le_bytes());
        bytes[168..172].copy_from_slice(&(-60_i32).to_le_bytes());
        for (at, month, day) in [(STANDARD_DATE, 11_u16, 1_u16), (DAYLIGHT_DATE, 3, 2)] {
            for (index, part) in [0, month, 0, day, 2, 0].into_iter().enumerate() {
                bytes[at + 2 * index..][..2].copy_from_slice(&part.to_le_bytes());
            }
        }
        bytes
    }

    fn local(text: &str) -> i64 {
        let time: DateTime = text.parse().unwrap();
        let utc = time.to_zoned(jiff::tz::TimeZone::UTC).unwrap();
        i64::try_from(utc.timestamp().as_nanosecond()).unwrap()
    }

    #[test]
    fn summer_has_another_offset() {
        let zone = Zone::parse(&pacific()).unwrap();
        for (time, hours, other) in [
            ("2013-02-19T18:50:17", 8, None),
            ("2013-03-10T01:59:59", 8, None),
            ("2013-03-10T03:00:00", 7, Some(8)),
            ("2013-11-03T01:59:59", 7, Some(8)),
            ("2013-11-03T02:00:00", 8, None),
        ] {
            let expected = (3600 * hours, other.map(|hours: i64| 3600 * hours));
            assert_eq!(zone.offset_s(local(time)), expected, "{time}");
        }
        // In the south, the year begins in summer.
        let (daylight, begin, end) = zone.daylight.unwrap();
        let south = Zone { daylight: Some((daylight, end, begin)), ..zone };
        assert_eq!(south.offset_s(local("2013-01-01T00:00:00")).0, 7 * 3600);
        assert_eq!(south.offset_s(local("2013-07-01T00:00:00")).0, 8 * 3600);
    }

    #[test]
    fn a_zone_without_rules_has_one_offset() {
        let mut bytes = vec![0; BYTES];
        assert_eq!(Zone::parse(&bytes), Some(Zone::default()));
        bytes[..4].copy_from_slice(&(-330_i32).to_le_bytes());
        assert_eq!(Zone::parse(&bytes).unwrap().offset_s(0), (-19_800, None));
        bytes[..4].copy_from_slice(&u32::MAX.wrapping_shr(1).to_le_bytes());
        assert_eq!(Zone::parse(&bytes), None);
        assert_eq!(Zone::parse(&bytes[..100]), None);
    }
}
