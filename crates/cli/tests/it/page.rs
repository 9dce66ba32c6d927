//! The report in a real browser: no script error, no request to anywhere; crosshair, legend and keys do what they say.

use std::path::Path;
use std::process::Command;

use crate::program::{Place, run};

const CHROMIUM: &str = "/usr/bin/chromium";

#[test]
fn the_page_stands_alone_in_a_browser() {
    if testkit::lacks(testkit::Need::Program("chromium")) {
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
    let (dom, errors) = browse(&place, &page);
    assert!(dom.contains("<svg"), "the charts are there");
    assert!(errors.is_empty(), "{errors:#?}");

    // The page as it is, and behind it a reader who points, clicks and types.
    let driven = place.path("driven.html");
    let driver = format!("<script>{}</script></body>", include_str!("page_driver.js"));
    // The page permits its own script by its hash, and no other.
    let (before, policy) = text.split_once("script-src ").unwrap();
    let (_, after) = policy.split_once(';').unwrap();
    let permitting = format!("{before}script-src 'unsafe-inline';{after}");
    std::fs::write(&driven, permitting.replacen("</body>", &driver, 1)).unwrap();
    let (dom, errors) = browse(&place, &driven);
    assert!(errors.is_empty(), "{errors:#?}");
    let told = dom.split("data-driven=\"").nth(1).and_then(|rest| rest.split('"').next());
    assert_eq!(told, Some("all well"), "what the reader of the page met");
}

/// Shows a page in headless Chromium: what it became, and what its console told. Script errors and refused requests of
/// the page are told there.
fn browse(place: &Place, page: &Path) -> (String, Vec<String>) {
    let profile = place.path("profile");
    let output = Command::new(CHROMIUM)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let console = String::from_utf8_lossy(&output.stderr);
    let errors = console.lines().filter(|line| line.contains(":CONSOLE")).map(String::from).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), errors)
}
