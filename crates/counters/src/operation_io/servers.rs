//! Which functions of a server are its operations.

/// A function that performs one kind of operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name of the operation.
    pub operation: String,
    /// The library, by the beginning of its file name; none for the program itself, or the first library that has it.
    pub library: Option<String>,
    /// The symbol.
    pub symbol: String,
    /// Whether the return is traced too. Without it the operation ends at the next one of the same thread.
    pub has_return: bool,
}

impl Function {
    /// Parses `[NAME=][LIBRARY:]SYMBOL`. C++ symbols are written as they are in the symbol table.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Function, String> {
        let wrong = || {
            format!(
                "`{text}` is not a function: write NAME=SYMBOL or NAME=LIBRARY:SYMBOL, such as search=do_search"
            )
        };
        let (name, place) = text.split_once('=').map_or((None, text), |(name, place)| (Some(name), place));
        let (library, symbol) =
            place.rsplit_once(':').map_or((None, place), |(library, symbol)| (Some(library), symbol));
        let is_empty = |text: &str| text.trim().is_empty();
        if is_empty(symbol) || name.is_some_and(is_empty) || library.is_some_and(is_empty) {
            return Err(wrong());
        }
        Ok(Function {
            operation: name.unwrap_or(symbol).trim().into(),
            library: library.map(|library| library.trim().into()),
            symbol: symbol.trim().into(),
            has_return: true,
        })
    }
}

/// A server whose operations are known.
struct Server {
    program: &'static str,
    /// Operation, library (empty for the program), symbol, whether the return is traced.
    functions: &'static [(&'static str, &'static str, &'static str, bool)],
}

static SERVERS: &[Server] = &[
    // OpenLDAP. A thread calls these one after another from one place, so that the next operation ends a search. That
    // saves the second probe on the most frequent operation.
    Server {
        program: "slapd",
        functions: &[
            ("bind", "", "do_bind", true),
            ("search", "", "do_search", false),
            ("modify", "", "do_modify", true),
            ("add", "", "do_add", true),
            ("delete", "", "do_delete", true),
            ("modrdn", "", "do_modrdn", true),
            ("compare", "", "do_compare", false),
        ],
    },
    // 389 Directory Server. The other functions of this name are not exported.
    Server {
        program: "ns-slapd",
        functions: &[
            ("bind", "libback-ldbm", "ldbm_back_bind", true),
            ("search", "libslapd", "op_shared_search", true),
            ("modify", "libslapd", "do_modify", true),
            ("add", "libslapd", "do_add", true),
            ("delete", "libslapd", "do_delete", true),
            ("modrdn", "libslapd", "do_modrdn", true),
            ("compare", "libback-ldbm", "ldbm_back_compare", true),
        ],
    },
];

/// The functions of a known server, by the name of its program.
pub fn known_functions(program: &str) -> Option<Vec<Function>> {
    let server = SERVERS.iter().find(|server| server.program == program)?;
    let function = |(operation, library, symbol, has_return): &(&str, &str, &str, bool)| Function {
        operation: (*operation).into(),
        library: (!library.is_empty()).then(|| (*library).into()),
        symbol: (*symbol).into(),
        has_return: *has_return,
    };
    Some(server.functions.iter().map(function).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_with_and_without_a_library() {
        for (text, operation, library, symbol) in [
            ("do_search", "do_search", None, "do_search"),
            ("search=do_search", "search", None, "do_search"),
            ("commit=libpq.so.5:PQexec", "commit", Some("libpq.so.5"), "PQexec"),
            ("libssl:SSL_write", "SSL_write", Some("libssl"), "SSL_write"),
        ] {
            let found = Function::parse(text).unwrap();
            assert_eq!(
                (found.operation.as_str(), found.library.as_deref(), found.symbol.as_str()),
                (operation, library, symbol)
            );
        }
        for text in ["", "=", "a=", "=b", "lib:", ":b", "a=:b"] {
            assert!(Function::parse(text).unwrap_err().contains("write NAME=SYMBOL"), "{text}");
        }
    }

    #[test]
    fn known_servers_have_all_operations_of_ldap() {
        for program in ["slapd", "ns-slapd"] {
            let functions = known_functions(program).unwrap();
            let names: Vec<&str> = functions.iter().map(|function| function.operation.as_str()).collect();
            assert_eq!(names, ["bind", "search", "modify", "add", "delete", "modrdn", "compare"]);
        }
        assert_eq!(known_functions("postgres"), None);
    }
}
