//! Tests of exports, each made once and repeated.

use plimsoll_metadir::agent::{ChangedValues, ExportedObject, Refused};
use plimsoll_metadir::hologram::Hologram;
use plimsoll_metadir::object::Change;

use super::*;

fn exported(change: Change, dn: &str) -> ExportedObject {
    ExportedObject {
        change,
        anchor: None,
        dn: dn.into(),
        new_dn: None,
        image: Hologram::default(),
        attributes: Vec::new(),
        changed_values: Vec::new(),
        adopts: true,
        written: Vec::new(),
    }
}

fn texts(values: &[&str]) -> Vec<Vec<u8>> {
    values.iter().map(|value| value.as_bytes().to_vec()).collect()
}

impl Open {
    fn with(&self, mut object: ExportedObject, attributes: &[(&str, &[&str])]) -> ExportedObject {
        let all =
            attributes.iter().map(|(name, values)| (self.names.attribute(name).unwrap(), texts(values)));
        object.attributes.extend(all);
        object
    }

    fn changing(&self, dn: &str, name: &str, added: &[&str], removed: &[&str]) -> ExportedObject {
        let attribute = self.names.attribute(name).unwrap();
        let changed = ChangedValues { attribute, added: texts(added), removed: texts(removed) };
        ExportedObject { changed_values: vec![changed], ..exported(Change::Update, dn) }
    }

    fn person(&self, uid: &str, sn: &str) -> ExportedObject {
        let dn = format!("uid={uid},ou=people,{SUFFIX}");
        self.with(
            exported(Change::Add, &dn),
            &[
                ("objectClass", &["top", "person", "organizationalPerson", "inetOrgPerson"]),
                ("cn", &[uid]),
                ("sn", &[sn]),
            ],
        )
    }

    fn renaming(&self, dn: &str, new: &str) -> ExportedObject {
        ExportedObject { new_dn: Some(new.into()), ..exported(Change::Update, dn) }
    }

    /// Makes changes that must all be accepted, and repeats them.
    fn twice(&mut self, changes: &[ExportedObject]) {
        for time in ["first", "second"] {
            let answers = self.agent.export(changes).unwrap();
            assert_eq!(answers, vec![Ok(()); changes.len()], "the {time} time");
        }
    }

    fn texts_now(&mut self, rdn: &str, name: &str) -> Vec<String> {
        let now = self.now();
        self.texts(named(&now, rdn), name)
    }

    fn now(&mut self) -> Vec<Imported> {
        self.full().0
    }
}

fn settings(slapd: &Slapd) -> String {
    format!("{}base = \"{SUFFIX}\"\nanchor = \"entryUUID\"\n", keys(slapd))
}

fn dn(uid: &str) -> String {
    format!("uid={uid},ou=people,{SUFFIX}")
}

#[test]
fn twice_is_as_good_as_once() {
    let Some(slapd) = start(organization(""), "") else { return };
    let mut open = open(&settings(&slapd));
    assert!(open.agent.takes_changed_values());
    let odd = format!("cn=Lovelace\\, \\\"Ada\\\" \\+ #1,ou=people,{SUFFIX}");
    let named_only =
        open.with(exported(Change::Add, &odd), &[("objectClass", &["inetOrgPerson"]), ("sn", &["Lovelace"])]);
    // Without `uid`: the name has it.
    open.twice(&[open.person("ada", "Byron"), open.person("alan", "Turing"), named_only]);
    assert_eq!(open.texts_now("uid=ada", "uid"), ["ada"]);
    assert_eq!(objects(&open.now()).iter().filter(|object| object.dn.contains("Lovelace\\, ")).count(), 1);

    let ada = exported(Change::Update, &dn("ada"));
    open.twice(&[
        open.with(
            ada.clone(),
            &[("sn", &["Lovelace"]), ("mail", &["ada@x", "countess@x"]), ("title", &["Countess"])],
        ),
        open.renaming(&dn("alan"), &dn("turing")),
    ]);
    let now = open.now();
    let found = named(&now, "uid=ada");
    assert_eq!(open.texts(found, "sn"), ["Lovelace"]);
    assert_eq!(open.texts(found, "mail"), ["ada@x", "countess@x"]);
    assert_eq!(open.texts(named(&now, "uid=turing"), "uid"), ["turing"]);

    // An attribute without values is removed; an entry is moved and changed in one step.
    let above = format!("uid=turing2,{SUFFIX}");
    let moved = open.with(open.renaming(&dn("turing"), &above), &[("title", &["Dr"]), ("uid", &["turing2"])]);
    open.twice(&[open.with(ada, &[("title", &[]), ("mail", &["ada@x"])]), moved]);
    let now = open.now();
    let found = named(&now, "uid=ada");
    assert_eq!((open.texts(found, "title").len(), open.texts(found, "mail")), (0, vec!["ada@x".to_string()]));
    let found = named(&now, "uid=turing2");
    assert_eq!((found.dn.as_str(), open.texts(found, "title")), (above.as_str(), vec!["Dr".to_string()]));

    open.twice(&[exported(Change::Delete, &dn("ada")), exported(Change::Delete, &above)]);
    assert_eq!(objects(&open.now()).iter().filter(|object| object.dn.starts_with("uid=")).count(), 0);
}

#[test]
fn an_add_of_what_is_there_makes_it_what_it_shall_be() {
    let Some(slapd) = start(organization(""), "") else { return };
    let mut open = open(&settings(&slapd));
    let mut first = open.person("ada", "Byron");
    first.attributes[0].1 = texts(&["inetOrgPerson"]);
    open.twice(&[first]);
    // Other values, and differently spelled classes, which are kept.
    let second = open.with(open.person("ada", "Lovelace"), &[("title", &["Countess"])]);
    open.twice(&[second]);
    let now = open.now();
    let ada = named(&now, "uid=ada");
    assert_eq!(
        (open.texts(ada, "sn"), open.texts(ada, "title")),
        (vec!["Lovelace".into()], vec!["Countess".into()])
    );
    assert_eq!(open.texts(ada, "objectClass"), ["inetOrgPerson"]);
}

#[test]
fn members_come_and_go_by_themselves() {
    let Some(slapd) = start(organization(""), "") else { return };
    let mut open = open(&settings(&slapd));
    let group = format!("cn=staff,{SUFFIX}");
    let mut new = open.with(exported(Change::Add, &group), &[("objectClass", &["groupOfNames"])]);
    new.changed_values = open.changing(&group, "member", &["cn=a", "cn=b"], &[]).changed_values;
    open.twice(&[new]);
    let members = |open: &mut Open| open.texts_now("cn=staff", "member");
    assert_eq!(members(&mut open), ["cn=a", "cn=b"]);
    // A differently spelled value is equal for the server.
    let change = open.with(
        open.changing(&group, "member", &["cn=c", "CN = A"], &["cn=b", "cn=gone"]),
        &[("description", &["x"])],
    );
    open.twice(&[change]);
    assert_eq!(members(&mut open), ["cn=a", "cn=c"]);
    assert_eq!(open.texts_now("cn=staff", "description"), ["x"]);
    // Other errors refuse the change, and accepted changes remain.
    let answers =
        open.agent.export(&[open.changing(&group, "member", &["cn=d", "no name"], &["cn=c"])]).unwrap();
    let Err(Refused(why)) = &answers[0] else { panic!("{answers:?}") };
    assert!(why.contains("invalidAttributeSyntax (21)"), "{why}");
    // The last member cannot be removed: the schema requires one.
    let answers = open.agent.export(&[open.changing(&group, "member", &[], &["cn=a", "cn=c"])]).unwrap();
    assert!(answers[0].is_err(), "{answers:?}");
    assert_eq!(members(&mut open), ["cn=a", "cn=c"]);
}

#[test]
fn answers_come_in_order_over_several_connections_and_one_refusal_costs_one_object() {
    let Some(slapd) = start(organization(""), "") else { return };
    for connections in [1, 4] {
        let mut open = open(&format!("{}connections = {connections}\n", settings(&slapd)));
        let people: Vec<ExportedObject> = (0..600)
            .map(|number| {
                let mut person = open.person(&format!("n{connections}x{number}"), "Smith");
                match number % 50 {
                    // A schema violation, a missing parent, an invalid name.
                    7 => person
                        .attributes
                        .retain(|(attribute, _)| Some(*attribute) != open.names.attribute("sn")),
                    8 => person.dn = format!("uid=x,ou=nowhere,{SUFFIX}"),
                    9 => person.dn = "nobody".into(),
                    _ => {}
                }
                person
            })
            .collect();
        let answers = open.agent.export(&people).unwrap();
        for (number, answer) in answers.iter().enumerate() {
            let words = match number % 50 {
                7 => "objectClassViolation (65)",
                8 => "noSuchObject (32); there is dc=example,dc=com",
                9 => "invalidDNSyntax (34)",
                _ => {
                    assert_eq!(*answer, Ok(()), "{number}");
                    continue;
                }
            };
            let Err(Refused(why)) = answer else { panic!("{number}: {answer:?}") };
            assert!(why.contains(words) && why.contains(&people[number].dn), "{number}: {why}");
        }
        let begin = format!("uid=n{connections}x");
        assert_eq!(objects(&open.now()).iter().filter(|object| object.dn.starts_with(&begin)).count(), 564);
    }
}

#[test]
fn what_is_not_there_cannot_change_and_nothing_is_overwritten() {
    let Some(slapd) = start(organization(""), "") else { return };
    let mut open = open(&settings(&slapd));
    open.twice(&[open.person("ada", "Byron"), open.person("alan", "Turing")]);
    let ada = named(&open.now(), "uid=ada").anchor;
    let changes = [
        open.with(exported(Change::Update, &dn("nobody")), &[("sn", &["x"])]),
        open.renaming(&dn("nobody"), &dn("somebody")),
        // The new name belongs to another entry; the parent is missing.
        open.renaming(&dn("ada"), &dn("alan")),
        open.renaming(&dn("ada"), &format!("uid=ada,ou=nowhere,{SUFFIX}")),
        open.renaming(&dn("ada"), "nobody"),
        exported(Change::Delete, &format!("ou=people,{SUFFIX}")),
        exported(Change::Update, &dn("nobody")),
        // It is not there any more, and another entry has the new name.
        ExportedObject { anchor: Some(ada), ..open.renaming(&dn("nobody"), &dn("alan")) },
    ];
    let answers = open.agent.export(&changes).unwrap();
    let reported: Vec<&str> =
        answers.iter().map(|answer| answer.as_ref().err().map_or("", |why| &why.0)).collect();
    let missing = format!("{} is not in the directory: the next import shows its new state", dn("nobody"));
    assert_eq!(reported[0], missing);
    assert_eq!(reported[1], missing.replace("nobody", "somebody"));
    let is_taken = format!("another entry has the name {}: rename or delete that entry", dn("alan"));
    assert!(reported[2].contains(&is_taken) && reported[7].contains(&is_taken), "{reported:?}");
    assert!(reported[3].contains("is not in the directory"), "{}", reported[3]);
    assert!(reported[4].contains("invalidDNSyntax (34)"), "{}", reported[4]);
    assert!(reported[5].contains("notAllowedOnNonLeaf (66)"), "{}", reported[5]);
    // There is nothing to do, so no request is sent.
    assert_eq!(reported[6], "");
    assert_eq!(objects(&open.now()).iter().filter(|object| object.dn.starts_with("uid=a")).count(), 2);
}

#[test]
fn a_server_that_goes_is_an_error_and_the_next_export_connects_anew() {
    let Some(slapd) = start(organization(""), "") else { return };
    let mut open = open(&settings(&slapd));
    open.twice(&[open.person("ada", "Byron")]);
    let (url, port) = (slapd.url(), slapd.port());
    drop(slapd);
    let people: Vec<ExportedObject> =
        (0..300).map(|number| open.person(&format!("n{number}"), "S")).collect();
    let error = open.agent.export(&people).unwrap_err().to_string();
    assert!(error.contains(&url), "{error}");
    let error = open.agent.export(&people[..1]).unwrap_err().to_string();
    assert!(error.contains("cannot be reached") && error.contains(&port.to_string()), "{error}");
}
