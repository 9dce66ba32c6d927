//! `plimsoll metadir serve` with real files, PostgreSQL and slapd. Nothing here depends on how fast it is: each test waits
//! for lines that the process prints.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, Slapd, SlapdOptions, organization};
use testkit::{Need, lacks};

use crate::metadir::{phone_book, staff, staff_and_phones};
use crate::program::{Place, command, run};

/// How long a line may take to come.
const PATIENCE: Duration = Duration::from_secs(90);

/// A process that serves the metadirectory of a place.
struct Serving {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Serving {
    fn start(place: &Place) -> Serving {
        let mut child = command(place, &["metadir", "serve"]).stderr(Stdio::piped()).spawn().unwrap();
        let err = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Serving { child, lines, said: Vec::new() }
    }

    /// Waits for a line with these words, and returns it.
    fn waits_for(&mut self, words: &str) -> String {
        let begin = Instant::now();
        while let Some(left) = PATIENCE.checked_sub(begin.elapsed()) {
            let Ok(line) = self.lines.recv_timeout(left) else { break };
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
        panic!("no line with {words:?}:\n{}", self.said.join("\n"));
    }

    fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }

    /// Ends it with SIGTERM; returns all that it said.
    fn end(mut self) -> String {
        self.signal("-TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.said.join("\n"));
        // The reader may still have lines of the process that has ended.
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.said.push(line);
        }
        self.said.join("\n")
    }

    /// Where metrics and health are.
    fn address(&mut self) -> String {
        let line = self.waits_for("metrics: http://");
        line.split("health: http://").nth(1).unwrap().trim_end_matches("/health").to_string()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status and the body of an answer.
fn asked(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

/// Checks a text by the grammar of OpenMetrics 1.0 as far as counters and gauges need it, and returns its samples.
fn samples(text: &str) -> Vec<(String, f64)> {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
    let (mut samples, mut families) = (Vec::new(), Vec::new());
    let mut family = (String::new(), String::new());
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty() && !families.contains(&name.to_string()), "{line}");
            families.push(name.into());
            family = (name.into(), String::new());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                name == family.0 && ["counter", "gauge"].contains(&kind) && family.1.is_empty(),
                "{line}"
            );
            family.1 = kind.into();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let suffix = if family.1 == "counter" { "_total" } else { "" };
            assert_eq!(name, format!("{}{suffix}", family.0), "{line}");
            let labels = labels.strip_suffix('}').unwrap();
            for label in labels.split(',').filter(|label| !label.is_empty()) {
                let (key, value) = label.split_once('=').unwrap();
                let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap();
                assert!(is_name(key) && !value.contains(['"', '\\']), "{line}");
            }
            let value: f64 = value.parse().unwrap();
            assert!(!samples.iter().any(|(known, _)| known == series), "{line} comes twice");
            assert!(family.1 == "gauge" || value >= 0.0, "{line}");
            samples.push((series.to_string(), value));
        }
    }
    assert!(!samples.is_empty());
    samples
}

fn sample(text: &str, series: &str) -> f64 {
    let all = samples(text);
    let found = all.iter().find(|(name, _)| name == series);
    found.unwrap_or_else(|| panic!("no {series} in {text}")).1
}

fn schedule(place: &Place, text: &str) {
    let mut all = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    all.push_str(text);
    std::fs::write(place.path("metadirectory.toml"), all).unwrap();
}

const ON_CHANGE: &str = "\n[serve]\nlisten = \"127.0.0.1:0\"\ntime_zone = \"UTC\"\n\
    [[schedule]]\nrun = \"full\"\nevery = \"100 d\"\non_change = [\"staff\"]\nquiet = \"1 s\"\n";

/// Replaces the staff file by another one.
fn replace_staff(place: &Place, text: &str) {
    std::fs::write(place.path("staff.new"), text).unwrap();
    std::fs::rename(place.path("staff.new"), place.path("staff.csv")).unwrap();
}

/// A place with 30 people in Oslo that is served and has completed its first run, with the address of its metrics.
fn served_staff(name: &str, schedules: &str) -> (Place, Serving, String) {
    let place = Place::new(name);
    staff_and_phones(&place);
    schedule(&place, schedules);
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    let mut serving = Serving::start(&place);
    let address = serving.address();
    serving.waits_for("full: completed, in ");
    (place, serving, address)
}

#[test]
fn a_run_begins_when_a_file_is_replaced_or_completely_written() {
    let (place, mut serving, address) = served_staff("serve-file", &ON_CHANGE.replace("1 s", "3 s"));
    assert_eq!(phone_book(&place).len(), 31);
    replace_staff(&place, &staff(30, |at| if at < 3 { "Lima" } else { "Oslo" }));
    serving.waits_for("full: begins, because staff changed");
    serving.waits_for("full: phones export: success in ");
    serving.waits_for("full: completed, in ");
    let book = std::fs::read_to_string(place.path("phones.csv")).unwrap();
    assert_eq!(book.matches("Lima").count(), 3);
    // Written in pieces, with pauses that are shorter than the quiet time: half a file would stop at `least_share`.
    let whole = staff(40, |_| "Rome");
    let mut file = File::create(place.path("staff.csv")).unwrap();
    for piece in whole.as_bytes().chunks(whole.len() / 8) {
        file.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    }
    drop(file);
    serving.waits_for("full: begins, because staff changed");
    serving.waits_for("full: completed, in ");
    assert_eq!(phone_book(&place).len(), 41);
    let (status, metrics) = asked(&address, "/metrics");
    assert_eq!(status, 200);
    assert_eq!(sample(&metrics, "plimsoll_metadir_runs_total{run=\"full\",result=\"success\"}"), 3.0);
    assert_eq!(sample(&metrics, "plimsoll_metadir_objects{agent=\"phones\"}"), 40.0);
    assert_eq!(sample(&metrics, "plimsoll_metadir_watched{agent=\"staff\"}"), 1.0);
    let added =
        "plimsoll_metadir_step_objects_total{agent=\"phones\",step=\"export\",counter=\"export-add\"}";
    assert_eq!(sample(&metrics, added), 40.0);
    assert!(sample(&metrics, "plimsoll_metadir_run_due_timestamp_seconds{run=\"full\"}") > 1e9);
    assert_eq!(asked(&address, "/health"), (200, "ok\n".into()));
    let (status, pages) = asked(&address, "/");
    assert!(status == 200 && pages.contains("/metrics: ") && pages.contains("/health: "), "{status} {pages}");
    assert_eq!(asked(&address, "/other").0, 404);
    // A second one is refused, and reading commands answer.
    let second = run(&place, &["metadir", "serve"]);
    let process = format!("process {} serves this metadirectory already", serving.child.id());
    assert!(second.code == 1 && second.err.contains(&process), "{}", second.err);
    let shown = run(&place, &["metadir", "status"]).out;
    assert!(shown.contains(&format!("serve: process {}, since ", serving.child.id())), "{shown}");
    assert!(shown.contains(", or when staff changes; last ") && shown.contains(": success"), "{shown}");
    let json = run(&place, &["metadir", "status", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["serve"]["runs"][0]["result"], &json["serve"]["healthy"]),
        (&"success".into(), &true.into())
    );
    let said = serving.end();
    assert!(!said.contains("stopped: "), "{said}");
    assert!(!run(&place, &["metadir", "status"]).out.contains("serve"));
}

#[test]
fn a_threshold_stays_visible_and_is_not_repeated() {
    let (place, mut serving, address) = served_staff("serve-threshold", ON_CHANGE);
    replace_staff(&place, &staff(2, |_| "Oslo"));
    let stopped = serving.waits_for("full: stopped: staff full-import: stopped before the first deletion");
    assert!(!stopped.contains("next now"), "{stopped}");
    let (status, words) = asked(&address, "/health");
    assert!(status == 503 && words.starts_with("run full fails since "), "{words}");
    let metrics = asked(&address, "/metrics").1;
    assert_eq!(sample(&metrics, "plimsoll_metadir_run_failing{run=\"full\"}"), 1.0);
    let shown = run(&place, &["metadir", "status"]).out;
    assert!(shown.contains("  run full fails since "), "{shown}");
    assert!(shown.contains(": stopped\n"), "{shown}");
    // The next process knows it. It tries once, because it cannot know what changed meanwhile.
    drop(serving.end());
    let mut serving = Serving::start(&place);
    let address = serving.address();
    serving.waits_for("full: begins, because serve started");
    serving.waits_for("full: stopped: ");
    let (status, words) = asked(&address, "/health");
    assert!(status == 503 && words.starts_with("run full fails since "), "{words}");
    replace_staff(&place, &staff(29, |_| "Oslo"));
    serving.waits_for("full: completed, in ");
    assert_eq!(asked(&address, "/health"), (200, "ok\n".into()));
    let metrics = asked(&address, "/metrics").1;
    assert_eq!(sample(&metrics, "plimsoll_metadir_runs_total{run=\"full\",result=\"stopped\"}"), 1.0);
    drop(serving.end());
}

#[test]
fn a_broken_configuration_is_reported_and_the_last_valid_one_stays() {
    let (place, mut serving, address) = served_staff("serve-configuration", ON_CHANGE);
    let good = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    std::fs::write(place.path("metadirectory.toml"), good.replace("[\"staff\"]", "[\"stuff\"]")).unwrap();
    serving.waits_for("the configuration cannot be used, and the last valid one stays in force");
    serving.waits_for("there is no agent \"stuff\"");
    let (status, words) = asked(&address, "/health");
    assert!(status == 503 && words.starts_with("the configuration cannot be used since "), "{words}");
    assert_eq!(sample(&asked(&address, "/metrics").1, "plimsoll_metadir_configuration_valid"), 0.0);
    replace_staff(&place, &staff(31, |_| "Oslo"));
    serving.waits_for("full: completed, in ");
    assert_eq!(phone_book(&place).len(), 32);
    // A valid one: the phone book gets no city from now on, after the full synchronization that this needs.
    let fewer = good
        .replace("run = \"full\"\n", "run = \"rules\"\n")
        .replace("[runs]\n", "[runs]\nrules = [\"staff full-import\"]\n");
    std::fs::write(place.path("metadirectory.toml"), fewer).unwrap();
    serving.waits_for("the configuration was read again");
    serving.waits_for("rules: begins, because ");
    serving.waits_for("rules: completed, in ");
    assert_eq!(asked(&address, "/health"), (200, "ok\n".into()));
    drop(serving.end());
}

#[test]
fn one_process_at_a_time_uses_the_store() {
    let place = Place::new("serve-one");
    staff_and_phones(&place);
    schedule(&place, ON_CHANGE);
    std::fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    assert_eq!(run(&place, &["metadir", "run", "full"]).code, 0);
    // What a process that runs steps holds.
    let lock = File::options().read(true).write(true).open(place.path("metadirectory.db.lock")).unwrap();
    lock.lock().unwrap();
    let mut serving = Serving::start(&place);
    serving.waits_for("full is due, and another process uses the metadirectory");
    // Changes meanwhile begin one run, not several.
    for people in [31, 32, 33] {
        replace_staff(&place, &staff(people, |_| "Oslo"));
        std::thread::sleep(Duration::from_millis(700));
    }
    drop(lock);
    serving.waits_for("full: begins, because ");
    serving.waits_for("full: completed, in ");
    assert_eq!(phone_book(&place).len(), 34);
    // Between runs, other commands may use the store.
    let by_hand = run(&place, &["metadir", "run", "full"]);
    assert_eq!(by_hand.code, 0, "{}", by_hand.err);
    let said = serving.end();
    // The last change may be noticed only during the run.
    assert!(said.matches("full: begins").count() <= 2, "{said}");
}

#[test]
fn a_killed_run_is_continued_and_a_command_beside_it_says_who_runs() {
    let place = Place::new("serve-killed");
    staff_and_phones(&place);
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let text = text.replace("commit_objects = 10000", "commit_objects = 1");
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
    schedule(&place, ON_CHANGE);
    std::fs::write(place.path("staff.csv"), staff(20_000, |_| "Oslo")).unwrap();
    let mut serving = Serving::start(&place);
    serving.waits_for("full: begins, because ");
    let by_hand = run(&place, &["metadir", "run", "full"]);
    assert_eq!(by_hand.code, 1, "{}", by_hand.out);
    let process = format!("process {}", serving.child.id());
    for words in
        ["another process uses this metadirectory", process.as_str(), "plimsoll metadir serve executes it"]
    {
        assert!(by_hand.err.contains(words), "{words}: {}", by_hand.err);
    }
    serving.signal("-KILL");
    assert_eq!(serving.child.wait().unwrap().code(), None);
    drop(serving);
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let text = text
        .replace("commit_objects = 1\n", "commit_objects = 10000\n")
        .replace("commit_objects = 1 ", "commit_objects = 10000 ");
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
    let mut serving = Serving::start(&place);
    serving.waits_for("full: begins, because the last run did not end");
    // SIGTERM during the run: it ends at the next commit, and the process ends well.
    let said = serving.end();
    assert!(said.contains("stopped by a signal"), "{said}");
    let mut serving = Serving::start(&place);
    serving.waits_for("full: completed, in ");
    assert_eq!(phone_book(&place).len(), 20_001);
    drop(serving.end());
}

#[test]
fn a_notification_of_postgresql_begins_a_run_also_after_a_lost_connection() {
    let Some(server) = testkit::Postgres::start(&[]) else { return };
    let sql = |statement: &str| {
        let done = Command::new("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &server.connection(), "-c", statement])
            .output()
            .unwrap();
        assert!(done.status.success(), "{statement}: {}", String::from_utf8_lossy(&done.stderr));
    };
    sql(
        "CREATE TABLE staff (\"employeeNumber\" text PRIMARY KEY, \"givenName\" text, sn text, mail text, title text, department text, l text); \
         CREATE FUNCTION report_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('Staff', ''); RETURN NULL; END $$; \
         CREATE TRIGGER report_change AFTER INSERT OR UPDATE OR DELETE ON staff FOR EACH STATEMENT EXECUTE FUNCTION report_change(); \
         INSERT INTO staff VALUES ('1', 'Ada', 'Byron', 'ada@example.com', NULL, 'D1', 'Oslo')",
    );
    let place = Place::new("serve-postgres");
    staff_and_phones(&place);
    let text = std::fs::read_to_string(place.path("metadirectory.toml")).unwrap();
    let agent = format!(
        "type = \"sql\"\npostgres = \"{}\"\ntable = \"staff\"\nnotify = \"Staff\"",
        server.connection()
    );
    let text = text.replace("type = \"delimited\"\npath = \"staff.csv\"", &agent);
    // The store is on the server too.
    let store = format!("postgres = \"{}\"", server.connection());
    let text = text.replace("sqlite = \"metadirectory.db\"", &store);
    std::fs::write(place.path("metadirectory.toml"), text).unwrap();
    schedule(&place, ON_CHANGE);
    let mut serving = Serving::start(&place);
    let address = serving.address();
    serving.waits_for("full: completed, in ");
    sql("INSERT INTO staff VALUES ('2', 'Bo', 'Lund', NULL, NULL, NULL, NULL)");
    serving.waits_for("full: begins, because staff changed");
    serving.waits_for("full: completed, in ");
    assert_eq!(phone_book(&place).len(), 3);
    // The listening session ends, and is opened again. What happened between is not lost.
    sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'plimsoll metadir'; \
         INSERT INTO staff VALUES ('3', 'Cy', 'Moe', NULL, NULL, NULL, NULL)",
    );
    serving.waits_for("staff is not watched: ");
    serving.waits_for("staff is watched again");
    serving.waits_for("full: begins, because staff was not watched for a while");
    serving.waits_for("full: completed, in ");
    assert_eq!(phone_book(&place).len(), 4);
    assert_eq!(asked(&address, "/health"), (200, "ok\n".into()));
    let shown = run(&place, &["metadir", "status"]).out;
    assert!(shown.contains("  full: next ") && shown.contains("or when staff changes; last "), "{shown}");
    let second = run(&place, &["metadir", "serve"]);
    assert!(second.code == 1 && second.err.contains("serves this metadirectory already"), "{}", second.err);
    sql("DELETE FROM staff WHERE \"employeeNumber\" = '3'");
    serving.waits_for("full: begins, because staff changed");
    serving.waits_for("full: completed, in ");
    assert_eq!(phone_book(&place).len(), 3);
    drop(serving.end());
}

#[test]
fn a_change_of_a_directory_begins_a_run_also_after_a_restart_of_the_server() {
    if lacks(Need::Program("ldapmodify")) {
        return;
    }
    let options = SlapdOptions {
        ldif: organization(&["people"]),
        database: "overlay syncprov".into(),
        ..SlapdOptions::default()
    };
    let Some(mut slapd) = Slapd::start(&options) else { return };
    let add = |url: &str, name: &str| {
        let entry = format!(
            "dn: cn={name},ou=people,dc=example,dc=com\nchangetype: add\nobjectClass: inetOrgPerson\ncn: {name}\nsn: {name}\n"
        );
        let mut child = Command::new("ldapmodify")
            .args(["-x", "-H", url, "-D", ROOT_DN, "-w", ROOT_PASSWORD])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(entry.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{name}");
    };
    let place = Place::new("serve-directory");
    let password = place.path("password");
    std::fs::write(&password, ROOT_PASSWORD).unwrap();
    std::fs::set_permissions(&password, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let configuration = format!(
        "[store]\nsqlite = \"m.db\"\n[metaverse.person]\nattributes = {{ name = \"text\" }}\n\
         [agents.directory]\ntype = \"ldap\"\nurl = \"{}\"\nbind_dn = \"{ROOT_DN}\"\npassword_file = \"password\"\n\
         base = \"ou=people,dc=example,dc=com\"\nfilter = \"(objectClass=inetOrgPerson)\"\nanchor = \"entryUUID\"\n\
         attributes = [\"cn\"]\ndelta = \"content-synchronization\"\n\
         [agents.phones]\ntype = \"delimited\"\npath = \"phones.csv\"\nanchor = \"number\"\n\
         [[inbound]]\nagent = \"directory\"\nto = \"person\"\nproject = true\nflow = {{ name = \"cn\" }}\n\
         [[outbound]]\nagent = \"phones\"\nfrom = \"person\"\nwhen = \"has(mv.name)\"\ndn = \"mv.name\"\n\
         deprovision = \"delete\"\nflow = {{ number = \"name\" }}\n\
         [runs]\nfull = [\"directory full-import\", \"directory delta-synchronization\", \"phones export\", \"phones full-import\", \"phones delta-synchronization\"]\n\
         delta = [\"directory delta-import\", \"directory delta-synchronization\", \"phones export\", \"phones full-import\", \"phones delta-synchronization\"]\n\
         [[schedule]]\nrun = \"delta\"\nevery = \"100 d\"\non_change = [\"directory\"]\nquiet = \"1 s\"\n",
        slapd.url()
    );
    std::fs::write(place.path("metadirectory.toml"), configuration).unwrap();
    add(&slapd.url(), "Ada");
    let first = run(&place, &["metadir", "run", "full"]);
    assert_eq!(first.code, 0, "{}{}", first.out, first.err);
    let mut serving = Serving::start(&place);
    serving.waits_for("delta: completed, in ");
    add(&slapd.url(), "Bo");
    serving.waits_for("delta: begins, because directory changed");
    serving.waits_for("delta: completed, in ");
    assert_eq!(phone_book(&place), ["Ada", "Bo", "number"]);
    slapd.kill();
    serving.waits_for("directory is not watched: ");
    let shown = run(&place, &["metadir", "status"]).out;
    assert!(shown.contains("  directory is not watched since "), "{shown}");
    slapd.start_again();
    add(&slapd.url(), "Cy");
    serving.waits_for("directory is watched again");
    serving.waits_for("delta: begins, because directory was not watched for a while");
    serving.waits_for("delta: completed, in ");
    assert_eq!(phone_book(&place), ["Ada", "Bo", "Cy", "number"]);
    add(&slapd.url(), "Di");
    serving.waits_for("delta: begins, because directory changed");
    serving.waits_for("delta: completed, in ");
    assert_eq!(phone_book(&place), ["Ada", "Bo", "Cy", "Di", "number"]);
    drop(serving.end());
}

#[test]
fn what_cannot_be_served_is_refused() {
    let place = Place::new("serve-refused");
    staff_and_phones(&place);
    let none = run(&place, &["metadir", "serve"]);
    assert!(none.code == 2 && none.err.contains("metadirectory.toml has no [[schedule]]"), "{}", none.err);
    schedule(
        &place,
        "\n[serve]\ntime_zone = \"Europe/Oslo\"\n[[schedule]]\nrun = \"full\"\nevery = \"90 min\"\n\
         at = [\"14:30\", \"02:00\"]\ndays = [\"mon\", \"sun\"]\non_change = [\"staff\"]\n",
    );
    let checked = run(&place, &["metadir", "check"]).out;
    let expected = "serve begins full every 90 min; at 02:00, 14:30 (Europe/Oslo) on Monday, Sunday; \
        when staff changed and is quiet for 5 s\n";
    assert!(checked.ends_with(expected), "{checked}");
    schedule(&place, "\n[[schedule]]\nrun = \"ful\"\nat = \"25:00\"\n");
    let wrong = run(&place, &["metadir", "check"]);
    assert_eq!(wrong.code, 2);
    for words in ["there is no run \"ful\" in [runs]", "\"25:00\" in `at` is not a time of day"] {
        assert!(wrong.err.contains(words), "{}", wrong.err);
    }
}
