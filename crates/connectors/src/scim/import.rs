//! Reads the resource list of a service, page by page.
//!
//! Pages are requested by index, so resources that are added or deleted meanwhile shift the unread part of
//! the list. Therefore each page begins with the last resource of the page before. If it does not, or if a
//! resource comes twice, reading begins again, and resources that were already returned are skipped. The
//! import is complete only if one pass met as many resources as the service reports; then every resource that
//! existed all the time was met.

use std::collections::HashMap;
use std::sync::Arc;
use std::vec::IntoIter;

use serde_json::Value;
use ureq::http::Method;

use super::client::escaped;
use super::path::get;
use super::{Shared, time};
use metadir::agent::{AgentError, DiscoveryError, Import, Imported, ImportedObject};
use metadir::hologram::Builder;
use metadir::index_key::IndexKey;

/// Limit of the passes over the list before the import fails.
const PASSES_MAX: u32 = 4;
/// Limit of the resources without `id` in one pass. They can be distinguished only by their content, so they
/// do not show whether the service invents resources.
const WITHOUT_ID_MAX: u32 = 1000;
/// The overlap of delta imports, seconds. The clock that stamps resources may lag behind the clock of the
/// responses, and a change may be stamped before it is visible.
const OVERLAP_S: i64 = 60;

pub(super) struct Pages {
    shared: Arc<Shared>,
    /// The filter of a delta import.
    filter: Option<String>,
    pass: u32,
    /// Number of resources that were read in this pass.
    position: u64,
    /// Number of those without `id`.
    without_id: u32,
    /// The last resource that was read.
    last: Option<IndexKey>,
    /// The last pass in which each resource was met.
    met: HashMap<IndexKey, u32>,
    page: IntoIter<Imported>,
    is_done: bool,
    watermark: Option<String>,
}

impl Pages {
    pub(super) fn new(shared: Arc<Shared>, filter: Option<String>) -> Pages {
        Pages {
            shared,
            filter,
            pass: 1,
            position: 0,
            without_id: 0,
            last: None,
            met: HashMap::new(),
            page: Vec::new().into_iter(),
            is_done: false,
            watermark: None,
        }
    }
}

impl Import for Pages {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        while batch.len() < most {
            match self.page.next() {
                Some(imported) => batch.push(imported),
                None if self.is_done => break,
                None => self.read_page()?,
            }
        }
        Ok(())
    }

    fn watermark(&self) -> Option<String> {
        self.watermark.clone()
    }
}

impl Pages {
    /// Reads the next page.
    fn read_page(&mut self) -> Result<(), AgentError> {
        let overlap = u64::from(self.position > 0);
        let start = self.position.max(1);
        let count = self.shared.page_size + overlap;
        let mut path = format!("/{}?startIndex={start}&count={count}", self.shared.resource.name());
        if let Some(filter) = &self.filter {
            path += &format!("&filter={}", escaped(filter));
        }
        let answer = self.shared.client.send(&Method::GET, &path, None)?;
        let failed = |why: String| self.shared.client.failed(&Method::GET, &path, why);
        if !answer.is_success() {
            return Err(failed(answer.error_text()));
        }
        let total = get(&answer.body, "totalResults").and_then(Value::as_u64);
        let total =
            total.ok_or_else(|| failed("its answer has no totalResults: it is not a list of SCIM".into()))?;
        let none = Vec::new();
        let resources = get(&answer.body, "Resources").and_then(Value::as_array).unwrap_or(&none);
        if self.watermark.is_none() {
            let begin = answer.date().and_then(time::of_http);
            self.watermark = begin.map(|begin| time::to_rfc3339(begin - OVERLAP_S));
        }
        let mut resources = resources.iter();
        if overlap > 0 && resources.next().map(key) != self.last {
            let why = "begins with another resource than the page before it ended with";
            return self.again(&path, start, why);
        }
        let mut page = Vec::with_capacity(resources.len());
        let before = self.position;
        for resource in resources {
            self.position += 1;
            let key = key(resource);
            self.last = Some(key);
            if id(resource).is_none() {
                self.without_id += 1;
                if self.without_id > WITHOUT_ID_MAX {
                    return Err(failed(format!(
                        "it lists more than {WITHOUT_ID_MAX} resources without id: it is not a list of SCIM"
                    )));
                }
            }
            match self.met.insert(key, self.pass) {
                Some(pass) if pass == self.pass => {
                    self.page = page.into_iter();
                    let place = self.shared.label(resource, self.position);
                    return self.again(&path, start, &format!("has {place} a second time"));
                }
                // An earlier pass returned it.
                Some(_) => {}
                None => page.push(self.shared.imported(resource, self.position)),
            }
        }
        self.page = page.into_iter();
        if self.position == total {
            self.is_done = true;
        } else if self.position == before {
            let why = format!("brings nothing new, after {before} of {total} (`totalResults`)");
            return self.again(&path, start, &why);
        } else if self.position > total {
            return self.again(&path, start, &format!("goes on behind the last of {total} (`totalResults`)"));
        }
        Ok(())
    }

    /// Begins another pass: the list was shifted, as the page from `start` on shows.
    fn again(&mut self, path: &str, start: u64, shown: &str) -> Result<(), AgentError> {
        if self.pass == PASSES_MAX {
            let why = format!(
                "the list of {} changed each of the {PASSES_MAX} times it was read, or its pages do not fit each other: \
                 the last time, the page from number {start} on {shown}; try a larger page_size, or a quieter time",
                self.shared.resource.name()
            );
            return Err(self.shared.client.failed(&Method::GET, path, why));
        }
        self.pass += 1;
        self.position = 0;
        self.without_id = 0;
        self.last = None;
        Ok(())
    }
}

/// The `id` of a resource.
fn id(resource: &Value) -> Option<&str> {
    get(resource, "id").and_then(Value::as_str).filter(|id| !id.is_empty())
}

/// The identity of a resource: its `id`, otherwise its content.
fn key(resource: &Value) -> IndexKey {
    match id(resource) {
        Some(id) => IndexKey::of(id.as_bytes()),
        None => IndexKey::of(format!("\0{resource}").as_bytes()),
    }
}

impl Shared {
    /// A text that identifies a resource for users.
    fn label(&self, resource: &Value, position: u64) -> String {
        match id(resource) {
            None => format!("number {position} of {}", self.resource.name()),
            Some(id) => format!("{}/{id}", self.resource.name()),
        }
    }

    /// A resource as an object, or the error in it.
    pub(super) fn imported(&self, resource: &Value, position: u64) -> Imported {
        let error = |kind, text: String| {
            Imported::Error(DiscoveryError { place: self.label(resource, position), kind, text })
        };
        if !resource.is_object() {
            return error("parse-error", "it is not an object of JSON".into());
        }
        if id(resource).is_none() {
            return error("missing-anchor", "it has no id".into());
        }
        let mut builder = Builder::default();
        for (attribute, path) in &self.paths {
            match path.values(resource) {
                Ok(values) => {
                    builder.push_all(*attribute, &mut values.iter().map(|value| value.as_bytes()).collect());
                }
                Err(why) => return error("invalid-attribute-value", why),
            }
        }
        let mut anchor = Vec::with_capacity(self.anchor.len());
        for path in &self.anchor {
            match path.values(resource).unwrap_or_default().as_slice() {
                [value] if !value.is_empty() => anchor.push(value.as_bytes().to_vec()),
                _ => return error("missing-anchor", format!("`{}` is not one value", path.text())),
            }
        }
        let name =
            self.name.as_ref().and_then(|name| name.values(resource).ok()?.first().map(ToString::to_string));
        Imported::Object(ImportedObject {
            anchor: IndexKey::of_parts(anchor.iter().map(Vec::as_slice)),
            dn: name.unwrap_or_default(),
            image: builder.finish(),
            line: None,
        })
    }
}
