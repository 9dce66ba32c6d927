//! Converts changes to requests. Each change is idempotent: an existing resource is updated, a missing one
//! counts as deleted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

use serde_json::{Map, Value, json};
use ureq::http::Method;

use super::client::{escaped, is_no_target, made};
use super::path::{Path, get, member};
use super::{ID, Shared, USER_NAME};
use crate::scim::settings::{Resource, Update};
use metadir::agent::{AgentError, ChangedValues, ExportedObject, Refused};
use metadir::hologram::{Attribute, Hologram};
use metadir::object::Change;

type Outcome = Result<(), Refused>;

/// A change as one request.
struct Operation {
    method: Method,
    path: String,
    data: Option<Value>,
}

/// The attributes that change, as JSON values.
struct Values<'a> {
    /// Attributes with all their new values.
    whole: Vec<(&'a Path, Vec<Value>)>,
    /// Attributes with added and removed values.
    changed: Vec<(&'a Path, Changed)>,
}

/// Added and removed values.
struct Changed {
    added: Vec<Value>,
    removed: Vec<Value>,
}

impl Shared {
    pub(super) fn export(&self, changes: &[ExportedObject]) -> Result<Vec<Outcome>, AgentError> {
        let mut outcomes = vec![Err(Refused("it was not sent".into())); changes.len()];
        // Deletes and updates come first: they release names that others use.
        for kind in [Change::Delete, Change::Update, Change::Add] {
            let numbered = changes.iter().enumerate().filter(|(_, change)| change.change == kind);
            let numbered: Vec<(usize, &ExportedObject)> = numbered.collect();
            let units: Vec<&[(usize, &ExportedObject)]> = numbered.chunks(self.bulk.max(1)).collect();
            for (at, outcome) in self.in_parallel(&units)? {
                outcomes[at] = outcome;
            }
        }
        Ok(outcomes)
    }

    /// The resources that adds met, with the indexes of these changes.
    pub(super) fn met(&self, changes: &[ExportedObject]) -> Vec<(usize, Hologram)> {
        let mut existing = self.existing.lock().unwrap_or_else(PoisonError::into_inner);
        let met = existing.drain(..).filter_map(|((anchor, dn), image)| {
            let is_it = |change: &ExportedObject| {
                change.change == Change::Add && change.anchor == anchor && change.dn == dn
            };
            Some((changes.iter().position(is_it)?, image))
        });
        met.collect()
    }

    fn in_parallel(
        &self,
        units: &[&[(usize, &ExportedObject)]],
    ) -> Result<Vec<(usize, Outcome)>, AgentError> {
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(Ok(Vec::new()));
        let work = || {
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sent = self.send(unit);
                let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                match (&mut *outcomes, sent) {
                    (Ok(outcomes), Ok(sent)) => outcomes.extend(sent),
                    (Err(_), _) => return,
                    (all, Err(error)) => {
                        *all = Err(error);
                        return;
                    }
                }
            }
        };
        scope(|scope| {
            for _ in 1..self.connections.min(units.len()) {
                // If no further thread can be started, the existing ones do its work.
                if Builder::new().name("scim".into()).spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, unit: &[(usize, &ExportedObject)]) -> Result<Vec<(usize, Outcome)>, AgentError> {
        let mut outcomes = Vec::with_capacity(unit.len());
        let mut together = Vec::new();
        for (at, change) in unit {
            match self.operation(change) {
                Err(refused) => outcomes.push((*at, Err(refused))),
                Ok(Some(operation)) if self.bulk > 1 => together.push((*at, *change, operation)),
                Ok(Some(operation)) => outcomes.push((*at, self.alone(change, &operation)?)),
                Ok(None) => outcomes.push((*at, self.searched(change)?)),
            }
        }
        if !together.is_empty() {
            self.send_together(&together, &mut outcomes)?;
        }
        Ok(outcomes)
    }

    /// A change as one request; none if the service must be queried first.
    fn operation(&self, change: &ExportedObject) -> Result<Option<Operation>, Refused> {
        let values = self.values(change)?;
        if change.change == Change::Add {
            // Group names need not be unique, so a group that an earlier export created is searched for.
            if self.resource == Resource::Groups {
                return Ok(None);
            }
            let path = format!("/{}", self.resource.name());
            let data = self.resource(Map::new(), values);
            return Ok(Some(Operation { method: Method::POST, path, data: Some(data) }));
        }
        let Some(id) = self.text(change, self.id) else { return Ok(None) };
        let path = self.place(id);
        if change.change == Change::Delete {
            return Ok(Some(Operation { method: Method::DELETE, path, data: None }));
        }
        if self.update == Update::Put {
            return Ok(None);
        }
        let mut operations = Vec::new();
        for (path, new) in values.whole {
            let old = self.number(path).and_then(|number| change.image.get(number));
            let old: Vec<Vec<u8>> = old.into_iter().flat_map(|old| old.iter().map(<[u8]>::to_vec)).collect();
            path.operations(&path.written(&old).map_err(Refused)?, &new, &mut operations);
        }
        for (path, changed) in values.changed {
            path.operations(&changed.removed, &changed.added, &mut operations);
        }
        if operations.is_empty() {
            // The last import showed it as it is to be, and it was changed since.
            return Ok(None);
        }
        let data =
            json!({"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": operations});
        Ok(Some(Operation { method: Method::PATCH, path, data: Some(data) }))
    }

    /// The attributes that change, including the name.
    fn values(&self, change: &ExportedObject) -> Result<Values<'_>, Refused> {
        let path = |attribute: &Attribute| {
            let path = self.paths.iter().find(|(known, _)| known == attribute).map(|(_, path)| path);
            path.ok_or_else(|| {
                Refused("a flow writes an attribute that is not in `attributes` of its agent".into())
            })
        };
        let mut values =
            Values { whole: Vec::with_capacity(change.attributes.len() + 1), changed: Vec::new() };
        for (attribute, new) in &change.attributes {
            let path = path(attribute)?;
            values.whole.push((path, path.written(new).map_err(Refused)?));
        }
        for ChangedValues { attribute, added, removed } in &change.changed_values {
            let path = path(attribute)?;
            let (added, removed) = (path.written(added), path.written(removed));
            let changed = Changed { added: added.map_err(Refused)?, removed: removed.map_err(Refused)? };
            values.changed.push((path, changed));
        }
        let Some(name) = &self.name else { return Ok(values) };
        let wanted = match change.change {
            Change::Add => Some(&change.dn),
            Change::Update => change.new_dn.as_ref(),
            Change::Delete => None,
        };
        if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
            match values.whole.iter().find(|(path, _)| *path == name) {
                None => values.whole.push((name, vec![Value::from(wanted.as_str())])),
                Some((_, flowing)) if flowing.as_slice() == [Value::from(wanted.as_str())] => {}
                Some(_) => {
                    let why = format!(
                        "its name {wanted:?} is not the `{USER_NAME}` that flows to it: `dn` must give that"
                    );
                    return Err(Refused(why));
                }
            }
        }
        Ok(values)
    }

    /// A resource with these values.
    fn resource(&self, mut resource: Map<String, Value>, values: Values<'_>) -> Value {
        let core = match self.resource {
            Resource::Users => "urn:ietf:params:scim:schemas:core:2.0:User",
            Resource::Groups => "urn:ietf:params:scim:schemas:core:2.0:Group",
        };
        let mut schemas = match member(&mut resource, "schemas") {
            Value::Array(schemas) => std::mem::take(schemas),
            _ => Vec::new(),
        };
        for (path, new) in values.whole {
            path.set(&mut resource, new);
        }
        for (path, Changed { added, removed }) in values.changed {
            let all = path.with_others(&resource, &removed, added);
            path.set(&mut resource, all);
        }
        let extensions = self.paths.iter().filter_map(|(_, path)| path.schema());
        let used: Vec<&str> = extensions.filter(|schema| resource.contains_key(*schema)).collect();
        for schema in [core].into_iter().chain(used) {
            if !schemas.iter().any(|known| known == schema) {
                schemas.push(schema.into());
            }
        }
        *member(&mut resource, "schemas") = Value::Array(schemas);
        Value::Object(resource)
    }

    fn number(&self, path: &Path) -> Option<Attribute> {
        self.paths.iter().find(|(_, known)| known == path).map(|(number, _)| *number)
    }

    /// The last imported or sent value of an attribute.
    fn text<'a>(&self, change: &'a ExportedObject, attribute: Attribute) -> Option<&'a str> {
        std::str::from_utf8(change.image.first(attribute)?).ok()
    }

    fn place(&self, id: &str) -> String {
        format!("/{}/{}", self.resource.name(), escaped(id))
    }

    fn alone(&self, change: &ExportedObject, operation: &Operation) -> Result<Outcome, AgentError> {
        let answer = self.client.send(&operation.method, &operation.path, operation.data.as_ref())?;
        match self.judged(change, answer.status, &answer.body) {
            Some(outcome) => Ok(outcome),
            None => self.searched(change),
        }
    }

    /// The outcome of a response; none if the current state must be queried.
    fn judged(&self, change: &ExportedObject, status: u16, body: &Value) -> Option<Outcome> {
        match (change.change, status) {
            (Change::Add, 409) => None,
            (Change::Delete, 404 | 410) => Some(Ok(())),
            // The resource has other values than at the last import.
            (Change::Update, 400) if is_no_target(status, body) => None,
            _ => Some(made(status, body)),
        }
    }

    /// Makes a change after a query of the current state.
    fn searched(&self, change: &ExportedObject) -> Result<Outcome, AgentError> {
        let values = match self.values(change) {
            Ok(values) => values,
            Err(refused) => return Ok(Err(refused)),
        };
        let found = match self.found(change)? {
            Ok(found) => found,
            Err(refused) => return Ok(Err(refused)),
        };
        let Some(found) = found else {
            return match change.change {
                Change::Delete => Ok(Ok(())),
                Change::Update => Ok(Err(Refused("it does not exist any more: run a full-import".into()))),
                Change::Add => {
                    let data = self.resource(Map::new(), values);
                    let answer = self.client.send(
                        &Method::POST,
                        &format!("/{}", self.resource.name()),
                        Some(&data),
                    )?;
                    Ok(made(answer.status, &answer.body))
                }
            };
        };
        if change.change == Change::Add && !change.adopts {
            self.keep_existing(change, &found);
            return Ok(Err(Refused("the service has it already".into())));
        }
        let Some(id) = found.get(ID).and_then(Value::as_str).map(String::from) else {
            return Ok(Err(Refused("the service has it without an id".into())));
        };
        let path = self.place(&id);
        if change.change == Change::Delete {
            let answer = self.client.send(&Method::DELETE, &path, None)?;
            return Ok(self.judged(change, answer.status, &answer.body).unwrap_or(Ok(())));
        }
        let data = self.resource(found, values);
        let answer = self.client.send(&Method::PUT, &path, Some(&data))?;
        Ok(made(answer.status, &answer.body))
    }

    /// Keeps the values of a resource that was to be created and exists.
    fn keep_existing(&self, change: &ExportedObject, found: &Map<String, Value>) {
        let resource = Value::Object(found.clone());
        let of_path = |(attribute, path): &(Attribute, Path)| {
            let values = path.values(&resource).ok()?;
            Some((*attribute, values.iter().map(|value| value.as_bytes().to_vec()).collect()))
        };
        let image = self.paths.iter().filter_map(of_path).collect();
        let mut existing = self.existing.lock().unwrap_or_else(PoisonError::into_inner);
        existing.push(((change.anchor, change.dn.clone()), image));
    }

    /// The current resource of a change, found by its id, otherwise by its name.
    fn found(
        &self,
        change: &ExportedObject,
    ) -> Result<Result<Option<Map<String, Value>>, Refused>, AgentError> {
        if let Some(id) = self.text(change, self.id) {
            let answer = self.client.send(&Method::GET, &self.place(id), None)?;
            return Ok(match (answer.status, answer.body) {
                (404, _) => Ok(None),
                (200, Value::Object(found)) => Ok(Some(found)),
                (status, body) => {
                    made(status, &body).and(Err(Refused("the service returned no resource".into())))
                }
            });
        }
        // The name of a user, or the future anchor of a group.
        let path = self.name.as_ref().or(match self.anchor.as_slice() {
            [anchor] => Some(anchor),
            _ => None,
        });
        let sent = path.and_then(|path| self.text(change, self.number(path)?));
        let named = self.name.is_some().then_some(change.dn.as_str());
        let value = sent.or(named).filter(|value| !value.is_empty());
        match path.zip(value) {
            Some((path, value)) => self.search(path, value),
            None if change.change == Change::Add => Ok(Ok(None)),
            None => {
                Ok(Err(Refused("no import has shown its id yet: run a full-import of this agent".into())))
            }
        }
    }

    /// The only resource with this value.
    fn search(
        &self,
        path: &Path,
        value: &str,
    ) -> Result<Result<Option<Map<String, Value>>, Refused>, AgentError> {
        let filter = format!("{} eq {}", path.text(), Value::from(value));
        let query = format!("/{}?filter={}", self.resource.name(), escaped(&filter));
        let mut answer = self.client.send(&Method::GET, &query, None)?;
        if let Err(refused) = made(answer.status, &answer.body) {
            return Ok(Err(refused));
        }
        let resources = answer.body.as_object_mut().map(|body| member(body, "Resources").take());
        let Some(Value::Array(resources)) = resources else { return Ok(Ok(None)) };
        // A service without filters returns other resources too.
        let mut found = resources.into_iter().filter(|resource| {
            let values = path.values(resource).unwrap_or_default();
            values.iter().any(|found| found.to_lowercase() == value.to_lowercase())
        });
        Ok(match (found.next(), found.next()) {
            (None, _) => Ok(None),
            (Some(Value::Object(one)), None) => Ok(Some(one)),
            _ => Err(Refused(format!("the service has several with this `{}`", path.text()))),
        })
    }

    /// Sends several changes in one bulk request (RFC 7644, section 3.7).
    fn send_together(
        &self,
        changes: &[(usize, &ExportedObject, Operation)],
        outcomes: &mut Vec<(usize, Outcome)>,
    ) -> Result<(), AgentError> {
        let operations = changes.iter().enumerate().map(|(number, (_, _, operation))| {
            let mut one = json!({"method": operation.method.as_str(), "path": operation.path, "bulkId": number.to_string()});
            if let Some(data) = &operation.data {
                one["data"] = data.clone();
            }
            one
        });
        let operations: Vec<Value> = operations.collect();
        let data = json!({"schemas": ["urn:ietf:params:scim:api:messages:2.0:BulkRequest"], "Operations": operations});
        let answer = self.client.send(&Method::POST, "/Bulk", Some(&data))?;
        if !answer.is_success() {
            let help = match answer.status {
                413 => "; write a smaller `bulk`",
                404 | 405 | 501 => "; write bulk = 0, for a request for each change",
                _ => "",
            };
            return Err(self.client.failed(&Method::POST, "/Bulk", answer.error_text() + help));
        }
        let none = Vec::new();
        let answers = get(&answer.body, "Operations").and_then(Value::as_array).unwrap_or(&none);
        let mut of: Vec<Option<&Value>> = vec![None; changes.len()];
        for answer in answers {
            let number =
                get(answer, "bulkId").and_then(Value::as_str).and_then(|id| id.parse::<usize>().ok());
            if let Some(place) = number.and_then(|number| of.get_mut(number)) {
                *place = Some(answer);
            }
        }
        for ((at, change, operation), answer) in changes.iter().zip(of) {
            let status = answer.and_then(|answer| get(answer, "status")).and_then(number);
            let body = answer.and_then(|answer| get(answer, "response")).unwrap_or(&Value::Null);
            let outcome = match status {
                // Without an answer, or if the service was too busy, the change is sent separately.
                None | Some(429 | 500..) => self.alone(change, operation)?,
                Some(status) => match self.judged(change, status, body) {
                    Some(outcome) => outcome,
                    None => self.searched(change)?,
                },
            };
            outcomes.push((*at, outcome));
        }
        Ok(())
    }
}

/// A status, which some services write as a number and others as `{"code": "201"}`.
fn number(status: &Value) -> Option<u16> {
    match status {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Value::Object(_) => get(status, "code").and_then(number),
        _ => None,
    }
}
