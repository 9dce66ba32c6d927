use super::*;
use crate::{Place, Problems, SettingInfo, SettingKind};

static DISK: &[SettingInfo] = &[
    SettingInfo { name: "files", kind: SettingKind::Texts, default: "", about: "Files." },
    SettingInfo { name: "block_size", kind: SettingKind::Sizes, default: "4KiB", about: "Block size." },
    SettingInfo { name: "read_percent", kind: SettingKind::Percent, default: "100%", about: "Reads." },
    SettingInfo {
        name: "outstanding",
        kind: SettingKind::Count { min: 1, max: 1024 },
        default: "1",
        about: "Outstanding operations.",
    },
    SettingInfo {
        name: "cache",
        kind: SettingKind::Choice(&["direct", "page-cache"]),
        default: "direct",
        about: "Cache.",
    },
    SettingInfo { name: "verify", kind: SettingKind::Flag, default: "", about: "Verify." },
];

static TRAITS: crate::run::WorkloadTraits = crate::run::WorkloadTraits::NONE;

fn vocabulary() -> Vocabulary {
    Vocabulary {
        workloads: vec![WorkloadInfo {
            name: "disk",
            about: "Storage.",
            settings: DISK,
            operations: &["read", "write"],
            traits: &TRAITS,
        }],
        factors: vec![
            FactorInfo {
                path: "host.cpus",
                kind: SettingKind::Count { min: 1, max: 4096 },
                about: "CPUs.",
                resource: None,
                needs_on: false,
                parameters: &[],
                named: false,
                of_dependency: false,
            },
            FactorInfo {
                path: "network.delay",
                kind: SettingKind::Time,
                about: "Delay.",
                resource: None,
                needs_on: true,
                parameters: &[ParameterInfo {
                    name: LISTEN,
                    needed: true,
                    is_command: false,
                    about: "where it listens",
                }],
                named: true,
                of_dependency: true,
            },
            FactorInfo {
                path: "target.command",
                kind: SettingKind::Value,
                about: "A command.",
                resource: None,
                needs_on: false,
                parameters: &[
                    ParameterInfo { name: "set", needed: true, is_command: true, about: "sets it" },
                    ParameterInfo { name: "undo", needed: true, is_command: true, about: "undoes it" },
                ],
                named: true,
                of_dependency: false,
            },
            FactorInfo {
                path: "host.cpu_quota",
                kind: SettingKind::CpuLimit,
                about: "CPUs.",
                resource: None,
                needs_on: false,
                parameters: &[],
                named: false,
                of_dependency: false,
            },
            FactorInfo {
                path: "host.disk.io_limit",
                kind: SettingKind::IoLimit,
                about: "I/O.",
                resource: None,
                needs_on: false,
                parameters: &[],
                named: false,
                of_dependency: false,
            },
        ],
        selectors: vec!["process", "cgroup"],
        metrics: Vec::new(),
        watched: None,
        exporter: None,
        machine: Some(|text| match text.strip_prefix("ssh://").unwrap_or(text) {
            "" => Err(("no host".into(), "write HOST".into())),
            host => Ok(host.into()),
        }),
    }
}

fn parse(text: &str) -> Result<Experiment, Problems> {
    Experiment::parse(text, "experiment.toml", &vocabulary())
}

const WHOLE: &str = r#"name = "Block size on \"data\""
goal = ["response.p95 <= 20ms", "failed < 0.1%"]
watch = ["host", "process:slapd"]
sample_every = "100ms"
replicates = 5
seed = 42
design = "grid"

[machines]
load = ["gen1", "ssh://gen2"]
watch = ["db1"]
on_loss = "divide"

[target]
start = "serve --port 3389"
ready = "tcp://127.0.0.1:3389"
stop_within = "5s"
restart = "each-trial"
environment = { LEVEL = 3, "A.B" = " \"x\" " }

[dependencies]
directory = "ldap://127.0.0.1:3390"
store = { address = "db1:5432", listen = "127.0.0.1:15432" }

[workload.disk]
files = "data.bin"
block_size = "8KiB"
read_percent = 70
verify = true

[load]
closed = 32
warm_up = "2s"
measure = "10s"

[vary]
"workload.block_size" = { baseline = "4KiB", levels = ["8KiB", "64KiB"] }
"host.cpus" = {
  baseline = 1,
  levels = [2],
}
"host.cpu_quota" = { baseline = "unlimited", levels = [0.5, "150%", 2] }
"host.disk.io_limit" = { levels = ["read 400 IOPS and write 5MiB/s", "200 IOPS"] }
"network.delay.store" = { levels = ["20ms"] }
"target.command.pool" = { set = "pool {level}", undo = "pool 8", levels = [4, true, "x y"] }

[[published]]
name = "the old array"
source = "a paper of \"1998\""
factor = "workload.block_size"
read = { 4KiB = 110, "8KiB" = 97.5 }
write = { 64KiB = 1_000 }
"#;

#[test]
fn an_experiment_reads_and_is_written_back() {
    let experiment = parse(WHOLE).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(experiment.replicates, 5);
    assert_eq!(experiment.workload.settings.level("read_percent"), Some(&Level::Percent(70.0)));
    assert_eq!(experiment.workload.settings.line("block_size"), 27);
    assert_eq!(experiment.workload.settings.level("outstanding"), Some(&Level::Count(1)));
    assert_eq!((experiment.vary[0].factor.0.as_str(), experiment.vary[0].line), ("workload.block_size", 37));
    assert_eq!(experiment.vary[1].levels, [Level::Count(2)]);
    let delay = &experiment.vary[4];
    assert_eq!((&delay.baseline, &delay.on), (&Some(Level::Time(0)), &None));
    assert_eq!(
        experiment.dependency("network.delay.store").unwrap().listen.as_deref(),
        Some("127.0.0.1:15432")
    );
    let unused: Vec<&str> = experiment.unused_dependencies().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(unused, ["directory"]);
    let rates = &experiment.published[0].rates_per_s;
    assert_eq!(rates["read"], [(Level::Bytes(4096), 110.0), (Level::Bytes(8192), 97.5)]);
    assert_eq!(rates["write"], [(Level::Bytes(65536), 1000.0)]);
    let mut again = parse(&write(&experiment, &vocabulary())).unwrap_or_else(|problems| panic!("{problems}"));
    // Line numbers belong to the file, not to the experiment.
    let target = again.target.as_mut().unwrap();
    assert_eq!(target.origin(), Some(Origin::Start(Secret::plain("serve --port 3389"))));
    assert_eq!(target.environment["LEVEL"].reveal(), "3");
    for settings in [&mut again.workload.settings, &mut again.load, &mut target.settings] {
        settings.0.values_mut().for_each(|setting| setting.line = 0);
    }
    let mut expected = experiment;
    let target = expected.target.as_mut().unwrap();
    for settings in [&mut expected.workload.settings, &mut expected.load, &mut target.settings] {
        settings.0.values_mut().for_each(|setting| setting.line = 0);
    }
    for experiment in [&mut again, &mut expected] {
        experiment.goals.iter_mut().for_each(|goal| goal.place = Place::default());
        experiment.vary.iter_mut().for_each(|variation| variation.line = 0);
        experiment.dependencies.iter_mut().for_each(|dependency| dependency.line = 0);
    }
    assert_eq!(again, expected);
}

#[test]
fn published_changes_are_read_and_written_back() {
    let vocabulary = vocabulary();
    let text = r#"
[workload.disk]
files = "/data/f"
[[published]]
name = "theirs"
source = "a book"
changes = { "read.rate_per_s" = "+44%", rate_per_s = "-10.5 %" }
"#;
    let experiment = Experiment::parse(text, "e.toml", &vocabulary).unwrap();
    let changes = &experiment.published[0].changes;
    assert_eq!(changes, &[("read.rate_per_s".to_string(), 1.44), ("rate_per_s".into(), 0.895)]);
    let written = write(&experiment, &vocabulary);
    assert!(written.contains("\"read.rate_per_s\" = \"+44%\""), "{written}");
    let again = Experiment::parse(&written, "w.toml", &vocabulary).unwrap();
    assert_eq!(again.published, experiment.published, "{written}");
    let wrong = text.replace("read.rate_per_s", "reed.rate_per_s").replace("-10.5 %", "-100%");
    let problems = Experiment::parse(&wrong, "e.toml", &vocabulary).unwrap_err();
    let reported: Vec<&str> = problems.0.iter().map(|problem| problem.what.as_str()).collect();
    assert_eq!(reported, ["`reed.rate_per_s` is not a rate that is compared", "not a change"]);
}

#[test]
fn published_limits_and_times_are_read_and_written_back() {
    let vocabulary = vocabulary();
    let text = r#"
[workload.disk]
files = "/data/f"
[vary]
"workload.block_size" = { baseline = "4KiB", levels = ["8KiB"] }
[[published]]
name = "theirs"
source = "a book"
factor = "workload.block_size"
limits."response.p95 <= 1s" = { 4KiB = "12..15", 8KiB = 24, 16KiB = "..120" }
times."response.p50" = { 4KiB = "420ms", 8KiB = "1500ms..2200ms" }
times."a:b.response.mean" = { 4KiB = "3m" }
"#;
    let experiment = Experiment::parse(text, "e.toml", &vocabulary).unwrap();
    let published = &experiment.published[0];
    let loads: Vec<[Option<f64>; 2]> = published.limits[0].loads.iter().map(|(_, range)| *range).collect();
    assert_eq!(loads, [[Some(12.0), Some(15.0)], [Some(24.0); 2], [None, Some(120.0)]]);
    assert_eq!(
        published.times.iter().map(|of| of.metric()).collect::<Vec<_>>(),
        ["response.p50", "a:b.response.mean"]
    );
    assert_eq!(published.times[1].times_ms[0].1, [180e3; 2]);
    let written = write(&experiment, &vocabulary);
    let again = Experiment::parse(&written, "w.toml", &vocabulary).unwrap();
    assert_eq!(again.published, experiment.published, "{written}");
    let wrong =
        text.replace("12..15", "15..12").replace("420ms", "420").replace("a:b.response.mean", "a:b.mean");
    let problems = Experiment::parse(&wrong, "e.toml", &vocabulary).unwrap_err();
    let reported: Vec<&str> = problems.0.iter().map(|problem| problem.what.as_str()).collect();
    assert_eq!(reported, ["not a load", "not a time", "`a:b.mean` is not a table of response times"]);
}

#[test]
fn figures_that_hang_on_no_factor_are_read_and_written_back() {
    let mut vocabulary = vocabulary();
    vocabulary.metrics = vec!["disk.flush_s", "process.busy_cpus"];
    let text = r#"
show = ["disk.flush_s{vda}", "read.rate_per_s"]
[workload.disk]
files = "/data/f"
[[published]]
name = "theirs"
source = "a book"
figures = { "read.busy_s" = "585m", "process.busy_cpus{slapd}" = "0.40%", "disk.flush_s" = "3ms" }
"#;
    let experiment = Experiment::parse(text, "e.toml", &vocabulary).unwrap();
    let shown: Vec<String> = experiment.show.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["disk.flush_s{vda}", "read.rate_per_s"]);
    let figures: Vec<(String, f64)> =
        experiment.published[0].figures.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    assert_eq!(
        figures,
        [
            ("read.busy_s".to_string(), 35_100.0),
            ("process.busy_cpus{slapd}".to_string(), 0.004),
            ("disk.flush_s".to_string(), 0.003)
        ],
        "in the order of the file"
    );
    let written = write(&experiment, &vocabulary);
    let again = Experiment::parse(&written, "w.toml", &vocabulary).unwrap();
    assert_eq!((again.show, again.published), (experiment.show, experiment.published), "{written}");
    let wrong = text
        .replace("disk.flush_s{vda}", "disk.flash_s")
        .replace("\"3ms\"", "3")
        .replace("585m\"", "585m\", \"write.rate\" = \"1/s\"");
    let problems = Experiment::parse(&wrong, "e.toml", &vocabulary).unwrap_err();
    let reported: Vec<(u32, &str)> =
        problems.0.iter().map(|problem| (problem.line, problem.what.as_str())).collect();
    assert_eq!(reported.len(), 3, "{reported:?}");
    assert!(reported[0].1.contains("did you mean `disk.flush_s`?"), "{reported:?}");
    assert!(reported[1].1.contains("there is no figure `write.rate`"), "{reported:?}");
    assert!(reported[2].1.contains("`3`"), "{reported:?}");
    let aimless = text.replace("figures =", "read = { 1 = 2.0 }\nfigures =");
    let problems = Experiment::parse(&aimless, "e.toml", &vocabulary).unwrap_err();
    assert_eq!(problems.0[0].what, "rates by level need a `factor`");
}

#[test]
fn published_figures_are_for_levels_that_are_varied() {
    let text = r#"[workload.disk]
files = "f"
[vary]
"workload.outstanding" = { levels = [2] }
[[published]]
name = "one"
source = "a paper"
factor = "workload.block_size"
[[published]]
name = "two"
factor = "workload.outstanding"
[[published]]
name = "three"
source = "a paper"
factor = "workload.outstanding"
reads = { 2 = 1 }
read = { two = 1, 2 = "many", 3 = -1 }
"#;
    let reported: Vec<(u32, String)> =
        parse(text).unwrap_err().0.into_iter().map(|problem| (problem.line, problem.what)).collect();
    let expected = [
        (8, "`workload.block_size` is not varied"),
        (9, "published figures without `source`"),
        (16, "unknown key `reads` in [[published]]"),
        (17, "`two` is not a whole number from 1 to 1024"),
        (17, "not a rate"),
        (17, "not a rate"),
    ];
    assert_eq!(reported, expected.map(|(line, what)| (line, what.to_string())));
}

#[test]
fn a_nested_table_is_the_same_factor() {
    let text = "[workload.disk]\nfiles = \"f\"\n[vary.host]\ncpus = { levels = [2] }\n";
    assert_eq!(parse(text).unwrap().vary[0].factor.0, "host.cpus");
}

#[test]
fn every_mistake_is_reported_at_once() {
    let text = r#"replicats = 3
goal = ["respons.p95 <= 1s"]
watch = ["host", "proces:slapd"]
[workload.disk]
files = 7.5
block_sise = "4KiB"
outstanding = 0
cache = "direkt"
[load]
closed = 4
open = "10"
measure = 30
[vary]
"workload.blok_size" = { levels = ["8KiB"] }
"host.cpus" = { baseline = 2, levels = [2] }
"network.delay" = { levels = ["20ms"] }
"#;
    insta::assert_snapshot!("every_mistake", parse(text).unwrap_err().to_string());
}

#[test]
fn mistakes_about_dependencies_are_reported_with_their_lines() {
    let text = r#"[target]
start = "serve --db ${dependency:databse} --port ${dependency:directory.prt}"
ready = "tcp://${dependency:directory}"
environment = { A = "${dependency:x}" }
[dependencies]
directory = "dir1"
database = "127.0.0.1:5432"
other = "127.0.0.1:5432"
"a.b" = "db1:1"
half = { listen = "127.0.0.1:1" }
[workload.disk]
files = "f"
[vary]
"network.delay.database" = { levels = ["1ms"], on = "db1:5432", listen = "127.0.0.1:2" }
"network.delay.databas" = { levels = ["1ms"] }
"network.delay.ldap" = { levels = ["1ms"] }
"#;
    insta::assert_snapshot!("mistakes_about_dependencies", parse(text).unwrap_err().to_string());
    let by_hand = "[workload.disk]\nfiles = 'f'\n[vary]\n'network.delay.x' = { levels = ['1ms'], on = 'a:1', listen = '127.0.0.1:1' }\n";
    assert_eq!(parse(by_hand).unwrap().vary[0].on.as_deref(), Some("a:1"));
}

#[test]
fn what_a_target_lacks_is_reported() {
    for (target, expected) in [
        ("", "[target] has none of `start`, `process` and `pid`"),
        ("start = 'a'", "[target] has no `ready`"),
        ("start = 'a'\nprocess = 'b'\nready = 'tcp://a:1'", "`start` and `process` exclude each other"),
        ("process = 'b'\nstop = 'c'", "`stop` needs `start`"),
        ("pid = 7\nenvironment = { A = 1 }", "`environment` needs `start`"),
        ("pid = 7\nready = 'line:x'", "the output of a process that is already running cannot be read"),
        ("start = 'a'\nready = 'port 80'", "`port 80` is not a test of readiness"),
        ("start = 'a'\nready = 'tcp://a'", "`tcp://a` is not a test of readiness"),
        ("start = 'a'\nready = 'tcp://a:1'\nrestart = 'daily'", "one of `never`, `each-trial`"),
        ("start = 'a'\nready = 'tcp://a:1'\nreay_within = '1s'", "did you mean `ready_within`?"),
    ] {
        let text = format!("[workload.disk]\nfiles = 'f'\n[target]\n{target}\n");
        let found = parse(&text).unwrap_err().to_string();
        assert!(found.contains(expected), "{target}: {found}");
    }
    let attached = parse("[workload.disk]\nfiles = 'f'\n[target]\npid = 7\n").unwrap().target.unwrap();
    assert_eq!((attached.origin(), attached.readiness()), (Some(Origin::Pid(7)), None));
}

#[test]
fn a_parameter_that_is_missing_or_unknown_is_reported() {
    let vary = |table: &str| {
        let text = format!("[workload.disk]\nfiles = 'f'\n[vary]\n{table}\n");
        parse(&text).unwrap_err().to_string()
    };
    assert!(
        vary("'target.command' = { set = 'a', levels = [1] }").contains("`target.command` has no `undo`")
    );
    assert!(vary("'host.cpus' = { set = 'a', levels = [1] }").contains("unknown key `set`"));
    assert!(vary("'target.command.' = { levels = [1] }").contains("cannot be varied"));
    assert!(vary("'host.cpus.a' = { levels = [1] }").contains("cannot be varied"));
}

#[test]
fn what_cannot_be_varied_has_the_word_that_was_meant() {
    for (path, expected) in [
        ("workload.iodepth", "did you mean `workload.outstanding`?"),
        ("workload.outstandin", "did you mean `workload.outstanding`?"),
        ("workload.users", "did you mean `load.closed`?"),
        ("host.cpu", "did you mean `host.cpus`?"),
        ("bs", "did you mean `workload.block_size`?"),
        ("workload.foo", "one of `workload.files`, "),
        ("host.foo", "one of `host.cpus`, "),
        ("foo", "a setting of the workload"),
    ] {
        let text = format!("[workload.disk]\nfiles = 'f'\n[vary]\n'{path}' = {{ levels = [1] }}\n");
        let found = parse(&text).unwrap_err().to_string();
        assert!(found.contains(expected), "{path}: {found}");
    }
}

#[test]
fn broken_toml_names_its_place() {
    insta::assert_snapshot!("broken_toml", parse("[workload.disk\nfiles = \"f\"\n").unwrap_err().to_string());
    insta::assert_snapshot!("no_workload", parse("name = \"x\"\n").unwrap_err().to_string());
}

#[test]
fn set_changes_one_setting() {
    let vocabulary = vocabulary();
    let mut experiment = parse(WHOLE).unwrap();
    for (assignment, fine) in [
        ("workload.outstanding=8", true),
        ("load.measure=5s", true),
        ("replicates=2", true),
        ("workload.outstandin=8", false),
        ("load.interval=5", false),
        ("nonsense", false),
    ] {
        assert_eq!(set(&mut experiment, assignment, &vocabulary).is_ok(), fine, "{assignment}");
    }
    assert_eq!(experiment.workload.settings.level("outstanding"), Some(&Level::Count(8)));
    assert_eq!(experiment.replicates, 2);
}

#[test]
fn every_name_is_there_once_and_every_default_is_a_level() {
    for table in [TOP_SETTINGS, TARGET_SETTINGS, crate::load::LOAD_SETTINGS] {
        for (at, setting) in table.iter().enumerate() {
            let name = setting.name;
            assert!(table[..at].iter().all(|other| other.name != name), "{name} is there twice");
            assert!(setting.default.is_empty() || setting.kind.parse(setting.default).is_ok(), "{name}");
        }
    }
}

#[test]
fn the_schema_knows_every_setting() {
    let schema = schema(&vocabulary()).to_string();
    for info in DISK.iter().chain(crate::load::LOAD_SETTINGS).chain(read::TOP).chain(TARGET_SETTINGS) {
        assert!(schema.contains(&format!("\"{}\"", info.name)), "{}", info.name);
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(\\PC|\n){0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_mutation_of_a_good_file_panics(at in 0usize..600, with in "\\PC{0,3}") {
        let mut text = WHOLE.to_string();
        let mut at = at.min(text.len() - 1);
        while !text.is_char_boundary(at) { at -= 1; }
        text.replace_range(at..=at, &with);
        let _ = parse(&text);
    }
}

#[test]
fn an_exporter_is_named_by_its_entry() {
    for (entry, url, host) in [
        ("http://db1:9100/metrics", "http://db1:9100/metrics", "db1:9100"),
        ("db1=https://10.0.0.5/metrics token=${env:T}", "https://10.0.0.5/metrics token=${env:T}", "db1"),
        ("http://me:pw@[::1]:9100", "http://me:pw@[::1]:9100", "[::1]:9100"),
        ("http://db1 user=a=http://", "http://db1 user=a=http://", "db1"),
        ("http://me:${file:/a b/c}@db1/m", "http://me:${file:/a b/c}@db1/m", "db1"),
    ] {
        assert_eq!((watched_url(entry), watched_host(entry)), (Some(url), Some(host)), "{entry}");
    }
    for entry in ["host", "process:a=http://b", "a b=http://c", "htp://db1", ""] {
        assert_eq!((watched_url(entry), watched_host(entry)), (None, None), "{entry}");
    }
    assert_eq!(watched("http://me:pw@db1/m token=abc").to_string(), "http://***@db1/m token=***");
    assert_eq!(watched("process:me@db1/token=a").to_string(), "process:me@db1/token=a");
}

#[test]
fn two_exporters_of_one_name_are_a_mistake() {
    let watch = r#"watch = ["a=http://db1/m", "http://db2/m", "a=http://db2/m"]"#;
    let problems = parse(&WHOLE.replace(r#"watch = ["host", "process:slapd"]"#, watch)).unwrap_err().0;
    assert_eq!(problems.len(), 1);
    assert_eq!((problems[0].line, problems[0].what.as_str()), (3, "two exporters have the name a"));
}

#[test]
fn machines_have_names_of_their_own() {
    let text =
        "[workload.disk]\nfiles = \"f\"\n[machines]\nload = [\"a\",\n\"ssh://a\", \"\"]\nwacht = \"b\"\n";
    let problems = parse(text).unwrap_err();
    let found: Vec<(u32, &str)> =
        problems.0.iter().map(|problem| (problem.line, problem.what.as_str())).collect();
    assert_eq!(
        found,
        [(5, "two machines have the name a"), (5, "no host"), (6, "unknown key `wacht` in [machines]"),]
    );
}
