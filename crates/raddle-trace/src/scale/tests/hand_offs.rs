//! What hand-offs add to the span, and where what they cost comes from.

use super::*;

#[test]
fn each_region_has_a_span_with_hand_offs() {
    let mut script = Script::new();
    script.region(0, |s| {
        // Seven forks deep, each of a second half that another worker may take.
        s.region(1, |s| s.tree(128, 50_000));
        s.region(1, |s| _ = s.spend(30_000));
        // And one whose forks are too small to be handed over.
        s.region(1, |s| s.tree(8, 100));
    });
    let trace = script.trace();
    let scale = trace.scale(&[]).unwrap();
    let nanos = |time: Duration| time.as_nanos();
    let spans: Vec<_> = scale.regions.iter().map(|r| (nanos(r.span), nanos(r.burdened))).collect();
    assert_eq!(spans, [(80_100, 87_100), (50_000, 57_000), (30_000, 30_000), (100, 100)]);
    assert_eq!((nanos(scale.span), nanos(scale.burdened)), spans[0]);
    let text = scale.text();
    assert!(text.contains("+ hand-offs") && text.contains("57.0 us"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_hand_offs_cost_is_told_to_be_assumed_where_it_is() {
    let mut trace = one_region(2, |s| s.tree(64, 50_000));
    let scale = trace.scale(&[]).unwrap();
    assert!(scale.steal_is_assumed && scale.wake_is_assumed);
    let text = scale.text().replace("\n  ", " ");
    assert!(text.contains("with hand-offs of 1.0 us (assumed),"), "{text}");
    // Of 2 us each.
    for (steals, is_assumed) in [(7, true), (8, false)] {
        let mut thief = Script::new();
        for _ in 0..steals {
            thief.note(Ask, Subject::Any, 0, 0);
            thief.spend(2_000).note(Steal, Subject::Fork, 5, 0);
        }
        trace.lanes.truncate(1);
        trace.lanes.push(Lane::new("raddle-0", thief.events));
        trace.facts = vec![("level".into(), "tasks".into())];
        let scale = trace.scale(&[]).unwrap();
        assert_eq!((scale.steal_is_assumed, scale.wake_is_assumed), (is_assumed, true));
        assert_eq!(scale.text().contains("(assumed)"), is_assumed, "{}", scale.text());
        assert_eq!(scale.costs.steal, if is_assumed { 1_000.0 } else { 2_000.0 });
    }
}
