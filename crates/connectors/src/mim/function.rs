//! Functions of synchronization rules as expressions.

use super::export::{Function, Schema};
use metadir::schema::Type;

/// Words that CEL reserves, which are no names after a dot.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// An attribute of an object: `mv.name`, or `mv["a name"]` where the name is no identifier.
pub(super) fn attribute(root: &str, name: &str) -> String {
    match is_identifier(name) {
        true => format!("{root}.{name}"),
        false => format!("{root}[{}]", quoted(name)),
    }
}

pub(super) fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    begins
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !RESERVED.contains(&name)
}

/// A text as a literal of CEL.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for letter in text.chars() {
        match letter {
            '\\' | '\'' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter => out.push(letter),
        }
    }
    out.push('\'');
    out
}

/// Translates functions over the attributes of one object.
pub(super) struct Translator<'a> {
    /// `cs` or `mv`.
    pub(super) root: &'a str,
    pub(super) schema: &'a Schema,
    /// Differences that an administrator has to know.
    pub(super) cautions: Vec<String>,
}

impl Translator<'_> {
    /// The expression of a function.
    ///
    /// # Errors
    /// The function that has no equivalent.
    pub(super) fn expression(&mut self, function: &Function) -> Result<String, String> {
        let (name, arguments) = match function {
            Function::Text(text) => return Ok(quoted(text)),
            Function::Number(number) => return Ok(number.to_string()),
            Function::Attribute(name) => return Ok(attribute(self.root, name)),
            Function::Call(name, arguments) => (name.as_str(), arguments.as_slice()),
        };
        let [mut ascii_only, mut one] = [None, None];
        let translated = match (name.to_ascii_lowercase().as_str(), arguments) {
            ("+" | "concat" | "concatenate", parts) if !parts.is_empty() => {
                let parts: Result<Vec<String>, String> = parts.iter().map(|part| self.text(part)).collect();
                parts?.join(" + ")
            }
            ("iif", [condition, yes, no]) => {
                let [condition, yes, no] = self.each([condition, yes, no])?;
                format!("({condition} ? {yes} : {no})")
            }
            ("eq" | "equals", [a, b]) => self.between(a, "==", b)?,
            ("noteq" | "notequals", [a, b]) => self.between(a, "!=", b)?,
            ("and", parts) if !parts.is_empty() => self.joined(parts, " && ")?,
            ("or", parts) if !parts.is_empty() => self.joined(parts, " || ")?,
            ("not", [of]) => format!("!({})", self.expression(of)?),
            ("ispresent", [Function::Attribute(name)]) if is_identifier(name) => {
                format!("has({})", attribute(self.root, name))
            }
            ("trim", [of]) => format!("({}).trim()", self.text(of)?),
            ("lowercase", [of]) => {
                ascii_only = Some(name);
                format!("({}).lowerAscii()", self.text(of)?)
            }
            ("uppercase", [of]) => {
                ascii_only = Some(name);
                format!("({}).upperAscii()", self.text(of)?)
            }
            ("left", [of, Function::Number(count)]) if *count >= 0 => {
                let of = self.text(of)?;
                format!("(size({of}) > {count} ? ({of}).substring(0, {count}) : {of})")
            }
            ("right", [of, Function::Number(count)]) if *count >= 0 => {
                let of = self.text(of)?;
                format!("(size({of}) > {count} ? ({of}).substring(size({of}) - {count}) : {of})")
            }
            ("replacestring", [of, from, to]) => {
                let [from, to] = self.each([from, to])?;
                format!("({}).replace({from}, {to})", self.text(of)?)
            }
            ("escapedncomponent", [of]) => self.name(of)?,
            ("converttostring", [of]) => format!("string({})", self.expression(of)?),
            ("crlf", []) => quoted("\r\n"),
            _ => {
                one = Some(name);
                String::new()
            }
        };
        if let Some(name) = one {
            return Err(format!("the function {name} with {} arguments has no equivalent", arguments.len()));
        }
        if let Some(name) = ascii_only {
            self.cautions.push(format!("{name} changes letters without accents only"));
        }
        Ok(translated)
    }

    fn each<const N: usize>(&mut self, functions: [&Function; N]) -> Result<[String; N], String> {
        let mut texts = Vec::with_capacity(N);
        for function in functions {
            texts.push(self.expression(function)?);
        }
        texts.try_into().map_err(|_| String::new())
    }

    fn joined(&mut self, parts: &[Function], operator: &str) -> Result<String, String> {
        let parts: Result<Vec<String>, String> = parts.iter().map(|part| self.expression(part)).collect();
        Ok(format!("({})", parts?.join(operator)))
    }

    /// A comparison; a number is compared with an attribute that is a text as a text.
    fn between(&mut self, one: &Function, operator: &str, other: &Function) -> Result<String, String> {
        let is_number = |of: &Self, function: &Function| match function {
            Function::Number(_) => true,
            Function::Attribute(name) => of.kind(name) == Type::Integer,
            _ => false,
        };
        let [one, other] = match (is_number(self, one), is_number(self, other)) {
            (true, false) | (false, true) => [self.text(one)?, self.text(other)?],
            _ => self.each([one, other])?,
        };
        Ok(format!("{one} {operator} {other}"))
    }

    fn kind(&self, name: &str) -> Type {
        self.schema.get(name).map_or(Type::Text, |of| of.kind)
    }

    /// A function whose value is used as a text.
    fn text(&mut self, function: &Function) -> Result<String, String> {
        Ok(match function {
            Function::Number(number) => quoted(&number.to_string()),
            Function::Attribute(name) if matches!(self.kind(name), Type::Integer | Type::Boolean) => {
                format!("string({})", attribute(self.root, name))
            }
            other => self.expression(other)?,
        })
    }

    /// A distinguished name: values are escaped, which MIM leaves to whoever writes the rule.
    pub(super) fn name(&mut self, function: &Function) -> Result<String, String> {
        if let Function::Call(name, arguments) = function
            && let ("iif", [condition, yes, no]) = (name.to_ascii_lowercase().as_str(), arguments.as_slice())
        {
            let condition = self.expression(condition)?;
            return Ok(format!("({condition} ? {} : {})", self.name(yes)?, self.name(no)?));
        }
        let mut flat = Vec::new();
        flatten(function, &mut flat);
        let mut parts: Vec<String> = Vec::new();
        let mut at = 0;
        while let Some(part) = flat.get(at) {
            at += 1;
            let Function::Text(text) = part else {
                parts.push(self.text(part)?);
                continue;
            };
            let (before, kind) = match text.rfind([',', '+']) {
                Some(comma) => text.split_at(comma + 1),
                None => ("", text.as_str()),
            };
            let kind = kind.trim().strip_suffix('=').filter(|kind| metadir::naming::is_attribute_name(kind));
            let value = flat.get(at).filter(|value| !matches!(value, Function::Text(_)));
            let ends =
                !matches!(flat.get(at + 1), Some(Function::Text(next)) if !next.starts_with([',', '+']));
            match (kind, value) {
                (Some(kind), Some(value)) if ends => {
                    at += 1;
                    if !before.is_empty() {
                        parts.push(quoted(before));
                    }
                    let value = match value {
                        Function::Call(name, inner) if name.eq_ignore_ascii_case("EscapeDNComponent") => {
                            self.text(inner.first().unwrap_or(value))?
                        }
                        value => self.text(value)?,
                    };
                    parts.push(format!("rdn({}, {value})", quoted(kind)));
                }
                _ => parts.push(quoted(text)),
            }
        }
        Ok(parts.join(" + "))
    }
}

/// The parts of nested concatenations.
fn flatten(function: &Function, parts: &mut Vec<Function>) {
    match function {
        Function::Call(name, inner) if matches!(name.as_str(), "+" | "Concat" | "Concatenate") => {
            inner.iter().for_each(|part| flatten(part, parts));
        }
        Function::Call(name, inner)
            if name.eq_ignore_ascii_case("EscapeDNComponent")
                && matches!(inner.first(), Some(Function::Call(..))) =>
        {
            inner.iter().for_each(|part| flatten(part, parts));
        }
        other => parts.push(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::export::AttributeType;
    use super::*;
    use metadir::expression::Expression;

    fn call(name: &str, arguments: &[Function]) -> Function {
        Function::Call(name.into(), arguments.to_vec())
    }

    fn of(name: &str) -> Function {
        Function::Attribute(name.into())
    }

    fn text(text: &str) -> Function {
        Function::Text(text.into())
    }

    #[test]
    fn functions_become_expressions() {
        let schema: Schema = [("number", Type::Integer)]
            .map(|(name, kind)| (name.to_string(), AttributeType { kind, several: false }))
            .into();
        for (function, expected) in [
            (call("+", &[of("city"), text("-"), of("number")]), "mv.city + '-' + string(mv.number)"),
            (
                call(
                    "IIF",
                    &[call("Eq", &[of("scope"), text("it's")]), Function::Number(-2), Function::Number(4)],
                ),
                "(mv.scope == 'it\\'s' ? -2 : 4)",
            ),
            (call("Eq", &[of("code"), Function::Number(7)]), "mv.code == '7'"),
            (call("Eq", &[of("number"), Function::Number(7)]), "mv.number == 7"),
            (
                call("Or", &[call("IsPresent", &[of("a")]), call("Not", &[call("IsPresent", &[of("b")])])]),
                "(has(mv.a) || !(has(mv.b)))",
            ),
            (
                call("Left", &[of("sn"), Function::Number(3)]),
                "(size(mv.sn) > 3 ? (mv.sn).substring(0, 3) : mv.sn)",
            ),
            (call("Trim", &[of("a-b")]), "(mv['a-b']).trim()"),
            (call("ReplaceString", &[of("in"), text("\\"), text("\n")]), "(mv['in']).replace('\\\\', '\\n')"),
        ] {
            let mut translator = Translator { root: "mv", schema: &schema, cautions: Vec::new() };
            assert_eq!(translator.expression(&function).as_deref(), Ok(expected));
            Expression::parse(expected, "mv").unwrap();
        }
        let mut translator = Translator { root: "mv", schema: &schema, cautions: Vec::new() };
        let why = translator.expression(&call("+", &[text("x"), call("RandomNum", &[])])).unwrap_err();
        assert_eq!(why, "the function RandomNum with 0 arguments has no equivalent");
        translator.expression(&call("UpperCase", &[of("sn")])).unwrap();
        assert_eq!(translator.cautions, ["UpperCase changes letters without accents only"]);
    }

    #[test]
    fn values_in_names_are_escaped() {
        let schema = Schema::new();
        for (function, expected) in [
            (
                call("+", &[text("CN="), of("name"), text(",OU=People,DC=example,DC=com")]),
                "rdn('CN', mv.name) + ',OU=People,DC=example,DC=com'",
            ),
            (
                call(
                    "+",
                    &[
                        call("EscapeDNComponent", &[call("+", &[text("CN="), of("name")])]),
                        text(",OU="),
                        of("unit"),
                        text(",DC=com"),
                    ],
                ),
                "rdn('CN', mv.name) + ',' + rdn('OU', mv.unit) + ',DC=com'",
            ),
            // Two values of one part are put together as they are.
            (
                call("+", &[text("CN="), of("given"), text(" "), of("sn"), text(",DC=com")]),
                "'CN=' + mv.given + ' ' + mv.sn + ',DC=com'",
            ),
        ] {
            let mut translator = Translator { root: "mv", schema: &schema, cautions: Vec::new() };
            assert_eq!(translator.name(&function).as_deref(), Ok(expected));
            Expression::parse(expected, "mv").unwrap();
        }
    }
}
