//! The settings of the LDAP workload, read.

use std::path::Path;
use std::sync::Arc;

use engine::inputs::Inputs;
use engine::workload::OPERATIONS_MAX;
use ldap::ResultCode;
use ldap::message::Scope;
use ldap::session::{Security, Server};
use model::{Choice, Key, Nanos, PathUse, Problem, Problems, Secret, SecretParts, SettingInfo, Settings};

use super::requests::{self, Mix, Requests};
use super::{RequestPart, operations};
use crate::network::addresses::{self, AddressChoice};
use crate::network::host::Permission;
use crate::network::tls::{TlsKeys, TlsPlan};
use crate::template;
use crate::template::data::{DATA_BYTES_MAX, DataSet, Order};

model::choice! {
    /// What one operation does.
    pub(super) enum Kind {
        Search = "search",
        Modify = "modify",
        Add = "add",
        Delete = "delete",
        Compare = "compare",
        /// A bind on a connection that is open.
        Bind = "bind",
        /// Connect, bind, search, unbind.
        Login = "login",
        /// Those of a file, by their weights.
        Mixed = "mixed",
    }
}

model::choice! {
    /// The scope of a search.
    enum ScopeWord {
        Subtree = "sub",
        OneLevel = "one",
        Base = "base",
        Subordinates = "children",
    }
}

model::choice! {
    /// How connections authenticate.
    pub(super) enum BindMethod {
        Simple = "simple",
        External = "external",
    }
}

/// The names of all operations there can be: first in the order of the kinds, then the parts of each.
#[rustfmt::skip]
pub(super) static OPERATIONS: &[&str] = &[
    "search", "modify", "add", "delete", "compare", "bind", "login",
    "search:connect", "search:tls", "search:bind", "search:first_entry",
    "modify:connect", "modify:tls", "modify:bind",
    "add:connect", "add:tls", "add:bind",
    "delete:connect", "delete:tls", "delete:bind",
    "compare:connect", "compare:tls", "compare:bind",
    "bind:connect", "bind:tls",
    "login:connect", "login:tls", "login:bind", "login:first_entry",
];

model::settings! {
    /// The settings.
    pub(super) static SETTINGS;

    static OPERATION: Key<Kind> = Key::choice(
        "operation",
        "Operation to repeat. \"bind\" authenticates repeatedly on open connections, \"login\" connects, binds, searches and unbinds, and \"mixed\" chooses among the operations of the file `from`.",
    );

    static FROM: Key<Option<String>> = Key::path(
        "from", PathUse::Input, "",
        "File with several operations and their weights (TOML), for \"mixed\": tables [[operation]] with `weight`, `name` and the settings of an operation.",
    );

    pub(super) static URL: Key<Option<String>> = Key::text(
        "url", "",
        "URL of the server: \"ldap://HOST[:PORT]\", ldaps, or ldapi with the percent-encoded path of a socket.",
    );

    static START_TLS: Key<bool> = Key::flag(
        "start_tls", "false",
        "Begin TLS on each connection with StartTLS.",
    );

    static BIND_DN: Key<Option<String>> = Key::text(
        "bind_dn", "",
        "Distinguished name that each connection binds as before its operations. Without it, they are anonymous.",
    );

    static PASSWORD: Key<Option<Secret>> = Key::secret(
        "password", SecretParts::Whole,
        "Password of `bind_dn`. Write it as ${env:NAME}, ${file:PATH} or ${prompt:WORDS}.",
    );

    static BIND_METHOD: Key<BindMethod> = Key::choice(
        "bind_method",
        "\"external\": SASL EXTERNAL, with the identity of the client certificate or of the local socket, instead of `bind_dn` and `password`.",
    );

    static BASE: Key<Option<String>> = Key::text(
        "base", "",
        "Base of a search, such as \"dc=example,dc=com\" [default: the first naming context of the server]. Here and in the next five settings, ${random(1, 1000)}, ${zipf(1, 1000)}, ${sequence(1, 1000)}, ${number}, ${uuid} and ${DATA.COLUMN} are replaced by values that differ between operations.",
    );

    static SCOPE: Key<ScopeWord> = Key::choice("scope", "Scope of a search.");

    static FILTER: Key<Option<Secret>> = Key::secret(
        "filter", SecretParts::Pairs,
        "Filter of a search (RFC 4515), such as \"(uid=user.${random(0, 99999)})\" [default: (objectClass=*)].",
    );

    static ATTRIBUTES: Key<Vec<String>> = Key::texts(
        "attributes",
        "Attributes that a search requests. Default: all user attributes; \"1.1\" for none.",
    );

    static SIZE_LIMIT: Key<u32> = Key::count(
        "size_limit", 0..=1_000_000, "0",
        "Most entries of a search, as the client requests it; 0 for no limit.",
    );

    static DN: Key<Option<String>> = Key::text(
        "dn", "",
        "Entry to modify, add, delete, compare or bind as, such as \"uid=user.${random(0, 99999)},ou=people,dc=example,dc=com\".",
    );

    static CHANGE: Key<Vec<Secret>> = Key::secrets(
        "change", SecretParts::Attribute,
        "Change of a modify operation: \"replace description: ${random(1, 1000)}\", or add, delete or increment. Several of the same attribute are one change with several values.",
    );

    static ATTRIBUTE: Key<Vec<Secret>> = Key::secrets(
        "attribute", SecretParts::Attribute,
        "Attribute value of an entry to add: \"sn: Smith\". For compare: the one to compare with.",
    );

    static DN_PASSWORD: Key<Option<Secret>> = Key::secret(
        "dn_password", SecretParts::Whole,
        "Password of `dn`, for bind and login. It may contain values, as `base`.",
    );

    static LDIF: Key<Option<String>> = Key::path(
        "ldif", PathUse::Input, "",
        "LDIF file with one record, in which the values differ as in `base`: an entry to add, or a change. It replaces `dn`, `change` and `attribute`.",
    );

    static DATA: Key<Vec<String>> = Key::paths(
        "data", PathUse::Input,
        "CSV file for ${NAME.COLUMN}: \"NAME=FILE\". Its first line has the names of the columns.",
    );

    static DATA_ORDER: Key<Order> = Key::choice(
        "data_order",
        "Which row of a data file an operation gets: row n for operation n, a random row, or row n for user n.",
    );

    static CONNECTIONS: Key<Option<u32>> = Key::count(
        "connections", 1..=65_536, "",
        "Connections, over all threads; they are opened and bound before the load begins. Default: as many as operations in flight divided by `depth`; in an open loop 16.",
    );

    static DEPTH: Key<Option<u32>> = Key::count(
        "depth", 1..=1024, "",
        "Most operations in flight on one connection: more than 1 sends requests without waiting for earlier ones. Default: 1; in an open loop 64.",
    );

    static TIMEOUT: Key<Nanos> = Key::time(
        "timeout", "10s",
        "Timeout of an operation: if it takes longer, it has failed, and is abandoned.",
    );

    static TOTAL: Key<Option<u64>> = Key::count(
        "operations", 1..=1_000_000_000_000, "",
        "Stop after this many operations in total, warm-up included. None runs for the measured time.",
    );

    static EXPECT_RESULT: Key<Vec<String>> = Key::texts(
        "expect_result",
        "Result codes that count as success besides success, compareTrue and compareFalse, such as \"noSuchObject\" or \"32\".",
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

    static ADDRESSES: Key<AddressChoice> = Key::choice("addresses", addresses::ABOUT);

    static YES_I_MAY_LOAD: Key<Vec<String>> = Key::texts(
        "yes_i_may_load",
        "Hosts outside this network that may be loaded, as in the URL. Without it, only addresses of this host and of private networks are.",
    );

    static THREADS: Key<u32> = Key::count(
        "threads", 1..=256, "1",
        "Number of worker threads, each with its own connections.",
    );
}

/// The settings of one operation, which a file of operations has for each.
pub(super) static OF_OPERATIONS: [&SettingInfo; 11] = [
    &OPERATION.info,
    &BASE.info,
    &SCOPE.info,
    &FILTER.info,
    &ATTRIBUTES.info,
    &SIZE_LIMIT.info,
    &DN.info,
    &CHANGE.info,
    &ATTRIBUTE.info,
    &DN_PASSWORD.info,
    &LDIF.info,
];

/// How the connections of operations authenticate.
#[derive(Clone, PartialEq)]
pub(super) enum Identity {
    Anonymous,
    Simple { dn: String, password: Secret },
    External,
}

/// The settings, read.
#[derive(Clone)]
pub(super) struct LdapPlan {
    pub(super) server: Server,
    pub(super) identity: Identity,
    pub(super) mix: Arc<Mix>,
    pub(super) connections: Option<u32>,
    pub(super) depth: Option<u32>,
    pub(super) timeout: Nanos,
    /// Number of operations after which the load ends.
    pub(super) operations: Option<u64>,
    /// Numbers of result codes that count as success.
    pub(super) expected: Vec<u32>,
    pub(super) threads: u32,
    pub(super) tls: TlsPlan,
    /// What the load may reach.
    pub(super) permission: Permission,
    /// Which addresses of a name get connections.
    pub(super) addresses: AddressChoice,
    /// The line of `url` in the experiment file.
    pub(super) url_line: u32,
}

impl LdapPlan {
    /// Reads the settings; reports all mistakes.
    /// Searches without a base begin at this one.
    pub(super) fn read(settings: &Settings, base: &str, inputs: &Inputs) -> Result<LdapPlan, Problems> {
        let mut problems = Problems::new();
        let server = server(settings, &mut problems);
        let identity = identity(settings, &mut problems);
        let kind = settings.get(&OPERATION);
        let data = Arc::new(data(settings, inputs, &mut problems));
        let mix = match kind {
            Kind::Mixed => mixed((settings, inputs), base, &data, &mut problems),
            kind => {
                misplaced(settings, kind, &mut problems);
                request((settings, inputs), kind, base, &data, &mut problems).map(Mix::single)
            }
        };
        let expected = expected(settings, &mut problems);
        let timeout = settings.get(&TIMEOUT);
        if timeout == 0 {
            problems.add(&[&*TIMEOUT], "the timeout must be greater than 0", "such as \"10s\"");
        }
        let (connections, threads) = (settings.get(&CONNECTIONS), settings.get(&THREADS));
        if let Some(connections) = connections.filter(|connections| *connections < threads) {
            let what = format!("{connections} connections cannot be shared by {threads} threads");
            problems.add(&[&*CONNECTIONS], what, "write at least as many connections as threads");
        }
        let depth = settings.get(&DEPTH);
        if matches!(kind, Kind::Bind | Kind::Login) && depth.is_some_and(|depth| depth > 1) {
            let what = format!("a connection takes one {} at a time", kind.word());
            problems.add(&[&*DEPTH], what, "leave `depth` out, and use more connections");
        }
        let tls = tls((settings, inputs), server.as_ref(), &mut problems);
        problems.or(())?;
        let (Some(server), Some(mix)) = (server, mix) else { return Err(Problems::new()) };
        Ok(LdapPlan {
            server,
            identity,
            mix: Arc::new(mix),
            connections,
            depth,
            timeout,
            operations: settings.get(&TOTAL),
            expected,
            threads,
            tls,
            permission: Permission { may_load: settings.get(&YES_I_MAY_LOAD), limits: None },
            addresses: settings.get(&ADDRESSES),
            url_line: settings.line(URL.name),
        })
    }
}

pub(super) fn server(settings: &Settings, problems: &mut Problems) -> Option<Server> {
    let example = "url = \"ldap://127.0.0.1:389\"";
    let Some(text) = settings.get(&URL) else {
        problems.add(&[&*URL], "the URL is missing", example);
        return None;
    };
    match text.parse::<Server>() {
        Ok(server) if settings.get(&START_TLS) => match server.security {
            Security::None if server.socket.is_none() => Some(server.with_start_tls()),
            _ => {
                let what = format!("{server} has no use for StartTLS");
                problems.add(&[&*START_TLS, &URL], what, "leave `start_tls` out, or write ldap://");
                None
            }
        },
        Ok(server) => Some(server),
        Err(error) => {
            problems.add(&[&*URL], error.to_string(), example);
            None
        }
    }
}

pub(super) fn identity(settings: &Settings, problems: &mut Problems) -> Identity {
    let (dn, password) = (settings.get(&BIND_DN), settings.get(&PASSWORD));
    if settings.get(&BIND_METHOD) == BindMethod::External {
        for setting in [&*BIND_DN, &PASSWORD] {
            if settings.given(setting) {
                let what = format!("`{}` has no meaning for SASL EXTERNAL", setting.name);
                problems.add(&[setting, &BIND_METHOD], what, "leave it out, or leave `bind_method` out");
            }
        }
        return Identity::External;
    }
    match (dn, password) {
        (None, None) => Identity::Anonymous,
        (Some(dn), Some(password)) => {
            if let Err(error) = ldap::Dn::parse(&dn) {
                let what = format!("`bind_dn`: `{dn}` is not a distinguished name: {}", error.what);
                problems.add(&[&*BIND_DN], what, error.help);
            }
            // A server would take it for an anonymous bind (RFC 4513 section 5.1.2).
            if password.reveal().is_empty() {
                let what = "the password is empty, so the server would not authenticate the connections";
                problems.add(&[&*PASSWORD], what, "give the password, or leave `bind_dn` out");
            }
            Identity::Simple { dn, password }
        }
        (Some(_), None) => {
            problems.add(&[&*BIND_DN], "the password of `bind_dn` is missing", "set `password`");
            Identity::Anonymous
        }
        (None, Some(_)) => {
            problems.add(&[&*PASSWORD], "the name of who has the password is missing", "set `bind_dn`");
            Identity::Anonymous
        }
    }
}

/// The operations of the file `from`.
fn mixed(
    (settings, inputs): (&Settings, &Inputs),
    base: &str,
    data: &Arc<Vec<DataSet>>,
    problems: &mut Problems,
) -> Option<Mix> {
    let Some(path) = settings.get(&FROM) else {
        problems.add(
            &[&*FROM, &OPERATION],
            "the operation mixed needs `from`",
            "such as \"operations.toml\"",
        );
        return None;
    };
    for setting in OF_OPERATIONS.iter().skip(1).filter(|setting| settings.given(setting)) {
        let what = format!("`{}` is given beside `from`", setting.name);
        problems.add(&[setting, &FROM], what, "write it in the file, for an operation");
    }
    let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
    let read = inputs
        .read_text(Path::new(&path), operations::FILE_BYTES_MAX)
        .map_err(|error| vec![(0, error.to_string(), String::new())])
        .and_then(|text| operations::read(&text, folder, inputs));
    let (written, text) = match read {
        Ok(read) => read,
        Err(mistakes) => {
            for (line, what, help) in mistakes {
                let place = if line > 0 { format!("{path}:{line}") } else { path.clone() };
                problems.add(&[&*FROM], format!("{place}: {what}"), help);
            }
            return None;
        }
    };
    let mut all: Vec<(u64, Requests)> = Vec::new();
    for operation in written {
        let kind = operation.settings.get(&OPERATION);
        let mut found = Problems::new();
        let compiled = match kind {
            Kind::Mixed => {
                found.add(&[&*OPERATION], "an operation of a file cannot be mixed", "write each on its own");
                None
            }
            kind => {
                misplaced(&operation.settings, kind, &mut found);
                request((&operation.settings, inputs), kind, base, data, &mut found)
            }
        };
        if let Some(mut requests) = compiled {
            requests.name = operation.name.unwrap_or_else(|| kind.word().to_string());
            let is_taken = |other: &str| other == requests.name;
            if all.iter().any(|(_, other)| is_taken(&other.name))
                || RequestPart::NAMES.into_iter().any(is_taken)
            {
                let what = format!("the name `{}` is taken", requests.name);
                found.push(Problem::new(what, "give each operation a `name` of its own"));
            }
            all.push((operation.weight, requests));
        }
        for problem in found.0 {
            let what = format!("{path}:{}: {}", operation.line, problem.what);
            problems.add(&[&*FROM], what, problem.help);
        }
    }
    if all.len() + RequestPart::NAMES.len() > OPERATIONS_MAX {
        let most = OPERATIONS_MAX - RequestPart::NAMES.len();
        problems.add(
            &[&*FROM],
            format!("{path} has {} operations; a trial records {most}", all.len()),
            "write fewer",
        );
        return None;
    }
    Some(Mix::of_file(all, text))
}

/// Reports settings that another operation has.
fn misplaced(settings: &Settings, kind: Kind, problems: &mut Problems) {
    use Kind::{Add, Bind, Compare, Delete, Login, Modify, Search};
    let of: [(&SettingInfo, &[Kind]); 11] = [
        (&FROM, &[Kind::Mixed]),
        (&BASE, &[Search, Login]),
        (&SCOPE, &[Search, Login]),
        (&FILTER, &[Search, Login]),
        (&ATTRIBUTES, &[Search, Login]),
        (&SIZE_LIMIT, &[Search, Login]),
        (&DN, &[Modify, Add, Delete, Compare, Bind, Login]),
        (&CHANGE, &[Modify]),
        (&ATTRIBUTE, &[Add, Compare]),
        (&DN_PASSWORD, &[Bind, Login]),
        (&LDIF, &[Modify, Add, Delete]),
    ];
    for (setting, kinds) in of {
        if settings.given(setting) && !kinds.contains(&kind) {
            let words: Vec<&str> = kinds.iter().map(Choice::word).collect();
            let what = format!(
                "`{}` is of {}, and the operation is {}",
                setting.name,
                words.join(", "),
                kind.word()
            );
            problems.add(&[setting, &OPERATION], what, format!("leave `{}` out", setting.name));
        }
    }
    if settings.given(&LDIF) {
        for setting in [&*DN, &CHANGE, &ATTRIBUTE] {
            if settings.given(setting) {
                let what = format!("`{}` is given beside `ldif`", setting.name);
                problems.add(&[setting, &LDIF], what, "write it in the LDIF file");
            }
        }
    }
}

/// Texts with their secret parts, for their use.
fn revealed(secrets: &[Secret]) -> Vec<String> {
    secrets.iter().map(|secret| secret.reveal().to_string()).collect()
}

/// Reads the data files.
fn data(settings: &Settings, inputs: &Inputs, problems: &mut Problems) -> Vec<DataSet> {
    let mut sets = Vec::new();
    let order = settings.get(&DATA_ORDER);
    for text in settings.get(&DATA) {
        let Some((name, path)) = text.split_once('=').map(|(name, path)| (name.trim(), path.trim())) else {
            problems.add(
                &[&*DATA],
                format!("`{text}` has no `=`"),
                "write NAME=FILE, such as users=users.csv",
            );
            continue;
        };
        let read = inputs
            .read(Path::new(path), DATA_BYTES_MAX)
            .map_err(|error| (0, error.to_string(), String::new()));
        match read.and_then(|content| DataSet::read(name, &content, order, None)) {
            Ok(set) => sets.push(set),
            Err((line, what, help)) => {
                let place = if line > 0 { format!("{path}:{line}") } else { path.to_string() };
                problems.add(&[&*DATA], format!("{place}: {what}"), help);
            }
        }
    }
    sets
}

fn request(
    (settings, inputs): (&Settings, &Inputs),
    kind: Kind,
    base: &str,
    data: &Arc<Vec<DataSet>>,
    problems: &mut Problems,
) -> Option<Requests> {
    let has_no_base = matches!(kind, Kind::Search | Kind::Login)
        && settings.get(&BASE).is_none()
        // That one is an entry of its own, which describes the server.
        && settings.get(&SCOPE) != ScopeWord::Base;
    let mut writer = requests::Compiler::new(data.clone());
    let search = requests::SearchText {
        base: match settings.get(&BASE) {
            None if has_no_base => template::escape(base),
            given => given.unwrap_or_default(),
        },
        scope: match settings.get(&SCOPE) {
            ScopeWord::Subtree => Scope::Subtree,
            ScopeWord::OneLevel => Scope::OneLevel,
            ScopeWord::Base => Scope::Base,
            ScopeWord::Subordinates => Scope::Subordinates,
        },
        filter: settings
            .get(&FILTER)
            .map_or_else(|| "(objectClass=*)".into(), |filter| filter.reveal().into()),
        attributes: texts(&settings.get(&ATTRIBUTES)),
        size_limit: settings.get(&SIZE_LIMIT),
    };
    let dn = settings.get(&DN);
    let mut missing = |setting: &SettingInfo, example: &str| {
        let what = format!("the operation {} needs `{}`", kind.word(), setting.name);
        problems.add(&[setting, &OPERATION], what, example);
    };
    let example = "such as \"uid=user.${random(0, 99999)},ou=people,dc=example,dc=com\"";
    if dn.is_none() && kind != Kind::Search && !settings.given(&LDIF) {
        missing(&DN, example);
        return None;
    }
    let dn = dn.unwrap_or_default();
    let password = settings.get(&DN_PASSWORD);
    if matches!(kind, Kind::Bind | Kind::Login) && password.is_none() {
        missing(&DN_PASSWORD, "such as ${env:PASSWORD}");
        return None;
    }
    let password = password.map_or_else(String::new, |password| match password.to_string().contains("${") {
        // It is from elsewhere, and means nothing but itself.
        true => template::escape(password.reveal()),
        false => password.reveal().to_string(),
    });
    let compiled = match (kind, settings.get(&LDIF)) {
        (Kind::Search, _) => {
            writer.search(&search).map_err(of_setting(&[("base", &BASE), ("filter", &FILTER)]))
        }
        (Kind::Login, _) => writer.login(&dn, &password, &search).map_err(of_setting(&[
            ("base", &BASE),
            ("filter", &FILTER),
            ("dn", &DN),
            ("dn_password", &DN_PASSWORD),
        ])),
        (Kind::Bind, _) => {
            writer.bind(&dn, &password).map_err(of_setting(&[("dn", &DN), ("dn_password", &DN_PASSWORD)]))
        }
        (kind, Some(path)) => {
            let read = inputs
                .read_text(Path::new(&path), requests::LDIF_BYTES_MAX)
                .map_err(|error| vec![requests::Mistake::new("ldif", format!("{path}: {error}"), "")]);
            read.and_then(|text| writer.ldif(&text, &path, kind)).map_err(of_setting(&[("ldif", &LDIF)]))
        }
        (Kind::Modify, None) => {
            let changes = revealed(&settings.get(&CHANGE));
            if changes.is_empty() {
                missing(&CHANGE, "such as \"replace description: ${random(1, 1000)}\"");
                return None;
            }
            writer.modify(&dn, &changes).map_err(of_setting(&[("dn", &DN), ("change", &CHANGE)]))
        }
        (Kind::Add, None) => {
            let attributes = revealed(&settings.get(&ATTRIBUTE));
            if attributes.is_empty() {
                missing(&ATTRIBUTE, "such as \"objectClass: person\", \"sn: Smith\" and so on");
                return None;
            }
            writer.add(&dn, &attributes).map_err(of_setting(&[("dn", &DN), ("attribute", &ATTRIBUTE)]))
        }
        (Kind::Compare, None) => match revealed(&settings.get(&ATTRIBUTE)).as_slice() {
            [assertion] => {
                writer.compare(&dn, assertion).map_err(of_setting(&[("dn", &DN), ("attribute", &ATTRIBUTE)]))
            }
            _ => {
                missing(&ATTRIBUTE, "one, such as \"mail: user.${number}@example.com\"");
                return None;
            }
        },
        (Kind::Delete | Kind::Mixed, None) => writer.delete(&dn).map_err(of_setting(&[("dn", &DN)])),
    };
    match compiled {
        Ok(()) => Some(writer.into_requests(has_no_base)),
        Err(found) => {
            for (setting, what, help) in found {
                problems.add(&[setting], what, help);
            }
            None
        }
    }
}

/// Mistakes with the settings that they are about.
fn of_setting<'a>(
    settings: &'a [(&'static str, &'static SettingInfo)],
) -> impl Fn(Vec<requests::Mistake>) -> Vec<(&'static SettingInfo, String, String)> + 'a {
    move |mistakes| {
        let of = |mistake: requests::Mistake| {
            let named = settings.iter().find(|(name, _)| *name == mistake.of);
            let setting =
                named.or(settings.first()).map_or(&*OPERATION as &SettingInfo, |(_, setting)| setting);
            (setting, format!("`{}`: {}", setting.name, mistake.what), mistake.help)
        };
        mistakes.into_iter().map(of).collect()
    }
}

/// The texts of a list; a text with commas is several.
fn texts(list: &[String]) -> Vec<String> {
    list.iter().flat_map(|text| text.split(',')).map(|text| text.trim().to_string()).collect()
}

fn expected(settings: &Settings, problems: &mut Problems) -> Vec<u32> {
    let mut expected: Vec<u32> =
        ResultCode::NAMED.iter().filter(|code| code.is_success()).map(|code| code.number()).collect();
    for text in texts(&settings.get(&EXPECT_RESULT)) {
        let named = ResultCode::NAMED.iter().find(|code| code.name().eq_ignore_ascii_case(&text));
        match named.map(|code| code.number()).or_else(|| text.parse().ok()) {
            Some(number) => expected.push(number),
            None => {
                let names = ResultCode::NAMED.iter().map(|code| code.name());
                let help = model::problem::did_you_mean(&text, names);
                problems.add(&[&*EXPECT_RESULT], format!("`{text}` is not a result code"), help);
            }
        }
    }
    expected
}

pub(super) fn tls(
    settings: (&Settings, &Inputs),
    server: Option<&Server>,
    problems: &mut Problems,
) -> TlsPlan {
    let keys =
        TlsKeys { authorities: &CA, certificate: &CLIENT_CERTIFICATE, key: &CLIENT_KEY, insecure: &INSECURE };
    let help = "write ldaps://, set `start_tls`, or leave this setting out";
    let plain = server.filter(|server| server.security == Security::None);
    TlsPlan::read(settings, &keys, true, plain.map(|server| (server.to_string(), help)), problems)
}
