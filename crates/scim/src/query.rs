//! Queries of resources (RFC 7644, section 3.4.2): in a URL, or in the body of a search.

use serde_json::{Map, Value};

use super::filter::{Filter, Place, filter, get, get_with_name, target};
use super::service::Refusal;

/// The default number of resources per page.
const PAGE: u64 = 100;

/// A query.
pub(super) struct Query {
    /// The number of the first resource, from 1.
    pub(super) start: u64,
    /// Limit of the resources in the answer.
    pub(super) count: u64,
    pub(super) filter: Option<Filter>,
    pub(super) returned: Returned,
}

/// The attributes in an answer (section 3.9). `id` and `schemas` are always there.
#[derive(Default)]
pub(super) struct Returned {
    only: Option<Vec<Place>>,
    excluded: Vec<Place>,
}

impl Query {
    /// A query in the parameters of a URL.
    pub(super) fn of_url(parameters: &[(String, String)]) -> Result<Query, Refusal> {
        let asked = |name: &str| {
            let named = parameters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.as_str())
        };
        let number = |name: &str| match asked(name).map(str::parse::<i64>) {
            Some(Err(_)) => Err(no_number(name)),
            found => Ok(found.and_then(Result::ok)),
        };
        let list = |name: &str| asked(name).map(|text| text.split(',').map(String::from).collect());
        Query::new(
            number("startIndex")?,
            number("count")?,
            asked("filter"),
            list("attributes"),
            list("excludedAttributes"),
        )
    }

    /// A query in the body of a search.
    pub(super) fn of_body(body: &Map<String, Value>) -> Result<Query, Refusal> {
        let number = |name: &str| match get(body, name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| no_number(name)),
        };
        let list = |name: &str| {
            let all = get(body, name)?.as_array()?;
            Some(all.iter().filter_map(|value| value.as_str().map(String::from)).collect())
        };
        let text = get(body, "filter").and_then(Value::as_str);
        Query::new(
            number("startIndex")?,
            number("count")?,
            text,
            list("attributes"),
            list("excludedAttributes"),
        )
    }

    fn new(
        start: Option<i64>,
        count: Option<i64>,
        text: Option<&str>,
        only: Option<Vec<String>>,
        excluded: Option<Vec<String>>,
    ) -> Result<Query, Refusal> {
        let places = |all: Vec<String>| -> Result<Vec<Place>, Refusal> {
            all.iter()
                .map(|text| text.trim())
                .filter(|text| !text.is_empty())
                .map(|text| Ok(target(text)?.place))
                .collect()
        };
        let only = only.map(places).transpose()?.filter(|places| !places.is_empty());
        if only.is_some() && excluded.is_some() {
            let detail = "attributes and excludedAttributes: a query has one of them".into();
            return Err(Refusal::of(400, "invalidValue", detail));
        }
        Ok(Query {
            start: start.map_or(1, |start| start.max(1) as u64),
            count: count.map_or(PAGE, |count| count.max(0) as u64),
            filter: text.map(filter).transpose()?,
            returned: Returned { only, excluded: places(excluded.unwrap_or_default())? },
        })
    }
}

fn no_number(name: &str) -> Refusal {
    Refusal::of(400, "invalidValue", format!("{name} is not a number"))
}

impl Returned {
    /// A resource with the attributes that are asked for.
    pub(super) fn of(&self, mut resource: Map<String, Value>) -> Map<String, Value> {
        if let Some(only) = &self.only {
            let mut kept = Map::new();
            for place in only {
                keep(&resource, place, &mut kept);
            }
            for always in ["schemas", "id"] {
                if let Some(value) = resource.remove(always) {
                    kept.insert(always.into(), value);
                }
            }
            return kept;
        }
        for place in &self.excluded {
            exclude(&mut resource, place);
        }
        resource
    }
}

/// Copies an attribute, or a part of it.
fn keep(resource: &Map<String, Value>, place: &Place, kept: &mut Map<String, Value>) {
    if let Some(schema) = &place.schema {
        let Some((key, Value::Object(extension))) = get_with_name(resource, schema) else { return };
        let inner = kept.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(inner) = inner {
            keep(extension, &Place { schema: None, ..place.clone() }, inner);
        }
        return;
    }
    let Some((key, value)) = get_with_name(resource, &place.attribute) else { return };
    let part_of = |value: &Value, part: &str| {
        let (name, value) = get_with_name(value.as_object()?, part)?;
        Some(Value::Object(Map::from_iter([(name.clone(), value.clone())])))
    };
    let value = match (&place.part, value) {
        (None, value) => value.clone(),
        (Some(part), Value::Array(all)) => {
            Value::Array(all.iter().filter_map(|value| part_of(value, part)).collect())
        }
        (Some(part), value) => match part_of(value, part) {
            Some(value) => value,
            None => return,
        },
    };
    match (kept.get_mut(key), value) {
        // Two parts of one attribute.
        (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
        (Some(Value::Array(known)), Value::Array(more)) if known.len() == more.len() => {
            for (known, more) in known.iter_mut().zip(more) {
                if let (Value::Object(known), Value::Object(more)) = (known, more) {
                    known.extend(more);
                }
            }
        }
        (_, value) => {
            kept.insert(key.clone(), value);
        }
    }
}

/// Removes an attribute, or a part of it.
fn exclude(resource: &mut Map<String, Value>, place: &Place) {
    if let Some(schema) = &place.schema {
        let key = get_with_name(resource, schema).map(|(key, _)| key.clone());
        if let Some(Value::Object(extension)) = key.and_then(|key| resource.get_mut(&key)) {
            exclude(extension, &Place { schema: None, ..place.clone() });
        }
        return;
    }
    if ["schemas", "id"].iter().any(|always| always.eq_ignore_ascii_case(&place.attribute)) {
        return;
    }
    let Some(key) = get_with_name(resource, &place.attribute).map(|(key, _)| key.clone()) else { return };
    let Some(part) = &place.part else {
        resource.remove(&key);
        return;
    };
    let remove = |value: &mut Value| {
        if let Value::Object(parts) = value {
            parts.retain(|name, _| !name.eq_ignore_ascii_case(part));
        }
    };
    match resource.get_mut(&key) {
        Some(Value::Array(all)) => all.iter_mut().for_each(remove),
        Some(value) => remove(value),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_has_the_attributes_that_are_asked_for() {
        let resource = json!({
            "schemas": ["u"], "id": "1", "userName": "ada", "name": {"givenName": "Ada", "familyName": "Byron"},
            "emails": [{"value": "a@b", "type": "work"}, {"value": "c@d", "type": "home"}],
            "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "x", "division": "y"},
        });
        let enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
        let of = |key: &str, value: &str| {
            let query = Query::of_url(&[(key.into(), value.into())]).unwrap();
            Value::Object(query.returned.of(resource.as_object().unwrap().clone()))
        };
        assert_eq!(
            of("attributes", "USERNAME,name.givenName, emails.value"),
            json!({"schemas": ["u"], "id": "1", "userName": "ada", "name": {"givenName": "Ada"},
                   "emails": [{"value": "a@b"}, {"value": "c@d"}]})
        );
        assert_eq!(
            of("attributes", &format!("{enterprise}:division,emails.type,emails.value,nickName")),
            json!({"schemas": ["u"], "id": "1", enterprise: {"division": "y"}, "emails": resource["emails"]})
        );
        let mut without = resource.clone();
        let parts = without.as_object_mut().unwrap();
        parts.remove("userName");
        parts["name"].as_object_mut().unwrap().remove("familyName");
        parts[enterprise].as_object_mut().unwrap().remove("department");
        assert_eq!(
            of("excludedAttributes", &format!("id,userName,name.familyName,{enterprise}:department")),
            without
        );
        let both = [("attributes".into(), "id".into()), ("excludedAttributes".into(), "id".into())];
        assert!(Query::of_url(&both).is_err());
    }
}
