//! Searches: by an index, by join keys, and by reading everything; and objects shown whole.

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::{
    Condition, Found, Metadirectory, SearchEnd, SearchError, SearchScope, SearchSink,
};
use plimsoll_metadir::object::{Change, MvId, State};

use crate::lifecycle::{ACCOUNTS, Company, HR, export, import};
use crate::place::{Place, over_both_stores};
use crate::steps::{run, try_run};

over_both_stores! {
    objects_are_found_by_any_attribute,
    a_join_rule_finds_every_spelling_or_does_not_answer,
    references_are_found_by_the_objects_that_they_lead_to,
    the_index_follows_every_change,
    an_object_is_shown_whole,
}

#[derive(Default)]
struct Sink {
    found: Vec<Found>,
    most: usize,
}

impl SearchSink for Sink {
    fn found(&mut self, found: Found) -> bool {
        self.found.push(found);
        self.found.len() != self.most
    }

    fn read(&mut self, _: u64) -> bool {
        true
    }
}

fn try_search(
    directory: &mut Metadirectory,
    text: &str,
    scope: SearchScope,
) -> Result<(Vec<String>, SearchEnd), SearchError> {
    let mut sink = Sink::default();
    let end = directory.search(&Condition::parse(text).unwrap(), &scope, &mut sink)?;
    let place = |found: &Found| found.agent.clone().or(found.kind.clone()).unwrap();
    let mut found: Vec<String> =
        sink.found.iter().map(|found| format!("{} {}", place(found), found.object)).collect();
    found.sort();
    Ok((found, end))
}

fn search(directory: &mut Metadirectory, text: &str) -> (Vec<String>, SearchEnd) {
    try_search(directory, text, SearchScope::All).unwrap()
}

fn filled(place: Place, setting: &str) -> (Company, Metadirectory) {
    let company = Company::new(place)
        .with("card = \"text\" }\n", &format!("card = \"text\" }}\n{setting}"))
        .with("active = { expr", "card = \"password\"\nactive = { expr");
    company.write(
        "hr.csv",
        "id,name,mail,born,status,password\n1,Ada,Ada@Plim.example,,active,s3cret\n2,Alan,alan@plim.example,,active,\n\
         3,Grace,grace@navy.example,,left,\n",
    );
    company.write("accounts.csv", "login,number,name,status,room,note\nspare,,,on,,\n");
    let mut directory = company.open();
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization);
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    (company, directory)
}

fn objects_are_found_by_any_attribute(place: Place) {
    let (company, mut directory) = filled(place, "search = [\"mail\"]\n");
    let mut check = |text: &str, found: &[&str], is_indexed: bool| {
        let (all, end) = search(&mut directory, text);
        assert_eq!(
            (all, end.is_indexed),
            (found.iter().map(ToString::to_string).collect(), is_indexed),
            "{text}"
        );
    };
    check("mail=ada*", &["person Ada"], true);
    check("MAIL=ADA@plim.example", &["person Ada"], true);
    check("mail=alan*  name=al*", &["person Alan"], true);
    check("mail=alan* name=ada", &[], true);
    // The beginning of the value has no index.
    check("mail=*plim*", &["hr 1", "hr 2", "person Ada", "person Alan"], false);
    check("mail=*@navy.example", &["hr 3", "person 3"], false);
    // By a join key, and by reading.
    check("id=2", &["person Alan"], true);
    check("id=9", &[], true);
    check("name=grace", &["hr 3", "person 3"], false);
    check("status=on", &["accounts Ada", "accounts Alan", "accounts spare"], false);
    check("anchor=spare", &["accounts spare"], false);
    check("login=sp*", &["accounts spare"], false);
    let in_space = try_search(&mut directory, "mail=ada*", SearchScope::Agent(HR)).unwrap();
    assert_eq!(in_space.0, ["hr 1"]);
    let of_metaverse = try_search(&mut directory, "name=a*", SearchScope::Metaverse).unwrap();
    assert_eq!(of_metaverse.0, ["person Ada", "person Alan"]);
    for (text, why) in [("password=s*", "secret"), ("nothing=1", "no object has an attribute")] {
        let error = try_search(&mut directory, text, SearchScope::All).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    // By the state, alone and with a condition.
    let mut in_state = |state: &str, text: Option<&str>, scope| {
        let mut conditions = text.map(|text| Condition::parse(text).unwrap()).unwrap_or_default();
        conditions.push(Condition::state(state));
        let mut sink = Sink::default();
        let end = directory.search(&conditions, &scope, &mut sink).unwrap();
        assert!(!end.is_indexed);
        assert!(sink.found.iter().all(|found| found.values.iter().any(|(_, all)| *all == [state])));
        sink.found.into_iter().map(|found| found.object).collect::<Vec<_>>()
    };
    assert_eq!(in_state("disconnector", None, SearchScope::All), ["spare"]);
    assert_eq!(in_state("connector", None, SearchScope::Agent(ACCOUNTS)), ["Ada", "Alan"]);
    assert_eq!(in_state("connector", Some("name=a*"), SearchScope::Agent(HR)), ["1", "2"]);
    assert_eq!(in_state("filtered", None, SearchScope::All), [""; 0]);
    let mut sink = Sink { most: 1, ..Sink::default() };
    let all = Condition::parse("name=*").unwrap();
    directory.search(&all, &SearchScope::All, &mut sink).unwrap();
    assert_eq!(sink.found.len(), 1);
    // Mistakes of the setting have a line.
    let wrong = company.config.replace("search = [\"mail\"]", "search = [\"mial\"]");
    let mistakes = connectors::parse(&wrong).unwrap_err();
    assert!(mistakes[0].what.contains("no attribute `mial`"), "{mistakes:?}");
}

/// What the index finds is what reading everything finds.
fn is_right(directory: &mut Metadirectory) {
    for (text, same) in [("mail=a*", "mail=a* id=*"), ("mail=g*", "mail=*@* mail=g*")] {
        let by_index = try_search(directory, text, SearchScope::Metaverse).unwrap();
        assert!(by_index.1.is_indexed);
        let all = try_search(directory, "id=*", SearchScope::Metaverse).unwrap();
        assert!(!all.1.is_indexed);
        let begin = &text[5..6];
        let mut expected = Vec::new();
        let mut sink = Sink::default();
        directory
            .search(&Condition::parse("id=* name=*").unwrap(), &SearchScope::Metaverse, &mut sink)
            .unwrap();
        for found in sink.found {
            let shown = directory.show_mv(MvId(found.number)).unwrap().unwrap().metaverse.unwrap();
            let mut mails = shown.attributes.iter().filter(|of| of.name == "mail").flat_map(|of| &of.values);
            if mails.any(|mail| mail.to_lowercase().starts_with(begin)) {
                expected.push(format!("person {}", found.object));
            }
        }
        expected.sort();
        assert_eq!(by_index.0, expected, "{same}");
    }
}

fn the_index_follows_every_change(place: Place) {
    let (mut company, mut directory) = filled(place, "search = [\"mail\"]\n");
    is_right(&mut directory);
    let days = [
        "1,Ada,gada@plim.example,,active,\n3,Grace,,,active,\n",
        "1,Ada,,,active,\n2,Alan,ALAN@x,,active,\n4,Gus,gus@x,,left,\n",
        "2,Alan,alan@x,,active,\n4,Gus,Gus@x,,left,\n",
    ];
    for day in days {
        company.write("hr.csv", &format!("id,name,mail,born,status,password\n{day}"));
        run(&mut directory, HR, StepKind::FullImport);
        try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
        is_right(&mut directory);
    }
    // Another list of attributes: until the next run makes the index, everything is read.
    drop(directory);
    company.config = company.config.replace("search = [\"mail\"]", "search = [\"name\", \"mail\"]");
    let mut directory = company.open();
    let (found, end) = search(&mut directory, "name=al*");
    assert!(found.contains(&"person Alan".to_string()) && !end.is_indexed, "{found:?}");
    run(&mut directory, HR, StepKind::DeltaSynchronization);
    let (found, end) = search(&mut directory, "name=al*");
    assert_eq!((found, end.is_indexed), (vec!["person Alan".to_string()], true));
    is_right(&mut directory);
    drop(directory);
    company.config = company.config.replace("search = [\"name\", \"mail\"]\n", "");
    let mut directory = company.open();
    run(&mut directory, HR, StepKind::DeltaSynchronization);
    let (found, end) = search(&mut directory, "name=al*");
    assert!(found.contains(&"person Alan".to_string()) && !end.is_indexed, "{found:?}");
}

fn an_object_is_shown_whole(place: Place) {
    let (company, mut directory) = filled(place, "");
    company.write(
        "hr.csv",
        "id,name,mail,born,status,password\n1,Ada,new@x,,active,n3w\n2,Alan,,,left,\n3,Grace,,,left,\n",
    );
    run(&mut directory, HR, StepKind::FullImport);
    let shown = directory.show(HR, "1").unwrap().unwrap();
    let mv = shown.metaverse.as_ref().unwrap();
    assert_eq!(mv.kind, "person");
    let mail = mv.attributes.iter().find(|of| of.name == "mail").unwrap();
    assert_eq!(
        (mail.values.as_slice(), mail.agent.as_deref()),
        (&["Ada@Plim.example".to_string()][..], Some("hr"))
    );
    assert!(mail.since_unix_s.is_some() && mail.from.as_deref() == Some("1"), "{mail:?}");
    let [hr, account] = shown.connectors.as_slice() else { panic!("{shown:?}") };
    assert_eq!((hr.agent.as_str(), account.object.as_str(), account.state), ("hr", "Ada", State::Connected));
    let (change, values) = hr.pending_import.as_ref().unwrap();
    assert_eq!((*change, values[0].clone()), (Change::Update, ("mail".into(), vec!["new@x".to_string()])));
    let text = format!("{shown:?}");
    assert!(!text.contains("s3cret") && !text.contains("n3w"), "{text}");
    try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
    let left = directory.show(ACCOUNTS, "Alan").unwrap().unwrap();
    let account = left.connectors.iter().find(|cs| cs.agent == "accounts").unwrap();
    assert_eq!(account.state, State::Deprovisioned);
    let export = account.pending_export.as_ref().unwrap();
    assert!(export.attributes.contains(&("status".into(), vec!["disabled".into()], false)), "{export:?}");
    let spare = directory.show(ACCOUNTS, "spare").unwrap().unwrap();
    assert!(spare.metaverse.is_none() && spare.connectors.len() == 1);
    assert!(directory.show(ACCOUNTS, "nobody").unwrap().is_none());
    assert!(directory.show_mv(MvId(1_000_000)).unwrap().is_none());
}

fn a_join_rule_finds_every_spelling_or_does_not_answer(place: Place) {
    // The key "ab1" of one person is found by a rule that compares case; the others must be found too.
    for (setting, is_indexed) in [("", false), (", ignore_case = true", true)] {
        let company = Company::new(place.another())
            .with("join = [{ cs = \"id\", mv = \"id\" }]", "join = [{ cs = \"mail\", mv = \"mail\" }]")
            .with(
                "{ cs = \"mail\", mv = \"mail\" }",
                &format!("{{ cs = \"mail\", mv = \"mail\"{setting} }}"),
            );
        let mails = if is_indexed { ["ab1", "aB2", "17"] } else { ["ab1", "aB1", "17"] };
        let rows = mails.iter().enumerate().map(|(at, mail)| format!("{at},N{at},{mail},,left\n"));
        company.write("hr.csv", &("id,name,mail,born,status\n".to_string() + &rows.collect::<String>()));
        let mut directory = company.open();
        run(&mut directory, HR, StepKind::FullImport);
        let before = try_search(&mut directory, "mail=aB1", SearchScope::Metaverse).unwrap();
        assert_eq!(before.0.len(), 0);
        run(&mut directory, HR, StepKind::DeltaSynchronization);
        let (found, end) = try_search(&mut directory, "mail=aB1", SearchScope::Metaverse).unwrap();
        let expected: &[&str] = if is_indexed { &["person ab1"] } else { &["person aB1", "person ab1"] };
        assert_eq!((found, end.is_indexed), (expected.iter().map(ToString::to_string).collect(), is_indexed));
        // A number has no case.
        let (found, end) = try_search(&mut directory, "mail=17", SearchScope::Metaverse).unwrap();
        assert_eq!((found.len(), end.is_indexed, end.read), (1, true, 1));
    }
}

fn references_are_found_by_the_objects_that_they_lead_to(place: Place) {
    let company = crate::references::Company::new(place);
    company.write(&[
        "unit,u,Lab,,,",
        "person,1,Ada,Lab,,",
        "person,2,Alan,Lab,1,",
        "person,3,Grace,Lab,2,",
        "group,g,All,,,1|2|3",
        "group,h,Some,,,3",
    ]);
    let mut directory = company.open();
    crate::references::day(&mut directory);
    let mut check = |text: &str, agent: Option<usize>, expected: &[&str]| {
        let scope = agent.map_or(SearchScope::Metaverse, SearchScope::Agent);
        let mut sink = Sink::default();
        directory.search(&Condition::parse(text).unwrap(), &scope, &mut sink).unwrap();
        let mut found: Vec<String> = sink.found.iter().map(|found| found.object.clone()).collect();
        found.sort();
        assert_eq!(found, expected, "{text} {agent:?}");
        sink.found
    };
    use crate::references::{DIRECTORY, STAFF};
    check("members=3", Some(STAFF), &["g", "h"]);
    check("members=1", Some(STAFF), &["g"]);
    check("boss=1", Some(STAFF), &["2"]);
    check("boss=*", Some(STAFF), &["2", "3"]);
    check("members=9", Some(STAFF), &[]);
    check("members=CN=grace,ou=lab,dc=plim name=some", Some(DIRECTORY), &[]);
    check("members=CN=grace,ou=lab,dc=plim", Some(DIRECTORY), &["cn=All,dc=plim", "cn=Some,dc=plim"]);
    // In the metaverse by any name of the object.
    let all = check("members=1", None, &["cn=All,dc=plim"]);
    let members = all[0].values.iter().find(|(name, _)| name == "members").unwrap();
    assert_eq!(members.1.len(), 3, "{members:?}");
    check("members=cn=grace,*", None, &["cn=All,dc=plim", "cn=Some,dc=plim"]);
    check("boss=cn=ada,ou=lab,dc=plim", None, &["cn=Alan,ou=Lab,dc=plim"]);
    check("boss=cn=ada,ou=lab,dc=plim name=grace", None, &[]);
}
