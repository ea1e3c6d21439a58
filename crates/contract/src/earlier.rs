//! Dead letters of an earlier release: a store that is opened by this one completes them.
//!
//! The steps of an adapter's test:
//!
//! 1. [`make_letters`] makes open letters and a redriven one through the ports.
//! 2. The test takes away what this release added to their rows, by the database's own SQL.
//! 3. It opens the store again, and [`read_letters`] must return what it returned before.

use clinch_core::Domain;
use clinch_core::ports::{LetterFilter, LetterOrder, LetterView, NewOperation};

use crate::StorePorts;
use crate::calls::Calls;
use crate::case::{Failure, Verdict};
use crate::fixtures::{self, NATURAL, Sequence};

/// Letters that a test makes.
const LETTERS: usize = 4;

/// Makes dead letters; one of them is redriven.
pub async fn make_letters(ports: &StorePorts) -> Result<(), Failure> {
    let (ids, routes) = (Sequence::default(), fixtures::routes()?);
    let mut new = Vec::new();
    for number in 0..=LETTERS {
        let keys = fixtures::keys(NATURAL, "earlier", &format!("earlier-{number}"))?;
        let payload = fixtures::payload(number as u64)?;
        new.push(fixtures::operation(ids.op_id(), keys, &payload));
    }
    let again = new.split_off(LETTERS).remove(0);
    let store = &ports.store;
    store.accept(&new, &routes).await?;
    let begins = new.iter().map(|one| ids.begin(one.op_id, 0));
    let begins = begins.collect::<Verdict<Vec<_>>>()?;
    let mut failed = Vec::new();
    for begun in store.begin(&begins, &routes).await? {
        let begun = begun?;
        failed.push(fixtures::fail_answer(begun.op_id, begun.state.fence)?);
    }
    for changed in store.settle(&failed, &routes).await? {
        changed?;
    }
    let read = ports.inspect.get(&[new[0].op_id]).await?;
    let first = read.into_iter().next().flatten();
    let first = first.ok_or_else(|| Failure::new("an operation vanished"))?;
    let redrive = NewOperation {
        redrive_of: Some(first.op_id),
        outbound_key: first.outbound_key.clone(),
        inherited: first.state.bequest(),
        ..again
    };
    store.accept(&[redrive], &routes).await?;
    Ok(())
}

/// Every letter, oldest first, and how many of them the domain counts as open.
pub async fn read_letters(ports: &StorePorts) -> Result<(Vec<LetterView>, u64), Failure> {
    let (all, order) = (LetterFilter::all(), LetterOrder::OldestFirst);
    let page = ports.recovery.dead_letters(&all, order, None, 100).await?;
    ensure_eq!(page.items.len(), LETTERS, "letters");
    let views = ports.domains.domains().await?;
    let domain = Domain::new(NATURAL)?;
    let view = views.into_iter().find(|view| view.domain == domain);
    let counts = view.map(|view| view.counts).unwrap_or_default();
    Ok((page.items, counts.dead_letters_open))
}
