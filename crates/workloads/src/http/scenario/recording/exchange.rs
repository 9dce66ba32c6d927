//! Exchanges as a recording proxy saw them.

use model::Problem;

use super::{Entry, Received, RecordedBody, RecordingOptions, is_method, sent_fields};
use crate::http::scenario::file::{Import, Note};
use crate::http::url::Url;

/// Begins the names of the environment variables for credentials.
const SECRET_PREFIX: &str = "RECORDED_";

/// A request with its response.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// When the request began, in milliseconds since 1970.
    pub started_unix_ms: i64,
    /// The time from the first byte of the request to the last byte of the response, in milliseconds.
    pub time_ms: i64,
    /// The method.
    pub method: String,
    /// The URL, as the server is reached without the proxy.
    pub url: String,
    /// The header fields of the request.
    pub fields: Vec<(String, String)>,
    /// The body of the request; none if it was too large to record.
    pub body: Option<Vec<u8>>,
    /// The status of the response.
    pub status: u16,
    /// The header fields of the response, as the server sent them.
    pub response_fields: Vec<(String, String)>,
    /// The body of the response, as far as it was recorded.
    pub response_body: Vec<u8>,
    /// Whether the body of the response is recorded completely.
    pub has_whole_response: bool,
}

/// Makes a scenario of exchanges.
///
/// # Errors
/// If there is no request to repeat.
pub fn of_exchanges(exchanges: Vec<Exchange>, options: &RecordingOptions) -> Result<Import, Problem> {
    let mut notes = Vec::new();
    let mut entries = Vec::new();
    for (at, exchange) in exchanges.into_iter().enumerate() {
        entries.extend(entry(exchange, at as u32 + 1, &mut notes));
    }
    super::scenario_of(entries, notes, options, SECRET_PREFIX)
}

/// The entry of an exchange; a note if it is left out.
fn entry(exchange: Exchange, number: u32, notes: &mut Vec<Note>) -> Option<Entry> {
    let mut note = |what: String, help: &str| notes.push(Note::new(number, what, help));
    let url = match Url::parse(&exchange.url) {
        Ok(url) => url,
        Err((what, _)) => {
            note(format!("left out: {what}"), "");
            return None;
        }
    };
    if !is_method(&exchange.method) {
        note("left out: its method cannot be repeated".into(), "");
        return None;
    }
    if !(200..=999).contains(&exchange.status) {
        note(format!("left out: its status {} is not that of a final response", exchange.status), "");
        return None;
    }
    if exchange.body.is_none() {
        let what = "the body was too large to record: the request is written without it";
        note(what.into(), "write the body to a file, and add `body_file`");
    }
    if !exchange.has_whole_response {
        let what =
            "the response was too large to record completely: values after its begin are not extracted";
        note(what.into(), "");
    }
    let is_encoded = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("content-encoding") && !value.trim().eq_ignore_ascii_case("identity")
    };
    let text = match exchange.response_fields.iter().any(is_encoded) {
        true => {
            note("the response is compressed: no values are extracted from its body".into(), "");
            String::new()
        }
        // A body that is cut off can end within a character.
        false => match String::from_utf8(exchange.response_body) {
            Ok(text) => text,
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let is_cut = error.utf8_error().error_len().is_none();
                let mut bytes = error.into_bytes();
                bytes.truncate(if is_cut { valid } else { 0 });
                String::from_utf8(bytes).unwrap_or_default()
            }
        },
    };
    Some(Entry {
        number,
        start_ms: Some(exchange.started_unix_ms),
        time_ms: exchange.time_ms.max(0),
        page: String::new(),
        method: exchange.method,
        url,
        fields: sent_fields(exchange.fields, number, notes),
        body: exchange.body.map_or(RecordedBody::Empty, RecordedBody::of),
        status: exchange.status,
        response: Received { fields: exchange.response_fields, text },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::scenario::Scenario;

    fn exchange(start_ms: i64, method: &str, path: &str) -> Exchange {
        Exchange {
            started_unix_ms: 1_772_366_400_000 + start_ms,
            time_ms: 20,
            method: method.into(),
            url: format!("http://shop.example:8080{path}"),
            body: Some(Vec::new()),
            status: 200,
            has_whole_response: true,
            ..Exchange::default()
        }
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn a_session_through_the_proxy_becomes_a_scenario() {
        let moved = Exchange {
            status: 302,
            response_fields: vec![pair("Location", "http://shop.example:8080/start")],
            ..exchange(0, "GET", "/")
        };
        let start = Exchange {
            response_body: b"<input name=\"csrf\" value=\"tok-12345-abc\">".to_vec(),
            ..exchange(30, "GET", "/start")
        };
        let login = Exchange {
            fields: vec![pair("Authorization", "Bearer S3CRET"), pair("Cookie", "sid=S3CRET")],
            body: Some(b"csrf=tok-12345-abc&password=S3CRET".to_vec()),
            ..exchange(4050, "POST", "/login")
        };
        let upload = Exchange { body: None, ..exchange(4080, "PUT", "/file") };
        let image = Exchange { body: Some(vec![0, 0xff, 1]), ..exchange(4110, "POST", "/image") };
        let cut = Exchange {
            response_body: "\u{e9}".as_bytes()[..1].to_vec(),
            has_whole_response: false,
            ..exchange(4140, "GET", "/large")
        };
        let packed = Exchange {
            response_fields: vec![pair("content-encoding", "gzip")],
            ..exchange(4170, "GET", "/packed")
        };
        let asked = exchange(4200, "CONNECT", "/");
        let options = RecordingOptions { think_scale: 0.5, ..RecordingOptions::default() };
        let import =
            of_exchanges(vec![moved, start, login, upload, image, cut, packed, asked], &options).unwrap();
        let written = import.file.write();
        let notes: Vec<String> = import
            .notes
            .iter()
            .map(|note| format!("{}: {}; {}", note.number, note.what, note.help))
            .collect();
        let notes = notes.join("\n");
        assert!(!written.contains("S3CRET") && !notes.contains("S3CRET"), "{written}{notes}");
        let mut find_secret = |_: model::Placeholder<'_>| Ok("secret".to_string());
        Scenario::parse(&written, "s", std::path::Path::new("/"), &mut find_secret).unwrap();
        insta::assert_snapshot!(format!("{written}\n---\n{notes}"));
    }
}
