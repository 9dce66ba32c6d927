//! Names with several addresses, and a host with few local ports: in a network of the test's own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use testkit::Need;

use crate::program::{Place, run};

/// Set for the process inside.
const INSIDE: &str = "PLIMSOLL_TEST_NETWORK";

/// Runs the test of this name in namespaces of its own, with these lines added to the hosts, unless it is there already.
/// Returns whether it is.
fn is_inside(test: &str, hosts: &str, setup: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if testkit::lacks(Need::NetworkNamespace) || testkit::lacks(Need::Program("ip")) {
        return false;
    }
    let place = Place::new(&format!("{test}-outside"));
    let file = place.path("hosts");
    std::fs::write(&file, format!("127.0.0.1 localhost\n{hosts}")).unwrap();
    let script = format!("ip link set lo up && mount --bind \"$0\" /etc/hosts && {setup} exec \"$@\"");
    let done = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", &script])
        .arg(&file)
        .arg(std::env::current_exe().unwrap())
        .args([&format!("addresses::{test}"), "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success() && out.contains("1 passed"), "{out}\n{err}");
    false
}

/// A server at this address that answers every request. Returns its port, and the counts of its connections with a request and
/// of its requests.
fn serve(address: &str) -> (u16, Arc<(AtomicU64, AtomicU64)>) {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let counted = counts.clone();
    let answer = |mut stream: TcpStream, counts: Arc<(AtomicU64, AtomicU64)>| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut line, mut is_first) = (String::new(), true);
        while matches!(reader.read_line(&mut line), Ok(1..)) {
            if line == "\r\n" {
                counts.0.fetch_add(u64::from(std::mem::take(&mut is_first)), Ordering::SeqCst);
                counts.1.fetch_add(1, Ordering::SeqCst);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            }
            line.clear();
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counts = counted.clone();
            std::thread::spawn(move || answer(stream, counts));
        }
    });
    (port, counts)
}

fn facts(place: &Place, run: &str) -> serde_json::Value {
    let path = place.path(&format!("{run}/trials/001-baseline.r1/run.json"));
    let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    document["facts"].clone()
}

#[test]
fn all_addresses_of_a_name_are_loaded_and_their_shares_recorded() {
    let hosts = "127.0.0.2 multi.test\n127.0.0.3 multi.test\n127.0.0.1 multi.test\n\
                 127.0.0.2 localhost\n::1 multi.test\n";
    if !is_inside("all_addresses_of_a_name_are_loaded_and_their_shares_recorded", hosts, "") {
        return;
    }
    let place = Place::new("addresses");
    let (port, first) = serve("127.0.0.1:0");
    let (_, second) = serve(&format!("127.0.0.2:{port}"));
    // Nothing listens at 127.0.0.3, and not at ::1.
    let load = ["--duration", "300ms", "--warm-up", "0s", "--run-dir"];
    let url = format!("http://multi.test:{port}/");
    let counts = || {
        [&first, &second]
            .map(|counts| (counts.0.swap(0, Ordering::SeqCst), counts.1.swap(0, Ordering::SeqCst)))
    };
    let done = run(&place, &[&["http", &url, "--concurrency", "4"][..], &load, &["spread"]].concat());
    let served = counts();
    assert_eq!(served.map(|(connections, _)| connections), [2, 2], "{}", done.err);
    let kept = facts(&place, "spread");
    for (address, (connections, requests)) in ["127.0.0.1", "127.0.0.2"].iter().zip(served) {
        let of = |name: &str| kept[format!("address.{name}.{address}:{port}")]["count"].as_u64();
        assert_eq!(of("connections"), Some(connections), "{kept}");
        assert_eq!((of("requests"), of("failed")), (Some(requests), Some(0)), "{kept}");
        assert!(requests > 0);
        assert!(done.out.contains(&format!("{address}:{port}")), "{}", done.out);
    }
    let left_out = format!("127.0.0.3:{port} (connection refused)");
    assert_eq!(kept["address.left_out"]["text"], *left_out, "{kept}");
    assert!(done.out.contains("addresses of the server"), "{}", done.out);
    assert!(done.out.contains("these addresses of the server got no load"), "{}", done.out);

    // One address by the setting, and of a loopback name.
    let only = run(&place, &[&["http", &url, "--addresses", "first"][..], &load, &["first"]].concat());
    let [(_, first_requests), (_, second_requests)] = counts();
    assert!(first_requests == 0 || second_requests == 0, "{}", only.err);
    assert!(!only.out.contains("addresses of the server"), "{}", only.out);
    let local = format!("http://localhost:{port}/");
    let local = run(&place, &[&["http", &local, "--concurrency", "4"][..], &load, &["local"]].concat());
    let [(_, first_requests), (_, second_requests)] = counts();
    assert!(first_requests > 0 && second_requests == 0, "{}", local.err);

    // The check says the addresses.
    let file = place.path("spread.toml");
    std::fs::write(&file, format!("[workload.http]\nurl = \"{url}\"\n\n[load]\nmeasure = \"1s\"\n")).unwrap();
    let checked = run(&place, &["check", "spread.toml"]);
    let words = format!(
        "multi.test:{port}: connections go to 127.0.0.1:{port}, 127.0.0.2:{port} in turn; left out: {left_out}"
    );
    assert!(checked.code == 0 && checked.out.contains(&words), "{}{}", checked.out, checked.err);
}

#[test]
fn a_host_without_free_local_ports_is_said_to_be_one() {
    let setup = "echo '50000 50060' > /proc/sys/net/ipv4/ip_local_port_range &&";
    if !is_inside("a_host_without_free_local_ports_is_said_to_be_one", "", setup) {
        return;
    }
    let place = Place::new("ports");
    let (port, _) = serve("127.0.0.1:21140");
    let url = format!("http://127.0.0.1:{port}/");
    let load =
        ["--no-keep-alive", "--concurrency", "4", "--duration", "1s", "--warm-up", "0s", "--run-dir", "r"];
    let done = run(&place, &[&["http", &url][..], &load].concat());
    assert!(done.out.contains("no local port is free"), "{}{}", done.out, done.err);
}
