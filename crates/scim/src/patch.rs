//! PATCH (RFC 7644, section 3.5.2).

use std::cell::Cell;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::database::Kind;
use super::filter::{Filter, Target, get, target};
use super::schema;
use super::service::Refusal;

/// Limit of the operations in a patch. Removing many members from a group needs one for each.
const OPERATIONS_MAX: usize = 10_000;

#[derive(Clone, Copy, PartialEq)]
enum Operator {
    Add,
    Replace,
    Remove,
}

/// Applies the operations of a request. `comparisons` is the remaining number of values that its filters may
/// be compared with.
pub(super) fn apply(
    kind: Kind,
    resource: &mut Map<String, Value>,
    request: &Value,
    comparisons: &Cell<u64>,
) -> Result<(), Refusal> {
    let operations =
        request.as_object().and_then(|request| get(request, "Operations")).and_then(Value::as_array);
    let operations = operations.ok_or_else(|| syntax("a patch has Operations"))?;
    if operations.len() > OPERATIONS_MAX {
        return Err(Refusal::plain(413, "a patch has at most 10000 operations"));
    }
    let mut one = |operator, path: &str, value: Option<&Value>| {
        one(kind, resource, operator, &target(path)?, value, comparisons)
    };
    // A path may name an extension as a whole.
    let mut change = |operator, path: &str, value: Option<&Value>| {
        if !path.eq_ignore_ascii_case(schema::ENTERPRISE) {
            return one(operator, path, value);
        }
        let part = |name: &str| format!("{}:{name}", schema::ENTERPRISE);
        match (operator, value) {
            (Operator::Remove, _) => {
                schema::names_of_extension().try_for_each(|name| one(operator, &part(name), None))
            }
            // Some clients repeat the schemas in an extension.
            (_, Some(Value::Object(values))) => values
                .iter()
                .filter(|(name, _)| *name != "schemas")
                .try_for_each(|(name, value)| one(operator, &part(name), Some(value))),
            _ => Err(syntax("the value of an extension is an object")),
        }
    };
    for operation in operations {
        let operation = operation.as_object().ok_or_else(|| syntax("an operation is an object"))?;
        let name = get(operation, "op").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        let operator = match name.as_str() {
            "add" => Operator::Add,
            "replace" => Operator::Replace,
            "remove" => Operator::Remove,
            _ => return Err(syntax("an op is add, replace or remove")),
        };
        let value = get(operation, "value");
        match (get(operation, "path").and_then(Value::as_str), value) {
            (Some(path), value) => change(operator, path, value)?,
            (None, Some(Value::Object(values))) if operator != Operator::Remove => {
                for (key, value) in values {
                    change(operator, key, Some(value))?;
                }
            }
            (None, _) if operator == Operator::Remove => return Err(no_target("a removal names a path")),
            (None, _) => return Err(syntax("without a path the value is an object")),
        }
    }
    Ok(())
}

fn syntax(detail: &str) -> Refusal {
    Refusal::of(400, "invalidSyntax", detail.into())
}

fn no_target(detail: &str) -> Refusal {
    Refusal::of(400, "noTarget", detail.into())
}

fn one(
    kind: Kind,
    resource: &mut Map<String, Value>,
    operator: Operator,
    target: &Target,
    value: Option<&Value>,
    comparisons: &Cell<u64>,
) -> Result<(), Refusal> {
    let place = &target.place;
    if ["id", "meta", "schemas", "groups"].iter().any(|own| own.eq_ignore_ascii_case(&place.attribute)) {
        return Err(Refusal::of(400, "mutability", format!("{} cannot be changed", place.attribute)));
    }
    let value = match (operator, value) {
        (Operator::Remove, _) => Value::Null,
        (_, Some(value)) => value.clone(),
        (_, None) => return Err(syntax("there is no value")),
    };
    let container = match &place.schema {
        None => resource,
        Some(schema) => {
            let extension = resource.entry(schema.clone()).or_insert_with(|| json!({}));
            extension.as_object_mut().ok_or_else(|| syntax("an extension is an object"))?
        }
    };
    let known = schema::attribute(kind, place.schema.as_deref(), &place.attribute);
    let several = known.is_some_and(|known| known.several);
    let key = known.map_or(place.attribute.as_str(), |known| known.name);
    match (&target.filter, &place.part) {
        (Some(filter), part) => {
            change_selected(container.get_mut(key), filter, part.as_deref(), operator, &value, comparisons)?;
        }
        (None, Some(part)) if several => {
            let all = container.get_mut(key).and_then(Value::as_array_mut);
            let all = all.ok_or_else(|| no_target("there is no value"))?;
            all.iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|element| set(element, part, value.clone()));
        }
        (None, Some(part)) => {
            let whole = container.entry(key).or_insert_with(|| json!({}));
            if !whole.is_object() {
                *whole = json!({});
            }
            if let Value::Object(whole) = whole {
                set(whole, part, value);
            }
        }
        (None, None) => match operator {
            Operator::Remove => drop(container.remove(key)),
            Operator::Add if several => add_values(container.entry(key).or_insert_with(|| json!([])), value),
            _ => match (container.get_mut(key), value) {
                (Some(Value::Object(whole)), value @ Value::Object(_)) => merge(whole, &value),
                (_, value) => drop(container.insert(key.into(), value)),
            },
        },
    }
    Ok(())
}

/// Changes the values of a multi-valued attribute that a filter selects, or one part of each.
fn change_selected(
    values: Option<&mut Value>,
    filter: &Filter,
    part: Option<&str>,
    operator: Operator,
    value: &Value,
    comparisons: &Cell<u64>,
) -> Result<(), Refusal> {
    let Some(Value::Array(all)) = values else {
        return match operator {
            Operator::Remove => Ok(()),
            _ => Err(no_target("nothing is there to be selected")),
        };
    };
    let left = comparisons.get().checked_sub(all.len() as u64);
    comparisons.set(left.ok_or_else(|| {
        let why = "the paths of this request compare too many values: send fewer operations";
        Refusal::of(400, "tooMany", why.into())
    })?);
    let mut found = false;
    all.retain_mut(|element| {
        let Some(element) = element.as_object_mut().filter(|element| filter.holds(element)) else {
            return true;
        };
        found = true;
        match (part, operator) {
            (None, Operator::Remove) => return false,
            (None, _) => merge(element, value),
            (Some(part), _) => set(element, part, value.clone()),
        }
        true
    });
    match found || operator == Operator::Remove {
        true => Ok(()),
        false => Err(no_target("no value is selected")),
    }
}

/// Adds the values that a multi-valued attribute does not have yet.
fn add_values(all: &mut Value, value: Value) {
    let Value::Array(all) = all else { return };
    let new = if let Value::Array(new) = value { new } else { vec![value] };
    let mut known: HashSet<String> = all.iter().flat_map(identities).collect();
    for value in new {
        let own = identities(&value);
        if !own.iter().any(|own| known.contains(own)) {
            known.extend(own);
            all.push(value);
        }
    }
}

/// The identities of a value, to detect that it exists already: the whole value, and its `value` with its
/// `type`.
fn identities(value: &Value) -> Vec<String> {
    let key = value.get("value").map(|text| json!([text, value.get("type")]).to_string());
    // The whole is in an object and the key in a list, so that they never collide.
    key.into_iter().chain([json!({"whole": value}).to_string()]).collect()
}

fn set(whole: &mut Map<String, Value>, part: &str, value: Value) {
    let key = whole.keys().find(|key| key.eq_ignore_ascii_case(part)).cloned().unwrap_or_else(|| part.into());
    if value.is_null() { drop(whole.remove(&key)) } else { drop(whole.insert(key, value)) }
}

fn merge(whole: &mut Map<String, Value>, values: &Value) {
    for (key, value) in values.as_object().into_iter().flatten() {
        set(whole, key, value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(operations: Value) -> Result<Value, Refusal> {
        let ada = json!({
            "userName": "ada", "name": {"givenName": "Ada"},
            "emails": [{"type": "work", "value": "a@b.example"}, {"type": "home", "value": "h@b.example"}],
        });
        let Value::Object(mut ada) = ada else { unreachable!() };
        apply(Kind::User, &mut ada, &json!({"Operations": operations}), &Cell::new(1000))?;
        Ok(Value::Object(ada))
    }

    #[test]
    fn operations_do_what_the_standard_says() {
        let ada = patched(json!([
            {"op": "Replace", "path": "title", "value": "Countess"},
            {"op": "add", "path": "name.familyName", "value": "Byron"},
            {"op": "replace", "path": "emails[type eq \"work\"].value", "value": "new@b.example"},
            {"op": "remove", "path": "emails[type eq \"home\"]"},
            {"op": "add", "path": "emails", "value": [{"type": "other", "value": "o@b.example"}]},
            {"op": "add", "value": {"nickName": "A", "name": {"honorificPrefix": "Lady"}}},
            {"op": "replace", "path": format!("{}:department", schema::ENTERPRISE), "value": "Engines"},
        ]))
        .unwrap();
        assert_eq!(
            ada,
            json!({
                "userName": "ada", "title": "Countess", "nickName": "A",
                "name": {"givenName": "Ada", "familyName": "Byron", "honorificPrefix": "Lady"},
                "emails": [{"type": "work", "value": "new@b.example"}, {"type": "other", "value": "o@b.example"}],
                (schema::ENTERPRISE): {"department": "Engines"},
            })
        );
    }

    #[test]
    fn a_patch_that_compares_too_many_values_is_refused() {
        let remove = json!({"op": "remove", "path": "emails[type eq \"fax\"]"});
        // Each operation compares two values.
        assert!(patched(vec![remove.clone(); 500].into()).is_ok());
        assert_eq!(patched(vec![remove; 501].into()).unwrap_err().scim_type, Some("tooMany"));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (operation, scim_type) in [
            (json!({"op": "replace", "path": "emails[type eq \"fax\"].value", "value": "x"}), "noTarget"),
            (json!({"op": "remove"}), "noTarget"),
            (json!({"op": "replace", "path": "id", "value": "x"}), "mutability"),
            (json!({"op": "replace", "path": "a b", "value": "x"}), "invalidPath"),
            (json!({"op": "move", "path": "title", "value": "x"}), "invalidSyntax"),
            (json!({"op": "replace", "path": "title"}), "invalidSyntax"),
        ] {
            assert_eq!(patched(json!([operation])).unwrap_err().scim_type, Some(scim_type), "{operation}");
        }
    }
}
