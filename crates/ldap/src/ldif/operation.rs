//! Converts a record to the request that makes its change.

use super::{Body, Record};
use crate::Control;
use crate::message::{Attribute, Change, List, Operation, Value};

impl Record<'_> {
    /// Calls `use_it` with the request for the record and its controls. For an entry, the request adds it.
    pub fn with_operation<T>(&self, use_it: impl FnOnce(&Operation<'_>, &[Control<'_>]) -> T) -> T {
        let dn = self.dn;
        match &self.body {
            Body::Entry(values) | Body::Add(values) => {
                let grouped = grouped(values);
                let attributes: Vec<Attribute<'_>> = grouped
                    .iter()
                    .map(|(name, values)| Attribute { name, values: List::from(values) })
                    .collect();
                use_it(&Operation::AddRequest { dn, attributes: List::from(&attributes) }, &self.controls)
            }
            Body::Delete => use_it(&Operation::DelRequest { dn }, &self.controls),
            Body::Modify(modifications) => {
                let changes: Vec<Change<'_>> = modifications
                    .iter()
                    .map(|of| Change {
                        operation: of.operation,
                        attribute: Attribute { name: of.attribute, values: List::from(&of.values) },
                    })
                    .collect();
                use_it(&Operation::ModifyRequest { dn, changes: List::from(&changes) }, &self.controls)
            }
            Body::ModifyDn { new_rdn, delete_old_rdn, new_superior } => {
                let (delete_old_rdn, new_superior) = (*delete_old_rdn, *new_superior);
                use_it(
                    &Operation::ModifyDnRequest { dn, new_rdn, delete_old_rdn, new_superior },
                    &self.controls,
                )
            }
        }
    }
}

/// The values grouped by attribute, as servers require; in a file they may be scattered.
fn grouped<'a>(values: &[(&'a str, &'a [u8])]) -> Vec<(&'a str, Vec<Value<'a>>)> {
    let mut grouped: Vec<(&str, Vec<Value<'_>>)> = Vec::new();
    for (name, value) in values {
        // From the end, because the values of an attribute are mostly adjacent.
        match grouped.iter_mut().rev().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, values)) => values.push(Value(value)),
            None => grouped.push((name, vec![Value(value)])),
        }
    }
    grouped
}
