//! The example of a service beside tokio, asked by clients over loopback.

#[allow(dead_code, unreachable_pub)]
#[path = "../examples/service.rs"]
mod service;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What no answer takes, however busy the machine.
const LONG: Duration = Duration::from_secs(600);

/// Starts a service on a thread of tokio's, whose answers may take so long; gives its address.
fn start(limit: Duration) -> SocketAddr {
    let (send, receive) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            send.send(listener.local_addr().unwrap()).unwrap();
            service::serve(listener, limit).await.unwrap();
        });
    });
    receive.recv().unwrap()
}

/// The services here share the global pool. Whatever computes for long keeps others waiting meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a request, and does not wait for the answer.
fn ask(address: SocketAddr, what: &str, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nx-request-id: {id}\r\n\r\n"
    )
    .unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn get(address: SocketAddr, what: &str) -> String {
    answer(ask(address, what, "test"))
}

/// Asks for the figures until they are these.
fn await_stats(address: SocketAddr, expected: &str) {
    let start = Instant::now();
    loop {
        let stats = get(address, "/stats");
        if stats.ends_with(expected) {
            return;
        }
        assert!(start.elapsed() < LONG / 2, "{stats} instead of {expected}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn requests_are_computed_under_their_ids() {
    let _alone = alone();
    let address = start(LONG);
    let streams: Vec<_> =
        (0..20).map(|id| ask(address, "/primes?below=100000", &format!("r{id}"))).collect();
    for (id, stream) in streams.into_iter().enumerate() {
        let text = answer(stream);
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(text.contains(&format!("x-request-id: r{id}\r\n")), "{text}");
        assert!(text.ends_with(&format!("\r\n9592 primes, counted for r{id}\n")), "{text}");
    }
    await_stats(address, "begun 20, finished 20, stopped 0\n");
}

/// Would take minutes. The service goes on to answer, and what nobody wants to know is stopped.
#[test]
fn a_client_that_hangs_up_stops_the_computation() {
    let _alone = alone();
    let address = start(LONG);
    let stream = ask(address, "/primes?below=1000000000000", "long");
    await_stats(address, "begun 1, finished 0, stopped 0\n");
    drop(stream);
    await_stats(address, "begun 1, finished 0, stopped 1\n");
    assert!(get(address, "/primes?below=10").ends_with("\r\n4 primes, counted for test\n"));
}

#[test]
fn an_answer_has_a_second() {
    let _alone = alone();
    let address = start(Duration::from_secs(1));
    let text = get(address, "/primes?below=1000000000000");
    assert!(text.starts_with("HTTP/1.1 503"), "{text}");
    assert!(text.ends_with("that takes too long\n"), "{text}");
    await_stats(address, "begun 1, finished 0, stopped 1\n");
}

#[test]
fn bad_requests_are_told_what_is_wrong() {
    let address = start(LONG);
    for what in ["/primes", "/primes?below=", "/primes?below=-1", "/primes?above=1", "/x"] {
        let text = get(address, what);
        assert!(text.starts_with("HTTP/1.1 40"), "{what}: {text}");
        assert!(text.contains("primes?below=NUMBER"), "{what}: {text}");
    }
}
