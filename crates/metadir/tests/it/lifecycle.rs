//! The states of connectors: people leave and come back, accounts exist already, objects join late.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use plimsoll_metadir::config::{Config, StepKind};
use plimsoll_metadir::metadirectory::{Link, Metadirectory, StepResult};
use plimsoll_metadir::preview::Difference;
use plimsoll_metadir::stage::StepError;
use plimsoll_metadir::store::{Gauges, ObjectError, Write};

use crate::place::{Place, over_both_stores};
use crate::steps::{Did, run, table, try_run};

over_both_stores! {
    a_disabled_account_is_enabled_when_its_person_returns,
    a_rehired_person_gets_the_old_account_back,
    a_deletion_is_withdrawn_or_the_account_is_made_again,
    old_leavers_do_not_count_as_deletions,
    an_existing_account_is_joined_in_any_order,
    an_object_that_came_before_its_person_joins_later,
    a_second_account_is_an_ambiguous_join,
    several_accounts_are_allowed_where_the_rules_say_so,
    an_ambiguous_rule_is_the_last_one_that_is_tried,
    several_and_computed_values_are_compared,
    the_last_deciding_connector_ends_an_object,
    an_administrator_joins_and_disconnects,
    a_row_that_exists_already_is_not_taken_over,
    a_leaver_is_deleted_after_the_grace_period,
    a_preview_shows_what_a_run_does_with_a_returner,
    an_empty_column_clears_nobody,
}

/// A staff file, and a list of accounts that follows it.
pub(crate) struct Company {
    pub(crate) place: Place,
    pub(crate) config: String,
}

// Indexes of the agents, which are sorted by name.
pub(crate) const ACCOUNTS: usize = 0;
pub(crate) const HR: usize = 1;

const DISABLE: &str = "{ disable = { status = \"disabled\", room = \"\", note = \"left\" } }";

impl Company {
    pub(crate) fn new(place: Place) -> Company {
        let at = |file: &str| place.scratch.path().join(file).display().to_string();
        let config = format!(
            r#"
[store]
{store}
durability = "off"
commit_objects = 3

[metaverse.person]
attributes = {{ id = "text", name = "text", mail = "text", room = "text", born = "text", active = "boolean", card = "text" }}

[agents.accounts]
type = "delimited"
path = "{accounts}"
anchor = "login"

[agents.hr]
type = "delimited"
path = "{hr}"
anchor = "id"

[[inbound]]
agent = "hr"
to = "person"
join = [{{ cs = "id", mv = "id" }}]
project = true
[inbound.flow]
id = "id"
name = "name"
mail = "mail"
born = "born"
active = {{ expression = "cs.status == 'active'" }}

[[inbound]]
agent = "accounts"
to = "person"
join = [{{ cs = "number", mv = "id" }}]

[[outbound]]
agent = "accounts"
from = "person"
when = "mv.active"
dn = "mv.name"
deprovision = {DISABLE}
flow = {{ number = "id", name = "name", status = {{ constant = "on" }} }}
initial = {{ login = "name", room = {{ constant = "new" }} }}

[safety]
import = {{ least_share = 0.0 }}
synchronization = {{ deletes = 2, delete_share = 1.0 }}
export = {{ deletes = 2, delete_share = 1.0 }}
"#,
            store = place.keys(),
            accounts = at("accounts.csv"),
            hr = at("hr.csv"),
        );
        let company = Company { place, config };
        company.write("accounts.csv", "login,number,name,status,room,note\n");
        company
    }

    pub(crate) fn with(mut self, from: &str, to: &str) -> Company {
        assert!(self.config.contains(from), "{from}");
        self.config = self.config.replacen(from, to, 1);
        self
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.place.scratch.path().join(file)
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    /// Writes the staff file: number, name and status.
    pub(crate) fn staff(&self, people: &[(u32, &str, &str)]) {
        let line =
            |(id, name, status): &(u32, &str, &str)| format!("{id},{name},{name}@plim.example,,{status}\n");
        let lines: String = people.iter().map(line).collect();
        self.write("hr.csv", &format!("id,name,mail,born,status\n{lines}"));
    }

    pub(crate) fn config(&self) -> Config {
        connectors::parse(&self.config).unwrap_or_else(|wrong| panic!("{wrong:?}"))
    }

    pub(crate) fn open(&self) -> Metadirectory {
        Metadirectory::open(self.config()).unwrap()
    }

    pub(crate) fn accounts(&self) -> Vec<String> {
        table(&self.path("accounts.csv"))
    }
}

pub(crate) fn import(directory: &mut Metadirectory, kind: StepKind) -> Did {
    run(directory, HR, StepKind::FullImport);
    run(directory, HR, kind)
}

/// Exports and confirms.
pub(crate) fn export(directory: &mut Metadirectory) -> Did {
    let mut did = run(directory, ACCOUNTS, StepKind::Export);
    did.extend(run(directory, ACCOUNTS, StepKind::FullImport));
    did.extend(run(directory, ACCOUNTS, StepKind::DeltaSynchronization));
    did
}

fn gauges(directory: &mut Metadirectory) -> Gauges {
    directory.status().unwrap().0[ACCOUNTS].1
}

/// Checks that nothing changes any more, whatever is synchronized.
fn is_quiet(directory: &mut Metadirectory) {
    let quiet = [
        "stage-no-change",
        "connector-no-flow",
        "disconnector-remains",
        "disconnector-deprovisioned",
        "disconnector-explicit",
        "disconnector-filtered",
        "ambiguous-join",
    ];
    for agent in [HR, ACCOUNTS] {
        for kind in [StepKind::FullImport, StepKind::FullSynchronization, StepKind::Export] {
            let did: Did = try_run(directory, agent, kind).unwrap().statistics.iter().collect();
            assert!(did.iter().all(|(what, _)| quiet.contains(what)), "{agent} {kind:?}: {did:?}");
        }
    }
}

const ENABLED: &str = "login=Ada name=Ada number=1 room=new status=on";
const DISABLED: &str = "login=Ada name=Ada note=left number=1 status=disabled";

fn a_disabled_account_is_enabled_when_its_person_returns(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = company.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    assert_eq!(company.accounts()[0], ENABLED);
    for _ in 0..2 {
        company.staff(&[(1, "Ada", "left"), (2, "Alan", "active")]);
        let did = import(&mut directory, StepKind::DeltaSynchronization);
        assert!(did.contains(&("provisioned-disable", 1)), "{did:?}");
        export(&mut directory);
        assert_eq!(company.accounts()[0], DISABLED);
        // It does not join again, and is not disabled again.
        is_quiet(&mut directory);
        let now = gauges(&mut directory);
        assert_eq!((now.connectors, now.deprovisioned, now.disconnectors), (1, 1, 0));
        company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
        let did = import(&mut directory, StepKind::DeltaSynchronization);
        assert!(did.contains(&("provisioned-reconnect", 1)), "{did:?}");
        export(&mut directory);
        assert_eq!(company.accounts()[0], ENABLED);
        assert_eq!(company.accounts().len(), 2);
        is_quiet(&mut directory);
    }
    // Both happen before an export: nothing is sent.
    for status in ["left", "active"] {
        company.staff(&[(1, "Ada", status), (2, "Alan", "active")]);
        import(&mut directory, StepKind::DeltaSynchronization);
    }
    assert_eq!(run(&mut directory, ACCOUNTS, StepKind::Export), []);
    is_quiet(&mut directory);
}

fn a_rehired_person_gets_the_old_account_back(place: Place) {
    let company = Company::new(place);
    let mut directory = company.open();
    for kind in [StepKind::DeltaSynchronization, StepKind::FullSynchronization] {
        company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
        import(&mut directory, kind);
        export(&mut directory);
        assert_eq!(company.accounts()[0], ENABLED);
        is_quiet(&mut directory);
        // The row is gone, and with it the metaverse object.
        company.staff(&[(2, "Alan", "active")]);
        let did = import(&mut directory, kind);
        assert!(did.contains(&("metaverse-delete", 1)), "{did:?}");
        export(&mut directory);
        assert_eq!(company.accounts()[0], DISABLED);
        is_quiet(&mut directory);
        assert_eq!(gauges(&mut directory).deprovisioned, 1);
    }
    // Somebody else with the same name does not get the account.
    company.staff(&[(2, "Alan", "active"), (3, "Ada", "active")]);
    run(&mut directory, HR, StepKind::FullImport);
    let result = try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
    let [ObjectError { text: why, .. }] = result.failures.as_slice() else { panic!("{result:?}") };
    assert!(
        why.contains("the name \"Ada\" is taken by accounts \"Ada\", which was deprovisioned; no join rule matched (rule 1: `number` is \"1\" there)"),
        "{why}"
    );
    assert_eq!(company.accounts()[0], DISABLED);
}

fn a_deletion_is_withdrawn_or_the_account_is_made_again(place: Place) {
    let company = Company::new(place).with(DISABLE, "\"delete\"");
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let mut directory = company.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    for is_sent in [false, true, true] {
        company.staff(&[(1, "Ada", "left"), (2, "Alan", "active")]);
        import(&mut directory, StepKind::DeltaSynchronization);
        if is_sent {
            assert_eq!(run(&mut directory, ACCOUNTS, StepKind::Export), [("export-delete", 1)]);
            assert_eq!(company.accounts().len(), 1);
        }
        company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
        import(&mut directory, StepKind::DeltaSynchronization);
        let did = export(&mut directory);
        assert_eq!(did.contains(&("export-add", 1)), is_sent, "{did:?}");
        assert_eq!(company.accounts().len(), 2);
        assert_eq!(company.accounts()[0], ENABLED);
        is_quiet(&mut directory);
    }
    // A confirmed deletion leaves nothing behind.
    company.staff(&[(2, "Alan", "active")]);
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    let now = gauges(&mut directory);
    assert_eq!((now.objects, now.connectors), (1, 1));
}

fn old_leavers_do_not_count_as_deletions(place: Place) {
    let company = Company::new(place);
    let names: Vec<String> = (1..=20).map(|id| format!("N{id}")).collect();
    let people = |left: usize| -> Vec<(u32, &str, &str)> {
        let status = |at: usize| if at < left { "left" } else { "active" };
        names.iter().enumerate().map(|(at, name)| (at as u32 + 1, name.as_str(), status(at))).collect()
    };
    company.staff(&people(0));
    let mut directory = company.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    // Two deletions are allowed at a time. Over the years, all but two leave.
    for left in (2..=18).step_by(2) {
        company.staff(&people(left));
        import(&mut directory, StepKind::FullSynchronization);
        export(&mut directory);
        run(&mut directory, ACCOUNTS, StepKind::FullSynchronization);
    }
    assert_eq!(gauges(&mut directory).deprovisioned, 18);
    company.staff(&people(20));
    import(&mut directory, StepKind::FullSynchronization);
    export(&mut directory);
    is_quiet(&mut directory);
    // Three at once are too many.
    company.staff(&people(17));
    import(&mut directory, StepKind::FullSynchronization);
    company.staff(&people(20));
    run(&mut directory, HR, StepKind::FullImport);
    let stopped = try_run(&mut directory, HR, StepKind::FullSynchronization).unwrap_err();
    assert!(matches!(stopped, StepError::Threshold(_)), "{stopped}");
}

fn an_existing_account_is_joined_in_any_order(place: Place) {
    let steps = [
        (HR, StepKind::FullImport),
        (HR, StepKind::DeltaSynchronization),
        (ACCOUNTS, StepKind::FullImport),
        (ACCOUNTS, StepKind::DeltaSynchronization),
    ];
    // The accounts are read and synchronized before, between and after the steps of the staff file.
    for order in [[0, 1, 2, 3], [0, 2, 1, 3], [0, 2, 3, 1], [2, 0, 1, 3], [2, 0, 3, 1], [2, 3, 0, 1]] {
        for commit_objects in [1, 3, 1000] {
            let company = Company::new(place.another())
                .with("commit_objects = 3", &format!("commit_objects = {commit_objects}"));
            let names = ["Ada", "Alan", "Grace", "Edsger", "Barbara"];
            let people: Vec<(u32, &str, &str)> =
                names.iter().enumerate().map(|(at, name)| (at as u32 + 1, *name, "active")).collect();
            company.staff(&people);
            // Four of the five have an account, under other names.
            let accounts: String = (1..=4).map(|id| format!("old{id},{id},Old,,R{id},\n")).collect();
            company.write("accounts.csv", &format!("login,number,name,status,room,note\n{accounts}"));
            let mut directory = company.open();
            for (agent, kind) in order.map(|at| steps[at]) {
                run(&mut directory, agent, kind);
            }
            for _ in 0..2 {
                export(&mut directory);
            }
            let mut expected: Vec<String> = (1..=4)
                .map(|id| format!("login=old{id} name={} number={id} room=R{id} status=on", names[id - 1]))
                .collect();
            expected.push("login=Barbara name=Barbara number=5 room=new status=on".into());
            expected.sort();
            assert_eq!(company.accounts(), expected, "{order:?} {commit_objects}");
            assert_eq!(gauges(&mut directory).connectors, 5);
            is_quiet(&mut directory);
        }
    }
}

fn an_object_that_came_before_its_person_joins_later(place: Place) {
    let company = Company::new(place)
        .with("[agents.hr]", "[agents.cards]\ntype = \"delimited\"\npath = \"CARDS\"\nanchor = \"card\"\n\n[agents.hr]")
        .with(
            "[[outbound]]",
            "[[inbound]]\nagent = \"cards\"\nto = \"person\"\njoin = [{ cs = \"owner\", mv = \"mail\", ignore_case = true }]\n\
             flow = { card = \"card\" }\n\n[[outbound]]",
        )
        .with("name = \"name\", status", "name = \"name\", card = \"card\", status");
    let company = Company {
        config: company.config.replace("CARDS", &company.path("cards.csv").display().to_string()),
        ..company
    };
    let [cards, hr] = [1, 2];
    company.write("cards.csv", "card,owner\nC1,ADA@plim.example\nC2,nobody@plim.example\n");
    company.staff(&[(2, "Alan", "active")]);
    let mut directory = company.open();
    let day = |directory: &mut Metadirectory, agent: usize| {
        run(directory, agent, StepKind::FullImport);
        run(directory, agent, StepKind::DeltaSynchronization)
    };
    day(&mut directory, cards);
    day(&mut directory, hr);
    // A day later the person comes. Only deltas are synchronized.
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    let did = day(&mut directory, hr);
    assert!(did.contains(&("disconnector-joined", 1)), "{did:?}");
    export(&mut directory);
    assert_eq!(company.accounts()[0], "card=C1 login=Ada name=Ada number=1 room=new status=on");
    // The same for a value that the person gets later.
    company.write("cards.csv", "card,owner\nC1,ADA@plim.example\nC2,alan.t@plim.example\n");
    day(&mut directory, cards);
    let staff = fs::read_to_string(company.path("hr.csv")).unwrap();
    company.write("hr.csv", &staff.replace("Alan@", "alan.t@"));
    let did = day(&mut directory, hr);
    assert!(did.contains(&("disconnector-joined", 1)), "{did:?}");
    export(&mut directory);
    assert_eq!(company.accounts()[1], "card=C2 login=Alan name=Alan number=2 room=new status=on");
    is_quiet(&mut directory);
}

const TWO: &str = "login,number,name,status,room,note\nada,1,Ada,on,R1,\nada2,1,Ada,,R2,\n";

fn a_second_account_is_an_ambiguous_join(place: Place) {
    let steps = [
        (HR, StepKind::FullImport),
        (HR, StepKind::DeltaSynchronization),
        (ACCOUNTS, StepKind::FullImport),
        (ACCOUNTS, StepKind::DeltaSynchronization),
    ];
    for order in [[0, 1, 2, 3], [0, 2, 1, 3], [2, 3, 0, 1]] {
        let company = Company::new(place.another());
        company.write("accounts.csv", TWO);
        company.staff(&[(1, "Ada", "active")]);
        let mut directory = company.open();
        let mut reported: Vec<StepResult> = Vec::new();
        for (agent, kind) in order.map(|at| steps[at]).into_iter().chain([steps[3]]) {
            reported.push(try_run(&mut directory, agent, kind).unwrap());
        }
        let last = reported.pop().unwrap();
        assert_eq!(last.statistics.of("ambiguous-join"), 1, "{order:?} {last:?}");
        let [ObjectError { text: why, .. }] = last.failures.as_slice() else { panic!("{last:?}") };
        assert!(
            why.contains("accounts \"ada\" is connected to the same object of the metaverse already"),
            "{why}"
        );
        run(&mut directory, ACCOUNTS, StepKind::Export);
        assert_eq!(
            company.accounts(),
            ["login=ada name=Ada number=1 room=R1 status=on", "login=ada2 name=Ada number=1 room=R2"],
            "{order:?}"
        );
        assert_eq!((gauges(&mut directory).connectors, gauges(&mut directory).failures), (1, 1));
        // When the first one is deleted, the second one takes its place.
        company.write("accounts.csv", &TWO.replace("ada,1,Ada,on,R1,\n", ""));
        run(&mut directory, ACCOUNTS, StepKind::FullImport);
        try_run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization).unwrap();
        export(&mut directory);
        assert_eq!(company.accounts(), ["login=ada2 name=Ada number=1 room=R2 status=on"], "{order:?}");
        is_quiet(&mut directory);
    }
}

fn several_accounts_are_allowed_where_the_rules_say_so(place: Place) {
    let joins = "join = [{ cs = \"number\", mv = \"id\" }]";
    let company = Company::new(place).with(joins, &format!("{joins}\nmultiple_connectors = true"));
    company.write("accounts.csv", TWO);
    company.staff(&[(1, "Ada", "active")]);
    let mut directory = company.open();
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    import(&mut directory, StepKind::DeltaSynchronization);
    run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization);
    export(&mut directory);
    assert_eq!(gauges(&mut directory).connectors, 2);
    // Values flow to the first one; a leaver loses both.
    assert_eq!(company.accounts()[1], "login=ada2 name=Ada number=1 room=R2");
    is_quiet(&mut directory);
    company.staff(&[(1, "Ada", "left")]);
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    assert!(
        company.accounts().iter().all(|line| line.contains("status=disabled")),
        "{:?}",
        company.accounts()
    );
    company.staff(&[(1, "Ada", "active")]);
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    assert_eq!(gauges(&mut directory).connectors, 2);
    is_quiet(&mut directory);
}

fn an_ambiguous_rule_is_the_last_one_that_is_tried(place: Place) {
    let joins = "join = [{ cs = \"number\", mv = \"id\" }]";
    let company = Company::new(place)
        .with(joins, "join = [{ cs = \"name\", mv = \"name\" }, { cs = \"number\", mv = \"id\" }]");
    company.staff(&[(1, "Ada", "left"), (2, "Ada", "left")]);
    company.write("accounts.csv", "login,number,name,status,room,note\nold,2,Ada,,,\n");
    let mut directory = company.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    let result = try_run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization).unwrap();
    let [ObjectError { text: why, .. }] = result.failures.as_slice() else { panic!("{result:?}") };
    assert!(why.contains("the join by `name` finds 2 objects of the metaverse with \"Ada\""), "{why}");
    assert_eq!(gauges(&mut directory).connectors, 0);
    // Nobody gets a new account while it is not known whose the existing one is.
    company.staff(&[(1, "Ada", "left"), (2, "Ada", "active")]);
    run(&mut directory, HR, StepKind::FullImport);
    let result = try_run(&mut directory, HR, StepKind::DeltaSynchronization).unwrap();
    let [ObjectError { text: why, .. }] = result.failures.as_slice() else { panic!("{result:?}") };
    assert!(why.contains("accounts \"old\" may belong to it, and is not joined"), "{why}");
    // The second rule decides when the first one matches nothing.
    company.staff(&[(1, "Grace", "left"), (2, "Adele", "active")]);
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    assert_eq!(company.accounts(), ["login=old name=Adele number=2 status=on"]);
}

fn several_and_computed_values_are_compared(place: Place) {
    let joins = "join = [{ cs = \"number\", mv = \"id\" }]";
    let company = Company::new(place).with(
        joins,
        "join = [\n{ cs = { expression = \"cs.note.replace('no ', '')\" }, mv = \"id\" },\n\
         { cs = [\"name\", { expression = \"'19' + cs.room\" }], mv = [\"name\", \"born\"], ignore_case = true }]",
    );
    company.write(
        "hr.csv",
        "id,name,mail,born,status\n1,Ada,a,1915,active\n2,Alan,b,1912,active\n3,Ada,c,1912,active\n",
    );
    company.write(
        "accounts.csv",
        "login,number,name,status,room,note\nx,,ADA,,12,\ny,,alan,,,no 2\nz,,Ada,,13,\n",
    );
    let mut directory = company.open();
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization);
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    let mut expected = [
        "login=x name=Ada number=3 room=12 status=on",
        "login=y name=Alan note=no 2 number=2 status=on",
        "login=z name=Ada room=13",
        "login=Ada name=Ada number=1 room=new status=on",
    ];
    expected.sort_unstable();
    assert_eq!(company.accounts(), expected);
    is_quiet(&mut directory);
}

fn the_last_deciding_connector_ends_an_object(place: Place) {
    let company = Company::new(place)
        .with("born = \"text\", active", "born = \"text\", active")
        .with("[agents.hr]", "[agents.contractors]\ntype = \"delimited\"\npath = \"CONTRACTORS\"\nanchor = \"id\"\n\n[agents.hr]")
        .with(
            "[[outbound]]",
            "[[inbound]]\nagent = \"contractors\"\nto = \"person\"\njoin = [{ cs = \"id\", mv = \"id\" }]\nproject = true\n\
             flow = { room = \"room\" }\n\n[[outbound]]",
        )
        .with("active = { expression", "active = { precedence = 1, expression")
        .with("flow = { room = \"room\" }", "flow = { room = \"room\", active = { constant = \"true\", precedence = 2 }, id = { from = \"id\", precedence = 2 } }")
        .with("id = \"id\"\nname", "id = { from = \"id\", precedence = 1 }\nname")
        .with("[agents.accounts]", "[metaverse]\n\n[agents.accounts]")
        .with("[metaverse]\n\n", "")
        .with("[metaverse.person]\n", "[metaverse.person]\ndeleted_with = [\"hr\", \"contractors\"]\n")
        .with("dn = \"mv.name\"", "dn = \"mv.id\"")
        .with("login = \"name\"", "login = \"id\"");
    let path = company.path("contractors.csv").display().to_string();
    let company = Company { config: company.config.replace("CONTRACTORS", &path), ..company };
    let [accounts, contractors, hr] = [0, 1, 2];
    company.write("contractors.csv", "id,room\n1,X\n2,Y\n");
    company.staff(&[(1, "Ada", "active"), (3, "Alan", "active")]);
    let mut directory = company.open();
    let mut day = || {
        let mut did = Did::new();
        for agent in [contractors, hr] {
            run(&mut directory, agent, StepKind::FullImport);
        }
        for agent in [contractors, hr] {
            did.extend(run(&mut directory, agent, StepKind::DeltaSynchronization));
        }
        for kind in [StepKind::Export, StepKind::FullImport, StepKind::DeltaSynchronization] {
            run(&mut directory, accounts, kind);
        }
        (did, directory.status().unwrap().1)
    };
    assert_eq!(day().1, 3);
    // The employee stays a contractor, and the other way round.
    company.staff(&[(3, "Alan", "active")]);
    let (did, objects) = day();
    assert!(objects == 3 && did.contains(&("connector-delete", 1)), "{did:?}");
    company.staff(&[(1, "Ada", "active"), (3, "Alan", "active")]);
    day();
    company.write("contractors.csv", "id,room\n2,Y\n");
    assert_eq!(day().1, 3);
    // With its last connector of the two it ends, although it has an account.
    company.staff(&[(3, "Alan", "active")]);
    let (did, objects) = day();
    assert!(objects == 2 && did.contains(&("metaverse-delete", 1)), "{did:?}");
    // Both in one import.
    company.write("contractors.csv", "id,room\n2,Y\n3,Z\n");
    assert_eq!(day().1, 2);
    company.write("contractors.csv", "id,room\n2,Y\n");
    company.staff(&[]);
    assert_eq!(day().1, 1);
}

fn an_administrator_joins_and_disconnects(place: Place) {
    let company = Company::new(place).with(
        "join = [{ cs = \"number\", mv = \"id\" }]",
        "join = [{ cs = \"number\", mv = \"id\" }]\nfilter = \"default(cs.note, '') == 'robot'\"",
    );
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    company.write("accounts.csv", "login,number,name,status,room,note\nbyron,,,,R9,robot\nother,2,Al,,,\n");
    let mut directory = company.open();
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization);
    import(&mut directory, StepKind::DeltaSynchronization);
    let link = |directory: &mut Metadirectory, key: &str, link: Link<'_>| {
        directory.link(ACCOUNTS, key, link).map_err(|error| error.to_string())
    };
    let to = |key| Link::Join { agent: HR, key };
    // The provisioned account of Ada was not sent: it gives way to the one that the administrator knows.
    link(&mut directory, "byron", to("1")).unwrap();
    export(&mut directory);
    let accounts = [
        "login=byron name=Ada note=robot number=1 room=R9 status=on",
        "login=other name=Alan number=2 status=on",
    ];
    assert_eq!(company.accounts(), accounts);
    is_quiet(&mut directory);
    let now = gauges(&mut directory);
    assert_eq!((now.connectors, now.explicit_connectors), (2, 1));
    // Alan's account is disconnected, and nothing takes its place.
    let record = link(&mut directory, "other", Link::Disconnect).unwrap();
    assert_eq!((record.step.as_str(), record.text.as_str()), ("disconnect", "other"));
    company.staff(&[(1, "Ada", "active"), (2, "Alan T", "active")]);
    import(&mut directory, StepKind::FullSynchronization);
    export(&mut directory);
    assert_eq!(company.accounts(), accounts);
    is_quiet(&mut directory);
    let now = gauges(&mut directory);
    assert_eq!((now.connectors, now.explicit_disconnectors, now.disconnectors), (1, 1, 0));
    assert_eq!(directory.history(1000).unwrap().iter().filter(|step| step.step == "join").count(), 1);
    // What cannot be done is explained, and changes nothing.
    for (key, how, why) in [
        ("nobody", Link::Disconnect, "accounts has no object \"nobody\""),
        ("other", to("9"), "hr has no object \"9\""),
        ("other", to("1"), "accounts \"byron\" is connected to the same object of the metaverse already"),
        ("other", Link::Join { agent: ACCOUNTS, key: "other" }, "accounts other is not connected"),
    ] {
        let said = link(&mut directory, key, how).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    is_quiet(&mut directory);
    // Released, they follow the rules again: one joins, the other is filtered and replaced.
    link(&mut directory, "other", Link::Release).unwrap();
    link(&mut directory, "byron", Link::Release).unwrap();
    assert!(link(&mut directory, "byron", Link::Release).is_err());
    export(&mut directory);
    assert_eq!(
        company.accounts(),
        [
            "login=Ada name=Ada number=1 room=new status=on",
            "login=byron name=Ada note=robot number=1 room=R9 status=on",
            "login=other name=Alan T number=2 status=on",
        ]
    );
    is_quiet(&mut directory);
    // A person who left and returned keeps what an administrator joined.
    link(&mut directory, "byron", to("1")).unwrap_err();
    link(&mut directory, "Ada", Link::Disconnect).unwrap();
    link(&mut directory, "byron", to("1")).unwrap();
    for (status, count) in [("left", 1), ("active", 2)] {
        company.staff(&[(1, "Ada", status), (2, "Alan T", "active")]);
        import(&mut directory, StepKind::DeltaSynchronization);
        export(&mut directory);
        assert_eq!(gauges(&mut directory).connectors, count);
    }
}

fn a_row_that_exists_already_is_not_taken_over(place: Place) {
    for (existing, outcome, is_adopted) in [
        ("", "completed-export-errors", false),
        ("existing = \"report\"", "completed-warnings", false),
        ("existing = \"adopt\"", "success", true),
    ] {
        let company = Company::new(place.another());
        let path = company.path("accounts.db");
        let config = company.config.replace(
            &format!("type = \"delimited\"\npath = \"{}\"", company.path("accounts.csv").display()),
            &format!("type = \"sql\"\nsqlite = \"{}\"\ntable = \"accounts\"\n{existing}", path.display()),
        );
        assert_ne!(config, company.config);
        let company = Company { config, ..company };
        let table = "CREATE TABLE accounts (login text PRIMARY KEY, number text, name text, status text, room text, note text)";
        let rows = |sql: &str| -> Vec<String> {
            let database = rusqlite::Connection::open(&path).unwrap();
            let mut statement = database.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get(0)).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        };
        rusqlite::Connection::open(&path).unwrap().execute_batch(table).unwrap();
        company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
        let mut directory = company.open();
        run(&mut directory, ACCOUNTS, StepKind::FullImport);
        import(&mut directory, StepKind::DeltaSynchronization);
        // After the import, somebody makes an account of the same person, and a crash loses an answer.
        let made = "INSERT INTO accounts VALUES ('Ada', '1', 'Old', NULL, 'R1', 'kept'), ('Alan', '2', 'Alan', 'on', 'new', NULL)";
        rusqlite::Connection::open(&path).unwrap().execute_batch(made).unwrap();
        let result = try_run(&mut directory, ACCOUNTS, StepKind::Export).unwrap();
        assert_eq!(result.outcome(), outcome, "{result:?}");
        let ada = rows("SELECT name || room || note FROM accounts WHERE login = 'Ada'");
        assert_eq!(ada, [if is_adopted { "Adanewkept" } else { "OldR1kept" }]);
        if !is_adopted {
            let [ObjectError { text: why, .. }] = result.failures.as_slice() else { panic!("{result:?}") };
            assert!(
                why.contains("its `name` is \"Old\", not \"Ada\"; a join rule says that it is the same"),
                "{why}"
            );
        }
        assert_eq!(result.statistics.of("export-add"), if is_adopted { 2 } else { 1 });
        // The next import finds it, and the join rule connects it.
        run(&mut directory, ACCOUNTS, StepKind::FullImport);
        run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization);
        run(&mut directory, ACCOUNTS, StepKind::Export);
        export(&mut directory);
        assert_eq!(rows("SELECT name || note FROM accounts WHERE login = 'Ada'"), ["Adakept"]);
    }
}

fn a_leaver_is_deleted_after_the_grace_period(place: Place) {
    let grace = DISABLE.replacen("}", "}, delete_after = \"90d\" ", 1);
    let company = Company::new(place).with(DISABLE, &grace);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active"), (3, "Grace", "active")]);
    let mut directory = company.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    assert_eq!(directory.due(9).unwrap(), []);
    // Two leave, one of them altogether.
    company.staff(&[(1, "Ada", "left"), (3, "Grace", "active")]);
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    let due = directory.due(9).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let names: Vec<&str> = due.iter().map(|due| due.object.as_str()).collect();
    assert!(names.len() == 2 && names.contains(&"\"Ada\"") && names.contains(&"\"Alan\""), "{due:?}");
    assert!(
        due.iter().all(|due| due.agent == "accounts" && due.at_unix_s.abs_diff(now + 90 * 86_400) < 600),
        "{due:?}"
    );
    is_quiet(&mut directory);
    // The one who returns is not deleted. The time of the other one comes.
    company.staff(&[(1, "Ada", "active"), (3, "Grace", "active")]);
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    assert_eq!(directory.due(9).unwrap().len(), 1);
    drop(directory);
    let mut store = company.place.open();
    let due = store.deletions(u64::MAX, 9).unwrap();
    let over: Vec<Write> =
        due.iter().map(|(id, _)| Write::DeleteAt { id: *id, at_unix_s: Some(now - 1) }).collect();
    store.write(&over).unwrap();
    store.commit().unwrap();
    drop(store);
    let mut directory = company.open();
    let did = run(&mut directory, HR, StepKind::DeltaSynchronization);
    assert_eq!(did, [("provisioned-delete", 1)]);
    let did = export(&mut directory);
    assert!(did.contains(&("export-delete", 1)), "{did:?}");
    let accounts = company.accounts();
    assert!(accounts.len() == 2 && accounts.iter().all(|line| line.contains("status=on")), "{accounts:?}");
    assert_eq!(directory.due(9).unwrap(), []);
    is_quiet(&mut directory);
}

fn a_preview_shows_what_a_run_does_with_a_returner(place: Place) {
    let company = Company::new(place);
    company.staff(&[(1, "Ada", "active")]);
    let mut directory = company.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    company.staff(&[]);
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    company
        .write("accounts.csv", &(fs::read_to_string(company.path("accounts.csv")).unwrap() + "late,2,,,,\n"));
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
    run(&mut directory, HR, StepKind::FullImport);
    drop(directory);
    let changes = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&changes);
    let config = || connectors::parse(&company.config).unwrap();
    let sink = Box::new(move |change: Difference| into.lock().unwrap().push(change.to_string()));
    let mut preview = Metadirectory::preview(config(), sink).unwrap();
    let explained =
        |preview: &mut Metadirectory, agent, key: &str| preview.explain(agent, key).unwrap().unwrap().text;
    let text = explained(&mut preview, ACCOUNTS, "Ada");
    assert!(text.contains("deprovisioned; its metaverse object is deleted"), "{text}");
    drop(preview);
    let mut preview = Metadirectory::preview(config(), Box::new(|_| {})).unwrap();
    let text = explained(&mut preview, HR, "1");
    assert!(
        text.contains("a join rule connects accounts \"Ada\"\n")
            && text.contains("a connector, accounts \"Ada\""),
        "{text}"
    );
    let text = explained(&mut preview, HR, "2");
    assert!(
        text.contains("a join rule connects accounts \"late\"\n")
            && text.contains("out to accounts: a connector, accounts \"late\", because mv.active is true"),
        "{text}"
    );
    drop(preview);
    let into = Arc::clone(&changes);
    let sink = Box::new(move |change: Difference| into.lock().unwrap().push(change.to_string()));
    let mut preview = Metadirectory::preview(config(), sink).unwrap();
    changes.lock().unwrap().clear();
    let shown = run(&mut preview, HR, StepKind::DeltaSynchronization);
    drop(preview);
    let all = changes.lock().unwrap().join("\n");
    for line in [
        "export accounts: update Ada\n",
        "note: left -> nothing",
        "status: disabled -> on",
        "export accounts: update late\n",
    ] {
        assert!(all.contains(line), "{line}: {all}");
    }
    assert!(!all.contains("export accounts: add"), "{all}");
    // The run does the same.
    let mut directory = company.open();
    assert_eq!(run(&mut directory, HR, StepKind::DeltaSynchronization), shown);
    assert_eq!(run(&mut directory, ACCOUNTS, StepKind::Export), [("export-update", 2)]);
}

/// A source that lost a column, or in which a value of everybody changed, is stopped before anything follows from it.
fn an_empty_column_clears_nobody(place: Place) {
    let company = Company::new(place);
    let write = |mail: &dyn Fn(u32) -> String, born: &str| {
        let line = |id: u32| format!("{id},Name{id},{},{born},active\n", mail(id));
        let lines: String = (1..=40).map(line).collect();
        company.write("hr.csv", &format!("id,name,mail,born,status\n{lines}"));
    };
    let mail = |id: u32| format!("{id}@plim.example");
    write(&mail, "1990");
    let mut directory = company.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    export(&mut directory);
    drop(directory);
    let stopped = |text: &str, kind: StepKind| {
        let mut directory = Metadirectory::open(connectors::parse(text).unwrap()).unwrap();
        run(&mut directory, HR, StepKind::FullImport);
        let result =
            directory.run_recorded("r", plimsoll_metadir::config::Step { agent: HR, kind }, &mut |_| true);
        let error = result.unwrap_err().to_string();
        assert_eq!(directory.history(1).unwrap()[0].outcome, "stopped-threshold");
        error
    };
    write(&|_| String::new(), "1990");
    for kind in [StepKind::DeltaSynchronization, StepKind::FullSynchronization] {
        let error = stopped(&company.config, kind);
        assert!(
            error.starts_with(
                "stopped before the first change: `mail` would lose its value in 40 of 40 objects of hr, more than the 10 \
                 that safety.synchronization allows (`lost`)"
            ) && error.contains("--allow-updates 40"),
            "{error}"
        );
    }
    // Ten people without a mail address are a normal day.
    write(&|id| if id > 10 { mail(id) } else { String::new() }, "1990");
    let mut directory = company.open();
    let did = import(&mut directory, StepKind::DeltaSynchronization);
    assert!(did.contains(&("connector-flow", 10)), "{did:?}");
    drop(directory);
    // A change of everybody is allowed, unless it is limited.
    write(&|id| if id > 10 { mail(id) } else { String::new() }, "1991");
    let limited = |limit: &str| {
        let with = company.config.replace(
            "synchronization = { deletes = 2,",
            &format!("synchronization = {{ {limit}, deletes = 2,"),
        );
        assert_ne!(with, company.config);
        with
    };
    let error = stopped(&limited("attributes = { born = 20 }"), StepKind::DeltaSynchronization);
    assert!(error.contains("`born` would change in 40 of 40 objects of hr, more than the 20"), "{error}");
    let error = stopped(&limited("update_share = \"50%\""), StepKind::DeltaSynchronization);
    assert!(error.contains("40 of 40 objects of hr would change, more than the 20"), "{error}");
    let mut config = connectors::parse(&limited("updates = 20")).unwrap();
    config.safety.allow_updates(40);
    let mut directory = Metadirectory::open(config).unwrap();
    let did = import(&mut directory, StepKind::DeltaSynchronization);
    assert!(did.contains(&("connector-flow", 40)), "{did:?}");
}
