//! Texts with values that differ between requests: `${data.column}`, `${variable}`, `${number}`.

use std::collections::BTreeSet;

use model::Placeholder;
use model::problem::did_you_mean;
use model::random::Random;

use super::data::DataSet;
use crate::http::url;

/// Names with a meaning of their own in templates, which nothing else can have.
pub(super) const RESERVED: [&str; 10] =
    ["number", "user", "uuid", "random", "url", "xml", "json", "env", "file", "prompt"];

/// A compiled template.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Template {
    /// There are no two literals in a row.
    parts: Vec<Part>,
}

/// A part of a template.
#[derive(Clone, PartialEq)]
enum Part {
    Literal(Vec<u8>),
    Value(Value, Escape),
}

/// A value that differs between requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Column { data: u32, column: u32 },
    Variable(u32),
    Number,
    User,
    Random(i64, i64),
    Uuid,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Escape {
    None,
    Url,
    Xml,
    Json,
}

/// What a rendered text is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Use {
    /// A part of a URL: characters that a URL cannot contain are percent-encoded.
    Url,
    /// A header field: control characters are refused.
    Field,
    /// A body, or a text to compare with.
    Body,
}

/// Why a template cannot be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RenderError {
    /// A variable is not set.
    Unset,
    /// A value in a header field contains a control character.
    Control,
}

/// A variable of a scenario.
pub(super) struct Variable {
    pub(super) name: String,
    /// Its initial value; none if only an extraction sets it.
    pub(super) initial: Option<Vec<u8>>,
    /// Whether a request sets it. Otherwise it is a constant, and part of the literals.
    pub(super) is_extracted: bool,
}

/// Finds the secret of a placeholder: otherwise the error and the advice.
pub type FindSecret<'a> = dyn FnMut(Placeholder<'_>) -> Result<String, (String, String)> + 'a;

/// What the names in a template mean.
pub(super) struct Names<'a, 'b> {
    pub(super) data: &'a [DataSet],
    pub(super) variables: &'a [Variable],
    /// Names of data sets and variables that have a mistake, which is reported elsewhere.
    pub(super) faulty: &'a BTreeSet<String>,
    pub(super) find_secret: &'a mut FindSecret<'b>,
    /// Whether only secrets can be inserted.
    pub(super) only_secrets: bool,
}

/// A mistake in a template: the part of the text, the error and the advice.
#[derive(Debug, PartialEq)]
pub(super) struct TemplateMistake {
    pub(super) part: String,
    pub(super) what: String,
    pub(super) help: String,
}

impl TemplateMistake {
    fn new(part: &str, what: impl Into<String>, help: impl Into<String>) -> TemplateMistake {
        TemplateMistake { part: part.into(), what: what.into(), help: help.into() }
    }
}

/// The values of one request.
pub(super) struct Values<'a> {
    pub(super) number: u64,
    pub(super) user: u64,
    pub(super) random: Random,
    pub(super) data: &'a [DataSet],
    /// The row of each data set.
    pub(super) rows: &'a [u32],
    pub(super) variables: &'a [Option<Vec<u8>>],
}

/// Writes a literal text as a template.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        out.push(c);
        // Also at the end, where another template may follow.
        if c == '$' && matches!(characters.peek(), None | Some('$' | '{')) {
            out.push('$');
        }
    }
    out
}

/// The names that a template uses, as written: `token`, `users.name`.
pub(super) fn names_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    pieces(text, |piece| {
        if let Piece::Expression(expression) = piece {
            names.push(argument_of(expression).map_or(expression, |(_, argument)| argument).trim());
        }
    });
    names
}

/// A piece of the text of a template.
enum Piece<'a> {
    Literal(&'a str),
    /// Between `${` and `}`.
    Expression(&'a str),
    /// `${` without `}`.
    Open,
}

/// Calls `take` for each piece of a text.
fn pieces<'a>(text: &'a str, mut take: impl FnMut(Piece<'a>)) {
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest.get(from..).and_then(|tail| tail.find('$')).map(|at| at + from) {
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            take(Piece::Literal(&rest[..=at]));
            (rest, from) = (tail, 0);
        } else if let Some(inside) = after.strip_prefix('{') {
            take(Piece::Literal(&rest[..at]));
            match inside.split_once('}') {
                Some((expression, tail)) => {
                    take(Piece::Expression(expression));
                    (rest, from) = (tail, 0);
                }
                None => return take(Piece::Open),
            }
        } else {
            from = at + 1;
        }
    }
    take(Piece::Literal(rest));
}

/// `NAME(ARGUMENT)`.
fn argument_of(expression: &str) -> Option<(&str, &str)> {
    expression.trim().strip_suffix(')')?.split_once('(')
}

impl Template {
    /// A literal.
    pub(super) fn literal(bytes: impl Into<Vec<u8>>) -> Template {
        let mut template = Template::default();
        template.push_literal(&bytes.into());
        template
    }

    /// Compiles a text; all mistakes at once.
    pub(super) fn compile(text: &str, names: &mut Names<'_, '_>) -> Result<Template, Vec<TemplateMistake>> {
        let (mut template, mut mistakes) = (Template::default(), Vec::new());
        pieces(text, |piece| match piece {
            Piece::Literal(literal) => template.push_literal(literal.as_bytes()),
            Piece::Open => {
                let what = "`${` has no `}`";
                mistakes.push(TemplateMistake::new("${", what, "write $$ for a dollar sign"));
            }
            Piece::Expression(expression) => match names.part(expression) {
                Ok(Some(Part::Literal(bytes))) => template.push_literal(&bytes),
                Ok(Some(part)) => template.parts.push(part),
                Ok(None) => {}
                Err(mistake) => mistakes.push(mistake),
            },
        });
        if mistakes.is_empty() { Ok(template) } else { Err(mistakes) }
    }

    /// Appends bytes.
    pub(super) fn push_literal(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Literal(literal)) => literal.extend_from_slice(bytes),
            _ => self.parts.push(Part::Literal(bytes.to_vec())),
        }
    }

    /// Appends a template.
    pub(super) fn push(&mut self, template: Template) {
        for part in template.parts {
            match part {
                Part::Literal(bytes) => self.push_literal(&bytes),
                part => self.parts.push(part),
            }
        }
    }

    /// The bytes of a template that is a literal.
    pub(super) fn as_literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Percent-encodes characters of the literals that a URL cannot contain.
    pub(super) fn encode_literals(&mut self) {
        for part in &mut self.parts {
            if let Part::Literal(bytes) = part {
                let mut encoded = Vec::with_capacity(bytes.len());
                url::encode_invalid(bytes, &mut encoded);
                *bytes = encoded;
            }
        }
    }

    /// Whether a literal contains a control character other than a tab.
    pub(super) fn has_control(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Literal(bytes) if is_controlled(bytes)))
    }

    /// The data sets that it uses.
    pub(super) fn data_used(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(Value::Column { data, .. }, _) => Some(*data),
            _ => None,
        })
    }

    /// Whether it depends on nothing but data sets.
    pub(super) fn is_of_data(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_) | Part::Value(Value::Column { .. }, _)))
    }

    /// Appends the text with these values.
    pub(super) fn render(
        &self,
        values: &mut Values<'_>,
        purpose: Use,
        out: &mut Vec<u8>,
    ) -> Result<(), RenderError> {
        for part in &self.parts {
            match part {
                Part::Literal(bytes) => out.extend_from_slice(bytes),
                Part::Value(value, escape) => render_value(*value, *escape, values, purpose, out)?,
            }
        }
        Ok(())
    }
}

fn render_value(
    value: Value,
    escape: Escape,
    values: &mut Values<'_>,
    purpose: Use,
    out: &mut Vec<u8>,
) -> Result<(), RenderError> {
    let bytes: &[u8] = match value {
        // Numbers contain nothing to escape.
        Value::Number => return write(out, format_args!("{}", values.number)),
        Value::User => return write(out, format_args!("{}", values.user)),
        Value::Random(low, high) => {
            let range = (i128::from(high) - i128::from(low) + 1) as u64;
            // The whole range of 64 bits has no length in 64 bits.
            let above = if range == 0 { values.random.next_u64() } else { values.random.below_u64(range) };
            return write(out, format_args!("{}", low.wrapping_add_unsigned(above)));
        }
        Value::Uuid => {
            let (high, low) = (values.random.next_u64(), values.random.next_u64());
            return write_uuid(high, low, out);
        }
        Value::Column { data, column } => {
            let row = values.rows.get(data as usize).copied().unwrap_or(0);
            values.data.get(data as usize).map_or(&[], |data| data.value(row, column))
        }
        Value::Variable(slot) => match values.variables.get(slot as usize) {
            Some(Some(value)) => value,
            _ => return Err(RenderError::Unset),
        },
    };
    match (escape, purpose) {
        (Escape::Url, _) => url::encode(bytes, out),
        (Escape::Xml, _) => escape_xml(bytes, out),
        (Escape::Json, _) => escape_json(bytes, out),
        (Escape::None, Use::Url) => url::encode_invalid(bytes, out),
        (Escape::None, Use::Body) => out.extend_from_slice(bytes),
        (Escape::None, Use::Field) => {
            if is_controlled(bytes) {
                return Err(RenderError::Control);
            }
            out.extend_from_slice(bytes);
        }
    }
    Ok(())
}

/// Whether a text contains a control character other than a tab.
fn is_controlled(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| *byte < b' ' && *byte != b'\t' || *byte == 0x7f)
}

/// Writing to memory cannot fail.
fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) -> Result<(), RenderError> {
    let _ = std::io::Write::write_fmt(out, text);
    Ok(())
}

/// A UUID of version 4 (RFC 9562 section 5.4).
fn write_uuid(high: u64, low: u64, out: &mut Vec<u8>) -> Result<(), RenderError> {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    write(
        out,
        format_args!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        ),
    )
}

fn escape_xml(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'&' => out.extend(b"&amp;"),
            b'<' => out.extend(b"&lt;"),
            b'>' => out.extend(b"&gt;"),
            b'"' => out.extend(b"&quot;"),
            b'\'' => out.extend(b"&apos;"),
            byte => out.push(*byte),
        }
    }
}

/// The content of a JSON string.
fn escape_json(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            byte if *byte < b' ' => {
                let _ = write(out, format_args!("\\u{byte:04x}"));
            }
            byte => out.push(*byte),
        }
    }
}

impl Names<'_, '_> {
    /// The part of an expression; none if its mistake is reported elsewhere.
    fn part(&mut self, expression: &str) -> Result<Option<Part>, TemplateMistake> {
        let written = format!("${{{expression}}}");
        if let Some(placeholder) = Placeholder::parse(expression) {
            let secret = (self.find_secret)(placeholder)
                .map_err(|(what, help)| TemplateMistake::new(&written, what, help))?;
            return Ok(Some(Part::Literal(secret.into_bytes())));
        }
        if self.only_secrets {
            let what = format!("`{written}` cannot be the value of a variable");
            return Err(TemplateMistake::new(
                &written,
                what,
                "write a text, or a secret such as ${env:NAME}",
            ));
        }
        let (function, argument) = argument_of(expression).unwrap_or(("", expression));
        let escape = match function.trim() {
            "random" => return random(&written, argument).map(Some),
            "" => Escape::None,
            "url" => Escape::Url,
            "xml" => Escape::Xml,
            "json" => Escape::Json,
            other => {
                let help = did_you_mean(other, ["random", "url", "xml", "json"]);
                return Err(TemplateMistake::new(&written, format!("unknown function `{other}`"), help));
            }
        };
        let value = match argument.trim() {
            "number" => Value::Number,
            "user" => Value::User,
            "uuid" => Value::Uuid,
            name => match self.named(&written, name)? {
                Some(value) => value,
                None => return Ok(None),
            },
        };
        if let Value::Variable(slot) = value
            && let Some(Variable { initial: Some(initial), is_extracted: false, .. }) =
                self.variables.get(slot as usize)
            && escape == Escape::None
        {
            return Ok(Some(Part::Literal(initial.clone())));
        }
        Ok(Some(Part::Value(value, escape)))
    }

    /// A column or a variable.
    fn named(&self, written: &str, name: &str) -> Result<Option<Value>, TemplateMistake> {
        let (set, column) = name.split_once('.').map_or((name, None), |(set, column)| (set, Some(column)));
        if self.faulty.contains(set) {
            return Ok(None);
        }
        if let Some((at, data)) = self.data.iter().enumerate().find(|(_, data)| data.name == set) {
            let Some(column) = column else {
                let help = format!("write one of its columns: {}", columns(data));
                return Err(TemplateMistake::new(written, format!("`{set}` is a data set"), help));
            };
            return match data.columns.iter().position(|known| known == column) {
                Some(column) => Ok(Some(Value::Column { data: at as u32, column: column as u32 })),
                None => {
                    let help = did_you_mean(column, data.columns.iter().map(String::as_str));
                    Err(TemplateMistake::new(written, format!("`{set}` has no column `{column}`"), help))
                }
            };
        }
        if let Some(slot) = self.variables.iter().position(|variable| variable.name == name) {
            return Ok(Some(Value::Variable(slot as u32)));
        }
        let data = self.data.iter().flat_map(|data| {
            data.columns.iter().map(|column| format!("{}.{column}", data.name)).collect::<Vec<_>>()
        });
        let known: Vec<String> = ["number", "user", "uuid", "random(LOW, HIGH)"]
            .into_iter()
            .map(str::to_string)
            .chain(self.variables.iter().map(|variable| variable.name.clone()))
            .chain(data)
            .collect();
        let help = format!(
            "{}; write $$ for a dollar sign",
            did_you_mean(name, known.iter().map(String::as_str)).trim_end_matches('?')
        );
        Err(TemplateMistake::new(written, format!("unknown name `{name}` in a template"), help))
    }
}

fn columns(data: &DataSet) -> String {
    let names: Vec<String> =
        data.columns.iter().map(|column| format!("${{{}.{column}}}", data.name)).collect();
    names.join(", ")
}

/// `random(LOW, HIGH)`.
fn random(written: &str, arguments: &str) -> Result<Part, TemplateMistake> {
    let limits = arguments.split_once(',');
    let limits = limits.and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
    match limits {
        Some((low, high)) if low <= high => Ok(Part::Value(Value::Random(low, high), Escape::None)),
        _ => Err(TemplateMistake::new(
            written,
            "random needs the smallest and the largest integer",
            "such as ${random(1, 100)}",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::scenario::file::Order;

    fn compiled(text: &str) -> Result<Template, Vec<TemplateMistake>> {
        let data =
            [DataSet::read("users", b"name,e mail\nAnn & Co,a@b\n", Order::Sequential, None).ok().unwrap()];
        let variables = [
            Variable { name: "token".into(), initial: None, is_extracted: true },
            Variable { name: "region".into(), initial: Some(b"eu <1>".to_vec()), is_extracted: false },
        ];
        let faulty = BTreeSet::from(["broken".to_string()]);
        let mut find_secret = |placeholder: Placeholder<'_>| match placeholder {
            Placeholder::Environment("KEY") => Ok("${number}".to_string()),
            _ => Err(("not set".to_string(), "export it".to_string())),
        };
        let mut names = Names {
            data: &data,
            variables: &variables,
            faulty: &faulty,
            find_secret: &mut find_secret,
            only_secrets: false,
        };
        Template::compile(text, &mut names)
    }

    fn rendered(text: &str, purpose: Use) -> Result<String, RenderError> {
        let data =
            [DataSet::read("users", b"name,e mail\nAnn & Co,a@b\n", Order::Sequential, None).ok().unwrap()];
        let mut values = Values {
            number: 12,
            user: 3,
            random: Random::new(1),
            data: &data,
            rows: &[0],
            variables: &[Some(b"t\r\n".to_vec()), Some(b"eu <1>".to_vec())],
        };
        let mut out = Vec::new();
        compiled(text).ok().unwrap().render(&mut values, purpose, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_are_inserted() {
        for (text, purpose, expected) in [
            ("", Use::Body, ""),
            ("a$b", Use::Body, "a$b"),
            ("$$", Use::Body, "$"),
            ("$${number}", Use::Body, "${number}"),
            ("cost $", Use::Body, "cost $"),
            ("${number}/${user}", Use::Url, "12/3"),
            ("${users.name}", Use::Body, "Ann & Co"),
            ("${users.name}", Use::Url, "Ann%20&%20Co"),
            ("${url(users.name)}", Use::Url, "Ann%20%26%20Co"),
            ("${ xml( users.name ) }", Use::Body, "Ann &amp; Co"),
            ("${json(token)}", Use::Body, "t\\u000d\\u000a"),
            ("${users.e mail}", Use::Field, "a@b"),
            ("${region}", Use::Body, "eu <1>"),
            ("${xml(region)}", Use::Body, "eu &lt;1&gt;"),
            ("${random(-5, -5)}", Use::Body, "-5"),
            // A secret is not a template.
            ("${env:KEY}", Use::Body, "${number}"),
            ("${broken.x}", Use::Body, ""),
        ] {
            assert_eq!(rendered(text, purpose).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(rendered("${token}", Use::Field), Err(RenderError::Control));
        assert!(compiled("x ${region} y").ok().unwrap().as_literal().is_some(), "a constant is a literal");
        assert!(compiled("${token}").ok().unwrap().as_literal().is_none());
    }

    #[test]
    fn a_uuid_has_version_and_variant() {
        let uuid = rendered("${uuid}", Use::Body).unwrap();
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "4");
        assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"), "{uuid}");
    }

    #[test]
    fn every_random_number_is_in_its_range() {
        for (low, high) in [(1, 3), (-2, 2), (i64::MIN, i64::MAX), (i64::MAX, i64::MAX)] {
            let text = format!("${{random({low}, {high})}}");
            let number: i64 = rendered(&text, Use::Body).unwrap().parse().unwrap();
            assert!((low..=high).contains(&number));
        }
    }

    #[test]
    fn mistakes_name_what_is_possible() {
        for (text, expected) in [
            (
                "${nubmer}",
                "${nubmer}: unknown name `nubmer` in a template; did you mean `number`; write $$ for a dollar sign",
            ),
            ("${users.nam}", "${users.nam}: `users` has no column `nam`; did you mean `name`?"),
            (
                "${users}",
                "${users}: `users` is a data set; write one of its columns: ${users.name}, ${users.e mail}",
            ),
            ("${number", "${: `${` has no `}`; write $$ for a dollar sign"),
            (
                "${random(2, 1)}",
                "${random(2, 1)}: random needs the smallest and the largest integer; such as ${random(1, 100)}",
            ),
            ("${ur(token)}", "${ur(token)}: unknown function `ur`; did you mean `url`?"),
            ("${env:NO}", "${env:NO}: not set; export it"),
        ] {
            let mistakes = compiled(text).err().unwrap();
            let shown: Vec<String> =
                mistakes.iter().map(|m| format!("{}: {}; {}", m.part, m.what, m.help)).collect();
            assert_eq!(shown, [expected]);
        }
        assert_eq!(compiled("${a} ${b}").err().unwrap().len(), 2);
    }

    proptest::proptest! {
        #[test]
        fn an_escaped_text_is_itself(text in "(\\$|\\{|\\}|number|[a-z ]|\\PC){0,12}", more in "(\\$|\\{|\\PC){0,4}") {
            let template = compiled(&(escape(&text) + &escape(&more))).ok().unwrap();
            let expected = text + &more;
            proptest::prop_assert_eq!(template.as_literal(), Some(expected.as_bytes()));
        }

        #[test]
        fn no_text_panics(text in "(\\$|\\{|\\}|\\(|\\)|number|users|\\.|random|env:|[a-z, ]|\\PC){0,16}") {
            let _ = compiled(&text);
            let _ = names_in(&text);
        }
    }
}
