//! Converts the types of `wasi:filesystem` between WASI 0.2 and 0.3.

use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types as errors02;
use wasmtime_wasi::p2::bindings::sync::filesystem::types as wasi02;
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;
use wasmtime_wasi::p3::bindings::filesystem::types as wasi03;

/// A type of one generation that has an equal in the other.
pub(super) trait Convert<T> {
    fn convert(self) -> T;
}

impl<T> Convert<T> for T {
    fn convert(self) -> T {
        self
    }
}

/// Converts values to those of the same names, and others as they are given.
macro_rules! cases {
    ($type:ident, $from:ident => $to:ident: $($name:ident)*; $($other:pat => $value:expr),*) => {
        impl Convert<$to::$type> for $from::$type {
            fn convert(self) -> $to::$type {
                match self {
                    $($from::$type::$name => $to::$type::$name,)*
                    $($other => $value,)*
                }
            }
        }
    };
}

/// Converts flags to those of the same names.
macro_rules! flags {
    ($type:ident, $from:ident => $to:ident: $($name:ident)*) => {
        impl Convert<$to::$type> for $from::$type {
            fn convert(self) -> $to::$type {
                let mut flags = $to::$type::empty();
                $(if self.contains($from::$type::$name) {
                    flags |= $to::$type::$name;
                })*
                flags
            }
        }
    };
}

cases!(ErrorCode, errors02 => wasi03:
    Access Already BadDescriptor Busy Deadlock Quota Exist FileTooLarge IllegalByteSequence InProgress
    Interrupted Invalid Io IsDirectory Loop TooManyLinks MessageSize NameTooLong NoDevice NoEntry NoLock
    InsufficientMemory InsufficientSpace NotDirectory NotEmpty NotRecoverable Unsupported NoTty
    NoSuchDevice Overflow NotPermitted Pipe ReadOnly InvalidSeek TextFileBusy CrossDevice;
    errors02::ErrorCode::WouldBlock => wasi03::ErrorCode::Other(None)
);
cases!(DescriptorType, wasi02 => wasi03:
    BlockDevice CharacterDevice Directory Fifo SymbolicLink RegularFile Socket;
    wasi02::DescriptorType::Unknown => wasi03::DescriptorType::Other(None)
);
cases!(Advice, wasi03 => wasi02: Normal Sequential Random WillNeed DontNeed NoReuse;);
cases!(NewTimestamp, wasi03 => wasi02: NoChange Now;
    // Times before 1970 become one that is refused.
    wasi03::NewTimestamp::Timestamp(Instant { seconds, nanoseconds }) => {
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
        wasi02::NewTimestamp::Timestamp(Datetime { seconds, nanoseconds })
    }
);
flags!(PathFlags, wasi03 => wasi02: SYMLINK_FOLLOW);
flags!(OpenFlags, wasi03 => wasi02: CREATE DIRECTORY EXCLUSIVE TRUNCATE);
flags!(DescriptorFlags, wasi03 => wasi02:
    READ WRITE FILE_INTEGRITY_SYNC DATA_INTEGRITY_SYNC REQUESTED_WRITE_SYNC MUTATE_DIRECTORY);
flags!(DescriptorFlags, wasi02 => wasi03:
    READ WRITE FILE_INTEGRITY_SYNC DATA_INTEGRITY_SYNC REQUESTED_WRITE_SYNC MUTATE_DIRECTORY);

impl Convert<wasi03::DescriptorStat> for wasi02::DescriptorStat {
    fn convert(self) -> wasi03::DescriptorStat {
        let time = |time: Option<Datetime>| {
            let Datetime { seconds, nanoseconds } = time?;
            Some(Instant { seconds: i64::try_from(seconds).ok()?, nanoseconds })
        };
        wasi03::DescriptorStat {
            type_: self.type_.convert(),
            link_count: self.link_count,
            size: self.size,
            data_access_timestamp: time(self.data_access_timestamp),
            data_modification_timestamp: time(self.data_modification_timestamp),
            status_change_timestamp: time(self.status_change_timestamp),
        }
    }
}

impl Convert<wasi03::MetadataHashValue> for wasi02::MetadataHashValue {
    fn convert(self) -> wasi03::MetadataHashValue {
        wasi03::MetadataHashValue { lower: self.lower, upper: self.upper }
    }
}
