//! What the program is told.

use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: cargo test --test mixed -- [OPTION]..

  --seeds A..B          the programs of these seeds (by default 0..300)
  --seed N              one program, in all settings that are not said
  --random              seeds from somewhere else each time
  --threads N           threads of a pool at most, and of the global one; by default 1, 2, 3 and 8 in turn
  --waits host|substitute   by default in turn: RADDLE_WAITS
  --first rayon|raddle  whose global pool it is; by default in turn
  --trace off|on        by default every other time or so: RADDLE_TRACE
  --size N              about so many leaves; by default each seed has its own
  --times N             each program so often
  --limit-seconds N     how long a program may stand still before it counts as hanging (by default 10); one that goes on
                        to compute may take twelve times as long
  --oversubscribe N     so many processes at once (by default 2)
  --failures N          stop after so many (by default 20)
  --shrink              look for a smaller program that fails
  --print               print the program of --seed and do not run it
  --here                run it in this process, for a debugger";

/// How programs are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) threads: usize,
    pub(crate) substitute: bool,
    pub(crate) raddle_first: bool,
    pub(crate) trace: bool,
}

impl Setting {
    pub(crate) fn args(self) -> Vec<String> {
        let all = format!(
            "--threads {} --waits {} --first {} --trace {}",
            self.threads,
            if self.substitute { "substitute" } else { "host" },
            if self.raddle_first { "raddle" } else { "rayon" },
            if self.trace { "on" } else { "off" },
        );
        all.split(' ').map(str::to_owned).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seeds: std::ops::Range<u64>,
    pub(crate) threads: Option<usize>,
    pub(crate) substitute: Option<bool>,
    pub(crate) raddle_first: Option<bool>,
    pub(crate) trace: Option<bool>,
    pub(crate) size: Option<usize>,
    pub(crate) times: usize,
    /// Of standing still.
    pub(crate) limit: Duration,
    pub(crate) processes: usize,
    pub(crate) failures: usize,
    pub(crate) shrink: bool,
    pub(crate) print: bool,
    pub(crate) here: bool,
    /// What was asked for is something of the usual harness, not these programs.
    pub(crate) list: bool,
    pub(crate) nothing: bool,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            seeds: 0..300,
            threads: None,
            substitute: None,
            raddle_first: None,
            trace: None,
            size: None,
            times: 1,
            limit: Duration::from_secs(10),
            processes: 2,
            failures: 20,
            shrink: false,
            print: false,
            here: false,
            list: false,
            nothing: false,
        };
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
                    options.seeds = from..from + 300;
                }
                "--threads" => options.threads = Some(positive(&value()?)?),
                "--waits" => options.substitute = Some(either(&value()?, "host", "substitute")?),
                "--first" => options.raddle_first = Some(either(&value()?, "rayon", "raddle")?),
                "--trace" => options.trace = Some(either(&value()?, "off", "on")?),
                "--size" => options.size = Some(positive(&value()?)?),
                "--times" => options.times = positive(&value()?)?,
                "--limit-seconds" => {
                    options.limit = Duration::from_secs(positive(&value()?)? as u64);
                }
                "--oversubscribe" => options.processes = positive(&value()?)?,
                "--failures" => options.failures = positive(&value()?)?,
                "--shrink" => options.shrink = true,
                "--print" => options.print = true,
                "--here" => options.here = true,
                // Of the usual harness.
                "--list" => options.list = true,
                "--ignored" => options.nothing = true,
                "--test-threads" | "--format" | "--skip" | "--color" => drop(value()?),
                "--nocapture" | "--no-capture" | "--exact" | "--quiet" | "-q" | "--show-output"
                | "--include-ignored" => {}
                _ if arg.starts_with("--test-threads=") || arg.starts_with("--format=") => {}
                _ if arg.starts_with('-') => return Err(format!("unknown option {arg}")),
                filter => options.nothing |= !"mixed".contains(filter),
            }
        }
        Ok(options)
    }

    /// What brings a program about besides its seed and setting.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.size.map_or(Vec::new(), |size| vec!["--size".into(), size.to_string()])
    }

    /// As they are said, or usual.
    pub(crate) fn setting(&self) -> Setting {
        Setting {
            threads: self.threads.unwrap_or(2),
            substitute: self.substitute.unwrap_or(false),
            raddle_first: self.raddle_first.unwrap_or(false),
            trace: self.trace.unwrap_or(false),
        }
    }
}

/// True if it is the second.
fn either(text: &str, first: &str, second: &str) -> Result<bool, String> {
    match text {
        _ if text == first => Ok(false),
        _ if text == second => Ok(true),
        _ => Err(format!("'{text}' is neither {first} nor {second}")),
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
