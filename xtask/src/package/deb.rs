//! The Debian package: a tree of files from `packaging/deb` and from the program itself, packed by `dpkg-deb`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{NAME, Package, files_below, has, output, read_bytes, replace_folder, shown, size, write};
use crate::fault::Fault;

const UNIT: &str = "plimsoll-metadir";
const DOCUMENTS: &str = "usr/share/doc/plimsoll";

/// Builds it and returns its path.
pub(super) fn build(
    package: &Package,
    executable: &Path,
    licences: &Path,
    materials: &Path,
) -> Result<PathBuf, String> {
    let deb = package.folder.join(format!("{NAME}_{}-1_{}.deb", package.version, package.architecture));
    let tree = package.folder.join("deb-tree");
    pack(package, executable, (licences, materials), &tree, &deb)?;
    // The same files give the same bytes.
    let again = package.folder.join("again.deb");
    pack(package, executable, (licences, materials), &tree, &again)?;
    let is_same = read_bytes(&deb)? == read_bytes(&again)?;
    let wrong = |error| format!("remove what was packed: {error}");
    fs::remove_file(&again).map_err(wrong)?;
    fs::remove_dir_all(&tree).map_err(wrong)?;
    match is_same {
        true => println!("{}: {} bytes, the same when built again", package.shown(&deb), size(&deb)?),
        false => {
            return Err(format!(
                "{} differs when it is built again from the same files",
                package.shown(&deb)
            ));
        }
    }
    Ok(deb)
}

fn pack(
    package: &Package,
    executable: &Path,
    (licences, materials): (&Path, &Path),
    tree: &Path,
    deb: &Path,
) -> Result<(), String> {
    replace_folder(tree)?;
    let program = tree.join("usr/bin").join(NAME);
    write(&program, read_bytes(executable)?)?;
    make_manual_and_completions(executable, tree)?;
    for (template, path) in [
        (format!("{UNIT}.service"), format!("usr/lib/systemd/system/{UNIT}.service")),
        (format!("{UNIT}.sysusers"), format!("usr/lib/sysusers.d/{UNIT}.conf")),
        (format!("{UNIT}.default"), format!("etc/default/{UNIT}")),
        ("lintian-overrides".into(), format!("usr/share/lintian/overrides/{NAME}")),
    ] {
        write(&tree.join(path), package.template(&format!("deb/{template}"))?)?;
    }
    let documents = tree.join(DOCUMENTS);
    write(&documents.join("copyright"), copyright(package)?)?;
    write(&documents.join("changelog"), package.repository.read("CHANGELOG.md")?)?;
    let date = package.date("+%a, %d %b %Y %H:%M:%S +0000")?;
    let changelog = filled(package, &package.template("deb/changelog")?).replace("@DATE@", &date);
    write(&documents.join("changelog.Debian"), changelog)?;
    write(&documents.join("licences.txt"), read_bytes(licences)?)?;
    write(&documents.join("materials.cdx.json"), read_bytes(materials)?)?;
    for file in files_below(tree)? {
        let is_manual = file.starts_with("usr/share/man/");
        if is_manual || (file.starts_with(DOCUMENTS) && !file.ends_with("/copyright")) {
            output(Command::new("gzip").args(["--best", "--no-name"]).arg(tree.join(&file)))?;
        }
    }
    control(package, tree)?;
    set_modes(tree)?;
    let mut command = Command::new("dpkg-deb");
    // Every distribution since 2013 reads xz; one thread, so that the number of CPUs does not change the result.
    command.args(["--root-owner-group", "--threads-max=1", "-Zxz", "--build"]).arg(tree).arg(deb);
    command.env("SOURCE_DATE_EPOCH", package.epoch.to_string());
    output(&mut command).map(drop)
}

fn make_manual_and_completions(executable: &Path, tree: &Path) -> Result<(), String> {
    let manual = tree.join("usr/share/man/man1");
    fs::create_dir_all(&manual).map_err(|error| format!("create {}: {error}", manual.display()))?;
    output(Command::new(executable).arg("man").arg("--output-dir").arg(&manual))?;
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/plimsoll"),
        ("zsh", "usr/share/zsh/vendor-completions/_plimsoll"),
        ("fish", "usr/share/fish/vendor_completions.d/plimsoll.fish"),
    ] {
        write(&tree.join(path), output(Command::new(executable).args(["completions", shell]))?)?;
    }
    Ok(())
}

/// A template with the values of the package.
fn filled(package: &Package, template: &str) -> String {
    template
        .replace("@VERSION@", &package.version)
        .replace("@ARCHITECTURE@", package.architecture)
        .replace("@MAINTAINER@", &package.maintainer)
}

fn copyright(package: &Package) -> Result<String, String> {
    let licence = package.repository.read("LICENSE-MIT")?;
    let (head, terms) = licence.split_once("\n\nPermission").ok_or("LICENSE-MIT has no permission notice")?;
    let holder = head.lines().find_map(|line| line.strip_prefix("Copyright (c) "));
    let holder = holder.ok_or("LICENSE-MIT has no line `Copyright (c) YEAR HOLDER`")?;
    let paragraph = |line: &str| if line.is_empty() { " .".to_string() } else { format!(" {line}") };
    let terms = format!("Permission{terms}");
    let terms: Vec<String> = terms.trim_end().lines().map(paragraph).collect();
    let text = package.template("deb/copyright")?;
    Ok(text.replace("@COPYRIGHT@", holder).replace("@EXPAT@", &terms.join("\n")))
}

/// The folder `DEBIAN`: what `dpkg` knows of the package, and what it runs.
fn control(package: &Package, tree: &Path) -> Result<(), String> {
    let folder = tree.join("DEBIAN");
    let files = files_below(tree)?;
    let mut kibibytes = 0;
    for file in &files {
        kibibytes += size(&tree.join(file))?.div_ceil(1024);
    }
    let text = filled(package, &package.template("deb/control")?);
    write(&folder.join("control"), text.replace("@INSTALLED_SIZE@", &kibibytes.to_string()))?;
    let settings: Vec<&String> = files.iter().filter(|file| file.starts_with("etc/")).collect();
    let list: String = settings.iter().map(|file| format!("/{file}\n")).collect();
    write(&folder.join("conffiles"), list)?;
    let mut sums = Command::new("md5sum");
    sums.args(files.iter().filter(|file| !settings.contains(file))).current_dir(tree);
    write(&folder.join("md5sums"), output(&mut sums)?)?;
    for script in SCRIPTS {
        write(&folder.join(script), package.template(&format!("deb/{script}"))?)?;
    }
    Ok(())
}

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Modes that do not depend on the umask of the user who builds.
fn set_modes(tree: &Path) -> Result<(), String> {
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    for file in files_below(tree)? {
        let is_program =
            file.starts_with("usr/bin/") || SCRIPTS.iter().any(|script| file == format!("DEBIAN/{script}"));
        set(&tree.join(&file), if is_program { 0o755 } else { 0o644 })?;
        let folders = Path::new(&file).ancestors().skip(1);
        for folder in folders {
            set(&tree.join(folder), 0o755)?;
        }
    }
    Ok(())
}

/// Unpacks the package and runs its program; lintian and systemd look at it where they are installed.
pub(super) fn check(package: &Package, deb: &Path, executable: &Path) -> Result<Vec<Fault>, String> {
    let name = package.shown(deb);
    let mut faults = Vec::new();
    let tree = package.folder.join("deb-unpacked");
    output(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(&tree))?;
    let program = tree.join("usr/bin").join(NAME);
    output(Command::new(&program).arg("--version"))?;
    if read_bytes(&program)? != read_bytes(executable)? {
        faults.push(Fault::new(
            &name,
            "has another executable than the one that was checked",
            "build the package again",
        ));
    }
    output(Command::new("md5sum").args(["--check", "--quiet"]).arg(sums_of(deb, &tree)?).current_dir(&tree))?;
    if has("lintian") {
        let mut lintian = Command::new("lintian");
        lintian.args(["--fail-on", "error,warning", "--info"]).arg(deb);
        // It refuses to run as root, unless it is said that this is meant.
        lintian.arg("--allow-root");
        faults.extend(judged(&mut lintian, &name, "correct the files of packaging/deb")?);
    } else {
        println!("{name}: not checked by lintian, which is not installed");
    }
    if has("systemd-analyze") {
        let unit = tree.join(format!("usr/lib/systemd/system/{UNIT}.service"));
        // The program is not installed where the unit expects it.
        let text = fs::read_to_string(&unit).map_err(|error| format!("read {}: {error}", unit.display()))?;
        let place = format!("ExecStart={}", program.display());
        write(&unit, text.replace(&format!("ExecStart=/usr/bin/{NAME}"), &place))?;
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&unit);
        faults.extend(judged(
            &mut verify,
            &format!("{UNIT}.service"),
            "correct packaging/deb/plimsoll-metadir.service",
        )?);
    } else {
        println!("{UNIT}.service: not checked by systemd-analyze, which is not installed");
    }
    fs::remove_dir_all(&tree).map_err(|error| format!("remove {}: {error}", tree.display()))?;
    Ok(faults)
}

/// The list of checksums of the package, beside what was unpacked.
fn sums_of(deb: &Path, tree: &Path) -> Result<PathBuf, String> {
    let folder = tree.join("DEBIAN");
    output(Command::new("dpkg-deb").arg("--control").arg(deb).arg(&folder))?;
    Ok(folder.join("md5sums"))
}

/// A fault if a checker ends with an error. What it prints is shown in any case.
fn judged(checker: &mut Command, place: &str, help: &str) -> Result<Option<Fault>, String> {
    let line = shown(checker);
    let output = checker.output().map_err(|error| format!("{line}: {error}"))?;
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        print!("{text}");
        println!("{place}: {} has no objection", checker.get_program().to_string_lossy());
        return Ok(None);
    }
    Ok(Some(Fault::new(place, format!("{line}: {}\n{}", output.status, text.trim_end()), help)))
}
