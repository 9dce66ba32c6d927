//! Files, by their metadata twice a second. This sees a file that is replaced by another one, and works on network
//! file systems, where the kernel does not report changes of other hosts.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{End, WatchEvent, WatchSink};

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What differs after a change: device, inode, size, and the times of the last changes of content and inode.
type Signature = (u64, u64, u64, (i64, i64), (i64, i64));

fn signature(path: &Path) -> Option<Signature> {
    let data = std::fs::metadata(path).ok()?;
    let (modified, changed) = ((data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec()));
    Some((data.dev(), data.ino(), data.size(), modified, changed))
}

pub(super) fn watch(paths: &[PathBuf], end: &End, sink: &WatchSink) {
    let look = || paths.iter().map(|path| signature(path)).collect::<Vec<_>>();
    let mut known = look();
    while !end.is_over() {
        end.wait(LOOK_EVERY);
        let now = look();
        // A file that is gone is about to be replaced. An import without it could not read anything.
        let is_changed = known.iter().zip(&now).any(|(known, now)| now.is_some() && known != now);
        if is_changed {
            sink(WatchEvent::Changed);
        }
        for (known, now) in known.iter_mut().zip(now).filter(|(_, now)| now.is_some()) {
            *known = now;
        }
    }
}
