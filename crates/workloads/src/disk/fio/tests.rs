use engine::workload::WorkloadKind;
use model::Shape;

use super::super::KIND;
use super::*;

fn level(settings: &Settings, name: &str) -> String {
    settings.level(name).map(Level::to_string).unwrap_or_default()
}

#[test]
fn a_usual_job_file_becomes_a_disk_load() {
    let jobs = parse(
        "; a database\n[global]\nioengine=libaio\ndirect=1\nruntime=2m\ntime_based\nramp_time=5\ngroup_reporting\n\n\
         [oltp]\nfilename=/data/a:/data/b\nsize=8g\nrw=randrw\nrwmixread=70\nbssplit=8k/90:64k/10\n\
         numjobs=4\niodepth=16\nfdatasync=32\nnorandommap\nrandom_distribution=zipf:1.2\nbuffer_compress_percentage=30\n",
        "oltp.fio",
    )
    .unwrap();
    for (name, expected) in [
        ("files", "/data/a,/data/b"),
        ("size", "4GiB"),
        ("access", "random"),
        ("read_percent", "70%"),
        ("block_size", "8KiB 90%, 64KiB 10%"),
        ("threads", "4"),
        ("outstanding", "16"),
        ("cache", "direct"),
        ("fsync_every", "32"),
        ("distribution", "zipf 1.2"),
        ("compressible", "30%"),
        ("keep", "true"),
    ] {
        assert_eq!(level(&jobs.workload, name), expected, "{name}");
    }
    assert_eq!(jobs.name, "oltp");
    assert_eq!(jobs.notes, ["no effect here: group_reporting"]);
    let load = Load::read(&jobs.load).unwrap();
    assert_eq!(load.measure, Some(120 * model::SECOND));
    assert_eq!(level(&jobs.load, "warm_up"), "5s");
    assert_eq!(KIND.configure(&jobs.workload).unwrap().default_shape(), Shape::closed(64));
}

#[test]
fn fios_defaults_are_kept() {
    let jobs = parse("[job]\nsize=1g\nnumjobs=2\niodepth=8\n", "f").unwrap();
    for (name, expected) in [
        ("files", "job.0.0,job.1.0"),
        ("access", "sequential"),
        ("block_size", "4KiB"),
        ("cache", "page-cache"),
        // psync
        ("outstanding", "1"),
    ] {
        assert_eq!(level(&jobs.workload, name), expected, "{name}");
    }
    assert!(jobs.notes.iter().any(|note| note.contains("runtime")));
}

#[test]
fn rates_think_times_and_strides() {
    let jobs =
        parse("[j]\nrw=randread\nrate_iops=500\nrate_process=poisson\nnumjobs=2\nruntime=10\n", "f").unwrap();
    assert_eq!(Load::read(&jobs.load).unwrap().shape.unwrap().describe(), "1000/s, Poisson arrivals");
    let jobs = parse("[j]\nrw=randread\nthinktime=2ms\nnumjobs=3\n", "f").unwrap();
    assert_eq!(Load::read(&jobs.load).unwrap().shape.unwrap().describe(), "3 users, 2ms think time");
    let jobs = parse("[j]\nrw=read:60k\nbs=4k\n", "f").unwrap();
    assert_eq!(level(&jobs.workload, "stride"), "64KiB");
}

#[test]
fn like_jobs_are_one_load_and_others_are_not() {
    let jobs = parse("[global]\nrw=randread\n[a]\nfilename=/a\n[b]\nfilename=/b\nnumjobs=3\n", "f").unwrap();
    assert_eq!(
        (level(&jobs.workload, "files"), level(&jobs.workload, "threads")),
        ("/a,/b".into(), "4".into())
    );
    let text = "[a]\nrw=read\n[b]\nrw=write\nstonewall\n";
    let problems = parse(text, "two.fio").unwrap_err().to_string();
    assert!(problems.contains("two.fio:3") && problems.contains("differs from [a] in `rw`"), "{problems}");
    assert!(problems.contains("stonewall"), "{problems}");
}

#[test]
fn every_problem_is_told_with_its_line() {
    let text = "[global]\ninclude other\niodepht=4\n[a]\nrw=trim\nbsrange=4k-8k\nsize=10%\nbs=4k,8k\nruntime=soon\n\
                io_size=3g\nfilename=${DISK}\nrandom_distribution=pareto:1\n[b\n";
    let problems = parse(text, "bad.fio").unwrap_err();
    let lines: Vec<u32> = problems.0.iter().map(|problem| problem.line).collect();
    for line in [2, 3, 5, 6, 7, 8, 9, 10, 11, 13] {
        assert!(lines.contains(&line), "line {line}: {problems}");
    }
    assert!(problems.to_string().contains("did you mean `iodepth`?"), "{problems}");
    assert!(problems.0.iter().all(|problem| !problem.help.is_empty()), "{problems}");
    assert!(parse("", "empty.fio").unwrap_err().to_string().contains("no job"));
}

#[test]
fn what_has_no_effect_is_told() {
    let notes = |options: &str| {
        parse(&format!("[j]\nruntime=1\ntime_based\nnorandommap\nrw=randread\n{options}"), "f")
            .unwrap()
            .notes
            .join("; ")
    };
    assert_eq!(notes(""), "");
    for (options, expected) in [
        ("filename=a\nnrfiles=4\n", "nrfiles: has no effect beside filename: the files named there are used"),
        (
            "ioengine=windowsaio\n",
            "ioengine: in place of windowsaio, io_uring is used, or system calls where the kernel refuses it",
        ),
        ("ioengine=mmap\n", "ioengine: mmap is not used: blocks are read and written with system calls"),
        ("rwmixread=70\n", "rwmixread: has no effect where nothing is mixed"),
        ("bs=4k\nbssplit=4k/50:8k/50\n", "bs: has no effect beside bssplit"),
        ("rate_process=poisson\n", "rate_process: has no effect without rate_iops"),
        ("thread\nprio=3\nprio=4\n", "no effect here: thread, prio"),
        ("name=a\ndescription=b\n", ""),
    ] {
        assert_eq!(notes(options), expected, "{options}");
    }
}

#[test]
fn values_that_are_not_fios_are_refused() {
    for (options, expected) in [
        ("ioengine=libiao", "fio has no ioengine `libiao`"),
        ("ioengine=rbd", "ioengine=rbd is not supported"),
        ("verify=crc33", "fio has no verify=crc33"),
        ("rate_iops=5\nrate_process=uniform", "`uniform` is no value of rate_process"),
        ("direct=1\nbuffered=1", "`direct` and `buffered` contradict each other"),
    ] {
        let problems = parse(&format!("[j]\n{options}\n"), "f").unwrap_err();
        assert_eq!(problems.0[0].what, expected);
        assert!(!problems.0[0].help.is_empty(), "{options}");
    }
}

#[test]
fn every_option_is_listed_once() {
    let mut names: Vec<&str> = known_names().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(\\[?(global|a|.{0,6})\\]?\n|(rw|bs|bssplit|size|runtime|filename|numjobs|verify|.{0,8})=.{0,12}\n){0,12}") {
        if let Ok(jobs) = parse(&text, "f") {
            let _ = (KIND.configure(&jobs.workload).is_ok(), Load::read(&jobs.load).is_ok());
        }
    }
}
