//! What surrounds the systems under test: data to read, free ports, a neighbour, a narrow network.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Draw;

/// Random bytes to read.
pub(super) fn write_data(file: &Path) -> Result<(), String> {
    let status = Command::new("dd")
        .args(["if=/dev/urandom", "bs=1M", "count=256", "conv=fsync", "status=none"])
        .arg(format!("of={}", file.display()))
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("dd: {status}")),
        Err(error) => Err(format!("dd: {error}")),
    }
}

/// The disk that a folder is on, as the kernel calls it.
pub(super) fn disk_of(folder: &Path) -> Result<String, String> {
    let line = format!("lsblk -snro NAME,TYPE $(findmnt -no SOURCE -T '{}')", folder.display());
    let output = Command::new("sh").args(["-c", &line]).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let disk = text.lines().filter_map(|line| line.strip_suffix(" disk")).next();
    disk.map(str::to_string).ok_or_else(|| format!("{}: on no disk that lsblk knows", folder.display()))
}

/// Two ports nobody listens on.
pub(super) fn free_ports() -> Result<[u16; 2], String> {
    let bind = || TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string());
    let (first, second) = (bind()?, bind()?);
    let port = |listener: &TcpListener| listener.local_addr().map(|at| at.port()).map_err(|e| e.to_string());
    Ok([port(&first)?, port(&second)?])
}

/// Somebody else's program on the same machine: it uses a CPU in bursts.
pub(super) struct Neighbour(std::sync::Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Neighbour {
    pub(super) fn start() -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let reported = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut draw = Draw::new(7, 7);
            while !reported.load(Ordering::Relaxed) {
                let busy = Instant::now() + Duration::from_millis(draw.whole(20, 400));
                while Instant::now() < busy {
                    std::hint::spin_loop();
                }
                std::thread::sleep(Duration::from_millis(draw.whole(5, 200)));
            }
        });
        Neighbour(stop, Some(thread))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

/// A network of its own whose loopback interface carries so many bits per second.
pub(super) struct Network(pub(super) String);

impl Network {
    pub(super) fn new(name: &str, mbit: u64) -> Result<Self, String> {
        let name = format!("plimsoll-{name}");
        // One that was killed left it behind.
        drop(Network(name.clone()));
        let network = Network(name.clone());
        for line in [
            format!("ip netns add {name}"),
            format!("ip -n {name} link set lo mtu 1500 up"),
            format!(
                "ip netns exec {name} tc qdisc add dev lo root tbf rate {mbit}mbit burst 64kb latency 400ms"
            ),
        ] {
            let mut words = line.split(' ');
            let status = Command::new(words.next().unwrap_or_default()).args(words).status();
            match status {
                Ok(status) if status.success() => {}
                Ok(status) => return Err(format!("{line}: {status}")),
                Err(error) => return Err(format!("{line}: {error}")),
            }
        }
        Ok(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ =
            Command::new("ip").args(["netns", "del", &self.0]).stderr(std::process::Stdio::null()).status();
    }
}
