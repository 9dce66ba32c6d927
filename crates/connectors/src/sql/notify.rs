//! Waits for notifications of a PostgreSQL server.

use std::time::Duration;

use metadir::agent::{AgentError, Listener};
use metadir::postgresql::{Error, Failure, Grace, Server};

/// How often a silent connection is tested.
const TEST_EVERY: Duration = Duration::from_secs(30);
/// How long a wait for a notification lasts, before it is checked whether to end.
const SLICE: Duration = Duration::from_millis(500);

/// The channel of a server on which it reports changes.
pub(super) struct Channel {
    pub(super) server: Server,
    pub(super) name: String,
}

impl Listener for Channel {
    fn listen(
        &mut self,
        is_over: &dyn Fn() -> bool,
        begun: &mut dyn FnMut(),
        changed: &mut dyn FnMut(),
    ) -> Result<(), AgentError> {
        let what = || format!("listening to the channel {} of PostgreSQL", self.name);
        let failed = |error: Error| AgentError::system(what(), Failure::from(error));
        // As the agent of the table: a password file of this server precedes the environment.
        let of_environment =
            if self.server.passfile.is_some() { None } else { std::env::var("PGPASSWORD").ok() };
        let connected = self.server.connect(of_environment, Grace::Session);
        let mut client = connected.map_err(|failure| AgentError::system(what(), failure))?;
        client.batch_execute(&format!("LISTEN \"{}\"", self.name.replace('"', "\"\""))).map_err(failed)?;
        begun();
        let mut silent = Duration::ZERO;
        while !is_over() {
            if client.notified_within(SLICE).map_err(failed)? {
                silent = Duration::ZERO;
                changed();
            } else {
                silent += SLICE;
            }
            if silent >= TEST_EVERY {
                client.batch_execute("").map_err(failed)?;
                silent = Duration::ZERO;
            }
        }
        Ok(())
    }
}
