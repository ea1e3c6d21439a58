//! The programs are in `src/bin`. This library is empty: it exists so that the examples of the
//! guide's pages about stores and buses are compiled, with every adapter at hand.
#![forbid(unsafe_code)]

/// Compiled, not run: the examples need servers. They use `clinch_engine::Dispatch`,
/// `clinch_mongodb::MongoDb`, `clinch_nats::NatsBus` and `clinch_redis::Redis` beside the stores.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/guide/mongodb.md")]
    struct MongoDb;
    #[doc = include_str!("../../docs/guide/mysql.md")]
    struct Mysql;
    #[doc = include_str!("../../docs/guide/nats.md")]
    struct Nats;
    #[doc = include_str!("../../docs/guide/outbox.md")]
    struct Outbox;
    #[doc = include_str!("../../docs/guide/postgres.md")]
    struct Postgres;
    #[doc = include_str!("../../docs/guide/redis.md")]
    struct Redis;
    #[doc = include_str!("../../docs/guide/sqlite.md")]
    struct Sqlite;
}
