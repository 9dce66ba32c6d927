//! The compact protocol of Apache Thrift, as far as the footer of a Parquet file needs it.
//!
//! The format: `doc/specs/thrift-compact-protocol.md` of the Thrift project.

/// The types of fields.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// An unsigned number in groups of seven bits.
pub(crate) fn unsigned(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A signed number, zigzag.
fn signed(value: i64, out: &mut Vec<u8>) {
    unsigned((value << 1 ^ value >> 63) as u64, out);
}

/// A structure whose fields are added in the order of their numbers.
#[derive(Default)]
pub(crate) struct Struct {
    bytes: Vec<u8>,
    last: i16,
}

impl Struct {
    pub(crate) fn new() -> Struct {
        Struct::default()
    }

    fn field(&mut self, number: i16, kind: u8) {
        let step = number - self.last;
        match u8::try_from(step) {
            Ok(step @ 1..=15) => self.bytes.push(step << 4 | kind),
            _ => {
                self.bytes.push(kind);
                signed(i64::from(number), &mut self.bytes);
            }
        }
        self.last = number;
    }

    /// A number of 32 bits, or of an enumeration.
    pub(crate) fn small(&mut self, number: i16, value: i32) -> &mut Struct {
        self.field(number, I32);
        signed(i64::from(value), &mut self.bytes);
        self
    }

    /// A number of 64 bits.
    pub(crate) fn long(&mut self, number: i16, value: u64) -> &mut Struct {
        self.field(number, I64);
        signed(i64::try_from(value).unwrap_or(i64::MAX), &mut self.bytes);
        self
    }

    pub(crate) fn text(&mut self, number: i16, text: &str) -> &mut Struct {
        self.field(number, BINARY);
        self.bytes_of(text);
        self
    }

    fn bytes_of(&mut self, text: &str) {
        unsigned(text.len() as u64, &mut self.bytes);
        self.bytes.extend(text.as_bytes());
    }

    pub(crate) fn inner(&mut self, number: i16, inner: Struct) -> &mut Struct {
        self.field(number, STRUCT);
        self.bytes.extend(inner.finish());
        self
    }

    fn list_of(&mut self, number: i16, length: usize, kind: u8) {
        self.field(number, LIST);
        match u8::try_from(length) {
            Ok(length @ 0..=14) => self.bytes.push(length << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                unsigned(length as u64, &mut self.bytes);
            }
        }
    }

    /// A list of numbers of an enumeration.
    pub(crate) fn smalls(&mut self, number: i16, values: &[i32]) -> &mut Struct {
        self.list_of(number, values.len(), I32);
        values.iter().for_each(|value| signed(i64::from(*value), &mut self.bytes));
        self
    }

    pub(crate) fn texts(&mut self, number: i16, texts: &[&str]) -> &mut Struct {
        self.list_of(number, texts.len(), BINARY);
        texts.iter().for_each(|text| self.bytes_of(text));
        self
    }

    pub(crate) fn list(&mut self, number: i16, structs: Vec<Struct>) -> &mut Struct {
        self.list_of(number, structs.len(), STRUCT);
        structs.into_iter().for_each(|of| self.bytes.extend(of.finish()));
        self
    }

    /// Its bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        // The end of the fields.
        self.bytes.push(0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_specification_has_them() {
        let mut inner = Struct::new();
        inner.small(1, -1);
        let mut of = Struct::new();
        of.small(1, 1).long(3, 300).text(4, "ab").smalls(40, &[1, -2]).inner(41, inner);
        of.list(42, (0..15).map(|_| Struct::new()).collect());
        let mut expected = vec![0x15, 2, 0x26, 0xd8, 0x04, 0x18, 2, b'a', b'b', 0x09, 80, 0x25, 2, 3];
        expected.extend([0x1c, 0x15, 1, 0, 0x19, 0xfc, 15]);
        expected.extend([0; 16]);
        assert_eq!(of.finish(), expected);
    }
}
