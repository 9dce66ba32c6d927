//! The people on a day and their properties, all as functions of the seed and a person's number.

use crate::attributes::Record;
use crate::names::{Name, other};
use crate::organization::{
    DEPARTMENT_TEAMS, DIVISION_DEPARTMENTS, Department, GRADES, LEADS, SITES, TEAM, TITLES, lead_of, level,
};
use crate::random::{Key, below, mix};

/// Limit of the number of people.
pub const COUNT_MAX: u64 = 1_000_000_000_000;
/// The last supported day: a century of changes.
pub const DAY_MAX: u32 = 36_500;

/// The changes of each day, as shares of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Share of the people of the day before who remain and change.
    pub changes: f64,
    /// Share of the people of the day before who leave.
    pub leavers: f64,
    /// New people each day, as a share of the people on day 0.
    pub joiners: f64,
}

impl Default for Shares {
    /// An ordinary day: 2 % change, 1 % leave, 1 % join.
    fn default() -> Self {
        Shares { changes: 0.02, leavers: 0.01, joiners: 0.01 }
    }
}

/// The people on one day.
#[derive(Clone, Debug)]
pub struct Population {
    seed: u64,
    count: u64,
    joiners: u64,
    changes_below: u64,
    leaves_below: u64,
    keys: Keys,
    /// The key of each day after day 0.
    days: Vec<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Keys {
    names: Key,
    people: Key,
    divisions: Key,
    departments: Key,
    sites: Key,
    groups: Key,
}

/// The effect of all days so far on a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History {
    Absent,
    Unchanged,
    Changed,
}

/// A person on one day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Person {
    pub(crate) index: u64,
    /// 0 for people of day 0.
    pub(crate) joined_day: u32,
    /// Their name when they joined, because user names do not change.
    pub(crate) first_name: Name,
    pub(crate) name: Name,
    pub(crate) renamed: bool,
    /// Their team.
    team: u64,
    pub(crate) department: Department,
    site: u8,
    title: u8,
    bits: u64,
}

impl Population {
    /// `count` people on day 0; the number is limited to 1 up to [`COUNT_MAX`].
    pub fn new(seed: u64, count: u64) -> Population {
        let key = |purpose| Key::new(seed, purpose);
        Population {
            seed,
            count: count.clamp(1, COUNT_MAX),
            joiners: 0,
            changes_below: 0,
            leaves_below: 0,
            keys: Keys {
                names: key(1),
                people: key(2),
                divisions: key(3),
                departments: key(4),
                sites: key(5),
                groups: key(6),
            },
            days: Vec::new(),
        }
    }

    /// The same people `day` days later. Fails with a suggestion if a share is not from 0 to 1, if more
    /// people than all would change or leave, or if the day is after [`DAY_MAX`].
    pub fn on_day(mut self, day: u32, shares: Shares) -> Result<Population, String> {
        let Shares { changes, leavers, joiners } = shares;
        for (what, share) in [("changes", changes), ("leavers", leavers), ("joiners", joiners)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("a share of {what} of {share} is not from 0 to 1 (0 % to 100 %)"));
            }
        }
        if changes + leavers > 1.0 {
            return Err(format!(
                "changes of {} % and leavers of {} % are together more than everybody: make one smaller",
                percent(changes),
                percent(leavers)
            ));
        }
        if day > DAY_MAX {
            return Err(format!("day {day} is too far: ask for a day up to {DAY_MAX}"));
        }
        self.joiners = (self.count as f64 * joiners).round() as u64;
        // A float that is too large becomes the maximum integer.
        self.changes_below = (changes * 2f64.powi(64)) as u64;
        self.leaves_below = (leavers * 2f64.powi(64)) as u64;
        let key = Key::new(self.seed, 7);
        self.days = (1..=u64::from(day)).map(|day| key.of(day)).collect();
        Ok(self)
    }

    /// Number of people on day 0.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Days since day 0.
    pub fn day(&self) -> u32 {
        self.days.len() as u32
    }

    /// All numbers of people are below this one; some may have left.
    pub fn numbers_end(&self) -> u64 {
        self.count + self.joiners * self.days.len() as u64
    }

    /// Whether person `index` is present on this day.
    pub fn is_present(&self, index: u64) -> bool {
        self.history(index) != History::Absent
    }

    /// Writes person `index` to `record`; returns false with an empty record if the person is not present.
    pub fn read(&self, index: u64, record: &mut Record) -> bool {
        let person = self.person(index);
        record.fill(self, person.as_ref());
        person.is_some()
    }

    /// Everybody in ascending order of number, with the first `attributes` of [`crate::ATTRIBUTES`].
    pub fn records(&self, attributes: usize) -> Records<'_> {
        Records { population: self, next: 0, record: Record::new(attributes) }
    }

    pub(crate) fn group_key(&self) -> Key {
        self.keys.groups
    }

    /// The day on which person `index` joined; none for a number beyond the last one.
    fn joined_day(&self, index: u64) -> Option<u32> {
        if index < self.count {
            Some(0)
        } else if index < self.numbers_end() {
            Some(((index - self.count) / self.joiners) as u32 + 1)
        } else {
            None
        }
    }

    fn leaves(&self, draw: u64, index: u64) -> bool {
        // Counted from the other end than changes, so that nobody both changes and leaves. The first person
        // never leaves.
        u64::MAX - draw < self.leaves_below && index > 0
    }

    pub(crate) fn history(&self, index: u64) -> History {
        let Some(joined) = self.joined_day(index) else { return History::Absent };
        let mut history = History::Unchanged;
        for day in &self.days[joined as usize..] {
            let draw = day.draw(index);
            if self.leaves(draw, index) {
                return History::Absent;
            }
            if draw < self.changes_below {
                history = History::Changed;
            }
        }
        history
    }

    pub(crate) fn person(&self, index: u64) -> Option<Person> {
        let joined_day = self.joined_day(index)?;
        let mut person = self.newcomer(index, joined_day);
        for day in &self.days[joined_day as usize..] {
            let draw = day.draw(index);
            if self.leaves(draw, index) {
                return None;
            }
            if draw < self.changes_below {
                self.change(&mut person, mix(draw));
            }
        }
        Some(person)
    }

    /// A person on the day of joining.
    fn newcomer(&self, index: u64, joined_day: u32) -> Person {
        let bits = self.keys.people.draw(index);
        let team = index / TEAM;
        let name = self.first_name(index);
        let drawn = mix(bits);
        // Two of three work at the site of their department.
        let site = match below(drawn, 3) {
            0 => mix(drawn),
            _ => self.keys.sites.draw(team / DEPARTMENT_TEAMS),
        };
        let title = match level(index) {
            0 => {
                let grade = match below(drawn.rotate_left(16), 20) {
                    0..9 => 0,
                    9..15 => 1,
                    15..18 => 2,
                    _ => 3,
                };
                grade * TITLES as u64 + below(drawn.rotate_left(32), TITLES as u64)
            }
            _ => below(drawn.rotate_left(32), LEADS[0].len() as u64),
        };
        Person {
            index,
            joined_day,
            first_name: name,
            name,
            renamed: false,
            team,
            department: self.department_of(team),
            site: below(site, SITES.len() as u64) as u8,
            title: title as u8,
            bits,
        }
    }

    /// The name of person `index` at the time of joining.
    pub(crate) fn first_name(&self, index: u64) -> Name {
        Name::of(self.keys.names, index)
    }

    /// The department of a team.
    fn department_of(&self, team: u64) -> Department {
        let number = team / DEPARTMENT_TEAMS;
        Department::drawn(
            self.keys.divisions.draw(number / DIVISION_DEPARTMENTS),
            self.keys.departments.draw(number),
        )
    }

    /// The department that person `index` joined.
    pub(crate) fn first_department(&self, index: u64) -> Department {
        self.department_of(index / TEAM)
    }

    /// One change: a new title, department, site or surname. At least one of the first eight attributes
    /// changes.
    fn change(&self, person: &mut Person, draw: u64) {
        let chosen = mix(draw);
        match below(draw, 10) {
            0..3 if self.transfer(person, chosen) => {}
            0..7 => {
                let titles = if level(person.index) == 0 { GRADES.len() * TITLES } else { LEADS[0].len() };
                person.title = other(u64::from(person.title), titles as u64, chosen) as u8;
            }
            7..9 => person.site = other(u64::from(person.site), SITES.len() as u64, chosen) as u8,
            _ => {
                person.name = person.name.renamed(chosen);
                person.renamed = true;
            }
        }
    }

    /// Moves a person who leads nobody to a team of another department; returns false if none was found. The
    /// team has a lower number, so its lead has one too.
    fn transfer(&self, person: &mut Person, draw: u64) -> bool {
        if level(person.index) > 0 {
            return false;
        }
        let found = (0..16).find_map(|attempt| {
            let team = below(mix(draw.wrapping_add(attempt)), person.index / TEAM + 1);
            let department = self.department_of(team);
            (department != person.department).then_some((team, department))
        });
        if let Some((team, department)) = found {
            (person.team, person.department) = (team, department);
        }
        found.is_some()
    }

    /// The number of a person's manager; none for the first person. If a lead has left, the next higher lead
    /// is the manager.
    pub(crate) fn manager(&self, person: &Person) -> Option<u64> {
        let mut lead = match level(person.index) {
            0 => person.team * TEAM,
            _ => lead_of(person.index)?,
        };
        while !self.is_present(lead) {
            lead = lead_of(lead)?;
        }
        Some(lead)
    }
}

/// A share in percent, without the digits of binary rounding.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

impl Person {
    pub(crate) fn site(&self) -> &'static crate::organization::Site {
        &SITES[usize::from(self.site)]
    }

    /// A number below `count` that depends on this person and this purpose.
    pub(crate) fn pick(&self, purpose: u64, count: u64) -> u64 {
        below(mix(self.bits ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93)), count)
    }

    /// The same, but different at each site.
    pub(crate) fn pick_here(&self, purpose: u64, count: u64) -> u64 {
        self.pick(purpose << 8 | u64::from(self.site), count)
    }

    /// The parts of the title, to be concatenated.
    pub(crate) fn title(&self) -> [&'static str; 3] {
        let title = usize::from(self.title);
        let level = level(self.index);
        if level == 0 {
            return [GRADES[title / TITLES], "", self.department.division().titles[title % TITLES]];
        }
        let rank = if self.index == 0 { 4 } else { level.min(4) as usize - 1 };
        let of = match rank {
            0 | 1 => self.department.name(),
            2 | 3 => self.department.division().name,
            _ => return ["", "", LEADS[4][title]],
        };
        [of, " ", LEADS[rank][title]]
    }
}

/// Iterates over a population, in one reused record.
#[derive(Debug)]
pub struct Records<'a> {
    population: &'a Population,
    next: u64,
    record: Record,
}

impl Records<'_> {
    /// The next person, or none after the last. Does not allocate.
    #[allow(clippy::should_implement_trait, reason = "an iterator's items may not borrow from it")]
    pub fn next(&mut self) -> Option<&Record> {
        while self.next < self.population.numbers_end() {
            let index = self.next;
            self.next += 1;
            if self.population.read(index, &mut self.record) {
                return Some(&self.record);
            }
        }
        None
    }
}
