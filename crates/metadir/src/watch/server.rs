//! Servers that report changes themselves, over a connection that is made again when it is lost.

use std::time::Duration;

use super::{End, WatchEvent, WatchSink};
use crate::agent::Listener;

/// The time before the first attempt to connect again, and the longest.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MOST: Duration = Duration::from_secs(60);

pub(super) fn watch(listener: &mut dyn Listener, end: &End, sink: &WatchSink) {
    let mut again = AGAIN_FIRST;
    let mut is_lost = false;
    while !end.is_over() {
        let mut begun = || {
            again = AGAIN_FIRST;
            if std::mem::take(&mut is_lost) {
                sink(WatchEvent::Restored);
            }
        };
        let mut changed = || sink(WatchEvent::Changed);
        let ended = listener.listen(&|| end.is_over(), &mut begun, &mut changed);
        // Without an error the watcher is over.
        let Some(why) = ended.err().filter(|_| !end.is_over()) else { return };
        if !std::mem::replace(&mut is_lost, true) {
            sink(WatchEvent::Lost(why.to_string()));
        }
        end.wait(again);
        again = (2 * again).min(AGAIN_MOST);
    }
}
