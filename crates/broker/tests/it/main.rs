//! The broker with a real directory and a real database, and the portal in front of servers that the test controls.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use plimsoll_broker::client::Client;
use plimsoll_broker::xml::{self, Credentials};
use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, SUFFIX, SlapdOptions, organization};
use testkit::{Postgres, Slapd};

/// A program with its address; killed at the end.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn start(program: &str, flags: &[&str]) -> Running {
        let mut child = Command::new(program)
            .args(["--listen", "127.0.0.1:0"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_string();
        Running { child, address }
    }

    fn client(&self) -> Client {
        Client::new(&self.address, Duration::from_secs(20))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Ann is in the group editors, which is in the group staff. Bob is in no group.
fn people() -> String {
    let mut ldif = organization(&["people", "groups"]);
    for user in ["ann", "bob"] {
        ldif += &format!(
            "dn: uid={user},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\ncn: {user}\nsn: {user}\nuid: {user}\nuserPassword: pw-{user}\n\n"
        );
    }
    for (group, member) in [("editors", "uid=ann,ou=people"), ("staff", "cn=editors,ou=groups")] {
        ldif += &format!(
            "dn: cn={group},ou=groups,{SUFFIX}\nobjectClass: groupOfNames\ncn: {group}\nmember: {member},{SUFFIX}\n\n"
        );
    }
    ldif
}

fn request(user: &str, password: &str) -> String {
    xml::write_request(&Credentials { user: user.into(), password: password.into() })
}

fn applications(client: &mut Client, path: &str, user: &str) -> Vec<String> {
    let (status, body) = client.post(path, request(user, &format!("pw-{user}")).as_bytes()).unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    xml::read_applications(&body).unwrap()
}

fn sql(database: &str, statements: &str) {
    let done = Command::new("sh")
        .arg("-c")
        .arg("PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | tail -n 1); exec psql -q -v ON_ERROR_STOP=1 \"$0\" -c \"$1\"")
        .args([database, statements])
        .status()
        .unwrap();
    assert!(done.success(), "{statements}");
}

#[test]
fn a_user_gets_the_applications_of_its_groups() {
    let port = free_port().to_string();
    let settings = ["fsync=off".to_string(), "listen_addresses=127.0.0.1".into(), format!("port={port}")];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(_postgres) = Postgres::start(&settings) else { return };
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif: people(), ..SlapdOptions::default() }) else {
        return;
    };
    let database = format!("host=127.0.0.1 port={port} user=plimsoll dbname=postgres");
    let group = |name: &str| format!("cn={name},ou=groups,{SUFFIX}");
    sql(
        &database,
        &format!(
            "CREATE TABLE applications (id int PRIMARY KEY, name text, groups text[]); INSERT INTO applications VALUES (1, 'Editor & more', ARRAY['{}']), (2, 'Mail', ARRAY['{}']), (3, 'Payroll', ARRAY['cn=hr'])",
            group("editors"),
            group("staff")
        ),
    );
    let url = slapd.url();
    let flags = [
        "--directory",
        &url,
        "--base",
        SUFFIX,
        "--bind-dn",
        ROOT_DN,
        "--bind-password",
        ROOT_PASSWORD,
        "--database",
        &database,
        "--workers",
        "2",
    ];
    let broker = Running::start(env!("CARGO_BIN_EXE_broker"), &flags);
    let path = "/scripts/wpnbr.dll";
    let mut client = broker.client();
    assert_eq!(applications(&mut client, path, "ann"), ["Editor & more", "Mail"]);
    assert!(applications(&mut client, path, "bob").is_empty());
    for (user, password, status) in [("ann", "wrong", 401), ("nobody", "x", 401), ("ann", "", 401)] {
        assert_eq!(client.post(path, request(user, password).as_bytes()).unwrap().0, status, "{user}");
    }
    for (path, body, status) in [(path, "<a", 400), (path, "<request/>", 400), ("/", "", 404)] {
        assert_eq!(client.post(path, body.as_bytes()).unwrap().0, status, "{path} {body}");
    }
    // A new application is there after the cache was filled again, without a cache at once.
    sql(&database, &format!("INSERT INTO applications VALUES (4, 'Chat', ARRAY['{}'])", group("staff")));
    assert_eq!(applications(&mut client, path, "ann").len(), 2);
    let (status, body) = client.post("/cache/rebuild", b"").unwrap();
    assert_eq!((status, String::from_utf8(body).unwrap()), (200, "<cache applications=\"4\"/>".into()));
    assert_eq!(applications(&mut client, path, "ann"), ["Chat", "Editor & more", "Mail"]);
    let without = Running::start(env!("CARGO_BIN_EXE_broker"), &[&flags[..], &["--cache", "false"]].concat());
    assert_eq!(applications(&mut without.client(), path, "ann"), ["Chat", "Editor & more", "Mail"]);
    // Two farms, each with the same list.
    let farms = format!("{},{}", broker.address, without.address);
    for parallel in ["false", "true"] {
        let portal = Running::start(
            env!("CARGO_BIN_EXE_portal"),
            &["--farms", &farms, "--parallel", parallel, "--workers", "2"],
        );
        assert_eq!(applications(&mut portal.client(), "/applications", "ann").len(), 6, "{parallel}");
    }
}

/// A farm that reports each request, and waits with the answer for `answer`.
struct Farm {
    address: String,
    requests: Receiver<()>,
    answers: Sender<()>,
}

impl Farm {
    fn start() -> Farm {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (report, requests) = channel();
        let (answers, allowed) = channel::<()>();
        let allowed = std::sync::Arc::new(std::sync::Mutex::new(allowed));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (report, allowed) = (report.clone(), allowed.clone());
                std::thread::spawn(move || serve(stream, &report, &allowed));
            }
        });
        Farm { address, requests, answers }
    }

    fn is_asked(&self) -> bool {
        self.requests.recv_timeout(Duration::from_secs(10)).is_ok()
    }

    fn is_not_asked(&self) -> bool {
        self.requests.recv_timeout(Duration::from_millis(200)).is_err()
    }

    fn answer(&self) {
        self.answers.send(()).unwrap();
    }
}

fn serve(stream: TcpStream, report: &Sender<()>, allowed: &std::sync::Mutex<Receiver<()>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        report.send(()).unwrap();
        if allowed.lock().unwrap().recv().is_err() {
            return;
        }
        let body = xml::write_applications(["x"].into_iter());
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        reader.get_mut().write_all((head + &body).as_bytes()).unwrap();
    }
}

/// Asks a portal in the background.
fn ask(portal: &Running) -> std::thread::JoinHandle<Vec<String>> {
    let mut client = portal.client();
    std::thread::spawn(move || applications(&mut client, "/applications", "ann"))
}

#[test]
fn farms_are_asked_one_after_another_or_all_at_once() {
    let (first, second) = (Farm::start(), Farm::start());
    let farms = format!("{},{}", first.address, second.address);
    let portal = |parallel: &str| {
        Running::start(env!("CARGO_BIN_EXE_portal"), &["--farms", &farms, "--parallel", parallel])
    };
    let sequential = portal("false");
    let asked = ask(&sequential);
    assert!(first.is_asked() && second.is_not_asked());
    first.answer();
    assert!(second.is_asked());
    second.answer();
    assert_eq!(asked.join().unwrap(), ["x", "x"]);
    let parallel = portal("true");
    let asked = ask(&parallel);
    assert!(first.is_asked() && second.is_asked());
    first.answer();
    second.answer();
    assert_eq!(asked.join().unwrap().len(), 2);
}

#[test]
fn further_requests_wait_for_a_worker_and_a_second_pool_doubles_them() {
    for (pools, at_once) in [("1", 1), ("2", 2)] {
        let farm = Farm::start();
        let flags = ["--farms", &farm.address, "--workers", "1", "--pools", pools];
        let portal = Running::start(env!("CARGO_BIN_EXE_portal"), &flags);
        let asked: Vec<_> = (0..3).map(|_| ask(&portal)).collect();
        for _ in 0..at_once {
            assert!(farm.is_asked());
        }
        assert!(farm.is_not_asked(), "{pools} pools execute more than {at_once}");
        for _ in 0..3 {
            farm.answer();
        }
        assert!(asked.into_iter().all(|thread| thread.join().unwrap() == ["x"]));
    }
}
