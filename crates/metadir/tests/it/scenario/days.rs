//! The days of an organization, computed from its persons: the contents of the sources, and the expected
//! contents of the directory. This code does not use the metadirectory.

use std::collections::{BTreeMap, BTreeSet};

use ldap::dn::Value;
use ldap::ldif::{Body, Options, Reader};
use ldap::{Dn, Rdn};
use people::{ATTRIBUTES, Population, Shares, index_of};
use testkit::slapd::SUFFIX;

/// Number of people on the first day.
pub(super) const PEOPLE: u64 = 200;
/// Number of groups.
const GROUPS: u64 = 9;
/// The unit whose name changes on day 1, and the unit that moves below another one.
const RENAMED: usize = 1;
const MOVED: usize = 2;
/// Two people who are each other's manager from day 1 on.
const CIRCLE: (u64, u64) = (0, 8);
/// The number of people who are not in the phone book.
const SWITCHBOARD: &str = "+47 555 00000";

/// The attributes of an entry, by lower-case name, with their values; names of entries are normalized.
pub(super) type Entry = BTreeMap<String, BTreeSet<String>>;
/// Entries by their normalized names.
pub(super) type Entries = BTreeMap<String, Entry>;
/// The phone book: number and room by employee.
pub(super) type Phones = BTreeMap<String, (String, String)>;

/// A line of the staff file, by its columns.
pub(super) type Row = [String; COLUMNS.len()];

pub(super) const COLUMNS: [&str; 16] = [
    "kind",
    "id",
    "uid",
    "given",
    "sn",
    "display",
    "mail",
    "title",
    "department",
    "division",
    "city",
    "manager",
    "switchboard",
    "name",
    "description",
    "members",
];

/// A person from the people crate.
struct Person {
    index: u64,
    id: String,
    values: BTreeMap<&'static str, String>,
    manager: Option<String>,
}

impl Person {
    fn get(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }
}

/// A unit of the organization: a department, or from day 1 on a division with a department below it.
struct Unit {
    id: String,
    name: String,
    above: Option<String>,
}

impl Unit {
    fn dn(&self) -> Dn {
        let people: Dn = format!("ou=people,{SUFFIX}").parse().unwrap();
        let above = self.above.iter().fold(people, |above, name| above.child(Rdn::new("ou", name.as_str())));
        above.child(Rdn::new("ou", self.name.as_str()))
    }
}

/// A day.
pub(super) struct Day {
    number: u32,
    population: Population,
    people: Vec<Person>,
    /// By the department for which they were created.
    units: BTreeMap<String, Unit>,
    divisions: Vec<Unit>,
}

impl Day {
    pub(super) fn new(number: u32) -> Day {
        let shares = Shares { changes: 0.12, leavers: 0.04, joiners: 0.03 };
        let population = Population::new(11, PEOPLE).on_day(number, shares).unwrap();
        let mut people = Vec::new();
        let mut records = population.records(ATTRIBUTES.len());
        while let Some(record) = records.next() {
            let values: BTreeMap<&'static str, String> =
                record.values().map(|(attribute, value)| (attribute.name, value.to_string())).collect();
            let mut manager = values.get("manager").filter(|manager| !manager.is_empty()).cloned();
            if number > 0 && record.index() == CIRCLE.0 {
                manager = Some(employee(CIRCLE.1));
            }
            let id = values["employeeNumber"].clone();
            assert_eq!(index_of(&id), Some(record.index()));
            people.push(Person { index: record.index(), id, values, manager });
        }
        let names: BTreeSet<&str> = people.iter().map(|person| person.get("department")).collect();
        // The people of the first day determine which departments are renamed and moved.
        let of_first_day = if number == 0 { None } else { Some(Day::new(0)) };
        let first: Vec<String> = match &of_first_day {
            Some(day) => day.units.keys().cloned().collect(),
            None => names.iter().map(|name| (*name).to_string()).collect(),
        };
        let mut units = BTreeMap::new();
        for name in names {
            let mut unit = Unit { id: format!("U-{name}"), name: name.into(), above: None };
            if number > 0 && name == first[RENAMED] {
                unit.name = format!("{name}, Søn & Co + \"#1\"");
            }
            if number > 0 && name == first[MOVED] {
                unit.above = Some(DIVISION.into());
            }
            // On day 2 one unit is moved and renamed together.
            if number > 1 && name == first[MOVED] {
                unit.name = format!("{name} II");
            }
            units.insert(name.to_string(), unit);
        }
        let divisions = match number {
            0 => Vec::new(),
            _ => vec![Unit { id: "D-1".into(), name: DIVISION.into(), above: None }],
        };
        Day { number, population, people, units, divisions }
    }

    fn units(&self) -> impl Iterator<Item = &Unit> {
        self.divisions.iter().chain(self.units.values())
    }

    fn groups(&self) -> impl Iterator<Item = (String, String, String, Vec<u64>)> + '_ {
        (0..GROUPS).map(|number| {
            let group = self.population.group(number);
            let members = self.population.members(&group).collect();
            let renamed = self.number > 0 && number == 2;
            let name = if renamed { format!("{} (new)", group.name) } else { group.name };
            (format!("G{number}"), name, group.description, members)
        })
    }

    /// The staff file without its header, by anchor.
    pub(super) fn rows(&self) -> BTreeMap<String, Row> {
        let mut rows = BTreeMap::new();
        let mut add = |cells: &[(&str, &str)]| {
            let cell = |column: &&str| {
                let found = cells.iter().find(|(name, _)| name == column);
                found.map(|(_, value)| (*value).to_string()).unwrap_or_default()
            };
            let row: Row = COLUMNS.each_ref().map(cell);
            rows.insert(row[1].clone(), row);
        };
        for unit in self.units() {
            let above = unit.above.as_deref().unwrap_or_default();
            add(&[("kind", "unit"), ("id", &unit.id), ("name", &unit.name), ("division", above)]);
        }
        for person in &self.people {
            let unit = &self.units[person.get("department")];
            add(&[
                ("kind", "person"),
                ("id", &person.id),
                ("uid", person.get("uid")),
                ("given", person.get("givenName")),
                ("sn", person.get("sn")),
                ("display", person.get("displayName")),
                ("mail", person.get("mail")),
                ("title", person.get("title")),
                ("department", &unit.name),
                ("division", unit.above.as_deref().unwrap_or_default()),
                ("city", person.get("l")),
                ("manager", person.manager.as_deref().unwrap_or_default()),
                ("switchboard", SWITCHBOARD),
            ]);
        }
        for (id, name, description, members) in self.groups() {
            let members: Vec<String> = members.into_iter().map(employee).collect();
            let members = members.join("|");
            add(&[
                ("kind", "group"),
                ("id", &id),
                ("name", &name),
                ("description", &description),
                ("members", &members),
            ]);
        }
        rows
    }

    /// The phone book. Not everybody has a telephone.
    pub(super) fn phones(&self) -> Phones {
        let with = self.people.iter().filter(|person| person.index % 10 != 3);
        let row = |person: &Person| {
            let room = format!(
                "{}{}",
                person.get("l").chars().next().unwrap_or('X'),
                person.index % 97 + u64::from(self.number)
            );
            (person.id.clone(), (person.get("telephoneNumber").to_string(), room))
        };
        with.map(row).collect()
    }

    /// The expected contents of the directory below its two containers.
    pub(super) fn entries(&self) -> Entries {
        let phones = self.phones();
        let dn_of = |person: &Person| {
            self.units[person.get("department")].dn().child(Rdn::new("uid", person.get("uid")))
        };
        let by_index: BTreeMap<u64, &Person> =
            self.people.iter().map(|person| (person.index, person)).collect();
        let name_of = |index: u64| dn_of(by_index[&index]).normalized();
        let mut entries = Entries::new();
        let mut put = |dn: &Dn, attributes: &[(&str, &[String])]| {
            let of =
                |(name, values): &(&str, &[String])| ((*name).to_string(), values.iter().cloned().collect());
            let mut entry: Entry = attributes.iter().map(of).collect();
            entry.retain(|_, values: &mut BTreeSet<String>| values.iter().any(|value| !value.is_empty()));
            assert!(entries.insert(dn.normalized(), entry).is_none(), "{dn}");
        };
        for unit in self.units() {
            put(
                &unit.dn(),
                &[
                    ("objectclass", &texts(["top", "organizationalUnit"])),
                    ("ou", std::slice::from_ref(&unit.name)),
                    ("description", std::slice::from_ref(&unit.id)),
                    ("businesscategory", &texts(["unit"])),
                ],
            );
        }
        for person in &self.people {
            let text = |name: &str| [person.get(name).to_string()];
            let manager = person.manager.as_deref().and_then(index_of).map(name_of).unwrap_or_default();
            let (number, room) =
                phones.get(&person.id).cloned().unwrap_or_else(|| (SWITCHBOARD.into(), String::new()));
            put(
                &dn_of(person),
                &[
                    ("objectclass", &texts(["top", "person", "organizationalPerson", "inetOrgPerson"])),
                    ("uid", &text("uid")),
                    ("cn", &text("displayName")),
                    ("sn", &text("sn")),
                    ("givenname", &text("givenName")),
                    ("mail", &text("mail")),
                    ("title", &text("title")),
                    ("l", &text("l")),
                    ("employeenumber", std::slice::from_ref(&person.id)),
                    ("telephonenumber", &[number]),
                    ("roomnumber", &[room]),
                    ("manager", &[manager]),
                ],
            );
        }
        let groups: Dn = format!("ou=groups,{SUFFIX}").parse().unwrap();
        for (_, name, description, members) in self.groups() {
            let members: Vec<String> = members.into_iter().map(name_of).collect();
            put(
                &groups.child(Rdn::new("cn", name.as_str())),
                &[
                    ("objectclass", &texts(["top", "groupOfNames"])),
                    ("cn", &[name]),
                    ("description", &[description]),
                    ("member", &members),
                ],
            );
        }
        entries
    }
}

const DIVISION: &str = "Group Functions #1";

fn texts<const N: usize>(texts: [&str; N]) -> [String; N] {
    texts.map(String::from)
}

pub(super) fn employee(index: u64) -> String {
    let mut record = people::Record::new(1);
    // The employee number is a function of the person's number alone.
    Population::new(11, index + 1).read(index, &mut record);
    record.value(0).to_string()
}

/// The entries of an LDIF file, without operational attributes.
pub(super) fn entries_of(ldif: &str) -> Entries {
    let own = [
        "structuralobjectclass",
        "entryuuid",
        "creatorsname",
        "createtimestamp",
        "entrycsn",
        "modifiersname",
    ];
    let mut entries = Entries::new();
    let mut reader = Reader::new(ldif.as_bytes(), Options::default());
    while let Some(record) = reader.next().unwrap() {
        let Body::Entry(attributes) = &record.body else { panic!("{record:?}") };
        let mut entry = Entry::new();
        for (name, value) in attributes {
            let name = name.to_ascii_lowercase();
            if own.contains(&name.as_str()) || name == "modifytimestamp" || name == "contextcsn" {
                continue;
            }
            let mut value = String::from_utf8(value.to_vec()).unwrap();
            if name == "manager" || name == "member" {
                value = Dn::parse(&value).unwrap().normalized();
            }
            entry.entry(name).or_default().insert(value);
        }
        let dn = Dn::parse(record.dn).unwrap();
        let is_container = dn.rdns().len() <= 2 || {
            let Value::Bytes(value) = &dn.rdn().unwrap().parts()[0].value else { panic!("{dn}") };
            dn.rdns().len() == 3 && (value == b"people" || value == b"groups")
        };
        if !is_container {
            entries.insert(dn.normalized(), entry);
        }
    }
    entries
}
