//! The documents of the broker: a request with credentials, and the list of applications.
//!
//! ```xml
//! <request><credentials user="ann" password="secret"/></request>
//! <applications><application name="Editor"/></applications>
//! <error>the credentials are wrong</error>
//! ```

/// A user who wants to know which applications there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The login name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Reads a request.
///
/// # Errors
/// What is missing in the document, or where it is no XML.
pub fn read_request(body: &[u8]) -> Result<Credentials, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the request is not UTF-8".to_string())?;
    let document = roxmltree::Document::parse(text).map_err(|error| error.to_string())?;
    let found = document.descendants().find(|node| node.has_tag_name("credentials"));
    let attribute = |name: &str| {
        let value = found.and_then(|node| node.attribute(name));
        value.map(String::from).ok_or_else(|| format!("the credentials have no {name}"))
    };
    Ok(Credentials { user: attribute("user")?, password: attribute("password")? })
}

/// The request of a user.
pub fn write_request(credentials: &Credentials) -> String {
    format!(
        "<request><credentials user=\"{}\" password=\"{}\"/></request>",
        escape(&credentials.user),
        escape(&credentials.password)
    )
}

/// The list of a user's applications.
pub fn write_applications<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let list: String = names.map(|name| format!("<application name=\"{}\"/>", escape(name))).collect();
    format!("<applications>{list}</applications>")
}

/// The names in a list of applications.
///
/// # Errors
/// Where the document is not a list.
pub fn read_applications(body: &[u8]) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not UTF-8".to_string())?;
    let document = roxmltree::Document::parse(text).map_err(|error| error.to_string())?;
    if !document.root_element().has_tag_name("applications") {
        return Err(document.root_element().text().unwrap_or("the answer is not a list").to_string());
    }
    let names = document.descendants().filter(|node| node.has_tag_name("application"));
    Ok(names.filter_map(|node| node.attribute("name")).map(String::from).collect())
}

/// An error.
pub fn write_error(text: &str) -> String {
    format!("<error>{}</error>", escape(text))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_as_they_were_written() {
        let credentials = Credentials { user: "a\"<&>".into(), password: "ü".into() };
        assert_eq!(read_request(write_request(&credentials).as_bytes()), Ok(credentials));
        let names = ["A & B", "<c>"];
        let text = write_applications(names.into_iter());
        assert_eq!(read_applications(text.as_bytes()).unwrap(), names);
        assert_eq!(read_applications(write_error("no & never").as_bytes()), Err("no & never".into()));
        for wrong in ["", "<a>", "<request/>", "<request><credentials user=\"a\"/></request>"] {
            assert!(read_request(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
