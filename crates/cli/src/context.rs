//! What every client command works with.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::args::Global;
use crate::client::{Client, Page, Request};
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

    /// Refuses a domain that the server does not know: whatever is listed or done for it would
    /// look like success.
    pub(crate) async fn require_domain(&mut self, name: &str) -> Result<(), CliError> {
        #[derive(Deserialize)]
        struct Named {
            domain: String,
        }
        let answer = self.client.send(Request::get("/v1/domains")).await?;
        let page = Page::read(&answer.document, "domains")
            .ok_or_else(|| self.client.not_clinch("the answer is not a list"))?;
        let named = |item: &RawValue| serde_json::from_str::<Named>(item.get()).ok();
        let mut names = page.items.iter().filter_map(|item| named(item));
        match names.any(|one| one.domain == name) {
            true => Ok(()),
            false => Err(CliError::NotThere(format!("there is no domain {name:?}"))),
        }
    }
}
