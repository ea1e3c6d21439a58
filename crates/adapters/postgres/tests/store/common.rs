//! What the tests of the store share.

use std::time::Duration;

use clinch_contract::samples::{self, payload};
use clinch_core::Keys;
use clinch_core::ports::{Ids, NewOperation};
use clinch_system::SystemIds;
use clinch_testbed::{Kind, shared};
use tokio_postgres::Client;

pub(crate) use crate::database::{Database, advance};
pub(crate) use clinch_contract::samples::{keys, on_a_runtime, routes, worker};

/// Longer than any test: who is not woken hangs.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

/// A database without tables.
pub(crate) struct Bare(String);

impl Bare {
    /// It is left to the end of the server.
    pub(crate) async fn new() -> Result<Self, String> {
        let server = shared(Kind::Postgres).map_err(|trouble| trouble.to_string())?;
        let admin = crate::database::client(&server).await?;
        let random = SystemIds.attempt_id().0.simple().to_string();
        let name = format!("clinch_bare_{}", &random[16..]);
        let made = admin
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await;
        made.map_err(|error| format!("{error:?}"))?;
        Ok(Self(crate::database::database_url(&server, &name)))
    }

    pub(crate) fn url(&self) -> String {
        self.0.clone()
    }

    pub(crate) async fn client(&self) -> Client {
        let connected = crate::database::client(&self.0).await;
        connected.expect("a connection")
    }
}

pub(crate) fn operation(domain: &str, number: usize) -> NewOperation {
    samples::operation(SystemIds.op_id(), domain, number)
}

pub(crate) fn operation_of(keys: Keys, text: &str) -> NewOperation {
    samples::operation_of(SystemIds.op_id(), keys, &payload(text))
}
