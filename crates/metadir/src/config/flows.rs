//! Attribute flows, expressions, candidates for unique values, and what happens when an object is deprovisioned.

use std::ops::Range;

use toml::de::DeValue;

use super::part::{Part, Reader, span_in, span_of};
use super::{
    AgentConfig, Candidates, Deprovision, Inbound, JoinPart, MetaverseAttribute, MetaverseType, Outbound,
    Projection, Source,
};
use crate::expression::{Expression, Malformed, Wanted, boolean, value_of};
use crate::schema::Type;

/// The default of the largest counter of a candidate.
const CANDIDATES_MOST: u64 = 10_000;

/// A flow as it is written in the text.
pub(super) struct WrittenFlow {
    pub(super) to: String,
    pub(super) span: Range<usize>,
    pub(super) from: Source,
    pub(super) from_span: Range<usize>,
    pub(super) precedence: Option<u32>,
    pub(super) is_secret: bool,
    pub(super) candidates: Option<Candidates>,
    pub(super) empty: Option<String>,
}

impl Reader {
    /// `"disconnect"`, `"delete"` or `{ disable = { ATTRIBUTE = "value" } }`. The table may have `delete_after`
    /// too, or alone.
    pub(super) fn deprovision(&mut self, part: &Part<'_>) -> (Deprovision, Option<u64>) {
        let Some(value) = part.get("deprovision") else { return (Deprovision::Disconnect, None) };
        let DeValue::Table(table) = value.get_ref() else {
            let kinds = [("disconnect", false), ("delete", true)];
            let help = "\"disconnect\", \"delete\", or { disable = { ATTRIBUTE = \"value\" } }";
            let way = match value.get_ref() {
                DeValue::String(_) => match self.choice(part, "deprovision", &kinds) {
                    Some(true) => Deprovision::Delete,
                    _ => Deprovision::Disconnect,
                },
                _ => {
                    self.wrong(value.span(), "`deprovision` is neither a text nor a table", help);
                    Deprovision::Disconnect
                }
            };
            return (way, None);
        };
        let way = Part::new(table, "`deprovision`", value.span());
        self.keys(&way, &["disable", "delete_after"]);
        let delete_after_s = self.duration_s(&way, "delete_after");
        let mut values = Vec::new();
        if let Some(listed) = self.part(&way, "disable") {
            for (name, value) in listed.entries() {
                let text = self.as_text(value, name.get_ref());
                values.extend(text.map(|text| (name.get_ref().to_string(), text)));
            }
        }
        if values.is_empty() && way.lacks("disable") && delete_after_s.is_some() {
            return (Deprovision::Disconnect, delete_after_s);
        }
        if values.is_empty() {
            let what = "`deprovision` names no value that disables the object";
            self.wrong(value.span(), what, "write { disable = { ATTRIBUTE = \"value\" } }");
        }
        (Deprovision::Disable(values), delete_after_s)
    }

    /// `ATTRIBUTE = "attribute"`, `{ constant = "x" }`, `{ constant = ["x", "y"] }`, `{ expression = "..." }`
    /// or `{ from = "attribute" }`. The tables may have a precedence, and `secret`.
    pub(super) fn flows(&mut self, part: &Part<'_>, key: &str, root: &'static str) -> Vec<WrittenFlow> {
        let Some(listed) = self.part(part, key) else { return Vec::new() };
        let mut flows = Vec::new();
        for (name, value) in listed.entries() {
            let to = name.get_ref().to_string();
            let (mut candidates, mut empty) = (None, None);
            let (from, precedence, is_secret) = match value.get_ref() {
                DeValue::String(text) => (Some(Source::Direct(text.to_string())), None, false),
                DeValue::Table(table) => {
                    let flow = Part::new(table, format!("the flow of `{to}`"), value.span());
                    self.keys(
                        &flow,
                        &[
                            "from",
                            "constant",
                            "expression",
                            "candidates",
                            "most",
                            "precedence",
                            "secret",
                            "empty",
                        ],
                    );
                    let ways = ["from", "constant", "expression", "candidates"];
                    if ways.iter().filter(|way| flow.has(way)).count() != 1 {
                        self.wrong(
                            value.span(),
                            format!(
                                "{} needs one of `from`, `constant`, `expression` and `candidates`",
                                flow.what
                            ),
                            "write { from = \"ATTRIBUTE\" }, { expression = \"...\" } or { constant = \"...\" }",
                        );
                        continue;
                    }
                    let from = self.text(&flow, "from", false).map(Source::Direct);
                    let constant = flow.get("constant").map(|_| self.texts(&flow, "constant"));
                    let constant = constant.map(Source::Constant);
                    let expression = self.expression(&flow, "expression", root).map(Source::Expression);
                    empty = self.text(&flow, "empty", false);
                    let precedence = self.number(&flow, "precedence", 1..=1_000_000).map(|rank| rank as u32);
                    let mut expression = expression;
                    if flow.has("candidates") {
                        let (first, others) = self.candidates(&flow, root).unzip();
                        (expression, candidates) = (first.map(Source::Expression), others);
                    }
                    let is_secret = self.truth(&flow, "secret").unwrap_or(false);
                    (from.or(constant).or(expression), precedence, is_secret)
                }
                _ => {
                    let help =
                        "write the name of an attribute, { expression = \"...\" } or { constant = \"...\" }";
                    self.wrong(
                        value.span(),
                        format!("the flow of `{to}` is neither a text nor a table"),
                        help,
                    );
                    continue;
                }
            };
            let (span, from_span) = (name.span(), value.span());
            flows.extend(from.map(|from| WrittenFlow {
                to,
                span,
                from,
                from_span,
                precedence,
                is_secret,
                candidates,
                empty,
            }));
        }
        flows
    }

    /// The candidates for a unique value: the first one, and the others.
    pub(super) fn candidates(
        &mut self,
        part: &Part<'_>,
        root: &'static str,
    ) -> Option<(Expression, Candidates)> {
        let texts = self.texts(part, "candidates");
        let most = self.number(part, "most", 2..=1_000_000).unwrap_or(CANDIDATES_MOST);
        let span = span_of(part, "candidates");
        let mut all = Vec::new();
        for text in &texts {
            match Expression::parse_candidate(text, root) {
                Ok(expression) => all.push(expression),
                Err(Malformed { what, help }) => {
                    let place = span_in(part, "candidates", text);
                    self.wrong(place, format!("a candidate is not an expression: {what}"), help);
                }
            }
        }
        if texts.is_empty() {
            let what = format!("{} has no `candidates`", part.what);
            self.wrong(
                part.span.clone(),
                what,
                "write candidates = [\"EXPRESSION\", \"EXPRESSION + string(n)\"]",
            );
        }
        let count = all.len();
        if all.len() == texts.len() && all.iter().take(count.saturating_sub(1)).any(Expression::is_counted)
            || count == 1 && all[0].is_counted()
        {
            let what = "only the last of several candidates may use the counter `n`";
            self.wrong(span, what, "write the value without `n` first");
            return None;
        }
        let mut all = all.into_iter();
        Some((all.next()?, Candidates { others: all.collect(), most }))
    }

    pub(super) fn expression(
        &mut self,
        part: &Part<'_>,
        key: &str,
        root: &'static str,
    ) -> Option<Expression> {
        let source = self.text(part, key, false)?;
        match Expression::parse(&source, root) {
            Ok(expression) => Some(expression),
            Err(Malformed { what, help }) => {
                self.wrong(span_of(part, key), format!("`{key}` is not an expression: {what}"), help);
                None
            }
        }
    }

    /// Reports an expression that is written where the name of an attribute is.
    pub(super) fn is_no_expression(&mut self, span: &Range<usize>, name: &str, root: &str) {
        let Some(attribute) = name.strip_prefix(&format!("{root}.")) else { return };
        let is_name = attribute.chars().all(|character| character.is_alphanumeric() || character == '_');
        let help = match is_name {
            true => format!("write the name alone: {attribute:?}"),
            false => "write { expression = \"...\" }".into(),
        };
        self.wrong(span.clone(), format!("the name of an attribute does not begin with `{root}.`"), help);
    }

    /// Whether a key of a rule is below its table of flows, which makes it an attribute. This is reported.
    pub(super) fn is_below_flows(&mut self, flows: &str, name: &str, span: &Range<usize>) -> bool {
        let keys =
            ["agent", "to", "from", "objects", "filter", "join", "project", "when", "dn", "deprovision"];
        let is_below = keys.contains(&name);
        if is_below {
            let what = format!("`{name}` is in the table `{flows}`, so it is taken for an attribute");
            self.wrong(span.clone(), what, format!("write it above the table `{flows}` of this rule"));
        }
        is_below
    }

    /// Reports an expression that never gives what is wanted. Outbound rules read a type of the metaverse.
    pub(super) fn fits(
        &mut self,
        span: &Range<usize>,
        key: &str,
        expression: &Expression,
        wanted: Wanted,
        kind: Option<&MetaverseType>,
    ) {
        let text = || vec!["x".into(), vec![cel::Value::from("x")].into()];
        let samples = |name: &str| match kind {
            None => text(),
            Some(kind) if self.untyped.contains(&format!("{}.{name}", kind.name)) => Vec::new(),
            Some(kind) => kind.place(name).map_or_else(Vec::new, |at| samples_of(&kind.attributes[at])),
        };
        if let Some(Malformed { what, help }) = expression.mistake(wanted, samples) {
            self.wrong(span.clone(), format!("{key} cannot work: {what}"), help);
        }
    }

    /// Checks the types in the expressions of inbound rules.
    pub(super) fn inbound_expressions(&mut self, part: &Part<'_>, rules: &Inbound) {
        let project = match &rules.project {
            Projection::When(when) => Some(when),
            Projection::No | Projection::Always => None,
        };
        for (key, condition) in
            [("objects", rules.objects.as_ref()), ("filter", rules.filter.as_ref()), ("project", project)]
        {
            if let Some(condition) = condition {
                self.fits(&span_of(part, key), &format!("`{key}`"), condition, Wanted::Condition, None);
            }
        }
        for join in &rules.joins {
            if let Some(when) = &join.when {
                self.fits(&join.span, "`when` of a join", when, Wanted::Condition, None);
            }
            for expression in join.cs.iter().filter_map(JoinPart::expression) {
                self.fits(&join.span, "`cs` of a join", expression, Wanted::Values, None);
            }
        }
        for flow in &rules.flows {
            if let Source::Expression(expression) = &flow.from {
                self.fits(&flow.span, "the expression", expression, Wanted::Values, None);
            }
        }
    }

    /// Reports a constant that is not of the type of its attribute.
    pub(super) fn constant_fits(&mut self, span: &Range<usize>, to: &MetaverseAttribute, from: &Source) {
        let Source::Constant(values) = from else { return };
        let is_wrong = |value: &String| match to.kind {
            Type::Boolean => boolean(value).is_none(),
            Type::Integer => value.parse::<i64>().is_err(),
            Type::Text | Type::Reference | Type::Binary => false,
        };
        if values.iter().any(is_wrong) {
            let (name, help) = match to.kind {
                Type::Integer => ("integer", "write digits: { constant = \"17\" }"),
                _ => ("boolean", "write { constant = \"true\" } or { constant = \"false\" }"),
            };
            self.wrong(
                span.clone(),
                format!("`{}` is of the type {name}, this constant is not", to.name),
                help,
            );
        }
    }

    /// Checks the name that provisioned objects get, and the attributes that identify them.
    pub(super) fn name_in_system(&mut self, part: &Part<'_>, rules: &Outbound, agent: &AgentConfig) {
        if let Err((what, help)) = super::naming::in_directory(rules, agent) {
            self.wrong(span_of(part, "dn"), what, help);
        }
        if let (Some(name), Some(base)) = (rules.dn.last_attribute(), agent.system.bases().first()) {
            let what =
                format!("`dn` ends with `mv.{name}`, so its values must end with the rest of the name");
            let help = format!("otherwise append the base: rdn('cn', mv.{name}) + ',{base}'");
            self.warn(span_of(part, "dn"), what, help);
        }
    }
}

/// Values that an attribute of the metaverse may have. One of several values is not a list.
fn samples_of(attribute: &MetaverseAttribute) -> Vec<cel::Value> {
    let text = match attribute.kind {
        Type::Text | Type::Reference | Type::Binary => "x",
        Type::Integer => "1",
        Type::Boolean => "true",
    };
    let mut samples: Vec<cel::Value> = value_of(text.as_bytes(), attribute.kind).into_iter().collect();
    if attribute.kind == Type::Boolean {
        samples.push(false.into());
    }
    if attribute.several {
        samples.push(samples.clone().into());
    }
    samples
}
