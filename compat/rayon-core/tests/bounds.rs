//! What builders take, and how values are shown. (`semantics/types.rs` has which may cross threads.)

use rayon_core::*;

#[test]
fn names_and_spawn_handlers_need_not_be_send() {
    let count = std::rc::Rc::new(std::cell::Cell::new(0));
    let named = std::rc::Rc::clone(&count);
    let pool = ThreadPoolBuilder::default()
        .num_threads(2)
        .thread_name(move |index| {
            named.set(named.get() + 1);
            index.to_string()
        })
        .spawn_handler(|thread| {
            count.set(count.get() + 10);
            std::thread::spawn(|| thread.run());
            Ok(())
        })
        .build()
        .unwrap();
    assert_eq!(pool.current_num_threads(), 2);
    assert_eq!(count.get(), 22);
}

#[test]
fn a_builder_shows_what_it_was_given() {
    let builder = || ThreadPoolBuilder::new().num_threads(3).stack_size(1 << 20);
    let none = "ThreadPoolBuilder { num_threads: 3, use_current_thread: false, get_thread_name: None, panic_handler: None, \
                stack_size: Some(1048576), start_handler: None, exit_handler: None, breadth_first: false }";
    assert_eq!(format!("{:?}", builder()), none);
    let given = builder()
        .use_current_thread()
        .thread_name(|index| index.to_string())
        .panic_handler(|_| ())
        .start_handler(|_| ())
        .exit_handler(|_| ());
    let all = none.replacen("false", "true", 1).replace("r: None", "r: Some(<closure>)");
    assert_eq!(format!("{given:?}"), all.replace("e: None", "e: Some(<closure>)"));
}

#[test]
fn a_fork_shows_what_it_is_told() {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (a, b) = pool.install(|| join_context(|a| format!("{a:?}"), |b| format!("{b:?}")));
    assert_eq!(a, "FnContext { migrated: false, _marker: PhantomData<*mut ()> }");
    assert_eq!(b, a);
}
