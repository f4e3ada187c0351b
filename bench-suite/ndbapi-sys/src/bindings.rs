//! Made of shim/ndbapi_shim.h by the test in tests/bindings.rs: PORTBENCH_WRITE_BINDINGS=1 makes it anew.

pub const PBNDB_MESSAGE_BYTES: u32 = 256;
pub const PBNDB_INSERT: u32 = 0;
pub const PBNDB_READ: u32 = 1;
pub const PBNDB_UPDATE: u32 = 2;
pub const PBNDB_DELETE: u32 = 3;
pub const PBNDB_IN_PARTITION: u32 = 0;
pub const PBNDB_ANYWHERE: u32 = 1;
pub const PBNDB_ON_NODE: u32 = 2;
pub const PBNDB_NO_PARTITION: u32 = 4294967295;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct pbndb_connection {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct pbndb_session {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct pbndb_error {
    pub code: i32,
    pub status: i32,
    pub classification: i32,
    pub message: [u8; 256usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pbndb_error"][::core::mem::size_of::<pbndb_error>() - 268usize];
    ["Alignment of pbndb_error"][::core::mem::align_of::<pbndb_error>() - 4usize];
    [
        "Offset of field: pbndb_error::code",
    ][::core::mem::offset_of!(pbndb_error, code) - 0usize];
    [
        "Offset of field: pbndb_error::status",
    ][::core::mem::offset_of!(pbndb_error, status) - 4usize];
    [
        "Offset of field: pbndb_error::classification",
    ][::core::mem::offset_of!(pbndb_error, classification) - 8usize];
    [
        "Offset of field: pbndb_error::message",
    ][::core::mem::offset_of!(pbndb_error, message) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct pbndb_table {
    pub name: *const ::core::ffi::c_char,
    pub attributes: u32,
    pub attribute_words: u32,
    pub load_factor: u32,
    pub logging: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pbndb_table"][::core::mem::size_of::<pbndb_table>() - 24usize];
    ["Alignment of pbndb_table"][::core::mem::align_of::<pbndb_table>() - 8usize];
    [
        "Offset of field: pbndb_table::name",
    ][::core::mem::offset_of!(pbndb_table, name) - 0usize];
    [
        "Offset of field: pbndb_table::attributes",
    ][::core::mem::offset_of!(pbndb_table, attributes) - 8usize];
    [
        "Offset of field: pbndb_table::attribute_words",
    ][::core::mem::offset_of!(pbndb_table, attribute_words) - 12usize];
    [
        "Offset of field: pbndb_table::load_factor",
    ][::core::mem::offset_of!(pbndb_table, load_factor) - 16usize];
    [
        "Offset of field: pbndb_table::logging",
    ][::core::mem::offset_of!(pbndb_table, logging) - 20usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct pbndb_how {
    pub slots: u32,
    pub operations: u32,
    pub ndb_record: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pbndb_how"][::core::mem::size_of::<pbndb_how>() - 12usize];
    ["Alignment of pbndb_how"][::core::mem::align_of::<pbndb_how>() - 4usize];
    [
        "Offset of field: pbndb_how::slots",
    ][::core::mem::offset_of!(pbndb_how, slots) - 0usize];
    [
        "Offset of field: pbndb_how::operations",
    ][::core::mem::offset_of!(pbndb_how, operations) - 4usize];
    [
        "Offset of field: pbndb_how::ndb_record",
    ][::core::mem::offset_of!(pbndb_how, ndb_record) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct pbndb_done {
    pub slot: u32,
    pub code: i32,
    pub status: i32,
    pub classification: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pbndb_done"][::core::mem::size_of::<pbndb_done>() - 16usize];
    ["Alignment of pbndb_done"][::core::mem::align_of::<pbndb_done>() - 4usize];
    [
        "Offset of field: pbndb_done::slot",
    ][::core::mem::offset_of!(pbndb_done, slot) - 0usize];
    [
        "Offset of field: pbndb_done::code",
    ][::core::mem::offset_of!(pbndb_done, code) - 4usize];
    [
        "Offset of field: pbndb_done::status",
    ][::core::mem::offset_of!(pbndb_done, status) - 8usize];
    [
        "Offset of field: pbndb_done::classification",
    ][::core::mem::offset_of!(pbndb_done, classification) - 12usize];
};
unsafe extern "C" {
    pub fn pbndb_init() -> i32;
    pub fn pbndb_connect(
        connect_string: *const ::core::ffi::c_char,
        wait_s: i32,
        error: *mut pbndb_error,
    ) -> *mut pbndb_connection;
    pub fn pbndb_wait_until_ready(arg1: *mut pbndb_connection, wait_s: i32) -> i32;
    pub fn pbndb_node_id(arg1: *mut pbndb_connection) -> u32;
    pub fn pbndb_data_nodes(arg1: *mut pbndb_connection) -> u32;
    pub fn pbndb_disconnect(arg1: *mut pbndb_connection);
    pub fn pbndb_create_table(
        arg1: *mut pbndb_connection,
        database: *const ::core::ffi::c_char,
        arg2: *const pbndb_table,
        error: *mut pbndb_error,
    ) -> i32;
    pub fn pbndb_drop_table(
        arg1: *mut pbndb_connection,
        database: *const ::core::ffi::c_char,
        name: *const ::core::ffi::c_char,
        error: *mut pbndb_error,
    ) -> i32;
    pub fn pbndb_open(
        arg1: *mut pbndb_connection,
        database: *const ::core::ffi::c_char,
        arg2: *const pbndb_table,
        arg3: *const pbndb_how,
        rows: *mut u32,
        error: *mut pbndb_error,
    ) -> *mut pbndb_session;
    pub fn pbndb_close(arg1: *mut pbndb_session);
    pub fn pbndb_explain(arg1: *mut pbndb_session, code: i32, error: *mut pbndb_error);
    pub fn pbndb_nodes(arg1: *mut pbndb_session, nodes: *mut u32, most: u32) -> u32;
    pub fn pbndb_partition(arg1: *mut pbndb_session, key: u32) -> u32;
    pub fn pbndb_prepare(
        arg1: *mut pbndb_session,
        kind: u32,
        coordinator: u32,
        where_: *const u32,
        slots: *const u32,
        count: u32,
        error: *mut pbndb_error,
    ) -> u32;
    pub fn pbndb_send_poll(
        arg1: *mut pbndb_session,
        timeout_ms: i32,
        least: i32,
        force: i32,
        done: *mut pbndb_done,
    ) -> u32;
}
