//! Plans whose rows a store may write one by one, without a lock.

use super::*;

fn is_alone(writes: &[Write], seen: Seen) -> bool {
    plan(writes, seen).is_rows_alone()
}

#[test]
fn what_changes_its_own_row_alone_may_be_written_alone() {
    let accept = |number| Write::Accept(new("pay", number));
    assert!(is_alone(&[accept(1), accept(2)], Seen::default()));
    let settle = Write::Settle(yes(3, Some(1), Vec::new()));
    assert!(is_alone(std::slice::from_ref(&settle), having([live(3)])));
    let mixed = [accept(1), settle, Write::Extend(extension(4))];
    assert!(is_alone(&mixed, having([live(3), live(4)])));
}

#[test]
fn what_others_depend_on_is_not_written_alone() {
    // A lane, a dead letter, and an answer that a second reader could refuse.
    let ordered = Write::Accept(new("ordered", 1));
    assert!(!is_alone(&[ordered], Seen::default()));
    let declined = Write::Settle(no(3, 1));
    assert!(!is_alone(&[declined], having([live(3)])));
    let stale = [Write::Settle(no(3, 0)), Write::Extend(extension(4))];
    assert!(!is_alone(&stale, having([live(3), live(4)])));
    let recorded = Write::WriteAhead(yes(3, Some(1), vec![new("pay", 9)]));
    assert!(!is_alone(&[recorded], having([live(3)])), "spawns are kept");
}

#[test]
fn only_new_keys_are_wanted_by_an_accept_without_a_lane() {
    let routes = routes();
    for (domain, is_of_new_keys) in [("pay", true), ("ordered", false)] {
        let mut first = new(domain, 1);
        first.begin = Some(begin(1));
        let writes = [Write::Accept(first)];
        let mut unit = Unit::new(&writes, &routes);
        let next = unit.next(now()).expect("a step");
        assert!(matches!(next, Next::Load));
        assert_eq!(unit.wanted().is_of_new_keys(), is_of_new_keys, "{domain}");
    }
}

#[test]
fn a_row_names_the_counters_that_it_leaves_and_enters() {
    let settle = Write::Settle(yes(3, Some(1), Vec::new()));
    let plan = plan(&[Write::Accept(new("pay", 1)), settle], having([live(3)]));
    let counters = plan.rows.iter().map(RowWrite::counters);
    // pending; from live to completed
    assert_eq!(counters.collect::<Vec<_>>(), [(None, 0), (Some(1), 5)]);
}
