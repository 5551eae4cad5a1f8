//! Strands that wait for each other in a circle are told of. A test program of its own, for the hook.

#![cfg(not(any(raddle_loom, raddle_shuttle)))]
#![cfg(any(debug_assertions, feature = "deadlock"))]

use raddle_lock::{Deadlock, Mutex, set_deadlock_hook};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

#[test]
#[cfg_attr(miri, ignore = "leaves threads behind")]
fn a_circle_of_three_is_found_and_told_once() {
    let (tell, told) = mpsc::channel::<Deadlock>();
    let tell = std::sync::Mutex::new(tell);
    set_deadlock_hook(Some(Arc::new(move |deadlock: &Deadlock| {
        tell.lock().unwrap().send(deadlock.clone()).unwrap();
    })));
    // Left to hang, so the locks must live for ever.
    let locks: &'static [Mutex<()>; 3] = Box::leak(Box::default());
    let barrier = Arc::new(Barrier::new(3));
    for (n, mine) in locks.iter().enumerate() {
        let barrier = Arc::clone(&barrier);
        let next = &locks[(n + 1) % 3];
        let run = move || {
            let _mine = mine.lock();
            barrier.wait();
            drop(next.lock());
        };
        thread::Builder::new().name(format!("philosopher {n}")).spawn(run).unwrap();
    }
    let deadlock = told.recv().unwrap();
    let text = deadlock.to_string();
    assert_eq!(deadlock.waits().len(), 3, "{text}");
    for (n, lock) in locks.iter().enumerate() {
        assert!(text.contains(&format!("philosopher {n}")), "{text}");
        let address = format!("{:#x}", std::ptr::from_ref(lock).addr());
        assert!(text.contains(&address), "{text}");
    }
    // Longer than the detector's intervals: there is nothing more to tell.
    assert!(told.recv_timeout(std::time::Duration::from_millis(350)).is_err());
    set_deadlock_hook(None);
}
