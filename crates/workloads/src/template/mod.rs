//! Texts with values that differ between requests: `${data.column}`, `${variable}`, `${number}`.

pub(crate) mod data;
pub(crate) mod percent;
mod zipf;

use std::collections::BTreeSet;
use std::path::Path;

use engine::inputs::Inputs;
use model::Placeholder;
use model::problem::did_you_mean;
use model::random::Random;

use data::DataSet;
use zipf::Zipf;

/// Names with a meaning of their own in templates, which nothing else can have.
pub(crate) const RESERVED: [&str; 12] =
    ["number", "user", "uuid", "random", "zipf", "sequence", "url", "xml", "json", "env", "file", "prompt"];

/// A compiled template.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Template {
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
    Column {
        data: u32,
        column: u32,
    },
    Variable(u32),
    Number,
    User,
    Uuid,
    /// An integer, with at least this many digits.
    Integer(Distribution, u8),
}

/// Which integers a value has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Distribution {
    /// Each from the first to the last is as likely as the others.
    Uniform(i64, i64),
    /// The first is the most likely one.
    Zipf(i64, Zipf),
    /// From the first to the last, by the number of the operation, and again.
    Sequence(i64, i64),
}

/// A value of a template that is written on its own, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slot {
    value: Value,
    escape: Escape,
}

/// A piece of a template: a text, or a value.
pub(crate) enum TemplatePart<'a> {
    Literal(&'a [u8]),
    Slot(Slot),
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Escape {
    None,
    Url,
    Xml,
    Json,
    /// As a value in a distinguished name (RFC 4514 section 2.4).
    Dn,
}

/// What a rendered text is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Use {
    /// A part of a URL: characters that a URL cannot contain are percent-encoded.
    Url,
    /// A header field: control characters are refused.
    Field,
    /// A body, or a text to compare with.
    Body,
}

/// Why a template cannot be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenderError {
    /// A variable is not set.
    Unset,
    /// A value in a header field contains a control character.
    Control,
}

/// A variable of a scenario.
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Its initial value; none if only an extraction sets it.
    pub(crate) initial: Option<Vec<u8>>,
    /// Whether a request sets it. Otherwise it is a constant, and part of the literals.
    pub(crate) is_extracted: bool,
}

/// Finds the secret of a placeholder: otherwise the error and the advice.
pub type FindSecret<'a> = dyn FnMut(Placeholder<'_>) -> Result<String, (String, String)> + 'a;

/// What the names in a template mean.
pub(crate) struct Names<'a, 'b> {
    pub(crate) data: &'a [DataSet],
    pub(crate) variables: &'a [Variable],
    /// Names of data sets and variables that have a mistake, which is reported elsewhere.
    pub(crate) faulty: &'a BTreeSet<String>,
    pub(crate) find_secret: &'a mut FindSecret<'b>,
    /// Whether only secrets can be inserted.
    pub(crate) only_secrets: bool,
}

/// A mistake in a template: the part of the text, the error and the advice.
#[derive(Debug, PartialEq)]
pub(crate) struct TemplateMistake {
    pub(crate) part: String,
    pub(crate) what: String,
    pub(crate) help: String,
}

impl TemplateMistake {
    fn new(part: &str, what: impl Into<String>, help: impl Into<String>) -> TemplateMistake {
        TemplateMistake { part: part.into(), what: what.into(), help: help.into() }
    }
}

/// The values of one request.
pub(crate) struct Values<'a> {
    pub(crate) number: u64,
    pub(crate) user: u64,
    pub(crate) random: Random,
    pub(crate) data: &'a [DataSet],
    /// The row of each data set.
    pub(crate) rows: &'a [u32],
    pub(crate) variables: &'a [Option<Vec<u8>>],
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
pub(crate) fn names_in(text: &str) -> Vec<&str> {
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
    pub(crate) fn literal(bytes: impl Into<Vec<u8>>) -> Template {
        let mut template = Template::default();
        template.push_literal(&bytes.into());
        template
    }

    /// Compiles a text; all mistakes at once.
    pub(crate) fn compile(text: &str, names: &mut Names<'_, '_>) -> Result<Template, Vec<TemplateMistake>> {
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
    pub(crate) fn push_literal(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Literal(literal)) => literal.extend_from_slice(bytes),
            _ => self.parts.push(Part::Literal(bytes.to_vec())),
        }
    }

    /// Appends a template.
    pub(crate) fn push(&mut self, template: Template) {
        for part in template.parts {
            match part {
                Part::Literal(bytes) => self.push_literal(&bytes),
                part => self.parts.push(part),
            }
        }
    }

    /// The bytes of a template that is a literal.
    pub(crate) fn as_literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Percent-encodes characters of the literals that a URL cannot contain.
    pub(crate) fn encode_literals(&mut self) {
        for part in &mut self.parts {
            if let Part::Literal(bytes) = part {
                let mut encoded = Vec::with_capacity(bytes.len());
                percent::encode_invalid(bytes, &mut encoded);
                *bytes = encoded;
            }
        }
    }

    /// Whether a literal contains a control character other than a tab.
    pub(crate) fn has_control(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Literal(bytes) if is_controlled(bytes)))
    }

    /// Its pieces, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = TemplatePart<'_>> {
        self.parts.iter().map(|part| match part {
            Part::Literal(bytes) => TemplatePart::Literal(bytes),
            Part::Value(value, escape) => TemplatePart::Slot(Slot { value: *value, escape: *escape }),
        })
    }

    /// The data sets that it uses.
    pub(crate) fn data_used(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(Value::Column { data, .. }, _) => Some(*data),
            _ => None,
        })
    }

    /// Whether it depends on nothing but data sets.
    pub(crate) fn is_of_data(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_) | Part::Value(Value::Column { .. }, _)))
    }

    /// Appends the text with these values.
    pub(crate) fn render(
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

impl Slot {
    /// The same value, written as a part of a distinguished name.
    pub(crate) fn in_dn(self) -> Slot {
        Slot { escape: Escape::Dn, ..self }
    }

    /// The data set that it is from.
    pub(crate) fn data_used(&self) -> Option<u32> {
        match self.value {
            Value::Column { data, .. } => Some(data),
            _ => None,
        }
    }

    /// Appends the value.
    pub(crate) fn render(&self, values: &mut Values<'_>, out: &mut Vec<u8>) -> Result<(), RenderError> {
        render_value(self.value, self.escape, values, Use::Body, out)
    }
}

impl Distribution {
    fn choose(self, values: &mut Values<'_>) -> i64 {
        match self {
            Distribution::Uniform(low, high) => {
                let range = length(low, high);
                // The whole range of 64 bits has no length in 64 bits.
                let above =
                    if range == 0 { values.random.next_u64() } else { values.random.below_u64(range) };
                low.wrapping_add_unsigned(above)
            }
            Distribution::Zipf(low, zipf) => low.wrapping_add_unsigned(zipf.rank(&mut values.random) - 1),
            Distribution::Sequence(low, high) => match length(low, high) {
                0 => low.wrapping_add_unsigned(values.number),
                range => low.wrapping_add_unsigned(values.number % range),
            },
        }
    }
}

/// The number of integers from one to another; 0 for 2^64.
fn length(low: i64, high: i64) -> u64 {
    (i128::from(high) - i128::from(low) + 1) as u64
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
        Value::Integer(distribution, width) => {
            write_integer(distribution.choose(values), usize::from(width), out);
            return Ok(());
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
        (Escape::Url, _) => percent::encode(bytes, out),
        (Escape::Xml, _) => escape_xml(bytes, out),
        (Escape::Json, _) => escape_json(bytes, out),
        (Escape::Dn, _) => escape_dn(bytes, out),
        (Escape::None, Use::Url) => percent::encode_invalid(bytes, out),
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

/// Appends an integer with at least `width` characters, a sign included: as `{:0width$}`, in a third of its time.
fn write_integer(number: i64, width: usize, out: &mut Vec<u8>) {
    const DIGITS_MAX: usize = 20;
    let mut digits = [b'0'; DIGITS_MAX];
    let (mut at, mut rest) = (DIGITS_MAX, number.unsigned_abs());
    while rest > 0 || at == DIGITS_MAX {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let sign = usize::from(number < 0);
    if number < 0 {
        out.push(b'-');
    }
    let zeros = width.saturating_sub(sign + DIGITS_MAX - at);
    out.extend(std::iter::repeat_n(b'0', zeros));
    out.extend_from_slice(&digits[at..]);
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

/// A value in a distinguished name.
fn escape_dn(bytes: &[u8], out: &mut Vec<u8>) {
    struct Text<'a>(&'a mut Vec<u8>);
    impl std::fmt::Write for Text<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    ldap::dn::escape_value(&mut Text(out), bytes);
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
            function @ ("random" | "sequence" | "zipf") => {
                return integer(&written, function, argument).map(Some);
            }
            "" => Escape::None,
            "url" => Escape::Url,
            "xml" => Escape::Xml,
            "json" => Escape::Json,
            other => {
                let help = did_you_mean(other, ["random", "sequence", "zipf", "url", "xml", "json"]);
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
        let known: Vec<String> =
            ["number", "user", "uuid", "random(LOW, HIGH)", "sequence(LOW, HIGH)", "zipf(LOW, HIGH)"]
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

/// `random(LOW, HIGH)`, `sequence(LOW, HIGH)` or `zipf(LOW, HIGH, EXPONENT)`. Leading zeros of LOW are the width of all.
fn integer(written: &str, function: &str, arguments: &str) -> Result<Part, TemplateMistake> {
    let mut words = arguments.split(',').map(str::trim);
    let mut number = || words.next().and_then(|word| Some((word, word.parse::<i64>().ok()?)));
    let limits = number().zip(number());
    let exponent = words.next();
    let example = match function {
        "zipf" => "${zipf(1, 1000)}, or ${zipf(1, 1000, 1.2)} with an exponent",
        "sequence" => "${sequence(1, 1000)}",
        _ => "${random(1, 100)}",
    };
    let wrong = || {
        TemplateMistake::new(
            written,
            format!("{function} needs the smallest and the largest integer"),
            format!("such as {example}"),
        )
    };
    let Some(((word, low), (_, high))) = limits.filter(|((_, low), (_, high))| low <= high) else {
        return Err(wrong());
    };
    if words.next().is_some() || exponent.is_some() && function != "zipf" {
        return Err(wrong());
    }
    let distribution = match function {
        "zipf" => {
            let exponent = exponent.map_or(Some(1.0), |word| word.parse::<f64>().ok());
            let Some(exponent) = exponent.filter(|exponent| (0.0..=10.0).contains(exponent)) else {
                return Err(TemplateMistake::new(
                    written,
                    "the exponent of zipf is a number from 0 to 10",
                    format!("such as {example}"),
                ));
            };
            let range = length(low, high);
            Distribution::Zipf(low, Zipf::new(if range == 0 { u64::MAX } else { range }, exponent))
        }
        "sequence" => Distribution::Sequence(low, high),
        _ => Distribution::Uniform(low, high),
    };
    let is_padded = word.len() > 1 && word.starts_with('0');
    let width = if is_padded { word.len().min(40) as u8 } else { 0 };
    Ok(Part::Value(Value::Integer(distribution, width), Escape::None))
}

/// The secret of a placeholder in a file in this folder; otherwise the error and the advice.
pub(crate) fn find_secret(
    placeholder: &Placeholder<'_>,
    folder: &Path,
    inputs: &Inputs,
) -> Result<String, (String, String)> {
    match placeholder {
        Placeholder::Environment(name) => inputs.variable(name).map_err(|_| {
            (format!("the environment variable {name} is not set"), format!("export {name} before the run"))
        }),
        Placeholder::File(path) => {
            inputs.secret(&folder.join(path)).map_err(|error| (error.to_string(), String::new()))
        }
        Placeholder::Dependency(name) => Err((
            format!("`${{dependency:{name}}}` is replaced in the experiment file, not in this one"),
            "set `listen` of the dependency, and write that address here".into(),
        )),
        Placeholder::Prompt(_) => {
            Err(("a file asks for nothing".into(), "use ${env:NAME} or ${file:PATH}".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::data::Order;
    use super::*;

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
            ("${random(0007, 7)}", Use::Body, "0007"),
            // The number of the operation is 12.
            ("${sequence(5, 9)} ${sequence(01, 100)}", Use::Body, "7 13"),
            ("${zipf(3, 3)} ${zipf(9, 9, 1.5)}", Use::Body, "3 9"),
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
    fn a_value_in_a_distinguished_name_is_only_a_value() {
        for (value, expected) in [
            ("Ann", "Ann"),
            (" a, b=c + \"d\"; <e> ", "\\ a\\, b\\=c \\+ \\\"d\\\"\\; \\<e\\>\\ "),
            ("#1\\", "\\#1\\\\"),
            ("a#\0", "a#\\00"),
        ] {
            let mut out = Vec::new();
            escape_dn(value.as_bytes(), &mut out);
            let out = String::from_utf8(out).unwrap();
            assert_eq!(out, expected);
            // The parser of names reads the same value again.
            let name = ldap::Dn::parse(&format!("cn={out},dc=a")).unwrap();
            assert_eq!(name, ldap::Dn::parse("dc=a").unwrap().child(ldap::Rdn::new("cn", value)));
        }
    }

    #[test]
    fn an_integer_is_written_as_usual() {
        for number in [0, 7, 10, 99_999, -1, -40, i64::MAX, i64::MIN] {
            for width in [0, 1, 3, 25] {
                let mut out = Vec::new();
                write_integer(number, width, &mut out);
                assert_eq!(String::from_utf8(out).unwrap(), format!("{number:0width$}"));
            }
        }
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
