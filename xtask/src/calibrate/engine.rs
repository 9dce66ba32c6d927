//! The metadirectory as the system under test, through the workload `sync`. Nobody planted its limit: the truth is what the
//! rate does when the supposed cause is taken away, in the same experiment.
//!
//! A case first runs with few people, to learn how many make the judged step last long enough. Then the experiment measures
//! it as it is and with the cause taken away. Where that does not confirm the cause, as on a disk that ignores
//! flushes, nothing is known about the limit: such a case is counted apart, and its verdict is neither right nor wrong.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use super::host::free_ports;
use super::{Draw, Options, label};
use crate::fault::Fault;
use crate::program::{json, median};

/// What the metadirectory works with.
#[derive(Clone, Copy, PartialEq)]
enum System {
    /// Its store is a file of SQLite; nobody else takes part.
    Sqlite,
    /// The same, and slapd is what it exports to.
    Slapd,
    /// Its store is in PostgreSQL.
    PostgreSql,
}

/// What the rate does when the supposed cause is taken away.
#[derive(Clone, Copy)]
enum Truth {
    /// So many times the rate at least: the cause was the limit.
    Gains(f64),
    /// Less than so many times: what was taken away was not the limit.
    Stays(f64),
}

impl Truth {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Truth::Gains(least) => ratio >= least,
            Truth::Stays(most) => ratio < most,
        }
    }

    fn words(self) -> String {
        match self {
            Truth::Gains(least) => format!(">= {least}"),
            Truth::Stays(most) => format!("< {most}"),
        }
    }
}

/// A limit that is right, in the typed form of a verdict. What is not said may be anything.
struct Right {
    class: &'static str,
    process: Option<&'static str>,
    detail: Option<&'static str>,
}

impl Right {
    fn is(&self, resource: &Value) -> bool {
        resource["class"] == self.class
            && self.process.is_none_or(|process| resource["of"]["process"] == process)
            && self.detail.is_none_or(|detail| resource["detail"] == detail)
    }
}

/// A supposed cause: what is changed to remove it, and which verdicts are right when the rate does as expected.
struct Cause {
    factor: &'static str,
    level: &'static str,
    truth: Truth,
    right: &'static [Right],
}

const FLUSHES: Option<&str> = Some("flushes");
const DISK_OF_TARGET: Right = Right { class: "disk", process: Some("target"), detail: None };
const FLUSHES_OF_TARGET: Right = Right { class: "disk", process: Some("target"), detail: FLUSHES };
const FLUSHES_OF_METADIR: Right = Right { class: "disk", process: Some("metadir"), detail: FLUSHES };

/// slapd answers without flushing.
const SYNC_OF_SLAPD: &str = "target.config.sync";
/// The store does not wait until a commit is on the disk.
const DURABILITY: &str = "workload.durability";

/// A system with the truth about its limit.
struct Case {
    name: &'static str,
    system: System,
    /// The step that is judged, as the workload calls its objects.
    step: &'static str,
    /// Objects of a commit, from and to.
    commit_objects: (u64, u64),
    causes: &'static [Cause],
    /// Whether the verdict is proved too.
    prove: bool,
    /// People of the first run, from which is learned how many are needed.
    pilot_users: u64,
}

static CASES: &[Case] = &[
    Case {
        name: "staging-each",
        system: System::Sqlite,
        step: "staging",
        commit_objects: (1, 1),
        causes: &[Cause {
            factor: DURABILITY,
            level: "off",
            truth: Truth::Gains(2.0),
            right: &[FLUSHES_OF_METADIR],
        }],
        prove: false,
        pilot_users: 1500,
    },
    Case {
        name: "staging-batch",
        system: System::Sqlite,
        step: "staging",
        commit_objects: (8000, 10_000),
        causes: &[Cause {
            factor: DURABILITY,
            level: "off",
            truth: Truth::Stays(1.2),
            right: &[Right { class: "single_thread", process: Some("metadir"), detail: None }],
        }],
        prove: false,
        pilot_users: 200_000,
    },
    Case {
        name: "export-batch",
        system: System::Slapd,
        step: "export",
        commit_objects: (8000, 10_000),
        causes: &[Cause {
            factor: SYNC_OF_SLAPD,
            level: "on",
            truth: Truth::Gains(2.0),
            right: &[DISK_OF_TARGET],
        }],
        prove: false,
        pilot_users: 3000,
    },
    Case {
        name: "export-proved",
        system: System::Slapd,
        step: "export",
        commit_objects: (8000, 10_000),
        causes: &[Cause {
            factor: SYNC_OF_SLAPD,
            level: "on",
            truth: Truth::Gains(2.0),
            right: &[DISK_OF_TARGET, Right { class: "io_limit", process: None, detail: None }],
        }],
        prove: true,
        pilot_users: 3000,
    },
    // Each object waits for two flushes, that of slapd and that of the store: which of them is behind depends on the disk.
    Case {
        name: "export-each",
        system: System::Slapd,
        step: "export",
        commit_objects: (1, 1),
        causes: &[
            Cause {
                factor: SYNC_OF_SLAPD,
                level: "on",
                truth: Truth::Gains(1.3),
                right: &[DISK_OF_TARGET, Right { class: "downstream", process: None, detail: None }],
            },
            Cause {
                factor: DURABILITY,
                level: "off",
                truth: Truth::Gains(1.3),
                right: &[FLUSHES_OF_METADIR],
            },
        ],
        prove: false,
        pilot_users: 1000,
    },
    Case {
        name: "postgresql-each",
        system: System::PostgreSql,
        step: "staging",
        commit_objects: (1, 1),
        causes: &[Cause {
            factor: DURABILITY,
            // PostgreSQL answers before it flushes.
            level: "normal",
            truth: Truth::Gains(1.5),
            right: &[FLUSHES_OF_TARGET],
        }],
        prove: false,
        pilot_users: 1000,
    },
];

/// Seconds of work of the judged step in each trial of the baseline.
const WORK_S: f64 = 5.0;
/// The same that are aimed at, as the first run with few people is short.
const AIM_S: f64 = 8.0;
/// People of an experiment.
const USERS: (f64, f64) = (1000.0, 3e6);
/// The first of the numbers from which parameters are drawn: others than those of the planted cases.
const FIRST_DRAW: usize = 100;

/// What is drawn of a case and what it is run with.
struct Setup {
    name: String,
    seed: u64,
    attributes: usize,
    commit_objects: u64,
    port: u16,
}

/// What came of a case.
struct Outcome {
    /// The verdict about the step, and the one of the whole experiment, which a proof may have changed.
    verdicts: [Value; 2],
    /// The findings on which they rest.
    findings: Value,
    rate_per_s: f64,
    /// The rate with each of the causes removed.
    what_if_per_s: Vec<f64>,
    /// Time at work of the judged step in the shortest trial of the baseline.
    work_s: f64,
    /// Whether throughput was measured with less of the disk than was in force.
    disk_changed: bool,
}

impl Outcome {
    /// How many times the rate there is with each of the causes removed.
    fn ratios(&self) -> Vec<f64> {
        self.what_if_per_s.iter().map(|what_if| what_if / self.rate_per_s).collect()
    }

    /// The resources that a verdict names: one, or those of which it cannot say which is the limit alone.
    fn named<'a>(&'a self, verdict: &'a Value) -> Vec<&'a Value> {
        let several = verdict["reason"]["several_saturated"]["findings"].as_array();
        let places = several.into_iter().flatten().filter_map(Value::as_u64);
        let of_findings = places.map(|at| &self.findings[at as usize]["about"]);
        let one = Some(resource(verdict)).filter(|resource| !resource.is_null());
        one.into_iter().chain(of_findings).collect()
    }

    /// A verdict as the table shows it: what it names, else the label of the planted cases.
    fn shown_as(&self, verdict: &Value) -> String {
        let named: Vec<String> = self.named(verdict).into_iter().map(name_of).collect();
        if named.is_empty() { label(verdict) } else { named.join(" and ") }
    }

    /// The causes that this machine confirms.
    fn shown<'a>(&self, case: &'a Case) -> Vec<&'a Cause> {
        let both = case.causes.iter().zip(self.ratios());
        both.filter(|(cause, ratio)| cause.truth.holds(*ratio)).map(|(cause, _)| cause).collect()
    }

    fn is_right(&self, case: &Case) -> bool {
        let shown = self.shown(case);
        let is_right =
            |resource: &&Value| shown.iter().any(|cause| cause.right.iter().any(|right| right.is(resource)));
        let names_it = |verdict: &Value| {
            let named = self.named(verdict);
            !named.is_empty() && named.iter().all(is_right)
        };
        // A step, a configuration and the experiment must not contradict each other on one page.
        match case.prove {
            false => names_it(&self.verdicts[0]),
            true => self.verdicts.iter().all(names_it) && self.disk_changed,
        }
    }
}

/// What the cases are called.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs the cases, or judges those of a folder of records once more.
pub(super) fn run(program: &Path, folder: &Path, options: &Options) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut score = Score::default();
    let chosen = || CASES.iter().enumerate().filter(|(_, case)| options.wants(case.name));
    if chosen().next().is_some() {
        println!(
            "{:<16} {:>4}  {:<30} {:<9} {:<6} {:>9} {:>11} {:>11} {:>13}  {:<15} {:>6} {:>5}  drawn",
            "case",
            "seed",
            "verdict",
            "",
            "",
            "rate/s",
            "what-if/s",
            "ratio",
            "expected",
            "truth",
            "work s",
            "s"
        );
    }
    for seed in options.seeds.clone() {
        for (at, case) in chosen() {
            let name = format!("{}-{seed}", case.name);
            let mut draw = Draw::new(seed, FIRST_DRAW + at);
            let begin = Instant::now();
            let outcome = Setup::draw(case, name.clone(), seed, &mut draw).and_then(|setup| {
                let outcome = match &options.from {
                    Some(records) if !records.join(&name).exists() => return Ok(None),
                    Some(records) => {
                        json(program, &["explain", &name, "--json"].map(str::to_string), records)?
                    }
                    None => run_case(program, folder, case, &setup)?,
                };
                Ok(Some((judge(case, &outcome)?, setup)))
            });
            match outcome {
                Ok(None) => {}
                Ok(Some((outcome, setup))) => {
                    print_row(case, &setup, &outcome, begin.elapsed().as_secs_f64());
                    faults.extend(score.count(case, &name, &outcome));
                }
                // One that could not be run must not cost the others.
                Err(why) => {
                    println!("{name}: {why}");
                    faults.push(Fault::new("make calibrate", name, why));
                }
            }
        }
    }
    if score.cases > 0 {
        score.print();
    }
    faults
}

/// The totals.
#[derive(Default)]
struct Score {
    cases: usize,
    right: usize,
    truth_not_shown: usize,
}

impl Score {
    fn count(&mut self, case: &Case, name: &str, outcome: &Outcome) -> Option<Fault> {
        self.cases += 1;
        if outcome.work_s < WORK_S {
            let what = format!("the step was at work for {:.1} s only", outcome.work_s);
            return Some(Fault::new("make calibrate", name, what));
        }
        if outcome.shown(case).is_empty() {
            self.truth_not_shown += 1;
            return None;
        }
        let is_right = outcome.is_right(case);
        self.right += usize::from(is_right);
        let wrong = || {
            let said: Vec<String> =
                outcome.verdicts.iter().map(|verdict| outcome.shown_as(verdict)).collect();
            let what = format!("{name}: {}", said.join(", "));
            let unchanged =
                if case.prove && !outcome.disk_changed { "; the proof did not change the disk" } else { "" };
            let text = outcome.verdicts[1]["text"].as_str().unwrap_or_default();
            Fault::new("make calibrate", what, format!("{}{unchanged}; {text}", right_of(case)))
        };
        (!is_right).then(wrong)
    }

    fn print(&self) {
        let known = self.cases - self.truth_not_shown;
        println!(
            "{} cases of the metadirectory: right {} of {known} whose truth is shown here; truth not shown here {}",
            self.cases, self.right, self.truth_not_shown
        );
    }
}

fn right_of(case: &Case) -> String {
    let words = |right: &Right| {
        let of = right.process.map_or_else(String::new, |process| format!(" of {process}"));
        let detail = right.detail.map_or_else(String::new, |detail| format!(" ({detail})"));
        format!("{}{of}{detail}", right.class)
    };
    let all: Vec<String> = case.causes.iter().flat_map(|cause| cause.right).map(words).collect();
    format!("right is {}", all.join(" or "))
}

fn print_row(case: &Case, setup: &Setup, outcome: &Outcome, seconds: f64) {
    let holds = !outcome.shown(case).is_empty();
    let joined = |parts: Vec<String>| parts.join("/");
    let [step, whole] = &outcome.verdicts;
    let (step, whole) = (outcome.shown_as(step), outcome.shown_as(whole));
    let verdict = if step == whole { step } else { format!("{step}; {whole}") };
    println!(
        "{:<16} {:>4}  {:<30} {:<9} {:<6} {:>9.0} {:>11} {:>11} {:>13}  {:<15} {:>6.1} {:>5.0}  {} attributes, {} a commit",
        case.name,
        setup.seed,
        verdict,
        if outcome.verdicts[1]["proved"] == true { "proved" } else { "observed" },
        match () {
            () if !holds => "-",
            () if outcome.is_right(case) => "right",
            () => "WRONG",
        },
        outcome.rate_per_s,
        joined(outcome.what_if_per_s.iter().map(|rate| format!("{rate:.0}")).collect()),
        joined(outcome.ratios().iter().map(|ratio| format!("{ratio:.2}")).collect()),
        joined(case.causes.iter().map(|cause| cause.truth.words()).collect()),
        if holds { "shown here" } else { "not shown here" },
        outcome.work_s,
        seconds,
        setup.attributes,
        setup.commit_objects,
    );
}

/// The one resource that a verdict names.
fn resource(verdict: &Value) -> &Value {
    &verdict["limit"]["one"]["resource"]
}

/// A resource as the table shows it, with whose it is.
fn name_of(resource: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_string);
    let of = ["process", "device", "setting"].iter().find_map(|kind| text(&resource["of"][*kind]));
    let of = of.map_or_else(String::new, |of| format!(" of {of}"));
    let detail = text(&resource["detail"]).map_or_else(String::new, |detail| format!(" ({detail})"));
    format!("{}{of}{detail}", text(&resource["class"]).unwrap_or_default())
}

/// What the program says of the record of a case.
fn judge(case: &Case, document: &Value) -> Result<Outcome, String> {
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let configurations = all(&document["configurations"]);
    let baseline = configurations.iter().find(|one| one["treatment"]["label"] == "baseline");
    let baseline = baseline.ok_or_else(|| format!("no baseline was measured: {}", document["trials"]))?;
    let steps = all(&baseline["steps"]);
    let of_step = steps.iter().find(|step| step["operation"] == case.step).map(|step| &step["verdict"]);
    let whole = &document["verdict"];
    let of_step =
        [of_step, Some(&baseline["verdict"])].into_iter().flatten().find(|verdict| !verdict.is_null());
    let trials = all(&document["trials"]);
    // The step in each trial that completed with no change, or with that one.
    let steps_of = |factor: Option<&str>| -> Vec<(f64, f64)> {
        let completed = trials.iter().filter(|trial| trial["ending"] == "completed");
        let chosen = completed.filter(|trial| match all(&trial["treatment"]["changes"]).as_slice() {
            [] => factor.is_none(),
            [change] => factor.is_some_and(|factor| change["factor"] == factor),
            _ => false,
        });
        let steps = chosen.filter_map(|trial| {
            let step = trial["operations"].as_array()?.iter().find(|one| one["name"] == case.step)?;
            Some((step["rate_per_s"].as_f64()?, step["busy_s"].as_f64()?))
        });
        steps.collect()
    };
    let as_it_is = steps_of(None);
    let rate = |steps: &[(f64, f64)]| median(&steps.iter().map(|(rate, _)| *rate).collect::<Vec<f64>>());
    let proof = all(&document["proof"]["rows"]);
    let disk_changed = proof.iter().any(|row| row["resource"] == "disk" && row["rounds"].as_u64() > Some(0));
    Ok(Outcome {
        verdicts: [of_step.unwrap_or(whole).clone(), whole.clone()],
        findings: document["findings"].clone(),
        rate_per_s: rate(&as_it_is),
        what_if_per_s: case.causes.iter().map(|cause| rate(&steps_of(Some(cause.factor)))).collect(),
        work_s: as_it_is.iter().map(|(_, work_s)| *work_s).fold(f64::INFINITY, f64::min),
        disk_changed,
    })
}

/// Runs the experiment of a case: the document that the program prints of it.
fn run_case(program: &Path, folder: &Path, case: &Case, setup: &Setup) -> Result<Value, String> {
    case.system.write_files(folder, setup)?;
    let run = |name: &str, text: String| {
        let path = folder.join(format!("{name}.toml"));
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = format!("{name}.toml");
        // With processes of its own: of another metadirectory on this machine the counters would be added to those of this one.
        let apart = ["--pid", "--fork", "--kill-child", "--mount-proc"];
        let command = [&program.display().to_string(), "run", &file, "--json", "--quiet", "--run-dir", name];
        let arguments: Vec<String> = apart.iter().chain(&command).map(ToString::to_string).collect();
        json(Path::new("unshare"), &arguments, folder)
    };
    let name = format!("{}-pilot", setup.name);
    let pilot = run(&name, experiment(case, setup, &name, &Stage::Pilot, folder)?)?;
    let operations = pilot["trials"][0]["operations"].as_array();
    let step = operations.and_then(|all| all.iter().find(|one| one["name"] == case.step));
    let rate_per_s = step.and_then(|step| step["rate_per_s"].as_f64()).filter(|rate| *rate > 0.0);
    let rate_per_s = rate_per_s.ok_or_else(|| {
        format!("the run with {} people did not end: {}", case.pilot_users, pilot["trials"][0]["ending"])
    })?;
    let writes_per_s = beside(&pilot, DISK_WRITES);
    let mut users = rate_per_s * AIM_S;
    loop {
        let rounded = users.clamp(USERS.0, USERS.1) as u64;
        let stage = Stage::Measured { users: rounded, writes_per_s };
        let document = run(&setup.name, experiment(case, setup, &setup.name, &stage, folder)?)?;
        let work_s = judge(case, &document)?.work_s;
        // Short because a disk or a machine was busier during the first run.
        if work_s >= WORK_S
            || work_s.is_nan()
            || work_s <= 0.0
            || users >= USERS.1
            || users > 4.0 * rate_per_s * AIM_S
        {
            return Ok(document);
        }
        users *= AIM_S / work_s;
        let record = folder.join(&setup.name);
        std::fs::remove_dir_all(&record).map_err(|error| format!("{}: {error}", record.display()))?;
    }
}

/// Writes of the target's control group, which a limit on them counts.
const DISK_WRITES: &str = "process.disk_writes_per_s";

/// A counter that the experiment requested, of its first configuration.
fn beside(document: &Value, metric: &str) -> Option<f64> {
    let rows = document["beside"].as_array()?;
    let row = rows.iter().find(|row| row["metric"] == metric && row["instance"] == "target")?;
    row["measured"][0]["value"].as_f64()
}

/// The two runs of a case.
enum Stage {
    /// With few people, once.
    Pilot,
    Measured {
        users: u64,
        /// What the target's group writes to the disk when nothing holds it back, where it is counted.
        writes_per_s: Option<f64>,
    },
}

/// Attributes of a person, as the source calls them and as a directory does.
const ATTRIBUTES: [(&str, &str); 22] = [
    ("employeeNumber", "employeeNumber"),
    ("uid", "uid"),
    ("givenName", "givenName"),
    ("sn", "sn"),
    ("displayName", "cn"),
    ("mail", "mail"),
    ("title", "title"),
    ("department", "ou"),
    ("l", "l"),
    ("telephoneNumber", "telephoneNumber"),
    ("mobile", "mobile"),
    ("initials", "initials"),
    ("departmentNumber", "departmentNumber"),
    ("company", "o"),
    ("employeeType", "employeeType"),
    ("street", "street"),
    ("st", "st"),
    ("postalCode", "postalCode"),
    ("roomNumber", "roomNumber"),
    ("preferredLanguage", "preferredLanguage"),
    ("description", "description"),
    ("businessCategory", "businessCategory"),
];

impl Setup {
    fn draw(case: &Case, name: String, seed: u64, draw: &mut Draw) -> Result<Setup, String> {
        Ok(Setup {
            name,
            seed,
            attributes: draw.whole(12, ATTRIBUTES.len() as u64) as usize,
            commit_objects: draw.whole(case.commit_objects.0, case.commit_objects.1),
            port: free_ports()?[0],
        })
    }

    fn attributes(&self) -> &'static [(&'static str, &'static str)] {
        &ATTRIBUTES[..self.attributes]
    }
}

impl System {
    /// Files beside the experiment.
    fn write_files(self, folder: &Path, setup: &Setup) -> Result<(), String> {
        if self != System::Slapd {
            return Ok(());
        }
        let Setup { name, .. } = setup;
        let write = |path: PathBuf, text: String| {
            std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        let config = format!(
            "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\n\
             include /etc/ldap/schema/inetorgperson.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n\
             database mdb\nsuffix \"{SUFFIX}\"\nrootdn \"{ROOT_DN}\"\nrootpw {ROOT_PASSWORD}\n\
             directory {}\nmaxsize 34359738368\ndbnosync off\nindex objectClass,uid eq\n",
            folder.join(format!("{name}-slapd")).display()
        );
        let entries = format!(
            "dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n\n\
             dn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\nou: people\n"
        );
        write(folder.join(format!("{name}.slapd.conf")), config)?;
        write(folder.join(format!("{name}.ldif")), entries)
    }

    /// The system under test, where it is not the metadirectory alone: a server that begins empty in each trial.
    fn target(self, setup: &Setup) -> Result<String, String> {
        let Setup { name, port, .. } = setup;
        let start = match self {
            System::Sqlite => return Ok(String::new()),
            System::Slapd => format!(
                "set -eu; umask 077; PATH=$PATH:/usr/sbin:/sbin\nrm -rf {name}-slapd; mkdir {name}-slapd\n\
                 slapd -T add -q -f {name}.slapd.conf -l {name}.ldif\n\
                 exec slapd -d 0 -h ldap://127.0.0.1:{port} -f {name}.slapd.conf"
            ),
            // It refuses to run as root, and an unprivileged user cannot enter every folder.
            System::PostgreSql => format!(
                "set -eu; umask 077; folder=$(mktemp -d -p /var/tmp); server=\n\
                 trap 'test -z \"$server\" || {{ kill -INT $server; wait $server || :; }}; rm -rf \"$folder\"' EXIT\n\
                 trap 'exit 0' TERM INT\n\
                 as=; if [ \"$(id -u)\" -eq 0 ]; then chown postgres \"$folder\"; as='setpriv --reuid=postgres --regid=postgres --clear-groups'; fi\n\
                 cd \"$folder\"\n\
                 $as {programs}/initdb --no-sync --auth=trust --username=plimsoll --encoding=UTF8 --locale=C --pgdata \"$folder/data\"\n\
                 $as {programs}/postgres -D \"$folder/data\" -k \"$folder\" -c listen_addresses=127.0.0.1 -c port={port} & server=$!\n\
                 wait $server",
                programs = postgresql_programs()?.display()
            ),
        };
        Ok(format!(
            "[target]\nshell = true\nstart = '''\n{}\n'''\nready = \"tcp://127.0.0.1:{port}\"\nrestart = \"each-trial\"\n\n",
            // A literal text of TOML holds single quotes, three in a row excepted.
            start
        ))
    }

    /// What each trial begins with, before the clock starts.
    fn prepare(self, setup: &Setup) -> Result<String, String> {
        let Setup { seed, port, .. } = setup;
        // All that this number holds; flows take the first of them.
        let make = format!(
            "set -eu\nrm -f metadirectory.db*\n\
             [ -e staff.csv ] || plimsoll generate people --count {{users}} --seed {} --quiet --output staff.csv\n",
            seed + 1
        );
        Ok(match self {
            System::Sqlite => make,
            System::Slapd => format!(
                "{make}umask 077; printf %s {ROOT_PASSWORD} > password\n\
                 sed 's/^commit_objects = .*/commit_objects = 10000/' metadirectory.toml > prepare.toml\n\
                 plimsoll metadir run staff full-import --config prepare.toml\n\
                 plimsoll metadir run staff full-synchronization --config prepare.toml\n"
            ),
            System::PostgreSql => format!(
                "{make}tries=0\nuntil {}/pg_isready --quiet --host 127.0.0.1 --port {port}; do\n  \
                 tries=$((tries + 1)); [ $tries -lt 200 ]; sleep 0.05\ndone\n",
                postgresql_programs()?.display()
            ),
        })
    }
}

const SUFFIX: &str = "dc=example,dc=com";
const ROOT_DN: &str = "cn=admin,dc=example,dc=com";
const ROOT_PASSWORD: &str = "secret";

/// Debian has the programs of the server in a folder for each version: that of the newest.
fn postgresql_programs() -> Result<PathBuf, String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.filter_map(|version| {
        let number: u32 = version.file_name().to_str()?.parse().ok()?;
        Some((number, version.path().join("bin"))).filter(|(_, folder)| folder.join("initdb").exists())
    });
    let newest = folders.max().map(|(_, folder)| folder);
    newest.ok_or_else(|| "needs PostgreSQL (apt-get install postgresql)".to_string())
}

fn experiment(
    case: &Case,
    setup: &Setup,
    name: &str,
    stage: &Stage,
    folder: &Path,
) -> Result<String, String> {
    let Case { system, step, .. } = case;
    let users = match stage {
        Stage::Pilot => case.pilot_users,
        Stage::Measured { users, .. } => *users,
    };
    let is_pilot = matches!(stage, Stage::Pilot);
    let run = match *step {
        "export" => "directory export",
        _ => "staff full-import",
    };
    let mut text = format!(
        "name = \"{name}\"\nseed = {}\nwatch = [\"host\", \"process:self\", \"process:metadir\"]\nsample_every = \"100ms\"\n\
         replicates = {}\nprove = {}\nshow = [\"{DISK_WRITES}\"]\n\n{}",
        setup.seed + 1,
        if is_pilot { 1 } else { 2 },
        case.prove && !is_pilot,
        system.target(setup)?,
    );
    let _ = write!(
        text,
        "[workload.sync]\nrun = \"{run}\"\ndirectory = \"{name}-data\"\nusers = {users}\ncommit_objects = {}\n\
         durability = \"full\"\nprepare = '''\n{}'''\ntemplate = '''\n{}'''\n\n\
         [load]\nmeasure = \"until-done\"\ninterval = \"100ms\"\n",
        setup.commit_objects,
        system.prepare(setup)?,
        template(*system, setup),
    );
    let Stage::Measured { writes_per_s, .. } = stage else {
        if case.prove {
            // Far beyond what a disk does: what slapd writes is counted for a control group with a limit.
            text.push_str("\n[vary]\n\"host.disk.io_limit\" = { baseline = \"write 10000000/s\", levels = [\"unlimited\"] }\n");
        }
        return Ok(text);
    };
    text.push_str("\n[vary]\n");
    for Cause { factor, level, .. } in case.causes {
        let _ = match *factor {
            SYNC_OF_SLAPD => writeln!(
                text,
                "\"{factor}\" = {{ on = \"{}\", pattern = '^dbnosync\\s+(\\w+)', levels = [\"{level}\"] }}",
                folder.join(format!("{}.slapd.conf", setup.name)).display()
            ),
            _ => writeln!(text, "\"{factor}\" = {{ baseline = \"full\", levels = [\"{level}\"] }}"),
        };
    }
    if case.prove {
        // What slapd writes anyway: the limit takes nothing away, and a share of it is a share of the disk as slapd uses it.
        let writes =
            writes_per_s.ok_or("what slapd writes to the disk is not counted for its control group")?;
        let _ = writeln!(
            text,
            "\"host.disk.io_limit\" = {{ baseline = \"write {:.0}/s\", levels = [\"unlimited\"] }}",
            writes
        );
    }
    Ok(text)
}

/// The configuration of the metadirectory.
fn template(system: System, setup: &Setup) -> String {
    let attributes = setup.attributes();
    let listed = |each: &dyn Fn(&(&str, &str)) -> String| {
        let all: Vec<String> = attributes.iter().map(each).collect();
        all.join(", ")
    };
    let store = match system {
        System::PostgreSql => {
            format!("postgres = \"host=127.0.0.1 port={} user=plimsoll dbname=postgres\"", setup.port)
        }
        System::Sqlite | System::Slapd => "sqlite = \"metadirectory.db\"".to_string(),
    };
    let mut text = format!(
        "[store]\n{store}\ndurability = \"{{durability}}\"\ncommit_objects = {{commit_objects}}\n\n\
         [metaverse.person]\nattributes = {{ {} }}\ndeleted_with = \"staff\"\n\n\
         [agents.staff]\ntype = \"delimited\"\npath = \"staff.csv\"\nanchor = \"employeeNumber\"\n\n\
         [[inbound]]\nagent = \"staff\"\nto = \"person\"\n\
         join = [{{ cs = \"employeeNumber\", mv = \"employeeNumber\" }}]\nproject = true\nflow = {{ {} }}\n",
        listed(&|(name, _)| format!("{name} = \"text\"")),
        listed(&|(name, _)| format!("{name} = \"{name}\"")),
    );
    if system == System::Slapd {
        let _ = write!(
            text,
            "\n[agents.directory]\ntype = \"ldap\"\nurl = \"ldap://127.0.0.1:{}\"\nbind_dn = \"{ROOT_DN}\"\n\
             password_file = \"password\"\nbase = \"ou=people,{SUFFIX}\"\nfilter = \"(objectClass=inetOrgPerson)\"\n\
             anchor = \"employeeNumber\"\nattributes = [\"objectClass\", {}]\n\n\
             [[outbound]]\nagent = \"directory\"\nfrom = \"person\"\ndn = \"rdn('uid', mv.uid) + ',ou=people,{SUFFIX}'\"\n\
             [outbound.flow]\nobjectClass = {{ constant = [\"top\", \"person\", \"organizationalPerson\", \"inetOrgPerson\"] }}\n",
            setup.port,
            listed(&|(_, ldap)| format!("\"{ldap}\"")),
        );
        for (name, ldap) in attributes {
            let _ = writeln!(text, "{ldap} = \"{name}\"");
        }
    }
    text
}
