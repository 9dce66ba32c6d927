//! The command line: all commands, and their dispatch.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command};
use model::experiment::WorkloadInfo;
use model::windows::windows_path;
use model::{Problem, Problems};

use crate::carry_out::Failure;
use crate::commands;
use crate::exit::Exit;
use crate::one_off::{ONE_OFFS, OneOff, run_flags};
use crate::registry::REGISTRY;

/// Printed by `plimsoll` alone.
const START: &str = "\
Plimsoll finds how much load a system can carry, what limits it, and what it
needs to carry more.

  plimsoll demo                                      run an example in 2 minutes
  plimsoll disk test.bin --size 1GiB --duration 10s  measure a disk
  plimsoll init disk                                 write an experiment file

  plimsoll doctor   what this machine permits  plimsoll watch  live counters
  plimsoll --help   every command              plimsoll runs   recorded runs
";

fn workload_of(one_off: &OneOff) -> Option<WorkloadInfo> {
    REGISTRY.workloads.iter().map(|kind| kind.info()).find(|info| info.name == one_off.workload)
}

/// The program while its commands are added: all of them, or the one that was asked for.
struct Program<'a> {
    command: Command,
    asked: Option<&'a str>,
}

impl Program<'_> {
    fn subcommand(self, name: &str, make: impl FnOnce() -> Command) -> Self {
        let is_wanted = self.asked.is_none_or(|asked| asked == name);
        let command = if is_wanted { self.command.subcommand(make()) } else { self.command };
        Program { command, ..self }
    }
}

/// Every command with its arguments.
pub(crate) fn command() -> Command {
    build(None)
}

/// The program with the command that the command line names alone, or with all commands if it names none. Each process
/// has the memory of the commands that it builds.
fn command_of_arguments() -> Command {
    let first = std::env::args_os().nth(1).unwrap_or_default();
    let first = first.to_string_lossy();
    let only = build(Some(&first));
    if only.find_subcommand(&*first).is_some() { only } else { command() }
}

fn build(asked: Option<&str>) -> Command {
    let run = |about: &'static str| Arg::new("run").value_name("RUN").help(about).required(true);
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON document");
    let file = || Arg::new("file").value_name("FILE").help("The experiment file");
    let command = Command::new("plimsoll")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Finds how much load a system can carry, what limits it, and what it needs to carry more")
        .max_term_width(100);
    let mut program = Program { command, asked }
        .subcommand("demo", || 
            run_flags(Command::new("demo").about(
                "Example measurement on this machine: the initial load of a metadirectory, about two minutes",
            ))
            .arg(
                Arg::new("on")
                    .long("on")
                    .value_name("DIR")
                    .help("Folder for its files, which are removed afterwards [default: this folder]"),
            ),
        )
        .subcommand("init", || 
            Command::new("init")
                .about("Write an example experiment file")
                .arg(
                    Arg::new("kind")
                        .value_name("WORKLOAD")
                        .default_value("disk")
                        .help("disk, http, ldap, ldap_import, copy, exec or sync"),
                )
                .arg(
                    Arg::new("output")
                        .long("output")
                        .short('o')
                        .value_name("FILE")
                        .default_value("experiment.toml")
                        .help("The file to write"),
                ),
        )
        .subcommand("check", || 
            Command::new("check")
                .about("Validate an experiment and show its plan, without changing anything")
                .arg(file().required(true))
                .arg(set_argument())
                .arg(prove())
                .arg(smallest())
                .arg(
                    Arg::new("offline")
                        .long("offline")
                        .action(ArgAction::SetTrue)
                        .help("Do not reach the machines of the experiment"),
                )
                .arg(
                    Arg::new("verbose")
                        .long("verbose")
                        .short('v')
                        .action(ArgAction::SetTrue)
                        .help("Also list what is hidden in records and messages, and why"),
                )
                .arg(json()),
        )
        .subcommand("schema", || Command::new("schema").about("Print the JSON Schema of experiment files, for editors"))
        .subcommand("run", || 
            run_flags(Command::new("run").about("Run an experiment"))
                .arg(file().required_unless_present("resume"))
                .arg(set_argument())
                .arg(prove())
                .arg(smallest())
                .arg(
                    Arg::new("resume")
                        .long("resume")
                        .value_name("DIR")
                        .conflicts_with_all(["file", "run-dir", "prove"])
                        .help(
                            "Continue an interrupted run; set the secrets, which are not recorded, with --set",
                        ),
                ),
        );
    for one_off in ONE_OFFS {
        if let Some(info) = workload_of(one_off) {
            program = program.subcommand(one_off.command, || one_off.arguments(&info));
        }
    }
    program
        .subcommand("gate", commands::gate::arguments)
        .subcommand("metadir", || commands::metadir::arguments(json))
        .subcommand("watch", commands::watch::arguments)
        .subcommand("agent", commands::agent::arguments)
        .subcommand("machines", commands::machines::arguments)
        .subcommand("trace", commands::trace::arguments)
        .subcommand("doctor", commands::doctor::arguments)
        .subcommand("generate", commands::generate::arguments)
        .subcommand("delay", commands::delay::arguments)
        .subcommand("wire", || commands::wire::arguments(json()))
        .subcommand("import", || commands::import::arguments(json()))
        .subcommand("audit", || commands::audit::arguments(json()))
        .subcommand("runs", || 
            Command::new("runs")
                .about("List the runs in a folder")
                .arg(
                    Arg::new("dir")
                        .value_name("DIR")
                        .default_value("runs")
                        .help("The folder of run directories"),
                )
                .arg(json()),
        )
        .subcommand("show", || 
            Command::new("show")
                .about("Show the result of a run")
                .arg(run("The run directory, or `last`"))
                .arg(
                    Arg::new("verbose")
                        .long("verbose")
                        .short('v')
                        .action(ArgAction::SetTrue)
                        .help("Show every trial and resource"),
                )
                .arg(json()),
        )
        .subcommand("explain", || 
            Command::new("explain")
                .about("Explain the verdict of a run: findings with their evidence, and warnings with what to try next")
                .arg(run("The run directory, or `last`"))
                .arg(json()),
        )
        .subcommand("size", || commands::size::arguments(
            run("The run directory of a sweep over the load or of a search for the limit, or `last`; or a file of `plimsoll trace --json`"),
            json(),
        ))
        .subcommand("compare", || 
            Command::new("compare")
                .about("Compare two runs, or two configurations of one run")
                .arg(
                    Arg::new("a")
                        .value_name("A")
                        .required(true)
                        .help("A run directory, or RUN:CONFIGURATION"),
                )
                .arg(
                    Arg::new("b")
                        .value_name("B")
                        .required(true)
                        .help("A run directory, or RUN:CONFIGURATION"),
                )
                .arg(json()),
        )
        .subcommand("report", || 
            Command::new("report")
                .about("Write report.html again from the record, and print the result")
                .arg(run("The run directory, or `last`"))
                .arg(
                    Arg::new("output")
                        .long("output")
                        .short('o')
                        .value_name("FILE")
                        .help("The file to write [default: report.html in the run directory]"),
                ),
        )
        .subcommand("export", || commands::export::arguments(run("The run directory, or `last`")))
        .subcommand("restore", || 
            Command::new("restore")
                .about("Undo the changes of a killed run on this host, and list the files that it left")
                .arg(
                    Arg::new("dir")
                        .value_name("DIR")
                        .help("The run directory [default: every run of this user]"),
                )
                .arg(
                    Arg::new("dry-run")
                        .long("dry-run")
                        .action(clap::ArgAction::SetTrue)
                        .help("Show what would be undone and which files would be removed, without doing it"),
                )
                .arg(
                    Arg::new("remove-files")
                        .long("remove-files")
                        .action(clap::ArgAction::SetTrue)
                        .help("Remove the files and folders that a killed run created, unless others have written to them"),
                )
                .arg(
                    Arg::new("discard")
                        .long("discard")
                        .action(clap::ArgAction::SetTrue)
                        .conflicts_with("dry-run")
                        .help(
                            "Drop the journal entries of changes that cannot be undone and of files that are not removed, after you handled them yourself",
                        ),
                ),
        )
        .subcommand("completions", || 
            Command::new("completions").about("Print the completions for a shell").arg(
                Arg::new("shell")
                    .value_name("SHELL")
                    .required(true)
                    .value_parser(clap::value_parser!(clap_complete::Shell))
                    .help("bash, zsh, fish, elvish or powershell"),
            ),
        )
        .subcommand("manual", || Command::new("manual").about("Print the complete reference as Markdown"))
        .subcommand("man", || 
            Command::new("man")
                .about("Print the manual page of the program or of one command")
                .arg(
                    Arg::new("command")
                        .value_name("COMMAND")
                        .num_args(0..)
                        .help("The command, with its subcommand: metadir run"),
                )
                .arg(
                    Arg::new("output-dir")
                        .long("output-dir")
                        .value_name("DIR")
                        .conflicts_with("command")
                        .help("Write the pages of all commands into this directory, which must exist"),
                ),
        )
        .command
}

fn prove() -> Arg {
    Arg::new("prove")
        .long("prove")
        .action(clap::ArgAction::SetTrue)
        .help("After the trials, reduce each resource by 30 %, one at a time, and increase it where possible, to prove which resource is the limit")
}

fn smallest() -> Arg {
    Arg::new("smallest")
        .long("smallest")
        .value_name("FACTOR")
        .help("Search for the smallest level of this factor of [vary] that still meets the goals, such as host.cpus")
}

fn set_argument() -> Arg {
    Arg::new("set")
        .long("set")
        .value_name("PATH=VALUE")
        .action(ArgAction::Append)
        .help("Override one setting of the file")
}

/// A usage error, whose text may contain hostile file names; or help, which is printed and ends the command.
fn usage(error: clap::Error) -> Failure {
    let is_hidden =
        |argument: std::ffi::OsString| argument.to_string_lossy().contains(report::text::is_hidden);
    if error.kind() == clap::error::ErrorKind::UnknownArgument
        && let Some(text) = foreign_flags()
    {
        return Failure::usage(text);
    }
    if !error.use_stderr() {
        let text = error.render();
        crate::output::page(&match crate::output::terminal(false).color {
            true => text.ansi().to_string(),
            false => text.to_string(),
        });
        return Failure::ended(Exit::Good);
    }
    let text = error.to_string();
    let has_secrets = model::mask(&text) != text;
    if !std::env::args_os().any(is_hidden) && !has_secrets && error.print().is_ok() {
        return Failure::ended(Exit::Usage);
    }
    // Without colours, because colour codes in an argument could not be distinguished from ours.
    Failure::usage(text.trim_end())
}

/// The flags of other tools on the command line, each with its replacement.
fn foreign_flags() -> Option<String> {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let (name, words) = words.split_first()?;
    crate::foreign_flags::explain(command().find_subcommand(name)?, words)
}

/// Rejects a flag where `exec` expects its command, because `clap` allows a command to begin with a dash.
fn refuse_flag_as_command(matches: &clap::ArgMatches) -> Result<(), Failure> {
    let word = matches.get_many::<String>("command").and_then(|mut words| words.next());
    match word.filter(|word| word.starts_with('-')) {
        None => Ok(()),
        Some(word) => Err(Failure::usage(foreign_flags().unwrap_or_else(|| {
            format!("error: `{word}` is not a flag of `exec`\n  list its flags: plimsoll exec --help")
        }))),
    }
}

/// Whether flags follow commands that are quoted lines: such flags are not arguments of the command.
fn has_flags_behind_command_lines(matches: &clap::ArgMatches) -> bool {
    let words: Vec<String> = crate::one_off::texts(matches, "command");
    commands::exec::are_command_lines(&words) && words.iter().any(|word| word.starts_with('-'))
}

/// Refuses options of fio behind `--fio` and the name of its program, with the job file that has them: to Plimsoll they are
/// flags that do not exist.
fn refuse_options_of_fio(arguments: &[OsString]) -> Result<(), Failure> {
    let words = arguments.iter().skip_while(|argument| *argument != "--fio").skip(1);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let program = words.iter().take_while(|word| !word.starts_with("--"));
    let program: Vec<&String> = program.collect();
    let is_program = |word: &&String| workloads::disk::pasted::program_name(word) == "fio";
    let is_behind_program = program.is_empty() || program.last().is_some_and(is_program);
    match is_behind_program && words.len() > program.len() {
        true => Err(commands::fio::refuse_options(&words[program.len()..])),
        false => Ok(()),
    }
}

/// Refuses paths of Windows in the places of files and folders, unless there is a file with this very name: a command that
/// writes would make one in the working directory.
fn refuse_windows_paths(command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let mut problems = Problems::new();
    let is_path = |arg: &&Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        names.first().is_some_and(|name| matches!(name.as_str(), "FILE" | "DIR" | "FOLDER" | "PATH"))
    };
    for arg in command.get_arguments().filter(is_path) {
        let values = matches.try_get_raw(arg.get_id().as_str()).ok().flatten().into_iter().flatten();
        for value in values.filter(|value| !std::path::Path::new(value).exists()) {
            if let Some((what, help)) = windows_path(&value.to_string_lossy()) {
                problems.push(Problem::new(what, help));
            }
        }
    }
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        refuse_windows_paths(command, matches)?;
    }
    problems.or(()).map_err(Failure::usage)
}

/// Reads the arguments and carries out the command.
pub(crate) fn dispatch() -> Result<Exit, Failure> {
    let mut program = command_of_arguments();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    refuse_options_of_fio(&arguments)?;
    let matches = program.try_get_matches_from_mut(arguments).map_err(usage)?;
    refuse_windows_paths(&program, &matches)?;
    let Some((name, matches)) = matches.subcommand() else {
        crate::output::result(START);
        return Ok(Exit::Good);
    };
    if let Some(one_off) = ONE_OFFS.iter().find(|one_off| one_off.command == name)
        && let Some(info) = workload_of(one_off)
    {
        if name != "exec" {
            return one_off.run(&info, matches);
        }
        refuse_flag_as_command(matches)?;
        if !has_flags_behind_command_lines(matches) {
            return one_off.run(&info, matches);
        }
        let flags_anywhere = |arg: Arg| arg.trailing_var_arg(false).allow_hyphen_values(false);
        let again = command().mut_subcommand(name, |exec| exec.mut_arg("command", flags_anywhere));
        let matches = again.try_get_matches().map_err(usage)?;
        return matches.subcommand().map_or(Ok(Exit::Usage), |(_, matches)| one_off.run(&info, matches));
    }
    match name {
        "demo" => commands::demo::run(matches),
        "init" => commands::experiment::init(matches),
        "check" => commands::experiment::check(matches),
        "schema" => commands::experiment::schema(),
        "run" => commands::experiment::run(matches),
        "gate" => commands::gate::run(matches),
        "watch" => commands::watch::run(matches),
        "agent" => commands::agent::run(matches),
        "machines" => commands::machines::run(matches),
        "trace" => commands::trace::run(matches),
        "doctor" => commands::doctor::run(matches),
        "generate" => commands::generate::run(matches),
        "delay" => commands::delay::run(matches),
        "wire" => commands::wire::run(matches),
        "import" => commands::import::import(matches),
        "audit" => commands::audit::audit(matches),
        "runs" => commands::record::runs(matches),
        "show" => commands::record::show(matches),
        "explain" => commands::record::explain(matches),
        "size" => commands::size::size(matches),
        "metadir" => commands::metadir::metadir(matches),
        "compare" => commands::record::compare(matches),
        "report" => commands::record::report(matches),
        "export" => commands::export::export(matches),
        "restore" => commands::restore::run(matches),
        "completions" => commands::manual::completions(matches),
        "man" => commands::manual::man(matches),
        "manual" => commands::manual::manual(),
        other => Err(Failure::usage(format!("error: there is no command `{other}`"))),
    }
}
