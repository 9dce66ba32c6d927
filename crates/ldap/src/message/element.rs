//! The types of list elements in messages.

use super::{Attribute, Change, Element, List, Value, optional};
use crate::ber::{self, BerError, Decoder, ENUMERATED, Encoder, OCTETS, SEQUENCE, SET};
use crate::{Control, ModifyOperation};

impl<'a> Element<'a> for Value<'a> {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.octets(OCTETS, self.0);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError> {
        from.expect(OCTETS).map(Value)
    }
}

impl<'a> Element<'a> for &'a str {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.octets(OCTETS, self.as_bytes());
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError> {
        from.text(OCTETS)
    }
}

impl<'a> Element<'a> for Attribute<'a> {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.constructed(SEQUENCE, |to| {
            to.octets(OCTETS, self.name.as_bytes());
            self.values.encode(to, SET);
        });
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError> {
        let mut from = from.constructed(SEQUENCE)?;
        Ok(Attribute { name: from.text(OCTETS)?, values: List::decode(from.expect(SET)?)? })
    }
}

impl<'a> Element<'a> for Change<'a> {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.constructed(SEQUENCE, |to| {
            to.integer(ENUMERATED, self.operation as i64);
            self.attribute.encode(to);
        });
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError> {
        let mut from = from.constructed(SEQUENCE)?;
        let operation = match from.integer(ENUMERATED)? {
            0 => ModifyOperation::Add,
            1 => ModifyOperation::Delete,
            2 => ModifyOperation::Replace,
            3 => ModifyOperation::Increment,
            _ => return Err(BerError("an unknown modification")),
        };
        Ok(Change { operation, attribute: Attribute::decode(&mut from)? })
    }
}

impl<'a> Element<'a> for Control<'a> {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.constructed(SEQUENCE, |to| {
            to.octets(OCTETS, self.oid.as_bytes());
            if self.critical {
                to.boolean(ber::BOOLEAN, true);
            }
            optional(to, OCTETS, self.value);
        });
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError> {
        let mut from = from.constructed(SEQUENCE)?;
        Ok(Control {
            oid: from.text(OCTETS)?,
            critical: from.optional(ber::BOOLEAN)?.map(ber::as_boolean).transpose()?.unwrap_or(false),
            value: from.optional(OCTETS)?,
        })
    }
}
