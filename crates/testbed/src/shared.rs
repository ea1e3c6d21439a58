//! One server a test run. Tests that share it keep to a database, or to names, of their own.

use std::sync::{Mutex, PoisonError};

use crate::{Kind, Server, Trouble};

/// The address of the shared server. Without one in the environment this process starts its
/// own, which ends with it.
pub fn shared(kind: Kind) -> Result<String, Trouble> {
    static OWN: Mutex<Vec<Server>> = Mutex::new(Vec::new());
    if let Ok(url) = std::env::var(kind.variable()) {
        return Ok(url);
    }
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = own.iter().find(|server| server.kind() == kind) {
        return Ok(server.url());
    }
    let server = Server::start(kind)?;
    let url = server.url();
    own.push(server);
    Ok(url)
}
