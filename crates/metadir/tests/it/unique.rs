//! Unique values: names and logins of people who have the same name.

use std::collections::{BTreeMap, BTreeSet};

use ldap::session::{Options, Session};
use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::store::ObjectError;
use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, SUFFIX, Slapd, SlapdOptions, organization};

use crate::place::{Place, over_both_stores};
use crate::steps::{run, table, try_run};

over_both_stores! {
    a_thousand_people_of_one_name_get_their_own_logins,
    a_login_is_kept_while_it_is_a_candidate,
    candidates_end_with_the_owner_of_the_last_one,
    rules_get_candidates_on_a_filled_store,
    a_thousand_people_of_one_name_get_their_own_entries,
    a_login_of_an_account_that_belongs_to_nobody_is_taken,
    a_uid_of_an_entry_that_belongs_to_nobody_is_taken,
}

// Indexes of the agents, which are sorted by name.
const TARGET: usize = 0;
const STAFF: usize = 1;

const LOGIN: &str = "{ candidates = [\"cs.given.lowerAscii()\", \"cs.given.lowerAscii() + '.' + cs.sn.lowerAscii()\", \"cs.given.lowerAscii() + string(n)\"] }";

struct Site {
    place: Place,
    config: String,
}

impl Site {
    /// A staff file, and a list of accounts or a directory.
    fn new(place: Place, login: &str, target: &str, outbound: &str, commit_objects: usize) -> Site {
        let at = |file: &str| place.scratch.join(file).display().to_string();
        let config = format!(
            r#"
[store]
{store}
durability = "off"
commit_objects = {commit_objects}
[metaverse.person]
attributes = {{ id = "text", login = "text", given = "text", sn = "text" }}
deleted_with = "z"
[agents.target]
{target}
[agents.z]
type = "delimited"
path = "{staff}"
anchor = "id"
[[inbound]]
agent = "z"
to = "person"
project = true
flow = {{ id = "id", given = "given", sn = "sn", login = {login} }}
[[outbound]]
agent = "target"
from = "person"
deprovision = "delete"
{outbound}
[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ deletes = 10000, delete_share = 1.0 }}
export = {{ deletes = 10000, delete_share = 1.0 }}
"#,
            store = place.keys(),
            staff = at("staff.csv"),
        );
        Site { place, config }
    }

    fn accounts(place: Place, login: &str, commit_objects: usize) -> Site {
        let path = place.scratch.join("accounts.csv");
        place.scratch.file("accounts.csv", "login,id,sn\n");
        let target = format!("type = \"delimited\"\npath = \"{}\"\nanchor = \"id\"", path.display());
        let outbound = "dn = \"mv.id\"\nflow = { login = \"login\", id = \"id\", sn = \"sn\" }";
        Site::new(place, login, &target, outbound, commit_objects)
    }

    fn open(&self) -> Metadirectory {
        Metadirectory::open(connectors::parse(&self.config).unwrap_or_else(|wrong| panic!("{wrong:?}")))
            .unwrap()
    }

    fn staff(&self, people: impl IntoIterator<Item = (usize, String, String)>) {
        let lines: String =
            people.into_iter().map(|(id, given, sn)| format!("{id:05},{given},{sn}\n")).collect();
        self.place.scratch.file("staff.csv", format!("id,given,sn\n{lines}"));
    }

    /// The login of each person.
    fn logins(&self) -> BTreeMap<usize, String> {
        let value = |line: &str, name: &str| {
            let begin = format!("{name}=");
            line.split(' ').find_map(|cell| cell.strip_prefix(&*begin).map(String::from)).unwrap()
        };
        let lines = table(&self.place.scratch.join("accounts.csv"));
        lines.iter().map(|line| (value(line, "id").parse().unwrap(), value(line, "login"))).collect()
    }
}

fn bring(directory: &mut Metadirectory, kind: StepKind) {
    run(directory, STAFF, StepKind::FullImport);
    run(directory, STAFF, kind);
    run(directory, TARGET, StepKind::Export);
    run(directory, TARGET, StepKind::FullImport);
    run(directory, TARGET, StepKind::DeltaSynchronization);
}

fn same(count: usize) -> Vec<(usize, String, String)> {
    (1..=count).map(|id| (id, "Ada".into(), "Byron".into())).collect()
}

/// `ada`, `ada.byron`, `ada2`, ...
fn expected(count: usize) -> BTreeSet<String> {
    let counted = (2..count).map(|n| format!("ada{n}"));
    ["ada".to_string(), "ada.byron".into()].into_iter().chain(counted).take(count).collect()
}

fn a_thousand_people_of_one_name_get_their_own_logins(place: Place) {
    for commit_objects in [2_000, 37] {
        let site = Site::accounts(place.another(), LOGIN, commit_objects);
        site.staff(same(1_000));
        let mut directory = site.open();
        bring(&mut directory, StepKind::DeltaSynchronization);
        let first = site.logins();
        assert_eq!(first.values().cloned().collect::<BTreeSet<_>>(), expected(1_000));
        // A person who comes later gets the next one.
        site.staff(same(1_001));
        bring(&mut directory, StepKind::DeltaSynchronization);
        assert_eq!(site.logins()[&1_001], "ada1000");
        bring(&mut directory, StepKind::FullSynchronization);
        let last = site.logins();
        assert!(first.iter().all(|(id, login)| last[id] == *login));
        assert_eq!(run(&mut directory, TARGET, StepKind::Export), []);
    }
}

fn a_login_is_kept_while_it_is_a_candidate(place: Place) {
    let site = Site::accounts(place, LOGIN, 2);
    site.staff(same(5));
    let mut directory = site.open();
    bring(&mut directory, StepKind::DeltaSynchronization);
    let owner = |login: &str| site.logins().into_iter().find(|(_, of)| of == login).map(|(id, _)| id);
    let before = site.logins();
    let (ada, ada2) = (owner("ada").unwrap(), owner("ada2").unwrap());
    // The owner of a login leaves: nobody is renamed, and the next one who comes gets it.
    let rest: Vec<_> = same(5).into_iter().filter(|(id, ..)| *id != ada).collect();
    site.staff(rest.clone());
    bring(&mut directory, StepKind::FullSynchronization);
    let left: BTreeMap<usize, String> = before.into_iter().filter(|(id, _)| *id != ada).collect();
    assert_eq!(site.logins(), left);
    let mut more = rest.clone();
    more.push((9, "Ada".into(), "Byron".into()));
    site.staff(more);
    bring(&mut directory, StepKind::DeltaSynchronization);
    assert_eq!(owner("ada"), Some(9));
    // Another name gives another login, and the old one is free.
    let renamed = |given: &str| {
        let of =
            |(id, old, sn): (usize, String, String)| (id, if id == ada2 { given.into() } else { old }, sn);
        rest.iter().cloned().map(of).collect::<Vec<_>>()
    };
    site.staff(renamed("Augusta"));
    bring(&mut directory, StepKind::DeltaSynchronization);
    assert_eq!((owner("augusta"), owner("ada2")), (Some(ada2), None));
    // Case and digits in the name itself: `ada2` and `Ada` with a counter are the same login.
    let mut digits = renamed("Augusta");
    digits.push((10, "Ada2".into(), "King".into()));
    digits.push((11, "Ada".into(), "Byron".into()));
    digits.push((12, "ADA".into(), "King".into()));
    site.staff(digits);
    bring(&mut directory, StepKind::DeltaSynchronization);
    let logins = site.logins();
    assert_eq!(logins.values().collect::<BTreeSet<_>>().len(), logins.len(), "{logins:?}");
    assert_eq!(logins[&10], "ada2");
    bring(&mut directory, StepKind::FullSynchronization);
    assert_eq!(site.logins(), logins);
}

fn candidates_end_with_the_owner_of_the_last_one(place: Place) {
    let login = "{ candidates = [\"cs.given\", \"cs.given + string(n)\"], most = 3 }";
    let site = Site::accounts(place, login, 10);
    site.staff(same(4));
    let mut directory = site.open();
    run(&mut directory, STAFF, StepKind::FullImport);
    let result = try_run(&mut directory, STAFF, StepKind::DeltaSynchronization).unwrap();
    let [ObjectError { object, text: why, .. }] = result.failures.as_slice() else { panic!("{result:?}") };
    assert_eq!(
        (object.as_str(), why.as_str()),
        (
            "00004",
            "every candidate for `login` is taken: the last one, \"Ada3\", belongs to z \"00003\"; \
             add a candidate with `n`, or increase `most`"
        )
    );
}

/// Logins that were given before the rules had candidates are taken.
fn rules_get_candidates_on_a_filled_store(place: Place) {
    let direct = Site::accounts(place, "{ expression = \"cs.given.lowerAscii()\" }", 2);
    direct.staff(same(1));
    let mut directory = direct.open();
    bring(&mut directory, StepKind::DeltaSynchronization);
    drop(directory);
    let config = direct.config.replace("{ expression = \"cs.given.lowerAscii()\" }", LOGIN);
    assert_ne!(config, direct.config);
    let site = Site { config, ..direct };
    site.staff(same(3));
    let mut directory = site.open();
    bring(&mut directory, StepKind::FullSynchronization);
    assert_eq!(site.logins().into_values().collect::<Vec<_>>(), ["ada", "ada.byron", "ada2"]);
}

fn directory_site(place: Place, slapd: &Slapd, commit_objects: usize) -> Site {
    let password = slapd.folder().secret("password", format!("{ROOT_PASSWORD}\n"));
    let target = format!(
        "type = \"ldap\"\nurl = \"{}\"\nbind_dn = \"{ROOT_DN}\"\npassword_file = \"{}\"\nbase = \"ou=people,{SUFFIX}\"\n\
         filter = \"(objectClass=inetOrgPerson)\"\nanchor = \"entryUUID\"",
        slapd.url(),
        password.display()
    );
    let outbound = format!(
        "dn = {{ candidates = [\"rdn('cn', mv.given) + ',ou=people,{SUFFIX}'\", \"rdn('cn', mv.given + string(n)) + ',ou=people,{SUFFIX}'\"] }}\n\
         flow = {{ objectClass = {{ constant = [\"top\", \"person\", \"organizationalPerson\", \"inetOrgPerson\"] }}, sn = \"sn\", employeeNumber = \"id\" }}"
    );
    Site::new(place, "\"id\"", &target, &outbound, commit_objects)
}

/// The names of entries by the number of their person.
fn entries(slapd: &Slapd) -> BTreeMap<usize, String> {
    let ldif = slapd.export().replace("\n ", "");
    let of =
        |entry: &str, name: &str| entry.lines().find_map(|line| line.strip_prefix(name).map(String::from));
    ldif.split("\n\n")
        .filter_map(|entry| {
            let number = of(entry, "employeeNumber: ")?.parse().ok()?;
            let dn = of(entry, "dn: ")?;
            Some((number, dn.strip_prefix("cn=")?.split(',').next()?.to_string()))
        })
        .collect()
}

fn a_thousand_people_of_one_name_get_their_own_entries(place: Place) {
    for commit_objects in [2_000, 41] {
        let options = SlapdOptions { ldif: organization(&["people"]), database: String::new(), tls: None };
        let Some(slapd) = Slapd::start(&options) else { return };
        // An entry that belongs to nobody has a name already.
        let mut session = Session::connect(&slapd.url().parse().unwrap(), &Options::default()).unwrap();
        session.bind(ROOT_DN, ROOT_PASSWORD.as_bytes()).unwrap();
        let classes = ["inetOrgPerson"].map(|value| ldap::message::Value(value.as_bytes()));
        let sn = [ldap::message::Value(b"x")];
        let attributes = [
            ldap::message::Attribute { name: "objectClass", values: ldap::message::List::from(&classes[..]) },
            ldap::message::Attribute { name: "sn", values: ldap::message::List::from(&sn[..]) },
        ];
        session.add(&format!("cn=Ada3,ou=people,{SUFFIX}"), &attributes).unwrap();
        let site = directory_site(place.another(), &slapd, commit_objects);
        site.staff(same(1_000));
        let mut directory = site.open();
        run(&mut directory, TARGET, StepKind::FullImport);
        bring(&mut directory, StepKind::DeltaSynchronization);
        let first = entries(&slapd);
        let names: BTreeSet<String> = first.values().cloned().collect();
        let expected: BTreeSet<String> = ["Ada".to_string()]
            .into_iter()
            .chain((2..=1_001).filter(|n| *n != 3).map(|n| format!("Ada{n}")))
            .collect();
        assert_eq!(names, expected);
        bring(&mut directory, StepKind::FullSynchronization);
        assert_eq!(entries(&slapd), first);
        // Everybody gets another name: in one batch and in many, nobody gets the same.
        site.staff(same(1_000).into_iter().map(|(id, _, sn)| (id, "Zoe".into(), sn)));
        bring(&mut directory, StepKind::DeltaSynchronization);
        let renamed = entries(&slapd);
        let names: BTreeSet<&String> = renamed.values().collect();
        assert_eq!((names.len(), renamed.len()), (1_000, 1_000));
        assert!(renamed.values().all(|name| name.starts_with("Zoe")), "{renamed:?}");
        // The names are free again.
        site.staff(same(1_000).into_iter().map(|(id, _, sn)| (id, "Zoe".into(), sn)).chain([(
            2_000,
            "Ada".into(),
            "x".into(),
        )]));
        bring(&mut directory, StepKind::DeltaSynchronization);
        assert_eq!(entries(&slapd)[&2_000], "Ada");
        bring(&mut directory, StepKind::FullSynchronization);
        let step = Step { agent: TARGET, kind: StepKind::Export };
        assert_eq!(directory.run(step, &mut |_| true).unwrap().statistics.iter().count(), 0);
    }
}

/// A table of accounts in SQLite, whose logins are unique. `inbound` is whether accounts are joined.
fn table_site(place: Place, accounts: &str, inbound: bool, commit_objects: usize) -> Site {
    let path = place.scratch.join("accounts.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    let unique = "CREATE TABLE account (id TEXT PRIMARY KEY, login TEXT COLLATE NOCASE UNIQUE, sn TEXT);";
    file.execute_batch(&format!("{unique}{accounts}")).unwrap();
    let target =
        format!("type = \"sql\"\nsqlite = \"{}\"\ntable = \"account\"\nanchor = \"id\"", path.display());
    let outbound = "dn = \"mv.id\"\nflow = { login = \"login\", id = \"id\", sn = \"sn\" }";
    let mut site = Site::new(place, LOGIN, &target, outbound, commit_objects);
    if inbound {
        site.config +=
            "[[inbound]]\nagent = \"target\"\nto = \"person\"\njoin = [{ cs = \"id\", mv = \"id\" }]\n";
    }
    site
}

fn accounts(site: &Site) -> BTreeMap<String, String> {
    let file = rusqlite::Connection::open(site.place.scratch.join("accounts.db")).unwrap();
    let mut rows = file.prepare("SELECT id, login FROM account").unwrap();
    let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    rows.query_map([], pair).unwrap().map(Result::unwrap).collect()
}

fn a_login_of_an_account_that_belongs_to_nobody_is_taken(place: Place) {
    for (inbound, commit_objects) in [(true, 100), (true, 2), (false, 100)] {
        // Person 1 has an account already. The others belong to nobody.
        let mut rows =
            "INSERT INTO account VALUES ('00001', 'ada.byron', 'x'), ('x', 'ADA', 'x');".to_string();
        (2..60).for_each(|n| rows += &format!("INSERT INTO account VALUES ('x{n}', 'ada{n}', 'x');"));
        let site = table_site(place.another(), &rows, inbound, commit_objects);
        site.staff(same(3));
        let mut directory = site.open();
        run(&mut directory, TARGET, StepKind::FullImport);
        if inbound {
            bring(&mut directory, StepKind::DeltaSynchronization);
            let given = accounts(&site);
            let of = |id: &str| given[id].as_str();
            assert_eq!((of("00001"), of("00002"), of("00003")), ("ada.byron", "ada60", "ada61"));
        } else {
            // Nobody can have the account.
            site.staff(same(3).into_iter().skip(1));
            bring(&mut directory, StepKind::DeltaSynchronization);
            let given = accounts(&site);
            assert_eq!((given["00002"].as_str(), given["00003"].as_str()), ("ada60", "ada61"));
        }
        // An account that comes later takes nothing away, and one that is gone leaves its login.
        let file = rusqlite::Connection::open(site.place.scratch.join("accounts.db")).unwrap();
        file.execute_batch(
            "DELETE FROM account WHERE id = 'x5'; INSERT INTO account VALUES ('y', 'ada62', 'x');",
        )
        .unwrap();
        run(&mut directory, TARGET, StepKind::FullImport);
        run(&mut directory, TARGET, StepKind::DeltaSynchronization);
        let before = accounts(&site);
        let first = if inbound { 0 } else { 1 };
        site.staff(same(5).into_iter().skip(first));
        bring(&mut directory, StepKind::DeltaSynchronization);
        let given = accounts(&site);
        assert_eq!((given["00004"].as_str(), given["00005"].as_str()), ("ada5", "ada63"));
        assert!(before.iter().all(|(id, login)| given[id] == *login));
        bring(&mut directory, StepKind::FullSynchronization);
        assert_eq!(accounts(&site), given);
    }
}

fn a_uid_of_an_entry_that_belongs_to_nobody_is_taken(place: Place) {
    let entry = |n: usize, uid: &str| {
        format!(
            "dn: cn=old{n},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: old{n}\nsn: x\nuid: {uid}\n\n"
        )
    };
    let ldif = organization(&["people"]) + &entry(1, "ADA") + &entry(2, "ada.byron") + &entry(3, "ada2");
    let options = SlapdOptions { ldif, database: String::new(), tls: None };
    let Some(slapd) = Slapd::start(&options) else { return };
    let mut site = directory_site(place, &slapd, 10);
    site.config = site.config.replace("login = \"id\"", &format!("login = {LOGIN}"));
    let names = site.config.find("dn = { candidates").unwrap();
    let end = names + site.config[names..].find('\n').unwrap();
    site.config.replace_range(names..end, &format!("dn = \"rdn('cn', mv.id) + ',ou=people,{SUFFIX}'\""));
    site.config =
        site.config.replace("sn = \"sn\", employeeNumber", "sn = \"sn\", uid = \"login\", employeeNumber");
    site.staff(same(2));
    let mut directory = site.open();
    run(&mut directory, TARGET, StepKind::FullImport);
    bring(&mut directory, StepKind::DeltaSynchronization);
    let ldif = slapd.export().replace("\n ", "");
    let uids: BTreeSet<&str> = ldif.lines().filter_map(|line| line.strip_prefix("uid: ")).collect();
    assert_eq!(uids, ["ADA", "ada.byron", "ada2", "ada3", "ada4"].into_iter().collect());
}
