// Being told to stop: SIGINT and SIGTERM ask once; a second one ends the program at once.
#ifndef PTC_FRONTEND_DRIVER_INTERRUPT_H_
#define PTC_FRONTEND_DRIVER_INTERRUPT_H_

#include <signal.h>

// From now on the two signals set the flag.
void ptc_interrupt_install(void);
// 0, or the signal that came.
const volatile sig_atomic_t *ptc_interrupt_flag(void);
// Ends the program as the signal would have without us, so that the caller's shell sees it. Only after
// everything is cleaned up.
_Noreturn void ptc_interrupt_die(int signal);

#endif  // PTC_FRONTEND_DRIVER_INTERRUPT_H_
