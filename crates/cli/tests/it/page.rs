//! The report in a real browser: no script error, no request to anywhere.

use std::process::Command;

use crate::program::{Place, run};

#[test]
fn the_page_stands_alone_in_a_browser() {
    let chromium = "/usr/bin/chromium";
    if !std::path::Path::new(chromium).exists() {
        println!("skipped: needs chromium");
        return;
    }
    let place = Place::new("page");
    let arguments = [
        "disk",
        "f.bin",
        "--size",
        "16MiB",
        "--duration",
        "1s",
        "--warm-up",
        "0s",
        "--interval",
        "100ms",
        "--vary",
        "outstanding=1,8",
        "--replicates",
        "3",
        "--run-dir",
        "r",
        "--quiet",
    ];
    let done = run(&place, &arguments);
    assert!(done.measured(), "{}", done.err);
    let page = place.path("r/report.html");
    let text = std::fs::read_to_string(&page).unwrap();
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let found =
            text.match_indices(outside).find(|(at, _)| !text[*at..].starts_with("http://www.w3.org/"));
        assert!(
            found.is_none(),
            "{outside} at {:?}",
            found.map(|(at, _)| &text[at..(at + 80).min(text.len())])
        );
    }
    let profile = place.path("profile");
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(dom.contains("<svg"), "the charts are there");
    // Chromium reports script errors and refused requests of the page on its console.
    let console = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = console.lines().filter(|line| line.contains(":CONSOLE")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}
