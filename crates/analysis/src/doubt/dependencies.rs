//! Proxies of dependencies that nothing went through.

use model::result::TrialResult;
use model::sensitivity::facts::{ADDED_UP, BYTES};
use model::{Doubt, DoubtKind, Level};

/// Dependencies whose proxy passed nothing on, although operations completed.
pub(super) fn without_traffic(result: &TrialResult) -> Option<Doubt> {
    if result.whole().is_none_or(|whole| whole.completed == 0) {
        return None;
    }
    let names: Vec<String> = result
        .facts
        .keys()
        .filter_map(|name| name.strip_suffix(ADDED_UP))
        .filter(|path| matches!(result.facts.get(&format!("{path}{BYTES}")), Some(Level::Bytes(0))))
        .map(|path| path.trim_end_matches('.').rsplit('.').next().unwrap_or_default().to_string())
        .collect();
    let first = names.first()?;
    let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let text = format!("no traffic went through the proxy of {}: its delay has no effect", listed.join(", "));
    let help = format!("let the system connect to ${{dependency:{first}}} instead of the dependency itself");
    Some(Doubt::new(DoubtKind::NoTraffic, text, help))
}
