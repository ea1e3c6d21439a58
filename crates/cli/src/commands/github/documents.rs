//! Reads the documents page by page.

use std::borrow::Cow;

use clinch_github::schema::{Cell, Envelope};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::collector_client::CollectorClient;
use crate::commands::pages::List;
use crate::error::CliError;
use crate::output::json::{compact, quoted};

/// Documents per request: they can be large.
const PAGE: usize = 200;

/// Documents in order of their ids.
pub(crate) struct Documents {
    list: List,
    cursor: Option<String>,
    is_over: bool,
}

impl Documents {
    /// Of all users and all kinds, unless one is named.
    pub(crate) fn new(login: Option<&str>, kind: Option<&str>, shadow: bool) -> Self {
        let mut pairs = Vec::from_iter(shadow.then(|| ("shadow", "true".to_owned())));
        pairs.extend(login.map(|login| ("login", login.to_owned())));
        pairs.extend(kind.map(|kind| ("kind", kind.to_owned())));
        Self {
            list: List {
                path: "/v1/github/documents",
                member: "documents",
                pairs,
            },
            cursor: None,
            is_over: false,
        }
    }

    /// Those that are gone at GitHub instead.
    pub(crate) fn removed(mut self) -> Self {
        self.list.pairs.push(("removed", "true".to_owned()));
        self
    }

    /// The next page as the server sent it; `None` after the last one.
    pub(crate) async fn page(
        &mut self,
        client: &mut CollectorClient,
    ) -> Result<Option<Vec<Box<RawValue>>>, CliError> {
        if self.is_over {
            return Ok(None);
        }
        let cursor = self.cursor.as_deref();
        let page = self.list.page(PAGE, cursor, &mut client.context).await?;
        self.cursor = page.next_cursor;
        self.is_over = self.cursor.is_none();
        Ok(Some(page.items))
    }

    /// The same, with the members of each document.
    pub(crate) async fn lines(
        &mut self,
        client: &mut CollectorClient,
    ) -> Result<Option<Vec<Line>>, CliError> {
        let Some(items) = self.page(client).await? else {
            return Ok(None);
        };
        let wrong = |_| client.context.client.not_clinch("a document has no id");
        let lines = items.iter().map(|item| serde_json::from_str(item.get()));
        let lines: Result<Vec<Line>, _> = lines.collect();
        lines.map(Some).map_err(wrong)
    }
}

/// One document.
#[derive(Deserialize)]
pub(crate) struct Line {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) user: String,
    pub(crate) resource: String,
    pub(crate) document: Box<RawValue>,
}

impl Line {
    pub(crate) fn envelope(&self) -> Envelope<'_> {
        Envelope {
            id: &self.id,
            user: &self.user,
            resource: &self.resource,
            document: self.document.get(),
        }
    }
}

/// The plain text of a value; `None`: null. JSON is in one line.
pub(crate) fn cell_text(cell: &Cell) -> Option<Cow<'_, str>> {
    Some(match cell {
        Cell::Null => return None,
        Cell::Integer(number) => Cow::Owned(number.to_string()),
        Cell::Number(number) => Cow::Owned(serde_json::Value::from(*number).to_string()),
        Cell::Boolean(value) => Cow::Owned(value.to_string()),
        Cell::Text(text) => Cow::Borrowed(text),
        Cell::Time(at) => Cow::Owned(at.to_string()),
        Cell::Json(json) => Cow::Owned(compact(json)),
    })
}

/// A value as JSON in one line.
pub(crate) fn cell_json(cell: &Cell) -> String {
    match cell_text(cell) {
        None => "null".to_owned(),
        Some(text) => match cell {
            Cell::Text(_) | Cell::Time(_) => quoted(&text),
            _ => text.into_owned(),
        },
    }
}
