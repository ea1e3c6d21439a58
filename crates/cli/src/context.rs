//! What every client command works with.

use crate::args::Global;
use crate::client::Client;
use crate::error::CliError;
use crate::output::Output;
use crate::{settings, store_check};

/// The server to ask and the place to answer.
#[derive(Debug)]
pub(crate) struct Context {
    /// Asks the server.
    pub(crate) client: Client,
    /// Writes the answer.
    pub(crate) out: Output,
}

impl Context {
    /// From the global flags, the environment and the configuration file, in that order. A
    /// server of another store than the configuration names is refused.
    pub(crate) async fn open(global: Global) -> Result<Self, CliError> {
        let out = Output::stdout(global.output, !global.no_color);
        let base = settings::base(&global)?;
        store_check::check(&global, &base).await?;
        let client = Client::new(base, global.key()?).trusting(global.trust());
        Ok(Self { client, out })
    }
}
