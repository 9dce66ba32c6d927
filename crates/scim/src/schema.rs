//! The schema of users and groups (RFC 7643, section 4), and the validation of resources.

use serde_json::{Map, Value, json};

use super::database::Kind;
use super::filter::get;
use super::service::Refusal;

pub(super) const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
/// The length limit of a text.
const TEXT_CHARS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Type {
    String,
    Boolean,
    /// Base64.
    Binary,
    /// A URI: of resources of these types, or of something outside of the service.
    Reference(&'static [&'static str]),
    Complex(&'static [Attribute]),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Attribute {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    pub(super) several: bool,
}

const fn text(name: &'static str) -> Attribute {
    Attribute { name, kind: Type::String, several: false }
}

const fn truth(name: &'static str) -> Attribute {
    Attribute { name, kind: Type::Boolean, several: false }
}

const fn reference(name: &'static str, types: &'static [&'static str]) -> Attribute {
    Attribute { name, kind: Type::Reference(types), several: false }
}

const fn several(name: &'static str, parts: &'static [Attribute]) -> Attribute {
    Attribute { name, kind: Type::Complex(parts), several: true }
}

const EXTERNAL: &[&str] = &["external"];
const VALUE: &[Attribute] = &[text("value"), text("display"), text("type"), truth("primary")];
const PHOTO: &[Attribute] = &[reference("value", EXTERNAL), text("display"), text("type"), truth("primary")];
const CERTIFICATE: &[Attribute] = &[
    Attribute { name: "value", kind: Type::Binary, several: false },
    text("display"),
    text("type"),
    truth("primary"),
];
const MEMBER: &[Attribute] =
    &[text("value"), reference("$ref", &["User", "Group"]), text("display"), text("type")];
const USER: &[Attribute] = &[
    text("userName"),
    text("externalId"),
    Attribute {
        name: "name",
        kind: Type::Complex(&[
            text("formatted"),
            text("familyName"),
            text("givenName"),
            text("middleName"),
            text("honorificPrefix"),
            text("honorificSuffix"),
        ]),
        several: false,
    },
    text("displayName"),
    text("nickName"),
    reference("profileUrl", EXTERNAL),
    text("title"),
    text("userType"),
    text("preferredLanguage"),
    text("locale"),
    text("timezone"),
    truth("active"),
    text("password"),
    several("emails", VALUE),
    several("phoneNumbers", VALUE),
    several("ims", VALUE),
    several("photos", PHOTO),
    Attribute {
        name: "addresses",
        kind: Type::Complex(&[
            text("formatted"),
            text("streetAddress"),
            text("locality"),
            text("region"),
            text("postalCode"),
            text("country"),
            text("type"),
            truth("primary"),
        ]),
        several: true,
    },
    several("entitlements", VALUE),
    several("roles", VALUE),
    several("x509Certificates", CERTIFICATE),
];
const GROUP: &[Attribute] = &[text("displayName"), text("externalId"), several("members", MEMBER)];
const OF_ENTERPRISE: &[Attribute] = &[
    text("employeeNumber"),
    text("costCenter"),
    text("organization"),
    text("division"),
    text("department"),
    Attribute {
        name: "manager",
        kind: Type::Complex(&[text("value"), reference("$ref", &["User"]), text("displayName")]),
        several: false,
    },
];
/// The attributes that only the service writes.
const OWN: [&str; 4] = ["schemas", "id", "meta", "groups"];

pub(super) fn core(kind: Kind) -> String {
    format!("urn:ietf:params:scim:schemas:core:2.0:{}", kind.name())
}

fn of_kind(kind: Kind) -> &'static [Attribute] {
    match kind {
        Kind::User => USER,
        Kind::Group => GROUP,
    }
}

/// The names of the attributes of the extension.
pub(super) fn names_of_extension() -> impl Iterator<Item = &'static str> {
    OF_ENTERPRISE.iter().map(|attribute| attribute.name)
}

/// The definition of a known attribute.
pub(super) fn attribute(kind: Kind, schema: Option<&str>, name: &str) -> Option<&'static Attribute> {
    let all = match schema {
        None => of_kind(kind),
        Some(schema) if schema.eq_ignore_ascii_case(ENTERPRISE) => OF_ENTERPRISE,
        Some(_) => &[],
    };
    all.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

/// Converts a resource from a client to its stored form: names as in the schema, without read-only attributes
/// and empty values.
pub(super) fn checked(kind: Kind, resource: Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    let mut kept = Map::new();
    let mut schemas = vec![Value::from(core(kind))];
    for (key, value) in resource {
        if OWN.iter().any(|own| own.eq_ignore_ascii_case(&key)) {
            continue;
        }
        if key.to_ascii_lowercase().starts_with("urn:") {
            let Value::Object(extension) = value else {
                return Err(invalid(&key, "an object"));
            };
            if key != ENTERPRISE || kind != Kind::User {
                let detail = format!("there is no schema {key}");
                return Err(Refusal::of(400, "invalidSyntax", detail));
            }
            let extension = members(OF_ENTERPRISE, extension)?;
            if !extension.is_empty() {
                schemas.push(key.as_str().into());
                kept.insert(key, Value::Object(extension));
            }
            continue;
        }
        let known = attribute(kind, None, &key)
            .ok_or_else(|| Refusal::of(400, "invalidSyntax", format!("a {} has no {key:?}", kind.name())))?;
        // It is write-only.
        if known.name != "password"
            && let Some(value) = checked_value(known, value)?
        {
            kept.insert(known.name.into(), value);
        }
    }
    let needed = if kind == Kind::User { "userName" } else { "displayName" };
    if get(&kept, needed).and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(Refusal::of(400, "invalidValue", format!("a {} needs a {needed}", kind.name())));
    }
    for email in kept.get("emails").and_then(Value::as_array).into_iter().flatten() {
        if email.get("value").and_then(Value::as_str).is_some_and(|value| !value.contains('@')) {
            return Err(invalid("emails.value", "an address"));
        }
    }
    kept.insert("schemas".into(), Value::Array(schemas));
    Ok(kept)
}

fn members(known: &[Attribute], values: Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    let mut kept = Map::new();
    for (key, value) in values {
        let attribute = known
            .iter()
            .find(|known| known.name.eq_ignore_ascii_case(&key))
            .ok_or_else(|| Refusal::of(400, "invalidSyntax", format!("there is no attribute {key:?}")))?;
        if let Some(value) = checked_value(attribute, value)? {
            kept.insert(attribute.name.into(), value);
        }
    }
    Ok(kept)
}

fn checked_value(attribute: &Attribute, value: Value) -> Result<Option<Value>, Refusal> {
    if !attribute.several {
        return one(attribute, value);
    }
    let all = match value {
        Value::Array(all) => all,
        Value::Null => Vec::new(),
        _ => return Err(invalid(attribute.name, "a list")),
    };
    let mut kept = Vec::with_capacity(all.len());
    for value in all {
        kept.extend(one(attribute, value)?);
    }
    Ok((!kept.is_empty()).then_some(Value::Array(kept)))
}

fn one(attribute: &Attribute, value: Value) -> Result<Option<Value>, Refusal> {
    match (attribute.kind, value) {
        (_, Value::Null) => Ok(None),
        (Type::String | Type::Reference(_) | Type::Binary, Value::String(text))
            if text.chars().count() <= TEXT_CHARS_MAX =>
        {
            Ok(Some(Value::String(text)))
        }
        (Type::String | Type::Reference(_) | Type::Binary, _) => {
            Err(invalid(attribute.name, "text of at most 4096 characters"))
        }
        (Type::Boolean, value @ Value::Bool(_)) => Ok(Some(value)),
        (Type::Boolean, _) => Err(invalid(attribute.name, "true or false")),
        (Type::Complex(known), Value::Object(values)) => {
            let kept = members(known, values)?;
            Ok((!kept.is_empty()).then_some(Value::Object(kept)))
        }
        (Type::Complex(_), _) => Err(invalid(attribute.name, "an object")),
    }
}

fn invalid(name: &str, wanted: &str) -> Refusal {
    Refusal::of(400, "invalidValue", format!("{name} is not {wanted}"))
}

/// The schemas in the form of RFC 7643, section 7.
pub(super) fn all() -> Vec<Value> {
    [
        (core(Kind::User), "User", USER, "userName"),
        (core(Kind::Group), "Group", GROUP, "displayName"),
        (ENTERPRISE.into(), "EnterpriseUser", OF_ENTERPRISE, ""),
    ]
    .into_iter()
    .map(|(id, name, attributes, needed)| {
        let attributes: Vec<Value> =
            attributes.iter().map(|known| definition(known, known.name == needed)).collect();
        let meta = json!({"resourceType": "Schema", "location": format!("/scim/v2/Schemas/{id}")});
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
            "id": id, "name": name, "attributes": attributes, "meta": meta,
        })
    })
    .collect()
}

fn definition(attribute: &Attribute, is_needed: bool) -> Value {
    let kind = match attribute.kind {
        Type::String => "string",
        Type::Boolean => "boolean",
        Type::Binary => "binary",
        Type::Reference(_) => "reference",
        Type::Complex(_) => "complex",
    };
    let is_name = attribute.name == "userName";
    let mut definition = json!({
        "name": attribute.name,
        "type": kind,
        "multiValued": attribute.several,
        "required": is_needed,
        "caseExact": attribute.name == "externalId" || matches!(attribute.kind, Type::Binary | Type::Reference(_)),
        "mutability": if attribute.name == "password" { "writeOnly" } else { "readWrite" },
        "returned": if attribute.name == "password" { "never" } else { "default" },
        "uniqueness": if is_name { "server" } else { "none" },
    });
    match attribute.kind {
        Type::Complex(parts) => {
            definition["subAttributes"] = parts.iter().map(|part| self::definition(part, false)).collect();
        }
        Type::Reference(types) => definition["referenceTypes"] = json!(types),
        Type::String | Type::Boolean | Type::Binary => {}
    }
    definition
}
