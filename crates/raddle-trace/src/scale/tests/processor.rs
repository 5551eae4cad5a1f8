//! Threads that lack a processor just when they ask how much of it they had: the call to the system is where it takes it away.

use super::*;

/// Eight tasks of 100 us; before each sample, of which there is one after each task, so much passes without a processor.
fn sampled(away: u64) -> Trace {
    let mut script = Script::new();
    let mut had = 5_000;
    script.note(Cpu, Subject::Any, had, 1);
    script.region(0, |s| {
        for _ in 0..4 {
            s.join(2, |s| _ = s.spend(100_000), |s| _ = s.spend(100_000));
            had += 2_000;
            s.spend(away);
            s.note(Cpu, Subject::Any, had, 1);
        }
    });
    script.trace()
}

#[test]
fn what_is_lost_within_a_sample_is_counted_as_lost_and_not_taken_from_work() {
    let quiet = sampled(0).scale(&[]).unwrap();
    assert_eq!((quiet.work.as_micros(), quiet.with_processor), (800, 1.0));
    assert_eq!(quiet.notes, [ONE_THREAD]);
    // 50 of 250 us.
    let rough = sampled(50_000).scale(&[]).unwrap();
    assert_eq!(micros(&rough), micros(&quiet));
    assert!((0.79..0.81).contains(&rough.with_processor), "{rough:?}");
    assert!(rough.text().contains("only 80 % of their time"), "{}", rough.text());
    // 700 of 900.
    let why = sampled(700_000).scale(&[]).unwrap_err();
    assert!(matches!(why, Refusal::Preempted(had) if (had - 2.0 / 9.0).abs() < 0.01), "{why:?}");
    assert!(why.to_string().contains("only 22 % of their time"), "{why}");
    let lost = sampled(700_000).workers()[0].lost.as_micros();
    assert!((2795..=2800).contains(&lost), "{lost}");
}

#[test]
fn a_verdict_does_not_rest_on_a_clock_that_ran_while_threads_had_no_processor() {
    // Two threads that share a processor with somebody: each has three quarters of it, and then there is no speed-up.
    let mut trace = sampled(66_000);
    trace.threads = 2;
    let scale = trace.scale(&[]).unwrap();
    assert!(scale.measured[0].speedup < 0.8 && scale.here.speedup > 1.5, "{scale:?}");
    assert!(scale.bound_by() != Bound::Waits, "{}", scale.verdict());
}

/// The clock of samples has 32 bits, and begins anew after seven minutes.
#[test]
fn a_task_of_hours_had_its_processor_all_the_while() {
    const HOUR: u64 = 3_600_000_000_000;
    let ran = |part: u64| {
        let mut script = Script::new();
        script.region(0, |s| {
            s.note(Cpu, Subject::Any, 0, 1);
            s.join(2, |s| _ = s.spend(HOUR), |_| ());
            s.note(Cpu, Subject::Any, (HOUR / 100 * part / 100) as u32, 1);
        });
        script.trace().scale(&[])
    };
    // A little more than there was time for, by another clock.
    for part in [99, 100, 101] {
        let scale = ran(part).unwrap();
        assert_eq!(scale.with_processor, 1.0, "{part}");
        assert!(scale.work.abs_diff(Duration::from_nanos(HOUR)).as_secs() < 1, "{scale:?}");
    }
}
