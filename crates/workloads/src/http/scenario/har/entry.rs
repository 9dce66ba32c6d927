//! One entry of a HAR file, as tools write it.

use base64::Engine as _;
use serde_json::Value;

use crate::http::scenario::date::rfc3339_ms;
use crate::http::scenario::file::Note;
use crate::http::scenario::recording::{Entry, Received, RecordedBody, is_method, sent_fields};
use crate::http::url::Url;

/// The longest exchange, milliseconds: a day. Think times are computed from the ends of exchanges.
const TIME_MS_MAX: f64 = 86_400_000.0;

/// Most bytes of a response that are searched for values.
const RESPONSE_BYTES_MAX: usize = 4 << 20;

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Names and values of a list.
fn pairs(value: &Value, pointer: &str) -> Vec<(String, String)> {
    let list = value.pointer(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().map(|pair| (text(pair, "/name").to_string(), text(pair, "/value").to_string())).collect()
}

/// Reads an entry; a note if it is left out.
pub(super) fn read(value: &Value, number: u32, notes: &mut Vec<Note>) -> Option<Entry> {
    let mut leave_out = |what: String, help: &str| {
        notes.push(Note::new(number, format!("left out: {what}"), help));
        None
    };
    let url = text(value, "/request/url");
    let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
    if scheme != "http" && scheme != "https" {
        let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
        return leave_out(format!("its URL is not http or https (`{scheme}`)"), "");
    }
    let url = match Url::parse(url) {
        Ok(url) => url,
        Err((what, _)) => return leave_out(what.to_string(), ""),
    };
    let status = value.pointer("/response/status").and_then(Value::as_u64).unwrap_or(0);
    if status == 0 {
        return leave_out(
            format!("{} has no response: it was blocked, cached or aborted", url.origin.host),
            "",
        );
    }
    let Some(status) = u16::try_from(status).ok().filter(|status| (200..=999).contains(status)) else {
        return leave_out(format!("its status {status} is not that of a final response"), "");
    };
    let has_body = !text(value, "/request/postData/text").is_empty()
        || value
            .pointer("/request/postData/params")
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty());
    let method = match text(value, "/request/method").to_ascii_uppercase() {
        method if method.is_empty() => {
            let assumed = if has_body { "POST" } else { "GET" };
            notes.push(Note::new(number, format!("it has no method: {assumed} is assumed"), ""));
            assumed.to_string()
        }
        method => method,
    };
    if !is_method(&method) {
        notes.push(Note::new(number, "left out: its method cannot be repeated", ""));
        return None;
    }
    let mut fields = sent_fields(pairs(value, "/request/headers"), number, notes);
    let body = body(value, number, &mut fields, notes).unwrap_or(RecordedBody::Empty);
    let time_ms = value.pointer("/time").and_then(Value::as_f64).filter(|time| *time > 0.0).unwrap_or(0.0);
    let time_ms = if time_ms <= TIME_MS_MAX {
        time_ms as i64
    } else {
        notes.push(Note::new(number, "its time is longer than a day: it counts as 0 ms", ""));
        0
    };
    Some(Entry {
        number,
        start_ms: rfc3339_ms(text(value, "/startedDateTime")),
        time_ms,
        page: text(value, "/pageref").to_string(),
        method,
        url,
        fields,
        body,
        status,
        response: Received { fields: response_fields(value), text: content(value) },
    })
}

/// The fields of a response. Some tools join several Set-Cookie with line breaks.
fn response_fields(value: &Value) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    for (name, value) in pairs(value, "/response/headers") {
        fields.extend(value.split('\n').map(|line| (name.clone(), line.trim().to_string())));
    }
    let redirect = text(value, "/response/redirectURL");
    if !redirect.is_empty() && !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("location")) {
        fields.push(("Location".into(), redirect.into()));
    }
    fields
}

/// The body of a request.
fn body(
    value: &Value,
    number: u32,
    fields: &mut Vec<(String, String)>,
    notes: &mut Vec<Note>,
) -> Option<RecordedBody> {
    let data = value.pointer("/request/postData")?;
    let written = text(data, "/text");
    let kind = text(data, "/mimeType").to_string();
    let has_kind = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !written.is_empty() {
        if text(data, "/encoding") == "base64"
            && let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(written)
        {
            return Some(RecordedBody::of(bytes));
        }
        if written.contains('\u{fffd}') {
            let what = "the body has bytes that the recording does not contain";
            notes.push(Note::new(number, what, "replace `body` by `body_file` with the original bytes"));
        }
        if !has_kind && is_field_value(&kind) {
            fields.push(("Content-Type".into(), kind));
        }
        return Some(RecordedBody::Text(written.to_string()));
    }
    let params = data.pointer("/params").and_then(Value::as_array).filter(|params| !params.is_empty())?;
    if kind.to_ascii_lowercase().starts_with("multipart/") {
        let header = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let boundary = [header.map_or("", |(_, value)| value), &kind].into_iter().find_map(boundary_of);
        let boundary = boundary.unwrap_or_else(|| "plimsoll-boundary".into());
        fields.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        fields.push(("Content-Type".into(), format!("multipart/form-data; boundary={boundary}")));
        return Some(RecordedBody::Text(multipart(params, &boundary, number, notes)));
    }
    if !has_kind {
        fields.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
    }
    let encoded = |text: &str| {
        let mut out = Vec::new();
        crate::template::percent::encode(text.as_bytes(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    let pairs: Vec<String> = params
        .iter()
        .map(|param| format!("{}={}", encoded(text(param, "/name")), encoded(text(param, "/value"))))
        .collect();
    Some(RecordedBody::Text(pairs.join("&")))
}

fn is_field_value(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b' '..0x7f).contains(&byte))
}

/// The boundary in a type such as `multipart/form-data; boundary=x`.
fn boundary_of(kind: &str) -> Option<String> {
    let after = kind.split("boundary=").nth(1)?;
    let boundary = after.split(';').next()?.trim().trim_matches('"');
    (is_field_value(boundary) && boundary.len() <= 70).then(|| boundary.to_string())
}

/// A multipart body of its parts (RFC 7578).
fn multipart(params: &[Value], boundary: &str, number: u32, notes: &mut Vec<Note>) -> String {
    let quoted = |text: &str| text.replace('"', "%22").replace(['\r', '\n'], " ");
    let mut out = String::new();
    for param in params {
        let (file, kind) = (text(param, "/fileName"), text(param, "/contentType"));
        out += &format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"",
            quoted(text(param, "/name"))
        );
        if !file.is_empty() {
            out += &format!("; filename=\"{}\"", quoted(file));
            if text(param, "/value").is_empty() {
                let what = "the content of an uploaded file is not in the recording: it is sent empty";
                notes.push(Note::new(number, what, "write the whole body to a file, and use `body_file`"));
            }
        }
        out += "\r\n";
        if is_field_value(kind) {
            out += &format!("Content-Type: {kind}\r\n");
        }
        out += &format!("\r\n{}\r\n", text(param, "/value"));
    }
    out + &format!("--{boundary}--\r\n")
}

/// The text of a response, as far as it is text.
fn content(value: &Value) -> String {
    let written = text(value, "/response/content/text");
    let mut out = match text(value, "/response/content/encoding") {
        "base64" => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(written).unwrap_or_default();
            String::from_utf8(bytes).unwrap_or_default()
        }
        _ => written.to_string(),
    };
    if out.len() > RESPONSE_BYTES_MAX {
        let end = (0..=RESPONSE_BYTES_MAX).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
        out.truncate(end);
    }
    out
}
