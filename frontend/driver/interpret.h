// `ptc interpret`: runs a model's functions on the reference interpreter.
#ifndef PTC_FRONTEND_DRIVER_INTERPRET_H_
#define PTC_FRONTEND_DRIVER_INTERPRET_H_

// |argv[0]| is the program, options and files follow. Returns the process's exit status.
int ptc_interpret_main(int argc, char **argv);

#endif  // PTC_FRONTEND_DRIVER_INTERPRET_H_
