//! Somebody who provokes deadlocks on a MariaDB server, all the time.

use std::process::{Child, Stdio};

use crate::database::mariadb_client;
use crate::kind::run;
use crate::{Kind, Trouble, nursery, sql};

const PROCEDURE: &str = include_str!("saboteur.sql");

/// How many of them: with more, hardly anybody else gets a lock.
const CLIENTS: usize = 4;

/// Ends when it is told to, or with the server.
pub(crate) struct Saboteur {
    url: String,
    clients: Vec<Child>,
}

impl Saboteur {
    /// On a database that has the tables of a store.
    pub(crate) fn at(url: String) -> Result<Self, Trouble> {
        let kind = Kind::MariaDb;
        run(kind, mariadb_client(&url, "//")?.arg(PROCEDURE))?;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = mariadb_client(&url, ";")?;
            client.arg("CALL saboteur()").stdin(Stdio::null());
            client.stdout(Stdio::null());
            let client = nursery::spawn(client).map_err(|error| Trouble::broken(kind, error))?;
            clients.push(client);
        }
        Ok(Self { url, clients })
    }

    /// How many deadlocks the server has seen, by its own count.
    pub(crate) fn stop(mut self) -> Result<u64, Trouble> {
        let kind = Kind::MariaDb;
        sql(kind, &self.url, "INSERT INTO saboteur_over VALUES (1)")?;
        for client in &mut self.clients {
            let ended = client.wait().map_err(|e| Trouble::broken(kind, e))?;
            if !ended.success() {
                return Err(Trouble::broken(kind, "a saboteur gave up"));
            }
        }
        let count = "SELECT variable_value FROM information_schema.global_status \
                     WHERE variable_name = 'INNODB_DEADLOCKS'";
        let count = sql(kind, &self.url, count)?;
        let seen = count.trim().parse();
        seen.map_err(|_| Trouble::broken(kind, "it does not count deadlocks"))
    }
}

impl Drop for Saboteur {
    fn drop(&mut self) {
        for client in &mut self.clients {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}
