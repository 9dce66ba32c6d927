//! TLS of the connections: the client configuration, the handshake before the load, and records in a worker's buffers.

use std::io::{self, Read as _, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::inputs::Inputs;
use engine::workload::LoadError;
use model::{Key, Problems, Settings};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConnection, HandshakeKind};
use tls::{ClientCertificate, ClientConfig, Trust};

/// The files of TLS, and whether sessions are resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsPlan {
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) resumes: bool,
    /// Whether every certificate of a server is accepted.
    pub(crate) is_insecure: bool,
    /// Paths that the user did not write, with those that the user wrote.
    named: Vec<(String, String)>,
}

/// The settings of TLS: the files of the authorities, of the client certificate and of its key, and whether every
/// certificate of a server is accepted.
pub(crate) struct TlsKeys {
    pub(crate) authorities: &'static Key<Option<String>>,
    pub(crate) certificate: &'static Key<Option<String>>,
    pub(crate) key: &'static Key<Option<String>>,
    pub(crate) insecure: &'static Key<bool>,
}

/// The fact of a load that accepts every certificate.
pub(crate) const INSECURE: &str = "tls.insecure";

impl TlsPlan {
    /// Reads the settings. `plain` is a server that is reached without TLS, with the advice.
    pub(crate) fn read(
        (settings, inputs): (&Settings, &Inputs),
        keys: &TlsKeys,
        resumes: bool,
        plain: Option<(String, &str)>,
        problems: &mut Problems,
    ) -> TlsPlan {
        let mut named = Vec::new();
        let mut file = |key: &'static Key<Option<String>>, is_secret| {
            let written = settings.get(key)?;
            match inputs.path(Path::new(&written), is_secret) {
                Ok(path) => {
                    let read = path.display().to_string();
                    named.extend((read != written).then_some((read, written)));
                    Some(path)
                }
                Err(error) => {
                    problems.add(&[key], format!("{written} cannot be read: {error}"), "");
                    None
                }
            }
        };
        let authorities = file(keys.authorities, false);
        let certificate = file(keys.certificate, false);
        let key = file(keys.key, true);
        match (settings.get(keys.certificate), settings.get(keys.key)) {
            (Some(_), None) => problems.add(
                &[keys.certificate],
                "the client certificate has no key",
                "give the file of its private key with `client_key`",
            ),
            (None, Some(_)) => problems.add(
                &[keys.key],
                "the client key has no certificate",
                "give the file of the certificate with `client_certificate`",
            ),
            _ => {}
        }
        let is_insecure = settings.get(keys.insecure);
        if is_insecure && settings.given(keys.authorities) {
            problems.add(
                &[keys.insecure, keys.authorities],
                "`insecure` accepts every certificate, so that the trusted ones have no effect",
                format!(
                    "leave `insecure` out: a certificate in the file of `{}` is trusted",
                    keys.authorities.name
                ),
            );
        }
        if let Some((server, help)) = plain {
            let what = format!("{server} is reached without TLS");
            match (&authorities, &certificate, is_insecure) {
                (Some(_), _, _) => problems.add(&[keys.authorities], what, help),
                (None, Some(_), _) => problems.add(&[keys.certificate], what, help),
                (None, None, true) => problems.add(&[keys.insecure], what, help),
                (None, None, false) => {}
            }
        }
        TlsPlan { authorities, certificate, key, resumes, is_insecure, named }
    }
}

impl TlsPlan {
    /// The certificates of servers that are trusted.
    pub(crate) fn trust(&self) -> Trust {
        match &self.authorities {
            _ if self.is_insecure => Trust::Insecure,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        }
    }
}

/// What connections need to begin TLS with a host.
#[derive(Clone, Debug)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsClient {
    /// Reads the files. The server may choose among these protocols (RFC 7301). `host` is a name or an address without
    /// brackets.
    pub(crate) fn new(host: &str, plan: &TlsPlan, protocols: &[&[u8]]) -> Result<TlsClient, LoadError> {
        let wrong = |why: String| {
            let named = plan.named.iter().fold(why, |why, (read, written)| why.replace(read, written));
            LoadError::new(named, "")
        };
        let own = plan.certificate.clone().zip(plan.key.clone());
        let own = own.map(|(certificate, key)| ClientCertificate { certificate, key });
        let mut config = tls::client(&plan.trust(), own.as_ref()).map_err(wrong)?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        if !plan.resumes {
            config.resumption = Resumption::disabled();
        }
        let name = tls::server_name(host).map_err(wrong)?;
        Ok(TlsClient { config: Arc::new(config), name })
    }

    /// The same, with one protocol. Sessions are resumed all the same.
    pub(crate) fn with_protocol(&self, protocol: &[u8]) -> TlsClient {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![protocol.to_vec()];
        TlsClient { config: Arc::new(config), name: self.name.clone() }
    }

    /// The client side of a new connection.
    pub(crate) fn begin(&self) -> Result<ClientConnection, TlsFault> {
        ClientConnection::new(self.config.clone(), self.name.clone()).map_err(|error| TlsFault::of(&error))
    }

    /// Makes a handshake with a server, before the load, so that a certificate that is not trusted is known then. Returns
    /// the protocol that the server chose, if it chose one.
    pub(crate) fn try_handshake(
        &self,
        address: &SocketAddr,
        patience: Duration,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        let failed = |why: String| {
            LoadError::new(
                format!("TLS with {address} failed: {why}"),
                "name the file of the server's certificate, or of the authority that signed it (`ca`), write the host as the certificate has it, and see that this port speaks TLS; for a test without authentication of the server, set `insecure`",
            )
        };
        let words = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => LoadError::new(
                format!(
                    "TLS with {address} failed: the server did not answer the handshake within {}",
                    model::quantity::duration(patience.as_nanos() as u64)
                ),
                "check that the server is running, that this port speaks TLS, and that it takes more than one connection at a time",
            ),
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
                LoadError::new(
                    format!(
                        "TLS with {address} failed: the server ended the connection in the handshake ({})",
                        tls::failure(&error)
                    ),
                    "see that this port speaks TLS, and what the log of the server says: it may want a client certificate, or another version of TLS",
                )
            }
            _ => failed(tls::failure(&error)),
        };
        let mut stream = TcpStream::connect_timeout(address, patience).map_err(words)?;
        stream
            .set_read_timeout(Some(patience))
            .and_then(|()| stream.set_write_timeout(Some(patience)))
            .map_err(words)?;
        let mut connection = ClientConnection::new(self.config.clone(), self.name.clone())
            .map_err(|error| failed(error.to_string()))?;
        while connection.is_handshaking() {
            if let Err(error) = connection.complete_io(&mut stream) {
                let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                return match inner {
                    Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => Ok(None),
                    _ => Err(words(error)),
                };
            }
        }
        let protocol = connection.alpn_protocol().map(<[u8]>::to_vec);
        // The client certificate is refused after the handshake of TLS 1.3: what the server says then is read
        // with the first response.
        connection.send_close_notify();
        let _ = connection.complete_io(&mut stream);
        Ok(protocol)
    }
}

/// Why TLS with a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsFault {
    /// Its certificate is not trusted, expired, or for another name.
    Certificate,
    /// The server refused with this alert.
    Alert(u8),
    /// It does not speak TLS.
    NoTls,
    /// No common version, cipher or protocol.
    Incompatible,
    /// Anything else.
    Other,
}

impl TlsFault {
    pub(crate) fn of(error: &rustls::Error) -> TlsFault {
        use rustls::Error;
        match error {
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => TlsFault::Certificate,
            Error::AlertReceived(alert) => TlsFault::Alert(u8::from(*alert)),
            Error::InvalidMessage(_) => TlsFault::NoTls,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => TlsFault::Incompatible,
            _ => TlsFault::Other,
        }
    }

    /// The lower 16 bits of its code.
    pub(crate) fn code(self) -> u32 {
        match self {
            TlsFault::Certificate => 1,
            TlsFault::NoTls => 2,
            TlsFault::Incompatible => 3,
            TlsFault::Other => 4,
            TlsFault::Alert(alert) => 0x100 | u32::from(alert),
        }
    }

    pub(crate) fn describe(code: u32) -> String {
        match code {
            1 => "TLS: the certificate of the server is not trusted".into(),
            2 => "TLS: the answer is not TLS".into(),
            3 => "TLS: no version, cipher or protocol in common".into(),
            4 => "TLS: the handshake failed, or a record is damaged".into(),
            alert => format!("TLS: refused by the server: {:?}", AlertDescription::from(alert as u8)),
        }
    }
}

/// How the handshake of a connection was made.
pub(crate) fn is_resumed(connection: &ClientConnection) -> bool {
    connection.handshake_kind() == Some(HandshakeKind::Resumed)
}

/// Sends encrypted records. Returns false if the socket takes no more now.
pub(crate) fn flush(connection: &mut ClientConnection, socket: &OwnedFd) -> Result<bool, Errno> {
    while connection.wants_write() {
        match connection.write_tls(&mut Socket(socket)) {
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => return Ok(false),
                Some(Errno::INTR) => {}
                errno => return Err(errno.unwrap_or(Errno::IO)),
            },
        }
    }
    Ok(true)
}

/// Encrypts bytes of a request. Returns how many; the others must wait until records were sent.
pub(crate) fn write(connection: &mut ClientConnection, bytes: &[u8]) -> usize {
    connection.writer().write(bytes).unwrap_or(0)
}

/// Takes in received bytes. Decrypted ones can be read then.
pub(crate) fn take_in(connection: &mut ClientConnection, received: &mut &[u8]) -> Result<(), TlsFault> {
    connection.read_tls(received).map_err(|_| TlsFault::Other)?;
    connection.process_new_packets().map_err(|error| TlsFault::of(&error))?;
    Ok(())
}

/// What can be read of the decrypted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    /// So many bytes.
    Bytes(usize),
    /// Nothing before more encrypted bytes are received.
    Nothing,
    /// The server has ended TLS with close_notify: nothing follows, even if its connection stays open (RFC 8446, section 6.1).
    End,
}

/// Reads decrypted bytes.
pub(crate) fn read(connection: &mut ClientConnection, into: &mut [u8]) -> Plain {
    match connection.reader().read(into) {
        Ok(0) => Plain::End,
        Ok(bytes) => Plain::Bytes(bytes),
        Err(_) => Plain::Nothing,
    }
}

/// A socket as rustls writes to it.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
