//! What pages read of the server, besides what the API's handlers answer.

use clinch::Result;
use clinch_core::ports::{DomainView, Operation};
use clinch_core::{Keys, Timestamp};

use crate::api::{App, Caller, HoldDocument, Problem, hold_of};

impl App {
    /// The store's clock.
    pub(super) async fn now(&self) -> Result<Timestamp> {
        self.inspect.now().await
    }

    pub(super) fn is_https(&self) -> bool {
        !self.config.server.tls_cert.is_empty()
    }

    /// Names of the domains that the caller may see.
    pub(super) async fn domain_names(&self, caller: &Caller) -> Result<Vec<String>, Problem> {
        let views = self.visible_domains(caller).await?;
        Ok(views.iter().map(|view| view.domain.to_string()).collect())
    }

    /// Domains that the caller may see, sorted by name.
    pub(super) async fn visible_domains(
        &self,
        caller: &Caller,
    ) -> Result<Vec<DomainView>, Problem> {
        let mut views = self.domain_views().await?;
        views.retain(|view| caller.restriction().allows_domain(view.domain.as_str()));
        Ok(views)
    }

    /// Why an operation is not running now.
    pub(super) async fn hold_of(&self, row: &Operation) -> Option<HoldDocument> {
        hold_of(self, row).await
    }

    /// The destination of the operation's route, if this server knows it.
    pub(super) fn destination_name(&self, keys: &Keys) -> Option<&str> {
        let route = self.routes.find(&keys.domain, &keys.event_type)?;
        route.destination.as_deref()
    }

    /// Payload and result in clear text; the ledger notes who looked and why.
    pub(super) async fn reveal(
        &self,
        caller: &Caller,
        id: &str,
        reason: &str,
    ) -> Result<(String, Option<String>), Problem> {
        let id = self.op_id(caller, id).await?;
        let snapshot = self.visible(caller, id).await?;
        let by = caller.actor();
        let revealed = self.orchestrator().reveal(&snapshot.operation, &by, reason);
        let payload = revealed.await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let result = snapshot.result.as_ref();
        Ok((
            text(payload.as_bytes()),
            result.map(|result| text(result.as_bytes())),
        ))
    }
}
