//! Waiting for descriptors and times.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::thread;
use std::time::{Duration, Instant};

use super::{again, check, own};

/// For how long `soon` looks: two wakes of an idle processor.
const SOON: Duration = Duration::from_micros(40);

/// Tells which descriptors something has happened to.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: takes and returns numbers.
        own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Epoll)
    }

    fn control(&self, what: libc::c_int, fd: RawFd, events: u32, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: key };
        // SAFETY: the event is read only.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, &raw mut event) })?;
        Ok(())
    }

    /// Tells of a descriptor by `key` whenever more has come.
    pub(crate) fn add(&self, fd: &impl AsRawFd, key: u64) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), events as u32, key)
    }

    /// Tells of a descriptor as long as there is something to be read.
    pub(crate) fn add_level(&self, fd: &impl AsRawFd, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), libc::EPOLLIN as u32, key)
    }

    /// Whether to tell as well when there is room to write.
    pub(crate) fn want_room(&self, fd: &impl AsRawFd, key: u64, wanted: bool) -> io::Result<()> {
        let mut events = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
        if wanted {
            events |= libc::EPOLLOUT;
        }
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), events as u32, key)
    }

    /// Tells of nothing but that the other end is gone.
    pub(crate) fn want_nothing(&self, fd: &impl AsRawFd, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), libc::EPOLLET as u32, key)
    }

    /// Waits for something, for so long at most; returns the keys.
    pub(crate) fn wait(&self, keys: &mut Vec<u64>, limit: Option<Duration>) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        let limit = limit.map_or(-1, |limit| limit.as_millis().min(1 << 30) as libc::c_int);
        // SAFETY: room for so many.
        let found = check(unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as _, limit)
        });
        let found = match found {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            found => found?,
        };
        keys.clear();
        keys.extend(events[..found as usize].iter().map(|event| event.u64));
        Ok(())
    }

    /// The same, by `soon`.
    pub(crate) fn wait_soon(&self, keys: &mut Vec<u64>, limit: Duration) -> io::Result<()> {
        let found = soon(|| {
            self.wait(keys, Some(Duration::ZERO))?;
            Ok(!keys.is_empty())
        })?;
        if found { Ok(()) } else { self.wait(keys, Some(limit)) }
    }
}

/// Becomes readable at a time.
#[derive(Debug)]
pub(crate) struct Timer(OwnedFd);

impl Timer {
    pub(crate) fn new() -> io::Result<Timer> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: takes and returns numbers.
        own(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) }).map(Timer)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// In so long, and not when it was told before.
    pub(crate) fn set(&self, time: Duration) -> io::Result<()> {
        let time = time.max(Duration::from_nanos(1));
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: time.as_secs().min(i64::MAX as u64 / 4) as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        };
        let spec = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: the time is read, and there is nowhere to write.
        check(unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut())
        })?;
        Ok(())
    }
}

/// Becomes readable when it is told to, for good.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        // SAFETY: takes and returns numbers.
        own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(Bell)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    pub(crate) fn ring(&self) {
        // SAFETY: eight bytes.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const RINGS).cast(), 8) };
    }
}

static RINGS: u64 = 1;

/// Waits until something has happened to one of these, for so long at most; returns what, for each.
pub(crate) fn poll<const N: usize>(
    fds: [(RawFd, libc::c_short); N],
    limit: Option<Duration>,
) -> io::Result<[libc::c_short; N]> {
    let mut fds = fds.map(|(fd, events)| libc::pollfd { fd, events, revents: 0 });
    let since = limit.filter(|limit| !limit.is_zero()).map(|_| Instant::now());
    again(|| {
        // After a signal, the rest of it.
        let gone = since.map_or(Duration::ZERO, |since| since.elapsed());
        let left = limit.map(|limit| limit.saturating_sub(gone).as_micros().div_ceil(1000));
        let left = left.map_or(-1, |left| left.min(1 << 30) as libc::c_int);
        // SAFETY: so many.
        check(unsafe { libc::poll(fds.as_mut_ptr(), N as libc::nfds_t, left) })
    })?;
    Ok(fds.map(|fd| fd.revents))
}

/// As `poll` without a limit, by `soon`.
pub(crate) fn poll_soon<const N: usize>(
    fds: [(RawFd, libc::c_short); N],
) -> io::Result<[libc::c_short; N]> {
    let mut events = [0; N];
    let found = soon(|| {
        events = poll(fds, Some(Duration::ZERO))?;
        Ok(events != [0; N])
    })?;
    if found { Ok(events) } else { poll(fds, None) }
}

/// Looks for a moment, before the caller sleeps, whether something is there; meanwhile its processor is for others. Whoever is spoken
/// to mostly answers soon, and to be woken by another processor takes longer than that.
fn soon(mut look: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
    let since = Instant::now();
    while since.elapsed() < SOON {
        if look()? {
            return Ok(true);
        }
        thread::yield_now();
    }
    Ok(false)
}
