use super::*;

const ALL: [Workload; 4] =
    [Workload::Fib(15), Workload::Unbalanced(6), Workload::TreeSum(10), Workload::Sort(100_000)];

#[test]
fn fib_makes_as_many_calls_as_it_says() {
    assert_eq!(fib_calls(0), 1);
    assert_eq!(fib_calls(5), 15);
    assert_eq!(Workload::Fib(15).expected(), 610);
}

#[test]
fn the_unbalanced_tree_is_the_same_everywhere() {
    assert_eq!(Workload::Unbalanced(6).operations(), 86);
}

#[test]
fn sequential_results_are_right() {
    for workload in ALL {
        let mut input = workload.prepare();
        let result = sequential::run((), workload, &mut input);
        workload.check(&input, result, workload.expected());
    }
}

#[test]
fn all_runtimes_agree() {
    let pool = raddle::Pool::new(2).unwrap();
    let peer = crate::peers::chili_pool(2);
    for workload in ALL {
        let check = |run: &dyn Fn(&mut Input) -> u64| {
            let mut input = workload.prepare();
            let result = run(&mut input);
            workload.check(&input, result, workload.expected());
        };
        check(&|input| pool.run(|w| worker::run(w, workload, input)));
        check(&|input| pool.run(|_| ambient::run((), workload, input)));
        check(&|input| chili::run(&mut peer.scope(), workload, input));
        check(&|input| rayon::run((), workload, input));
    }
}

#[test]
fn merging_keeps_everything() {
    let mut to = [0; 6];
    merge_here(&[1, 4, 9], &[2, 4, 5], &mut to);
    assert_eq!(to, [1, 2, 4, 4, 5, 9]);
    merge_here(&[], &[1, 2, 3, 4, 5, 6], &mut to);
    assert_eq!(to, [1, 2, 3, 4, 5, 6]);
}

#[test]
#[should_panic(expected = "not sorted")]
fn unsorted_numbers_are_noticed() {
    let workload = Workload::Sort(10);
    workload.check(&workload.prepare(), 0, 0);
}
