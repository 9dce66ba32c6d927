//! The program under the container's filter of system calls, which the kernel enforces here as in a container.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use testkit::{Need, lacks};

use crate::program::{Finished, Place};

const IO_URING: &str = "io_uring_setup,io_uring_enter,io_uring_register";

/// The testkit's program that applies a profile, built.
fn seccomp() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| crate::planted::built("seccomp"))
}

/// Runs the program under the profile, without what `flags` remove from it.
fn run(place: &Place, flags: &[&str], arguments: &[&str]) -> Finished {
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/container/seccomp.json");
    let mut command = Command::new(seccomp());
    command
        .arg(profile)
        .args(flags)
        .arg(env!("CARGO_BIN_EXE_plimsoll"))
        .args(arguments)
        .current_dir(place.path(""))
        .env("NO_COLOR", "1")
        .env("PLIMSOLL_STATE_DIR", place.path("state"))
        .stdin(Stdio::null());
    Finished::of(command)
}

/// What a load on the disk records of its back end, and the kinds of its doubts.
fn back_end(done: &Finished) -> (String, String, Vec<String>) {
    assert!(done.measured(), "{} {} {}", done.code, done.out, done.err);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    let trial = &document["trials"][0];
    for operation in trial["operations"].as_array().unwrap() {
        assert_eq!(operation["failed"], 0, "{operation}");
    }
    let fact = |name: &str| trial["facts"][name]["text"].as_str().unwrap_or_default().to_string();
    let doubts = trial["doubts"].as_array().unwrap().iter();
    let kinds = doubts.map(|doubt| doubt["kind"].as_str().unwrap().to_string()).collect();
    (fact("back_end"), fact("back_end.basis"), kinds)
}

const DISK: [&str; 8] = ["disk", "test.bin", "--size", "16MiB", "--duration", "500ms", "--outstanding", "8"];
const COPY: [&str; 4] = ["copy", "source.bin", "copied.bin", "--json"];

#[test]
fn io_uring_works_under_the_profile_of_the_container() {
    if lacks(Need::IoUring) {
        return;
    }
    let place = Place::new("seccomp-ring");
    std::fs::write(place.path("source.bin"), vec![1; 4 << 20]).unwrap();
    let (name, basis, _) =
        back_end(&run(&place, &[], &[&DISK[..], &["--json", "--back-end", "io_uring"]].concat()));
    assert_eq!((name.as_str(), basis.as_str()), ("io_uring", "requested"));
    let (name, basis, kinds) = back_end(&run(&place, &[], &COPY));
    assert_eq!((name.as_str(), basis.as_str()), ("io_uring", "rule"));
    assert!(!kinds.contains(&"back_end".to_string()), "{kinds:?}");
}

/// As under the default profiles of container engines (EPERM), and as on a kernel without io_uring (ENOSYS).
#[test]
fn without_io_uring_each_result_names_the_fallback() {
    if lacks(Need::IoUring) {
        return;
    }
    let place = Place::new("seccomp-fallback");
    std::fs::write(place.path("source.bin"), vec![1; 4 << 20]).unwrap();
    let check = |errno: &str, words: &str, load: &[&str]| {
        let done = run(&place, &["--without", IO_URING, "--errno", errno], load);
        let (name, basis, kinds) = back_end(&done);
        assert_eq!((name.as_str(), basis.as_str()), ("system-calls", "refused"), "{load:?}");
        assert!(kinds.contains(&"back_end".to_string()), "{kinds:?}");
        assert!(done.out.contains(words), "{}", done.out);
    };
    let disk = [&DISK[..], &["--json"]].concat();
    check("38", "Function not implemented", &disk);
    check("1", "Operation not permitted", &disk);
    check("1", "Operation not permitted", &COPY);
    let shown = run(&place, &[], &["show", "last"]);
    let text = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("used system calls, not io_uring (the kernel refuses io_uring (Operation not"),
        "{text}"
    );
    let forced = [&DISK[..], &["--back-end", "io_uring"]].concat();
    let refused = run(&place, &["--without", IO_URING], &forced);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("the container's seccomp profile"), "{}", refused.err);
}

#[test]
fn other_commands_work_under_the_profile() {
    if lacks(Need::IoUring) {
        return;
    }
    let place = Place::new("seccomp-commands");
    let url = format!("http://{}/", crate::http::serve());
    let line = |words: &str| words.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    for words in [
        format!("http {url} --concurrency 4 --duration 500ms"),
        format!("http {url} --rate 200/s --duration 500ms"),
        "show last".into(),
        "metadir init --target ldif --people 100".into(),
        "metadir run full".into(),
        "metadir status".into(),
        "generate people --count 100 --output people.csv".into(),
        "exec --directory / --repeat 2 -- ./bin/true".into(),
    ] {
        let words = line(&words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = run(&place, &[], &words);
        assert!(done.measured(), "{words:?}: {} {}{}", done.code, done.out, done.err);
        let refused = ["Function not implemented", "Operation not permitted"];
        let is_refused = refused.iter().any(|text| done.out.contains(text) || done.err.contains(text));
        assert!(!is_refused, "{words:?}: {}{}", done.out, done.err);
    }
}

#[test]
fn an_agent_receives_files_under_the_profile() {
    if lacks(Need::IoUring) {
        return;
    }
    let place = Place::new("seccomp-agent");
    let base = format!("http://{}", crate::http::serve());
    let scenario = format!(
        "base = \"{base}\"\n[data.users]\nfile = \"users.csv\"\n[[transaction]]\nname = \"order\"\n\
         [[transaction.request]]\nurl = \"/\"\nheader = [\"X-User: ${{users.name}}\"]\n"
    );
    std::fs::write(place.path("shop.toml"), scenario).unwrap();
    std::fs::write(place.path("users.csv"), "name\nann\nbob\n").unwrap();
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    let on = format!("gen1=exec:env -C elsewhere {} agent", env!("CARGO_BIN_EXE_plimsoll"));
    let done = run(
        &place,
        &[],
        &[
            "http",
            "--from",
            "shop.toml",
            "--on",
            &on,
            "--rate",
            "100/s",
            "--warm-up",
            "0s",
            "--duration",
            "1s",
        ],
    );
    assert!(done.measured(), "{}: {}{}", done.code, done.out, done.err);
}
