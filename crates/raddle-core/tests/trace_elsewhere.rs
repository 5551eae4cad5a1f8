//! A recording into a file that is named from where the process worked: a process of its own, as that is everybody's.

use raddle_core::{Pool, trace::TraceLevel};

#[test]
fn a_trace_is_read_back_when_the_process_works_elsewhere() {
    let room = std::env::temp_dir().join(format!("raddle-elsewhere-{}", std::process::id()));
    std::fs::create_dir(&room).unwrap();
    std::env::set_current_dir(&room).unwrap();
    let pool = Pool::builder().threads(1).trace(TraceLevel::Phase).trace_to("t").build().unwrap();
    pool.run(|_| ());
    std::env::set_current_dir(std::env::temp_dir()).unwrap();
    let regions = pool.trace().phases().len();
    drop(pool);
    std::fs::remove_dir_all(&room).unwrap();
    assert_eq!(regions, 1);
}
