/* zlib's checksum, see product.h. */

#include "product.h"

#include <zlib.h>

uint32_t pb_zlib_crc32(const uint8_t *data, uint64_t len) { return (uint32_t)crc32(0, data, (uInt)len); }
