//! The settings of an import, read.

use std::path::PathBuf;
use std::sync::Arc;

use engine::inputs::Inputs;
use model::{Choice, Key, Nanos, PathUse, Problems, Secret, SecretParts, SettingInfo, Settings};
use people::ATTRIBUTES;

use super::super::requests::{Mix, Requests};
use super::super::settings::{self, BindMethod, LdapPlan};
use crate::network::addresses::AddressChoice;
use crate::network::host::Permission;

model::choice! {
    /// What imports the entries.
    pub(super) enum Tool {
        /// OpenLDAP, while the server is stopped.
        Slapadd = "slapadd",
        /// 389 Directory Server, while the server is stopped.
        Ldif2db = "ldif2db",
        /// Add requests to a running server.
        Ldapadd = "ldapadd",
        /// Another program that reads an LDIF file.
        Command = "command",
    }
}

model::settings! {
    /// The settings.
    pub(super) static SETTINGS;

    static TOOL: Key<Tool> = Key::choice(
        "tool",
        "What imports: \"slapadd\" of OpenLDAP or \"ldif2db\" of 389 Directory Server, each into a new database; \"ldapadd\": add requests to the running server at `url`; or \"command\".",
    );

    static LDIF: Key<Option<String>> = Key::path(
        "ldif", PathUse::Command, "",
        "LDIF file with the entries. Without it, people are generated.",
    );

    static ENTRIES: Key<Option<u64>> = Key::count(
        "entries", 1..=1_000_000_000, "",
        "Number of people to generate, or of the first entries of `ldif` to import [default: all of the file].",
    );

    static ATTRIBUTE_COUNT: Key<u64> = Key::count(
        "attributes", 1..=ATTRIBUTES.len() as u64, "25",
        "Number of attributes of each generated person.",
    );

    static DIRECTORY: Key<String> = Key::path(
        "directory", PathUse::Command, ".",
        "Folder on the storage under test. The database is built in a new folder in it, which is removed afterwards.",
    );

    static SCHEMA: Key<Vec<String>> = Key::paths(
        "schema", PathUse::Command,
        "Schema files: for slapadd names of OpenLDAP's own or paths [default: core, cosine, inetorgperson], for ldif2db paths in addition to the server's own.",
    );

    static INDEX: Key<Vec<String>> = Key::texts(
        "index",
        "Attributes to index, such as \"uid, cn:eq+sub\" (without a type: eq), or \"none\". 389 Directory Server has about 30 indexes of its own besides.",
    );

    static QUICK: Key<bool> = Key::flag(
        "quick", "true",
        "slapadd -q: without checks and without a flush of the disk for each entry.",
    );

    static TOOL_THREADS: Key<Option<u64>> = Key::count(
        "tool_threads", 1..=256, "",
        "tool-threads of slapadd [default: 1, that of OpenLDAP].",
    );

    static IMPORT_CACHE: Key<Option<u64>> = Key::bytes(
        "import_cache", "",
        "Import cache of ldif2db, at least 512,000 bytes [default: the server's choice, about half of the free memory].",
    );

    static RESTART: Key<bool> = Key::flag(
        "restart", "true",
        "Start and stop 389 Directory Server once before the import. Until then, a new database has the smallest entry cache, 512,000 bytes.",
    );

    static PASS_ENTRIES: Key<Option<u64>> = Key::count(
        "pass_entries", 1..=1_000_000_000, "",
        "ldif2db -c: end a pass after this number of entries; the passes are merged at the end.",
    );

    static COMMAND: Key<Option<Secret>> = Key::command(
        "command",
        "Command line of another tool, run by the shell in the new folder. {ldif} is the path of the file. Its progress is how far it has read the file.",
    );

    static PREPARE: Key<Option<Secret>> = Key::command(
        "prepare",
        "Shell command before each import, in the same folder, for instance to empty the database. Not timed.",
    );

    static URL: Key<Option<String>> = Key::text(
        "url", "",
        "URL of the server for ldapadd: \"ldap://HOST[:PORT]\", ldaps, or ldapi with the percent-encoded path of a socket.",
    );

    static START_TLS: Key<bool> = Key::flag("start_tls", "false", "Begin TLS on each connection with StartTLS.");

    static BIND_DN: Key<Option<String>> = Key::text(
        "bind_dn", "",
        "Distinguished name that each connection of ldapadd binds as.",
    );

    static PASSWORD: Key<Option<Secret>> = Key::secret(
        "password", SecretParts::Whole,
        "Password of `bind_dn`. Write it as ${env:NAME}, ${file:PATH} or ${prompt:WORDS}.",
    );

    static BIND_METHOD: Key<BindMethod> = Key::choice(
        "bind_method",
        "\"external\": SASL EXTERNAL, with the identity of the client certificate or of the local socket.",
    );

    static CONNECTIONS: Key<u32> = Key::count(
        "connections", 1..=1024, "4",
        "Connections of ldapadd, each with one entry in flight. An entry waits until that above it was added.",
    );

    static ADD_TIMEOUT: Key<Nanos> = Key::time(
        "add_timeout", "60s",
        "Timeout of one entry of ldapadd: if it takes longer, it has failed.",
    );

    static CA: Key<Option<String>> = Key::path(
        "ca", PathUse::Input, "",
        "PEM file of the certificates that are trusted, for TLS: those of authorities, or that of the server itself. Default: the authorities that this host trusts.",
    );

    static CLIENT_CERTIFICATE: Key<Option<String>> = Key::path(
        "client_certificate", PathUse::Input, "",
        "PEM file of the certificate that the client presents to the server.",
    );

    static CLIENT_KEY: Key<Option<String>> = Key::path(
        "client_key", PathUse::Input, "",
        "PEM file of the private key of `client_certificate`.",
    );

    static INSECURE: Key<bool> = Key::flag(
        "insecure", "false",
        "Accept every certificate of a server: another host could answer in its place. The result says so. Trust a self-signed certificate with `ca` instead.",
    );

    static YES_I_MAY_LOAD: Key<Vec<String>> = Key::texts(
        "yes_i_may_load",
        "Hosts outside this network that may be loaded, as in the URL. Without it, only addresses of this host and of private networks are.",
    );

    static TIMEOUT: Key<Nanos> = Key::time(
        "timeout", "24h",
        "Timeout of an import: if it takes longer, it is stopped and the trial has failed.",
    );

    static STOP: Key<Nanos> = Key::time(
        "stop", "10s",
        "Time that the tool has to exit after SIGTERM, before it gets SIGKILL.",
    );
}

/// The server raises smaller ones without a word.
const IMPORT_CACHE_MIN: u64 = 512_000;

/// An index: the attribute and its types, such as `eq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) attribute: String,
    pub(super) types: Vec<String>,
}

/// Where the entries come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entries {
    /// The first of a file, or all.
    File(PathBuf, Option<u64>),
    /// So many people with so many attributes.
    People(u64, usize),
}

/// The settings of an import while the server is stopped.
#[derive(Clone, Debug)]
pub(super) struct OfflinePlan {
    pub(super) tool: Tool,
    pub(super) schema: Vec<String>,
    pub(super) indexes: Vec<Index>,
    pub(super) quick: bool,
    pub(super) tool_threads: Option<u64>,
    pub(super) import_cache_bytes: Option<u64>,
    pub(super) restart: bool,
    pub(super) pass_entries: Option<u64>,
    pub(super) command: Secret,
}

/// How the entries are imported.
pub(super) enum Way {
    Offline(OfflinePlan),
    Online(Box<LdapPlan>),
}

/// The settings, read.
pub(super) struct ImportPlan {
    pub(super) entries: Entries,
    pub(super) directory: PathBuf,
    pub(super) prepare: Option<Secret>,
    pub(super) timeout: Nanos,
    pub(super) stop: Nanos,
    pub(super) way: Way,
}

impl ImportPlan {
    /// Reads the settings; reports all mistakes.
    pub(super) fn read(settings: &Settings, inputs: &Inputs) -> Result<ImportPlan, Problems> {
        let mut problems = Problems::new();
        let tool = settings.get(&TOOL);
        misplaced(settings, tool, &mut problems);
        let entries = match (settings.get(&LDIF), settings.get(&ENTRIES)) {
            (Some(path), entries) => Some(Entries::File(path.into(), entries)),
            (None, Some(count)) => Some(Entries::People(count, settings.get(&ATTRIBUTE_COUNT) as usize)),
            (None, None) => {
                let what = "there is nothing to import";
                problems.add(
                    &[&*LDIF, &ENTRIES],
                    what,
                    "name an LDIF file, or set `entries` to generate people",
                );
                None
            }
        };
        if settings.given(&LDIF) && settings.given(&ATTRIBUTE_COUNT) {
            let what = "`attributes` is of generated people, and `ldif` is given";
            problems.add(&[&*ATTRIBUTE_COUNT, &LDIF], what, "leave one of them out");
        }
        let indexes = indexes(&settings.get(&INDEX), &mut problems);
        let timeout = settings.get(&TIMEOUT);
        if timeout == 0 {
            problems.add(&[&*TIMEOUT], "the timeout must be greater than 0", "such as \"2h\"");
        }
        if settings.get(&IMPORT_CACHE).is_some_and(|bytes| bytes < IMPORT_CACHE_MIN) {
            let what = "the import cache of 389 Directory Server has at least 512,000 bytes";
            problems.add(&[&*IMPORT_CACHE], what, "write more");
        }
        let command = settings.get(&COMMAND);
        if let (Tool::Command, None) = (tool, &command) {
            let what = "the tool \"command\" needs `command`";
            problems.add(&[&*COMMAND, &TOOL], what, "such as \"import-ldif --ldifFile {ldif}\"");
        }
        if let Some(command) = command.as_ref().filter(|command| !command.reveal().contains("{ldif}")) {
            let what = format!("`{command}` does not name the file to import");
            problems.add(&[&*COMMAND], what, "write {ldif} where the command has the file");
        }
        let way = match tool {
            Tool::Ldapadd => online(settings, inputs, &mut problems).map(|plan| Way::Online(Box::new(plan))),
            _ => Some(Way::Offline(OfflinePlan {
                tool,
                schema: words(&settings.get(&SCHEMA)),
                indexes,
                quick: settings.get(&QUICK),
                tool_threads: settings.get(&TOOL_THREADS),
                import_cache_bytes: settings.get(&IMPORT_CACHE),
                restart: settings.get(&RESTART),
                pass_entries: settings.get(&PASS_ENTRIES),
                command: command.unwrap_or_default(),
            })),
        };
        problems.or(())?;
        let (Some(entries), Some(way)) = (entries, way) else { return Err(Problems::new()) };
        Ok(ImportPlan {
            entries,
            directory: settings.get(&DIRECTORY).into(),
            prepare: settings.get(&PREPARE),
            timeout,
            stop: settings.get(&STOP),
            way,
        })
    }

    /// Whether everything is there that a trial needs. Changes nothing.
    pub(super) fn check(&self) -> Problems {
        let mut problems = Problems::new();
        if let Entries::File(path, _) = &self.entries
            && let Err(error) = std::fs::File::open(path)
        {
            problems.add(&[&*LDIF], format!("{}: {error}", path.display()), "");
        }
        if !self.directory.is_dir() {
            let what = format!("the folder `{}` does not exist", self.directory.display());
            problems.add(&[&*DIRECTORY], what, "create it, or name another one");
        }
        if let Way::Offline(plan) = &self.way {
            let (program, package) = match plan.tool {
                Tool::Slapadd => ("slapadd", "slapd"),
                Tool::Ldif2db => ("ns-slapd", "389-ds-base"),
                Tool::Ldapadd | Tool::Command => return problems,
            };
            if program_path(program).is_none() {
                let what = format!("there is no program `{program}`");
                problems.add(
                    &[&*TOOL],
                    what,
                    format!("install OpenLDAP or 389 Directory Server: apt-get install {package}"),
                );
            }
        }
        problems
    }
}

/// The tool that the settings name.
pub(super) fn tool(settings: &Settings) -> Tool {
    settings.get(&TOOL)
}

/// The path of a program of a server, which may be outside the search path of a user.
pub(super) fn program_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/usr/local/libexec"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| crate::is_program(&path.to_string_lossy()))
}

/// The words of a list; a text with commas is several. `none` is no word.
fn words(list: &[String]) -> Vec<String> {
    let words = list.iter().flat_map(|text| text.split(',')).map(str::trim);
    words.filter(|word| !word.is_empty() && *word != "none").map(String::from).collect()
}

fn indexes(list: &[String], problems: &mut Problems) -> Vec<Index> {
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.;".contains(&byte))
    };
    let mut indexes = Vec::new();
    for word in words(list) {
        let (attribute, types) = word.split_once(':').unwrap_or((&word, "eq"));
        let types: Vec<String> = types.split('+').map(|word| word.trim().to_string()).collect();
        if is_name(attribute) && types.iter().all(|word| is_name(word)) {
            indexes.push(Index { attribute: attribute.into(), types });
        } else {
            let what = format!("`{word}` is not an index");
            problems.add(
                &[&*INDEX],
                what,
                "write the attribute, such as \"uid\", or with its types \"cn:eq+sub\"",
            );
        }
    }
    indexes
}

fn online(given: &Settings, inputs: &Inputs, problems: &mut Problems) -> Option<LdapPlan> {
    let server = settings::server(given, problems);
    let identity = settings::identity(given, problems);
    let timeout = given.get(&ADD_TIMEOUT);
    if timeout == 0 {
        problems.add(&[&*ADD_TIMEOUT], "the timeout must be greater than 0", "such as \"60s\"");
    }
    let tls = settings::tls((given, inputs), server.as_ref(), problems);
    Some(LdapPlan {
        server: server?,
        identity,
        mix: Arc::new(Mix::single(Requests::of_records("entry", None))),
        connections: Some(given.get(&CONNECTIONS)),
        depth: Some(1),
        operations: None,
        timeout,
        expected: vec![0],
        threads: 1,
        tls,
        permission: Permission { may_load: given.get(&YES_I_MAY_LOAD), limits: None },
        // An entry is added where the one above it was.
        addresses: AddressChoice::First,
        url_line: given.line(URL.name),
    })
}

/// Reports settings that another tool has.
fn misplaced(settings: &Settings, tool: Tool, problems: &mut Problems) {
    use Tool::{Command, Ldapadd, Ldif2db, Slapadd};
    let of: [(&SettingInfo, &[Tool]); 21] = [
        (&SCHEMA, &[Slapadd, Ldif2db]),
        (&INDEX, &[Slapadd, Ldif2db]),
        (&QUICK, &[Slapadd]),
        (&TOOL_THREADS, &[Slapadd]),
        (&IMPORT_CACHE, &[Ldif2db]),
        (&RESTART, &[Ldif2db]),
        (&PASS_ENTRIES, &[Ldif2db]),
        (&COMMAND, &[Command]),
        (&PREPARE, &[Command, Ldapadd]),
        (&URL, &[Ldapadd]),
        (&START_TLS, &[Ldapadd]),
        (&BIND_DN, &[Ldapadd]),
        (&PASSWORD, &[Ldapadd]),
        (&BIND_METHOD, &[Ldapadd]),
        (&CONNECTIONS, &[Ldapadd]),
        (&ADD_TIMEOUT, &[Ldapadd]),
        (&CA, &[Ldapadd]),
        (&CLIENT_CERTIFICATE, &[Ldapadd]),
        (&CLIENT_KEY, &[Ldapadd]),
        (&INSECURE, &[Ldapadd]),
        (&YES_I_MAY_LOAD, &[Ldapadd]),
    ];
    for (setting, tools) in of {
        if settings.given(setting) && !tools.contains(&tool) {
            let words: Vec<&str> = tools.iter().map(Choice::word).collect();
            let what =
                format!("`{}` is of {}, and the tool is {}", setting.name, words.join(" and "), tool.word());
            let help = match (setting.name, tool) {
                ("import_cache", Slapadd) => {
                    "leave it out: OpenLDAP's database has no cache of its own; limit its memory with host.memory".into()
                }
                (name, _) => format!("leave `{name}` out"),
            };
            problems.add(&[setting, &TOOL], what, help);
        }
    }
}
