//! The list of applications: in PostgreSQL, and in a cache in memory.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

/// An application, and the groups that may start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

/// The applications as they were when the cache was filled; shared by all workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache(Arc<RwLock<Arc<Vec<Application>>>>);

impl Cache {
    pub(crate) fn read(&self) -> Arc<Vec<Application>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, applications: Vec<Application>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(applications);
    }
}

/// The connection of one worker to the database.
pub(crate) struct Database {
    settings: String,
    runtime: Runtime,
    client: Option<Client>,
}

impl Database {
    /// `settings` are words of libpq: `host=127.0.0.1 port=5432 user=broker dbname=postgres`. It connects when it is used.
    pub(crate) fn new(settings: &str) -> io::Result<Database> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Database { settings: settings.into(), runtime, client: None })
    }

    /// The names of the applications of these groups, in one query.
    pub(crate) fn applications_of(&mut self, groups: &BTreeSet<String>) -> Result<Vec<String>, String> {
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        self.with_client(async |client| {
            let rows = client
                .query("SELECT name FROM applications WHERE groups && $1 ORDER BY name", &[&groups])
                .await?;
            rows.iter().map(|row| row.try_get(0)).collect()
        })
    }

    /// The whole list: one query for the numbers of the applications, and one for each batch of them.
    pub(crate) fn all(&mut self, batch: usize) -> Result<Vec<Application>, String> {
        self.with_client(async |client| {
            let numbers = client.query("SELECT id FROM applications ORDER BY id", &[]).await?;
            let numbers: Vec<i32> = numbers.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
            let statement = client
                .prepare("SELECT name, groups FROM applications WHERE id = ANY($1) ORDER BY id")
                .await?;
            let mut all = Vec::with_capacity(numbers.len());
            for part in numbers.chunks(batch.max(1)) {
                for row in client.query(&statement, &[&part]).await? {
                    all.push(Application { name: row.try_get(0)?, groups: row.try_get(1)? });
                }
            }
            Ok(all)
        })
    }

    fn with_client<T>(
        &mut self,
        ask: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, String> {
        let answer = self.runtime.block_on(async {
            let client = match self.client.take().filter(|client| !client.is_closed()) {
                Some(client) => client,
                None => {
                    let (client, connection) = tokio_postgres::connect(&self.settings, NoTls).await?;
                    // Driven while this worker waits for an answer.
                    tokio::spawn(async {
                        let _ = connection.await;
                    });
                    client
                }
            };
            let answer = ask(&client).await;
            Ok::<_, tokio_postgres::Error>((client, answer?))
        });
        let (client, answer) = answer.map_err(|error| format!("the database: {error}"))?;
        self.client = Some(client);
        Ok(answer)
    }
}
