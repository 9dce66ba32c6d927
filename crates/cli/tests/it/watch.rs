//! Counters by the names that administrators know, and partitions beside their disk.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use testkit::{Need, Scratch};

use crate::program::{Place, run};

const READ_TIME: &str = r"LogicalDisk(*)\Avg. Disk sec/Read";

fn text(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_counter_of_perfmon_is_watched_by_what_provides_it() {
    let place = Place::new("watch-perfmon");
    let done = run(&place, &["exec", "--watch", READ_TIME, "--repeat", "2", "--run-dir", "r", "--", "true"]);
    assert!(done.measured(), "{}", done.err);
    assert!(done.err.contains(&format!("watched for `{READ_TIME}`: volume.read_s of host")), "{}", done.err);
    // The whole host is read, and the record has the requested entries.
    let record: Value = serde_json::from_str(&text(&place, "r/trials/001-baseline.r1/run.json")).unwrap();
    let sources = record["sources"].as_array().unwrap();
    assert!(sources.iter().any(|source| source["source"] == "volume"), "{sources:?}");
    assert!(text(&place, "r/experiment.toml").contains("Avg. Disk sec/Read"));
    // A record is read again like any other, and an experiment file may say the same.
    assert_eq!(run(&place, &["show", "r"]).code, 0);
    let written = text(&place, "r/experiment.toml");
    std::fs::write(place.path("e.toml"), &written).unwrap();
    let checked = run(&place, &["check", "e.toml"]);
    assert!(checked.out.contains("volume.read_s of host"), "{}{}", checked.out, checked.err);
    let mistaken = written.replace("sec/Read", "sec/Raed");
    std::fs::write(place.path("e.toml"), mistaken).unwrap();
    let refused = run(&place, &["check", "e.toml"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains(r"did you mean `LogicalDisk\Avg. Disk sec/Read`?"), "{}", refused.err);
    assert!(refused.err.contains("watch = ["), "{}", refused.err);

    let nearest = run(&place, &["exec", "--watch", r"ASP.NET\Requests Queued", "--", "true"]);
    assert_eq!(nearest.code, 2);
    assert!(nearest.err.contains("the nearest is process.accept_queue_connections"), "{}", nearest.err);
    assert_eq!(run(&place, &["exec", "--watch", "no-such", "--", "true"]).code, 2);
    assert_eq!(run(&place, &["watch", "--list", r"LogicalDisk\Avg. Disk sec/Raed"]).code, 1);
}

/// A loop device with one partition; both are removed when it is dropped.
struct Partitioned(String);

impl Partitioned {
    fn new(folder: &Scratch) -> Partitioned {
        let image = folder.file("image", vec![0; 8 << 20]);
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let device = Partitioned(String::from_utf8_lossy(&made.stdout).trim().to_string());
        // From 1 MiB on, 4 MiB, in sectors.
        let added = Command::new("addpart").args([&device.0, "1", "2048", "8192"]).output().unwrap();
        assert!(added.status.success(), "{added:?}");
        device
    }

    fn name(&self) -> &str {
        self.0.trim_start_matches("/dev/")
    }
}

impl Drop for Partitioned {
    fn drop(&mut self) {
        let _ = Command::new("delpart").args([&self.0, "1"]).status();
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_partition_has_rows_of_its_own_and_is_no_disk() {
    if testkit::lacks(Need::LoopDevice) || testkit::lacks(Need::Program("addpart")) {
        return;
    }
    let folder = Scratch::new();
    let device = Partitioned::new(&folder);
    let partition = format!("{}p1", device.name());
    let place = Place::new("watch-partition");
    let is_over = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let from = format!("if={}p1", device.0);
                let read = ["of=/dev/null", "bs=64K", "count=16", "iflag=direct", "status=none"];
                let _ = Command::new("dd").arg(from).args(read).status();
            }
        });
        let done = run(&place, &["watch", "--json", "--every", "200ms", "--duration", "1s"]);
        is_over.store(true, Ordering::Relaxed);
        done
    });
    assert_eq!(done.code, 0, "{}", done.err);
    let samples: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let largest = |title: String| -> f64 {
        let values = samples.iter().filter_map(|sample| sample["readings"][&title].as_f64());
        values.fold(f64::NAN, f64::max)
    };
    assert!(largest(format!("volume.read_bytes_per_s{{{partition}}}")) > 0.0, "{}", done.out);
    assert!(largest(format!("disk.read_bytes_per_s{{{}}}", device.name())) > 0.0, "{}", done.out);
    // Never added up with its disk.
    assert!(!done.out.contains(&format!("\"disk.reads_per_s{{{partition}}}\"")), "{}", done.out);
}
