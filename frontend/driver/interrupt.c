#include "frontend/driver/interrupt.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// The one global that changes: a handler has no other way to speak.
static volatile sig_atomic_t pending;

static void handle(int number) {
  pending = number;
  signal(number, SIG_DFL);
}

void ptc_interrupt_install(void) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

const volatile sig_atomic_t *ptc_interrupt_flag(void) { return &pending; }

_Noreturn void ptc_interrupt_die(int number) {
  fflush(NULL);
  signal(number, SIG_DFL);
  raise(number);
  _exit(128 + number);
}
