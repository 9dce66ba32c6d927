//! Requests to exporters.

use std::io::Read as _;

use model::SecretParts;
use tls::Trust;
use ureq::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use ureq::http::{HeaderValue, Request};

use super::entry::Exporter;

/// The most bytes of an exposition.
pub(super) const BODY_BYTES_MAX: u64 = 64 << 20;
/// The most characters of a text of the exporter in a message.
const TEXT_CHARS_MAX: usize = 200;

/// A client of one exporter, with a connection that is kept open.
pub(super) struct Client {
    agent: ureq::Agent,
    url: String,
    authorization: Option<HeaderValue>,
}

/// Whether an exposition must end with a mark, so that a truncated one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The text format of Prometheus: its last line ends.
    Line,
    /// OpenMetrics: `# EOF`.
    Mark,
}

impl Client {
    pub(super) fn new(exporter: &Exporter) -> Result<Client, String> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // Another host would get the token, and its counters would have the name of this one.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .timeout_global(Some(exporter.timeout))
            .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .accept("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
            // Compression would use CPU time of the host that is observed.
            .accept_encoding("identity")
            .proxy(None);
        let trust = match &exporter.ca {
            _ if exporter.insecure => Trust::Insecure,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        let is_secured = exporter.url.starts_with("https://");
        let tls = is_secured.then(|| tls::client(&trust, None)).transpose()?;
        let authorization = exporter.authorization.as_ref().map(|text| {
            let mut value = HeaderValue::from_str(text)
                .map_err(|_| "the token has characters that no token has".to_string())?;
            value.set_sensitive(true);
            Ok::<HeaderValue, String>(value)
        });
        Ok(Client {
            agent: https::agent(config.build(), tls),
            url: exporter.url.clone(),
            authorization: authorization.transpose()?,
        })
    }

    /// Reads an exposition into `body`. Calls `answered` when its first bytes arrive.
    ///
    /// # Errors
    /// Why there is none, with what to do. Contains no secret.
    pub(super) fn read(&self, body: &mut Vec<u8>, answered: impl FnOnce()) -> Result<End, String> {
        let mut request = Request::get(&self.url);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(()).map_err(|error| error.to_string())?;
        let (parts, mut answer) = self.agent.run(request).map_err(|error| failure(&error))?.into_parts();
        answered();
        let status = parts.status.as_u16();
        if status != 200 {
            return Err(refusal(status, &parts.headers, self.authorization.is_some()));
        }
        if let Some(encoding) = text(&parts.headers, CONTENT_ENCODING)
            .filter(|encoding| !encoding.eq_ignore_ascii_case("identity"))
        {
            return Err(format!(
                "it answers in the encoding {}, which was not requested",
                visible(&encoding)
            ));
        }
        body.clear();
        let read = answer.with_config().limit(BODY_BYTES_MAX).reader().read_to_end(body);
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "its answer was truncated".to_string(),
            _ => failure(&ureq::Error::from(error)),
        })?;
        let kind = text(&parts.headers, CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("text/html") {
            return Err("it answers with a web page: is the path of the URL that of its metrics?".into());
        }
        Ok(if kind.starts_with("application/openmetrics-text") { End::Mark } else { End::Line })
    }
}

fn failure(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it did not answer in time: raise `timeout`".into(),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            "the connection was refused: is the exporter running, and is the port right?".into()
        }
        ureq::Error::Io(error) => visible(&error.to_string()),
        ureq::Error::HostNotFound => "the host name is not known".into(),
        ureq::Error::BodyExceedsLimit(_) => {
            format!("its answer is larger than {} MiB", BODY_BYTES_MAX >> 20)
        }
        ureq::Error::Protocol(error) => visible(&format!("it does not speak HTTP as it should: {error}")),
        other => visible(&other.to_string()),
    }
}

fn refusal(status: u16, headers: &HeaderMap, has_credentials: bool) -> String {
    let help = match status {
        300..=399 => {
            let to = text(headers, LOCATION).unwrap_or_else(|| "elsewhere".into());
            format!(
                ": it redirects to {}; write the URL of the metrics",
                visible(&SecretParts::Url.hide(&to))
            )
        }
        401 | 403 if has_credentials => ": it rejects the user, password or token".into(),
        401 | 403 => ": it needs a user and password, or a token".into(),
        404 => ": is the path of the URL that of its metrics?".into(),
        _ => String::new(),
    };
    format!("it answers with HTTP status {status}{help}")
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.trim().to_string())
}

/// A text of somebody else, for a message.
pub(super) fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_CHARS_MAX).collect()
}
