//! Outbound rules: provisioning and flows out of the metaverse.

use std::collections::{BTreeMap, BTreeSet};

use super::convert::{Converter, Rules};
use super::export::{Connection, ExportFlow, Mapping};
use super::flows::{Direction, Source, attributes_of, shown};
use super::function::{Translator, attribute, is_identifier, quoted};
use super::systems::TYPE_ATTRIBUTE;
use super::write::{key, list, string};
use super::{Kind, Place};
use metadir::schema::Type;

/// Attributes that hold a password, which is not carried over.
const PASSWORDS: &[&str] = &["unicodePwd", "userPassword", "export_password", "pwd", "password"];

/// Flows by their target, as they are written.
type Flows = BTreeMap<String, String>;

/// The name of new objects as an expression, with the attributes that it reads.
type Name = (String, Vec<String>);

impl Converter<'_> {
    /// The rules from one type of the metaverse to one type of the objects of an agent; none if nothing could name them.
    pub(super) fn outbound(
        &mut self,
        of: &Rules<'_>,
        (object_type, from_type): (&str, &str),
        used: &mut BTreeSet<String>,
    ) -> Option<String> {
        let agent = of.agent;
        let flows = agent.flows.iter();
        let flows: Vec<&ExportFlow> =
            flows.filter(|flow| flow.object_type == object_type && flow.from_type == from_type).collect();
        self.types.entry(from_type.into()).or_default();
        let [mut always, mut initial]: [Flows; 2] = Default::default();
        let mut dn: Option<Name> = None;
        for flow in &flows {
            let subject = format!(
                "{} of {object_type} in \"{}\", from {} of {from_type}",
                flow.to,
                agent.name,
                shown(&flow.mapping)
            );
            let target = if flow.is_initial { &initial } else { &always };
            let result = match &flow.mapping {
                _ if PASSWORDS.contains(&flow.to.as_str()) => Err("passwords are not carried over".into()),
                mapping if flow.to == "dn" => self.name(mapping),
                _ if target.contains_key(&flow.to) => Err(format!("another flow sets {} too", flow.to)),
                mapping => {
                    let kind = if of.references.contains(&flow.to) { Type::Reference } else { Type::Text };
                    self.source(of, mapping, Direction::Out, kind)
                }
            };
            let Some(source) =
                self.count_flow((&flow.mapping, Direction::Out), &flow.place, &subject, result)
            else {
                continue;
            };
            let read = attributes_of(&flow.mapping);
            for from in &read {
                self.use_attribute(from_type, from);
            }
            used.insert(flow.to.clone());
            if flow.to == "dn" {
                dn = Some((source, read));
            } else {
                let target = if flow.is_initial { &mut initial } else { &mut always };
                target.insert(flow.to.clone(), source);
            }
        }
        initial.retain(|to, _| !always.contains_key(to));
        let place = flows.first().map_or(&agent.place, |flow| &flow.place);
        let keeping: Vec<&str> = flows
            .iter()
            .filter(|flow| flow.keeps_absent && always.contains_key(&flow.to))
            .map(|flow| flow.to.as_str())
            .collect();
        if !keeping.is_empty() {
            let what = format!(
                "if {from_type} has no value, MIM keeps the value of these attributes in \"{}\", and here it is removed: {}",
                agent.name,
                keeping.join(", ")
            );
            self.note(place, Kind::Review, what, "move those that must stay to `initial`");
        }
        types_of_objects(of, object_type, &always, &mut initial);
        let (dn, when) = self.name_and_condition(of, from_type, dn, &always, place)?;
        let deprovision = self.deprovision(of, place);
        let mut lines = vec![
            "[[outbound]]".to_string(),
            format!("agent = {}", string(of.name)),
            format!("from = {}", string(from_type)),
            format!("when = {}", string(&when)),
            format!("dn = {}", string(&dn)),
            format!("deprovision = {}", string(deprovision)),
        ];
        for (head, flows) in [("[outbound.flow]", &always), ("[outbound.initial]", &initial)] {
            if !flows.is_empty() {
                lines.push(head.into());
                lines.extend(flows.iter().map(|(to, source)| format!("{} = {source}", key(to))));
            }
        }
        Some(lines.join("\n"))
    }

    /// The name of an object, as an expression.
    fn name(&self, mapping: &Mapping) -> Result<Source, String> {
        let schema = &self.export.metaverse.attributes;
        match mapping {
            Mapping::Function(function) => {
                let mut translator = Translator { root: "mv", schema, cautions: Vec::new() };
                let text = translator.name(function)?;
                Ok(Source { text, cautions: translator.cautions })
            }
            Mapping::Direct(from) => Ok(attribute("mv", from).into()),
            other => Err(format!("{} has no equivalent as a name", shown(other))),
        }
    }

    /// The name of new objects, and which have one. None where no attribute could name them.
    fn name_and_condition(
        &mut self,
        of: &Rules<'_>,
        from_type: &str,
        dn: Option<Name>,
        always: &Flows,
        place: &Place,
    ) -> Option<(String, String)> {
        let agent = of.agent;
        if let Some((dn, parts)) = dn {
            let parts = parts.iter().filter(|part| is_identifier(part));
            let tests: Vec<String> = parts.map(|part| format!("has(mv.{part})")).collect();
            let when = if tests.is_empty() { "true".to_string() } else { tests.join(" && ") };
            let what = format!(
                "the export does not say which {from_type} objects a synchronization rule provisions to \"{}\"",
                agent.name
            );
            self.note(place, Kind::Review, what, "complete `when` with the scope of the rule");
            return Some((dn, when));
        }
        // What flows into the key of an object names it best.
        let preferred = ["cn", "sAMAccountName", "uid", "name", "displayName"];
        let direct = |to: &str| {
            let from = always.get(to)?.strip_prefix('"')?.strip_suffix('"')?;
            (self.metaverse_kind(from) != Type::Reference && is_identifier(from)).then(|| from.to_string())
        };
        let anchor = agent.anchor.iter().map(String::as_str);
        let found =
            anchor.chain(preferred).find_map(direct).or_else(|| always.keys().find_map(|to| direct(to)));
        let Some(from) = found else {
            let what = format!(
                "{from_type} in \"{}\": no flow has an attribute that could name its objects",
                agent.name
            );
            self.note(place, Kind::NotConverted, what, "write the [[outbound]] with `when` and `dn`");
            return None;
        };
        let dn = match &agent.connection {
            Connection::Directory(directory) => {
                let base = directory.bases.first();
                let base = base.map_or(String::new(), |base| format!(" + {}", quoted(&format!(",{base}"))));
                format!("rdn('CN', mv.{from}){base}")
            }
            _ => format!("mv.{from}"),
        };
        let by = self.export.metaverse.extension.as_deref().unwrap_or("a rules extension");
        let what =
            format!("{by} decides which {from_type} objects are in \"{}\", and their names", agent.name);
        self.note(
            place,
            Kind::Review,
            what,
            format!("correct `when` and `dn` of the [[outbound]] of {}", of.name),
        );
        Some((dn, format!("has(mv.{from})")))
    }

    fn deprovision(&mut self, of: &Rules<'_>, place: &Place) -> &'static str {
        let name = &of.agent.name;
        match of.agent.deprovision.as_str() {
            "delete-object" => "delete",
            "make-normal-disconnector" | "" => "disconnect",
            "make-explicit-disconnector" => {
                let what = format!("\"{name}\" makes an explicit disconnector of a deprovisioned object");
                self.note(place, Kind::Review, what, "here its link is kept, and it does not join by itself");
                "disconnect"
            }
            _ => {
                self.counts.scripts.add(false);
                let what = format!("the deprovisioning of \"{name}\" is a rules extension");
                let help = "write `deprovision`: disconnect, delete or { disable = { ... } }";
                self.note(place, Kind::NotConverted, what, help);
                "disconnect"
            }
        }
    }
}

/// A new object needs its type, which MIM sets by itself.
fn types_of_objects(of: &Rules<'_>, object_type: &str, always: &Flows, initial: &mut Flows) {
    let (name, value) = match &of.agent.connection {
        Connection::Directory(_) => {
            let classes: &[&str] = match object_type {
                "user" => &["top", "person", "organizationalPerson", "user"],
                "inetOrgPerson" => &["top", "person", "organizationalPerson", "user", "inetOrgPerson"],
                "contact" => &["top", "person", "organizationalPerson", "contact"],
                other => &["top", other],
            };
            let classes: Vec<String> = classes.iter().map(ToString::to_string).collect();
            ("objectClass".to_string(), list(&classes))
        }
        Connection::Table(table) => match &table.type_column {
            Some(column) => (column.clone(), string(object_type)),
            None => return,
        },
        Connection::Other if of.types.len() > 1 => (TYPE_ATTRIBUTE.to_string(), string(object_type)),
        Connection::Other => return,
    };
    if !always.contains_key(&name) {
        initial.entry(name).or_insert_with(|| format!("{{ constant = {value} }}"));
    }
}
