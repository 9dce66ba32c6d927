//! One-off loads: `plimsoll disk`, `http`, `ldap`, `copy`, `exec`, `sync`, `null`. Their flags come from the workload's table of settings, so that
//! a flag, a key of an experiment file and a line of the handbook are the same; they execute an
//! ordinary experiment.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use model::experiment::{MachineList, Variation, WorkloadInfo, WorkloadSpec, watched, watched_twice};
use model::load::{END_EARLY, LIMIT, LOAD_SETTINGS, MEASURE, WARM_UP, WARM_UP_ROUND};
use model::{
    DesignKind, Experiment, Goal, Level, Problem, Problems, Secret, SecretParts, SettingInfo, SettingKind,
    SettingPath, Settings, Vocabulary,
};
use workloads::disk::missing::{self, Position};

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
    /// Settings as positional arguments, in order, with the displayed name; the last may have several values.
    pub(crate) positional: &'static [(&'static str, &'static str)],
    /// Flags that stand for a setting at a level: `--random` is `access = random`.
    pub(crate) shorthands: &'static [(&'static str, &'static str, &'static str, &'static str)],
    /// Default duration of the measurement.
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
  plimsoll disk test.bin --limit 'response.p99 <= 5ms'
  plimsoll disk test.bin --profile desktop
  plimsoll disk --sqlio -kW -s10 -frandom -o8 -b8 -LS -Fparam.txt
  plimsoll disk --diskspd -b4K -d10 -o32 -t4 -r -w30 -Sh -L -c1G test.bin
  plimsoll disk --fio job.fio",
        positional: &[("files", "FILE")],
        shorthands: &[
            ("random", "access", "random", "Access blocks in random order (the default)"),
            ("sequential", "access", "sequential", "Access blocks sequentially"),
            ("read", "read_percent", "100%", "Read only (the default)"),
            ("write", "read_percent", "0%", "Write only"),
            ("direct", "cache", "direct", "Bypass the page cache, O_DIRECT (the default)"),
            ("page-cache", "cache", "page-cache", "Use the page cache"),
        ],
        duration: "30s",
    },
    OneOff {
        command: "http",
        workload: "http",
        about: "HTTP load: requests per second, response time and failures of a web server",
        examples: "\
Examples:
  plimsoll http http://127.0.0.1:8080/ --concurrency 32 --duration 10s
  plimsoll http http://web1/search?q=a --rate 500/s --arrivals poisson --goal 'get.response.p95 <= 200ms'
  plimsoll http http://web1/api --method POST --header 'Content-Type: text/xml' --body '<ping/>'
  plimsoll http http://web1/ --steps 1,2,4,8,16,32 --duration 60s
  plimsoll http http://web1/ --limit 'response.p95 <= 1s' --rate 100/s --arrivals poisson
  plimsoll http --from shop.toml --concurrency 200 --duration 60s
  plimsoll http --from session.har --concurrency 20 --duration 60s
  plimsoll http --from home.ubr --wcat-settings settings.ubr
  plimsoll http --probe brokers.csv --path /scripts/wpnbr.dll --body @request.xml --passes 5
  plimsoll http convert session.har -o shop.toml
  plimsoll http record --target http://127.0.0.1:8080 -o shop.toml",
        positional: &[("url", "URL")],
        shorthands: &[("no-keep-alive", "keep_alive", "false", "Open a connection for each operation")],
        duration: "30s",
    },
    OneOff {
        command: "ldap",
        workload: "ldap",
        about: "LDAP load: operations per second, response time and result codes of a directory server",
        examples: "\
Examples:
  plimsoll ldap search ldap://127.0.0.1 --base dc=example,dc=com --filter '(uid=user.${random(0, 99999)})' --attributes cn,mail
  plimsoll ldap search ldap://ds1 --base dc=example,dc=com --filter '(mail=${users.mail})' --data users=users.csv --connections 4 --depth 16
  plimsoll ldap modify ldap://ds1 --bind-dn 'cn=admin,dc=example,dc=com' --password '${env:PW}' --dn 'uid=user.${random(0, 99999)},ou=people,dc=example,dc=com' --change 'replace description: ${number}'
  plimsoll ldap add ldaps://ds1 --ca ca.pem --bind-dn 'cn=admin,dc=example,dc=com' --password '${file:pw}' --ldif new-user.ldif
  plimsoll ldap login ldap://ds1 --dn 'uid=user.${zipf(0, 99999)},ou=people,dc=example,dc=com' --dn-password secret --base dc=example,dc=com
  plimsoll ldap mixed ldap://ds1 --from operations.toml --rate 500/s --arrivals poisson
  plimsoll ldap bind ldap://ds1 --dn 'uid=user.7,ou=people,dc=example,dc=com' --dn-password '${env:PW}' --limit 'response.p95 <= 100ms'",
        positional: &[("operation", "OPERATION"), ("url", "URL")],
        shorthands: &[],
        duration: "30s",
    },
    OneOff {
        command: "copy",
        workload: "copy",
        about: "Copy a file unbuffered: throughput over time, and when a write cache is exhausted",
        examples: "\
Examples:
  plimsoll copy big.vhdx /mnt/array/big.vhdx
  plimsoll copy generate:8GiB /mnt/array/fill.bin",
        positional: &[("source", "SOURCE"), ("destination", "DESTINATION")],
        shorthands: &[
            ("direct", "cache", "direct", "Past the page cache, O_DIRECT (the default)"),
            ("page-cache", "cache", "page-cache", "Through the page cache"),
        ],
        duration: "until-done",
    },
    OneOff {
        command: "exec",
        workload: "command",
        about: "Measure the time until a command exits, a port accepts connections, a line is printed or a window appears, and the cost of a launch",
        examples: "\
Examples:
  plimsoll exec --repeat 20 -- gzip -k -f data.csv
  plimsoll exec 'gzip -k -f data.csv' 'zstd -k -f data.csv' --repeat 30
  plimsoll exec --parameter level=1,6,9 'gzip -{level} -k -f data.csv'
  plimsoll exec --repeat 5 --until-port 127.0.0.1:8080 -- ./server
  plimsoll exec --cold -- ./report --month 11",
        positional: &[("command", "COMMAND")],
        shorthands: &[],
        duration: "until-done",
    },
    OneOff {
        command: "sync",
        workload: "sync",
        about: "Run a synchronization engine and count objects per second: staging, synchronization, export",
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
        about: "Operations that do nothing: the overhead of the measuring loop",
        examples: "\
Examples:
  plimsoll null --duration 5s",
        positional: &[],
        shorthands: &[],
        duration: "5s",
    },
];

/// `plimsoll ldap import`.
static LDAP_IMPORT: OneOff = OneOff {
    command: "import",
    workload: "ldap_import",
    about: "Import an LDIF file into a new database of a directory server: entries per second, phases and passes",
    examples: "\
Examples:
  plimsoll ldap import people.ldif --index uid,mail,cn:eq+sub
  plimsoll ldap import people.ldif --tool ldif2db --import-cache 64MiB
  plimsoll ldap import --entries 100000 --vary entries=25000,50000,100000   then  plimsoll size last --for '7900000 entries'
  plimsoll ldap import --entries 5000 --vary quick=true,false
  plimsoll ldap import people.ldif --tool ldapadd --url ldap://ds1 --bind-dn 'cn=admin,dc=example,dc=com' --password '${env:PW}'
  plimsoll ldap import people.ldif --tool command --command 'import-ldif --offline --ldifFile {ldif}' --prepare 'rm -rf /srv/ds/db'",
    positional: &[("ldif", "FILE")],
    shorthands: &[],
    duration: "until-done",
};

/// The kind of a workload.
fn info_of(workload: &str) -> Option<WorkloadInfo> {
    crate::registry::REGISTRY.workloads.iter().map(|kind| kind.info()).find(|info| info.name == workload)
}

/// Default length of a warm-up round after preconditioning, from SNIA's test specification.
const PRECONDITIONED_ROUND_NS: model::Nanos = 60 * model::SECOND;

/// Default duration of each pattern of a profile, as in CrystalDiskMark.
const PROFILE_NS: model::Nanos = 5 * model::SECOND;

fn profile_help() -> String {
    let each: Vec<String> =
        workloads::disk::PROFILES.iter().map(|of| format!("{}: {}", of.name, of.about)).collect();
    format!("Measure a list of patterns for 5s each. {}", each.join(". "))
}

/// Flags of every load that are names for `[load]` settings.
const LOAD_FLAGS: [(&str, &str, &str); 14] = [
    ("duration", "measure", "Duration of the measurement, such as 30s"),
    (
        "warm-up",
        "warm_up",
        "Time under load before the measurement: a duration, or auto until throughput is steady",
    ),
    (
        "warm-up-round",
        "warm_up_round",
        "Duration of one round of the automatic warm-up, which ends when five rounds are steady [default: 1s, 60s with --precondition]",
    ),
    ("concurrency", "closed", "Closed loop: operations in flight over all threads"),
    ("rate", "open", "Open loop: arrival rate, such as 2000/s, independent of the completion of operations"),
    ("arrivals", "arrivals", "Distribution of open-loop arrivals: constant or poisson"),
    ("ramp", "ramp", "Increase the load linearly: 1..64 or 100/s..5000/s"),
    ("steps", "steps", "Keep each of these loads for an equal time: 1,2,4,8 or 100/s,200/s"),
    (
        "limit",
        "limit",
        "Search for the largest load that meets this goal, such as 'response.p95 <= 1s': over --rate if it is given, which is then the first guess, otherwise over --concurrency. May be repeated",
    ),
    ("limit-min", "limit_min", "Smallest load of the search [default: 1, or 1/1000 of --rate]"),
    ("limit-max", "limit_max", "Largest load of the search [default: 1024, or 1000 times --rate]"),
    ("limit-width", "limit_width", "Requested width of the answer [default: 3%]"),
    ("think", "think", "Closed loop: think time between a response and the next operation"),
    ("interval", "interval", "Duration of one recorded interval"),
];

/// Converts the name of a flag in `--vary` to the name of its setting: `concurrency=1,4` is `load.closed=1,4`.
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

/// The flag of a setting of the load.
pub(crate) fn load_flag(setting: &str) -> Option<String> {
    LOAD_FLAGS.iter().find(|(_, name, _)| *name == setting).map(|(flag, ..)| format!("--{flag}"))
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

/// The flag of a setting of the workload.
pub(crate) fn setting_flag(info: &SettingInfo) -> Arg {
    let arg = Arg::new(info.name).long(flag_name(info.name)).help(flag_help(info));
    match info.kind {
        // Without a value there would be no way to turn it off.
        SettingKind::Flag if info.default == "true" => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(clap::value_parser!(bool))
            .value_name("true|false")
            .hide_possible_values(true),
        SettingKind::Flag => arg.action(ArgAction::SetTrue),
        SettingKind::Texts | SettingKind::Paths(_) | SettingKind::Secrets(_) => {
            arg.action(ArgAction::Append).value_name("TEXT")
        }
        kind => arg.value_name(value_name(kind)),
    }
}

impl OneOff {
    /// The command line of this load.
    pub(crate) fn arguments(&self, info: &WorkloadInfo) -> Command {
        let mut command = Command::new(self.command).about(self.about).after_help(self.examples);
        for (index, (setting, shown)) in self.positional.iter().enumerate() {
            let about = info.settings.iter().find(|info| info.name == *setting).map_or("", |info| info.about);
            let last = index + 1 == self.positional.len();
            let mut arg = Arg::new(*setting).value_name(*shown).help(about);
            // The flags of SQLIO or diskspd, or a job file of fio, may name the files instead.
            arg = match self.command {
                "disk" => arg.required_unless_present_any(["sqlio", "diskspd", "fio"]),
                // An engine that runs all the time needs none.
                "sync" => arg.required_unless_present("change"),
                "http" => arg.required_unless_present_any(["from", "probe"]),
                // People are generated instead.
                "import" => arg.required_unless_present("entries"),
                // Of several destinations that are varied, the first is the baseline.
                "copy" if *setting == "destination" => arg.required_unless_present("vary"),
                _ => arg.required(true),
            };
            if last && self.kind_of(info, setting).is_some_and(|kind| kind.takes_several()) {
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
            command = command.arg(setting_flag(info).help_heading("Settings"));
        }
        for (flag, setting, about) in LOAD_FLAGS {
            let kind = LOAD_SETTINGS.iter().find(|info| info.name == setting).map(|info| info.kind);
            let about = match flag {
                "duration" => format!("{about} [default: {}]", self.duration),
                _ => about.to_string(),
            };
            let arg = Arg::new(format!("load.{setting}")).long(flag).help(about).help_heading("Load");
            let arg = match flag {
                "limit" => arg.value_name("GOAL").action(ArgAction::Append),
                _ => arg.value_name(kind.map_or("TEXT", value_name)),
            };
            command = command.arg(arg);
        }
        command = command
            .arg(Arg::new("load.spin").long("no-spin").action(ArgAction::SetTrue).help("Do not busy-wait before each arrival; operations then start tens of microseconds late").help_heading("Load"))
            .arg(Arg::new("load.end_early").long("end-early").action(ArgAction::SetTrue).help("End before the time when every operation fails from the start, or when a goal can no longer be met").help_heading("Load"))
            .arg(Arg::new("goal").long("goal").value_name("GOAL").action(ArgAction::Append).help("A goal, such as 'response.p99 <= 20ms'; if it is missed, the exit code is 99").help_heading("Experiment"))
            .arg(Arg::new("vary").long("vary").value_name("SETTING=LEVEL,...").action(ArgAction::Append).help("Vary one setting over these levels; the level of its flag is the baseline. Several settings form a grid with --grid").help_heading("Experiment"))
            .arg(Arg::new("smallest").long("smallest").value_name("SETTING=FROM..TO").help("Search for the smallest level of a setting that meets --goal, such as threads=1..64 or connections=1,2,4,8").help_heading("Experiment"))
            .arg(Arg::new("grid").long("grid").action(ArgAction::SetTrue).help("Measure every combination of the levels, not one factor at a time").help_heading("Experiment"))
            .arg(Arg::new("replicates").long("replicates").value_name("N").help("Number of trials of each configuration [default: 1]").help_heading("Experiment"))
            .arg(Arg::new("seed").long("seed").value_name("N").help("Seed of the random order of trials and of the generated data [default: 1]").help_heading("Experiment"))
            .arg(Arg::new("on").long("on").value_name("MACHINE").value_delimiter(',').action(ArgAction::Append).help("Machines that drive the load together, instead of this one: HOST, ssh://USER@HOST:PORT, NAME=exec:COMMAND that starts `plimsoll agent`, or nats://HOST/FLEET?agents=N").help_heading("Experiment"))
            .arg(Arg::new("watch_on").long("watch-on").value_name("MACHINE").value_delimiter(',').action(ArgAction::Append).help("Machines whose counters are read too").help_heading("Experiment"))
            .arg(Arg::new("watch").long("watch").value_name("WHAT").action(ArgAction::Append).help("Counters to read: host, process:NAME, cgroup:PATH, operation_io:NAME, a Performance Monitor counter by its path, or an exporter of another host by its URL [default: host and process:self]").help_heading("Experiment"))
            .arg(Arg::new("max_failures").long("max-failures").value_name("PERCENT").help("Maximum share of failed operations; more is a missed goal: exit code 99 [default: 1%]").help_heading("Experiment"))
            .arg(Arg::new("sample_every").long("sample-every").value_name("TIME").help("Sampling interval of the counters, 10ms to 1m [default: 1/20 of the measured time, 100ms to 1s]").help_heading("Experiment"));
        if self.command == "http" {
            command = crate::commands::http::arguments(command, info);
        }
        if self.command == "ldap"
            && let Some(info) = info_of(LDAP_IMPORT.workload)
        {
            command = command
                .args_conflicts_with_subcommands(true)
                .subcommand_negates_reqs(true)
                .subcommand(LDAP_IMPORT.arguments(&info));
        }
        if self.command == "exec" {
            command = command.arg(crate::commands::exec::parameter()).args(crate::commands::exec::exports());
        }
        if self.command == "disk" {
            command = command
                .arg(
                    Arg::new("profile")
                        .long("profile")
                        .value_name("NAME")
                        .value_parser(workloads::disk::PROFILES.iter().map(|of| of.name).collect::<Vec<_>>())
                        .conflicts_with_all(["pattern", "fio", "sqlio", "diskspd"])
                        .help(profile_help())
                        .help_heading("Load"),
                )
                .args([
                    all_that_follows("sqlio", "SQLIO FLAGS")
                        .help("Flags of SQLIO follow; the report has SQLIO's layout"),
                    all_that_follows("diskspd", "DISKSPD FLAGS")
                        .help("Flags of diskspd follow; the report has diskspd's layout"),
                ])
                .arg(
                    Arg::new("fio")
                        .long("fio")
                        .value_name("FILE")
                        .help("Read the load from a fio job file; other flags override its settings")
                        .help_heading("Other tools"),
                )
                .arg(
                    Arg::new("dry-run")
                        .long("dry-run")
                        .action(ArgAction::SetTrue)
                        .requires("fio")
                        .help("Only show the jobs of --fio as experiment files, and whether they can run on this host")
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
        let name = if self.command == LDAP_IMPORT.command { "ldap import" } else { self.command };
        let mut experiment = plain_experiment(name, self.workload, settings, load);
        self.apply_arguments(info, matches, &mut experiment)?;
        Ok(experiment)
    }

    /// Applies these arguments to an experiment, overriding its settings; reports all mistakes.
    fn apply_arguments(
        &self,
        info: &WorkloadInfo,
        matches: &ArgMatches,
        experiment: &mut Experiment,
    ) -> Result<(), Problems> {
        let mut problems = Problems::new();
        let settings = &mut experiment.workload.settings;
        // The words behind --fio are a line of fio, from which its reader takes the files.
        let is_read_elsewhere = |setting: &&SettingInfo| {
            setting.name == "files" && self.command == "disk" && matches.contains_id("fio")
        };
        for setting in info.settings.iter().filter(|setting| !is_read_elsewhere(setting)) {
            if let Some(level) =
                level_of(matches, setting.name, &self.flag_of(setting.name), setting, &mut problems)
            {
                settings.set(setting.name, level);
            }
        }
        if self.command == "http" {
            crate::commands::http::read_body(settings, &mut problems);
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
                // The default depends on the machine; the flag is for machines without a spare CPU.
                if matches.get_flag(&id) {
                    experiment.load.set(setting.name, Level::Flag(false));
                }
                continue;
            }
            if setting.name == END_EARLY.name {
                if matches.get_flag(&id) {
                    experiment.load.set(setting.name, Level::Flag(true));
                }
                continue;
            }
            let flag = self.flag_of(setting.name);
            if let Some(level) = level_of(matches, &id, &flag, setting, &mut problems) {
                experiment.load.set(setting.name, level);
            }
        }
        // A number of operations is not cut short by the default of the duration.
        let has_end = ["http", "ldap"].contains(&self.command)
            && info
                .settings
                .iter()
                .any(|setting| setting.name == "operations" && matches.contains_id(setting.name));
        if has_end
            && !matches.contains_id("load.measure")
            && let Ok(until_done) = MEASURE.parse("until-done")
        {
            experiment.load.set(MEASURE.name, until_done);
        }
        let stated = experiment.load.given(&WARM_UP) || experiment.load.given(&WARM_UP_ROUND);
        if self.command == "disk" && matches.get_flag("precondition") && !stated {
            experiment.load.set(WARM_UP_ROUND.name, Level::Time(PRECONDITIONED_ROUND_NS));
        }
        if self.command == "http" {
            crate::commands::http::set_load_of_wcat(matches, experiment);
        }
        // The sampling interval depends on the measured time.
        experiment.sample_every = model::load::sample_every(&experiment.load);
        let has_further = info.has_further_operations(&experiment.workload.settings);
        let (goals, wrong) = model::limit::goals(&experiment.load, info.operations, has_further);
        experiment.limit = goals;
        for (_, what, help) in wrong {
            problems.add(&[&LIMIT], format!("--limit: {what}"), help);
        }
        for text in texts(matches, "goal") {
            match Goal::parse_among(&text, info.operations, has_further) {
                Ok(goal) => experiment.goals.push(goal),
                Err(what) => problems.push(Problem::new(format!("--goal: {what}"), "")),
            }
        }
        if matches.get_flag("grid") {
            experiment.design = DesignKind::Grid;
        }
        let machine = |id: &str| {
            texts(matches, id).iter().map(|text| Secret::new(text, SecretParts::Machine)).collect()
        };
        experiment.machines =
            MachineList { load: machine("on"), watch: machine("watch_on"), divides_on_loss: false };
        for (_, what, help) in experiment.machines.problems(crate::registry::REGISTRY.machine) {
            problems.push(Problem::new(what, help));
        }
        let watch = texts(matches, "watch");
        if !watch.is_empty() {
            for entry in &watch {
                if let Err((what, help)) = crate::registry::REGISTRY.vocabulary().watch_entry(entry) {
                    problems.push(Problem::new(format!("--watch: {what}"), help));
                }
            }
            if let Some((_, what, help)) = watched_twice(&watch) {
                problems.push(Problem::new(format!("--watch: {what}"), help));
            }
            experiment.watch = watch.iter().map(|entry| watched(entry)).collect();
        } else if let Some(process) =
            workloads::ldap::import_process(self.workload, &experiment.workload.settings)
        {
            experiment.watch.push(Secret::plain(&format!("process:{process}")));
        } else if let Some(server) =
            local_port(self.workload, &experiment.workload.settings).and_then(counters::process::listening_on)
        {
            // Watch the process that serves a local address.
            experiment.watch.push(Secret::plain(&format!("process:{server}")));
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
                line: 0,
            });
            if !matches.contains_id("load.measure") {
                experiment.load.set(MEASURE.name, Level::Time(PROFILE_NS));
                experiment.sample_every = model::load::sample_every(&experiment.load);
            }
        }
        if self.command == "exec" {
            crate::commands::exec::compare(matches, experiment, &mut problems);
        }
        let smallest = matches.get_one::<String>("smallest");
        for text in texts(matches, "vary").into_iter().chain(smallest.cloned()) {
            let text = as_setting(&text, info);
            // What is given by place may be given by its levels only; the first is the baseline.
            if let Some((setting, levels)) = text.split_once('=')
                && let Some((setting, _)) = self.positional.iter().find(|(name, _)| *name == setting)
                && !matches.contains_id(setting)
                && let Some(kind) = self.kind_of(info, setting)
                && let Ok(first) = kind.parse(levels.split(',').next().unwrap_or_default())
            {
                experiment.workload.settings.set(setting, first);
            }
            match model::experiment::variation(&text, experiment, &vocabulary) {
                Ok(variation) => experiment.vary.push(variation),
                Err(problem) => problems.push(*problem),
            }
        }
        if smallest.is_some() {
            experiment.smallest = experiment.vary.last().map(|variation| variation.factor.clone());
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(carry_out::with_contradictions(experiment, problems, &|problem| self.in_flags(problem)))
    }

    /// Carries out the command.
    pub(crate) fn run(&self, info: &WorkloadInfo, matches: &ArgMatches) -> Result<Exit, Failure> {
        if self.command == "http"
            && let Some(done) = crate::commands::http::run(info, matches)
        {
            return done;
        }
        if self.command == "ldap"
            && let Some((_, matches)) = matches.subcommand()
            && let Some(info) = info_of(LDAP_IMPORT.workload)
        {
            return LDAP_IMPORT.run(&info, matches);
        }
        let options = options(matches)?;
        let words = |problem| self.in_flags(problem);
        let put = |experiment: &mut Experiment| {
            self.apply_arguments(info, matches, experiment).map_err(Failure::usage)
        };
        if self.command == "disk" {
            if matches.contains_id("sqlio") {
                refuse_beside(info, matches, "sqlio", "SQLIO")?;
                return crate::commands::sqlio::run(&texts(matches, "sqlio"), put, &options);
            }
            if matches.contains_id("diskspd") {
                refuse_beside(info, matches, "diskspd", "diskspd")?;
                return crate::commands::diskspd::run(&texts(matches, "diskspd"), put, &options);
            }
            if let Some(file) = matches.get_one::<String>("fio") {
                let words_of_line = [vec![file.clone()], texts(matches, "files")].concat();
                let how = match matches.get_flag("dry-run") {
                    true => crate::commands::fio::How::Show,
                    false => crate::commands::fio::How::Run(&options),
                };
                return crate::commands::fio::run(&words_of_line, put, how, &words);
            }
        }
        self.refuse_missing(matches).map_err(Failure::usage)?;
        let experiment = self.experiment(info, matches).map_err(Failure::usage)?;
        if self.command == "http" && !options.quiet {
            crate::commands::http::say_notes(&experiment);
        }
        if self.command == "exec" {
            return crate::commands::exec::run(&experiment, matches, &options, &words);
        }
        run_experiment(&experiment, &options, &words)
    }

    /// Refuses what would be made a file and does not look like one.
    fn refuse_missing(&self, matches: &ArgMatches) -> Result<(), Problems> {
        let written = match self.command {
            "disk" => texts(matches, "files"),
            "copy" => texts(matches, "destination"),
            _ => Vec::new(),
        };
        let refused = written.iter().filter_map(|path| missing::refuse(path, Position::Path));
        Problems(refused.map(|(what, help)| Problem::new(what, help)).collect()).or(())
    }

    /// A problem in terms of this command's flags.
    pub(crate) fn in_flags(&self, problem: Problem) -> Problem {
        problem.in_words(|setting| self.flag_of(setting), |setting, level| self.flag_at(setting, level))
    }

    /// The name of a setting on the command line: `--block-size`, `FILE`.
    fn flag_of(&self, setting: &str) -> String {
        if let Some(flag) = load_flag(setting) {
            return flag;
        }
        match self.positional.iter().find(|(name, _)| *name == setting) {
            Some((_, shown)) => (*shown).to_string(),
            None => format!("--{}", flag_name(setting)),
        }
    }

    /// The flag for a setting at a level: `--page-cache`, `--overwrite test.bin`. None for positional arguments.
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

/// The TCP port of this host that a load goes to; none if it goes elsewhere.
fn local_port(workload: &str, settings: &Settings) -> Option<u16> {
    match workload {
        "http" => workloads::http::local_port(settings),
        "ldap" | "ldap_import" => workloads::ldap::local_port(settings),
        _ => None,
    }
}

/// The flags of another tool, which take the rest of the command line.
fn all_that_follows(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .num_args(1..)
        .allow_hyphen_values(true)
        .help_heading("Other tools")
}

/// Rejects flags that duplicate the flags or the report of another tool.
fn refuse_beside(info: &WorkloadInfo, matches: &ArgMatches, flag: &str, tool: &str) -> Result<(), Failure> {
    let beside = ["overwrite", "overwrite_signature", "keep", "verify", "back_end"];
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
            "error: {} cannot be combined with --{flag}\n  use {tool}'s own flags, or remove --{flag}",
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
        watch: vec![Secret::plain("host"), Secret::plain("process:self")],
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
        gate: None,
        show: Vec::new(),
        published: Vec::new(),
        limit: Vec::new(),
        smallest: None,
        dependencies: Vec::new(),
        machines: MachineList::default(),
    }
}

/// Executes an experiment without a file, and records the equivalent file.
pub(crate) fn run_experiment(
    experiment: &Experiment,
    options: &Options,
    words: Words<'_>,
) -> Result<Exit, Failure> {
    let experiment = &crate::overwriting::confirmed(experiment)?;
    let text = model::experiment::write(experiment, &crate::registry::REGISTRY.vocabulary());
    carry_out_and_show(experiment, &text, options, None, words)
}

/// `--run-dir`, `--json`, `--live`, `--quiet`: on every command that measures.
pub(crate) fn run_flags(command: Command) -> Command {
    let command = command
        .arg(
            Arg::new("run-dir")
                .long("run-dir")
                .value_name("DIR")
                .help("Run directory to write [default: runs/DATE-NAME]")
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
            Arg::new("live")
                .long("live")
                .value_name("FILE")
                .help("During the run, write a CSV line to this file for each operation and interval")
                .help_heading("Output"),
        )
        .arg(
            Arg::new("quiet")
                .long("quiet")
                .short('q')
                .action(ArgAction::SetTrue)
                .help("Print no progress")
                .help_heading("Output"),
        );
    crate::export_to::flags(
        command,
        "During the run, the URL to send each interval and each sample of the counters to",
    )
}

/// Reads [`run_flags`].
pub(crate) fn options(matches: &ArgMatches) -> Result<Options, carry_out::Failure> {
    Ok(Options {
        run_dir: matches.get_one::<String>("run-dir").map(Into::into),
        json: matches.get_flag("json"),
        quiet: matches.get_flag("quiet"),
        live: matches.get_one::<String>("live").map(Into::into),
        export_to: crate::export_to::endpoint(matches)?,
    })
}

/// All values of an argument.
pub(crate) fn texts(matches: &ArgMatches, id: &str) -> Vec<String> {
    matches.get_many::<String>(id).map(|values| values.cloned().collect()).unwrap_or_default()
}

/// The level that an argument gives to a setting.
pub(crate) fn level_of(
    matches: &ArgMatches,
    id: &str,
    flag: &str,
    setting: &SettingInfo,
    problems: &mut Problems,
) -> Option<Level> {
    match setting.kind {
        SettingKind::Flag => {
            let is_stated = matches.value_source(id) == Some(ValueSource::CommandLine);
            matches.get_one(id).filter(|_| is_stated).map(|value| Level::Flag(*value))
        }
        kind if kind.takes_several() => {
            let values = texts(matches, id);
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            (!values.is_empty()).then(|| kind.list(&values))
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
        | SettingKind::Path(_)
        | SettingKind::Paths(_)
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
