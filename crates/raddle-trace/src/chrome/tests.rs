//! The rules of the format, checked on what is written.

use std::collections::HashMap;

use serde_json::Value;

use super::*;
use crate::event::{Event, EventKind::*};
use crate::trace::{ClockPair, Lane};

fn event(tsc: u64, kind: EventKind, subject: Subject, aux: u16, task: u32) -> Event {
    Event { tsc, kind, flags: subject as u8, aux, task }
}

fn trace() -> Trace {
    use Subject::{Any, Fork as F, Region as R, Task as T};
    let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 900, nanos: 9000 });
    trace.names.push("a \"quoted\" </script>\n".into());
    let guest = vec![
        event(0, Submit, R, 1, 1),
        event(1, Exec, R, 0, 1),
        event(2, Unpark, Any, 1, 3),
        event(6, Fork, F, 1, 9),
        event(7, Fork, T, 1, 4),
        event(50, Join, F, 0, 9),
        event(51, Wait, F, 0, 9),
        event(60, Joined, F, 0, 9), // the wait's end is lost
        event(70, Executed, R, 0, 1),
        event(75, Waited, R, 0, 1),
        event(80, Exec, T, 0, 5), // still running at the end
    ];
    let worker = vec![
        event(0, Executed, F, 0, 8), // its beginning is lost
        event(1, Park, Any, 0, 0),
        event(30, Unparked, Any, 0, 0),
        event(31, Ask, Any, 0, 0),
        event(32, Steal, F, 0, 9),
        event(33, Exec, F, 0, 9),
        event(58, Executed, F, 0, 9),
        event(59, Exec, T, 0, 4),
        event(57, Executed, T, 0, 4), // time goes back
        event(61, Search, Any, 0, 0),
    ];
    trace.lanes.push(Lane::new("guest", guest));
    trace.lanes.push(Lane::new("worker", worker));
    trace
}

#[test]
fn slices_nest_flows_bind_and_spans_pair() {
    let json: Value = serde_json::from_str(&trace().chrome_json()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let mut stacks: HashMap<u64, Vec<f64>> = HashMap::new();
    let mut slices: HashMap<u64, Vec<(f64, f64)>> = HashMap::new();
    let mut last: HashMap<u64, f64> = HashMap::new();
    let mut flows: HashMap<u64, Vec<(&str, u64, f64)>> = HashMap::new();
    let mut spans: HashMap<(String, String), i32> = HashMap::new();
    for e in events {
        let phase = e["ph"].as_str().unwrap();
        if phase == "M" {
            assert!(e["args"]["name"].is_string() || e["args"]["sort_index"].is_u64());
            continue;
        }
        let (tid, ts) = (e["tid"].as_u64().unwrap(), e["ts"].as_f64().unwrap());
        assert!(e["pid"] == 1 && ts >= 0.0);
        match phase {
            "B" | "E" => {
                assert!(ts >= *last.get(&tid).unwrap_or(&0.0), "time goes on within a lane");
                last.insert(tid, ts);
                let stack = stacks.entry(tid).or_default();
                if phase == "B" {
                    assert!(e["name"].is_string());
                    stack.push(ts);
                } else {
                    let from = stack.pop().expect("an end has a beginning");
                    slices.entry(tid).or_default().push((from, ts));
                }
            }
            "s" | "f" => {
                assert_eq!(phase == "f", e["bp"] == "e");
                flows.entry(e["id"].as_u64().unwrap()).or_default().push((phase, tid, ts));
            }
            "b" | "e" => {
                let key = (e["id"].as_str().unwrap().into(), e["name"].as_str().unwrap().into());
                *spans.entry(key).or_default() += if phase == "b" { 1 } else { -1 };
            }
            "C" => assert!(e["args"]["length"].is_u64()),
            other => panic!("phase {other}"),
        }
    }
    assert!(stacks.values().all(Vec::is_empty), "all that begins ends");
    assert_eq!(slices[&0].len(), 6 + 1 - 1, "{slices:?}");
    assert_eq!(flows.len(), 3, "a steal, a wake and a result: {flows:?}");
    for flow in flows.values() {
        let [("s", _, from), ("f", _, to)] = flow[..] else { panic!("{flow:?}") };
        assert!(from <= to);
        for &(_, tid, ts) in flow {
            assert!(slices[&tid].iter().any(|&(a, b)| (a..=b).contains(&ts)), "{flow:?} binds");
        }
    }
    assert!(spans.values().all(|&open| open == 0));
    assert!(spans.contains_key(&("region-0".into(), "a \"quoted\" </script>\n".into())));
    assert!(spans.contains_key(&("task-4".into(), "task".into())), "{spans:?}");
}

/// Tasks are numbered by where they lie, and soon another lies there.
#[test]
fn each_task_that_had_a_number_has_a_life_of_its_own() {
    let mut trace =
        Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 900, nanos: 900_000 });
    let task = |tsc, kind| event(tsc, kind, Subject::Task, 0, 7);
    let spawns = vec![task(100, Fork), task(300, Fork), task(500, Fork), task(540, Kill)];
    let runs = [(110, 150), (320, 360)].map(|(from, to)| [task(from, Exec), task(to, Executed)]);
    trace.lanes = vec![Lane::new("a", runs.concat()), Lane::new("b", spawns)];
    let json: Value = serde_json::from_str(&trace.chrome_json()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let of = |phase: &str| -> Vec<f64> {
        let same = events.iter().filter(|e| e["cat"] == "task" && e["ph"] == phase);
        same.map(|e| e["ts"].as_f64().unwrap()).collect()
    };
    assert_eq!((of("b"), of("e")), (vec![100.0, 300.0, 500.0], vec![150.0, 360.0, 540.0]));
}

#[test]
fn one_trace_is_told_in_one_way() {
    let mut trace = trace();
    for task in 100..164 {
        let spawned = event(u64::from(task), Fork, Subject::Task, 1, task);
        trace.lanes[0].events.push(spawned);
        trace.lanes[1].events.push(event(500, Executed, Subject::Task, 0, task));
    }
    assert!(trace.chrome_json() == trace.chrome_json());
}

#[test]
fn strings_are_safe_in_json_and_in_pages() {
    let text = "\"\\\n\u{7f}</script>\u{2028}ü";
    let quoted = quoted(text);
    assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
    assert!(!quoted.contains(['<', '\n', '\u{2028}']));
}
