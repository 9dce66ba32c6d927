//! The management agents: text files, SQL databases, LDAP directories and SCIM services, each with its settings in
//! `[agents.NAME]`. A new agent is a module here and a line in [`SYSTEMS`].
#![forbid(unsafe_code)]

mod attribute_value;
mod delimited;
mod file;
mod fixed_width;
mod ldap;
mod ldif;
pub mod mim;
pub mod scim;
pub mod sql;

use metadir::config::{Config, Mistake, Part, SystemKind};

/// All systems, by the name of their `type`.
pub const SYSTEMS: &[SystemKind] = &[
    delimited::KIND,
    fixed_width::KIND,
    attribute_value::KIND,
    ldif::KIND,
    ldap::KIND,
    scim::KIND,
    sql::KIND,
];

/// Parses the configuration of a metadirectory with these systems.
///
/// # Errors
/// All errors, in the order of the text.
pub fn parse(text: &str) -> Result<Config, Vec<Mistake>> {
    Config::parse(text, SYSTEMS)
}

/// Limit of the bytes of objects that are read at a time, whatever their number.
const BATCH_BYTES: usize = 16 << 20;

/// Whether the object exists after the change that a word names; none if the word is unknown.
fn change_of(word: &[u8]) -> Option<bool> {
    match word {
        b"add" | b"insert" | b"modify" | b"update" => Some(true),
        b"delete" | b"remove" => Some(false),
        _ => None,
    }
}

/// The anchor attributes, as far as they are valid. The common check of anchors reports errors in them.
fn anchor<'a>(part: &Part<'a>) -> Vec<&'a str> {
    use toml::de::DeValue;
    let text = |value: &'a DeValue<'a>| match value {
        DeValue::String(text) => Some(text.as_ref()),
        _ => None,
    };
    match part.get("anchor").map(toml::Spanned::get_ref) {
        Some(DeValue::Array(listed)) => listed.iter().filter_map(|value| text(value.get_ref())).collect(),
        Some(value) => text(value).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use metadir::agent::System;
    use std::any::Any;

    use crate::delimited::settings::Delimited;
    use crate::fixed_width::settings::FixedWidth;
    use crate::sql::settings::{Sql, SqlDatabase, SqlDelta};

    const BEFORE: &str = "[store]\nsqlite = \"s\"\n[metaverse.person]\nattributes = { id = \"text\" }\n\
        [agents.z]\ntype = \"delimited\"\npath = \"z\"\nanchor = \"z\"\n[agents.a]\n";

    fn read(keys: &str) -> Result<Box<dyn System>, Vec<String>> {
        let config = crate::parse(&format!("{BEFORE}{keys}"));
        let reported = |mistake: metadir::config::Mistake| mistake.what;
        config
            .map(|mut config| config.agents.remove(0).system)
            .map_err(|mistakes| mistakes.into_iter().map(reported).collect())
    }

    #[test]
    fn settings_of_text_files_are_read() {
        let keys = "type = \"fixed-width\"\npath = \"p\"\nanchor = \"id\"\ncolumns = [{ name = \"n\", start = 5, width = 3 }, \
                    { name = \"id\", start = 1, width = 4 }]";
        let system = read(keys).unwrap();
        let system: &FixedWidth = (system.as_ref() as &dyn Any).downcast_ref().unwrap();
        let places: Vec<(&str, usize, usize)> =
            system.columns.iter().map(|column| (column.name.as_str(), column.before, column.width)).collect();
        assert_eq!(places, [("id", 0, 4), ("n", 4, 3)]);
        let keys = "type = \"delimited\"\npath = \"p\"\nanchor = \"id\"\ndelta = \"d\"";
        let system = read(keys).unwrap();
        let system: &Delimited = (system.as_ref() as &dyn Any).downcast_ref().unwrap();
        assert_eq!(system.delta.as_ref().unwrap().change_column, "change");
    }

    #[test]
    fn settings_of_a_table_are_read() {
        let keys = "type = \"sql\"\npostgres = \"host=::1 user=me\"\npassfile = \"p\"\ntable = \"t\"\nanchor = [\"a\", \"b\"]\n\
                    values = [{ table = \"v\", key = [\"a\", \"b\"], column = \"c\" }]\n\
                    delta = { table = \"d\", order_column = \"n\", change_column = \"what\", overlap = 0 }";
        let system = read(keys).unwrap();
        let system: &Sql = (system.as_ref() as &dyn Any).downcast_ref().unwrap();
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
                    "unknown key `end` in an item of `columns`",
                    "a column has no `width`",
                    "an item of `columns` has no `name`",
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
                vec!["`key` of an item of `values` has 2 columns, the anchor has 1"],
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
