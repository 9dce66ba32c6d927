//! Writes sample pages to a folder, to look at: `cargo run -p plimsoll-report --example page -- FOLDER`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    unreachable_pub,
    reason = "an example reads its argument and writes files"
)]

#[path = "../src/sample.rs"]
mod sample;

use std::time::Instant;

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let samples = [
        ("single", sample::single()),
        ("hour", sample::single_of(3600, 900)),
        ("compared", sample::compared(&["mq-deadline"], 5)),
        ("four", sample::compared(&["mq-deadline", "kyber", "bfq"], 5)),
        ("grid", sample::grid()),
        ("proved", sample::proved()),
    ];
    for (name, sample) in samples.into_iter().chain(sample::broken()) {
        let start = Instant::now();
        let page = plimsoll_report::html(&sample.document, &sample.study);
        let took = start.elapsed();
        let path = format!("{folder}/{name}.html");
        std::fs::write(&path, &page).unwrap();
        println!("{path}: {} bytes in {:.1} ms", page.len(), took.as_secs_f64() * 1e3);
    }
}
