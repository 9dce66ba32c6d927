//! The connection to a server: its connection string, its password, and the errors of a failed connection.

use std::borrow::Cow;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;

use super::tls::{Tls, TlsParameters, relative_to};
use super::{Client, Error, Grace};
use crate::Interrupt;
use crate::network::is_this_host;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The connection string in libpq form, without a password: `host=127.0.0.1 port=5432 user=metadir
    /// dbname=identity`.
    pub connection: String,
    /// The schema of the tables.
    pub schema: String,
    /// A password file in libpq form: `host:port:database:user:password`.
    pub passfile: Option<PathBuf>,
    /// Timeout of a wait without progress.
    pub timeout: Duration,
    /// Interrupts every wait.
    pub interrupt: Interrupt,
}

impl Default for Server {
    /// A server without an address, with a timeout of 300 s.
    fn default() -> Server {
        Server {
            connection: String::new(),
            schema: String::new(),
            passfile: None,
            timeout: Duration::from_secs(300),
            interrupt: Interrupt::default(),
        }
    }
}

impl Server {
    /// The error in a connection string, and what to write instead.
    pub(crate) fn mistake(connection: &str) -> Option<(String, &'static str)> {
        let words = TlsParameters::of(connection);
        match (words.mode.as_deref(), words.is_protected()) {
            (Some(mode @ ("allow" | "verify-ca")), _) => {
                let help = "write sslmode=verify-full, with sslrootcert=FILE for the authority that signed its certificate";
                return Some((format!("`postgres` says sslmode={mode}, which is not supported"), help));
            }
            (_, false) if words.authorities.is_some() => {
                let help = "write sslmode=verify-full beside it, or take sslrootcert out";
                return Some(("`postgres` names sslrootcert without TLS".into(), help));
            }
            _ => {}
        }
        let config = match words.connection.parse::<tokio_postgres::Config>() {
            Ok(config) => config,
            // The error text may contain a password.
            Err(_) if connection.contains("pass") => {
                return Some(("`postgres` cannot be read".into(), NO_PASSWORD));
            }
            Err(error) => {
                let what = format!("`postgres` cannot be read: {}", chain(&error));
                return Some((what, "write it like host=127.0.0.1 port=5432 user=metadir dbname=identity"));
            }
        };
        if config.get_password().is_some() {
            return Some(("`postgres` holds a password".into(), NO_PASSWORD));
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let help = "write host=127.0.0.1, or host=/run/postgresql for a socket";
            return Some(("`postgres` names no host".into(), help));
        }
        None
    }

    /// The first host that is reached over a network without TLS; none if there is none.
    pub(crate) fn exposed(connection: &str) -> Option<String> {
        let words = TlsParameters::of(connection);
        if words.is_protected() {
            return None;
        }
        let config: tokio_postgres::Config = words.connection.parse().ok()?;
        // The address is used for the connection; a host name next to it is only used for verification.
        let addresses = config.get_hostaddrs();
        if !addresses.is_empty() {
            let mut addresses = addresses.iter().map(ToString::to_string);
            return addresses.find(|address| !is_this_host(address));
        }
        config.get_hosts().iter().find_map(|host| match host {
            Host::Tcp(host) => (!is_this_host(host)).then(|| host.clone()),
            Host::Unix(_) => None,
        })
    }

    /// Whether the server is on this host.
    pub(crate) fn is_on_this_host(&self) -> bool {
        let connection = TlsParameters::of(&self.connection).connection;
        let Ok(config) = connection.parse::<tokio_postgres::Config>() else { return false };
        match (config.get_hostaddrs(), config.get_hosts()) {
            ([address, ..], _) => address.is_loopback(),
            ([], [Host::Tcp(host), ..]) => is_this_host(host),
            ([], [Host::Unix(_), ..]) => true,
            ([], []) => false,
        }
    }

    /// Connects. A password in the environment takes precedence over the password file.
    pub fn connect(&self, of_environment: Option<String>, grace: Grace) -> Result<Client, Failure> {
        let tls = self.tls()?;
        let mut config: tokio_postgres::Config = TlsParameters::of(&self.connection).connection.parse()?;
        if config.get_application_name().is_none() {
            config.application_name("plimsoll metadir");
        }
        if let Some(password) = password(&config, of_environment, self.passfile.as_deref())? {
            config.password(password);
        }
        super::connect(&config, tls.as_ref(), self.timeout, &self.interrupt, grace)
            .map_err(|error| unreachable(&config, error))
    }

    /// TLS, if the connection string requests it.
    pub(super) fn tls(&self) -> Result<Option<Tls>, Failure> {
        let words = TlsParameters::of(&self.connection);
        if !words.is_protected() {
            return Ok(None);
        }
        let reported = |what| Failure::new(what, "correct sslrootcert in `postgres`");
        Tls::new(words.authorities.as_deref()).map(Some).map_err(reported)
    }

    /// Resolves relative paths against a folder.
    pub fn relative_to(&mut self, folder: &Path) {
        self.connection = relative_to(&self.connection, folder);
        if let Some(path) = &mut self.passfile {
            *path = folder.join(&*path);
        }
    }
}

const NO_PASSWORD: &str =
    "set PGPASSWORD in the environment, or name a file with `passfile`, and remove it here";

/// Limit of a stored text from a server: every object of a batch may have one.
const TEXT_CHARS_MAX: usize = 1000;

/// A text from a server, truncated to the limit.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// An error with its causes.
pub fn chain(error: &tokio_postgres::Error) -> String {
    let mut text = cut(&error.to_string());
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {}", cut(&cause.to_string()));
        source = cause.source();
    }
    text
}

/// Why a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}{help}", if help.is_empty() { "" } else { "; " })]
pub struct Failure {
    /// The error, in the words of the server if it has any.
    pub what: String,
    /// What to do; may be empty.
    pub help: &'static str,
    /// Whether another session has the lock.
    pub is_locked: bool,
}

impl Failure {
    fn new(what: impl Into<String>, help: &'static str) -> Failure {
        Failure { what: what.into(), help, is_locked: false }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        let Some(db) = error.as_db_error() else {
            let help = if error.is_closed() { GO_ON } else { "" };
            return Failure::new(chain(&error), help);
        };
        let code = db.code();
        let help = match code.code() {
            _ if *code == SqlState::INVALID_PASSWORD
                || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
            {
                "correct the user in `postgres`, the password in PGPASSWORD or `passfile`, or pg_hba.conf of the server"
            }
            _ if *code == SqlState::UNDEFINED_DATABASE => {
                "create it with createdb, or correct dbname in `postgres`"
            }
            _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                "let the user create schemas and temporary tables in the database (GRANT CREATE, TEMPORARY ON DATABASE), or make \
                 the schema for it (CREATE SCHEMA ... AUTHORIZATION ...)"
            }
            _ if *code == SqlState::DUPLICATE_TABLE
                || *code == SqlState::UNDEFINED_COLUMN
                || *code == SqlState::UNDEFINED_TABLE =>
            {
                "the schema contains other tables: choose another `schema` in [store]"
            }
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
                "it is a standby: name the primary in `postgres`"
            }
            _ if *code == SqlState::DISK_FULL => "free space on the disk of the server, and run it again",
            _ if *code == SqlState::TOO_MANY_CONNECTIONS => {
                "raise max_connections of the server, or end connections"
            }
            code if code.starts_with("57P") => GO_ON,
            _ => "",
        };
        let detail = db.detail().map(|detail| format!(" ({})", cut(detail))).unwrap_or_default();
        let is_locked = *code == SqlState::LOCK_NOT_AVAILABLE;
        Failure { what: format!("{}{detail}", cut(db.message())), help, is_locked }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Server(error) => error.into(),
            Error::Connect(_) => Failure::new(error.to_string(), GO_ON),
            Error::GivenUp(what) => Failure::new(what.as_str(), help_of(&what)),
        }
    }
}

const GO_ON: &str =
    "see the log of the server; committed changes are kept, and the next run continues from there";

/// What to do about an abandoned session.
pub fn help_of(why: &str) -> &'static str {
    match why {
        "interrupted" => "",
        why if why.contains("waited") => "check that the server responds, or raise `timeout_s`",
        why if why.starts_with("an answer") => "lower `commit_objects`",
        _ => "check that this is a PostgreSQL server",
    }
}

/// The password for a server: from the environment, otherwise from a password file.
fn password(
    config: &tokio_postgres::Config,
    of_environment: Option<String>,
    passfile: Option<&Path>,
) -> Result<Option<String>, Failure> {
    if of_environment.is_some() {
        return Ok(of_environment);
    }
    let Some(path) = passfile else { return Ok(None) };
    let text = files::secret::read(path).map_err(|error| match error.kind() {
        // The message names the file and the command that corrects its mode.
        std::io::ErrorKind::PermissionDenied if error.get_ref().is_some() => {
            Failure::new(error.to_string(), "")
        }
        _ => Failure::new(format!("{}: {error}", path.display()), "correct `passfile`"),
    })?;
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let address = config.get_hostaddrs().first().map(ToString::to_string);
    let hosts: Vec<Cow<'_, str>> = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => vec![host.as_str().into()],
        Some(Host::Unix(path)) => vec![path.to_string_lossy(), "localhost".into()],
        None => address.into_iter().map(Cow::Owned).collect(),
    };
    let is = |field: &str, wanted: &str| field == "*" || field == wanted;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let [host, of_port, of_database, of_user, password] = fields(line).as_slice()
            && hosts.iter().any(|wanted| is(host, wanted))
            && is(of_port, &port)
            && is(of_database, database)
            && is(of_user, user)
        {
            return Ok(Some(password.clone()));
        }
    }
    Ok(None)
}

/// The five fields of a line in a password file. A backslash escapes a colon or a backslash. The last field
/// ends with the line.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let count = fields.len();
        match character {
            ':' if count < 5 => fields.push(String::new()),
            '\\' => fields[count - 1].extend(characters.next()),
            _ => fields[count - 1].push(character),
        }
    }
    fields
}

/// The error of a failed connection.
fn unreachable(config: &tokio_postgres::Config, error: Error) -> Failure {
    let error = match error {
        Error::Server(error) if error.as_db_error().is_some() => return error.into(),
        error => error,
    };
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(host) => host.clone(),
            Host::Unix(path) => path.display().to_string(),
        })
        .chain(config.get_hostaddrs().iter().map(ToString::to_string))
        .collect();
    let ports: Vec<String> = config.get_ports().iter().map(ToString::to_string).collect();
    let port = if ports.is_empty() { "5432".into() } else { ports.join(",") };
    let what = format!("{} port {port}: {}", hosts.join(","), error);
    // A missing password is detected before the connection to the server.
    let help = match () {
        () if what.contains("password") => NO_PASSWORD_GIVEN,
        () if what.contains("TLS") || what.contains("certificate") => {
            "check that the server has ssl = on, that sslrootcert is the authority of its certificate, \
            and that the certificate has the name in `postgres`"
        }
        () => "start the server, or correct `postgres`",
    };
    Failure::new(what, help)
}

const NO_PASSWORD_GIVEN: &str =
    "set PGPASSWORD in the environment, or name a file with a line for this server with `passfile`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_a_connection_string_are_reported_without_its_password() {
        let right = "host=127.0.0.1 port=5433 user=metadir dbname=identity connect_timeout=3";
        let protected =
            "postgresql://metadir@db.plim.example/identity?sslmode=verify-full&sslrootcert=ca.pem";
        for right in [
            right,
            protected,
            "host=db sslmode=require",
            "host=/run/postgresql",
            "postgresql://metadir@db.plim.example/identity",
        ] {
            assert_eq!(Server::mistake(right), None, "{right}");
        }
        for (wrong, reported) in [
            ("host=db password=geheim", "holds a password"),
            ("postgresql://me:geheim@db/identity", "holds a password"),
            ("host=db passwort=geheim", "cannot be read"),
            ("host=db pass geheim", "cannot be read"),
            ("host=db sslmode=verify-ca", "sslmode=verify-ca"),
            ("host=db sslrootcert=ca.pem", "without TLS"),
            ("host=db sslmode=prefer sslrootcert=ca.pem", "without TLS"),
            ("host=db sslmode=often", "cannot be read"),
            ("user=me dbname=identity", "names no host"),
            ("host=db timeout=3", "timeout"),
            ("host=db port=many", "cannot be read"),
        ] {
            let (what, help) = Server::mistake(wrong).unwrap();
            assert!(
                what.contains(reported) && !what.contains("geheim") && !help.is_empty(),
                "{wrong}: {what}"
            );
        }
    }

    #[test]
    fn long_texts_of_a_server_are_cut() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"ü".repeat(100_000)), "ü".repeat(TEXT_CHARS_MAX) + "...");
    }

    #[test]
    fn fields_of_a_file_of_passwords_are_read_as_libpq_reads_them() {
        assert_eq!(fields("db:5432:*:me:se\\:cr\\\\et"), ["db", "5432", "*", "me", "se:cr\\et"]);
        // The last field ends with the line.
        assert_eq!(fields("a\\:b:1:c:d:e:f"), ["a:b", "1", "c", "d", "e:f"]);
        assert_eq!(fields(""), [""]);
        let config: tokio_postgres::Config = "host=db user=me".parse().unwrap();
        let of_environment = password(&config, Some("x".into()), Some(Path::new("/nowhere"))).unwrap();
        assert_eq!(of_environment.as_deref(), Some("x"));
        assert_eq!(password(&config, None, None).unwrap(), None);
    }
}
