//! Finds the process that serves a port of this host, the most likely limit of a load on a local address.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::sockets::{Listeners, inode};
use super::table::numbered_entries;

/// What `process:` is to be followed by to watch the process that listens on this TCP port: its name, or its id where other
/// processes have the same name. None where it is not seen.
pub fn listening_on(port: u16) -> Option<String> {
    let mut listeners = Listeners::new(true);
    listeners.refresh(0);
    let inodes = listeners.of_port(port);
    let proc = Path::new("/proc");
    let mut processes = Vec::new();
    if inodes.is_empty() || !numbered_entries(proc, &mut processes) {
        return None;
    }
    let name = |process: u32| {
        let name = fs::read_to_string(proc.join(process.to_string()).join("comm")).ok()?;
        Some(name.trim_end().to_string())
    };
    let mut descriptors = Vec::new();
    let mut listens = |process: u32| {
        let folder = proc.join(process.to_string()).join("fd");
        numbered_entries(&folder, &mut descriptors)
            && descriptors.iter().any(|number| {
                let link = fs::read_link(folder.join(number.to_string())).unwrap_or_default();
                inode(link.as_os_str().as_bytes()).is_some_and(|inode| inodes.contains(&inode))
            })
    };
    let (holders, others): (Vec<u32>, Vec<u32>) =
        processes.into_iter().partition(|process| listens(*process));
    let first = *holders.first()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let own = name(first).filter(|own| !own.is_empty() && own.bytes().all(plain));
    let own = own.filter(|own| !others.iter().any(|other| name(*other).as_ref() == Some(own)));
    Some(own.unwrap_or_else(|| first.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_of_a_port_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let found = listening_on(port).unwrap();
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        assert!(found == own.trim_end() || found == std::process::id().to_string(), "{found}");
        drop(socket);
        assert_eq!(listening_on(port), None);
    }
}
