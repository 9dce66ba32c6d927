//! Converts TOML to a [`Config`], or reports all errors.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::flows::WrittenFlow;
use super::part::{Part, Reader, SystemKind, names, span_in, span_of};
use super::suggestion::{near, one_of, value_type};
use super::{
    AgentConfig, Candidates, Config, Existing, ExportFlow, ImportFlow, Inbound, JoinPart, MetaverseAttribute,
    MetaverseType, Mistake, Outbound, Projection, Secrets, Source,
};
use crate::expression::{Expression, Wanted};
use crate::naming::Naming;
use crate::schema::Type;

pub(super) fn read(text: &str, kinds: &'static [SystemKind]) -> Result<Config, Vec<Mistake>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    // After a syntax error, further errors would be guesses.
    if !errors.is_empty() {
        return Err(super::syntax::mistakes(text, &errors));
    }
    let mut reader = Reader::new(text, kinds);
    let config = reader.config(document.get_ref());
    match config {
        Some(mut config) if reader.mistakes.is_empty() => {
            reader.never_set(&config);
            config.warnings = reader.warnings;
            config.warnings.extend(super::warnings::of(&config));
            config.warnings.sort_by_key(|warning| (warning.span.start, warning.span.end));
            Ok(config)
        }
        _ => Err(reader.all_mistakes()),
    }
}

impl Reader {
    fn config(&mut self, root: &DeTable<'_>) -> Option<Config> {
        let root = Part::new(root, "the file", 0..0);
        self.keys(
            &root,
            &[
                "store",
                "metaverse",
                "agents",
                "inbound",
                "outbound",
                "safety",
                "audit",
                "runs",
                "serve",
                "schedule",
            ],
        );
        let store = self.store(&root);
        let mut agents = self.agents(&root);
        let types: Vec<MetaverseType> = self
            .parts(&root, "metaverse")
            .into_iter()
            .map(|(name, part)| self.metaverse_type(name, &part, &agents))
            .collect();
        self.needed_tables(&root, agents.is_empty() && self.faulty_agents.is_empty(), types.is_empty());
        let inbound: Vec<Inbound> = self
            .list(&root, "inbound")
            .iter()
            .filter_map(|part| self.inbound(part, &types, &agents))
            .collect();
        let outbound: Vec<Outbound> = self
            .list(&root, "outbound")
            .iter()
            .filter_map(|part| self.outbound(part, &types, &agents))
            .collect();
        for rules in &outbound {
            let names = rules.write_only.iter().map(|write_only| write_only.to.clone());
            agents[rules.agent].write_only.extend(names);
        }
        self.mistakes.extend(super::write_only::not_read(&inbound, &agents, &types));
        self.spellings(&agents);
        let safety = self.safety(&root);
        let audit_keep_s = self.part(&root, "audit").and_then(|part| {
            self.keys(&part, &["keep"]);
            self.duration_s(&part, "keep")
        });
        let runs = self.runs(&root, &agents);
        let serve = self.serve(&root, &agents, &runs);
        self.precedences(&types, &inbound);
        self.types_of_agents(&types, &agents, &inbound, &outbound);
        let warnings = Vec::new();
        let mut config = Config {
            store: store?,
            types,
            agents,
            inbound,
            outbound,
            safety,
            audit_keep_s,
            runs,
            serve,
            secrets: Secrets::default(),
            warnings,
            interrupt: crate::Interrupt::default(),
        };
        config.secrets = Secrets::of(&config);
        Some(config)
    }

    /// Reports that there are no agents or no types. Rules name them, so this explains all that is missing.
    fn needed_tables(&mut self, root: &Part<'_>, has_no_agents: bool, has_no_types: bool) {
        for (key, is_empty, example) in [
            ("agents", has_no_agents, "[agents.staff] with type, path and anchor"),
            ("metaverse", has_no_types, "[metaverse.person] with attributes = { name = \"text\" }"),
        ] {
            // A value of another type is reported already.
            let is_table = root.get(key).is_none_or(|value| value.get_ref().is_table());
            if is_empty && is_table {
                let help = format!("write one, such as {example}");
                self.wrong(0..0, format!("there is no [{key}.NAME]"), help);
            }
        }
    }

    fn agents(&mut self, root: &Part<'_>) -> Vec<AgentConfig> {
        let mut agents = Vec::new();
        for (name, part) in self.parts(root, "agents") {
            match self.agent(name.clone(), &part) {
                Some(agent) => agents.push(agent),
                None => drop(self.faulty_agents.insert(name)),
            }
        }
        agents
    }

    fn agent(&mut self, name: String, part: &Part<'_>) -> Option<AgentConfig> {
        let kinds: Vec<(&str, &SystemKind)> = self.kinds.iter().map(|kind| (kind.name, kind)).collect();
        let kind = self.kind(part, &kinds)?;
        let known: Vec<&str> =
            ["type", "anchor", "references", "recall"].iter().chain(kind.keys).copied().collect();
        self.keys(part, &known);
        let anchor = self.anchor(part, kind);
        let references = self.texts(part, "references");
        let system = (kind.read)(self, part)?;
        self.reference_by_anchor(part, system.as_ref(), &anchor, &references);
        let ways = [("refuse", Existing::Refuse), ("adopt", Existing::Adopt), ("report", Existing::Report)];
        let mut existing = Existing::default();
        if part.has("existing") {
            existing = self.choice(part, "existing", &ways).unwrap_or_default();
        }
        let (recall, write_only) = (self.truth(part, "recall").unwrap_or(true), Vec::new());
        let source_span = span_of(part, system.file().map_or("type", |(key, _)| key));
        let (span, anchor_span) = (part.span.clone(), span_of(part, "anchor"));
        Some(AgentConfig {
            name,
            system,
            anchor,
            references,
            existing,
            recall,
            write_only,
            span,
            source_span,
            anchor_span,
        })
    }

    /// The kind of system. Names of file formats and products lead to the kind that has them.
    fn kind(
        &mut self,
        part: &Part<'_>,
        kinds: &[(&str, &'static SystemKind)],
    ) -> Option<&'static SystemKind> {
        if part.lacks("type") {
            let help = format!("write type = \"...\": one of {}", names(kinds));
            self.wrong(part.span.clone(), format!("{} has no `type`", part.what), help);
        }
        let written = self.text(part, "type", false)?;
        let found = kinds.iter().find(|(name, _)| *name == written).map(|(_, kind)| *kind);
        if found.is_none() {
            let all: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
            let meant = super::suggestion::kind_of(&written).filter(|name| all.contains(name));
            let help = meant.map_or_else(|| one_of(&written, &all), |name| format!("write type = {name:?}"));
            self.wrong(span_of(part, "type"), format!("`type` of {} cannot be {written:?}", part.what), help);
        }
        found
    }

    fn anchor(&mut self, part: &Part<'_>, kind: &SystemKind) -> Vec<String> {
        let mut anchor = self.texts(part, "anchor");
        if part.lacks("anchor") {
            anchor.extend(kind.anchor.map(String::from));
            if anchor.is_empty() {
                let help = "write anchor = \"ATTRIBUTE\": it identifies an object and never changes";
                self.wrong(part.span.clone(), format!("{} has no `anchor`", part.what), help);
            }
            return anchor;
        }
        let is_list = part.get("anchor").is_some_and(|value| value.get_ref().is_array());
        if anchor.iter().any(|name| name.trim().is_empty()) || is_list && anchor.is_empty() {
            let help = "write anchor = \"ATTRIBUTE\": it identifies an object and never changes";
            self.wrong(span_of(part, "anchor"), format!("`anchor` of {} is empty", part.what), help);
        }
        for (at, name) in anchor.iter().enumerate() {
            if !name.is_empty() && anchor[..at].contains(name) {
                self.wrong(span_of(part, "anchor"), format!("`{name}` is in `anchor` twice"), "remove one");
            }
        }
        anchor
    }

    fn metaverse_type(&mut self, name: String, part: &Part<'_>, agents: &[AgentConfig]) -> MetaverseType {
        self.keys(part, &["attributes", "deleted_with", "search"]);
        let mut attributes = Vec::new();
        match self.part(part, "attributes") {
            None if part.lacks("attributes") => self.wrong(
                part.span.clone(),
                format!("{} has no `attributes`", part.what),
                "write attributes = { name = \"text\" }",
            ),
            None => {}
            Some(listed) => {
                for (key, value) in listed.entries() {
                    let attribute = key.get_ref().to_string();
                    let text = self.as_text(value, &attribute);
                    let (kind, several) = match text.as_deref().map(|text| (text, text.strip_suffix("[]"))) {
                        Some((_, Some(kind))) => (kind, true),
                        Some((text, None)) => (text, false),
                        None => ("", false),
                    };
                    let found = Type::NAMES.iter().find(|(name, _)| *name == kind).map(|(_, kind)| *kind);
                    if found.is_none() {
                        self.untyped.insert(format!("{name}.{attribute}"));
                        if text.is_some() {
                            let all: Vec<&str> = Type::NAMES.iter().map(|(name, _)| *name).collect();
                            let help = match value_type(kind).or_else(|| near(kind, all.iter().copied())) {
                                Some(near) => format!("did you mean {near:?}?"),
                                None => {
                                    format!("one of {}; append [] for several values", names(&Type::NAMES))
                                }
                            };
                            self.wrong(value.span(), format!("there is no type {kind:?}"), help);
                        }
                    }
                    let kind = found.unwrap_or(Type::Text);
                    attributes.push(MetaverseAttribute { name: attribute, kind, several });
                }
            }
        }
        let search = self.searched(part, &name, &attributes);
        let deleted_with = self.texts(part, "deleted_with");
        let agent = |name: &String| {
            let span = span_in(part, "deleted_with", name);
            self.agent_named(name, &span, agents)
        };
        let deleted_with = deleted_with.iter().filter_map(agent).collect();
        MetaverseType { name, attributes, deleted_with, search, span: part.span.clone() }
    }

    /// The attributes of a type that have a search index.
    fn searched(&mut self, part: &Part<'_>, of: &str, attributes: &[MetaverseAttribute]) -> Vec<usize> {
        let mut search = Vec::new();
        for name in self.texts(part, "search") {
            let span = span_in(part, "search", &name);
            match attributes.iter().position(|attribute| attribute.name == name) {
                Some(at) if matches!(attributes[at].kind, Type::Reference | Type::Binary) => {
                    let help = "an index has text, numbers and truth values";
                    self.wrong(span.clone(), format!("`{name}` in `search` of {of} is not text"), help);
                }
                Some(_) if super::secrets::is_password(&name) => {
                    let what = format!("`{name}` in `search` of {of} is secret: it is never searched");
                    self.wrong(span.clone(), what, "remove it");
                }
                Some(at) if search.contains(&at) => {
                    self.wrong(span.clone(), format!("`{name}` is in `search` of {of} twice"), "remove one");
                }
                Some(at) => search.push(at),
                None => {
                    let known: Vec<&str> = attributes.iter().map(|of| of.name.as_str()).collect();
                    let help = one_of(&name, &known);
                    self.wrong(
                        span.clone(),
                        format!("`search` of {of}: there is no attribute `{name}`"),
                        help,
                    );
                }
            }
        }
        search
    }

    fn inbound(
        &mut self,
        part: &Part<'_>,
        types: &[MetaverseType],
        agents: &[AgentConfig],
    ) -> Option<Inbound> {
        self.keys(
            part,
            &[
                "agent",
                "to",
                "objects",
                "filter",
                "join",
                "multiple_connectors",
                "project",
                "precedence",
                "flow",
            ],
        );
        let agent = self.needed_agent(part, agents);
        let to = self.needed_type(part, "to", types);
        let objects = self.expression(part, "objects", "cs");
        let filter = self.expression(part, "filter", "cs");
        let project = match part.get("project") {
            None => Projection::No,
            Some(value) => match value.get_ref() {
                DeValue::Boolean(true) => Projection::Always,
                DeValue::Boolean(false) => Projection::No,
                _ => self.expression(part, "project", "cs").map_or(Projection::No, Projection::When),
            },
        };
        let joins = self.joins(part, to.map(|to| &types[to]));
        let multiple_connectors = self.truth(part, "multiple_connectors").unwrap_or(false);
        let of_rules = self.number(part, "precedence", 1..=1_000_000).map(|rank| rank as u32);
        let flows = self.flows(part, "flow", "cs");
        let mut known = Vec::new();
        for WrittenFlow { to: name, span, from, precedence, is_secret, candidates, empty, .. } in flows {
            let Some(to) = to else { continue };
            if empty.is_some() {
                let help = "remove it, or use default(...) in an expression";
                self.wrong(span.clone(), "`empty` is for flows of references out of the metaverse", help);
            }
            if let Source::Direct(from) = &from {
                self.is_no_expression(&span, from, "cs");
            }
            match types[to].place(&name) {
                Some(place) => {
                    if matches!(&from, Source::Constant(all) if all.len() > 1)
                        && !types[to].attributes[place].several
                    {
                        let what = format!("`{name}` takes one value, and this constant has several");
                        let help = "give it one, or make the attribute a list with []";
                        self.wrong(span.clone(), what, help);
                    }
                    let attribute = &types[to].attributes[place];
                    if candidates.is_some() && (attribute.kind != Type::Text || attribute.several) {
                        let what = format!("`{name}` gets a unique value, so it is a single text");
                        self.wrong(span.clone(), what, "give it the type \"text\"");
                    }
                    self.constant_fits(&span, attribute, &from);
                    known.push(ImportFlow {
                        to: place,
                        from,
                        precedence: precedence.or(of_rules).unwrap_or(0),
                        is_secret,
                        candidates,
                        span,
                    })
                }
                None if self.is_below_flows("flow", &name, &span) => {}
                None => self.unknown_attribute(span, &name, &types[to]),
            }
        }
        let (agent, to, flows) = (agent?, to?, known);
        let rules = Inbound {
            agent,
            to,
            objects,
            filter,
            joins,
            multiple_connectors,
            project,
            flows,
            span: part.span.clone(),
        };
        self.inbound_expressions(part, &rules);
        self.read_in(part, &rules);
        self.references_in(part, &rules, &agents[rules.agent], &types[rules.to]);
        Some(rules)
    }

    /// Notes the attributes that inbound rules read, of the system and of the metaverse.
    fn read_in(&mut self, part: &Part<'_>, rules: &Inbound) {
        let mut read: Vec<(&str, Range<usize>)> = Vec::new();
        let project = match &rules.project {
            Projection::When(when) => Some(when),
            Projection::No | Projection::Always => None,
        };
        for (key, condition) in
            [("objects", rules.objects.as_ref()), ("filter", rules.filter.as_ref()), ("project", project)]
        {
            let uses = condition.map_or(&[][..], Expression::uses);
            read.extend(uses.iter().map(|name| (name.as_str(), span_of(part, key))));
        }
        for join in &rules.joins {
            let uses =
                join.cs.iter().flat_map(JoinPart::uses).chain(join.when.iter().flat_map(Expression::uses));
            read.extend(uses.map(|name| (name.as_str(), join.span.clone())));
            let uses = join.mv.iter().flat_map(JoinPart::uses);
            self.read.extend(uses.map(|name| (rules.to, name.clone(), join.span.clone())));
        }
        for flow in &rules.flows {
            let uses = match &flow.from {
                Source::Direct(name) => std::slice::from_ref(name),
                Source::Expression(expression) => expression.uses(),
                Source::Constant(_) => &[],
            };
            read.extend(uses.iter().map(|name| (name.as_str(), flow.span.clone())));
        }
        let spelled = read.into_iter().map(|(name, span)| (rules.agent, name.to_string(), false, span));
        self.spelled.extend(spelled);
    }

    fn outbound(
        &mut self,
        part: &Part<'_>,
        types: &[MetaverseType],
        agents: &[AgentConfig],
    ) -> Option<Outbound> {
        self.keys(part, &["agent", "from", "when", "dn", "deprovision", "flow", "initial", "write_only"]);
        let agent = self.needed_agent(part, agents);
        let from = self.needed_type(part, "from", types);
        let kind = from.map(|from| &types[from]);
        let when = self.expression(part, "when", "mv");
        let (dn, dn_candidates) = self.name(part);
        let (deprovision, delete_after_s) = self.deprovision(part);
        // The attributes that an expression names, with their place.
        let of = |key, expression: &Option<Expression>| {
            let uses = expression.as_ref().map_or(&[][..], Expression::uses);
            uses.iter().map(|name| (name.clone(), span_of(part, key))).collect::<Vec<_>>()
        };
        let mut named = [of("when", &when), of("dn", &dn)].concat();
        for other in dn_candidates.iter().flat_map(|candidates: &Candidates| &candidates.others) {
            named.extend(other.uses().iter().map(|name| (name.clone(), span_of(part, "dn"))));
        }
        let flows = self.export_flows(part, "flow", kind, &mut named);
        let initial = self.export_flows(part, "initial", kind, &mut named);
        let write_only = self.write_only(part);
        named
            .extend(Reader::read_by(&write_only).into_iter().map(|name| (name, span_of(part, "write_only"))));
        if let Some(when) = &when {
            self.fits(&span_of(part, "when"), "`when`", when, Wanted::Condition, kind);
        }
        for expression in dn.iter().chain(dn_candidates.iter().flat_map(|candidates| &candidates.others)) {
            self.fits(&span_of(part, "dn"), "`dn`", expression, Wanted::Text, kind);
        }
        if let (Some(from), Some(kind)) = (from, kind) {
            for (name, span) in named {
                match kind.place(&name) {
                    None => self.unknown_attribute(span, &name, kind),
                    Some(_) => self.read.push((from, name, span)),
                }
            }
        }
        let (agent, from, dn) = (agent?, from?, dn?);
        if dn_candidates.is_some() && agents[agent].system.naming() == Naming::Anchor {
            let what = format!("objects of {} have no names of their own", agents[agent].name);
            let help = "give an attribute of the metaverse `candidates`, and let it flow into the anchor";
            self.wrong(span_of(part, "dn"), what, help);
        }
        let rules = Outbound {
            agent,
            from,
            when,
            dn,
            dn_candidates,
            deprovision,
            delete_after_s,
            flows,
            initial,
            write_only,
            span: part.span.clone(),
        };
        let exported = rules.flows.iter().map(|flow| ("flow", &flow.to));
        let exported = exported.chain(rules.initial.iter().map(|flow| ("initial", &flow.to)));
        for (key, name) in exported {
            self.spelled.push((agent, name.clone(), true, span_in(part, key, name)));
        }
        self.name_in_system(part, &rules, &agents[rules.agent]);
        self.references_out(part, &rules, &agents[rules.agent], &types[rules.from]);
        self.write_only_is_well(part, &rules, &agents[rules.agent]);
        Some(rules)
    }

    /// The name of the objects that an `[[outbound]]` makes.
    fn name(&mut self, part: &Part<'_>) -> (Option<Expression>, Option<Candidates>) {
        if part.lacks("dn") {
            let help = "write an expression for the name of the object, such as dn = \"mv.id\"";
            self.wrong(part.span.clone(), format!("{} has no `dn`", part.what), help);
        }
        match part.get("dn").map(toml::Spanned::get_ref) {
            Some(DeValue::Table(table)) => {
                let of_name = Part::new(table, "`dn`", span_of(part, "dn"));
                self.keys(&of_name, &["candidates", "most"]);
                self.candidates(&of_name, "mv").unzip()
            }
            _ => (self.expression(part, "dn", "mv"), None),
        }
    }

    /// The flows of an `[[outbound]]`. The attributes of the metaverse that they read are appended to `named`.
    fn export_flows(
        &mut self,
        part: &Part<'_>,
        key: &'static str,
        kind: Option<&MetaverseType>,
        named: &mut Vec<(String, Range<usize>)>,
    ) -> Vec<ExportFlow> {
        let mut flows = Vec::new();
        for WrittenFlow { to, span, from, from_span, precedence, is_secret, candidates, empty } in
            self.flows(part, key, "mv")
        {
            if candidates.is_some() {
                let what = "`candidates` are for flows into the metaverse and for `dn`";
                let help = "choose a unique value in a flow into the metaverse, or give `dn` candidates";
                self.wrong(span.clone(), what, help);
            }
            if precedence.is_some() {
                self.wrong(span, "`precedence` is only for flows into the metaverse", "remove it");
            }
            let is_unknown = |name: &String| kind.is_some_and(|kind| kind.place(name).is_none());
            match &from {
                Source::Direct(name) if is_unknown(name) && self.is_below_flows(key, &to, &from_span) => {}
                Source::Direct(name) => named.push((name.clone(), from_span)),
                Source::Constant(_) => {}
                Source::Expression(expression) => {
                    named.extend(expression.uses().iter().map(|name| (name.clone(), from_span.clone())));
                    let what = format!("the flow of `{to}`");
                    self.fits(&from_span, &what, expression, Wanted::Values, kind);
                }
            }
            flows.push(ExportFlow { to, from, empty, is_secret });
        }
        flows
    }

    fn needed_agent(&mut self, part: &Part<'_>, agents: &[AgentConfig]) -> Option<usize> {
        let name = self.text(part, "agent", true)?;
        self.agent_named(&name, &span_of(part, "agent"), agents)
    }

    pub(super) fn agent_named(
        &mut self,
        name: &str,
        span: &Range<usize>,
        agents: &[AgentConfig],
    ) -> Option<usize> {
        let found = agents.iter().position(|agent| agent.name == name);
        // Without agents, and for one with mistakes, this is reported already.
        if found.is_none() && !agents.is_empty() && !self.faulty_agents.contains(name) {
            let faulty = self.faulty_agents.clone();
            let all: Vec<&str> =
                agents.iter().map(|agent| &agent.name).chain(&faulty).map(String::as_str).collect();
            self.wrong_once(span.clone(), format!("there is no agent {name:?}"), one_of(name, &all));
        }
        found
    }

    fn needed_type(&mut self, part: &Part<'_>, key: &str, types: &[MetaverseType]) -> Option<usize> {
        let name = self.text(part, key, true)?;
        let found = types.iter().position(|kind| kind.name == name);
        if found.is_none() && !types.is_empty() {
            let all: Vec<&str> = types.iter().map(|kind| kind.name.as_str()).collect();
            let what = format!("there is no type {name:?} in the metaverse");
            self.wrong_once(span_of(part, key), what, one_of(&name, &all));
        }
        found
    }

    pub(super) fn unknown_attribute(&mut self, span: Range<usize>, name: &str, kind: &MetaverseType) {
        let of = &kind.name;
        let is_name = |character: char| character.is_alphanumeric() || "_-.;: ".contains(character);
        let help = match near(name, kind.attributes.iter().map(|attribute| attribute.name.as_str())) {
            Some(near) => format!("did you mean `{near}`?"),
            None if !name.chars().all(is_name) || name.contains("mv.") => {
                "write the name of an attribute, or { expression = \"...\" }".into()
            }
            None => format!("add {name} = \"text\" to `attributes` of [metaverse.{of}]"),
        };
        self.wrong_once(span, format!("`{of}` has no attribute `{name}`"), help);
    }
}
