//! Forty pages from a server that is often busy: four requests at a time, and a page that does not come is asked for again,
//! after a pause that doubles. One page is gone for good; that is no reason to do without the others.
//!
//! `cargo run --release -p raddle --example retries`

use std::num::ParseIntError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use raddle::{Failure, Future, Retry, spawn, window};

const PAGES: usize = 40;
const AT_ONCE: usize = 4;
const GONE: usize = 13;

/// Stands for one somewhere else, and counts what it is asked.
pub(crate) struct Server {
    /// For each page.
    requests: [AtomicUsize; PAGES],
    open: AtomicUsize,
    pub(crate) most_open: AtomicUsize,
}

impl Server {
    pub(crate) fn new() -> Arc<Server> {
        let requests = [const { AtomicUsize::new(0) }; PAGES];
        Arc::new(Server { requests, open: AtomicUsize::new(0), most_open: AtomicUsize::new(0) })
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// It is busy when a page is asked for first, and with some the second time too.
    fn fetch(self: Arc<Server>, page: usize) -> Future<String> {
        let before = self.requests[page].fetch_add(1, Relaxed);
        self.most_open.fetch_max(self.open.fetch_add(1, Relaxed) + 1, Relaxed);
        Future::delay(Duration::from_millis(1))
            .and_then(move |()| match page {
                GONE => Err("gone"),
                page if before < page % 3 => Err("busy"),
                page => Ok(format!("{page} {}", page * page)),
            })
            .ensure(move || {
                self.open.fetch_sub(1, Relaxed);
            })
    }
}

fn parse(text: &str) -> Result<usize, ParseIntError> {
    text.split(' ').map(str::parse::<usize>).sum()
}

/// What each page comes to, or why there is nothing.
pub(crate) fn pages(server: &Arc<Server>) -> Future<Vec<Result<usize, Failure>>> {
    let server = Arc::clone(server);
    window(0..PAGES, AT_ONCE, move |page| {
        let server = Arc::clone(&server);
        Retry::new(5, Duration::from_millis(1))
            .max_pause(Duration::from_millis(4))
            .when(|failure| failure.to_string() == "busy")
            .run(move || Arc::clone(&server).fetch(page))
            // What computes is a task: timers share one thread.
            .flat_map(|text| spawn(move || parse(&text)))
            .lower()
            // A value, so that the window goes on.
            .lift()
    })
}

fn main() -> Result<(), Failure> {
    let server = Server::new();
    let pages = pages(&server).wait()?;
    for (page, result) in pages.iter().enumerate() {
        if let Err(failure) = result {
            println!("page {page}: {failure}");
        }
    }
    let sum: usize = pages.iter().flatten().sum();
    let (requests, most) = (server.requests(), server.most_open.load(Relaxed));
    println!("the others come to {sum}, in {requests} requests, {most} at a time");
    Ok(())
}
