//! One object whole: its metaverse object with the origin of each value, and all its connectors.

use super::Metadirectory;
use crate::hologram::{Attribute, Hologram};
use crate::object::{Change, CsId, CsObject, MvId, PendingImport, Phase, ReferenceChange, State};
use crate::secret::{SecretValues, readable, shown};
use crate::store::StoreError;
use crate::synchronize::called;

/// Limit of the deletions that are looked through for the end of a grace period.
const DELETIONS: usize = 1_000_000;

/// An object with everything that belongs to it. Secret values are hidden.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShownObject {
    /// The metaverse object; none if the object is linked to none.
    pub metaverse: Option<ShownMv>,
    /// Its objects in connector spaces, in ascending order of number.
    pub connectors: Vec<ShownCs>,
}

/// A metaverse object.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownMv {
    /// Its number.
    pub number: i64,
    /// Its type.
    pub kind: String,
    /// Its attributes, sorted by name.
    pub attributes: Vec<ShownAttribute>,
}

/// An attribute of a metaverse object.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownAttribute {
    /// Its name.
    pub name: String,
    /// Its values; of references, the names of the objects that they lead to.
    pub values: Vec<String>,
    /// The agent that contributes it.
    pub agent: Option<String>,
    /// The connector space object that it comes from.
    pub from: Option<String>,
    /// Since when it has these values, seconds since 1970; none for references.
    pub since_unix_s: Option<u64>,
}

/// Attributes with their values, sorted by name.
pub type NamedValues = Vec<(String, Vec<String>)>;

/// A connector space object.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownCs {
    /// Its agent.
    pub agent: String,
    /// Its name or anchor.
    pub object: String,
    /// Its number.
    pub number: i64,
    /// Its state.
    pub state: State,
    /// Its synchronized values, sorted by attribute.
    pub values: NamedValues,
    /// The pending import: its kind, and the values that it changes with their new values.
    pub pending_import: Option<(Change, NamedValues)>,
    /// The pending export.
    pub pending_export: Option<ShownExport>,
    /// Why its last synchronization or export failed.
    pub failure: Option<String>,
    /// When its grace period ends, seconds since 1970.
    pub delete_at_unix_s: Option<u64>,
}

/// A pending export.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownExport {
    /// What is done with the object.
    pub change: Change,
    /// Whether it was sent and an import has to confirm it.
    pub is_sent: bool,
    /// The new name.
    pub rename: Option<String>,
    /// Attributes with their new values, and whether they were sent.
    pub attributes: Vec<(String, Vec<String>, bool)>,
    /// Added and removed references: the attribute, the value, whether it is added.
    pub references: Vec<(String, String, bool)>,
}

impl Metadirectory {
    /// Shows the object of a connector space with a name or anchor, its metaverse object and all connectors.
    /// None if there is no such object.
    ///
    /// # Errors
    /// When the store fails.
    pub fn show(&mut self, agent: usize, key: &str) -> Result<Option<ShownObject>, StoreError> {
        let Some(object) = self.object(agent, key)? else { return Ok(None) };
        if let Some(mv) = object.mv
            && let Some(shown) = self.show_mv(mv)?
        {
            return Ok(Some(shown));
        }
        let secrets = self.secrets_of([object.image(), object.synchronized.as_ref()]);
        Ok(Some(ShownObject { metaverse: None, connectors: vec![self.shown_cs(&object, &secrets)?] }))
    }

    /// Shows the metaverse object with a number and all its connectors. None if there is no such object.
    ///
    /// # Errors
    /// When the store fails.
    pub fn show_mv(&mut self, id: MvId) -> Result<Option<ShownObject>, StoreError> {
        let Some(object) = self.store.mv(&[id])?.pop() else { return Ok(None) };
        let linked = self.store.cs(&object.connectors)?;
        let images = linked.iter().flat_map(|object| [object.image(), object.synchronized.as_ref()]);
        let secrets = self.secrets_of(images.chain([Some(&object.image)]));
        let name_of = |id: CsId| {
            let found = linked.iter().find(|object| object.id == id)?;
            Some(secrets.without(called(self.rules.agent(found.agent), found).trim_matches('"')))
        };
        let agent_of = |id| self.rules.agent(id).map(|agent| agent.name.clone());
        let mut attributes: Vec<ShownAttribute> = Vec::new();
        for (attribute, values) in object.image.iter() {
            let line = object.lineage.iter().find(|line| line.attribute == attribute);
            attributes.push(ShownAttribute {
                name: self.names.name(attribute).into(),
                values: self.shown_values(attribute, &values.to_vec(), &secrets),
                agent: line.as_ref().and_then(|line| agent_of(line.agent)),
                from: line.as_ref().and_then(|line| name_of(line.cs)),
                since_unix_s: line.as_ref().map(|line| line.at_unix_s),
            });
        }
        let given = crate::synchronize::given(self.store.as_mut(), &self.rules, id)?;
        for of_attribute in given.chunk_by(|one, other| one.attribute == other.attribute) {
            let Some(first) = of_attribute.first() else { continue };
            let to: Vec<MvId> = of_attribute.iter().map(|value| value.to).collect();
            let agent = self.rules.agent(first.agent).map(|agent| agent.name.clone());
            let from = linked.iter().find(|object| object.id == first.cs);
            let from = from.map(|object| called(self.rules.agent(object.agent), object));
            let name = self.names.name(first.attribute).to_string();
            let values = self.mv_names(&to)?.into_values().collect();
            let from = from.map(|from| from.trim_matches('"').to_string());
            attributes.push(ShownAttribute { name, values, agent, from, since_unix_s: None });
        }
        attributes.sort_by(|one, other| one.name.cmp(&other.name));
        let kind = self.rules.type_of(object.kind).and_then(|at| self.types.get(at)).cloned();
        let metaverse = ShownMv { number: id.0, kind: kind.unwrap_or_default(), attributes };
        let mut connectors = Vec::new();
        for object in &linked {
            connectors.push(self.shown_cs(object, &secrets)?);
        }
        Ok(Some(ShownObject { metaverse: Some(metaverse), connectors }))
    }

    /// The secret values in images, which may occur elsewhere.
    fn secrets_of<'a>(&self, images: impl IntoIterator<Item = Option<&'a Hologram>>) -> SecretValues {
        let mut secrets = SecretValues::default();
        for (attribute, values) in images.into_iter().flatten().flat_map(Hologram::iter) {
            if self.secrets.hides(self.names.name(attribute)) {
                values.iter().for_each(|value| secrets.add(value));
            }
        }
        secrets
    }

    fn shown_values(&self, attribute: Attribute, values: &[Vec<u8>], secrets: &SecretValues) -> Vec<String> {
        let name = self.names.name(attribute);
        values.iter().map(|value| secrets.without(&shown(self.secrets.hides(name), value))).collect()
    }

    /// The attributes of an image, sorted by name. References are those that the object has.
    fn shown_image(
        &self,
        image: &Hologram,
        but: &[Attribute],
        secrets: &SecretValues,
    ) -> Vec<(String, Vec<String>)> {
        let shown = image.iter().filter(|(attribute, _)| !but.contains(attribute));
        let mut all: Vec<(String, Vec<String>)> = shown
            .map(|(attribute, values)| {
                let values = self.shown_values(attribute, &values.to_vec(), secrets);
                (self.names.name(attribute).to_string(), values)
            })
            .collect();
        all.sort();
        all
    }

    fn shown_cs(&mut self, object: &CsObject, secrets: &SecretValues) -> Result<ShownCs, StoreError> {
        let references = self.store.references(&[object.id])?;
        let failure = self.store.failure(object.id)?.map(|why| secrets.without(&why));
        let delete_at_unix_s = match object.state {
            State::Deprovisioned => {
                let due = self.store.deletions(u64::MAX, DELETIONS)?;
                due.into_iter().find(|(id, _)| *id == object.id).map(|(_, at)| at)
            }
            _ => None,
        };
        let rules = self.rules.agent(object.agent);
        let referring = rules.map_or(&[][..], |rules| rules.references.as_slice());
        let nothing = Hologram::default();
        let synchronized = object.synchronized.as_ref().unwrap_or(&nothing);
        let mut values = self.shown_image(synchronized, referring, secrets);
        let mut of_references = std::collections::BTreeMap::<&str, Vec<String>>::new();
        for reference in references.iter().filter(|reference| reference.is_synchronized) {
            let name = self.names.name(reference.attribute);
            of_references.entry(name).or_default().push(readable(&reference.value));
        }
        values.extend(of_references.into_iter().map(|(name, values)| (name.to_string(), values)));
        values.sort();
        let pending_import = object.pending_import.as_ref().map(|pending| {
            let image = pending.image().unwrap_or(&nothing);
            let mut changed = Vec::new();
            if !matches!(pending, PendingImport::Delete) {
                let attributes = image.iter().chain(synchronized.iter()).map(|(attribute, _)| attribute);
                let mut attributes: Vec<Attribute> = attributes
                    .filter(|attribute| image.get(*attribute) != synchronized.get(*attribute))
                    .collect();
                attributes.sort_unstable();
                attributes.dedup();
                for attribute in attributes {
                    let values = image.get(attribute).map(|values| values.to_vec()).unwrap_or_default();
                    let shown = match referring.contains(&attribute) {
                        true => references
                            .iter()
                            .filter(|of| of.attribute == attribute && of.is_imported)
                            .map(|of| readable(&of.value))
                            .collect(),
                        false => self.shown_values(attribute, &values, secrets),
                    };
                    changed.push((self.names.name(attribute).to_string(), shown));
                }
            }
            changed.sort();
            (pending.change(), changed)
        });
        let pending_export = object.pending_export.as_ref().map(|export| {
            let attribute = |of: crate::object::PendingAttribute<'_>| {
                let values = self.shown_values(of.attribute, &of.values.to_vec(), secrets);
                (self.names.name(of.attribute).to_string(), values, of.phase == Phase::Unconfirmed)
            };
            let changed = references.iter().filter_map(|reference| {
                let (change, _) = reference.export?;
                let name = self.names.name(reference.attribute);
                let value = shown(self.secrets.hides(name), &reference.value);
                Some((name.to_string(), value, change == ReferenceChange::There))
            });
            ShownExport {
                change: export.change,
                is_sent: export.phase == Phase::Unconfirmed,
                rename: export.rename.as_ref().map(|rename| secrets.without(&rename.dn)),
                attributes: export.attributes.iter().map(attribute).collect(),
                references: changed.collect(),
            }
        });
        Ok(ShownCs {
            agent: rules.map_or_else(String::new, |rules| rules.name.clone()),
            object: secrets.without(called(rules, object).trim_matches('"')),
            number: object.id.0,
            state: object.state,
            values,
            pending_import,
            pending_export,
            failure,
            delete_at_unix_s,
        })
    }
}
