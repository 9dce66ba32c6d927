//! Expressions in flows, filters and conditions: the Common Expression Language (CEL). It has no endless
//! loops, reads and writes nothing, and always terminates.
//!
//! An expression sees one object: `cs` in inbound rules, `mv` in outbound rules. It receives only the
//! attributes that it names. An attribute without a value is absent: `has(cs.mail)` is false and
//! `default(cs.mail, "none")` gives the default. An expression that uses an absent attribute without such a
//! check has no value, like a direct flow of an absent attribute. An attribute with several values is a list.
//! An attribute in a place that requires a list, behind `in` or before `.exists(...)`, is a list with a
//! single value too. `rdn("cn", mv.name)` gives a part of a distinguished name, with the value escaped.
//! `count(mv.members)` is the number of values, also of references, which have no value here.
//! `connectors(mv.members)` is the number of referenced objects that the system of the rule has.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use cel::common::types::CelString;
use cel::parser::Macro;
use cel::{Context, Env, ExecutionError, Program, Value, extensions};

use crate::schema::Type;

mod check;

pub use check::{Malformed, Wanted};

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expression {
    source: Box<str>,
    program: Arc<Program>,
    root: &'static str,
    uses: Box<[String]>,
    /// For each of them, what is read, and its name in the program.
    reads: Box<[(Read, String)]>,
    /// For each of them, whether it is also a list when it has one value.
    lists: Box<[bool]>,
    /// The parts that are concatenated, if the expression only concatenates.
    parts: Option<Box<[Part]>>,
    /// Whether it names the counter `n`.
    is_counted: bool,
}

/// What an expression reads of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Its values.
    Values,
    /// Their number.
    Count,
    /// The number of referenced objects that have a connector in the system of the rule.
    Connectors,
}

impl Read {
    /// The functions, each with the mark of its attribute in the program. No attribute begins with it.
    const FUNCTIONS: [(Read, &'static str, char); 2] =
        [(Read::Count, "count", '\u{1}'), (Read::Connectors, "connectors", '\u{2}')];

    /// The function in an expression.
    pub(crate) fn function(self) -> &'static str {
        Self::FUNCTIONS.iter().find(|(read, ..)| *read == self).map_or("", |(_, name, _)| name)
    }

    /// What a name in the program stands for.
    fn of(name: &str) -> (Read, &str) {
        let of_function = |(read, _, mark): &(Read, &str, char)| Some((*read, name.strip_prefix(*mark)?));
        Self::FUNCTIONS.iter().find_map(of_function).unwrap_or((Read::Values, name))
    }
}

/// The variable of a candidate: its number.
const COUNTER: &str = "n";

/// A part of a concatenated text.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    /// The attribute at an index of [`Expression::uses`].
    Attribute(usize),
    /// `rdn` with a name and the attribute at an index.
    Rdn(String, usize),
    /// The counter, `string(n)`.
    Counter,
}

/// Why an expression failed although all attributes that it needs have values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{source_text}`: {why}")]
pub struct Failed {
    /// The expression.
    pub source_text: String,
    /// What went wrong.
    pub why: String,
}

thread_local! {
    // Creating an environment takes far longer than evaluating an expression.
    static CONTEXT: Context<'static, 'static> = Context::with_env(ENV.clone());
}

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // Neither call can fail: the names are not in use.
    let declared = env.add_extension(extensions::strings).is_ok()
        && env.add_macro(default_macro()).is_ok()
        && Read::FUNCTIONS.into_iter().all(|(_, name, mark)| env.add_macro(count_macro(name, mark)).is_ok())
        && cel::add_overload!(env, fn rdn: (CelString, CelString) -> Result<CelString>).is_ok();
    debug_assert!(declared);
    Arc::new(env)
});

/// `default(cs.mail, other)` is `has(cs.mail) ? cs.mail : other`.
fn default_macro() -> Macro {
    Macro::global("default", 2, |helper, _, arguments| {
        let (Some(other), Some(wanted)) = (arguments.pop(), arguments.pop()) else { return Ok(None) };
        let IdedExpr { expr: Expr::Select(select), .. } = &wanted else {
            arguments.extend([wanted, other]);
            return Ok(None);
        };
        let test = helper.next_expr(Expr::Select(SelectExpr { test: true, ..select.clone() }));
        let arguments = vec![test, wanted, other];
        let func_name = operators::CONDITIONAL.to_string();
        Ok(Some(helper.next_expr(Expr::Call(CallExpr { func_name, target: None, args: arguments }))))
    })
}

/// `count(cs.mail)` reads an attribute of its own, whose name has a mark.
fn count_macro(name: &'static str, mark: char) -> Macro {
    Macro::global(name, 1, move |helper, _, arguments| {
        let found = match arguments.first().map(|argument| &argument.expr) {
            Some(Expr::Select(select)) if !select.test => {
                Some((select.operand.clone(), select.field.clone()))
            }
            Some(Expr::Call(call)) if call.func_name == operators::INDEX => match call.args.as_slice() {
                [object, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }] => {
                    Some((Box::new(object.clone()), name.inner().to_string()))
                }
                _ => None,
            },
            _ => None,
        };
        let Some((operand, field)) = found else { return Ok(None) };
        arguments.clear();
        let field = format!("{mark}{field}");
        Ok(Some(helper.next_expr(Expr::Select(SelectExpr { operand, field, test: false }))))
    })
}

/// `rdn("cn", "Byron, Ada")` is `cn=Byron\, Ada`: a part of a distinguished name as in RFC 4514.
fn rdn(attribute: &CelString<'_>, value: &CelString<'_>) -> Result<CelString<'static>, ExecutionError> {
    let failed = |why: String| ExecutionError::function_error("rdn", why);
    let name = attribute.inner();
    if !crate::naming::is_attribute_name(name) {
        return Err(failed(format!("{name:?} is not a name of an attribute")));
    }
    if value.inner().is_empty() {
        return Err(failed(format!("the value of {name} is empty")));
    }
    let mut text = String::new();
    push_rdn(&mut text, name, value.inner());
    Ok(CelString::from(text))
}

fn push_rdn(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push('=');
    ldap::dn::escape_value(text, value.as_bytes());
}

impl Expression {
    /// Parses an expression about the object with the name `root`.
    ///
    /// # Errors
    /// What is wrong with the expression.
    pub fn parse(source: &str, root: &'static str) -> Result<Expression, Malformed> {
        Self::parse_with(source, root, false)
    }

    /// Parses an expression that may name the counter `n`.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_candidate(source: &str, root: &'static str) -> Result<Expression, Malformed> {
        Self::parse_with(source, root, true)
    }

    fn parse_with(source: &str, root: &'static str, may_count: bool) -> Result<Expression, Malformed> {
        let program = ENV.compile(source).map_err(|errors| {
            let column = errors.errors.first().map_or(0, |error| error.pos.1);
            check::syntax(source, usize::try_from(column).unwrap_or(0).saturating_sub(1))
        })?;
        let mut names = Names {
            root,
            attributes: BTreeSet::new(),
            lists: BTreeSet::new(),
            unknown: BTreeSet::new(),
            uncounted: None,
            bound: Vec::new(),
        };
        names.walk(program.expression());
        let is_counted = may_count && names.unknown.remove(COUNTER);
        if let Some(unknown) = names.unknown.first() {
            return Err(check::unknown_name(source, unknown, root));
        }
        if let Some(name) = names.uncounted {
            let what = format!("`{name}` counts the values of one attribute");
            return Err(Malformed::new(what, format!("write {name}({root}.NAME)")));
        }
        if let Some(unknown) = check::unknown_function(program.expression()) {
            return Err(unknown);
        }
        let fields: Box<[String]> = names.attributes.into_iter().collect();
        let lists = fields.iter().map(|name| names.lists.contains(name)).collect();
        let mut parts = Vec::new();
        let is_put_together = put_together(program.expression(), root, &fields, &mut parts).is_some();
        let uses = fields.iter().map(|name| Read::of(name).1.to_string()).collect();
        let reads: Box<[(Read, String)]> = fields.into_iter().map(|name| (Read::of(&name).0, name)).collect();
        if root == "cs" && reads.iter().any(|(read, _)| *read == Read::Connectors) {
            let what = "`connectors` counts objects of the system that an [[outbound]] writes to";
            return Err(Malformed::new(what, "write count(cs.NAME) for the number of values"));
        }
        let parts = is_put_together.then(|| parts.into());
        let program = Arc::new(program);
        Ok(Expression { source: source.into(), program, root, uses, reads, lists, parts, is_counted })
    }

    /// The attribute at its end, if it is only a concatenation.
    pub(crate) fn last_attribute(&self) -> Option<&str> {
        match self.parts.as_deref()? {
            [.., Part::Attribute(at)] => self.uses.get(*at).map(String::as_str),
            _ => None,
        }
    }

    /// Whether an attribute is at its end, or may be there.
    pub(crate) fn ends_with_attribute(&self) -> bool {
        !matches!(self.parts.as_deref(), Some([.., Part::Text(_) | Part::Rdn(..) | Part::Counter]))
    }

    /// Whether it names the counter `n`.
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Whether its value has the digits of the counter, if it names the counter.
    pub(crate) fn shows_counter(&self) -> bool {
        self.parts.is_some() || self.source.contains("string(n)")
    }

    /// The concatenated text, if the expression only concatenates and each attribute has exactly one text;
    /// most names are made so. This does not run the interpreter. None if the expression does more, or an
    /// attribute has no value or several.
    pub(crate) fn text<'a>(&self, n: u64, value: impl Fn(usize) -> Option<&'a str>) -> Option<String> {
        let parts = self.parts.as_ref()?;
        let mut text = String::with_capacity(64);
        for part in parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Attribute(at) => text.push_str(value(*at)?),
                Part::Rdn(name, at) => push_rdn(&mut text, name, value(*at)?),
                Part::Counter => text.push_str(&n.to_string()),
            }
        }
        Some(text)
    }

    /// The attributes that it names, in ascending order.
    pub fn uses(&self) -> &[String] {
        &self.uses
    }

    /// What it reads of the attribute at an index of [`Self::uses`].
    pub fn read(&self, at: usize) -> Read {
        self.reads.get(at).map_or(Read::Values, |(read, _)| *read)
    }

    /// The attributes whose values it reads.
    pub(crate) fn values_read(&self) -> impl Iterator<Item = &String> {
        self.uses.iter().zip(&self.reads).filter(|(_, (read, _))| *read == Read::Values).map(|(name, _)| name)
    }

    /// Whether the attribute at an index of [`Self::uses`] is also a list when it has one value.
    pub fn is_list(&self, at: usize) -> bool {
        self.lists.get(at).copied().unwrap_or(false)
    }

    /// The source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The values for an object; none if the expression needs an attribute that has no value. `value` gives
    /// the value of the attribute at an index of [`Self::uses`].
    ///
    /// # Errors
    /// When it fails for another reason, or its result is not a valid attribute value.
    pub fn evaluate(&self, value: impl FnMut(usize) -> Option<Value>) -> Result<Vec<Vec<u8>>, Failed> {
        self.evaluate_counted(0, value)
    }

    /// The same with a value of the counter.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub(crate) fn evaluate_counted(
        &self,
        n: u64,
        mut value: impl FnMut(usize) -> Option<Value>,
    ) -> Result<Vec<Vec<u8>>, Failed> {
        let mut values = Vec::new();
        match self.run(n, &mut value)? {
            Some(found) => push_values(found, &mut values).map_err(|why| self.failed(why))?,
            None => return Ok(values),
        }
        Ok(values)
    }

    /// Whether the condition is true for an object. An absent attribute makes it false.
    ///
    /// # Errors
    /// When it fails or its result is not a Boolean.
    pub fn holds(&self, mut value: impl FnMut(usize) -> Option<Value>) -> Result<bool, Failed> {
        match self.run(0, &mut value)? {
            Some(Value::Bool(holds)) => Ok(holds),
            None => Ok(false),
            Some(other) => Err(self.failed(format!("true or false was expected, not {}", other.type_of()))),
        }
    }

    fn run(&self, n: u64, value: &mut dyn FnMut(usize) -> Option<Value>) -> Result<Option<Value>, Failed> {
        let mut object: HashMap<String, Value> = HashMap::with_capacity(self.uses.len());
        for (at, (_, name)) in self.reads.iter().enumerate() {
            if let Some(value) = value(at) {
                object.insert(name.clone(), value);
            }
        }
        CONTEXT.with(|context| {
            let mut scope = context.new_inner_scope();
            scope.add_variable_from_value(self.root, object);
            if self.is_counted {
                scope.add_variable_from_value(COUNTER, Value::Int(i64::try_from(n).unwrap_or(i64::MAX)));
            }
            match self.program.execute(&scope) {
                Ok(value) => Ok(Some(value)),
                Err(ExecutionError::NoSuchKey(_)) => Ok(None),
                Err(error) => Err(self.failed(error.to_string())),
            }
        })
    }

    fn failed(&self, why: String) -> Failed {
        Failed { source_text: self.source.to_string(), why }
    }
}

/// The value of an attribute as CEL has it; none if the bytes do not fit the type.
pub fn value_of(bytes: &[u8], of: Type) -> Option<Value> {
    let text = || std::str::from_utf8(bytes).ok();
    match of {
        Type::Text | Type::Reference => Some(Value::from(text()?)),
        Type::Integer => Some(Value::Int(text()?.parse().ok()?)),
        Type::Boolean => Some(Value::Bool(boolean(text()?)?)),
        Type::Binary => Some(Value::from(bytes.to_vec())),
    }
}

/// Parses true and false in the spellings of connected systems.
pub fn boolean(text: &str) -> Option<bool> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match () {
        () if is(["true", "yes", "1", "y"]) => Some(true),
        () if is(["false", "no", "0", "n"]) => Some(false),
        () => None,
    }
}

fn push_values(value: Value, values: &mut Vec<Vec<u8>>) -> Result<(), String> {
    match value {
        Value::Null => {}
        Value::String(text) => values.push(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => values.push(bytes.to_vec()),
        Value::Int(number) => values.push(number.to_string().into_bytes()),
        Value::UInt(number) => values.push(number.to_string().into_bytes()),
        Value::Float(number) => values.push(number.to_string().into_bytes()),
        Value::Bool(truth) => values.push(truth.to_string().into_bytes()),
        Value::List(all) => {
            for one in all.iter() {
                push_values(one.clone(), values)?;
            }
        }
        other => return Err(format!("a {} is not a value of an attribute", other.type_of())),
    }
    Ok(())
}

/// The parts of an expression that only concatenates texts; none if it does more.
fn put_together(expression: &IdedExpr, root: &str, uses: &[String], parts: &mut Vec<Part>) -> Option<()> {
    let place = |expression: &IdedExpr| {
        let name = attribute_of(expression, root)?;
        uses.iter().position(|used| *used == name)
    };
    if let Some(at) = place(expression) {
        parts.push(Part::Attribute(at));
        return Some(());
    }
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => parts.push(Part::Text(text.inner().to_string())),
        Expr::Call(call) if call.target.is_none() => match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::ADD, [one, other]) => {
                put_together(one, root, uses, parts)?;
                put_together(other, root, uses, parts)?;
            }
            ("rdn", [IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }, of]) => {
                let name = name.inner();
                crate::naming::is_attribute_name(name).then_some(())?;
                parts.push(Part::Rdn(name.to_string(), place(of)?));
            }
            ("string", [IdedExpr { expr: Expr::Ident(name), .. }]) if name == COUNTER => {
                parts.push(Part::Counter);
            }
            _ => return None,
        },
        _ => return None,
    }
    Some(())
}

/// The attribute that an expression selects: `cs.name`, or `cs["given name"]` for names that are not
/// identifiers.
fn attribute_of(expression: &IdedExpr, root: &str) -> Option<String> {
    let is_root = |object: &IdedExpr| matches!(&object.expr, Expr::Ident(name) if name == root);
    match &expression.expr {
        // `has(cs.name)` is a selection too.
        Expr::Select(select) if is_root(&select.operand) && !select.test => Some(select.field.clone()),
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::INDEX, [object, key]) if is_root(object) => match &key.expr {
                Expr::Literal(LiteralValue::String(text)) => Some(text.inner().to_string()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// The names in an expression.
struct Names {
    root: &'static str,
    attributes: BTreeSet<String>,
    /// Attributes in places that require a list.
    lists: BTreeSet<String>,
    unknown: BTreeSet<String>,
    /// A function of [`Read`] that is used with something else than an attribute.
    uncounted: Option<&'static str>,
    /// Variables of the enclosing comprehensions.
    bound: Vec<String>,
}

impl Names {
    fn walk(&mut self, expression: &IdedExpr) {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                if !self.bound.contains(name) {
                    self.unknown.insert(name.clone());
                }
            }
            Expr::Select(select) => match &select.operand.expr {
                Expr::Ident(name) if name == self.root => {
                    self.attributes.insert(select.field.clone());
                }
                _ => self.walk(&select.operand),
            },
            Expr::Call(call) => {
                if call.func_name == operators::IN
                    && let Some(name) = call.args.get(1).and_then(|list| self.attribute(list))
                {
                    self.lists.insert(name);
                }
                if let Some(name) = self.attribute(expression) {
                    self.attributes.insert(name);
                    return;
                }
                if let Some((_, name, _)) =
                    Read::FUNCTIONS.iter().find(|(_, name, _)| *name == call.func_name)
                {
                    self.uncounted = Some(name);
                }
                call.target.iter().for_each(|target| self.walk(target));
                call.args.iter().for_each(|argument| self.walk(argument));
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.walk(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(fields) => fields.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Comprehension(over) => {
                self.lists.extend(self.attribute(&over.iter_range));
                self.walk(&over.iter_range);
                self.walk(&over.accu_init);
                let before = self.bound.len();
                self.bound.extend([over.iter_var.clone(), over.accu_var.clone()]);
                self.bound.extend(over.iter_var2.clone());
                for part in [&over.loop_cond, &over.loop_step, &over.result] {
                    self.walk(part);
                }
                self.bound.truncate(before);
            }
        }
    }

    fn attribute(&self, expression: &IdedExpr) -> Option<String> {
        attribute_of(expression, self.root)
    }

    fn entry(&mut self, entry: &cel::common::ast::EntryExpr) {
        match entry {
            cel::common::ast::EntryExpr::StructField(field) => self.walk(&field.value),
            cel::common::ast::EntryExpr::MapEntry(entry) => {
                self.walk(&entry.key);
                self.walk(&entry.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(source: &str, attributes: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let expression = Expression::parse(source, "cs").map_err(|malformed| malformed.what)?;
        let value = |at: usize| {
            let (_, value) = attributes.iter().find(|(name, _)| *name == expression.uses()[at])?;
            Some(Value::from(*value))
        };
        let values = expression.evaluate(value).map_err(|failed| failed.why)?;
        Ok(values.into_iter().map(|value| String::from_utf8_lossy(&value).into_owned()).collect())
    }

    #[test]
    fn expressions_see_the_attributes_they_name() {
        let ada = [("given", "Ada"), ("sn", "Byron"), ("cost centre", "17")];
        let cases: &[(&str, &[&str])] = &[
            ("cs.given + ' ' + cs.sn", &["Ada Byron"]),
            ("default(cs.title, 'none')", &["none"]),
            ("default(cs.given, 'none')", &["Ada"]),
            ("cs.title + '!'", &[]),
            ("has(cs.title) ? cs.title : cs.sn.upperAscii()", &["BYRON"]),
            ("[cs.given, cs.sn].filter(n, n.startsWith('B'))", &["Byron"]),
            ("cs.sn.matches('^B.+n$') ? cs.sn : ''", &["Byron"]),
            ("cs['cost centre'] == '17'", &["true"]),
            ("1 + 2", &["3"]),
        ];
        for (source, expected) in cases {
            assert_eq!(
                evaluate(source, &ada),
                Ok(expected.iter().map(ToString::to_string).collect()),
                "{source}"
            );
        }
        assert_eq!(
            Expression::parse("count(cs.a) + count(cs['b c']) > size(cs.a)", "cs").unwrap().uses(),
            ["a", "b c", "a"]
        );
        // `rdn` works with an absent attribute: it has no value.
        assert_eq!(evaluate("rdn('cn', cs.title)", &ada), Ok(Vec::new()));
        assert_eq!(Expression::parse("cs.a + default(cs.b, cs.c)", "cs").unwrap().uses(), ["a", "b", "c"]);
    }

    #[test]
    fn a_name_is_one_value_whatever_it_holds() {
        let cases = [
            ("Byron, Ada", "cn=Byron\\, Ada"),
            ("a+b=c;d", "cn=a\\+b\\=c\\;d"),
            (" both ends ", "cn=\\ both ends\\ "),
            ("#1 \"<x>\\", "cn=\\#1 \\\"\\<x\\>\\\\"),
            ("Ænne Østergård 日本", "cn=Ænne Østergård 日本"),
            ("line\nbreak\0", "cn=line\\0Abreak\\00"),
        ];
        for (value, expected) in cases {
            let name = evaluate("rdn('cn', cs.v) + ',ou=people,dc=example'", &[("v", value)]).unwrap();
            assert_eq!(name, [format!("{expected},ou=people,dc=example")]);
            // Parsing gives the original value.
            let dn = ldap::Dn::parse(&name[0]).unwrap();
            assert_eq!(dn.rdns().len(), 3, "{dn}");
            assert_eq!(dn.rdn(), Some(&ldap::Rdn::new("cn", value)));
        }
        for wrong in
            ["rdn('cn', '')", "rdn('c n', 'x')", "rdn('', 'x')", "rdn('cn=a,cn', 'x')", "rdn('cn', 1)"]
        {
            assert!(evaluate(wrong, &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_stands_where_a_list_must_is_one() {
        let lists = |source| {
            let read = Expression::parse(source, "cs").unwrap();
            let named = read.uses().iter().enumerate().filter(|(at, _)| read.is_list(*at));
            named.map(|(_, name)| name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(lists("'group' in cs.objectClass && cs.cn != ''"), ["objectClass"]);
        assert_eq!(lists("cs.kind in ['a', 'b'] || 'x' in cs['a b']"), ["a b"]);
        assert_eq!(lists("cs.mail.exists(m, m.endsWith('plim'))"), ["mail"]);
    }

    #[test]
    fn what_is_put_together_is_what_the_language_says() {
        let attributes = [("uid", "ada"), ("cn", "Byron, Ada"), ("a b", " x")];
        let cases = [
            ("'uid=' + cs.uid + ',ou=people'", true),
            ("rdn('cn', cs.cn) + ',' + ('ou=' + cs['a b'])", true),
            ("cs.uid", true),
            ("'x'", true),
            // Without a value.
            ("'uid=' + cs.none", false),
            // More than a concatenation.
            ("'uid=' + cs.uid.upperAscii()", false),
            ("has(cs.uid)", false),
            ("default(cs.uid, 'x') + 'y'", false),
            ("rdn('c n', cs.uid)", false),
            ("rdn('cn', 'x')", false),
            ("cs.uid + string(1)", false),
        ];
        for (source, is_text) in cases {
            let expression = Expression::parse(source, "cs").unwrap();
            let value = |at: usize| {
                let (_, value) = attributes.iter().find(|(name, _)| *name == expression.uses()[at])?;
                Some(*value)
            };
            let text = expression.text(0, value);
            assert_eq!(text.is_some(), is_text, "{source}");
            if let Some(text) = text {
                let by_language = expression.evaluate(|at| value(at).map(Value::from)).unwrap();
                assert_eq!(by_language, [text.into_bytes()], "{source}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(Expression::parse("cs.a +", "cs").is_err());
        let unknown = Expression::parse("mv.a == cs.b", "cs").unwrap_err();
        assert_eq!(unknown.what, "`mv` is unknown here");
        for wrong in ["count('x') > 1", "count(cs.a + cs.b)", "count(mv.a)", "connectors(cs.a)"] {
            assert!(Expression::parse(wrong, "cs").is_err(), "{wrong}");
        }
        assert!(evaluate("1 / 0", &[]).is_err());
        assert!(evaluate("{'a': 1}", &[]).is_err());
        let text = Expression::parse("cs.a", "cs").unwrap();
        assert!(text.holds(|_| Some(Value::from("yes"))).is_err());
        assert_eq!(text.holds(|_| None), Ok(false));
    }
}
