//! What must follow each other is not what a region took: what is advised hangs on the former.

use super::*;

#[test]
fn what_could_be_done_side_by_side_is_no_chain_however_long_its_region_took() {
    let tree = one_region(2, |s| s.tree(128, 50_000));
    let region = tree.scale(&[]).unwrap().regions.remove(0);
    assert_eq!((region.took.as_micros(), region.span.as_micros()), (6_400, 50));
    let told = tree.summary();
    assert!(
        told.contains("1.00 of 2 workers were busy on average: there is enough to do"),
        "{told}"
    );
    assert!(!told.contains("chain"), "{told}");
}

#[test]
fn a_chain_that_is_told_is_as_long_as_what_follows_each_other() {
    let task = |s: &mut Script, number: u32, time: u64, after: Option<u32>| {
        s.note(TouchBegin, Subject::Any, 70 + number, 0);
        s.note(Exec, Subject::Task, number, 0);
        if let Some(before) = after {
            s.note(TouchBegin, Subject::Any, 70 + before, 0);
            s.note(TouchEnd, Subject::Any, 70 + before, 0);
        }
        s.spend(time);
        s.note(Resolve, Subject::Any, 70 + number, 0);
        s.note(Executed, Subject::Task, number, 0);
        s.note(TouchEnd, Subject::Any, 70 + number, 0);
    };
    let trace = one_region(2, |s| {
        (0..5).for_each(|number| s.note(Fork, Subject::Task, number, 3));
        task(s, 4, 50_000, None);
        (0..4_u32).for_each(|number| task(s, number, 30_000, number.checked_sub(1)));
    });
    let scale = trace.scale(&[]).unwrap();
    assert_eq!((scale.regions[0].took.as_micros(), scale.span.as_micros()), (170, 120));
    let told = trace.summary().replace("\n  ", " ");
    assert!(told.contains("A chain of 120.0 us that must follow each other"), "{told}");
    assert!(!told.contains("chain of 170.0 us"), "{told}");
}

#[test]
fn the_last_to_finish_is_told_with_what_it_was_later_than_the_one_before() {
    let mut trace = one_region(2, |s| _ = s.spend(900_000));
    let worker = vec![Event::new(100_000, Exec, 9), Event::new(650_000, Executed, 9)];
    trace.lanes.push(Lane::new("raddle-0", worker));
    let told = trace.summary();
    assert!(told.contains("last to finish: guest 0, 250.0 us after the one before"), "{told}");
}
