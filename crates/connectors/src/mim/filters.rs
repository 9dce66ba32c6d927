//! Connector filters as conditions.

use super::export::{Condition, Filter};
use super::function::{is_identifier, quoted};

/// A declared filter as a condition: objects for which it is true stay out.
///
/// # Errors
/// Why it has no equivalent.
pub(super) fn expression(filter: &Filter) -> Result<String, String> {
    if filter.kind == "scripted" {
        return Err("it is a rules extension".into());
    }
    let alternatives = filter.alternatives.iter().map(|conditions| {
        let conditions: Result<Vec<String>, String> = conditions.iter().map(condition).collect();
        Ok(conditions?.join(" && "))
    });
    let mut alternatives = alternatives.collect::<Result<Vec<String>, String>>()?;
    alternatives.retain(|text| !text.is_empty());
    match alternatives.as_slice() {
        [] => Err("it has no condition".into()),
        [one] => Ok(one.clone()),
        several => Ok(several.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" || ")),
    }
}

fn condition(of: &Condition) -> Result<String, String> {
    let name = of.attribute.as_str();
    if of.is_intrinsic && name != "dn" {
        return Err(format!("{name} is an identifier of the server itself"));
    }
    // Only a name after a dot can be tested for a value.
    if !is_identifier(name) {
        return Err(format!("the name {name} has letters other than a to z, digits and _"));
    }
    let value = quoted(&of.value);
    let any = |call: &str| format!("has(cs.{name}) && cs.{name}.exists(v, v.{call}({value}))");
    let (operator, is_negated) = match of.operator.strip_prefix("not-") {
        Some(operator) => (operator, true),
        None => (of.operator.as_str(), false),
    };
    let positive = match operator {
        "equality" => format!("has(cs.{name}) && {value} in cs.{name}"),
        "inequality" => format!("!(has(cs.{name}) && {value} in cs.{name})"),
        "present" => format!("has(cs.{name})"),
        "substring-start" => any("startsWith"),
        "substring-end" => any("endsWith"),
        "substring-any" => any("contains"),
        _ => return Err(format!("the operator {} has no equivalent", of.operator)),
    };
    Ok(if is_negated { format!("!({positive})") } else { positive })
}

#[cfg(test)]
mod tests {
    use super::super::Place;
    use super::*;
    use metadir::expression::Expression;

    fn of(attribute: &str, operator: &str, value: &str) -> Condition {
        Condition {
            attribute: attribute.into(),
            is_intrinsic: false,
            operator: operator.into(),
            value: value.into(),
        }
    }

    fn filter(kind: &str, alternatives: Vec<Vec<Condition>>) -> Filter {
        Filter { object_type: "person".into(), kind: kind.into(), alternatives, place: Place::default() }
    }

    #[test]
    fn conditions_hold_as_in_the_filter() {
        // The values of `a` for which the condition holds, of: none, x, xyz, and both.
        let values: [&[&str]; 4] = [&[], &["x"], &["xyz"], &["x", "xyz"]];
        for (operator, value, expected) in [
            ("equality", "x", [false, true, false, true]),
            ("inequality", "x", [true, false, true, false]),
            ("present", "", [false, true, true, true]),
            ("not-present", "", [true, false, false, false]),
            ("substring-start", "x", [false, true, true, true]),
            ("not-substring-end", "z", [true, true, false, false]),
            ("substring-any", "y", [false, false, true, true]),
        ] {
            let text = expression(&filter("declared", vec![vec![of("a", operator, value)]])).unwrap();
            let parsed = Expression::parse(&text, "cs").unwrap();
            let held = values.map(|values| {
                let value = || match values {
                    [] => None,
                    [one] if !parsed.is_list(0) => Some(cel::Value::from(*one)),
                    several => Some(cel::Value::from(
                        several.iter().map(|one| cel::Value::from(*one)).collect::<Vec<_>>(),
                    )),
                };
                parsed.holds(|_| value()).unwrap()
            });
            assert_eq!(held, expected, "{text}");
        }
    }

    #[test]
    fn alternatives_are_enough_alone() {
        let both =
            vec![vec![of("a", "present", ""), of("b", "not-present", "")], vec![of("c", "equality", "it's")]];
        let text = expression(&filter("declared", both)).unwrap();
        assert_eq!(text, "(has(cs.a) && !(has(cs.b))) || (has(cs.c) && 'it\\'s' in cs.c)");
        for (kind, alternatives, why) in [
            ("scripted", vec![], "it is a rules extension"),
            ("declared", vec![], "it has no condition"),
            (
                "declared",
                vec![vec![of("userAccountControl", "bit-on", "2")]],
                "the operator bit-on has no equivalent",
            ),
            (
                "declared",
                vec![vec![of("a-b", "present", "")]],
                "the name a-b has letters other than a to z, digits and _",
            ),
        ] {
            assert_eq!(expression(&filter(kind, alternatives)).unwrap_err(), why);
        }
    }
}
