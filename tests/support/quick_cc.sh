#!/bin/sh
# A C compiler that does not optimize, whatever it is told: for tests that compile many kernels and run
# each for a moment.
exec cc "$@" -O0
