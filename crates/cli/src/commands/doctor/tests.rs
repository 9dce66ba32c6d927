//! The judgement of two made-up machines: one with everything right, one with everything wrong.

use model::run::ClockInfo;
use model::{Host, SourceState, SourceStatus};

use super::facts::{Facts, Noise, Place, Tracing};
use super::judge::{Mark, judge};
use super::page;

fn disk(settings: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn status(source: &str, state: SourceState) -> SourceStatus {
    SourceStatus { source: source.into(), state }
}

fn everything_right() -> Facts {
    let settings = disk(&[
        ("size_bytes", "1920383410176"),
        ("rotational", "0"),
        ("scheduler", "[none] mq-deadline"),
        ("write_cache", "write through"),
    ]);
    Facts {
        host: Host {
            name: "db-07".into(),
            os: "Debian GNU/Linux 13".into(),
            kernel: "6.12.0".into(),
            cpu_model: "AMD EPYC 9354P".into(),
            cpus: 32,
            memory_bytes: 256 << 30,
            disks: [("nvme0n1".to_string(), settings)].into(),
            ..Host::default()
        },
        governors: vec!["performance".into()],
        kernel_clock: "tsc".into(),
        clock: ClockInfo { source: "tsc".into(), read_ns: 9.2, drift_ppm: 0.4 },
        io_uring: Ok(vec!["single_issuer".into(), "defer_taskrun".into()]),
        io_uring_disabled: Some(0),
        locked_bytes_max: None,
        files_max: Some(1_048_576),
        place: Place {
            path: ".".into(),
            exists: true,
            unreadable: None,
            file_system: Some("xfs".into()),
            disks: vec!["nvme0n1".into()],
            direct_alignment: Some(512),
            direct: Ok(()),
            free_bytes: Some(900 << 30),
        },
        record_free_bytes: Ok(900 << 30),
        cgroups: "cgroup v2".into(),
        factors: vec![("host.cpus".into(), Ok(())), ("host.disk.io_limit".into(), Ok(()))],
        drop_caches: Ok(()),
        tracing: Tracing { tracefs: Ok(()), btf: true, perf_event_paranoid: Some(2), privileged: true },
        sources: ["cpu", "pressure", "memory", "disk", "network", "filesystem"]
            .map(|source| status(source, SourceState::Active))
            .into(),
        source_limits: vec![],
        pressure: true,
        schedstat: true,
        host_schedstat: true,
        debug_build: false,
        noise: Some(Noise {
            seconds: 5.0,
            loop_ns: 61.0,
            median_loss: 0.001,
            worst_loss: 0.008,
            window_ms: 100,
            steal_share: Some(0.0),
            run_wait_share: Some(0.0004),
            smallest_change: 0.0031,
            round_s: 0.4,
            smallest_change_18: 0.0017,
            sampler_share: Some(0.0006),
        }),
    }
}

fn everything_wrong() -> Facts {
    let settings = disk(&[
        ("size_bytes", "42949672960"),
        ("rotational", "1"),
        ("scheduler", "none [mq-deadline] kyber"),
        ("write_cache", "write back"),
    ]);
    let refused = || Err("Permission denied (os error 13)".to_string());
    Facts {
        host: Host {
            name: "shop-1".into(),
            kernel: "5.10.0".into(),
            cpus: 1,
            memory_bytes: 2 << 30,
            hypervisor: "virtual machine (QEMU)".into(),
            disks: [("vda".to_string(), settings)].into(),
            ..Host::default()
        },
        governors: vec!["powersave".into(), "schedutil".into()],
        kernel_clock: "acpi_pm".into(),
        clock: ClockInfo { source: "monotonic".into(), read_ns: 1130.0, drift_ppm: 0.0 },
        io_uring: Err("Operation not permitted (os error 1)".into()),
        io_uring_disabled: Some(2),
        locked_bytes_max: Some(64 << 10),
        files_max: Some(1024),
        place: Place {
            path: "/srv/data".into(),
            exists: true,
            unreadable: None,
            file_system: Some("ext4".into()),
            disks: vec!["vda".into()],
            direct_alignment: None,
            direct: Err("Invalid argument (os error 22)".into()),
            free_bytes: Some(700 << 20),
        },
        record_free_bytes: refused().map(|()| 0),
        cgroups: String::new(),
        factors: vec![
            ("host.cpus".into(), Err("the CPUs of another user's process: permission denied".into())),
            (
                "host.disk.io_limit".into(),
                Err("this host has neither the cgroup v1 controller `blkio` nor cgroup v2 mounted".into()),
            ),
        ],
        drop_caches: refused(),
        tracing: Tracing {
            tracefs: Err("/sys/kernel/tracing: Permission denied (os error 13)".into()),
            btf: false,
            perf_event_paranoid: Some(4),
            privileged: false,
        },
        sources: vec![
            status("cpu", SourceState::Active),
            status(
                "pressure",
                SourceState::Unavailable("/proc/pressure is not there: boot with psi=1".into()),
            ),
        ],
        source_limits: vec!["only the first 1024 interfaces are read".into()],
        pressure: false,
        schedstat: false,
        host_schedstat: false,
        debug_build: false,
        noise: Some(Noise {
            seconds: 5.0,
            loop_ns: 2300.0,
            median_loss: 0.034,
            worst_loss: 0.62,
            window_ms: 100,
            steal_share: Some(0.131),
            run_wait_share: Some(0.08),
            smallest_change: 0.143,
            round_s: 0.4,
            smallest_change_18: 0.077,
            sampler_share: Some(0.004),
        }),
    }
}

fn shown(facts: &Facts, width: usize) -> String {
    page::text(facts, &judge(facts), width, false)
}

#[test]
fn a_machine_with_everything_right() {
    let facts = everything_right();
    insta::assert_snapshot!("right_100", shown(&facts, 100));
    assert!(judge(&facts).iter().all(|check| check.mark == Mark::Good));
}

#[test]
fn a_machine_with_everything_wrong() {
    let facts = everything_wrong();
    insta::assert_snapshot!("wrong_80", shown(&facts, 80));
    insta::assert_snapshot!("wrong_100", shown(&facts, 100));
}

#[test]
fn every_line_fits_and_every_block_says_what_is_lost() {
    for facts in [everything_right(), everything_wrong()] {
        for width in [80, 100] {
            for line in shown(&facts, width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        for check in judge(&facts) {
            assert!(check.mark != Mark::Block || !check.without.is_empty(), "{check:?}");
        }
    }
}

/// The mark of a check after one fact was changed on the machine with everything right.
fn mark_after(name: &str, change: impl FnOnce(&mut Facts)) -> Mark {
    let mut facts = everything_right();
    change(&mut facts);
    judge(&facts).iter().find(|check| check.name == name).unwrap().mark
}

#[test]
fn each_fact_has_its_judgement() {
    let guest = |facts: &mut Facts| facts.host.hypervisor = "virtual machine".into();
    for (name, change, expected) in [
        (
            "CPU frequency",
            Box::new(|facts: &mut Facts| facts.governors.clear()) as Box<dyn FnOnce(&mut Facts)>,
            Mark::Note,
        ),
        ("clock", Box::new(|facts| facts.clock.read_ns = 101.0), Mark::Warning),
        ("locked memory", Box::new(|facts| facts.locked_bytes_max = Some(8 << 20)), Mark::Good),
        ("locked memory", Box::new(|facts| facts.locked_bytes_max = Some((8 << 20) - 1)), Mark::Warning),
        ("open files", Box::new(|facts| facts.files_max = Some(1024)), Mark::Warning),
        ("open files", Box::new(|facts| facts.files_max = None), Mark::Good),
        ("io_uring", Box::new(|facts| facts.io_uring = Err("no".into())), Mark::Block),
        ("disk", Box::new(|facts| facts.place.disks.clear()), Mark::Warning),
        ("disk", Box::new(|facts| facts.place.unreadable = Some("gone".into())), Mark::Block),
        ("disk", Box::new(|facts| facts.place.free_bytes = None), Mark::Good),
        ("disk", Box::new(|facts| facts.place.free_bytes = Some(1 << 30)), Mark::Warning),
        ("direct I/O", Box::new(|facts| facts.place.direct_alignment = None), Mark::Good),
        ("cache below", Box::new(guest), Mark::Warning),
        ("record", Box::new(|facts| facts.record_free_bytes = Ok(1 << 20)), Mark::Warning),
        ("run queue", Box::new(|facts| facts.host_schedstat = false), Mark::Note),
        ("pressure", Box::new(|facts| facts.pressure = false), Mark::Block),
        ("kernel tracing", Box::new(|facts| facts.tracing.btf = false), Mark::Note),
        ("perf counters", Box::new(|facts| facts.tracing.privileged = false), Mark::Note),
        (
            "other load",
            Box::new(|facts| facts.noise.as_mut().unwrap().run_wait_share = Some(0.02)),
            Mark::Warning,
        ),
        ("own cost", Box::new(|facts| facts.noise.as_mut().unwrap().loop_ns = 151.0), Mark::Warning),
    ] {
        assert_eq!(mark_after(name, change), expected, "{name}");
    }
}

#[test]
fn a_place_is_called_what_it_is() {
    let shown = |change: &dyn Fn(&mut Place)| {
        let mut facts = everything_right();
        change(&mut facts.place);
        judge(&facts).into_iter().find(|check| check.name == "disk").unwrap().text
    };
    assert_eq!(shown(&|_| {}), ". is on xfs on nvme0n1, 900 GiB free");
    assert_eq!(
        shown(&|place| (place.path, place.exists) = ("new.dat".into(), false)),
        "new.dat, which does not exist yet, is on xfs on nvme0n1, 900 GiB free"
    );
    assert_eq!(
        shown(&|place| {
            place.path = "/dev/nvme0n1p2".into();
            (place.file_system, place.free_bytes) = (None, None);
        }),
        "/dev/nvme0n1p2 is a block device of nvme0n1"
    );
    assert_eq!(
        shown(&|place| (place.file_system, place.disks) = (Some("tmpfs".into()), vec![])),
        ". is on tmpfs, which is not on a disk of this machine"
    );
}

#[test]
fn a_machine_too_busy_to_compare_anything_says_so() {
    let mut facts = everything_wrong();
    facts.noise.as_mut().unwrap().smallest_change = 1.81;
    let text = shown(&facts, 100);
    assert!(text.contains("NO CHANGE IS DETECTABLE NOW") && !text.contains("181%"), "{text}");
}

#[test]
fn what_was_not_measured_is_said_and_not_zero() {
    let facts = Facts { noise: None, ..everything_right() };
    assert!(shown(&facts, 80).contains("noise  could not be measured"));
    assert_eq!(page::json(&facts, &judge(&facts))["noise"], serde_json::Value::Null);
}

#[test]
fn the_json_counts_what_the_page_counts() {
    let facts = everything_wrong();
    let checks = judge(&facts);
    let document = page::json(&facts, &checks);
    assert_eq!(document["format"], "plimsoll.doctor/1");
    let listed = document["checks"].as_array().unwrap();
    let blocks = listed.iter().filter(|check| check["result"] == "block").count();
    assert_eq!(document["blocks"], blocks);
    assert!(shown(&facts, 100).contains(&format!("{blocks} blocks")));
}
