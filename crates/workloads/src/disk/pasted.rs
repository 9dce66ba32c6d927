//! A line as people paste it behind `--sqlio` or `--diskspd`: the program's name, a pause, a redirection, a comment and the
//! like are words of a batch file, and never files to read or write.

use model::{Problem, Problems};

use super::typed::Wrong;

/// The tool whose flags are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    /// Its name, for messages.
    pub(super) name: &'static str,
    /// What the names of its programs begin with.
    pub(super) program: &'static str,
}

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
pub(super) struct Pasted {
    /// Flags and targets, as typed.
    pub(super) words: Vec<String>,
    pub(super) pauses: Pauses,
    /// What was accepted and has another effect here, or none, in sentences.
    pub(super) notes: Vec<String>,
    pub(super) problems: Problems,
}

/// Longest pause: `timeout` of Windows takes no longer one.
const PAUSE_S_MAX: u64 = 99_999;

/// Ends a line.
const LINE_END: &str = "\n";

/// Commands of a batch file without an effect on the load. Their line, or the rest of the command, is left out.
const NO_EFFECT: &[&str] = &[
    "rem", "echo", "echo.", "cls", "title", "color", "pause", "exit", "setlocal", "endlocal", "mode", "chcp",
    "date", "time",
];

/// Commands that wait.
const PAUSES: &[&str] = &["timeout", "sleep", "ping", "choice", "start-sleep"];

/// Other commands that stand in such lines.
const COMMANDS: &[&str] = &[
    "assoc",
    "cd",
    "chdir",
    "copy",
    "cscript",
    "del",
    "dir",
    "else",
    "erase",
    "find",
    "findstr",
    "for",
    "fsutil",
    "goto",
    "if",
    "logman",
    "md",
    "mkdir",
    "more",
    "move",
    "net",
    "popd",
    "powershell",
    "pushd",
    "pwsh",
    "rd",
    "ren",
    "rename",
    "rmdir",
    "robocopy",
    "set",
    "shutdown",
    "sort",
    "subst",
    "sudo",
    "taskkill",
    "tee",
    "type",
    "typeperf",
    "wait",
    "waitfor",
    "wmic",
    "xcopy",
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
    /// `sqlio`, `DISKSPD64.exe`, `diskspd-x86`, `"C:\Program Files\SQLIO\sqlio.exe"`.
    fn is_program(self, word: &str) -> bool {
        program_name(word)
            .strip_prefix(self.program)
            .is_some_and(|rest| rest.len() <= 8 && !rest.contains('.'))
    }
}

/// Whether a word is one of these commands. What has a folder or an ending is none.
fn is_one_of(word: &str, names: &[&str]) -> bool {
    let word = word.trim_start_matches(['@', '(']).to_ascii_lowercase();
    let word = word.strip_suffix(".exe").unwrap_or(&word);
    names.contains(&word)
}

/// Whether a target that does not exist may be meant as a file to make: it has an ending or a folder. A flag of another
/// command, such as `/T` or `10`, has none.
pub(super) fn looks_like_target(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let has_folder = path.trim_start_matches('/').contains('/');
    let has_ending = name.contains('.') && name.parse::<f64>().is_err();
    has_folder || has_ending
}

/// Why a target that does not exist is refused; none where it may be made.
pub(super) fn refuse_target(path: &str) -> Option<Wrong> {
    let lower = path.to_ascii_lowercase();
    if [".bat", ".cmd", ".exe", ".ps1", ".vbs"].iter().any(|end| lower.ends_with(end)) {
        return Some((
            format!("`{path}` is a program or a batch file, not a file to read and write"),
            "write the flags and the file that stand in it".into(),
        ));
    }
    (!looks_like_target(path)).then(|| {
        (
            format!("`{path}` does not exist and does not look like a file"),
            format!("remove it; for a file with this name write `./{}`", path.trim_start_matches('/')),
        )
    })
}

/// Reads a line of a tool.
pub(super) fn read(arguments: &[String], tool: Tool) -> Pasted {
    let words = tokens(arguments, tool);
    let mut pasted = Pasted::default();
    let mut has_begun = false;
    let mut runs = 0;
    let mut is_first = true;
    let mut is_first_command = true;
    let mut at = 0;
    while at < words.len() {
        let word = words[at].as_str();
        if is_separator(word) {
            if matches!(word, "|") {
                pasted.problem(
                    "`|` passes the report to another command".into(),
                    "write it outside of the quotes, so that the shell reads it",
                );
            }
            is_first = true;
            is_first_command &= !has_begun;
            at += 1;
            continue;
        }
        if let Some(taken) = pasted.redirection(&words[at..]) {
            at += taken;
            continue;
        }
        let is_bare = !word.starts_with('-');
        if is_bare && (word.starts_with("::") || is_one_of(word, &["rem"])) {
            // To the end of the line, whatever stands there.
            at += words[at..].iter().take_while(|word| *word != LINE_END).count();
            continue;
        }
        if is_first && let Some(taken) = prefix(&words[at..]) {
            at += taken;
            continue;
        }
        if is_bare && is_one_of(word, PAUSES) {
            let taken = command_length(&words[at..]);
            if let Some((used, seconds)) = pause(&words[at..at + taken]) {
                pasted.pause(&words[at..at + used], seconds, has_begun);
                is_first = true;
                at += used;
                continue;
            }
        }
        if is_bare && is_one_of(word, NO_EFFECT) {
            at += command_length(&words[at..]);
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
            let help = match name.as_str() {
                "sqlio" => "write --sqlio in place of this flag".to_string(),
                name if name.starts_with("diskspd") => "write --diskspd in place of this flag".into(),
                "fio" => "write its options into a job file, and --fio FILE".into(),
                _ => format!("paste a line of {}", tool.name),
            };
            pasted.problem(format!("`{word}` is not {}, but another program", tool.name), help);
            at += command_length(&words[at..]);
            continue;
        }
        let is_variable = is_variable(word);
        let is_label = is_bare && word.starts_with(':');
        let is_other_command = is_first && !is_first_command && is_bare;
        if is_variable || is_label || is_other_command || (is_bare && is_one_of(word, COMMANDS)) {
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
                    at += command_length(&words[at..]) - 1;
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
    pasted
}

impl Pasted {
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
        let rest = word.strip_prefix(['0', '1', '2', '&']).unwrap_or(word);
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

fn is_separator(word: &str) -> bool {
    matches!(word, "&" | "&&" | "||" | "|" | ";" | LINE_END)
}

/// Words up to the end of a command; at least one.
fn command_length(words: &[String]) -> usize {
    words.iter().take_while(|word| !is_separator(word)).count().max(1)
}

/// Words in front of a program that only start it: `@echo off`, `call`, `start "title" /wait`, `cmd /c`.
fn prefix(words: &[String]) -> Option<usize> {
    let is_option =
        |word: &&String| word.starts_with('/') && word.len() <= 12 && !word[1..].contains(['/', '.']);
    let options = |from: usize| words.get(from..).unwrap_or_default().iter().take_while(is_option).count();
    match words.first()?.trim_start_matches('@').to_ascii_lowercase().as_str() {
        "" | "(" | ")" | "^" | "call" | "nohup" => Some(1),
        "cmd" | "cmd.exe" => Some(1 + options(1)),
        "start" | "start.exe" => {
            let has_title = words.get(1).is_some_and(|word| word.is_empty() || word.starts_with('"'));
            let from = 1 + usize::from(has_title);
            Some(from + options(from))
        }
        _ => None,
    }
}

/// `%VAR%`, `%%f`, `%1`, `!VAR!`
fn is_variable(word: &str) -> bool {
    let mut rest = word;
    while let Some((_, behind)) = rest.split_once('%') {
        let name = behind.trim_start_matches('%');
        if name.starts_with(|letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '~' | '*')) {
            return true;
        }
        rest = name;
    }
    false
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

/// The words of the arguments. A whole line in quotes is split as the shell of Windows does.
fn tokens(arguments: &[String], tool: Tool) -> Vec<String> {
    let mut words = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        let first =
            argument.split_whitespace().next().unwrap_or_default().trim_start_matches(is_double_quote);
        let begins = is_one_of(first, NO_EFFECT)
            || is_one_of(first, PAUSES)
            || matches!(
                first.trim_start_matches('@').to_ascii_lowercase().as_str(),
                "call" | "start" | "cmd"
            )
            || first.starts_with("::");
        let is_program = tool.is_program(first)
            || argument.to_ascii_lowercase().contains(&format!("{}.exe\"", tool.program))
            || argument.to_ascii_lowercase().contains(&format!("{}.exe ", tool.program));
        let is_line = argument.contains('\n')
            || (argument.contains(char::is_whitespace)
                && (argument.contains(" -") || begins || is_program)
                && (index == 0 || begins || is_program));
        match is_line && !is_program_alone(argument, tool) {
            true => split(argument, &mut words),
            false => words.push(argument.clone()),
        }
    }
    words.retain(|word| word != "^");
    words
}

/// `C:\Program Files\SQLIO\sqlio.exe`, which the shell of this system has already freed of its quotes.
fn is_program_alone(argument: &str, tool: Tool) -> bool {
    tool.is_program(argument) && argument.to_ascii_lowercase().ends_with(".exe")
}

fn is_double_quote(letter: char) -> bool {
    matches!(letter, '"' | '\u{201c}'..='\u{201f}')
}

fn split(line: &str, words: &mut Vec<String>) {
    let mut word = String::new();
    let mut is_quoted = false;
    let mut is_word = false;
    let mut letters = line.chars().peekable();
    fn end(word: &mut String, is_word: &mut bool, words: &mut Vec<String>) {
        if std::mem::take(is_word) || !word.is_empty() {
            words.push(std::mem::take(word));
        }
    }
    while let Some(letter) = letters.next() {
        match letter {
            letter if is_double_quote(letter) => {
                is_quoted = !is_quoted;
                is_word = true;
            }
            letter if is_quoted && letter != '\n' => word.push(letter),
            '\n' => {
                is_quoted = false;
                end(&mut word, &mut is_word, words);
                words.push(LINE_END.into());
            }
            letter if letter.is_whitespace() => end(&mut word, &mut is_word, words),
            // `2>&1` stays one word.
            '&' if word.ends_with('>') => word.push('&'),
            '&' | '|' => {
                end(&mut word, &mut is_word, words);
                let doubled = letters.next_if_eq(&letter).is_some();
                words.push(if doubled { format!("{letter}{letter}") } else { letter.to_string() });
            }
            '>' | '<' if !word.ends_with('>') && !matches!(word.as_str(), "1" | "2") => {
                end(&mut word, &mut is_word, words);
                word.push(letter);
            }
            letter => word.push(letter),
        }
    }
    end(&mut word, &mut is_word, words);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQLIO: Tool = Tool { name: "SQLIO", program: "sqlio" };
    const DISKSPD: Tool = Tool { name: "diskspd", program: "diskspd" };

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
        ] {
            for pasted in [typed(line, SQLIO), of(&[line], SQLIO)] {
                let text = pasted.problems.to_string();
                assert!(text.contains(expected), "{line}: {text}");
            }
        }
    }

    #[test]
    fn a_word_that_is_no_file_is_not_made_one() {
        for path in ["T", "/T", "10", "/nobreak", "timeout", "1.5", "t.bat", "run.CMD", "x/sqlio.exe"] {
            assert!(refuse_target(path).is_some(), "{path}");
        }
        for path in ["t.dat", "./T", "/data/T", "/t.dat", "data/file", "/mnt/e/testfile"] {
            assert!(refuse_target(path).is_none(), "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in ".{0,60}", words in proptest::collection::vec("[-a-z/>&|%\": 0-9]{0,8}", 0..8)) {
            let _ = (of(&[&line], SQLIO), read(&words, DISKSPD));
        }
    }
}
