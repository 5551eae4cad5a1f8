//! Indices, and how many threads there are.

use rayon_core::ThreadPoolBuilder;

use crate::pool;

#[test]
fn the_number_of_threads_is_that_of_the_pool_one_is_in() {
    let pool = pool(3);
    assert_eq!(pool.install(rayon_core::current_num_threads), 3);
    assert_eq!(pool.current_num_threads(), 3);
    assert!(rayon_core::current_num_threads() > 0);
}

#[test]
fn who_asks_for_too_many_threads_gets_the_most() {
    let mut asked = 0;
    let most = rayon_core::max_num_threads();
    let result = ThreadPoolBuilder::new()
        .num_threads(usize::MAX)
        .spawn_handler(|thread| {
            asked += 1;
            assert!(thread.index() < most);
            Ok(())
        })
        .build();
    drop(result.unwrap());
    assert_eq!(asked, most);
}
