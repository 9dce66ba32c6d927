//! The command line as a whole: which commands there are, and where each is carried out.

use clap::{Arg, ArgAction, Command};
use model::experiment::WorkloadInfo;

use crate::carry_out::Failure;
use crate::commands;
use crate::exit::Exit;
use crate::one_off::{ONE_OFFS, OneOff, run_flags};
use crate::registry::REGISTRY;

/// Printed by `plimsoll` alone.
const START: &str = "\
Plimsoll finds how much load a system can carry, what limits it, and what it needs to carry more.

  plimsoll demo                                      see it work, in about two minutes
  plimsoll disk test.bin --size 1GiB --duration 10s  measure a disk
  plimsoll init disk                                 write an experiment: change one factor, compare

  plimsoll doctor   what this machine permits        plimsoll watch   its counters, live
  plimsoll --help   every command                    plimsoll runs    what was measured here
";

fn workload_of(one_off: &OneOff) -> Option<WorkloadInfo> {
    REGISTRY.workloads.iter().map(|kind| kind.info()).find(|info| info.name == one_off.workload)
}

/// Every command with its arguments.
pub(crate) fn command() -> Command {
    let run = |about: &'static str| Arg::new("run").value_name("RUN").help(about).required(true);
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON document");
    let file = || Arg::new("file").value_name("FILE").help("The experiment file");
    let mut program = Command::new("plimsoll")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Finds how much load a system can carry, what limits it, and what it needs to carry more")
        .max_term_width(100)
        .subcommand(
            run_flags(Command::new("demo").about(
                "The main job on this machine: the first load of a metadirectory, in about two minutes",
            ))
            .arg(
                Arg::new("on")
                    .long("on")
                    .value_name("DIR")
                    .help("Where to put its files, which are removed [default: this folder]"),
            ),
        )
        .subcommand(
            Command::new("init")
                .about("Write an experiment to start from")
                .arg(
                    Arg::new("kind")
                        .value_name("WORKLOAD")
                        .default_value("disk")
                        .help("disk, http, copy, command or sync"),
                )
                .arg(
                    Arg::new("output")
                        .long("output")
                        .short('o')
                        .value_name("FILE")
                        .default_value("experiment.toml")
                        .help("Where to write it"),
                ),
        )
        .subcommand(
            Command::new("check")
                .about("Validate an experiment and show its plan, touching nothing")
                .arg(file().required(true))
                .arg(set_argument())
                .arg(prove())
                .arg(json()),
        )
        .subcommand(Command::new("schema").about("The JSON Schema of experiment files, for editors"))
        .subcommand(
            run_flags(Command::new("run").about("Carry out an experiment"))
                .arg(file().required_unless_present("resume"))
                .arg(set_argument())
                .arg(prove())
                .arg(
                    Arg::new("resume")
                        .long("resume")
                        .value_name("DIR")
                        .conflicts_with_all(["file", "run-dir", "prove"])
                        .help(
                            "Go on with an interrupted one; --set gives it the secrets that are not recorded",
                        ),
                ),
        );
    for one_off in ONE_OFFS {
        if let Some(info) = workload_of(one_off) {
            program = program.subcommand(one_off.arguments(&info));
        }
    }
    program
        .subcommand(commands::metadir::arguments(json))
        .subcommand(commands::watch::arguments())
        .subcommand(commands::doctor::arguments())
        .subcommand(commands::generate::arguments())
        .subcommand(
            Command::new("runs")
                .about("What was measured here")
                .arg(
                    Arg::new("dir")
                        .value_name("DIR")
                        .default_value("runs")
                        .help("The folder of run directories"),
                )
                .arg(json()),
        )
        .subcommand(
            Command::new("show")
                .about("The result of a run again")
                .arg(run("The run directory, or `last`"))
                .arg(
                    Arg::new("verbose")
                        .long("verbose")
                        .short('v')
                        .action(ArgAction::SetTrue)
                        .help("Every trial and resource"),
                )
                .arg(json()),
        )
        .subcommand(
            Command::new("explain")
                .about("Why: every finding with its evidence, every doubt with what to try next")
                .arg(run("The run directory, or `last`"))
                .arg(json()),
        )
        .subcommand(commands::size::arguments(
            run("The run directory of a sweep over the load, or `last`"),
            json(),
        ))
        .subcommand(
            Command::new("compare")
                .about("Two runs, or two configurations of one, side by side")
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
        .subcommand(
            Command::new("report")
                .about("Make report.html again from the record, and print the result")
                .arg(run("The run directory, or `last`"))
                .arg(
                    Arg::new("output")
                        .long("output")
                        .short('o')
                        .value_name("FILE")
                        .help("Where to write the page [default: report.html in the run directory]"),
                ),
        )
        .subcommand(
            Command::new("export")
                .about("A run's numbers as CSV, JSON, Markdown or JUnit")
                .arg(run("The run directory, or `last`"))
                .arg(
                    Arg::new("format")
                        .long("format")
                        .value_name("FORMAT")
                        .value_parser(["csv", "json", "markdown", "junit"])
                        .default_value("csv")
                        .help("What to write"),
                ),
        )
        .subcommand(
            Command::new("restore")
                .about("Undo what a killed run left changed on this host, and list the files that it left")
                .arg(
                    Arg::new("dir")
                        .value_name("DIR")
                        .help("The run directory [default: every run of this user]"),
                )
                .arg(
                    Arg::new("dry-run")
                        .long("dry-run")
                        .action(clap::ArgAction::SetTrue)
                        .help("Only show what would be undone, and which files would be removed"),
                )
                .arg(
                    Arg::new("remove-files")
                        .long("remove-files")
                        .action(clap::ArgAction::SetTrue)
                        .help("Remove the files and folders that a killed run made, unless others have written to them"),
                )
                .arg(
                    Arg::new("discard")
                        .long("discard")
                        .action(clap::ArgAction::SetTrue)
                        .conflicts_with("dry-run")
                        .help(
                            "Forget the changes that cannot be undone and the files that are not removed, once you have seen to them",
                        ),
                ),
        )
        .subcommand(
            Command::new("completions").about("Completions for a shell").arg(
                Arg::new("shell")
                    .value_name("SHELL")
                    .required(true)
                    .value_parser(clap::value_parser!(clap_complete::Shell))
                    .help("bash, zsh, fish, elvish or powershell"),
            ),
        )
        .subcommand(Command::new("manual").about("The whole reference as one Markdown page"))
        .subcommand(
            Command::new("man")
                .about("The manual page, of the program or of one command")
                .arg(Arg::new("command").value_name("COMMAND").help("Which command")),
        )
}

fn prove() -> Arg {
    Arg::new("prove")
        .long("prove")
        .action(clap::ArgAction::SetTrue)
        .help("Afterwards reduce each resource by 30 %, one at a time, and increase it where there is more, to prove which one limits")
}

fn set_argument() -> Arg {
    Arg::new("set")
        .long("set")
        .value_name("PATH=VALUE")
        .action(ArgAction::Append)
        .help("Change one setting of the file")
}

/// A mistake in the arguments, which may hold the name of a file of others. Help is printed, and ends the program.
fn usage(error: clap::Error) -> Failure {
    let is_hidden =
        |argument: std::ffi::OsString| argument.to_string_lossy().contains(report::text::is_hidden);
    if !error.use_stderr() || !std::env::args_os().any(is_hidden) {
        error.exit();
    }
    // Without colours, as those of an argument could not be told from our own.
    Failure::usage(error.to_string().trim_end())
}

/// Reads the arguments and carries out the command.
pub(crate) fn dispatch() -> Result<Exit, Failure> {
    let matches = command().try_get_matches().map_err(usage)?;
    let Some((name, matches)) = matches.subcommand() else {
        crate::output::result(START);
        return Ok(Exit::Good);
    };
    if let Some(one_off) = ONE_OFFS.iter().find(|one_off| one_off.command == name)
        && let Some(info) = workload_of(one_off)
    {
        return one_off.run(&info, matches);
    }
    match name {
        "demo" => commands::demo::run(matches),
        "init" => commands::experiment::init(matches),
        "check" => commands::experiment::check(matches),
        "schema" => commands::experiment::schema(),
        "run" => commands::experiment::run(matches),
        "watch" => commands::watch::run(matches),
        "doctor" => commands::doctor::run(matches),
        "generate" => commands::generate::run(matches),
        "runs" => commands::record::runs(matches),
        "show" => commands::record::show(matches),
        "explain" => commands::record::explain(matches),
        "size" => commands::size::size(matches),
        "metadir" => commands::metadir::metadir(matches),
        "compare" => commands::record::compare(matches),
        "report" => commands::record::report(matches),
        "export" => commands::record::export(matches),
        "restore" => commands::restore::run(matches),
        "completions" => commands::manual::completions(matches),
        "man" => commands::manual::man(matches),
        "manual" => commands::manual::manual(),
        other => Err(Failure::usage(format!("error: there is no command `{other}`"))),
    }
}
