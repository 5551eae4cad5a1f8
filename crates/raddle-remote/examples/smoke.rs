use raddle::remote::*;
use std::time::*;
fn nothing(_: ()) {}
fn main() {
    init();
    let plan: Plan = std::env::args().nth(1).unwrap_or("processes:1".into()).parse().unwrap();
    let n: usize = std::env::args().nth(2).map_or(20000, |n| n.parse().unwrap());
    let env = Env::new(plan).unwrap();
    let t = Instant::now();
    env.spawn(nothing, ()).wait().unwrap();
    println!("first {:?}", t.elapsed());
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let t = Instant::now();
        for _ in 0..n {
            env.spawn(nothing, ()).wait().unwrap();
        }
        best = best.min(t.elapsed() / n as u32);
    }
    println!("round trip {:?}", best);
    let t = Instant::now();
    let all: Vec<_> = (0..n as u64).map(|i| env.spawn(|i: u64| i + 1, i)).collect();
    for (i, f) in all.into_iter().enumerate() {
        assert_eq!(f.wait().unwrap(), i as u64 + 1);
    }
    println!("each of many {:?}", t.elapsed() / n as u32);
    let t = Instant::now();
    println!("kill {:?}", {
        let f = env.spawn(|()| -> u32 { loop {} }, ());
        std::thread::sleep(Duration::from_millis(20));
        f.kill()
    });
    println!("kill took {:?}", t.elapsed());
    let t = Instant::now();
    env.spawn(nothing, ()).wait().unwrap();
    println!("after kill {:?}", t.elapsed());
    let f = env.spawn(|()| -> () { panic!("boom") }, ());
    println!("{}", f.wait().unwrap_err());
    let f = env.spawn(|()| -> () { std::process::abort() }, ());
    println!("{}", f.wait().unwrap_err());
    let f = env.spawn(|()| -> () { std::process::exit(3) }, ());
    println!("{}", f.wait().unwrap_err());
    println!("{:?}", env.map(|n: u64| n * n, 0..20).wait());
    let t = Instant::now();
    env.reset();
    env.spawn(nothing, ()).wait().unwrap();
    println!("reset {:?}", t.elapsed());
    drop(env);
}
