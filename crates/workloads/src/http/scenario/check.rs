//! Checks of a response.

use memchr::memmem;
use regex::bytes::Regex;

use super::file::{Sizes, Statuses};
use super::find::{Document, Finder};
use crate::template::{RenderError, Template, Use, Values};

/// A compiled check.
pub(super) struct Check {
    pub(super) condition: Condition,
    pub(super) is_absent: bool,
}

/// A compiled condition.
pub(super) enum Condition {
    Status(Statuses),
    Size(Sizes),
    Contains(Template),
    Value(Finder, Expected),
}

/// What a value must be.
pub(super) enum Expected {
    Anything,
    Equals(Template),
    Contains(Template),
    Matches(Regex),
}

impl Check {
    /// Whether it needs the body of a response.
    pub(super) fn needs_body(&self) -> bool {
        match &self.condition {
            Condition::Status(_) | Condition::Size(_) => false,
            Condition::Contains(_) => true,
            Condition::Value(finder, _) => finder.needs_body(),
        }
    }

    /// Whether the check passes. `scratch` is overwritten.
    ///
    /// A check that something is absent fails for a truncated body: the rest of it is not known.
    pub(super) fn passes(
        &self,
        document: &Document<'_>,
        values: &mut Values<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, RenderError> {
        if self.is_absent && self.needs_body() && document.response.is_truncated {
            return Ok(false);
        }
        Ok(self.condition.holds(document, values, scratch)? != self.is_absent)
    }
}

impl Condition {
    fn holds(
        &self,
        document: &Document<'_>,
        values: &mut Values<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, RenderError> {
        let response = document.response;
        let mut rendered = |template: &Template| -> Result<(), RenderError> {
            scratch.clear();
            template.render(values, Use::Body, scratch)
        };
        Ok(match self {
            Condition::Status(statuses) => statuses.contains(response.status),
            Condition::Size(sizes) => sizes.0.contains(&response.body_bytes),
            Condition::Contains(template) => {
                rendered(template)?;
                memmem::find(response.body, scratch).is_some()
            }
            Condition::Value(finder, expected) => {
                let Some(value) = finder.find(document) else { return Ok(false) };
                match expected {
                    Expected::Anything => true,
                    Expected::Equals(template) => {
                        rendered(template)?;
                        *value == **scratch
                    }
                    Expected::Contains(template) => {
                        rendered(template)?;
                        memmem::find(&value, scratch).is_some()
                    }
                    Expected::Matches(regex) => regex.is_match(&value),
                }
            }
        })
    }
}
