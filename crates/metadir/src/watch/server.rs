//! Servers that report changes themselves, over a connection that is made again when it is lost.

use std::time::Duration;

use super::{End, WatchEvent, WatchSink};
use crate::agent::{AgentError, watch_directory};
use crate::config::{AgentConfig, Sql, SqlDatabase, System};
use crate::postgresql::Grace;
use crate::store::{Server, StoreError};

/// The time before the first attempt to connect again, and the longest.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MOST: Duration = Duration::from_secs(60);
/// How often a silent connection is tested.
const TEST_EVERY: Duration = Duration::from_secs(30);
/// How long a wait for a notification lasts, before it is checked whether to end.
const SLICE: Duration = Duration::from_millis(500);

pub(super) fn watch(agent: &AgentConfig, end: &End, sink: &WatchSink) {
    let mut again = AGAIN_FIRST;
    let mut is_lost = false;
    let mut cookie = None;
    while !end.is_over() {
        let mut begun = || {
            again = AGAIN_FIRST;
            if std::mem::take(&mut is_lost) {
                sink(WatchEvent::Restored);
            }
        };
        let mut changed = || sink(WatchEvent::Changed);
        let ended = match &agent.system {
            System::Ldap(settings) => {
                let is_over = || end.is_over();
                watch_directory(settings, &mut cookie, &is_over, &mut begun, &mut changed)
                    .map_err(|error: AgentError| error.to_string())
            }
            System::Sql(Sql { database: SqlDatabase::Postgres(server), notify: Some(channel), .. }) => {
                listen(server, channel, end, &mut begun, &mut changed).map_err(|error| error.to_string())
            }
            // The configuration allows no other system to be watched.
            _ => return,
        };
        // Without an error the watcher is over.
        let Some(why) = ended.err().filter(|_| !end.is_over()) else { return };
        if !std::mem::replace(&mut is_lost, true) {
            sink(WatchEvent::Lost(why));
        }
        end.wait(again);
        again = (2 * again).min(AGAIN_MOST);
    }
}

/// Listens to a channel until the connection is lost or the watcher is over.
fn listen(
    server: &Server,
    channel: &str,
    end: &End,
    begun: &mut dyn FnMut(),
    changed: &mut dyn FnMut(),
) -> Result<(), StoreError> {
    // As the agent of the table: a password file of this server precedes the environment.
    let of_environment = if server.passfile.is_some() { None } else { std::env::var("PGPASSWORD").ok() };
    let mut client = server.connect(of_environment, Grace::Session)?;
    client.batch_execute(&format!("LISTEN \"{}\"", channel.replace('"', "\"\"")))?;
    begun();
    let mut silent = Duration::ZERO;
    while !end.is_over() {
        if client.notified_within(SLICE)? {
            silent = Duration::ZERO;
            changed();
        } else {
            silent += SLICE;
        }
        if silent >= TEST_EVERY {
            client.batch_execute("")?;
            silent = Duration::ZERO;
        }
    }
    Ok(())
}
