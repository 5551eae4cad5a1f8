//! Pairs of sockets, and descriptors that go over them.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::{again, check, check_len, poll};

/// So many descriptors come along with one message at most.
const MOST_FDS: usize = 4;

/// Two ends of a stream.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: room for two.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: new, and nobody else's.
    let [a, b] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((a, b))
}

/// Room for the control part of a message.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; 64]);

impl Control {
    fn new() -> Control {
        Control([MaybeUninit::uninit(); 64])
    }
}

const _: () = {
    // SAFETY: arithmetic.
    let space = unsafe { libc::CMSG_SPACE((MOST_FDS * size_of::<RawFd>()) as u32) };
    assert!(space as usize <= size_of::<Control>());
};

/// Sends what fits of these slices, and a descriptor with the first byte.
pub(crate) fn send(
    socket: &impl AsRawFd,
    slices: &[io::IoSlice<'_>],
    fd: Option<BorrowedFd<'_>>,
    wait: bool,
) -> io::Result<usize> {
    // SAFETY: all zero is an empty message.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len() as _;
    let mut control = Control::new();
    if let Some(fd) = fd {
        message.msg_control = (&raw mut control).cast();
        // SAFETY: arithmetic.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
        // SAFETY: the message has a control part, with room for one header.
        let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: in `control`, aligned.
        let part = unsafe { &mut *header };
        part.cmsg_level = libc::SOL_SOCKET;
        part.cmsg_type = libc::SCM_RIGHTS;
        // SAFETY: arithmetic.
        part.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as _;
        // SAFETY: a header in `control`.
        let data = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: there is room for one behind it.
        unsafe { data.cast::<RawFd>().write_unaligned(fd.as_raw_fd()) };
    }
    let flags = libc::MSG_NOSIGNAL | if wait { 0 } else { libc::MSG_DONTWAIT };
    again(|| {
        // SAFETY: the message's parts outlive the call.
        check_len(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) })
    })
}

/// The other end reads what was sent, and then the end.
pub(crate) fn say_no_more(socket: &impl AsRawFd) {
    // SAFETY: no pointers.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) };
}

/// Sends all of it, and waits as long as that takes.
pub(crate) fn send_all(socket: &impl AsRawFd, parts: &[&[u8]]) -> io::Result<()> {
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let mut sent = 0;
    while sent < total {
        let mut skip = sent;
        let mut slices = [io::IoSlice::new(&[]); 4];
        let mut used = 0;
        for part in parts {
            match part.get(skip..) {
                Some([]) | None => skip -= part.len(),
                Some(rest) => {
                    slices[used] = io::IoSlice::new(rest);
                    used += 1;
                    skip = 0;
                }
            }
        }
        sent += match send(socket, &slices[..used], None, true) {
            // Somebody has made it nonblocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll::poll([(socket.as_raw_fd(), libc::POLLOUT)], None)?;
                0
            }
            sent => sent?,
        };
    }
    Ok(())
}

/// Receives what there is, and descriptors that came with it.
pub(crate) fn receive(
    socket: &impl AsRawFd,
    to: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut slice = io::IoSliceMut::new(to);
    let mut control = Control::new();
    // SAFETY: all zero is an empty message.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = (&raw mut slice).cast();
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    let read = again(|| {
        let flags = libc::MSG_CMSG_CLOEXEC;
        // SAFETY: the message's parts outlive the call.
        check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) })
    })?;
    // SAFETY: the kernel has filled the control part.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: in `control`, aligned.
    while let Some(part) = unsafe { header.as_ref() } {
        if part.cmsg_level == libc::SOL_SOCKET && part.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: arithmetic.
            let empty = unsafe { libc::CMSG_LEN(0) } as usize;
            let count = (part.cmsg_len - empty) / size_of::<RawFd>();
            // SAFETY: a header in `control`.
            let data = unsafe { libc::CMSG_DATA(header) }.cast::<RawFd>();
            for index in 0..count {
                // SAFETY: the kernel has written so many.
                let data = unsafe { data.add(index) };
                // SAFETY: as above.
                let fd = unsafe { data.read_unaligned() };
                // SAFETY: new, and nobody else's.
                fds.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        // SAFETY: of the same message.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(read)
}

/// Ends both directions, for all copies of the descriptor.
pub(crate) fn shut(socket: &impl AsRawFd) {
    // SAFETY: takes and returns numbers.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}

/// The process that made a pair of sockets.
pub(crate) fn maker(socket: &impl AsRawFd) -> io::Result<libc::pid_t> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: room for so much.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    })?;
    Ok(credentials.pid)
}
