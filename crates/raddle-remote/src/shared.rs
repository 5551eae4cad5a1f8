//! [`Shared`]: data that many tasks read, sent once to each worker.
//!
//! On the wire a shared value is its number. Whoever encodes an argument notes which numbers went into it, and sees to it that
//! the worker has the bytes of each before it is given the call; there they are decoded once, by the first task that asks.

use std::any::{Any, type_name};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem::ManuallyDrop;
use std::ops::Deref;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::arg::{Arg, because, decode, encode};
use crate::error::RemoteError;
#[cfg(target_os = "linux")]
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
    /// Which process has made it.
    process: u32,
    bytes: OnceLock<Bytes>,
    /// The same, in memory that can be mapped.
    #[cfg(target_os = "linux")]
    memory: OnceLock<Option<OwnedFd>>,
    /// Shared values that are in this one: whoever is sent it needs them too.
    inner: OnceLock<Vec<Arc<Data>>>,
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
    #[cfg(target_os = "linux")]
    Mapped(Mapped),
}

impl Bytes {
    fn slice(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            #[cfg(target_os = "linux")]
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
    /// Sent here; decoded by the first that asks, under a lock of its own: there may be another in it.
    Sent(Arc<Data>, Arc<Mutex<Option<Arc<dyn Any + Send + Sync>>>>),
}

/// What one process knows. The child of a fork begins with nothing: a thread that is not there may have its parent's lock.
struct Table {
    process: u32,
    known: Mutex<HashMap<u64, Known>>,
    /// That of a child.
    next: OnceLock<Box<Table>>,
}

impl Table {
    fn new() -> Table {
        let (known, next) = (Mutex::default(), OnceLock::new());
        Table { process: std::process::id(), known, next }
    }
}

fn known() -> MutexGuard<'static, HashMap<u64, Known>> {
    static FIRST: OnceLock<Table> = OnceLock::new();
    let process = std::process::id();
    let mut table = FIRST.get_or_init(Table::new);
    while table.process != process {
        table = table.next.get_or_init(|| Box::new(Table::new()));
    }
    table.known.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// What is in the value that this thread is encoding or decoding: none when it does not. Without a destructor, as other locals
    /// of the thread may spawn tasks when they go.
    static NOTED: RefCell<ManuallyDrop<Option<Noted>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Replaces what is noted; returns what was.
fn noted(now: Option<Noted>) -> Option<Noted> {
    ManuallyDrop::into_inner(NOTED.replace(ManuallyDrop::new(now)))
}

type Noted = Vec<Arc<Data>>;

/// Encodes arguments, and says which shared values are in them.
pub(crate) fn encode_args<A: Arg>(args: &A) -> Result<(Vec<u8>, Noted), RemoteError> {
    let (bytes, noted) = noting(|| encode(args));
    Ok((bytes?, noted))
}

/// Calls `f`, and says which shared values it has met.
fn noting<R>(f: impl FnOnce() -> R) -> (R, Noted) {
    /// What was noted before goes on afterwards, also after a panic of the user's.
    struct Before(Option<Noted>);
    impl Drop for Before {
        fn drop(&mut self) {
            drop(noted(self.0.take()));
        }
    }
    let before = Before(noted(Some(Vec::new())));
    let result = f();
    let met = noted(None).unwrap_or_default();
    drop(before);
    (result, met)
}

/// Notes a shared value, and those that are in it.
fn note(data: &Arc<Data>) {
    fn add(noted: &mut Noted, data: &Arc<Data>) {
        if !noted.iter().any(|known| known.id == data.id) {
            noted.push(Arc::clone(data));
            data.inner.get().into_iter().flatten().for_each(|inner| add(noted, inner));
        }
    }
    NOTED.with_borrow_mut(|noted| {
        if let Some(noted) = &mut **noted {
            add(noted, data);
        }
    });
}

/// What is in a shared value of a parent's may be given back: by its bytes, as nobody here knows its type.
fn inherit(known: &mut HashMap<u64, Known>, data: &Data) {
    for inner in data.inner.get().into_iter().flatten() {
        let nobody: Weak<()> = Weak::new();
        known.entry(inner.id).or_insert_with(|| Known::Made(nobody, Arc::downgrade(inner)));
        inherit(known, inner);
    }
}

impl<T: Arg + Sync> Shared<T> {
    pub(crate) fn new(value: T) -> Shared<T> {
        let id = RandomState::new().build_hasher().finish();
        let shared = Shared { value: Arc::new(value), data: Arc::new(Data::new(id)) };
        known().insert(id, shared.made());
        shared
    }

    fn made(&self) -> Known {
        let weak: Weak<T> = Arc::downgrade(&self.value);
        Known::Made(weak, Arc::downgrade(&self.data))
    }

    /// Its bytes, made on first use.
    pub(crate) fn encoded(&self) -> Result<&[u8], RemoteError> {
        if let Some(bytes) = self.data.bytes.get() {
            return Ok(bytes.slice());
        }
        let (bytes, inner) = encode_args(&*self.value)?;
        // First, so that whoever sees the bytes sees these.
        let _ = self.data.inner.set(inner);
        Ok(self.data.bytes.get_or_init(|| Bytes::Own(bytes)).slice())
    }

    /// The one of this number.
    fn find(id: u64) -> Result<Shared<T>, String> {
        let known = known();
        let (value, data) = match known.get(&id) {
            None => return Err("a shared value that was not sent here".into()),
            Some(Known::Made(value, data)) => {
                let (value, data) = (value.upgrade(), data.upgrade());
                drop(known);
                let data = data.ok_or("a shared value that is gone")?;
                (value.map_or_else(|| Shared::<T>::again(&data), Ok)?, data)
            }
            Some(Known::Sent(data, read)) => {
                let (data, read) = (Arc::clone(data), Arc::clone(read));
                drop(known);
                (Shared::<T>::read(&data, &read)?, data)
            }
        };
        let value = value.downcast().map_err(|_| format!("no shared {}", type_name::<T>()))?;
        note(&data);
        Ok(Shared { value, data })
    }

    /// Decodes what was made here, where nothing but its bytes is left: a task has given back what only it had.
    fn again(data: &Data) -> Result<Arc<dyn Any + Send + Sync>, String> {
        let value = decode::<T>(data.slice()).map_err(|error| error.to_string())?;
        let value: Arc<dyn Any + Send + Sync> = Arc::new(value);
        if let Some(Known::Made(made, _)) = known().get_mut(&data.id) {
            *made = Arc::downgrade(&value);
        }
        Ok(value)
    }

    /// Decodes what was sent, if that was not done yet.
    fn read(
        data: &Data,
        read: &Mutex<Option<Arc<dyn Any + Send + Sync>>>,
    ) -> Result<Arc<dyn Any + Send + Sync>, String> {
        let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = &*read {
            return Ok(Arc::clone(value));
        }
        let (value, inner) = noting(|| decode::<T>(data.slice()));
        let value: Arc<dyn Any + Send + Sync> = Arc::new(value.map_err(|error| error.to_string())?);
        let _ = data.inner.set(inner);
        *read = Some(Arc::clone(&value));
        Ok(value)
    }
}

/// A worker is sent a shared value.
pub(crate) fn keep(id: u64, bytes: Bytes) {
    let data = Data::new(id);
    let _ = data.bytes.set(bytes);
    let before = known().insert(id, Known::Sent(Arc::new(data), Arc::default()));
    drop(before);
}

/// A worker is to forget a shared value. Tasks that still have it keep it.
pub(crate) fn forget(id: u64) {
    let gone = known().remove(&id);
    drop(gone);
}

impl Data {
    fn new(id: u64) -> Data {
        let senders = Mutex::default();
        Data {
            id,
            process: std::process::id(),
            bytes: OnceLock::new(),
            #[cfg(target_os = "linux")]
            memory: OnceLock::new(),
            inner: OnceLock::new(),
            senders,
        }
    }

    /// What was encoded when the value was.
    pub(crate) fn slice(&self) -> &[u8] {
        self.bytes.get().map_or(&[], Bytes::slice)
    }

    /// Memory with the bytes, if that is the better way to send them.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory(&self) -> Option<&OwnedFd> {
        if self.slice().len() < WORTH_MAPPING {
            return None;
        }
        self.memory.get_or_init(|| os::sealed_memory(self.slice()).ok()).as_ref()
    }

    /// Has `sender` told when the value is gone.
    pub(crate) fn sent_by(&self, sender: Weak<dyn Forget>) {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        // A value may outlast any number of environments.
        senders.retain(|known| known.strong_count() > 0);
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
        self.encoded().map_err(|error| {
            because(&error.to_string());
            serde::ser::Error::custom(error)
        })?;
        if self.data.process != std::process::id() {
            // The child of a fork sends what its parent has made, and perhaps encoded.
            let mut known = known();
            known.entry(self.data.id).or_insert_with(|| self.made());
            inherit(&mut known, &self.data);
        }
        note(&self.data);
        serializer.serialize_u64(self.data.id)
    }
}

impl<'de, T: Arg + Sync> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shared<T>, D::Error> {
        Shared::find(u64::deserialize(deserializer)?).map_err(|why| {
            because(&why);
            serde::de::Error::custom(why)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_gone_are_told_nothing() {
        struct Nobody;
        impl Forget for Nobody {
            fn forget(&self, _: u64) {}
        }
        let data = Data::new(7);
        for _ in 0..100 {
            let sender: Arc<dyn Forget> = Arc::new(Nobody);
            data.sent_by(Arc::downgrade(&sender));
            data.sent_by(Arc::downgrade(&sender));
        }
        assert_eq!(data.senders.lock().unwrap().len(), 1);
    }

    #[test]
    fn what_is_not_there_is_said() {
        let refused = decode::<(u32, Shared<u32>)>(&encode(&(1_u32, 12_345_u64)).unwrap());
        let error = refused.unwrap_err().to_string();
        assert!(error.ends_with(": a shared value that was not sent here"), "{error}");
        // And of nothing else.
        let error = decode::<(u32, u32)>(&[1]).unwrap_err().to_string();
        assert!(!error.contains("shared"), "{error}");
    }
}
