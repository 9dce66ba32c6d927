//! Types that LDIF files and LDAP messages share.

use std::fmt;

use crate::message::Value;

/// A control: an extension of a request or a response, identified by an object identifier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Control<'a> {
    /// Its object identifier, in dotted decimal.
    pub oid: &'a str,
    /// Whether a server that does not support the control must refuse the request.
    pub critical: bool,
    /// Its value, mostly in BER.
    pub value: Option<&'a [u8]>,
}

impl<'a> Control<'a> {
    /// A critical control without a value.
    pub const fn critical(oid: &'a str) -> Self {
        Control { oid, critical: true, value: None }
    }
}

/// Omits the value, which may be a secret.
impl fmt::Debug for Control<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.value.map(<[u8]>::len);
        out.debug_struct("Control")
            .field("oid", &self.oid)
            .field("critical", &self.critical)
            .field("value_bytes", &bytes)
            .finish()
    }
}

/// The operation of a modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyOperation {
    /// Adds them to the attribute.
    Add,
    /// Removes the values; without values, removes the whole attribute.
    Delete,
    /// Replaces all existing values; without values, removes the attribute.
    Replace,
    /// Adds its one value to a number (RFC 4525).
    Increment,
}

impl ModifyOperation {
    /// Its name in LDIF.
    pub const fn name(self) -> &'static str {
        match self {
            ModifyOperation::Add => "add",
            ModifyOperation::Delete => "delete",
            ModifyOperation::Replace => "replace",
            ModifyOperation::Increment => "increment",
        }
    }

    /// The operation with this name, ignoring case.
    pub fn named(name: &str) -> Option<Self> {
        use ModifyOperation::{Add, Delete, Increment, Replace};
        [Add, Delete, Replace, Increment].into_iter().find(|of| name.eq_ignore_ascii_case(of.name()))
    }
}

/// One change to one attribute of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modification<'a> {
    /// The operation.
    pub operation: ModifyOperation,
    /// The attribute description: a type, and options after semicolons.
    pub attribute: &'a str,
    /// The values.
    pub values: Vec<Value<'a>>,
}
