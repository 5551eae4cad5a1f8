//! A web service beside tokio: hyper receives requests, raddle computes what they ask for.
//!
//! ```text
//! cargo run --release -p raddle --example service -- 127.0.0.1:3000
//! curl -H 'x-request-id: 17' 'http://127.0.0.1:3000/primes?below=10000000'
//! curl 'http://127.0.0.1:3000/stats'
//! ```
//!
//! - A request for primes is one `raddle::spawn(..)`, awaited. Its halves run on as many threads as are idle, and tokio's
//!   threads are free meanwhile.
//! - When the client hangs up, hyper drops the answer; what `cancel_on_drop` wraps is interrupted, and the
//!   computation, which asks now and then, stops.
//! - It has a second, after which the client is told so and the computation is interrupted likewise.
//! - Requests that compute for long keep others waiting that come later, as they share threads. Where that matters, long
//!   ones have a pool of their own: `pool.spawn(..)`.
//! - The request's id is a scope local: whatever computes for the request sees it, on whichever thread, and so
//!   would a span of `tracing` (feature `tracing`).

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use raddle::{FailureKind, interrupted, join, scope_local, spawn};
use tokio::net::TcpListener;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(1);
/// So many numbers are looked at by one thread at a time, between two looks at whether anybody still wants to know.
const LEAF: u64 = 1_000;
const ID: &str = "x-request-id";

scope_local! {
    /// Of the request that is computed for.
    static REQUEST: Arc<str>;
}

/// What has become of the computations.
#[derive(Debug, Default)]
struct Stats {
    begun: AtomicUsize,
    finished: AtomicUsize,
    stopped: AtomicUsize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    serve(listener, LIMIT).await
}

/// Answers whoever connects, for ever; each answer may take so long.
pub async fn serve(listener: TcpListener, limit: Duration) -> io::Result<()> {
    let stats = Arc::new(Stats::default());
    loop {
        let (stream, _) = listener.accept().await?;
        let stats = stats.clone();
        let service =
            hyper::service::service_fn(move |request| answer(request, stats.clone(), limit));
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            // An error is a client that hung up, or did not speak HTTP.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    stats: Arc<Stats>,
    limit: Duration,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let id: Arc<str> = match request.headers().get(ID).map(|id| id.to_str()) {
        Some(Ok(id)) => id.into(),
        Some(Err(_)) => return Ok(reply(StatusCode::BAD_REQUEST, "?", "the id is not text\n")),
        None => "none".into(),
    };
    let (status, text) = match (request.uri().path(), request.uri().query()) {
        ("/primes", Some(query)) => match query.strip_prefix("below=").map(str::parse) {
            Some(Ok(below)) => REQUEST.bind(id.clone()).run(|| primes(below, stats, limit)).await,
            _ => (StatusCode::BAD_REQUEST, "primes?below=NUMBER\n".into()),
        },
        ("/stats", None) => (StatusCode::OK, stats.show()),
        _ => (StatusCode::NOT_FOUND, "primes?below=NUMBER, or stats\n".into()),
    };
    Ok(reply(status, &id, text))
}

fn reply(status: StatusCode, id: &str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(ID, id);
    response.body(Full::new(text.into())).expect("its parts came in a request")
}

/// The answer to how many primes there are below a number, on raddle's threads.
fn primes(
    below: u64,
    stats: Arc<Stats>,
    limit: Duration,
) -> impl Future<Output = (StatusCode, String)> {
    let counted = spawn(move || {
        stats.begun.fetch_add(1, Relaxed);
        let count = count_primes(0, below);
        let end = if count.is_some() { &stats.finished } else { &stats.stopped };
        end.fetch_add(1, Relaxed);
        // On another thread than the one that knew the request, and the same id.
        count.map(|count| format!("{count} primes, counted for {}\n", REQUEST.get().unwrap()))
    });
    let limited = counted.interrupt_after(limit).cancel_on_drop();
    async move {
        match limited.await {
            Ok(Some(text)) => (StatusCode::OK, text),
            Ok(None) => (StatusCode::SERVICE_UNAVAILABLE, "stopped\n".into()),
            Err(failure) if failure.kind() == FailureKind::TimedOut => {
                (StatusCode::SERVICE_UNAVAILABLE, "that takes too long\n".into())
            }
            Err(failure) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{failure}\n")),
        }
    }
}

/// None if nobody wants to know any more.
fn count_primes(from: u64, to: u64) -> Option<u64> {
    if interrupted() {
        return None;
    }
    if to - from <= LEAF {
        return Some((from..to).filter(|&n| is_prime(n)).count() as u64);
    }
    let middle = from.midpoint(to);
    let (left, right) = join(|| count_primes(from, middle), || count_primes(middle, to));
    Some(left? + right?)
}

fn is_prime(n: u64) -> bool {
    n >= 2 && (2..).take_while(|divisor| divisor * divisor <= n).all(|divisor| n % divisor != 0)
}

impl Stats {
    fn show(&self) -> String {
        let [begun, finished, stopped] =
            [&self.begun, &self.finished, &self.stopped].map(|count| count.load(Relaxed));
        format!("begun {begun}, finished {finished}, stopped {stopped}\n")
    }
}
