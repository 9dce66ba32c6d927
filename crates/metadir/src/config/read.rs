//! Converts TOML to a [`Config`], or reports all errors.

use std::ops::Range;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::exposure::Exposure;
use super::part::{Part, Reader, SystemKind, names, span_of};
use super::{
    AgentConfig, Candidates, Config, Database, Deprovision, Existing, ExportFlow, ImportFlow, Inbound,
    MetaverseAttribute, MetaverseType, Mistake, Outbound, Projection, RunProfile, Secrets, Source, Step,
    StepKind, StoreConfig,
};
use crate::expression::Expression;
use crate::naming::Naming;
use crate::postgresql::Server;
use crate::schema::Type;
use crate::statistics::COMPLAINTS;
use crate::store::Durability;

/// The default number of objects per commit.
const COMMIT_OBJECTS: u64 = 10_000;
const COMMIT_OBJECTS_MAX: u64 = 10_000;
const CACHE_BYTES: u64 = 64 << 20;
/// The default of the largest counter of a candidate.
const CANDIDATES_MOST: u64 = 10_000;

pub(super) fn read(text: &str, kinds: &'static [SystemKind]) -> Result<Config, Vec<Mistake>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { kinds, mistakes: Vec::new(), warnings: Vec::new() };
    for error in errors {
        reader.wrong(error.span().unwrap_or(0..0), error.message().trim().replace('\n', ", "), "");
    }
    // After a syntax error, further errors would be guesses.
    let config = if reader.mistakes.is_empty() { reader.config(document.get_ref()) } else { None };
    reader.mistakes.sort_by_key(|mistake| (mistake.span.start, mistake.span.end));
    match config {
        Some(mut config) if reader.mistakes.is_empty() => {
            config.warnings = reader.warnings;
            config.warnings.extend(super::warnings::of(&config));
            config.warnings.sort_by_key(|warning| (warning.span.start, warning.span.end));
            Ok(config)
        }
        _ => Err(reader.mistakes),
    }
}

impl Reader {
    fn config(&mut self, root: &DeTable<'_>) -> Option<Config> {
        let root = Part { table: root, what: "the file".into(), span: 0..0 };
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
        let mut agents: Vec<AgentConfig> = self
            .parts(&root, "agents")
            .into_iter()
            .filter_map(|(name, part)| self.agent(name, &part))
            .collect();
        let types: Vec<MetaverseType> = self
            .parts(&root, "metaverse")
            .into_iter()
            .map(|(name, part)| self.metaverse_type(name, &part, &agents))
            .collect();
        for (list, what) in [(agents.is_empty(), "agents"), (types.is_empty(), "metaverse")] {
            if list {
                self.wrong(0..0, format!("there is no [{what}.NAME]"), "a metadirectory needs at least one");
            }
        }
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
        self.mistakes.extend(super::write_only::not_read(
            &inbound,
            &agents,
            &types,
            &span_of(&root, "inbound"),
        ));
        let safety = self.safety(&root);
        let audit_keep_s = self.part(&root, "audit").and_then(|part| {
            self.keys(&part, &["keep"]);
            self.duration_s(&part, "keep")
        });
        let runs = self.runs(&root, &agents);
        let serve = self.serve(&root, &agents, &runs);
        self.precedences(&types, &inbound);
        self.types_of_agents(&types, &agents, &inbound, &outbound, &root);
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

    fn store(&mut self, root: &Part<'_>) -> Option<StoreConfig> {
        let Some(part) = self.part(root, "store") else {
            self.wrong(0..0, "there is no [store]", "write [store] with sqlite = \"metadirectory.db\"");
            return None;
        };
        let known = [
            "sqlite",
            "postgres",
            "schema",
            "passfile",
            "insecure",
            "timeout_s",
            "durability",
            "cache_bytes",
            "commit_objects",
        ];
        self.keys(&part, &known);
        let durabilities =
            [("full", Durability::Full), ("normal", Durability::Normal), ("off", Durability::Off)];
        let durability = self.choice(&part, "durability", &durabilities).unwrap_or(Durability::Full);
        let commit = self.number(&part, "commit_objects", 1..=COMMIT_OBJECTS_MAX).unwrap_or(COMMIT_OBJECTS);
        let has = |key: &str| part.table.get(key).is_some();
        let database = match (has("sqlite"), has("postgres")) {
            (true, false) => self.sqlite(&part, durability),
            (false, true) => self.postgres(&part, durability),
            (true, true) => {
                let what = "`sqlite` and `postgres` in [store]: a store is in one of them";
                self.wrong(span_of(&part, "postgres"), what, "remove one");
                None
            }
            (false, false) => {
                let help =
                    "write sqlite = \"metadirectory.db\", or postgres = \"host=... user=... dbname=...\"";
                self.wrong(part.span.clone(), "[store] has neither `sqlite` nor `postgres`", help);
                None
            }
        };
        let database = database?;
        Some(StoreConfig { database, commit_objects: commit as usize })
    }

    /// The PostgreSQL server of a store or an agent.
    pub fn server(&mut self, part: &Part<'_>, schema: String) -> Option<Server> {
        let passfile = self.text(part, "passfile", false).map(Into::into);
        let timeout = self.number(part, "timeout_s", 1..=86_400).map(Duration::from_secs);
        let connection = self.text(part, "postgres", true);
        let mistake = connection.as_deref().and_then(Server::mistake);
        let exposed = connection.as_deref().filter(|_| mistake.is_none()).and_then(Server::exposed);
        self.exposed(
            part,
            exposed.map(|host| Exposure {
                what: format!("passwords and what they protect would go to the PostgreSQL server {host}"),
                help: "write sslmode=verify-full in `postgres`",
                span: span_of(part, "postgres"),
            }),
        );
        if let Some((what, help)) = mistake {
            self.wrong(span_of(part, "postgres"), what, help);
            return None;
        }
        let default = Server::default();
        let (connection, timeout) = (connection?, timeout.unwrap_or(default.timeout));
        Some(Server { connection, schema, passfile, timeout, ..default })
    }

    fn not_with(&mut self, part: &Part<'_>, keys: &[&str], database: &str) {
        for key in keys.iter().filter(|key| part.table.get(**key).is_some()) {
            self.wrong(
                span_of(part, key),
                format!("`{key}` has no effect on a store in {database}"),
                "remove it",
            );
        }
    }

    fn sqlite(&mut self, part: &Part<'_>, durability: Durability) -> Option<Database> {
        self.not_with(part, &["schema", "passfile", "insecure", "timeout_s"], "SQLite");
        let cache_bytes = self.number(part, "cache_bytes", 1 << 20..=1 << 40).unwrap_or(CACHE_BYTES);
        let path = self.text(part, "sqlite", true)?;
        Some(Database::Sqlite { path: path.into(), durability, cache_bytes })
    }

    fn postgres(&mut self, part: &Part<'_>, durability: Durability) -> Option<Database> {
        self.not_with(part, &["cache_bytes"], "PostgreSQL, which has shared_buffers of its own");
        let schema = self.text(part, "schema", false).unwrap_or_else(|| "metadirectory".into());
        let begins_well = schema.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
        let is_in_place = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !begins_well || schema.len() > 63 || schema.starts_with("pg_") || !schema.bytes().all(is_in_place)
        {
            self.wrong(
                span_of(part, "schema"),
                format!("`schema` of [store] is not {schema:?}"),
                "small letters, digits and _, at most 63, not beginning with a digit or pg_",
            );
        }
        Some(Database::Postgres { server: self.server(part, schema)?, durability })
    }

    fn agent(&mut self, name: String, part: &Part<'_>) -> Option<AgentConfig> {
        let kinds: Vec<(&str, &SystemKind)> = self.kinds.iter().map(|kind| (kind.name, kind)).collect();
        let kind = self.choice(part, "type", &kinds);
        if part.table.get("type").is_none() {
            let what = format!("{} has no `type`", part.what);
            self.wrong(part.span.clone(), what, format!("one of {}", names(&kinds)));
        }
        let mut anchor = self.texts(part, "anchor");
        if part.table.get("anchor").is_none() {
            anchor.extend(kind.and_then(|kind| kind.anchor).map(String::from));
        }
        if anchor.is_empty() {
            let what = format!("{} has no `anchor`", part.what);
            self.wrong(
                part.span.clone(),
                what,
                "name the attributes that identify an object and never change",
            );
        }
        let references = self.texts(part, "references");
        let kind = kind?;
        let known: Vec<&str> =
            ["type", "anchor", "references", "recall"].iter().chain(kind.keys).copied().collect();
        self.keys(part, &known);
        let system = (kind.read)(self, part)?;
        self.reference_by_anchor(part, system.as_ref(), &anchor, &references);
        let ways = [("refuse", Existing::Refuse), ("adopt", Existing::Adopt), ("report", Existing::Report)];
        let mut existing = Existing::default();
        if part.table.get("existing").is_some() {
            existing = self.choice(part, "existing", &ways).unwrap_or_default();
        }
        let (recall, write_only) = (self.truth(part, "recall").unwrap_or(true), Vec::new());
        let span = part.span.clone();
        Some(AgentConfig { name, system, anchor, references, existing, recall, write_only, span })
    }

    fn metaverse_type(&mut self, name: String, part: &Part<'_>, agents: &[AgentConfig]) -> MetaverseType {
        self.keys(part, &["attributes", "deleted_with", "search"]);
        let mut attributes = Vec::new();
        match self.part(part, "attributes") {
            None => self.wrong(
                part.span.clone(),
                format!("{} has no `attributes`", part.what),
                "write attributes = { name = \"text\" }",
            ),
            Some(listed) => {
                for (key, value) in listed.table {
                    let Some(text) = self.as_text(value, key.get_ref()) else { continue };
                    let (kind, several) = match text.strip_suffix("[]") {
                        Some(kind) => (kind, true),
                        None => (text.as_str(), false),
                    };
                    match Type::NAMES.iter().find(|(name, _)| *name == kind) {
                        Some((_, kind)) => attributes.push(MetaverseAttribute {
                            name: key.get_ref().to_string(),
                            kind: *kind,
                            several,
                        }),
                        None => self.wrong(
                            value.span(),
                            format!("there is no type {kind:?}"),
                            format!("one of {}; append [] for several values", names(&Type::NAMES)),
                        ),
                    }
                }
            }
        }
        let search = self.searched(part, &name, &attributes);
        let deleted_with = self.texts(part, "deleted_with");
        let span = span_of(part, "deleted_with");
        let deleted_with =
            deleted_with.iter().filter_map(|name| self.agent_named(name, &span, agents)).collect();
        MetaverseType { name, attributes, deleted_with, search, span: part.span.clone() }
    }

    /// The attributes of a type that have a search index.
    fn searched(&mut self, part: &Part<'_>, of: &str, attributes: &[MetaverseAttribute]) -> Vec<usize> {
        let span = span_of(part, "search");
        let mut search = Vec::new();
        for name in self.texts(part, "search") {
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
                    let help = format!("its attributes are {}", known.join(", "));
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
            &["agent", "to", "objects", "filter", "join", "multiple_connectors", "project", "flow"],
        );
        let agent = self.needed_agent(part, agents);
        let to = self.needed_type(part, "to", types);
        let objects = self.expression(part, "objects", "cs");
        let filter = self.expression(part, "filter", "cs");
        let project = match part.table.get("project") {
            None => Projection::No,
            Some(value) => match value.get_ref() {
                DeValue::Boolean(true) => Projection::Always,
                DeValue::Boolean(false) => Projection::No,
                _ => self.expression(part, "project", "cs").map_or(Projection::No, Projection::When),
            },
        };
        let joins = self.joins(part, to.map(|to| &types[to]));
        let multiple_connectors = self.truth(part, "multiple_connectors").unwrap_or(false);
        let flows = self.flows(part, "flow", "cs");
        let mut known = Vec::new();
        for WrittenFlow { to: name, span, from, precedence, is_secret, candidates, empty, .. } in flows {
            let Some(to) = to else { continue };
            if empty.is_some() {
                let help = "remove it, or use default(...) in an expression";
                self.wrong(span.clone(), "`empty` is for flows of references out of the metaverse", help);
            }
            match place(&types[to], &name) {
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
                    known.push(ImportFlow {
                        to: place,
                        from,
                        precedence: precedence.unwrap_or(0),
                        is_secret,
                        candidates,
                        span,
                    })
                }
                None => self.unknown_attribute(span, &name, &types[to]),
            }
        }
        let (agent, to, flows) = (agent?, to?, known);
        let rules = Inbound { agent, to, objects, filter, joins, multiple_connectors, project, flows };
        self.references_in(part, &rules, &agents[rules.agent], &types[rules.to]);
        Some(rules)
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
        let when = self.expression(part, "when", "mv");
        let (dn, dn_candidates) = match part.table.get("dn").map(toml::Spanned::get_ref) {
            Some(DeValue::Table(table)) => {
                let of_name = Part { table, what: "`dn`".into(), span: span_of(part, "dn") };
                self.keys(&of_name, &["candidates", "most"]);
                self.candidates(&of_name, "mv").unzip()
            }
            _ => (self.expression(part, "dn", "mv"), None),
        };
        if part.table.get("dn").is_none() {
            let what = format!("{} has no `dn`", part.what);
            self.wrong(
                part.span.clone(),
                what,
                "write an expression for the name of the object, such as dn = \"mv.employeeId\"",
            );
        }
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
        let mut flows = Vec::new();
        for key in ["flow", "initial"] {
            let mut all = Vec::new();
            for WrittenFlow { to, span, from, from_span, precedence, is_secret, candidates, empty } in
                self.flows(part, key, "mv")
            {
                if candidates.is_some() {
                    let help = "choose a unique value in a flow into the metaverse, or give `dn` candidates";
                    self.wrong(
                        span.clone(),
                        "`candidates` are for flows into the metaverse and for `dn`",
                        help,
                    );
                }
                if precedence.is_some() {
                    self.wrong(span, "`precedence` ranks flows into the metaverse", "remove it");
                }
                match &from {
                    Source::Direct(name) => named.push((name.clone(), from_span)),
                    Source::Constant(_) => {}
                    Source::Expression(expression) => {
                        named.extend(expression.uses().iter().map(|name| (name.clone(), from_span.clone())));
                    }
                }
                all.push(ExportFlow { to, from, empty, is_secret });
            }
            flows.push(all);
        }
        let write_only = self.write_only(part);
        named
            .extend(Reader::read_by(&write_only).into_iter().map(|name| (name, span_of(part, "write_only"))));
        if let (Some(when), Some(kind)) = (&when, from.map(|from| &types[from])) {
            let read = when.attribute().and_then(|name| place(kind, name));
            let read =
                read.map(|at| &kind.attributes[at]).filter(|attribute| attribute.kind != Type::Boolean);
            if read.is_some() || when.is_text() {
                let what = match read {
                    Some(attribute) => {
                        format!("`when` is neither true nor false: `{}` is no boolean", attribute.name)
                    }
                    None => "`when` is neither true nor false: it is a text".into(),
                };
                self.wrong(span_of(part, "when"), what, "compare it, such as mv.status == 'active'");
            }
        }
        if let Some(kind) = from.map(|from| &types[from]) {
            for (name, span) in named.into_iter().filter(|(name, _)| place(kind, name).is_none()) {
                self.unknown_attribute(span, &name, kind);
            }
        }
        let initial = flows.pop().unwrap_or_default();
        let flows = flows.pop().unwrap_or_default();
        let (agent, from, dn) = (agent?, from?, dn?);
        if agents[agent].system.ignores_case_of_attributes() {
            for (key, listed) in [("flow", &flows), ("initial", &initial)] {
                for (at, flow) in listed.iter().enumerate() {
                    let is_same = |other: &&ExportFlow| other.to.eq_ignore_ascii_case(&flow.to);
                    if let Some(other) = listed[..at].iter().find(is_same) {
                        let what =
                            format!("`{}` and `{}` are one attribute of a directory", other.to, flow.to);
                        self.wrong(span_of(part, key), what, "remove one of the flows");
                    }
                }
            }
        }
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
        };
        self.references_out(part, &rules, &agents[rules.agent], &types[rules.from]);
        self.write_only_is_well(part, &rules, &agents[rules.agent]);
        Some(rules)
    }

    /// `"disconnect"`, `"delete"` or `{ disable = { ATTRIBUTE = "value" } }`. The table may have `delete_after`
    /// too, or alone.
    fn deprovision(&mut self, part: &Part<'_>) -> (Deprovision, Option<u64>) {
        let Some(value) = part.table.get("deprovision") else { return (Deprovision::Disconnect, None) };
        let DeValue::Table(table) = value.get_ref() else {
            let kinds = [("disconnect", false), ("delete", true)];
            let help = "\"disconnect\", \"delete\", or { disable = { ATTRIBUTE = \"value\" } }";
            let way = match value.get_ref() {
                DeValue::String(_) => match self.choice(part, "deprovision", &kinds) {
                    Some(true) => Deprovision::Delete,
                    _ => Deprovision::Disconnect,
                },
                _ => {
                    self.wrong(value.span(), "`deprovision` is neither a text nor a table", help);
                    Deprovision::Disconnect
                }
            };
            return (way, None);
        };
        let way = Part { table, what: "`deprovision`".into(), span: value.span() };
        self.keys(&way, &["disable", "delete_after"]);
        let delete_after_s = self.duration_s(&way, "delete_after");
        let mut values = Vec::new();
        if let Some(listed) = self.part(&way, "disable") {
            for (name, value) in listed.table {
                let text = self.as_text(value, name.get_ref());
                values.extend(text.map(|text| (name.get_ref().to_string(), text)));
            }
        }
        if values.is_empty() && way.table.get("disable").is_none() && delete_after_s.is_some() {
            return (Deprovision::Disconnect, delete_after_s);
        }
        if values.is_empty() {
            let what = "`deprovision` names no value that disables the object";
            self.wrong(value.span(), what, "write { disable = { ATTRIBUTE = \"value\" } }");
        }
        (Deprovision::Disable(values), delete_after_s)
    }

    /// `ATTRIBUTE = "attribute"`, `{ constant = "x" }`, `{ constant = ["x", "y"] }`, `{ expression = "..." }`
    /// or `{ from = "attribute" }`. The tables may have a precedence, and `secret`.
    fn flows(&mut self, part: &Part<'_>, key: &str, root: &'static str) -> Vec<WrittenFlow> {
        let Some(listed) = self.part(part, key) else { return Vec::new() };
        let mut flows = Vec::new();
        for (name, value) in listed.table {
            let to = name.get_ref().to_string();
            let (mut candidates, mut empty) = (None, None);
            let (from, precedence, is_secret) = match value.get_ref() {
                DeValue::String(text) => (Some(Source::Direct(text.to_string())), None, false),
                DeValue::Table(table) => {
                    let flow = Part { table, what: format!("the flow of {to}"), span: value.span() };
                    self.keys(
                        &flow,
                        &[
                            "from",
                            "constant",
                            "expression",
                            "candidates",
                            "most",
                            "precedence",
                            "secret",
                            "empty",
                        ],
                    );
                    let ways = ["from", "constant", "expression", "candidates"];
                    if ways.iter().filter(|way| flow.table.get(**way).is_some()).count() != 1 {
                        self.wrong(
                            value.span(),
                            format!(
                                "{} needs one of `from`, `constant`, `expression` and `candidates`",
                                flow.what
                            ),
                            "",
                        );
                        continue;
                    }
                    let from = self.text(&flow, "from", false).map(Source::Direct);
                    let constant = flow.table.get("constant").map(|_| self.texts(&flow, "constant"));
                    let constant = constant.map(Source::Constant);
                    let expression = self.expression(&flow, "expression", root).map(Source::Expression);
                    empty = self.text(&flow, "empty", false);
                    let precedence = self.number(&flow, "precedence", 1..=1_000_000).map(|rank| rank as u32);
                    let mut expression = expression;
                    if flow.table.get("candidates").is_some() {
                        let (first, others) = self.candidates(&flow, root).unzip();
                        (expression, candidates) = (first.map(Source::Expression), others);
                    }
                    let is_secret = self.truth(&flow, "secret").unwrap_or(false);
                    (from.or(constant).or(expression), precedence, is_secret)
                }
                _ => {
                    let help =
                        "the name of an attribute, or { expression = \"...\" } or { constant = \"...\" }";
                    self.wrong(value.span(), format!("the flow of {to} is neither a text nor a table"), help);
                    continue;
                }
            };
            let (span, from_span) = (name.span(), value.span());
            flows.extend(from.map(|from| WrittenFlow {
                to,
                span,
                from,
                from_span,
                precedence,
                is_secret,
                candidates,
                empty,
            }));
        }
        flows
    }

    fn runs(&mut self, root: &Part<'_>, agents: &[AgentConfig]) -> Vec<RunProfile> {
        let Some(part) = self.part(root, "runs") else { return Vec::new() };
        let mut runs = Vec::new();
        for (name, value) in part.table {
            let mut stop_after = Vec::new();
            let mut steps = value;
            if let DeValue::Table(table) = value.get_ref() {
                let whole = Part { table, what: format!("the run {}", name.get_ref()), span: name.span() };
                self.keys(&whole, &["steps", "stop_after"]);
                stop_after = self.outcomes(&whole);
                let Some(listed) = table.get("steps") else {
                    self.wrong(
                        value.span(),
                        "a run without `steps`",
                        "write steps = [\"AGENT full-import\", ...]",
                    );
                    continue;
                };
                steps = listed;
            }
            let DeValue::Array(listed) = steps.get_ref() else {
                self.wrong(steps.span(), "a run is a list of steps", "write [\"AGENT full-import\", ...]");
                continue;
            };
            let steps = listed.iter().filter_map(|step| {
                let text = self.as_text(step, "step")?;
                let Some((agent, kind)) = text.split_once(char::is_whitespace) else {
                    self.wrong(step.span(), format!("{text:?} is not a step"), "write \"AGENT full-import\"");
                    return None;
                };
                let agent = self.agent_named(agent, &step.span(), agents);
                let found = StepKind::NAMES.iter().find(|(name, _)| *name == kind.trim());
                if found.is_none() {
                    let help = format!("one of {}", names(&StepKind::NAMES));
                    self.wrong(step.span(), format!("there is no step {:?}", kind.trim()), help);
                }
                Some(Step { agent: agent?, kind: found?.1 })
            });
            let steps: Vec<Step> = steps.collect();
            runs.push(RunProfile { name: name.get_ref().to_string(), steps, stop_after });
        }
        runs
    }

    /// The outcomes that end a run.
    fn outcomes(&mut self, run: &Part<'_>) -> Vec<&'static str> {
        let mut all = Vec::new();
        for text in self.texts(run, "stop_after") {
            match COMPLAINTS.iter().find(|outcome| **outcome == text) {
                Some(outcome) => all.push(*outcome),
                None => {
                    let help = format!("one of {}; other outcomes always stop a run", COMPLAINTS.join(", "));
                    self.wrong(span_of(run, "stop_after"), format!("there is no outcome {text:?}"), help);
                }
            }
        }
        all
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
        if found.is_none() {
            let all: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
            self.wrong(
                span.clone(),
                format!("there is no agent {name:?}"),
                format!("one of {}", all.join(", ")),
            );
        }
        found
    }

    fn needed_type(&mut self, part: &Part<'_>, key: &str, types: &[MetaverseType]) -> Option<usize> {
        let name = self.text(part, key, true)?;
        let found = types.iter().position(|kind| kind.name == name);
        if found.is_none() {
            let all: Vec<&str> = types.iter().map(|kind| kind.name.as_str()).collect();
            let what = format!("there is no type {name:?} in the metaverse");
            self.wrong(span_of(part, key), what, format!("one of {}", all.join(", ")));
        }
        found
    }

    pub(super) fn unknown_attribute(&mut self, span: Range<usize>, name: &str, kind: &MetaverseType) {
        let all: Vec<&str> = kind.attributes.iter().map(|attribute| attribute.name.as_str()).collect();
        let what = format!("`{}` has no attribute `{name}`", kind.name);
        self.wrong(span, what, format!("it has {}", all.join(", ")));
    }

    /// The candidates for a unique value: the first one, and the others.
    fn candidates(&mut self, part: &Part<'_>, root: &'static str) -> Option<(Expression, Candidates)> {
        let texts = self.texts(part, "candidates");
        let most = self.number(part, "most", 2..=1_000_000).unwrap_or(CANDIDATES_MOST);
        let span = span_of(part, "candidates");
        let mut all = Vec::new();
        for text in &texts {
            match Expression::parse_candidate(text, root) {
                Ok(expression) => all.push(expression),
                Err(why) => self.wrong(span.clone(), format!("{text:?} is not an expression: {why}"), ""),
            }
        }
        if texts.is_empty() {
            let what = format!("{} has no `candidates`", part.what);
            self.wrong(
                part.span.clone(),
                what,
                "write candidates = [\"EXPRESSION\", \"EXPRESSION + string(n)\"]",
            );
        }
        let count = all.len();
        if all.len() == texts.len() && all.iter().take(count.saturating_sub(1)).any(Expression::is_counted)
            || count == 1 && all[0].is_counted()
        {
            let what = "only the last of several candidates may use the counter `n`";
            self.wrong(span, what, "write the value without `n` first");
            return None;
        }
        let mut all = all.into_iter();
        Some((all.next()?, Candidates { others: all.collect(), most }))
    }

    pub(super) fn expression(
        &mut self,
        part: &Part<'_>,
        key: &str,
        root: &'static str,
    ) -> Option<Expression> {
        let source = self.text(part, key, false)?;
        match Expression::parse(&source, root) {
            Ok(expression) => Some(expression),
            Err(why) => {
                self.wrong(span_of(part, key), format!("`{key}` is not an expression: {why}"), "");
                None
            }
        }
    }
}

/// A flow as it is written in the text.
struct WrittenFlow {
    to: String,
    span: Range<usize>,
    from: Source,
    from_span: Range<usize>,
    precedence: Option<u32>,
    is_secret: bool,
    candidates: Option<Candidates>,
    empty: Option<String>,
}

pub(super) fn place(kind: &MetaverseType, name: &str) -> Option<usize> {
    kind.attributes.iter().position(|attribute| attribute.name == name)
}
