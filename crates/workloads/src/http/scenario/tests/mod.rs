//! Tests of scenarios as a whole.

mod mistakes;
mod sessions;
mod written;

use std::path::Path;

use model::{Placeholder, Problems};

use super::{Scenario, ScenarioFile};

/// Secrets as in an environment with one variable.
pub(super) fn find_secret(placeholder: Placeholder<'_>) -> Result<String, (String, String)> {
    match placeholder {
        Placeholder::Environment("SECRET") => Ok("S3CRET".into()),
        Placeholder::Environment(name) => Err((
            format!("the environment variable {name} is not set"),
            format!("export {name} before the run"),
        )),
        Placeholder::File(_) | Placeholder::Prompt(_) | Placeholder::Dependency(_) => Ok("S3CRET".into()),
    }
}

pub(super) fn parse_in(folder: &Path, text: &str) -> Result<Scenario, Problems> {
    Scenario::parse(text, "s.toml", folder, &mut find_secret)
}

pub(super) fn parse(text: &str) -> Result<Scenario, Problems> {
    parse_in(Path::new("/nonexistent"), text)
}

/// Reads a file, which has no mistakes in its form.
pub(super) fn read(text: &str) -> ScenarioFile {
    ScenarioFile::parse(text, "s.toml").unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

#[test]
fn threads_share_a_scenario() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Scenario>();
    is_shared::<super::Session>();
}

proptest::proptest! {
    #[test]
    fn no_file_panics(
        text in "(\\[\\[transaction\\]\\]\n|\\[\\[transaction\\.request\\]\\]\n|\\[data\\.d\\]\n|\\[variables\\]\n|(name|url|base|body|check|extract|header|file|think) = |\"|\\{|\\}|\\[|\\]|\n|\\$\\{|[a-z]|\\PC){0,24}",
    ) {
        if let Err(problems) = parse(&text) {
            proptest::prop_assert!(!problems.is_empty() && !problems.to_string().is_empty());
        }
    }
}
