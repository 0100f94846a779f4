"""Which samples of its data files ptc takes in a step: written from runtime/data.h and the description
of the shuffled order in shuffle.c, so that PyTorch trains on the same ones."""
import numpy as np

import philox

ROUNDS = 12


def _scramble(seed, word, purpose, epoch):
    counter = (word, purpose, epoch & 0xFFFFFFFF, epoch >> 32)
    return int(philox.words(*(np.array([c], dtype=np.uint64) for c in counter), seed)[0][0])


def shuffle(seed, epoch, count, index):
    """Where index goes in the epoch's permutation of [0, count)."""
    half = 1
    while 4 ** half < count:
        half += 1
    mask = 2 ** half - 1
    while True:
        left, right = index >> half, index & mask
        for purpose in range(ROUNDS):
            left, right = right, left ^ (_scramble(seed, right, purpose, epoch) & mask)
        index = left << half | right
        if index < count:
            return index


def draw(seed, epoch, stream, count):
    words = [_scramble(seed, stream, ROUNDS + i, epoch) for i in range(2)]
    return (words[0] << 32 | words[1]) % count


class Windows:
    """The samples of streams of numbers, one file each, and of rows.

    lengths: source -> (numbers in the file, numbers of a sample, largest offset); for rows the number
    of rows, 1, and 0.
    """

    def __init__(self, seed, batch, lengths):
        self.seed, self.batch = seed, batch
        self.shifted = len(lengths) == 1
        for count, length, offset in lengths.values():
            starts = count - (length + offset) + 1
            if self.shifted:
                self.count = max(starts // length, 1)
                self.phases = starts - (self.count - 1) * length
            else:
                self.count = -(-starts // length)

    def numbers(self, step):
        """Sample and epoch of each place of the batch."""
        for place in range(step * self.batch, (step + 1) * self.batch):
            epoch, index = divmod(place, self.count)
            yield shuffle(self.seed, epoch, self.count, index), epoch

    def starts(self, step, length):
        """Where the windows of the batch begin in a stream with that length of a sample."""
        return [sample * length
                + (draw(self.seed, epoch, 0, self.phases) if self.shifted and self.phases > 1 else 0)
                for sample, epoch in self.numbers(step)]


if __name__ == "__main__":
    for size in (1, 2, 3, 16, 17, 1000):
        assert sorted(shuffle(7, 3, size, i) for i in range(size)) == list(range(size))
    print("data_order: permutations are permutations")
