//! Reads lists page by page.

use crate::client::{Page, Request, query, segment};
use crate::context::Context;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::Format;
use crate::output::listing::Listing;
use crate::output::table::Column;

/// Operations per request: results can be large, and a page is held in memory.
pub(crate) const PAGE: usize = 100;

/// How much of a list to read.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Paging {
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = count, conflicts_with = "all")]
    limit: usize,
    /// All entries, page by page
    #[arg(long)]
    all: bool,
    /// Continue where an earlier page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl Paging {
    /// How many entries to print.
    pub(crate) fn at_most(&self) -> usize {
        if self.all { usize::MAX } else { self.limit }
    }
}

/// Parses a number of operations.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number from 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// A list endpoint.
#[derive(Debug, Clone)]
pub(crate) struct List {
    /// Its path.
    pub(crate) path: &'static str,
    /// The name of the list in its documents.
    pub(crate) member: &'static str,
    /// Its filters.
    pub(crate) pairs: Vec<(&'static str, String)>,
}

impl List {
    /// Reads the page at a cursor.
    pub(crate) async fn page(
        &self,
        limit: usize,
        cursor: Option<&str>,
        context: &mut Context,
    ) -> Result<Page, CliError> {
        let mut pairs = self.pairs.clone();
        pairs.push(("limit", limit.to_string()));
        pairs.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        let path = format!("{}{}", self.path, query(&pairs));
        let answer = context.client.send(Request::get(path)).await?;
        let page = Page::read(&answer.document, self.member)
            .ok_or_else(|| context.client.not_clinch("the answer is not a list"))?;
        // Otherwise `--all` would never end.
        if page.next_cursor.is_some() && page.next_cursor.as_deref() == cursor {
            return Err(context.client.not_clinch("the list starts over"));
        }
        if cursor.is_none() && page.items.is_empty() {
            self.require_names(context).await?;
        }
        Ok(page)
    }

    /// Called if nothing was found: checks that the named things exist.
    async fn require_names(&self, context: &mut Context) -> Result<(), CliError> {
        for (name, value) in &self.pairs {
            match *name {
                "domain" => context.require_domain(value).await?,
                "batch_id" => {
                    let path = format!("/v1/batches/{}", segment(value));
                    context.client.send(Request::get(path)).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Prints as many entries as requested.
    pub(crate) async fn print(
        &self,
        paging: Paging,
        columns: &'static [Column],
        context: &mut Context,
    ) -> Result<Exit, CliError> {
        let mut listing = Listing::new(self.member, columns);
        let mut cursor = paging.cursor;
        loop {
            let left = if paging.all {
                PAGE
            } else {
                paging.limit.saturating_sub(listing.len())
            };
            let page = self
                .page(left.min(PAGE), cursor.as_deref(), context)
                .await?;
            listing.push(&page.items, &mut context.out)?;
            cursor = page.next_cursor;
            if cursor.is_none() || (!paging.all && listing.len() >= paging.limit) {
                break;
            }
        }
        let printed = listing.len();
        listing.end(cursor.as_deref(), &mut context.out)?;
        if context.out.format == Format::Table {
            match cursor {
                Some(cursor) => note(&format!("there are more: use --all, or --cursor {cursor}")),
                None if printed == 0 => note("none found"),
                None => {}
            }
        }
        Ok(Exit::Ok)
    }
}

/// Prints a list without pages.
pub(crate) async fn whole(
    path: &str,
    member: &'static str,
    columns: &'static [Column],
    context: &mut Context,
) -> Result<Exit, CliError> {
    let answer = context.client.send(Request::get(path)).await?;
    if context.out.format == Format::Json {
        context.out.document(&answer.document, &[])?;
        return Ok(Exit::Ok);
    }
    let page = Page::read(&answer.document, member)
        .ok_or_else(|| context.client.not_clinch("the answer is not a list"))?;
    let mut listing = Listing::new(member, columns);
    listing.push(&page.items, &mut context.out)?;
    if page.items.is_empty() && context.out.format == Format::Table {
        note("none found");
    }
    listing.end(None, &mut context.out)?;
    Ok(Exit::Ok)
}
