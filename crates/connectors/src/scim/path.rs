//! Paths of the attributes of a resource (RFC 7644, section 3.5.2).

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Multi-valued attributes of the core schema (RFC 7643, sections 4.1.2 and 4.2).
const SEVERAL: [&str; 10] = [
    "emails",
    "phoneNumbers",
    "ims",
    "photos",
    "addresses",
    "groups",
    "entitlements",
    "roles",
    "x509Certificates",
    "members",
];
/// The optional prefix of attributes of the core schema.
const CORE: &str = "urn:ietf:params:scim:schemas:core:";

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// True or false.
    Boolean,
    /// A whole number.
    Integer,
}

/// The path of an attribute: `userName`, `name.familyName`, `emails[type eq "work"].value`,
/// `urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    text: String,
    /// The URN of the extension schema.
    schema: Option<String>,
    attribute: String,
    /// The condition that selects one of several values: an attribute and its value.
    filter: Option<(String, Value)>,
    /// The sub-attribute.
    part: Option<String>,
    kind: Kind,
}

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    /// Why the path is invalid.
    pub fn parse(text: &str) -> Result<Path, String> {
        let (head, filter, tail) = match text.split_once('[') {
            None => (text, None, ""),
            Some((head, rest)) => {
                let (filter, tail) = filter(rest)?;
                (head, Some(filter), tail)
            }
        };
        let is_urn = head.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("urn:"));
        let (schema, head) = match head.rsplit_once(':') {
            Some((schema, head)) if is_urn => (Some(schema), head),
            Some(_) => return Err("write the URN of a schema before a colon".into()),
            None => (None, head),
        };
        let (attribute, part) = match (head.split_once('.'), tail) {
            (Some(_), "") if filter.is_some() => {
                return Err("write the name of a part after the bracket".into());
            }
            (Some((attribute, part)), "") => (attribute, Some(part)),
            (None, "") => (head, None),
            (None, tail) => match tail.strip_prefix('.') {
                Some(part) => (head, Some(part)),
                None => {
                    return Err("after the bracket write a dot and the name of a part, or nothing".into());
                }
            },
            (Some(_), _) => return Err("it has more levels than an attribute and its part".into()),
        };
        for name in [Some(attribute), part].into_iter().flatten() {
            if !is_name(name) {
                return Err(format!("{name:?} is not a name of an attribute"));
            }
        }
        let last = part.unwrap_or(attribute);
        let is_boolean = ["active", "primary"].iter().any(|name| last.eq_ignore_ascii_case(name));
        let schema = schema.filter(|schema| !schema.starts_with(CORE));
        Ok(Path {
            text: text.into(),
            schema: schema.map(String::from),
            attribute: attribute.into(),
            filter,
            part: part.map(String::from),
            kind: if is_boolean { Kind::Boolean } else { Kind::Text },
        })
    }

    /// The same path with another JSON type of values.
    pub fn of_kind(mut self, kind: Kind) -> Path {
        self.kind = kind;
        self
    }

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The URN of the extension schema; none for the core schema.
    pub(super) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The path of the attribute without its sub-attribute.
    fn base(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}:{}", self.attribute),
            None => self.attribute.clone(),
        }
    }

    fn has_several(&self) -> bool {
        self.filter.is_some() || SEVERAL.iter().any(|name| name.eq_ignore_ascii_case(&self.attribute))
    }

    /// The sub-attribute that has the value of a multi-valued attribute.
    fn inner(&self) -> &str {
        self.part.as_deref().unwrap_or("value")
    }

    /// The values of this path in a resource.
    ///
    /// # Errors
    /// When something in it is not a valid value.
    pub(super) fn values<'a>(&self, resource: &'a Value) -> Result<Vec<Cow<'a, str>>, String> {
        resource.as_object().map_or(Ok(Vec::new()), |resource| self.values_of(resource))
    }

    fn values_of<'a>(&self, resource: &'a Map<String, Value>) -> Result<Vec<Cow<'a, str>>, String> {
        let container = match &self.schema {
            Some(schema) => get_in(resource, schema).and_then(Value::as_object),
            None => Some(resource),
        };
        let mut values = Vec::new();
        let Some(found) = container.and_then(|container| get_in(container, &self.attribute)) else {
            return Ok(values);
        };
        for element in elements(found) {
            if !self.is_meant(element) {
                continue;
            }
            let leaf = match &self.part {
                None => Some(element),
                Some(part) if element.is_object() => get(element, part),
                Some(_) if element.is_null() => None,
                Some(part) => return Err(format!("`{}` has no parts such as `{part}`", self.attribute)),
            };
            for value in leaf.into_iter().flat_map(elements) {
                // The value of a complex attribute is its sub-attribute `value`.
                let value = if value.is_object() { get(value, "value").unwrap_or(value) } else { value };
                match value {
                    Value::Null => {}
                    Value::String(text) => values.push(Cow::Borrowed(text.as_str())),
                    Value::Bool(truth) => values.push(Cow::Borrowed(if *truth { "true" } else { "false" })),
                    Value::Number(number) => values.push(Cow::Owned(number.to_string())),
                    Value::Object(_) | Value::Array(_) => {
                        return Err(format!("`{}` has parts: name one of them", self.text));
                    }
                }
            }
        }
        Ok(values)
    }

    fn is_meant(&self, element: &Value) -> bool {
        let Some((name, wanted)) = &self.filter else { return true };
        match (get(element, name), wanted) {
            (Some(Value::String(found)), Value::String(wanted)) => found.eq_ignore_ascii_case(wanted),
            (found, wanted) => found == Some(wanted),
        }
    }

    /// Values in JSON.
    ///
    /// # Errors
    /// When a value does not fit its type.
    pub(super) fn written(&self, values: &[Vec<u8>]) -> Result<Vec<Value>, String> {
        let one = |value: &Vec<u8>| {
            let text =
                std::str::from_utf8(value).map_err(|_| format!("a value of `{}` is not UTF-8", self.text))?;
            Ok(match (self.kind, text) {
                (Kind::Text, text) => Value::from(text),
                (Kind::Boolean, "true") => Value::Bool(true),
                (Kind::Boolean, "false") => Value::Bool(false),
                (Kind::Boolean, _) => return Err(format!("`{}` is true or false, not {text:?}", self.text)),
                (Kind::Integer, text) => match text.parse::<i64>() {
                    Ok(number) => Value::from(number),
                    Err(_) => return Err(format!("`{}` is a whole number, not {text:?}", self.text)),
                },
            })
        };
        values.iter().map(one).collect()
    }

    /// Replaces all values of this path in a resource.
    pub(super) fn set(&self, resource: &mut Map<String, Value>, values: Vec<Value>) {
        let Some(schema) = &self.schema else { return self.set_in(resource, values) };
        let place = member(resource, schema);
        if !place.is_object() {
            *place = json!({});
        }
        if let Value::Object(extension) = place {
            self.set_in(extension, values);
        }
        if place.as_object().is_some_and(Map::is_empty) {
            remove(resource, schema);
        }
    }

    /// Adds the other existing values of a resource to new values, except some.
    pub(super) fn with_others(
        &self,
        resource: &Map<String, Value>,
        but: &[Value],
        mut values: Vec<Value>,
    ) -> Vec<Value> {
        if !self.has_several() {
            return values;
        }
        let texts: Vec<Vec<u8>> = match self.values_of(resource) {
            Ok(found) => found.iter().map(|text| text.as_bytes().to_vec()).collect(),
            Err(_) => Vec::new(),
        };
        for value in self.written(&texts).unwrap_or_default() {
            if !but.contains(&value) && !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    fn set_in(&self, container: &mut Map<String, Value>, mut values: Vec<Value>) {
        let place = member(container, &self.attribute);
        if self.has_several() {
            let mut all: Vec<Value> = elements(place).to_vec();
            // An existing element keeps its other sub-attributes. No other element matches the filter.
            all.retain_mut(|element| {
                let inside = get(element, self.inner()).cloned();
                if !self.is_meant(element) {
                    return true;
                }
                if let Some(at) = values.iter().position(|value| Some(value) == inside.as_ref()) {
                    values.swap_remove(at);
                    return true;
                }
                match (&self.filter, element) {
                    (Some(_), Value::Object(element)) if values.len() == 1 => {
                        *member(element, self.inner()) = values.swap_remove(0);
                        true
                    }
                    _ => false,
                }
            });
            all.extend(values.into_iter().map(|value| self.element(value)));
            *place = Value::Array(all);
        } else if let Some(part) = &self.part {
            if !place.is_object() {
                *place = json!({});
            }
            if let Value::Object(parts) = place {
                match together(values) {
                    Some(value) => *member(parts, part) = value,
                    None => remove(parts, part),
                }
            }
        } else {
            *place = together(values).unwrap_or(Value::Null);
        }
        let is_empty = match place {
            Value::Null => true,
            Value::Array(all) => all.is_empty(),
            Value::Object(parts) => parts.is_empty(),
            _ => false,
        };
        if is_empty {
            remove(container, &self.attribute);
        }
    }

    /// A new element of a multi-valued attribute.
    fn element(&self, value: Value) -> Value {
        let mut element = Map::new();
        if let Some((name, wanted)) = &self.filter {
            element.insert(name.clone(), wanted.clone());
        }
        element.insert(self.inner().into(), value);
        Value::Object(element)
    }

    /// The PATCH operations that change imported values to new ones; none if they are equal.
    pub(super) fn operations(&self, old: &[Value], new: &[Value], operations: &mut Vec<Value>) {
        let base = self.base();
        if !self.has_several() {
            operations.push(match together(new.to_vec()) {
                Some(value) => json!({"op": "replace", "path": self.text, "value": value}),
                None => json!({"op": "remove", "path": self.text}),
            });
            return;
        }
        match (&self.filter, new) {
            // Only the service knows whether there is a value to replace or remove; if not, it reports an
            // error.
            (Some(_), [new]) => {
                let path = format!("{base}[{}].{}", self.filter_text(), self.inner());
                operations.push(json!({"op": "replace", "path": path, "value": new}));
            }
            (Some(_), new) => {
                operations.push(json!({"op": "remove", "path": format!("{base}[{}]", self.filter_text())}));
                self.add(&base, new.iter(), operations);
            }
            (None, new) => {
                for gone in old.iter().filter(|value| !new.contains(value)) {
                    let path = format!("{base}[{} eq {gone}]", self.inner());
                    operations.push(json!({"op": "remove", "path": path}));
                }
                self.add(&base, new.iter().filter(|value| !old.contains(value)), operations);
            }
        }
    }

    fn add<'a>(&self, base: &str, new: impl Iterator<Item = &'a Value>, operations: &mut Vec<Value>) {
        let new: Vec<Value> = new.map(|value| self.element(value.clone())).collect();
        if !new.is_empty() {
            operations.push(json!({"op": "add", "path": base, "value": new}));
        }
    }

    fn filter_text(&self) -> String {
        self.filter.as_ref().map_or_else(String::new, |(name, wanted)| format!("{name} eq {wanted}"))
    }
}

/// The condition in brackets, and the text after it.
fn filter(text: &str) -> Result<((String, Value), &str), String> {
    let wrong = || "write a comparison in brackets, such as type eq \"work\"".to_string();
    let (name, rest) = text.trim_start().split_once(' ').ok_or_else(wrong)?;
    let rest = rest.trim_start();
    let is_equal = rest.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("eq "));
    if !is_name(name) || !is_equal {
        return Err(wrong());
    }
    let rest = &rest[3..];
    let mut read = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let value = match read.next() {
        Some(Ok(value @ (Value::String(_) | Value::Bool(_)))) => value,
        _ => return Err(wrong()),
    };
    let tail = rest[read.byte_offset()..].trim_start().strip_prefix(']').ok_or_else(wrong)?;
    Ok(((name.into(), value), tail))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '$')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"$_-".contains(&byte))
}

/// A member of an object. Attribute names are case-insensitive.
pub(super) fn get<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    get_in(value.as_object()?, name)
}

fn get_in<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name)
        .or_else(|| map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

fn key(map: &Map<String, Value>, name: &str) -> String {
    if map.contains_key(name) {
        return name.into();
    }
    map.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned().unwrap_or_else(|| name.into())
}

/// A mutable reference to a member of an object, which is created if it does not exist.
pub(super) fn member<'a>(map: &'a mut Map<String, Value>, name: &str) -> &'a mut Value {
    let key = key(map, name);
    map.entry(key).or_insert(Value::Null)
}

/// Removes a member, in all spellings of its name.
fn remove(map: &mut Map<String, Value>, name: &str) {
    map.retain(|key, _| !key.eq_ignore_ascii_case(name));
}

/// The elements of a list, or a single value.
fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(all) => all,
        Value::Null => &[],
        one => std::slice::from_ref(one),
    }
}

/// One value as such, several as a list, none as none.
fn together(mut values: Vec<Value>) -> Option<Value> {
    match values.len() {
        0 => None,
        1 => values.pop(),
        _ => Some(Value::Array(values)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEPARTMENT: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department";

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    fn ada() -> Value {
        json!({
            "userName": "ada", "active": true, "logins": 3, "title": null,
            "name": {"familyName": "Byron", "givenName": "Ada"},
            "Emails": [
                {"type": "Work", "value": "ada@plim.example", "primary": true},
                {"type": "home", "value": "a@b.example"},
            ],
            "roles": [{"value": "admin"}, "guest"],
            "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "Engines", "manager": {"value": "7"}},
        })
    }

    #[test]
    fn values_are_found_where_the_path_leads() {
        for (text, values) in [
            ("userName", vec!["ada"]),
            ("USERNAME", vec!["ada"]),
            ("urn:ietf:params:scim:schemas:core:2.0:User:userName", vec!["ada"]),
            ("active", vec!["true"]),
            ("logins", vec!["3"]),
            ("title", vec![]),
            ("nickName", vec![]),
            ("name.familyName", vec!["Byron"]),
            ("name.honorificPrefix", vec![]),
            ("emails[type eq \"work\"].value", vec!["ada@plim.example"]),
            ("emails[type eq \"work\"]", vec!["ada@plim.example"]),
            ("emails[primary eq true].type", vec!["Work"]),
            ("emails[type eq \"other\"].value", vec![]),
            ("emails.value", vec!["ada@plim.example", "a@b.example"]),
            ("roles", vec!["admin", "guest"]),
            (DEPARTMENT, vec!["Engines"]),
            (&DEPARTMENT.replace("department", "manager.value"), vec!["7"]),
            (&DEPARTMENT.replace("department", "manager"), vec!["7"]),
            ("urn:x:unknown:badge", vec![]),
        ] {
            assert_eq!(path(text).values(&ada()).unwrap(), values, "{text}");
        }
        assert!(path("name").values(&ada()).unwrap_err().contains("name one of them"));
        assert!(path("userName.value").values(&ada()).unwrap_err().contains("no parts"));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [
            "",
            " ",
            "a b",
            "a.",
            ".a",
            "a.b.c",
            "1a",
            "x:userName",
            "urn:",
            "emails[",
            "emails[]",
            "emails[type]",
            "emails[type eq work].value",
            "emails[type ne \"work\"].value",
            "emails[type eq \"work\"]value",
            "emails[type eq \"work\"].value.x",
            "emails.value[type eq \"work\"]",
            "emails[type eq \"wo",
            "é",
            "emails[é eq 1]",
        ] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_written_as_the_kind_has_them() {
        let written = |path: &Path, value: &str| path.written(&[value.as_bytes().to_vec()]);
        assert_eq!(written(&path("active"), "true").unwrap(), [json!(true)]);
        assert!(written(&path("active"), "yes").unwrap_err().contains("true or false"));
        assert_eq!(written(&path("logins").of_kind(Kind::Integer), "-3").unwrap(), [json!(-3)]);
        assert!(written(&path("logins").of_kind(Kind::Integer), "3.5").is_err());
        assert!(path("title").written(&[b"\xff".to_vec()]).is_err());
    }

    #[test]
    fn operations_touch_what_changes_and_nothing_else() {
        let of = |text: &str, old: &[&str], new: &[&str]| {
            let values = |texts: &[&str]| texts.iter().map(|text| Value::from(*text)).collect::<Vec<Value>>();
            let mut operations = Vec::new();
            path(text).operations(&values(old), &values(new), &mut operations);
            Value::Array(operations)
        };
        let work = "emails[type eq \"work\"].value";
        assert_eq!(of("title", &[], &["a"]), json!([{"op": "replace", "path": "title", "value": "a"}]));
        assert_eq!(of("title", &["a"], &[]), json!([{"op": "remove", "path": "title"}]));
        assert_eq!(of(work, &["a"], &["b"]), json!([{"op": "replace", "path": work, "value": "b"}]));
        assert_eq!(of(work, &[], &["b"]), of(work, &["a"], &["b"]));
        assert_eq!(
            of(work, &[], &["a", "b"]),
            json!([
                {"op": "remove", "path": "emails[type eq \"work\"]"},
                {"op": "add", "path": "emails", "value": [{"type": "work", "value": "a"}, {"type": "work", "value": "b"}]},
            ])
        );
        assert_eq!(of(work, &["a"], &[]), json!([{"op": "remove", "path": "emails[type eq \"work\"]"}]));
        assert_eq!(
            of("members", &["a", "x\"y"], &["a", "b"]),
            json!([
                {"op": "remove", "path": "members[value eq \"x\\\"y\"]"},
                {"op": "add", "path": "members", "value": [{"value": "b"}]},
            ])
        );
    }

    #[test]
    fn other_values_are_left_alone() {
        let mut resource = ada();
        let map = resource.as_object_mut().unwrap();
        path("emails[type eq \"work\"].value").set(map, vec![json!("new@plim.example")]);
        path("emails[type eq \"other\"].value").set(map, vec![json!("o@plim.example")]);
        path("emails[type eq \"home\"].value").set(map, vec![]);
        path("roles").set(map, vec![json!("admin"), json!("owner")]);
        path("name.givenName").set(map, vec![]);
        path(DEPARTMENT).set(map, vec![json!("Looms")]);
        path("title").set(map, vec![json!("Countess")]);
        path("logins").set(map, vec![]);
        assert_eq!(
            resource,
            json!({
                "userName": "ada", "active": true, "title": "Countess",
                "name": {"familyName": "Byron"},
                "Emails": [
                    {"type": "Work", "value": "new@plim.example", "primary": true},
                    {"type": "other", "value": "o@plim.example"},
                ],
                "roles": [{"value": "admin"}, {"value": "owner"}],
                "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "Looms", "manager": {"value": "7"}},
            })
        );
    }

    #[test]
    fn an_attribute_that_is_there_twice_goes_whole() {
        let mut resource = json!({"USERNAME": false, "userName": null, "id": "1"});
        path("userName").set(resource.as_object_mut().unwrap(), Vec::new());
        assert_eq!(resource, json!({"id": "1"}));
    }

    /// Arbitrary JSON with names that the paths use.
    pub(in super::super) fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "(work|ada|[a-c\u{0}\"é]{0,3})".prop_map(Value::from),
        ];
        let name = "(id|userName|USERNAME|name|familyName|emails|type|value|roles|urn:x:y|badge|Resources|totalResults)";
        leaf.prop_recursive(5, 48, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(name, inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    const PATHS: [&str; 7] = [
        "userName",
        "name.familyName",
        "emails[type eq \"work\"].value",
        "emails.value",
        "roles",
        "urn:x:y:badge",
        "active",
    ];

    proptest! {
        #[test]
        fn any_text_is_a_path_or_refused(text in "[a-z.:\\[\\]\" é]{0,12}|(urn:x:)?emails\\[type eq .{0,6}\\].{0,6}") {
            if let Ok(path) = Path::parse(&text) {
                prop_assert_eq!(path.text(), &text);
                let nothing = json!({});
                prop_assert!(path.values(&nothing).unwrap().is_empty());
            }
        }

        #[test]
        fn any_json_gives_values_or_a_reason(resource in anything()) {
            for text in PATHS {
                let _ = path(text).values(&resource);
            }
        }

        #[test]
        fn what_was_set_is_found(resource in anything(), values in proptest::collection::btree_set("[a-z]{1,3}", 0..4)) {
            let Value::Object(map) = resource else { return Ok(()) };
            for text in PATHS {
                let path = path(text);
                let mut map = map.clone();
                path.set(&mut map, values.iter().map(|value| Value::from(value.as_str())).collect());
                let set = Value::Object(map);
                let mut found = path.values(&set).unwrap();
                found.sort();
                prop_assert!(found.iter().eq(values.iter()), "{}: {:?}", text, found);
            }
        }
    }
}
