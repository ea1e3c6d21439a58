//! Documents of an application on MongoDB: the port
//! [`DocumentSink`](clinch_core::ports::DocumentSink) and nothing else.
//!
//! A collection of the port is a collection of the database, a document's id is its `_id`, and
//! its body is BSON, so that people can look for what is in it. What BSON cannot hold to the
//! value stays text beside it (`body`).
//!
//! Calls are not transactions, since a server without replicas has none: a call that fails half
//! way is `Ambiguous`, and the same call again ends it.
#![forbid(unsafe_code)]

mod body;
mod error;
mod names;
mod sink;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clinch_core::{Error, ErrorKind, Result};
use mongodb::bson::doc;
use mongodb::options::{
    Acknowledgment, ClientOptions, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongodb::{Client, Database};

/// How long a call waits for a server that can take it, unless the address says otherwise.
const SERVER_WITHIN: Duration = Duration::from_secs(10);

/// Documents in one database. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct MongoDb {
    database: Database,
    /// Collections whose index is known to be there.
    indexed: Arc<Mutex<BTreeSet<String>>>,
}

impl MongoDb {
    /// Connects to the database that `url` names: `mongodb://user:password@host:port/database`.
    /// Writes wait for most of the replicas and their journals; reads ask the primary.
    ///
    /// - `Invalid`: the address makes no sense or names no database.
    /// - `Unavailable`: no server answers, or it refuses the user.
    pub async fn connect(url: &str) -> Result<Self> {
        // The driver's message may quote the address, and with it the password.
        let invalid = |message| Error::new(ErrorKind::Invalid, message);
        let bad = "the address of MongoDB makes no sense; write mongodb://host:port/database";
        let mut options = ClientOptions::parse(url).await.map_err(|_| invalid(bad))?;
        options.write_concern = Some(durable());
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        options.selection_criteria = Some(primary);
        let within = options.server_selection_timeout.unwrap_or(SERVER_WITHIN);
        options.server_selection_timeout = Some(within);
        let client = Client::with_options(options).map_err(|_| invalid(bad))?;
        let nameless = "the address of MongoDB names no database; add it behind the port";
        let database = client.default_database().ok_or_else(|| invalid(nameless))?;
        let answered = database.run_command(doc! { "ping": 1 }).await;
        answered.map_err(|failed| error::read(&failed))?;
        Ok(Self {
            database,
            indexed: Arc::default(),
        })
    }

    /// Removes the database with everything in it. For tests.
    pub async fn drop_database(&self) -> Result<()> {
        let dropped = self.database.drop().await;
        dropped.map_err(|failed| error::written(&failed))
    }

    fn is_indexed(&self, name: &str) -> bool {
        let indexed = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
        indexed.contains(name)
    }

    fn note_indexed(&self, name: &str) {
        /// More than an application has; past it an index is only made sure of once more.
        const REMEMBERED_MAX: usize = 1_000;
        let mut indexed = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
        if indexed.len() < REMEMBERED_MAX {
            indexed.insert(name.to_owned());
        }
    }
}

/// Most replicas have it in their journals.
fn durable() -> WriteConcern {
    WriteConcern::builder()
        .w(Acknowledgment::Majority)
        .journal(true)
        .build()
}

impl fmt::Debug for MongoDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoDb")
            .field("database", &self.database.name())
            .finish()
    }
}
