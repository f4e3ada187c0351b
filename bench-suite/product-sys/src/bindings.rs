//! Made of shim/product.h by the test in tests/bindings.rs: PORTBENCH_WRITE_BINDINGS=1 makes it anew.

unsafe extern "C" {
    pub fn pb_released_init();
    pub fn pb_released_crc32c(data: *const u8, len: u64) -> u32;
    pub fn pb_released_crc32c_table(data: *const u8, len: u64) -> u32;
    pub fn pb_released_keeps_vector_registers() -> i32;
    pub fn pb_released_mb(n: u64);
    pub fn pb_released_rmb(n: u64);
    pub fn pb_released_wmb(n: u64);
    pub fn pb_released_ndb_pause(n: u64) -> i32;
    pub fn pb_released_innodb_relax(n: u64);
    pub fn pb_released_store_buffering(n: u64) -> u64;
    pub fn pb_released_uint4korr(data: *const u8, len: u64) -> u64;
    pub fn pb_released_uint8korr(data: *const u8, len: u64) -> u64;
    pub fn pb_released_timer_cycles(n: u64) -> u64;
    pub fn pb_released_timer_nanoseconds(n: u64) -> u64;
    pub fn pb_patched_init();
    pub fn pb_patched_crc32c(data: *const u8, len: u64) -> u32;
    pub fn pb_patched_crc32c_table(data: *const u8, len: u64) -> u32;
    pub fn pb_patched_keeps_vector_registers() -> i32;
    pub fn pb_patched_mb(n: u64);
    pub fn pb_patched_rmb(n: u64);
    pub fn pb_patched_wmb(n: u64);
    pub fn pb_patched_ndb_pause(n: u64) -> i32;
    pub fn pb_patched_innodb_relax(n: u64);
    pub fn pb_patched_store_buffering(n: u64) -> u64;
    pub fn pb_patched_uint4korr(data: *const u8, len: u64) -> u64;
    pub fn pb_patched_uint8korr(data: *const u8, len: u64) -> u64;
    pub fn pb_patched_timer_cycles(n: u64) -> u64;
    pub fn pb_patched_timer_nanoseconds(n: u64) -> u64;
    pub fn pb_zlib_crc32(data: *const u8, len: u64) -> u32;
}
