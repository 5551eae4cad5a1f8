//! tokio: a oneshot channel and a task for each operation, on a runtime of one thread.
//!
//! A task runs when its runtime comes to it, here at the `await` after the channel is set.

use std::cell::LazyCell;

use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
    task::JoinHandle,
};

use super::{LINKS, ONE, Repeat, repeat_make};

thread_local! {
    static RUNTIME: LazyCell<Runtime> =
        LazyCell::new(|| Builder::new_current_thread().build().expect("a runtime"));
}

/// The same as `repeat!` within the runtime.
macro_rules! repeat_async {
    ($result:expr) => {
        |n| {
            let all = async {
                let mut sum = 0;
                for _ in 0..n {
                    sum += std::hint::black_box($result);
                }
                sum
            };
            RUNTIME.with(|runtime| runtime.block_on(all))
        }
    };
}

pub(super) fn operation(name: &str) -> Option<Repeat> {
    Some(match name {
        "newPromise" => repeat_make!(oneshot::channel::<u64>()),
        "setValue" => repeat_async!({
            let (sender, receiver) = oneshot::channel();
            sender.send(ONE).expect("a receiver");
            receiver.await.expect("a sender")
        }),
        "mapPromise" | "flatMapPromise" | "ensurePromise" => repeat_async!(promise(0).await),
        "mapPromiseN" | "setValueN" | "flatMapPromiseN" | "ensurePromiseN" => {
            repeat_async!(promise(LINKS - 1).await)
        }
        _ => return None,
    })
}

/// A channel, a task that waits for it, and so many more that wait for each other. A task may await
/// another future in the end or run something on the way: it is the same task.
async fn promise(more: u64) -> u64 {
    let (sender, receiver) = oneshot::channel::<u64>();
    let mut task: JoinHandle<u64> = tokio::spawn(async move {
        receiver.await.expect("a sender");
        ONE
    });
    for _ in 0..more {
        task = tokio::spawn(async move {
            task.await.expect("no panic");
            ONE
        });
    }
    sender.send(ONE).expect("a receiver");
    task.await.expect("no panic")
}
