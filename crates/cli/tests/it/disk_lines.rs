//! Lines of other tools as people paste them, paths of Windows, units, and what is asked before a device is overwritten.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use testkit::Need;

use crate::program::{Finished, Place, command, run};

/// Names in the folder.
fn names(place: &Place) -> BTreeSet<String> {
    let entries = std::fs::read_dir(place.path("")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

const PARAMETERS: &str = "f.dat 1 0x0 1\n";

#[test]
fn a_pasted_line_makes_no_files_of_its_words() {
    for (line, expected) in [
        (&["sqlio", "-kR", "-s1", "-b8", "-Fparam.txt", "timeout", "/T", "1"][..], "waits 1 s after"),
        (&["C:\\SQLIO\\sqlio.exe", "-kR", "-s1", "-b8KB", "-Fparam.txt", "2>&1"], "8 KiB are used"),
        (&["@echo off & sqlio -kR -s1 -b8 -Fparam.txt > nul & sleep 1"], "waits 1 s after"),
    ] {
        let place = Place::new("pasted");
        std::fs::write(place.path("param.txt"), PARAMETERS).unwrap();
        let done = run(&place, &[&["disk", "--quiet", "--run-dir", "r", "--sqlio"], line].concat());
        assert!(done.measured(), "{line:?}: {}", done.err);
        assert!(done.err.contains(expected), "{line:?}: {}", done.err);
        assert!(done.out.contains("IOs/sec"), "{line:?}: {}", done.out);
        let expected = ["f.dat", "param.txt", "r", "state"].map(String::from);
        assert!(names(&place).is_subset(&expected.into()), "{line:?}: {:?}", names(&place));
    }
    let place = Place::new("pasted-diskspd");
    let line = ["diskspd64.exe", "-c1MB", "-d1", "-W0", "-b4K", "f.dat"];
    let done = run(&place, &[&["disk", "--quiet", "--run-dir", "r", "--diskspd"], &line[..]].concat());
    assert!(done.measured() && done.err.contains("-c1M is used"), "{}", done.err);
    assert_eq!(std::fs::metadata(place.path("f.dat")).unwrap().len(), 1 << 20);
}

#[test]
fn a_word_that_is_no_file_is_refused() {
    for (flag, line, expected) in [
        ("--sqlio", &["-kR", "-s1", "f.dat", "T"][..], "`T` does not exist and does not look like a file"),
        (
            "--sqlio",
            &["-kR", "-s1", "f.dat", "/T", "10"],
            "`/T` does not exist and does not look like a file",
        ),
        ("--sqlio", &["sqlio", "-kR", "-s1", "t.bat"], "`t.bat` is a program or a batch file"),
        ("--sqlio", &["sqlio -kR f.dat > out.txt"], "is a redirection of the shell"),
        ("--diskspd", &["-c1M", "-d1", "10"], "`10` does not exist and does not look like a file"),
        ("--diskspd", &["sqlio", "-kR"], "`sqlio` is not diskspd"),
        ("--fio", &["fio", "--name=a", "--rw=read"], "[a]"),
        ("--fio", &["fio --name=a --rw=read"], "[a]"),
        ("--fio", &["job.fio", "&&", "del", "x"], "`del` is another command"),
        ("--fio", &["job.fio", ">", "out.txt"], "`> out.txt` is a redirection of the shell"),
        ("--fio", &["job.fio", "out.txt"], "`out.txt` does not exist, and has the ending of a text file"),
        ("--fio", &["job.fio", "/Tx", "10"], "`/Tx` does not exist and does not look like a file"),
        ("--fio", &["job.fio", "job.fio"], "`job.fio` is a second job file"),
        ("--fio", &["sudo fio job.fio"], "write it in front of Plimsoll: sudo plimsoll disk --fio"),
        ("--fio", &["fio job.fio | tee log"], "`|` passes the report to another command"),
        ("--diskspd", &["-c1M", "-d1", "t1.dat", "t2.dat,"], "`t2.dat,` does not exist"),
        ("--diskspd", &["-c1M", "-d1", "[file.dat]"], "`[file.dat]` does not exist"),
        ("--diskspd", &["-c1M", "-d1", "t.dat", "e.g."], "`e.g.` does not exist"),
        ("--diskspd", &["-c1M", "-d1", "t.dat", "www.example.com"], "looks like the name of a host"),
        ("--diskspd", &["-c1M", "-d1", "t.dat", "2024.01.05"], "`2024.01.05` does not exist"),
        ("--diskspd", &["-c1M", "-d1", "t.dat", "result.xml"], "`result.xml` does not exist"),
        ("--sqlio", &["-kR", "-s1", "-Fwords.txt"], "`timeout` does not exist"),
    ] {
        let place = Place::new("no-file");
        std::fs::write(place.path("job.fio"), "[j]\nfilename=f.dat\nsize=1m\nruntime=1\ntime_based\n")
            .unwrap();
        std::fs::write(place.path("words.txt"), "timeout 1 0x0 1\n").unwrap();
        let before = names(&place);
        let done = run(&place, &[&["disk", flag], line].concat());
        assert_eq!(done.code, 2, "{line:?}: {}", done.err);
        assert!(done.err.contains(expected), "{line:?}: {}", done.err);
        assert_eq!(names(&place), before, "{line:?}");
    }
}

/// The same where Plimsoll's own command expects the path of a file that it makes.
#[test]
fn a_word_of_a_shell_is_no_path() {
    for (arguments, expected) in [
        (&["disk", "f.dat", "&&", "timeout", "10"][..], "`&&` does not exist"),
        (&["disk", "f.dat", "timeout"], "`timeout` does not exist and does not look like a file"),
        (&["disk", "f.dat", ">", "out.txt"], "`>` does not exist"),
        (&["disk", "f.dat", "10"], "`10` does not exist"),
        (&["disk", "f.dat,g.dat"], "write spaces between files: f.dat g.dat"),
        (&["disk", "$HOME/f.dat"], "has a variable of a shell"),
        (&["copy", "there.bin", "2>&1"], "`2>&1` does not exist"),
    ] {
        let place = Place::new("shell-word");
        std::fs::write(place.path("there.bin"), [7; 4096]).unwrap();
        let before = names(&place);
        let done = run(&place, arguments);
        assert_eq!(done.code, 2, "{arguments:?}: {}", done.err);
        assert!(done.err.contains(expected), "{arguments:?}: {}", done.err);
        assert_eq!(names(&place), before, "{arguments:?}");
    }
}

#[test]
fn a_pasted_line_of_fio_makes_no_files_of_its_words() {
    for line in [
        &["job.fio", "&&", "timeout", "/T", "1"][..],
        &["fio job.fio"],
        &["time fio job.fio; sleep 1"],
        &["job.fio", "&"],
        &["job.fio", "sleep", "1"],
    ] {
        let place = Place::new("pasted-fio");
        let job = "[j]\nfilename=f.dat\nsize=1m\nruntime=1\ntime_based\n";
        std::fs::write(place.path("job.fio"), job).unwrap();
        let done = run(&place, &[&["disk", "--quiet", "--run-dir", "r", "--fio"], line].concat());
        assert!(done.measured(), "{line:?}: {}", done.err);
        let waits = line.concat().contains('1');
        assert_eq!(done.err.contains("waits 1 s after the run"), waits, "{line:?}: {}", done.err);
        let expected = ["f.dat", "job.fio", "r", "state"].map(String::from);
        assert!(names(&place).is_subset(&expected.into()), "{line:?}: {:?}", names(&place));
    }
}

#[test]
fn the_program_of_fio_is_not_its_job_file() {
    let place = Place::new("fio-program");
    std::fs::write(
        place.path("job.fio"),
        "[j]\nfilename=f.dat\nsize=1m\nruntime=1\ntime_based\nrate_iops=0\n",
    )
    .unwrap();
    for program in ["fio", "/usr/bin/fio", "fio.exe"] {
        let done = run(&place, &["disk", "--fio", program, "job.fio", "--dry-run"]);
        assert_eq!(done.code, 0, "{program}: {}", done.err);
        assert!(done.out.contains("f.dat") && !done.out.contains("open ="), "{}", done.out);
    }
}

#[test]
fn a_path_of_windows_is_refused_wherever_a_file_is_named() {
    let text = |file: &str| {
        format!(
            "name = \"w\"\n[workload.disk]\nfiles = '{file}'\nsize = \"1MiB\"\n[load]\nmeasure = \"1s\"\n"
        )
    };
    for (arguments, what) in [
        (&["disk", "C:\\test.dat", "--size", "1MiB"][..], "a path of Windows"),
        (&["disk", "c:test.dat", "--size", "1MiB"], "a path of Windows"),
        (&["disk", "\\\\server\\share", "--size", "1MiB"], "a path of Windows"),
        (&["disk", "#1"], "a disk of Windows"),
        (&["disk", "\\\\.\\PhysicalDrive1"], "a disk of Windows"),
        (&["disk", "f.dat", "--size", "1MiB", "--run-dir", "C:\\runs"], "a path of Windows"),
        (&["disk", "f.dat", "--size", "1MiB", "--live", "D:\\live.csv"], "a path of Windows"),
        (&["copy", "there.bin", "E:\\x"], "a path of Windows"),
        (&["copy", "E:\\there.bin", "x"], "a path of Windows"),
        (&["run", "windows.toml"], "a path of Windows"),
        (&["run", "number.toml"], "a disk of Windows"),
        (&["disk", "--fio", "windows.fio"], "a path of Windows"),
        (&["init", "disk", "-o", "C:\\x.toml"], "a path of Windows"),
        (&["generate", "people", "--count", "3", "-o", "C:\\people.csv"], "a path of Windows"),
    ] {
        let place = Place::new("windows");
        std::fs::write(place.path("there.bin"), [7; 4096]).unwrap();
        std::fs::write(place.path("windows.toml"), text("C:\\test.dat")).unwrap();
        std::fs::write(place.path("number.toml"), text("#1")).unwrap();
        std::fs::write(place.path("windows.fio"), "[j]\nfilename=C\\:\\test.dat\nsize=1m\n").unwrap();
        let before = names(&place);
        let done = run(&place, arguments);
        assert_eq!(done.code, 2, "{arguments:?}: {}", done.err);
        assert!(done.err.contains(what), "{arguments:?}: {}", done.err);
        assert_eq!(names(&place), before, "{arguments:?}");
    }
    let place = Place::new("colon");
    let done =
        run(&place, &["disk", "./c:x.dat", "--size", "1MiB", "--duration", "300ms", "--keep", "--quiet"]);
    assert!(done.measured(), "{}", done.err);
    assert!(place.path("c:x.dat").exists());
}

#[test]
fn what_is_no_storage_is_called_by_its_name() {
    let place = Place::new("no-storage");
    std::fs::write(place.path("t.bat"), "sqlio -kR\r\n").unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    for (file, what, never) in [
        ("/dev/null", "`/dev/null` is a character device, and no storage", "inside it"),
        ("/dev/zero", "`/dev/zero` is a character device, and no storage", "inside it"),
        ("folder", "`folder` is a folder, and no storage", "lsblk"),
        ("t.bat", "`t.bat` has 11B: not one block", "remove"),
    ] {
        let done = run(&place, &["disk", file]);
        assert_eq!(done.code, 2, "{file}: {}", done.err);
        assert!(done.err.contains(what), "{file}: {}", done.err);
        assert!(!done.err.contains(never), "{file}: {}", done.err);
    }
    assert!(place.path("t.bat").exists());
}

#[test]
fn a_unit_is_said_or_refused() {
    let place = Place::new("units");
    let of = |more: &[&str]| {
        let common = ["disk", "f.dat", "--size", "1MiB", "--duration", "200ms", "--quiet"];
        run(&place, &[&common[..], more].concat())
    };
    let done = of(&["--block-size", "64KB", "--page-cache"]);
    assert!(done.measured(), "{}", done.err);
    assert!(
        done.err.contains("`--block-size` of 64KB") || done.err.contains("--block-size of 64KB"),
        "{}",
        done.err
    );
    assert!(done.err.contains("write 64KiB for 65,536 bytes"), "{}", done.err);
    let done = of(&["--block-size", "4KB 50%, 64KiB 50%", "--page-cache"]);
    assert!(
        done.err.contains("write 4KiB for 4,096 bytes") && !done.err.contains("64KiB for"),
        "{}",
        done.err
    );
    assert!(!of(&["--block-size", "64KiB", "--page-cache"]).err.contains("power of 1000"));
    let text = "[workload.disk]\nfiles = \"f.dat\"\nsize = \"1MiB\"\nblock_size = \"64KB\"\n[load]\nmeasure = \"1s\"\n";
    std::fs::write(place.path("units.toml"), text).unwrap();
    let checked = run(&place, &["check", "units.toml", "--set", "workload.cache=page-cache"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.err.contains("write 64KiB for 65,536 bytes"), "{}", checked.err);
    for (more, expected) in [
        (&["--read-percent", "0.7"][..], "`0.7` has no unit: write 70% for a share of 0.7, or 0.7%"),
        (&["--read-percent", "70.5"], "`70.5` has no unit: write 70.5%"),
        (&["--rate", "2000"], "`2000` has no unit: write 2000/s"),
        (&["--block-size", "64"], "`64` has no unit"),
    ] {
        let done = of(more);
        assert_eq!(done.code, 2, "{more:?}: {}", done.err);
        assert!(done.err.contains(expected), "{more:?}: {}", done.err);
    }
}

/// Blocks are whole, so a part of a size may be left out.
#[test]
fn a_size_that_is_not_whole_blocks_is_said() {
    let place = Place::new("size-blocks");
    let of = |more: &[&str]| {
        let common = ["disk", "f.dat", "--duration", "200ms", "--warm-up", "0s", "--quiet", "--page-cache"];
        run(&place, &[&common[..], more].concat())
    };
    for (more, expected) in [
        (
            &["--size", "100KiB", "--block-size", "64KiB"][..],
            "--size of 100KiB is not a multiple of the block of 64KiB: 65,536 bytes",
        ),
        (&["--size", "1MiB", "--vary", "block_size=4KiB,768KiB"], "of the block of 768KiB: 786,432 bytes"),
        (&["--size", "1MiB", "--block-size", "64KiB"], ""),
    ] {
        let done = of(more);
        assert!(done.measured(), "{more:?}: {}", done.err);
        assert_eq!(done.err.contains("is not a multiple"), !expected.is_empty(), "{more:?}: {}", done.err);
        assert!(done.err.contains(expected), "{more:?}: {}", done.err);
    }
}

/// Answers the question on a terminal.
fn on_a_terminal(place: &Place, line: &str, answer: &str) -> String {
    use std::io::Write;
    let mut script = Command::new("script")
        .args(["-qec", line, "/dev/null"])
        .current_dir(place.path(""))
        .env("PLIMSOLL_STATE_DIR", place.path("state"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    script.stdin.as_mut().unwrap().write_all(format!("{answer}\n").as_bytes()).unwrap();
    let done = script.wait_with_output().unwrap();
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// An image file has the same rule as a device: what is recognized is named, and a further word is needed.
#[test]
fn what_would_be_destroyed_is_named_and_asked_about() {
    if testkit::lacks(Need::Program("mkfs.ext4")) {
        return;
    }
    let place = Place::new("signature");
    let make = || {
        let image = std::fs::File::create(place.path("z.img")).unwrap();
        image.set_len(16 << 20).unwrap();
        let mut mkfs = Command::new(testkit::need::program("mkfs.ext4").unwrap());
        mkfs.args(["-qF", "-L", "PAYROLL"]).arg(place.path("z.img"));
        assert_eq!(Finished::of(mkfs).code, 0);
        std::fs::read(place.path("z.img")).unwrap()
    };
    let before = make();
    let common = [
        "disk",
        "z.img",
        "--overwrite",
        "z.img",
        "--write",
        "--duration",
        "200ms",
        "--warm-up",
        "0s",
        "--quiet",
    ];
    let refused = Finished::of(command(&place, &common));
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("holds a file system (ext4) \"PAYROLL\""), "{}", refused.err);
    assert!(refused.err.contains("--overwrite-signature"), "{}", refused.err);
    let text = "name = \"w\"\n[workload.disk]\nfiles = \"z.img\"\noverwrite = \"z.img\"\nread_percent = \"0%\"\n[load]\nmeasure = \"200ms\"\nwarm_up = \"0s\"\n";
    std::fs::write(place.path("w.toml"), text).unwrap();
    let refused = run(&place, &["run", "w.toml"]);
    assert!(refused.code == 2 && refused.err.contains("overwrite_signature = true"), "{}", refused.err);
    let pasted = run(&place, &["disk", "--overwrite", "z.img", "--sqlio", "-kW", "-s1", "-frandom", "z.img"]);
    assert!(pasted.err.contains("--overwrite-signature in front of --sqlio"), "{}", pasted.err);
    assert!(std::fs::read(place.path("z.img")).unwrap() == before);

    if !testkit::partly_lacks(Need::Program("script")) {
        let line = format!("{} {}", env!("CARGO_BIN_EXE_plimsoll"), common.join(" "));
        let said = on_a_terminal(&place, &line, "no");
        assert!(said.contains("PAYROLL") && said.contains("nothing ran"), "{said}");
        assert!(std::fs::read(place.path("z.img")).unwrap() == before);
        let said = on_a_terminal(&place, &line, "yes");
        assert!(std::fs::read(place.path("z.img")).unwrap() != before, "{said}");
    }
    make();
    let done = run(&place, &[&common[..], &["--overwrite-signature"]].concat());
    assert!(done.measured(), "{}", done.err);
}
