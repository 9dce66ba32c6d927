//! Command lines of the form `--name value`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// The flags of a command line.
#[derive(Debug)]
pub struct Flags(BTreeMap<String, String>);

impl Flags {
    /// Reads `--name value` pairs. `known` are the names that are allowed.
    ///
    /// # Errors
    /// An unknown name, or a name without a value.
    pub fn read(mut words: impl Iterator<Item = String>, known: &[&str]) -> Result<Flags, String> {
        let mut flags = BTreeMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").filter(|name| known.contains(name));
            let name = name.ok_or_else(|| format!("unknown flag {word}; known: --{}", known.join(", --")))?;
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            flags.insert(name.to_string(), value);
        }
        Ok(Flags(flags))
    }

    /// The value of a flag, or its default.
    ///
    /// # Errors
    /// A value that cannot be parsed.
    pub fn get<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.0.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("--{name} {text}: not valid")),
        }
    }

    /// A time in milliseconds.
    ///
    /// # Errors
    /// A value that is no number of milliseconds.
    pub fn milliseconds(&self, name: &str, default: f64) -> Result<Duration, String> {
        let ms = self.get(name, default)?;
        Duration::try_from_secs_f64(ms / 1e3).map_err(|error| format!("--{name} {ms}: {error}"))
    }

    /// A required text.
    ///
    /// # Errors
    /// Where it is missing.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).map(String::as_str).ok_or_else(|| format!("--{name} is missing"))
    }
}
