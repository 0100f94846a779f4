// Ranks that are connected over TCP, each with each.
#ifndef PTC_RUNTIME_TCP_TCP_IMPL_H_
#define PTC_RUNTIME_TCP_TCP_IMPL_H_

#include <stdbool.h>

#include "ir/base/diag.h"
#include "ir/base/vec.h"
#include "runtime/mpi/module.h"

// What goes before the bytes of a message. Machines of a run have one byte order.
typedef struct ptc_tcp_head_s {
  int32_t channel, tag;  // channel -1: the peer has no more to say
  int64_t bytes;
} ptc_tcp_head_t;

typedef struct ptc_tcp_out_s {
  ptc_tcp_head_t head;
  const char *data;
  int request;
} ptc_tcp_out_t;

// A message that nobody has asked for yet, or that was asked for while it arrived.
typedef struct ptc_tcp_letter_s {
  int32_t peer;
  ptc_tcp_head_t head;
  char *data;
  int64_t arrived;
  char *wanted_at;  // goes there when it is complete, for |request|; NULL: not asked for
  int request;
} ptc_tcp_letter_t;

typedef struct ptc_tcp_wish_s {
  int32_t peer;
  ptc_tcp_head_t head;  // of the message that is wanted
  char *data;
  int request;
} ptc_tcp_wish_t;

typedef struct ptc_tcp_link_s {
  int fd;         // -1: this rank's own, or ended
  int error;      // of the system; why it has ended
  bool said_bye;  // the peer has closed in order
  PTC_VEC(ptc_tcp_out_t) out;
  int64_t sent;  // bytes of out[0], its head included
  // What arrives now.
  ptc_tcp_head_t head;
  int64_t head_bytes;  // of |head|; then
  char *to;            // where the rest goes: a wish's memory, or a letter's
  int64_t arrived;
  int request;               // of the wish
  ptc_tcp_letter_t *letter;  // NULL: a wish
} ptc_tcp_link_t;

typedef struct ptc_tcp_s {
  int32_t rank, world;
  ptc_tcp_link_t *links;  // per rank
  PTC_VEC(ptc_tcp_letter_t *) letters;
  PTC_VEC(ptc_tcp_wish_t) wishes;
  PTC_VEC(bool) busy;  // per request
  int32_t lost;        // the first rank whose connection has ended; -1: none
} ptc_tcp_t;

// The module's functions over connections; the state is a ptc_tcp_t.
extern const ptc_mpi_module_t ptc_tcp_module;
ptc_tcp_t *ptc_tcp_new(int32_t rank, int32_t world);
void ptc_tcp_free(ptc_tcp_t *tcp);

// Connects all ranks: meet.c. |tcp->links| have their sockets then.
ptc_status_t ptc_tcp_meet(ptc_tcp_t *tcp, ptc_diag_t *diag, const char *host, int32_t port,
                          double limit_s);

#endif  // PTC_RUNTIME_TCP_TCP_IMPL_H_
