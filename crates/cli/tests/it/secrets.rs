//! Credentials of a load: sent to the server, and found in nothing that is kept or printed.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use testkit::Slapd;
use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, SUFFIX, SlapdOptions, organization};

use crate::program::{Finished, Place, command};

/// A server that answers everything and keeps the first request of each connection.
fn serve() -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(String::new()));
    let keep = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let keep = keep.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut line, mut first) = (String::new(), true);
                while matches!(reader.read_line(&mut line), Ok(1..)) {
                    if first {
                        keep.lock().unwrap().push_str(&line);
                    }
                    if line == "\r\n" {
                        first = false;
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
                    }
                    line.clear();
                }
            });
        }
    });
    (address, seen)
}

/// All that was kept and printed.
fn everything(place: &Place, finished: &Finished) -> String {
    fn below(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            *all += &format!("{}\n", entry.path().display());
            match entry.file_type().unwrap().is_dir() {
                true => below(&entry.path(), all),
                false => *all += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()),
            }
        }
    }
    let mut all = format!("{}{}", finished.out, finished.err);
    for folder in ["r", "runs", "state"] {
        below(&place.path(folder), &mut all);
    }
    all
}

fn run(place: &Place, arguments: &[&str], token: Option<&str>) -> Finished {
    let mut command = command(place, arguments);
    command.env_remove("TEST_TOKEN").envs(token.map(|token| ("TEST_TOKEN", token)));
    let output = command.output().unwrap();
    Finished {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

const LOAD: [&str; 7] = ["--rate", "100/s", "--duration", "300ms", "--warm-up", "0s", "--run-dir"];

#[test]
fn credentials_on_the_command_line_are_sent_and_kept_nowhere() {
    let place = Place::new("secrets-flags");
    let (address, seen) = serve();
    let url = format!("http://{address}/page?access_token=S3CRET-1&page=2");
    let headers = ["--header", "Authorization: Bearer S3CRET-2", "--header", "Cookie: id=S3CRET-3"];
    let body = ["--method", "POST", "--body", "user=u&password=S3CRET-4"];
    for format in ["--json", "--quiet"] {
        let place = Place::new(&format!("secrets-flags{format}"));
        let finished =
            run(&place, &[&["http", &url, format][..], &headers, &body, &LOAD, &["r"]].concat(), None);
        assert!(finished.measured(), "{}", finished.err);
        let all = everything(&place, &finished);
        assert!(!all.contains("S3CRET"), "{}", all.lines().find(|line| line.contains("S3CRET")).unwrap());
        assert!(all.contains("access_token=***&page=2") && all.contains("Authorization: ***"));
    }
    let seen = seen.lock().unwrap();
    for sent in ["access_token=S3CRET-1", "Bearer S3CRET-2", "id=S3CRET-3"] {
        assert!(seen.contains(sent), "{seen}");
    }
    // No error message contains them.
    let wrong = format!("http://me:S3CRET@{address}/");
    let refused = run(&place, &["http", &wrong, "--header", "Cookie S3CRET: x"], None);
    assert_eq!(refused.code, 2);
    assert!(!refused.err.contains("S3CRET"), "{}", refused.err);
}

#[test]
fn placeholders_are_kept_and_what_they_stand_for_is_sent() {
    let place = Place::new("secrets-file");
    let (address, seen) = serve();
    let experiment = format!(
        "[workload.http]\nurl = \"http://{address}/?sig=${{env:TEST_TOKEN}}\"\n\
         header = [\"Authorization: Bearer ${{file:token}}\"]\n\
         [load]\nopen = \"100/s\"\nwarm_up = \"0s\"\nmeasure = \"300ms\"\n"
    );
    std::fs::write(place.path("e.toml"), &experiment).unwrap();
    std::fs::write(place.path("token"), "S3CRET-FILE\n").unwrap();
    std::fs::set_permissions(place.path("token"), PermissionsExt::from_mode(0o644)).unwrap();
    let arguments = ["run", "e.toml", "--run-dir", "r", "--quiet"];
    let refused = run(&place, &arguments, None);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused.err.contains("e.toml:2") && refused.err.contains("TEST_TOKEN is not set"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("e.toml:3") && refused.err.contains("`chmod 600"), "{}", refused.err);
    assert!(!place.path("r").exists());
    std::fs::set_permissions(place.path("token"), PermissionsExt::from_mode(0o600)).unwrap();
    let finished = run(&place, &arguments, Some("S3CRET-ENVIRONMENT"));
    assert!(finished.measured(), "{}", finished.err);
    let all = everything(&place, &finished);
    assert!(!all.contains("S3CRET"), "{}", all.lines().find(|line| line.contains("S3CRET")).unwrap());
    assert_eq!(std::fs::read_to_string(place.path("r/experiment.toml")).unwrap(), experiment);
    let seen = seen.lock().unwrap();
    assert!(seen.contains("sig=S3CRET-ENVIRONMENT") && seen.contains("Bearer S3CRET-FILE\r\n"), "{seen}");
}

#[test]
fn a_secret_written_out_in_a_file_is_not_kept_and_must_be_given_again() {
    let place = Place::new("secrets-literal");
    let (address, _) = serve();
    let experiment = format!(
        "# S3CRET in a comment\n[workload.http]\nurl = \"http://{address}/\"\n\
         header = [\"Authorization: Bearer S3\\u0043RET\"]\n\
         [load]\nopen = \"100/s\"\nwarm_up = \"0s\"\nmeasure = \"300ms\"\n"
    );
    std::fs::write(place.path("e.toml"), &experiment).unwrap();
    let finished = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"], None);
    assert!(finished.measured(), "{}", finished.err);
    let all = everything(&place, &finished);
    assert!(!all.contains("S3CRET"), "{}", all.lines().find(|line| line.contains("S3CRET")).unwrap());
    let again = run(&place, &["run", "r/experiment.toml", "--run-dir", "runs/again", "--quiet"], None);
    assert_eq!(again.code, 2, "{}", again.err);
    assert!(again.err.contains("is not recorded"), "{}", again.err);
    let again = run(
        &place,
        &[
            "run",
            "r/experiment.toml",
            "--set",
            "workload.header=Cookie: S3CRET",
            "--run-dir",
            "runs/again",
            "--quiet",
        ],
        None,
    );
    assert!(again.measured(), "{}", again.err);
    assert!(!everything(&place, &again).contains("S3CRET"));
}

#[test]
fn a_password_in_the_environment_of_the_target_reaches_it_and_no_record() {
    for (name, value) in [("placeholder", "${env:TEST_TOKEN}"), ("literal", "S3CRET-123")] {
        let place = Place::new(&format!("secrets-target-{name}"));
        let experiment = format!(
            "[target]\nstart = \"sh -c 'echo up ${{#APP_PASSWORD}} $LEVEL; exec sleep 60'\"\nready = \"line:^up 10 seen\"\n\
             environment = {{ APP_PASSWORD = \"{value}\", LEVEL = \"seen\" }}\n\
             [workload.command]\ncommand = [\"true\"]\nrepeat = 1\n"
        );
        std::fs::write(place.path("e.toml"), experiment).unwrap();
        let finished = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"], Some("S3CRET-123"));
        assert!(finished.measured(), "{}", finished.err);
        let all = everything(&place, &finished);
        assert!(!all.contains("S3CRET"), "{}", all.lines().find(|line| line.contains("S3CRET")).unwrap());
        assert!(all.contains("seen"));
    }
}

/// Each form of a credential in a command: in flags, addresses, connection strings, and in the word of a shell.
#[test]
fn credentials_in_commands_reach_the_command_and_no_record() {
    let place = Place::new("secrets-commands");
    let seen = place.path("seen");
    let words = [
        "--password",
        "S3CRET-1",
        "Server=a;Uid=sa;Pwd=S3CRET-2",
        "postgres://u:S3CRET-3@h",
        "-Dx.password=S3CRET-4",
    ];
    let script = format!("printf '%s\\n' \"$@\" >> {}", seen.display());
    let exec = [
        "exec",
        "--repeat",
        "1",
        "--run-dir",
        "r",
        "--prepare",
        "true mysql -pS3CRET-5",
        "--",
        "sh",
        "-c",
        &script,
        "x",
    ];
    let finished = run(&place, &[&exec[..], &words].concat(), None);
    assert!(finished.measured(), "{}", finished.err);
    let all = everything(&place, &finished);
    assert!(!all.contains("S3CRET"), "{}", all.lines().find(|line| line.contains("S3CRET")).unwrap());
    assert!(all.contains("mysql -p***") && all.contains("Uid=sa;Pwd=***"));
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), words.join("\n") + "\n");
    // What is hidden must be given again.
    for arguments in [&["run", "r/experiment.toml"][..], &["check", "r/experiment.toml"]] {
        let again = run(&place, arguments, None);
        assert_eq!(again.code, 2, "{}", again.err);
        assert!(again.err.contains("is not recorded") && again.err.contains("$NAME"), "{}", again.err);
    }
    let resumed = run(&place, &["run", "--resume", "r"], None);
    assert_eq!(resumed.code, 2, "{}", resumed.err);
    let message = format!("{}{}", resumed.out, resumed.err);
    assert!(!message.contains("S3CRET"), "{message}");
    // A command that fails is quoted.
    let failed = run(
        &place,
        &[
            "exec",
            "--repeat",
            "1",
            "--run-dir",
            "runs/f",
            "--",
            "sh",
            "-c",
            "exit 3",
            "curl",
            "-u",
            "bob:S3CRET",
        ],
        None,
    );
    assert!(!everything(&place, &failed).contains("S3CRET"), "{}", failed.err);
    assert!(failed.err.contains("ended with exit status 3"), "{}", failed.err);
}

#[test]
fn values_of_a_parameter_with_the_name_of_a_secret_are_numbered() {
    let place = Place::new("secrets-parameters");
    let seen = place.path("seen");
    let line = format!("sh -c 'echo \"$1\" >> {}' x {{password}}", seen.display());
    let finished = run(
        &place,
        &[
            "exec",
            "--repeat",
            "2",
            "--replicates",
            "2",
            "--run-dir",
            "r",
            "--parameter",
            "password=S3CRET-1,S3CRET-2",
            &line,
        ],
        None,
    );
    assert!(finished.measured(), "{}", finished.err);
    let all = everything(&place, &finished);
    assert!(!all.contains("S3CRET"), "{}", all.lines().find(|line| line.contains("S3CRET")).unwrap());
    assert!(all.contains("x ***2"));
    let seen = std::fs::read_to_string(&seen).unwrap();
    assert!(seen.contains("S3CRET-1\n") && seen.contains("S3CRET-2\n"), "{seen}");
}

#[test]
fn credentials_of_every_command_of_an_experiment_are_hidden_and_listed() {
    let place = Place::new("secrets-every-command");
    let experiment = "[target]\nstart = \"sh -c 'echo up; exec sleep 60' x --password S3CRET-1\"\n\
         ready = \"line:^up\"\nstop = \"kill $PLIMSOLL_TARGET_PID; true mysql -pS3CRET-2\"\n\
         [workload.command]\ncommand = [\"true\", \"--token=S3CRET-3\"]\nprepare = \"true; PGPASSWORD=S3CRET-4 true\"\n\
         repeat = 1\nwarmup = 0\n[vary]\n\"target.command.password\" = { baseline = \"S3CRET-5\", levels = [\"S3CRET-6\"], \
         set = \"echo {level} >> seen; true curl -u bob:S3CRET-7\", undo = \"true sshpass -p S3CRET-8\" }\n";
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    let checked = run(&place, &["check", "e.toml", "--verbose"], None);
    let said = format!("{}{}", checked.out, checked.err);
    assert!(checked.code == 0 && !said.contains("S3CRET"), "{said}");
    for listed in [
        "target.start: sh -c 'echo up; exec sleep 60' x --password *** (by its name)",
        "mysql -p*** (credentials of a program)",
        "command: --token=*** (by its name)",
        "prepare: true; PGPASSWORD=*** true (by its name)",
        "target.command.password.set: echo {level} >> seen; true curl -u *** (credentials of a program)",
        "target.command.password.undo: true sshpass -p *** (credentials of a program)",
    ] {
        assert!(said.contains(listed), "{listed} is not in {said}");
    }
    let finished = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"], None);
    assert!(finished.measured(), "{}", finished.err);
    let all = everything(&place, &finished);
    assert!(!all.contains("S3CRET"), "{}", all.lines().find(|line| line.contains("S3CRET")).unwrap());
    let seen = std::fs::read_to_string(place.path("seen")).unwrap();
    assert!(seen.contains("S3CRET-5\n") && seen.contains("S3CRET-6\n"), "{seen}");
}

/// The page of a health check has a key of its own.
#[test]
fn credentials_in_the_address_of_a_page_are_sent_and_kept_nowhere() {
    let place = Place::new("secrets-pages");
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (target, launched) = (free(), free());
    let experiment = format!(
        "[target]\nstart = \"sh -c 'exec python3 -m http.server {target} >/dev/null 2>&1'\"\n\
         ready = \"http://127.0.0.1:{target}/?token=S3CRET-1\"\n[workload.command]\n\
         command = [\"sh\", \"-c\", \"exec python3 -m http.server {launched} >/dev/null 2>&1\"]\n\
         until_http = \"http://127.0.0.1:{launched}/?api_key=S3CRET-2\"\nrepeat = 1\nwarmup = 0\n"
    );
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    let checked = run(&place, &["check", "e.toml", "--verbose"], None);
    let said = format!("{}{}", checked.out, checked.err);
    for listed in
        ["target.ready: http://127.0.0.1", "until_http: http://127.0.0.1", "?token=***", "?api_key=***"]
    {
        assert!(checked.code == 0 && said.contains(listed), "{listed} is not in {said}");
    }
    let finished = run(&place, &["run", "e.toml", "--run-dir", "r", "--quiet"], None);
    assert!(finished.measured(), "{}", finished.err);
    let all = everything(&place, &finished);
    assert!(!all.contains("S3CRET"), "{}", all.lines().find(|line| line.contains("S3CRET")).unwrap());
    let login = "[target]\nstart = \"true\"\nready = \"http://bob:S3CRET@127.0.0.1:1/\"\n[workload.null]\n";
    std::fs::write(place.path("login.toml"), login).unwrap();
    let refused = run(&place, &["check", "login.toml"], None);
    assert!(refused.code == 2 && refused.err.contains("a user name in the address"), "{}", refused.err);
    assert!(!refused.err.contains("S3CRET"), "{}", refused.err);
}

/// Messages quote the lines and arguments of a user, but no credential in them.
#[test]
fn no_message_shows_a_credential() {
    let place = Place::new("secrets-messages");
    let http = "name = \"t\"\n[workload.http]\nurl = \"http://127.0.0.1:1/\"\n";
    let files = [
        (
            "url",
            "name = \"t\"\n[workload.http]\nurl = \"http://u:S3CRET@127.0.0.1:1/?token=S3CRET\"\n"
                .to_string(),
        ),
        ("noequals", "[workload.ldap]\nurl = \"ldap://127.0.0.1:1\"\npassword \"S3CRET\"\n".into()),
        ("typo", "[workload.http]\nurl = \"http:/bob:S3CRET@h/\"\n".into()),
        ("headers", format!("{http}headers = [\"Authorization: Bearer S3CRET\"]\n")),
        (
            "misspelt",
            format!("{http}header = [\"Autorization Bearer S3CRET\"]\nmethd = \"Cookie: S3CRET\"\n"),
        ),
        ("one", format!("{http}header = \"Authorization: Bearer S3CRET\"\nx = 1\n")),
        (
            "unclosed",
            "name = \"t\"\n[workload.ldap]\nurl = \"ldap://127.0.0.1:1\"\npassword = \"S3CRET\n".into(),
        ),
        (
            "pasword",
            "name = \"t\"\n[workload.ldap]\nurl = \"ldap://127.0.0.1:1\"\npasword = \"S3CRET\"\n".into(),
        ),
        ("start", format!("{http}[target]\nstart = \"mysql -pS3CRET\"\n")),
        ("fields", format!("{http}headr = [\"X-Pin: S3CRET\"]\n")),
        ("machine", format!("{http}[machines]\nload = [\"a=exe:sshpass -p S3CRET ssh h\"]\n")),
        (
            "lines",
            format!("{http}body = '''\n{{\"name\": \"Authorization\",\n \"value\": \"S3CRET\"}}''' x\n"),
        ),
        (
            "environment",
            format!(
                "{http}[target]\nstrat = \"a --password S3CRET\"\nenvironment = {{ DB_PWD = \"S3CRET\", A = }}\n"
            ),
        ),
    ];
    let hides = |what: &str, finished: Finished, shows: &str| {
        let said = format!("{}{}", finished.out, finished.err);
        assert_eq!(finished.code, 2, "{what}: {said}");
        assert!(!said.contains("S3CRET") && said.contains(shows), "{what}: {said}");
    };
    for (name, text) in &files {
        let file = format!("{name}.toml");
        std::fs::write(place.path(&file), text).unwrap();
        hides(name, run(&place, &["check", &file], None), &file);
    }
    for (assignment, shows) in [
        ("workload.http.heade=Authorization: Bearer S3CRET", "workload.http.heade"),
        ("workload.pasword=S3CRET", "pasword"),
        ("workload.methd=http://u:S3CRET@host/", "methd"),
        ("target.strt=mysql -pS3CRET", "strt"),
        ("target.start=docker login -u a -p S3CRET", "start"),
    ] {
        hides(assignment, run(&place, &["check", "headers.toml", "--set", assignment], None), shows);
        hides(assignment, run(&place, &["run", "pasword.toml", "--set", assignment], None), "");
    }
    for (arguments, shows) in [
        (&["http", "http://u:S3CRET@127.0.0.1:x/"][..], "127.0.0.1:x"),
        (&["http", "http://h/", "--pasword=S3CRET"], "--pasword"),
        (&["http", "http://h/", "--rate", "Bearer S3CRET"], "--rate"),
        (&["http", "http://h/", "--header", "Authorization Bearer S3CRET"], "header"),
        (&["http", "http://h/", "http://u:S3CRET@h/"], "h/"),
        (&["http", "http:/bob:S3CRET@h/"], "http:/***@h/"),
        (&["http", "//bob:S3CRET@h/"], "//***@h/"),
        (&["http", "http//bob:S3CRET@h/"], "http//***@h/"),
        (&["http", "http:///bob:S3CRET@h"], "http:///***@h"),
        (&["http", "htp:bob:S3CRET@h"], "***@h"),
        (&["http", "http://h/", "-u", "bob:S3CRET"], "write --concurrency"),
        (&["http", "http://h/", "--export-to", "http:/bob:S3CRET@h"], "http:/***@h"),
        (&["http", "http://h/", "--watch", "x=http:/bob:S3CRET@h/m"], "x=http:/***@h/m"),
        (&["watch", "--from", "http:/bob:S3CRET@h/m"], "http:/***@h/m"),
        (&["http", "http://h/", "--on", "nats:/bob:S3CRET@h"], "nats:/***@h"),
        (&["http", "http://h/", "--on", "exec:sshpass -p S3CRET ssh h"], "sshpass -p ***"),
        (&["run", "url.toml", "--set", "workload.url=http:/bob:S3CRET@h"], "http:/***@h"),
        (&["ldap", "search", "http://u:S3CRET@h/", "--password", "S3CRET"], "ldap://"),
    ] {
        hides(&arguments.join(" "), run(&place, arguments, None), shows);
    }
    let job = "[global]\nfilename=/nowhere\nhttp_pass=S3CRET\nrw=readd\n[a]\n";
    std::fs::write(place.path("job.fio"), job).unwrap();
    hides("fio", run(&place, &["disk", "--fio", "job.fio"], None), "job.fio");
    // What is hidden is listed, with the reason.
    let listed = format!("{http}header = [\"X-Functions-Key: S3CRET\", \"Accept: a\"]\n");
    std::fs::write(place.path("listed.toml"), listed).unwrap();
    let checked = run(&place, &["check", "listed.toml", "--verbose", "--offline"], None);
    let said = format!("{}{}", checked.out, checked.err);
    assert!(!said.contains("S3CRET"), "{said}");
    if checked.code == 0 {
        assert!(said.contains("header: X-Functions-Key: *** (by its name)"), "{said}");
    }
}

#[test]
fn passwords_of_a_directory_are_sent_and_kept_nowhere() {
    let ldif = format!(
        "{}\ndn: uid=a,{SUFFIX}\nobjectClass: inetOrgPerson\nuid: a\ncn: a\nsn: a\nuserPassword: S3CRET-0\n",
        organization(&[])
    );
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() }) else { return };
    let (url, dn) = (slapd.url(), format!("uid=a,{SUFFIX}"));
    let bind = ["--bind-dn", ROOT_DN, "--password", ROOT_PASSWORD, "--dn", &dn];
    let file = format!(
        "[[operation]]\noperation = \"modify\"\ndn = \"{dn}\"\nchange = [\"replace sn: b\", \"replace userPassword: S3CRET-4\"]\n\
         [[operation]]\noperation = \"search\"\nfilter = \"(|(uid=a)(userPassword=S3CRET-5))\"\n"
    );
    let cases: [(&str, Vec<&str>, &str); 5] = [
        (
            "modify",
            [&bind[..], &["--change", "replace userPassword: S3CRET-1", "--change", "replace sn: b"]]
                .concat(),
            "userPassword: ***",
        ),
        ("compare", [&bind[..], &["--attribute", "userPassword: S3CRET-1"]].concat(), "userPassword: ***"),
        (
            "search",
            vec!["--base", SUFFIX, "--filter", "(&(uid=a)(!(userPassword=S3CRET-2)))"],
            "(userPassword=***)",
        ),
        (
            "add",
            [
                &bind[..4],
                &["--dn", "uid=${uuid},dc=example,dc=com", "--attribute", "objectClass: inetOrgPerson"],
                &["--attribute", "cn: a", "--attribute", "sn: a", "--attribute", "userPassword: S3CRET-3"],
            ]
            .concat(),
            "userPassword: ***",
        ),
        ("mixed", [&bind[..4], &["--from", "operations.toml"]].concat(), "userPassword: ***"),
    ];
    for (operation, arguments, shown) in cases {
        let place = Place::new(&format!("secrets-ldap-{operation}"));
        std::fs::write(place.path("operations.toml"), &file).unwrap();
        let load = ["--duration", "300ms", "--warm-up", "0s", "--json", "--run-dir", "r"];
        let finished = run(&place, &[&["ldap", operation, &url][..], &arguments, &load].concat(), None);
        assert!(finished.measured(), "{operation}: {}{}", finished.out, finished.err);
        let document: serde_json::Value = serde_json::from_str(&finished.out).unwrap();
        assert_eq!(document["trials"][0]["operations"][0]["failed"], 0, "{operation}: {document}");
        let all = everything(&place, &finished);
        let leak = all.lines().find(|line| line.contains("S3CRET"));
        assert_eq!(leak, None, "{operation}");
        assert!(all.contains(shown), "{operation}: {shown}");
    }
}
