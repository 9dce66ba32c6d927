//! Loads that agents drive together which wait on a NATS server.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::nats::JETSTREAM;
use testkit::{Authority, Bearer, NatsServer, Nginx, Scratch};

use crate::program::{Place, command};

const TOKEN: &str = "authorization { token: \"s3cret-token\" }\n";

/// A process that is ended when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(place: &Place, path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(place.path(path)).unwrap()).unwrap()
}

fn completed_by_machine(ran: &Value) -> Vec<u64> {
    let machines = ran["machines"].as_array().unwrap();
    machines.iter().map(|machine| machine["completed"].as_u64().unwrap()).collect()
}

/// A command with the token.
fn with_token(place: &Place, arguments: &[&str]) -> Command {
    let mut command = command(place, arguments);
    command.env("NATS_TOKEN", "s3cret-token");
    command
}

/// Starts an agent, and waits until it waits.
fn start(place: &Place, name: &str, url: &str, more: &[&str], variables: &[(&str, &str)]) -> Process {
    let mut arguments = vec!["agent", "--nats", url, "--name", name];
    arguments.extend(more);
    let log = place.path(&format!("{name}.log"));
    let process = command(place, &arguments)
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let process = Process(process);
    let read = || std::fs::read_to_string(&log).unwrap();
    wait_until(&format!("agent {name}"), || {
        one_line(&read()).contains(&format!("agent {name} waits in fleet"))
    });
    process
}

fn agent(place: &Place, name: &str, url: &str, more: &[&str]) -> Process {
    start(place, name, url, more, &[("NATS_TOKEN", "s3cret-token")])
}

/// The code, and what was printed in one line.
fn finished(mut command: Command) -> (i32, String) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), one_line(&said))
}

fn has_measured(code: i32) -> bool {
    matches!(code, 0 | 97 | 98)
}

const SHORT: [&str; 8] = ["--rate", "100/s", "--warm-up", "500ms", "--duration", "1s", "--run-dir", "r"];

#[test]
fn two_agents_drive_what_one_server_counts() {
    let Some(server) = NatsServer::start(Scratch::new(), &format!("{TOKEN}{JETSTREAM}")) else { return };
    let folder = Scratch::new();
    folder.file("hello.txt", "hello\n");
    let log = folder.path().join("access.log");
    let Some(nginx) = Nginx::start(folder, "", "", &format!("access_log {} ;", log.display())) else {
        return;
    };
    let place = Place::new("nats-http");
    let fleet = format!("nats://127.0.0.1:{}/load", server.port);
    let _agents = ["a1", "a2"].map(|name| agent(&place, name, &fleet, &["--allow", "127.0.0.1/32"]));
    let url = format!("http://127.0.0.1:{}/hello.txt", nginx.port);
    let on = format!("{fleet}?agents=2");
    let arguments = [
        "http",
        &url,
        "--on",
        &on,
        "--rate",
        "400/s",
        "--warm-up",
        "1s",
        "--duration",
        "3s",
        "--run-dir",
        "r",
    ];
    let (code, said) = finished(with_token(&place, &arguments));
    assert!(has_measured(code), "{said}");
    let served = std::fs::read_to_string(&log).unwrap().lines().count() as u64;
    let ran = json(&place, "r/trials/001-baseline.r1/run.json");
    let of_machines = completed_by_machine(&ran);
    assert!(
        of_machines.len() == 2 && of_machines.iter().all(|count| count.abs_diff(600) <= 5),
        "{of_machines:?}"
    );
    let names: Vec<&str> =
        ran["machines"].as_array().unwrap().iter().map(|machine| machine["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["load-1", "load-2"]);
    let intervals = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/intervals.csv")).unwrap();
    let titles: Vec<&str> = intervals.lines().next().unwrap().split(',').collect();
    let column = |name: &str| titles.iter().position(|title| *title == name).unwrap();
    let (operation, completed) = (column("operation"), column("completed"));
    let rows = intervals.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>());
    let counted: u64 =
        rows.filter(|row| row[operation] == "get").map(|row| row[completed].parse::<u64>().unwrap()).sum();
    assert!(served.abs_diff(counted) <= 2, "{served} served, {counted} counted");
    assert_eq!(ran["facts"]["nats.load.jetstream"]["flag"], true, "{}", ran["facts"]);
    // Nothing of the run is left on the server.
    let streams: Value = serde_json::from_str(&server.monitored("/jsz")).unwrap();
    assert_eq!(streams["streams"], 0, "{streams}");
    // No record has the token.
    let recorded = Command::new("grep").args(["-r", "s3cret"]).arg(place.path("r")).output().unwrap();
    assert!(recorded.stdout.is_empty(), "{recorded:?}");
}

#[test]
fn a_killed_agent_voids_the_trial_and_a_free_one_takes_its_place() {
    let Some(server) = NatsServer::start(Scratch::new(), TOKEN) else { return };
    let place = Place::new("nats-killed");
    let fleet = format!("nats://127.0.0.1:{}/load", server.port);
    let mut agents = ["a1", "a2"].map(|name| agent(&place, name, &fleet, &[]));
    let on = format!("{fleet}?agents=2");
    let arguments = ["null", "--on", &on, "--replicates", "3"].into_iter().chain(SHORT).collect::<Vec<_>>();
    let run = with_token(&place, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the second trial has not begun", || {
        place.path("r/trials/002-baseline.r2/intervals.csv").exists()
    });
    agents[1].0.kill().unwrap();
    let _free = agent(&place, "a3", &fleet, &[]);
    let output = run.wait_with_output().unwrap();
    let said = one_line(&(String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)));
    let mut trials: Vec<_> =
        std::fs::read_dir(place.path("r/trials")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    trials.sort();
    let ending = |trial: &std::ffi::OsString| {
        let ran = json(&place, &format!("r/trials/{}/run.json", trial.display()));
        ran["ending"].as_str().map(String::from).unwrap_or_else(|| ran["ending"]["failed"].to_string())
    };
    let endings: Vec<String> = trials.iter().map(ending).collect();
    assert!(endings.len() >= 3 && endings[1].contains("machine load-2: "), "{endings:?} {said}");
    for at in (0..endings.len()).filter(|at| *at != 1) {
        assert_eq!(endings[at], "completed", "{endings:?} {said}");
    }
    // Without JetStream, and that is said.
    assert!(said.contains("the server has no JetStream"), "{said}");
}

#[test]
fn a_killed_coordinator_frees_the_agents_for_the_next() {
    let Some(server) = NatsServer::start(Scratch::new(), &format!("{TOKEN}{JETSTREAM}")) else { return };
    let place = Place::new("nats-alone");
    let fleet = format!("nats://127.0.0.1:{}/load", server.port);
    let files = place.path("files");
    std::fs::create_dir_all(&files).unwrap();
    let allowed = files.display().to_string();
    let _agent = agent(&place, "a1", &fleet, &["--allow", &allowed]);
    let file = files.join("load.bin").display().to_string();
    let on = format!("{fleet}?agents=1");
    let disk = ["disk", &file, "--size", "8MiB", "--page-cache", "--on", &on, "--warm-up", "500ms"];
    let long = disk.iter().chain(&["--duration", "60s", "--run-dir", "long"]).copied().collect::<Vec<_>>();
    let mut run = with_token(&place, &long).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the load has not begun", || place.path("long/trials/001-baseline.r1/intervals.csv").exists());
    // Another coordinator learns for whom the agents work.
    let busy = ["null", "--on", &fleet, "--duration", "1s"];
    let (code, said) = finished(with_token(&place, &busy));
    assert!(code != 0 && said.contains("0 agents free, 1 busy (one works for "), "{said}");
    run.kill().unwrap();
    run.wait().unwrap();
    let short = disk.iter().chain(&["--duration", "1s", "--run-dir", "short"]).copied().collect::<Vec<_>>();
    let (code, said) = finished(with_token(&place, &short));
    assert!(has_measured(code), "{said}");
    wait_until("the file of the load was left", || !files.join("load.bin").exists());
}

/// How an agent and a coordinator log in to a server, and what the coordinator says.
struct Login<'a> {
    configuration: String,
    scheme: &'a str,
    query: String,
    variables: Vec<(&'a str, &'a str)>,
}

#[test]
fn tokens_users_nkeys_jwts_and_certificates_let_in_and_nothing_else_does() {
    let folder = Scratch::new();
    let authority = Authority::new(&folder, "authority");
    let other = Authority::new(&folder, "other");
    let (certificate, key) = authority.sign(&folder, "server", &["127.0.0.1"], Bearer::Server);
    let (own, own_key) = authority.sign(&folder, "client", &["plimsoll"], Bearer::Client);
    let (nkey_seed, nkey) = testkit::nats::nkey();
    let seed = folder.file("nkey", format!("{nkey_seed}\n"));
    let token = folder.file("token", "s3cret-token\n");
    let (accounts, credentials) = testkit::nats::jwt_accounts();
    let (_, of_other_account) = testkit::nats::jwt_accounts();
    let creds = folder.file("creds", credentials);
    let other_creds = folder.file("other-creds", of_other_account);
    for file in [&seed, &token, &creds, &other_creds] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let ca_file = format!(", ca_file: {:?}", authority.file.display().to_string());
    let tls = |more: &str| testkit::nats::tls(&certificate, &key, &format!("{ca_file}{more}"));
    let login = |configuration: &str, query: String, variables: &[(&'static str, &'static str)]| Login {
        configuration: configuration.into(),
        scheme: "nats",
        query,
        variables: variables.to_vec(),
    };
    let users = "authorization { users: [{ user: me, password: pass-word }] }\n";
    let nkeys = format!("authorization {{ users: [{{ nkey: {nkey} }}] }}\n");
    let ca = |authority: &Authority| format!("ca={}", authority.file.display());
    let certificates = format!("{}&cert={}&key={}", ca(&authority), own.display(), own_key.display());
    let over_tls = |login: Login<'static>| Login { scheme: "tls", ..login };
    let good = [
        login(TOKEN, format!("token-file={}", token.display()), &[]),
        login(users, String::new(), &[("NATS_USER", "me"), ("NATS_PASSWORD", "pass-word")]),
        login(&nkeys, format!("nkey={}", seed.display()), &[]),
        login(&accounts, format!("creds={}", creds.display()), &[]),
        over_tls(login(&format!("{TOKEN}{}", tls("")), ca(&authority), &[("NATS_TOKEN", "s3cret-token")])),
        over_tls(login(&tls(", verify: true"), certificates, &[])),
    ];
    for Login { configuration, scheme, query, variables } in &good {
        let Some(server) = NatsServer::start(Scratch::new(), configuration) else { return };
        let place = Place::new("nats-login");
        let url = |agents: &str| format!("{scheme}://127.0.0.1:{}/load?{agents}{query}", server.port);
        let _agent = start(&place, "a1", &url(""), &[], variables);
        let on = url("agents=1&");
        let arguments = ["null", "--on", &on].into_iter().chain(SHORT).collect::<Vec<_>>();
        let mut command = command(&place, &arguments);
        command.envs(variables.iter().copied());
        let (code, said) = finished(command);
        assert!(has_measured(code), "{query}: {said}");
    }
    let bad = [
        (
            login(TOKEN, String::new(), &[("NATS_TOKEN", "wrong-secret")]),
            "the server refuses the token: set NATS_TOKEN",
        ),
        (login(TOKEN, String::new(), &[]), "the server refuses a connection without credentials"),
        (
            login(users, String::new(), &[("NATS_USER", "me"), ("NATS_PASSWORD", "wrong-secret")]),
            "the server refuses the user or the password",
        ),
        (login(&nkeys, String::new(), &[("NATS_TOKEN", "wrong-secret")]), "the server refuses the token"),
        (
            login(&accounts, format!("creds={}", other_creds.display()), &[]),
            "the server refuses the credentials",
        ),
        (login("", String::new(), &[("NATS_TOKEN", "wrong-secret")]), "the server lets in anyone"),
        (
            over_tls(login(&format!("{TOKEN}{}", tls("")), ca(&other), &[("NATS_TOKEN", "s3cret-token")])),
            "no TLS connection",
        ),
        (over_tls(login(TOKEN, ca(&authority), &[("NATS_TOKEN", "s3cret-token")])), "no "),
    ];
    for (Login { configuration, scheme, query, variables }, why) in &bad {
        let Some(server) = NatsServer::start(Scratch::new(), configuration) else { return };
        let place = Place::new("nats-refused");
        let url = format!("{scheme}://127.0.0.1:{}/load?{query}", server.port);
        for arguments in [vec!["agent", "--nats", &url], vec!["null", "--on", &url, "--duration", "1s"]] {
            let mut command = command(&place, &arguments);
            command.envs(variables.iter().copied());
            let (code, said) = finished(command);
            assert!(
                code != 0 && said.contains(why) && !said.contains("wrong-secret"),
                "{why}: {code} {said}"
            );
        }
    }
}

#[test]
fn a_token_is_not_sent_where_others_could_read_it() {
    let place = Place::new("nats-token");
    // Nothing is sent to this address of documentation.
    let fleet = "nats://192.0.2.1/load";
    for arguments in [vec!["agent", "--nats", fleet], vec!["null", "--on", fleet, "--duration", "1s"]] {
        let (code, said) = finished(with_token(&place, &arguments));
        assert!(
            code != 0 && said.contains("the token could be read on the way: write tls://"),
            "{code} {said}"
        );
    }
}

#[test]
fn an_agent_refuses_what_it_was_not_started_for() {
    let Some(server) = NatsServer::start(Scratch::new(), TOKEN) else { return };
    let folder = Scratch::new();
    folder.file("hello.txt", "hello\n");
    let Some(nginx) = Nginx::start(folder, "", "", "") else { return };
    let place = Place::new("nats-allow");
    let inside = place.path("inside");
    std::fs::create_dir_all(&inside).unwrap();
    let inside = inside.display().to_string();
    let fleet = |name: &str| format!("nats://127.0.0.1:{}/{name}", server.port);
    let _agents = [
        agent(&place, "plain", &fleet("plain"), &[]),
        agent(&place, "narrow", &fleet("narrow"), &["--allow", "127.0.0.1/32"]),
        agent(&place, "named", &fleet("named"), &["--allow", "localhost", "--allow", &inside]),
        agent(&place, "other", &fleet("other"), &["--allow", "10.0.0.0/8"]),
        agent(&place, "open", &fleet("open"), &["--allow", "10.0.0.0/8", "--allow-commands"]),
    ];
    let at = |host: &str| format!("http://{host}:{}/hello.txt", nginx.port);
    let (address, name, public) = (at("127.0.0.1"), at("localhost"), "http://192.0.2.1/".to_string());
    let (file_in, file_out) = (format!("{inside}/x.bin"), place.path("x.bin").display().to_string());
    let http = |url: &str| vec!["http".to_string(), url.to_string()];
    let disk = |file: &str| ["disk", file, "--size", "1MiB", "--page-cache"].map(String::from).to_vec();
    let null = || vec!["null".to_string()];
    let exec = || ["exec", "--", "true"].map(String::from).to_vec();
    for (fleet_name, load, refused) in [
        ("plain", http(&address), None),
        (
            "plain",
            [http(&public), vec!["--yes-i-may-load".into(), "192.0.2.1".into()]].concat(),
            Some("refuses 192.0.2.1"),
        ),
        ("plain", disk(&file_in), Some("start the agent with `--allow /")),
        ("plain", exec(), Some("start the agent with `--allow-commands`")),
        ("narrow", http(&address), None),
        ("narrow", null(), None),
        ("narrow", http(&at("127.0.0.2")), Some("may load 127.0.0.1/32, and refuses 127.0.0.2")),
        ("named", http(&name), None),
        ("named", http(&address), Some("refuses 127.0.0.1")),
        ("named", disk(&file_in), None),
        ("named", disk(&file_out), Some("x.bin")),
        ("other", http(&name), Some("refuses localhost, which has the address")),
        ("open", exec(), None),
    ] {
        let on = format!("{}?agents=1", fleet(fleet_name));
        let mut arguments: Vec<&str> = load.iter().map(String::as_str).collect();
        // What follows `--` is the command.
        let at = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
        let is_exec = arguments[0] == "exec";
        let options: &[&str] =
            if is_exec { &["--repeat", "3"] } else { &["--warm-up", "500ms", "--duration", "1s"] };
        arguments.splice(at..at, ["--on", on.as_str()].into_iter().chain(options.iter().copied()));
        let (code, said) = finished(with_token(&place, &arguments));
        match refused {
            Some(why) => assert!(code == 2 && said.contains(why), "{fleet_name} {load:?}: {code} {said}"),
            None => assert!(has_measured(code), "{fleet_name} {load:?}: {code} {said}"),
        }
    }
    assert!(!place.path("x.bin").exists());
}

#[test]
fn secrets_are_sent_only_over_tls() {
    let folder = Scratch::new();
    let authority = Authority::new(&folder, "authority");
    let (certificate, key) = authority.sign(&folder, "server", &["127.0.0.1"], Bearer::Server);
    let tls = testkit::nats::tls(&certificate, &key, "");
    let page = Scratch::new();
    page.file("hello.txt", "hello\n");
    let Some(nginx) = Nginx::start(page, "", "", "") else { return };
    let url = format!("http://127.0.0.1:{}/hello.txt", nginx.port);
    for (configuration, query, is_sent) in [
        (TOKEN.to_string(), String::new(), false),
        (format!("{TOKEN}{tls}"), format!("&ca={}", authority.file.display()), true),
    ] {
        let Some(server) = NatsServer::start(Scratch::new(), &configuration) else { return };
        let place = Place::new("nats-secret");
        let fleet = format!("nats://127.0.0.1:{}/load?agents=1{query}", server.port);
        let _agent = agent(&place, "a1", &fleet, &[]);
        let arguments = ["http", &url, "--header", "Authorization: Bearer hunter2", "--on", &fleet]
            .into_iter()
            .chain(SHORT)
            .collect::<Vec<_>>();
        let (code, said) = finished(with_token(&place, &arguments));
        match is_sent {
            true => assert!(has_measured(code), "{said}"),
            false => {
                assert!(code == 2 && said.contains("secrets travel only inside SSH or TLS"), "{code} {said}")
            }
        }
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn frames_larger_than_a_message_arrive_whole() {
    let Some(server) = NatsServer::start(Scratch::new(), &format!("{TOKEN}max_payload: 512\n")) else {
        return;
    };
    let place = Place::new("nats-small");
    let fleet = format!("nats://127.0.0.1:{}/load?agents=1", server.port);
    let _agent = agent(&place, "a1", &fleet, &[]);
    let arguments = ["null", "--on", &fleet].into_iter().chain(SHORT).collect::<Vec<_>>();
    let (code, said) = finished(with_token(&place, &arguments));
    assert!(has_measured(code), "{said}");
    let ran = json(&place, "r/trials/001-baseline.r1/run.json");
    assert!(completed_by_machine(&ran)[0].abs_diff(100) <= 3, "{ran}");
}

/// A proxy of TCP that can be cut.
struct Proxy {
    port: u16,
    is_cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Proxy { port, is_cut: Arc::default(), streams: Arc::default() };
        let (is_cut, streams) = (proxy.is_cut.clone(), proxy.streams.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if is_cut.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { return };
                let pairs = [(&client, &server), (&server, &client)]
                    .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()));
                streams.lock().unwrap().extend([client, server]);
                for (mut from, mut to) in pairs {
                    std::thread::spawn(move || {
                        let mut piece = [0; 4096];
                        loop {
                            match from.read(&mut piece) {
                                Ok(0) => return,
                                Ok(count) if to.write_all(&piece[..count]).is_ok() => {}
                                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                                _ => return,
                            }
                        }
                    });
                }
            }
        });
        proxy
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_coordinator_that_comes_back_has_lost_nothing_where_a_stream_keeps_it() {
    for (configuration, is_kept) in [(format!("{TOKEN}{JETSTREAM}"), true), (TOKEN.to_string(), false)] {
        let Some(server) = NatsServer::start(Scratch::new(), &configuration) else { return };
        let proxy = Proxy::start(server.port);
        let place = Place::new("nats-away");
        let direct = format!("nats://127.0.0.1:{}/load", server.port);
        let _agents = ["a1", "a2"].map(|name| agent(&place, name, &direct, &[]));
        let on = format!("nats://127.0.0.1:{}/load?agents=2", proxy.port);
        let arguments =
            ["null", "--on", &on, "--rate", "200/s", "--warm-up", "1s", "--duration", "6s", "--run-dir", "r"];
        let run =
            with_token(&place, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the load has not begun", || {
            place.path("r/trials/001-baseline.r1/intervals.csv").exists()
        });
        std::thread::sleep(Duration::from_secs(2));
        proxy.cut();
        // Longer than a machine may be silent otherwise.
        std::thread::sleep(Duration::from_millis(2500));
        proxy.mend();
        let output = run.wait_with_output().unwrap();
        let said =
            one_line(&(String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)));
        let ran = json(&place, "r/trials/001-baseline.r1/run.json");
        match is_kept {
            true => {
                assert_eq!(ran["ending"], "completed", "{said}");
                let completed = completed_by_machine(&ran);
                assert!(completed.iter().all(|count| count.abs_diff(600) <= 5), "{completed:?}");
            }
            false => assert!(ran["ending"]["failed"].to_string().contains("machine load-"), "{ran}"),
        }
    }
}

#[test]
fn an_agent_ends_by_a_signal_or_when_nobody_comes() {
    let Some(server) = NatsServer::start(Scratch::new(), TOKEN) else { return };
    let place = Place::new("nats-idle");
    let fleet = format!("nats://127.0.0.1:{}/load", server.port);
    let (code, said) = finished(with_token(&place, &["agent", "--nats", &fleet, "--idle", "500ms"]));
    assert!(code == 0 && said.contains("no coordinator came"), "{code} {said}");
    let mut waiting = agent(&place, "a1", &fleet, &[]);
    let id = waiting.0.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
    assert_eq!(waiting.0.wait().unwrap().code(), Some(0));
}

/// The permissions that the handbook states for the two sides.
const PERMISSIONS: &str = r#"
authorization { users: [
  { user: agent, password: of-agents, permissions: {
    publish: ["_INBOX.>", "plimsoll.load.up.>"]
    subscribe: ["plimsoll.load.offer", "plimsoll.load.agent.>", "plimsoll.load.down.>"] } }
  { user: coordinator, password: of-coordinators, permissions: {
    publish: ["plimsoll.load.offer", "plimsoll.load.agent.>", "plimsoll.load.down.>", "$JS.API.>"]
    subscribe: ["_INBOX.>", "plimsoll.load.up.>"] } }
] }
"#;

#[test]
fn the_stated_permissions_are_enough_and_agents_cannot_aim_others() {
    let agents = [("NATS_USER", "agent"), ("NATS_PASSWORD", "of-agents")];
    let coordinators = [("NATS_USER", "coordinator"), ("NATS_PASSWORD", "of-coordinators")];
    for stream in [JETSTREAM, ""] {
        let Some(server) = NatsServer::start(Scratch::new(), &format!("{PERMISSIONS}{stream}")) else {
            return;
        };
        let place = Place::new("nats-permissions");
        let fleet = format!("nats://127.0.0.1:{}/load", server.port);
        let _agents = ["a1", "a2"].map(|name| start(&place, name, &fleet, &["--allow", "*"], &agents));
        let coordinate = |on: &str, variables: [(&'static str, &'static str); 2]| {
            let mut command = command(&place, &["null", "--on", on]);
            command.args(SHORT).envs(variables);
            finished(command)
        };
        // With the credentials of an agent nobody is offered work.
        let (code, said) = coordinate(&fleet, agents);
        assert_eq!(code, 1, "{said}");
        let (code, said) = coordinate(&format!("{fleet}?agents=2"), coordinators);
        assert!(has_measured(code), "{said}");
        let ran = json(&place, "r/trials/001-baseline.r1/run.json");
        assert_eq!(completed_by_machine(&ran).len(), 2, "{ran}");
        assert_eq!(
            ran["facts"]["nats.load.jetstream"]["flag"],
            Value::Bool(!stream.is_empty()),
            "{}",
            ran["facts"]
        );
    }
}
