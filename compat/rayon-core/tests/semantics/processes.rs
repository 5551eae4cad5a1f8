//! What a process decides once: the environment, the global pool, and how it ends. Each program runs in a process of its own.

use std::env;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuilder, current_num_threads, current_thread_index};

use crate::former::{all_set, is_as_set};

const PROGRAM: &str = "RADDLE_TEST_PROGRAM";

/// What to run instead of the tests, by its name.
const PROGRAMS: &[(&str, fn())] = &[
    ("threads", || println!("threads: {}", current_num_threads())),
    ("each build", each_build),
    ("spawn panics", || {
        does_not_outlast(ThreadPoolBuilder::new(), |pool| pool.spawn(|| panic!("in a task")));
    }),
    ("fifo spawn panics", || {
        let spawn = |pool: &ThreadPool| {
            pool.install(|| rayon_core::spawn_fifo(|| panic!("in its turn")));
        };
        does_not_outlast(ThreadPoolBuilder::new(), spawn);
    }),
    ("broadcast panics", || {
        let spawn = |pool: &ThreadPool| pool.spawn_broadcast(|_| panic!("on each thread"));
        does_not_outlast(ThreadPoolBuilder::new(), spawn);
    }),
    ("closure panics as it goes", || {
        let bomb = Bomb;
        does_not_outlast(ThreadPoolBuilder::new(), |pool| pool.spawn(move || _ = &bomb));
    }),
    ("handler panics", || {
        let builder = ThreadPoolBuilder::new().panic_handler(|_| panic!("so does the handler"));
        does_not_outlast(builder, |pool| pool.spawn(|| panic!("in a task")));
    }),
    ("start handler panics", || {
        let builder = ThreadPoolBuilder::new().start_handler(|_| panic!("at the start"));
        does_not_outlast(builder, |pool| pool.install(|| ()));
    }),
    ("exit handler panics", || {
        let builder = ThreadPoolBuilder::new().exit_handler(|_| panic!("at the end"));
        does_not_outlast(builder, |pool| pool.install(|| ()));
    }),
    ("panics are handled", panics_are_handled),
    ("global twice", global_twice),
    ("global here", global_here),
    ("global of this thread", global_of_this_thread),
    ("global waits", global_waits),
    ("global of former times", global_of_former_times),
    ("does not wait", does_not_wait),
    ("stacks", stacks),
];

fn each_build() {
    let built = || ThreadPoolBuilder::new().build().unwrap().current_num_threads();
    let first = built();
    // SAFETY: no other thread reads the environment: those of the pool do not.
    unsafe { env::set_var("RAYON_NUM_THREADS", "5") };
    println!("threads: {first}, {}", built());
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as it goes");
    }
}

/// Something in the pool panics, so the process does not get beyond this.
fn does_not_outlast(builder: ThreadPoolBuilder, used: impl FnOnce(&ThreadPool)) {
    let pool = builder.num_threads(1).build().unwrap();
    used(&pool);
    drop(pool);
    thread::sleep(std::time::Duration::from_secs(60));
}

fn panics_are_handled() {
    let (send, receive) = channel();
    let (from_start, from_exit) = (send.clone(), send.clone());
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .start_handler(|_| panic!("start"))
        .exit_handler(|_| panic!("exit"))
        .panic_handler(move |panic| {
            let text = *panic.downcast::<&str>().unwrap();
            if text == "exit" { &from_exit } else { &from_start }.send(text).unwrap();
        })
        .build()
        .unwrap();
    drop(send);
    assert_eq!(pool.install(|| 7), 7);
    drop(pool);
    println!("handled: {:?}", receive.iter().collect::<Vec<_>>());
}

fn global_twice() {
    let built = |threads| ThreadPoolBuilder::new().num_threads(threads).build_global();
    built(3).unwrap();
    println!("{}; {}", current_num_threads(), built(2).unwrap_err());
}

/// The thread that builds it is the first, also of the global pool, which waits for the others to run, but not for what they do
/// first.
fn global_here() {
    static MAY_START: AtomicBool = AtomicBool::new(false);
    ThreadPoolBuilder::new()
        .num_threads(2)
        .use_current_thread()
        .start_handler(|_| {
            while !MAY_START.load(SeqCst) {
                thread::yield_now();
            }
        })
        .build_global()
        .unwrap();
    let me = thread::current().id();
    MAY_START.store(true, SeqCst);
    let here = rayon_core::join(|| thread::current().id() == me, current_thread_index).0;
    println!("{:?} {here}", current_thread_index());
}

/// Handlers are for the other threads; this one works while it waits, and by its index.
fn global_of_this_thread() {
    let ((starts, started), (exits, exited)) = (channel(), channel());
    ThreadPoolBuilder::new()
        .num_threads(3)
        .use_current_thread()
        .start_handler(move |index| starts.send(index).unwrap())
        .exit_handler(move |index| exits.send(index).unwrap())
        .build_global()
        .unwrap();
    let me = thread::current().id();
    let here = rayon_core::broadcast(|thread| (thread.index(), thread::current().id() == me));
    let mut all: Vec<usize> = started.try_iter().collect();
    all.sort_unstable();
    // Somebody outside is answered by this thread, too.
    let (send, receive) = channel();
    thread::spawn(move || send.send(rayon_core::broadcast(|thread| thread.index())).unwrap());
    let asked = loop {
        match receive.try_recv() {
            Ok(asked) => break asked,
            Err(_) => _ = rayon_core::yield_now(),
        }
    };
    println!("{here:?} {all:?} {asked:?} {:?}", exited.try_recv());
}

/// It is built when each of its threads has come.
fn global_waits() {
    static COME: AtomicUsize = AtomicUsize::new(0);
    ThreadPoolBuilder::new()
        .num_threads(3)
        .spawn_handler(|seat| {
            thread::spawn(|| {
                // Whoever does not wait for it is quicker.
                (0..1000).for_each(|_| thread::yield_now());
                COME.fetch_add(1, SeqCst);
                seat.run();
            });
            Ok(())
        })
        .build_global()
        .unwrap();
    println!("{} have come", COME.load(SeqCst));
}

#[allow(deprecated)]
fn global_of_former_times() {
    let (configuration, told_by) = all_set(2);
    rayon_core::initialize(configuration).unwrap();
    is_as_set(&told_by, 2);
    println!("{}", rayon_core::initialize(all_set(2).0).unwrap_err());
}

fn does_not_wait() {
    let (send, receive) = channel();
    rayon_core::spawn(move || {
        send.send(()).unwrap();
        loop {
            thread::park();
        }
    });
    receive.recv().unwrap();
    println!("over");
}

/// How much room the threads of the global pool, of another and of the standard library have on their stacks.
fn stacks() {
    let room = || stacker::remaining_stack().map_or(0, |bytes| bytes >> 10);
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let of_std = thread::spawn(room).join().unwrap();
    println!("stacks: {} {} {of_std}", rayon_core::scope(|_| room()), pool.install(room));
}

/// In a child: runs the program, and ends as `main` would.
#[test]
fn child() {
    let Ok(wanted) = env::var(PROGRAM) else { return };
    let (_, program) = PROGRAMS.iter().find(|(name, _)| *name == wanted).unwrap();
    program();
    std::process::exit(0);
}

fn run(program: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "processes::child", "--nocapture"]).env(PROGRAM, program);
    for variable in ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS", "RUST_MIN_STACK"] {
        command.env_remove(variable);
    }
    command.envs(variables.iter().copied()).output().unwrap()
}

/// What it prints; it ends well.
fn prints(program: &str, variables: &[(&str, &str)]) -> String {
    let output = run(program, variables);
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_environment_says_how_many_threads() {
    let most = thread::available_parallelism().unwrap().get();
    let (new, old) = ("RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS");
    let cases: &[(&[(&str, &str)], usize)] = &[
        (&[], most),
        (&[(new, "3")], 3),
        (&[(old, "5")], 5),
        (&[(new, "3"), (old, "5")], 3),
        // That is not a number.
        (&[(new, " 3"), (old, "5")], 5),
        (&[(new, "three")], most),
        (&[(new, "0"), (old, "5")], most),
        (&[(old, "0")], most),
    ];
    for (variables, threads) in cases {
        let printed = prints("threads", variables);
        assert!(printed.contains(&format!("threads: {threads}\n")), "{variables:?}: {printed}");
    }
    assert!(prints("each build", &[(new, "3")]).contains("threads: 3, 5\n"));
}

#[test]
fn panics_that_nobody_handles_abort() {
    for (program, text) in [
        ("spawn panics", "in a task"),
        ("fifo spawn panics", "in its turn"),
        ("broadcast panics", "on each thread"),
        ("closure panics as it goes", "as it goes"),
        ("handler panics", "so does the handler"),
        ("start handler panics", "at the start"),
        ("exit handler panics", "at the end"),
    ] {
        let output = run(program, &[]);
        assert!(!output.status.success(), "{program}: {output:?}");
        #[cfg(unix)]
        {
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(output.status.signal(), Some(6), "{program}: {output:?}");
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(text) && said.contains("abort"), "{program}: {said}");
    }
    let handled = prints("panics are handled", &[]);
    assert!(handled.contains("handled: [\"start\", \"exit\"]"), "{handled}");
}

#[test]
fn the_global_pool_is_built_once() {
    let said = "3; The global thread pool has already been initialized.";
    assert!(prints("global twice", &[]).contains(said));
    assert!(prints("global of former times", &[]).contains(&said[3..]));
}

#[test]
fn the_global_pool_is_there_when_its_threads_are() {
    assert!(prints("global here", &[]).contains("Some(0) true"));
    assert!(prints("global waits", &[]).contains("3 have come"));
    let printed = prints("global of this thread", &[]);
    let said = "[(0, true), (1, false), (2, false)] [1, 2] [0, 1, 2] Err(Empty)";
    assert!(printed.contains(said), "{printed}");
}

#[test]
fn a_process_does_not_wait_for_the_global_pool() {
    assert!(prints("does not wait", &[]).contains("over"));
}

/// In KiB, of threads that nobody has given a size: those of the global pool and of another have no less.
fn stack_sizes(variables: &[(&str, &str)]) -> usize {
    let printed = prints("stacks", variables);
    let line = printed.lines().find_map(|line| line.split_once("stacks: "));
    let sizes: Vec<usize> = line.unwrap().1.split(' ').map(|size| size.parse().unwrap()).collect();
    // Frames beneath take some of it.
    let as_large = |size: &usize| size + 256 > sizes[2];
    assert!(sizes.len() == 3 && sizes[..2].iter().all(as_large), "{variables:?}: {sizes:?}");
    sizes[2]
}

#[test]
fn stacks_are_no_smaller_than_those_of_the_standard_library() {
    let usual = stack_sizes(&[]);
    // Smaller and larger than that.
    for kibibytes in [512, 64 << 10] {
        let size = stack_sizes(&[("RUST_MIN_STACK", &(kibibytes << 10).to_string())]);
        assert!(size.abs_diff(kibibytes) < 64 && size != usual, "{size} of {kibibytes}");
    }
}
