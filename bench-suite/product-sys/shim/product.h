/* Functions of MySQL's and NDB's own sources, once as released and once patched. Nothing here throws. */
#ifndef PB_PRODUCT_H
#define PB_PRODUCT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one of the two has. Loops of n turns are timed whole: a turn is shorter than a look at a clock. */
#define PB_VARIANT(name)                                                                             \
  /* Chooses the implementations for this CPU; to be called first. */                                \
  void pb_##name##_init(void);                                                                       \
  /* InnoDB's CRC-32C of len bytes: as it was chosen, and by table. */                               \
  uint32_t pb_##name##_crc32c(const uint8_t *data, uint64_t len);                                      \
  uint32_t pb_##name##_crc32c_table(const uint8_t *data, uint64_t len);                                \
  /* Whether crc32c leaves the vector registers alone that it has to; 1 where there are none. */     \
  int32_t pb_##name##_keeps_vector_registers(void);                                                  \
  /* n of NDB's barriers: full, for loads, for stores. */                                            \
  void pb_##name##_mb(uint64_t n);                                                                   \
  void pb_##name##_rmb(uint64_t n);                                                                  \
  void pb_##name##_wmb(uint64_t n);                                                                  \
  /* n pauses of NDB's; 0 where it has none. */                                                      \
  int32_t pb_##name##_ndb_pause(uint64_t n);                                                         \
  /* n turns of InnoDB's spin loop. */                                                               \
  void pb_##name##_innodb_relax(uint64_t n);                                                         \
  /* Two threads, n times: each stores to its word, mb(), and loads the other's. How often both */   \
  /* loaded what was there before: never, if mb() orders a store before a later load. */             \
  uint64_t pb_##name##_store_buffering(uint64_t n);                                                  \
  /* The sum of len / 4 little-endian words by uint4korr; and len / 8 of them by uint8korr. */       \
  uint64_t pb_##name##_uint4korr(const uint8_t *data, uint64_t len);                                   \
  uint64_t pb_##name##_uint8korr(const uint8_t *data, uint64_t len);                                   \
  /* The last of n reads of the performance schema's timers. */                                      \
  uint64_t pb_##name##_timer_cycles(uint64_t n);                                                     \
  uint64_t pb_##name##_timer_nanoseconds(uint64_t n);

PB_VARIANT(released)
PB_VARIANT(patched)

/* CRC-32 (not C) by the zlib that MySQL brings, for scale. */
uint32_t pb_zlib_crc32(const uint8_t *data, uint64_t len);

#ifdef __cplusplus
}
#endif
#endif
