//! What a run would cost.

use serde::Serialize;
use utoipa::ToSchema;

use super::documents::TokenDocument;
use crate::{Cost, JobKind, StreamCost};

/// Requests that a run would make. Nothing has begun.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CostDocument {
    /// The user's login at GitHub.
    login: String,
    /// Repositories that the run reads, or that its search may find.
    repositories: u64,
    /// Requests that were made to learn this.
    looked: u64,
    /// Why the API could not be asked, so that more is unknown.
    problem: Option<String>,
    /// Requests if nothing has changed since the last run. A list that has not changed costs a
    /// request and no budget.
    at_least: u64,
    /// Requests if everything has changed since the last run; null: unknown.
    at_most: Option<u64>,
    /// The part of `at_most` that is known.
    at_most_known: u64,
    /// The same by stream.
    streams: Vec<StreamCostDocument>,
    /// Tokens by hash, with their budgets.
    tokens: Vec<TokenDocument>,
}

/// Requests of one stream.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StreamCostDocument {
    /// Kind of its documents, or repo_search.
    kind: String,
    /// Requests of this stream if nothing has changed since the last run.
    at_least: u64,
    /// Requests if everything has changed; null: unknown.
    at_most: Option<u64>,
    /// The part of `at_most` that is known: of the lists whose length is known.
    at_most_known: u64,
    /// Lists that tell what the stream costs: its own, or those of its items; null: it is not known
    /// which repositories there are.
    lists: Option<u64>,
    /// Those of these lists whose length is known.
    lists_known: u64,
}

impl From<StreamCost> for StreamCostDocument {
    fn from(cost: StreamCost) -> Self {
        let name = match cost.kind.is_selectable() {
            true => JobKind::document(cost.kind),
            false => cost.kind.as_str(),
        };
        Self {
            kind: name.to_owned(),
            at_least: cost.at_least,
            at_most: cost.at_most,
            at_most_known: cost.at_most_known,
            lists: cost.lists,
            lists_known: cost.lists_known,
        }
    }
}

impl From<Cost> for CostDocument {
    fn from(cost: Cost) -> Self {
        Self {
            login: cost.login,
            repositories: cost.repositories,
            looked: cost.looked,
            problem: cost.problem,
            at_least: cost.at_least,
            at_most: cost.at_most,
            at_most_known: cost.at_most_known,
            streams: cost.streams.into_iter().map(Into::into).collect(),
            tokens: cost.tokens.into_iter().map(Into::into).collect(),
        }
    }
}
