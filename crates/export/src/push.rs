//! Figures pushed to an endpoint while a run goes on: a queue with a limit and one thread, which sends.
//!
//! Whoever measures only appends to the queue. If the endpoint is slower than the figures, or does not answer, the oldest
//! figures in the queue are dropped and counted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tls::Trust;
use ureq::http::header::{CONTENT_TYPE, HeaderName};
use ureq::http::{HeaderValue, Uri};

use crate::otlp;

/// The longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The most bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// The most characters of an answer in a message.
const DETAIL_CHARS_MAX: usize = 200;
/// The most bytes that wait: some minutes of a host with a thousand counters.
const QUEUE_BYTES_MAX: usize = 16 << 20;
/// The most bytes of a request, unless a single part is larger.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The pause before a request is repeated: the first one, and the longest.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// An endpoint for OTLP over HTTP with the JSON encoding.
#[derive(Clone)]
pub struct Endpoint {
    http: ureq::Agent,
    url: String,
    /// Without secrets.
    shown: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.shown).finish()
    }
}

/// Why a request was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In words.
    pub why: String,
    /// Whether the same request may be accepted later.
    pub is_passing: bool,
}

impl Endpoint {
    /// An endpoint. `shown` is the URL without secrets; `headers` are header fields as `NAME: VALUE`, each also without its
    /// secrets. The trusted authorities are those of the host.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn new(url: &str, shown: &str, headers: &[(String, String)]) -> Result<Endpoint, String> {
        let wrong = |what: &str| format!("--export-to {shown}: {what}");
        let is_http = |of: &Uri| {
            matches!(of.scheme_str(), Some("http" | "https"))
                && of.host().is_some_and(|host| !host.is_empty())
        };
        let Some(parsed) = url.parse::<Uri>().ok().filter(is_http) else {
            return Err(wrong("this is not the URL of an endpoint\n  write http://HOST:4318/v1/metrics"));
        };
        if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong(
                "others can read credentials in a URL\n  write --export-header 'Authorization: Bearer ${env:NAME}'",
            ));
        }
        if matches!(parsed.path(), "" | "/") {
            let base = shown.trim_end_matches('/');
            return Err(wrong(&format!(
                "it has no path\n  write {base}/v1/metrics for an OpenTelemetry Collector, and {base}/api/v1/otlp/v1/metrics for Prometheus"
            )));
        }
        let headers = headers.iter().map(|(field, shown)| header(field, shown)).collect::<Result<_, _>>()?;
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(ANSWER_MAX))
            .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .proxy(None);
        let is_secured = parsed.scheme_str() == Some("https");
        let tls = is_secured.then(|| tls::client(&Trust::System, None)).transpose()?;
        Ok(Endpoint {
            http: https::agent(config.build(), tls),
            url: url.into(),
            shown: shown.into(),
            headers,
        })
    }

    /// Its URL without secrets.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Sends a request. Returns how many values of it the endpoint rejected, and why, if there are any.
    ///
    /// # Errors
    /// When it was not accepted.
    pub fn send(&self, body: &str) -> Result<Option<(u64, String)>, Refusal> {
        let mut request = self.http.post(&self.url).header(CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let failed = |error: ureq::Error| {
            let why = match &error {
                ureq::Error::Timeout(_) => format!("no answer within {} s", ANSWER_MAX.as_secs()),
                ureq::Error::Io(error) => error.to_string(),
                error => error.to_string(),
            };
            let is_passing =
                !matches!(error, ureq::Error::BadUri(_) | ureq::Error::Tls(_) | ureq::Error::Rustls(_));
            Refusal { why, is_passing }
        };
        let (parts, mut body) = request.send(body).map_err(failed)?.into_parts();
        // What is longer is not read; the status counts.
        let answer = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec().unwrap_or_default();
        let answer: serde_json::Value = serde_json::from_slice(&answer)
            .unwrap_or_else(|_| serde_json::Value::String(String::from_utf8_lossy(&answer).into_owned()));
        let status = parts.status.as_u16();
        if parts.status.is_success() {
            return Ok(rejected(&answer));
        }
        let said =
            answer.get("message").unwrap_or(&answer).as_str().map(short).filter(|said| !said.is_empty());
        let said = said.map_or_else(String::new, |said| format!(": {said}"));
        let help = match status {
            300..=399 => ". It sends elsewhere: use that URL",
            401 | 403 => ". Give credentials with --export-header",
            404 | 405 => {
                ". Is the path right? An OpenTelemetry Collector has /v1/metrics, Prometheus /api/v1/otlp/v1/metrics"
            }
            415 => ". It does not take OTLP in the JSON encoding: send it to an OpenTelemetry Collector",
            _ => "",
        };
        Err(Refusal {
            why: format!("status {status}{said}{help}"),
            // As OTLP has it, and an error of the server, which may be that of a proxy.
            is_passing: status == 429 || status >= 500,
        })
    }
}

/// What an endpoint did not take, as OTLP reports it.
fn rejected(answer: &serde_json::Value) -> Option<(u64, String)> {
    let partial = answer.get("partialSuccess").or_else(|| answer.get("partial_success"))?;
    let count = partial.get("rejectedDataPoints").or_else(|| partial.get("rejected_data_points"))?;
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok()).filter(|count| *count > 0)?;
    let said = partial.get("errorMessage").or_else(|| partial.get("error_message"));
    let said = said.and_then(serde_json::Value::as_str).unwrap_or_default();
    Some((count, format!("it rejected {count} values: {}", short(said))))
}

/// The begin of a foreign text, in one line.
fn short(text: &str) -> String {
    let text: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(DETAIL_CHARS_MAX).collect();
    text.trim().to_string()
}

fn header(field: &str, shown: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = |what: &str| format!("--export-header {shown}: {what}\n  write it as NAME: VALUE");
    let (name, value) = field.split_once(':').ok_or_else(|| wrong("it has no colon"))?;
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| wrong("this is not a name of a header field"))?;
    let mut value = HeaderValue::from_str(value.trim())
        .map_err(|_| wrong("its value has characters that a header field cannot have"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// What became of the figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Parts, each an interval or a sample of the counters, that were accepted.
    pub delivered: u64,
    /// Those that were dropped, because the queue was full or the endpoint rejected them.
    pub dropped: u64,
    /// Those that wait.
    pub waiting: u64,
    /// Values of accepted parts that the endpoint rejected.
    pub rejected: u64,
    /// Why the last request failed, or what the endpoint did not take; none after success.
    pub trouble: Option<String>,
    /// The first trouble of all.
    pub first_trouble: Option<String>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<String>,
    /// Parts of the request that is being sent.
    sending: u64,
    bytes: usize,
    delivery: Delivery,
    is_closed: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends figures from a thread of its own.
pub struct Push {
    shared: Arc<Shared>,
    shown: String,
}

impl Push {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub fn begin(endpoint: Endpoint) -> std::io::Result<Push> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let (of_thread, shown) = (shared.clone(), endpoint.shown.clone());
        // It is never joined: a request that hangs ends with the program.
        std::thread::Builder::new().name("export".into()).spawn(move || send_all(&endpoint, &of_thread))?;
        Ok(Push { shared, shown })
    }

    /// The URL without secrets.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Appends resource metrics of OTLP to the queue. Does not wait for the endpoint.
    pub fn add(&self, resource_metrics: String) {
        let mut state = self.shared.lock();
        state.bytes += resource_metrics.len();
        state.queue.push_back(resource_metrics);
        while state.bytes > QUEUE_BYTES_MAX {
            let Some(oldest) = state.queue.pop_front() else { break };
            state.bytes -= oldest.len();
            state.delivery.dropped += 1;
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// The first trouble, if there was any.
    pub fn trouble(&self) -> Option<String> {
        self.shared.lock().delivery.first_trouble.clone()
    }

    /// Waits until everything is sent, at most this long. Returns what became of the figures so far.
    pub fn flush(&self, at_most: Duration) -> Delivery {
        let end = Instant::now() + at_most;
        let mut state = self.shared.lock();
        while !state.queue.is_empty() || state.sending > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) =
                self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        let waiting = state.queue.len() as u64 + state.sending;
        Delivery { waiting, ..state.delivery.clone() }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

/// The work of the thread.
fn send_all(endpoint: &Endpoint, shared: &Shared) {
    while let Some(parts) = next_request(shared) {
        let body = otlp::request(parts.iter().map(String::as_str));
        let count = parts.len() as u64;
        let mut pause = PAUSE;
        loop {
            let outcome = endpoint.send(&body);
            let mut state = shared.lock();
            let delivery = &mut state.delivery;
            let (is_over, trouble) = match outcome {
                Ok(rejected) => {
                    delivery.delivered += count;
                    delivery.rejected += rejected.as_ref().map_or(0, |(values, _)| *values);
                    (true, rejected.map(|(_, why)| why))
                }
                Err(refusal) => {
                    delivery.dropped += if refusal.is_passing { 0 } else { count };
                    (!refusal.is_passing, Some(refusal.why))
                }
            };
            if delivery.first_trouble.is_none() {
                delivery.first_trouble.clone_from(&trouble);
            }
            delivery.trouble = trouble;
            if is_over {
                state.sending = 0;
            }
            shared.changed.notify_all();
            if is_over {
                break;
            }
            let end = Instant::now() + pause;
            while let left = end.saturating_duration_since(Instant::now())
                && !left.is_zero()
                && !state.is_closed
            {
                (state, _) = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_closed {
                return;
            }
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

/// Waits for parts, and takes as many as one request may have; none at the end.
fn next_request(shared: &Shared) -> Option<Vec<String>> {
    let mut state = shared.lock();
    loop {
        if state.is_closed {
            return None;
        }
        let (mut parts, mut bytes) = (Vec::new(), 0);
        while let Some(next) = state.queue.front()
            && (parts.is_empty() || bytes + next.len() <= REQUEST_BYTES_MAX)
        {
            bytes += next.len();
            parts.extend(state.queue.pop_front());
        }
        if !parts.is_empty() {
            state.bytes -= bytes;
            state.sending = parts.len() as u64;
            return Some(parts);
        }
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests;
