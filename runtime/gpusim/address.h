// Generic addresses: shared, local and parameter memory are windows far above what the host maps, so that
// the top byte of an address tells its space. Global addresses are those of the host's memory.
#ifndef PTC_RUNTIME_GPUSIM_ADDRESS_H_
#define PTC_RUNTIME_GPUSIM_ADDRESS_H_

#include <stdint.h>

#define SIM_SHARED_WINDOW UINT64_C(0x0100000000000000)
#define SIM_LOCAL_WINDOW UINT64_C(0x0200000000000000)
#define SIM_PARAM_WINDOW UINT64_C(0x0300000000000000)

#endif  // PTC_RUNTIME_GPUSIM_ADDRESS_H_
