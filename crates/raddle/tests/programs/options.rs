//! What the program is told.

use std::time::Duration;

/// What programs may contain; each has a name, to be switched off by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Choice {
    Always,
    Formula,
    Spawn,
    Async,
    Thread,
    Join,
    Run,
    Scope,
    /// Locks at all, and held while something is waited for.
    Lock,
    Hold,
    Promise,
    Wait,
    Timeout,
    Shared,
    Ops,
    On,
    Timer,
    Drop,
    Kill,
    Interrupt,
    Panic,
    Pools,
    OwnPool,
    Relay,
    Yield,
    /// Any of several.
    Race,
    WaitRef,
    ReadWrite,
    Reentrant,
    /// What blocks outside of raddle.
    Blocking,
    Condition,
    Broadcast,
    /// Pools by rayon's rules.
    Host,
}

const NAMES: &[(Choice, &str)] = &[
    (Choice::Formula, "formula"),
    (Choice::Spawn, "spawn"),
    (Choice::Async, "async"),
    (Choice::Thread, "thread"),
    (Choice::Join, "join"),
    (Choice::Run, "run"),
    (Choice::Scope, "scope"),
    (Choice::Lock, "lock"),
    (Choice::Hold, "hold"),
    (Choice::Promise, "promise"),
    (Choice::Wait, "wait"),
    (Choice::Timeout, "timeout"),
    (Choice::Shared, "shared"),
    (Choice::Ops, "ops"),
    (Choice::On, "on"),
    (Choice::Timer, "timer"),
    (Choice::Drop, "drop"),
    (Choice::Kill, "kill"),
    (Choice::Interrupt, "interrupt"),
    (Choice::Panic, "panic"),
    (Choice::Pools, "pools"),
    (Choice::OwnPool, "own-pool"),
    (Choice::Relay, "relay"),
    (Choice::Yield, "yield"),
    (Choice::Race, "race"),
    (Choice::WaitRef, "wait-ref"),
    (Choice::ReadWrite, "read-write"),
    (Choice::Reentrant, "reentrant"),
    (Choice::Blocking, "blocking"),
    (Choice::Condition, "condition"),
    (Choice::Broadcast, "broadcast"),
    (Choice::Host, "host"),
];

/// A set of choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    const ALL: Features = Features(u64::MAX);

    pub(crate) fn has(self, choice: Choice) -> bool {
        self.0 & (1 << choice as u64) != 0
    }

    fn named(names: &str) -> Result<u64, String> {
        let one = |name: &str| {
            let known = NAMES.iter().find(|(_, known)| *known == name);
            known.map(|(choice, _)| 1 << *choice as u64).ok_or_else(|| {
                let all: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
                format!("'{name}' is none of {}", all.join(", "))
            })
        };
        names.split(',').try_fold(0, |set, name| Ok(set | one(name)?))
    }

    fn without(self) -> String {
        let off = NAMES.iter().filter(|(choice, _)| !self.has(*choice));
        off.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
    }
}

pub(crate) const USAGE: &str = "\
usage: cargo test -p raddle --test programs -- [OPTION]..

  --seeds A..B          the programs of these seeds (by default 0..600)
  --seed N              one program, in all settings that are not said
  --random              seeds from somewhere else each time
  --minutes N           as many programs as there is time for, from --seeds or --random on
  --threads N           threads of a pool at most, and of the global one; by default 1, 2 and 4 in turn
  --fence usual|portable  by default in turn: RADDLE_FENCE
  --size N              about so many statements; by default each seed has its own
  --without A,B / --only A,B   leave out, or leave out all but (see Choice in options.rs)
  --global N            threads of the global pool, if not those of --threads
  --spare N             so many spare threads for pools at most, if not as many as they have of themselves
  --times N             each program so often
  --limit-seconds N     how long a program may stand still before it counts as hanging (by default 10); one that goes on
                        to compute may take twelve times as long
  --oversubscribe N     so many processes at once (by default 2)
  --failures N          stop after so many (by default 20)
  --shrink              look for a smaller program that fails
  --print               print the program of --seed and do not run it
  --here                run it in this process, for a debugger
  --model               run it with a thread of the system for each task, without raddle: it ends if it is legal";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seeds: std::ops::Range<u64>,
    pub(crate) minutes: Option<f64>,
    pub(crate) threads: Option<usize>,
    pub(crate) portable: Option<bool>,
    pub(crate) size: Option<usize>,
    pub(crate) features: Features,
    pub(crate) global: Option<usize>,
    pub(crate) spare: Option<usize>,
    pub(crate) times: usize,
    /// Of standing still.
    pub(crate) limit: Duration,
    pub(crate) processes: usize,
    pub(crate) failures: usize,
    pub(crate) shrink: bool,
    pub(crate) print: bool,
    pub(crate) here: bool,
    pub(crate) model: bool,
    /// What was asked for is something of the usual harness, not these programs.
    pub(crate) list: bool,
    pub(crate) nothing: bool,
}

impl Options {
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            seeds: 0..600,
            minutes: None,
            threads: None,
            portable: None,
            size: None,
            features: Features::ALL,
            global: None,
            spare: None,
            times: 1,
            limit: Duration::from_secs(10),
            processes: 2,
            failures: 20,
            shrink: false,
            print: false,
            here: false,
            model: false,
            list: false,
            nothing: false,
        };
        let mut args = args.peekable();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--seeds" => {
                    let text = value()?;
                    let (from, to) = text.split_once("..").ok_or("--seeds wants A..B")?;
                    options.seeds = number(from)?..number(to)?;
                }
                "--seed" => {
                    let seed = number(&value()?)?;
                    options.seeds = seed..seed + 1;
                }
                "--random" => {
                    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
                    let from = crate::rng::mix(now.as_nanos() as u64, 1) >> 20;
                    options.seeds = from..from + 600;
                }
                "--minutes" => {
                    let minutes = value()?;
                    let minutes: f64 = minutes.parse().map_err(|_| "--minutes wants a number")?;
                    options.minutes = Some(minutes);
                }
                "--threads" => options.threads = Some(positive(&value()?)?),
                "--fence" => {
                    options.portable = Some(match value()?.as_str() {
                        "portable" => true,
                        "usual" => false,
                        other => return Err(format!("'{other}' is no fence")),
                    });
                }
                "--size" => options.size = Some(positive(&value()?)?),
                "--without" => options.features.0 &= !Features::named(&value()?)?,
                "--only" => options.features.0 &= Features::named(&value()?)? | 1,
                "--global" => options.global = Some(positive(&value()?)?),
                "--spare" => options.spare = Some(number(&value()?)? as usize),
                "--times" => options.times = positive(&value()?)?,
                "--limit-seconds" => {
                    options.limit = Duration::from_secs(positive(&value()?)? as u64);
                }
                "--oversubscribe" => options.processes = positive(&value()?)?,
                "--failures" => options.failures = positive(&value()?)?,
                "--shrink" => options.shrink = true,
                "--print" => options.print = true,
                "--here" => options.here = true,
                "--model" => options.model = true,
                // Of the usual harness.
                "--list" => options.list = true,
                "--ignored" => options.nothing = true,
                "--test-threads" | "--format" | "--skip" | "--color" => drop(value()?),
                "--nocapture" | "--no-capture" | "--exact" | "--quiet" | "-q" | "--show-output"
                | "--include-ignored" => {}
                _ if arg.starts_with("--test-threads=") || arg.starts_with("--format=") => {}
                _ if arg.starts_with('-') => return Err(format!("unknown option {arg}")),
                filter => options.nothing |= !"programs".contains(filter),
            }
        }
        Ok(options)
    }

    /// What brings a program about besides its seed, threads and fence.
    pub(crate) fn rest(&self) -> Vec<String> {
        let mut args = Vec::new();
        if let Some(size) = self.size {
            args.extend(["--size".into(), size.to_string()]);
        }
        if let Some(global) = self.global {
            args.extend(["--global".into(), global.to_string()]);
        }
        if let Some(spare) = self.spare {
            args.extend(["--spare".into(), spare.to_string()]);
        }
        if self.features != Features::ALL {
            args.extend(["--without".into(), self.features.without()]);
        }
        args
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("'{text}' is no number"))
}

fn positive(text: &str) -> Result<usize, String> {
    match number(text)? {
        0 => Err("0 is too few".into()),
        number => Ok(number as usize),
    }
}
