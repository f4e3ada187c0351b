/* What InnoDB's checksums need of univ.i, which needs all of a configured server. */
#ifndef univ_i
#define univ_i
#include "my_config.h"
#include "my_compiler.h"
#include "my_inttypes.h"
typedef unsigned char byte;
#define ut_ad(condition)
#endif
