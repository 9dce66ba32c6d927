//! A line as people paste it behind `--sqlio`, `--diskspd` or `--fio`: the program's name, a pause, a redirection, a comment
//! and the like are words of a batch file, and never files to read or write.

mod split;

use model::{Problem, Problems};

use super::missing::is_variable;
use super::typed::Wrong;
use split::{LINE_END, is_separator, tokens};

/// The tool whose flags are read.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name, for messages.
    name: &'static str,
    /// What the names of its programs begin with.
    program: &'static str,
    /// Plimsoll's flag for its lines.
    flag: &'static str,
}

/// SQLIO.
pub const SQLIO: Tool = Tool { name: "SQLIO", program: "sqlio", flag: "--sqlio" };

/// diskspd.
pub const DISKSPD: Tool = Tool { name: "diskspd", program: "diskspd", flag: "--diskspd" };

/// fio, whose line has a job file.
pub const FIO: Tool = Tool { name: "fio", program: "fio", flag: "--fio" };

/// What to wait for beside the run, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Before it.
    pub before_s: u64,
    /// After it.
    pub after_s: u64,
}

/// A line, read.
#[derive(Debug, Default)]
pub struct Pasted {
    /// Flags and targets, as typed.
    pub words: Vec<String>,
    /// Pauses beside the run.
    pub pauses: Pauses,
    /// What was accepted and has another effect here, or none, in sentences.
    pub notes: Vec<String>,
    /// What is not carried out.
    pub problems: Problems,
}

/// Longest pause: `timeout` of Windows takes no longer one.
const PAUSE_S_MAX: u64 = 99_999;

/// Commands of a batch file without an effect on the load. Their line, or the rest of the command, is left out.
const NO_EFFECT: &[&str] = &[
    "rem", "echo", "echo.", "cls", "title", "color", "pause", "exit", "setlocal", "endlocal", "mode", "chcp",
    "date", "time",
];

/// Commands that wait.
const PAUSES: &[&str] = &["timeout", "sleep", "ping", "choice", "start-sleep"];

/// Other commands that stand in such lines.
const COMMANDS: &[&str] = &[
    "assoc", "cd", "chdir", "copy", "cscript", "del", "dir", "else", "erase", "find", "findstr", "for",
    "fsutil", "goto", "if", "kill", "logman", "md", "mkdir", "more", "move", "net", "popd", "pushd", "rd",
    "ren", "rename", "rmdir", "robocopy", "set", "shutdown", "sort", "subst", "taskkill", "tee", "type",
    "typeperf", "tail", "wait", "while", "waitfor", "wmic", "xcopy",
];

/// Commands that start the program which follows them, and have no effect on the load.
const STARTERS: &[&str] =
    &["call", "nohup", "time", "exec", "command", "winpty", "(", "{", "^", "$", "#", ">"];

/// Shells, which run the line behind their options.
const SHELLS: &[&str] = &["cmd", "powershell", "pwsh", "bash", "sh", "invoke-expression", "iex"];

/// Commands that start the program which follows them in another way.
const WRAPPERS: &[&str] = &[
    "sudo",
    "doas",
    "taskset",
    "numactl",
    "nice",
    "ionice",
    "chrt",
    "env",
    "strace",
    "perf",
    "unshare",
    "systemd-run",
];

/// Programs of other load generators.
const OTHER_TOOLS: &[&str] =
    &["sqlio", "diskspd", "fio", "iometer", "dynamo", "winsat", "iozone", "bonnie++"];

/// The name of a program: without its folder and its ending, in small letters.
pub fn program_name(word: &str) -> String {
    let word = word.trim_matches('"').trim_start_matches('@');
    let name = word.rsplit(['/', '\\', ':']).next().unwrap_or_default().to_ascii_lowercase();
    [".exe", ".com"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_string()
}

impl Tool {
    /// Whether its program has names such as `diskspd64`. `fio_write` is rather a job file.
    fn has_variants(self) -> bool {
        self.program != FIO.program
    }

    /// Where this word of a command is the program.
    fn position(self, command: &[String]) -> Option<usize> {
        let is_program = |word: &String| {
            !word.starts_with('-') && self.is_program(word) && !word.contains(char::is_whitespace)
                || split::is_program_alone(word, self)
        };
        command.iter().position(is_program)
    }

    /// `sqlio`, `DISKSPD64.exe`, `diskspd-x86`, `"C:\Program Files\SQLIO\sqlio.exe"`.
    fn is_program(self, word: &str) -> bool {
        program_name(word).strip_prefix(self.program).is_some_and(|rest| {
            rest.len() <= 8 && !rest.contains('.') && (self.has_variants() || rest.is_empty())
        })
    }
}

/// Whether a word is one of these commands. What has a folder or an ending is none.
pub(super) fn is_one_of(word: &str, names: &[&str]) -> bool {
    let word = word.trim_start_matches(['@', '(']).to_ascii_lowercase();
    let word = word.strip_suffix(".exe").unwrap_or(&word);
    names.contains(&word)
}

/// Whether this word may be written as a file of a load: none of a command that stands in a batch file.
pub(super) fn is_command(word: &str) -> bool {
    [NO_EFFECT, PAUSES, COMMANDS, SHELLS, WRAPPERS, OTHER_TOOLS].iter().any(|names| is_one_of(word, names))
        || ["call", "start", "nohup"].iter().any(|name| word.eq_ignore_ascii_case(name))
}

/// Reads a line of a tool.
pub fn read(arguments: &[String], tool: Tool) -> Pasted {
    let mut words = tokens(arguments, tool);
    let mut pasted = Pasted::default();
    let mut has_begun = false;
    let mut runs = 0;
    let mut is_first = true;
    let mut is_first_command = true;
    let mut at = 0;
    while at < words.len() {
        let word = words[at].as_str();
        let length = command_length(&words[at..]);
        if is_separator(word) {
            at += 1;
            if word == "|" {
                pasted.problem(
                    "`|` passes the report to another command".into(),
                    "write it outside of the quotes, so that the shell reads it",
                );
                at += words.get(at..).map_or(0, command_length).min(words.len() - at);
            }
            is_first = true;
            is_first_command &= !has_begun;
            continue;
        }
        if is_first && word.contains(char::is_whitespace) && split::is_line_of(word, tool) {
            // What a shell is given to run.
            let line = split::line(word);
            words.splice(at..=at, line);
            continue;
        }
        if is_first && let Some(taken) = pasted.before_program(&words[at..at + length], tool) {
            at += taken;
            continue;
        }
        if let Some(taken) = pasted.redirection(&words[at..]) {
            at += taken;
            continue;
        }
        let is_bare = !word.starts_with('-');
        if is_bare && is_comment(word) {
            // To the end of the line, whatever stands there.
            at += words[at..].iter().take_while(|word| *word != LINE_END).count();
            continue;
        }
        if is_first && let Some(taken) = prefix(&words[at..]) {
            at += taken;
            continue;
        }
        if is_bare
            && is_one_of(word, PAUSES)
            && let Some((used, seconds)) = pause(&words[at..at + length])
        {
            pasted.pause(&words[at..at + used], seconds, has_begun);
            is_first = true;
            at += used;
            continue;
        }
        if is_bare && is_one_of(word, NO_EFFECT) {
            at += length;
            is_first = true;
            continue;
        }
        let has_folder = word.contains(['/', '\\']);
        let is_program = tool.is_program(word);
        if is_bare && is_program && (is_first || !has_folder || word.to_ascii_lowercase().ends_with(".exe")) {
            runs += 1;
            if runs == 2 || (runs == 1 && has_begun) {
                pasted.problem(
                    format!("the line has more than one run of {}", tool.name),
                    "start Plimsoll once for each of them",
                );
            }
            has_begun = true;
            is_first = false;
            at += 1;
            continue;
        }
        let name = program_name(word);
        let is_other =
            OTHER_TOOLS.contains(&name.as_str()) || (word.to_ascii_lowercase().ends_with(".exe") && is_first);
        if is_bare && is_first && is_other {
            let other = [SQLIO, DISKSPD, FIO].into_iter().find(|other| other.is_program(word));
            let help = match other {
                Some(other) => format!("write {} in place of this flag", other.flag),
                None => format!("paste a line of {}", tool.name),
            };
            pasted.problem(format!("`{word}` is not {}, but another program", tool.name), help);
            at += length;
            continue;
        }
        let is_variable = is_variable(word);
        let is_label = is_bare && word.starts_with(':');
        let is_other_command = is_first && !is_first_command && is_bare;
        let is_known = [COMMANDS, WRAPPERS].iter().any(|names| is_one_of(word, names));
        if is_variable || is_label || is_other_command || (is_bare && is_known) {
            match (is_variable, is_label) {
                (true, _) => {
                    pasted.problem(format!("`{word}` has a variable of a batch file"), "write its value")
                }
                (_, true) => pasted.problem(format!("`{word}` is a label of a batch file"), "remove it"),
                _ => {
                    pasted.problem(
                        format!("`{word}` is another command"),
                        "run it by itself, and paste only the line of the load",
                    );
                    at += length - 1;
                }
            }
            is_first = false;
            at += 1;
            continue;
        }
        pasted.words.push(words[at].clone());
        has_begun = true;
        is_first = false;
        at += 1;
    }
    let is_nothing = runs == 0 && pasted.words.is_empty() && pasted.problems.is_empty();
    if is_nothing && !words.is_empty() {
        pasted.problem(
            format!("the line starts no {}: it is a comment, or has other commands only", tool.name),
            format!("paste the line that starts {}", tool.name),
        );
    }
    pasted
}

impl Pasted {
    /// Whether only problems were found: nothing can be said about a line without words.
    pub(super) fn is_refused(&self) -> bool {
        self.words.is_empty() && !self.problems.is_empty()
    }

    /// What stands in front of the program, in the same command: how many words it has. None where nothing does.
    fn before_program(&mut self, command: &[String], tool: Tool) -> Option<usize> {
        let program = tool.position(command)?;
        let word = command[0].trim_start_matches('@');
        let has_other_meaning = word.starts_with(['-', ':']) || is_comment(word) && word != "#";
        if program == 0 || has_other_meaning {
            return None;
        }
        let is_of_windows = |word: &String| word.starts_with('/');
        if is_one_of(word, &["timeout"]) && command.get(1).is_some_and(is_of_windows)
            || is_one_of(word, NO_EFFECT) && !is_one_of(word, STARTERS)
            || is_one_of(word, PAUSES) && !is_one_of(word, &["timeout"])
        {
            return None;
        }
        let is_prompt = word.contains('@') && word.ends_with(['$', '#']);
        if is_prompt || STARTERS.contains(&word.to_ascii_lowercase().as_str()) {
            return Some(1);
        }
        if is_one_of(word, &["start"]) || is_one_of(word, SHELLS) {
            let has_effect = |word: &&String| {
                let word = word.to_ascii_lowercase();
                ["/affinity", "/node", "/low", "/belownormal", "/abovenormal", "/high", "/realtime"]
                    .contains(&word.as_str())
            };
            if let Some(option) = command[..program].iter().find(has_effect) {
                self.notes.push(format!("`{option}` has no effect"));
            }
            return Some(program);
        }
        let (what, help) = match word {
            word if is_one_of(word, WRAPPERS) => {
                let front = command[..program].join(" ");
                (
                    format!("`{word}` is another command"),
                    format!("write it in front of Plimsoll: {front} plimsoll disk {} ...", tool.flag),
                )
            }
            word if is_one_of(word, &["timeout"]) => (
                format!("`{}` would end {} early", command[..program].join(" "), tool.name),
                "remove it, and set the duration of the load".into(),
            ),
            word if is_command(word) => (
                format!("`{word}` is another command"),
                "run it by itself, and paste only the line of the load".into(),
            ),
            word => (
                format!("`{word}` stands in front of {}", tool.name),
                format!("paste the line from `{}` on", command[program]),
            ),
        };
        self.problem(what, help);
        Some(command.len())
    }

    fn problem(&mut self, what: String, help: impl Into<String>) {
        self.problems.push(Problem::new(what, help));
    }

    fn pause(&mut self, words: &[String], seconds: Result<u64, Wrong>, has_begun: bool) {
        let text = words.join(" ");
        match seconds {
            Ok(seconds) => {
                let (place, of) = match has_begun {
                    true => ("after", &mut self.pauses.after_s),
                    false => ("before", &mut self.pauses.before_s),
                };
                *of = of.saturating_add(seconds);
                self.notes.push(format!("`{text}`: Plimsoll waits {seconds} s {place} the run"));
            }
            Err((what, help)) => self.problem(format!("`{text}`: {what}"), help),
        }
    }

    /// `> out.txt`, `>>log`, `2>&1`, `>nul`, `< in.txt`: how many words it has.
    fn redirection(&mut self, words: &[String]) -> Option<usize> {
        let word = words.first()?;
        let rest = word.strip_prefix(['0', '1', '2', '3', '4', '5', '6', '&', '*']).unwrap_or(word);
        let rest = match rest.strip_prefix('<') {
            Some(rest) => rest,
            None => rest.strip_prefix('>').map(|rest| rest.strip_prefix('>').unwrap_or(rest))?,
        };
        if rest.starts_with('&') {
            return Some(1);
        }
        let (target, taken) = match rest {
            "" => (words.get(1).map_or("", String::as_str), words.len().min(2)),
            rest => (rest, 1),
        };
        if !target.eq_ignore_ascii_case("nul") && target != "/dev/null" {
            self.problem(
                format!("`{}` is a redirection of the shell", words[..taken].join(" ")),
                "write it behind the command, outside of quotes",
            );
        }
        Some(taken)
    }
}

/// Words up to the end of a command; at least one.
fn command_length(words: &[String]) -> usize {
    words.iter().take_while(|word| !is_separator(word)).count().max(1)
}

/// `rem`, `::`, `# text`, `// text`. `#1` is a disk.
fn is_comment(word: &str) -> bool {
    let hash = word.strip_prefix('#');
    word.starts_with("::")
        || is_one_of(word, &["rem"])
        || word == "//"
        || hash.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// Words in front of a program that only start it: `@echo off`, `call`, `start "title" /wait`, `cmd /c`.
fn prefix(words: &[String]) -> Option<usize> {
    let is_option = |word: &&String| {
        let is_of_windows = word.starts_with('/') && word.len() <= 12 && !word[1..].contains(['/', '.']);
        is_of_windows || word.starts_with('-') && !word.contains(char::is_whitespace)
    };
    let options = |from: usize| words.get(from..).unwrap_or_default().iter().take_while(is_option).count();
    let word = words.first()?.trim_start_matches('@');
    match word.to_ascii_lowercase().as_str() {
        "" | "(" | ")" | "{" | "}" | "^" | "call" | "nohup" => Some(1),
        "start" | "start.exe" => {
            let has_title = words.get(1).is_some_and(|word| word.is_empty() || word.starts_with('"'));
            let from = 1 + usize::from(has_title);
            Some(from + options(from))
        }
        _ if is_one_of(word, SHELLS) => Some(1 + options(1)),
        _ => None,
    }
}

/// How many of these words are a pause, and how long it is. None where the words are no pause.
fn pause(words: &[String]) -> Option<(usize, Result<u64, Wrong>)> {
    let name = program_name(&words[0]);
    let mut used = 1;
    let mut seconds = None;
    let mut is_counted = false;
    let number = |word: &str| word.strip_suffix(['s', 'S']).unwrap_or(word).parse::<i64>().ok();
    while let Some(word) = words.get(used) {
        let lower = word.to_ascii_lowercase();
        let flag = lower.strip_prefix(['/', '-']);
        let (flag, joined) = match flag {
            Some(flag) => match flag.split_once(':') {
                Some((flag, value)) => (Some(flag), Some(value)),
                None => (Some(flag), None),
            },
            None => (None, None),
        };
        let next = || joined.or(words.get(used + 1).map(String::as_str)).and_then(number);
        match (name.as_str(), flag) {
            ("timeout" | "choice", Some("t"))
            | ("start-sleep", Some("s" | "seconds"))
            | ("ping", Some("n" | "c"))
                if next().is_some() =>
            {
                seconds = next();
                is_counted = name == "ping";
                used += 1 + usize::from(joined.is_none());
            }
            ("timeout", Some("nobreak")) | ("choice", Some("n" | "m")) | ("ping", Some("4" | "6")) => {
                used += 1
            }
            ("choice", Some("c" | "d")) | ("ping", Some("w" | "l")) => used += 2,
            ("timeout" | "sleep" | "start-sleep", None | Some("1"))
                if seconds.is_none() && number(word).is_some() =>
            {
                seconds = number(word);
                used += 1;
            }
            ("ping", None) if matches!(lower.as_str(), "127.0.0.1" | "localhost" | "::1" | "0.0.0.0") => {
                used += 1
            }
            _ => break,
        }
    }
    let used = used.min(words.len());
    let seconds = seconds?;
    let seconds = if is_counted { (seconds - 1).max(0) } else { seconds };
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds <= PAUSE_S_MAX);
    let wrong = || {
        (
            "a pause until a key is pressed, or of more than 99,999 s, is not supported".to_string(),
            "write the seconds to wait, such as `timeout /T 10`".to_string(),
        )
    };
    Some((used, seconds.ok_or_else(wrong)))
}

#[cfg(test)]
mod tests {
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
            (
                "taskset -c 0 sqlio -kW t.dat",
                "write it in front of Plimsoll: taskset -c 0 plimsoll disk --sqlio",
            ),
            ("numactl --cpunodebind=0 sqlio -kW t.dat", "`numactl` is another command"),
            ("sudo sqlio -kW t.dat", "`sudo` is another command"),
            ("timeout 60 sqlio -kW t.dat", "`timeout 60` would end SQLIO early"),
            ("Start-Process sqlio.exe -ArgumentList -kW", "`Start-Process` stands in front of SQLIO"),
            ("$out = sqlio -kW t.dat", "`$out` stands in front of SQLIO"),
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
}
