//! x
/// x
pub fn html(_d: &model::ResultDocument, _s: &model::Study) -> String {
    String::new()
}
pub(crate) const GROUNDS: [&str; 2] = ["#ffffff", "#14171b"];
