//! Requests that are encoded once, and written many times with other values and identifiers.
//!
//! A [`slot`] is a character that stands for a value in the texts of an operation. [`Template::new`] encodes the operation
//! with these characters and cuts the result at them. To write a request then means to copy the pieces and the values, from
//! the last to the first, so that the length of each element is known when its header is written.

use std::ops::Range;

use crate::Control;
use crate::ber::{self, BerError, INTEGER};
use crate::message::{ID_MAX, List, Message, Operation};

/// The first identifier that has four bytes in its shortest form, and so the same length as all above it.
pub const ID_MIN: u32 = 0x0080_0000;

/// Number of slots of a template.
pub const SLOTS_MAX: usize = 4096;

/// The code point of the first slot, in a private-use plane.
const FIRST_SLOT: u32 = 0xf_0000;

/// Bytes of a slot in UTF-8.
const SLOT_BYTES: usize = 4;

/// The longest header of an element: a tag, and a length of up to eight bytes with their number.
const HEADER_BYTES_MAX: usize = 10;

/// Bytes of the identifier with its header.
const ID_BYTES: usize = 6;

/// The character that stands for value `number`, below [`SLOTS_MAX`].
pub fn slot(number: usize) -> char {
    let number = number.min(SLOTS_MAX - 1) as u32;
    char::from_u32(FIRST_SLOT + number).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Whether a character is a slot, and so cannot be in a text of its own.
pub fn is_slot(character: char) -> bool {
    (FIRST_SLOT..FIRST_SLOT + SLOTS_MAX as u32).contains(&u32::from(character))
}

/// A request whose values differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    slots: Vec<usize>,
    /// The length without the values, at most.
    bytes_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// These bytes of the template.
    Literal(Range<usize>),
    /// The value of a slot.
    Value(usize),
    /// The identifier of the message.
    Id,
    /// An element with this tag begins, whose length depends on values.
    Begin(u8),
    /// It ends.
    End,
}

impl Template {
    /// Encodes an operation whose texts may have slots, with its controls.
    ///
    /// # Errors
    /// If the operation contains more than [`SLOTS_MAX`] slots.
    pub fn new(operation: &Operation<'_>, controls: &[Control<'_>]) -> Result<Template, BerError> {
        let mut bytes = Vec::new();
        let message = Message { id: ID_MIN, operation: *operation, controls: List::from(controls) };
        message.encode(&mut bytes);
        let mut template = Template { bytes, parts: Vec::new(), slots: Vec::new(), bytes_max: 0 };
        template.cut_message()?;
        if template.slots.len() > SLOTS_MAX {
            return Err(BerError("a request has more than 4096 values"));
        }
        let lengths = template.parts.iter().map(|part| match part {
            Part::Literal(range) => range.len(),
            Part::Id => ID_BYTES,
            Part::Begin(_) => HEADER_BYTES_MAX,
            Part::Value(_) | Part::End => 0,
        });
        template.bytes_max = lengths.sum();
        Ok(template)
    }

    /// The slots, in the order in which they occur.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    fn cut_message(&mut self) -> Result<(), BerError> {
        let whole = self.bytes.len();
        let Some(outer) = ber::header(&self.bytes)? else { return Ok(()) };
        self.parts.push(Part::Begin(outer.tag));
        self.parts.push(Part::Id);
        self.cut(outer.begin + ID_BYTES..whole)?;
        self.parts.push(Part::End);
        Ok(())
    }

    /// Cuts the elements in these bytes.
    fn cut(&mut self, range: Range<usize>) -> Result<(), BerError> {
        const CONSTRUCTED: u8 = 0x20;
        let mut at = range.start;
        while at < range.end {
            let Some(header) = ber::header(&self.bytes[at..range.end])? else { break };
            let content = at + header.begin..at + header.begin + header.length;
            let end = content.end;
            if !self.has_slot(&content) {
                self.literal(at..end);
            } else {
                self.parts.push(Part::Begin(header.tag));
                match header.tag & CONSTRUCTED {
                    0 => self.cut_text(content),
                    _ => self.cut(content)?,
                }
                self.parts.push(Part::End);
            }
            at = end;
        }
        Ok(())
    }

    fn has_slot(&self, range: &Range<usize>) -> bool {
        self.bytes[range.clone()].windows(SLOT_BYTES).any(|window| slot_of(window).is_some())
    }

    /// Cuts the content of an element at its slots.
    fn cut_text(&mut self, range: Range<usize>) {
        let (mut from, mut at) = (range.start, range.start);
        while at + SLOT_BYTES <= range.end {
            match slot_of(&self.bytes[at..at + SLOT_BYTES]) {
                Some(slot) => {
                    self.literal(from..at);
                    self.parts.push(Part::Value(slot));
                    self.slots.push(slot);
                    at += SLOT_BYTES;
                    from = at;
                }
                None => at += 1,
            }
        }
        self.literal(from..range.end);
    }

    fn literal(&mut self, range: Range<usize>) {
        match self.parts.last_mut() {
            _ if range.is_empty() => {}
            Some(Part::Literal(last)) if last.end == range.start => last.end = range.end,
            _ => self.parts.push(Part::Literal(range)),
        }
    }
}

/// The slot that these bytes are.
fn slot_of(bytes: &[u8]) -> Option<usize> {
    let [0xf3, second @ 0xb0..=0xb0, third @ 0x80..=0xbf, fourth @ 0x80..=0xbf] = bytes else { return None };
    let point =
        3 << 18 | u32::from(second & 0x3f) << 12 | u32::from(third & 0x3f) << 6 | u32::from(fourth & 0x3f);
    point.checked_sub(FIRST_SLOT).map(|number| number as usize).filter(|number| *number < SLOTS_MAX)
}

/// Writes requests. Allocates nothing once its buffers have grown.
#[derive(Debug, Default)]
pub struct RequestWriter {
    /// The request, at the end.
    buffer: Vec<u8>,
    /// The ends of the elements that are being written.
    ends: Vec<usize>,
}

impl RequestWriter {
    /// Appends a request to `out`. `id` is from [`ID_MIN`] to [`ID_MAX`], and `value` returns the value of a slot.
    pub fn write<'v>(
        &mut self,
        template: &Template,
        id: u32,
        value: impl Fn(usize) -> &'v [u8],
        out: &mut Vec<u8>,
    ) {
        let values: usize = template.slots.iter().map(|slot| value(*slot).len()).sum();
        let needed = template.bytes_max + values;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        let mut back = Backward { at: self.buffer.len(), buffer: &mut self.buffer };
        for part in template.parts.iter().rev() {
            match part {
                Part::Literal(range) => back.put(&template.bytes[range.clone()]),
                Part::Value(slot) => back.put(value(*slot)),
                Part::Id => {
                    back.put(&id.clamp(ID_MIN, ID_MAX).to_be_bytes());
                    back.put(&[INTEGER, 4]);
                }
                Part::End => self.ends.push(back.at),
                Part::Begin(tag) => {
                    let end = self.ends.pop().unwrap_or(back.at);
                    back.header(*tag, end - back.at);
                }
            }
        }
        out.extend_from_slice(&back.buffer[back.at..]);
    }
}

/// Bytes that are written from the last to the first.
struct Backward<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl Backward<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let begin = self.at - bytes.len();
        self.buffer[begin..self.at].copy_from_slice(bytes);
        self.at = begin;
    }

    #[inline]
    fn header(&mut self, tag: u8, length: usize) {
        match u8::try_from(length) {
            Ok(short @ 0..=127) => self.put(&[tag, short]),
            _ => {
                let bytes = length.to_be_bytes();
                let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
                self.put(&bytes[first..]);
                self.put(&[tag, 0x80 | (bytes.len() - first) as u8]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Attribute, Change, SearchRequest, Value};
    use crate::{Filter, ModifyOperation};

    /// Gets an operation, and what makes one of two texts and gives it to that.
    type Take<'a> = &'a mut dyn FnMut(Operation<'_>);
    type Make<'a> = &'a dyn Fn(&str, &str, Take<'_>);

    /// Calls `make` with texts for two values: of slots for the template, and as they are for the message that the request
    /// must be equal to.
    fn compare(values: [&str; 2], make: Make<'_>) {
        let (mut template, mut expected) = (None, Vec::new());
        make(&slot(0).to_string(), &slot(1).to_string(), &mut |operation| {
            template = Some(Template::new(&operation, &[Control::critical("1.2.3")]).unwrap());
        });
        make(values[0], values[1], &mut |operation| {
            let controls = [Control::critical("1.2.3")];
            Message { id: 0x1234_5678, operation, controls: List::from(&controls) }.encode(&mut expected);
        });
        let mut out = b"before".to_vec();
        let template = template.unwrap();
        RequestWriter::default().write(&template, 0x1234_5678, |at| values[at].as_bytes(), &mut out);
        assert_eq!(&out[6..], expected, "{values:?}");
    }

    /// Every kind of request with two values.
    fn compare_all(values: [&str; 2]) {
        compare(values, &|one, other, take| {
            let filter = Filter::Or(vec![
                Filter::Not(Box::new(Filter::Present(format!("cn{one}")))),
                Filter::Equal(crate::filter::Assertion {
                    attribute: "uid".into(),
                    value: format!("user.{one}-{other}{one}").into_bytes(),
                }),
                Filter::Present("mail".into()),
            ]);
            let base = format!("ou={other},dc=a");
            let names = [one, "mail"];
            let search =
                SearchRequest { attributes: List::from(&names), ..SearchRequest::subtree(&base, &filter) };
            take(Operation::SearchRequest(search));
        });
        compare(values, &|one, other, take| {
            let values = [Value(other.as_bytes()), Value(b"x")];
            let attribute = Attribute { name: "cn", values: List::from(&values) };
            let changes = [Change { operation: ModifyOperation::Replace, attribute }];
            take(Operation::ModifyRequest { dn: one, changes: List::from(&changes) });
        });
        compare(values, &|one, other, take| {
            let values = [Value(other.as_bytes())];
            let attributes = [
                Attribute { name: "objectClass", values: List::from(&[Value(b"person")]) },
                Attribute { name: "sn", values: List::from(&values) },
            ];
            take(Operation::AddRequest {
                dn: &format!("cn={one},dc=a"),
                attributes: List::from(&attributes),
            });
        });
        compare(values, &|one, _, take| take(Operation::DelRequest { dn: one }));
        compare(values, &|one, other, take| take(Operation::simple_bind(one, other.as_bytes())));
        compare(values, &|one, other, take| {
            take(Operation::CompareRequest { dn: one, attribute: "mail", value: Value(other.as_bytes()) });
        });
        compare(values, &|_, _, take| take(Operation::UnbindRequest));
    }

    #[test]
    fn requests_are_as_if_encoded_with_the_values() {
        let long = "x".repeat(70_000);
        for values in [["", ""], ["7", "abc"], [&long[..100], &long[..130]], [&long, &long[..200]]] {
            compare_all(values);
        }
    }

    #[test]
    fn slots_are_found_and_nothing_else_is() {
        assert!(is_slot(slot(0)) && is_slot(slot(SLOTS_MAX - 1)) && slot(3) != slot(4));
        let text = format!("cn={}{} {},dc=\u{fffff}\u{ef000}", slot(9), slot(4095), slot(9));
        let template = Template::new(&Operation::DelRequest { dn: &text }, &[]).unwrap();
        assert_eq!(template.slots(), [9, 4095, 9]);
        let many: String = (0..=SLOTS_MAX).map(slot).collect();
        assert!(Template::new(&Operation::DelRequest { dn: &many }, &[]).is_err());
    }

    proptest! {
        #[test]
        fn any_values_are_written_as_they_are(one in "\\PC{0,300}", other in "\\PC{0,9}") {
            prop_assume!(!one.chars().chain(other.chars()).any(is_slot));
            compare_all([&one, &other]);
        }
    }
}
