// How long things take.
#ifndef PTC_IR_BASE_CLOCK_H_
#define PTC_IR_BASE_CLOCK_H_

// Seconds since some instant, the same for all of this machine; never goes back.
double ptc_now_s(void);

#endif  // PTC_IR_BASE_CLOCK_H_
