//! The summary: a table for people, 80 columns wide.

use std::fmt::Write as _;
use std::time::Duration;

use crate::edges::Wakes;
use crate::overview::{Overview, SHOWN};
use crate::phases::Phases;
use crate::trace::Trace;
use crate::workers::Times;

impl Trace {
    /// What happened, as a table that fits 80 columns: regions and their phases, workers and their
    /// time, steals, wakes, and what follows.
    #[inline]
    pub fn summary(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_summary(&mut out);
        out
    }

    #[inline]
    fn write_summary(&self, out: &mut String) -> std::fmt::Result {
        let regions = Overview::of(self);
        let span = Duration::from_nanos(self.end.nanos.saturating_sub(self.start.nanos));
        // Spare threads and guests come on top of the pool's.
        let threads = match self.threads as usize {
            pool if (1..regions.width).contains(&pool) => {
                format!("about {} at once, of a pool of {pool}", counted(regions.width, "thread"))
            }
            _ => counted(regions.width, "thread"),
        };
        let text = format!(
            "{} on {} in {}, {} dropped; {threads}, {}",
            counted(self.len(), "event"),
            counted(self.lanes.iter().filter(|lane| lane.does_something()).count(), "lane"),
            time(span),
            self.drops(),
            counted(regions.count, "region")
        );
        wrap(out, &text);
        write_regions(out, &regions)?;
        let (workers, wakes) = (self.workers(), self.wakes());
        self.write_workers(out, &workers)?;
        self.write_edges(out, &wakes, &regions)?;
        let advice = self.advice_from(&regions, &workers, &wakes);
        for advice in &advice {
            out.push('\n');
            wrap(out, &advice.to_string());
        }
        Ok(())
    }

    /// The worker whose tasks were done last of all in the longest region, and how much later than the others'.
    #[inline]
    fn last_to_finish(&self, regions: &Overview) -> Option<(String, Duration)> {
        let region = regions.longest()?;
        let from = region.start.as_nanos() as u64;
        let to = from + region.total.as_nanos() as u64;
        // Of each lane the last end within the region: found from behind.
        let ends = self.lanes.iter().enumerate().filter_map(|(number, lane)| {
            let ends = lane.events.iter().rev().filter(|e| e.kind == crate::EventKind::Executed);
            let mut ends = ends.map(|e| self.offset(e.tsc)).skip_while(|&at| at > to);
            Some((ends.next().filter(|&at| at >= from)?, number))
        });
        let mut ends: Vec<(u64, usize)> = ends.collect();
        ends.sort_unstable();
        let (last, before) = (ends.last()?, ends.iter().rev().nth(1)?);
        Some((self.lanes[last.1].name.clone(), Duration::from_nanos(last.0 - before.0)))
    }

    #[inline]
    fn write_workers(&self, out: &mut String, workers: &[Times]) -> std::fmt::Result {
        writeln!(
            out,
            "\n{:<18} {:>5} {:>5} {:>5} {:>5} {:>5} {:>6} {:>6} {:>5} {:>5} {:>5}",
            "worker",
            "busy",
            "lost",
            "steal",
            "spin",
            "wait",
            "locked",
            "parked",
            "tasks",
            "stole",
            "woke"
        )?;
        let span = self.end.nanos.saturating_sub(self.start.nanos).max(1);
        for times in workers.iter().take(SHOWN) {
            // Stamps beyond the trace's end, in a file of nonsense, may take longer than it.
            let part = |time: Duration| match time.as_nanos() as f64 * 100.0 / span as f64 {
                percent if percent < 99.95 => format!("{percent:.1}%"),
                percent if percent < 999.5 => format!("{percent:.0}%"),
                _ => ">999%".into(),
            };
            writeln!(
                out,
                "{:<18} {:>5} {:>5} {:>5} {:>5} {:>5} {:>6} {:>6} {:>5} {:>5} {:>5}",
                short(&self.lanes[times.lane].name, 18),
                part(times.busy),
                part(times.lost),
                part(times.stealing),
                part(times.spinning),
                part(times.waiting),
                part(times.locked),
                part(times.parked),
                number(times.tasks),
                number(times.steals),
                number(times.wakes)
            )?;
        }
        if workers.len() > SHOWN {
            writeln!(out, "  and {} more", workers.len() - SHOWN)?;
        }
        Ok(())
    }

    #[inline]
    fn write_edges(&self, out: &mut String, wakes: &Wakes, regions: &Overview) -> std::fmt::Result {
        out.push('\n');
        let row = |out: &mut String, name: &str, times: &[u64]| {
            if times.is_empty() {
                return Ok(());
            }
            let at = |part| time(Wakes::quantile(times, part));
            writeln!(
                out,
                "{name:<22} {:>6}x  median {:>8}  90 % {:>8}  most {:>8}",
                number(times.len() as u64),
                at(0.5),
                at(0.9),
                at(1.0)
            )
        };
        row(out, "wake until awake", &wakes.latency)?;
        row(out, "wake, cost to waker", &wakes.cost)?;
        let lengths = self.lengths();
        row(out, "length of a task", &lengths.nanos)?;
        if !lengths.nanos.is_empty() {
            let [a, b, c, d, e, f] = lengths.decades().map(|count| number(count as u64));
            writeln!(
                out,
                "  below 100 ns {a}, 1 us {b}, 10 us {c}, 100 us {d}, 1 ms {e}, above {f}"
            )?;
        }
        let last = self.last_to_finish(regions);
        if let Some((name, after)) = last {
            wrap(
                out,
                &format!(
                    "last to finish: {}, {} after the one before",
                    short(&name, 30),
                    time(after)
                ),
            );
        }
        if wakes.clamped > 0 {
            wrap(
                out,
                &format!(
                    "{} from lane to lane came out negative, and count as 0",
                    counted(wakes.clamped, "step")
                ),
            );
        }
        Ok(())
    }
}

#[inline]
fn write_regions(out: &mut String, regions: &Overview) -> std::fmt::Result {
    if regions.count == 0 {
        return Ok(());
    }
    let busy: Vec<String> = regions.longest.iter().map(busy).collect();
    // With a thousand threads there is less room for names.
    let figures = busy.iter().map(String::len).max().unwrap_or(0).max(7);
    let room = 17.min(25_usize.saturating_sub(figures));
    writeln!(
        out,
        "\n{:<room$} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>figures$}",
        "region [us]", "hand-off", "ramp-up", "full", "catch-up", "result", "total", "busy"
    )?;
    let row = |out: &mut String, name: &str, times: [Duration; 7], busy: &str| {
        let [first, ramp_up, full, catch_up, result, unattributed, total] = times;
        writeln!(
            out,
            "{:<room$} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>figures$}",
            short(name, room),
            micros(first),
            micros(ramp_up),
            micros(full),
            micros(catch_up),
            micros(result),
            micros(total),
            busy
        )?;
        if !unattributed.is_zero() {
            writeln!(out, "  unattributed {} us of it", micros(unattributed))?;
        }
        Ok(())
    };
    for (region, busy) in regions.longest.iter().zip(&busy) {
        let name = region.name.clone().unwrap_or_else(|| format!("#{}", region.task));
        let [a, b, c, d, e, f] = region.parts().map(|(_, time)| time);
        row(out, &name, [a, b, c, d, e, f, region.total], busy)?;
    }
    if let Some(longest) = regions.longest() {
        let at_once = longest.levels.iter().enumerate().rev().filter(|(_, time)| !time.is_zero());
        let most = at_once.clone().count().saturating_sub(5);
        // The last number stands for those that there was no room for, too.
        let last = longest.levels.len() - 1;
        let more = |n| if n == last && n < longest.peak { " or more" } else { "" };
        let part = |(n, spent): (usize, &Duration)| format!("{n}{} for {}", more(n), time(*spent));
        let mut parts: Vec<String> = at_once.take(5).map(part).collect();
        if most > 0 {
            parts.push(format!("and {}", counted(most, "other number")));
        }
        let name = longest.name.clone().unwrap_or_else(|| format!("#{}", longest.task));
        wrap(out, &format!("busy at once in {}: {}", short(&name, 30), parts.join(", ")));
    }
    if regions.count > regions.longest.len() {
        let shorter = regions.count - regions.longest.len();
        writeln!(out, "  and {}", counted(shorter, "shorter one"))?;
    }
    if let Some(median) = regions.median {
        row(out, "median", median, "")?;
    }
    let clamped = regions.clamped;
    if clamped > 0 {
        let (what, were) = if clamped == 1 { ("boundary", "was") } else { ("boundaries", "were") };
        writeln!(out, "{clamped} {what} of phases came out negative, and {were} moved")?;
    }
    Ok(())
}

/// How many threads were busy of how many: in eight characters, if they have room for both.
#[inline]
fn busy(region: &Phases) -> String {
    let with = |digits| format!("{:.digits$}/{}", region.average(), region.width);
    [2, 1].map(with).into_iter().find(|text| text.len() <= 8).unwrap_or_else(|| with(0))
}

/// Microseconds in at most eight characters.
#[inline]
fn micros(time: Duration) -> String {
    let us = time.as_nanos() as f64 / 1e3;
    if us < 1e6 { format!("{us:.1}") } else { format!("{us:.2e}") }
}

/// A time in at most eight characters.
#[inline]
pub(crate) fn time(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    match ns {
        ns if ns < 999.5 => format!("{ns:.0} ns"),
        ns if ns < 999_950.0 => format!("{:.1} us", ns / 1e3),
        ns if ns < 999_950_000.0 => format!("{:.1} ms", ns / 1e6),
        ns if ns < 999_995e6 => format!("{:.2} s", ns / 1e9),
        ns if ns < 9_999_995e8 => format!("{:.0} s", ns / 1e9),
        ns => format!("{:.1e} s", ns / 1e9),
    }
}

/// So many of something.
#[inline]
pub(crate) fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// What is said of events that are not there.
#[inline]
pub(crate) fn lost(events: u64) -> String {
    format!("{events} {}", if events == 1 { "event was lost" } else { "events were lost" })
}

/// A count in at most five characters.
#[inline]
fn number(count: u64) -> String {
    match count {
        0..=99_999 => count.to_string(),
        100_000..=999_499 => format!("{:.0}k", count as f64 / 1e3),
        999_500..=99_949_999 => format!("{:.1}M", count as f64 / 1e6),
        _ => format!("{:.0}M", count as f64 / 1e6),
    }
}

/// A name of which no character breaks the line, or tells a terminal what to do: a file's names are anything.
#[inline]
pub(crate) fn clean(name: &str) -> String {
    // Those that end lines, and those that turn what follows around, are no control characters to Rust.
    let breaks = |c| matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    name.chars().map(|c| if c.is_control() || breaks(c) { '?' } else { c }).collect()
}

/// A clean name in at most so many characters.
#[inline]
pub(crate) fn short(name: &str, most: usize) -> String {
    let name = clean(name);
    if name.chars().count() <= most {
        return name;
    }
    name.chars().take(most - 2).chain("..".chars()).collect()
}

/// A paragraph, its lines within 80 columns.
#[inline]
pub(crate) fn wrap(out: &mut String, text: &str) {
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 80 {
            out.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind::*};
    use crate::trace::{ClockPair, Lane};

    #[test]
    fn the_table_fits_eighty_columns_whatever_the_figures() {
        for scale in [1, 1000, 1_000_000_000_000] {
            let mut trace = Trace::new(
                ClockPair { tsc: 0, nanos: 0 },
                ClockPair { tsc: 1000, nanos: 1000 * scale },
            );
            trace.names.push("a name that is much too long\nfor any table".into());
            trace.lanes.push(Lane {
                dropped: u64::MAX >> 20,
                ..Lane::new("a worker with a name as long as this", Vec::new())
            });
            for task in 0..20 {
                let at = u64::from(task) * 50;
                trace.lanes[0].events.extend([
                    Event { aux: 1, ..Event::new(at, Submit, task) },
                    Event::new(at + 3, Exec, task),
                    Event::new(at + 3, Unpark, 4),
                    Event::new(at + 40, Executed, task),
                    Event::new(at + 49, Waited, task),
                ]);
            }
            trace.lanes[0].events.push(Event::new(999, Submit, 77));
            let text = trace.summary();
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", line.chars().count());
            }
            assert!(text.contains(&format!("{} dropped", u64::MAX >> 20)), "{text}");
        }
    }

    #[test]
    fn the_table_fits_eighty_columns_however_many_threads_there_are() {
        for (threads, busy) in [
            (4, "4.00/4"),
            (64, "64.00/64"),
            (100, "100/100"),
            (1_000, "1000/1000"),
            (10_000, "10000/10000"),
        ] {
            let pair = |nanos| ClockPair { tsc: nanos, nanos };
            let mut trace = Trace::new(pair(0), pair(1000));
            trace.threads = threads;
            trace.names.push("a name that is much too long".into());
            trace.lanes = (0..threads)
                .map(|n| {
                    let events = [(0, Exec), (1000, Executed)];
                    let events = events.map(|(tsc, kind)| Event::new(tsc, kind, 1));
                    Lane::new(format!("raddle-{n}"), events.into())
                })
                .collect();
            let submit = Event { aux: 1, ..Event::new(0, Submit, 1) };
            trace.lanes[0].events.insert(0, submit);
            trace.lanes[0].events.push(Event::new(1000, Waited, 1));
            let text = trace.summary();
            assert!(text.contains(&format!(" {busy}\n")), "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", line.chars().count());
            }
            let title = text.lines().find(|line| line.starts_with("region ")).unwrap();
            let row = text.lines().find(|line| line.ends_with(busy)).unwrap();
            assert_eq!(title.len(), row.len(), "{text}");
        }
    }

    #[test]
    fn the_table_says_what_executing_hides() {
        let pair = |nanos| ClockPair { tsc: nanos, nanos };
        let mut trace = Trace::new(pair(0), pair(1_000_000));
        // Half a processor for 800 us in tasks, of 1000, of which a lock has taken 100.
        let cpu = |tsc, tenths| Event { aux: 1, ..Event::new(tsc, Cpu, tenths) };
        trace.lanes.push(Lane::new(
            "raddle-spare-10",
            vec![
                Event { aux: 1, ..Event::new(0, Submit, 1) },
                Event::new(0, Exec, 1),
                cpu(0, 0),
                cpu(800_000, 4000),
                Event::new(800_000, LockWait, 7),
                Event::new(900_000, LockHad, 7),
                cpu(900_000, 4000),
                Event::new(900_000, Executed, 1),
            ],
        ));
        trace.threads = 1;
        let text = trace.summary();
        assert!(
            text.starts_with("8 events on 1 lane in 1.0 ms, 0 dropped; 1 thread, 1 region\n"),
            "{text}"
        );
        let row = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap();
            assert!(line.len() <= 80, "{line}");
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let (titles, values) = (row("worker "), row("raddle-spare-10 "));
        for (title, value) in [("busy", "80.0%"), ("lost", "40.0%"), ("locked", "10.0%")] {
            let at = titles.iter().position(|other| other == title).unwrap();
            assert_eq!(values[at], value, "{title}: {text}");
        }
    }

    /// It told of so many threads, and the pool had two.
    #[test]
    fn spare_threads_are_not_told_as_the_pool_s() {
        let pair = |nanos| ClockPair { tsc: nanos, nanos };
        let mut trace = Trace::new(pair(0), pair(1_000));
        for lane in 0..5 {
            let events = [(0, Exec), (1_000, Executed)];
            let events = events.map(|(tsc, kind)| Event::new(tsc, kind, lane));
            trace.lanes.push(Lane::new(format!("raddle-{lane}"), events.into()));
        }
        for (threads, told) in [
            (2, "; about 5 threads at once, of a pool of 2, 0 regions\n"),
            (5, "; 5 threads, 0 regions\n"),
            (0, "; 5 threads, 0 regions\n"),
        ] {
            trace.threads = threads;
            let text = trace.summary();
            assert!(text.lines().next().unwrap().len() <= 80, "{text}");
            assert!(text.replace("\n  ", " ").contains(told), "{text}");
        }
    }

    #[test]
    fn a_name_neither_ends_a_line_nor_turns_it_around() {
        assert_eq!(clean("a\nb\u{1b}[31mc\u{2028}d\u{202e}e\u{2067}f"), "a?b?[31mc?d?e?f");
        assert_eq!(clean("日本語 é \u{200d}"), "日本語 é \u{200d}");
    }

    #[test]
    fn numbers_and_times_stay_short() {
        let numbers = [0, 99_999, 100_000, 999_500, 12_345_678, 123_456_789].map(number);
        assert_eq!(numbers, ["0", "99999", "100k", "1.0M", "12.3M", "123M"]);
        let times =
            [999, 999_400, 1_000_000, 12_345_678_901].map(|t| time(Duration::from_nanos(t)));
        assert_eq!(times, ["999 ns", "999.4 us", "1.0 ms", "12.35 s"]);
    }
}
