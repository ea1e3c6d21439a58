//! The context of every client command.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::args::Global;
use crate::client::{Client, Page, Request};
use crate::error::CliError;
use crate::output::Output;
use crate::{settings, store_check};

/// The server to call and the output to write to.
#[derive(Debug)]
pub(crate) struct Context {
    /// The client of the server.
    pub(crate) client: Client,
    /// The output.
    pub(crate) out: Output,
}

impl Context {
    /// Reads the global flags, the environment and the configuration file, in that order. Refuses a
    /// server whose store is not the one that the configuration names.
    pub(crate) async fn open(global: Global) -> Result<Self, CliError> {
        let out = Output::stdout(global.output, !global.no_color);
        let base = settings::base(&global)?;
        store_check::check(&global, &base).await?;
        let client = Client::new(base, global.key()?).trusting(global.trust());
        Ok(Self { client, out })
    }

    /// Refuses a domain that the server does not know: an empty list or a change without effect
    /// would look like success.
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
