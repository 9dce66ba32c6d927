//! Types of attributes and of objects.

/// The type of the values of an attribute.
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
    /// A reference to another object.
    Reference,
}

impl Type {
    /// All types with their names in a configuration.
    pub const NAMES: [(&'static str, Type); 5] = [
        ("text", Type::Text),
        ("integer", Type::Integer),
        ("boolean", Type::Boolean),
        ("binary", Type::Binary),
        ("reference", Type::Reference),
    ];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}
