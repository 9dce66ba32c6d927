//! Files that a load reads, and that only this machine has: they are sent to the machines that drive it.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use testkit::certificates::{Authority, Bearer};
use testkit::slapd::{SUFFIX, SlapdOptions, organization};
use testkit::{NatsServer, Need, Nginx, Scratch, Slapd, Sshd, lacks};

use crate::program::{Place, command};

/// Agents with folders of their own, without the variable `SHOP_REGION`.
fn agents(place: &Place, count: usize) -> String {
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let agent = |number: usize| {
        let folder = place.path(&format!("elsewhere{number}"));
        std::fs::create_dir_all(&folder).unwrap();
        let folder = folder.display();
        format!("gen{number}=exec:env -u SHOP_REGION -C {folder} HOME={folder} {program} agent")
    };
    (1..=count).map(agent).collect::<Vec<_>>().join(",")
}

/// The code, and what was printed in one line.
fn finished(place: &Place, arguments: &[&str]) -> (i32, String) {
    let output = command(place, arguments)
        .env("SHOP_REGION", "region-9")
        .env("NATS_TOKEN", "s3cret-token")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), said.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn has_measured(code: i32) -> bool {
    matches!(code, 0 | 97 | 98)
}

const SHORT: [&str; 8] = ["--rate", "200/s", "--warm-up", "500ms", "--duration", "2s", "--run-dir", "r"];

/// A server that logs which user, key and region each request had, and how long its body was.
fn shop() -> Option<Nginx> {
    let folder = Scratch::new();
    folder.file("shop", "hello\n");
    let log = folder.path().join("access.log");
    let format = "log_format shop '$request_uri $http_x_key $http_x_region $content_length';";
    Nginx::start(
        folder,
        "",
        format,
        &format!("access_log {} shop; error_page 405 =200 /shop;", log.display()),
    )
}

/// A scenario in a folder `shop`, with all that it reads.
fn scenario(place: &Place, port: u16) {
    let folder = place.path("shop");
    std::fs::create_dir_all(folder.join("data")).unwrap();
    let text = format!(
        r#"
base = "http://127.0.0.1:{port}"
header = ["X-Key: ${{file:data/key}}", "X-Region: ${{env:SHOP_REGION}}"]
[data.users]
file = "data/users.csv"
order = "sequential"
[[transaction]]
name = "order"
[[transaction.request]]
method = "POST"
url = "/shop?user=${{url(users.name)}}"
body_file = "../order.json"
"#
    );
    std::fs::write(folder.join("shop.toml"), text).unwrap();
    let names: String = (0..100_000).map(|number| format!("user{number}\n")).collect();
    std::fs::write(folder.join("data/users.csv"), format!("name\n{names}")).unwrap();
    std::fs::write(place.path("order.json"), "x".repeat(77)).unwrap();
    std::fs::write(folder.join("data/key"), "key-7\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(folder.join("data/key"), mode).unwrap();
}

/// The users of the requests that the server served, each with what else it was sent.
fn served(shop: &Nginx) -> Vec<(String, String)> {
    let log = std::fs::read_to_string(shop.folder.path().join("access.log")).unwrap();
    let request = |line: &str| {
        let (path, rest) = line.split_once(' ').unwrap();
        let user = path.strip_prefix("/shop?user=").unwrap();
        (user.to_string(), rest.to_string())
    };
    log.lines().map(request).collect()
}

#[test]
fn machines_drive_a_scenario_whose_files_they_do_not_have() {
    let Some(shop) = shop() else { return };
    let place = Place::new("files-scenario");
    scenario(&place, shop.port);
    let on = agents(&place, 2);
    let arguments: Vec<&str> =
        ["http", "--from", "shop/shop.toml", "--on", &on].into_iter().chain(SHORT).collect();
    let (code, said) = finished(&place, &arguments);
    assert!(has_measured(code), "{said}");
    let served = served(&shop);
    assert!(served.len() > 400, "{} {said}", served.len());
    assert!(served.iter().all(|(_, rest)| rest == "key-7 region-9 77"), "{served:?}");
    // Each row was used by one machine, once.
    let users: BTreeSet<&str> = served.iter().map(|(user, _)| user.as_str()).collect();
    assert_eq!(users.len(), served.len());
    assert!(users.contains("user0") && users.contains("user1"), "{users:?}");
    // What was sent is not in the record, except the scenario without its secrets.
    for entry in walk(&place.path("r")) {
        let content = String::from_utf8_lossy(&std::fs::read(&entry).unwrap()).into_owned();
        assert!(!content.contains("key-7") && !content.contains("region-9"), "{}", entry.display());
    }
    for number in [1, 2] {
        let left: Vec<_> =
            std::fs::read_dir(place.path(&format!("elsewhere{number}"))).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn files_reach_machines_over_ssh() {
    let Some(sshd) = Sshd::start() else { return };
    let Some(shop) = shop() else { return };
    let place = Place::new("files-ssh");
    scenario(&place, shop.port);
    // In the home directory there, the path of the scenario names nothing.
    let arguments: Vec<&str> =
        ["http", "--from", "shop/shop.toml", "--on", "gen1,gen2"].into_iter().chain(SHORT).collect();
    let output = command(&place, &arguments)
        .env("SHOP_REGION", "region-9")
        .env("PATH", sshd.search_path())
        .output()
        .unwrap();
    assert!(has_measured(output.status.code().unwrap()), "{}", String::from_utf8_lossy(&output.stderr));
    let served = served(&shop);
    assert!(served.len() > 400, "{}", served.len());
    assert!(served.iter().all(|(_, rest)| rest == "key-7 region-9 77"), "{served:?}");
    let users: BTreeSet<&str> = served.iter().map(|(user, _)| user.as_str()).collect();
    assert_eq!(users.len(), served.len());
}

#[test]
fn machines_drive_the_operations_of_a_directory_load_whose_files_they_do_not_have() {
    let person = |number: usize| {
        format!(
            "dn: uid=u{number},{SUFFIX}\nobjectClass: inetOrgPerson\nuid: u{number}\ncn: a\nsn: a\n\
             userPassword: s3cr3t-word\n\n"
        )
    };
    let ldif = organization(&[]) + &(0..8).map(person).collect::<String>();
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif, ..SlapdOptions::default() }) else { return };
    let place = Place::new("files-ldap");
    std::fs::create_dir_all(place.path("load")).unwrap();
    let operations = format!(
        "[[operation]]\nbase = \"{SUFFIX}\"\nfilter = \"(uid=${{users.uid}})\"\n\n\
         [[operation]]\noperation = \"bind\"\ndn = \"uid=${{users.uid}},{SUFFIX}\"\n\
         dn_password = \"${{file:password}}\"\n"
    );
    std::fs::write(place.path("load/operations.toml"), operations).unwrap();
    let rows: String = (0..8).map(|number| format!("u{number}\n")).collect();
    std::fs::write(place.path("load/users.csv"), format!("uid\n{rows}")).unwrap();
    std::fs::write(place.path("load/password"), "s3cr3t-word\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(place.path("load/password"), mode).unwrap();
    let (url, on) = (slapd.url(), agents(&place, 2));
    let what = ["--from", "load/operations.toml", "--data", "users=load/users.csv", "--on", &on, "--json"];
    let arguments: Vec<&str> = ["ldap", "mixed", &url].into_iter().chain(what).chain(SHORT).collect();
    let output = command(&place, &arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(has_measured(output.status.code().unwrap()), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let operations = document["trials"][0]["operations"].as_array().unwrap();
    for name in ["search", "bind"] {
        let operation = operations.iter().find(|operation| operation["name"] == name).unwrap();
        assert_eq!(operation["failed"], 0, "{operation}");
        assert!(operation["completed"].as_u64().unwrap() > 100, "{operation}");
    }
    // Each search found its person: the rows arrived too.
    let entries = &document["trials"][0]["facts"]["search.entries_min"];
    assert_eq!(entries.as_u64().or(entries["count"].as_u64()), Some(1), "{}", document["trials"][0]["facts"]);
    for entry in walk(&place.path("r")) {
        let content = String::from_utf8_lossy(&std::fs::read(&entry).unwrap()).into_owned();
        assert!(!content.contains("s3cr3t-word"), "{}", entry.display());
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_file_that_changes_during_a_run_is_used_as_it_was_read_first() {
    let Some(shop) = shop() else { return };
    let place = Place::new("files-changed");
    scenario(&place, shop.port);
    let on = agents(&place, 1);
    let arguments: Vec<&str> = ["http", "--from", "shop/shop.toml", "--on", &on, "--replicates", "2"]
        .into_iter()
        .chain(SHORT)
        .collect();
    let run = command(&place, &arguments)
        .env("SHOP_REGION", "region-9")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let has_begun = || {
        let events = std::fs::read_to_string(place.path("r/trials/001-baseline.r1/events.jsonl"));
        events.is_ok_and(|events| events.contains("warm-up begins"))
    };
    while !has_begun() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the first trial has not begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(place.path("shop/data/users.csv"), "name\nchanged\n").unwrap();
    std::fs::remove_file(place.path("order.json")).unwrap();
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(has_measured(output.status.code().unwrap()), "{said}");
    assert!(!served(&shop).iter().any(|(user, _)| user == "changed"));
    let events = |trial: &str| std::fs::read_to_string(place.path(&format!("r/trials/{trial}/events.jsonl")));
    let second = events("002-baseline.r2").unwrap();
    for name in ["shop/data/users.csv", "shop/../order.json"] {
        let text = format!("{name} has changed: the run uses what it read at its start");
        assert!(second.contains(&text) && said.contains(&text), "{second} {said}");
    }
    assert!(!events("001-baseline.r1").unwrap().contains("has changed"));
}

#[test]
fn certificates_and_keys_are_sent() {
    let folder = Scratch::new();
    let authority = Authority::new(&folder, "authority");
    let (certificate, key) = authority.sign(&folder, "server", &["127.0.0.1"], Bearer::Server);
    let (own, own_key) = authority.sign(&folder, "client", &["client"], Bearer::Client);
    folder.file("hello.txt", "hello\n");
    let server = format!(
        "ssl_certificate {}; ssl_certificate_key {}; ssl_client_certificate {}; ssl_verify_client on;",
        certificate.display(),
        key.display(),
        authority.file.display()
    );
    let place = Place::new("files-tls");
    for (from, to) in [(&authority.file, "ca.pem"), (&own, "own.pem"), (&own_key, "own.key")] {
        std::fs::copy(from, place.path(to)).unwrap();
    }
    let Some(nginx) = Nginx::start(folder, "ssl", "", &server) else { return };
    let url = format!("https://127.0.0.1:{}/hello.txt", nginx.port);
    let on = agents(&place, 1);
    let tls = ["--ca", "ca.pem", "--client-certificate", "own.pem", "--client-key", "own.key"];
    let arguments: Vec<&str> = ["http", &url, "--on", &on].into_iter().chain(tls).chain(SHORT).collect();
    let (code, said) = finished(&place, &arguments);
    assert!(has_measured(code), "{said}");
    // What is wrong with a file has the name that the user wrote.
    std::fs::write(place.path("ca.pem"), "nothing").unwrap();
    let (code, said) = finished(&place, &arguments);
    assert!(code == 2 && said.contains("machine gen1: ca.pem holds no certificate"), "{code} {said}");
    std::fs::remove_file(place.path("ca.pem")).unwrap();
    let (code, said) = finished(&place, &arguments);
    assert!(code == 2 && said.contains("ca.pem cannot be read: No such file"), "{code} {said}");
}

#[test]
fn files_that_are_too_large_to_be_sent_are_refused_before_the_load() {
    let place = Place::new("files-large");
    let mut text = "base = \"http://127.0.0.1:9\"\n".to_string();
    for number in 0..5 {
        let file = std::fs::File::create(place.path(&format!("body{number}"))).unwrap();
        file.set_len(60 << 20).unwrap();
        text += &format!(
            "[[transaction]]\nname = \"t{number}\"\n[[transaction.request]]\nmethod = \"POST\"\nurl = \"/\"\nbody_file = \"body{number}\"\n"
        );
    }
    std::fs::write(place.path("large.toml"), text).unwrap();
    let on = agents(&place, 1);
    let (code, said) = finished(&place, &["http", "--from", "large.toml", "--on", &on, "--duration", "1s"]);
    assert!(code == 2 && said.contains("larger than 256 MiB together: remove rows"), "{code} {said}");
}

#[test]
fn files_reach_limited_agents_over_nats_and_secrets_only_over_tls() {
    let Some(shop) = shop() else { return };
    let token = "authorization { token: \"s3cret-token\" }\n";
    let folder = Scratch::new();
    let authority = Authority::new(&folder, "authority");
    let (certificate, key) = authority.sign(&folder, "server", &["127.0.0.1"], Bearer::Server);
    let tls = format!("{token}{}", testkit::nats::tls(&certificate, &key, ""));
    let Some(encrypted) = NatsServer::start(Scratch::new(), &tls) else { return };
    let Some(server) = NatsServer::start(Scratch::new(), token) else { return };
    let place = Place::new("files-nats");
    scenario(&place, shop.port);
    let fleet = format!("nats://127.0.0.1:{}/load?agents=1", server.port);
    let elsewhere = Place::new("files-nats-agent");
    let agent = |elsewhere: &Place, fleet: &str| {
        command(elsewhere, &["agent", "--nats", fleet, "--name", "a1", "--allow", "127.0.0.1"])
            .env("NATS_TOKEN", "s3cret-token")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut agent_in_the_clear = agent(&elsewhere, &fleet);
    let arguments: Vec<&str> =
        ["http", "--from", "shop/shop.toml", "--on", &fleet].into_iter().chain(SHORT).collect();
    let (code, said) = finished(&place, &arguments);
    assert!(code == 2 && said.contains("secrets travel only inside SSH or TLS"), "{code} {said}");
    // With TLS, they are sent.
    let ca = authority.file.display();
    let over_tls = format!("tls://127.0.0.1:{}/load?agents=1&ca={ca}", encrypted.port);
    let mut agent_over_tls = agent(&elsewhere, &over_tls);
    let arguments_over_tls: Vec<&str> =
        ["http", "--from", "shop/shop.toml", "--on", &over_tls].into_iter().chain(SHORT).collect();
    let (code, said) = finished(&place, &arguments_over_tls);
    let _ = agent_over_tls.kill();
    let _ = agent_over_tls.wait();
    assert!(has_measured(code), "{code} {said}");
    let with_secrets = served(&shop);
    assert!(with_secrets.len() > 400, "{}", with_secrets.len());
    assert!(with_secrets.iter().all(|(_, rest)| rest == "key-7 region-9 77"), "{with_secrets:?}");
    std::fs::remove_dir_all(place.path("r")).unwrap();
    // Without the secrets, but with a column of passwords.
    let text = std::fs::read_to_string(place.path("shop/shop.toml")).unwrap();
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with("header")).collect();
    std::fs::write(place.path("shop/shop.toml"), text.join("\n")).unwrap();
    let users = std::fs::read_to_string(place.path("shop/data/users.csv")).unwrap();
    std::fs::write(place.path("shop/data/users.csv"), "name,password\nann,hunter2\n").unwrap();
    let (code, said) = finished(&place, &arguments);
    assert!(code == 2 && said.contains("`shop/data/users.csv` has a secret"), "{code} {said}");
    std::fs::write(place.path("shop/data/users.csv"), users).unwrap();
    let (code, said) = finished(&place, &arguments);
    let _ = agent_in_the_clear.kill();
    let _ = agent_in_the_clear.wait();
    assert!(has_measured(code), "{code} {said}");
    let served = &served(&shop)[with_secrets.len()..];
    assert!(served.len() > 400 && served.iter().all(|(_, rest)| rest == "- - 77"), "{served:?}");
}

/// An agent of an earlier version.
const OLD_AGENT: &str = r#"
import json, struct, sys, time
def send(head):
    head = json.dumps(head).encode()
    sys.stdout.buffer.write(struct.pack("<II", 4 + len(head), len(head)) + head)
    sys.stdout.buffer.flush()
while True:
    length = sys.stdin.buffer.read(4)
    if len(length) < 4:
        break
    frame = sys.stdin.buffer.read(struct.unpack("<I", length)[0])
    head = json.loads(frame[4:4 + struct.unpack("<I", frame[:4])[0]])
    if head["message"] == "hello":
        host = {"format": "plimsoll.host/1.0", "plimsoll": "0.0.9", "name": "old", "os": "", "kernel": "", "cpu_model": "",
                "cpus": 1, "memory_bytes": 1, "hypervisor": "", "disks": {}}
        send({"message": "hello", "format": "plimsoll.machines/1.1", "host": host})
    elif head["message"] == "ping":
        send({"message": "pong", "number": head["number"], "at": time.monotonic_ns(), "unix_ns": time.time_ns()})
    elif head["message"] == "check":
        send({"message": "checked", "problems": []})
    elif head["message"] == "end":
        send({"message": "ended", "left": []})
"#;

#[test]
fn an_agent_of_an_earlier_version_is_refused() {
    if lacks(Need::Program("python3")) {
        return;
    }
    let place = Place::new("files-old");
    std::fs::write(place.path("agent.py"), OLD_AGENT).unwrap();
    let on = format!("gen1=exec:python3 {}", place.path("agent.py").display());
    let (code, said) = finished(&place, &["null", "--on", &on, "--duration", "1s"]);
    let expected =
        "it speaks `plimsoll.machines/1.1`, and this program `plimsoll.machines/2.0`: use the same version";
    assert!(code != 0 && said.contains(expected), "{code} {said}");
}
