//! This program, and how it gets to a host where it is missing or of another version.

use std::io::{BufRead, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

/// What the shell of the host says before the agent speaks.
const HAVE: &str = "plimsoll-agent: starting";
const NEED: &str = "plimsoll-agent: need program";

/// Lines of a login that are skipped until the shell of the host says something.
const LINES_MAX: usize = 200;

/// This program.
#[derive(Debug)]
pub struct Program {
    /// SHA-256 in hexadecimal, as `sha256sum` shows it; empty if it is not copied.
    hash: String,
    path: PathBuf,
}

impl Program {
    /// The program that is running. It is read only if a host may need a copy.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn this(is_copied: bool) -> std::io::Result<Program> {
        let path = std::env::current_exe()?;
        if !is_copied {
            return Ok(Program { hash: String::new(), path });
        }
        let (mut file, mut hash, mut piece) = (std::fs::File::open(&path)?, Sha256::new(), vec![0; 64 << 10]);
        loop {
            match std::io::Read::read(&mut file, &mut piece)? {
                0 => break,
                read => hash.update(&piece[..read]),
            }
        }
        Ok(Program { hash: crate::received::hexadecimal(&hash.finalize()), path })
    }

    /// The command for the shell of the host: starts the installed program if it is the same, otherwise asks for it, puts it
    /// into a private temporary folder and starts it. The agent removes that folder when it starts, so nothing is left.
    pub fn remote_command(&self) -> String {
        let Program { hash, .. } = self;
        // One line for any shell of POSIX; the quotes protect it from other login shells.
        format!(
            "exec sh -c '\
p=$(command -v plimsoll); \
if [ -n \"$p\" ] && [ \"$(sha256sum < \"$p\" 2>/dev/null)\" = \"{hash}  -\" ]; then \
echo \"{HAVE}\"; exec \"$p\" agent; fi; \
for b in \"${{TMPDIR:-/tmp}}\" \"${{XDG_RUNTIME_DIR:-$HOME}}\" \"$HOME\"; do \
d=$(mktemp -d \"$b/plimsoll-agent.XXXXXX\" 2>/dev/null) || continue; f=\"$d/plimsoll\"; \
printf \"#!/bin/sh\\n\" > \"$f\" && chmod 700 \"$f\" && \"$f\" 2>/dev/null && break; \
rm -rf \"$d\"; d=; done; \
if [ -z \"$d\" ]; then echo \"no folder for a program on this host\" >&2; exit 1; fi; \
trap \"rm -rf \\\"$d\\\"\" EXIT; \
echo \"{NEED} $(uname -m)\"; \
read -r n || exit 1; head -c \"$n\" > \"$f\" || exit 1; \
if [ \"$(sha256sum < \"$f\")\" != \"{hash}  -\" ]; then echo \"the program did not arrive whole\" >&2; exit 1; fi; \
trap - EXIT; echo \"{HAVE}\"; exec \"$f\" agent --temporary \"$d\"'"
        )
    }

    /// Speaks with the shell of the host until the agent starts.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn deliver(
        &self,
        from: &mut impl BufRead,
        to: OwnedFd,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let (mut line, mut is_copied) = (String::new(), false);
        for _ in 0..LINES_MAX {
            line.clear();
            let read = std::io::Read::take(&mut *from, 4096).read_line(&mut line);
            match read {
                Ok(0) => return Err("the connection was closed".into()),
                Ok(_) => {}
                Err(error) => return Err(format!("the connection failed: {error}")),
            }
            let line = line.trim_end();
            if line == HAVE {
                return Ok(());
            }
            if let Some(machine) = line.strip_prefix(NEED) {
                let machine = machine.trim();
                if std::mem::replace(&mut is_copied, true) {
                    return Err("the host requested the program twice".into());
                }
                if machine != std::env::consts::ARCH {
                    return Err(format!(
                        "the host is a {machine} machine, and this program is for {}; install plimsoll there",
                        std::env::consts::ARCH
                    ));
                }
                self.copy(to.try_clone().map_err(|error| error.to_string())?, say)?;
            }
        }
        Err("the host did not start the agent".into())
    }

    fn copy(&self, to: OwnedFd, say: &mut dyn FnMut(&str)) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("the program could not be copied: {error}");
        let mut program = std::fs::File::open(&self.path).map_err(failed)?;
        let bytes = program.metadata().map_err(failed)?.len();
        say(&format!("copying the program ({} MB)", bytes / 1_000_000));
        let mut to = Waiting(to);
        writeln!(to, "{bytes}").map_err(failed)?;
        std::io::copy(&mut program, &mut to).map_err(failed)?;
        Ok(())
    }
}

/// Writes to a descriptor that does not block, and waits as long as it takes.
struct Waiting(OwnedFd);

impl Write for Waiting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            match rustix::io::write(&self.0, bytes) {
                Err(rustix::io::Errno::AGAIN) => {
                    let mut polled = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::OUT)];
                    rustix::event::poll(&mut polled, None)?;
                }
                Err(rustix::io::Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
