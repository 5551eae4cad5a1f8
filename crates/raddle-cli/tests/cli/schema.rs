//! What `--json` prints is what `schema/` promises.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::{Room, digits};

/// Checks a value against a schema, as far as ours go; what they do not use is refused.
fn check(value: &Value, schema: &Value, root: &Value, at: &str) {
    let fields = schema.as_object().unwrap();
    for (keyword, wanted) in fields {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                check(value, root.pointer(pointer).unwrap(), root, at);
            }
            "const" => assert_eq!(value, wanted, "{at}"),
            "enum" => assert!(wanted.as_array().unwrap().contains(value), "{at}: {value}"),
            "type" => {
                let fits = |name: &Value| is(value, name.as_str().unwrap());
                let any =
                    wanted.as_array().map_or_else(|| fits(wanted), |all| all.iter().any(fits));
                assert!(any, "{at} is {value}, and should be {wanted}");
            }
            "minimum" => {
                let least = wanted.as_f64().unwrap();
                assert!(value.as_f64().is_none_or(|number| number >= least), "{at}: {value}");
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(item, wanted, root, &format!("{at}[{index}]"));
                }
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if let Some(wanted) = wanted.get(name) {
                        check(value, wanted, root, &format!("{at}.{name}"));
                    }
                }
            }
            "required" => {
                for name in wanted.as_array().unwrap() {
                    assert!(value.get(name.as_str().unwrap()).is_some(), "{at} has no {name}");
                }
            }
            "additionalProperties" => {
                assert_eq!(wanted, false);
                let none = Map::new();
                for name in value.as_object().unwrap_or(&none).keys() {
                    assert!(fields["properties"].get(name).is_some(), "{at}: unknown {name}");
                }
            }
            other => panic!("{at}: this test does not know {other}"),
        }
    }
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    }
}

fn schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schema/{name}.schema.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[track_caller]
fn conforms(value: &Value, name: &str) {
    let schema = schema(name);
    check(value, &schema, &schema, name);
    snake(value, name);
}

/// Every key is in snake case, at any depth.
fn snake(value: &Value, at: &str) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(plain), "{at}: {name}");
        snake(value, at);
    }
    value.as_array().into_iter().flatten().for_each(|value| snake(value, at));
}

#[test]
fn every_object_is_as_promised() {
    let room = Room::new("schema");
    room.file("digits.csv", digits());
    room.file("lines", "b\na\n");
    image::RgbImage::new(8, 8).save(room.path("in.png")).unwrap();
    for line in [
        "fib --n 12",
        "fib --n 12 --threads 1",
        "fib --n 12 --runs 2 --trace t.trace",
        "kmeans digits.csv --k 3 --max-iter 2 --output out.csv",
        "knn digits.csv --k 2",
        "quantize in.png --k 1 --output out.png",
        "sort lines --output out",
        "sort lines --trace t2.trace",
    ] {
        let json = room.raddle(&format!("run {line} --json")).json();
        conforms(&json, "run");
    }
    conforms(&room.raddle("trace summary t.trace --json").json(), "trace-summary");
    conforms(&room.scaled("fib --n 14 --cutoff 6", "tasks.trace", |_| true), "trace-scale");
    conforms(&room.raddle("trace doctor tasks.trace --json").json(), "trace-doctor");
    let diff = room.raddle("trace diff tasks.trace tasks.trace --json").json();
    conforms(&diff, "trace-diff");
    assert!(diff["run"].is_array(), "{diff}");
    let diff = room.raddle("trace diff t.trace tasks.trace --json").json();
    conforms(&diff, "trace-diff");
    assert!(diff["not_compared"].as_str().unwrap().contains("level phase"), "{diff}");
    conforms(&room.raddle("plan sequential --json").json(), "plan");
    conforms(&room.raddle("run knn digits.csv --k 2 --plan sequential --json").json(), "run");
    conforms(&room.raddle("--quick --json --threads 1").json(), "measure");
}

/// The checker finds what is wrong, or the test above could not fail.
#[test]
fn what_is_not_as_promised_is_found() {
    let room = Room::new("schema-wrong");
    let good = room.raddle("run fib --n 5 --json").json();
    let wrong = |change: &dyn Fn(&mut Map<String, Value>)| {
        let mut json = good.clone();
        change(json.as_object_mut().unwrap());
        std::panic::catch_unwind(|| conforms(&json, "run")).is_err()
    };
    assert!(!wrong(&|_| ()));
    assert!(wrong(&|json| _ = json.remove("speedup")));
    assert!(wrong(&|json| _ = json.insert("total us".into(), 1.into())));
    assert!(wrong(&|json| _ = json.insert("seconds".into(), "1".into())));
    assert!(wrong(&|json| _ = json.insert("seconds".into(), (-1).into())));
    assert!(wrong(&|json| _ = json.insert("workload".into(), "none".into())));
    assert!(wrong(&|json| _ = json.insert("phases".into(), Value::Object(Map::new()))));
    assert!(wrong(&|json| _ = json.insert("errors".into(), Value::from(vec![1]))));
}
