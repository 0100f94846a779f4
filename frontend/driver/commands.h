// The sub-commands of ptc, each with its own options and its --help.
#ifndef PTC_FRONTEND_DRIVER_COMMANDS_H_
#define PTC_FRONTEND_DRIVER_COMMANDS_H_

// argv[0] is the program, the rest are the command's own arguments. Each returns the exit status.
int ptc_compile_main(int argc, char **argv);  // ptc MODEL.ptm
int ptc_check_main(int argc, char **argv);
int ptc_run_main(int argc, char **argv);
int ptc_eval_main(int argc, char **argv);
int ptc_sample_main(int argc, char **argv);
int ptc_export_main(int argc, char **argv);
int ptc_show_main(int argc, char **argv);
int ptc_verify_main(int argc, char **argv);
int ptc_clusters_main(int argc, char **argv);
int ptc_validate_main(int argc, char **argv);
int ptc_calibrate_main(int argc, char **argv);

#endif  // PTC_FRONTEND_DRIVER_COMMANDS_H_
