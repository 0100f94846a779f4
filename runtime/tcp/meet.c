// How ranks find each other: rank 0 listens at an address that all know. Each other rank goes there, says who it is and where
// it listens itself, and hears where all others do; then each goes to those of lower number.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "runtime/communicator.h"
#include "runtime/mpi/endpoint.h"
#include "runtime/tcp/tcp_impl.h"

enum { NAP_NS = 20000000, HELLO_LIMIT_S = 10, TEXT_BYTES = 200 };
static const uint64_t magic = 0x31706374637470ff;

// Who a rank is. A connection that begins with anything else is a stranger's, and is closed.
typedef struct hello_s {
  uint64_t magic;
  int32_t rank, world;
  int32_t port;  // where it listens
  int32_t unused;
} hello_t;

// Where a rank listens, as rank 0 sees it. All zeros before the port: on rank 0's machine.
typedef struct place_s {
  unsigned char address[16];  // IPv6, or IPv4 in it
  int32_t port;
} place_t;

// What rank 0 says to all: well, with a place for each rank after it, or why not.
typedef struct answer_s {
  int32_t is_well;
  char text[TEXT_BYTES];
} answer_t;

typedef struct meeting_s {
  ptc_tcp_t *tcp;
  ptc_diag_t *diag;
  const char *host;
  int32_t port;
  double limit_s, end_s;  // 0: forever
  int listener;
} meeting_t;

static bool is_late(const meeting_t *m) { return m->end_s > 0 && ptc_now_s() > m->end_s; }

static ptc_status_t fail(const meeting_t *m, const char *id, const char *what, int error) {
  return ptc_error(m->diag, (ptc_loc_t){0}, PTC_DEVICE, id,
                   "rank %d of %d, for MASTER_ADDR=%s and port %d: %s%s%s", m->tcp->rank,
                   m->tcp->world, m->host, m->port, what, error ? ": " : "",
                   error ? strerror(error) : "");
}

// --- sockets

// Waits until |fd| can be read or written; false: it is |end_s|, or the run's limit.
static bool wait_for(const meeting_t *m, int fd, short events, double end_s) {
  struct pollfd socket = {fd, events, 0};
  for (;;) {
    if (poll(&socket, 1, 20) > 0) return true;
    if (is_late(m) || (end_s > 0 && ptc_now_s() > end_s)) return false;
  }
}

// All of |bytes|; 0, or the system's error.
static int read_all(const meeting_t *m, int fd, void *data, size_t bytes, double end_s) {
  for (size_t done = 0; done < bytes;) {
    if (!wait_for(m, fd, POLLIN, end_s)) return ETIMEDOUT;
    const ssize_t count = recv(fd, (char *)data + done, bytes - done, MSG_DONTWAIT);
    if (count == 0) return ECONNRESET;
    if (count > 0) done += (size_t)count;
    if (count < 0 && errno != EAGAIN && errno != EINTR) return errno;
  }
  return 0;
}

static int write_all(const meeting_t *m, int fd, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    if (!wait_for(m, fd, POLLOUT, 0)) return ETIMEDOUT;
    const ssize_t count =
        send(fd, (const char *)data + done, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) done += (size_t)count;
    if (count < 0 && errno != EAGAIN && errno != EINTR) return errno;
  }
  return 0;
}

static void set_up(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

// Listens on all addresses of this machine; |port| 0: any. 0, or the system's error.
static int listen_at(int32_t port, int *out_fd, int32_t *out_port) {
  const int on = 1, off = 0;
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool is_six = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
  if (!is_six) {
    if (fd >= 0) close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  }
  if (fd < 0) return errno;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr *address = is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four;
  socklen_t size = is_six ? sizeof six : sizeof four;
  if (bind(fd, address, size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, address, &size) != 0) {
    const int error = errno;
    close(fd);
    return error;
  }
  *out_port = ntohs(is_six ? six.sin6_port : four.sin_port);
  *out_fd = fd;
  return 0;
}

// One try. 0, or the system's error.
static int connect_once(const meeting_t *m, const struct sockaddr *address, socklen_t size,
                        int *out_fd) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  int error = connect(fd, address, size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    socklen_t len = sizeof error;
    if (!wait_for(m, fd, POLLOUT, ptc_now_s() + HELLO_LIMIT_S))
      error = ETIMEDOUT;
    else
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
  }
  if (error) {
    close(fd);
    return error;
  }
  set_up(fd);
  *out_fd = fd;
  return 0;
}

static void forget(int fd) {
  if (fd >= 0) close(fd);
}

// --- rank 0

// The address of the other side, IPv4 as IPv6.
static void place_of(int fd, place_t *out_place) {
  struct sockaddr_storage address = {0};
  socklen_t size = sizeof address;
  getpeername(fd, (struct sockaddr *)&address, &size);
  if (address.ss_family == AF_INET6) {
    memcpy(out_place->address, &((struct sockaddr_in6 *)&address)->sin6_addr, 16);
  } else {
    out_place->address[10] = out_place->address[11] = 0xff;
    memcpy(out_place->address + 12, &((struct sockaddr_in *)&address)->sin_addr, 4);
  }
  struct in6_addr six;
  memcpy(&six, out_place->address, sizeof six);
  const bool is_loopback =
      IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
  if (is_loopback) memset(out_place->address, 0, sizeof out_place->address);
}

// Says to all who have come that the run does not come about.
static void refuse_all(const meeting_t *m, int extra, const char *text) {
  answer_t answer = {0};
  snprintf(answer.text, sizeof answer.text, "%s", text);
  for (int32_t r = 0; r < m->tcp->world; r++)
    if (m->tcp->links[r].fd >= 0) write_all(m, m->tcp->links[r].fd, &answer, sizeof answer);
  if (extra >= 0) write_all(m, extra, &answer, sizeof answer);
}

// What is wrong with the one who says |hello|, in |text|; false: nothing.
static bool is_wrong(const meeting_t *m, const hello_t *hello, char text[TEXT_BYTES]) {
  const ptc_tcp_t *tcp = m->tcp;
  if (hello->world != tcp->world)
    snprintf(text, TEXT_BYTES, "rank %d has been started as one of %d ranks, rank %d as one of %d",
             hello->rank, hello->world, tcp->rank, tcp->world);
  else if (hello->rank <= tcp->rank && tcp->rank > 0)
    snprintf(text, TEXT_BYTES, "rank %d comes where only later ones are awaited", hello->rank);
  else if (hello->rank < 0 || hello->rank >= tcp->world || hello->rank == tcp->rank ||
           tcp->links[hello->rank].fd >= 0)
    snprintf(text, TEXT_BYTES, "rank %d of %d has been started twice", hello->rank, tcp->world);
  else
    return false;
  return true;
}

// The ranks that are not there, in words.
static void list_absent(const ptc_tcp_t *tcp, int32_t from, char *text, size_t room) {
  size_t used = 0;
  int32_t more = 0;
  text[0] = '\0';
  for (int32_t r = from; r < tcp->world; r++) {
    if (r == tcp->rank || tcp->links[r].fd >= 0) continue;
    if (used + 20 < room)
      used += (size_t)snprintf(text + used, room - used, "%s%d", used ? ", " : "", r);
    else
      more++;
  }
  if (more) snprintf(text + used, room - used, " and %d more", more);
}

// Takes connections of the ranks from |from| on until all are there.
static ptc_status_t accept_all(meeting_t *m, int32_t from, place_t *places) {
  ptc_tcp_t *tcp = m->tcp;
  int32_t left = tcp->world - from;
  char text[TEXT_BYTES + 80], absent[TEXT_BYTES];
  while (left > 0) {
    if (!wait_for(m, m->listener, POLLIN, 0)) {
      list_absent(tcp, from, absent, sizeof absent);
      snprintf(text, sizeof text, "after %.3g s these have not come: ranks %s", m->limit_s, absent);
      if (from == 1) refuse_all(m, -1, text);
      return fail(m, "comm-stuck", text, 0);
    }
    const int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    hello_t hello;
    if (fd < 0) continue;
    if (read_all(m, fd, &hello, sizeof hello, ptc_now_s() + HELLO_LIMIT_S) ||
        hello.magic != magic) {
      close(fd);  // a stranger
      continue;
    }
    if (is_wrong(m, &hello, text)) {
      refuse_all(m, fd, text);
      close(fd);
      return fail(m, "comm-start", text, 0);
    }
    set_up(fd);
    tcp->links[hello.rank].fd = fd;
    if (places) {
      place_of(fd, &places[hello.rank]);
      places[hello.rank].port = hello.port;
    }
    left--;
  }
  return PTC_OK;
}

static ptc_status_t receive_all(meeting_t *m) {
  ptc_tcp_t *tcp = m->tcp;
  int32_t port;
  const int error = listen_at(m->port, &m->listener, &port);
  if (error == EADDRINUSE)
    return fail(m, "comm-start",
                "rank 0 cannot listen there, another program does; set MASTER_PORT (or "
                "PTC_MASTER_PORT, which is stronger) to a free one on all ranks",
                error);
  if (error) return fail(m, "comm-start", "rank 0 cannot listen there", error);
  const size_t bytes = sizeof(place_t) * (size_t)tcp->world;
  place_t *places = ptc_xmalloc(bytes);
  memset(places, 0, bytes);
  const answer_t answer = {.is_well = 1};
  ptc_status_t status = accept_all(m, 1, places);
  for (int32_t r = 1; r < tcp->world && status == PTC_OK; r++) {
    int failed = write_all(m, tcp->links[r].fd, &answer, sizeof answer);
    if (!failed) failed = write_all(m, tcp->links[r].fd, places, bytes);
    if (failed) status = fail(m, "comm-start", "a rank is gone before all have come", failed);
  }
  free(places);
  return status;
}

// --- the others

// Goes to rank 0, which may come later.
static ptc_status_t go_to_master(meeting_t *m, int *out_fd, struct sockaddr_storage *out_address) {
  char port[16];
  snprintf(port, sizeof port, "%d", m->port);
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  for (;;) {
    struct addrinfo *list = NULL;
    const int unknown = getaddrinfo(m->host, port, &hints, &list);
    if (unknown && unknown != EAI_AGAIN)
      return fail(m, "comm-start", "there is no such host; MASTER_ADDR names rank 0's machine", 0);
    int error = EHOSTUNREACH;
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
      error = connect_once(m, at->ai_addr, at->ai_addrlen, out_fd);
      if (error) continue;
      memcpy(out_address, at->ai_addr, at->ai_addrlen);
      freeaddrinfo(list);
      return PTC_OK;
    }
    if (list) freeaddrinfo(list);
    if (is_late(m)) {
      char text[TEXT_BYTES];
      snprintf(text, sizeof text,
               "rank 0 was not to be reached for %.3g s; does it run there, and does no firewall "
               "stand before the port",
               m->limit_s);
      return fail(m, "comm-stuck", text, error);
    }
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  }
}

static int connect_to(const meeting_t *m, const place_t *place,
                      const struct sockaddr_storage *master, int *out_fd) {
  static const unsigned char nowhere[16];
  if (memcmp(place->address, nowhere, sizeof nowhere) == 0) {
    struct sockaddr_storage address = *master;
    const bool is_six = address.ss_family == AF_INET6;
    if (is_six)
      ((struct sockaddr_in6 *)&address)->sin6_port = htons((uint16_t)place->port);
    else
      ((struct sockaddr_in *)&address)->sin_port = htons((uint16_t)place->port);
    return connect_once(m, (const struct sockaddr *)&address,
                        is_six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in), out_fd);
  }
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)place->port)};
  memcpy(&six.sin6_addr, place->address, sizeof place->address);
  if (!IN6_IS_ADDR_V4MAPPED(&six.sin6_addr))
    return connect_once(m, (const struct sockaddr *)&six, sizeof six, out_fd);
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six.sin6_port};
  memcpy(&four.sin_addr, place->address + 12, 4);
  return connect_once(m, (const struct sockaddr *)&four, sizeof four, out_fd);
}

// Goes to the ranks before this one, then takes those after it.
static ptc_status_t join_others(meeting_t *m, const place_t *places,
                                const struct sockaddr_storage *master) {
  ptc_tcp_t *tcp = m->tcp;
  const hello_t hello = {magic, tcp->rank, tcp->world, 0, 0};
  for (int32_t r = 1; r < tcp->rank; r++) {
    int error = connect_to(m, &places[r], master, &tcp->links[r].fd);
    if (!error) error = write_all(m, tcp->links[r].fd, &hello, sizeof hello);
    if (!error) continue;
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "rank %d cannot be reached at its port %d", r, places[r].port);
    return fail(m, "comm-start", text, error);
  }
  return accept_all(m, tcp->rank + 1, NULL);
}

static ptc_status_t report_to_master(meeting_t *m) {
  ptc_tcp_t *tcp = m->tcp;
  hello_t hello = {magic, tcp->rank, tcp->world, 0, 0};
  struct sockaddr_storage master = {0};
  int error = listen_at(0, &m->listener, &hello.port);
  if (error) return fail(m, "comm-start", "this rank cannot listen on any port", error);
  PTC_TRY(go_to_master(m, &tcp->links[0].fd, &master));
  answer_t answer = {0};
  error = write_all(m, tcp->links[0].fd, &hello, sizeof hello);
  if (!error) error = read_all(m, tcp->links[0].fd, &answer, sizeof answer, 0);
  answer.text[TEXT_BYTES - 1] = '\0';
  if (error == ETIMEDOUT)
    return fail(m, "comm-stuck", "rank 0 waits for ranks that have not come", error);
  if (error)
    return fail(m, "comm-start",
                "who listens there is gone, or is no rank 0 of ptc (torchrun's own store?); "
                "PTC_MASTER_PORT names another port",
                error);
  if (!answer.is_well) return fail(m, "comm-start", answer.text, 0);
  const size_t bytes = sizeof(place_t) * (size_t)tcp->world;
  place_t *places = ptc_xmalloc(bytes);
  error = read_all(m, tcp->links[0].fd, places, bytes, 0);
  const ptc_status_t status = error ? fail(m, "comm-start", "rank 0 is gone before all met", error)
                                    : join_others(m, places, &master);
  free(places);
  return status;
}

ptc_status_t ptc_tcp_meet(ptc_tcp_t *tcp, ptc_diag_t *diag, const char *host, int32_t port,
                          double limit_s) {
  meeting_t m = {.tcp = tcp,
                 .diag = diag,
                 .host = host,
                 .port = port,
                 .limit_s = limit_s,
                 .end_s = limit_s > 0 ? ptc_now_s() + limit_s : 0,
                 .listener = -1};
  const ptc_status_t status = tcp->rank == 0 ? receive_all(&m) : report_to_master(&m);
  forget(m.listener);
  return status;
}

ptc_status_t ptc_comm_open_tcp(ptc_diag_t *diag, const char *host, int32_t port, int32_t rank,
                               int32_t world, double limit_s, ptc_comm_t **out_comm) {
  *out_comm = NULL;
  ptc_tcp_t *tcp = ptc_tcp_new(rank, world);
  const ptc_status_t status = ptc_tcp_meet(tcp, diag, host, port, limit_s);
  if (status == PTC_OK)
    *out_comm = ptc_mpi_new(&ptc_tcp_module, tcp, "TCP", rank, world, limit_s);
  else
    ptc_tcp_free(tcp);
  return status;
}
