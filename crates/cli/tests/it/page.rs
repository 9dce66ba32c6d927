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
    std::fs::write(&driven, with_script(&text, include_str!("page_driver.js"))).unwrap();
    let (dom, errors) = browse(&place, &driven);
    assert!(errors.is_empty(), "{errors:#?}");
    let reported = dom.split("data-driven=\"").nth(1).and_then(|rest| rest.split('"').next());
    assert_eq!(reported, Some("all well"), "what the reader of the page met");
}

/// Runs of the kinds that are read most, as they were recorded.
const KINDS: [&str; 5] = ["block-size", "http", "sync", "proof", "copy"];

/// Bytes of the largest page.
const PAGE_BYTES_MAX: u64 = 300_000;

#[test]
fn the_answer_stands_in_the_first_screen() {
    if testkit::lacks(testkit::Need::Program("chromium")) {
        return;
    }
    let place = Place::new("first-screen");
    // Screenshots are kept for review.
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&pictures).unwrap();
    for kind in KINDS {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/fixtures").join(kind);
        copy(&recorded, &place.path(kind));
        let done = run(&place, &["report", kind]);
        assert!(done.measured(), "{kind}: {}", done.err);
        let page = place.path(kind).join("report.html");
        let bytes = std::fs::metadata(&page).unwrap().len();
        assert!(bytes <= PAGE_BYTES_MAX, "{kind}: {bytes} bytes");

        let text = std::fs::read_to_string(&page).unwrap();
        let driven = place.path(&format!("{kind}.html"));
        std::fs::write(&driven, with_script(&text, include_str!("first_screen.js"))).unwrap();
        let (dom, errors) = browse(&place, &driven);
        assert!(errors.is_empty(), "{kind}: {errors:#?}");
        let found = dom.split("data-first=\"").nth(1).and_then(|rest| rest.split('"').next());
        assert_eq!(found, Some("no faults"), "{kind}");

        let picture = pictures.join(format!("{kind}.png"));
        let shot = chromium(&place)
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        assert!(shot.status.success() && std::fs::metadata(&picture).unwrap().len() > 10_000, "{kind}");
    }
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => std::fs::write(target, std::fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

/// A page with a script behind it. The page permits its own script by its hash, and no other.
fn with_script(page: &str, script: &str) -> String {
    let (before, policy) = page.split_once("script-src ").unwrap();
    let (_, after) = policy.split_once(';').unwrap();
    let permitting = format!("{before}script-src 'unsafe-inline';{after}");
    permitting.replacen("</body>", &format!("<script>{script}</script></body>"), 1)
}

/// Headless Chromium with a window of a usual size.
fn chromium(place: &Place) -> Command {
    let mut command = Command::new(CHROMIUM);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--hide-scrollbars", "--window-size=1280,900"])
        .arg(format!("--user-data-dir={}", place.path("profile").display()));
    command
}

/// Shows a page in headless Chromium: what it became, and what its console reported. Script errors and refused requests of
/// the page are reported there.
fn browse(place: &Place, page: &Path) -> (String, Vec<String>) {
    let output = chromium(place)
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let console = String::from_utf8_lossy(&output.stderr);
    let errors = console.lines().filter(|line| line.contains(":CONSOLE")).map(String::from).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), errors)
}
