use super::*;

fn of(line: &[&str], tool: Tool) -> Pasted {
    read(&line.iter().map(ToString::to_string).collect::<Vec<_>>(), tool)
}

/// A line as a shell splits it.
fn typed(line: &str, tool: Tool) -> Pasted {
    of(&line.split_whitespace().collect::<Vec<_>>(), tool)
}

#[test]
fn a_line_leaves_the_flags_and_targets_of_the_tool() {
    for (line, tool) in [
        ("-kW -Fp.txt", SQLIO),
        ("sqlio -kW -Fp.txt", SQLIO),
        ("SQLIO.EXE -kW -Fp.txt", SQLIO),
        ("C:\\SQLIO\\sqlio.exe -kW -Fp.txt", SQLIO),
        ("./sqlio -kW -Fp.txt", SQLIO),
        ("@call sqlio -kW -Fp.txt", SQLIO),
        ("start /wait sqlio.exe -kW -Fp.txt", SQLIO),
        ("start /b /wait sqlio.exe -kW -Fp.txt", SQLIO),
        ("cmd /c sqlio -kW -Fp.txt", SQLIO),
        ("diskspd64.exe -kW -Fp.txt", DISKSPD),
        (".\\diskspd-x64.exe -kW -Fp.txt", DISKSPD),
        ("diskspd -kW -Fp.txt >nul 2>&1", DISKSPD),
        ("@echo off & sqlio -kW -Fp.txt", SQLIO),
        ("sqlio -kW -Fp.txt rem the first > one", SQLIO),
        ("sqlio -kW -Fp.txt & :: timeout /t 3", SQLIO),
        ("sqlio -kW -Fp.txt & echo done & pause", SQLIO),
        ("title test & sqlio -kW ^ -Fp.txt", SQLIO),
        ("start test diskspd.exe -kW -Fp.txt", DISKSPD),
        ("time diskspd -kW -Fp.txt", DISKSPD),
        ("nohup diskspd -kW -Fp.txt &", DISKSPD),
        ("& .\\diskspd.exe -kW -Fp.txt", DISKSPD),
        ("$ sqlio -kW -Fp.txt", SQLIO),
        ("root@host:/srv# sqlio -kW -Fp.txt", SQLIO),
        ("powershell -NoProfile -Command diskspd -kW -Fp.txt", DISKSPD),
        ("sqlio -kW -Fp.txt # the first", SQLIO),
        ("sqlio -kW -Fp.txt // the first", SQLIO),
        ("sqlio -kW -Fp.txt ; echo done", SQLIO),
    ] {
        // As the shell splits it, and as one word in quotes.
        for pasted in [typed(line, tool), of(&[line], tool)] {
            assert_eq!(pasted.words, ["-kW", "-Fp.txt"], "{line}");
            assert!(pasted.problems.is_empty(), "{line}: {}", pasted.problems);
            assert_eq!(pasted.pauses, Pauses::default(), "{line}");
        }
    }
    let quoted = "\"C:\\Program Files\\SQLIO\\sqlio.exe\" -kW \"-Fmy param.txt\"";
    assert_eq!(of(&[quoted], SQLIO).words, ["-kW", "-Fmy param.txt"]);
    let split = ["C:\\Program Files\\SQLIO\\sqlio.exe", "-kW", "-Fmy param.txt"];
    assert_eq!(of(&split, SQLIO).words, ["-kW", "-Fmy param.txt"]);
    assert_eq!(of(&["-kW", "/data/my file.dat"], SQLIO).words, ["-kW", "/data/my file.dat"]);
    for line in [
        "PS C:\\Users\\a> sqlio -kW t.dat",
        "C:\\>sqlio -kW t.dat",
        "start \"title\" sqlio.exe -kW t.dat",
        "cmd /c \"sqlio -kW t.dat\"",
        "powershell -Command \"sqlio -kW t.dat\"",
        "bash -c 'sqlio -kW t.dat'",
        "sqlio ^\r\n -kW ^\r\n t.dat",
        "sqlio `\n -kW t.dat",
        "sqlio \\\n  -kW \\\n  t.dat",
        "sqlio -kW 't.dat'",
        "sqlio -kW \u{201c}t.dat\u{201d};",
        "sqlio -kW \u{2018}t.dat\u{2019} ; echo done",
    ] {
        let pasted = of(&[line], SQLIO);
        assert_eq!(pasted.words, ["-kW", "t.dat"], "{line}");
        assert!(pasted.problems.is_empty(), "{line}: {}", pasted.problems);
    }
    assert_eq!(of(&["sh", "-c", "sqlio -kW t.dat"], SQLIO).words, ["-kW", "t.dat"]);
    assert_eq!(of(&["sqlio -kW 'my file.dat'"], SQLIO).words, ["-kW", "my file.dat"]);
    assert_eq!(of(&["@echo off\r\nsqlio -kW t.dat\r\n"], SQLIO).words, ["-kW", "t.dat"]);
}

#[test]
fn a_pause_is_a_pause() {
    for (line, before_s, after_s) in [
        ("-kW -Fp.txt timeout /T 10", 0, 10),
        ("sqlio -kW -Fp.txt timeout /t 10 /nobreak", 0, 10),
        ("sqlio -kW -Fp.txt & timeout 10", 0, 10),
        ("sqlio -kW -Fp.txt && timeout.exe /NOBREAK /T 10 >nul", 0, 10),
        ("sqlio -kW -Fp.txt timeout /t:10", 0, 10),
        ("timeout /t 5 & sqlio -kW -Fp.txt & ping -n 11 127.0.0.1 > nul", 5, 10),
        ("ping 127.0.0.1 -n 6 >nul & sqlio -kW -Fp.txt", 5, 0),
        ("sqlio -kW -Fp.txt sleep 7", 0, 7),
        ("sqlio -kW -Fp.txt sleep 7s & sleep 1", 0, 8),
        ("sqlio -kW -Fp.txt & Start-Sleep -Seconds 3", 0, 3),
        ("sqlio -kW -Fp.txt & choice /c yn /t 3 /d y", 0, 3),
    ] {
        for pasted in [typed(line, SQLIO), of(&[line], SQLIO)] {
            assert_eq!(pasted.words, ["-kW", "-Fp.txt"], "{line}");
            assert!(pasted.problems.is_empty(), "{line}: {}", pasted.problems);
            assert_eq!(pasted.pauses, Pauses { before_s, after_s }, "{line}");
            assert!(pasted.notes.iter().any(|note| note.contains("Plimsoll waits")), "{line}");
        }
    }
}

#[test]
fn what_is_not_carried_out_is_refused_by_name() {
    for (line, expected) in [
        ("sqlio -kW t.dat > out.txt", "`> out.txt` is a redirection"),
        ("sqlio -kW t.dat >>log", "`>>log` is a redirection"),
        ("sqlio -kW t.dat 2>err.txt", "`2>err.txt` is a redirection"),
        ("sqlio -kW t.dat sqlio -kR t.dat", "more than one run of SQLIO"),
        ("sqlio -kW t.dat & sqlio.exe -kR t.dat", "more than one run of SQLIO"),
        ("-kW t.dat sqlio -kR t.dat", "more than one run of SQLIO"),
        ("diskspd.exe -b4K t.dat", "`diskspd.exe` is not SQLIO"),
        ("fio --name=x", "`fio` is not SQLIO"),
        ("sqlio -kW t.dat timeout /t -1", "until a key is pressed"),
        ("sqlio -kW t.dat del t.dat", "`del` is another command"),
        ("sqlio -kW t.dat & nonsense", "`nonsense` is another command"),
        ("for %%b in (8 64) do sqlio -kW -b%%b t.dat", "`for` is another command"),
        ("sqlio -kW -b%SIZE% t.dat", "variable of a batch file"),
        ("sqlio -kW %1", "variable of a batch file"),
        (":loop sqlio -kW t.dat", "`:loop` is a label"),
        ("sqlio -kW t.dat | find x", "`|` passes the report"),
        ("sqlio -kW -o$n t.dat", "variable of a batch file"),
        ("sqlio -kW $file", "variable of a batch file"),
        ("taskset -c 0 sqlio -kW t.dat", "write it in front of Plimsoll: taskset -c 0 plimsoll disk --sqlio"),
        ("numactl --cpunodebind=0 sqlio -kW t.dat", "`numactl` is another command"),
        ("sudo sqlio -kW t.dat", "`sudo` is another command"),
        ("timeout 60 sqlio -kW t.dat", "`timeout 60` would end SQLIO early"),
        ("Start-Process sqlio.exe -ArgumentList -kW", "`Start-Process` comes before SQLIO"),
        ("$out = sqlio -kW t.dat", "`$out` comes before SQLIO"),
        ("rem sqlio -kW t.dat", "the line starts no SQLIO"),
        ("while true do sqlio -kW t.dat", "`while` is another command"),
    ] {
        for pasted in [typed(line, SQLIO), of(&[line], SQLIO)] {
            let text = pasted.problems.to_string();
            assert!(text.contains(expected), "{line}: {text}");
        }
    }
}

/// A job file is a word like any other, and what stands beside it is not.
#[test]
fn a_line_of_fio_has_a_job_file() {
    for line in [
        "job.fio && timeout /T 10",
        "fio job.fio sleep 10",
        "/usr/bin/fio job.fio & sleep 10",
        "time fio job.fio;sleep 10",
    ] {
        let pasted = of(&[line], FIO);
        let expected: &[&str] = if line.contains(';') { &["job.fio;sleep", "10"] } else { &["job.fio"] };
        assert_eq!(pasted.words, expected, "{line}");
        assert!(pasted.problems.is_empty(), "{line}: {}", pasted.problems);
    }
    assert_eq!(typed("fio_write.txt x.dat", FIO).words, ["fio_write.txt", "x.dat"]);
    assert_eq!(typed("fio_jobs x.dat", FIO).words, ["fio_jobs", "x.dat"]);
}

proptest::proptest! {
    #[test]
    fn no_line_panics(line in ".{0,60}", words in proptest::collection::vec("[-a-z/>&|%\": 0-9]{0,8}", 0..8)) {
        let _ = (of(&[&line], SQLIO), read(&words, DISKSPD));
    }
}
