//! [`Shared`]: data that many tasks read, sent once to each worker.
//!
//! On the wire a shared value is its number. Whoever encodes an argument notes which numbers went into it, and sees to it that
//! the worker has the bytes of each before it is given the call; there they are decoded once, by the first task that asks.

use std::any::{Any, type_name};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::arg::{Arg, decode, encode};
use crate::error::RemoteError;
use crate::os::{self, Mapped};

/// A value that many tasks read, and that each worker is sent once: made by [`Env::share`](crate::Env::share).
///
/// Cloning shares. It goes to tasks as a part of their arguments. When the last clone here is gone, workers forget it. A worker
/// on this machine reads what is large from memory that all of them map.
///
/// ```
/// use raddle::remote::{Env, Plan, Shared};
///
/// fn column(( table, index ): (Shared<Vec<Vec<u32>>>, usize)) -> u32 {
///     table.iter().map(|row| row[index]).sum()
/// }
///
/// let env = Env::new(Plan::threads(2))?;
/// let table = env.share(vec![vec![1, 2], vec![3, 4]])?;
/// let sums = env.map(column, (0..2).map(|index| (table.clone(), index)));
/// assert_eq!(sums.wait().unwrap(), [4, 6]);
/// # Ok::<(), raddle::remote::RemoteError>(())
/// ```
pub struct Shared<T> {
    value: Arc<T>,
    data: Arc<Data>,
}

/// The bytes of a shared value.
pub(crate) struct Data {
    pub(crate) id: u64,
    bytes: OnceLock<Bytes>,
    /// The same, in memory that can be mapped.
    memory: OnceLock<Option<OwnedFd>>,
    /// Whoever has sent it on, and is to have it forgotten.
    senders: Mutex<Vec<Weak<dyn Forget>>>,
}

pub(crate) trait Forget: Send + Sync {
    fn forget(&self, id: u64);
}

/// Where the bytes are.
#[derive(Debug)]
pub(crate) enum Bytes {
    Own(Vec<u8>),
    Mapped(Mapped),
}

impl Bytes {
    fn slice(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Mapped(mapped) => mapped.bytes(),
        }
    }
}

/// From so many bytes on it is cheaper to map them than to send them.
const WORTH_MAPPING: usize = 256 << 10;

/// What this process knows by its number.
enum Known {
    /// Made here.
    Made(Weak<dyn Any + Send + Sync>, Weak<Data>),
    /// Sent here, and not looked at yet.
    Sent(Bytes),
    /// Sent here, and decoded.
    Read(Arc<dyn Any + Send + Sync>, Arc<Data>),
}

fn known() -> MutexGuard<'static, HashMap<u64, Known>> {
    static KNOWN: OnceLock<Mutex<HashMap<u64, Known>>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// What goes into the argument that this thread is encoding.
    static NOTED: RefCell<Option<Vec<Arc<Data>>>> = const { RefCell::new(None) };
}

/// Encodes arguments, and says which shared values are in them.
pub(crate) fn encode_args<A: Arg>(args: &A) -> Result<(Vec<u8>, Vec<Arc<Data>>), RemoteError> {
    let outer = NOTED.replace(Some(Vec::new()));
    let bytes = encode(args);
    let noted = NOTED.replace(outer).unwrap_or_default();
    Ok((bytes?, noted))
}

impl<T: Arg + Sync> Shared<T> {
    pub(crate) fn new(value: T) -> Shared<T> {
        let id = RandomState::new().build_hasher().finish();
        let value = Arc::new(value);
        let data = Arc::new(Data::new(id));
        let weak: Weak<T> = Arc::downgrade(&value);
        known().insert(id, Known::Made(weak, Arc::downgrade(&data)));
        Shared { value, data }
    }

    /// Its bytes, made on first use.
    pub(crate) fn encoded(&self) -> Result<&[u8], RemoteError> {
        if let Some(bytes) = self.data.bytes.get() {
            return Ok(bytes.slice());
        }
        let bytes = encode(&*self.value)?;
        Ok(self.data.bytes.get_or_init(|| Bytes::Own(bytes)).slice())
    }

    /// The one of this number.
    fn find(id: u64) -> Result<Shared<T>, String> {
        let mut known = known();
        let found = match known.get(&id) {
            None => return Err("a shared value that was not sent here".into()),
            Some(Known::Made(value, data)) => value.upgrade().zip(data.upgrade()),
            Some(Known::Read(value, data)) => Some((Arc::clone(value), Arc::clone(data))),
            Some(Known::Sent(bytes)) => {
                let value: T = decode(bytes.slice()).map_err(|error| error.to_string())?;
                let value: Arc<dyn Any + Send + Sync> = Arc::new(value);
                let data = Arc::new(Data::new(id));
                let read = Known::Read(Arc::clone(&value), Arc::clone(&data));
                if let Some(Known::Sent(bytes)) = known.insert(id, read) {
                    let _ = data.bytes.set(bytes);
                }
                Some((value, data))
            }
        };
        drop(known);
        let (value, data) = found.ok_or("a shared value that is gone")?;
        let value = value.downcast().map_err(|_| format!("no shared {}", type_name::<T>()))?;
        Ok(Shared { value, data })
    }
}

/// A worker is sent a shared value.
pub(crate) fn keep(id: u64, bytes: Bytes) {
    known().insert(id, Known::Sent(bytes));
}

/// A worker is to forget a shared value. Tasks that still have it keep it.
pub(crate) fn forget(id: u64) {
    let gone = known().remove(&id);
    drop(gone);
}

impl Data {
    fn new(id: u64) -> Data {
        let senders = Mutex::default();
        Data { id, bytes: OnceLock::new(), memory: OnceLock::new(), senders }
    }

    /// What was encoded when the value was.
    pub(crate) fn slice(&self) -> &[u8] {
        self.bytes.get().map_or(&[], Bytes::slice)
    }

    /// Memory with the bytes, if that is the better way to send them.
    pub(crate) fn memory(&self) -> Option<&OwnedFd> {
        if self.slice().len() < WORTH_MAPPING {
            return None;
        }
        self.memory.get_or_init(|| os::sealed_memory(self.slice()).ok()).as_ref()
    }

    /// Has `sender` told when the value is gone.
    pub(crate) fn sent_by(&self, sender: Weak<dyn Forget>) {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if !senders.iter().any(|known| known.ptr_eq(&sender)) {
            senders.push(sender);
        }
    }
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self.slice()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let made_here = |known: &mut Known| matches!(known, Known::Made(..));
        let mut map = known();
        if map.get_mut(&self.id).is_some_and(made_here) {
            map.remove(&self.id);
        }
        drop(map);
        let senders = self.senders.get_mut().unwrap_or_else(PoisonError::into_inner);
        for sender in senders.drain(..) {
            if let Some(sender) = sender.upgrade() {
                sender.forget(self.id);
            }
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared { value: Arc::clone(&self.value), data: Arc::clone(&self.data) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&*self.value).finish()
    }
}

/// As its number: it means something to tasks only.
impl<T: Arg + Sync> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.encoded().map_err(serde::ser::Error::custom)?;
        NOTED.with_borrow_mut(|noted| {
            if let Some(noted) = noted {
                if !noted.iter().any(|data| data.id == self.data.id) {
                    noted.push(Arc::clone(&self.data));
                }
            }
        });
        serializer.serialize_u64(self.data.id)
    }
}

impl<'de, T: Arg + Sync> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shared<T>, D::Error> {
        Shared::find(u64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
