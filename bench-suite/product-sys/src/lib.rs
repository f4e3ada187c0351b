//! Functions of the products' own sources, once as released and once patched: what a bench of primitives holds side by
//! side.
//!
//! Where the build script was given no sources (`PORTBENCH_SOURCES`) there are none.

#[allow(missing_docs, dead_code, non_camel_case_types)]
#[rustfmt::skip]
mod bindings;

/// What the sources have, as released or patched. Loops of `n` turns are timed whole.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// `released` or `patched`.
    pub name: &'static str,
    /// InnoDB's CRC-32C, by what the CPU has.
    pub crc32c: fn(&[u8]) -> u32,
    /// InnoDB's CRC-32C by table.
    pub crc32c_table: fn(&[u8]) -> u32,
    /// Whether the former leaves alone the vector registers that are the caller's.
    pub keeps_vector_registers: fn() -> bool,
    /// NDB's full barrier, so many times.
    pub mb: fn(u64),
    /// NDB's barrier for loads.
    pub rmb: fn(u64),
    /// NDB's barrier for stores.
    pub wmb: fn(u64),
    /// NDB's pause; `false`: it has none.
    pub ndb_pause: fn(u64) -> bool,
    /// Turns of InnoDB's spin loop.
    pub innodb_relax: fn(u64),
    /// Two threads store and, behind NDB's full barrier, load what the other stores: how often of `n` times both missed
    /// it.
    pub store_buffering: fn(u64) -> u64,
    /// The sum of little-endian words of 4 bytes.
    pub uint4korr: fn(&[u8]) -> u64,
    /// The sum of little-endian words of 8 bytes.
    pub uint8korr: fn(&[u8]) -> u64,
    /// The last of so many reads of the performance schema's cycle counter.
    pub timer_cycles: fn(u64) -> u64,
    /// The last of so many reads of its clock, in ns.
    pub timer_nanoseconds: fn(u64) -> u64,
}

#[cfg(product_sources)]
macro_rules! variant {
    ($name:literal, $($field:ident: $kind:ident $function:ident),+) => {
        // SAFETY: each function reads the bytes that it is given the length of, keeps no pointer and does not throw.
        Variant { name: $name, $($field: variant!($kind $function)),+ }
    };
    (bytes $function:ident) => { |data| unsafe { bindings::$function(data.as_ptr(), data.len() as u64) } };
    (turns $function:ident) => { |n| unsafe { bindings::$function(n) } };
    (asked $function:ident) => { |n| unsafe { bindings::$function(n) } != 0 };
    (told $function:ident) => { || unsafe { bindings::$function() } != 0 };
}

/// Both, the released one first; none without sources.
#[cfg(product_sources)]
pub fn variants() -> Vec<Variant> {
    // SAFETY: they set tables and pointers of their own, and may be called again.
    unsafe {
        bindings::pb_released_init();
        bindings::pb_patched_init();
    }
    vec![
        variant!("released",
            crc32c: bytes pb_released_crc32c, crc32c_table: bytes pb_released_crc32c_table,
            keeps_vector_registers: told pb_released_keeps_vector_registers,
            mb: turns pb_released_mb, rmb: turns pb_released_rmb, wmb: turns pb_released_wmb,
            ndb_pause: asked pb_released_ndb_pause, innodb_relax: turns pb_released_innodb_relax,
            store_buffering: turns pb_released_store_buffering,
            uint4korr: bytes pb_released_uint4korr, uint8korr: bytes pb_released_uint8korr,
            timer_cycles: turns pb_released_timer_cycles,
            timer_nanoseconds: turns pb_released_timer_nanoseconds),
        variant!("patched",
            crc32c: bytes pb_patched_crc32c, crc32c_table: bytes pb_patched_crc32c_table,
            keeps_vector_registers: told pb_patched_keeps_vector_registers,
            mb: turns pb_patched_mb, rmb: turns pb_patched_rmb, wmb: turns pb_patched_wmb,
            ndb_pause: asked pb_patched_ndb_pause, innodb_relax: turns pb_patched_innodb_relax,
            store_buffering: turns pb_patched_store_buffering,
            uint4korr: bytes pb_patched_uint4korr, uint8korr: bytes pb_patched_uint8korr,
            timer_cycles: turns pb_patched_timer_cycles,
            timer_nanoseconds: turns pb_patched_timer_nanoseconds),
    ]
}

/// Both, the released one first; none without sources.
#[cfg(not(product_sources))]
pub fn variants() -> Vec<Variant> {
    Vec::new()
}

/// CRC-32 by the zlib that MySQL brings; `None` without sources.
pub fn zlib_crc32(data: &[u8]) -> Option<u32> {
    #[cfg(product_sources)]
    // SAFETY: it reads the bytes that it is given the length of.
    return Some(unsafe { bindings::pb_zlib_crc32(data.as_ptr(), data.len() as u64) });
    #[cfg(not(product_sources))]
    {
        let _ = data;
        None
    }
}
