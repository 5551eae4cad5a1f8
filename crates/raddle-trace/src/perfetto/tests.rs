//! What is written, read as Perfetto reads it: by the messages of its `trace_packet.proto`, `track_descriptor.proto` and
//! `track_event.proto`, and in the order of time.

use std::collections::HashMap;

use prost::Message as _;

use crate::event::{Event, EventKind, EventKind::*, Subject};
use crate::trace::{ClockPair, Lane, Trace};

#[derive(prost::Message)]
struct Written {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(prost::Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(prost::Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(prost::Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(prost::Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

#[derive(prost::Message)]
struct CounterDescriptor {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum Type {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

#[derive(prost::Message)]
struct TrackEvent {
    #[prost(enumeration = "Type", optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

/// What a person sees of it.
#[derive(Debug, Default)]
struct Seen {
    tracks: HashMap<u64, TrackDescriptor>,
    /// Name, category, and from when to when; by the name of the track.
    slices: HashMap<String, Vec<(String, String, u64, u64)>>,
    /// Of each: what it is called, and track and slices that it lies in, at its beginning and at its end.
    flows: HashMap<u64, Vec<(String, String, Vec<String>)>>,
    counters: HashMap<String, Vec<(u64, i64)>>,
}

impl Seen {
    fn name(&self, track: u64) -> String {
        let track = &self.tracks[&track];
        let thread = track.thread.as_ref().map(|thread| &thread.thread_name);
        thread.unwrap_or(&track.name).clone().expect("a track has a name")
    }
}

fn read(bytes: &[u8]) -> Seen {
    let written = Written::decode(bytes).unwrap();
    assert_eq!(written.encoded_len(), bytes.len(), "all of it is known");
    let mut seen = Seen::default();
    let mut events = Vec::new();
    for packet in written.packet {
        match (packet.track_descriptor, packet.track_event) {
            (Some(track), None) => {
                let parent = track.parent_uuid;
                assert!(parent.is_none_or(|parent| seen.tracks.contains_key(&parent)), "{track:?}");
                assert!(seen.tracks.insert(track.uuid.unwrap(), track).is_none(), "told once");
            }
            (None, Some(event)) => {
                let clears = packet.sequence_flags == Some(1);
                assert_eq!(clears, events.is_empty(), "the first one begins the sequence");
                assert_eq!(packet.trusted_packet_sequence_id, Some(1));
                events.push((packet.timestamp.unwrap(), event));
            }
            other => panic!("{other:?}"),
        }
    }
    // Of one time, the order in the file counts.
    events.sort_by_key(|event| event.0);
    let mut open: HashMap<u64, Vec<(String, String, u64)>> = HashMap::new();
    for (at, event) in events {
        let track = event.track_uuid.unwrap();
        let on = seen.name(track);
        let open = open.entry(track).or_default();
        match event.r#type() {
            Type::SliceBegin => {
                let [category] = &event.categories[..] else { panic!("{event:?}") };
                open.push((event.name.unwrap(), category.clone(), at));
            }
            Type::SliceEnd => {
                let (name, category, from) = open.pop().expect("an end has a beginning");
                seen.slices.entry(on).or_default().push((name, category, from, at));
            }
            Type::Instant => {
                let (from, to) = (&event.flow_ids, &event.terminating_flow_ids);
                let [flow] = [&from[..], &to[..]].concat()[..] else { panic!("{event:?}") };
                let within: Vec<String> = open.iter().map(|slice| slice.0.clone()).collect();
                let ends = seen.flows.entry(flow).or_default();
                assert_eq!(ends.len(), to.len(), "it begins, and then it ends");
                ends.push((event.name.unwrap(), on, within));
            }
            Type::Counter => {
                assert!(seen.tracks[&track].counter.is_some());
                seen.counters.entry(on).or_default().push((at, event.counter_value.unwrap()));
            }
            Type::Unspecified => panic!("{event:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "all that begins ends: {open:?}");
    seen
}

fn event(tsc: u64, kind: EventKind, subject: Subject, aux: u16, task: u32) -> Event {
    Event { tsc, kind, flags: subject as u8, aux, task }
}

/// A worker sleeps, is woken, steals what another forked, and does something else once it has run that.
fn trace() -> Trace {
    use Subject::{Any, Fork as F, Region as R, Task as T};
    let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 900, nanos: 9000 });
    trace.names.push("all of it".into());
    trace.places =
        ["src/main.rs:10:5", "src/tree.rs:52:9", "src/other.rs:7:1"].map(str::to_owned).to_vec();
    let fork = Event { flags: Event::fork_flags(F, 1), ..event(12, Fork, F, 2, 9) };
    trace.lanes.push(Lane::new(
        "raddle-0",
        vec![
            event(0, Submit, R, 1, 1),
            event(1, Exec, R, 1, 1),
            fork,
            event(20, Unpark, Any, 1, 3),
            event(60, Join, F, 0, 9),
            event(61, Wait, F, 0, 9),
            event(82, Waited, F, 0, 9),
            event(83, Joined, F, 2, 9),
            event(90, Executed, R, 0, 1),
            event(91, Waited, R, 0, 1),
        ],
    ));
    trace.lanes.push(Lane::new(
        "raddle-1",
        vec![
            event(2, Park, Any, 0, 0),
            event(30, Unparked, Any, 0, 0),
            event(32, Steal, F, 0, 9),
            event(33, Exec, F, 0, 9),
            event(80, Executed, F, 0, 9),
            // At the same moment.
            event(80, Exec, T, 3, 5),
            event(95, Executed, T, 0, 5),
        ],
    ));
    trace.lanes.push(Lane::new("nothing happens here", Vec::new()));
    trace
}

#[test]
fn tracks_are_threads_of_one_process() {
    let seen = read(&trace().perfetto());
    let mut threads = Vec::new();
    for track in seen.tracks.values() {
        if let Some(process) = &track.process {
            assert_eq!(process.process_name.as_deref(), Some("raddle"));
        }
        if let Some(thread) = &track.thread {
            let parent = &seen.tracks[&track.parent_uuid.unwrap()];
            assert_eq!(thread.pid, parent.process.as_ref().unwrap().pid, "{track:?}");
            threads.push((thread.thread_name.clone().unwrap(), thread.tid));
        }
    }
    threads.sort();
    let names: Vec<&str> = threads.iter().map(|thread| thread.0.as_str()).collect();
    assert_eq!(names, ["raddle-0", "raddle-1"]);
    assert!(threads[0].1 != threads[1].1, "{threads:?}");
}

#[test]
fn slices_are_called_after_places_and_lie_where_they_ran() {
    let seen = read(&trace().perfetto());
    let slice = |name: &str, category: &str, from, to| (name.into(), category.into(), from, to);
    assert_eq!(
        seen.slices["raddle-1"],
        [
            slice("parked", "worker", 20, 300),
            slice("spinning", "worker", 300, 320),
            slice("stealing", "worker", 320, 330),
            slice("tree.rs:52", "task", 330, 800),
            slice("stealing", "worker", 800, 800),
            slice("other.rs:7", "task", 800, 950),
            slice("stealing", "worker", 950, 9000),
        ]
    );
    // A region that has a name is called by it.
    assert!(seen.slices["raddle-0"].contains(&slice("all of it", "task", 10, 900)), "{seen:?}");
    let region = &seen.slices["region"];
    assert_eq!(region.last(), Some(&slice("all of it", "region", 0, 910)));
    let phases = &region[..region.len() - 1];
    assert!(phases.iter().all(|slice| slice.1 == "phase"), "{phases:?}");
    assert_eq!(phases.iter().map(|slice| slice.3 - slice.2).sum::<u64>(), 910, "{phases:?}");
}

#[test]
fn each_flow_begins_in_the_slice_that_it_comes_from() {
    let seen = read(&trace().perfetto());
    let mut flows: Vec<_> = seen.flows.values().cloned().collect();
    flows.sort();
    let end = |name: &str, track: &str, within: &[&str]| {
        (name.to_owned(), track.to_owned(), within.iter().map(|&name| name.to_owned()).collect())
    };
    let expected = [
        [
            end("result", "raddle-1", &["tree.rs:52"]),
            // It goes on with what it did before it waited.
            end("result", "raddle-0", &["all of it"]),
        ],
        [end("steal", "raddle-0", &["all of it"]), end("steal", "raddle-1", &["tree.rs:52"])],
        [end("wake", "raddle-0", &["all of it"]), end("wake", "raddle-1", &["spinning"])],
    ];
    assert_eq!(flows, expected.map(|flow: [(String, String, Vec<String>); 2]| flow.to_vec()));
}

#[test]
fn counters_are_called_after_workers() {
    let seen = read(&trace().perfetto());
    let line = vec![(120, 1), (320, 0)];
    assert_eq!(seen.counters, HashMap::from([("queue of raddle-0".to_owned(), line)]));
}
