//! A system with three dependencies behind proxies: which of them its response time depends on, and where it goes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::program::{Place, command, run};

/// A server that returns each byte after a time; its address.
fn dependency(takes: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut byte = [0; 1];
                while stream.read_exact(&mut byte).is_ok() {
                    std::thread::sleep(takes);
                    let _ = stream.write_all(&byte);
                }
            });
        }
    });
    address
}

/// A free port, for a proxy.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn call(stream: &mut TcpStream) {
    let mut byte = [1];
    let _ = stream.write_all(&byte);
    let _ = stream.read_exact(&mut byte);
}

/// For each request: 5 ms of its own, two calls to `a` after each other, one to `b`, three to `c` at the same time, 3 ms of
/// its own. It connects to the dependencies when a client connects.
fn answer(client: TcpStream, [a, b, c]: &[String; 3]) -> std::io::Result<()> {
    let [mut a, mut b] = [TcpStream::connect(a)?, TcpStream::connect(b)?];
    let mut c = (0..3).map(|_| TcpStream::connect(c)).collect::<Result<Vec<_>, _>>()?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut client = client;
    let mut line = String::new();
    while matches!(reader.read_line(&mut line), Ok(1..)) {
        if line == "\r\n" {
            std::thread::sleep(Duration::from_millis(5));
            call(&mut a);
            call(&mut a);
            call(&mut b);
            c.iter_mut().for_each(|stream| stream.write_all(&[1]).unwrap_or(()));
            c.iter_mut().for_each(|stream| stream.read_exact(&mut [0]).unwrap_or(()));
            std::thread::sleep(Duration::from_millis(3));
            write!(client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")?;
        }
        line.clear();
    }
    Ok(())
}

fn system(proxies: [String; 3]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let proxies = proxies.clone();
            std::thread::spawn(move || answer(client, &proxies));
        }
    });
    address
}

const EXPERIMENT: &str = r#"
name = "Dependencies"
[target]
shell = true
start = "echo ${dependency:unused.port} $PLIMSOLL_DEPENDENCY_UNUSED $PLIMSOLL_DEPENDENCY_A >> seen; echo up; exec sleep 1000"
ready = "line:^up"
[dependencies]
front = "http://FRONT"
a = { address = "A", listen = "PROXY_A" }
b = { address = "B", listen = "PROXY_B" }
c = { address = "C", listen = "PROXY_C" }
unused = "127.0.0.1:9"
[workload.http]
url = "http://FRONT/"
[load]
closed = 1
warm_up = "600ms"
measure = "800ms"
[vary]
"network.delay.a" = { levels = ["150ms"] }
"network.delay.b" = { levels = ["150ms"] }
"network.delay.c" = { levels = ["150ms"] }
"#;

#[test]
fn the_round_trips_and_the_steps_of_a_request_are_found_also_after_a_kill() {
    let place = Place::new("dependencies");
    let proxies = [free(), free(), free()];
    let [a, b, c] = [10, 20, 1].map(|ms| dependency(Duration::from_millis(ms)));
    let front = system(proxies.clone());
    let [proxy_a, proxy_b, proxy_c] = &proxies;
    let mut experiment = EXPERIMENT.replace("FRONT", &front);
    for (name, text) in [("PROXY_A", proxy_a), ("PROXY_B", proxy_b), ("PROXY_C", proxy_c)] {
        experiment = experiment.replace(name, text);
    }
    for (name, text) in [("\"A\"", &a), ("\"B\"", &b), ("\"C\"", &c)] {
        experiment = experiment.replace(name, &format!("\"{text}\""));
    }
    std::fs::write(place.path("e.toml"), experiment).unwrap();
    let checked = run(&place, &["check", "e.toml"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.out.contains("for `front`, used by the load"), "{}", checked.out);

    // A run that was killed continues with other ports.
    let mut child = command(&place, &["run", "e.toml", "--run-dir", "out", "--quiet"]).spawn().unwrap();
    let has_begun = || std::fs::read_dir(place.path("out/trials")).is_ok_and(|trials| trials.count() > 1);
    while !has_begun() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let done = run(&place, &["run", "--resume", "out", "--json", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    // What was restored first is said before the document.
    let (_, text) = done.out.split_at(done.out.find('{').unwrap());
    let document: Value = serde_json::from_str(text).unwrap();

    // Ports of the two processes: each sees the same proxy in both notations.
    let seen = std::fs::read_to_string(place.path("seen")).unwrap();
    for line in seen.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words[1].ends_with(&format!(":{}", words[0])) && words[2] == proxy_a, "{seen}");
    }
    let experiment = std::fs::read_to_string(place.path("out/plan.json")).unwrap();
    assert!(experiment.contains(&format!("http://{front}/")), "the record has what was written");

    // With 150 ms more for each round trip, a busy machine does not change the order.
    let rows = document["sensitivity"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["dependency"].as_str().unwrap()).collect();
    assert_eq!(names[0], "a", "{rows:?}");
    for row in rows {
        let truth = if row["dependency"] == "a" { 2.0 } else { 1.0 };
        assert!((row["round_trips"].as_f64().unwrap() - truth).abs() < 0.5, "{row}");
    }
    let answer = document["headline"]["answer"].as_str().unwrap();
    assert!(answer.starts_with("Response time") && answer.contains("`a`: "), "{answer}");
    let is_without_traffic = |doubt: &Value| doubt["kind"] == "no_traffic";
    let trials = document["trials"].as_array().unwrap();
    let completed = trials.iter().filter(|trial| trial["ending"] == "completed");
    assert!(
        completed.clone().all(|trial| trial["doubts"].as_array().unwrap().iter().any(is_without_traffic))
    );

    let steps = &document["request_steps"][0];
    assert_eq!(
        (steps["configuration"].as_str(), steps["is_ordered"].as_bool()),
        (Some("baseline"), Some(true))
    );
    assert_eq!((steps["front"].as_str(), &steps["usable"]), (Some("front"), &steps["requests"]), "{steps}");
    let of = |step: &Value| format!("{} {}", dependency_of(step), step["number"]);
    let order: Vec<String> = steps["steps"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(order, ["a 1", "a 2", "b 1", "c 1", "c 2", "c 3"]);
    let ms = |step: usize, name: &str| steps["steps"][step][name]["mean"].as_f64().unwrap();
    assert!(
        ms(0, "own_before_ms") >= 5.0 && ms(0, "takes_ms") >= 10.0 && ms(2, "takes_ms") >= 20.0,
        "{steps}"
    );
    let exported = run(&place, &["export", "out", "--format", "steps"]);
    let baseline = exported.out.lines().filter(|line| line.starts_with("baseline,"));
    let sum: f64 = baseline.map(|line| line.split(',').nth(3).unwrap().parse::<f64>().unwrap()).sum();
    let total = steps["total_ms"]["mean"].as_f64().unwrap();
    assert!((sum - total).abs() < 1e-6 * total, "{sum} of {total}\n{}", exported.out);
}

#[test]
fn the_steps_of_a_request_are_found_where_a_scenario_has_the_address() {
    let place = Place::new("dependencies-scenario");
    let [front_proxy, proxy_a, proxy_b, proxy_c] = [free(), free(), free(), free()];
    let [a, b, c] = [10, 20, 1].map(|ms| dependency(Duration::from_millis(ms)));
    let front = system([proxy_a.clone(), proxy_b.clone(), proxy_c.clone()]);
    std::fs::write(
        place.path("s.toml"),
        format!(
            "[[transaction]]\nname = \"page\"\n[[transaction.request]]\nurl = \"http://{front_proxy}/\"\n"
        ),
    )
    .unwrap();
    std::fs::write(
        place.path("e.toml"),
        format!(
            r#"
[dependencies]
front = {{ address = "http://{front}", listen = "{front_proxy}" }}
a = {{ address = "{a}", listen = "{proxy_a}" }}
b = {{ address = "{b}", listen = "{proxy_b}" }}
c = {{ address = "{c}", listen = "{proxy_c}" }}
[workload.http]
from = "s.toml"
[load]
closed = 1
warm_up = "200ms"
measure = "800ms"
"#
        ),
    )
    .unwrap();
    let done = run(&place, &["run", "e.toml", "--run-dir", "out", "--json", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    let steps = &document["request_steps"][0];
    assert_eq!(steps["front"].as_str(), Some("front"), "{document}");
    let order: Vec<&str> = steps["steps"].as_array().unwrap().iter().map(dependency_of).collect();
    assert_eq!(order, ["a", "a", "b", "c", "c", "c"]);
}

fn dependency_of(step: &Value) -> &str {
    step["dependency"].as_str().unwrap()
}
