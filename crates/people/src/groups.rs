//! Groups: group j is a function of the seed, j and the number of people on day 0. Members are computed one
//! after the other and never stored.

use crate::organization::{DEPARTMENT_TEAMS, DEPARTMENTS_ALL, Department, TEAM};
use crate::population::{History, Population};
use crate::random::{Key, below};

/// Number of members of the largest group, if there are as many people.
pub const LARGEST_GROUP: u64 = 50_000;

/// Every fourth group belongs to a department, until each department has one.
const DEPARTMENT_EVERY: u64 = 4;

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its unique name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Department(Department),
    /// A number of the people of day 0, spread over all of them.
    Drawn {
        size: u64,
        key: Key,
    },
}

#[rustfmt::skip]
const PURPOSES: [(&str, &str); 6] = [
    ("Project", "works on the project"), ("Application", "may use the application"), ("Share", "may write to the share"),
    ("List", "receives the list"), ("License", "holds a license"), ("Role", "has the role"),
];

#[rustfmt::skip]
const SUBJECTS: [&str; 32] = [
    "Albatross", "Anchor", "Beacon", "Bowline", "Capstan", "Compass", "Coral", "Current", "Dolphin", "Estuary", "Fathom",
    "Gannet", "Halyard", "Harbour", "Heron", "Isobar", "Jetty", "Kittiwake", "Lagoon", "Lantern", "Mistral", "Narwhal",
    "Osprey", "Petrel", "Quay", "Reef", "Sextant", "Spindrift", "Tern", "Tiller", "Windlass", "Zephyr",
];

impl Population {
    /// Group `number`.
    pub fn group(&self, number: u64) -> Group {
        let department = (number % DEPARTMENT_EVERY == DEPARTMENT_EVERY - 1)
            .then(|| Department::numbered(number / DEPARTMENT_EVERY))
            .flatten();
        if let Some(department) = department {
            return Group {
                name: format!("Department {}", department.name()),
                description: format!("everybody in {}, {}", department.name(), department.division().name),
                kind: Kind::Department(department),
            };
        }
        // Its index among the groups without a department.
        let rank = number - (number / DEPARTMENT_EVERY).min(DEPARTMENTS_ALL);
        let key = self.group_key().of(number);
        let (purpose, about) = PURPOSES[below(key.draw(0), PURPOSES.len() as u64) as usize];
        let subject = SUBJECTS[below(key.draw(1), SUBJECTS.len() as u64) as usize];
        let size = (LARGEST_GROUP.min(self.count()) / (rank + 1)).max(2).min(self.count());
        Group {
            name: format!("{purpose} {subject} {number}"),
            description: format!("{about} {subject}"),
            kind: Kind::Drawn { size, key: key.of(2) },
        }
    }

    /// The numbers of a group's members on this day, in ascending order. If the group would be empty, person
    /// 0 is its member, because an LDAP group must have one.
    pub fn members<'a>(&'a self, group: &Group) -> Members<'a> {
        Members { population: self, kind: group.kind, next: 0, any: false }
    }
}

/// Iterates over the members of a group.
#[derive(Debug)]
pub struct Members<'a> {
    population: &'a Population,
    kind: Kind,
    /// The number of the next person, or the next stretch of a drawn group.
    next: u64,
    any: bool,
}

impl Iterator for Members<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let found = match self.kind {
            Kind::Department(department) => self.next_in_department(department),
            Kind::Drawn { size, key } => self.next_drawn(size, key),
        };
        let found = found.or((!self.any).then_some(0));
        self.any = true;
        found
    }
}

impl Members<'_> {
    fn next_in_department(&mut self, department: Department) -> Option<u64> {
        let people = self.population;
        while self.next < people.numbers_end() {
            let index = self.next;
            self.next += 1;
            let here = people.first_department(index) == department;
            match people.history(index) {
                History::Unchanged if here => return Some(index),
                History::Changed if people.person(index).is_some_and(|of| of.department == department) => {
                    return Some(index);
                }
                // On day 0, the people of a department are consecutive.
                History::Unchanged if people.day() == 0 => {
                    self.next = (index / (TEAM * DEPARTMENT_TEAMS) + 1) * (TEAM * DEPARTMENT_TEAMS);
                }
                _ => {}
            }
        }
        None
    }

    /// People are divided into as many equal stretches as the group has places, and one of each stretch is a
    /// member. New people form further stretches, so the group keeps its share.
    fn next_drawn(&mut self, size: u64, key: Key) -> Option<u64> {
        let people = self.population;
        let begin = |place: u64| {
            (u128::from(place) * u128::from(people.count()) / u128::from(size)).min(u128::from(u64::MAX))
                as u64
        };
        loop {
            let place = self.next;
            let from = begin(place);
            if from >= people.numbers_end() {
                return None;
            }
            self.next += 1;
            let index = from + below(key.draw(place), begin(place + 1) - from);
            if people.is_present(index) {
                return Some(index);
            }
        }
    }
}
