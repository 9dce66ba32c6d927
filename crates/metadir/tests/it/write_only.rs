//! Values that are sent once and never read: initial passwords in a database.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::object::CsId;
use plimsoll_metadir::store::ObjectError;
use plimsoll_metadir::store::Store;
use serde_json::Value;

use crate::lifecycle::{ACCOUNTS, Company, HR, import};
use crate::place::{Place, over_both_stores};
use crate::steps::{run, try_run};

over_both_stores! {
    a_generated_password_is_set_and_delivered_once,
    a_password_is_set_again_if_an_answer_was_lost,
    an_adopted_account_keeps_its_password,
    a_returner_gets_a_password_only_if_the_rules_say_so,
    a_password_that_cannot_be_delivered_is_replaced,
    values_come_from_a_file_or_an_expression,
    a_preview_delivers_nothing,
    a_secret_constant_is_hidden_in_every_view,
}

const GENERATE: &str = "password = { generate = { length = 24, file = \"FOLDER/passwords\" } }";

/// A staff file, and a table of accounts with passwords.
struct Accounts {
    company: Company,
}

impl Accounts {
    fn new(place: Place, write_only: &str) -> Accounts {
        let company = Company::new(place);
        let path = company.path("accounts.db");
        let config = company.config.replace(
            &format!("type = \"delimited\"\npath = \"{}\"", company.path("accounts.csv").display()),
            &format!(
                "type = \"sql\"\nsqlite = \"{}\"\ntable = \"accounts\"\nexisting = \"adopt\"",
                path.display()
            ),
        );
        let folder = company.place.scratch.path().display().to_string();
        let write_only = write_only.replace("FOLDER", &folder);
        let config = config.replace("[safety]", &format!("[outbound.write_only]\n{write_only}\n[safety]"));
        let table = "CREATE TABLE accounts (login text PRIMARY KEY, number text, name text, status text, room text, note text, password text)";
        rusqlite::Connection::open(&path).unwrap().execute_batch(table).unwrap();
        company.staff(&[(1, "Ada", "active"), (2, "Alan", "active")]);
        Accounts { company: Company { config, ..company } }
    }

    fn open(&self) -> Metadirectory {
        self.company.open()
    }

    fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.company.path("accounts.db")).unwrap()
    }

    fn password(&self, login: &str) -> Option<String> {
        let sql = "SELECT password FROM accounts WHERE login = ?1";
        self.database().query_row(sql, [login], |row| row.get(0)).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.company.path("passwords")
    }

    /// The delivered passwords: the accounts and the values.
    fn delivered(&self) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let field = |line: &Value, name: &str| line[name].as_str().unwrap().to_string();
        lines.map(|line| (field(&line, "object"), field(&line, "value"))).collect()
    }

    fn last_of(&self, login: &str) -> String {
        self.delivered().into_iter().rfind(|(object, _)| object == login).unwrap().1
    }

    /// Checks that no synchronization, import or export does anything more.
    fn is_quiet(&self, directory: &mut Metadirectory) {
        let (before, passwords) = (self.delivered(), [self.password("Ada"), self.password("Alan")]);
        for kind in [StepKind::FullImport, StepKind::DeltaSynchronization, StepKind::FullSynchronization] {
            for agent in [HR, ACCOUNTS] {
                let did = run(directory, agent, kind);
                let is_quiet =
                    |what: &str| what != "exported-change-not-reimported" && what != "outbound-flow";
                assert!(did.iter().all(|(what, _)| is_quiet(what)), "{did:?}");
            }
        }
        assert_eq!(run(directory, ACCOUNTS, StepKind::Export), []);
        assert_eq!((self.delivered(), [self.password("Ada"), self.password("Alan")]), (before, passwords));
    }
}

fn all_objects(store: &mut dyn Store) -> String {
    let ids: Vec<CsId> = (0..100).map(CsId).collect();
    format!("{:?}", store.cs(&ids).unwrap())
}

fn a_generated_password_is_set_and_delivered_once(place: Place) {
    let accounts = Accounts::new(place, GENERATE);
    let mut directory = accounts.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    assert_eq!(run(&mut directory, ACCOUNTS, StepKind::Export), [("export-add", 2)]);
    let delivered = accounts.delivered();
    assert_eq!(delivered.len(), 2);
    assert_ne!(delivered[0].1, delivered[1].1);
    for (object, value) in &delivered {
        assert_eq!(accounts.password(object).as_ref(), Some(value));
        assert_eq!(value.len(), 24);
        assert!(value.chars().all(|of| of.is_ascii_alphanumeric() && !"0O1Il".contains(of)), "{value}");
    }
    assert_eq!(std::fs::metadata(accounts.file()).unwrap().permissions().mode() & 0o777, 0o600);
    accounts.is_quiet(&mut directory);
    // A user chooses another one: it is neither read nor corrected.
    accounts
        .database()
        .execute("UPDATE accounts SET password = 'chosen by Ada' WHERE login = 'Ada'", [])
        .unwrap();
    let did = run(&mut directory, ACCOUNTS, StepKind::FullImport);
    assert_eq!(did, [("stage-no-change", 2)]);
    accounts.is_quiet(&mut directory);
    drop(directory);
    let place = &accounts.company.place;
    let stored = all_objects(place.open().as_mut());
    assert!(stored.contains("Ada"), "{stored}");
    let mut secrets = vec!["chosen by Ada".to_string()];
    secrets.extend(delivered.into_iter().map(|(_, value)| value));
    for secret in &secrets {
        assert!(!stored.contains(secret));
        if !place.is_server() {
            for file in ["store.db", "store.db-wal"] {
                let bytes = std::fs::read(place.scratch.join(file)).unwrap_or_default();
                assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{file}");
            }
        }
    }
}

fn a_password_is_set_again_if_an_answer_was_lost(place: Place) {
    let accounts = Accounts::new(place, GENERATE);
    let mut directory = accounts.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    // An earlier export was killed after it had added the row, before it delivered the password.
    let row = "INSERT INTO accounts VALUES ('Ada', '1', 'Ada', 'on', 'new', NULL, 'known to nobody')";
    accounts.database().execute_batch(row).unwrap();
    assert_eq!(run(&mut directory, ACCOUNTS, StepKind::Export), [("export-add", 2)]);
    for login in ["Ada", "Alan"] {
        assert_eq!(accounts.password(login), Some(accounts.last_of(login)));
    }
    accounts.is_quiet(&mut directory);
    // A row that is gone is made again, with a password.
    let before = accounts.last_of("Ada");
    accounts.database().execute("DELETE FROM accounts WHERE login = 'Ada'", []).unwrap();
    for (agent, kind) in [
        (ACCOUNTS, StepKind::FullImport),
        (ACCOUNTS, StepKind::DeltaSynchronization),
        (HR, StepKind::FullSynchronization),
        (ACCOUNTS, StepKind::Export),
    ] {
        run(&mut directory, agent, kind);
    }
    assert_ne!(accounts.last_of("Ada"), before);
    assert_eq!(accounts.password("Ada"), Some(accounts.last_of("Ada")));
    accounts.is_quiet(&mut directory);
}

fn an_adopted_account_keeps_its_password(place: Place) {
    let accounts = Accounts::new(place, GENERATE);
    let mut directory = accounts.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    let row = "INSERT INTO accounts VALUES ('Ada', '1', 'Old', 'off', NULL, NULL, 'chosen by Ada')";
    accounts.database().execute_batch(row).unwrap();
    assert_eq!(run(&mut directory, ACCOUNTS, StepKind::Export), [("export-add", 2)]);
    assert_eq!(accounts.password("Ada").as_deref(), Some("chosen by Ada"));
    assert_eq!(accounts.delivered().len(), 1);
    accounts.is_quiet(&mut directory);
}

fn a_returner_gets_a_password_only_if_the_rules_say_so(place: Place) {
    for (on_return, count) in [("", 2), (", on_return = true", 3)] {
        let rule = GENERATE.replace("passwords\" }", &format!("passwords\" }}{on_return}"));
        let accounts = Accounts::new(place.another(), &rule);
        let mut directory = accounts.open();
        for status in ["active", "left", "active"] {
            accounts.company.staff(&[(1, "Ada", status), (2, "Alan", "active")]);
            import(&mut directory, StepKind::DeltaSynchronization);
            run(&mut directory, ACCOUNTS, StepKind::Export);
            run(&mut directory, ACCOUNTS, StepKind::FullImport);
            run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization);
        }
        assert_eq!(accounts.delivered().len(), count);
        assert_eq!(accounts.password("Ada"), Some(accounts.last_of("Ada")));
        accounts.is_quiet(&mut directory);
    }
}

fn a_password_that_cannot_be_delivered_is_replaced(place: Place) {
    let command =
        "password = { generate = { command = [\"sh\", \"FOLDER/deliver\", \"FOLDER/passwords\"] } }";
    let accounts = Accounts::new(place, command);
    let folder = &accounts.company.place.scratch;
    folder.file(
        "deliver",
        "read line\ncase $line in *Alan*) echo \"$line\" >&2; exit 7;; esac\necho \"$line\" >> $1\n",
    );
    let mut directory = accounts.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    let result = try_run(&mut directory, ACCOUNTS, StepKind::Export).unwrap();
    assert_eq!(result.outcome(), "completed-export-errors");
    let [ObjectError { object, text: why, .. }] = result.failures.as_slice() else { panic!("{result:?}") };
    assert_eq!(object, "Alan");
    assert!(why.starts_with("its password was set and not delivered: sh failed: exit status: 7"), "{why}");
    let unknown = accounts.password("Alan").unwrap();
    assert!(!why.contains(&unknown) && accounts.delivered().len() == 1);
    // Also after an import has shown the account.
    run(&mut directory, ACCOUNTS, StepKind::FullImport);
    run(&mut directory, ACCOUNTS, StepKind::DeltaSynchronization);
    folder.file("deliver", "cat >> $1\n");
    run(&mut directory, ACCOUNTS, StepKind::Export);
    assert_ne!(accounts.password("Alan"), Some(unknown));
    assert_eq!(accounts.password("Alan"), Some(accounts.last_of("Alan")));
    assert_eq!(directory.status().unwrap().0[ACCOUNTS].1.failures, 0);
    accounts.is_quiet(&mut directory);
}

fn values_come_from_a_file_or_an_expression(place: Place) {
    let rules =
        "password = { value_file = \"FOLDER/initial\" }\nnote = { expression = \"mv.name + '-' + mv.id\" }";
    let accounts = Accounts::new(place, rules);
    let config = accounts.company.config.replace(", note = \"left\"", "");
    let accounts = Accounts { company: Company { config, ..accounts.company } };
    let mut directory = accounts.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    let result = try_run(&mut directory, ACCOUNTS, StepKind::Export).unwrap();
    assert!(
        result.failures.len() == 2 && result.failures[0].text.contains("reading the password"),
        "{result:?}"
    );
    accounts.company.place.scratch.secret("initial", "Welcome-42\n");
    assert_eq!(run(&mut directory, ACCOUNTS, StepKind::Export), [("export-add", 2)]);
    assert_eq!(accounts.password("Alan").as_deref(), Some("Welcome-42"));
    let note: String = accounts
        .database()
        .query_row("SELECT note FROM accounts WHERE login = 'Ada'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(note, "Ada-1");
    accounts.is_quiet(&mut directory);
}

fn a_preview_delivers_nothing(place: Place) {
    let accounts = Accounts::new(place, GENERATE);
    let seen = Arc::new(Mutex::new(String::new()));
    let sink = seen.clone();
    let config = connectors::parse(&accounts.company.config).unwrap();
    let mut preview = Metadirectory::preview(
        config,
        Box::new(move |difference| sink.lock().unwrap().push_str(&format!("{difference}\n"))),
    )
    .unwrap();
    run(&mut preview, HR, StepKind::FullImport);
    let why = preview.explain(HR, "1").unwrap().unwrap().text;
    assert!(why.contains("password: (hidden) (write only)"), "{why}");
    run(&mut preview, HR, StepKind::DeltaSynchronization);
    let did = run(&mut preview, ACCOUNTS, StepKind::Export);
    assert_eq!(did, [("export-add", 2)]);
    assert!(seen.lock().unwrap().contains("    password: (hidden)\n"), "{}", seen.lock().unwrap());
    assert!(!accounts.file().exists());
}

fn a_secret_constant_is_hidden_in_every_view(place: Place) {
    let accounts = Accounts::new(place, GENERATE);
    let config = accounts
        .company
        .config
        .replace("born = \"born\"", "born = { constant = \"geheim-1\", secret = true }")
        .replace("name = \"name\", status", "name = \"name\", note = \"born\", status")
        .replace(", note = \"left\"", "")
        .replace("existing = \"adopt\"", "existing = \"refuse\"");
    let accounts = Accounts { company: Company { config, ..accounts.company } };
    let seen = Arc::new(Mutex::new(String::new()));
    let sink = seen.clone();
    let mut preview = Metadirectory::preview(
        connectors::parse(&accounts.company.config).unwrap(),
        Box::new(move |difference| sink.lock().unwrap().push_str(&format!("{difference}\n{difference:?}\n"))),
    )
    .unwrap();
    run(&mut preview, HR, StepKind::FullImport);
    let why = preview.explain(HR, "1").unwrap().unwrap().text;
    for line in ["born: (hidden) from hr (constant (hidden))", "note: (hidden) (born)"] {
        assert!(why.contains(line), "{line}: {why}");
    }
    run(&mut preview, HR, StepKind::DeltaSynchronization);
    run(&mut preview, ACCOUNTS, StepKind::Export);
    let seen = seen.lock().unwrap().clone();
    assert!(seen.contains("    note: (hidden)") && seen.contains("    born: (hidden)"), "{seen}");
    assert!(!seen.contains("geheim") && !why.contains("geheim"));
    drop(preview);
    // An error compares it with another value, and another error does not fit its type.
    let mut directory = accounts.open();
    import(&mut directory, StepKind::DeltaSynchronization);
    let row = "INSERT INTO accounts VALUES ('Ada', '1', 'Ada', 'on', 'new', 'geheim-2', NULL)";
    accounts.database().execute_batch(row).unwrap();
    let failed = try_run(&mut directory, ACCOUNTS, StepKind::Export).unwrap();
    assert!(failed.reported().contains("its `note` is \"(hidden)\", not \"(hidden)\""), "{failed:?}");
    let number = accounts.company.config.replace("born = \"text\"", "born = \"integer\"");
    assert_ne!(number, accounts.company.config);
    let number = number.replace("constant = \"geheim-1\"", "expression = \"'geheim-1'\"");
    drop(directory);
    let mut directory = Metadirectory::open(connectors::parse(&number).unwrap()).unwrap();
    let wrong = try_run(&mut directory, HR, StepKind::FullSynchronization).unwrap();
    assert!(wrong.reported().contains("`born` cannot be (hidden): no whole number"), "{wrong:?}");
    assert!(!format!("{failed:?}{wrong:?}").contains("geheim"));
}
