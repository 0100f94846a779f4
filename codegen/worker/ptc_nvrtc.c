// The program ptc-nvrtc: compiles the kernels that come over its standard input, a socket, and answers there, until
// the other end is closed. codegen/nvrtc_pool.c starts it; what is said is in codegen/nvrtc_message.h.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "codegen/nvrtc_message.h"

enum { SOCKET = STDIN_FILENO, MAX_TEXT_BYTES = 1 << 28 };

// Ends this process when its parent is gone, also while NVRTC compiles.
static void *watch_parent(void *unused) {
  struct pollfd end = {.fd = SOCKET, .events = POLLRDHUP};
  for (;;)
    if (poll(&end, 1, -1) > 0 && end.revents) _exit(0);
  return unused;
}

static void receive(void *out, size_t bytes) {
  for (char *at = out; bytes;) {
    const ssize_t got = recv(SOCKET, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(0);
    at += got;
    bytes -= (size_t)got;
  }
}

static void send_all(const void *data, size_t bytes) {
  for (const char *at = data; bytes;) {
    const ssize_t put = send(SOCKET, at, bytes, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) _exit(0);
    at += put;
    bytes -= (size_t)put;
  }
}

static char *receive_text(uint32_t bytes) {
  if (bytes == 0 || bytes > MAX_TEXT_BYTES) _exit(2);
  char *text = ptc_xmalloc(bytes);
  receive(text, bytes);
  text[bytes - 1] = '\0';
  return text;
}

static void reply(int32_t status, const char *text, size_t bytes,
                  const ptc_cuda_resources_t *resources) {
  const ptc_nvrtc_reply_t head = {
      .magic = PTC_NVRTC_REPLY, .status = status, .bytes = bytes, .resources = *resources};
  send_all(&head, sizeof head);
  send_all(text, bytes);
}

static void reply_failure(ptc_status_t status, const ptc_diag_t *diag) {
  const char *text = diag->num_items ? diag->items[0].message : "";
  reply((int32_t)status, text, strlen(text), &(ptc_cuda_resources_t){0});
}

static void serve(const ptc_nvrtc_t *nvrtc) {
  ptc_nvrtc_request_t request;
  receive(&request, sizeof request);
  if (request.magic != PTC_NVRTC_REQUEST) _exit(2);
  char *name = receive_text(request.name_bytes), *target = receive_text(request.target_bytes),
       *source = receive_text(request.source_bytes);
  const ptc_nvrtc_options_t options = {
      .target = target, .quick = request.quick, .max_registers = request.max_registers};
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  ptc_str_t code = {0};
  ptc_cuda_resources_t resources;
  const ptc_status_t status =
      ptc_nvrtc_compile(nvrtc, &diag, name, source, &options, &code, &resources);
  if (status == PTC_OK)
    reply(PTC_OK, code.data, code.len, &resources);
  else
    reply_failure(status, &diag);
  ptc_str_deinit(&code);
  ptc_diag_deinit(&diag);
  free(name);
  free(target);
  free(source);
}

int main(void) {
  int type = 0;
  socklen_t bytes = sizeof type;
  if (getsockopt(SOCKET, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0) {
    fputs("usage: ptc starts ptc-nvrtc, which compiles its CUDA kernels\n", stderr);
    return 2;
  }
  // A crash is the parent's to report: without a sanitizer's words and without the file of a core.
  static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) signal(faults[i], SIG_DFL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0});
  pthread_t watcher;
  if (pthread_create(&watcher, NULL, watch_parent, NULL) != 0) return 2;
  ptc_diag_t diag;
  ptc_diag_init(&diag);
  const ptc_nvrtc_t *nvrtc = ptc_nvrtc_open(&diag);
  if (!nvrtc) {
    reply_failure(PTC_INVALID_INPUT, &diag);
    return 0;
  }
  reply(PTC_OK, NULL, 0, &(ptc_cuda_resources_t){0});
  for (;;) serve(nvrtc);
}
