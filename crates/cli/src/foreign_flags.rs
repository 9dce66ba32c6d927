//! Flags of other tools and their equivalents in Plimsoll.

use clap::Command;
use model::SecretParts;

/// A flag of another tool.
struct ForeignFlag {
    /// The commands of Plimsoll where it is likely.
    command: &'static str,
    /// The tool it is from.
    tool: &'static str,
    /// Its spellings.
    flags: &'static [&'static str],
    /// The replacement; `{}` is its value.
    ours: &'static str,
}

const fn foreign(
    command: &'static str,
    tool: &'static str,
    flags: &'static [&'static str],
    ours: &'static str,
) -> ForeignFlag {
    ForeignFlag { command, tool, flags, ours }
}

/// The controller of WCAT, whose flags are also flags of other tools.
const WCCTL: &str = "wcctl";

/// Whether a word is the name of a scenario or settings file of WCAT.
fn is_wcat_file(word: &str) -> bool {
    word.to_ascii_lowercase().ends_with(".ubr")
}

/// Sources: fio(1), `diskspd -?`, `sqlio -?`, wrk, oha, hey, ab(1), hyperfine(1) and the guide of WCAT 6.
static FOREIGN: &[ForeignFlag] = &[
    foreign("disk", "fio", &["--iodepth"], "--outstanding {}"),
    foreign("disk", "fio", &["--bs", "--blocksize"], "--block-size {}"),
    foreign("disk", "fio", &["--runtime", "--timeout"], "--duration {s}"),
    foreign("disk", "fio", &["--numjobs"], "--threads {}"),
    foreign("disk", "fio", &["--filename", "--directory"], "the path, without a flag"),
    foreign("disk", "fio", &["--ioengine"], "--back-end"),
    foreign("disk", "fio", &["--rw", "--readwrite"], "--random or --sequential, and --read or --write"),
    foreign("disk", "fio", &["--rwmixread"], "--read-percent {%}"),
    foreign("disk", "fio", &["--filesize"], "--size {}"),
    foreign("disk", "fio", &["--ramp_time"], "--warm-up {s}"),
    foreign("disk", "fio", &["--rate_iops"], "--rate {/s}"),
    foreign("disk", "fio", &["--time_based", "--group_reporting"], "nothing: this is the default"),
    foreign("disk", "fio", &["--output-format"], "--json"),
    foreign("disk", "diskspd and SQLIO", &["-o"], "--outstanding {}"),
    foreign("disk", "diskspd and SQLIO", &["-b"], "--block-size {}"),
    foreign("disk", "diskspd and SQLIO", &["-t"], "--threads {}"),
    foreign("disk", "diskspd", &["-d"], "--duration {s}"),
    foreign("disk", "diskspd", &["-r"], "--random"),
    foreign("disk", "diskspd", &["-w"], "--read-percent, which is 100 % minus the writes"),
    foreign("disk", "diskspd", &["-W"], "--warm-up {s}"),
    foreign("disk", "diskspd", &["-c"], "--size {}"),
    foreign("disk", "diskspd", &["-S"], "--direct, and --write-through for -Sh and -Sw"),
    foreign("disk", "diskspd and SQLIO", &["-L"], "nothing: latencies are always reported"),
    foreign("disk", "SQLIO", &["-s"], "--duration {s}"),
    foreign("disk", "SQLIO", &["-k"], "--read or --write"),
    foreign("disk", "SQLIO", &["-f"], "--random or --sequential"),
    foreign("http", "wrk, hey, oha and ab", &["-c"], "--concurrency {}"),
    foreign("http", "wrk", &["-d"], "--duration {s}"),
    foreign(
        "http",
        "ab, hey and oha",
        &["-n"],
        "--duration 10s: a load runs for a time, not for a number of requests",
    ),
    foreign("http", "oha and hey", &["-z"], "--duration {s}"),
    foreign("http", "wrk2", &["-R"], "--rate {/s}"),
    foreign("http", "oha, hey and ab", &["-H"], "--header {}"),
    foreign("http", "oha and hey", &["-m"], "--method {}"),
    foreign("http", "k6", &["--vus", "-u"], "--concurrency {}"),
    foreign("http", WCCTL, &["-t"], "--from {}"),
    foreign("http", WCCTL, &["-f"], "--wcat-settings {}"),
    foreign("http", WCCTL, &["-s"], "the server as the URL: http://{}"),
    foreign("http", WCCTL, &["-p"], "the port in the URL, after a colon"),
    foreign(
        "http",
        WCCTL,
        &["-c", "-v"],
        "--concurrency with the product of clients and virtual clients, or --wcat-settings",
    ),
    foreign("http", WCCTL, &["-w"], "--warm-up {s}"),
    foreign("http", WCCTL, &["-u"], "--duration {s}"),
    foreign("http", WCCTL, &["-n"], "nothing: no request starts after the measured time"),
    foreign("http", WCCTL, &["-x"], "--watch with a counter or a source; the host is always watched"),
    foreign("http", WCCTL, &["-o"], "--run-dir {}"),
    foreign("http", WCCTL, &["-k"], "nothing: the run directory has the configuration"),
    foreign("exec", "hyperfine", &["--runs", "-r", "--min-runs"], "--repeat {}"),
    foreign("exec", "hyperfine", &["-p"], "--prepare {}"),
    foreign("exec", "hyperfine", &["--ignore-failure", "-i"], "--allow-failure"),
    foreign("exec", "hyperfine", &["-S"], "--shell"),
    foreign("exec", "hyperfine", &["-w"], "--warmup {}"),
    foreign("exec", "hyperfine", &["--parameter-list"], "--parameter NAME=VALUE,..."),
    foreign("exec", "hyperfine", &["--parameter-scan", "-P"], "--parameter NAME=1..8"),
    foreign(
        "exec",
        "hyperfine",
        &["-N"],
        "nothing: commands without shell syntax are started without a shell",
    ),
    foreign(
        "exec",
        "hyperfine",
        &["--export-csv"],
        "a second command afterwards: `plimsoll export last` writes CSV",
    ),
];

/// The replacement of a flag with this value. A number gets the unit of the other tool: `{s}`, `{%}`, `{/s}`.
fn in_ours(ours: &str, value: Option<&str>) -> String {
    let Some((begin, rest)) = ours.split_once('{') else { return ours.into() };
    let Some((unit, end)) = rest.split_once('}') else { return ours.into() };
    let value = match value {
        None => return begin.trim_end().into(),
        Some(number) if number.parse::<f64>().is_ok() => format!("{number}{unit}"),
        // Only NUL cannot be quoted, and an argument has none.
        Some(text) => shlex::try_quote(text).unwrap_or_default().into_owned(),
    };
    format!("{begin}{value}{end}")
}

/// Whether the value of a flag is a secret for one of the programs that have such a flag: the `-u` of curl is a user and a
/// password.
fn is_secret(flag: &str, value: &str) -> bool {
    ["curl", "ab", "hey"].iter().any(|program| {
        let line = format!("{program} {flag} {value}");
        SecretParts::Command.hide(&line) != line
    })
}

/// Tools whose whole command line is read behind a flag of `plimsoll disk`.
static WHOLE: [(&str, &str); 2] = [("diskspd", "--diskspd"), ("SQLIO", "--sqlio")];

/// An error for each flag of another tool among `arguments`, which are those after the name of `command`; none where
/// there is no such flag.
pub(crate) fn explain(command: &Command, arguments: &[String]) -> Option<String> {
    let name = command.get_name();
    let is_ours = |flag: &str| {
        command.get_arguments().any(|known| {
            let long = flag.strip_prefix("--").is_some_and(|long| known.get_long() == Some(long));
            let short = known.get_short().is_some_and(|short| flag == format!("-{short}"));
            long || short
        })
    };
    let (mut errors, mut tools) = (Vec::new(), Vec::new());
    let is_of_wcat = arguments.iter().any(|word| is_wcat_file(word));
    for (at, argument) in arguments.iter().enumerate() {
        if argument == "--" {
            break;
        }
        let next = arguments.get(at + 1).map(String::as_str).filter(|next| !next.starts_with('-'));
        let (flag, value) = if argument.starts_with("--") {
            match argument.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (argument.as_str(), next),
            }
        } else if let Some(letter) = argument.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            let (flag, value) = argument.split_at(1 + letter.len_utf8());
            (flag, if value.is_empty() { next } else { Some(value) })
        } else {
            continue;
        };
        let is_known = |known: &&ForeignFlag| known.command == name && known.flags.contains(&flag);
        let of_wcat = FOREIGN.iter().filter(|known| is_of_wcat && known.tool == WCCTL).find(is_known);
        let known = of_wcat.or_else(|| FOREIGN.iter().find(is_known));
        if let Some(known) = known.filter(|_| !is_ours(flag)) {
            tools.push(known.tool);
            let value = value.filter(|value| !is_secret(flag, value));
            errors.push(format!(
                "error: `{flag}` is a flag of {}\n  write {}",
                known.tool,
                in_ours(known.ours, value)
            ));
        }
    }
    // What all flags have in common is the tool.
    let whole =
        WHOLE.iter().filter(|(tool, _)| !tools.is_empty() && tools.iter().all(|of| of.contains(tool)));
    let whole: Vec<String> = whole.map(|(tool, flag)| format!("{flag} (as {tool} reads them)")).collect();
    if !whole.is_empty() {
        errors.push(format!("or leave all flags as they are, behind {}", whole.join(" or ")));
    }
    (!errors.is_empty()).then(|| errors.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let program = crate::arguments::command();
        let command = program.find_subcommand(&words[0]).unwrap();
        explain(command, &words[1..]).unwrap_or_default()
    }

    #[test]
    fn every_flag_that_is_recommended_exists_and_none_that_exists_is_foreign() {
        let program = crate::arguments::command();
        for known in FOREIGN {
            let command = program.find_subcommand(known.command).unwrap();
            let has = |flag: &str| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
            for word in known.ours.split([' ', ',']).filter_map(|word| word.strip_prefix("--")) {
                assert!(has(word), "{}: --{word} does not exist", known.command);
            }
            for flag in known.flags {
                let short = flag.strip_prefix('-').and_then(|letter| letter.parse::<char>().ok());
                let has_short =
                    command.get_arguments().any(|arg| short.is_some() && arg.get_short() == short);
                assert!(
                    !has_short && !flag.strip_prefix("--").is_some_and(has),
                    "{}: {flag} is ours",
                    known.command
                );
            }
        }
    }

    #[test]
    fn each_foreign_flag_has_its_equivalent_with_its_value() {
        for (line, expected) in [
            ("disk --iodepth 8 f", "error: `--iodepth` is a flag of fio\n  write --outstanding 8"),
            (
                "disk -o8 f",
                "error: `-o` is a flag of diskspd and SQLIO\n  write --outstanding 8\n\n\
                 or leave all flags as they are, behind --diskspd (as diskspd reads them) or --sqlio (as SQLIO reads them)",
            ),
            (
                "disk -o8 -w30 f",
                "error: `-o` is a flag of diskspd and SQLIO\n  write --outstanding 8\n\n\
                 error: `-w` is a flag of diskspd\n  write --read-percent, which is 100 % minus the writes\n\n\
                 or leave all flags as they are, behind --diskspd (as diskspd reads them)",
            ),
            (
                "disk --runtime=5 f --rwmixread 70",
                "error: `--runtime` is a flag of fio\n  write --duration 5s\n\n\
                 error: `--rwmixread` is a flag of fio\n  write --read-percent 70%",
            ),
            ("disk --iodepth", "error: `--iodepth` is a flag of fio\n  write --outstanding"),
            ("disk -", ""),
            ("disk -\u{e9}", ""),
            ("http http://x/ -R 100", "error: `-R` is a flag of wrk2\n  write --rate 100/s"),
            (
                "http -t home.ubr -f settings.ubr -c 2 -u 60",
                "error: `-t` is a flag of wcctl\n  write --from home.ubr\n\n\
                 error: `-f` is a flag of wcctl\n  write --wcat-settings settings.ubr\n\n\
                 error: `-c` is a flag of wcctl\n  write --concurrency with the product of clients and virtual clients, or --wcat-settings\n\n\
                 error: `-u` is a flag of wcctl\n  write --duration 60s",
            ),
            ("http http://x/ -c 2", "error: `-c` is a flag of wrk, hey, oha and ab\n  write --concurrency 2"),
            // That of curl is a user and a password.
            ("http http://x/ -u bob:secret", "error: `-u` is a flag of k6\n  write --concurrency"),
            ("exec --runs 5 -- ls -r", "error: `--runs` is a flag of hyperfine\n  write --repeat 5"),
            ("disk f --size 1GiB", ""),
        ] {
            assert_eq!(explained(line), expected, "{line}");
        }
    }
}
