//! What is wrong with an expression, found before it processes an object: its syntax, its functions, and the types of
//! its values.

use std::collections::HashMap;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, ExecutionError, Value};

use super::{CONTEXT, COUNTER, ENV, Expression};

/// Why a text is not an expression, or why the expression never works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The problem, as a part of a sentence.
    pub what: String,
    /// What to do.
    pub help: String,
}

/// What the value of an expression must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// True or false.
    Condition,
    /// A text.
    Text,
    /// Anything that an attribute can have.
    Values,
}

impl Malformed {
    pub(super) fn new(what: impl Into<String>, help: impl Into<String>) -> Malformed {
        Malformed { what: what.into(), help: help.into() }
    }
}

/// Functions of other languages, with an example of what to write instead, and a remark.
const OTHER_LANGUAGES: &[(&[&str], &str, &str)] = &[
    (&["tolower", "lower", "lowercase", "lcase"], "cs.name.lowerAscii()", ""),
    (&["toupper", "upper", "uppercase", "ucase"], "cs.name.upperAscii()", ""),
    (&["concat", "concatenate"], "cs.given + ' ' + cs.sn", ""),
    (&["length", "len"], "size(cs.name)", ""),
    (&["substr", "mid", "left", "right"], "cs.name.substring(0, 3)", ""),
    (&["includes", "hasvalue"], "cs.name.contains('x')", ""),
    (&["regex", "regexp", "match", "like"], "cs.name.matches('^[0-9]+$')", ""),
    (&["isnull", "isempty", "ispresent", "isnullorempty"], "has(cs.name)", ""),
    (&["iif"], "has(cs.name) ? cs.name : 'none'", ""),
    (&["coalesce", "ifnull", "nvl"], "default(cs.name, 'none')", ""),
    (&["default"], "default(cs.name, 'none')", ": the first argument is an attribute"),
    (&["has"], "has(cs.name)", ": the argument is an attribute"),
    (&["eq", "equals"], "cs.name == 'x'", ""),
    (&["tostring", "str"], "string(cs.number)", ""),
    (&["toint", "integer", "number"], "int(cs.number)", ""),
    (
        &["timestamp", "date", "now", "duration"],
        "cs.end < '2026-12-31'",
        ": there is no clock; texts such as 2026-12-31 compare as dates",
    ),
];

/// Functions that administrators use, to find the one that a misspelt name means.
const FUNCTIONS: &[&str] = &[
    "startsWith",
    "endsWith",
    "contains",
    "size",
    "lowerAscii",
    "upperAscii",
    "trim",
    "replace",
    "substring",
    "indexOf",
    "lastIndexOf",
    "charAt",
    "split",
    "join",
    "format",
    "reverse",
    "string",
    "int",
    "double",
    "bool",
    "bytes",
    "rdn",
    "has",
    "default",
    "exists",
    "all",
    "exists_one",
    "map",
    "filter",
];

/// Limit of the evaluations with values of all types that attributes may have.
const SAMPLES_MAX: usize = 64;

/// The problem of a text that the parser does not accept. Its messages name tokens; most problems are simpler.
pub(super) fn syntax(source: &str, column: usize) -> Malformed {
    let mut open = Vec::new();
    let mut found = None;
    let characters: Vec<char> = source.chars().collect();
    let mut at = 0;
    let mut word = String::new();
    while at < characters.len() {
        let (before, character) = (at.checked_sub(1).map(|at| characters[at]), characters[at]);
        let next = characters.get(at + 1).copied();
        if matches!(character, '\'' | '"') {
            let mut end = at + 1;
            while end < characters.len() && characters[end] != character {
                end += if characters[end] == '\\' { 2 } else { 1 };
            }
            if end >= characters.len() {
                return Malformed::new(
                    "a text has no closing quote",
                    "write a text between single quotes: 'text'",
                );
            }
            at = end;
        }
        match (character, next) {
            ('(' | '[' | '{', _) => open.push(character),
            (')' | ']' | '}', _) if open.pop().is_none() => {
                found.get_or_insert(Malformed::new(format!("`{character}` closes nothing"), "remove it"));
            }
            ('=', _) if !matches!(before, Some('=' | '!' | '<' | '>')) && next != Some('=') => {
                found.get_or_insert(Malformed::new("`=` is not an operator", "compare with =="));
            }
            ('<', Some('>')) => {
                found.get_or_insert(Malformed::new("`<>` is not an operator", "compare with !="));
            }
            ('&' | '|', _) if before != Some(character) && next != Some(character) => {
                let what = format!("`{character}` is not an operator");
                found.get_or_insert(Malformed::new(what, format!("write {character}{character}")));
            }
            _ => {}
        }
        match character.is_alphanumeric() || matches!(character, '_' | '.') {
            true => word.push(character),
            false => word.clear(),
        }
        let ends = !next.is_some_and(|next| next.is_alphanumeric() || matches!(next, '_' | '.' | '('));
        let operators = [("and", "&&"), ("or", "||"), ("not", "!")];
        if let Some((name, operator)) =
            operators.iter().find(|(name, _)| ends && word.eq_ignore_ascii_case(name))
        {
            found.get_or_insert(Malformed::new(
                format!("`{name}` is not an operator"),
                format!("write {operator}"),
            ));
        }
        at += 1;
    }
    if let Some(found) = found {
        return found;
    }
    if let Some(bracket) = open.pop() {
        let closing = [('(', ')'), ('[', ']'), ('{', '}')].iter().find(|(open, _)| *open == bracket);
        let closing = closing.map_or(')', |(_, closing)| *closing);
        return Malformed::new(format!("`{bracket}` is not closed"), format!("write {closing} at its end"));
    }
    let rest: String = characters.iter().skip(column).take(20).collect();
    let what = match rest.trim().is_empty() {
        true => "it ends too early".to_string(),
        false => format!("syntax error at \"{}\"", rest.trim()),
    };
    Malformed::new(what, "an expression is written in CEL, such as cs.given + ' ' + cs.sn")
}

/// The problem of a name that is not the object.
pub(super) fn unknown_name(source: &str, name: &str, root: &str) -> Malformed {
    // `xs.name` is a misspelt object, `name.trim()` an attribute without its object.
    let behind = source.split_once(&format!("{name}.")).map_or("", |(_, behind)| behind);
    let rest = behind.trim_start_matches(|character: char| character.is_alphanumeric() || character == '_');
    let help = match (name, root) {
        ("mv", "cs") => "an inbound rule reads the object of the system: write cs.NAME".to_string(),
        ("cs", "mv") => "an outbound rule reads the metaverse: write mv.NAME".into(),
        _ if rest.len() < behind.len() && !rest.starts_with('(') => {
            format!("write {root}.NAME for an attribute")
        }
        _ => format!("write {root}.{name} for an attribute, '{name}' for a text"),
    };
    Malformed::new(format!("`{name}` is unknown here"), help)
}

/// A function of the expression that does not exist.
pub(super) fn unknown_function(expression: &IdedExpr) -> Option<Malformed> {
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => None,
        Expr::Select(select) => unknown_function(&select.operand),
        Expr::Call(call) => {
            let is_operator = call.func_name.contains(|character: char| !character.is_alphanumeric());
            let is_method = call.target.is_some();
            if !is_operator && !exists(&call.func_name, is_method) {
                return Some(not_a_function(&call.func_name, is_method));
            }
            call.target.iter().map(|target| &**target).chain(&call.args).find_map(unknown_function)
        }
        Expr::List(list) => list.elements.iter().find_map(unknown_function),
        Expr::Map(map) => map.entries.iter().find_map(|entry| unknown_in(&entry.expr)),
        Expr::Struct(fields) => fields.entries.iter().find_map(|entry| unknown_in(&entry.expr)),
        Expr::Comprehension(over) => [&over.iter_range, &over.loop_cond, &over.loop_step, &over.result]
            .into_iter()
            .find_map(unknown_function),
    }
}

fn unknown_in(entry: &EntryExpr) -> Option<Malformed> {
    match entry {
        EntryExpr::StructField(field) => unknown_function(&field.value),
        EntryExpr::MapEntry(entry) => unknown_function(&entry.key).or_else(|| unknown_function(&entry.value)),
    }
}

/// Whether a function exists. The language does not list its functions, so it is called without arguments.
fn exists(name: &str, is_method: bool) -> bool {
    let call = if is_method { format!("''.{name}()") } else { format!("{name}()") };
    let Ok(program) = ENV.compile(&call) else { return true };
    CONTEXT.with(|context| !matches!(program.execute(context), Err(ExecutionError::UndeclaredReference(_))))
}

fn not_a_function(name: &str, is_method: bool) -> Malformed {
    let what = format!("there is no function `{name}`");
    if exists(name, !is_method) {
        let right = if is_method { format!("{name}(cs.name)") } else { format!("cs.name.{name}(...)") };
        return Malformed::new(format!("`{name}` is called in another way"), format!("write {right}"));
    }
    let folded = name.to_lowercase().replace('_', "");
    let other = OTHER_LANGUAGES.iter().find(|(names, ..)| names.contains(&folded.as_str()));
    if let Some((_, example, remark)) = other {
        return Malformed::new(what, format!("write {example}{remark}"));
    }
    let near =
        FUNCTIONS.iter().map(|known| (strsim::damerau_levenshtein(&folded, &known.to_lowercase()), known));
    let near = near.filter(|(distance, known)| *distance <= folded.len().min(known.len()) / 3);
    let help = match near.min_by_key(|(distance, _)| *distance) {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None => "the functions are those of CEL with its strings, and rdn and default".into(),
    };
    Malformed::new(what, help)
}

/// How an evaluation with sample values ended.
enum Outcome {
    /// The value may be right, or the sample was not a good one.
    Possible,
    Wrong(Malformed),
}

impl Expression {
    /// Why the expression fails for every object that has the attributes it names; none if it may work. `samples` has
    /// values of the types that an attribute may have; none if its type is not known. Values of a condition vary, so an
    /// expression that fails for one of them is reported too.
    pub fn mistake(&self, wanted: Wanted, samples: impl Fn(&str) -> Vec<Value>) -> Option<Malformed> {
        let all: Vec<Vec<Value>> = self.uses.iter().map(|name| samples(name)).collect();
        let count = all.iter().try_fold(1_usize, |count, samples| count.checked_mul(samples.len()))?;
        if count == 0 || count > SAMPLES_MAX {
            return None;
        }
        // Evaluations that differ in the truth values belong to different objects, others to what an attribute may be.
        let mut by_truth: HashMap<Vec<bool>, Vec<Outcome>> = HashMap::new();
        for mut number in 0..count {
            let mut chosen: Vec<Value> = Vec::with_capacity(all.len());
            for samples in &all {
                chosen.push(samples[number % samples.len()].clone());
                number /= samples.len();
            }
            let truths = chosen.iter().filter_map(|value| match value {
                Value::Bool(truth) => Some(*truth),
                _ => None,
            });
            let truths = truths.collect();
            by_truth.entry(truths).or_default().push(self.outcome(wanted, chosen));
        }
        let wrong = by_truth.into_values().filter_map(|outcomes| {
            let all: Option<Vec<Malformed>> = outcomes
                .into_iter()
                .map(|outcome| match outcome {
                    Outcome::Possible => None,
                    Outcome::Wrong(malformed) => Some(malformed),
                })
                .collect();
            all?.into_iter().next()
        });
        wrong.min_by(|one, other| one.what.cmp(&other.what))
    }

    fn outcome(&self, wanted: Wanted, values: Vec<Value>) -> Outcome {
        let object: HashMap<String, Value> = self.uses.iter().cloned().zip(values).collect();
        let result = CONTEXT.with(|context| {
            let mut scope: Context<'_, '_> = context.new_inner_scope();
            scope.add_variable_from_value(self.root, object);
            if self.is_counted {
                scope.add_variable_from_value(COUNTER, Value::Int(2));
            }
            self.program.execute(&scope)
        });
        match result {
            Ok(value) => self.fits(wanted, &value),
            Err(ExecutionError::NoSuchOverload(error)) => {
                Outcome::Wrong(self.overload(error.function(), error.argument_types()))
            }
            Err(ExecutionError::UnsupportedBinaryOperator(operator, one, other)) => {
                let types = [one, other].map(|value| value.type_of().to_string());
                Outcome::Wrong(self.overload(operator, &types))
            }
            // The sample may be the reason, for example a text that is not a number.
            Err(_) => Outcome::Possible,
        }
    }

    fn fits(&self, wanted: Wanted, value: &Value) -> Outcome {
        let name = described(&value.type_of().to_string());
        match (wanted, value) {
            (Wanted::Condition, Value::Bool(_)) | (Wanted::Text, Value::String(_)) => Outcome::Possible,
            (Wanted::Condition, _) => {
                let example = self.uses.first().map_or("name", String::as_str);
                let help = format!("compare it, such as {}.{example} == 'x'", self.root);
                Outcome::Wrong(Malformed::new(format!("it is {name}, neither true nor false"), help))
            }
            // A list may have one value, and a number is written as text.
            (Wanted::Text, Value::Bool(_)) => Outcome::Wrong(Malformed::new(
                format!("it is {name}, not a text"),
                "name an attribute with a text",
            )),
            (_, Value::Map(_)) => Outcome::Wrong(Malformed::new(
                format!("it is {name}, which no attribute can have"),
                "write an expression for a text or a list of texts",
            )),
            _ => Outcome::Possible,
        }
    }

    fn overload(&self, function: &str, types: &[String]) -> Malformed {
        let is_operator = |name: &str| name.trim_matches(['_', '@']) == function.trim_matches(['_', '@']);
        let names: Vec<String> = types.iter().map(|name| described(name)).collect();
        let shown = function.trim_matches(['_', '@']).replace("_:_", ":");
        let what = format!("`{shown}` does not work with {}", names.join(" and "));
        let is = |name: &str| types.iter().any(|found| found == name);
        let help = match () {
            () if ["&&", "||", "!"].iter().any(|name| is_operator(name)) => {
                "compare the text first, such as mv.status == 'active'"
            }
            () if is("string") && (is("int") || is("double") || is("uint")) => {
                "convert one of them: int(cs.number), or string(17)"
            }
            () if is("list") => {
                "an attribute with several values is a list: write cs.mail[0], or cs.mail.exists(m, ...)"
            }
            () => "check the types: attributes of a system are texts or lists of texts",
        };
        Malformed::new(what, help)
    }
}

/// The name of a type in plain words.
fn described(name: &str) -> String {
    match name {
        "string" => "a text",
        "int" | "uint" => "a whole number",
        "double" | "float" => "a number",
        "bool" => "a truth value",
        "list" => "a list",
        "bytes" => "binary data",
        "map" => "a map",
        other => other,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(source: &str, wanted: Wanted) -> Option<String> {
        let expression = Expression::parse(source, "cs").unwrap_or_else(|malformed| panic!("{malformed:?}"));
        let text = |_: &str| vec!["x".into(), vec![Value::from("x")].into()];
        expression.mistake(wanted, text).map(|malformed| malformed.what)
    }

    #[test]
    fn what_may_work_is_accepted() {
        for source in [
            "int(cs.grade) > 3",
            "cs.mail[0].contains('@') && cs.name != ''",
            "cs.mail.exists(m, m.endsWith('example'))",
            "'x' in cs.groups || size(cs.groups) > 2",
            "has(cs.a) ? cs.b == 'x' : cs.c.startsWith('y')",
            "cs.end < '2026-12-31'",
            "cs.name.split(',')[3] == 'x'",
            "cs.a == cs.b && !(cs.c == 'x')",
            "bool(cs.active)",
        ] {
            assert_eq!(mistake(source, Wanted::Condition), None, "{source}");
        }
        for source in [
            "cs.given + ' ' + cs.sn",
            "default(cs.mail, 'none').lowerAscii()",
            "rdn('cn', cs.name) + ',dc=x'",
            "cs.mail.map(m, m.upperAscii())",
            "string(int(cs.n) + 1)",
            "['a', 'b'].join('-')",
            "'%s-%s'.format([cs.a, cs.b])",
            "cs.a.substring(0, 3)",
            "cs.a.trim().replace('a', 'b')",
        ] {
            assert_eq!(mistake(source, Wanted::Values), None, "{source}");
        }
    }

    #[test]
    fn every_suggested_function_exists() {
        let is_macro =
            |name: &str| ["has", "default", "exists", "all", "exists_one", "map", "filter"].contains(&name);
        for name in FUNCTIONS.iter().filter(|name| !is_macro(name)) {
            assert!(exists(name, true) || exists(name, false), "{name}");
        }
        for (names, example, _) in OTHER_LANGUAGES {
            let unknown = names.iter().filter(|name| !is_macro(name));
            unknown.for_each(|name| assert!(!exists(name, true) && !exists(name, false), "{name}"));
            assert_eq!(mistake(example, Wanted::Values), None, "{example}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(source in "[a-z.'\"()=&|<>!, +0-9é{}\\[\\]\\\\-]{0,40}") {
            if let Ok(expression) = Expression::parse(&source, "cs") {
                expression.mistake(Wanted::Condition, |_| vec!["x".into()]);
            }
        }
    }
}
