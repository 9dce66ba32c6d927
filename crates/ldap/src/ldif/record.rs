//! Converts lines to a record.

use std::ops::Range;

use super::{Body, LdifError, Record, is_attribute};
use crate::message::Value;
use crate::{Control, Modification, ModifyOperation};

/// A split line: both ranges refer to the reader's bytes.
pub(super) struct Item {
    pub(super) line: u64,
    /// Empty for the line `-`.
    pub(super) name: Range<usize>,
    pub(super) value: Range<usize>,
}

/// A split control line.
pub(super) struct ControlItem {
    pub(super) oid: Range<usize>,
    pub(super) critical: bool,
    pub(super) value: Option<Range<usize>>,
}

pub(super) fn bad(line: u64, what: impl Into<String>, help: &'static str) -> LdifError {
    LdifError { line, what: what.into(), help, last: false }
}

/// Builds a record from its lines.
pub(super) fn build<'a>(
    bytes: &'a [u8],
    begin: u64,
    controls: &[ControlItem],
    items: &[Item],
) -> Result<Record<'a>, LdifError> {
    let lines = Lines { bytes };
    let (first, rest) = match items.split_first() {
        Some((first, rest)) if lines.is(first, "dn") => (first, rest),
        _ => {
            let what = "a record begins with `dn:`, and this one does not";
            let help = "only comments and blank lines may precede it; use ldapsearch with -LLL";
            return Err(bad(begin, what, help));
        }
    };
    let dn = lines.text(first)?;
    let controls: Vec<Control<'a>> = controls
        .iter()
        .map(|control| Control {
            // Only digits and full stops, which was checked before.
            oid: std::str::from_utf8(&bytes[control.oid.clone()]).unwrap_or_default(),
            critical: control.critical,
            value: control.value.clone().map(|value| &bytes[value]),
        })
        .collect();
    let body = match rest.split_first() {
        Some((kind, rest)) if lines.is(kind, "changetype") => lines.change(kind, rest)?,
        _ if !controls.is_empty() => {
            let help = "write `changetype:` after the controls";
            return Err(bad(begin, "controls go with a change, and this record is an entry", help));
        }
        _ => Body::Entry(lines.attributes(rest)?),
    };
    Ok(Record { line: begin, dn, controls, body })
}

/// The bytes that the ranges of items refer to.
struct Lines<'a> {
    bytes: &'a [u8],
}

impl<'a> Lines<'a> {
    fn name(&self, item: &Item) -> &'a str {
        // Only letters, digits and a few punctuation characters, which was checked before.
        std::str::from_utf8(&self.bytes[item.name.clone()]).unwrap_or_default()
    }

    fn is(&self, item: &Item, name: &str) -> bool {
        self.bytes[item.name.clone()].eq_ignore_ascii_case(name.as_bytes())
    }

    fn value(&self, item: &Item) -> &'a [u8] {
        &self.bytes[item.value.clone()]
    }

    fn text(&self, item: &Item) -> Result<&'a str, LdifError> {
        std::str::from_utf8(self.value(item)).map_err(|_| {
            bad(item.line, format!("the value of {} is not UTF-8", self.name(item)), "write names in UTF-8")
        })
    }

    /// The error of a line at a place that requires another attribute.
    fn misplaced(&self, item: &Item, wanted: &'static str) -> LdifError {
        let found = match self.name(item) {
            "" => "-",
            name => name,
        };
        bad(item.line, format!("`{found}` is not allowed here"), wanted)
    }

    fn attributes(&self, items: &[Item]) -> Result<Vec<(&'a str, &'a [u8])>, LdifError> {
        // Collecting results would not reserve memory for all of them.
        let mut attributes = Vec::with_capacity(items.len());
        for item in items {
            match self.name(item) {
                "" => return Err(self.misplaced(item, "`-` ends a part of `changetype: modify`")),
                name if name.eq_ignore_ascii_case("dn") => {
                    return Err(self.misplaced(item, "put a blank line before the next record"));
                }
                name => attributes.push((name, self.value(item))),
            }
        }
        Ok(attributes)
    }

    fn change(&self, kind: &Item, rest: &[Item]) -> Result<Body<'a>, LdifError> {
        let word = self.value(kind).trim_ascii_end();
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("add") {
            Ok(Body::Add(self.attributes(rest)?))
        } else if is("delete") {
            match rest.first() {
                Some(item) => Err(self.misplaced(item, "`changetype: delete` has no further lines")),
                None => Ok(Body::Delete),
            }
        } else if is("modify") {
            Ok(Body::Modify(self.modifications(rest)?))
        } else if is("modrdn") || is("moddn") {
            self.rename(kind.line, rest)
        } else {
            Err(bad(kind.line, "this changetype is not known", "write add, delete, modify, modrdn or moddn"))
        }
    }

    fn modifications(&self, mut rest: &[Item]) -> Result<Vec<Modification<'a>>, LdifError> {
        let mut changes = Vec::new();
        while let [head, after @ ..] = rest {
            let Some(operation) = ModifyOperation::named(self.name(head)) else {
                return Err(self.misplaced(
                    head,
                    "write `add:`, `delete:`, `replace:` or `increment:` and an attribute",
                ));
            };
            let attribute = self.text(head)?.trim_end();
            if !is_attribute(attribute.as_bytes()) {
                return Err(bad(
                    head.line,
                    "this is not a name of an attribute",
                    "write one behind the colon",
                ));
            }
            let count = after.iter().position(|item| item.name.is_empty()).unwrap_or(after.len());
            let mut values = Vec::with_capacity(count);
            for item in &after[..count] {
                if !self.is(item, attribute) {
                    return Err(self.misplaced(
                        item,
                        "end this part with a line `-`, or give it the name of its first line",
                    ));
                }
                values.push(Value(self.value(item)));
            }
            changes.push(Modification { operation, attribute, values });
            rest = after.get(count + 1..).unwrap_or_default();
        }
        Ok(changes)
    }

    fn rename(&self, line: u64, rest: &[Item]) -> Result<Body<'a>, LdifError> {
        let order = "write newrdn, deleteoldrdn and, to move it, newsuperior, in this order";
        let (new_rdn, delete, superior) = match rest {
            [new_rdn, delete] => (new_rdn, delete, None),
            [new_rdn, delete, superior] => (new_rdn, delete, Some(superior)),
            [_, _, _, item, ..] => return Err(self.misplaced(item, order)),
            _ => return Err(bad(line, "newrdn or deleteoldrdn is missing", order)),
        };
        let named = [(Some(new_rdn), "newrdn"), (Some(delete), "deleteoldrdn"), (superior, "newsuperior")];
        for (item, name) in named {
            if let Some(item) = item.filter(|item| !self.is(item, name)) {
                return Err(self.misplaced(item, order));
            }
        }
        let delete_old_rdn = match self.value(delete).trim_ascii_end() {
            b"0" => false,
            b"1" => true,
            _ => {
                return Err(bad(
                    delete.line,
                    "deleteoldrdn is neither 0 nor 1",
                    "1 takes the old values from the entry",
                ));
            }
        };
        let new_superior = superior.map(|item| self.text(item)).transpose()?;
        Ok(Body::ModifyDn { new_rdn: self.text(new_rdn)?, delete_old_rdn, new_superior })
    }
}
