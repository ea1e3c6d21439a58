//! `server.payload_max` holds for operations that come in by SQL.

use clinch_testbed::{Kind, sql};

use crate::world::World;

fn accept(world: &World, key: &str, bytes: usize) -> Result<String, String> {
    let text = "x".repeat(bytes);
    let call = format!(
        "SELECT is_new FROM clinch_accept('sent', 'charge', '{key}', 'a', '{{\"text\": \"{text}\"}}')"
    );
    sql(world.kind, &world.database, &call).map_err(|trouble| trouble.to_string())
}

#[test]
fn core_9_the_configured_limit_of_payloads_holds_by_sql() {
    if let Some(lack) = Kind::Postgres.lack() {
        eprintln!("ignored: {lack}");
        return;
    }
    let world = World::new(Kind::Postgres, "payloads");
    let limited = |size: &str| {
        world.configure(&format!("[server]\npayload_max = \"{size}\"\n"));
        world.serve("api")
    };
    let server = limited("1KiB");
    assert_eq!(accept(&world, "small", 500).as_deref(), Ok("t"));
    let refused = accept(&world, "large", 5_000).expect_err("it is refused");
    assert!(refused.contains("payload"), "{refused}");
    drop(server);
    let _server = limited("16KiB");
    assert_eq!(accept(&world, "large", 5_000).as_deref(), Ok("t"));
}
