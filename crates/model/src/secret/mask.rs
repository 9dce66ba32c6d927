//! Finds secrets in a text: by the names of values, and by their form.
//!
//! Everything that is quoted from a text of a user passes through [`mask`]: the lines and the sentences of
//! [`Problem`](crate::Problem)s, and all that the program writes to standard error.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use super::form::{in_forms, random};
use super::multipart::in_multipart;
use super::name::{Sensitivity, is_count, is_ordinary_in_pairs, is_query_variable, sensitivity};
use super::quoted::in_quoted;
use super::{HIDDEN, authority_bytes, has_placeholder};

/// Why a part of a text is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyHidden {
    /// The name of a value says so.
    Name,
    /// It is before the `@` of an address.
    Address,
    /// It follows the name of a scheme of authentication, such as `Bearer`.
    Scheme,
    /// It has the form of a token or a private key.
    Form,
    /// It is long, and looks random.
    Random,
    /// It is the value of a flag that a program has for credentials.
    Program,
}

impl fmt::Display for WhyHidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhyHidden::Name => "by its name",
            WhyHidden::Address => "user or password in an address",
            WhyHidden::Scheme => "follows a scheme of authentication",
            WhyHidden::Form => "has the form of a token or key",
            WhyHidden::Random => "long and random",
            WhyHidden::Program => "credentials of a program",
        })
    }
}

/// A secret part of a text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where it is.
    pub(super) range: Range<usize>,
    /// Why it is hidden.
    pub(super) why: WhyHidden,
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// What a user or another program wrote.
    Written,
    /// What a message quotes of it: what it is for is not known, so that rather too much of it is hidden.
    Quoted,
    /// A message of this program. What a user wrote is between backticks or quotation marks.
    Message,
}

/// A message without secrets. What is hidden already stays as it is.
pub fn mask(message: &str) -> String {
    without(message, &parts(message, TextKind::Message))
}

/// A text of a user without secrets.
pub fn mask_written(text: &str) -> String {
    without(text, &parts(text, TextKind::Quoted))
}

/// A text without these parts.
pub(super) fn without(text: &str, parts: &[Part]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for Part { range, .. } in parts {
        out += &text[at..range.start];
        out += HIDDEN;
        at = range.end;
    }
    out + &text[at..]
}

/// A line without secrets, and a token of it. All counts are of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MaskedLine {
    /// The line, or the part of a long one around the token.
    pub(crate) text: String,
    /// How much of the line is before that part.
    pub(crate) before: usize,
    /// The first column of the token in the line, from 0.
    pub(crate) column: usize,
    /// The width of the token.
    pub(crate) width: usize,
}

/// How much of a line is kept on each side of the begin of a token, in characters.
const KEPT: usize = 1000;

/// The longest namespace of a tag, in bytes.
const NAMESPACE: usize = 128;

/// How much of a file around a line is looked at, in bytes.
pub(super) const CONTEXT: usize = 32 << 10;

/// A line without secrets, with a token that is at a `column`, from 0, and has a `width`, in characters. Secrets that begin on
/// another line of `text` are known from there. `line` counts from 0.
pub(crate) fn mask_line(text: &str, line: usize, column: usize, width: usize) -> MaskedLine {
    let begin = text.split_inclusive('\n').take(line).map(str::len).sum::<usize>();
    let whole = text[begin..].lines().next().unwrap_or_default();
    let shown = whole.trim_end();
    // Long lines are looked at alone: a recording may have all of its megabytes in one. The lines of a block are looked at
    // together: a file may have a problem in each.
    let block = |at: usize| at / CONTEXT * CONTEXT;
    let from = boundary(text, block(begin).saturating_sub(CONTEXT));
    let to = boundary(text, block(begin + whole.len()) + 2 * CONTEXT);
    let found = known_parts(&text[from..to]);
    let (mut masked, mut token, mut end, mut in_masked) = (String::new(), column, column + width, 0);
    // The characters of the line before the next part, and its bytes.
    let (mut characters, mut bytes) = (0, 0);
    for Part { range, .. } in found.iter() {
        let start = (range.start + from).clamp(begin, begin + shown.len()) - begin;
        let stop = (range.end + from).clamp(begin, begin + shown.len()) - begin;
        if start == stop {
            continue;
        }
        let between = &shown[bytes..start];
        masked += between;
        masked += HIDDEN;
        characters += between.chars().count();
        in_masked += between.chars().count();
        let length = shown[start..stop].chars().count();
        for (at, place) in [(column, &mut token), (column + width, &mut end)] {
            if at >= characters + length {
                *place = *place + HIDDEN.len() - length;
            } else if at > characters {
                *place = in_masked + (at - characters).min(HIDDEN.len());
            }
        }
        (characters, in_masked, bytes) = (characters + length, in_masked + HIDDEN.len(), stop);
    }
    masked += &shown[bytes..];
    let before = token.saturating_sub(KEPT);
    let part = masked.char_indices().skip(before).map(|(at, _)| at);
    let mut ends = part.chain([masked.len()]);
    let first = ends.next().unwrap_or(masked.len());
    let last = ends.nth(token - before + KEPT - 1).unwrap_or(masked.len());
    let text = masked[first..last].to_string();
    MaskedLine { text, before, column: token, width: end.saturating_sub(token).max(1) }
}

/// The secret parts of a text of a user. Those of the last text are known: a file may have thousands of problems.
fn known_parts(text: &str) -> Rc<[Part]> {
    thread_local! {
        static LAST: RefCell<(String, Rc<[Part]>)> = RefCell::new((String::new(), Rc::new([])));
    }
    LAST.with_borrow_mut(|(last, known)| {
        if last != text {
            (*last, *known) = (text.into(), parts(text, TextKind::Quoted).into());
        }
        Rc::clone(known)
    })
}

/// The last boundary of a character that is not behind `at`.
pub(super) fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The secret parts of a text, in order.
pub(super) fn parts(text: &str, kind: TextKind) -> Vec<Part> {
    let mut found = Vec::new();
    match kind {
        TextKind::Written => written(text, 0, &mut found),
        TextKind::Quoted => {
            written(text, 0, &mut found);
            in_quoted(text, 0, &mut found);
        }
        TextKind::Message => {
            in_names(text, true, 0, &mut found);
            in_addresses(text, 0, &mut found);
            in_forms(text, true, 0, &mut found);
            for quoted in quoted(text) {
                written(&text[quoted.clone()], quoted.start, &mut found);
                in_quoted(&text[quoted.clone()], quoted.start, &mut found);
            }
        }
    }
    merged(found)
}

pub(super) fn merged(mut found: Vec<Part>) -> Vec<Part> {
    found.sort_by_key(|part| (part.range.start, std::cmp::Reverse(part.range.end), part.why));
    let mut all: Vec<Part> = Vec::new();
    for part in found {
        match all.last_mut() {
            Some(last) if part.range.start < last.range.end => {
                last.range.end = last.range.end.max(part.range.end)
            }
            _ => all.push(part),
        }
    }
    all
}

fn written(text: &str, offset: usize, found: &mut Vec<Part>) {
    in_names(text, false, offset, found);
    in_addresses(text, offset, found);
    in_forms(text, false, offset, found);
    in_multipart(text, offset, found);
    random(text, offset, found);
}

/// The parts of a message that are quoted: between backticks, between quotation marks, and lines of a file.
fn quoted(text: &str) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(begin) = text[at..].find('`').map(|found| at + found + 1) {
        let end = text[begin..].find('`').map_or(text.len(), |found| begin + found);
        all.push(begin..end);
        at = (end + 1).min(text.len());
    }
    for mark in ['\'', '"'] {
        let mut at = 0;
        while let Some(begin) = text[at..].find(mark).map(|found| at + found + 1) {
            // The apostrophe of a word quotes nothing.
            let opens = !text[..begin - 1].ends_with(char::is_alphanumeric);
            let closes = |end: usize| !text[end + 1..].starts_with(char::is_alphanumeric);
            let end =
                text[begin..].match_indices(mark).map(|(found, _)| begin + found).find(|end| closes(*end));
            match end.filter(|_| opens) {
                Some(end) => {
                    all.push(begin..end);
                    at = end + 1;
                }
                None => at = begin,
            }
        }
    }
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let number = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        if number.len() < line.trim_start().len() && number.starts_with(" | ") {
            all.push(at + line.len() - number.len() + 3..at + line.len());
        }
        at += line.len();
    }
    all
}

/// Whether a value shows nothing.
pub(super) fn is_shown(value: &str) -> bool {
    let value = value.trim();
    let is_literal = ["null", "true", "false", "yes", "no", "on", "off", "none", "TEXT"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word));
    let is_hidden = value.bytes().all(|byte| byte == b'*');
    value.is_empty() || is_literal || is_hidden || value.starts_with('<') || has_placeholder(value)
}

/// Whether a value is the path of a file, for example that of a key.
pub(super) fn is_path(value: &str) -> bool {
    const ENDS: [&str; 10] =
        [".pem", ".key", ".crt", ".cer", ".p12", ".pfx", ".jks", ".der", ".nk", ".creds"];
    let value = value.trim_matches(['"', '\'']);
    let is_plain = value.chars().all(|c| c.is_alphanumeric() || "/._-~ ".contains(c));
    let begins = ["/", "./", "../", "~/"].iter().any(|begin| value.starts_with(begin));
    let has_folders = value.trim_start_matches(['.', '~', '/']).contains(['/', '.']);
    is_plain && (begins && has_folders || ENDS.iter().any(|end| value.ends_with(end)))
}

/// Whether a value is none of the secrets that its name suggests: the file of a key, the code of a response.
pub(super) fn is_public(sensitivity: Sensitivity, name: &str, value: &str) -> bool {
    let is_of_card = || ["cvv", "cvc"].iter().any(|word| name.eq_ignore_ascii_case(word));
    match sensitivity {
        Sensitivity::Key => is_path(value),
        Sensitivity::Query => {
            value.len() <= 3 && value.bytes().all(|byte| byte.is_ascii_digit()) && !is_of_card()
        }
        Sensitivity::Value | Sensitivity::Header => false,
    }
}

pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Values after sensitive names: `token=...`, `"password": "..."`, `<pwd>...<`, `Authorization: ...`, `--password ...`.
fn in_names(text: &str, is_message: bool, offset: usize, found: &mut Vec<Part>) {
    let mut at = 0;
    while let Some(begin) = text[at..].find(is_name).map(|begin| at + begin) {
        let end = name_end(text, begin);
        at = end;
        let begin = begin + encoded_sign(text, begin);
        if begin >= end {
            continue;
        }
        let dashes = end - begin - text[begin..end].trim_start_matches('-').len();
        let place = NameAt { text, begin: begin + dashes, end, is_flag: dashes > 0, is_message };
        let may_be_tag = text[end..].starts_with(['\n', '\r']) && place.is_tag();
        if !(may_be_tag || may_have_value(&text[end..])) {
            continue;
        }
        if let Some(values) = place.value_of_pair() {
            let hidden =
                |of: Range<usize>| Part { range: offset + of.start..offset + of.end, why: WhyHidden::Name };
            found.extend(values.map(hidden));
            continue;
        }
        let name = place.name();
        let Some(sensitivity) = sensitivity(&name) else { continue };
        let Some(range) = place.value(sensitivity) else { continue };
        let value = &text[range.clone()];
        let is_public = is_public(sensitivity, &name, value);
        let has_elements = place.is_tag() && value.trim_start().starts_with('<');
        if is_shown(value) && !has_elements || is_public || is_count(&name, value) {
            continue;
        }
        // A tag may have attributes before its content.
        let has_attributes = place.is_tag() && text[end..range.start.max(end)].contains('=');
        at = if has_attributes { end } else { range.end.max(end) };
        found.push(Part { range: offset + range.start..offset + range.end, why: WhyHidden::Name });
    }
}

/// Whether what follows a name can be its value. Most words of a text need no closer look.
fn may_have_value(rest: &str) -> bool {
    rest.starts_with(['=', ':', '>', '<', '~', '"', '\'', '\\', ' ', '\t', '%', ']', '`'])
}

/// A name in a text, and what is around it.
struct NameAt<'a> {
    text: &'a str,
    begin: usize,
    end: usize,
    /// Whether it is the name of a flag of a command line.
    is_flag: bool,
    is_message: bool,
}

/// What separates a name and its value.
#[derive(Clone, Copy, PartialEq)]
enum Separator {
    Equals,
    Colon,
    Blank,
    /// In a URL.
    Encoded,
}

/// Where a name ends. It may have letters that are escaped: `pass\u0077ord` in JSON, `pass%77ord` in a form.
fn name_end(text: &str, begin: usize) -> usize {
    let mut at = begin;
    loop {
        let rest = &text[at..];
        at += rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        match escaped(&text[at..]) {
            Some((c, length)) if is_name(c) => at += length,
            _ => return at,
        }
    }
}

/// The digits of a name that belong to an encoded sign before it: two in `%26pin`.
fn encoded_sign(text: &str, begin: usize) -> usize {
    if begin > 0 && ends_with_encoded_sign(text.get(..begin + 2).unwrap_or_default()) { 2 } else { 0 }
}

/// Whether an encoded sign, such as `%26`, is at the end of a text.
fn ends_with_encoded_sign(text: &str) -> bool {
    let sign = text.len().checked_sub(3).and_then(|at| text.get(at..)).filter(|sign| sign.starts_with('%'));
    sign.and_then(escaped).is_some_and(|(c, _)| !is_name(c))
}

/// The character of an escape at the beginning of a text, and the length of the escape.
fn escaped(text: &str) -> Option<(char, usize)> {
    let (digits, from) = match text.strip_prefix('%') {
        Some(_) => (2, 1),
        None => {
            let slashes = text.len() - text.trim_start_matches('\\').len();
            ((1..=8).contains(&slashes) && text[slashes..].starts_with('u')).then_some((4, slashes + 1))?
        }
    };
    let code = u32::from_str_radix(text.get(from..from + digits)?, 16).ok()?;
    Some((char::from_u32(code)?, from + digits))
}

impl NameAt<'_> {
    /// The name, with what is escaped in it.
    fn name(&self) -> Cow<'_, str> {
        let before = boundary(self.text, self.begin.saturating_sub(8));
        // An escape at the beginning: its first character is no part of a name.
        let mark = self.text[before..self.begin].rfind(['%', '\\']).map(|mark| before + mark);
        let begin = mark.map(|mark| self.text[..mark + 1].trim_end_matches('\\').len().min(mark));
        let is_escaped = |begin: &usize| matches!(escaped(&self.text[*begin..]), Some((c, length)) if is_name(c) && *begin + length > self.begin);
        let begin = begin.filter(is_escaped).unwrap_or(self.begin);
        let whole = &self.text[begin..self.end];
        if !whole.contains(['%', '\\']) {
            return Cow::Borrowed(whole);
        }
        let (mut name, mut rest) = (String::new(), whole);
        while let Some(c) = rest.chars().next() {
            let (c, length) = escaped(rest).unwrap_or((c, c.len_utf8()));
            name.push(c);
            rest = &rest[length..];
        }
        Cow::Owned(name)
    }

    fn before(&self) -> &str {
        &self.text[..self.begin]
    }

    /// Where the value is.
    fn value(&self, sensitivity: Sensitivity) -> Option<Range<usize>> {
        let text = self.text;
        if let Some(tag) = self.in_tag() {
            return tag;
        }
        let mut at = self.end;
        let slashes = text[at..].bytes().take_while(|byte| *byte == b'\\').count();
        let closes = text[at + slashes..].starts_with(['"', '\'']);
        at += if closes { slashes + 1 } else { 0 };
        at += text[at..].len() - text[at..].trim_start_matches(']').len();
        // The value of a quoted name may be on the next line.
        let is_blank = |c: char| c == ' ' || c == '\t' || closes && (c == '\n' || c == '\r');
        let blanks = |at: usize| text[at..].len() - text[at..].trim_start_matches(is_blank).len();
        let after_blanks = at + blanks(at);
        let (separator, length) = self.separator(after_blanks, closes)?;
        if self.is_message
            && separator == Separator::Equals
            && after_blanks > at
            && !self.has_quote(after_blanks + 1)
        {
            return None;
        }
        let is_spaced = after_blanks > self.end;
        if sensitivity == Sensitivity::Query && !self.is_in_query(separator, closes, is_spaced) {
            return None;
        }
        at = after_blanks + length;
        let is_spaced = blanks(at) > 0;
        at += blanks(at);
        let rest = &text[at..];
        let slashes = rest.bytes().take_while(|byte| *byte == b'\\').count();
        if let Some(quote) = rest[slashes..].chars().next().filter(|c| matches!(c, '"' | '\'')) {
            return Some(within(text, at, slashes, quote));
        }
        let is_field = self.text[self.begin..].starts_with(|c: char| c.is_ascii_uppercase())
            && self.text[self.begin..self.end].contains('-');
        if self.is_message && separator == Separator::Colon && sensitivity != Sensitivity::Header && !is_field
        {
            // In a sentence, words follow.
            return None;
        }
        if sensitivity == Sensitivity::Query && rest.starts_with(['[', '{']) {
            // An object of JSON, whose values have names.
            return None;
        }
        let near = &rest[..boundary(rest, CONTEXT)];
        if self.is_in_filter() && separator == Separator::Equals {
            return Some(at..at + near.find([')', '\n', '`']).unwrap_or(near.len()));
        }
        let line_end = || near.find(['\n', '\r']).map_or(at + near.len(), |end| at + end);
        if let Some((open, close)) =
            [('[', ']'), ('{', '}')].into_iter().find(|(open, _)| near.starts_with(*open))
        {
            return matching(&text[at..line_end()], open, close).map(|length| at..at + length);
        }
        if separator == Separator::Encoded {
            let ends =
                [text[at..].find("%26"), text[at..].find(|c: char| c.is_whitespace() || "&\"'`".contains(c))];
            let end = ends.into_iter().flatten().min().map_or(text.len(), |end| at + end);
            return Some(at..end);
        }
        let enclosing = || self.enclosing_end(&text[at..line_end()], at);
        let is_whole_line = separator != Separator::Blank && is_spaced && self.begins_line();
        let end = match sensitivity {
            Sensitivity::Header if separator != Separator::Equals || is_spaced => {
                enclosing().unwrap_or_else(line_end)
            }
            _ if separator == Separator::Colon && self.is_quoted() && !closes => enclosing()?,
            _ if separator == Separator::Blank && !self.is_flag && self.is_quoted() => enclosing()?,
            _ if is_whole_line => line_end(),
            _ => at + unquoted(near),
        };
        let value = text[at..end].trim_end();
        Some(at..at + value.len())
    }

    /// The separator at a place, and its length.
    fn separator(&self, at: usize, closes: bool) -> Option<(Separator, usize)> {
        let rest = &self.text[at..];
        for (word, separator) in [
            ("%3D", Separator::Encoded),
            ("%3d", Separator::Encoded),
            ("%3A", Separator::Encoded),
            ("%3a", Separator::Encoded),
            ("%22%3A", Separator::Encoded),
            ("::", Separator::Colon),
            (":=", Separator::Equals),
            ("=>", Separator::Equals),
            ("==", Separator::Equals),
            ("=", Separator::Equals),
            (":", Separator::Colon),
        ] {
            if rest.starts_with(word) {
                // The scheme of an address.
                return (!rest.starts_with("://")).then_some((separator, word.len()));
            }
        }
        let is_comparison = ["<=", ">=", "~="].iter().any(|word| rest.starts_with(word));
        if is_comparison && self.is_in_filter() {
            return Some((Separator::Equals, 2));
        }
        if self.is_flag && closes && rest.starts_with(',') {
            return Some((Separator::Blank, 1));
        }
        let has_blank = at > self.end;
        let follows_quote = self.before().ends_with(['"', '\'', '`']) || self.before().is_empty();
        let name = &self.text[self.begin..self.end];
        let is_header =
            name.contains('-') || ["authorization", "cookie", "dpop"].contains(&&*name.to_lowercase());
        let is_value = !rest.is_empty() && !rest.starts_with(['-', '<', '[', '(', '|']);
        let is_given = self.is_flag && is_value && !self.is_message;
        let lacks_colon = follows_quote && is_header && is_value && !self.is_flag && !self.is_message;
        let lacks_equals = !self.is_message && self.begins_line() && is_only_value(rest);
        (has_blank && !closes && (is_given || lacks_colon || lacks_equals)).then_some((Separator::Blank, 0))
    }

    /// Whether a name that is secret in queries is one of a query, a form, JSON or a filter, or that of a variable.
    fn is_in_query(&self, separator: Separator, closes: bool, is_spaced: bool) -> bool {
        let before = self.before();
        let begins_pair = before.is_empty() || before.ends_with(['?', '&', '"', '\'', '#', ';', '`']);
        match separator {
            _ if closes => self.is_quoted(),
            Separator::Equals => {
                !is_spaced && (begins_pair || self.is_in_filter()) || is_query_variable(&self.name())
            }
            Separator::Encoded => ends_with_encoded_sign(before),
            Separator::Colon | Separator::Blank => false,
        }
    }

    /// Whether it is the name of an attribute in a filter of LDAP: `(pin=1234)`.
    fn is_in_filter(&self) -> bool {
        !self.is_message && self.before().ends_with('(')
    }

    fn has_quote(&self, at: usize) -> bool {
        self.text[at..].trim_start_matches([' ', '\t']).starts_with(['"', '\''])
    }

    /// Whether it is the name of a tag of XML, perhaps with a namespace.
    fn is_tag(&self) -> bool {
        let before = &self.before()[boundary(self.before(), self.begin.saturating_sub(NAMESPACE))..];
        let of_namespace = before.trim_end_matches(is_name_of_namespace);
        before.ends_with('<') || before.ends_with(':') && of_namespace.ends_with('<')
    }

    /// The value of an element of XML; the outer none for a name that is not that of an element.
    fn in_tag(&self) -> Option<Option<Range<usize>>> {
        if !self.is_tag() {
            return None;
        }
        let near = &self.text[self.end..boundary(self.text, self.end + CONTEXT)];
        let Some(close) = near.find('>').filter(|close| !near[..*close].ends_with('/')) else {
            return Some(None);
        };
        let begin = self.end + close + 1;
        let content = &self.text[begin..];
        if let Some(data) = content.strip_prefix("<![CDATA[") {
            let begin = begin + 9;
            return Some(Some(begin..data.find("]]>").map_or(self.text.len(), |end| begin + end)));
        }
        let end = content.find('<').unwrap_or(content.len());
        let (text, rest) = content.split_at(end);
        if text.trim().is_empty() && !rest.starts_with("</") {
            // It has elements: all of them are hidden.
            let of_name = format!("</{}", &self.text[self.tag_begin()..self.end]);
            let rest = &rest[..boundary(rest, CONTEXT)];
            return Some(rest.find(&of_name).map(|close| begin..begin + end + close));
        }
        let blanks = text.len() - text.trim_start().len();
        Some(Some(begin + blanks..begin + blanks + text.trim().len()))
    }

    /// Where the name of a tag begins, with its namespace.
    fn tag_begin(&self) -> usize {
        let before = &self.before()[boundary(self.before(), self.begin.saturating_sub(NAMESPACE))..];
        self.begin - (before.len() - before.trim_end_matches(is_name_of_namespace).len())
    }

    fn is_quoted(&self) -> bool {
        self.before().ends_with(['"', '\'', '`'])
    }

    /// The end of the quotation that begins before the name.
    fn enclosing_end(&self, line: &str, at: usize) -> Option<usize> {
        let quote = self.before().chars().next_back().filter(|c| matches!(c, '"' | '\'' | '`'))?;
        let mut is_escaped = false;
        let end = line.char_indices().find(|(_, c)| {
            let ends = *c == quote && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        Some(at + end.map_or(line.len(), |(end, _)| end))
    }

    /// Whether it is the first word of a line.
    fn begins_line(&self) -> bool {
        let near = &self.before()[boundary(self.before(), self.begin.saturating_sub(CONTEXT))..];
        let line = near.rsplit('\n').next().unwrap_or_default().trim_start();
        ["", "export", "set", "-", "+", "$env:"].contains(&line.trim_end())
            || line.chars().all(|c| is_name(c) || c == '.') && line.ends_with('.')
    }

    /// For `"name": "Authorization"`, the value of the `value` beside it, if that is not hidden yet; the outer none for any other name.
    fn value_of_pair(&self) -> Option<Option<Range<usize>>> {
        let word = &self.text[self.begin..self.end];
        let is_pair = ["name", "key", "header"].iter().any(|known| word.eq_ignore_ascii_case(known));
        if !(is_pair || word.ends_with("-name") && self.is_tag()) {
            return None;
        }
        let of_name = self.value(Sensitivity::Value)?;
        let name = &self.text[of_name.clone()];
        let of_pair = sensitivity(name).filter(|of| *of != Sensitivity::Query || !is_ordinary_in_pairs(name));
        let of_pair = of_pair.filter(|_| name.chars().all(is_name))?;
        let until = |range: Range<usize>| {
            let part = &self.text[range.clone()];
            part.match_indices("value").map(|(found, _)| range.start + found).find_map(|begin| {
                let end = begin + "value".len();
                // That of `param-value`.
                let begin = self.text[..begin].trim_end_matches("param-").len();
                let place = NameAt { begin, end, is_flag: false, is_message: false, ..*self };
                let is_secret = |value: &str| !is_shown(value) && !is_public(of_pair, name, value);
                place.value(Sensitivity::Value).filter(|range| is_secret(&self.text[range.clone()]))
            })
        };
        let near = boundary(self.text, of_name.end + CONTEXT);
        let close = self.text[of_name.end..near].find('}').map_or(near, |end| of_name.end + end);
        let near = boundary(self.text, self.begin.saturating_sub(CONTEXT));
        let open = self.text[near..self.begin].rfind('{').map_or(near, |open| near + open);
        Some(until(of_name.end..close).or_else(|| until(open..self.begin)))
    }
}

/// Whether the rest of a line is one value: a text in quotation marks, or a word with a digit.
fn is_only_value(rest: &str) -> bool {
    let line = rest[..boundary(rest, CONTEXT)].lines().next().unwrap_or_default().trim_end();
    let is_word = !line.contains(char::is_whitespace) && line.contains(|c: char| c.is_ascii_digit());
    line.starts_with(['"', '\'']) || is_word && !line.starts_with(['-', '<', '[', '(', '|', '=', ':'])
}

fn is_name_of_namespace(c: char) -> bool {
    is_name(c) || c == ':' || c == '.'
}

/// What is between the quotation marks that begin at a place, up to the end of the line if they do not end.
fn within(text: &str, at: usize, slashes: usize, quote: char) -> Range<usize> {
    let mark = &text[at..at + slashes + 1];
    let triple = mark.repeat(3);
    if slashes == 0 && text[at..].starts_with(&triple) {
        let begin = at + triple.len();
        return begin..text[begin..].find(&triple).map_or(text.len(), |end| begin + end);
    }
    let begin = at + mark.len();
    let mut backslashes = 0;
    for (index, c) in text[begin..].char_indices() {
        match c {
            '\\' => backslashes += 1,
            '\n' => return begin..begin + index,
            c if c == quote && (backslashes == slashes || slashes == 0 && backslashes % 2 == 0) => {
                return begin..begin + index - backslashes.min(slashes);
            }
            _ => backslashes = 0,
        }
    }
    begin..text.len()
}

/// The length of what an opening bracket begins; none if it does not end.
fn matching(line: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0_u32;
    for (index, c) in line.char_indices() {
        depth = if c == open {
            depth + 1
        } else if c == close {
            depth.saturating_sub(1)
        } else {
            depth
        };
        if depth == 0 {
            return Some(index + 1);
        }
    }
    (open == '[').then_some(line.len())
}

/// The length of a value without quotation marks. A character that usually ends one belongs to it unless something else begins.
fn unquoted(line: &str) -> usize {
    // A placeholder may contain characters that would end a value, for example blanks in the words of a prompt.
    if line.starts_with("${") {
        return line.find('}').map_or(line.len(), |end| end + 1);
    }
    let ends = |(index, c): &(usize, char)| {
        let rest = &line[index + c.len_utf8()..];
        match c {
            c if c.is_whitespace() => true,
            '&' | '"' | '\'' | '<' | '>' | '`' => true,
            ',' | ';' | ':' | '#' | '}' | ')' | ']' => {
                let rest = rest.trim_start_matches(['}', ')', ']', ',', ';', '`', '\'', '"', '\\']);
                let begins_word = rest.find(|c| !is_name(c) && c != ' ').is_some_and(|end| {
                    let behind = rest[end..].trim_start_matches(['\\', '"', '\'']);
                    end > 0 && behind.starts_with(['=', ':'])
                });
                rest.is_empty() || rest.starts_with(char::is_whitespace) || begins_word
            }
            _ => false,
        }
    };
    line.char_indices().find(ends).map_or(line.len(), |(index, _)| index)
}

/// Whether slashes at the end of a text follow the scheme of an address, perhaps with a mistake: `http:/`, `http:///`,
/// `http//`, `//`.
fn follows_scheme(text: &str) -> bool {
    const SCHEME: usize = 32;
    let before = text.trim_end_matches('/');
    let slashes = text.len() - before.len();
    let near = &before[boundary(before, before.len().saturating_sub(SCHEME))..];
    let scheme = near.trim_end_matches([':', ';', '.', ',']);
    let word = scheme.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next().unwrap_or_default();
    let is_marked = scheme.len() < near.len() && !word.is_empty();
    let begins = scheme[..scheme.len() - word.len()].chars().next_back();
    slashes > 1 && begins.is_none_or(|c| !is_name(c)) || is_marked
}

/// The user and password of addresses: `scheme://USER:PASSWORD@host`, and `USER:PASSWORD@host`.
fn in_addresses(text: &str, offset: usize, found: &mut Vec<Part>) {
    let is_end = |c: char| c.is_whitespace() || "\"'`<>".contains(c);
    let mut hide = |range: Range<usize>| {
        let value = &text[range.clone()];
        if !is_shown(value) {
            found.push(Part { range: offset + range.start..offset + range.end, why: WhyHidden::Address });
        }
    };
    let mut at = 0;
    while let Some(begin) = text[at..].find("://").map(|begin| at + begin + 3) {
        let scheme = text[..begin - 3].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next();
        let length =
            authority_bytes(&text[begin..], &['/', '?', '#', '"', '\'', '`', ' ', '\n', '\t', '<', '>']);
        let authority = &text[begin..begin + length];
        at = begin + length;
        if let Some(user) = authority.rfind('@') {
            let is_name_only = !authority[..user].contains(':')
                && scheme.is_some_and(|scheme| scheme.ends_with("ssh") || scheme.ends_with("sftp"));
            if !is_name_only {
                hide(begin..begin + user);
            }
        } else if let Some((_, after)) = authority.split_once(':')
            && !after.bytes().all(|byte| byte.is_ascii_digit())
            && !authority.starts_with('[')
        {
            // A password with a slash in it.
            let whole = text[begin..].find(is_end).map_or(text.len(), |end| begin + end);
            if let Some(user) = text[begin..whole].rfind('@') {
                hide(begin..begin + user);
                at = begin + user;
            }
        }
    }
    for (user, _) in text.match_indices('@') {
        let is_part = |c: char| !is_end(c) && !"(),;=|/[]{}&?".contains(c);
        let begin =
            user - text[..user].chars().rev().take_while(|c| is_part(*c)).map(char::len_utf8).sum::<usize>();
        let has_host = text[user + 1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
        let Some((name, password)) = text[begin..user].split_once(':') else { continue };
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let is_scheme =
            is_number || ["mailto", "jdbc", "acct", "sip", "sips", "xmpp", "urn", "exec"].contains(&name);
        let is_path = text[..begin].ends_with('/') && !follows_scheme(&text[..begin]);
        if has_host && !name.is_empty() && !password.is_empty() && !is_scheme && !is_path {
            hide(begin..user);
        }
    }
    // jdbc:oracle:thin:USER/PASSWORD@HOST
    for (begin, of) in text.match_indices("jdbc:oracle:") {
        let end = begin + text[begin..].find(is_end).unwrap_or(text.len() - begin);
        let Some((driver, login)) = text[begin + of.len()..end].split_once(':') else { continue };
        let begin = begin + of.len() + driver.len() + 1;
        if let Some((user, _)) = login.split_once('@').filter(|(user, _)| user.contains('/')) {
            hide(begin..begin + user.len());
        }
    }
}

#[cfg(test)]
mod tests;
