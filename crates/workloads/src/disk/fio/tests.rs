use engine::workload::WorkloadKind;

use super::super::KIND;
use super::options::known_names;
use super::*;

fn read(text: &str) -> Result<FioFile, Problems> {
    parse(text, "f.fio", &Surroundings::NONE)
}

/// The only step of a file that has one.
fn only(text: &str) -> FioStep {
    let mut file = read(text).unwrap();
    assert_eq!(file.steps.len(), 1, "{text}");
    KIND.configure(&file.steps[0].workload).map(|_| ()).unwrap();
    file.steps.remove(0)
}

fn level(settings: &Settings, name: &str) -> String {
    settings.level(name).map(Level::to_string).unwrap_or_default()
}

fn jobs_of(step: &FioStep) -> Vec<String> {
    step.workload.get(&settings::JOBS)
}

fn shape(step: &FioStep) -> String {
    let stated = Load::read(&step.load).unwrap().shape;
    stated.unwrap_or_else(|| KIND.configure(&step.workload).unwrap().default_shape()).describe()
}

#[test]
fn a_usual_job_file_becomes_a_disk_load() {
    let text = "; a database\n[global]\nioengine=libaio\ndirect=1 ; past the cache\nruntime=2m\ntime_based\nramp_time=5\n\
                group_reporting\n\n[oltp]\nfilename=/data/a:/data/b\nsize=8g # of both\nrw=randrw\nrwmixread=70\n\
                bssplit=8k/90:64k/10\nnumjobs=4\niodepth=16\nfdatasync=32\nnorandommap\n\
                random_distribution=zipf:1.2\nbuffer_compress_percentage=30\n";
    let step = only(text);
    for (name, expected) in [
        ("files", "/data/a,/data/b"),
        ("size", "4GiB"),
        ("access", "random"),
        ("read_percent", "70%"),
        ("block_size", "8KiB 90%, 64KiB 10%"),
        ("align", "8KiB"),
        ("threads", "4"),
        ("streams", "per-thread"),
        ("outstanding", "16"),
        ("cache", "direct"),
        ("fsync_every", "32"),
        ("distribution", "zipf 1.2"),
        ("compressible", "30%"),
        ("keep", "true"),
        ("jobs", ""),
    ] {
        assert_eq!(level(&step.workload, name), expected, "{name}");
    }
    assert_eq!(step.name, "oltp");
    let notes = read(text).unwrap().notes;
    assert_eq!(
        notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(),
        ["file_service_type: a random operation goes to any of the files", "no effect here: group_reporting"]
    );
    let load = Load::read(&step.load).unwrap();
    assert_eq!(load.measure, Some(120 * SECOND));
    assert_eq!(level(&step.load, "warm_up"), "5s");
    assert_eq!(shape(&step), "64 in flight");
}

#[test]
fn fios_defaults_are_kept() {
    let step = only("[job]\nsize=1g\niodepth=8\n");
    for (name, expected) in [
        ("files", "job.0.0"),
        ("access", "sequential"),
        ("block_size", "4KiB"),
        ("cache", "page-cache"),
        // psync
        ("outstanding", "1"),
    ] {
        assert_eq!(level(&step.workload, name), expected, "{name}");
    }
    let notes = read("[job]\nsize=1g\n").unwrap().notes;
    assert!(notes.iter().any(|note| note.text.contains("runtime") && note.unless == Some("measure")));
    // Each block once, in random order, as with fio's random map.
    assert_eq!(level(&only("[job]\nrw=randread\nsize=1g\n").workload, "distribution"), "shuffle");
    assert_eq!(level(&only("[job]\nrw=randread\nnorandommap\n").workload, "distribution"), "uniform");
    assert_eq!(level(&only("[job]\nrw=randread\nbsrange=4k-8k\n").workload, "distribution"), "uniform");
}

#[test]
fn patterns() {
    for (options, expected) in [
        ("rw=read:60k\nbs=4k", &[("stride", "64KiB"), ("reverse", "false")][..]),
        ("rw=read:-8k\nbs=4k", &[("stride", ""), ("reverse", "true"), ("passes", "same")]),
        ("rw=write:-16k\nbs=4k", &[("stride", "12KiB"), ("reverse", "true")]),
        ("rw=randtrim", &[("trim_percent", "100%"), ("access", "random")]),
        ("rw=rw\nrwmixread=60\nrwmixwrite=40", &[("read_percent", "60%"), ("directions", "apart")]),
        ("rw=randrw\nrwmixwrite=90", &[("read_percent", "10%"), ("directions", "together")]),
        ("rw=randrw\nbs=4k,8k", &[("block_size", "4KiB"), ("write_block_size", "8KiB"), ("align", "4KiB")]),
        ("rw=randwrite\nbs=4k,8k", &[("block_size", "8KiB"), ("write_block_size", "")]),
        (
            "rw=randrw\nbssplit=64k/40:1m/60,1m/100",
            &[("block_size", "64KiB 40%, 1MiB 60%"), ("write_block_size", "1MiB 100%")],
        ),
        ("rw=randread\nbsrange=4k-4k", &[("block_size", "4KiB"), ("distribution", "shuffle")]),
        ("rw=write\nbsrange=4k-12k", &[("block_size", "4KiB, 8KiB, 12KiB")]),
        (
            "rw=randread\nrandom_distribution=zoned:50/5:30/15:20/",
            &[("distribution", "zones 50% in 5%, 30% in 15%, 20% in 80%")],
        ),
        ("rw=randrw\nsize=1m\nloops=3", &[("operations", "768")]),
        // As fio 3.33 counts them.
        ("rw=randread\nsize=4m\nnumber_ios=5000", &[("operations", "1024")]),
        ("rw=randrw\nsize=4m\nnumber_ios=100", &[("operations", "100")]),
        ("rw=randread\nsize=4m\nnumber_ios=100\nloops=3", &[("operations", "300")]),
        ("rw=randread\nsize=4m\nnumber_ios=1500\nloops=3", &[("operations", "3072")]),
        ("rw=randread\nsize=4m\nnumber_ios=500000\nruntime=2", &[("operations", "1024")]),
        ("rw=randread\nsize=4m\nnumber_ios=5000\nio_size=16m", &[("operations", "4096")]),
        ("rw=randread\nsize=4m\nnumber_ios=3000\nio_size=16m", &[("operations", "3000")]),
        ("rw=randread\nsize=4m\nnumber_ios=5000\nio_size=1m", &[("operations", "256")]),
        ("rw=randread\nsize=4m\nnumber_ios=1000\nio_size=1m\nloops=3", &[("operations", "768")]),
        ("rw=randread\nsize=4m\nio_size=16m\nloops=2", &[("operations", "4096")]),
        ("rw=randread\nsize=4m\nio_size=16m\nloops=5", &[("operations", "5120")]),
        ("rw=randread\nsize=4m\nio_size=6m\nloops=2", &[("operations", "2048")]),
        ("rw=randread\nsize=4m\nnrfiles=3\nnumber_ios=5000", &[("operations", "1023")]),
        ("rw=randread\nsize=4m\nbs=12k\nnrfiles=3\nnumber_ios=5000", &[("operations", "339")]),
        ("rw=read\nfilename=a:b\nfilesize=1m\nnumber_ios=5000", &[("operations", "512")]),
        ("rw=read\nfilesize=1m\nsize=4m\nnumber_ios=5000", &[("operations", "256")]),
        ("rw=randread\nfilesize=4m\nsize=1m\nnumber_ios=5000", &[("operations", "256")]),
        ("rw=read:4k\nsize=4m\nnumber_ios=5000", &[("operations", "1024")]),
        ("rw=trimwrite\nsize=4m\nnumber_ios=100", &[("operations", "200")]),
        ("rw=trimwrite\nsize=4m\nnumber_ios=5000", &[("operations", "2048")]),
        ("rw=read\nsize=4m\nnumber_ios=5000\ntime_based", &[("operations", "")]),
        ("filename=a\nsize=4m\nnumjobs=2\nnumber_ios=5000", &[("operations", "1024"), ("threads", "2")]),
        ("rw=randrw\nbs=4k,16k\nrwmixread=75\nio_size=7m", &[("operations", "1024")]),
        ("rw=read\nsize=1m\nio_size=64k", &[("operations", "16")]),
        ("rw=read\nnumber_ios=20\nio_size=1m", &[("operations", "20")]),
        ("rw=read\nsize=1m\nloops=3\ntime_based", &[("operations", "")]),
        ("rw=write\nverify=md5", &[("verify", "true")]),
        ("rw=write\nverify=pattern\nverify_pattern=0xff", &[("verify", "true")]),
        ("filename=a\nnumjobs=3", &[("threads", "3"), ("streams", "per-thread"), ("jobs", "")]),
    ] {
        let step = only(&format!("[j]\nruntime=1\n{options}\n"));
        for (name, expected) in expected {
            assert_eq!(level(&step.workload, name), *expected, "{options}: {name}");
        }
    }
}

#[test]
fn options_that_change_the_order_or_the_content_of_blocks() {
    for (options, expected) in [
        ("rw=read:12k", &[("stride", "16KiB"), ("passes", "same")][..]),
        ("ioengine=null\niodepth=8\nrw=randread\nnorandommap", &[("back_end", "none"), ("outstanding", "8")]),
        ("rw=randread\nrandom_distribution=pareto:0.3", &[("distribution", "pareto 0.3")]),
        ("rw=randread\nrandom_distribution=normal:15:0.5", &[("distribution", "normal 15%")]),
        ("rw=randread\nrandom_distribution=sequence:2,0,1", &[("distribution", "sequence 2,0,1")]),
        (
            "rw=randread\nrandom_distribution=sequence:2,0,1\nrandom_sequence_stride=1",
            &[("distribution", "sequence 2,0,1 moving")],
        ),
        (
            "rw=randread\nrandom_distribution=zoned_abs:60/20g:40/100g",
            &[("distribution", "zones 60% in 21474836480B, 40% in 107374182400B")],
        ),
        (
            "rw=read\nzonemode=strided\nzonesize=256m\nzoneskip=2g",
            &[("zone_size", "256MiB"), ("zone_skip", "2GiB")],
        ),
        (
            "rw=randwrite\nzonemode=zbd\nzonesize=1m\nmax_open_zones=4\nsize=8z\noffset=2z",
            &[
                ("write_pointers", "true"),
                ("zone_size", "1MiB"),
                ("open_zones", "4"),
                ("size", "8MiB"),
                ("offset", "2MiB"),
            ],
        ),
        (
            "rw=randwrite\nzonemode=zbd\nzonesize=1m\nzone_reset_threshold=0.7\nzone_reset_frequency=0.125",
            &[("empty_zones_above", "70%"), ("empty_zone_every", "8")],
        ),
        ("rw=read\nzonemode=zbd\nzonesize=1m", &[("write_pointers", "false"), ("zone_size", "")]),
        (
            "rw=trimwrite\nbs=4k,4k,16k",
            &[("trim_before", "16KiB"), ("read_percent", "0%"), ("block_size", "4KiB")],
        ),
        ("rw=randtrimwrite", &[("trim_before", "4KiB"), ("access", "random"), ("distribution", "shuffle")]),
        (
            "rw=write\nsize=100m\ndedupe_percentage=50\ndedupe_mode=working_set\ndedupe_working_set_percentage=50",
            &[("duplicates", "50% of 12800 blocks")],
        ),
        ("rw=write\ndedupe_percentage=30", &[("duplicates", "30%")]),
        ("rw=write\nbuffer_pattern=0xdeadface", &[("content", "0xdeadface")]),
        ("rw=write\nbuffer_pattern=\"abcd\"", &[("content", "0x61626364")]),
        (
            "ioengine=sg\nfilename=/dev/sdb\nrw=write\nbuffer_pattern=0x01\nsg_write_mode=verify_bytchk_01",
            &[("expect", "0x01"), ("content", ""), ("read_percent", "100%"), ("cache", "direct")],
        ),
        (
            "ioengine=sg\nfilename=/dev/sdb\nrw=write\nsg_write_mode=write_same_ndob",
            &[("content", "0x00"), ("read_percent", "0%")],
        ),
        ("rw=randwrite\natomic=1", &[("atomic", "true")]),
        ("rw=write\nioengine=falloc", &[("writes", "allocate")]),
        ("rw=write\nioengine=ftruncate", &[("writes", "truncate")]),
        (
            "rw=randwrite\nsprandom=1\nspr_op=0.07",
            &[("sprandom", "7% in 100 regions"), ("distribution", "uniform")],
        ),
        (
            "rw=randread\nprioclass=3\ncmdprio_percentage=20",
            &[("block_size", "4KiB 20% rt:0, 4KiB 80% idle:0")],
        ),
        (
            "rw=randrw\nbssplit=64k/40:1m/60,1m/100\ncmdprio_bssplit=64k/25/1/1:1m/0,1m/0",
            &[("block_size", "64KiB 10% rt:1, 64KiB 30%, 1MiB 60%"), ("write_block_size", "1MiB 100%")],
        ),
        ("rw=write\nwritefua=1", &[("write_through", "true"), ("write_through_metadata", "false")]),
        ("rw=write\nsync=dsync", &[("write_through", "true"), ("write_through_metadata", "false")]),
        ("rw=write\nsync=1", &[("write_through", "true"), ("write_through_metadata", "true")]),
        ("rw=write\nsync=sync", &[("write_through", "true"), ("write_through_metadata", "true")]),
        ("rw=write\nsync=none", &[("write_through", "false"), ("write_through_metadata", "false")]),
    ] {
        let step = only(&format!("[j]\nruntime=1\n{options}\n"));
        for (name, expected) in expected {
            assert_eq!(level(&step.workload, name), *expected, "{options}: {name}");
        }
    }
}

#[test]
fn what_is_written_for_a_device_with_metadata_counts_data_alone() {
    let beside = ["/dev/nvme0n1".to_string()];
    let surroundings = Surroundings { targets: &beside, ..Surroundings::NONE };
    let text = "[j]\nioengine=io_uring_cmd\nrw=write\nbs=4160\nsize=41600k\npi_act=0\n";
    let file = parse(text, "f", &surroundings).unwrap();
    for (name, expected) in
        [("block_size", "4KiB"), ("size", "40MiB"), ("cache", "direct"), ("files", "/dev/nvme0n1")]
    {
        assert_eq!(level(&file.steps[0].workload, name), expected, "{name}");
    }
}

#[test]
fn jobs_with_a_flow_have_weights_and_a_latency_target_is_a_goal() {
    let step = only("[global]\nfilename=/f\nruntime=1\n[a]\nflow=1\n[b]\nflow=8\nflow_id=3\n");
    let jobs = jobs_of(&step);
    assert!(jobs[0].contains("weight=1") && jobs[1].contains("weight=8; weight_group=3"), "{jobs:?}");
    let text = "[a]\nrw=randread\nioengine=libaio\ndirect=1\niodepth=6\nlatency_target=20ms\nlatency_window=2s\nlatency_percentile=99.9\n";
    let step = only(text);
    assert_eq!(step.goals, ["response.p999 <= 20ms"]);
    assert_eq!(shape(&step), "steps of 1, 2, 4, 6 in flight");
    assert_eq!(Load::read(&step.load).unwrap().measure, Some(8 * SECOND));
    let beside = read(&format!("{text}[b]\n")).unwrap_err().to_string();
    assert!(beside.contains("`latency_target` beside other jobs"), "{beside}");
}

#[test]
fn rates_and_think_times() {
    let open =
        only("[j]\nrw=randread\nrate_iops=500\nrate_process=poisson\nfilename=f\nnumjobs=2\nruntime=10\n");
    assert_eq!(shape(&open), "1000/s, Poisson arrivals");
    assert_eq!(shape(&only("[j]\nrate=8k\nbs=4k\n")), "2/s, evenly spaced arrivals");
    assert_eq!(shape(&only("[j]\nrw=randrw\nrate_iops=50,50\n")), "100/s, evenly spaced arrivals");
    assert_eq!(
        shape(&only("[j]\nrw=randread\nthinktime=2ms\nfilename=f\nnumjobs=3\n")),
        "3 users, 2ms think time"
    );
    assert!(read("[j]\nrw=randrw\nrate_iops=90,10\n").is_err(), "another proportion than the mix");
}

#[test]
fn the_size_of_existing_files_ends_a_number_of_operations() {
    let size_of = |path: &str| match path {
        "a" => Some(4 << 20),
        "b" => Some(1 << 20),
        _ => None,
    };
    let surroundings = Surroundings { size_of: &size_of, ..Surroundings::NONE };
    let step = |options: &str| {
        let text = format!("[j]\nbs=4k\nrw=randread\nnumber_ios=5000\n{options}\n");
        parse(&text, "f.fio", &surroundings).unwrap().steps.remove(0)
    };
    assert_eq!(level(&step("filename=a").workload, "operations"), "1024");
    assert_eq!(level(&step("filename=a\noffset=1m").workload, "operations"), "768");
    assert_eq!(level(&step("filename=a:b").workload, "operations"), "1280");
    assert_eq!(level(&step("filename=new").workload, "operations"), "5000");
    let copies = jobs_of(&step("filename=a\nnumjobs=2\noffset_increment=1m"));
    assert!(copies[0].contains("operations=1024") && copies[1].contains("operations=768"), "{copies:?}");
}

#[test]
fn numbers_of_operations_that_are_not_fios_have_a_note() {
    let last = |options: &str| {
        let notes = read(&format!("[j]\nsize=4m\nnumber_ios=5000\n{options}\n")).unwrap().notes;
        notes.last().map_or(String::new(), |note| note.text.clone())
    };
    assert!(last("rw=randread\nbssplit=4k/50:64k/50").contains("ends after 120 operations"));
    assert!(last("rw=trimwrite\nbs=4k,4k,16k").contains("ends after 1280 writes and discards"));
    assert!(!last("rw=randread").contains("operations"), "{}", last("rw=randread"));
}

#[test]
fn work_with_an_end_is_measured_to_its_end() {
    assert_eq!(Load::read(&only("[j]\nnumber_ios=10\n").load).unwrap().measure, Some(30 * SECOND));
    assert!(!only("[j]\nnumber_ios=10\n").load.given(&load::MEASURE), "the workload ends by itself");
    assert_eq!(Load::read(&only("[j]\nnumber_ios=10\nruntime=5\n").load).unwrap().measure, Some(5 * SECOND));
}

#[test]
fn jobs_at_the_same_time_are_one_load() {
    let text = "[global]\ndirect=1\nioengine=libaio\nruntime=10\ntime_based\n\
                [log]\nrw=write\nbs=64k\nfilename=/log\nrate_iops=20\n\
                [data]\nrw=randread\niodepth=8\nnumjobs=2\nfilename=/data\nstartdelay=2\n";
    let step = only(text);
    assert_eq!((step.name.as_str(), shape(&step).as_str()), ("log, data", "17 in flight"));
    let jobs = jobs_of(&step);
    assert_eq!(jobs.len(), 2);
    for part in ["log: ", "read_percent=0%", "block_size=64KiB", "files=/log", "rate=20/s"] {
        assert!(jobs[0].contains(part), "{part}: {jobs:?}");
    }
    for part in
        ["data: ", "outstanding=8", "threads=2", "streams=per-thread", "start=2s", "distribution=shuffle"]
    {
        assert!(jobs[1].contains(part), "{part}: {jobs:?}");
    }
    let operations = KIND.configure(&step.workload).unwrap().operations();
    assert_eq!(operations, ["log:write", "data:read"]);
    // Two seconds more, as one job begins so late.
    assert_eq!(Load::read(&step.load).unwrap().measure, Some(12 * SECOND));
    let copies = only("[j]\nsize=1m\nnumjobs=3\ndirectory=/d\n");
    assert_eq!(jobs_of(&copies).len(), 3, "each copy has its own file");
    assert!(jobs_of(&copies)[2].contains("files=/d/j.2.0"));
    let apart = only("[j]\nfilename=f\nsize=1m\noffset=4k\noffset_increment=1m\nnumjobs=2\n");
    assert!(jobs_of(&apart)[1].contains("offset=1028KiB"), "{:?}", jobs_of(&apart));
}

#[test]
fn stonewall_and_wait_for_begin_a_step() {
    let names =
        |text: &str| -> Vec<String> { read(text).unwrap().steps.into_iter().map(|step| step.name).collect() };
    assert_eq!(names("[a]\nstonewall\n[b]\n[c]\nstonewall\nrw=write\n[d]\n"), ["a, b", "c, d"]);
    assert_eq!(names("[global]\nstonewall\n[a]\n[b]\n"), ["a", "b"]);
    assert_eq!(names("[a]\n[b]\nwait_for=a\n[c]\nwait_for=a\n"), ["a", "b, c"]);
    assert!(read("[a]\nwait_for=b\n[b]\n").unwrap_err().to_string().contains("not above it"));
    let problems = read("[a]\nruntime=5\n[b]\nruntime=6\n").unwrap_err().to_string();
    assert!(problems.contains("f.fio:4") && problems.contains("differ in `runtime`"), "{problems}");
}

#[test]
fn includes_variables_keywords_and_percentages() {
    let surroundings = Surroundings {
        read_file: &|path| match path.to_str() {
            Some("jobs/common") => Ok("bs=16k\ninclude deeper/one".into()),
            Some("jobs/deeper/one") => Ok("rw=randwrite".into()),
            Some("jobs/itself") => Ok("include itself".into()),
            Some("jobs/wrong") => Ok("\niodepht=4".into()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        },
        variable: &|name| match name {
            "DISK" => Some("/dev/sdz".into()),
            "CONTROL" => Some("a\nb".into()),
            _ => None,
        },
        size_of: &|path| (path == "/dev/sdz").then_some(1000 << 20),
        keywords: [3, 1024, 4096],
        targets: &[],
    };
    let read = |text: &str| parse(text, "jobs/f.fio", &surroundings);
    let arithmetic =
        read("[a]\nsize=5*1024*1024*$mb_memory/8\nbs=(2*4k)\n[b]\nsize=8k\nbssplit=4k/50:8k/50\n").unwrap();
    assert!(jobs_of(&arithmetic.steps[0])[0].contains("size=640MiB"), "{arithmetic:?}");
    assert!(jobs_of(&arithmetic.steps[0])[0].contains("block_size=8KiB"), "{arithmetic:?}");
    let text = "[global]\ninclude common\n[a]\nfilename=${DISK}\nsize=10%\noffset=50%\nnumjobs=$ncpus\n";
    let file = read(text).unwrap();
    for (name, expected) in [
        ("block_size", "16KiB"),
        ("read_percent", "0%"),
        ("files", "/dev/sdz"),
        ("size", "100MiB"),
        ("offset", "500MiB"),
        ("threads", "3"),
    ] {
        assert_eq!(level(&file.steps[0].workload, name), expected, "{name}");
    }
    for (text, place, expected) in [
        ("[a]\nfilename=${NONE}\n", "jobs/f.fio:2", "variable NONE is not set"),
        ("[a]\nfilename=${CONTROL}\n", "jobs/f.fio:2", "control characters"),
        ("[a]\nfilename=${NONE\n", "jobs/f.fio:2", "does not end"),
        ("[a]\nsize=(4k\n", "jobs/f.fio:2", "`(4k` cannot be computed"),
        ("[a]\ninclude absent\n", "jobs/f.fio:2", "`jobs/absent` cannot be read"),
        ("[a]\ninclude itself\n", "jobs/itself:1", "too deep"),
        ("[a]\ninclude wrong\n", "jobs/wrong:2", "did you mean `iodepth`"),
        ("[a]\nsize=10%\n", "jobs/f.fio:2", "`a.0.0` does not exist"),
    ] {
        let problems = read(text).unwrap_err().to_string();
        assert!(problems.contains(place) && problems.contains(expected), "{text}: {problems}");
    }
}

#[test]
fn every_problem_is_reported_with_its_line() {
    let text = "[global]\ninclude other\niodepht=4\n[a]\nrw=sideways\nbsrange=4k-7m\nsize=10%\nbs=4k,8x\nruntime=soon\n\
                io_size=3q\nfilename=${DISK}\nrandom_distribution=pareto:1\n[b\n";
    let problems = read(text).unwrap_err();
    let lines: Vec<u32> = problems.0.iter().map(|problem| problem.line).collect();
    for line in [2, 3, 5, 6, 7, 9, 10, 11, 13] {
        assert!(lines.contains(&line), "line {line}: {problems}");
    }
    assert!(problems.to_string().contains("did you mean `iodepth`?"), "{problems}");
    assert!(problems.0.iter().all(|problem| !problem.help.is_empty()), "{problems}");
    assert!(read("").unwrap_err().to_string().contains("no job"));
    // What [global] says is wrong once.
    assert_eq!(read("[global]\nrw=sideways\n[a]\n[b]\n").unwrap_err().0.len(), 1);
}

#[test]
fn what_has_no_effect_is_reported() {
    let notes = |options: &str| {
        let text = format!("[j]\nruntime=1\ntime_based\nnorandommap\nrw=randread\n{options}");
        read(&text).unwrap().notes.into_iter().map(|note| note.text).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(notes(""), "");
    for (options, expected) in [
        ("filename=a\nnrfiles=4\n", "nrfiles: has no effect beside filename: the files named there are used"),
        (
            "ioengine=windowsaio\n",
            "ioengine: in place of windowsaio, io_uring is used, or system calls where the kernel refuses it",
        ),
        (
            "ioengine=mmap\n",
            "ioengine: mmap is not used: loads and stores of mapped memory are system calls here",
        ),
        ("rwmixread=70\n", "rwmixread: has no effect where nothing is mixed"),
        ("bs=4k\nbssplit=4k/50:8k/50\n", "bs: has no effect beside bssplit"),
        ("rate_process=poisson\n", "rate_process: has no effect without rate_iops"),
        ("number_ios=5\n", "number_ios: has no effect beside time_based"),
        ("thread\nrandom_generator=lfsr\nthread\n", "no effect here: thread, random_generator"),
        ("name=a\ndescription=b\n", ""),
    ] {
        assert_eq!(notes(options), expected, "{options}");
    }
}

#[test]
fn values_that_are_not_fios_are_refused() {
    for (options, expected) in [
        ("ioengine=libiao", "fio has no ioengine `libiao`"),
        ("ioengine=rbd", "ioengine=rbd has its own way to the storage"),
        ("ioengine=cpuio", "ioengine=cpuio is not supported"),
        ("verify=crc33", "fio has no verify=crc33"),
        ("verify=null", "verify=null is not supported"),
        ("rate_iops=5\nrate_process=uniform", "`uniform` is no value of rate_process"),
        ("direct=1\nbuffered=1", "`direct` and `buffered` contradict each other"),
        ("zonemode=zoned", "zonemode=zoned is not supported"),
        ("rw=rw\nbs=4k,8k", "sequential reads and writes of different sizes in one job are not supported"),
        ("loops=3", "`loops` of a size that is not known"),
        ("filename=/dev/null", "`/dev/null` is no storage"),
        ("fdp=1", "`fdp` belongs to an engine for NVMe devices"),
        ("write_mode=zeroes", "write_mode=zeroes is not supported"),
        ("rw=write\nsg_write_mode=verify_bytchk_01", "blocks are compared with data that is not known"),
        (
            "rw=randread\nzonemode=strided\nzonesize=1m",
            "zonemode=strided with random offsets is not supported",
        ),
        ("zonemode=strided", "zonemode=strided without zonesize"),
        ("rw=trimwrite\nbs=4k,4k,6k", "trimwrite with these sizes is not supported"),
        ("rw=read\nsprandom=1", "sprandom is for random writes"),
        ("ioengine=falloc", "ioengine=falloc with reads is not supported"),
        ("cmdprio_bssplit=4k/9/9/9", "`4k/9/9/9` is no value of cmdprio_bssplit"),
        ("filename_format=$job", "`$job` is no format of file names"),
        ("filename=:", "`filename` names no file"),
    ] {
        let problems = read(&format!("[j]\n{options}\n")).unwrap_err();
        assert_eq!(problems.0[0].what, expected);
        assert!(!problems.0[0].help.is_empty(), "{options}");
    }
}

#[test]
fn an_engine_with_its_own_way_runs_on_a_target_that_is_named() {
    let beside = ["/dev/rbd0".to_string()];
    let surroundings = Surroundings { targets: &beside, ..Surroundings::NONE };
    let text = "[j]\nioengine=rbd\niodepth=4\nrbdname=image\nrw=randread\n";
    let file = parse(text, "f", &surroundings).unwrap();
    assert_eq!(level(&file.steps[0].workload, "outstanding"), "4");
    assert!(file.notes.iter().any(|note| note.text.contains("rbd is not used")));
    let text = "[j]\nioengine=libblkio\nlibblkio_driver=io_uring\nlibblkio_path=/dev/nvme9n1\n";
    assert_eq!(level(&only(text).workload, "files"), "/dev/nvme9n1");
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
    fn no_text_panics(text in "(\\[?(global|a|.{0,6})\\]?\n|(rw|bs|bssplit|bsrange|size|io_size|loops|runtime|filename|numjobs|verify|rate|stonewall|offset_increment|include|.{0,8})=.{0,12}\n){0,12}") {
        if let Ok(file) = read(&text) {
            for step in file.steps {
                let _ = (KIND.configure(&step.workload).is_ok(), Load::read(&step.load).is_ok());
            }
        }
    }
}

#[test]
fn the_page_cache_is_as_fio_leaves_it() {
    for (options, expected) in [
        ("", "drop-each-pass"),
        ("invalidate=1", "drop-each-pass"),
        ("invalidate=0", "keep"),
        ("pre_read=1", "read"),
        ("pre_read=1\ninvalidate=1", "read"),
        // Nothing is cached.
        ("direct=1", "keep"),
        ("ioengine=libaio\nbuffered=0", "keep"),
    ] {
        let step = only(&format!("[j]\nsize=1m\nruntime=1\n{options}\n"));
        assert_eq!(level(&step.workload, "cached_pages"), expected, "{options}");
    }
}

#[test]
fn an_engine_of_one_operation_at_a_time_stays_one() {
    for (options, back_end, outstanding) in [
        ("direct=1", "system-calls", "1"),
        ("ioengine=pvsync\ndirect=1\niodepth=8", "system-calls", "1"),
        ("ioengine=libaio\ndirect=1\niodepth=8", "auto", "8"),
        // The kernel carries out one operation at a time through the page cache.
        ("ioengine=libaio\niodepth=8", "auto", "1"),
        ("ioengine=io_uring\niodepth=8", "auto", "8"),
        // Arrivals do not wait.
        ("direct=1\nrate_iops=100", "auto", "1"),
    ] {
        let step = only(&format!("[j]\nsize=1m\nruntime=1\n{options}\n"));
        assert_eq!(level(&step.workload, "back_end"), back_end, "{options}");
        assert_eq!(level(&step.workload, "outstanding"), outstanding, "{options}");
    }
}

#[test]
fn a_rate_of_0_is_no_limit() {
    for option in ["rate_iops=0", "rate=0", "rate_iops=0,0\nrw=randrw", "rate=0m\nrate_iops=0"] {
        let text = format!("[j]\nsize=1m\nruntime=1\ntime_based\n{option}\n");
        let step = only(&text);
        assert_eq!(step.load.level("open"), None, "{option}");
        assert!(!read(&text).unwrap().notes.iter().any(|note| note.text.contains("open load")), "{option}");
    }
    let both = "[j]\nsize=1m\nrw=randrw\nrate_iops=0,100\n";
    assert!(read(both).unwrap_err().to_string().contains("is no value of rate_iops"));
}
