// Messages over connections. Bytes move while somebody calls: each call that asks for something looks at all connections
// once.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "runtime/communicator.h"
#include "runtime/tcp/tcp_impl.h"

enum { HEAD = sizeof(ptc_tcp_head_t), BYE = -1, LINGER_MS = 2000 };

static bool is_done(const ptc_tcp_t *tcp, int request) {
  return request >= tcp->busy.len || !tcp->busy.data[request];
}

static void set_busy(ptc_tcp_t *tcp, int request, bool busy) {
  while (tcp->busy.len <= request) PTC_VEC_PUSH(&tcp->busy, false);
  tcp->busy.data[request] = busy;
}

static void end_link(ptc_tcp_t *tcp, int32_t peer, int error) {
  ptc_tcp_link_t *link = &tcp->links[peer];
  close(link->fd);
  link->fd = -1;
  link->error = error;
  if (!link->said_bye && tcp->lost < 0) tcp->lost = peer;
}

static bool fits(const ptc_tcp_head_t *a, const ptc_tcp_head_t *b) {
  return a->channel == b->channel && a->tag == b->tag;
}

// --- out

static void write_link(ptc_tcp_t *tcp, int32_t peer) {
  ptc_tcp_link_t *link = &tcp->links[peer];
  while (link->out.len) {
    ptc_tcp_out_t *out = &link->out.data[0];
    const int64_t total = HEAD + out->head.bytes;
    const int64_t in_head = link->sent < HEAD ? HEAD - link->sent : 0;
    const int64_t in_data = link->sent < HEAD ? 0 : link->sent - HEAD;
    struct iovec parts[2] = {
        {(char *)&out->head + (HEAD - in_head), (size_t)in_head},
        {(void *)(uintptr_t)(out->data + in_data), (size_t)(out->head.bytes - in_data)}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    const ssize_t count = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count < 0) {
      // What the peer has said before is still to be read.
      link->out.len = 0;
      link->error = errno;
      return;
    }
    link->sent += count;
    if (link->sent < total) return;
    if (out->request >= 0) set_busy(tcp, out->request, false);
    link->sent = 0;
    memmove(link->out.data, link->out.data + 1, sizeof *out * (size_t)--link->out.len);
  }
}

// --- in

// The head is there: finds where the rest goes.
static void begin_message(ptc_tcp_t *tcp, int32_t peer) {
  ptc_tcp_link_t *link = &tcp->links[peer];
  link->arrived = 0;
  link->letter = NULL;
  for (int64_t i = 0; i < tcp->wishes.len; i++) {
    const ptc_tcp_wish_t wish = tcp->wishes.data[i];
    if (wish.peer != peer || !fits(&wish.head, &link->head) || wish.head.bytes < link->head.bytes)
      continue;
    memmove(&tcp->wishes.data[i], &tcp->wishes.data[i + 1],
            sizeof wish * (size_t)(--tcp->wishes.len - i));
    link->to = wish.data;
    link->request = wish.request;
    return;
  }
  ptc_tcp_letter_t *letter = ptc_xmalloc(sizeof *letter);
  *letter = (ptc_tcp_letter_t){.peer = peer, .head = link->head};
  letter->data = ptc_xmalloc((size_t)link->head.bytes + 1);
  PTC_VEC_PUSH(&tcp->letters, letter);
  link->letter = letter;
  link->to = letter->data;
}

static void drop_letter(ptc_tcp_t *tcp, ptc_tcp_letter_t *letter) {
  for (int64_t i = 0; i < tcp->letters.len; i++) {
    if (tcp->letters.data[i] != letter) continue;
    memmove(&tcp->letters.data[i], &tcp->letters.data[i + 1],
            sizeof letter * (size_t)(--tcp->letters.len - i));
    break;
  }
  free(letter->data);
  free(letter);
}

static void end_message(ptc_tcp_t *tcp, ptc_tcp_link_t *link) {
  ptc_tcp_letter_t *letter = link->letter;
  link->head_bytes = 0;
  if (!letter) {
    set_busy(tcp, link->request, false);
  } else if (letter->wanted_at) {
    memcpy(letter->wanted_at, letter->data, (size_t)letter->head.bytes);
    set_busy(tcp, letter->request, false);
    drop_letter(tcp, letter);
  }
}

// One read of what comes next; false: there is no more now.
static bool read_some(ptc_tcp_t *tcp, int32_t peer) {
  ptc_tcp_link_t *link = &tcp->links[peer];
  const bool in_head = link->head_bytes < HEAD;
  char *to = in_head ? (char *)&link->head + link->head_bytes : link->to + link->arrived;
  const int64_t wanted = in_head ? HEAD - link->head_bytes : link->head.bytes - link->arrived;
  const ssize_t count = recv(link->fd, to, (size_t)wanted, MSG_DONTWAIT);
  if (count < 0 && errno == EINTR) return true;
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (count <= 0) {
    end_link(tcp, peer, count < 0 ? errno : 0);
    return false;
  }
  if (in_head) {
    link->head_bytes += count;
    if (link->head_bytes < HEAD) return true;
    if (link->head.channel == BYE) {
      link->said_bye = true;
      link->head_bytes = 0;
      return true;
    }
    begin_message(tcp, peer);
  } else {
    link->arrived += count;
    if (link->letter) link->letter->arrived = link->arrived;
  }
  if (link->arrived == link->head.bytes) end_message(tcp, link);
  return true;
}

// Moves what can be moved.
static void progress(ptc_tcp_t *tcp, int wait_ms) {
  enum { MOST = 64 };
  for (int32_t first = 0; first < tcp->world; first += MOST) {
    struct pollfd sockets[MOST];
    const int32_t count = tcp->world - first < MOST ? tcp->world - first : MOST;
    for (int32_t i = 0; i < count; i++) {
      const ptc_tcp_link_t *link = &tcp->links[first + i];
      sockets[i] = (struct pollfd){link->fd, (short)(POLLIN | (link->out.len ? POLLOUT : 0)), 0};
    }
    if (poll(sockets, (nfds_t)count, wait_ms) <= 0) continue;
    for (int32_t i = 0; i < count; i++) {
      const int32_t peer = first + i;
      if (sockets[i].revents & POLLOUT) write_link(tcp, peer);
      if (sockets[i].revents & (POLLIN | POLLHUP | POLLERR))
        while (tcp->links[peer].fd >= 0 && read_some(tcp, peer)) continue;
    }
  }
}

// --- the module

static int start(void *state, int *out_rank, int *out_world) {
  const ptc_tcp_t *tcp = state;
  *out_rank = tcp->rank;
  *out_world = tcp->world;
  return 0;
}

// Codes are numbers of ranks, from 1.
static int lost_code(const ptc_tcp_t *tcp, int32_t peer) {
  const ptc_tcp_link_t *link = &tcp->links[peer];
  return peer != tcp->rank && (link->fd < 0 || link->error) ? peer + 1 : 0;
}

static int send_to_self(ptc_tcp_t *tcp, const ptc_tcp_head_t *head, const void *data) {
  ptc_tcp_link_t *link = &tcp->links[tcp->rank];
  link->head = *head;
  begin_message(tcp, tcp->rank);
  if (head->bytes > 0) memcpy(link->to, data, (size_t)head->bytes);
  if (link->letter) link->letter->arrived = head->bytes;
  end_message(tcp, link);
  return 0;
}

static int send_bytes(void *state, int channel, int peer, int tag, const void *data, int64_t bytes,
                      int request) {
  ptc_tcp_t *tcp = state;
  if (peer == tcp->rank) return send_to_self(tcp, &(ptc_tcp_head_t){channel, tag, bytes}, data);
  const int lost = lost_code(tcp, peer);
  if (lost) return lost;
  const ptc_tcp_out_t out = {{channel, tag, bytes}, data, request};
  set_busy(tcp, request, true);
  PTC_VEC_PUSH(&tcp->links[peer].out, out);
  write_link(tcp, peer);
  return 0;
}

static ptc_tcp_letter_t *find_letter(const ptc_tcp_t *tcp, int32_t peer,
                                     const ptc_tcp_head_t *head) {
  for (int64_t i = 0; i < tcp->letters.len; i++) {
    ptc_tcp_letter_t *letter = tcp->letters.data[i];
    if ((peer < 0 || letter->peer == peer) && !letter->wanted_at && fits(&letter->head, head))
      return letter;
  }
  return NULL;
}

static int recv_bytes(void *state, int channel, int peer, int tag, void *data, int64_t bytes,
                      int request) {
  ptc_tcp_t *tcp = state;
  const ptc_tcp_wish_t wish = {peer, {channel, tag, bytes}, data, request};
  ptc_tcp_letter_t *letter = find_letter(tcp, peer, &wish.head);
  if (letter && letter->head.bytes > bytes) return peer + 1;
  set_busy(tcp, request, true);
  if (!letter) {
    PTC_VEC_PUSH(&tcp->wishes, wish);
    return 0;
  }
  if (letter->arrived < letter->head.bytes) {
    letter->wanted_at = data;
    letter->request = request;
    return 0;
  }
  memcpy(data, letter->data, (size_t)letter->head.bytes);
  drop_letter(tcp, letter);
  set_busy(tcp, request, false);
  return 0;
}

static int test(void *state, int request, int *out_done) {
  ptc_tcp_t *tcp = state;
  *out_done = is_done(tcp, request);
  if (*out_done) return 0;
  progress(tcp, 0);
  *out_done = is_done(tcp, request);
  if (*out_done) return 0;
  // Whoever has closed in order sends nothing more either.
  for (int64_t i = 0; i < tcp->wishes.len && tcp->lost < 0; i++)
    if (lost_code(tcp, tcp->wishes.data[i].peer)) return lost_code(tcp, tcp->wishes.data[i].peer);
  return tcp->lost + 1;
}

static int probe(void *state, int channel, int peer, int tag, int *out_peer, int64_t *out_bytes,
                 int *out_found) {
  ptc_tcp_t *tcp = state;
  const ptc_tcp_head_t head = {channel, tag, 0};
  progress(tcp, 0);
  const ptc_tcp_letter_t *letter = find_letter(tcp, peer, &head);
  *out_found = letter != NULL;
  if (letter) {
    *out_peer = letter->peer;
    *out_bytes = letter->head.bytes;
    return 0;
  }
  if (channel == PTC_MPI_CONTROL) return 0;
  return tcp->lost >= 0 ? tcp->lost + 1 : peer >= 0 ? lost_code(tcp, peer) : 0;
}

static void describe(void *state, int code, char out[PTC_MPI_ERROR_BYTES]) {
  const ptc_tcp_link_t *link = &((const ptc_tcp_t *)state)->links[code - 1];
  if (link->said_bye)
    snprintf(out, PTC_MPI_ERROR_BYTES, "rank %d has left", code - 1);
  else
    snprintf(out, PTC_MPI_ERROR_BYTES, "rank %d has died, or the network to it%s%s", code - 1,
             link->error ? ": " : "", link->error ? strerror(link->error) : "");
}

// Tells the others that this is no loss, and waits for them a while: a connection that is closed before all is read may
// take what was sent with it.
static int finish(void *state) {
  ptc_tcp_t *tcp = state;
  const double begin_s = ptc_now_s();
  for (int32_t r = 0; r < tcp->world; r++) {
    if (tcp->links[r].fd < 0) continue;
    const ptc_tcp_out_t bye = {{BYE, 0, 0}, NULL, -1};
    PTC_VEC_PUSH(&tcp->links[r].out, bye);
    write_link(tcp, r);
  }
  for (;;) {
    bool waits = false;
    for (int32_t r = 0; r < tcp->world; r++) {
      const ptc_tcp_link_t *link = &tcp->links[r];
      waits = waits || (link->fd >= 0 && (link->out.len || !link->said_bye));
    }
    if (!waits || ptc_now_s() - begin_s > 1e-3 * LINGER_MS) break;
    progress(tcp, 10);
  }
  ptc_tcp_free(tcp);
  return 0;
}

const ptc_mpi_module_t ptc_tcp_module = {.version = PTC_MPI_MODULE_VERSION,
                                         .start = start,
                                         .send = send_bytes,
                                         .recv = recv_bytes,
                                         .test = test,
                                         .probe = probe,
                                         .describe = describe,
                                         .finish = finish};

ptc_tcp_t *ptc_tcp_new(int32_t rank, int32_t world) {
  ptc_tcp_t *tcp = ptc_xmalloc(sizeof *tcp);
  *tcp = (ptc_tcp_t){.rank = rank, .world = world, .lost = -1};
  tcp->links = ptc_xmalloc(sizeof *tcp->links * (size_t)world);
  for (int32_t r = 0; r < world; r++) tcp->links[r] = (ptc_tcp_link_t){.fd = -1};
  return tcp;
}

void ptc_tcp_free(ptc_tcp_t *tcp) {
  for (int32_t r = 0; r < tcp->world; r++) {
    if (tcp->links[r].fd >= 0) close(tcp->links[r].fd);
    PTC_VEC_FREE(&tcp->links[r].out);
  }
  while (tcp->letters.len) drop_letter(tcp, tcp->letters.data[0]);
  PTC_VEC_FREE(&tcp->letters);
  PTC_VEC_FREE(&tcp->wishes);
  PTC_VEC_FREE(&tcp->busy);
  free(tcp->links);
  free(tcp);
}
