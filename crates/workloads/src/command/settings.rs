//! The settings of a command, and what they mean together.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use engine::page_cache::DROP_CACHES;
use engine::readiness::{Page, resolve};
use engine::shell::SHELL;
use model::secret::HIDDEN;
use model::{Key, Level, Nanos, PathUse, Problem, Problems, Secret, SecretParts, SettingInfo, Settings};
use regex::bytes::Regex;
use rustix::fs::Access;

use super::readiness::Until;
use super::window::Windows;
use crate::group::is_program;

model::settings! {
    /// What can be chosen.
    pub(super) static SETTINGS;

    static COMMAND: Key<Vec<Secret>> = Key::command_words(
        "command",
        "The program and its arguments, started directly. One text with blanks is a command line: it is split as a shell would, and given to /bin/sh where it has pipes, variables or patterns.",
    );

    static IN_SHELL: Key<bool> = Key::flag(
        "shell", "false",
        "Give the command to /bin/sh instead, for pipes and variables. The shell's own start is then timed too.",
    );

    static DIRECTORY: Key<Option<String>> = Key::path(
        "directory", PathUse::Command, "",
        "Working directory of the command and of `prepare`; a program with a relative path is found there. Default: that of Plimsoll.",
    );

    static REPEAT: Key<u64> = Key::count(
        "repeat", 1..=1_000_000, "10",
        "How often it is launched.",
    );

    static WARMUP: Key<u64> = Key::count(
        "warmup", 0..=1_000_000, "0",
        "Launches before the measurement of a trial, which are not counted. All measured launches are then `later` ones.",
    );

    pub(super) static UNTIL_PORT: Key<Option<String>> = Key::text(
        "until_port", "",
        "Time until this port accepts a connection: \"HOST:PORT\"; otherwise until the command exits.",
    );

    static UNTIL_LINE: Key<Option<String>> = Key::text(
        "until_line", "",
        "Time until a line of its output matches this regular expression.",
    );

    pub(super) static UNTIL_HTTP: Key<Option<Secret>> = Key::secret(
        "until_http", SecretParts::Url,
        "Time until this page is served with a status of 200 to 399: \"http://HOST:PORT/PATH\".",
    );

    static UNTIL_WINDOW: Key<Option<String>> = Key::text(
        "until_window", "",
        "Time until a new window can be seen whose title contains this text, upper and lower case as written, on the X display of DISPLAY. Not for Wayland: use XWayland.",
    );

    static TIMEOUT: Key<Nanos> = Key::time(
        "timeout", "60s",
        "A launch that takes longer has failed and is ended.",
    );

    static STOP: Key<Nanos> = Key::time(
        "stop", "5s",
        "How long a launch may take to end after SIGTERM, before it gets SIGKILL. Not timed.",
    );

    static PREPARE: Key<Option<Secret>> = Key::command(
        "prepare",
        "Shell command to run before each launch. Not timed.",
    );

    static COLD: Key<bool> = Key::flag(
        "cold", "false",
        "Drop the operating system's file cache before each launch. Needs root.",
    );

    static ALLOW_FAILURE: Key<bool> = Key::flag(
        "allow_failure", "false",
        "Count a launch that fails instead of stopping the run.",
    );

    static OUTPUT: Key<Option<String>> = Key::path(
        "output", PathUse::Command, "",
        "File for what the command prints; none throws it away.",
    );
}

/// The settings, read.
#[derive(Clone, Debug)]
pub(super) struct CommandSettings {
    command: Vec<String>,
    /// The command as a person would type it, without secrets.
    shown: String,
    shell: bool,
    directory: Option<PathBuf>,
    pub(super) repeat: u64,
    pub(super) warmup: u64,
    pub(super) until: Until,
    pub(super) timeout: Nanos,
    pub(super) stop: Nanos,
    pub(super) prepare: Option<Secret>,
    pub(super) cold: bool,
    pub(super) allow_failure: bool,
    pub(super) output: Option<PathBuf>,
}

/// The words of a command line that needs no shell; none of one that does, or whose quotes do not match.
fn words(line: &str) -> Option<Vec<String>> {
    let mut in_single_quotes = false;
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            ('\'', None) => in_single_quotes = !in_single_quotes,
            ('"', _) if !in_single_quotes => quote = if quote.is_some() { None } else { Some(c) },
            // Within double quotes a shell still replaces variables and commands.
            ('$' | '`', _) if !in_single_quotes => return None,
            (
                '|' | '&' | ';' | '<' | '>' | '(' | ')' | '{' | '}' | '*' | '?' | '[' | '~' | '#' | '!'
                | '\n',
                None,
            ) if !in_single_quotes => {
                return None;
            }
            _ => {}
        }
    }
    let words = shlex::split(line)?;
    // `NAME=value program` sets a variable.
    let sets_a_variable = words.first().is_none_or(|word| word.contains('='));
    (!sets_a_variable && !is_built_in(&words[0])).then_some(words)
}

/// Commands that change or ask the shell itself, so that only a shell knows them.
fn is_built_in(word: &str) -> bool {
    [
        ".", ":", "cd", "command", "eval", "exec", "exit", "export", "set", "source", "trap", "type",
        "ulimit", "umask", "unset", "wait",
    ]
    .contains(&word)
        && !is_program(word)
}

/// The words of a command as a person would type them, without secrets.
fn typed(words: &[Secret]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = words.iter().map(|word| {
        let shown = word.shown();
        // The asterisks of what is hidden are no pattern.
        let is_plain = shown.replace(HIDDEN, "x").chars().all(plain);
        match !shown.is_empty() && is_plain {
            true => shown.to_string(),
            false => format!("'{}'", shown.replace('\'', "'\\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

impl CommandSettings {
    /// Reads the settings; every contradiction at once.
    pub(super) fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let given = settings.get(&COMMAND);
        let mut command: Vec<String> = given.iter().map(|word| word.reveal().to_string()).collect();
        let mut shell = settings.get(&IN_SHELL);
        let mut shown = typed(&given);
        if let [line] = command.as_slice()
            && !shell
            && line.trim().contains(char::is_whitespace)
            && !is_program(line)
        {
            shown = given.iter().map(|line| line.shown().trim()).collect();
            match words(line) {
                Some(words) => {
                    // What is hidden is not split: it may have blanks.
                    if given.iter().all(|line| line.shown() == line.reveal()) {
                        shown = typed(&words.iter().map(|word| Secret::plain(word)).collect::<Vec<_>>());
                    }
                    command = words;
                }
                None => shell = true,
            }
        }
        if shell {
            let words: Vec<&str> = given.iter().map(Secret::shown).collect();
            shown = format!("{SHELL} -c '{}'", words.join(" "));
        }
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            problems.add(&[&COMMAND], "there is no command to launch", "name a program and its arguments");
        }
        if command.iter().any(|word| word.contains('\0')) {
            problems.add(&[&COMMAND], "the command holds a zero byte", "");
        }
        let ends: [&SettingInfo; 4] = [&UNTIL_PORT, &UNTIL_LINE, &UNTIL_HTTP, &UNTIL_WINDOW];
        let chosen: Vec<&SettingInfo> = ends.into_iter().filter(|end| settings.has(end)).collect();
        if let [first, second, ..] = chosen.as_slice() {
            problems.add(
                &[second, first],
                format!("`{}` and `{}` both say when a launch is done", first.name, second.name),
                "keep one of them",
            );
        }
        let mut until = Until::Exit;
        if let Some(text) = settings.text(&UNTIL_PORT) {
            match text.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => {
                    until = Until::Port(text.into());
                }
                _ => problems.add(
                    &[&UNTIL_PORT],
                    format!("`{text}` is not a port"),
                    "such as \"127.0.0.1:8080\"",
                ),
            }
        }
        if let Some(text) = settings.text(&UNTIL_LINE) {
            match Regex::new(text) {
                Ok(pattern) => until = Until::Line(pattern),
                // The message of the expression's parser draws the place below it, on lines of its own.
                Err(error) => {
                    let words = error.to_string();
                    let last = words.lines().last().unwrap_or("").trim_start_matches("error: ").to_string();
                    problems.add(&[&UNTIL_LINE], format!("`{text}` is not a regular expression: {last}"), "");
                }
            }
        }
        if let Some(url) = settings.revealed(&UNTIL_HTTP) {
            match Page::parse(url) {
                Ok(page) => until = Until::Http(page),
                Err((what, help)) => problems.add(&[&UNTIL_HTTP], what, help),
            }
        }
        if let Some(title) = settings.text(&UNTIL_WINDOW) {
            match title.trim().is_empty() {
                false => until = Until::Window(title.into()),
                true => problems.add(
                    &[&UNTIL_WINDOW],
                    "the title of a window must not be empty",
                    "write a part of it, such as \"Mozilla Firefox\"",
                ),
            }
        }
        let timeout = settings.get(&TIMEOUT);
        if timeout == 0 {
            problems.add(&[&TIMEOUT], "the timeout must be greater than 0", "such as \"60s\"");
        }
        problems.or(CommandSettings {
            command,
            shown,
            shell,
            directory: settings.text(&DIRECTORY).map(PathBuf::from),
            repeat: settings.get(&REPEAT),
            warmup: settings.get(&WARMUP),
            until,
            timeout,
            stop: settings.get(&STOP),
            prepare: settings.get(&PREPARE),
            cold: settings.get(&COLD),
            allow_failure: settings.get(&ALLOW_FAILURE),
            output: settings.get(&OUTPUT).map(PathBuf::from),
        })
    }

    /// The command as a person would type it, without secrets.
    pub(super) fn command_line(&self) -> &str {
        &self.shown
    }

    /// The name of the program, by which what the launches used is shown.
    pub(super) fn program(&self) -> String {
        let program = match self.command.first() {
            Some(program) if !self.shell => program.as_str(),
            _ => SHELL,
        };
        let name = Path::new(program).file_name().and_then(|name| name.to_str());
        name.unwrap_or(program).to_string()
    }

    /// The command, ready to be launched.
    pub(super) fn command(&self) -> Command {
        match self.command.split_first() {
            Some((program, arguments)) if !self.shell => {
                let mut command = Command::new(program);
                command.args(arguments);
                self.in_directory(command)
            }
            _ => self.in_shell(&self.command.join(" ")),
        }
    }

    /// A command line for the shell, ready to be run.
    pub(super) fn in_shell(&self, line: &str) -> Command {
        let mut command = Command::new(SHELL);
        command.args(["-c", line]);
        self.in_directory(command)
    }

    fn in_directory(&self, mut command: Command) -> Command {
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Whether the shell, or a launch, would find the program.
    fn is_found(&self, program: &str) -> bool {
        match &self.directory {
            // Joined with an absolute path, this path remains.
            Some(directory) if program.contains('/') => {
                directory.join(program).to_str().is_some_and(is_program)
            }
            _ => is_program(program),
        }
    }

    /// Is everything there that a launch needs? Changes nothing.
    pub(super) fn check(&self) -> Problems {
        let mut problems = Problems::new();
        let program = self.command.first().map_or("", String::as_str);
        if let Some(directory) = self.directory.as_ref().filter(|directory| !directory.is_dir()) {
            let what = format!("there is no directory `{}`", directory.display());
            problems.add(
                &[&DIRECTORY],
                what,
                "relative paths begin in the directory where Plimsoll is started",
            );
        } else if !self.shell && !self.is_found(program) {
            let place = self.directory.as_ref().filter(|_| program.contains('/'));
            let place = place.map_or(String::new(), |directory| format!(" in `{}`", directory.display()));
            let found = format!("there is no program `{program}`{place}");
            problems.push(match program.contains(' ') {
                true => Problem::new(found, "write each argument by itself")
                    .about(&[&COMMAND])
                    .or_set(&IN_SHELL, Level::Flag(true)),
                false => Problem::new(found, "is it installed, executable and in PATH?").about(&[&COMMAND]),
            });
        }
        if (self.shell || self.prepare.is_some()) && !is_program(SHELL) {
            problems.add(&[&COMMAND], format!("there is no {SHELL} to run the command"), "");
        }
        if let Some((host, until)) = self.until.host().zip(self.until.setting()) {
            match resolve(host) {
                Err(error) => problems.add(&[until], error, "is the name of the host right?"),
                Ok(addresses) => {
                    let answers = addresses
                        .iter()
                        .any(|address| TcpStream::connect_timeout(address, Duration::from_secs(1)).is_ok());
                    if answers {
                        problems.add(
                            &[until],
                            format!("{host} answers already, before the command is launched"),
                            "stop what listens there, or take another port",
                        );
                    }
                }
            }
        }
        if let Until::Window(title) = &self.until
            && let Err((what, help)) = Windows::open(title)
        {
            problems.add(&[&UNTIL_WINDOW], what, help);
        }
        if self.cold
            && let Err(error) = fs::OpenOptions::new().write(true).open(DROP_CACHES)
        {
            let help = match error.kind() {
                std::io::ErrorKind::PermissionDenied => "run as root, or leave out `cold`",
                std::io::ErrorKind::ReadOnlyFilesystem => {
                    "it is mounted read-only, as in a container: run on the host, or leave out `cold`"
                }
                _ => "leave out `cold`",
            };
            problems.add(&[&COLD], format!("the page cache cannot be dropped: {DROP_CACHES}: {error}"), help);
        }
        if let Some(path) = &self.output {
            let folder = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            let place = if path.exists() { path.as_path() } else { folder };
            if let Err(error) = rustix::fs::access(place, Access::WRITE_OK) {
                problems.add(
                    &[&OUTPUT],
                    format!("the output cannot be written to `{}`: {error}", path.display()),
                    "",
                );
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings_of;
    use model::Level;

    fn read(pairs: &[(&str, &str)]) -> Result<CommandSettings, Problems> {
        CommandSettings::read(&settings_of(SETTINGS, pairs))
    }

    #[test]
    fn everything_wrong_is_reported_at_once() {
        let problems = read(&[
            ("until_port", "80"),
            ("until_line", "("),
            ("until_http", "https://x/"),
            ("timeout", "0s"),
        ])
        .unwrap_err();
        let whats: Vec<&str> = problems.0.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(
            whats,
            [
                "there is no command to launch",
                "`until_port` and `until_line` both say when a launch is done",
                "`80` is not a port",
                "`(` is not a regular expression: unclosed group",
                "https is not supported: `https://x/`",
                "the timeout must be greater than 0",
            ]
        );
    }

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut settings = Settings::defaults(SETTINGS);
        let words = ["echo", "a b", "it's", "--x=1", ""].map(|word| Level::Text(word.into()));
        settings.set("command", Level::List(words.into()));
        assert_eq!(
            CommandSettings::read(&settings).unwrap().command_line(),
            "echo 'a b' 'it'\\''s' --x=1 ''"
        );
        let shell = read(&[("command", "a | b"), ("shell", "true")]).unwrap();
        assert_eq!(shell.command_line(), "/bin/sh -c 'a | b'");
    }

    #[test]
    fn a_command_line_is_split_and_given_to_a_shell_only_where_it_needs_one() {
        for (line, expected) in [
            ("sleep 0.01", Some(&["sleep", "0.01"][..])),
            ("sh -c 'echo $HOME | wc'", Some(&["sh", "-c", "echo $HOME | wc"])),
            ("grep \"a|b\" 'x y'", Some(&["grep", "a|b", "x y"])),
            ("echo it\\'s", Some(&["echo", "it's"])),
            ("ls | wc -l", None),
            ("echo \"$HOME\"", None),
            ("ls *.rs", None),
            ("A=1 true x", None),
            ("cd /tmp", None),
            ("echo 'open", None),
        ] {
            let words = expected.map(|words| words.iter().map(ToString::to_string).collect());
            assert_eq!(super::words(line), words, "{line}");
            let settings = read(&[("command", line)]).unwrap();
            assert_eq!(settings.shell, expected.is_none(), "{line}");
        }
        // What comes as several words is taken as it is.
        let mut settings = Settings::defaults(SETTINGS);
        settings.set("command", Level::List(["a b", "|"].map(|word| Level::Text(word.into())).into()));
        let read = CommandSettings::read(&settings).unwrap();
        assert_eq!((read.command, read.shell), (vec!["a b".to_string(), "|".to_string()], false));
    }

    #[test]
    fn what_a_launch_lacks_is_found_before_it() {
        let whats = |pairs: &[(&str, &str)]| {
            let problems = read(pairs).unwrap().check();
            problems.0.into_iter().map(|problem| problem.what).collect::<Vec<_>>()
        };
        assert_eq!(whats(&[("command", "true")]), [""; 0]);
        assert_eq!(
            whats(&[("command", "no-such-program"), ("output", "/proc/none/x")]),
            [
                "there is no program `no-such-program`",
                "the output cannot be written to `/proc/none/x`: No such file or directory (os error 2)"
            ]
        );
        assert_eq!(whats(&[("command", "sleep 1")]), [""; 0]);
        assert_eq!(whats(&[("command", "no-such-program 1")]), ["there is no program `no-such-program`"]);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().to_string();
        assert_eq!(
            whats(&[("command", "true"), ("until_port", &port)]),
            [format!("{port} answers already, before the command is launched")]
        );
    }
}
