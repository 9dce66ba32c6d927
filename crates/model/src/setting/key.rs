//! Settings with the Rust types of their values: described once, and read without names in strings.

use std::marker::PhantomData;
use std::ops::{Deref, RangeInclusive};

use super::{Level, PathUse, SettingInfo, SettingKind};
use crate::{Nanos, Secret, SecretParts, quantity};

/// A setting with a value of type `T`: its description, and the argument of
/// [`Settings::get`](super::Settings::get).
///
/// Keys are defined by [`settings!`](crate::settings), which also creates their table.
#[derive(Debug)]
pub struct Key<T> {
    /// Its entry in the table.
    pub info: SettingInfo,
    value: PhantomData<fn() -> T>,
}

impl<T> Deref for Key<T> {
    type Target = SettingInfo;

    fn deref(&self) -> &SettingInfo {
        &self.info
    }
}

/// A type of setting values.
pub trait Value: Default {
    /// The type without `Option`.
    type Plain;

    /// Whether a setting of this type needs no default.
    const MAY_BE_ABSENT: bool = false;

    /// The value of a level; none if the level has another kind, as in a damaged record.
    fn from_level(kind: &SettingKind, level: &Level) -> Option<Self>;
}

/// A whole number that counts things.
pub trait WholeNumber: Value {
    /// The maximum.
    const MAX: u64;
}

/// An enum with words; [`choice!`](crate::choice) defines it.
pub trait Choice: Value {
    /// All words; the first is the default.
    const WORDS: &'static [&'static str];

    /// The word of this value.
    fn word(&self) -> &'static str;

    /// The level of this value.
    fn level(&self) -> Level {
        Level::Text(self.word().into())
    }
}

impl<T: Value> Key<T> {
    const fn new(name: &'static str, kind: SettingKind, default: &'static str, about: &'static str) -> Self {
        assert!(T::MAY_BE_ABSENT || !default.is_empty(), "a setting without a default is an Option");
        Key { info: SettingInfo { name, kind, default, about }, value: PhantomData }
    }

    /// The default value.
    pub fn default(&self) -> T {
        // Tests of all tables ensure that each default is valid for its kind.
        self.parse(self.info.default).ok().and_then(|level| self.value(&level)).unwrap_or_default()
    }

    /// The value of a level, if it has the right kind.
    pub fn value(&self, level: &Level) -> Option<T> {
        T::from_level(&self.info.kind, level)
    }

    /// Parses a level, for example from a command line.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(&self, text: &str) -> Result<Level, String> {
        self.info.kind.parse(text)
    }
}

impl<T: Value<Plain = bool>> Key<T> {
    /// True or false.
    pub const fn flag(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Flag, default, about)
    }
}

impl<T: Value> Key<T>
where
    T::Plain: WholeNumber,
{
    /// A whole number within bounds. An empty default means none, here and below.
    pub const fn count(
        name: &'static str,
        bounds: RangeInclusive<u64>,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        let (min, max) = (*bounds.start(), *bounds.end());
        assert!(max <= T::Plain::MAX, "the type is too small for the bounds");
        Self::new(name, SettingKind::Count { min, max }, default, about)
    }
}

impl<T: Value<Plain = u64>> Key<T> {
    /// A size in bytes.
    pub const fn bytes(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Bytes, default, about)
    }

    /// A duration in nanoseconds.
    pub const fn time(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Time, default, about)
    }
}

impl Key<Option<Nanos>> {
    /// A duration, or a word that means none.
    pub const fn time_or(
        name: &'static str,
        word: &'static str,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        Self::new(name, SettingKind::TimeOr(word), default, about)
    }
}

impl<T: Value<Plain = f64>> Key<T> {
    /// A plain number within bounds, for example a factor.
    pub const fn number(
        name: &'static str,
        bounds: RangeInclusive<f64>,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        let (min, max) = (*bounds.start(), *bounds.end());
        Self::new(name, SettingKind::Number { min, max }, default, about)
    }

    /// A share in percent, 0 to 100.
    pub const fn percent(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Percent, default, about)
    }

    /// Operations per second.
    pub const fn rate(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Rate, default, about)
    }
}

impl<T: Value<Plain = String>> Key<T> {
    /// A text; the owner of the setting validates it.
    pub const fn text(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Text, default, about)
    }

    /// The path of a file, a folder or a device.
    pub const fn path(
        name: &'static str,
        path_use: PathUse,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        Self::new(name, SettingKind::Path(path_use), default, about)
    }

    /// A size or a mix of sizes; the owner of the setting parses the mix.
    pub const fn sizes(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Sizes, default, about)
    }
}

impl Key<Vec<String>> {
    /// One or more texts.
    pub const fn texts(name: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Texts, "", about)
    }

    /// One or more paths.
    pub const fn paths(name: &'static str, path_use: PathUse, about: &'static str) -> Self {
        Self::new(name, SettingKind::Paths(path_use), "", about)
    }
}

impl<T: Choice> Key<T> {
    /// One of several words; the first is the default.
    pub const fn choice(name: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Choice(T::WORDS), T::WORDS[0], about)
    }
}

impl Key<Option<Secret>> {
    /// A text with secret parts.
    pub const fn secret(name: &'static str, parts: SecretParts, about: &'static str) -> Self {
        Self::new(name, SettingKind::Secret(parts), "", about)
    }

    /// A command line. Credentials in it are hidden in everything that is recorded or shown.
    pub const fn command(name: &'static str, about: &'static str) -> Self {
        Self::secret(name, SecretParts::Command, about)
    }
}

impl Key<Secret> {
    /// A command line with a default.
    pub const fn command_or(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::new(name, SettingKind::Secret(SecretParts::Command), default, about)
    }
}

impl Key<Vec<Secret>> {
    /// One or more texts with secret parts.
    pub const fn secrets(name: &'static str, parts: SecretParts, about: &'static str) -> Self {
        Self::new(name, SettingKind::Secrets(parts), "", about)
    }

    /// The words of a command, or one command line.
    pub const fn command_words(name: &'static str, about: &'static str) -> Self {
        Self::secrets(name, SecretParts::Command, about)
    }
}

impl Value for bool {
    type Plain = bool;

    fn from_level(_: &SettingKind, level: &Level) -> Option<Self> {
        match level {
            Level::Flag(value) => Some(*value),
            _ => None,
        }
    }
}

impl Value for u64 {
    type Plain = u64;

    fn from_level(kind: &SettingKind, level: &Level) -> Option<Self> {
        match (kind, level) {
            (SettingKind::Count { min, max }, Level::Count(value)) => Some((*value).clamp(*min, *max)),
            (SettingKind::Bytes, Level::Bytes(value))
            | (SettingKind::Time | SettingKind::TimeOr(_), Level::Time(value)) => Some(*value),
            // Older records contain a text.
            (SettingKind::TimeOr(_), Level::Text(text)) => quantity::parse_duration(text).ok(),
            _ => None,
        }
    }
}

impl WholeNumber for u64 {
    const MAX: u64 = u64::MAX;
}

impl Value for u32 {
    type Plain = u32;

    fn from_level(kind: &SettingKind, level: &Level) -> Option<Self> {
        u64::from_level(kind, level).and_then(|value| value.try_into().ok())
    }
}

impl WholeNumber for u32 {
    const MAX: u64 = u32::MAX as u64;
}

impl Value for f64 {
    type Plain = f64;

    fn from_level(kind: &SettingKind, level: &Level) -> Option<Self> {
        match (kind, level) {
            (SettingKind::Percent, Level::Percent(value)) => Some(value.clamp(0.0, 100.0)),
            (SettingKind::Rate, Level::Rate(value)) => Some(*value),
            (SettingKind::Number { min, max }, Level::Number(value)) => Some(value.clamp(*min, *max)),
            (SettingKind::Number { min, max }, Level::Count(value)) => {
                Some((*value as f64).clamp(*min, *max))
            }
            _ => None,
        }
    }
}

impl Value for String {
    type Plain = String;

    fn from_level(kind: &SettingKind, level: &Level) -> Option<Self> {
        match (kind, level) {
            (_, Level::Text(text)) => Some(text.clone()),
            (SettingKind::Sizes, level @ Level::Bytes(_)) => Some(level.to_string()),
            _ => None,
        }
    }
}

impl Value for Secret {
    type Plain = Secret;

    fn from_level(kind: &SettingKind, level: &Level) -> Option<Self> {
        match (kind, level) {
            (_, Level::Secret(secret)) => Some(secret.clone()),
            (SettingKind::Secret(parts) | SettingKind::Secrets(parts), Level::Text(text)) => {
                Some(Secret::new(text, *parts))
            }
            _ => None,
        }
    }
}

impl<T: Value> Value for Option<T> {
    type Plain = T::Plain;

    const MAY_BE_ABSENT: bool = true;

    fn from_level(kind: &SettingKind, level: &Level) -> Option<Self> {
        match (kind, level) {
            (SettingKind::TimeOr(word), Level::Text(text)) if text == word => Some(None),
            _ => T::from_level(kind, level).map(Some),
        }
    }
}

impl<T: Value> Value for Vec<T> {
    type Plain = Vec<T::Plain>;

    const MAY_BE_ABSENT: bool = true;

    /// A single text becomes a list with one element.
    fn from_level(kind: &SettingKind, level: &Level) -> Option<Self> {
        match level {
            Level::List(levels) => levels.iter().map(|level| T::from_level(kind, level)).collect(),
            level => T::from_level(kind, level).map(|value| vec![value]),
        }
    }
}

/// Defines the settings of one owner and their table, so that each is in the table exactly once:
///
/// ```
/// # use plimsoll_model as model;
/// use model::{Key, Settings};
///
/// model::settings! {
///     /// What can be chosen.
///     static SETTINGS;
///
///     static THREADS: Key<u32> = Key::count("threads", 1..=256, "1", "Threads that copy.");
///     static SIZE: Key<Option<u64>> = Key::bytes("size", "", "Bytes to copy; none copies everything.");
/// }
///
/// let settings = Settings::defaults(SETTINGS);
/// assert_eq!((settings.get(&THREADS), settings.get(&SIZE)), (1, None));
/// ```
///
/// A missing default does not compile:
///
/// ```compile_fail,E0080
/// # use plimsoll_model as model;
/// model::settings! {
///     static SETTINGS;
///     static THREADS: model::Key<u32> = model::Key::count("threads", 1..=256, "", "Threads that copy.");
/// }
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$of_table:meta])* $visible:vis static $table:ident;
        $($vis:vis static $key:ident: $type:ty = $described:expr;)+
    ) => {
        $(
            #[allow(missing_docs, reason = "its value describes it")]
            $vis static $key: $type = $described;
        )+
        $(#[$of_table])*
        $visible static $table: &[$crate::SettingInfo] = &[$($key.info),+];
    };
}

/// Defines an enum and the words that its values have in files and on command lines; the first is the default.
///
/// ```
/// # use plimsoll_model as model;
/// use model::{Choice, Key};
///
/// model::choice! {
///     /// Order of the blocks.
///     pub enum Access {
///         /// Any.
///         Random = "random",
///         /// One after the other.
///         Sequential = "sequential",
///     }
/// }
///
/// static ACCESS: Key<Access> = Key::choice("access", "Order of the blocks.");
/// assert_eq!((ACCESS.default, Access::Sequential.word()), ("random", "sequential"));
/// ```
#[macro_export]
macro_rules! choice {
    (
        $(#[$of_enum:meta])* $vis:vis enum $name:ident {
            $(#[$of_first:meta])* $first:ident = $first_word:literal,
            $($(#[$of_value:meta])* $value:ident = $word:literal,)+
        }
    ) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis enum $name {
            $(#[$of_first])* #[default] $first,
            $($(#[$of_value])* $value,)+
        }

        impl $crate::Choice for $name {
            const WORDS: &'static [&'static str] = &[$first_word, $($word),+];

            fn word(&self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$value => $word,)+
                }
            }
        }

        impl $crate::setting::Value for $name {
            type Plain = Self;

            fn from_level(_: &$crate::SettingKind, level: &$crate::Level) -> Option<Self> {
                match level {
                    $crate::Level::Text(text) => match text.as_str() {
                        $first_word => Some(Self::$first),
                        $($word => Some(Self::$value),)+
                        _ => None,
                    },
                    _ => None,
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    crate::choice! {
        enum Order {
            Random = "random",
            Sequential = "sequential",
        }
    }

    crate::settings! {
        static SETTINGS;

        static THREADS: Key<u32> = Key::count("threads", 1..=256, "2", "Threads.");
        static SIZE: Key<Option<u64>> = Key::bytes("size", "", "Size.");
        static BLOCK: Key<String> = Key::sizes("block", "4KiB", "Block.");
        static WARM_UP: Key<Option<Nanos>> = Key::time_or("warm_up", "auto", "5s", "Warm-up.");
        static ORDER: Key<Order> = Key::choice("order", "Order.");
        static FILES: Key<Vec<String>> = Key::texts("files", "Files.");
        static HEADER: Key<Vec<Secret>> = Key::secrets("header", SecretParts::Header, "Header.");
    }

    #[test]
    fn a_level_of_another_kind_is_the_default() {
        let mut settings = Settings::defaults(SETTINGS);
        for damaged in [Level::Flag(true), Level::Unlimited, Level::Text("x".into()), Level::Time(7)] {
            settings.set(THREADS.name, damaged.clone());
            settings.set(ORDER.name, damaged);
            assert_eq!((settings.get(&THREADS), settings.get(&ORDER)), (2, Order::Random));
        }
        settings.set(SIZE.name, Level::Count(5));
        settings.set(WARM_UP.name, Level::Count(5));
        assert_eq!((settings.get(&SIZE), settings.get(&WARM_UP)), (None, Some(5_000_000_000)));
        // A value out of bounds becomes the nearest bound.
        settings.set(THREADS.name, Level::Count(u64::MAX));
        assert_eq!(settings.get(&THREADS), 256);
    }

    #[test]
    fn levels_are_read_as_their_types() {
        let mut settings = Settings::default();
        assert_eq!((settings.get(&BLOCK).as_str(), settings.get(&FILES).len()), ("4KiB", 0));
        settings.set(SIZE.name, SIZE.parse("1MiB").unwrap());
        settings.set(BLOCK.name, BLOCK.parse("4096B").unwrap());
        settings.set(WARM_UP.name, WARM_UP.parse("auto").unwrap());
        settings.set(ORDER.name, Order::Sequential.level());
        settings.set(FILES.name, Level::List(vec![Level::Text("a,b".into())]));
        settings.set(HEADER.name, Level::Text("Authorization: x".into()));
        assert_eq!((settings.get(&SIZE), settings.get(&BLOCK).as_str()), (Some(1 << 20), "4KiB"));
        assert_eq!((settings.get(&WARM_UP), settings.get(&ORDER)), (None, Order::Sequential));
        assert_eq!(settings.get(&FILES), ["a,b"]);
        assert_eq!(settings.get(&HEADER)[0].reveal(), "Authorization: x");
        assert_eq!(settings.get(&HEADER)[0].to_string(), "Authorization: ***");
    }

    #[test]
    fn records_from_before_typed_levels_are_read() {
        let mut settings = Settings::default();
        settings.set(BLOCK.name, Level::Text("64KiB".into()));
        settings.set(WARM_UP.name, Level::Text("300ms".into()));
        assert_eq!((settings.get(&BLOCK).as_str(), settings.get(&WARM_UP)), ("64KiB", Some(300_000_000)));
    }
}
