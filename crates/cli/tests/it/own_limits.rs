//! Limits of the load generator's own process: they are named, and never shown as the server's.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use testkit::Need;

use crate::http::serve;
use crate::program::{Finished, Place};

/// The program, started by a shell that first runs a script.
fn behind(place: &Place, script: &str, arguments: &[&str]) -> Finished {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{script}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_plimsoll")])
        .args(arguments)
        .current_dir(place.path(""))
        .env("NO_COLOR", "1")
        .env("PLIMSOLL_STATE_DIR", place.path("state"));
    Finished::of(command)
}

#[test]
fn a_limit_of_open_files_is_named() {
    let place = Place::new("open-files");
    let url = format!("http://{}/", serve());
    let load = ["--concurrency", "200", "--duration", "500ms", "--warm-up", "0s", "--quiet"];
    let done = behind(&place, "ulimit -n 64", &[&["http", &url][..], &load].concat());
    let said = format!("{}{}", done.out, done.err).to_lowercase();
    assert!(said.contains("open files") || said.contains("file descriptors"), "{said}");
    assert_eq!(done.code, 1, "{said}");
}

/// A control group with a tenth of a CPU; removed when dropped.
struct Quota {
    folder: PathBuf,
    members: &'static str,
}

impl Quota {
    fn make() -> Quota {
        let name = format!("plimsoll-test-quota-{}", std::process::id());
        let (v1, v2) = (PathBuf::from("/sys/fs/cgroup/cpu"), PathBuf::from("/sys/fs/cgroup"));
        if v1.join("cpu.cfs_quota_us").exists() || v1.join("cgroup.procs").exists() {
            let folder = v1.join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("cpu.cfs_quota_us"), "10000").unwrap();
            return Quota { folder, members: "tasks" };
        }
        let folder = v2.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("cpu.max"), "10000 100000").unwrap();
        Quota { folder, members: "cgroup.procs" }
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_cpu_quota_of_the_generator_is_named() {
    if testkit::lacks(Need::Cgroup("cpu", "cpu")) {
        return;
    }
    let place = Place::new("own-quota");
    let quota = Quota::make();
    let join = format!("echo $$ > {}", quota.folder.join(quota.members).display());
    let url = format!("http://{}/", serve());
    let load = ["--concurrency", "64", "--threads", "2", "--duration", "2s", "--warm-up", "0s", "--quiet"];
    let done = behind(&place, &join, &[&["http", &url][..], &load].concat());
    assert!(done.out.contains("CPU quota"), "{}{}", done.out, done.err);
}
