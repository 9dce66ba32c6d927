//! The bill of materials: what the executable is made of, as CycloneDX 1.6 in JSON.
//!
//! Packages of Rust are those that cargo compiles for the program on its platform. Those that only run while it is built (build
//! scripts, procedural macros) have the scope `excluded`. The C code that packages bring along is listed by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{NAME, Package, output, write};
use crate::program::printed;

/// C code that packages bring along: the package, its header with the version, the text before the version, the name, and
/// the licence.
const NATIVE: &[Native] = &[
    Native {
        package: "libsqlite3-sys",
        header: "sqlite3/sqlite3.h",
        before: "#define SQLITE_VERSION ",
        name: "sqlite",
        licence: "blessing",
    },
    Native {
        package: "libmimalloc-sys",
        header: "c_src/mimalloc/v3/include/mimalloc.h",
        before: "#define MI_MALLOC_VERSION ",
        name: "mimalloc",
        licence: "MIT",
    },
];

struct Native {
    package: &'static str,
    header: &'static str,
    before: &'static str,
    name: &'static str,
    licence: &'static str,
}

/// A package as cargo knows it.
#[derive(Clone, Debug)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: String,
    /// Where its sources are.
    pub(super) folder: PathBuf,
    /// It comes from a registry.
    pub(super) is_foreign: bool,
    description: String,
    repository: String,
    /// The names and versions of what it uses.
    uses: Vec<(String, String)>,
    /// It is part of the executable, not only of the build.
    pub(super) is_linked: bool,
}

/// All packages that cargo compiles for the program, in order of name.
pub(super) fn crates(package: &Package) -> Result<Vec<Crate>, String> {
    let target = package.target.as_str();
    let tree = |edges: &str| {
        let arguments = [
            "tree",
            "--locked",
            "--package",
            "plimsoll-cli",
            "--target",
            target,
            "--edges",
            edges,
            "--prefix",
            "none",
        ];
        printed(package.repository, &arguments).map(|text| names(&text))
    };
    let (compiled, linked) = (tree("normal,build")?, tree("normal,no-proc-macro")?);
    let metadata = printed(
        package.repository,
        &["metadata", "--locked", "--format-version", "1", "--filter-platform", target],
    )?;
    let metadata = serde_json::from_str(&metadata)
        .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
    select(&metadata, &compiled, &linked)
}

/// The names and versions in the output of `cargo tree`: "syn v2.0.1 (proc-macro) (*)".
fn names(tree: &str) -> BTreeSet<(String, String)> {
    let words = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_string(), words.next()?.strip_prefix('v')?.to_string()))
    };
    tree.lines().filter_map(words).collect()
}

fn select(
    metadata: &Value,
    compiled: &BTreeSet<(String, String)>,
    linked: &BTreeSet<(String, String)>,
) -> Result<Vec<Crate>, String> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_string();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let key = |package: &Value| (text(package, "name"), text(package, "version"));
    let packages = list(&metadata["packages"]);
    let by_id: BTreeMap<String, (String, String)> =
        packages.iter().map(|package| (text(package, "id"), key(package))).collect();
    let mut uses: BTreeMap<(String, String), Vec<(String, String)>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let Some(user) = by_id.get(&text(&node, "id")) else { continue };
        let is_compiled = |kind: &Value| kind["kind"].as_str() != Some("dev");
        for dependency in list(&node["deps"]) {
            let used = by_id.get(&text(&dependency, "pkg")).filter(|used| compiled.contains(*used));
            if let Some(used) = used
                && list(&dependency["dep_kinds"]).iter().any(is_compiled)
            {
                uses.entry(user.clone()).or_default().push(used.clone());
            }
        }
    }
    let mut crates = Vec::new();
    for package in &packages {
        let of = key(package);
        if !compiled.contains(&of) {
            continue;
        }
        let mut uses = uses.remove(&of).unwrap_or_default();
        uses.sort();
        uses.dedup();
        let manifest = PathBuf::from(text(package, "manifest_path"));
        crates.push(Crate {
            // Old manifests write `/` for OR.
            licence: text(package, "license").replace('/', " OR "),
            folder: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
            is_foreign: package["source"].is_string(),
            description: text(package, "description"),
            repository: text(package, "repository"),
            uses,
            is_linked: linked.contains(&of),
            name: of.0,
            version: of.1,
        });
    }
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    match crates.len() == compiled.len() {
        true => Ok(crates),
        false => Err(format!(
            "cargo tree has {} packages, and cargo metadata {} of them",
            compiled.len(),
            crates.len()
        )),
    }
}

/// Writes the bill of materials.
pub(super) fn write_bill(package: &Package, executable: &Path, path: &Path) -> Result<(), String> {
    let crates = crates(package)?;
    let lock: toml::Table =
        package.repository.read("Cargo.lock")?.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let mut components: Vec<Value> = crates.iter().map(|of| component(of, &lock)).collect();
    let mut dependencies: Vec<Value> = crates.iter().map(dependency).collect();
    for native in NATIVE {
        let Some(of) = crates.iter().find(|of| of.name == native.package) else { continue };
        let (component, reference) = native.component(of)?;
        components.push(component);
        for dependency in &mut dependencies {
            if dependency["ref"] == of.reference()
                && let Some(list) = dependency["dependsOn"].as_array_mut()
            {
                list.push(json!(reference));
            }
        }
        dependencies.push(json!({ "ref": reference, "dependsOn": [] }));
    }
    components.push(standard_library()?);
    let root = format!("{NAME}@{}", package.version);
    let program = crates.iter().find(|of| of.name == "plimsoll-cli").ok_or("plimsoll-cli is not compiled")?;
    dependencies.push(json!({ "ref": root, "dependsOn": [program.reference(), STANDARD_LIBRARY] }));
    dependencies.push(json!({ "ref": STANDARD_LIBRARY, "dependsOn": [] }));
    let sum = output(Command::new("sha256sum").arg(executable))?;
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": package.date("+%Y-%m-%dT%H:%M:%SZ")?,
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": NAME,
                "version": package.version,
                "licenses": [{ "expression": program.licence }],
                "hashes": [{ "alg": "SHA-256", "content": sum.split(' ').next().unwrap_or_default() }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    write(path, format!("{document:#}\n"))
}

impl Crate {
    /// Its name in the document.
    fn reference(&self) -> String {
        match self.is_foreign {
            true => format!("pkg:cargo/{}@{}", self.name, self.version),
            false => format!("{}@{}", self.name, self.version),
        }
    }
}

fn component(of: &Crate, lock: &toml::Table) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": of.reference(),
        "name": of.name,
        "version": of.version,
        "scope": if of.is_linked { "required" } else { "excluded" },
        "licenses": [{ "expression": of.licence }],
    });
    if !of.description.is_empty() {
        component["description"] = json!(of.description.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if of.is_foreign {
        component["purl"] = json!(of.reference());
    }
    if let Some(sum) = checksum(lock, &of.name, &of.version) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    if of.repository.starts_with("https://") {
        component["externalReferences"] = json!([{ "type": "vcs", "url": of.repository }]);
    }
    component
}

/// The checksum that cargo compares a download with.
fn checksum(lock: &toml::Table, name: &str, version: &str) -> Option<String> {
    let packages = lock.get("package")?.as_array()?;
    let is_it = |package: &&toml::Value| {
        let text = |key| package.get(key).and_then(toml::Value::as_str);
        text("name") == Some(name) && text("version") == Some(version)
    };
    Some(packages.iter().find(is_it)?.get("checksum")?.as_str()?.to_string())
}

fn dependency(of: &Crate) -> Value {
    let foreign = |(name, version): &(String, String)| match name.starts_with("plimsoll-") {
        true => format!("{name}@{version}"),
        false => format!("pkg:cargo/{name}@{version}"),
    };
    json!({ "ref": of.reference(), "dependsOn": of.uses.iter().map(foreign).collect::<Vec<_>>() })
}

impl Native {
    fn component(&self, of: &Crate) -> Result<(Value, String), String> {
        let path = of.folder.join(self.header);
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
        let version = version(&text, self.before)
            .ok_or_else(|| format!("{} has no line `{}`", path.display(), self.before.trim()))?;
        let reference = format!("pkg:generic/{}@{version}", self.name);
        let component = json!({
            "type": "library",
            "bom-ref": reference,
            "name": self.name,
            "version": version,
            "scope": "required",
            "licenses": [{ "license": { "id": self.licence } }],
            "purl": reference,
        });
        Ok((component, reference))
    }
}

/// The version behind a text of a header: `"3.50.2"`, or 30302 for 3.3.2.
fn version(header: &str, before: &str) -> Option<String> {
    let word = header.lines().find_map(|line| line.strip_prefix(before))?.split_whitespace().next()?;
    match word.strip_prefix('"') {
        Some(text) => Some(text.trim_end_matches('"').to_string()),
        None => {
            let number: u32 = word.parse().ok()?;
            Some(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
        }
    }
}

const STANDARD_LIBRARY: &str = "rust-std";

/// The standard library of Rust, which includes musl's C library on this platform.
fn standard_library() -> Result<Value, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = output(Command::new(rustc).arg("--version"))?;
    let version = text.split_whitespace().nth(1).unwrap_or_default();
    Ok(json!({
        "type": "framework",
        "bom-ref": STANDARD_LIBRARY,
        "name": "rust-std",
        "version": version,
        "description": "The standard library of Rust with the C library of musl and the unwinder of LLVM",
        "scope": "required",
        "licenses": [{ "expression": "(MIT OR Apache-2.0) AND MIT AND Apache-2.0 WITH LLVM-exception" }],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_a_tree() {
        let tree =
            "plimsoll-cli v0.1.0 (/x/crates/cli)\nsyn v2.0.1 (proc-macro) (*)\nlibc v0.2.1\n\nsyn v2.0.1\n";
        let found: Vec<String> =
            names(tree).into_iter().map(|(name, version)| format!("{name} {version}")).collect();
        assert_eq!(found, ["libc 0.2.1", "plimsoll-cli 0.1.0", "syn 2.0.1"]);
    }

    #[test]
    fn versions_are_read_from_headers() {
        for (header, before, expected) in [
            ("a\n#define V        \"3.50.2\"\n", "#define V ", Some("3.50.2")),
            ("#define V 30302   // major\n", "#define V ", Some("3.3.2")),
            ("#define V x\n", "#define V ", None),
            ("", "#define V ", None),
        ] {
            assert_eq!(version(header, before).as_deref(), expected, "{header}");
        }
    }

    #[test]
    fn each_compiled_package_is_a_component_with_its_checksum() {
        let package = |name: &str, source: Value| {
            json!({ "id": name, "name": name, "version": "1.0.0", "source": source,
            "license": "MIT/Apache-2.0", "manifest_path": format!("/x/{name}/Cargo.toml"), "repository": "https://example.org/" })
        };
        let metadata = json!({
            "packages": [package("plimsoll-a", Value::Null), package("b", json!("registry")), package("c", json!("registry"))],
            "resolve": { "nodes": [{ "id": "plimsoll-a", "deps": [
                { "pkg": "b", "dep_kinds": [{ "kind": null }] }, { "pkg": "c", "dep_kinds": [{ "kind": "dev" }] } ] }] },
        });
        let of = |name: &str| (name.to_string(), "1.0.0".to_string());
        let compiled = BTreeSet::from([of("plimsoll-a"), of("b")]);
        let crates = select(&metadata, &compiled, &BTreeSet::from([of("plimsoll-a")])).unwrap();
        let lock = "[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nchecksum = \"12\"\n".parse().unwrap();
        let components: Vec<Value> = crates.iter().map(|of| component(of, &lock)).collect();
        assert_eq!(components[0]["purl"], "pkg:cargo/b@1.0.0");
        assert_eq!(components[0]["scope"], "excluded");
        assert_eq!(components[0]["hashes"][0]["content"], "12");
        assert_eq!(components[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!((&components[1]["purl"], &components[1]["scope"]), (&Value::Null, &json!("required")));
        assert_eq!(
            dependency(&crates[1]),
            json!({ "ref": "plimsoll-a@1.0.0", "dependsOn": ["pkg:cargo/b@1.0.0"] })
        );
        assert!(select(&metadata, &BTreeSet::from([of("z")]), &BTreeSet::new()).is_err());
    }
}
