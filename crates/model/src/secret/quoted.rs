//! Secrets in what a message quotes of a user: lines of a file, arguments. What a text is for, only the name of its setting says,
//! which may be misspelt. So each is looked at as all that may have secrets: a command line, a header field, a change of an entry.

use std::ops::Range;

use super::command;
use super::mask::{Part, WhyHidden, is_shown};
use super::name::{Sensitivity, is_sensitive_header, sensitivity};

/// How much of a text is looked at, in bytes.
const LENGTH: usize = 4 << 10;

/// The secrets in the lines of a text.
pub(super) fn in_quoted(text: &str, offset: usize, found: &mut Vec<Part>) {
    let mut at = offset;
    for line in text.split_inclusive('\n') {
        let mut of_line = Vec::new();
        let segments = Segments::of(line);
        let short = |segment: Range<usize>| {
            let ends = segment.start..=segment.end.min(segment.start + LENGTH);
            let end = ends.rev().find(|end| line.is_char_boundary(*end));
            segment.start..end.unwrap_or(segment.start)
        };
        for segment in segments.commands {
            command::in_segment(line, short(segment), &mut of_line);
        }
        for segment in segments.all.into_iter().map(short) {
            command::in_segment(line, segment.clone(), &mut of_line);
            let value =
                value_of_field(&line[segment.clone()]).or_else(|| value_of_change(&line[segment.clone()]));
            let value = value.map(|value| segment.start + value.start..segment.start + value.end);
            of_line.extend(value.map(|range| Part { range, why: WhyHidden::Name }));
        }
        for (name, value) in segments.pairs {
            let is_secret = is_field_name(&line[name.clone()]) && is_sensitive_header(&line[name]);
            if is_secret && !is_shown(&line[value.clone()]) {
                of_line.push(Part { range: value, why: WhyHidden::Name });
            }
        }
        found.extend(
            of_line
                .into_iter()
                .map(|part| Part { range: part.range.start + at..part.range.end + at, ..part }),
        );
        at += line.len();
    }
}

/// The texts of a line.
struct Segments {
    /// The line, its strings, and what follows the name of a setting.
    all: Vec<Range<usize>>,
    /// What may only be a command line.
    commands: Vec<Range<usize>>,
    /// Strings that follow one another, as a name and its value.
    pairs: Vec<(Range<usize>, Range<usize>)>,
}

impl Segments {
    fn of(line: &str) -> Segments {
        let strings = strings(line);
        let separates = |between: &str| {
            between.chars().all(|c| c.is_whitespace() || ",:=".contains(c))
                && between.contains([',', ':', '='])
        };
        let pairs = strings.windows(2).filter(|two| {
            // Without the quotation marks. What has a value itself is the next name.
            let behind = line.get(two[1].end + 1..).unwrap_or_default().trim_start();
            line.get(two[0].end + 1..two[1].start - 1).is_some_and(separates)
                && !behind.starts_with([':', '='])
        });
        let pairs = pairs.map(|two| (two[0].clone(), two[1].clone())).collect();
        let (mut all, mut commands) = (Vec::new(), Vec::new());
        for segment in std::iter::once(0..line.trim_end().len()).chain(strings) {
            all.push(segment.clone());
            // NAME=COMMAND, NAME=exec:COMMAND
            let text = &line[segment.clone()];
            let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.contains(['"', '\'']))
            else {
                continue;
            };
            all.push(segment.start + name.len() + 1..segment.end);
            if let Some(colon) = value.find(':') {
                commands.push(segment.start + name.len() + 1 + colon + 1..segment.end);
            }
        }
        all.dedup();
        Segments { all, commands, pairs }
    }
}

/// The content of the strings of a line. One that does not end has the rest of it.
fn strings(line: &str) -> Vec<Range<usize>> {
    let end = line.trim_end().len();
    let (mut all, mut open, mut is_escaped) = (Vec::new(), None, false);
    for (at, c) in line[..end].char_indices() {
        match (c, open) {
            _ if is_escaped => is_escaped = false,
            ('\\', Some(('"', _))) => is_escaped = true,
            ('"' | '\'', None) if !line[..at].ends_with(char::is_alphanumeric) => open = Some((c, at + 1)),
            (c, Some((quote, begin))) if c == quote => {
                all.push(begin..at);
                open = None;
            }
            _ => {}
        }
    }
    all.extend(open.map(|(_, begin)| begin..end).filter(|range| range.start <= range.end));
    all
}

fn is_field_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The value of a header field for credentials: `NAME: VALUE`, or without the colon.
fn value_of_field(text: &str) -> Option<Range<usize>> {
    let begin = text.len() - text.trim_start().len();
    let end = begin + text[begin..].find(|c: char| c == ':' || c.is_whitespace())?;
    let name = &text[begin..end];
    let is_field =
        is_field_name(name) && name.contains(|c: char| c.is_ascii_uppercase()) && is_sensitive_header(name);
    let value = text[end..].trim_start_matches([':', ' ', '\t']);
    let from = text.len() - value.len();
    let range = from..from + value.trim_end().len();
    // The name of a setting or a section: `Authorization = "..."`.
    let is_other = value.starts_with(['=', '[', '{', '"', '\'']);
    (is_field && !is_other && !is_shown(&text[range.clone()])).then_some(range)
}

/// The value of a change of an entry: `replace userPassword VALUE`.
fn value_of_change(text: &str) -> Option<Range<usize>> {
    let text_of = |from: usize| text[from..].trim_start_matches([' ', '\t', ':']);
    let begin = text.len() - text_of(0).len();
    let kind = text[begin..].find(|c: char| !c.is_ascii_alphabetic())?;
    if !["add", "replace", "delete"].contains(&&*text[begin..begin + kind].to_ascii_lowercase()) {
        return None;
    }
    let name = text_of(begin + kind);
    let length = name.find(|c: char| c.is_whitespace() || c == ':')?;
    let is_secret = matches!(sensitivity(&name[..length]), Some(Sensitivity::Value | Sensitivity::Header));
    let from = text.len() - text_of(text.len() - name.len() + length).len();
    let range = from..from + text[from..].trim_end().len();
    (is_secret && !is_shown(&text[range.clone()])).then_some(range)
}

#[cfg(test)]
mod tests {
    use crate::secret::{mask, mask_written};

    #[test]
    fn a_quoted_line_shows_no_credential_whatever_its_key_is() {
        for line in [
            "start = \"mysql -pS3CRET\"",
            "strt = \"curl -u bob:S3CRET http://h\"",
            "start = \"sshpass -p S3CRET ssh h",
            "\"target.command.x\" = { st = \"sqlcmd -P S3CRET\", undo = \"true\", levels = [1] }",
            "\"target.command.x\" = { undo = 'redis-cli -a S3CRET', levels = [1] }",
            "lod = [\"a=exec:ldapsearch -w S3CRET\"]",
            "load = [\"a=exe:sshpass -p S3CRET ssh h\"]",
            "target.strt=mysql -pS3CRET",
            "target.start=docker login -u a -p S3CRET",
            "headr = [\"X-Pin: S3CRET\"]",
            "headr = [\"Authentication: S3CRET\", \"Accept: */*\"]",
            "headr = [\"X-Totp: S3CRET more\"]",
            "header = [[\"Authorization\", \"S3CRET\"]]",
            "header = { \"X-Pin\" = \"S3CRET\" }",
            "bindpw=\"S3CRET\"",
            "enviroment={ LDAP_BINDPW=\"S3CRET\", ROOTPW=\"S3CRET\", ACCOUNTKEY=\"S3CRET\" }",
            "replace userPassword S3CRET",
            "change=[\"replace unicodePwd S3CRET\"]",
            "metod = \"GET\" # password: S3CRET",
            "X-Session: S3CRET",
        ] {
            let shown = mask_written(line);
            assert!(!shown.contains("S3CRET") && shown.contains("***"), "{line}: {shown}");
            let message = format!("unknown key\n --> x.toml:4\n 4 | {line}\n   | ^^^^");
            let shown = mask(&message);
            assert!(!shown.contains("S3CRET") && shown.contains("x.toml:4"), "{line}: {shown}");
        }
    }

    #[test]
    fn an_ordinary_line_is_shown() {
        for line in [
            "start = \"mysqld --port 3306 -p 5\"",
            "target.start=nginx -p /srv/nginx -c nginx.conf",
            "headers = [\"Accept: text/html\", \"X-Author: Ada\"]",
            "names = [\"uid\", \"cn\", \"sn\"]",
            "levels = [\"a\", \"b\"]",
            "replace description a new text",
            "[workload.http]",
            "url = \"http://127.0.0.1:8080/path?page=2\"",
            "command = [\"sh\", \"-c\", \"sleep 1; echo done\"]",
            "unique_key = \"abc\"",
        ] {
            assert_eq!(mask_written(line), line);
        }
    }
}
