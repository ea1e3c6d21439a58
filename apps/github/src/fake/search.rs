//! Searches for repositories.

use serde_json::{Value, json};

use super::answer::{Ask, refusal};
use super::page::{List, Row};
use super::query::Query;
use super::world::{DocumentRef, Repository};
use crate::ApiAnswer;

/// Results that can be asked for, as at GitHub.
const RESULTS_SHOWN: usize = 1_000;

/// What a search asks for. Several owners are joined by "or", everything else by "and".
#[derive(Default)]
struct Search<'a> {
    owners: Vec<&'a str>,
    /// Parts of a name.
    words: Vec<&'a str>,
    is_private: bool,
}

impl<'a> Search<'a> {
    /// `None`: a qualifier that this fake does not know.
    fn parse(text: &'a str) -> Option<Self> {
        let mut search = Self::default();
        for word in text.split_whitespace() {
            match word.split_once(':') {
                None => search.words.push(word),
                Some(("user" | "org", owner)) => search.owners.push(owner),
                Some(("is", "public")) => {}
                Some(("is", "private")) => search.is_private = true,
                Some(_) => return None,
            }
        }
        Some(search)
    }

    fn finds(&self, owner: &str, repository: &Repository) -> bool {
        let name = repository.name.to_lowercase();
        let is_owner = |one: &&str| one.eq_ignore_ascii_case(owner);
        !self.is_private
            && (self.owners.is_empty() || self.owners.iter().any(is_owner))
            && self
                .words
                .iter()
                .all(|word| name.contains(&word.to_lowercase()))
    }
}

impl Ask<'_> {
    /// The words of `q` are parts of a repository's name; `user:` and `org:` name its owner.
    pub(super) fn search(&self, query: &Query) -> ApiAnswer {
        let q = query.get("q").unwrap_or_default();
        let Some(search) = Search::parse(q).filter(|_| !q.is_empty()) else {
            return refusal(422, "Validation Failed");
        };
        let owner = |one: &Repository| self.world.users[one.owner].login.as_str();
        let found = self.world.existing();
        let found = found.filter(|(_, one)| search.finds(owner(one), one));
        let rows: Vec<Row> = found
            .map(|(at, one)| Row {
                key: (0, one.id),
                place: DocumentRef::Repository(at),
            })
            .collect();
        let total = rows.len() + self.unlisted;
        let list = List {
            end: Some(RESULTS_SHOWN),
            ..List::new("/search/repositories".to_owned(), rows, false)
        };
        self.list_in(&list, query, self.paging, |items| {
            let scored = |mut item: Value| {
                item["score"] = json!(1.0);
                item
            };
            let items: Vec<Value> = items.into_iter().map(scored).collect();
            json!({ "total_count": total, "incomplete_results": false, "items": items })
        })
    }
}
