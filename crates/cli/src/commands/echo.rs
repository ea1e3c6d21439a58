//! `clinch echo`: an upstream for first calls, on loopback.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::args::Global;
use crate::clock;
use crate::duration;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::{Output, text};

/// The address that `clinch init` writes into its route.
pub(crate) const LISTEN: &str = "127.0.0.1:8099";
/// Longest request body: the longest payload that a server accepts by default is much smaller.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Connections at a time: more than a server opens to one destination.
const CONNECTIONS_MAX: usize = 256;
/// Longest time for the headers of a request, and for its body.
const READ_MAX: Duration = Duration::from_secs(30);
/// Requests that wait to be printed.
const REPORTS_MAX: usize = 256;

const EXAMPLES: &str = "\
Examples:
  clinch echo
  clinch echo --fail-every 3 --delay 200ms
  clinch echo --listen 127.0.0.1:9000

Answers every request with JSON that says what was received, and prints one line for each. Nothing
is remembered: a repeated key is answered like a new one. Ctrl-C ends it.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    listen: SocketAddr,
    /// Answer every Nth request with 503
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    fail_every: Option<u64>,
    /// Wait this long before each answer (200ms)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0")]
    delay: Duration,
    /// Allow an address that other machines can reach
    #[arg(long)]
    public: bool,
}

/// Answers until it is interrupted.
pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, CliError> {
    if !args.listen.ip().is_loopback() && !args.public {
        return Err(CliError::usage(format!(
            "--listen {} can be reached by other machines, and this answers anyone; listen on 127.0.0.1, or add --public",
            args.listen
        )));
    }
    let out = Output::stdout(global.output, !global.no_color);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let exit = runtime.block_on(serve(args, out));
    runtime.shutdown_background();
    exit
}

/// How requests are answered.
struct Echo {
    fail_every: Option<u64>,
    delay: Duration,
    received: AtomicU64,
    reports: mpsc::Sender<Report>,
}

/// One answered request.
struct Report {
    line: String,
    document: Value,
}

async fn serve(args: &Args, mut out: Output) -> Result<Exit, CliError> {
    let failed = |error| {
        let address = args.listen;
        CliError::failed(format!(
            "cannot listen on {address}: {error}; name a free address with --listen"
        ))
    };
    let listener = TcpListener::bind(args.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    note(&format!("listening on http://{address}; Ctrl-C ends it"));
    let (reports, mut reported) = mpsc::channel(REPORTS_MAX);
    let echo = Arc::new(Echo {
        fail_every: args.fail_every,
        delay: args.delay,
        received: AtomicU64::new(0),
        reports,
    });
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accepting = accept(listener, echo, connections);
    // One future for the whole time: a signal that arrives while a line is printed is not lost.
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(accepting, interrupted);
    loop {
        tokio::select! {
            _ = &mut interrupted => break,
            Some(report) = reported.recv() => out.answer(&report.document, &[report.line])?,
            () = &mut accepting => {}
        }
    }
    // What was answered is printed.
    while let Ok(report) = reported.try_recv() {
        out.answer(&report.document, &[report.line])?;
    }
    Ok(Exit::Ok)
}

/// Accepts connections; at the limit a new one waits until another has ended.
async fn accept(listener: TcpListener, echo: Arc<Echo>, connections: Arc<Semaphore>) {
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is free: another connection has to end first.
            clock::pause(Duration::from_millis(100)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let echo = echo.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(echo.clone(), request));
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(READ_MAX);
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
            drop(permit);
        });
    }
}

async fn answer(
    echo: Arc<Echo>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let number = echo.received.fetch_add(1, Ordering::SeqCst) + 1;
    let (head, body) = request.into_parts();
    let body = timeout(READ_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
    if !echo.delay.is_zero() {
        clock::pause(echo.delay).await;
    }
    let fails = echo
        .fail_every
        .is_some_and(|every| number.is_multiple_of(every));
    let status = match &body {
        None => StatusCode::PAYLOAD_TOO_LARGE,
        Some(_) if fails => StatusCode::SERVICE_UNAVAILABLE,
        Some(_) => StatusCode::OK,
    };
    let header = |name: &str| header(&head.headers, name);
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let bytes = body.as_ref().map_or(0, Bytes::len);
    let mut document = json!({
        "number": number,
        "status": status.as_u16(),
        "method": head.method.as_str(),
        "path": path,
        "attempt": header("x-clinch-attempt").and_then(|text| text.parse::<u64>().ok()),
        "idempotency_key": header("idempotency-key"),
        "op_id": header("x-clinch-op-id"),
    });
    let report = Report {
        line: line(&document, bytes),
        document: document.clone(),
    };
    // A reader that is too slow slows the answers down; a reader that is gone ends the process.
    let _ = echo.reports.send(report).await;
    document["body"] = body.map_or(Value::Null, |body| shown(&body));
    let mut response = Response::new(Full::new(Bytes::from(document.to_string())));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.to_owned())
}

/// `#3 POST /hello, attempt 2, 14 bytes: 200`. The body is not shown.
fn line(document: &Value, bytes: usize) -> String {
    let word = |name: &str| document[name].as_str().unwrap_or_default();
    let attempt = match document["attempt"].as_u64() {
        Some(attempt) => format!(", attempt {attempt}"),
        None => String::new(),
    };
    let line = format!(
        "#{} {} {}{attempt}, {bytes} bytes: {}",
        document["number"],
        word("method"),
        word("path"),
        document["status"]
    );
    text::plain(&line).into_owned()
}

/// The body as JSON if it is JSON, otherwise as text.
fn shown(body: &Bytes) -> Value {
    match body.is_empty() {
        true => Value::Null,
        false => serde_json::from_slice(body)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(body))),
    }
}
