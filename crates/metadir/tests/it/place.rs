//! The store of a test: in a file, or in a schema of a PostgreSQL server.

use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_metadir::postgresql::Server;
use plimsoll_metadir::store::{Durability, Postgres, Sqlite, Store, StoreError};
use testkit::Scratch;

/// A folder for the files of a test, and the location of its store.
pub(crate) struct Place {
    pub(crate) scratch: Scratch,
    server: Option<Server>,
}

impl Place {
    pub(crate) fn sqlite() -> Place {
        Place { scratch: Scratch::new(), server: None }
    }

    /// `None` without PostgreSQL; the test is then recorded as skipped.
    pub(crate) fn postgres() -> Option<Place> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let connection = testkit::Postgres::of_process()?.connection();
        let schema = format!("test_{}_", NEXT.fetch_add(1, Ordering::Relaxed));
        let server = Server { connection, schema, ..Server::default() };
        Some(Place { scratch: Scratch::new(), server: Some(server) })
    }

    /// Another place with the same kind of database.
    pub(crate) fn another(&self) -> Place {
        if self.is_server() { Place::postgres().unwrap() } else { Place::sqlite() }
    }

    pub(crate) fn is_server(&self) -> bool {
        self.try_server().is_some()
    }

    /// The server of the store.
    pub(crate) fn server(&self) -> &Server {
        self.try_server().unwrap()
    }

    /// The server of the store, if it has one.
    pub(crate) fn try_server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    pub(crate) fn try_open(&self) -> Result<Box<dyn Store>, StoreError> {
        Ok(match &self.server {
            Some(server) => Box::new(Postgres::open(server, Durability::Off)?),
            None => Box::new(Sqlite::open(&self.scratch.join("store.db"), Durability::Off, 1 << 20)?),
        })
    }

    pub(crate) fn open(&self) -> Box<dyn Store> {
        self.try_open().unwrap()
    }

    /// The store settings of a configuration.
    pub(crate) fn keys(&self) -> String {
        self.keys_of("")
    }

    /// The settings of one of several stores.
    pub(crate) fn keys_of(&self, which: &str) -> String {
        match &self.server {
            Some(server) => {
                format!("postgres = \"{}\"\nschema = \"{}{which}\"", server.connection, server.schema)
            }
            None => format!("sqlite = \"{}\"", self.scratch.join(format!("store{which}.db")).display()),
        }
    }
}

/// Defines a test for each database from functions that take a place.
macro_rules! over_both_stores {
    ($($test:ident,)+) => {
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(crate::place::Place::sqlite());
            })+
        }
        mod postgres {
            $(#[test]
            fn $test() {
                if let Some(place) = crate::place::Place::postgres() {
                    super::$test(place);
                }
            })+
        }
    };
}
pub(crate) use over_both_stores;
