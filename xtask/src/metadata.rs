//! What cargo knows about the workspace.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::files::Repository;

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Part of what is built.
    Normal,
    /// Tests, benches and examples.
    Dev,
    /// A build script.
    Build,
}

/// A direct dependency as a manifest states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// Its package name.
    pub(crate) name: String,
    /// What for.
    pub(crate) kind: Kind,
}

/// A package.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// Cargo's id of it.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// The licence expression of its manifest; empty when it has none.
    pub(crate) licence: String,
    /// True for a package of this workspace.
    pub(crate) ours: bool,
    /// What its manifest names.
    pub(crate) dependencies: Vec<Dependency>,
}

impl Package {
    /// The folder name of one of ours: `plimsoll-model` is `model`.
    pub(crate) fn short(&self) -> &str {
        self.name.strip_prefix("plimsoll-").unwrap_or(&self.name)
    }
}

/// All packages, and which uses which once features and platforms are settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata {
    /// Every package.
    pub(crate) packages: Vec<Package>,
    /// By package id: what it really uses.
    pub(crate) used: BTreeMap<String, Vec<(String, Kind)>>,
}

impl Metadata {
    /// Asks cargo, for the platform this runs on.
    pub(crate) fn of(repository: &Repository) -> Result<Metadata, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let platform = host_platform()?;
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--filter-platform", &platform])
            .current_dir(repository.root())
            .output()
            .map_err(|error| format!("cargo metadata could not be started: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        let value: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
        Metadata::read(&value)
    }

    /// Reads cargo's JSON, format version 1.
    pub(crate) fn read(value: &Value) -> Result<Metadata, String> {
        let members: Vec<&str> = texts(&value["workspace_members"]);
        let mut metadata = Metadata::default();
        for package in list(&value["packages"]) {
            let id = text(package, "id")?;
            let mut dependencies = Vec::new();
            for dependency in list(&package["dependencies"]) {
                dependencies
                    .push(Dependency { name: text(dependency, "name")?, kind: kind(&dependency["kind"]) });
            }
            metadata.packages.push(Package {
                name: text(package, "name")?,
                version: text(package, "version")?,
                licence: package["license"].as_str().unwrap_or_default().into(),
                ours: members.contains(&id.as_str()),
                dependencies,
                id,
            });
        }
        for node in list(&value["resolve"]["nodes"]) {
            let mut used = Vec::new();
            for dependency in list(&node["deps"]) {
                for of in list(&dependency["dep_kinds"]) {
                    used.push((text(dependency, "pkg")?, kind(&of["kind"])));
                }
            }
            metadata.used.insert(text(node, "id")?, used);
        }
        Ok(metadata)
    }

    /// The packages of this workspace.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.ours)
    }

    /// A package by cargo's id.
    pub(crate) fn package(&self, id: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.id == id)
    }
}

fn host_platform() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(|error| format!("rustc -vV: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_string).ok_or_else(|| "rustc -vV names no host".into())
}

fn kind(value: &Value) -> Kind {
    match value.as_str() {
        Some("dev") => Kind::Dev,
        Some("build") => Kind::Build,
        _ => Kind::Normal,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    value[key]
        .as_str()
        .map(str::to_string)
        .ok_or_else(|| format!("cargo metadata has no `{key}` where one is due"))
}
