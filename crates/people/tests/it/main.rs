//! Tests of the guarantees about people, on many of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

extern crate plimsoll_people as people;

mod days;
mod formats;
mod groups;

use std::collections::HashSet;

use people::{ATTRIBUTES, COUNT_MAX, Population, Record, Shares, index_of};
use proptest::prelude::*;

/// Number of the first attributes, in which every change is visible.
const EIGHT: usize = 8;

/// Shares of which no two exceed 1 in sum.
fn shares() -> impl Strategy<Value = Shares> {
    (0.0..0.5, 0.0..0.5, 0.0..0.5).prop_map(|(changes, leavers, joiners)| Shares {
        changes,
        leavers,
        joiners,
    })
}

/// The values of a person, or none if the person is not present.
fn read(people: &Population, index: u64) -> Option<Vec<String>> {
    let mut record = Record::new(ATTRIBUTES.len());
    people.read(index, &mut record).then(|| record.values().map(|(_, value)| value.to_string()).collect())
}

proptest! {
    #[test]
    fn a_person_follows_from_the_seed_and_the_number(
        seed: u64,
        index in prop_oneof![0..100_u64, 0..COUNT_MAX],
        more in 0..COUNT_MAX,
    ) {
        let among_few = read(&Population::new(seed, index + 1), index);
        prop_assert!(among_few.is_some());
        prop_assert_eq!(&among_few, &read(&Population::new(seed, (index + 1).max(more)), index));
        prop_assert_eq!(read(&Population::new(seed, index.max(1)), index.max(1)), None);
        let other = read(&Population::new(seed ^ 1, index + 1), index);
        prop_assert_ne!(among_few, other);
    }

    #[test]
    fn alone_and_in_turn_they_are_the_same(seed: u64, count in 1..400_u64, day in 0..4_u32, shares in shares()) {
        let people = Population::new(seed, count).on_day(day, shares).unwrap();
        let mut records = people.records(ATTRIBUTES.len());
        let mut next = 0;
        while let Some(record) = records.next() {
            let index = record.index();
            prop_assert!((next..index).all(|gone| read(&people, gone).is_none()));
            let in_turn: Vec<String> = record.values().map(|(_, value)| value.to_string()).collect();
            prop_assert_eq!(Some(in_turn), read(&people, index));
            next = index + 1;
        }
        prop_assert!((next..people.numbers_end() + 9).all(|gone| read(&people, gone).is_none()));
    }

    #[test]
    fn fewer_attributes_are_the_first_of_more(seed: u64, index in 0..1_000_000_u64, attributes in 0..60_usize) {
        let people = Population::new(seed, 1_000_000).on_day(2, Shares::default()).unwrap();
        let all = read(&people, index);
        let mut record = Record::new(attributes);
        prop_assert_eq!(people.read(index, &mut record), all.is_some());
        let all = all.unwrap_or_default();
        let expected = if all.is_empty() { 0 } else { attributes.clamp(1, ATTRIBUTES.len()) };
        prop_assert_eq!(record.values().count(), expected);
        for (at, (attribute, value)) in record.values().enumerate() {
            prop_assert_eq!(value, &all[at]);
            prop_assert_eq!(record.value(at), value);
            prop_assert_eq!(record.get(attribute.name).unwrap_or(""), value);
        }
        prop_assert_eq!(record.value(expected), "");
    }

    /// The invariants that all formats rely on.
    #[test]
    fn values_are_text_of_one_line(seed: u64, index in 0..COUNT_MAX, day in 0..4_u32) {
        let always = Shares { changes: 1.0, leavers: 0.0, joiners: 0.0 };
        let people = Population::new(seed, COUNT_MAX).on_day(day, always).unwrap();
        let values = read(&people, index).unwrap();
        for (attribute, value) in ATTRIBUTES.iter().zip(values) {
            prop_assert!(!value.chars().any(char::is_control), "{}: {value:?}", attribute.name);
            prop_assert_eq!(value.trim(), &value);
            prop_assert!(!value.is_empty() || attribute.name == "manager" && index == 0, "{}", attribute.name);
            if matches!(attribute.name, "uid" | "mail" | "employeeNumber" | "initials") {
                prop_assert!(value.is_ascii(), "{}: {value}", attribute.name);
            }
            if attribute.name == "uid" {
                prop_assert!(value.len() <= 20, "{value}");
            }
        }
    }
}

/// Each of a hundred thousand people has a unique employee number, user name and mail address, even where
/// names repeat and after many changed their surname.
#[test]
fn nobody_shares_what_is_unique() {
    let much = Shares { changes: 0.5, leavers: 0.0, joiners: 0.1 };
    let days_later = Population::new(5, 100_000).on_day(4, much).unwrap();
    for (people, numbers) in [
        (Population::new(1, 100_000), 0..100_000),
        (Population::new(2, 300_000), 100_000..250_000),
        (days_later, 0..140_000),
    ] {
        let mut seen: [HashSet<String>; 3] = Default::default();
        let mut record = Record::new(EIGHT);
        for index in numbers.clone() {
            assert!(people.read(index, &mut record));
            for (seen, name) in seen.iter_mut().zip(["employeeNumber", "uid", "mail"]) {
                let value = record.get(name).unwrap();
                assert!(seen.insert(value.to_string()), "{name} {value} of person {index} is another's, too");
            }
        }
        assert_eq!(seen[0].len() as u64, numbers.end - numbers.start);
    }
}

#[test]
fn employee_numbers_tell_the_person() {
    let people = Population::new(1, COUNT_MAX);
    for index in [0, 7, 99_999_999, 100_000_000, COUNT_MAX - 1] {
        let mut record = Record::new(1);
        assert!(people.read(index, &mut record));
        assert_eq!(index_of(record.value(0)), Some(index));
    }
    for wrong in ["", "E", "E1", "00000001", "E0000000x", "E+0000001", "E99999999999999999999999"] {
        assert_eq!(index_of(wrong), None, "{wrong}");
    }
}

/// Every manager is present and has a lower number, so there are no cycles and only one person at the top.
#[test]
fn managers_are_there_and_form_a_tree() {
    let many_leave = Shares { changes: 0.3, leavers: 0.2, joiners: 0.2 };
    for (day, shares) in [(0, Shares::default()), (1, Shares::default()), (6, many_leave)] {
        let people = Population::new(11, 20_000).on_day(day, shares).unwrap();
        let (mut tops, mut reports) = (Vec::new(), vec![0_u32; people.numbers_end() as usize]);
        let mut records = people.records(9);
        while let Some(record) = records.next() {
            match record.get("manager") {
                None => tops.push(record.index()),
                Some(manager) => {
                    let manager = index_of(manager).unwrap();
                    assert!(manager < record.index() && people.is_present(manager), "{record:?}");
                    reports[manager as usize] += 1;
                }
            }
        }
        assert_eq!(tops, [0], "day {day}");
        // Most people lead nobody, and managers lead a few people.
        let leading = reports.iter().filter(|reports| **reports > 0).count();
        assert!(leading * 20 > reports.len() && leading * 4 < reports.len(), "{leading} lead on day {day}");
    }
}

#[test]
fn names_are_of_several_scripts_and_addresses_are_plain() {
    let people = Population::new(1, 2_000);
    let mut records = people.records(10);
    let (mut beyond_ascii, mut beyond_latin) = (0, 0);
    while let Some(record) = records.next() {
        let name = record.get("displayName").unwrap();
        beyond_ascii += u32::from(!name.is_ascii());
        beyond_latin += u32::from(name.chars().any(|letter| letter as u32 > 0x2ff));
    }
    // Four of the twenty lists are in other scripts.
    assert!(beyond_ascii > 600 && beyond_ascii < 1_400, "{beyond_ascii}");
    assert!(beyond_latin > 300 && beyond_latin < 500, "{beyond_latin}");
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |day, changes, leavers, joiners| {
        Population::new(1, 10).on_day(day, Shares { changes, leavers, joiners }).unwrap_err()
    };
    assert_eq!(
        refused(1, 0.6, 0.5, 0.0),
        "changes of 60 % and leavers of 50 % are together more than everybody: make one smaller"
    );
    assert_eq!(refused(1, 0.0, 0.0, 1.5), "a share of joiners of 1.5 is not from 0 to 1 (0 % to 100 %)");
    assert_eq!(refused(1, f64::NAN, 0.0, 0.0), "a share of changes of NaN is not from 0 to 1 (0 % to 100 %)");
    assert_eq!(refused(40_000, 0.1, 0.0, 0.0), "day 40000 is too far: ask for a day up to 36500");
}
