//! The HTTP client of one service: sends requests, interprets the status, and retries.

use std::thread::sleep;
use std::time::{Duration, Instant};

use https::Secured;
use ldap::session::wait::SLICE;
use serde_json::Value;
use tls::Trust;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use ureq::http::{HeaderValue, Method, Request};
use ureq::unversioned::transport::Connector;

use super::path::get;
use super::settings::Scim;
use super::transport::Network;
use metadir::Interrupt;
use metadir::agent::{AgentError, Refused};
use metadir::password::Password;

/// The size limit of a response.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Limit of the waiting time for a busy service, over all attempts of a request.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// The length limit of a text from the service in an error message.
const DETAIL_CHARS_MAX: usize = 300;

/// A client of a service. Several threads may use it at a time.
pub(super) struct Client {
    http: ureq::Agent,
    interrupt: Interrupt,
    url: String,
    /// Contains the token, which is never shown.
    authorization: Option<HeaderValue>,
}

/// A response.
pub(super) struct Answer {
    pub(super) status: u16,
    /// Null if it is not JSON.
    pub(super) body: Value,
    headers: HeaderMap,
}

impl Client {
    pub(super) fn new(settings: &Scim) -> Result<Client, AgentError> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(settings.connections)
            .max_idle_connections_per_host(settings.connections)
            .timeout_global(Some(settings.timeout))
            .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .accept("application/scim+json, application/json")
            .proxy(None);
        let trust = settings.ca_file.clone().map_or(Trust::System, Trust::File);
        let is_secured = settings.url.starts_with("https://");
        let tls = is_secured.then(|| tls::client(&trust, None)).transpose();
        let tls = tls.map_err(|why| AgentError::system("preparing TLS", why))?;
        let network = Network(settings.interrupt.clone());
        let connector = Connector::<()>::chain(network.clone(), Secured::new(tls));
        Ok(Client {
            http: ureq::Agent::with_parts(config.build(), connector, network),
            interrupt: settings.interrupt.clone(),
            url: settings.url.clone(),
            authorization: settings.token.as_ref().map(authorization).transpose()?,
        })
    }

    /// Sends a request, and repeats it for a limited time while the service is busy.
    pub(super) fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, AgentError> {
        let mut waited = Duration::ZERO;
        let mut pause = Duration::from_secs(1);
        loop {
            let answer = self.once(method, path, body)?;
            if !matches!(answer.status, 429 | 503) {
                return self.judged(answer, method, path);
            }
            let asked =
                answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let wait = asked.map_or(pause, Duration::from_secs);
            if waited.saturating_add(wait) > WAIT_MAX {
                let why = format!(
                    "{}; Plimsoll waited {} s; run it again later",
                    answer.error_text(),
                    waited.as_secs()
                );
                return Err(self.failed(method, path, why));
            }
            let end = Instant::now() + wait;
            while let left = end.saturating_duration_since(Instant::now())
                && !left.is_zero()
            {
                if self.interrupt.is_set() {
                    return Err(self.failed(method, path, "interrupted"));
                }
                sleep(left.min(SLICE));
            }
            waited += wait.max(Duration::from_millis(100));
            pause *= 2;
        }
    }

    fn once(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Answer, AgentError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let failed = |error: ureq::Error| {
            let help = match &error {
                ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                    ": check that the service is running and that the port in `url` is correct"
                }
                ureq::Error::Timeout(_) => ": check that the service responds, or raise `timeout_s`",
                _ => "",
            };
            self.failed(method, path, format!("{error}{help}"))
        };
        let unwritable = |error: ureq::http::Error| self.failed(method, path, error);
        let response = match body {
            None => self.http.run(request.body(()).map_err(unwritable)?),
            Some(body) => {
                let request = request.header(CONTENT_TYPE, "application/scim+json");
                self.http.run(request.body(body.to_string()).map_err(unwritable)?)
            }
        };
        let (parts, mut body) = response.map_err(failed)?.into_parts();
        let bytes = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map_err(failed)?;
        let status = parts.status.as_u16();
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            Err(error) if !bytes.is_empty() && parts.status.is_success() => {
                let why =
                    format!("its answer {status} is not JSON: {error}; is `url` the base of a SCIM service?");
                return Err(self.failed(method, path, why));
            }
            Err(_) => Value::Null,
        };
        Ok(Answer { status, body, headers: parts.headers })
    }

    /// Converts responses that concern the whole service instead of a resource to errors.
    fn judged(&self, answer: Answer, method: &Method, path: &str) -> Result<Answer, AgentError> {
        let help = match answer.status {
            300..=399 => {
                let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
                format!("; it sends to {to}: write that base into `url`")
            }
            401 if self.authorization.is_none() => "; name a token with `token_file` or `token_env`".into(),
            401 => "; the service rejects the token: check whether it has expired".into(),
            502 | 504 => "; the server behind it does not respond".into(),
            _ => return Ok(answer),
        };
        Err(self.failed(method, path, answer.error_text() + &help))
    }

    /// The error of a failed request.
    pub(super) fn failed(&self, method: &Method, path: &str, why: impl ToString) -> AgentError {
        // The query of a search may be confidential.
        let path = path.split('?').next().unwrap_or_default();
        AgentError::system(format!("{method} {}{path}", self.url), why)
    }
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The time of the response by the clock of the service.
    pub(super) fn date(&self) -> Option<&str> {
        self.headers.get("date")?.to_str().ok()
    }

    pub(super) fn error_text(&self) -> String {
        error_text(self.status, &self.body)
    }
}

/// Whether a change was made, according to its status and body.
pub(super) fn made(status: u16, body: &Value) -> Result<(), Refused> {
    if (200..300).contains(&status) { Ok(()) } else { Err(Refused(error_text(status, body))) }
}

/// An error in the form of RFC 7644 (section 3.12): `400 invalidValue: the detail`.
fn error_text(status: u16, body: &Value) -> String {
    let text = |name| get(body, name).and_then(Value::as_str).unwrap_or_default();
    let mut said = format!("the service answers {status}");
    for (before, part) in [(" ", text("scimType")), (": ", text("detail"))] {
        if !part.is_empty() {
            said += before;
            said.extend(part.chars().map(|c| if c.is_control() { ' ' } else { c }).take(DETAIL_CHARS_MAX));
        }
    }
    said
}

pub(super) fn is_no_target(status: u16, body: &Value) -> bool {
    status == 400 && get(body, "scimType").and_then(Value::as_str) == Some("noTarget")
}

fn authorization(token: &Password) -> Result<HeaderValue, AgentError> {
    let bytes = token.read("token")?;
    let value = HeaderValue::from_bytes(&[b"Bearer ", bytes.trim_ascii()].concat());
    let mut value = value.map_err(|_| {
        AgentError::system(format!("reading the token from {token}"), "it has characters that no token has")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Percent-encodes a text for a URL.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte as char),
            _ => escaped += &format!("%{byte:02X}"),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_is_reported_in_the_words_of_the_service() {
        let body = json!({"scimType": "invalidValue", "detail": "no\nroom", "status": "400"});
        assert_eq!(error_text(400, &body), "the service answers 400 invalidValue: no room");
        assert_eq!(error_text(500, &Value::Null), "the service answers 500");
        assert!(error_text(400, &json!({"detail": "x".repeat(5000)})).len() < 400);
    }

    #[test]
    fn nothing_gets_out_of_its_place_in_a_url() {
        assert_eq!(escaped("a/b?c&d=\"é\" %"), "a%2Fb%3Fc%26d%3D%22%C3%A9%22%20%25");
    }
}
