/* What portbench needs of the NDB API, as C: opaque pointers and fixed-width integers, so that one set of bindings serves
 * every 64-bit target. The shim only forwards; what is done with it is Rust.
 *
 * No exception leaves it: the NDB API throws none, and what the C++ library may throw (no memory) ends the process, as
 * every function is noexcept.
 * Every function that can fail takes a `pbndb_error`, which it fills in when it fails and leaves alone otherwise.
 */
#ifndef PORTBENCH_NDBAPI_SHIM_H
#define PORTBENCH_NDBAPI_SHIM_H

#include <stdint.h>

#ifdef __cplusplus
#define PBNDB_NOEXCEPT noexcept
extern "C" {
#else
#define PBNDB_NOEXCEPT
#endif

/* A Ndb_cluster_connection: this process as a node of the cluster. Shared by threads. */
typedef struct pbndb_connection pbndb_connection;
/* An Ndb object: one thread's way to the cluster, with the buffers of its transactions. Never shared. */
typedef struct pbndb_session pbndb_session;

#define PBNDB_MESSAGE_BYTES 256

/* A NdbError, or what the shim itself has to say (code -1). */
typedef struct pbndb_error {
  int32_t code;
  int32_t status;         /* NdbError::Status: 0 success, 1 temporary, 2 permanent, 3 unknown result */
  int32_t classification; /* NdbError::Classification */
  uint8_t message[PBNDB_MESSAGE_BYTES]; /* terminated */
} pbndb_error;

/* A table of fixed-size rows as flexAsynch has them: DISTKEY, COL0 (both the key, the first alone distributes), then
 * further unsigned attributes COL1 … of `attribute_words` 32-bit words each. */
typedef struct pbndb_table {
  const char *name;
  uint32_t attributes;      /* with COL0, 1 or more */
  uint32_t attribute_words; /* 1 or more */
  uint32_t load_factor;     /* per cent, of the hash index */
  uint32_t logging;         /* 0: a table that is gone after a system restart */
} pbndb_table;

/* How the operations of a session are made. */
typedef struct pbndb_how {
  uint32_t slots;      /* transactions in flight at most, 1 to 1024 */
  uint32_t operations; /* operations in each */
  uint32_t ndb_record; /* 0: NdbOperation, one call an attribute */
} pbndb_how;

#define PBNDB_INSERT 0
#define PBNDB_READ 1
#define PBNDB_UPDATE 2
#define PBNDB_DELETE 3

/* Where a transaction's coordinator is. */
#define PBNDB_IN_PARTITION 0 /* on a node that has the partition: `where` has one for each slot */
#define PBNDB_ANYWHERE 1     /* wherever the API thinks fit; `where` is not read */
#define PBNDB_ON_NODE 2      /* on the node that `where` begins with */

/* No partition: it cannot be said. */
#define PBNDB_NO_PARTITION UINT32_MAX

/* A transaction that has ended. `code` 0: committed. */
typedef struct pbndb_done {
  uint32_t slot;
  int32_t code;
  int32_t status;
  int32_t classification;
} pbndb_done;

/* Once a process, before all else; 0: ready. */
int32_t pbndb_init(void) PBNDB_NOEXCEPT;

/* Joins the cluster. NULL: failed. Waits `wait_s` seconds at most for the management server. */
pbndb_connection *pbndb_connect(const char *connect_string, int32_t wait_s, pbndb_error *error) PBNDB_NOEXCEPT;
/* Waits until all data nodes are seen. 0: all; above 0: some; below 0: none. */
int32_t pbndb_wait_until_ready(pbndb_connection *, int32_t wait_s) PBNDB_NOEXCEPT;
/* This process's node id. */
uint32_t pbndb_node_id(pbndb_connection *) PBNDB_NOEXCEPT;
/* Data nodes that are configured. */
uint32_t pbndb_data_nodes(pbndb_connection *) PBNDB_NOEXCEPT;
/* Leaves the cluster; every session must have been closed. */
void pbndb_disconnect(pbndb_connection *) PBNDB_NOEXCEPT;

/* Creates a table in `database`; one of that name is an error (721). 0: done. */
int32_t pbndb_create_table(pbndb_connection *, const char *database, const pbndb_table *, pbndb_error *error) PBNDB_NOEXCEPT;
/* Drops it; one that is not there is an error (723). 0: done. */
int32_t pbndb_drop_table(pbndb_connection *, const char *database, const char *name, pbndb_error *error) PBNDB_NOEXCEPT;

/* Opens a session on a table. `rows` holds slots x operations rows of 2 + (attributes - 1) x attribute_words words each,
 * 8-byte aligned, which outlive the session. NULL: failed. */
pbndb_session *pbndb_open(pbndb_connection *, const char *database, const pbndb_table *, const pbndb_how *,
                          uint32_t *rows, pbndb_error *error) PBNDB_NOEXCEPT;
/* Ends it; what was in flight is forgotten. */
void pbndb_close(pbndb_session *) PBNDB_NOEXCEPT;
/* The error of this code, with its text. */
void pbndb_explain(pbndb_session *, int32_t code, pbndb_error *error) PBNDB_NOEXCEPT;
/* Ids of the data nodes that hold the session's table, ascending; returns how many, writes `most` at most. */
uint32_t pbndb_nodes(pbndb_session *, uint32_t *nodes, uint32_t most) PBNDB_NOEXCEPT;

/* The partition of the rows whose DISTKEY is `key`. It takes hashing, and stays the same while the table is there: ask once,
 * not once a transaction. PBNDB_NO_PARTITION: failed. */
uint32_t pbndb_partition(pbndb_session *, uint32_t key) PBNDB_NOEXCEPT;

/* Starts a transaction for each of these slots, defines its operations on the slot's rows, and prepares it to be executed
 * and committed. The rows of a slot belong to the API until the slot is done. Returns for how many, in their order; fewer
 * than `count`: `error` says why the next one failed. */
uint32_t pbndb_prepare(pbndb_session *, uint32_t kind, uint32_t coordinator, const uint32_t *where, const uint32_t *slots,
                       uint32_t count, pbndb_error *error) PBNDB_NOEXCEPT;
/* Sends what was prepared and waits until `least` transactions are done, `timeout_ms` at most. `force`: 0 adaptive, 1 forced,
 * 2 not adaptive. Returns how many are written to `done`, which has room for one a slot. */
uint32_t pbndb_send_poll(pbndb_session *, int32_t timeout_ms, int32_t least, int32_t force, pbndb_done *done) PBNDB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
