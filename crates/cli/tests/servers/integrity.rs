//! A payload that was changed in the table.

use clinch_testbed::Kind;

use crate::world::{World, on_both};

fn a_changed_payload(kind: Kind) {
    let world = World::new(kind, "integrity");
    let first = world.serve("api");
    let id = world.submit(&first, "sent", "order-1");
    world.submit(&first, "sent", "order-2");
    drop(first);
    let change = match kind {
        Kind::Postgres => {
            "UPDATE clinch_queue SET payload = '{\"amount\":9000}'::bytea WHERE biz_key = 'order-1'"
        }
        _ => "UPDATE clinch_request SET payload = '{\"amount\":9000}' WHERE biz_key = 'order-1'",
    };
    world.sql(change);
    let second = world.serve("api,worker,recovery");
    // An unchanged payload is sent.
    let whole = world.settled(&second, "sent", "order-2");
    assert_eq!(whole["state"], "COMPLETED");
    let ended = world.settled(&second, "sent", "order-1");
    assert_eq!(ended["state"], "FAILED");
    let letters = world.letters(&second);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0]["op_id"], id.as_str());
    assert_eq!(letters[0]["failure"]["code"], "integrity");
    assert_eq!(world.provider.calls("200"), 1, "never sent");
}

on_both! {
    a_changed_payload =>
        out_3_a_changed_payload_is_dead_lettered_and_never_sent_on_postgres,
        out_3_a_changed_payload_is_dead_lettered_and_never_sent_on_mariadb;
}
