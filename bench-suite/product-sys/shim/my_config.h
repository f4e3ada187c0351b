/* What configure finds on every Linux, as far as the sources here ask for it. */
#ifndef PB_MY_CONFIG_H
#define PB_MY_CONFIG_H
#define HAVE_ARPA_INET_H 1
#define HAVE_CLOCK_GETTIME 1
#define HAVE_SYS_TIMES_H 1
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_VOIDP __SIZEOF_POINTER__
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define WORDS_BIGENDIAN 1
#endif
#if defined(__x86_64__)
#define HAVE_PAUSE_INSTRUCTION 1
#endif
#if defined(__powerpc64__)
#define HAVE_HMT_PRIORITY_INSTRUCTION 1
#endif
#endif
