//! Peers on the JVM: the JMH benchmarks in `bench/jvm`.
//!
//! Finds a JDK and Maven, builds the jar once, and runs one benchmark at a time in a JVM of its own.
//! If something is missing it says so in one line and the table goes on without these rows.

use std::{
    env,
    ffi::OsStr,
    fs,
    hash::{DefaultHasher, Hasher},
    io,
    path::{Path, PathBuf},
    process::{self, Command},
};

use serde::Deserialize;

use crate::args::Settings;

/// `ScopedValue` is final since then.
const RELEASE: u32 = 25;

/// Where the benchmarks are.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/jvm");

/// How long JMH warms up and measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    warmups: u32,
    iterations: u32,
    millis: u32,
}

impl Times {
    /// Enough for both compilers of HotSpot to be done with a small benchmark.
    pub(crate) const SHORT: Times = Times { warmups: 5, iterations: 5, millis: 100 };

    /// Does it run?
    pub(crate) const SMOKE: Times = Times { warmups: 0, iterations: 1, millis: 10 };
}

/// What JMH says of one benchmark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JvmRow {
    /// One per iteration, in the benchmark's unit: nanoseconds per operation, mostly.
    pub(crate) samples: Vec<f64>,
    /// Bytes per operation.
    pub(crate) bytes: Option<f64>,
}

/// A JDK with a jar to run.
#[derive(Debug)]
pub(crate) struct Jvm {
    java: PathBuf,
    jar: PathBuf,
}

impl Jvm {
    /// Finds a JDK and builds the jar if it is not there or its sources have changed; a smoke run
    /// builds nothing. If there are no benchmarks to run, one line on standard error says why.
    pub(crate) fn find(settings: &Settings) -> Option<Jvm> {
        let found = jdk().and_then(|home| {
            let target = target().ok_or("no target directory")?;
            let jar = jar(&home, &target.join("jvm"), !settings.smoke)?;
            Ok(Jvm { java: home.join("bin/java"), jar })
        });
        found.map_err(|error| eprintln!("raddle-bench: no rows from the JVM: {error}")).ok()
    }

    /// Runs a benchmark, `CLASS.METHOD`, in a new JVM, with a value for each parameter that it has.
    pub(crate) fn run(
        &self,
        benchmark: &str,
        parameters: &[(&str, u32)],
        options: &[&str],
        times: Times,
    ) -> Result<JvmRow, String> {
        let failed = |error: String| format!("{benchmark} on the JVM: {error}");
        let result = self.jar.with_file_name(format!("result-{}.json", process::id()));
        let output = Command::new(&self.java)
            // Others may measure on this machine too, which is their affair.
            .args(["-Djmh.ignoreLock=true", "-jar"])
            .arg(&self.jar)
            .args(["-f", "1", "-v", "SILENT", "-prof", "gc", "-rf", "json", "-rff"])
            .arg(&result)
            .args(["-wi", &times.warmups.to_string(), "-w", &format!("{}ms", times.millis)])
            .args(["-i", &times.iterations.to_string(), "-r", &format!("{}ms", times.millis)])
            .args(
                parameters
                    .iter()
                    .flat_map(|(name, value)| ["-p".into(), format!("{name}={value}")]),
            )
            .args(options.iter().flat_map(|option| ["-jvmArgsPrepend", option]))
            .arg(pattern(benchmark))
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(last_line(&output.stderr)));
        }
        let text = fs::read_to_string(&result).map_err(|error| failed(error.to_string()))?;
        // It lies in the target directory and bothers nobody if it stays.
        let _ = fs::remove_file(&result);
        parse(&text).map_err(failed)
    }
}

/// What JMH takes for exactly this benchmark.
fn pattern(benchmark: &str) -> String {
    format!("^raddle\\.bench\\.{}$", benchmark.replace('.', "\\."))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    primary_metric: Metric,
    secondary_metrics: std::collections::BTreeMap<String, Secondary>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metric {
    raw_data: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Secondary {
    score: f64,
}

/// The only entry of a result file.
fn parse(text: &str) -> Result<JvmRow, String> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let [entry] = &entries[..] else {
        return Err(format!("{} results", entries.len()));
    };
    let samples = entry.primary_metric.raw_data.concat();
    // Older versions put a dot before the name.
    let allocated =
        entry.secondary_metrics.iter().find(|(name, _)| name.ends_with("gc.alloc.rate.norm"));
    // Less than a byte per operation is what the harness allocates meanwhile.
    let bytes = allocated.map(|(_, metric)| metric.score.round());
    Ok(JvmRow { samples, bytes })
}

/// The version of the JDK that is found, and those of the peers in the jar.
pub(crate) fn versions() -> Vec<(String, String)> {
    let jdk = jdk().ok().and_then(|home| fs::read_to_string(home.join("release")).ok());
    let version = jdk.as_deref().and_then(|text| {
        let version = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
        Some(("JDK".to_owned(), version.trim_matches('"').to_owned()))
    });
    version.into_iter().chain(poms(include_str!("../jvm/pom.xml"))).collect()
}

/// The artefacts that a pom names with a version, those of its build left out.
fn poms(text: &str) -> Vec<(String, String)> {
    let tag = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.to_owned())
    };
    let dependencies = tag(text, "dependencies").unwrap_or_default();
    let each = dependencies.split("<dependency>").skip(1);
    let named = each.filter_map(|one| Some((tag(one, "artifactId")?, tag(one, "version")?)));
    named.filter(|(_, version)| !version.starts_with('$')).collect()
}

/// The home of a JDK that is new enough: `JAVA_HOME25`, one of Debian's places, `JAVA_HOME`, or
/// what `java` is.
fn jdk() -> Result<PathBuf, String> {
    let mut homes: Vec<PathBuf> =
        env::var_os("JAVA_HOME25").map(PathBuf::from).into_iter().collect();
    let mut installed: Vec<PathBuf> = fs::read_dir("/usr/lib/jvm")
        .map(|dir| dir.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    installed.sort();
    homes.extend(installed);
    homes.extend(env::var_os("JAVA_HOME").map(PathBuf::from));
    homes.extend(home_of_java());
    new_enough(homes)
        .ok_or_else(|| format!("no JDK {RELEASE} in JAVA_HOME25, /usr/lib/jvm, JAVA_HOME or PATH"))
}

/// The first home of a JDK that will do.
fn new_enough(homes: Vec<PathBuf>) -> Option<PathBuf> {
    homes.into_iter().find(|home| release_of(home) >= Some(RELEASE))
}

/// The release of the JDK at this place; none if there is none.
fn release_of(home: &Path) -> Option<u32> {
    home.join("bin").join(program("javac")).exists().then_some(())?;
    release(&fs::read_to_string(home.join("release")).ok()?)
}

/// 25, from `JAVA_VERSION="25.0.1"` in a JDK's file `release`.
fn release(text: &str) -> Option<u32> {
    let version = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    version.trim_matches('"').split(['.', '-', '+']).next()?.parse().ok()
}

/// The home of the `java` that the shell would run.
fn home_of_java() -> Option<PathBuf> {
    let java = in_path("java")?.canonicalize().ok()?;
    Some(java.parent()?.parent()?.to_owned())
}

/// What a program is called in the file system.
fn program(name: &str) -> String {
    format!("{name}{}", env::consts::EXE_SUFFIX)
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The directory that cargo builds into, which this program lies in.
fn target() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let mut profile = program.parent()?;
    if profile.file_name() == Some(OsStr::new("deps")) {
        profile = profile.parent()?;
    }
    Some(profile.parent()?.to_owned())
}

/// The jar, built if need be.
fn jar(home: &Path, dir: &Path, build: bool) -> Result<PathBuf, String> {
    let jar = dir.join("jvm-peers.jar");
    let stamp = dir.join("jvm-peers.stamp");
    let sources = sources().map_err(|error| format!("{SOURCES}: {error}"))?;
    if jar.exists() && fs::read_to_string(&stamp).is_ok_and(|old| old == sources) {
        return Ok(jar);
    }
    if !build {
        return Err("a smoke run does not build the jar; another run of this table does".into());
    }
    let mvn = in_path(&if cfg!(windows) { "mvn.cmd".into() } else { program("mvn") })
        .ok_or("no Maven in PATH")?;
    eprintln!("raddle-bench: building {}", jar.display());
    // Without a network if all that it needs is there.
    maven(&mvn, home, dir, &["-o"]).or_else(|_| maven(&mvn, home, dir, &[]))?;
    fs::write(&stamp, sources).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(jar)
}

fn maven(mvn: &Path, home: &Path, dir: &Path, more: &[&str]) -> Result<(), String> {
    let mut target = std::ffi::OsString::from("-Djvm.target=");
    target.push(dir);
    let output = Command::new(mvn)
        .args(["-B", "-q", "-Dstyle.color=never", "package"])
        .args(more)
        .arg(target)
        .current_dir(SOURCES)
        .env("JAVA_HOME", home)
        .output()
        .map_err(|error| format!("{}: {error}", mvn.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let error = text.lines().find(|line| line.contains("[ERROR]")).unwrap_or("no message");
    Err(format!("Maven cannot build {SOURCES}: {error}"))
}

/// A hash of all that the jar is made from.
fn sources() -> io::Result<String> {
    let root = Path::new(SOURCES);
    let mut files = vec![root.join("pom.xml")];
    for entry in fs::read_dir(root.join("src/main/java/raddle/bench"))? {
        files.push(entry?.path());
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        hasher.write(file.as_os_str().as_encoded_bytes());
        hasher.write(&fs::read(file)?);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// The last line of what a program says, for an error in one line.
fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let text = r#"[{ "benchmark": "raddle.bench.TraneFutures.createMap", "mode": "avgt",
            "primaryMetric": { "score": 7.5, "scoreUnit": "ns/op", "rawData": [[8.0, 7.0]] },
            "secondaryMetrics": {
                "gc.alloc.rate": { "score": 5097.4 },
                "gc.alloc.rate.norm": { "score": 40.0005 } } }]"#;
        let row = JvmRow { samples: vec![8.0, 7.0], bytes: Some(40.0) };
        assert_eq!(parse(text), Ok(row));
        assert_eq!(parse("[]"), Err("0 results".into()));
        assert!(parse("{").is_err());
    }

    #[test]
    fn releases_are_read() {
        assert_eq!(release("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"25.0.1\"\n"), Some(25));
        assert_eq!(release("JAVA_VERSION=\"26-ea\""), Some(26));
        assert_eq!(release("JAVA_VERSION=\"1.8.0_402\""), Some(1));
        assert_eq!(release(""), None);
        assert!(release_of(Path::new("/nowhere")).is_none());
    }

    #[test]
    fn the_first_jdk_that_is_new_enough_is_taken() {
        let dir = env::temp_dir().join(format!("raddle-bench-{}", process::id()));
        let home = |name: &str, version: &str, compiler: bool| {
            let home = dir.join(name);
            fs::create_dir_all(home.join("bin")).unwrap();
            fs::write(home.join("release"), format!("JAVA_VERSION=\"{version}\"\n")).unwrap();
            if compiler {
                fs::write(home.join("bin").join(program("javac")), "").unwrap();
            }
            home
        };
        let old = home("17", "17.0.15", true);
        let runtime = home("jre", "25", false);
        let (jdk, newer) = (home("25", "25.0.1", true), home("26", "26", true));
        let unfit = vec![dir.join("none"), old, runtime];
        assert_eq!(new_enough(unfit.clone()), None);
        assert_eq!(new_enough([unfit, vec![jdk.clone(), newer]].concat()), Some(jdk));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn peers_have_versions() {
        let peers = poms(include_str!("../jvm/pom.xml"));
        assert!(peers.len() >= 3, "{peers:?}");
        assert!(
            peers.iter().all(|(_, v)| v.starts_with(|c: char| c.is_ascii_digit())),
            "{peers:?}"
        );
    }

    #[test]
    fn patterns_mean_one_benchmark() {
        assert_eq!(pattern("A.mapPromise"), r"^raddle\.bench\.A\.mapPromise$");
    }

    #[test]
    fn messages_are_one_line() {
        assert_eq!(last_line(b"WARNING: x\nERROR: y\n\n"), "ERROR: y");
        assert_eq!(last_line(b""), "no message");
    }

    #[test]
    fn the_jar_has_sources() {
        assert_eq!(sources().unwrap().len(), 16);
    }
}
