//! The examples of futures do what they say.

#[allow(dead_code)]
#[path = "../examples/edit_distance.rs"]
mod edit_distance;
#[allow(dead_code)]
#[path = "../examples/mirrors.rs"]
mod mirrors;
#[allow(dead_code)]
#[path = "../examples/retries.rs"]
mod retries;

use std::sync::atomic::Ordering::Relaxed;

#[test]
fn retries() {
    let server = retries::Server::new();
    let pages = retries::pages(&server).wait().unwrap();
    for (page, result) in pages.into_iter().enumerate() {
        match page {
            13 => assert_eq!(result.unwrap_err().to_string(), "gone"),
            page => assert_eq!(result.unwrap(), page + page * page),
        }
    }
    // Each once, a third of them twice, and a third three times; the one that is gone not again.
    assert_eq!(server.requests(), 40 + 13 + 2 * 13 - 1);
    assert!((1..=4).contains(&server.most_open.load(Relaxed)));
}

#[test]
fn mirrors() {
    let log = mirrors::Log::default();
    assert_eq!(mirrors::race(&log).wait().unwrap(), "the file of near");
    let log = log.lock().unwrap();
    assert_eq!(
        *log,
        ["torn: not here", "asleep: timed out", "far: interrupted: another was faster"]
    );
}

#[test]
fn edit_distance() {
    for length in [1, 249, 250, 251, 1_234] {
        let texts = edit_distance::texts(length);
        let (a, b) = (&texts.0, &texts.1);
        let side = |length| (0..=length).collect::<Vec<_>>();
        let whole = edit_distance::tile(a, b, &side(a.len()), &side(b.len()));
        let mut memo = edit_distance::Memo::new(texts.clone());
        assert_eq!(memo.distance().wait().unwrap(), *whole.lower.last().unwrap(), "{length}");
        let tiles = a.len().div_ceil(250) * b.len().div_ceil(250);
        assert_eq!(memo.computed.load(Relaxed), tiles, "{length}");
    }
}
