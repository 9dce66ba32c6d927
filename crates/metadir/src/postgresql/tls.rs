//! TLS connections to PostgreSQL.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::{InvalidDnsNameError, ServerName};
use tls::{ClientConfig, Trust};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};

use super::wire::{Counter, Stream as Socket};

/// TLS with a PostgreSQL server. The certificate and the host name are always verified.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Trusts the authorities of a file, or those that this host trusts.
    pub(crate) fn new(file: Option<&Path>) -> Result<Tls, String> {
        let trust = file.map_or(Trust::System, |file| Trust::File(file.into()));
        Ok(Tls(Arc::new(tls::client(&trust, None)?)))
    }
}

/// A TLS handshake with the server of a host name.
pub(crate) struct Handshake(TlsConnector, ServerName<'static>);

impl Tls {
    /// A handshake with the server of this name.
    pub(crate) fn handshake(&self, host: &str) -> Result<Handshake, InvalidDnsNameError> {
        Ok(Handshake(self.0.clone().into(), ServerName::try_from(host)?.to_owned()))
    }
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        let Handshake(connector, name) = self;
        Box::pin(async move {
            let counter = socket.counter();
            Ok(Stream(connector.connect(name, socket).await?, counter))
        })
    }
}

/// A connection over TLS.
pub(crate) struct Stream(client::TlsStream<Socket>, Counter);

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        // The certificate authenticates the server; SCRAM is used without channel binding.
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, to: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Stream(stream, counter) = self.get_mut();
        let before = into.filled().len();
        let read = Pin::new(stream).poll_read(to, into);
        counter.receive(&into.filled()[before..])?;
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, to: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(to, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, to: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(to)
    }

    fn poll_shutdown(self: Pin<&mut Self>, to: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(to)
    }
}

/// The TLS parameters of a libpq connection string.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsParameters {
    /// The connection string without the parameters that the crate `postgres` does not support, and with
    /// their equivalents.
    pub(crate) connection: String,
    /// `sslmode`, as it was written.
    pub(crate) mode: Option<String>,
    /// `sslrootcert`; none also for `system`.
    pub(crate) authorities: Option<PathBuf>,
}

impl TlsParameters {
    /// Removes the TLS parameters from a connection string.
    pub(crate) fn of(connection: &str) -> TlsParameters {
        let (connection, file) = take(connection, "sslrootcert");
        let (without, mode) = take(&connection, "sslmode");
        let is_protected = matches!(mode.as_deref(), Some("require" | "verify-full"));
        let connection = if is_protected { with(&without, "sslmode=require") } else { connection };
        let authorities = file.filter(|file| file != "system").map(PathBuf::from);
        TlsParameters { connection, mode, authorities }
    }

    /// Whether the connection uses TLS.
    pub(crate) fn is_protected(&self) -> bool {
        matches!(self.mode.as_deref(), Some("require" | "verify-full"))
    }
}

/// A connection string in which a relative `sslrootcert` is resolved against a folder.
pub(crate) fn relative_to(connection: &str, folder: &Path) -> String {
    let (without, file) = take(connection, "sslrootcert");
    match file {
        Some(file) if file != "system" && Path::new(&file).is_relative() => {
            let path = folder.join(file).display().to_string();
            let value = match is_url(connection) {
                true => path.replace('%', "%25").replace('&', "%26").replace('#', "%23"),
                false => format!("'{}'", path.replace('\\', "\\\\").replace('\'', "\\'")),
            };
            with(&without, &format!("sslrootcert={value}"))
        }
        _ => connection.into(),
    }
}

fn is_url(connection: &str) -> bool {
    connection.starts_with("postgres://") || connection.starts_with("postgresql://")
}

/// A connection string with an additional parameter.
fn with(connection: &str, word: &str) -> String {
    let between = match (is_url(connection), connection.contains('?')) {
        (true, true) => '&',
        (true, false) => '?',
        (false, _) => ' ',
    };
    format!("{connection}{between}{word}")
}

/// A connection string without a parameter, and the value of that parameter.
fn take(connection: &str, name: &str) -> (String, Option<String>) {
    if is_url(connection) {
        let Some((begin, words)) = connection.split_once('?') else { return (connection.into(), None) };
        let mut value = None;
        let mut left: Vec<&str> = words.split('&').collect();
        left.retain(|word| match word.split_once('=') {
            Some((of, text)) if of == name => {
                value = Some(unescaped(text));
                false
            }
            _ => true,
        });
        let left = left.join("&");
        return (if left.is_empty() { begin.into() } else { format!("{begin}?{left}") }, value);
    }
    let mut rest = connection;
    let mut left = String::new();
    let mut found = None;
    while let Some(at) = rest.find(|character: char| !character.is_whitespace()) {
        let word = &rest[at..];
        let Some((of, after)) = word.split_once('=') else {
            // The parser of the connection string reports an invalid parameter.
            left.push_str(rest);
            break;
        };
        let (value, length) = value_of(after.trim_start());
        let end = word.len() - after.trim_start().len() + length;
        if of.trim() == name {
            found = Some(value);
        } else {
            left.push_str(&rest[..at + end]);
        }
        rest = &word[end..];
    }
    (left, found)
}

/// The value at the beginning of a text and its length. It may be quoted and contain backslash escapes.
fn value_of(text: &str) -> (String, usize) {
    let is_quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(is_quoted));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, character)| character)),
            '\'' if is_quoted => return (value, at + 1),
            _ if !is_quoted && character.is_whitespace() => return (value, at),
            _ => value.push(character),
        }
    }
    (value, text.len())
}

/// Decodes the percent escapes of a URL.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_tls_are_taken_out_of_a_connection_string() {
        let words = |text: &str| TlsParameters::of(text);
        let plain = "host=db user=me sslmode=prefer";
        assert_eq!(words(plain).connection, plain);
        assert!(!words(plain).is_protected() && words("host=db").mode.is_none());
        for (text, connection, file) in [
            ("host=db sslmode=verify-full user=me", "host=db user=me sslmode=require", None),
            ("sslmode = 'require' host=db", " host=db sslmode=require", None),
            (
                "host=db sslrootcert='/a b/it\\'s.pem' sslmode=verify-full",
                "host=db sslmode=require",
                Some("/a b/it's.pem"),
            ),
            ("host=db sslmode=require sslrootcert=system", "host=db sslmode=require", None),
            (
                "postgresql://me@db/x?sslmode=verify-full&sslrootcert=/a%20b.pem&connect_timeout=3",
                "postgresql://me@db/x?connect_timeout=3&sslmode=require",
                Some("/a b.pem"),
            ),
            ("postgres://me@db/x?sslmode=require", "postgres://me@db/x?sslmode=require", None),
        ] {
            let found = words(text);
            assert_eq!((found.connection.as_str(), found.is_protected()), (connection, true), "{text}");
            assert_eq!(found.authorities.as_deref(), file.map(Path::new), "{text}");
        }
        // An unreadable parameter is kept; the parser reports it.
        assert_eq!(words("host=db sslmode").connection, "host=db sslmode");
    }

    #[test]
    fn a_file_of_authorities_begins_in_the_folder_of_the_configuration() {
        let folder = Path::new("/etc/it's");
        for (text, expected) in [
            ("host=db", "host=db"),
            ("host=db sslrootcert=/ca.pem", "host=db sslrootcert=/ca.pem"),
            ("host=db sslrootcert=system", "host=db sslrootcert=system"),
            ("sslrootcert=ca.pem host=db", " host=db sslrootcert='/etc/it\\'s/ca.pem'"),
            ("postgres://db/x?sslrootcert=ca.pem", "postgres://db/x?sslrootcert=/etc/it's/ca.pem"),
        ] {
            let found = relative_to(text, folder);
            assert_eq!(found, expected);
            let file = TlsParameters::of(&found).authorities;
            assert!(file.is_none_or(|file| file == Path::new("/ca.pem") || file == folder.join("ca.pem")));
        }
    }
}
