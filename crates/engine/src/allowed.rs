//! What an agent may load: the limits that it was started with, whatever a coordinator asks of it.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use files::Named;
use model::{Problem, Problems};
use rustix::fs::OFlags;

use crate::workload::LoadError;

/// What of a load is refused.
pub fn refusals(results: impl IntoIterator<Item = Result<(), LoadError>>) -> Problems {
    let errors = results.into_iter().filter_map(Result::err);
    Problems(errors.map(|error| Problem::new(error.what, error.help)).collect())
}

/// What is written to allow every host.
const ANY_HOST: &str = "*";

/// Networks that nobody reaches from outside (RFC 1918, 4193, 6598), and this host. Link-local addresses are not among them: on
/// hosts of a cloud, one of them hands out credentials.
const PRIVATE: [(IpAddr, u8); 7] = [
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), 12),
    (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(100, 64, 0, 0)), 10),
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7),
];

/// Hosts, folders and commands that a load may use. Everything else is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// As written, for messages.
    words: Vec<String>,
    any_host: bool,
    names: Vec<String>,
    networks: Vec<(IpAddr, u8)>,
    folders: Vec<PathBuf>,
    commands: bool,
}

impl Allowed {
    /// The limits of these entries: `HOST`, an address, `NETWORK/BITS`, `/FOLDER`, or `*` for every host; and whether loads may
    /// start commands.
    ///
    /// # Errors
    /// The entry that is none of these.
    pub fn new<'a>(entries: impl IntoIterator<Item = &'a str>, commands: bool) -> Result<Allowed, String> {
        let mut allowed = Allowed { commands, ..Allowed::default() };
        for entry in entries.into_iter().map(str::trim) {
            allowed.add(entry).ok_or_else(|| {
                format!("`{entry}` cannot be allowed: write a host, an address, a network such as 10.1.0.0/16, or a folder that begins with /")
            })?;
            allowed.words.push(entry.to_string());
        }
        Ok(allowed)
    }

    /// The same, and commands if `commands` is set.
    #[must_use]
    pub fn with_commands(self, commands: bool) -> Allowed {
        Allowed { commands, ..self }
    }

    /// The limits of an agent for which none were stated, and that anybody with access to a broker can reach: hosts in private
    /// networks, no folder and no command.
    pub fn private() -> Allowed {
        Allowed {
            networks: PRIVATE.to_vec(),
            words: vec!["hosts in private networks".into()],
            ..Allowed::default()
        }
    }

    fn add(&mut self, entry: &str) -> Option<()> {
        if entry == ANY_HOST {
            self.any_host = true;
        } else if entry.starts_with('/') {
            self.folders.push(real(Path::new(entry))?);
        } else if let Some((network, bits)) = entry.split_once('/') {
            let (network, bits) = (network.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
            (bits <= width(network)).then(|| self.networks.push((network, bits)))?;
        } else if let Ok(address) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
            self.networks.push((address, width(address)));
        } else {
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
            (!entry.is_empty() && entry.chars().all(is_name)).then(|| self.names.push(entry.to_string()))?;
        }
        Some(())
    }

    /// Whether a load may reach a host with these addresses: it is named, or all of them are in allowed networks.
    ///
    /// # Errors
    /// That it may not, and how the agent would have to be started.
    pub fn host(&self, name: &str, addresses: &[SocketAddr]) -> Result<(), LoadError> {
        if self.any_host || self.names.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        let is_inside = |address: &IpAddr| self.networks.iter().any(|network| contains(*network, *address));
        match addresses.iter().map(|address| address.ip().to_canonical()).find(|address| !is_inside(address))
        {
            None if !addresses.is_empty() => Ok(()),
            Some(address) if name != address.to_string() => {
                Err(self
                    .refused(&format!("{name}, which has the address {address}"), &format!("--allow {name}")))
            }
            _ => Err(self.refused(name, &format!("--allow {name}"))),
        }
    }

    /// Whether a load may use a file: links on the way are followed, and the file need not exist.
    ///
    /// # Errors
    /// That it may not, and how the agent would have to be started.
    pub fn file(&self, path: &Path) -> Result<(), LoadError> {
        let is_inside =
            real(path).is_some_and(|path| self.folders.iter().any(|folder| path.starts_with(folder)));
        match is_inside {
            true => Ok(()),
            false => Err(self.refused_file(path)),
        }
    }

    fn refused_file(&self, path: &Path) -> LoadError {
        let written = std::path::absolute(path).ok().map(|path| plain(&path));
        // Of a link that names nothing, what it names is known too.
        let led = real(path).or_else(|| std::fs::read_link(path).ok());
        let is_inside = |path: &PathBuf| self.folders.iter().any(|folder| path.starts_with(folder));
        if written.as_ref().is_some_and(is_inside) {
            let target = led.map_or_else(|| "elsewhere".into(), |led| led.display().to_string());
            return LoadError::new(
                format!(
                    "this agent may load {self}, and refuses {}: a link on the way leads outside, to {target}",
                    path.display()
                ),
                "name a file inside that is no link, or start the agent with --allow and the folder that the link leads to",
            );
        }
        let folder = path.parent().unwrap_or(path).display();
        self.refused(&path.display().to_string(), &format!("--allow {folder}"))
    }

    /// Whether a load may start commands, which can do anything.
    ///
    /// # Errors
    /// That it may not, and how the agent would have to be started.
    pub fn commands(&self) -> Result<(), LoadError> {
        match self.commands {
            true => Ok(()),
            false => Err(self.refused("a load that starts commands", "--allow-commands")),
        }
    }

    /// Whether factors of this host may be set, some of which start commands.
    ///
    /// # Errors
    /// That they may not, and how the agent would have to be started.
    pub fn factors(&self) -> Result<(), LoadError> {
        match self.commands {
            true => Ok(()),
            false => Err(LoadError::new(
                "this agent changes nothing on its host",
                "if it may, start it with `--allow-commands`",
            )),
        }
    }

    fn refused(&self, target: &str, option: &str) -> LoadError {
        LoadError::new(
            format!("this agent may load {self}, and refuses {target}"),
            format!("if it may be loaded, start the agent with `{option}`"),
        )
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commands = self.commands.then_some("commands");
        let words: Vec<&str> = self.words.iter().map(String::as_str).chain(commands).collect();
        match words.is_empty() {
            true => f.write_str("nothing"),
            false => f.write_str(&words.join(", ")),
        }
    }
}

/// Opens the paths of settings that name files of this host, on an agent only those that it may open. A workload has no other way
/// to open them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opener(Option<Arc<Allowed>>);

impl Opener {
    /// Opens only what is allowed.
    pub fn limited_to(allowed: &Arc<Allowed>) -> Opener {
        Opener(Some(Arc::clone(allowed)))
    }

    /// Whether a path may be opened, before it is.
    ///
    /// # Errors
    /// That it may not.
    pub fn check(&self, path: &Path) -> io::Result<()> {
        let refused = |error: LoadError| io::Error::new(io::ErrorKind::PermissionDenied, error.in_line());
        self.0.as_ref().map_or(Ok(()), |allowed| allowed.file(path)).map_err(refused)
    }

    /// Resolves a path, as [`files::locate`]. What it returns is what was found, whatever has the name later.
    ///
    /// # Errors
    /// As [`files::locate`]; that it may not be opened.
    pub fn locate(&self, path: &Path) -> io::Result<Named> {
        let Some(allowed) = &self.0 else { return files::locate(path) };
        let refused = |error: LoadError| io::Error::new(io::ErrorKind::PermissionDenied, error.in_line());
        // First the path, so that nothing else is opened.
        self.check(path)?;
        let named = files::locate(path)?;
        // A link may have changed since.
        let folder = std::fs::read_link(format!("/proc/self/fd/{}", named.directory.as_fd().as_raw_fd()))?;
        let found = folder.join(&named.name);
        match allowed.folders.iter().any(|folder| found.starts_with(folder)) {
            true => Ok(named),
            false => Err(refused(allowed.refused_file(&found))),
        }
    }

    /// Uses the path of a socket to connect to it. Where there are limits, it is the path of a descriptor of what was found.
    ///
    /// # Errors
    /// As [`Opener::locate`]; when there is none.
    pub fn use_socket<T>(&self, path: &Path, connect: impl FnOnce(&Path) -> T) -> io::Result<T> {
        if self.0.is_none() {
            return Ok(connect(path));
        }
        let found = self.locate(path)?.found.ok_or(io::ErrorKind::NotFound)?;
        Ok(connect(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd()))))
    }

    /// Opens a file that exists, to read it. It may be a device.
    ///
    /// # Errors
    /// As [`Opener::locate`]; when there is none, or it may not be read.
    pub fn open_to_read(&self, path: &Path) -> io::Result<std::fs::File> {
        let found = self.locate(path)?.found.ok_or(io::ErrorKind::NotFound)?;
        files::reopen(&found, OFlags::RDONLY | OFlags::NONBLOCK)
    }
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn contains((network, bits): (IpAddr, u8), address: IpAddr) -> bool {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    // A shift by all bits is none.
    let shift = 128 - u32::from(bits);
    width(network) == width(address)
        && number(network).checked_shr(shift).unwrap_or(0) == number(address).checked_shr(shift).unwrap_or(0)
}

/// The path as it is written, without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The path without links, as far as it exists. None for one that leaves its folder by `..` where nothing exists.
fn real(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    for existing in path.ancestors() {
        let Ok(found) = existing.canonicalize() else { continue };
        let rest = path.strip_prefix(existing).ok()?;
        let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
        // A dangling link would be followed when the file is made.
        let is_link = rest.components().next().is_some_and(|part| existing.join(part).is_symlink());
        return (is_plain && !is_link).then(|| found.join(rest));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 80)).collect()
    }

    #[test]
    fn a_host_is_allowed_by_its_name_or_by_all_of_its_addresses() {
        let of = |entries: &[&str]| Allowed::new(entries.iter().copied(), false).unwrap();
        for (entries, name, found, expected) in [
            (&["127.0.0.1/32"][..], "localhost", &["127.0.0.1"][..], true),
            (&["127.0.0.1/32"], "127.0.0.2", &["127.0.0.2"], false),
            (&["127.0.0.1"], "localhost", &["127.0.0.1", "::1"], false),
            (&["127.0.0.1", "::1"], "localhost", &["127.0.0.1", "::1"], true),
            (&["10.1.0.0/16"], "web1", &["10.1.255.7"], true),
            (&["10.1.0.0/16"], "web1", &["10.2.0.7"], false),
            (&["0.0.0.0/0"], "web1", &["8.8.8.8"], true),
            (&["0.0.0.0/0"], "web1", &["2001:db8::1"], false),
            (&["10.1.2.3/8"], "web1", &["10.200.0.1"], true),
            (&["2001:db8::/32"], "web1", &["2001:db8:ffff::1"], true),
            (&["2001:db8::/32"], "web1", &["2001:db9::1"], false),
            (&["10.0.0.0/8"], "web1", &["::ffff:10.0.0.1"], true),
            (&["web1"], "WEB1", &["8.8.8.8"], true),
            (&["web1"], "web1.evil.example", &["8.8.8.8"], false),
            (&["*"], "web1", &["8.8.8.8"], true),
            (&["10.0.0.0/8"], "web1", &[], false),
            (&[], "web1", &["127.0.0.1"], false),
        ] {
            let allowed = of(entries);
            assert_eq!(
                allowed.host(name, &addresses(found)).is_ok(),
                expected,
                "{entries:?} {name} {found:?}"
            );
        }
        let refused =
            of(&["10.0.0.0/8", "web1"]).host("db1", &addresses(&["10.0.0.1", "8.8.8.8"])).unwrap_err();
        assert_eq!(
            refused.what,
            "this agent may load 10.0.0.0/8, web1, and refuses db1, which has the address 8.8.8.8"
        );
        assert!(refused.help.contains("--allow db1"));
    }

    #[test]
    fn without_entries_only_private_networks_are_allowed_and_no_files_or_commands() {
        let allowed = Allowed::private();
        for (address, expected) in [
            ("10.1.1.1", true),
            ("172.31.0.1", true),
            ("172.32.0.1", false),
            ("192.168.1.1", true),
            ("100.127.0.1", true),
            ("127.0.0.1", true),
            ("::1", true),
            ("fd00::1", true),
            ("fe80::1", false),
            ("169.254.169.254", false),
            ("8.8.8.8", false),
        ] {
            assert_eq!(allowed.host("host", &addresses(&[address])).is_ok(), expected, "{address}");
        }
        assert!(allowed.file(Path::new("/tmp/x")).is_err() && allowed.commands().is_err());
        assert!(Allowed::new([], true).unwrap().commands().is_ok());
    }

    #[test]
    fn what_is_neither_host_nor_network_nor_folder_cannot_be_allowed() {
        for entry in
            ["", "10.0.0.0/33", "10.0.0.0/x", "web1/8", "a b", "::1/129", "http://web1", "*.example.com"]
        {
            let why = Allowed::new([entry], false).unwrap_err();
            assert!(why.contains(&format!("`{entry}`")), "{why}");
        }
    }

    #[test]
    fn files_are_allowed_by_where_they_really_are() {
        let folder = testkit::Scratch::new();
        let inside = folder.join("inside");
        std::fs::create_dir(&inside).unwrap();
        folder.file("outside", "");
        folder.file("inside/there", "");
        std::os::unix::fs::symlink(folder.join("outside"), inside.join("link")).unwrap();
        std::os::unix::fs::symlink(folder.join("nothing"), inside.join("dangling")).unwrap();
        let allowed = Allowed::new([inside.to_str().unwrap()], false).unwrap();
        for (name, expected) in [
            ("inside/there", true),
            ("inside/new", true),
            ("inside/new/folder/file", true),
            ("inside", true),
            ("outside", false),
            ("inside/../outside", false),
            ("inside/new/../../outside", false),
            ("inside/link", false),
            ("inside/dangling", false),
            ("inside2", false),
        ] {
            let found = allowed.file(&folder.join(name));
            assert_eq!(found.is_ok(), expected, "{name}");
            if let Err(why) = found {
                let is_link = matches!(name, "inside/link" | "inside/dangling");
                let allows = format!("--allow {}", inside.display());
                assert_eq!(why.what.contains("leads outside, to"), is_link, "{name}: {why:?}");
                assert!(!why.help.contains(&format!("{allows}`")), "{name}: {why:?}");
            }
        }
    }
}
