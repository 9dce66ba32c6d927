//! Proofs in sentences.

use model::result::{Direction, ProofAnswer, ProofRow};
use model::{Estimate, ResultDocument};

use crate::text::{RatioStyle, capitalized, percent};

/// Elasticity below which throughput hardly depends on a resource, as in `analysis`.
const HARDLY: f64 = 0.5;
/// A residual whose interval is above this gets a sentence.
const RESIDUAL: f64 = 0.2;

/// The proof of a result in sentences; none without a completed round.
pub fn proof(document: &ResultDocument) -> Option<String> {
    let proof = document.proof.as_ref()?;
    let rows: Vec<&ProofRow> = proof.rows.iter().filter(|row| row.rounds > 0).collect();
    if rows.is_empty() {
        return None;
    }
    let each = rows.chunk_by(|one, next| one.resource == next.resource).map(changes);
    let mut text = each.collect::<Vec<String>>().join(" ");
    if let Some(residual) = proof.residual.filter(|residual| residual.low > RESIDUAL) {
        text.push_str(&format!(
            " {} of the limit comes from something that was not changed: the service itself, a service that it uses, or the load.",
            percent(residual.value.clamp(0.0, 1.0))
        ));
    }
    Some(text)
}

/// Which resources were confirmed as the limit and which were not, with their elasticities; none without a completed round.
pub fn proof_in_short(document: &ResultDocument) -> Option<String> {
    let proof = document.proof.as_ref()?;
    let rows: Vec<&ProofRow> = proof.rows.iter().filter(|row| row.rounds > 0).collect();
    let of = |answers: &[ProofAnswer]| -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for resource in rows.chunk_by(|one, next| one.resource == next.resource) {
            // A reduction shows whether the resource is needed; an increase only whether more would help.
            let Some(row) =
                resource.iter().find(|row| row.direction == Direction::Reduced).or(resource.first())
            else {
                continue;
            };
            if answers.contains(&row.answer) {
                let elasticity = row.elasticity.map_or(String::new(), |of| {
                    format!(" (elasticity {:.2})", (of.value * 100.0).round() / 100.0 + 0.0)
                });
                names.push(format!("{}{elasticity}", row.factor));
            }
        }
        names
    };
    let groups = [
        ("Confirmed", of(&[ProofAnswer::Confirmed])),
        ("Contributing", of(&[ProofAnswer::Contributing])),
        ("Ruled out", of(&[ProofAnswer::Rejected])),
        ("Unclear", of(&[ProofAnswer::Unclear])),
    ];
    let texts: Vec<String> = groups
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(word, names)| format!("{word}: {}.", super::listed(&names)))
        .collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// The changes of one resource.
fn changes(rows: &[&ProofRow]) -> String {
    let texts: Vec<String> = rows.iter().map(|row| change(row)).collect();
    format!("{}.", capitalized(&texts.join("; ")))
}

fn change(row: &ProofRow) -> String {
    let ProofRow { factor, in_force, level, .. } = row;
    let verb = match row.direction {
        Direction::Reduced => "reduced",
        Direction::Raised => "raised",
    };
    let changed = format!("with {factor} {verb} from {in_force} to {level}, throughput");
    let Some((Estimate { value, low, high }, ratio)) = row.elasticity.zip(row.throughput_ratio) else {
        return format!("{changed} was measured only once");
    };
    let followed = match row.answer {
        ProofAnswer::Confirmed => "followed",
        ProofAnswer::Contributing => "followed in part",
        ProofAnswer::Rejected => "did not follow",
        ProofAnswer::Unclear if high < HARDLY => "followed little or not at all",
        ProofAnswer::Unclear => "may have followed",
    };
    // Plus zero takes the sign off a zero.
    let [value, low, high] = [value, low, high].map(|part| (part * 100.0).round() / 100.0 + 0.0);
    let ratio = RatioStyle::Percent.show(ratio, None);
    format!("{changed} {followed}: {ratio}, elasticity {value:.2} (95 % interval {low:.2} to {high:.2})")
}
