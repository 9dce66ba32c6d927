//! Executes requests (RFC 7644, section 3).

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::{Map, Value, json};

use super::body::BODY_BYTES_MAX;
use super::database::{Database, Kind, Selection, StoredResource};
use super::filter::{Filter, Operator, get};
use super::query::{Query, Returned};
use super::{Options, Request, lock, patch, schema};

/// Limit of the operations in a bulk request.
const OPERATIONS_MAX: usize = 1000;
/// Limit of the values that the path filters of one request are compared with.
const COMPARED_VALUES_MAX: u64 = 50_000_000;

/// A response.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// The error of a rejected request, as in RFC 7644 (section 3.12).
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) scim_type: Option<&'static str>,
    pub(super) detail: String,
    /// The methods that the resource has, if another one was refused.
    allow: Option<&'static str>,
}

impl Refusal {
    pub(super) fn of(status: u16, scim_type: &'static str, detail: String) -> Refusal {
        Refusal { status, scim_type: Some(scim_type), detail, allow: None }
    }

    pub(super) fn plain(status: u16, detail: &str) -> Refusal {
        Refusal { status, scim_type: None, detail: detail.into(), allow: None }
    }

    /// The refusal of a method; `allow` has those that the resource has.
    fn method(allow: &'static str, detail: &str) -> Refusal {
        Refusal { allow: Some(allow), ..Refusal::plain(405, detail) }
    }

    fn json(&self) -> Value {
        let mut body = json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
            "status": self.status.to_string(),
            "detail": self.detail,
        });
        if let Some(scim_type) = self.scim_type {
            body["scimType"] = scim_type.into();
        }
        body
    }
}

/// The response to a rejected request.
pub(super) fn refused(refusal: &Refusal) -> Reply {
    Done::refused(refusal).into()
}

/// The result of a request.
struct Done {
    status: u16,
    /// Null for an empty body.
    body: Value,
    allow: Option<&'static str>,
}

impl Done {
    fn new(status: u16, body: Value) -> Done {
        Done { status, body, allow: None }
    }

    fn refused(refusal: &Refusal) -> Done {
        Done { status: refusal.status, body: refusal.json(), allow: refusal.allow }
    }
}

impl From<Done> for Reply {
    fn from(done: Done) -> Reply {
        let meta = |name: &str| done.body.get("meta")?.get(name)?.as_str().map(String::from);
        let mut headers: Vec<(String, String)> = Vec::new();
        headers.extend(done.allow.map(|methods| ("Allow".into(), methods.into())));
        for (header, value) in [("Location", meta("location")), ("ETag", meta("version"))] {
            headers.extend(value.map(|value| (header.to_string(), value)));
        }
        match done.status {
            401 => headers.push(("WWW-Authenticate".into(), "Bearer".into())),
            503 => headers.push(("Retry-After".into(), "1".into())),
            _ => {}
        }
        let body = if done.body.is_null() { String::new() } else { done.body.to_string() };
        Reply { status: done.status, headers, body }
    }
}

type Result<T> = std::result::Result<T, Refusal>;

/// Serves one request.
pub(super) struct Service<'a> {
    database: &'a Database,
    writing: &'a Mutex<()>,
    options: &'a Options,
    /// The remaining number of values that the filters of this request may be compared with.
    comparisons: Cell<u64>,
}

impl<'a> Service<'a> {
    pub(super) fn new(database: &'a Database, writing: &'a Mutex<()>, options: &'a Options) -> Service<'a> {
        Service { database, writing, options, comparisons: Cell::new(COMPARED_VALUES_MAX) }
    }

    pub(super) fn reply(&self, request: &Request) -> Reply {
        self.done(request).unwrap_or_else(|refusal| Done::refused(&refusal)).into()
    }

    fn done(&self, request: &Request) -> Result<Done> {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        match (request.method.as_str(), path.as_slice()) {
            ("GET", ["ServiceProviderConfig"]) => Ok(Done::new(200, self.provider())),
            ("GET", ["ResourceTypes"]) => Ok(Done::new(200, list(resource_types(), None, 1))),
            ("GET", ["ResourceTypes", id]) => described(resource_types(), id),
            ("GET", ["Schemas"]) => Ok(Done::new(200, list(schema::all(), None, 1))),
            ("GET", ["Schemas", id]) => described(schema::all(), id),
            ("GET", [] | [_]) => self.list(&kinds_of(&path)?, Query::of_url(&request.query)?),
            ("POST", [place @ .., ".search"]) => {
                let kinds = kinds_of(place)?;
                self.list(&kinds, Query::of_body(&object(parsed(&request.body)?)?)?)
            }
            ("GET", [kind, id]) => {
                let found = self.database.get(kind_of(kind)?, id)?.ok_or_else(missing)?;
                Ok(self.returned(Done::new(200, Value::Object(found.body)), &request.query)?)
            }
            ("POST", ["Bulk"]) => {
                let body = parsed(&request.body)?;
                self.in_transaction(|service| service.bulk(body))
            }
            (_, ["Bulk"]) => Err(Refusal::method("POST", "a bulk is sent by POST")),
            (method, [kind, id @ ..]) if id.len() < 2 => {
                let kind = kind_of(kind)?;
                if !matches!(method, "POST" | "PUT" | "PATCH" | "DELETE") {
                    let allow = if id.is_empty() { "GET, POST" } else { "GET, PUT, PATCH, DELETE" };
                    let detail = "a resource is read by GET, and written by POST, PUT, PATCH or DELETE";
                    return Err(Refusal::method(allow, detail));
                }
                let body = if method == "DELETE" { Value::Null } else { parsed(&request.body)? };
                let done = self.in_transaction(|service| {
                    service.write(method, kind, id.first().copied(), body, request.if_match.as_deref())
                })?;
                self.returned(done, &request.query)
            }
            _ => Err(missing()),
        }
    }

    /// Transactions are serialized and atomic.
    fn in_transaction(&self, work: impl FnOnce(&Self) -> Result<Done>) -> Result<Done> {
        let turn = lock(self.writing);
        self.database.begin()?;
        let done = work(self).and_then(|done| self.database.commit().map(|()| done));
        if done.is_err() {
            self.database.roll_back();
        }
        drop(turn);
        done
    }

    fn write(
        &self,
        method: &str,
        kind: Kind,
        id: Option<&str>,
        body: Value,
        if_match: Option<&str>,
    ) -> Result<Done> {
        let base = "/scim/v2";
        let Some(id) = id else {
            if method != "POST" {
                return Err(Refusal::method(
                    "GET, POST",
                    "resources are made by POST, and changed by their id",
                ));
            }
            let body = self.database.insert(kind, self.checked(kind, object(body)?)?, base)?;
            return Ok(Done::new(201, Value::Object(body)));
        };
        let old = self.database.get(kind, id)?.ok_or_else(missing)?;
        let version = format!("W/\"{}\"", old.version);
        if if_match.is_some_and(|wanted| wanted != "*" && wanted != version) {
            return Err(Refusal::plain(412, "it is another version"));
        }
        let body = match method {
            "DELETE" => {
                self.database.delete(kind, id, base)?;
                return Ok(Done::new(204, Value::Null));
            }
            "PUT" => object(body)?,
            "PATCH" => {
                let mut new = old.body.clone();
                patch::apply(kind, &mut new, &body, &self.comparisons)?;
                new
            }
            _ => {
                let detail = "a resource is changed by PUT, PATCH or DELETE";
                return Err(Refusal::method("GET, PUT, PATCH, DELETE", detail));
            }
        };
        let new = self.checked(kind, body)?;
        let body =
            if is_same(&old, &new) { old.body } else { self.database.replace(kind, &old, new, base)? };
        Ok(Done::new(200, Value::Object(body)))
    }

    fn checked(&self, kind: Kind, body: Map<String, Value>) -> Result<Map<String, Value>> {
        let body = schema::checked(kind, body)?;
        if kind == Kind::Group {
            let members = body.get("members").and_then(Value::as_array);
            for member in members.into_iter().flatten() {
                let id = member.get("value").and_then(Value::as_str).unwrap_or_default();
                if self.database.get(Kind::User, id)?.is_none()
                    && self.database.get(Kind::Group, id)?.is_none()
                {
                    return Err(Refusal::of(400, "invalidValue", format!("there is no member {id:?}")));
                }
            }
        }
        Ok(body)
    }

    /// A result with the attributes that a query asks for.
    fn returned(&self, mut done: Done, query: &[(String, String)]) -> Result<Done> {
        let asks = |(name, _): &(String, String)| {
            name.eq_ignore_ascii_case("attributes") || name.eq_ignore_ascii_case("excludedAttributes")
        };
        if query.iter().any(asks)
            && let Value::Object(body) = done.body
        {
            done.body = Value::Object(Query::of_url(query)?.returned.of(body));
        }
        Ok(done)
    }

    fn list(&self, kinds: &[Kind], query: Query) -> Result<Done> {
        let Query { start, count, filter, returned } = query;
        let count = count.min(self.options.page_max);
        if filter.is_some() && !self.options.filters {
            return Err(Refusal::of(400, "invalidFilter", "this service does not filter".into()));
        }
        let (page, total) = match filter {
            None => self.all(kinds, start, count, &returned)?,
            Some(filter) => self.filtered(kinds, &with_fractions(filter), start, count, &returned)?,
        };
        Ok(Done::new(200, list(page, Some(total), start)))
    }

    fn all(&self, kinds: &[Kind], start: u64, count: u64, returned: &Returned) -> Result<(Vec<Value>, u64)> {
        let (mut page, mut total) = (Vec::new(), 0);
        for kind in kinds {
            let from = (start - 1).saturating_sub(total);
            let most = count - page.len() as u64;
            self.database.each(*kind, &Selection::All, from, most, |resource| {
                page.push(Value::Object(returned.of(resource)));
            })?;
            total += self.database.count(*kind)?;
        }
        Ok((page, total))
    }

    fn filtered(
        &self,
        kinds: &[Kind],
        filter: &Filter,
        start: u64,
        count: u64,
        returned: &Returned,
    ) -> Result<(Vec<Value>, u64)> {
        let (mut page, mut total) = (Vec::new(), 0);
        for kind in kinds {
            self.database.each(*kind, &selection(*kind, filter), 0, u64::MAX, |resource| {
                if filter.holds(&resource) {
                    total += 1;
                    if total >= start && (page.len() as u64) < count {
                        page.push(Value::Object(returned.of(resource)));
                    }
                }
            })?;
        }
        Ok((page, total))
    }

    /// Several independent changes (section 3.7).
    fn bulk(&self, request: Value) -> Result<Done> {
        let mut request = object(request)?;
        let errors_max = get(&request, "failOnErrors").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let Some(Value::Array(operations)) = request.remove("Operations") else {
            return Err(Refusal::of(400, "invalidSyntax", "a bulk has Operations".into()));
        };
        if operations.len() > OPERATIONS_MAX {
            return Err(Refusal::plain(413, "more operations than maxOperations"));
        }
        let mut known: HashMap<String, String> = HashMap::new();
        let mut answers = Vec::with_capacity(operations.len());
        let mut errors = 0;
        for mut operation in operations {
            if errors >= errors_max {
                break;
            }
            name_known(&mut operation, &known);
            let text =
                |name: &str| operation.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
            let (method, path, bulk_id) = (text("method").to_ascii_uppercase(), text("path"), text("bulkId"));
            let done = self.operation(&method, &path, operation.get("data").cloned().unwrap_or_default());
            let done = done.unwrap_or_else(|refusal| Done::refused(&refusal));
            let mut answer = json!({"method": method, "status": done.status.to_string()});
            if !bulk_id.is_empty() {
                answer["bulkId"] = bulk_id.as_str().into();
            }
            if let Some(location) = done.body.get("meta").and_then(|meta| meta.get("location")) {
                answer["location"] = location.clone();
            }
            if done.status >= 400 {
                errors += 1;
                answer["response"] = done.body;
            } else if let Some(id) = done.body.get("id").and_then(Value::as_str) {
                // The first resource with this name keeps it.
                known.entry(format!("bulkId:{bulk_id}")).or_insert_with(|| id.into());
            }
            answers.push(answer);
        }
        let body =
            json!({"schemas": ["urn:ietf:params:scim:api:messages:2.0:BulkResponse"], "Operations": answers});
        Ok(Done::new(200, body))
    }

    fn operation(&self, method: &str, path: &str, data: Value) -> Result<Done> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        match parts.as_slice() {
            [kind] => self.write(method, kind_of(kind)?, None, data, None),
            [kind, id] => self.write(method, kind_of(kind)?, Some(id), data, None),
            _ => Err(missing()),
        }
    }

    fn provider(&self) -> Value {
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
            "patch": {"supported": true},
            "bulk": {"supported": true, "maxOperations": OPERATIONS_MAX, "maxPayloadSize": BODY_BYTES_MAX},
            "filter": {"supported": self.options.filters, "maxResults": self.options.page_max},
            "changePassword": {"supported": false},
            "sort": {"supported": false},
            "etag": {"supported": true},
            "authenticationSchemes": [{
                "type": "oauthbearertoken", "name": "Bearer token", "description": "A token that both sides know",
            }],
        })
    }
}

/// Refuses a method that a description of the service does not have, before the body of the request is read.
pub(super) fn check_method(request: &Request) -> Result<()> {
    let is_description = matches!(
        request.path.first().map(String::as_str),
        Some("ServiceProviderConfig" | "ResourceTypes" | "Schemas")
    );
    match is_description && request.method != "GET" {
        true => Err(Refusal::method("GET", "this is only read, by GET")),
        false => Ok(()),
    }
}

/// One of several descriptions, by its id.
fn described(all: Vec<Value>, id: &str) -> Result<Done> {
    let found = all.into_iter().find(|one| one.get("id").and_then(Value::as_str) == Some(id));
    Ok(Done::new(200, found.ok_or_else(missing)?))
}

fn missing() -> Refusal {
    Refusal::plain(404, "there is no such resource")
}

fn kind_of(name: &str) -> Result<Kind> {
    match name {
        "Users" => Ok(Kind::User),
        "Groups" => Ok(Kind::Group),
        _ => Err(missing()),
    }
}

/// The kinds of resources at a path: all at the root.
fn kinds_of(path: &[&str]) -> Result<Vec<Kind>> {
    match path {
        [] => Ok(Kind::ALL.to_vec()),
        [kind] => Ok(vec![kind_of(kind)?]),
        _ => Err(missing()),
    }
}

fn parsed(body: &[u8]) -> Result<Value> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::of(400, "invalidSyntax", format!("this is not JSON: {error}")))
}

fn object(body: Value) -> Result<Map<String, Value>> {
    match body {
        Value::Object(body) => Ok(body),
        _ => Err(Refusal::of(400, "invalidSyntax", "a resource is an object".into())),
    }
}

/// Whether a change has no effect: then the version does not change.
fn is_same(old: &StoredResource, new: &Map<String, Value>) -> bool {
    old.body.len() == new.len() + 2 && new.iter().all(|(key, value)| old.body.get(key) == Some(value))
}

/// Replaces references to resources of this bulk request by their ids.
fn name_known(value: &mut Value, known: &HashMap<String, String>) {
    match value {
        Value::String(text) if text.contains("bulkId:") => {
            let parts: Vec<&str> =
                text.split('/').map(|part| known.get(part).map_or(part, String::as_str)).collect();
            *text = parts.join("/");
        }
        Value::Array(all) => all.iter_mut().for_each(|value| name_known(value, known)),
        Value::Object(map) => map.values_mut().for_each(|value| name_known(value, known)),
        _ => {}
    }
}

/// The index selection that covers a filter.
fn selection(kind: Kind, filter: &Filter) -> Selection<'_> {
    let Filter::Compare(place, operator, Value::String(wanted)) = filter else { return Selection::All };
    if place.schema.is_some() {
        return Selection::All;
    }
    let part = place.part.as_deref().unwrap_or_default();
    match (place.attribute.to_ascii_lowercase().as_str(), part, operator) {
        ("id", "", Operator::Eq) => Selection::Id(wanted),
        ("username", "", Operator::Eq) if kind == Kind::User => Selection::Name(wanted.to_lowercase()),
        ("externalid", "", Operator::Eq) => Selection::External(wanted),
        ("meta", "lastModified", Operator::Gt | Operator::Ge) => Selection::Since(wanted),
        _ => Selection::All,
    }
}

/// Times are compared as text, so they need as many digits as the stored ones.
fn with_fractions(filter: Filter) -> Filter {
    match filter {
        Filter::All(terms) => Filter::All(terms.into_iter().map(with_fractions).collect()),
        Filter::Any(terms) => Filter::Any(terms.into_iter().map(with_fractions).collect()),
        Filter::Not(inner) => Filter::Not(Box::new(with_fractions(*inner))),
        Filter::Compare(place, operator, Value::String(text))
            if place.attribute.eq_ignore_ascii_case("meta") =>
        {
            let text = match text.strip_suffix('Z') {
                Some(seconds) if !text.contains('.') => format!("{seconds}.000Z"),
                _ => text,
            };
            Filter::Compare(place, operator, Value::String(text))
        }
        other => other,
    }
}

fn list(resources: Vec<Value>, total: Option<u64>, start: u64) -> Value {
    json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": total.unwrap_or(resources.len() as u64),
        "startIndex": start,
        "itemsPerPage": resources.len(),
        "Resources": resources,
    })
}

fn resource_types() -> Vec<Value> {
    Kind::ALL
        .into_iter()
        .map(|kind| {
            json!({
                "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
                "id": kind.name(),
                "name": kind.name(),
                "endpoint": format!("/{}s", kind.name()),
                "schema": schema::core(kind),
                "schemaExtensions": match kind {
                    Kind::User => json!([{"schema": schema::ENTERPRISE, "required": false}]),
                    Kind::Group => json!([]),
                },
                "meta": {"resourceType": "ResourceType", "location": format!("/scim/v2/ResourceTypes/{}", kind.name())},
            })
        })
        .collect()
}
