//! Unique values that change hands between the rows of one call.
//!
//! Databases check most unique constraints row by row, so two rows cannot exchange values with one statement. They can
//! inside a transaction: the rows get other values first, which nobody else sees.

use super::{Answers, Place, Refusal, Writer};
use crate::sql::database::{Fault, Value};
use crate::sql::shape::Column;
use metadir::agent::ExportedObject;
use metadir::object::Change;

impl Writer<'_> {
    /// Writes the changes again whose unique values other rows have: the other changes may have freed them.
    pub(super) fn settle_taken(
        &mut self,
        changes: &[ExportedObject],
        answers: &mut Answers,
    ) -> Result<(), Fault> {
        let taken = |answers: &Answers| -> Vec<usize> {
            (0..answers.len()).filter(|at| matches!(answers[*at], Err(Refusal::Taken(_)))).collect()
        };
        for at in taken(answers) {
            answers[at] = self.savepoint(std::slice::from_ref(&changes[at]))?;
        }
        let mut left = taken(answers);
        while left.len() > 1 {
            let refused = self.exchange(changes, &left)?;
            let (still, done): (Vec<usize>, Vec<usize>) =
                left.iter().partition(|at| refused.iter().any(|(other, _)| other == *at));
            if refused.is_empty() {
                done.iter().for_each(|at| answers[*at] = Ok(()));
            }
            for (at, refusal) in refused {
                answers[at] = Err(refusal);
            }
            // Nothing of an exchange is kept unless all of it is accepted: the others are tried without those.
            left = if still.is_empty() { Vec::new() } else { done };
        }
        Ok(())
    }

    /// Exchanges values between rows. If some changes are refused, they are returned and nothing is written.
    fn exchange(
        &mut self,
        changes: &[ExportedObject],
        places: &[usize],
    ) -> Result<Vec<(usize, Refusal)>, Fault> {
        let table = self.shape.table.clone();
        let unique = self.database.unique_columns(&table)?;
        let mut refused = Vec::new();
        self.database.run("SAVEPOINT exchange")?;
        for at in places {
            self.part_with(&changes[*at], *at, &unique)?;
        }
        for at in places {
            if let Err(refusal) = self.savepoint(std::slice::from_ref(&changes[*at]))? {
                refused.push((*at, refusal));
            }
        }
        if !refused.is_empty() {
            self.database.run("ROLLBACK TO exchange")?;
        }
        self.database.run("RELEASE exchange")?;
        Ok(refused)
    }

    /// Gives a row temporary values in the unique columns that change: none, or one that the column accepts.
    fn part_with(&mut self, change: &ExportedObject, number: usize, unique: &[String]) -> Result<(), Fault> {
        if change.change != Change::Update {
            return Ok(());
        }
        let key = match self.key(change) {
            Ok(key) => key,
            Err(fault) => return Refusal::of(fault).map(drop),
        };
        let shape = self.shape;
        let key: Vec<(&Column, Value<'_>)> =
            shape.anchor().zip(&key).map(|(column, value)| (column, Value::One(value))).collect();
        let mut changed: Vec<(&Column, usize)> = Vec::new();
        for (attribute, values) in &change.attributes {
            let Some(Place::Column(at)) = self.places.get(attribute) else { continue };
            let column = &shape.columns[*at];
            if unique.contains(&column.name) && !shape.anchor.contains(at) {
                changed.push((column, values.first().map_or(0, Vec::len)));
            }
        }
        for (column, length) in changed {
            let width = length.saturating_sub(1);
            let texts = [
                // As long as the new value.
                format!("~{number:0width$x}"),
                format!("-{}", number + 1),
                format!("{}", 2_000_000_000 + number),
                format!("00000000-0000-0000-0000-{number:012x}"),
            ];
            let values =
                [Value::None].into_iter().chain(texts.iter().map(|text| Value::One(text.as_bytes())));
            for value in values {
                let set = |writer: &mut Self| writer.update(&key, &[(column, value)]);
                if self.kept_or_undone("parting", set)?.is_ok() {
                    break;
                }
            }
        }
        Ok(())
    }
}
