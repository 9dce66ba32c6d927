//! Credentials in what becomes a scenario: environment variables are put in their place.

use std::collections::BTreeSet;

use model::SecretParts;

use super::file::{BodyFile, NAME_LENGTH_MAX, Note, Options, RequestFile, ScenarioFile, Text};

/// Replaces credentials by environment variables.
pub(super) struct Redaction {
    /// Begins the names of the variables.
    prefix: &'static str,
    /// The variables so far.
    known: BTreeSet<String>,
    /// A note on each of them.
    pub(super) notes: Vec<Note>,
}

impl Redaction {
    pub(super) fn new(prefix: &'static str) -> Redaction {
        Redaction { prefix, known: BTreeSet::new(), notes: Vec::new() }
    }

    /// Replaces the credentials of a whole file.
    pub(super) fn redact(&mut self, file: &mut ScenarioFile) {
        self.options(&mut file.options);
        for request in file.transactions.iter_mut().flat_map(|transaction| &mut transaction.requests) {
            self.options(&mut request.options);
            let RequestFile { url, body, .. } = request;
            let parts = if url.text.contains("://") { SecretParts::Url } else { SecretParts::Pairs };
            url.text = self.redacted(&url.text, parts, 0);
            if let BodyFile::Text(body) = body {
                let without = self.redacted_parts(&body.text, 0);
                body.text = self.redacted(&without, SecretParts::Pairs, 0);
            }
        }
    }

    fn options(&mut self, options: &mut Options) {
        for Text { text, .. } in &mut options.header {
            let Some((name, value)) = text.split_once(':') else { continue };
            let value = value.trim();
            if !value.contains("${env:") {
                *text = self.redacted_field(name, value, false, 0);
            }
        }
    }

    /// A header field without credentials; `value` is a template, perhaps with a value of a response.
    pub(super) fn redacted_field(
        &mut self,
        name: &str,
        value: &str,
        is_extracted: bool,
        number: u32,
    ) -> String {
        let is_secret = SecretParts::Header.hide(&format!("{name}: x")) != format!("{name}: x");
        let value = match is_secret {
            true if is_extracted => value.to_string(),
            true => format!("${{env:{}}}", self.secret(name, number)),
            false => {
                let parts = if value.contains("://") { SecretParts::Url } else { SecretParts::Pairs };
                self.redacted(value, parts, number)
            }
        };
        format!("{name}: {value}")
    }

    /// A template whose credentials are replaced by environment variables.
    pub(super) fn redacted(&mut self, template: &str, parts: SecretParts, number: u32) -> String {
        const KEPT: &str = "\u{1}";
        let kept = template.replace(model::secret::HIDDEN, KEPT);
        let hidden = with_marks(&kept, |marked| SecretParts::Pairs.hide(&parts.hide(marked)));
        let mut out = String::new();
        let mut rest = hidden.as_str();
        while let Some(at) = rest.find(model::secret::HIDDEN) {
            let before = &rest[..at];
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let name = before.trim_end_matches(|c| !is_name(c));
            let name = name.rsplit(|c| !is_name(c)).next().unwrap_or_default();
            let variable = self.secret(name, number);
            out += before;
            out += &format!("${{env:{variable}}}");
            rest = &rest[at + model::secret::HIDDEN.len()..];
        }
        (out + rest).replace(KEPT, model::secret::HIDDEN)
    }

    /// A multipart body whose credentials are replaced by environment variables; any other text as it is.
    pub(super) fn redacted_parts(&mut self, template: &str, number: u32) -> String {
        const NAME: &str = "Content-Disposition: form-data; name=\"";
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(NAME).map(|at| at + NAME.len()) {
            let (before, part) = rest.split_at(at);
            out += before;
            rest = part;
            let name = part.split('"').next().unwrap_or_default();
            let is_secret = SecretParts::Pairs.hide(&format!("{name}=x")) != format!("{name}=x");
            let content = part.find("\r\n\r\n").map(|at| at + 4);
            let Some(begin) = content.filter(|_| is_secret) else { continue };
            let end = part
                .get(begin..)
                .and_then(|content| content.find("\r\n--"))
                .map_or(part.len(), |end| begin + end);
            let value = part.get(begin..end).unwrap_or_default();
            out += part.get(..begin).unwrap_or_default();
            match value.starts_with("${") || value.is_empty() {
                true => out += value,
                false => out += &format!("${{env:{}}}", self.secret(name, number)),
            }
            rest = part.get(end..).unwrap_or_default();
        }
        out + rest
    }

    /// The environment variable of a credential.
    fn secret(&mut self, name: &str, number: u32) -> String {
        let upper = name.chars().take(NAME_LENGTH_MAX);
        let upper: String =
            upper.map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
        let variable = format!("{}{}", self.prefix, if upper.is_empty() { "SECRET" } else { &upper });
        if self.known.insert(variable.clone()) {
            let what = format!("a credential is replaced by ${{env:{variable}}}");
            self.notes.push(Note::new(number, what, format!("export {variable} before the run")));
        }
        variable
    }
}

/// Calls `hide` with a template in which values are marked as placeholders of secrets, so that they are kept.
fn with_marks(template: &str, hide: impl Fn(&str) -> String) -> String {
    const MARK: &str = "env:\u{3}";
    let mut marked = String::new();
    let mut dollars = 0;
    for (at, c) in template.char_indices() {
        marked.push(c);
        match c {
            '$' => dollars += 1,
            // A value, and not an escaped dollar sign.
            '{' if dollars % 2 == 1 && !template[at..].starts_with("{env:") => {
                marked += MARK;
                dollars = 0;
            }
            _ => dollars = 0,
        }
    }
    hide(&marked).replace(MARK, "")
}
