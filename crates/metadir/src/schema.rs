//! Types of attributes and of objects.

/// What sort of values an attribute has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Text in UTF-8.
    Text,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// Any bytes.
    Binary,
    /// Another object.
    Reference,
}

impl Type {
    /// All of them, by the names they have in a configuration.
    pub const NAMES: [(&'static str, Type); 5] = [
        ("text", Type::Text),
        ("integer", Type::Integer),
        ("boolean", Type::Boolean),
        ("binary", Type::Binary),
        ("reference", Type::Reference),
    ];
}
