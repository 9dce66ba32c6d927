//! The settings of the HTTP workload, and the resulting request.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use engine::inputs::Inputs;
use engine::workload::OPERATIONS_MAX;
use model::{Choice, Key, Nanos, PathUse, Problems, Secret, SecretParts, SettingInfo, Settings};

use super::RequestPart;
use super::from::{self, Format};
use super::http2;
use super::scenario::{Note, Scenario};
use super::url::{Origin, Url};
use crate::network::addresses::{self, AddressChoice};
use crate::network::host::Permission;
use crate::network::tls::{TlsKeys, TlsPlan};

model::choice! {
    /// The methods, as they are sent.
    enum Method {
        Get = "GET",
        Post = "POST",
        Put = "PUT",
        Head = "HEAD",
        Delete = "DELETE",
    }
}

model::choice! {
    /// The versions of HTTP.
    pub(super) enum HttpVersion {
        /// Over TLS the server chooses; in clear text HTTP/1.1.
        Auto = "auto",
        One = "1.1",
        Two = "2",
    }
}

impl Method {
    /// The name of its operation.
    fn operation(self) -> &'static str {
        OPERATIONS[self as usize]
    }
}

/// The names of all operations there can be: first in the order of the methods, then the parts of each.
#[rustfmt::skip]
pub(super) static OPERATIONS: &[&str] = &[
    "get", "post", "put", "head", "delete",
    "get:connect", "get:tls", "get:first_byte", "get:download",
    "post:connect", "post:tls", "post:first_byte", "post:download",
    "put:connect", "put:tls", "put:first_byte", "put:download",
    "head:connect", "head:tls", "head:first_byte", "head:download",
    "delete:connect", "delete:tls", "delete:first_byte", "delete:download",
];

model::settings! {
    /// The settings.
    pub(super) static SETTINGS;

    pub(super) static URL: Key<Option<Secret>> = Key::secret(
        "url", SecretParts::Url,
        "URL to request: \"http://HOST[:PORT][/PATH][?QUERY]\", or https. Write a secret as ${env:NAME}, ${file:PATH} or ${prompt:WORDS}.",
    );

    pub(super) static FROM: Key<Option<String>> = Key::path(
        "from", PathUse::Input, "",
        "File with a scenario: transactions of several requests, with checks, data and think times (TOML), a recorded session (.har) or a scenario of WCAT (.ubr). It replaces `url`, `method`, `header` and `body`.",
    );

    pub(super) static THIRD_PARTY: Key<bool> = Key::flag(
        "third_party", "false",
        "Keep the requests of a recorded session (.har) to other sites than that of the first request.",
    );

    pub(super) static THINK_SCALE: Key<f64> = Key::number(
        "think_scale", 0.0..=1000.0, "1",
        "Factor of the think times of a recorded session (.har): 1 as recorded, 0.5 for half of them, 0 for none.",
    );

    pub(super) static THINK_MAX: Key<Nanos> = Key::time(
        "think_max", "1h",
        "Longest think time of a recorded session (.har); a longer one is reduced to it.",
    );

    pub(super) static WCAT_SETTINGS: Key<Option<String>> = Key::path(
        "wcat_settings", PathUse::Input, "",
        "Settings file of WCAT for a scenario of WCAT (.ubr): its server, clients and virtual clients.",
    );

    static METHOD: Key<Method> = Key::choice(
        "method",
        "Request method. Its name in lower case is the name of the operation.",
    );

    static HEADER: Key<Vec<Secret>> = Key::secrets(
        "header", SecretParts::Header,
        "Header fields to send, \"NAME: VALUE\" each. They can replace Host, User-Agent and Accept. Write a secret as ${env:NAME}, ${file:PATH} or ${prompt:WORDS}.",
    );

    static BODY: Key<Option<Secret>> = Key::secret(
        "body", SecretParts::Pairs,
        "Request body, sent unchanged; set its type with a header Content-Type. Write a secret as ${env:NAME}, ${file:PATH} or ${prompt:WORDS}.",
    );

    static HTTP_VERSION: Key<HttpVersion> = Key::choice(
        "http_version",
        "Version of HTTP. \"auto\": over TLS HTTP/2 if the server offers it (ALPN), otherwise HTTP/1.1. \"2\" without TLS: with prior knowledge.",
    );

    static STREAMS: Key<u32> = Key::count(
        "streams", 1..=1000, "8",
        "HTTP/2: maximum number of concurrent streams (requests) on a connection; fewer if the server allows fewer. Another connection is opened when all have so many.",
    );

    static KEEP_ALIVE: Key<bool> = Key::flag(
        "keep_alive", "true",
        "Reuse a connection for several requests; otherwise each operation opens and closes a connection.",
    );

    static CONNECTIONS: Key<Option<u32>> = Key::count(
        "connections", 1..=65_536, "",
        "Maximum number of open connections, over all threads. Default: one per operation in flight, with HTTP/2 one per `streams` operations; in an open loop at most 256 per thread.",
    );

    static TIMEOUT: Key<Nanos> = Key::time(
        "timeout", "10s",
        "Timeout of an operation: if it takes longer, it has failed and its connection is closed (HTTP/2: its stream).",
    );

    static TOTAL: Key<Option<u64>> = Key::count(
        "operations", 1..=1_000_000_000_000, "",
        "Stop after this many operations in total, warm-up included; of a scenario, transactions. None runs for the measured time.",
    );

    static EXPECT_STATUS: Key<String> = Key::text(
        "expect_status", "200..399",
        "Status codes that count as success, such as \"200..299,304\"; with any other status the operation has failed.",
    );

    static CA: Key<Option<String>> = Key::path(
        "ca", PathUse::Input, "",
        "PEM file of the certificates that are trusted, for an https URL: those of authorities, or that of the server itself. Default: the authorities that this host trusts.",
    );

    static CLIENT_CERTIFICATE: Key<Option<String>> = Key::path(
        "client_certificate", PathUse::Input, "",
        "PEM file of the certificate that the client presents to the server.",
    );

    static CLIENT_KEY: Key<Option<String>> = Key::path(
        "client_key", PathUse::Input, "",
        "PEM file of the private key of `client_certificate`.",
    );

    static TLS_RESUMPTION: Key<bool> = Key::flag(
        "tls_resumption", "true",
        "Resume TLS sessions on new connections, as browsers do; otherwise each connection makes a full handshake.",
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

    static SERVER_TIMING: Key<Vec<String>> = Key::texts(
        "server_timing",
        "Names of the Server-Timing field of responses, such as \"db\", whose durations are shown as parts of the requests (`get:server:db`).",
    );

    static THREADS: Key<u32> = Key::count(
        "threads", 1..=256, "1",
        "Number of worker threads, each with its own connections.",
    );
}

/// Parses the setting `url`; otherwise the problem, without secrets of the URL, and the advice. Unlike the URLs of a
/// scenario, it must be printable ASCII: a blank or an invisible character is probably a mistake.
pub(super) fn parse_url(text: &str) -> Result<Url, (String, String)> {
    let shown = SecretParts::Url.hide(text);
    if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic()) {
        return Err((
            format!("the URL contains {odd:?}: `{}`", shown.escape_debug()),
            "percent-encode all characters except printable ASCII; write a blank as %20".into(),
        ));
    }
    if !text.is_empty() && !text.contains("://") && Url::parse(&format!("http://{text}")).is_ok() {
        return Err((format!("the URL has no scheme: `{shown}`"), format!("write \"http://{shown}\"")));
    }
    Url::parse(text).map_err(|(what, help)| (format!("{what}: `{shown}`"), help.into()))
}

/// A scenario, and what was not carried over from the file of another program.
#[derive(Debug)]
pub(super) struct ReadScenario {
    pub(super) scenario: Scenario,
    pub(super) notes: Vec<Note>,
    /// The scenario as text, without secrets, for the record.
    pub(super) text: String,
}

/// The settings, read.
#[derive(Clone, Debug)]
pub(super) struct HttpPlan {
    /// The server of the request; of a scenario the first of its servers.
    pub(super) origin: Origin,
    /// Replaces the request.
    pub(super) scenario: Option<Arc<ReadScenario>>,
    /// The operation's name.
    pub(super) operation: &'static str,
    /// The complete request; empty with a scenario.
    pub(super) request: Vec<u8>,
    /// A response to HEAD has no body.
    pub(super) of_head: bool,
    /// Whether the request is idempotent (RFC 9110 section 9.2.2).
    pub(super) idempotent: bool,
    pub(super) keep_alive: bool,
    pub(super) version: HttpVersion,
    /// Most concurrent streams of a connection of HTTP/2.
    pub(super) streams: u32,
    pub(super) connections: Option<u32>,
    pub(super) timeout: Nanos,
    /// Number of operations after which the load ends.
    pub(super) operations: Option<u64>,
    pub(super) expected: Vec<RangeInclusive<u16>>,
    pub(super) threads: u32,
    pub(super) tls: TlsPlan,
    /// What the load may reach.
    pub(super) permission: Permission,
    /// Which addresses of a name get connections.
    pub(super) addresses: AddressChoice,
    /// Names in the field Server-Timing.
    pub(super) server_timing: Vec<String>,
    /// The line of `url` in the experiment file.
    pub(super) url_line: u32,
}

impl HttpPlan {
    /// Reads the settings; reports all mistakes.
    pub(super) fn read(settings: &Settings, inputs: &Inputs) -> Result<HttpPlan, Problems> {
        let mut problems = Problems::new();
        let mut problem = |setting: &SettingInfo, what: String, help: &str| {
            problems.add(&[setting], what, help);
        };
        let (scenario, of_scenario) = from::scenario(settings, inputs);
        if scenario.is_some() {
            // A scenario of WCAT may leave its server open.
            let takes_url = Format::of(Path::new(&settings.get(&FROM).unwrap_or_default())) == Format::Wcat;
            for setting in [&*URL, &METHOD, &HEADER, &BODY, &EXPECT_STATUS] {
                if settings.given(setting) && !(takes_url && setting.name == URL.name) {
                    let what = format!("`{}` is given beside a scenario", setting.name);
                    problem(setting, what, "write it in the requests of the scenario, or leave `from` out");
                }
            }
        }
        let url = match settings.get(&URL) {
            None if settings.has(&FROM) => None,
            None => {
                problem(&URL, "the URL is missing".into(), "url = \"http://127.0.0.1:8080/\"");
                None
            }
            Some(text) => match parse_url(text.reveal()) {
                Ok(url) => Some(url),
                Err((what, help)) => {
                    problem(&URL, what, &help);
                    None
                }
            },
        };
        let origin = match (&url, &scenario) {
            (Some(url), _) => Some(&url.origin),
            (None, Some(read)) => read.scenario.origins().first(),
            (None, None) => None,
        };
        let mut fields = Vec::new();
        for text in settings.get(&HEADER) {
            match field(text.reveal()) {
                Ok(field) => fields.push(field),
                Err((what, help)) => problem(&HEADER, what, help),
            }
        }
        let expected = settings.get(&EXPECT_STATUS);
        let expected = ranges(&expected).unwrap_or_else(|| {
            problem(
                &EXPECT_STATUS,
                format!("`{expected}` is not a list of status codes from 200 to 999"),
                "such as \"200..399\" or \"200,404\"",
            );
            Vec::new()
        });
        let timeout = settings.get(&TIMEOUT);
        if timeout == 0 {
            problem(&TIMEOUT, "the timeout must be greater than 0".into(), "such as \"10s\"");
        }
        let connections = settings.get(&CONNECTIONS);
        let threads = settings.get(&THREADS);
        if let Some(connections) = connections.filter(|connections| *connections < threads) {
            problem(
                &CONNECTIONS,
                format!("{connections} connections cannot be shared by {threads} threads"),
                "write at least as many connections as threads",
            );
        }
        let keys = TlsKeys {
            authorities: &CA,
            certificate: &CLIENT_CERTIFICATE,
            key: &CLIENT_KEY,
            insecure: &INSECURE,
        };
        let help = "write an https URL, or leave this setting out";
        let plain = origin.filter(|origin| !origin.is_tls).map(|origin| (origin.host_and_port(), help));
        let tls =
            TlsPlan::read((settings, inputs), &keys, settings.get(&TLS_RESUMPTION), plain, &mut problems);
        let mut problem = |setting: &SettingInfo, what: String, help: &str| {
            problems.add(&[setting], what, help);
        };
        let server_timing = server_timings(settings);
        if let Some(name) = server_timing.iter().find(|name| !super::is_token(name)) {
            let help = "write the names as the server sends them, such as \"db\"";
            problem(&SERVER_TIMING, format!("`{name}` is not a name in a Server-Timing field"), help);
        }
        let is_repeated =
            |(at, name): (usize, &String)| server_timing.iter().take(at).any(|other| other == name);
        if server_timing.iter().enumerate().any(is_repeated) {
            problem(&SERVER_TIMING, "a name is listed twice".into(), "list each name once");
        }
        if let Some((what, help)) =
            scenario.as_ref().and_then(|read| too_many(&read.scenario, server_timing.len()))
        {
            let name = settings.get(&FROM).unwrap_or_default();
            problem(&FROM, format!("the scenario {name} {what}"), help);
        }
        let method = settings.get(&METHOD);
        let keep_alive = settings.get(&KEEP_ALIVE);
        let version = settings.get(&HTTP_VERSION);
        if settings.given(&STREAMS) && version == HttpVersion::One {
            let help = "set `http_version` to 2, or leave `streams` out";
            problem(&STREAMS, "a connection of HTTP/1.1 has no streams".into(), help);
        }
        if settings.given(&STREAMS) && !keep_alive && settings.get(&STREAMS) > 1 {
            let help = "leave `streams` out, or set `keep_alive` to true";
            problem(&STREAMS, "a connection for one request has one stream".into(), help);
        }
        let url_line = settings.line(URL.name);
        problems.extend(from::misplaced(settings));
        problems.extend(of_scenario);
        problems.or(())?;
        let Some(origin) = origin.cloned() else { return Err(Problems::new()) };
        let body = settings.get(&BODY).unwrap_or_default();
        let request = match &url {
            Some(url) if scenario.is_none() => request(method, url, &fields, keep_alive, body.reveal()),
            _ => Vec::new(),
        };
        if version == HttpVersion::Two && scenario.is_none() && !http2::can_send(&request) {
            let mut problems = Problems::new();
            let help = "check the host of the URL and the header Host: a name or an address, and a port";
            problems.add(&[&*URL], "the request cannot be sent over HTTP/2", help);
            return Err(problems);
        }
        Ok(HttpPlan {
            operation: method.operation(),
            request,
            of_head: method == Method::Head,
            idempotent: method != Method::Post,
            origin,
            scenario,
            keep_alive,
            version,
            streams: if keep_alive { settings.get(&STREAMS) } else { 1 },
            connections,
            timeout,
            operations: settings.get(&TOTAL),
            expected,
            threads,
            tls,
            permission: Permission { may_load: settings.get(&YES_I_MAY_LOAD), limits: None },
            addresses: settings.get(&ADDRESSES),
            server_timing,
            url_line,
        })
    }

    /// The servers: those of the scenario, or the one of the URL.
    pub(super) fn origins(&self) -> &[Origin] {
        match &self.scenario {
            Some(read) => read.scenario.origins(),
            None => std::slice::from_ref(&self.origin),
        }
    }

    /// Whether a response with this status is a success.
    pub(super) fn expects(&self, status: u16) -> bool {
        self.expected.iter().any(|range| range.contains(&status))
    }
}

/// The names in `server_timing`: a list, or a text with commas.
fn server_timings(settings: &Settings) -> Vec<String> {
    let texts = settings.get(&SERVER_TIMING);
    texts.iter().flat_map(|text| text.split(',')).map(|name| name.trim().to_string()).collect()
}

/// The problem of a scenario with more operations than a trial can record, and the advice.
fn too_many(scenario: &Scenario, server_timings: usize) -> Option<(String, &'static str)> {
    let operations = scenario.operations();
    let limit = OPERATIONS_MAX.saturating_sub(RequestPart::ALL.len() + server_timings);
    let first = operations.get(limit)?;
    let what = format!(
        "has {} operations (its requests, and its transactions of several requests); a trial records {limit}, and `{first}` is the first above that",
        operations.len()
    );
    Some((what, "leave requests out, or write several scenarios"))
}

/// The request as it is sent.
fn request(method: Method, url: &Url, fields: &[(String, String)], keep_alive: bool, body: &str) -> Vec<u8> {
    let mut text = format!("{} {} HTTP/1.1\r\n", method.word(), url.target);
    let host = url.origin.authority();
    let agent = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));
    for (name, value) in [("Host", host.as_str()), ("User-Agent", agent), ("Accept", "*/*")] {
        if !fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            text += &format!("{name}: {value}\r\n");
        }
    }
    for (name, value) in fields {
        text += &format!("{name}: {value}\r\n");
    }
    if !keep_alive {
        text += "Connection: close\r\n";
    }
    // Methods that usually have content state its length even if it is empty (RFC 9110 section 8.6).
    if !body.is_empty() || matches!(method, Method::Post | Method::Put) {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    text += body;
    text.into_bytes()
}

/// Parses `NAME: VALUE`. The problem does not contain secrets of the field.
fn field(text: &str) -> Result<(String, String), (String, &'static str)> {
    let shown = SecretParts::Header.hide(text);
    let Some((name, value)) = text.split_once(':') else {
        return Err((format!("the header `{shown}` has no colon"), "write \"NAME: VALUE\""));
    };
    let (name, value) = (name.trim(), value.trim());
    if !crate::http::is_token(name) || value.bytes().any(|byte| byte < b' ' && byte != b'\t') {
        return Err((
            format!("the header `{}` cannot be sent", shown.escape_debug()),
            "a name has letters, digits and hyphens, and a value is one line",
        ));
    }
    let ours = [
        ("connection", "Plimsoll sets it from `keep_alive`"),
        ("content-length", "Plimsoll sets it from `body`"),
        ("transfer-encoding", "Plimsoll sends the body with its length"),
        ("expect", "Plimsoll sends the body without waiting"),
        ("upgrade", "choose the version with `http_version`"),
        ("keep-alive", "it belongs to the connection"),
        ("proxy-connection", "it belongs to the connection"),
        ("te", "it belongs to the connection"),
        ("http2-settings", "choose the version with `http_version`"),
    ];
    match ours.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)) {
        Some((_, help)) => Err((format!("the header {name} cannot be set"), help)),
        None => Ok((name.to_string(), value.to_string())),
    }
}

/// Reads `200..299,304`.
fn ranges(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let status = |text: &str| text.trim().parse::<u16>().ok().filter(|status| (200..=999).contains(status));
    let range = |text: &str| match text.split_once("..") {
        Some((low, high)) => Some(status(low)?..=status(high)?).filter(|range| !range.is_empty()),
        None => status(text).map(|only| only..=only),
    };
    text.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings_of;
    use model::Level;

    fn read(pairs: &[(&str, &str)]) -> Result<HttpPlan, Problems> {
        HttpPlan::read(&settings_of(SETTINGS, pairs), &Inputs::host())
    }

    #[test]
    fn a_url_that_is_refused_is_shown_without_its_secrets() {
        for (text, what) in [
            ("", "the URL has no scheme: ``"),
            ("localhost:8080/", "the URL has no scheme: `localhost:8080/`"),
            ("ftp://a", "the scheme of the URL is not http or https: `ftp://a`"),
            ("http:///x?token=a", "the URL has no valid host and port: `http:///x?token=***`"),
            ("http://me:pw@a/", "the URL contains a user name: `http://***@a/`"),
            ("http://a/ b", "the URL contains ' ': `http://a/ b`"),
            ("http://a/ü", "the URL contains 'ü': `http://a/ü`"),
            ("http://a/\u{200b}?token=a", "the URL contains '\\u{200b}': `http://a/\\u{200b}?token=***`"),
            ("http://a/\r\nX: y", "the URL contains '\\r': `http://a/\\r\\nX: y`"),
        ] {
            assert_eq!(parse_url(text).unwrap_err().0, what);
        }
    }

    #[test]
    fn a_request_is_written_once_and_whole() {
        let text = |pairs: &[(&str, &str)]| String::from_utf8(read(pairs).unwrap().request).unwrap();
        let agent = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            text(&[("url", "http://a/x")]),
            format!("GET /x HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\r\n")
        );
        assert_eq!(
            text(&[("url", "http://[::1]:81?a|b#c")]),
            format!("GET /?a%7Cb HTTP/1.1\r\nHost: [::1]:81\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\r\n")
        );
        assert_eq!(
            text(&[
                ("url", "http://a:81"),
                ("method", "POST"),
                ("header", "user-agent: me"),
                ("body", "<é/>"),
                ("keep_alive", "false")
            ]),
            "POST / HTTP/1.1\r\nHost: a:81\r\nAccept: */*\r\nuser-agent: me\r\nConnection: close\r\nContent-Length: 5\r\n\r\n<é/>"
        );
        assert!(text(&[("url", "http://a"), ("method", "PUT")]).ends_with("Content-Length: 0\r\n\r\n"));
    }

    #[test]
    fn everything_wrong_is_reported_at_once() {
        let mut settings = settings_of(
            SETTINGS,
            &[
                ("url", "https://a b"),
                ("client_key", "key.pem"),
                ("expect_status", "100"),
                ("timeout", "0s"),
                ("connections", "2"),
                ("threads", "3"),
            ],
        );
        let headers = ["none", "a b: c", "Content-Length: 3", "Accept: x\r\ny"];
        settings.set("header", Level::List(headers.map(|text| Level::Text(text.into())).into()));
        let problems = HttpPlan::read(&settings, &Inputs::host()).unwrap_err();
        let whats: Vec<&str> = problems.0.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(
            whats,
            [
                "the URL contains ' ': `https://a b`",
                "the header `none` has no colon",
                "the header `a b: c` cannot be sent",
                "the header Content-Length cannot be set",
                "the header `Accept: x\\r\\ny` cannot be sent",
                "`100` is not a list of status codes from 200 to 999",
                "the timeout must be greater than 0",
                "2 connections cannot be shared by 3 threads",
                "the client key has no certificate",
            ]
        );
        assert_eq!(read(&[]).unwrap_err().0[0].what, "the URL is missing");
    }

    #[test]
    fn statuses_are_expected_in_ranges() {
        let plan = read(&[("url", "http://a"), ("expect_status", "200..299, 404")]).unwrap();
        assert_eq!([200, 299, 300, 404].map(|status| plan.expects(status)), [true, true, false, true]);
        for text in ["", "99", "300..200", "200..", "x", "200,"] {
            assert_eq!(ranges(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = (parse_url(&format!("http://{text}")), parse_url(&text), field(&text), ranges(&text));
        }
    }
}
