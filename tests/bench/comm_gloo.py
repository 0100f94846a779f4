"""The same all_reduce by PyTorch over gloo, for comm.sh. Rank 0 prints one number of milliseconds per repetition.

usage: comm_gloo.py RANKS BYTES REPETITIONS
"""
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, world, count, repetitions, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    tensor = torch.zeros(count)
    for _ in range(repetitions):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        mine = torch.tensor([1e3 * (time.perf_counter() - start)])
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        if rank == 0:
            print(f"{mine.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, size, times = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as where:
        mp.spawn(run, args=(ranks, size // 4, times, where), nprocs=ranks)
