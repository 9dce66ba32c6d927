//! Tests of the differences between two days.

use std::collections::BTreeMap;

use people::{ATTRIBUTES, Population, Record, Shares, index_of};
use proptest::prelude::*;

use crate::{EIGHT, shares};

/// The differences between two days.
#[derive(Debug, Default)]
struct Difference {
    before: u64,
    left: Vec<u64>,
    joined: Vec<u64>,
    /// People with a change in one of the first eight attributes.
    changed: Vec<u64>,
    /// People with a change of the manager only.
    only_manager: Vec<u64>,
    /// The changed attributes by which kinds of changes are recognized, with the number of records.
    kinds: BTreeMap<&'static str, u64>,
}

/// Compares two days, attribute by attribute.
fn difference(yesterday: &Population, today: &Population) -> Difference {
    let mut found = Difference::default();
    let (mut before, mut after) = (Record::new(ATTRIBUTES.len()), Record::new(ATTRIBUTES.len()));
    for index in 0..today.numbers_end() {
        let was = yesterday.read(index, &mut before);
        found.before += u64::from(was);
        match (was, today.read(index, &mut after)) {
            (false, false) => {}
            (true, false) => found.left.push(index),
            (false, true) => found.joined.push(index),
            (true, true) => compare(&before, &after, today, &mut found),
        }
    }
    found
}

fn compare(before: &Record, after: &Record, today: &Population, found: &mut Difference) {
    let others: Vec<&str> = before
        .values()
        .zip(after.values())
        .filter(|(before, after)| before.1 != after.1)
        .map(|(before, _)| before.0.name)
        .collect();
    if others.is_empty() {
        return;
    }
    for never in ["employeeNumber", "uid", "givenName", "hireDate", "birthDate", "carLicense"] {
        assert!(!others.contains(&never), "{never} changed: {before:?}");
    }
    if others == ["manager"] {
        // This happens only if the manager has left: the next higher lead is then the manager.
        let was = index_of(before.get("manager").unwrap()).unwrap();
        assert!(!today.is_present(was), "{before:?}");
        found.only_manager.push(before.index());
        return;
    }
    let first_eight: Vec<&str> =
        others.iter().copied().filter(|name| ATTRIBUTES[..EIGHT].iter().any(|of| of.name == *name)).collect();
    assert!(!first_eight.is_empty(), "{others:?} changed, and nothing of the first eight");
    let kind =
        ["sn", "department", "l", "title"].into_iter().find(|kind| first_eight.contains(kind)).unwrap();
    *found.kinds.entry(kind).or_default() += 1;
    found.changed.push(before.index());
}

/// Checks that `count` is `share` of `of`, within five standard deviations.
fn about(count: usize, share: f64, of: u64) {
    let expected = share * of as f64;
    let deviation = (expected * (1.0 - share)).sqrt();
    assert!((count as f64 - expected).abs() <= 5.0 * deviation, "{count} of {of}, requested {share}");
}

#[test]
fn about_the_asked_shares_change_leave_and_join() {
    let ordinary = Shares::default();
    let busy = Shares { changes: 0.3, leavers: 0.05, joiners: 0.08 };
    for (day, shares) in [(1, ordinary), (2, ordinary), (1, busy), (3, busy)] {
        let on = |day| Population::new(3, 20_000).on_day(day, shares).unwrap();
        let found = difference(&on(day - 1), &on(day));
        about(found.changed.len(), shares.changes, found.before);
        about(found.left.len(), shares.leavers, found.before);
        // The number of joiners is exact, and their numbers are consecutive.
        let joiners = (20_000.0 * shares.joiners) as u64;
        let first = 20_000 + joiners * u64::from(day - 1);
        assert_eq!(found.joined, (first..first + joiners).collect::<Vec<_>>());
        // A leaver has on average as many reports as there are people per manager: one.
        assert!(
            found.only_manager.len() < 3 * found.left.len(),
            "{} lost their manager",
            found.only_manager.len()
        );
        assert_eq!(found.kinds.len(), 4, "{:?}", found.kinds);
    }
}

#[test]
fn days_without_anything_are_alike() {
    let none = Shares { changes: 0.0, leavers: 0.0, joiners: 0.0 };
    let found = difference(&Population::new(1, 3_000), &Population::new(1, 3_000).on_day(9, none).unwrap());
    assert!(found.changed.is_empty() && found.left.is_empty() && found.joined.is_empty(), "{found:?}");
    assert!(found.only_manager.is_empty());
}

#[test]
fn everybody_changes_when_asked_and_all_but_the_first_leave() {
    let of = |changes, leavers| Shares { changes, leavers, joiners: 0.0 };
    let base = Population::new(1, 2_000);
    let all_change = difference(&base, &base.clone().on_day(1, of(1.0, 0.0)).unwrap());
    assert_eq!(all_change.changed.len(), 2_000);
    let all_leave = difference(&base, &base.clone().on_day(1, of(0.0, 1.0)).unwrap());
    assert_eq!(all_leave.left, (1..2_000).collect::<Vec<_>>());
}

#[test]
fn who_joins_is_who_a_larger_population_has_but_for_the_day_of_hire() {
    let shares = Shares { changes: 0.0, leavers: 0.0, joiners: 0.1 };
    let grown = Population::new(8, 500).on_day(2, shares).unwrap();
    let larger = Population::new(8, 600);
    let (mut joined, mut there) = (Record::new(ATTRIBUTES.len()), Record::new(ATTRIBUTES.len()));
    for index in 0..600 {
        assert!(grown.read(index, &mut joined) && larger.read(index, &mut there));
        for ((attribute, joined), (_, there)) in joined.values().zip(there.values()) {
            let by_date = matches!(attribute.name, "hireDate" | "birthDate" | "description");
            assert!(joined == there || (index >= 500 && by_date), "{index}: {}", attribute.name);
        }
        let hired = joined.get("hireDate").unwrap();
        match index {
            0..500 => assert!(hired < "2025-01-01", "{hired}"),
            500..550 => assert_eq!(hired, "2025-01-02"),
            _ => assert_eq!(hired, "2025-01-03"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// People without a change are identical to the byte; `difference` checks everything else.
    #[test]
    fn a_day_changes_nothing_else(seed: u64, count in 1..600_u64, day in 1..6_u32, shares in shares()) {
        let on = |day| Population::new(seed, count).on_day(day, shares).unwrap();
        let (yesterday, today) = (on(day - 1), on(day));
        let found = difference(&yesterday, &today);
        prop_assert_eq!(found.joined.len() as u64, today.numbers_end() - yesterday.numbers_end());
        prop_assert!(!found.left.contains(&0));
        // Who leaves does not depend on how many change or join, nor the reverse.
        let same_leavers = Population::new(seed, count)
            .on_day(day, Shares { changes: 0.0, joiners: 0.0, ..shares })
            .unwrap();
        for index in 0..count {
            prop_assert_eq!(today.is_present(index), same_leavers.is_present(index));
        }
    }
}
