//! Mistakes in `[store]` and `[agents.NAME]`.

use super::{GROUPS, init, messages};

#[test]
fn names_that_are_misspelt() {
    let shown = messages(
        &init(),
        &[
            ("the section of agents", &[("[agents.staff]", "[agent.staff]")], 1),
            ("a section of settings", &[("[safety]", "[saftey]")], 1),
            (
                "~ the name of an agent, where it is defined",
                &[("[agents.directory]", "[agents.dirctory]")],
                1,
            ),
            (
                "the name of an agent, where it is used",
                &[("deleted_with = \"staff\"", "deleted_with = \"stuff\"")],
                1,
            ),
            ("a type of agent", &[("type = \"delimited\"", "type = \"csv\"")], 1),
            ("a type of agent, nearly", &[("type = \"delimited\"", "type = \"delimitted\"")], 1),
            ("no type", &[("type = \"delimited\"\n", "")], 1),
            ("a needed key", &[("anchor = \"entryUUID\"", "ancor = \"entryUUID\"")], 1),
            ("a key of another product", &[("bind_dn =", "bindDN =")], 1),
            (
                "a password in the configuration",
                &[("password_file = \"directory.password\"", "password = \"geheim\"")],
                1,
            ),
            (
                "a host instead of a URL",
                &[("url = \"ldap://127.0.0.1:3389\"", "host = \"127.0.0.1\"\nport = 389")],
                2,
            ),
            ("a file instead of a path", &[("path = \"staff.csv\"", "file = \"staff.csv\"")], 1),
            (
                "a separator instead of a delimiter",
                &[("path = \"staff.csv\"", "path = \"staff.csv\"\nseparator = \";\"")],
                1,
            ),
            (
                "a query beside the table",
                &[("table = \"subscriber\"", "table = \"subscriber\"\nquery = \"SELECT * FROM subscriber\"")],
                1,
            ),
            (
                "a query instead of the table",
                &[("table = \"subscriber\"", "query = \"SELECT * FROM subscriber\"")],
                1,
            ),
            (
                "a statement as the table",
                &[("table = \"subscriber\"", "table = \"SELECT * FROM subscriber\"")],
                1,
            ),
            ("a type of attribute", &[("mail = \"text\"", "mail = \"string\"")], 1),
            ("a type of attribute that rules use", &[("login = \"text\"", "login = \"txt\"")], 1),
        ],
    );
    insta::assert_snapshot!(shown);
}

#[test]
fn settings_that_are_wrong() {
    let shown = messages(
        GROUPS,
        &[
            ("no anchor", &[("anchor = \"number\"\n", "")], 1),
            ("an empty anchor", &[("anchor = \"number\"", "anchor = \"\"")], 1),
            ("an anchor of no attributes", &[("anchor = \"number\"", "anchor = []")], 1),
            ("an anchor that no column has", &[("anchor = \"id\"", "anchor = \"ident\"")], 1),
            (
                "an anchor with a part twice",
                &[("anchor = \"employee\"", "anchor = [\"employee\", \"employee\"]")],
                1,
            ),
            ("two characters as delimiter", &[("value_separator = \"|\"", "delimiter = \";;\"")], 1),
            ("a tab as delimiter", &[("value_separator = \"|\"", "delimiter = \"tab\"")], 1),
            ("no path", &[("path = \"staff.csv\"\n", "")], 1),
            ("an empty path", &[("path = \"staff.csv\"", "path = \"\"")], 1),
            ("a password over the network", &[("ldaps://ldap.plim.example", "ldap://ldap.plim.example")], 1),
            ("a URL without a scheme", &[("ldaps://ldap.plim.example", "ldap.plim.example:636")], 1),
            ("a URL of the web", &[("ldaps://ldap.plim.example", "https://ldap.plim.example")], 1),
            ("a password in a URL", &[("https://id.plim", "https://me:geheim@id.plim")], 1),
            (
                "a password in a connection",
                &[("user=metadir dbname", "user=metadir password=geheim dbname")],
                1,
            ),
            (
                "overlapping search bases",
                &[("\"ou=groups,dc=plim,dc=example\"]", "\"dc=plim,dc=example\"]")],
                1,
            ),
            (
                "a base that is not a name",
                &[("base = [\"ou=people,dc=plim,dc=example\"", "base = [\"people\"")],
                1,
            ),
            (
                "a base by its domain",
                &[("base = [\"ou=people,dc=plim,dc=example\"", "base = [\"ldap.plim.example\"")],
                1,
            ),
            (
                "a filter with a bracket missing",
                &[(
                    "anchor = \"entryUUID\"",
                    "anchor = \"entryUUID\"\nfilter = \"(&(objectClass=person)(uid=*)\"",
                )],
                1,
            ),
            (
                "several names in one text",
                &[("anchor = \"entryUUID\"", "anchor = \"entryUUID\"\nattributes = \"cn, sn, mail\"")],
                1,
            ),
            (
                "a way of finding changes",
                &[("anchor = \"entryUUID\"", "anchor = \"entryUUID\"\ndelta = \"modifytimestamp\"")],
                1,
            ),
            (
                "~ two databases",
                &[("table = \"subscriber\"", "sqlite = \"phones.db\"\ntable = \"subscriber\"")],
                1,
            ),
            ("no database", &[("postgres = \"host=127.0.0.1 user=metadir dbname=phones\"\n", "")], 1),
            ("a wrong keyword of a connection", &[("dbname=phones", "database=phones")], 1),
            ("a path of a service that leads nowhere", &[("\"name.familyName\"]", "\"family name\"]")], 1),
            ("columns that overlap", &[("start = 9", "start = 8")], 1),
            ("a column before the first", &[("start = 1,", "start = 0,")], 1),
            (
                "two stores",
                &[("sqlite = \"metadirectory.db\"", "sqlite = \"m.db\"\npostgres = \"host=::1 user=m\"")],
                1,
            ),
            (
                "a deleted agent that a type names",
                &[("deleted_with = \"staff\"", "deleted_with = [\"staff\", \"hr\"]")],
                1,
            ),
            (
                "several mistakes in one agent",
                &[("anchor = \"entryUUID\"", "anchor = 3\nfilter = \"(cn=\"\nbas = \"dc=x\"")],
                3,
            ),
        ],
    );
    insta::assert_snapshot!(shown);
}
