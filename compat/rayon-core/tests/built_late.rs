//! Where raddle gives one more chance than rayon does. A process of its own, as there is one global pool.

use std::io;

use rayon_core::{ThreadPoolBuilder, current_num_threads};

#[test]
fn a_global_pool_that_could_not_be_built_may_be_built_yet() {
    let no_thread = |_| Err(io::Error::other("no thread"));
    let refused = ThreadPoolBuilder::new().num_threads(2).spawn_handler(no_thread).build_global();
    assert_eq!(refused.unwrap_err().to_string(), "no thread");
    ThreadPoolBuilder::new().num_threads(3).build_global().unwrap();
    assert_eq!(current_num_threads(), 3);
}
