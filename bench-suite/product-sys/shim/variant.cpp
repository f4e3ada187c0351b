// One of the two: PB_NAME is its name, and the include path is its sources. See product.h.

#include "product.h"

// Everything that the sources include, before they come into a namespace of their own.
#include <arpa/inet.h>
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/types.h>
#include <time.h>
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <iterator>
#include <thread>
#include <type_traits>
#if defined(__x86_64__)
#include <nmmintrin.h>
#include <wmmintrin.h>
#elif defined(__powerpc64__)
#include <altivec.h>
#undef vector
#undef pixel
#undef bool
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <arm_neon.h>
#include <asm/hwcap.h>
#endif

namespace PB_NAME {
#include "storage/innobase/ut/crc32.cc"

#include "mysys/my_rdtsc.cc"

#include "include/my_byteorder.h"

#include "storage/ndb/include/portlib/mt-asm.h"

// UT_RELAX_CPU and its like: a part of ut0ut.h, whose rest needs all of InnoDB.
#include "ut_relax.h"

// A cache line each, so that nothing else orders them.
struct alignas(128) Word {
  volatile uint32_t value;
};

static uint64_t store_buffering(uint64_t n) {
  static Word x, y;
  static std::atomic<uint64_t> turn[2];
  uint64_t both = 0;
  uint32_t seen[2] = {0, 0};
  turn[0] = turn[1] = 0;
  auto meet = [&](int me, uint64_t at) {
    turn[me].store(at, std::memory_order_seq_cst);
    for (uint32_t spins = 0; turn[1 - me].load(std::memory_order_seq_cst) < at; spins++)
      if (spins > 10000) std::this_thread::yield();
  };
  auto half = [&](int me, Word &mine, Word &other, uint64_t at) {
    meet(me, 3 * at + 1);
    mine.value = 1;
    mb();
    seen[me] = other.value;
    meet(me, 3 * at + 2);
  };
  std::thread second([&] {
    for (uint64_t at = 0; at < n; at++) {
      half(1, y, x, at);
      meet(1, 3 * at + 3);
    }
  });
  for (uint64_t at = 0; at < n; at++) {
    half(0, x, y, at);
    both += seen[0] == 0 && seen[1] == 0;
    x.value = y.value = 0;
    meet(0, 3 * at + 3);
  }
  second.join();
  return both;
}

#if defined(__powerpc64__)
// Not inlined, so that the call is one.
__attribute__((noinline)) static uint32_t call(const uint8_t *data, size_t len) { return ut_crc32(data, len); }

static int32_t keeps_vector_registers() {
  static const uint8_t data[4096] = {1, 2, 3};
  // v20 to v31 belong to the caller, in both ABIs.
#define PB_ALL(what) what(20) what(21) what(22) what(23) what(24) what(25) what(26) what(27) what(28) what(29) what(30) what(31)
#define PB_SET(n) register __vector unsigned v##n __asm__("v" #n) = {n, n + 100u, n + 200u, n + 300u};
#define PB_HOLD(n) __asm__ volatile("" : "+v"(v##n));
#define PB_SAME(n) same += v##n[0] == n && v##n[1] == n + 100u && v##n[2] == n + 200u && v##n[3] == n + 300u;
  PB_ALL(PB_SET)
  PB_ALL(PB_HOLD)
  call(data, sizeof data);
  PB_ALL(PB_HOLD)
  int same = 0;
  PB_ALL(PB_SAME)
  return same == 12;
}
#else
static int32_t keeps_vector_registers() { return 1; }
#endif
}  // namespace PB_NAME

#define PB_PASTE2(name, what) pb_##name##_##what
#define PB_PASTE(name, what) PB_PASTE2(name, what)
#define PB_DEFINE(what) PB_PASTE(PB_NAME, what)

using namespace PB_NAME;


extern "C" {

void PB_DEFINE(init)(void) { ut_crc32_init(); }

uint32_t PB_DEFINE(crc32c)(const uint8_t *data, uint64_t len) { return ut_crc32(data, len); }

uint32_t PB_DEFINE(crc32c_table)(const uint8_t *data, uint64_t len) { return software::crc32(data, len); }

int32_t PB_DEFINE(keeps_vector_registers)(void) { return keeps_vector_registers(); }

void PB_DEFINE(mb)(uint64_t n) {
  while (n-- > 0) mb();
}

void PB_DEFINE(rmb)(uint64_t n) {
  while (n-- > 0) rmb();
}

void PB_DEFINE(wmb)(uint64_t n) {
  while (n-- > 0) wmb();
}

int32_t PB_DEFINE(ndb_pause)(uint64_t n) {
#ifdef NDB_HAVE_CPU_PAUSE
  while (n-- > 0) cpu_pause();
  return 1;
#else
  return n < 0;
#endif
}

void PB_DEFINE(innodb_relax)(uint64_t n) {
  UT_LOW_PRIORITY_CPU();
  while (n-- > 0) UT_RELAX_CPU();
  UT_RESUME_PRIORITY_CPU();
}

uint64_t PB_DEFINE(store_buffering)(uint64_t n) { return store_buffering(n); }

uint64_t PB_DEFINE(uint4korr)(const uint8_t *data, uint64_t len) {
  uint64_t sum = 0;
  for (size_t at = 0; at + 4 <= len; at += 4) sum += uint4korr(data + at);
  return sum;
}

uint64_t PB_DEFINE(uint8korr)(const uint8_t *data, uint64_t len) {
  uint64_t sum = 0;
  for (size_t at = 0; at + 8 <= len; at += 8) sum += uint8korr(data + at);
  return sum;
}

uint64_t PB_DEFINE(timer_cycles)(uint64_t n) {
  uint64_t last = 0;
  while (n-- > 0) last = my_timer_cycles();
  return last;
}

uint64_t PB_DEFINE(timer_nanoseconds)(uint64_t n) {
  uint64_t last = 0;
  while (n-- > 0) last = my_timer_nanoseconds();
  return last;
}
}
