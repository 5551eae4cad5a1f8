//! Pools that end.

use super::*;

#[test]
fn a_thread_that_would_search_for_ever_lets_its_pool_end() {
    ends("the end of a pool that spins", || {
        let pool = one_thread().spin_for(Duration::MAX).build().unwrap();
        drop(pool.spawn(|| thread::sleep(MOMENT)));
        drop(pool);
    });
}

/// What a thread keeps. Dropped in this order.
struct Kept {
    _pool: Arc<Pool>,
    _gone: mpsc::Sender<()>,
}

#[test]
fn a_thread_that_has_left_drops_its_pool() {
    thread_local! {
        static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }
    let pool = Arc::new(one_thread().keep_alive(SOON).build().unwrap());
    let (send, gone) = mpsc::channel();
    let kept = Kept { _pool: Arc::clone(&pool), _gone: send };
    in_task(&pool, || KEPT.set(Some(kept)));
    drop(pool);
    assert_eq!(gone.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
}
