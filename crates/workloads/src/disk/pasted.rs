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

    /// What comes before the program, in the same command: how many words it has. None where nothing does.
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
                format!("`{word}` comes before {}", tool.name),
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
mod tests;
