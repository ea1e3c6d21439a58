//! A provider on loopback that answers at once, over HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::error::CliError;

/// Serves on a free port until the runtime ends.
pub(super) async fn listen() -> Result<SocketAddr, CliError> {
    let failed = |error| CliError::failed(format!("the provider cannot listen: {error}"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    Ok(address)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // Reads the whole body, so that the connection can be reused.
    let _ = request.into_body().collect().await;
    Ok(Response::new(Full::new(Bytes::from_static(
        b"{\"id\":\"tx\"}",
    ))))
}
