//! Records and documents on MariaDB pass the areas `records::` and `documents::`.

use std::sync::Arc;

use clinch_contract::{ApplicationSubject, application_trials};
use clinch_mysql::{Mysql, Settings};
use libtest_mimic::Trial;

use crate::common::{Database, url};

async fn open() -> Result<ApplicationSubject<Mysql>, String> {
    let database = Database::on(&url()).await;
    let settings = Settings {
        pool_size: 20,
        ..Settings::default()
    };
    let store = Arc::new(database.open_with(settings).await);
    let failing = store.clone();
    Ok(ApplicationSubject {
        store,
        fail_next: Arc::new(move |fault| failing.fail_next(fault)),
        held: Arc::new(database),
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    application_trials("mysql", open)
}
