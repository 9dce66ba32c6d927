//! One-off loads: `plimsoll disk`, `http`, `copy`, `exec`, `sync`, `null`. Their flags are read off the workload's table of settings, so that
//! a flag, a key of an experiment file and a line of the handbook are the same thing; what they carry out is an
//! experiment like any other.

use clap::{Arg, ArgAction, ArgMatches, Command};
use model::experiment::{Variation, WorkloadInfo, WorkloadSpec};
use model::load::{LOAD_SETTINGS, MEASURE};
use model::{
    DesignKind, Experiment, Goal, Level, Problem, Problems, SettingInfo, SettingKind, SettingPath, Settings,
    Vocabulary,
};

use crate::carry_out::{self, Failure, Options, Words, carry_out_and_show};
use crate::exit::Exit;

/// A command that drives one workload.
pub(crate) struct OneOff {
    /// The command's name.
    pub(crate) command: &'static str,
    /// The workload's.
    pub(crate) workload: &'static str,
    /// One sentence for the list of commands.
    pub(crate) about: &'static str,
    /// Shown under the flags.
    pub(crate) examples: &'static str,
    /// Settings that are given by place, in order, with the name shown; the last may take several.
    pub(crate) positional: &'static [(&'static str, &'static str)],
    /// Flags that stand for a setting at a level: `--random` is `access = random`.
    pub(crate) shorthands: &'static [(&'static str, &'static str, &'static str, &'static str)],
    /// How long it measures when nothing is said.
    pub(crate) duration: &'static str,
}

/// Every one-off command.
pub(crate) static ONE_OFFS: &[OneOff] = &[
    OneOff {
        command: "disk",
        workload: "disk",
        about: "Storage load: IOPS, MB/s and latency of a file or device",
        examples: "\
Examples:
  plimsoll disk /data/test.bin --size 8GiB --random --block-size 8KiB --outstanding 8 --duration 30s
  plimsoll disk test.bin --write --sequential --block-size 64KiB --threads 2
  plimsoll disk test.bin --read-percent 70 --rate 2000/s --arrivals poisson --goal 'response.p99 <= 20ms'
  plimsoll disk test.bin --vary block_size=4KiB,8KiB,64KiB --replicates 5
  plimsoll disk test.bin --profile desktop
  plimsoll disk --sqlio -kW -s10 -frandom -o8 -b8 -LS -Fparam.txt
  plimsoll disk --fio job.fio",
        positional: &[("files", "FILE")],
        shorthands: &[
            ("random", "access", "random", "Blocks in random order (the default)"),
            ("sequential", "access", "sequential", "Blocks one after the other"),
            ("read", "read_percent", "100%", "Only reads (the default)"),
            ("write", "read_percent", "0%", "Only writes"),
            ("direct", "cache", "direct", "Past the page cache, O_DIRECT (the default)"),
            ("page-cache", "cache", "page-cache", "Through the page cache"),
        ],
        duration: "30s",
    },
    OneOff {
        command: "http",
        workload: "http",
        about: "HTTP load: requests a second, response time and failures of a web server",
        examples: "\
Examples:
  plimsoll http http://127.0.0.1:8080/ --concurrency 32 --duration 10s
  plimsoll http http://web1/search?q=a --rate 500/s --arrivals poisson --goal 'get.response.p95 <= 200ms'
  plimsoll http http://web1/api --method POST --header 'Content-Type: text/xml' --body '<ping/>'
  plimsoll http http://web1/ --steps 1,2,4,8,16,32 --duration 60s",
        positional: &[("url", "URL")],
        shorthands: &[("no-keep-alive", "keep_alive", "false", "A connection for each operation")],
        duration: "30s",
    },
    OneOff {
        command: "copy",
        workload: "copy",
        about: "Copy a file unbuffered: throughput over time, the moment a write cache is exhausted",
        examples: "\
Examples:
  plimsoll copy big.vhdx /mnt/array/big.vhdx
  plimsoll copy generate:8GiB /mnt/array/fill.bin",
        positional: &[("source", "SOURCE"), ("destination", "DESTINATION")],
        shorthands: &[],
        duration: "until-done",
    },
    OneOff {
        command: "exec",
        workload: "command",
        about: "Time a command until it exits, a port answers or a line appears, and show what a launch costs",
        examples: "\
Examples:
  plimsoll exec --repeat 20 -- gzip -k -f data.csv
  plimsoll exec --repeat 5 --until-port 127.0.0.1:8080 -- ./server
  plimsoll exec --cold -- ./report --month 11",
        positional: &[("command", "COMMAND")],
        shorthands: &[],
        duration: "until-done",
    },
    OneOff {
        command: "sync",
        workload: "sync",
        about: "Run a synchronization engine and count objects: staging, synchronization, export",
        examples: "\
Examples:
  plimsoll sync full
  plimsoll sync 'staff full-import' 'staff full-synchronization' --prepare 'rm -f metadirectory.db*'
  plimsoll sync 'synchronization: users' --command './engine {run}' --progress '([0-9]+) users done'
  plimsoll sync delta --change './move-somebody {number}' --shows 'grep -q {number} phones.csv'",
        positional: &[("run", "RUN")],
        shorthands: &[],
        duration: "until-done",
    },
    OneOff {
        command: "null",
        workload: "null",
        about: "Operations that do nothing: what the measuring loop itself costs",
        examples: "\
Examples:
  plimsoll null --duration 5s",
        positional: &[],
        shorthands: &[],
        duration: "5s",
    },
];

/// How long each pattern of a profile is measured when nothing is said, as CrystalDiskMark does.
const PROFILE_NS: model::Nanos = 5 * model::SECOND;

fn profile_help() -> String {
    let each: Vec<String> =
        workloads::disk::PROFILES.iter().map(|of| format!("{}: {}", of.name, of.about)).collect();
    format!("Measure a list of patterns, 5s each. {}", each.join(". "))
}

/// Flags of every load that are names for `[load]` settings.
const LOAD_FLAGS: [(&str, &str, &str); 9] = [
    ("duration", "measure", "How long to measure, such as 30s"),
    (
        "warm-up",
        "warm_up",
        "Load before the measurement: a duration, or auto to wait until throughput is steady",
    ),
    ("concurrency", "closed", "Closed loop with this many operations in flight over all threads"),
    (
        "rate",
        "open",
        "Open loop: operations per second, such as 2000/s, whether or not earlier ones are done",
    ),
    ("arrivals", "arrivals", "Spacing of open-loop arrivals: constant or poisson"),
    ("ramp", "ramp", "Grow the load evenly: 1..64 or 100/s..5000/s"),
    ("steps", "steps", "Hold each of these loads, one after the other: 1,2,4,8 or 100/s,200/s"),
    ("think", "think", "Closed loop: wait between an answer and the next operation"),
    ("interval", "interval", "Length of one recorded interval"),
];

/// What is varied by the name of a flag, by the name of its setting: `concurrency=1,4` is `load.closed=1,4`.
fn as_setting(text: &str, info: &WorkloadInfo) -> String {
    let Some((name, levels)) = text.split_once('=') else { return text.into() };
    let name = name.trim().trim_start_matches("--");
    if name.contains('.') {
        return text.into();
    }
    let setting = name.replace('-', "_");
    let is_of_workload = info.settings.iter().any(|known| known.name == setting);
    match LOAD_FLAGS.iter().find(|(flag, ..)| *flag == flag_name(&setting)) {
        Some((_, of_load, _)) if !is_of_workload => format!("load.{of_load}={levels}"),
        _ => format!("{setting}={levels}"),
    }
}

/// The flag of a setting.
fn flag_name(setting: &str) -> String {
    setting.replace('_', "-")
}

fn flag_help(info: &SettingInfo) -> String {
    let default =
        if info.default.is_empty() { String::new() } else { format!(" [default: {}]", info.default) };
    format!("{}{default}", info.about)
}

impl OneOff {
    /// The command line of this load.
    pub(crate) fn arguments(&self, info: &WorkloadInfo) -> Command {
        let mut command = Command::new(self.command).about(self.about).after_help(self.examples);
        for (index, (setting, shown)) in self.positional.iter().enumerate() {
            let about = info.settings.iter().find(|info| info.name == *setting).map_or("", |info| info.about);
            let last = index + 1 == self.positional.len();
            let mut arg = Arg::new(*setting).value_name(*shown).help(about);
            // The files may also stand in SQLIO's flags or fio's job file.
            arg = match self.command {
                "disk" => arg.required_unless_present_any(["sqlio", "fio"]),
                // An engine that runs all the time needs none.
                "sync" => arg.required_unless_present("change"),
                _ => arg.required(true),
            };
            if last
                && matches!(self.kind_of(info, setting), Some(SettingKind::Texts | SettingKind::Secrets(_)))
            {
                arg = arg
                    .num_args(1..)
                    .trailing_var_arg(self.command == "exec")
                    .allow_hyphen_values(self.command == "exec");
            }
            command = command.arg(arg);
        }
        for (flag, setting, _, about) in self.shorthands {
            let others = self.shorthands.iter().filter(|(other, of, ..)| of == setting && other != flag);
            command = command.arg(
                Arg::new(*flag)
                    .long(*flag)
                    .help(*about)
                    .action(ArgAction::SetTrue)
                    .conflicts_with(*setting)
                    .conflicts_with_all(others.map(|(other, ..)| *other))
                    .help_heading("Load"),
            );
        }
        for info in info.settings {
            if self.positional.iter().any(|(setting, _)| *setting == info.name) {
                continue;
            }
            let mut arg =
                Arg::new(info.name).long(flag_name(info.name)).help(flag_help(info)).help_heading("Settings");
            arg = match info.kind {
                SettingKind::Flag => arg.action(ArgAction::SetTrue),
                SettingKind::Texts | SettingKind::Secrets(_) => {
                    arg.action(ArgAction::Append).value_name("TEXT")
                }
                kind => arg.value_name(value_name(kind)),
            };
            command = command.arg(arg);
        }
        for (flag, setting, about) in LOAD_FLAGS {
            let kind = LOAD_SETTINGS.iter().find(|info| info.name == setting).map(|info| info.kind);
            let about = match flag {
                "duration" => format!("{about} [default: {}]", self.duration),
                _ => about.to_string(),
            };
            let arg = Arg::new(format!("load.{setting}")).long(flag).help(about).help_heading("Load");
            command = command.arg(arg.value_name(kind.map_or("TEXT", value_name)));
        }
        command = command
            .arg(Arg::new("load.spin").long("no-spin").action(ArgAction::SetTrue).help("Do not keep a CPU busy just before each arrival; operations then start tens of microseconds late").help_heading("Load"))
            .arg(Arg::new("limit").long("limit").value_name("GOAL").hide(true))
            .arg(Arg::new("goal").long("goal").value_name("GOAL").action(ArgAction::Append).help("What is good enough, such as 'response.p99 <= 20ms'; missed: exit code 99").help_heading("Experiment"))
            .arg(Arg::new("vary").long("vary").value_name("SETTING=LEVEL,...").action(ArgAction::Append).help("Vary one setting: its flag's level is the baseline, these the others; several make a grid with --grid").help_heading("Experiment"))
            .arg(Arg::new("grid").long("grid").action(ArgAction::SetTrue).help("Every combination of the varied levels, not one factor at a time").help_heading("Experiment"))
            .arg(Arg::new("replicates").long("replicates").value_name("N").help("Repeat each treatment [default: 1]").help_heading("Experiment"))
            .arg(Arg::new("seed").long("seed").value_name("N").help("Shuffles the order and makes the data [default: 1]").help_heading("Experiment"))
            .arg(Arg::new("watch").long("watch").value_name("WHAT").action(ArgAction::Append).help("Counters to read: host, process:NAME, cgroup:PATH [default: host and process:self]").help_heading("Experiment"))
            .arg(Arg::new("max_failures").long("max-failures").value_name("PERCENT").help("Share of the operations that may fail; more is a missed goal: exit code 99 [default: 1%]").help_heading("Experiment"))
            .arg(Arg::new("sample_every").long("sample-every").value_name("TIME").help("How often counters are read, 10ms to 1m [default: a twentieth of the measured time, 100ms to 1s]").help_heading("Experiment"));
        if self.command == "disk" {
            command = command
                .arg(
                    Arg::new("profile")
                        .long("profile")
                        .value_name("NAME")
                        .value_parser(workloads::disk::PROFILES.iter().map(|of| of.name).collect::<Vec<_>>())
                        .conflicts_with_all(["pattern", "fio", "sqlio"])
                        .help(profile_help())
                        .help_heading("Load"),
                )
                .arg(
                    Arg::new("sqlio")
                        .long("sqlio")
                        .value_name("SQLIO FLAGS")
                        .num_args(1..)
                        .allow_hyphen_values(true)
                        .help("All that follows are SQLIO's flags; the report is in SQLIO's layout")
                        .help_heading("Other tools"),
                )
                .arg(
                    Arg::new("fio")
                        .long("fio")
                        .value_name("FILE")
                        .help("Read the load from a fio job file; flags beside it change what the file says")
                        .help_heading("Other tools"),
                );
        }
        run_flags(command)
    }

    fn kind_of(&self, info: &WorkloadInfo, setting: &str) -> Option<SettingKind> {
        info.settings.iter().find(|info| info.name == setting).map(|info| info.kind)
    }

    /// The experiment these arguments describe; every mistake at once.
    pub(crate) fn experiment(
        &self,
        info: &WorkloadInfo,
        matches: &ArgMatches,
    ) -> Result<Experiment, Problems> {
        let mut load = Settings::defaults(LOAD_SETTINGS);
        if let Ok(measure) = MEASURE.parse(self.duration) {
            load.set(MEASURE.name, measure);
        }
        let settings = Settings::defaults(info.settings);
        let mut experiment = plain_experiment(self.command, self.workload, settings, load);
        self.put(info, matches, &mut experiment)?;
        Ok(experiment)
    }

    /// Puts what these arguments say into an experiment, over what it says; every mistake at once.
    fn put(
        &self,
        info: &WorkloadInfo,
        matches: &ArgMatches,
        experiment: &mut Experiment,
    ) -> Result<(), Problems> {
        let mut problems = Problems::new();
        let settings = &mut experiment.workload.settings;
        for setting in info.settings {
            if let Some(level) =
                level_of(matches, setting.name, &self.flag_of(setting.name), setting, &mut problems)
            {
                settings.set(setting.name, level);
            }
        }
        for (flag, setting, level, _) in self.shorthands {
            if matches.get_flag(flag)
                && let Some(kind) = self.kind_of(info, setting)
                && let Ok(level) = kind.parse(level)
            {
                settings.set(setting, level);
            }
        }
        for setting in LOAD_SETTINGS {
            let id = format!("load.{}", setting.name);
            if setting.name == "spin" {
                // By default the machine decides; the flag is for one that has no CPU to spare.
                if matches.get_flag(&id) {
                    experiment.load.set(setting.name, Level::Flag(false));
                }
                continue;
            }
            let flag = self.flag_of(setting.name);
            if let Some(level) = level_of(matches, &id, &flag, setting, &mut problems) {
                experiment.load.set(setting.name, level);
            }
        }
        // Counters are read as often as the measured time asks for.
        experiment.sample_every = model::load::sample_every(&experiment.load);
        if let Some(goal) = matches.get_one::<String>("limit") {
            problems.push(Problem::new(
                format!("--limit '{goal}': searching for the limit is not supported yet"),
                "use --steps with rates or users, and --goal",
            ));
        }
        for text in texts(matches, "goal") {
            match Goal::parse(&text, info.operations) {
                Ok(goal) => experiment.goals.push(goal),
                Err(what) => problems.push(Problem::new(format!("--goal: {what}"), "")),
            }
        }
        if matches.get_flag("grid") {
            experiment.design = DesignKind::Grid;
        }
        let watch = texts(matches, "watch");
        if !watch.is_empty() {
            experiment.watch = watch;
        } else if self.workload == "http"
            && let Some(server) = workloads::http::local_port(&experiment.workload.settings)
                .and_then(counters::process::listening_on)
        {
            // What serves a local address is what its load is about.
            experiment.watch.push(format!("process:{server}"));
        }
        let vocabulary = Vocabulary { workloads: vec![*info], ..crate::registry::REGISTRY.vocabulary() };
        for name in ["replicates", "seed", "sample_every", "max_failures"] {
            if let Some(value) = matches.get_one::<String>(name)
                && let Err(problem) =
                    model::experiment::set(experiment, &format!("{name}={value}"), &vocabulary)
            {
                let what = problem.what.replacen(
                    &format!("--set {name}={value}"),
                    &format!("--{} {value}", flag_name(name)),
                    1,
                );
                problems.push(Problem { what, ..*problem });
            }
        }
        let profile = (self.command == "disk").then(|| matches.get_one::<String>("profile")).flatten();
        if let Some(profile) =
            workloads::disk::PROFILES.iter().find(|of| Some(of.name) == profile.map(String::as_str))
        {
            let name = workloads::disk::PATTERN.name;
            let mut levels = profile.patterns.iter().map(|pattern| Level::Text((*pattern).into()));
            let baseline = levels.next();
            experiment.name = format!("disk: {}", profile.name);
            if let Some(first) = baseline.clone() {
                experiment.workload.settings.set(name, first);
            }
            experiment.vary.push(Variation {
                factor: SettingPath(format!("workload.{name}")),
                baseline,
                levels: levels.collect(),
                on: None,
                parameters: Default::default(),
            });
            if !matches.contains_id("load.measure") {
                experiment.load.set(MEASURE.name, Level::Time(PROFILE_NS));
                experiment.sample_every = model::load::sample_every(&experiment.load);
            }
        }
        for text in texts(matches, "vary") {
            match model::experiment::variation(&as_setting(&text, info), experiment, &vocabulary) {
                Ok(variation) => experiment.vary.push(variation),
                Err(problem) => problems.push(*problem),
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(carry_out::with_contradictions(experiment, problems, &|problem| self.in_flags(problem)))
    }

    /// Carries out the command.
    pub(crate) fn run(&self, info: &WorkloadInfo, matches: &ArgMatches) -> Result<Exit, Failure> {
        let options = options(matches);
        let words = |problem| self.in_flags(problem);
        let put = |experiment: &mut Experiment| self.put(info, matches, experiment).map_err(Failure::usage);
        if self.command == "disk" {
            if matches.get_many::<String>("sqlio").is_some() {
                refuse_beside_sqlio(info, matches)?;
                return crate::commands::sqlio::run(&texts(matches, "sqlio"), put, &options, &words);
            }
            if let Some(file) = matches.get_one::<String>("fio") {
                let targets = texts(matches, "files");
                return crate::commands::fio::run(
                    file,
                    targets.first().map(String::as_str),
                    put,
                    &options,
                    &words,
                );
            }
        }
        let experiment = self.experiment(info, matches).map_err(Failure::usage)?;
        run_experiment(&experiment, &options, &words)
    }

    /// A problem in words of this command's flags.
    pub(crate) fn in_flags(&self, problem: Problem) -> Problem {
        problem.in_words(|setting| self.flag_of(setting), |setting, level| self.flag_at(setting, level))
    }

    /// What a setting is on the command line: `--block-size`, `FILE`.
    fn flag_of(&self, setting: &str) -> String {
        if let Some((flag, ..)) = LOAD_FLAGS.iter().find(|(_, name, _)| *name == setting) {
            return format!("--{flag}");
        }
        match self.positional.iter().find(|(name, _)| *name == setting) {
            Some((_, shown)) => (*shown).to_string(),
            None => format!("--{}", flag_name(setting)),
        }
    }

    /// What is typed for a setting at a level: `--page-cache`, `--overwrite test.bin`. None for what is given by place.
    fn flag_at(&self, setting: &str, level: &Level) -> Option<String> {
        if self.positional.iter().any(|(name, _)| *name == setting) {
            return None;
        }
        let shorthand =
            self.shorthands.iter().find(|(_, of, at, _)| *of == setting && *at == level.to_string());
        Some(match (shorthand, level) {
            (Some((flag, ..)), _) => format!("--{flag}"),
            (None, Level::Flag(true)) => self.flag_of(setting),
            (None, level) => {
                let word = level.to_string();
                // Only NUL cannot be quoted, and an argument has none.
                let word = shlex::try_quote(&word).unwrap_or_default();
                format!("{} {word}", self.flag_of(setting))
            }
        })
    }
}

/// What is said by SQLIO's flags and shown in SQLIO's report is not said twice.
fn refuse_beside_sqlio(info: &WorkloadInfo, matches: &ArgMatches) -> Result<(), Failure> {
    let beside = ["overwrite", "keep", "verify", "back_end"];
    let given = |id: &str| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
    let settings = info.settings.iter().map(|info| info.name).filter(|name| !beside.contains(name));
    let mut flags: Vec<String> =
        settings.filter(|name| given(name)).map(|name| format!("--{}", flag_name(name))).collect();
    let load = LOAD_FLAGS.iter().filter(|(_, setting, _)| given(&format!("load.{setting}")));
    flags.extend(load.map(|(flag, ..)| format!("--{flag}")));
    let others =
        ["random", "sequential", "read", "write", "direct", "page-cache", "vary", "replicates", "fio"];
    flags.extend(others.into_iter().filter(|id| given(id)).map(|id| format!("--{id}")));
    match flags.as_slice() {
        [] => Ok(()),
        flags => Err(Failure::usage(format!(
            "error: {} cannot be said beside --sqlio\n  SQLIO's own flags say it; or leave --sqlio out",
            flags.join(", ")
        ))),
    }
}

/// An experiment of one treatment, watched by the host's counters and Plimsoll's own.
pub(crate) fn plain_experiment(name: &str, workload: &str, settings: Settings, load: Settings) -> Experiment {
    Experiment {
        name: name.into(),
        goals: Vec::new(),
        max_failures: model::experiment::MAX_FAILURES,
        watch: vec!["host".into(), "process:self".into()],
        sample_every: model::load::sample_every(&load),
        replicates: 1,
        seed: 1,
        prove: false,
        folder: Default::default(),
        target: None,
        workload: WorkloadSpec { kind: workload.into(), settings },
        load,
        vary: Vec::new(),
        design: DesignKind::OneFactorAtATime,
        show: Vec::new(),
        published: Vec::new(),
    }
}

/// Carries out an experiment that has no file, keeping the file it would have.
pub(crate) fn run_experiment(
    experiment: &Experiment,
    options: &Options,
    words: Words<'_>,
) -> Result<Exit, Failure> {
    let text = model::experiment::write(experiment, &crate::registry::REGISTRY.vocabulary());
    carry_out_and_show(experiment, &text, options, None, words)
}

/// `--run-dir`, `--json`, `--quiet`: on every command that measures.
pub(crate) fn run_flags(command: Command) -> Command {
    command
        .arg(
            Arg::new("run-dir")
                .long("run-dir")
                .value_name("DIR")
                .help("Record here [default: runs/DATE-NAME]")
                .help_heading("Output"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the result as one JSON document")
                .help_heading("Output"),
        )
        .arg(
            Arg::new("quiet")
                .long("quiet")
                .short('q')
                .action(ArgAction::SetTrue)
                .help("No progress")
                .help_heading("Output"),
        )
}

/// Reads [`run_flags`].
pub(crate) fn options(matches: &ArgMatches) -> Options {
    Options {
        run_dir: matches.get_one::<String>("run-dir").map(Into::into),
        json: matches.get_flag("json"),
        quiet: matches.get_flag("quiet"),
    }
}

/// All values of an argument.
pub(crate) fn texts(matches: &ArgMatches, id: &str) -> Vec<String> {
    matches.get_many::<String>(id).map(|values| values.cloned().collect()).unwrap_or_default()
}

fn level_of(
    matches: &ArgMatches,
    id: &str,
    flag: &str,
    setting: &SettingInfo,
    problems: &mut Problems,
) -> Option<Level> {
    match setting.kind {
        SettingKind::Flag => matches.get_flag(id).then_some(Level::Flag(true)),
        kind if kind.takes_several() => {
            let values = texts(matches, id);
            (!values.is_empty()).then(|| Level::List(values.iter().map(|text| kind.element(text)).collect()))
        }
        kind => {
            let text = matches.get_one::<String>(id)?;
            kind.parse(text).map_err(|what| problems.add(&[setting], format!("{flag}: {what}"), "")).ok()
        }
    }
}

fn value_name(kind: SettingKind) -> &'static str {
    match kind {
        SettingKind::Flag
        | SettingKind::Text
        | SettingKind::Texts
        | SettingKind::Secret(_)
        | SettingKind::Secrets(_) => "TEXT",
        SettingKind::Count { .. } | SettingKind::Number { .. } => "N",
        SettingKind::Bytes | SettingKind::Sizes => "SIZE",
        SettingKind::Time | SettingKind::TimeOr(_) => "TIME",
        SettingKind::Rate => "RATE",
        SettingKind::IoLimit | SettingKind::CpuLimit | SettingKind::MemoryLimit => "LIMIT",
        SettingKind::Value => "VALUE",
        SettingKind::Percent => "PERCENT",
        SettingKind::Choice(_) => "WORD",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_varied_may_be_called_as_its_flag() {
        let info = crate::registry::REGISTRY.vocabulary().workloads;
        let of = |name: &str| *info.iter().find(|info| info.name == name).unwrap();
        for (workload, text, expected) in [
            ("http", "concurrency=1,4,8", "load.closed=1,4,8"),
            ("http", "--rate = 100/s,200/s", "load.open= 100/s,200/s"),
            ("disk", "block-size=4KiB,64KiB", "block_size=4KiB,64KiB"),
            ("disk", "outstanding=1,4", "outstanding=1,4"),
            ("disk", "workload.outstanding=1,4", "workload.outstanding=1,4"),
            ("disk", "host.cpus=1,2", "host.cpus=1,2"),
            ("disk", "nonsense", "nonsense"),
        ] {
            assert_eq!(as_setting(text, &of(workload)), expected, "{text}");
        }
    }
}
