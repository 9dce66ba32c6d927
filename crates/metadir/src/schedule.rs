//! When a scheduled run is due, as a function of the clock, and what is kept of its last run.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use crate::config::{Schedule, Serve};

/// A clock that was set back by less keeps times of day from being repeated. After more, the times before are
/// forgotten.
const SET_BACK_MAX_S: i64 = 86_400;
/// Days that are searched for the next time of day: every weekday occurs in them.
const DAYS_AHEAD: i64 = 8;

/// The time zone of the times of day.
///
/// # Errors
/// When the database of time zones has no zone of this name any more.
pub fn zone(serve: &Serve) -> Result<TimeZone, String> {
    match &serve.time_zone {
        None => Ok(TimeZone::system()),
        Some(name) => TimeZone::get(name).map_err(|error| format!("time_zone {name:?}: {error}")),
    }
}

/// When a run is due by its `every` and `at`, seconds since 1970; in the past if it is due now. None if neither
/// applies. `last` is the begin of its last run, none if there was none; `since` is when the schedule was first seen.
pub fn due_unix_s(
    schedule: &Schedule,
    zone: &TimeZone,
    last: Option<i64>,
    since: i64,
    now: i64,
) -> Option<i64> {
    let every = schedule.every.map(|every| match last {
        // A begin in the future: the clock was set back.
        Some(last) => last.min(now).saturating_add(i64::try_from(every.as_secs()).unwrap_or(i64::MAX)),
        None => since.min(now),
    });
    let after = last.unwrap_or(since);
    let after = if after > now.saturating_add(SET_BACK_MAX_S) { now } else { after };
    let at = if schedule.at.is_empty() { None } else { time_of_day(schedule, zone, after) };
    every.into_iter().chain(at).min()
}

/// The first time of day after a moment. A time that a change to summer time skips is one hour later on that day; a
/// time that occurs twice is the first of both.
fn time_of_day(schedule: &Schedule, zone: &TimeZone, after: i64) -> Option<i64> {
    let first = Timestamp::from_second(after).ok()?.to_zoned(zone.clone()).date();
    (0..=DAYS_AHEAD).find_map(|days| {
        let date = first.checked_add(days.days()).ok()?;
        let is_day = schedule.days.is_empty()
            || schedule.days.contains(&(date.weekday().to_monday_zero_offset() as u8));
        let times = schedule.at.iter().filter_map(|(hour, minute)| moment(zone, date, *hour, *minute));
        times.filter(|time| is_day && *time > after).min()
    })
}

fn moment(zone: &TimeZone, date: Date, hour: i8, minute: i8) -> Option<i64> {
    let time = zone.to_ambiguous_zoned(date.at(hour, minute, 0, 0)).compatible().ok()?;
    Some(time.timestamp().as_second())
}

/// What is kept of the runs of a schedule, in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleState {
    /// When the last run began, seconds since 1970; none if there was none.
    pub began_unix_s: Option<i64>,
    /// When it ended; none while it runs, and when it was killed.
    pub ended_unix_s: Option<i64>,
    /// How it ended: `success`, `errors` or `stopped`.
    pub result: String,
    /// Why, if it was stopped.
    pub why: String,
    /// When the last run began that was not stopped.
    pub success_unix_s: Option<i64>,
    /// When the first of the runs began that were stopped since then.
    pub failing_unix_s: Option<i64>,
}

impl ScheduleState {
    /// As the store keeps it.
    pub fn text(&self) -> String {
        let ScheduleState { began_unix_s, ended_unix_s, result, why, success_unix_s, failing_unix_s } = self;
        let value = json!({
            "began_unix_s": began_unix_s,
            "ended_unix_s": ended_unix_s,
            "result": result,
            "why": why,
            "success_unix_s": success_unix_s,
            "failing_unix_s": failing_unix_s,
        });
        value.to_string()
    }

    /// Reads what the store kept. What cannot be read is as if there had been no run.
    pub fn parse(text: &str) -> ScheduleState {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
        let number = |key: &str| value[key].as_i64();
        ScheduleState {
            began_unix_s: number("began_unix_s"),
            ended_unix_s: number("ended_unix_s"),
            result: text("result"),
            why: text("why"),
            success_unix_s: number("success_unix_s"),
            failing_unix_s: number("failing_unix_s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn schedule() -> Schedule {
        Schedule {
            run: 0,
            every: None,
            at: Vec::new(),
            days: Vec::new(),
            on_change: Vec::new(),
            quiet: Duration::from_secs(5),
            span: 0..0,
        }
    }

    fn time(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_second()
    }

    fn shown(due: Option<i64>) -> String {
        Timestamp::from_second(due.unwrap()).unwrap().to_string()
    }

    #[test]
    fn an_interval_counts_from_the_begin_of_the_last_run() {
        let schedule = Schedule { every: Some(Duration::from_secs(300)), ..schedule() };
        let due = |last, now| due_unix_s(&schedule, &TimeZone::UTC, last, 1_000, now);
        // The first run is due at once.
        assert_eq!(due(None, 1_000), Some(1_000));
        assert_eq!(due(Some(1_000), 1_100), Some(1_300));
        // Missed many times: due once.
        assert_eq!(due(Some(1_000), 90_000), Some(1_300));
        // The clock was set back by a year.
        assert_eq!(due(Some(40_000_000), 9_000_000), Some(9_000_300));
        assert_eq!(due_unix_s(&super::tests::schedule(), &TimeZone::UTC, None, 0, 0), None);
    }

    #[test]
    fn a_time_of_day_is_due_once_a_day_also_when_the_clocks_change() {
        let zone = TimeZone::get("Europe/Oslo").unwrap();
        let schedule = Schedule { at: vec![(2, 30)], ..schedule() };
        let due = |last: &str, now: &str| shown(due_unix_s(&schedule, &zone, Some(time(last)), 0, time(now)));
        let winter = "2026-01-10T12:00:00Z";
        assert_eq!(due(winter, winter), "2026-01-11T01:30:00Z");
        // 29 March: 02:30 does not exist, and becomes 03:30.
        let skipped = "2026-03-29T01:30:00Z";
        assert_eq!(due("2026-03-28T01:30:00Z", "2026-03-28T12:00:00Z"), skipped);
        assert_eq!(due(skipped, skipped), "2026-03-30T00:30:00Z");
        // 25 October: 02:30 comes twice, and only the first counts.
        let first = "2026-10-25T00:30:00Z";
        assert_eq!(due("2026-10-24T00:30:00Z", "2026-10-24T12:00:00Z"), first);
        assert_eq!(due(first, "2026-10-25T01:31:00Z"), "2026-10-26T01:30:00Z");
        // The machine was off for a week: the first missed time is due now, and counts for all of them.
        assert_eq!(due("2026-01-01T01:30:00Z", winter), "2026-01-02T01:30:00Z");
        assert_eq!(due(winter, winter), "2026-01-11T01:30:00Z");
        // The clock was set back by an hour after the run: it is not repeated. After a wrong year it is.
        assert_eq!(due("2026-01-10T01:30:02Z", "2026-01-10T01:00:00Z"), "2026-01-11T01:30:00Z");
        assert_eq!(due("2031-01-10T01:30:00Z", winter), "2026-01-11T01:30:00Z");
    }

    #[test]
    fn days_select_the_days_of_the_time_zone() {
        let zone = TimeZone::get("Pacific/Auckland").unwrap();
        // Monday and Thursday there.
        let schedule = Schedule { at: vec![(1, 0), (23, 0)], days: vec![0, 3], ..schedule() };
        // 2026-01-11 is a Sunday in UTC and, at 12:00 UTC, already Monday there.
        let mut last = time("2026-01-11T10:00:00Z");
        let mut all = Vec::new();
        for _ in 0..4 {
            let due = due_unix_s(&schedule, &zone, Some(last), 0, last).unwrap();
            all.push(Timestamp::from_second(due).unwrap().to_string());
            last = due;
        }
        let expected =
            ["2026-01-11T12:00:00Z", "2026-01-12T10:00:00Z", "2026-01-14T12:00:00Z", "2026-01-15T10:00:00Z"];
        assert_eq!(all, expected);
        // Never run: not before the first time after it was seen.
        assert_eq!(due_unix_s(&schedule, &zone, None, last, last), Some(time("2026-01-18T12:00:00Z")));
    }

    #[test]
    fn the_state_is_read_as_it_was_written() {
        let state = ScheduleState {
            began_unix_s: Some(7),
            result: "stopped".into(),
            why: "a \"threshold\"".into(),
            failing_unix_s: Some(3),
            ..ScheduleState::default()
        };
        assert_eq!(ScheduleState::parse(&state.text()), state);
        assert_eq!(ScheduleState::parse("damaged"), ScheduleState::default());
    }
}
