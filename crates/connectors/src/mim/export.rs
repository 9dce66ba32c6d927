//! A server configuration export as it was written: `MV.XML` and one `MA-{...}.XML` for each management agent.
//!
//! The format is that of MIIS 2003, ILM 2007, FIM 2010 and MIM 2016, which only grew. Elements that are not known here are
//! left out.

use std::collections::BTreeMap;

use roxmltree::{Document, Node, ParsingOptions};

use super::{MimError, Place};
use metadir::schema::Type;

/// More elements than any export has.
const NODES_MAX: u32 = 20_000_000;

/// The whole export.
#[derive(Debug, Default)]
pub(super) struct ServerExport {
    pub(super) metaverse: Metaverse,
    pub(super) agents: Vec<Agent>,
}

/// An attribute of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttributeType {
    pub(super) kind: Type,
    pub(super) several: bool,
}

/// The attributes of a schema, by name.
pub(super) type Schema = BTreeMap<String, AttributeType>;

#[derive(Debug, Default)]
pub(super) struct Metaverse {
    pub(super) attributes: Schema,
    pub(super) flows: Vec<ImportFlow>,
    pub(super) deletions: Vec<DeletionRule>,
    /// The assembly that provisions objects; none without.
    pub(super) extension: Option<String>,
    pub(super) place: Place,
}

/// A flow into the metaverse, in the order of precedence of its attribute.
#[derive(Debug)]
pub(super) struct ImportFlow {
    pub(super) to_type: String,
    pub(super) to: String,
    /// Whether the flows into the attribute are ranked; otherwise the last change wins, or a script decides.
    pub(super) is_ranked: bool,
    pub(super) agent: String,
    pub(super) object_type: String,
    pub(super) mapping: Mapping,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) struct DeletionRule {
    pub(super) of_type: String,
    /// `declared-any`, `declared-last` or `scripted`.
    pub(super) kind: String,
    pub(super) agents: Vec<String>,
    pub(super) place: Place,
}

/// How a value is made.
#[derive(Debug)]
pub(super) enum Mapping {
    Direct(String),
    /// A property of the object itself, such as its name.
    Intrinsic(String),
    Constant(String),
    Function(Function),
    /// A function of a rules extension.
    Script {
        name: String,
        attributes: Vec<String>,
    },
    /// Anything else, by the name of its element.
    Other(String),
}

/// The function of a synchronization rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Call(String, Vec<Function>),
    Text(String),
    Number(i64),
    Attribute(String),
}

/// A management agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) category: String,
    pub(super) attributes: Schema,
    pub(super) filters: Vec<Filter>,
    pub(super) joins: Vec<Join>,
    pub(super) projections: Vec<Projection>,
    pub(super) flows: Vec<ExportFlow>,
    /// `make-normal-disconnector`, `make-explicit-disconnector`, `delete-object`, or `scripted`.
    pub(super) deprovision: String,
    pub(super) connection: Connection,
    pub(super) anchor: Vec<String>,
    pub(super) profiles: Vec<Profile>,
    pub(super) place: Place,
}

/// Where the objects are.
#[derive(Debug)]
pub(super) enum Connection {
    Directory(Directory),
    Table(TableConnection),
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) host: String,
    pub(super) port: Option<String>,
    pub(super) user: Option<String>,
    pub(super) is_tls: bool,
    pub(super) bases: Vec<String>,
    pub(super) exclude: Vec<String>,
    pub(super) classes: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct TableConnection {
    pub(super) server: String,
    pub(super) database: String,
    pub(super) table: String,
    pub(super) user: Option<String>,
    /// The column with the type of an object; none where all have one type.
    pub(super) type_column: Option<String>,
    pub(super) has_multivalued: bool,
    pub(super) has_delta: bool,
}

/// The objects of a type that stay out.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) object_type: String,
    pub(super) kind: String,
    /// Each alternative is a list of conditions that all hold.
    pub(super) alternatives: Vec<Vec<Condition>>,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) struct Condition {
    pub(super) attribute: String,
    pub(super) is_intrinsic: bool,
    pub(super) operator: String,
    pub(super) value: String,
}

/// A join rule.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) object_type: String,
    /// None for any type.
    pub(super) to_type: Option<String>,
    /// Metaverse attribute, whether it is intrinsic, and how the value to find is made.
    pub(super) pairs: Vec<(String, bool, Mapping)>,
    /// Whether a script chooses among several.
    pub(super) is_resolved: bool,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) struct Projection {
    pub(super) object_type: String,
    pub(super) to_type: String,
    /// `declared`, `sync-rule` or `scripted`.
    pub(super) kind: String,
    pub(super) place: Place,
}

/// A flow out of the metaverse.
#[derive(Debug)]
pub(super) struct ExportFlow {
    pub(super) object_type: String,
    pub(super) from_type: String,
    pub(super) to: String,
    pub(super) mapping: Mapping,
    pub(super) is_initial: bool,
    /// Whether an absent value leaves the one in the system.
    pub(super) keeps_absent: bool,
    pub(super) place: Place,
}

/// A run profile of an agent.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) name: String,
    pub(super) steps: Vec<ProfileStep>,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) struct ProfileStep {
    pub(super) kind: String,
    /// Whether the import only stages.
    pub(super) only_stages: bool,
    /// Whether it reads or writes a file of its own instead of the system.
    pub(super) with_file: bool,
    /// `apply-pending` or `reevaluate-flow-connectors`.
    pub(super) rules: Option<String>,
}

/// A parsed file with what its places need.
struct Source<'a, 'i> {
    name: &'a str,
    document: &'a Document<'i>,
}

impl Source<'_, '_> {
    fn place(&self, node: Node<'_, '_>) -> Place {
        Place { file: self.name.into(), line: self.document.text_pos_at(node.range().start).row }
    }
}

/// Reads one file into the export: the metaverse, or an agent. Other files are left out.
pub(super) fn read_file(export: &mut ServerExport, name: &str, bytes: &[u8]) -> Result<bool, MimError> {
    let wrong = |why: String| MimError::Xml { file: name.into(), why };
    let text = decoded(bytes).ok_or_else(|| wrong("it is neither UTF-8 nor UTF-16".into()))?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).map_err(|error| wrong(error.to_string()))?;
    let source = Source { name, document: &document };
    let root = document.root_element();
    let find = |tag: &str| root.descendants().find(|node| node.has_tag_name(tag));
    match (find("mv-data"), find("ma-data")) {
        (None, None) => return Ok(false),
        (metaverse, agent) => {
            if let Some(metaverse) = metaverse {
                export.metaverse = read_metaverse(&source, metaverse);
            }
            if let Some(agent) = agent {
                export.agents.push(read_agent(&source, agent));
            }
        }
    }
    Ok(true)
}

/// The text of a file in UTF-8 or UTF-16, by its byte order mark.
fn decoded(bytes: &[u8]) -> Option<String> {
    let wide = |from: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| from([pair[0], pair[1]])).collect();
        String::from_utf16(&units).ok()
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => {
            let text = std::str::from_utf8(bytes).ok()?;
            Some(text.strip_prefix('\u{feff}').unwrap_or(text).to_string())
        }
    }
}

fn child<'a, 'i>(node: Node<'a, 'i>, path: &str) -> Option<Node<'a, 'i>> {
    path.split('/').try_fold(node, |node, tag| node.children().find(|child| child.has_tag_name(tag)))
}

fn children<'a, 'i: 'a>(node: Node<'a, 'i>, path: &'a str) -> Vec<Node<'a, 'i>> {
    path.split('/').fold(vec![node], |nodes, tag| {
        nodes
            .into_iter()
            .flat_map(|node| node.children().filter(move |child| child.has_tag_name(tag)))
            .collect()
    })
}

/// The text of an element below another one; none where it is empty.
fn text(node: Node<'_, '_>, path: &str) -> Option<String> {
    let text = child(node, path)?.text()?.trim();
    (!text.is_empty()).then(|| text.to_string())
}

fn attribute(node: Node<'_, '_>, name: &str) -> String {
    node.attribute(name).unwrap_or_default().to_string()
}

fn is_true(text: Option<&str>) -> bool {
    matches!(text, Some("1" | "true" | "True"))
}

/// The attribute types of a schema in DSML.
fn read_schema(node: Node<'_, '_>) -> Schema {
    let types = node.descendants().filter(|node| node.tag_name().name() == "attribute-type");
    types
        .filter_map(|of| {
            let part = |tag: &str| of.children().find(|child| child.tag_name().name() == tag)?.text();
            let name = part("name").or(of.attribute("id"))?.trim();
            let kind = match part("syntax")?.trim().rsplit('.').next()? {
                "12" => Type::Reference,
                "27" => Type::Integer,
                "7" => Type::Boolean,
                "5" | "40" | "28" => Type::Binary,
                _ => Type::Text,
            };
            let several = !is_true(of.attribute("single-value"));
            Some((name.to_string(), AttributeType { kind, several }))
        })
        .collect()
}

fn read_metaverse(source: &Source<'_, '_>, node: Node<'_, '_>) -> Metaverse {
    let mut flows = Vec::new();
    for set in children(node, "import-attribute-flow/import-flow-set") {
        for group in children(set, "import-flows") {
            for flow in children(group, "import-flow") {
                flows.push(ImportFlow {
                    to_type: attribute(set, "mv-object-type"),
                    to: attribute(group, "mv-attribute"),
                    is_ranked: group.attribute("type") == Some("ranked"),
                    agent: attribute(flow, "src-ma"),
                    object_type: attribute(flow, "cd-object-type"),
                    mapping: read_mapping(flow),
                    place: source.place(flow),
                });
            }
        }
    }
    let deletions = children(node, "mv-deletion/mv-deletion-rule").into_iter().map(|rule| DeletionRule {
        of_type: attribute(rule, "mv-object-type"),
        kind: attribute(rule, "type"),
        agents: children(rule, "src-ma")
            .into_iter()
            .filter_map(|agent| Some(agent.text()?.to_string()))
            .collect(),
        place: source.place(rule),
    });
    let is_scripted = child(node, "provisioning")
        .is_some_and(|of| matches!(of.attribute("type"), Some("scripted" | "both")));
    Metaverse {
        attributes: child(node, "schema").map(read_schema).unwrap_or_default(),
        flows,
        deletions: deletions.collect(),
        extension: text(node, "extension/assembly-name").filter(|_| is_scripted),
        place: source.place(node),
    }
}

/// The mapping of a flow or of a part of a join.
fn read_mapping(flow: Node<'_, '_>) -> Mapping {
    let Some(mapping) = flow.children().find(Node::is_element) else {
        return Mapping::Other("nothing".into());
    };
    let attributes = || -> Vec<String> {
        let named = children(mapping, "src-attribute").into_iter();
        named.filter_map(|attribute| Some(attribute.text()?.trim().to_string())).collect()
    };
    let direct = || match children(mapping, "src-attribute").first() {
        Some(from) if is_true(from.attribute("intrinsic")) => {
            Mapping::Intrinsic(from.text().unwrap_or_default().trim().to_string())
        }
        Some(from) => Mapping::Direct(from.text().unwrap_or_default().trim().to_string()),
        None => Mapping::Other("a direct mapping without an attribute".into()),
    };
    match mapping.tag_name().name() {
        "direct-mapping" => direct(),
        "constant-mapping" => Mapping::Constant(text(mapping, "constant-value").unwrap_or_default()),
        "scripted-mapping" => Mapping::Script {
            name: text(mapping, "script-context").unwrap_or_default(),
            attributes: attributes(),
        },
        "sync-rule-mapping" => match mapping.attribute("mapping-type") {
            Some("direct") => direct(),
            Some("constant") => Mapping::Constant(text(mapping, "sync-rule-value").unwrap_or_default()),
            Some("expression") => {
                let function = mapping.descendants().find(|node| node.has_tag_name("fn"));
                function.and_then(read_function).map_or_else(
                    || Mapping::Other("an expression without a function".into()),
                    Mapping::Function,
                )
            }
            other => Mapping::Other(format!("a mapping of the type {}", other.unwrap_or("none"))),
        },
        other => Mapping::Other(other.to_string()),
    }
}

/// `<fn id="+"><arg>"CN="</arg><arg>accountName</arg></fn>`.
fn read_function(node: Node<'_, '_>) -> Option<Function> {
    let arguments = children(node, "arg").into_iter().map(|argument| {
        if let Some(inner) = argument.children().find(|child| child.has_tag_name("fn")) {
            return read_function(inner);
        }
        // Blanks are part of a text in quotes.
        let text = argument.text().unwrap_or_default();
        let trimmed = text.trim();
        Some(match trimmed.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(inner) => Function::Text(inner.to_string()),
            None => match trimmed.parse() {
                Ok(number) => Function::Number(number),
                Err(_) if trimmed.is_empty() => return None,
                Err(_) => Function::Attribute(trimmed.to_string()),
            },
        })
    });
    Some(Function::Call(attribute(node, "id"), arguments.collect::<Option<Vec<_>>>()?))
}

fn read_agent(source: &Source<'_, '_>, node: Node<'_, '_>) -> Agent {
    let filters = children(node, "stay-disconnector/filter-set").into_iter().map(|set| Filter {
        object_type: attribute(set, "cd-object-type"),
        kind: attribute(set, "type"),
        alternatives: children(set, "filter-alternative")
            .into_iter()
            .map(|alternative| children(alternative, "condition").into_iter().map(read_condition).collect())
            .collect(),
        place: source.place(set),
    });
    let mut joins = Vec::new();
    for profile in children(node, "join/join-profile") {
        for criterion in children(profile, "join-criterion") {
            let Some(search) = child(criterion, "search") else { continue };
            let pairs = children(search, "attribute-mapping").into_iter().map(|pair| {
                let is_intrinsic = is_true(pair.attribute("intrinsic-attribute"));
                (attribute(pair, "mv-attribute"), is_intrinsic, read_mapping(pair))
            });
            joins.push(Join {
                object_type: attribute(profile, "cd-object-type"),
                to_type: search.attribute("mv-object-type").map(str::to_string),
                pairs: pairs.collect(),
                is_resolved: child(criterion, "resolution")
                    .is_some_and(|of| of.attribute("type") == Some("scripted")),
                place: source.place(criterion),
            });
        }
    }
    let projections = children(node, "projection/class-mapping").into_iter().map(|of| Projection {
        object_type: attribute(of, "cd-object-type"),
        to_type: text(of, "mv-object-type").unwrap_or_default(),
        kind: attribute(of, "type"),
        place: source.place(of),
    });
    let mut flows = Vec::new();
    for set in children(node, "export-attribute-flow/export-flow-set") {
        for flow in children(set, "export-flow") {
            let rule = child(flow, "sync-rule-mapping");
            flows.push(ExportFlow {
                object_type: attribute(set, "cd-object-type"),
                from_type: attribute(set, "mv-object-type"),
                to: attribute(flow, "cd-attribute"),
                mapping: read_mapping(flow),
                is_initial: is_true(rule.and_then(|rule| rule.attribute("initial-flow-only"))),
                keeps_absent: is_true(flow.attribute("suppress-deletions")),
                place: source.place(flow),
            });
        }
    }
    let (connection, anchor) = read_connection(node);
    Agent {
        id: text(node, "id").unwrap_or_default(),
        name: text(node, "name").unwrap_or_default(),
        category: text(node, "category").unwrap_or_default(),
        attributes: child(node, "schema").map(read_schema).unwrap_or_default(),
        filters: filters.collect(),
        joins,
        projections: projections.collect(),
        flows,
        deprovision: match child(node, "provisioning-cleanup").and_then(|of| of.attribute("type")) {
            Some("scripted") => "scripted".into(),
            _ => text(node, "provisioning-cleanup/action").unwrap_or_default(),
        },
        connection,
        anchor,
        profiles: children(node, "ma-run-data/run-configuration")
            .into_iter()
            .map(|profile| read_profile(source, profile))
            .collect(),
        place: source.place(node),
    }
}

fn read_condition(node: Node<'_, '_>) -> Condition {
    Condition {
        attribute: attribute(node, "cd-attribute"),
        is_intrinsic: is_true(node.attribute("intrinsic-attribute")),
        operator: attribute(node, "operator"),
        value: child(node, "value").and_then(|value| value.text()).unwrap_or_default().to_string(),
    }
}

fn read_connection(node: Node<'_, '_>) -> (Connection, Vec<String>) {
    let texts = |of: Node<'_, '_>, path: &str| -> Vec<String> {
        let named = children(of, path).into_iter();
        let named = named.filter_map(|one| Some(one.text()?.trim().to_string()));
        named.filter(|text| !text.is_empty()).collect()
    };
    let named = texts(node, "dn-construction/attribute");
    if let Some(directory) = child(node, "private-configuration/adma-configuration") {
        let mut of = Directory {
            host: text(directory, "forest-name").unwrap_or_default(),
            port: text(directory, "forest-port"),
            is_tls: text(directory, "ssl-bind").as_deref() == Some("1"),
            ..Directory::default()
        };
        let [user, domain] = ["forest-login-user", "forest-login-domain"].map(|tag| text(directory, tag));
        of.user = user.map(|user| match domain {
            Some(domain) => format!("{domain}\\{user}"),
            None => user,
        });
        for partition in children(node, "ma-partition-data/partition") {
            if text(partition, "selected").as_deref() != Some("1") {
                continue;
            }
            let inside = texts(partition, "filter/containers/inclusions/inclusion");
            match inside.is_empty() {
                true => of.bases.extend(text(partition, "name")),
                false => of.bases.extend(inside),
            }
            of.exclude.extend(texts(partition, "filter/containers/exclusions/exclusion"));
            for class in texts(partition, "filter/object-classes/object-class") {
                if !of.classes.contains(&class) {
                    of.classes.push(class);
                }
            }
        }
        return (Connection::Directory(of), vec!["objectGUID".into()]);
    }
    if let Some(table) = child(node, "private-configuration/oledbma-configuration") {
        let connection = |tag: &str| text(table, &format!("connection-info/{tag}"));
        let of = TableConnection {
            server: connection("server").unwrap_or_default(),
            database: connection("databasename").or_else(|| connection("datasource")).unwrap_or_default(),
            table: connection("tablename").unwrap_or_default(),
            user: connection("user"),
            type_column: text(table, "mms-info/object-type-info/object-type-column"),
            has_multivalued: connection("multivalued-tablename").is_some(),
            has_delta: connection("delta-tablename").is_some(),
        };
        let anchor = texts(table, "mms-info/anchor/attribute");
        return (Connection::Table(of), if anchor.is_empty() { named } else { anchor });
    }
    (Connection::Other, named)
}

fn read_profile(source: &Source<'_, '_>, node: Node<'_, '_>) -> Profile {
    let steps = children(node, "configuration/step").into_iter().map(|step| {
        let kind = child(step, "step-type");
        let subtypes = kind.map_or_else(Vec::new, |kind| children(kind, "import-subtype"));
        let subtypes: Vec<&str> = subtypes.iter().filter_map(|of| of.text()).map(str::trim).collect();
        ProfileStep {
            kind: kind.map(|kind| attribute(kind, "type")).unwrap_or_default(),
            only_stages: subtypes.contains(&"to-cs"),
            with_file: subtypes.iter().any(|of| of.contains("file")),
            rules: kind.and_then(|kind| text(kind, "apply-rules-subtype")),
        }
    });
    Profile {
        name: text(node, "name").unwrap_or_default(),
        steps: steps.collect(),
        place: source.place(node),
    }
}
