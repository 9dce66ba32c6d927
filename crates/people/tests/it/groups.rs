//! Tests of groups and their members.

use std::collections::HashSet;

use people::{LARGEST_GROUP, Population, Record, Shares};
use proptest::prelude::*;

use crate::shares;

#[test]
fn sizes_are_skewed_up_to_very_large() {
    let people = Population::new(1, 120_000);
    let mut names = HashSet::new();
    let mut drawn = Vec::new();
    for number in 0..60 {
        let group = people.group(number);
        if !group.name.starts_with("Department ") {
            drawn.push(people.members(&group).count() as u64);
        }
        assert!(names.insert(group.name));
    }
    let expected: Vec<u64> = (1..=drawn.len() as u64).map(|rank| LARGEST_GROUP / rank).collect();
    assert_eq!(drawn, expected);
    assert_eq!(names.iter().filter(|name| name.starts_with("Department ")).count(), 15);
}

#[test]
fn names_stay_unique_after_the_departments_are_used_up() {
    let people = Population::new(1, 10);
    let names: HashSet<String> = (0..400).map(|number| people.group(number).name).collect();
    assert_eq!(names.len(), 400);
    assert_eq!(names.iter().filter(|name| name.starts_with("Department ")).count(), 72);
}

#[test]
fn a_department_group_holds_its_department() {
    let shares = Shares { changes: 0.3, leavers: 0.1, joiners: 0.1 };
    for day in [0, 3] {
        let people = Population::new(4, 3_000).on_day(day, shares).unwrap();
        let mut record = Record::new(8);
        let mut members_all = 0;
        for number in (3..288).step_by(4) {
            let group = people.group(number);
            let mut expected: Vec<u64> = (0..people.numbers_end())
                .filter(|index| {
                    people.read(*index, &mut record)
                        && group.name.strip_prefix("Department ") == record.get("department")
                })
                .collect();
            members_all += expected.len();
            if expected.is_empty() {
                expected.push(0);
            }
            assert_eq!(people.members(&group).collect::<Vec<_>>(), expected, "{} on day {day}", group.name);
        }
        let present = (0..people.numbers_end()).filter(|index| people.is_present(*index)).count();
        assert_eq!(members_all, present, "everybody is in one department");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn members_are_there_once_and_rise(
        seed: u64,
        count in 1..3_000_u64,
        number in 0..500_u64,
        day in 0..4_u32,
        shares in shares(),
    ) {
        let base = Population::new(seed, count);
        let people = base.clone().on_day(day, shares).unwrap();
        let members: Vec<u64> = people.members(&people.group(number)).collect();
        prop_assert!(!members.is_empty());
        prop_assert!(members.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(members.iter().all(|member| people.is_present(*member)));
        // Members of a drawn group on day 0 remain members until they leave.
        if !people.group(number).name.starts_with("Department ") {
            let stayed = base.members(&base.group(number)).filter(|member| people.is_present(*member));
            let now: HashSet<u64> = members.iter().copied().collect();
            for member in stayed {
                prop_assert!(now.contains(&member));
            }
        }
    }
}
