// The same all_reduce by MPI, for comm.sh. Rank 0 prints one number of milliseconds per repetition: that of the
// slowest rank. usage: comm_mpi BYTES REPETITIONS
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const int count = (int)(atoll(argv[1]) / 4), num_repetitions = atoi(argv[2]);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  float *in = malloc((size_t)count * sizeof *in), *out = malloc((size_t)count * sizeof *out);
  for (int i = 0; i < count; i++) in[i] = (float)(i % 1000 + rank), out[i] = 0;
  for (int i = 0; i < num_repetitions; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const double mine = 1e3 * (MPI_Wtime() - start);
    double slowest;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%.4f\n", slowest);
  }
  MPI_Finalize();
  return 0;
}
