//! Connected systems: the settings in `[agents.NAME]`. A new kind of system is a file here, a variant, and a
//! line in [`SYSTEMS`].

mod attribute_value;
mod delimited;
mod fixed_width;
mod given;
mod ldap;
mod ldif;
mod scim;
mod sql;

use std::path::Path;

pub use self::attribute_value::AttributeValue;
pub use self::delimited::{Delimited, DelimitedDelta};
pub use self::fixed_width::{FixedColumn, FixedWidth};
pub use self::given::{Open, ProvidedSystem};
pub(crate) use self::ldap::is_attribute_name;
pub use self::ldap::{Bind, Delta, Ldap, Password};
pub use self::ldif::Ldif;
pub use self::scim::{Resource, Scim, Token, Update};
pub use self::sql::{Sql, SqlDatabase, SqlDelta, ValuesTable};

use super::part::{Part, Reader};
use crate::Interrupt;
use crate::naming::Naming;

/// A connected system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// A text file with a line for each object.
    Delimited(Delimited),
    /// A text file with a line for each object and attributes at fixed positions.
    FixedWidth(FixedWidth),
    /// A text file with a line for each value.
    AttributeValue(AttributeValue),
    /// A file in the LDAP Data Interchange Format.
    Ldif(Ldif),
    /// A table or view of a database.
    Sql(Sql),
    /// A service that supports SCIM 2.0.
    Scim(Scim),
    /// A system whose agent the program provides.
    Given(ProvidedSystem),
    /// An LDAP directory.
    Ldap(Box<Ldap>),
}

impl System {
    /// Resolves relative paths against a folder.
    pub(super) fn relative_to(&mut self, folder: &Path) {
        match self {
            System::Delimited(system) => {
                system.path = folder.join(&system.path);
                if let Some(delta) = &mut system.delta {
                    delta.path = folder.join(&delta.path);
                }
            }
            System::FixedWidth(system) => system.path = folder.join(&system.path),
            System::AttributeValue(system) => system.path = folder.join(&system.path),
            System::Ldif(system) => system.path = folder.join(&system.path),
            System::Sql(system) => system.relative_to(folder),
            System::Scim(system) => system.relative_to(folder),
            System::Given(_) => {}
            System::Ldap(system) => system.relative_to(folder),
        }
    }

    /// Connects an interrupt to every wait for the system.
    pub(super) fn interrupt_by(&mut self, interrupt: &Interrupt) {
        match self {
            System::Sql(Sql { database: SqlDatabase::Postgres(server), .. }) => {
                server.interrupt = interrupt.clone();
            }
            System::Scim(system) => system.interrupt = interrupt.clone(),
            System::Ldap(system) => system.interrupt = interrupt.clone(),
            System::Sql(_)
            | System::Delimited(_)
            | System::FixedWidth(_)
            | System::AttributeValue(_)
            | System::Ldif(_)
            | System::Given(_) => {}
        }
    }

    /// Whether all objects have the same attributes, so that an attribute outside this list never has a
    /// value.
    pub(crate) fn has_columns(&self) -> bool {
        match self {
            System::Delimited(_) | System::FixedWidth(_) | System::Sql(_) | System::Scim(_) => true,
            System::AttributeValue(_) | System::Ldif(_) | System::Given(_) | System::Ldap(_) => false,
        }
    }

    /// Whether a change in the system is known at once.
    ///
    /// # Errors
    /// Why it is not, after the name of the agent, and what to use instead.
    pub(super) fn watchable(&self) -> Result<(), (&'static str, &'static str)> {
        match self {
            System::Delimited(_) | System::FixedWidth(_) | System::AttributeValue(_) | System::Ldif(_) => {
                Ok(())
            }
            System::Sql(Sql { database: SqlDatabase::Sqlite(_), .. }) => Ok(()),
            System::Sql(system) if system.notify.is_some() => Ok(()),
            System::Sql(_) => Err((
                "has no `notify`, so its changes are not known at once",
                "write notify = \"CHANNEL\" in its agent, and let a trigger of the table call pg_notify; or use `every`",
            )),
            System::Ldap(system) if system.delta == Some(Delta::ContentSynchronization) => Ok(()),
            System::Ldap(_) => Err((
                "does not report changes at once",
                "write delta = \"content-synchronization\" in its agent if the server supports it; or use `every`",
            )),
            System::Scim(_) => Err(("is a SCIM service, which does not report changes", "use `every`")),
            System::Given(_) => Err(("does not report changes", "use `every`")),
        }
    }

    /// How its objects are named and how they refer to each other.
    pub fn naming(&self) -> Naming {
        match self {
            System::Delimited(_) | System::FixedWidth(_) | System::AttributeValue(_) | System::Sql(_) => {
                Naming::Anchor
            }
            System::Ldif(_) => Naming::Dn,
            System::Scim(system) => system.resource.naming(),
            System::Given(system) => system.naming,
            System::Ldap(_) => Naming::Dn,
        }
    }
}

/// Reads the settings of a kind of system.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Keys in addition to those of every agent.
    pub(super) keys: &'static [&'static str],
    /// Reads the settings; none if one is missing or wrong, which the reader records.
    pub(super) read: fn(&mut Reader, &Part<'_>) -> Option<System>,
}

/// All systems by the name of their `type`.
pub(super) const SYSTEMS: &[(&str, Kind)] = &[
    ("delimited", Kind { keys: delimited::KEYS, read: delimited::read }),
    ("fixed-width", Kind { keys: fixed_width::KEYS, read: fixed_width::read }),
    ("attribute-value", Kind { keys: attribute_value::KEYS, read: attribute_value::read }),
    ("ldif", Kind { keys: ldif::KEYS, read: ldif::read }),
    ("ldap", Kind { keys: ldap::KEYS, read: ldap::read }),
    ("scim", Kind { keys: scim::KEYS, read: scim::read }),
    ("sql", Kind { keys: sql::KEYS, read: sql::read }),
];

/// The default anchors of systems.
pub(super) const ANCHORS: &[(&str, &str)] = &[("scim", "id")];

/// The anchor attributes, as far as they are valid. The common check of anchors reports errors in them.
fn anchor<'a>(part: &Part<'a>) -> Vec<&'a str> {
    use toml::de::DeValue;
    let text = |value: &'a DeValue<'a>| match value {
        DeValue::String(text) => Some(text.as_ref()),
        _ => None,
    };
    match part.table.get("anchor").map(toml::Spanned::get_ref) {
        Some(DeValue::Array(listed)) => listed.iter().filter_map(|value| text(value.get_ref())).collect(),
        Some(value) => text(value).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, SqlDatabase, SqlDelta, System};

    const BEFORE: &str = "[store]\nsqlite = \"s\"\n[metaverse.person]\nattributes = { id = \"text\" }\n\
        [agents.z]\ntype = \"delimited\"\npath = \"z\"\nanchor = \"z\"\n[agents.a]\n";

    fn read(keys: &str) -> Result<System, Vec<String>> {
        let config = Config::parse(&format!("{BEFORE}{keys}"));
        let reported = |mistake: crate::config::Mistake| mistake.what;
        config
            .map(|mut config| config.agents.remove(0).system)
            .map_err(|mistakes| mistakes.into_iter().map(reported).collect())
    }

    #[test]
    fn settings_of_text_files_are_read() {
        let keys = "type = \"fixed-width\"\npath = \"p\"\nanchor = \"id\"\ncolumns = [{ name = \"n\", start = 5, width = 3 }, \
                    { name = \"id\", start = 1, width = 4 }]";
        let System::FixedWidth(system) = read(keys).unwrap() else { panic!() };
        let places: Vec<(&str, usize, usize)> =
            system.columns.iter().map(|column| (column.name.as_str(), column.before, column.width)).collect();
        assert_eq!(places, [("id", 0, 4), ("n", 4, 3)]);
        let keys = "type = \"delimited\"\npath = \"p\"\nanchor = \"id\"\ndelta = \"d\"";
        let System::Delimited(system) = read(keys).unwrap() else { panic!() };
        assert_eq!(system.delta.unwrap().change_column, "change");
    }

    #[test]
    fn settings_of_a_table_are_read() {
        let keys = "type = \"sql\"\npostgres = \"host=::1 user=me\"\npassfile = \"p\"\ntable = \"t\"\nanchor = [\"a\", \"b\"]\n\
                    values = [{ table = \"v\", key = [\"a\", \"b\"], column = \"c\" }]\n\
                    delta = { table = \"d\", order_column = \"n\", change_column = \"what\", overlap = 0 }";
        let System::Sql(system) = read(keys).unwrap() else { panic!() };
        let SqlDatabase::Postgres(server) = &system.database else { panic!() };
        assert_eq!((server.schema.as_str(), system.values[0].attribute.as_str()), ("", "c"));
        assert!(matches!(system.delta, Some(SqlDelta::Table { overlap: Some(0), .. })));
    }

    #[test]
    fn everything_wrong_is_reported() {
        let fixed = "type = \"fixed-width\"\npath = \"p\"\nanchor = \"id\"\n";
        let sql = "type = \"sql\"\nsqlite = \"f\"\ntable = \"t\"\nanchor = \"id\"\n";
        for (keys, reported) in [
            (fixed.to_string(), vec!["[agents.a] has no `columns`"]),
            (format!("{fixed}columns = 3"), vec!["`columns` of [agents.a] is not a list of tables"]),
            (
                format!(
                    "{fixed}columns = [{{ name = \"id\", start = 0, width = 1, end = 2 }}, {{ start = 2 }}]"
                ),
                vec![
                    "`start` is a number from 1 to 1048576",
                    "unknown key `end` in this [[columns]]",
                    "a column has no `width`",
                    "this [[columns]] has no `name`",
                ],
            ),
            (
                format!(
                    "{fixed}columns = [{{ name = \"a\", start = 1, width = 3 }}, {{ name = \"b\", start = 3, width = 1 }}, \
                     {{ name = \"a\", start = 9, width = 1 }}]"
                ),
                vec!["the columns `a` and `b` overlap", "the column `a` comes twice"],
            ),
            (
                format!("{fixed}columns = [{{ name = \"a\", start = 1, width = 3 }}]"),
                vec!["the column `id` of the anchor is not in `columns`"],
            ),
            (
                "type = \"delimited\"\npath = \"p\"\nanchor = \"id\"\nchange_column = \"c\"".into(),
                vec!["`change_column` without `delta`"],
            ),
            (
                "type = \"sql\"\nanchor = \"id\"".into(),
                vec!["[agents.a] has neither `sqlite` nor `postgres`", "[agents.a] has no `table`"],
            ),
            (
                format!("{sql}postgres = \"host=db\""),
                vec!["`sqlite` and `postgres` in [agents.a]: a table is in one of them"],
            ),
            (format!("{sql}schema = \"s\""), vec!["`schema` has no effect on a table in SQLite"]),
            (
                format!("{sql}delta = {{ overlap = 1 }}"),
                vec!["`delta` of [agents.a] needs one of `table` and `watermark`"],
            ),
            (
                format!("{sql}delta = {{ watermark = \"n\", change_column = \"c\" }}"),
                vec!["`change_column` belongs to a table of changes, not to a `watermark`"],
            ),
            (
                format!("{sql}delta = {{ table = \"d\" }}"),
                vec!["`delta` of [agents.a] has no `order_column`"],
            ),
            (
                format!("{sql}values = [{{ table = \"v\", key = [\"a\", \"b\"], column = \"c\" }}]"),
                vec!["`key` of this [[values]] has 2 columns, the anchor has 1"],
            ),
        ] {
            let mut mistakes = read(&keys).unwrap_err();
            let mut reported: Vec<String> = reported.into_iter().map(String::from).collect();
            mistakes.sort();
            reported.sort();
            assert_eq!(mistakes, reported, "{keys}");
        }
    }
}
