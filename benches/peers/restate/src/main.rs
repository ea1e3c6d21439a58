//! A Restate service that does nothing. Prints its port, and serves until it is killed.
#![forbid(unsafe_code)]

use clinch_peers_load::{Job, Result};
use restate_sdk::prelude::{Context, Endpoint, HandlerResult, HttpServer, service};
use restate_sdk::serde::Json;
use tokio::net::TcpListener;

struct Noop;

#[service]
impl Noop {
    #[handler]
    async fn call(&self, _context: Context<'_>, _job: Json<Job>) -> HandlerResult<String> {
        Ok(Job::result().to_owned())
    }
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", listener.local_addr()?.port());
        let server = HttpServer::new(Endpoint::builder().bind(Noop).build());
        server.serve(listener).await;
        Ok(())
    })
}
