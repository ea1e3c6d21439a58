//! Databases of a test's own on one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clinch_contract::samples::on_a_runtime;
use clinch_core::ports::{Clock, Ids};
use clinch_postgres::{MIGRATIONS, Postgres, Settings};
use clinch_system::{SystemClock, SystemIds};
use clinch_testbed::{Kind, shared};
use tokio_postgres::{Client, NoTls};

/// Every row of a test goes, in one commit; what a template has stays.
const EMPTY: &str = "DO $$ DECLARE t text; BEGIN \
    FOR t IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'clinch\\_%' \
        AND NOT relispartition AND relnamespace = 'public'::regnamespace \
        AND relname NOT IN ('clinch_migration', 'clinch_meta', 'clinch_test_clock') \
        ORDER BY relname = 'clinch_domain' \
    LOOP EXECUTE 'DELETE FROM ' || t; END LOOP; \
    DELETE FROM clinch_history; \
    FOR t IN SELECT inhrelid::regclass::text FROM pg_inherits \
        WHERE inhparent = 'clinch_history'::regclass \
    LOOP IF t <> 'clinch_history_default' THEN EXECUTE 'DROP TABLE ' || t; END IF; END LOOP; \
    UPDATE clinch_meta SET sealed = false, payload_max = DEFAULT; \
    PERFORM setval('clinch_seq', 1, false); \
    IF to_regclass('clinch_test_clock') IS NOT NULL THEN \
        EXECUTE 'UPDATE clinch_test_clock SET at = 1800000000000'; END IF; END $$";

/// A database of one's own, while it is used.
pub(crate) struct Database {
    server: String,
    template: String,
    name: String,
}

impl Database {
    /// A migrated one, whose clock is the server's.
    pub(crate) async fn new() -> Result<Arc<Self>, String> {
        let server = shared(Kind::Postgres).map_err(|trouble| trouble.to_string())?;
        Self::on(server, false).await
    }

    /// A migrated one, whose clock stands still until it is moved.
    pub(crate) async fn with_still_clock() -> Result<Arc<Self>, String> {
        let server = shared(Kind::Postgres).map_err(|trouble| trouble.to_string())?;
        Self::on(server, true).await
    }

    /// One that another test has given back, emptied, or else a copy of the template.
    pub(crate) async fn on(server: String, is_still: bool) -> Result<Arc<Self>, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let template = template(&server, is_still).await?;
        let admin = client(&server).await?;
        let take = "DELETE FROM clinch_test_spare WHERE name = (SELECT name FROM clinch_test_spare \
                    WHERE template = $1 LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING name";
        let spare = admin.query(take, &[&template]).await;
        let spare = spare.map_err(|error| format!("{error:?}"))?;
        if let Some(row) = spare.first() {
            let name = row.get(0);
            return Ok(Arc::new(Self {
                server,
                template,
                name,
            }));
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let random = SystemIds.attempt_id().0.simple().to_string();
        let name = format!("clinch_{}_{number}_{}", std::process::id(), &random[20..]);
        let text = format!("CREATE DATABASE {name} TEMPLATE {template}");
        let made = admin.batch_execute(&text).await;
        made.map_err(|error| format!("{text}: {error:?}"))?;
        Ok(Arc::new(Self {
            server,
            template,
            name,
        }))
    }

    /// Empties it and gives it to whoever needs one next: that takes a fraction of the time
    /// that a new one takes.
    async fn give_back(&self) -> Result<(), String> {
        let lost = |error: tokio_postgres::Error| error.to_string();
        let admin = client(&self.server).await?;
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1";
        admin.query(end, &[&self.name]).await.map_err(lost)?;
        let inside = client(&self.url()).await?;
        inside.batch_execute(EMPTY).await.map_err(lost)?;
        let spare = "INSERT INTO clinch_test_spare VALUES ($1, $2)";
        let given = admin.execute(spare, &[&self.name, &self.template]).await;
        given.map(|_| ()).map_err(lost)
    }

    pub(crate) fn url(&self) -> String {
        database_url(&self.server, &self.name)
    }

    pub(crate) async fn client(&self) -> Client {
        client(&self.url()).await.expect("a connection")
    }

    pub(crate) async fn store(&self) -> Postgres {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = Postgres::connect(&self.url(), Settings::default(), clock).await;
        store.expect("the store opens")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let own = Self {
            server: self.server.clone(),
            template: self.template.clone(),
            name: self.name.clone(),
        };
        // On a thread of its own: the runtime may be on its way out. One that cannot be
        // emptied is left to the end of the server.
        let own = std::mem::ManuallyDrop::new(own);
        let given = std::thread::spawn(move || on_a_runtime(own.give_back()).is_ok());
        let _ = given.join();
    }
}

pub(crate) fn database_url(server: &str, name: &str) -> String {
    let (host, _) = server.rsplit_once('/').expect("an address with a database");
    format!("{host}/{name}")
}

pub(crate) async fn client(url: &str) -> Result<Client, String> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.map_err(|error| format!("no connection: {error}"))?;
    tokio::spawn(connection);
    Ok(client)
}

/// Made by whoever needs it first; named after what is in it.
async fn template(server: &str, is_still: bool) -> Result<String, String> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    for step in MIGRATIONS {
        step.sql.hash(&mut hasher);
    }
    let clock = if is_still { "still" } else { "real" };
    let name = format!("clinch_template_{clock}_{:x}", hasher.finish());
    let failed = |error: tokio_postgres::Error| format!("{error:?}");
    let mut admin = client(server).await?;
    let lock = admin.transaction().await.map_err(failed)?;
    lock.execute("SELECT pg_advisory_xact_lock(7166)", &[])
        .await
        .map_err(failed)?;
    lock.batch_execute("CREATE TABLE IF NOT EXISTS clinch_test_spare (name text, template text)")
        .await
        .map_err(failed)?;
    let there = "SELECT 1 FROM pg_database WHERE datname = $1 AND datistemplate";
    if !lock
        .query(there, &[&name])
        .await
        .map_err(failed)?
        .is_empty()
    {
        lock.commit().await.map_err(failed)?;
        return Ok(name);
    }
    let maker = client(server).await?;
    for text in [
        format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        format!("CREATE DATABASE {name}"),
    ] {
        maker.batch_execute(&text).await.map_err(failed)?;
    }
    let url = database_url(server, &name);
    let migrated = clinch_postgres::migrate(&url).await;
    migrated.map_err(|error| error.to_string())?;
    if is_still {
        let inside = client(&url).await?;
        let still = "CREATE TABLE clinch_test_clock (at bigint NOT NULL); \
             INSERT INTO clinch_test_clock VALUES (1800000000000); \
             CREATE OR REPLACE FUNCTION clinch_now() RETURNS bigint LANGUAGE sql VOLATILE \
             AS 'SELECT at FROM clinch_test_clock'; \
             CREATE OR REPLACE FUNCTION clinch_now_us() RETURNS bigint LANGUAGE sql VOLATILE \
             AS 'SELECT at * 1000 FROM clinch_test_clock'";
        inside.batch_execute(still).await.map_err(failed)?;
    }
    let ready = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'; \
         ALTER DATABASE {name} WITH IS_TEMPLATE true ALLOW_CONNECTIONS false"
    );
    for text in ready.split("; ") {
        maker.batch_execute(text).await.map_err(failed)?;
    }
    lock.commit().await.map_err(failed)?;
    Ok(name)
}

/// Moves a clock that stands still.
pub(crate) async fn advance(client: &Client, by: Duration) {
    let by = i64::try_from(by.as_millis()).expect("a moment");
    let text = "UPDATE clinch_test_clock SET at = at + $1";
    client.execute(text, &[&by]).await.expect("the clock moves");
}
