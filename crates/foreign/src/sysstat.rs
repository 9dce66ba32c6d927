//! What the tools of sysstat have in common: the first line, and times.

use crate::Options;
use std::borrow::Cow;

use crate::counters::Notes;
use crate::date::{self, DateOrder};

/// Nanoseconds of a second and of a day.
pub(crate) const SECOND_NS: i64 = 1_000_000_000;
pub(crate) const DAY_NS: i64 = 86_400 * SECOND_NS;

/// A clock that goes back by about an hour was set back at the end of summer time.
const SUMMER_NS: std::ops::RangeInclusive<i64> = 2_700 * SECOND_NS..=4_500 * SECOND_NS;

/// The first line: `Linux 5.4.0 (db1) 10/12/2020 _x86_64_ (4 CPU)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Banner<'a> {
    pub(crate) host: &'a str,
    date: &'a str,
}

impl<'a> Banner<'a> {
    /// The banner in a line; none for another line.
    pub(crate) fn parse(line: &'a str) -> Option<Banner<'a>> {
        let rest = line.trim_start_matches('\u{feff}').strip_prefix("Linux ")?;
        let (_, rest) = rest.split_once(" (")?;
        let (host, rest) = rest.split_once(')')?;
        let date = rest.split_whitespace().next()?;
        date.starts_with(|first: char| first.is_ascii_digit()).then_some(Banner { host, date })
    }

    /// Its midnight in local time, nanoseconds since 1970, and the order of day and month.
    pub(crate) fn midnight_ns(
        &self,
        options: &Options,
        line: u64,
        notes: &mut Notes,
    ) -> Option<(i64, DateOrder)> {
        read_time(&format!("{} 00:00:00", self.date), options, line, notes)
    }
}

/// Nanoseconds since 1970 of a date with its time, as if the time were UTC, and the order of day and month.
pub(crate) fn read_time(
    text: &str,
    options: &Options,
    line: u64,
    notes: &mut Notes,
) -> Option<(i64, DateOrder)> {
    let text = western(text);
    let at = |order| date::unix_ns(text.as_bytes(), order);
    let order = options.date_order.or_else(|| date::order_of([text.as_bytes()].into_iter()))?;
    let other = match order {
        DateOrder::MonthFirst => DateOrder::DayFirst,
        DateOrder::DayFirst => DateOrder::MonthFirst,
    };
    let is_same = at(other).is_none_or(|ns| Some(ns) == at(order));
    if options.date_order.is_none() && text.contains('/') && !is_same {
        notes.add(
            "day and month of a date may be exchanged: the month was taken as the first",
            line,
            "say which comes first with --date-order",
        );
    }
    Some((at(order)?, order))
}

/// A line without its colors, which `S_COLORS=always` adds.
pub(crate) fn plain(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len());
    for (at, part) in line.split("\u{1b}[").enumerate() {
        let end = if at == 0 { 0 } else { part.find('m').map_or(0, |end| end + 1) };
        text.push_str(&part[end..]);
    }
    Cow::Owned(text)
}

/// A date or time with the signs of Japan and China, in western signs.
fn western(text: &str) -> String {
    let sign = |character| match character {
        '年' | '月' => Some('/'),
        '時' | '时' | '分' => Some(':'),
        '日' | '秒' => None,
        other => Some(other),
    };
    text.chars().filter_map(sign).collect()
}

/// A time at the begin of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Seconds since midnight.
    Day(i64),
    /// Seconds since 1970.
    Unix(i64),
}

/// The time at the begin of a line, and what follows: `12:10:01 AM`, `00:10:01`, `10:46:25 AM IST`, `1555593639`.
pub(crate) fn clock(line: &str) -> Option<(Clock, &str)> {
    let line = line.trim_start();
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    let (word, rest) = (&line[..end], line[end..].trim_start());
    if word.len() >= 9 && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some((Clock::Unix(word.parse().ok()?), rest));
    }
    let is_western = word.is_ascii();
    let written;
    let digits = if is_western {
        word
    } else {
        written = western(word);
        written.as_str()
    };
    let mut parts = digits.split(':').map(|part| match part.len() {
        1 | 2 => part.parse::<i64>().ok(),
        _ => None,
    });
    let (mut hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = rest;
    for (half, add) in [("AM", 0), ("PM", 12)] {
        if let Some(after) =
            rest.strip_prefix(half).filter(|after| after.starts_with(char::is_whitespace) || after.is_empty())
        {
            if !(1..=12).contains(&hour) {
                return None;
            }
            hour = hour % 12 + add;
            rest = after.trim_start();
        }
    }
    Some((Clock::Day(3600 * hour + 60 * minute + second), rest))
}

/// A clock that shows the time of day, followed over midnight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Course {
    /// The last time that it showed, with its day.
    pub(crate) local_ns: i64,
    /// What was added since it was set back.
    pub(crate) shifted_ns: i64,
}

impl Course {
    /// Nanoseconds since 1970 in local time.
    pub(crate) fn ns(&self) -> i64 {
        self.local_ns.saturating_add(self.shifted_ns)
    }

    /// Goes on to the next time. True if the clock was set back by about an hour.
    pub(crate) fn go_to(&mut self, clock: Clock) -> bool {
        let seconds = match clock {
            Clock::Unix(seconds) => {
                *self = Course { local_ns: seconds.saturating_mul(SECOND_NS), shifted_ns: 0 };
                return false;
            }
            Clock::Day(seconds) => seconds,
        };
        let midnight_ns = self.local_ns.saturating_sub(self.local_ns.rem_euclid(DAY_NS));
        let next_ns = midnight_ns.saturating_add(seconds * SECOND_NS);
        let back_ns = self.local_ns.saturating_sub(next_ns);
        let is_set_back = SUMMER_NS.contains(&back_ns);
        if is_set_back {
            self.shifted_ns = self.shifted_ns.saturating_add(3_600 * SECOND_NS);
        }
        self.local_ns = if back_ns > 0 && !is_set_back { next_ns.saturating_add(DAY_NS) } else { next_ns };
        is_set_back
    }
}

/// The windows of samples that follow each other.
#[derive(Default)]
pub(crate) struct Timeline {
    before_ns: Option<i64>,
    shifted_ns: i64,
}

impl Timeline {
    /// What follows has nothing to do with what was before: its first window has no length.
    pub(crate) fn begin(&mut self) {
        self.before_ns = None;
        self.shifted_ns = 0;
    }

    /// The window that ends at a time; none if the time is not later than the one before.
    pub(crate) fn window(&mut self, end_ns: i64, line: u64, notes: &mut Notes) -> Option<(i64, i64)> {
        let mut end_ns = end_ns.saturating_add(self.shifted_ns);
        let before_ns = self.before_ns.unwrap_or(end_ns);
        if SUMMER_NS.contains(&before_ns.saturating_sub(end_ns)) {
            self.shifted_ns += 3_600 * SECOND_NS;
            end_ns = end_ns.saturating_add(3_600 * SECOND_NS);
            notes.add(SUMMER, line, "");
        }
        if self.before_ns.is_some() && end_ns <= before_ns {
            notes.add("a sample is not later than the one before and was left out", line, "");
            return None;
        }
        self.before_ns = Some(end_ns);
        Some((before_ns, end_ns))
    }
}

/// What is noted where a clock was set back by an hour.
pub(crate) const SUMMER: &str =
    "the clock went back by an hour, as at the end of summer time: an hour is added from here on";

/// What is noted where a cell is no number.
pub(crate) const NO_NUMBER: &str = "a value is no number and was left out";

/// What is noted where there are too many columns.
pub(crate) const TOO_MANY: &str = "the log has more than 65,536 counters: a further one was left out";

/// Seconds between two reports, if a line has the command with it: `$ vmstat -w 5 100`.
pub(crate) fn interval_s(line: &str, tool: &str) -> Option<i64> {
    let mut words = line.split_whitespace().skip_while(|word| word.rsplit('/').next() != Some(tool)).skip(1);
    let found = words.find_map(|word| word.parse::<i64>().ok())?;
    (1..=86_400).contains(&found).then_some(found)
}

/// A number of sysstat, with a point or a comma, and perhaps a percent sign.
pub(crate) fn number(cell: &str) -> Option<f64> {
    let cell = cell.strip_suffix('%').unwrap_or(cell);
    match cell.bytes().next() {
        Some(b'0'..=b'9' | b'-' | b'+' | b'.') => crate::number::decimal(cell.as_bytes(), true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_host_and_date() {
        for (line, host, expected) in [
            ("Linux 5.4.0 (db1) \t10/12/2020 \t_x86_64_\t(4 CPU)", "db1", Some("2020-10-12T00:00:00Z")),
            ("Linux 5.4.0 (db1) \t2020-10-12 \t_x86_64_\t(4 CPU)", "db1", Some("2020-10-12T00:00:00Z")),
            ("Linux 2.6.32 (db1) \t31.12.2014", "db1", Some("2014-12-31T00:00:00Z")),
            ("Linux 5.4.0 (db1) \t10/12/20 \t_x86_64_\t(4 CPU)", "db1", Some("2020-10-12T00:00:00Z")),
            ("Linux 5.4.0 (db1) \t2020年10月12日 \t_x86_64_\t(4 CPU)", "db1", Some("2020-10-12T00:00:00Z")),
            ("Linux 5.4.0 (db1) \t99/99/2020", "db1", None),
        ] {
            let banner = Banner::parse(line).unwrap();
            assert_eq!(banner.host, host);
            let found = banner.midnight_ns(&Options::default(), 1, &mut Notes::default());
            let expected =
                expected.map(|text| text.parse::<jiff::Timestamp>().unwrap().as_nanosecond() as i64);
            assert_eq!(found.map(|(ns, _)| ns), expected, "{line}");
        }
        assert_eq!(Banner::parse("SunOS db1 5.10"), None);
        assert_eq!(Banner::parse("Linux (db1) today"), None);
    }

    #[test]
    fn times_have_many_forms() {
        for (line, expected) in [
            ("12:10:01 AM  CPU", Some((Clock::Day(601), "CPU"))),
            ("12:10:01 PM  CPU", Some((Clock::Day(43_801), "CPU"))),
            ("00:10:01        CPU", Some((Clock::Day(601), "CPU"))),
            ("10:46:25 AM IST  kb", Some((Clock::Day(38_785), "IST  kb"))),
            ("10時10分01秒 CPU", Some((Clock::Day(36_601), "CPU"))),
            ("1555593639 all", Some((Clock::Unix(1_555_593_639), "all"))),
            ("13:10:01 PM CPU", None),
            ("Average: all", None),
            ("1:2 x", None),
            ("", None),
        ] {
            assert_eq!(clock(line), expected, "{line}");
        }
    }

    #[test]
    fn colors_are_left_out() {
        for (line, expected) in [
            ("a  b", "a  b"),
            ("10:00:00  \u{1b}[32;22m all\u{1b}[0m\u{1b}[34;1m 2.71\u{1b}[0m", "10:00:00   all 2.71"),
            ("\u{1b}[é", "é"),
        ] {
            assert_eq!(plain(line), expected);
        }
    }

    #[test]
    fn the_command_has_the_interval() {
        for (line, expected) in [
            ("$ vmstat 5 100", Some(5)),
            ("# /usr/bin/vmstat -w -t 10", Some(10)),
            ("vmstat", None),
            ("5 vmstat", None),
            ("procs ---memory--- 5", None),
            ("vmstat 0", None),
        ] {
            assert_eq!(interval_s(line, "vmstat"), expected, "{line}");
        }
    }

    #[test]
    fn windows_follow_each_other() {
        let (mut line, mut notes) = (Timeline::default(), Notes::default());
        let mut window = |seconds: i64| {
            line.window(seconds * SECOND_NS, 1, &mut notes).map(|(a, b)| (a / SECOND_NS, b / SECOND_NS))
        };
        assert_eq!(window(10_000), Some((10_000, 10_000)));
        assert_eq!(window(10_010), Some((10_000, 10_010)));
        assert_eq!(window(10_005), None);
        assert_eq!(window(6_420), Some((10_010, 10_020)));
        assert_eq!(notes.list().len(), 2);
    }

    #[test]
    fn a_clock_is_followed_over_midnight_and_the_end_of_summer_time() {
        let mut course = Course { local_ns: DAY_NS + 86_000 * SECOND_NS, shifted_ns: 0 };
        assert!(!course.go_to(Clock::Day(10)));
        assert_eq!(course.ns(), 2 * DAY_NS + 10 * SECOND_NS);
        assert!(!course.go_to(Clock::Day(10_000)));
        assert!(course.go_to(Clock::Day(6_410)));
        assert_eq!(course.ns(), 2 * DAY_NS + 10_010 * SECOND_NS);
        assert!(!course.go_to(Clock::Day(6_420)));
        assert_eq!(course.ns(), 2 * DAY_NS + 10_020 * SECOND_NS);
    }

    #[test]
    fn numbers_may_have_a_percent_sign_or_a_comma() {
        for (cell, expected) in [
            ("1.5", Some(1.5)),
            ("1,5", Some(1.5)),
            ("2.1%", Some(2.1)),
            ("-1", Some(-1.0)),
            ("2.5k", None),
            ("inf", None),
        ] {
            assert_eq!(number(cell), expected, "{cell}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in ".{0,40}", times in proptest::collection::vec(0_i64..90_000, 0..20)) {
            Banner::parse(&text);
            clock(&text);
            number(&text);
            let mut course = Course::default();
            for time in times {
                let before = course.ns();
                course.go_to(Clock::Day(time));
                proptest::prop_assert!(course.ns() >= before || course.shifted_ns > 0);
            }
        }
    }
}
