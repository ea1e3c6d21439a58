//! Records and documents on PostgreSQL pass the areas `records::` and `documents::`.

use std::sync::Arc;

use clinch_contract::{ApplicationSubject, application_trials};
use clinch_postgres::Postgres;
use libtest_mimic::Trial;

use crate::database::Database;

async fn open() -> Result<ApplicationSubject<Postgres>, String> {
    let database = Database::new().await?;
    let store = Arc::new(database.store().await);
    let failing = store.clone();
    Ok(ApplicationSubject {
        store,
        fail_next: Arc::new(move |fault| failing.fail_next(fault)),
        held: database,
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    application_trials("postgres", open)
}
