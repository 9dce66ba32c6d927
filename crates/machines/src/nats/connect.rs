//! A connection to a NATS server: credentials, TLS, and whether it is up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use engine::clock::Clock;
use model::{Nanos, Secret, SecretParts};
use tls::{ClientCertificate, Trust};
use tokio::sync::watch;

use super::place::{Files, Place};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the server is asked whether it is there; after three questions without an answer the connection is made again.
const PING_EVERY: Duration = Duration::from_secs(1);

/// The longest pause between two attempts to connect again.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Messages that wait for the server while it is away.
const WAITING_MAX: usize = 16 << 10;

/// Who connects.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Credentials {
    /// A token.
    Token(Secret),
    /// A name and a password.
    User(String, Secret),
    /// The seed of an NKEY.
    Nkey(Secret),
    /// A JWT and a seed, in the format of `nsc`.
    Creds(Secret),
    /// The certificate of TLS, or nothing.
    None,
}

impl Credentials {
    /// Reads the file that a place names, or the variable that is set. Only files that no other user can read.
    ///
    /// # Errors
    /// Which file cannot be read and why, or that two are given.
    fn read(files: &Files, variable: &dyn Fn(&str) -> Option<String>) -> Result<Credentials, String> {
        let whole = |text: String| Secret::new(&text, SecretParts::Whole);
        // Some of its errors name the file already.
        let named = |path: &Path, error: std::io::Error| {
            let (path, error) = (path.display().to_string(), error.to_string());
            if error.contains(&path) { error } else { format!("{path}: {error}") }
        };
        let all = |path: &Path| files::secret::read(path).map(whole).map_err(|error| named(path, error));
        let line = |path: &Path| {
            let text = files::secret::read_line(path).map_err(|error| named(path, error))?;
            Ok(whole(text.trim().into()))
        };
        let Files { token, creds, nkey, .. } = files;
        match (token, creds, nkey) {
            (Some(path), None, None) => line(path).map(Credentials::Token),
            (None, Some(path), None) => all(path).map(Credentials::Creds),
            (None, None, Some(path)) => line(path).map(Credentials::Nkey),
            (None, None, None) => {
                if let Some(token) = variable("NATS_TOKEN") {
                    Ok(Credentials::Token(whole(token)))
                } else if let (Some(user), Some(password)) =
                    (variable("NATS_USER"), variable("NATS_PASSWORD"))
                {
                    Ok(Credentials::User(user, whole(password)))
                } else if let Some(path) = variable("NATS_CREDS") {
                    all(path.as_ref()).map(Credentials::Creds)
                } else if let Some(path) = variable("NATS_NKEY") {
                    line(path.as_ref()).map(Credentials::Nkey)
                } else {
                    Ok(Credentials::None)
                }
            }
            _ => Err("two kinds of credentials are given: keep one of token-file, creds and nkey".into()),
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Credentials::Token(_) => "the token",
            Credentials::User(..) => "the user or the password",
            Credentials::Nkey(_) => "the NKEY",
            Credentials::Creds(_) => "the credentials file",
            Credentials::None => "a connection without credentials",
        }
    }

    /// Whether who listens on the way could use them. NKEYs and JWTs sign a number of the server instead.
    fn are_sent(&self) -> bool {
        matches!(self, Credentials::Token(_) | Credentials::User(..))
    }

    fn add_to(&self, options: ConnectOptions) -> Result<ConnectOptions, String> {
        Ok(match self {
            Credentials::Token(token) => options.token(token.reveal().into()),
            Credentials::User(user, password) => {
                options.user_and_password(user.clone(), password.reveal().into())
            }
            Credentials::Nkey(seed) => options.nkey(seed.reveal().into()),
            Credentials::Creds(text) => options.credentials(text.reveal()).map_err(
                |_| "the credentials file has no JWT with a seed: make it with `nsc generate creds`",
            )?,
            Credentials::None => options,
        })
    }
}

/// Whether the connection is up, and how often it was made.
#[derive(Debug)]
pub(super) struct Line {
    /// When it was lost, on the clock of this process; 0 while it is up.
    lost: AtomicU64,
    made: watch::Sender<u64>,
}

impl Line {
    /// When the connection was lost; none while it is up.
    pub(super) fn lost_since(&self) -> Option<Nanos> {
        Some(self.lost.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Changes each time that the connection is made.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.made.subscribe()
    }

    fn happened(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.lost.store(0, Ordering::Relaxed);
                self.made.send_modify(|count| *count += 1);
            }
            Event::Disconnected => {
                let _ = self.lost.compare_exchange(
                    0,
                    Clock::get().now().max(1),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
            _ => {}
        }
    }
}

/// A server that was connected to.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) line: Arc<Line>,
    /// Whether all that is sent to it is encrypted.
    pub(super) is_tls: bool,
}

/// Connects to the server of a place; `name` is shown by the server.
///
/// # Errors
/// What is wrong and what to do, without secrets.
pub(super) async fn connect(place: &Place, name: &str) -> Result<Connected, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let server = place.server();
    let wrong = |why: String| format!("{server}: {why}");
    let credentials = Credentials::read(&place.files, &variable).map_err(wrong)?;
    let path =
        |file: &Option<std::path::PathBuf>, name| file.clone().or_else(|| variable(name).map(Into::into));
    let ca = path(&place.files.ca, "NATS_CA");
    let own = match (path(&place.files.cert, "NATS_CERT"), path(&place.files.key, "NATS_KEY")) {
        (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
        (None, None) => None,
        _ => return Err(wrong("a client certificate needs both `cert` and `key`".into())),
    };
    let must_be_tls = place.tls || ca.is_some() || own.is_some();
    if credentials.are_sent() && !must_be_tls && !is_this_host(&place.host) {
        return Err(wrong(format!(
            "{} could be read on the way: write tls:// instead of nats://, or use an NKEY or a credentials file, which are not sent",
            credentials.words()
        )));
    }
    let config = tls::client(&ca.map_or(Trust::System, Trust::File), own.as_ref()).map_err(wrong)?;
    let line = Arc::new(Line { lost: AtomicU64::new(0), made: watch::Sender::new(0) });
    let of_events = line.clone();
    let options = ConnectOptions::new()
        .name(name)
        .connection_timeout(PATIENCE)
        .request_timeout(Some(PATIENCE))
        .ping_interval(PING_EVERY)
        .client_capacity(WAITING_MAX)
        .reconnect_delay_callback(|attempts| {
            PAUSE_MAX.min(Duration::from_millis(25) * attempts.min(100) as u32)
        })
        // Servers that a cluster adds may have names that only the cluster can resolve.
        .ignore_discovered_servers()
        .tls_client_config(config)
        .require_tls(must_be_tls)
        .event_callback(move |event| {
            of_events.happened(&event);
            std::future::ready(())
        });
    let options = credentials.add_to(options).map_err(wrong)?;
    let address = format!("nats://{}:{}", place.host, place.port);
    let client = options.connect(address).await.map_err(|error| {
        let source = std::error::Error::source(&error).map_or(String::new(), |source| format!(" ({source})"));
        wrong(match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => format!(
                "the server refuses {}: set NATS_TOKEN, or NATS_USER and NATS_PASSWORD, or name a file with ?creds=, ?nkey= or ?token-file=",
                credentials.words()
            ),
            ConnectErrorKind::Dns => format!("the host has no address{source}"),
            ConnectErrorKind::TimedOut => "the server does not answer: check that a NATS server listens there".into(),
            kind if kind == ConnectErrorKind::Tls || source.contains("certificate") => format!("no TLS connection{source}: name the authority of its certificate with ?ca=FILE or NATS_CA"),
            _ => format!("no connection{source}: check that a NATS server listens there"),
        })
    })?;
    let info = client.server_info();
    if !info.auth_required && own.is_none() {
        return Err(wrong(
            "the server lets in anyone, so anyone could aim the agents: give it a token, users, NKEYs or client certificates".into(),
        ));
    }
    // The client upgrades the connection wherever the server requires it.
    Ok(Connected { client, line, is_tls: must_be_tls || info.tls_required })
}

fn is_this_host(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn credentials_are_in_files_of_their_own_or_in_variables() {
        let folder = testkit::Scratch::new();
        let path = folder.file("token", "s3cret\n");
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let of_file = Files { token: Some(path.clone()), ..Files::default() };
        let none = |_: &str| None;
        set(0o644);
        assert!(Credentials::read(&of_file, &none).unwrap_err().contains("chmod 600"));
        set(0o600);
        let Ok(Credentials::Token(token)) = Credentials::read(&of_file, &none) else { panic!() };
        assert_eq!((token.reveal(), format!("{token:?}")), ("s3cret", "\"***\"".to_string()));
        let both = Files { nkey: Some(path.clone()), ..of_file.clone() };
        assert!(Credentials::read(&both, &none).unwrap_err().contains("two kinds"));
        let missing = Files { creds: Some(folder.join("missing")), ..Files::default() };
        assert!(Credentials::read(&missing, &none).unwrap_err().contains("missing"));
        let variables = |set: &'static [(&str, &str)]| {
            move |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        let empty = Files::default();
        let read =
            |variable: &dyn Fn(&str) -> Option<String>| Credentials::read(&empty, variable).unwrap().words();
        assert_eq!(read(&none), "a connection without credentials");
        assert_eq!(read(&variables(&[("NATS_TOKEN", "t")])), "the token");
        assert_eq!(read(&variables(&[("NATS_USER", "u")])), "a connection without credentials");
        assert_eq!(
            read(&variables(&[("NATS_USER", "u"), ("NATS_PASSWORD", "p")])),
            "the user or the password"
        );
        // A file that is named comes before a variable.
        let both =
            Credentials::read(&of_file, &variables(&[("NATS_USER", "u"), ("NATS_PASSWORD", "p")])).unwrap();
        assert_eq!(both.words(), "the token");
    }
}
