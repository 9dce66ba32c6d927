//! Secrets in the parts of multipart bodies (RFC 7578), with line breaks or with the escapes of TOML and JSON for them.

use super::mask::{CONTEXT, Part, WhyHidden, boundary, is_public, is_shown};
use super::name::sensitivity;

/// How long the header of a part is, in bytes.
const HEADER: usize = 1 << 10;

/// The line breaks of a body, as they are written in it or in the text of a file.
const LINE_BREAKS: [&str; 6] = ["\r\n", "\n", r"\r\n", r"\n", r"\\r\\n", r"\\n"];

/// The values of parts with sensitive names: `Content-Disposition: form-data; name="password"`, an empty line, the value.
pub(super) fn in_multipart(text: &str, offset: usize, found: &mut Vec<Part>) {
    let mut at = 0;
    while let Some(begin) = text[at..].find("form-data").map(|found| at + found + "form-data".len()) {
        at = begin;
        let header = &text[begin..boundary(text, begin + HEADER)];
        let Some(name) = name_of_part(header) else { continue };
        let Some(of_name) = sensitivity(name) else { continue };
        let empty_line = LINE_BREAKS.iter().filter_map(|line_break| {
            header
                .find(&line_break.repeat(2))
                .map(|found| (begin + found + 2 * line_break.len(), *line_break))
        });
        let Some((begin, line_break)) = empty_line.min() else { continue };
        let rest = &text[begin..boundary(text, begin + CONTEXT)];
        let line_end = || rest.find(['\r', '\n', '"']).unwrap_or(rest.len());
        let length = rest.find(&format!("{line_break}--")).unwrap_or_else(line_end);
        let value = &rest[..length];
        if !is_shown(value) && !is_public(of_name, name, value) {
            let range = offset + begin..offset + begin + length;
            found.push(Part { range, why: WhyHidden::Name });
        }
        at = begin + length;
    }
}

/// The name in the header of a part.
fn name_of_part(header: &str) -> Option<&str> {
    let is_name = |at: &usize| header[..*at].ends_with([' ', ';']);
    let at = header.match_indices("name=").map(|(at, _)| at).find(is_name)?;
    let name = header[at + "name=".len()..].trim_start_matches(['\\', '"']);
    Some(&name[..name.find(|c: char| c.is_whitespace() || "\\\";".contains(c))?])
}

#[cfg(test)]
mod tests {
    use crate::secret::{SecretParts, mask_written};

    #[test]
    fn values_of_parts_with_names_of_secrets_are_hidden() {
        let body = |name: &str, value: &str| {
            format!(
                "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n--b\r\n\
                 Content-Disposition: form-data; name=\"a\"; filename=\"b\"\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--\r\n"
            )
        };
        let as_it_is = |text: &str| text.to_string();
        let with_line_feeds = |text: &str| text.replace('\r', "");
        let in_toml = |text: &str| format!("body = {text:?}");
        let in_json = |text: &str| format!("body = {:?}", format!("{text:?}"));
        let forms: [&dyn Fn(&str) -> String; 4] = [&as_it_is, &with_line_feeds, &in_toml, &in_json];
        for form in forms {
            for (name, value, is_hidden) in [
                ("password", "S3CRET a", true),
                ("pin", "123456", true),
                ("otp", "S3CRET", true),
                ("client_secret", "S3CRET--a", true),
                ("password", "${env:PASSWORD}", false),
                ("password", "", false),
                ("user", "ann", false),
                ("code", "200", false),
                ("token_type", "bearer", false),
            ] {
                let shown = if is_hidden { "***" } else { value };
                let (text, shown) = (form(&body(name, value)), form(&body(name, shown)));
                assert_eq!(SecretParts::Pairs.hide(&text), shown, "{text}");
                assert_eq!(mask_written(&text), shown, "{text}");
            }
        }
    }

    #[test]
    fn a_part_that_does_not_end_is_hidden_up_to_the_end_of_its_line() {
        let text = "body = \"form-data; name=\\\"password\\\"\\r\\n\\r\\nS3CRET\"\nx = 1";
        assert_eq!(mask_written(text), "body = \"form-data; name=\\\"password\\\"\\r\\n\\r\\n***\"\nx = 1");
        let long = "form-data; name=\"password\"\n\nS3".repeat(10_000);
        assert!(!mask_written(&long).contains("S3\n"));
    }
}
