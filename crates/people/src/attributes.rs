//! The attributes in order, and their values for a person.

use crate::names::Name;
use crate::organization::{STREETS, level};
use crate::population::{Person, Population};

/// One attribute.
#[derive(Debug)]
pub struct Attribute {
    /// Its name, the same in every format.
    pub name: &'static str,
    /// Its name in an LDIF entry of class inetOrgPerson (RFC 2798), if that class has such an attribute.
    pub ldap: Option<&'static str>,
    /// Its meaning.
    pub about: &'static str,
    write: fn(&Person, &Population, &mut String),
}

const fn attribute(
    name: &'static str,
    ldap: &'static str,
    about: &'static str,
    write: fn(&Person, &Population, &mut String),
) -> Attribute {
    Attribute { name, ldap: if ldap.is_empty() { None } else { Some(ldap) }, about, write }
}

/// Day 0, 1 January 2025, in days since 1 January 1970.
const DAY_0: i64 = 20_089;

/// Every attribute. The order is part of the interface: `--attributes K` takes the first K.
#[rustfmt::skip]
pub static ATTRIBUTES: [Attribute; 46] = [
    attribute("employeeNumber", "employeeNumber", "the anchor: E and the person's number; never changes",
        |of, _, out| employee_number(of.index, out)),
    attribute("uid", "uid", "user name, unique; never changes", |of, _, out| uid(of.index, of.first_name, out)),
    attribute("givenName", "givenName", "given name", |of, _, out| out.push_str(of.name.given().written)),
    attribute("sn", "sn", "surname", |of, _, out| surname(of, out)),
    attribute("mail", "mail", "mail address, unique", |of, _, out| mail(of, out)),
    attribute("title", "title", "title, by level and division",
        |of, _, out| of.title().iter().for_each(|part| out.push_str(part))),
    attribute("department", "ou", "department", |of, _, out| out.push_str(of.department.name())),
    attribute("l", "l", "city of the site", |of, _, out| out.push_str(of.site().city)),
    attribute("manager", "manager", "employee number of the manager, in LDIF their DN; the first of all has none",
        |of, people, out| if let Some(manager) = people.manager(of) { employee_number(manager, out) }),
    attribute("displayName", "displayName", "the whole name, in the order of its culture",
        |of, _, out| display_name(of, out)),
    attribute("initials", "initials", "initials in Latin letters", |of, _, out| {
        for word in [&of.name.given().plain, &of.name.surname().plain] {
            out.push(word.as_bytes()[0].to_ascii_uppercase().into());
        }
    }),
    attribute("telephoneNumber", "telephoneNumber", "telephone at the site", |of, _, out| {
        out.push_str(of.site().dial);
        out.push_str(" 555 ");
        number(of.pick_here(1, 100_000), 5, out);
    }),
    attribute("mobile", "mobile", "mobile telephone", |of, _, out| {
        out.push_str(country_dial(of));
        out.push_str(" 555 ");
        number(of.pick(2, 10_000_000), 7, out);
    }),
    attribute("facsimileTelephoneNumber", "facsimileTelephoneNumber", "fax of the department at the site", |of, _, out| {
        out.push_str(of.site().dial);
        out.push_str(" 555 9");
        number(of.department.number(), 4, out);
    }),
    attribute("departmentNumber", "departmentNumber", "number of the department",
        |of, _, out| number(of.department.number(), 4, out)),
    attribute("company", "o", "company of the site", |of, _, out| out.push_str(of.site().company)),
    attribute("employeeType", "employeeType", "Permanent, Temporary, Contractor, Intern or Apprentice", |of, _, out| {
        out.push_str(match of.pick(3, 20) {
            // A manager has a permanent contract.
            _ if level(of.index) > 0 => "Permanent",
            0..15 => "Permanent", 15 | 16 => "Temporary", 17 => "Contractor", 18 => "Intern", _ => "Apprentice",
        });
    }),
    attribute("street", "street", "street of the site", |of, _, out| out.push_str(of.site().street)),
    attribute("st", "st", "state or province of the site", |of, _, out| out.push_str(of.site().state)),
    attribute("postalCode", "postalCode", "postal code of the site", |of, _, out| out.push_str(of.site().postal_code)),
    attribute("roomNumber", "roomNumber", "building, floor and room", |of, _, out| {
        out.push(building(of));
        number(floor(of), 1, out);
        out.push('.');
        number(of.pick_here(6, 80), 2, out);
    }),
    attribute("preferredLanguage", "preferredLanguage", "language, as in RFC 5646",
        |of, _, out| out.push_str(of.name.language())),
    attribute("description", "description", "a sentence: department, city, year of hire", |of, _, out| {
        out.push_str(of.department.name());
        out.push_str(" in ");
        out.push_str(of.site().city);
        out.push_str(" since ");
        number(date_of(hire_day(of)).0, 4, out);
    }),
    attribute("physicalDeliveryOfficeName", "physicalDeliveryOfficeName", "site and building", |of, _, out| {
        out.push_str(of.site().city);
        out.push(' ');
        out.push(building(of));
    }),
    attribute("businessCategory", "businessCategory", "division", |of, _, out| out.push_str(of.department.division().name)),
    attribute("status", "", "active, on leave, parental leave or suspended", |of, _, out| {
        out.push_str(match of.pick(7, 100) {
            0..95 => "active", 95..97 => "on leave", 97..99 => "parental leave", _ => "suspended",
        });
    }),
    attribute("country", "", "country of the site, two letters (ISO 3166)", |of, _, out| out.push_str(of.site().country)),
    attribute("costCenter", "", "cost centre: company code and department number", |of, _, out| {
        out.push_str(of.site().company_code);
        out.push('-');
        number(of.department.number(), 4, out);
    }),
    attribute("hireDate", "", "date of hire; of a joiner the day they joined, day 0 being 2025-01-01",
        |of, _, out| date(hire_day(of), out)),
    attribute("cn", "cn", "the same as displayName", |of, _, out| display_name(of, out)),
    attribute("homePhone", "homePhone", "telephone at home", |of, _, out| {
        out.push_str(country_dial(of));
        out.push_str(" 555 ");
        number(of.pick_here(8, 1_000_000), 6, out);
    }),
    attribute("pager", "pager", "pager", |of, _, out| {
        out.push_str(country_dial(of));
        out.push_str(" 555 0");
        number(of.pick(9, 100_000), 5, out);
    }),
    attribute("homePostalAddress", "homePostalAddress", "address at home, lines separated by $", |of, _, out| {
        number(of.pick_here(10, 120) + 1, 1, out);
        out.push(' ');
        out.push_str(STREETS[of.pick_here(11, STREETS.len() as u64) as usize]);
        out.push('$');
        out.push_str(of.site().city);
    }),
    attribute("postalAddress", "postalAddress", "address at work, lines separated by $", |of, _, out| {
        let site = of.site();
        for part in [site.company, "$", site.street, "$", site.postal_code, " ", site.city] {
            out.push_str(part);
        }
    }),
    attribute("carLicense", "carLicense", "licence plate", |of, _, out| {
        for purpose in [12, 13] {
            out.push((b'A' + of.pick(purpose, 26) as u8).into());
        }
        out.push(' ');
        number(of.pick(14, 9_000) + 1_000, 4, out);
    }),
    attribute("labeledURI", "labeledURI", "page of the person", |of, _, out| {
        out.push_str("https://people.example.com/");
        uid(of.index, of.first_name, out);
    }),
    attribute("personalTitle", "", "Ms., Mr. or Dr.", |of, _, out| {
        out.push_str(match (of.pick(15, 25), of.name.is_woman()) {
            (0, _) => "Dr.", (_, true) => "Ms.", (_, false) => "Mr.",
        });
    }),
    attribute("countryName", "", "country of the site", |of, _, out| out.push_str(of.site().country_name)),
    attribute("companyCode", "", "code of the company", |of, _, out| out.push_str(of.site().company_code)),
    attribute("timeZone", "", "time zone of the site", |of, _, out| out.push_str(of.site().time_zone)),
    attribute("managementLevel", "", "how many levels the person leads, 0 to 5", |of, _, out| {
        number(u64::from(level(of.index).min(5)), 1, out);
    }),
    attribute("building", "", "building", |of, _, out| out.push(building(of))),
    attribute("floor", "", "floor", |of, _, out| number(floor(of), 1, out)),
    attribute("badgeNumber", "", "number of the badge, unique", |of, _, out| {
        out.push_str("B-");
        number(of.index + 100_000, 6, out);
    }),
    attribute("workSchedule", "", "share of full working time", |of, _, out| {
        out.push_str(match of.pick(16, 10) { 0..7 => "100 %", 7 => "80 %", 8 => "60 %", _ => "50 %" });
    }),
    attribute("birthDate", "", "date of birth: 17 to 45 years before they were hired",
        |of, _, out| date(hire_day(of) - 365 * 17 - 4 - of.pick(17, 365 * 28) as i64, out)),
];

/// The values of one person, in a buffer that is reused without allocations.
#[derive(Clone, Debug)]
pub struct Record {
    index: u64,
    attributes: usize,
    /// The values, each followed by a separator.
    text: String,
    /// The end of each value.
    ends: Vec<usize>,
    all_present: bool,
}

/// The separator between values, which no value contains.
pub(crate) const SEPARATOR: char = '\t';

impl Record {
    /// A record for the first `attributes` of [`ATTRIBUTES`]; the number is limited to 1 up to all of them.
    pub fn new(attributes: usize) -> Record {
        let attributes = attributes.clamp(1, ATTRIBUTES.len());
        Record {
            index: 0,
            attributes,
            text: String::with_capacity(2048),
            ends: Vec::with_capacity(attributes),
            all_present: true,
        }
    }

    pub(crate) fn fill(&mut self, people: &Population, person: Option<&Person>) {
        self.text.clear();
        self.ends.clear();
        self.all_present = true;
        let Some(person) = person else { return };
        self.index = person.index;
        let mut begin = 0;
        for attribute in &ATTRIBUTES[..self.attributes] {
            (attribute.write)(person, people, &mut self.text);
            let end = self.text.len();
            self.all_present &= end > begin;
            self.ends.push(end);
            self.text.push(SEPARATOR);
            begin = end + 1;
        }
    }

    /// The person's number.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Number of attributes, including those without a value.
    pub(crate) fn len(&self) -> usize {
        self.attributes
    }

    /// All values, each followed by [`SEPARATOR`], to be scanned and copied in one piece.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether every attribute has a value.
    pub(crate) fn all_present(&self) -> bool {
        self.all_present
    }

    /// The value of the attribute at index `at` of [`ATTRIBUTES`]; empty if the person has none.
    pub fn value(&self, at: usize) -> &str {
        let begin = if at == 0 { Some(0) } else { self.ends.get(at - 1).map(|end| end + 1) };
        match (begin, self.ends.get(at)) {
            (Some(begin), Some(end)) => &self.text[begin..*end],
            _ => "",
        }
    }

    /// The attributes and values, in order; an attribute with an empty value is absent.
    pub fn values(&self) -> impl Iterator<Item = (&'static Attribute, &str)> {
        let mut begin = 0;
        ATTRIBUTES.iter().zip(&self.ends).map(move |(attribute, end)| {
            let value = &self.text[begin..*end];
            begin = *end + 1;
            (attribute, value)
        })
    }

    /// The value of the attribute `name`; none if the record does not include the attribute or the person has
    /// no value.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = ATTRIBUTES.iter().position(|of| of.name == name)?;
        Some(self.value(at)).filter(|value| !value.is_empty())
    }
}

impl Population {
    /// Writes the value of one attribute of a person who is present.
    pub(crate) fn write_value(&self, person: u64, attribute: usize, out: &mut String) {
        if let Some(person) = self.person(person) {
            (ATTRIBUTES[attribute].write)(&person, self, out);
        }
    }
}

/// The employee number of person `index`.
pub(crate) fn employee_number(index: u64, out: &mut String) {
    out.push('E');
    number(index, 8, out);
}

/// The number of the person with this employee number; none if the text is not an employee number.
pub fn index_of(employee_number: &str) -> Option<u64> {
    let digits = employee_number.strip_prefix('E')?;
    let known = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if known { digits.parse().ok() } else { None }
}

/// The user name of person `index`: letters of the name and a number that makes it unique. It has at most 20
/// characters, the limit of the oldest systems.
pub(crate) fn uid(index: u64, name: Name, out: &mut String) {
    out.push_str(&name.given().plain[..1]);
    out.push_str(&name.surname().short);
    number(index, 1, out);
}

fn surname(of: &Person, out: &mut String) {
    out.push_str(of.name.surname().written);
    out.push_str(of.name.ending().0);
}

pub(crate) fn display_name(of: &Person, out: &mut String) {
    let given = of.name.given().written;
    if of.name.family_first() {
        surname(of, out);
        out.push_str(of.name.between());
        out.push_str(given);
    } else {
        out.push_str(given);
        out.push_str(of.name.between());
        surname(of, out);
    }
}

/// `given.surname@`, with a number for the second and further people of one name. After a change of surname,
/// a second dot and the person's own number make the address unique.
fn mail(of: &Person, out: &mut String) {
    out.push_str(&of.name.given().plain);
    out.push('.');
    out.push_str(&of.name.surname().plain);
    out.push_str(of.name.ending().1);
    if of.renamed {
        out.push('.');
        number(of.index, 1, out);
    } else if of.name.number > 0 {
        number(of.name.number + 1, 1, out);
    }
    out.push_str("@example.com");
}

fn country_dial(of: &Person) -> &'static str {
    of.site().dial.split(' ').next().unwrap_or("")
}

fn building(of: &Person) -> char {
    (b'A' + of.pick_here(4, 6) as u8).into()
}

fn floor(of: &Person) -> u64 {
    of.pick_here(5, 8)
}

/// The day of hire in days since 1 January 1970.
fn hire_day(of: &Person) -> i64 {
    match of.joined_day {
        0 => DAY_0 - 1 - of.pick(18, 365 * 30) as i64,
        day => DAY_0 + i64::from(day),
    }
}

/// Writes a number with at least `width` digits, three at a time, because most attributes contain numbers.
fn number(value: u64, width: usize, out: &mut String) {
    if value >= 1000 || width > 3 {
        number(value / 1000, width.saturating_sub(3), out);
        return out.push_str(&THREES[value as usize % 1000 * 3..][..3]);
    }
    let digits = match value {
        0 => 0,
        1..10 => 1,
        10..100 => 2,
        _ => 3,
    };
    out.push_str(&THREES[value as usize * 3..][3 - width.max(digits)..3]);
}

/// `000001002` up to `999`.
static THREES: &str = {
    static DIGITS: [u8; 3000] = {
        let mut digits = [b'0'; 3000];
        let mut number = 0;
        while number < 1000 {
            digits[number * 3] += (number / 100) as u8;
            digits[number * 3 + 1] += (number / 10 % 10) as u8;
            digits[number * 3 + 2] += (number % 10) as u8;
            number += 1;
        }
        digits
    };
    match std::str::from_utf8(&DIGITS) {
        Ok(text) => text,
        Err(_) => panic!("digits are text"),
    }
};

fn date(day: i64, out: &mut String) {
    let (year, month, day) = date_of(day);
    number(year, 4, out);
    out.push('-');
    number(month, 2, out);
    out.push('-');
    number(day, 2, out);
}

/// Year, month and day in the Gregorian calendar from days since 1 January 1970 (Hinnant, "chrono-compatible
/// low-level date algorithms").
fn date_of(day: i64) -> (u64, u64, u64) {
    // Days since 1 March of the year 0, before any date of birth.
    let shifted = day.saturating_add(719_468).max(0) as u64;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn days_become_dates() {
        for (day, said) in [
            (-1, "1969-12-31"),
            (0, "1970-01-01"),
            (DAY_0, "2025-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            let mut out = String::new();
            date(day, &mut out);
            assert_eq!(out, said);
        }
    }

    #[test]
    fn numbers_have_their_width() {
        for (value, width, said) in
            [(0, 1, "0"), (7, 3, "007"), (1234, 3, "1234"), (u64::MAX, 8, "18446744073709551615")]
        {
            let mut out = String::new();
            number(value, width, &mut out);
            assert_eq!(out, said);
        }
    }

    #[test]
    fn attributes_have_names_of_their_own() {
        assert!(ATTRIBUTES.len() >= 40);
        assert_eq!(
            ATTRIBUTES.iter().map(|of| of.name.to_lowercase()).collect::<BTreeSet<_>>().len(),
            ATTRIBUTES.len()
        );
        let ldap: Vec<&str> = ATTRIBUTES.iter().filter_map(|of| of.ldap).collect();
        assert_eq!(ldap.iter().collect::<BTreeSet<_>>().len(), ldap.len());
        // Experiments use 8 and 25 attributes, which every directory must be able to store.
        assert!(ATTRIBUTES[..25].iter().all(|of| of.ldap.is_some()));
    }
}
