//! What the writer of a wrong name probably meant.

/// Names that administrators write from habit: the name, the right one, and what to do.
const OTHER_NAMES: &[(&str, &str, &str)] = &[
    ("password", "password_file", "write the password into a file, and password_file = \"FILE\""),
    ("passwd", "password_file", "write the password into a file, and password_file = \"FILE\""),
    ("bind_password", "password_file", "write the password into a file, and password_file = \"FILE\""),
    (
        "password",
        "passfile",
        "write the password into a file in the format of libpq, and passfile = \"FILE\"",
    ),
    ("token", "token_file", "write the token into a file, and token_file = \"FILE\""),
    ("user", "bind_dn", "write bind_dn = \"cn=metadir,dc=example,dc=com\""),
    ("user", "postgres", "write postgres = \"host=... user=... dbname=...\""),
    ("host", "url", "write the host and the port into `url`"),
    ("server", "url", "write the host and the port into `url`"),
    ("port", "url", "write the host and the port into `url`"),
    ("host", "postgres", "write postgres = \"host=... port=... user=... dbname=...\""),
    ("port", "postgres", "write postgres = \"host=... port=... user=... dbname=...\""),
    ("database", "postgres", "write sqlite = \"FILE\", or postgres = \"host=... user=... dbname=...\""),
    ("connection", "postgres", "write sqlite = \"FILE\", or postgres = \"host=... user=... dbname=...\""),
    ("query", "table", "create a view for the query, and write its name into `table`"),
    ("sql", "table", "create a view for the query, and write its name into `table`"),
    ("view", "table", "write the name of the view into `table`"),
    ("file", "path", "write path = \"FILE\""),
    ("filename", "path", "write path = \"FILE\""),
    (
        "separator",
        "delimiter",
        "write `delimiter` for fields, `value_separator` for several values in a field",
    ),
    ("key", "anchor", "write anchor = \"ATTRIBUTE\""),
    ("encoding", "path", "remove it: files are read as UTF-8"),
    ("type", "to", "write to = \"TYPE\""),
    ("to", "from", "write from = \"TYPE\": the type of the metaverse"),
    ("from", "to", "write to = \"TYPE\": the type of the metaverse"),
    ("scope", "when", "write the condition into `when`"),
    ("condition", "when", "write the condition into `when`"),
    ("condition", "objects", "write the condition into `objects`"),
    ("scope", "filter", "remove it: entries below `base` are read; `filter` and `exclude` leave entries out"),
    ("name", "dn", "write dn = \"EXPRESSION\""),
    ("cron", "at", "write every = \"5 min\", or at = \"02:00\""),
    ("interval", "every", "write every = \"5 min\""),
    ("time", "at", "write at = \"02:00\""),
];

/// Formats and products, with the kind of system that reads them.
const KINDS: &[(&[&str], &str)] = &[
    (&["csv", "tsv", "text", "file", "txt", "excel", "xlsx"], "delimited"),
    (&["fixed", "fixed-length", "fixedwidth", "positional"], "fixed-width"),
    (&["avp", "attribute-value-pair"], "attribute-value"),
    (&["ad", "active-directory", "activedirectory", "openldap", "ldaps", "389ds", "directory"], "ldap"),
    (&["postgres", "postgresql", "sqlite", "database", "db", "table", "mssql", "oracle", "mysql"], "sql"),
    (&["scim2", "rest", "http", "https", "azure", "entra"], "scim"),
];

/// The kind of system that is meant by the name of a format or a product.
pub(super) fn kind_of(written: &str) -> Option<&'static str> {
    let folded = written.to_lowercase().replace(['_', ' '], "-");
    KINDS.iter().find(|(names, _)| names.contains(&folded.as_str())).map(|(_, kind)| *kind)
}

/// The type of values that is meant by the name that another system has for it.
pub(super) fn value_type(written: &str) -> Option<&'static str> {
    match written.to_lowercase().as_str() {
        "string" | "str" | "varchar" | "date" | "datetime" | "timestamp" => Some("text"),
        "int" | "number" | "long" => Some("integer"),
        "bool" => Some("boolean"),
        "bytes" | "blob" | "bytea" | "octetstring" => Some("binary"),
        "ref" | "dn" | "member" => Some("reference"),
        _ => None,
    }
}

/// The key that is meant by another name, and what to do.
pub(super) fn other_name(written: &str, known: &[&str]) -> Option<(&'static str, String)> {
    let found = OTHER_NAMES.iter().find(|(name, right, _)| *name == written && known.contains(right));
    found.map(|(_, right, help)| (*right, (*help).to_string()))
}

/// The similar name, if there is one: upper and lower case, `-` and `_` are the same.
pub(super) fn near<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let folded = |name: &str| name.to_lowercase().replace('-', "_");
    let written = folded(written);
    let distance = |name: &str| strsim::damerau_levenshtein(&written, &folded(name));
    let all = names.map(|name| (distance(name), name));
    let similar = all.filter(|(distance, name)| {
        *distance <= written.chars().count().min(name.chars().count()) / 3
            || folded(name).replace('_', "") == written
    });
    similar.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// "did you mean `staff`?" if a name is similar, otherwise all names.
pub(super) fn one_of(written: &str, names: &[&str]) -> String {
    if let Some(name) = near(written, names.iter().copied()) {
        return format!("did you mean {name:?}?");
    }
    let all: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    match all.as_slice() {
        [] => "there is none".into(),
        [one] => format!("write {one}"),
        _ => format!("one of {}", all.join(", ")),
    }
}
