//! Files whole, cut, damaged and made of nonsense.

use proptest::prelude::*;

use super::*;
use crate::event::{Event, EventKind};
use crate::trace::{ClockPair, Lane, Trace};

fn trace() -> Trace {
    let mut trace = Trace::new(
        ClockPair { tsc: 1 << 40, nanos: 7 },
        ClockPair { tsc: (1 << 40) + 99_999, nanos: 50_000 },
    );
    trace.threads = 2;
    trace.names = vec!["sort".into(), "größer".into()];
    trace.places = vec!["src/sort.rs:52:9".into()];
    trace.facts = vec![("level".into(), "tasks".into())];
    let events = |count: u32| {
        let kind = |i: u32| EventKind::ALL[i as usize % EventKind::ALL.len()];
        (0..count).map(|i| Event { aux: 2, ..Event::new(u64::from(i) * 3, kind(i), i) }).collect()
    };
    trace.lanes.push(Lane::new("raddle-0", events(9_000)));
    trace.lanes.push(Lane { first: 17, dropped: 17, ..Lane::new("raddle-1", events(5)) });
    trace.lanes.push(Lane { dropped: 3, ..Lane::new("guest 0", events(1)) });
    trace.lanes.push(Lane { dropped: 4, ..Lane::new("lost", Vec::new()) });
    trace.lanes.push(Lane::new("", Vec::new()));
    trace
}

fn bytes(trace: &Trace) -> Vec<u8> {
    let mut file = Vec::new();
    trace.write(&mut file).unwrap();
    file
}

#[test]
fn what_is_written_comes_back() {
    let trace = trace();
    assert_eq!(Trace::read(&bytes(&trace)[..]).unwrap(), trace);
    let path = std::env::temp_dir().join(format!("raddle-trace-{}", std::process::id()));
    trace.save(&path).unwrap();
    assert_eq!(Trace::load(&path).unwrap(), trace);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Trace::load(&path), Err(LoadError::Io(_))));
}

#[test]
fn pieces_make_up_the_whole_and_gaps_are_counted() {
    let whole = trace();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut part = whole.clone();
    part.lanes[0].events.truncate(5_000);
    writer.append(&part).unwrap();
    // By the next time the ring has overwritten all but the last 3000, of which 10 too many.
    let mut later = whole.clone();
    later.lanes[0].events.drain(..5_010);
    later.lanes[0].first = 5_010;
    later.lanes[0].dropped = 5_010;
    writer.append(&later).unwrap();
    let read = Trace::read(&writer.finish().unwrap()[..]).unwrap();
    let mut expected = whole;
    expected.lanes[0].events.drain(5_000..5_010);
    expected.lanes[0].dropped = 10;
    let gap = Event::new(expected.lanes[0].events[4_999].tsc, EventKind::Drop, 10);
    expected.lanes[0].events.insert(5_000, gap);
    assert_eq!(read, expected);
}

#[test]
fn wherever_it_is_cut_the_error_says_where_and_the_rest_is_saved() {
    let whole = trace();
    let file = bytes(&whole);
    let mut most = 0;
    for end in (0..file.len()).filter(|end| end % 97 == 0 || *end < 300 || *end > file.len() - 40) {
        let cut = &file[..end];
        match Trace::read_damaged(cut) {
            Ok((saved, Some(damage))) => {
                assert!(damage.offset <= end as u64);
                let events = &saved.lanes.first().map_or(&[][..], |lane| &lane.events);
                assert_eq!(**events, whole.lanes[0].events[..events.len()]);
                assert!(events.len() >= most, "never less of a longer file");
                most = events.len();
            }
            Ok((_, None)) => panic!("{end} of {} bytes pass for a file", file.len()),
            Err(LoadError::Foreign(damage) | LoadError::Damaged(damage)) => {
                assert!(damage.offset <= end as u64 && end < 80, "{end}: {damage}");
            }
            Err(LoadError::Io(error)) => panic!("{error}"),
        }
        assert!(Trace::read(cut).is_err());
    }
    assert_eq!(most, 9_000);
}

#[test]
fn what_is_whole_of_a_piece_that_is_cut_is_kept() {
    let mut small = trace();
    small.lanes.truncate(1);
    small.lanes[0].events.truncate(100);
    let file = bytes(&small);
    // The end is 20 bytes; before it lies the only chunk of events.
    let (saved, damage) = Trace::read_damaged(&file[..file.len() - 20 - 16 * 40 - 3]).unwrap();
    assert_eq!(saved.lanes[0].events, small.lanes[0].events[..59]);
    assert!(damage.unwrap().cut);
    let mut flipped = file.clone();
    flipped[file.len() - 30] ^= 1;
    assert!(!Trace::read_damaged(&flipped[..]).unwrap().1.unwrap().cut, "that is damage");
}

#[test]
fn two_buffers_of_a_lane_become_one_list() {
    let mut trace = trace();
    trace.lanes.truncate(1);
    let events = std::mem::take(&mut trace.lanes[0].events);
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.describe(&trace).unwrap();
    let ring = |odd: bool| {
        let of = events.iter().enumerate().filter(move |(at, _)| (at % 7 == 3) == odd);
        of.map(|(_, event)| event.to_bytes()).collect::<Vec<_>>()
    };
    // In pieces that overlap in time.
    let (structure, forks) = (ring(true), ring(false));
    for (ring, events, first) in [
        (Ring::Forks, &forks[..4000], 0),
        (Ring::Structure, &structure[..], 0),
        (Ring::Forks, &forks[4000..], 4000),
    ] {
        writer.events(0, ring, first, 0, events.iter().copied()).unwrap();
    }
    let read = Trace::read(&writer.finish().unwrap()[..]).unwrap();
    assert!(read.lanes[0].events == events);
    assert_eq!(read.drops(), 0);
}

#[test]
fn version_1_has_the_queue_s_length_where_places_are_now() {
    let mut trace = trace();
    trace.lanes.truncate(1);
    let fork = Event { aux: 5, ..Event::new(3, EventKind::Fork, 1) };
    trace.lanes[0].events = vec![fork];
    (trace.places, trace.facts) = (Vec::new(), Vec::new());
    let mut file = bytes(&trace);
    file[8] = 1;
    let read = Trace::read(&file[..]).unwrap().lanes[0].events[0];
    assert_eq!((read.length(), read.aux), (5, 0));
}

#[test]
fn every_flipped_byte_is_noticed() {
    let mut small = trace();
    small.lanes[0].events.truncate(20);
    let file = bytes(&small);
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x41;
        let error = Trace::read(&damaged[..]).expect_err("damaged");
        let text = error.to_string();
        assert!(text.starts_with("byte ") && !text.contains('\n'), "{at}: {text}");
    }
}

#[test]
fn foreign_files_are_told_apart() {
    for (content, told) in [
        (&b""[..], "byte 0: the file is empty"),
        (b"\x89PNG\r\n\x1a\n", "byte 0: not a trace: it does not begin with RADDLETR"),
        (b"RADISH\0\0\0\0\0\0\0\0\0", "byte 3: not a trace: it does not begin with RADDLETR"),
        (b"RADDLE", "byte 6: the file ends within its header"),
        (b"RADDLETR\x09\0\0\0", "byte 8: format version 9, and this program reads versions 1 to 2"),
    ] {
        assert_eq!(Trace::read(content).unwrap_err().to_string(), told);
    }
}

#[test]
fn lengths_that_lie_cost_no_memory() {
    for length in [u32::MAX, MOST_PAYLOAD, 1 << 16] {
        let mut file = bytes(&trace())[..12].to_vec();
        file.extend(4_u32.to_le_bytes());
        file.extend(length.to_le_bytes());
        file.extend([0; 32]);
        let error = Trace::read(&file[..]).unwrap_err().to_string();
        assert!(error.starts_with("byte 12: "), "{error}");
    }
}

/// Analyses make room for each thread.
#[test]
fn a_number_of_threads_that_lies_costs_no_memory() {
    let header = &bytes(&trace())[..12];
    let clock = |threads: u32| {
        let payload = [&[0; 32][..], &threads.to_le_bytes(), &1_u32.to_le_bytes()].concat();
        [header, &chunk(chunk::CLOCK, &payload)].concat()
    };
    let error = Trace::read_damaged(&clock(u32::MAX)[..]).unwrap_err().to_string();
    assert_eq!(error, "byte 12: 4294967295 threads: at most 65536");
    let (trace, _) = Trace::read_damaged(&clock(MOST_LANES)[..]).unwrap();
    assert_eq!(trace.threads, MOST_LANES);
}

#[test]
fn more_events_lost_than_can_be_counted_are_as_many_as_can_be() {
    let mut file = bytes(&trace())[..12].to_vec();
    let mut clock = [0; 40];
    clock[36] = 2;
    file.extend(chunk(chunk::CLOCK, &clock));
    for lane in 0..2_u32 {
        file.extend(chunk(chunk::LANE, &lane.to_le_bytes()));
    }
    for (lane, ring) in [(0_u32, 0_u32), (0, 1), (1, 0), (1, 1)] {
        let numbers = [1_u64 << 63, 0].map(u64::to_le_bytes).concat();
        let payload = [&lane.to_le_bytes()[..], &ring.to_le_bytes(), &numbers].concat();
        file.extend(chunk(chunk::EVENTS, &payload));
    }
    file.extend(chunk(chunk::END, &[0; 8]));
    let read = Trace::read(&file[..]).unwrap();
    assert_eq!((read.lanes[0].dropped, read.drops()), (u64::MAX, u64::MAX));
    assert!(read.summary().contains(&format!("{} dropped", u64::MAX)), "{}", read.summary());
    bytes(&read);
}

#[test]
fn a_file_does_not_say_itself_what_is_wrong_with_it() {
    let mut trace = trace();
    let known = trace.facts.clone();
    trace.facts.insert(0, ("damage".into(), "none at all".into()));
    assert_eq!(Trace::read(&bytes(&trace)[..]).unwrap().facts, known);
    let mut file = bytes(&trace)[..12].to_vec();
    file.extend(chunk(chunk::CLOCK, &[0; 40]));
    file.extend(chunk(chunk::FACT, b"damage=none at all"));
    file.extend(chunk(chunk::FACT, b"level=tasks"));
    file.extend(chunk(chunk::END, &[0; 8]));
    assert_eq!(Trace::read(&file[..]).unwrap().facts, known);
}

/// A chunk with a good checksum, whatever it holds.
fn chunk(kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(chunk::checksum(kind, payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// How many files of nonsense are tried; `RADDLE_FUZZ_CASES` says otherwise.
fn cases() -> ProptestConfig {
    let cases = std::env::var("RADDLE_FUZZ_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases.unwrap_or(2000))
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Chunks of nonsense whose checksums are right: every path of the reader, and never a panic; what is
    /// read can be analysed and shown.
    #[test]
    fn nonsense_never_panics(
        chunks in prop::collection::vec((0_u32..9, prop::collection::vec(any::<u8>(), 0..120)), 0..8),
        lanes in 0_u32..4,
    ) {
        let mut file = MAGIC.to_vec();
        file.extend(VERSION.to_le_bytes());
        let mut clock = vec![0; 36];
        clock.extend(lanes.to_le_bytes());
        file.extend(chunk(chunk::CLOCK, &clock));
        for lane in 0..lanes {
            file.extend(chunk(chunk::LANE, &lane.to_le_bytes()));
        }
        for (kind, mut payload) in chunks {
            if kind == chunk::EVENTS && payload.len() >= 40 {
                payload.truncate(payload.len() / 16 * 16 + 8 - 16 * usize::from(payload.len() % 16 < 8));
                payload[..24].fill(0);
                payload[0] %= 4;
                for at in (24 + 8..payload.len()).step_by(16) {
                    payload[at] = payload[at] % 31 + 1;
                }
            }
            file.extend(chunk(kind, &payload));
        }
        if let Ok((trace, _)) = Trace::read_damaged(&file[..]) {
            for region in trace.phases() {
                let sum: std::time::Duration = region.parts().iter().map(|part| part.1).sum();
                prop_assert_eq!(sum, region.total);
            }
            for line in trace.summary().lines() {
                prop_assert!(line.chars().count() <= 80, "{}", line);
            }
            trace.html();
            _ = trace.scale(&[]).map(|scale| scale.text());
            prop_assert!(serde_json::from_str::<serde_json::Value>(&trace.chrome_json()).is_ok());
        }
    }

    /// Bytes of a good file, some of them changed, in any number of places.
    #[test]
    fn damage_never_panics(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut small = trace();
        small.lanes[0].events.truncate(40);
        let mut file = bytes(&small);
        for (at, byte) in flips {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(cut.index(file.len() + 1));
        let _ = Trace::read_damaged(&file[..]);
    }
}
