"""Writes forms.def: for each form of an arithmetic PTX instruction some operands and the result that the PTX
ISA defines. The results come from integers and fractions, rounded here; nothing of the simulator and no
floating point of this machine takes part.

    python3 tests/gpusim/forms.py > tests/gpusim/forms.def
"""
import math
import random
from fractions import Fraction

draw = random.Random(20800)
NAN = "nan"

# --- formats: (bits, mantissa bits, exponent bits)
F16, BF16, F32, F64 = (16, 10, 5), (16, 7, 8), (32, 23, 8), (64, 52, 11)
NANS = {F16: 0x7fff, BF16: 0x7fff, F32: 0x7fffffff}


def parts(fmt):
    bits, man, exp = fmt
    bias = (1 << (exp - 1)) - 1
    return bits, man, exp, bias, ((1 << exp) - 1) << man


def decode(u, fmt):
    """(sign, value): a fraction, "inf" or NAN."""
    bits, man, exp, bias, inf = parts(fmt)
    sign = u >> (bits - 1) & 1
    e, m = u >> man & ((1 << exp) - 1), u & ((1 << man) - 1)
    if e == (1 << exp) - 1:
        return sign, NAN if m else "inf"
    if e == 0:
        value = Fraction(m) * Fraction(2) ** (1 - bias - man)
    else:
        value = Fraction(m + (1 << man)) * Fraction(2) ** (e - bias - man)
    return sign, -value if sign else value


def floor_log2(x):
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def encode(value, fmt, mode="n", zero_sign=0):
    bits, man, exp, bias, inf = parts(fmt)
    top = 1 << (bits - 1)
    if value == 0:
        return top if zero_sign else 0
    sign = value < 0
    x = abs(value)
    e = max(floor_log2(x), 1 - bias)
    units = x / Fraction(2) ** (e - man)
    low = units.numerator // units.denominator
    rest = units - low
    up = False
    if rest:
        if mode == "n":
            up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low & 1)
        elif mode == "a":
            up = rest >= Fraction(1, 2)
        else:
            up = (mode == "p" and not sign) or (mode == "m" and sign)
    code = low + up + ((e - (1 - bias)) << man)
    if code >= inf:
        stays = mode == "z" or (mode == "m" and not sign) or (mode == "p" and sign)
        code = inf - 1 if stays else inf
    return code | (top if sign else 0)


def infinity(sign, fmt):
    return parts(fmt)[4] | (sign << (fmt[0] - 1))


def nan(fmt, *operands):
    """The NaN that an instruction makes. f64 keeps the first operand's, quiet."""
    if fmt == F64:
        for u in operands:
            if decode(u, fmt)[1] == NAN:
                return u | 1 << 51
        return 0xfff8000000000000
    return NANS[fmt]


def flush(u, fmt):
    bits, man, exp, bias, inf = parts(fmt)
    return u if u & inf else u & 1 << (bits - 1)


def sat(u, fmt):
    sign, v = decode(u, fmt)
    if v == NAN or sign:
        return 0
    return encode(Fraction(1), fmt) if v == "inf" or v > 1 else u


def add(a, b, fmt, mode="n"):
    (sa, x), (sb, y) = decode(a, fmt), decode(b, fmt)
    if NAN in (x, y):
        return nan(fmt, a, b)
    if x == "inf" or y == "inf":
        if x == y and sa != sb:
            return nan(fmt)
        return infinity(sa if x == "inf" else sb, fmt)
    zero = sa & sb if x == 0 and y == 0 else mode == "m"
    if x == 0 and y == 0 and sa != sb:
        zero = mode == "m"
    return encode(x + y, fmt, mode, zero)


def negate(u, fmt):
    return u ^ 1 << (fmt[0] - 1)


def mul(a, b, fmt, mode="n"):
    (sa, x), (sb, y) = decode(a, fmt), decode(b, fmt)
    if NAN in (x, y):
        return nan(fmt, a, b)
    if "inf" in (x, y):
        return nan(fmt) if x == 0 or y == 0 else infinity(sa ^ sb, fmt)
    return encode(x * y, fmt, mode, sa ^ sb)


def fma(a, b, c, fmt, mode="n"):
    (sa, x), (sb, y), (sc, z) = decode(a, fmt), decode(b, fmt), decode(c, fmt)
    if NAN in (x, y, z):
        return nan(fmt, a, b, c)
    if "inf" in (x, y):
        if x == 0 or y == 0 or (z == "inf" and sc != sa ^ sb):
            return nan(fmt)
        return infinity(sa ^ sb, fmt)
    if z == "inf":
        return infinity(sc, fmt)
    zero = sc if x * y == 0 and z == 0 and sc == sa ^ sb else mode == "m"
    return encode(x * y + z, fmt, mode, zero)


def div(a, b, fmt, mode="n"):
    (sa, x), (sb, y) = decode(a, fmt), decode(b, fmt)
    if NAN in (x, y):
        return nan(fmt, a, b)
    if x == "inf":
        return nan(fmt) if y == "inf" else infinity(sa ^ sb, fmt)
    if y == "inf":
        return encode(Fraction(0), fmt, "n", sa ^ sb)
    if y == 0:
        return nan(fmt) if x == 0 else infinity(sa ^ sb, fmt)
    return encode(x / y, fmt, mode, sa ^ sb)


def sqrt(a, fmt, mode="n"):
    s, x = decode(a, fmt)
    if x == NAN:
        return nan(fmt, a)
    if x == 0:
        return a
    if s:
        return nan(fmt)
    if x == "inf":
        return a
    # Many bits of the root, the last one set if it goes on.
    scale = 4 ** 600
    n = x.numerator * scale // x.denominator
    root = math.isqrt(n)
    exact = root * root == n and x.numerator * scale % x.denominator == 0
    return encode(Fraction(2 * root + (0 if exact else 1), 2 * 2 ** 600), fmt, mode)


# --- output

forms = []


def form(opcode, to, sources, rows):
    text = " ".join("ROW(%s)" % ", ".join("0x%x" % v for v in list(r[:-1]) + [0] * (3 - len(r) + 1) + [r[-1]])
                    for r in rows)
    forms.append('FORM("%s", "%s", "%s", %s)' % (opcode, to, sources, text))


CHARS = {16: "h", 32: "w", 64: "d"}


def signed(u, bits):
    return u - (1 << bits) if u >> (bits - 1) & 1 else u


def wrap(v, bits):
    return v & ((1 << bits) - 1)


def int_values(bits):
    top = 1 << (bits - 1)
    return [0, 1, 5, 7, top - 1, top, 2 * top - 1, 2 * top - 3, 0x1234567812345678 & (2 * top - 1),
            draw.getrandbits(bits), draw.getrandbits(bits)]


def pick(values, count, arity):
    return [tuple(draw.choice(values) for _ in range(arity)) for _ in range(count)]


def trunc_div(a, b):
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def integers():
    for bits in (16, 32, 64):
        c, v = CHARS[bits], int_values(bits)
        s = lambda u: signed(u, bits)
        w = lambda x: wrap(x, bits)

        def two(op, f, pairs=None, kinds=("u", "s")):
            for k in kinds:
                g = (lambda a: s(a)) if k == "s" else (lambda a: a)
                rows = [(a, b, w(f(g(a), g(b)))) for a, b in (pairs or pick(v, 4, 2))]
                form("%s.%s%d" % (op, k, bits), c, c + c, rows)
        two("add", lambda a, b: a + b)
        two("sub", lambda a, b: a - b)
        two("mul.lo", lambda a, b: a * b)
        two("mul.hi", lambda a, b: a * b >> bits)
        some = [p for p in pick(v, 40, 2) if p[1] and not (p[1] == (1 << bits) - 1)][:4]
        two("div", trunc_div, some)
        two("rem", lambda a, b: a - b * trunc_div(a, b), some)
        two("min", min)
        two("max", max)
        for k in ("u", "s"):
            g = s if k == "s" else (lambda a: a)
            form("mad.lo.%s%d" % (k, bits), c, c * 3, [(a, b, d, w(g(a) * g(b) + g(d))) for a, b, d in pick(v, 3, 3)])
            form("mad.hi.%s%d" % (k, bits), c, c * 3,
                 [(a, b, d, w((g(a) * g(b) >> bits) + g(d))) for a, b, d in pick(v, 3, 3)])
        form("abs.s%d" % bits, c, c, [(a, w(abs(s(a)))) for a in (v[5], v[6], v[4])])
        form("neg.s%d" % bits, c, c, [(a, w(-s(a))) for a in (0, v[5], v[8])])
        two("and", lambda a, b: a & b, kinds="b")
        two("or", lambda a, b: a | b, kinds="b")
        two("xor", lambda a, b: a ^ b, kinds="b")
        form("not.b%d" % bits, c, c, [(a, w(~a)) for a in (0, v[8])])
        form("cnot.b%d" % bits, c, c, [(0, 1), (v[8], 0)])
        counts = [0, 1, bits - 1, bits, 200, 0xffffffff]
        form("shl.b%d" % bits, c, c + "w", [(v[8], n, w(v[8] << n) if n < bits else 0) for n in counts])
        for k in ("u", "b"):
            form("shr.%s%d" % (k, bits), c, c + "w", [(v[7], n, v[7] >> n if n < bits else 0) for n in counts])
        form("shr.s%d" % bits, c, c + "w", [(v[7], n, w(s(v[7]) >> min(n, bits - 1))) for n in counts])
        # Relations.
        names = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
                 "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
        pairs = [(v[4], v[5]), (v[5], v[4]), (v[8], v[8]), (0, v[6])]
        for name, f in names.items():
            for k in ("s", "u") + (("b",) if name in ("eq", "ne") else ()):
                g = s if k == "s" else (lambda a: a)
                form("setp.%s.%s%d" % (name, k, bits), "p", c + c, [(a, b, int(f(g(a), g(b)))) for a, b in pairs])
        for name, same in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
            form("setp.%s.u%d" % (name, bits), "p", c + c, [(a, b, int(names[same](a, b))) for a, b in pairs])
        for k in "bus":
            form("selp.%s%d" % (k, bits), c, c + c + "p", [(v[8], v[9], 1, v[8]), (v[8], v[9], 0, v[9])])
            form("mov.%s%d" % (k, bits), c, c, [(v[9], v[9])])
    form("selp.f32", "w", "wwp", [(0x3f800000, 0x40000000, 1, 0x3f800000), (0x3f800000, 0x40000000, 0, 0x40000000)])
    form("selp.f64", "d", "ddp", [(1 << 62, 5, 1, 1 << 62), (1 << 62, 5, 0, 5)])
    form("mov.f32", "w", "w", [(0xff800001, 0xff800001)])
    form("mov.f64", "d", "d", [(0xfff0000000000001, 0xfff0000000000001)])
    for bits in (16, 32):
        v, c, d = int_values(bits), CHARS[bits], CHARS[2 * bits]
        for k in ("u", "s"):
            g = (lambda a: signed(a, bits)) if k == "s" else (lambda a: a)
            form("mul.wide.%s%d" % (k, bits), d, c + c, [(a, b, wrap(g(a) * g(b), 2 * bits)) for a, b in pick(v, 4, 2)])
            form("mad.wide.%s%d" % (k, bits), d, c + c + d,
                 [(a, b, x, wrap(g(a) * g(b) + x, 2 * bits)) for a, b in pick(v, 3, 2) for x in (draw.getrandbits(2 * bits),)])
    v = int_values(32)
    clamp = lambda x: wrap(max(-2 ** 31, min(2 ** 31 - 1, x)), 32)
    ends = [(0x7fffffff, 1), (0x80000000, 0xffffffff), (5, 7), (0x80000000, 1)]
    form("add.sat.s32", "w", "ww", [(a, b, clamp(signed(a, 32) + signed(b, 32))) for a, b in ends])
    form("sub.sat.s32", "w", "ww", [(a, b, clamp(signed(a, 32) - signed(b, 32))) for a, b in ends])
    form("mul24.lo.u32", "w", "ww", [(a, b, wrap((a & 0xffffff) * (b & 0xffffff), 32)) for a, b in pick(v, 3, 2)])
    form("mul24.lo.s32", "w", "ww", [(a, b, wrap(signed(a & 0xffffff, 24) * signed(b & 0xffffff, 24), 32)) for a, b in pick(v, 3, 2)])
    form("sad.u32", "w", "www", [(a, b, x, wrap(abs(a - b) + x, 32)) for a, b, x in pick(v, 3, 3)])
    form("sad.s32", "w", "www", [(a, b, x, wrap(abs(signed(a, 32) - signed(b, 32)) + x, 32)) for a, b, x in pick(v, 3, 3)])
    for bits in (32, 64):
        c, v = CHARS[bits], int_values(bits)
        form("popc.b%d" % bits, "w", c, [(a, bin(a).count("1")) for a in (0, v[6], v[9])])
        form("clz.b%d" % bits, "w", c, [(a, bits - a.bit_length()) for a in (0, 1, v[8], v[5])])
        form("brev.b%d" % bits, c, c, [(a, int(format(a, "0%db" % bits)[::-1], 2)) for a in (1, v[9])])
        for k in ("u", "s"):
            def find(a):
                if k == "s" and a >> (bits - 1):
                    a = wrap(~a, bits)
                return wrap(a.bit_length() - 1, 32)
            form("bfind.%s%d" % (k, bits), "w", c, [(a, find(a)) for a in (0, 1, v[6], v[5], v[8])])

            def bfe(a, pos, length):
                pos, length = pos & 255, length & 255
                sign = a >> min(pos + length - 1, bits - 1) & 1 if k == "s" and length else 0
                return sum((a >> (pos + i) & 1 if i < length and pos + i < bits else sign) << i for i in range(bits))
            form("bfe.%s%d" % (k, bits), c, c + "ww",
                 [(v[7], p, n, bfe(v[7], p, n)) for p, n in ((0, 8), (4, 12), (bits - 4, 8), (3, 0), (bits, 4), (256 + 2, 5))])
        def bfi(a, b, pos, length):
            for i in range(length):
                if pos + i < bits:
                    b = b & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
            return b
        for pos, length in ((0, 8), (8, 16), (bits - 8, 16)):
            form("bfi.b%d|%d|%d" % (bits, pos, length), c, c + c, [(a, b, bfi(a, b, pos, length)) for a, b in pick(v, 2, 2)])
    v = int_values(32)

    def prmt(a, b, sel):
        data, out = b << 32 | a, 0
        for i in range(4):
            n = sel >> 4 * i & 15
            byte = data >> 8 * (n & 7) & 255
            out |= (255 * (byte >> 7) if n & 8 else byte) << 8 * i
        return out
    form("prmt.b32", "w", "www", [(a, b, x, prmt(a, b, x)) for a, b in pick(v, 2, 2) for x in (0x5410, 0x7632, 0x89ab, 0x3210)][:6])
    for n in (0, 5, 31, 32, 40):
        pass
    for mode in ("wrap", "clamp"):
        amount = lambda n: n & 31 if mode == "wrap" else min(n, 32)
        a, b = v[8], v[9]
        form("shf.l.%s.b32" % mode, "w", "www", [(a, b, n, wrap((b << 32 | a) << amount(n) >> 32, 32)) for n in (0, 5, 31, 32, 40)])
        form("shf.r.%s.b32" % mode, "w", "www", [(a, b, n, wrap((b << 32 | a) >> amount(n), 32)) for n in (0, 5, 31, 32, 40)])
    for x, y in ("uu", "ss", "us", "su"):
        byte = lambda u, i, k: signed(u >> 8 * i & 255, 8) if k == "s" else u >> 8 * i & 255
        word = lambda u, i, k: signed(u >> 16 * i & 65535, 16) if k == "s" else u >> 16 * i & 65535
        form("dp4a.%s32.%s32" % (x, y), "w", "www",
             [(a, b, c, wrap(sum(byte(a, i, x) * byte(b, i, y) for i in range(4)) + c, 32)) for a, b, c in pick(v, 3, 3)])
        if x == y:
            for part, first in (("lo", 0), ("hi", 2)):
                form("dp2a.%s.%s32.%s32" % (part, x, y), "w", "www",
                     [(a, b, c, wrap(sum(word(a, i, x) * byte(b, first + i, y) for i in range(2)) + c, 32)) for a, b, c in pick(v, 3, 3)])
    for table in (0x80, 0xfe, 0x96, 0xca, 0x01):
        def lop(a, b, c):
            return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32))
        form("lop3.b32|||0x%x" % table, "w", "www", [(a, b, c, lop(a, b, c)) for a, b, c in pick(v, 2, 3)])
    for op, f in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
        form("%s.pred" % op, "p", "pp", [(a, b, f(a, b)) for a in (0, 1) for b in (0, 1)])
    form("not.pred", "p", "p", [(0, 1), (1, 0)])
    form("mov.pred", "p", "p", [(0, 0), (1, 1)])


def float_values(fmt):
    bits, man, exp, bias, inf = parts(fmt)
    top = 1 << (bits - 1)
    one = bias << man
    return [0, top, one, one | top, one + 1, inf - 1, inf, inf | top, inf | 1 << (man - 1), 1, (1 << man) - 1, 1 << man,
            one + (1 << man) + 3] + [((bias + draw.randrange(-6, 7)) << man | draw.getrandbits(man)) | draw.getrandbits(1) << (bits - 1) for _ in range(6)]


def rounded(op, f, fmt, name, arity, bare, sats, flushes):
    """All roundings, with .ftz and .sat."""
    c = CHARS[fmt[0]]
    for mode in ([""] if bare else []) + ["n", "z", "m", "p"]:
        for ftz in (False, True) if flushes else (False,):
            for s in (False, True) if sats else (False,):
                rows = []
                for values in pick(float_values(fmt), 8, arity):
                    ins = [flush(u, fmt) for u in values] if ftz else values
                    out = f(*ins, fmt, mode or "n")
                    if ftz:
                        out = flush(out, fmt)
                    if s:
                        out = sat(out, fmt)
                    # Which NaN f64 makes of several is the machine's choice.
                    if fmt == F64 and decode(out, fmt)[1] == NAN:
                        continue
                    rows.append(tuple(values) + (out,))
                form("%s%s%s%s.%s" % (op, "" if not mode else ".r" + mode, ".ftz" if ftz else "", ".sat" if s else "", name),
                     c, c * arity, rows[:5])


def least(a, b, fmt, most=False, strict=False):
    (sa, x), (sb, y) = decode(a, fmt), decode(b, fmt)
    if x == NAN or y == NAN:
        if strict or x == y:
            return NANS.get(fmt, a)
        return b if x == NAN else a
    key = lambda s, v: (-1 if s else 1, 0) if v == "inf" else (0, v)
    ka, kb = key(sa, x), key(sb, y)
    if ka == kb:
        less = sa > sb
    else:
        less = ka < kb
    return a if less != most else b


def floats():
    sub = lambda a, b, fmt, mode: add(a, negate(b, fmt) if decode(b, fmt)[1] != NAN else b, fmt, mode)
    rcp = lambda a, fmt, mode: div(encode(Fraction(1), fmt), a, fmt, mode)
    for op, f, arity in (("add", add, 2), ("sub", sub, 2), ("mul", mul, 2)):
        rounded(op, f, F32, "f32", arity, True, True, True)
        rounded(op, f, F64, "f64", arity, True, False, False)
    for op in ("fma", "mad"):
        rounded(op, fma, F32, "f32", 3, False, True, True)
        rounded(op, fma, F64, "f64", 3, False, False, False)
    for op, f, arity in (("div", div, 2), ("rcp", rcp, 1), ("sqrt", sqrt, 1)):
        rounded(op, f, F32, "f32", arity, False, False, True)
        rounded(op, f, F64, "f64", arity, False, False, False)
    for most in (False, True):
        op = "max" if most else "min"
        for ftz in (False, True):
            for strict in (False, True):
                fl = (lambda u: flush(u, F32)) if ftz else (lambda u: u)
                form("%s%s%s.f32" % (op, ".ftz" if ftz else "", ".NaN" if strict else ""), "w", "ww",
                     [(a, b, least(fl(a), fl(b), F32, most, strict)) for a, b in
                      pick(float_values(F32), 5, 2) + [(0x7fc00000, 0x3f800000), (0x7fc00000, 0xffc00000), (0, 0x80000000)]])
        form("%s.f64" % op, "d", "dd", [(a, b, least(a, b, F64, most)) for a, b in pick([u for u in float_values(F64) if decode(u, F64)[1] != NAN], 5, 2)])
        for name, fmt in (("f16", F16), ("bf16", BF16)):
            rows = [(a, b, least(a, b, fmt, most)) for a, b in pick(float_values(fmt), 5, 2) + [(0x7fff, 0x3c00), (0, 0x8000)]]
            form("%s.%s" % (op, name), "h", "hh", rows)
            form("%s.%sx2" % (op, name), "w", "ww", [(a | rows[0][0] << 16, b | rows[0][1] << 16, d | rows[0][2] << 16) for a, b, d in rows[1:4]])
    for name, fmt in (("f32", F32), ("f64", F64), ("f16", F16), ("bf16", BF16)):
        c, top = CHARS[fmt[0]], 1 << (fmt[0] - 1)
        values = float_values(fmt)
        form("neg.%s" % name, c, c, [(u, u ^ top) for u in values[:4]])
        form("abs.%s" % name, c, c, [(u, u & ~top) for u in values[:4]])
        if name in ("f16", "bf16"):
            form("neg.%sx2" % name, "w", "w", [(u, u ^ 0x80008000) for u in (0x3c008001, 0xffff0000)])
            form("abs.%sx2" % name, "w", "w", [(u, u & 0x7fff7fff) for u in (0xbc008001, 0xffff8000)])
        else:
            form("copysign.%s" % name, c, c + c, [(a, b, a & top | b & ~top) for a, b in pick(values, 4, 2)])
            names = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
                     "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}

            def order(u):
                s, v = decode(u, fmt)
                return (-1 if s else 1, 0) if v == "inf" else (0, v)
            inf = parts(fmt)[4]
            pairs = [(values[2], values[3]), (values[3], values[2]), (0, top), (inf, inf), (inf | 1, values[2]), (9, 10)]
            for ftz in (False, True) if fmt == F32 else (False,):
                fl = (lambda u: flush(u, fmt)) if ftz else (lambda u: u)
                mid = ".ftz" if ftz else ""
                has_nan = lambda a, b: NAN in (decode(a, fmt)[1], decode(b, fmt)[1])
                for n, f in names.items():
                    for u in ("", "u"):
                        form("setp.%s%s%s.%s" % (n, u, mid, name), "p", c + c,
                             [(a, b, int(bool(u)) if has_nan(a, b) else int(f(order(fl(a)), order(fl(b))))) for a, b in pairs])
                form("setp.num%s.%s" % (mid, name), "p", c + c, [(a, b, int(not has_nan(a, b))) for a, b in pairs])
                form("setp.nan%s.%s" % (mid, name), "p", c + c, [(a, b, int(has_nan(a, b))) for a, b in pairs])
            kinds = {"finite": lambda u: u & inf != inf, "infinite": lambda u: u & ~top == inf,
                     "number": lambda u: u & ~top <= inf, "notanumber": lambda u: u & ~top > inf,
                     "normal": lambda u: u & inf not in (0, inf), "subnormal": lambda u: u & inf == 0 and u & ~top != 0}
            for n, f in kinds.items():
                form("testp.%s.%s" % (n, name), "p", c, [(u, int(f(u))) for u in (0, values[3], inf | top, inf | 1, 1)])
    form("neg.ftz.f32", "w", "w", [(1, 0x80000000), (0x3f800000, 0xbf800000)])
    form("abs.ftz.f32", "w", "w", [(0x80000001, 0), (0xbf800000, 0x3f800000)])
    for name, fmt in (("f16", F16), ("bf16", BF16)):
        values = float_values(fmt)
        ops = [("fma.rn", fma, 3)]
        if name == "f16":
            ops += [("add", add, 2), ("sub", sub, 2), ("mul", mul, 2), ("add.rn", add, 2), ("sub.rn", sub, 2), ("mul.rn", mul, 2)]
        for op, f, arity in ops:
            rows = [tuple(x) + (f(*x, fmt, "n"),) for x in pick(values, 5, arity)]
            form("%s.%s" % (op, name), "h", "h" * arity, rows)
            form("%s.%sx2" % (op, name), "w", "w" * arity, [tuple(l | h << 16 for l, h in zip(rows[0], r)) for r in rows[1:4]])
    # Zeros for divisors beyond 2^126.
    form("div.approx.f32", "w", "ww", [(0x40400000, 0x3f800000, 0x40400000), (0x3f800000, 0x7f000000, 0), (0x7f800000, 0x7f000001, 0x7fffffff), (0x3f800000, 0x7e800000, 0x00800000)])
    form("div.approx.ftz.f32", "w", "ww", [(0x40400000, 0x3f800000, 0x40400000), (1, 0x3f800000, 0)])
    form("div.full.f32", "w", "ww", [(0x40c00000, 0x40400000, 0x40000000)])
    form("div.full.ftz.f32", "w", "ww", [(0x40c00000, 0x40400000, 0x40000000), (1, 0x3f800000, 0)])


def to_integral(x, mode):
    low = x.numerator // x.denominator
    rest = x - low
    if mode == "m" or not rest:
        return low
    if mode == "p":
        return low + 1
    if mode == "z":
        return low if x > 0 else low + 1
    return low + 1 if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low & 1) else low


def conversions():
    ints = [(k, b) for b in (8, 16, 32, 64) for k in ("u", "s")]
    real = {"f16": F16, "f32": F32, "f64": F64}
    char = lambda b: CHARS[max(16, b)]
    span = lambda k, b: (-(1 << (b - 1)), (1 << (b - 1)) - 1) if k == "s" else (0, (1 << b) - 1)
    for dk, db in ints:
        for sk, sb in ints:
            values = [u & ((1 << sb) - 1) for u in (0, 1, 0x7f, 0x80, 0xff, 0x8000, 0x7fffffff, 0x80000000, 1 << 63, (1 << 64) - 5)]
            get = lambda u: signed(u, sb) if sk == "s" else u
            out = lambda v: wrap(v, max(16, db))
            trim = lambda v: signed(wrap(v, db), db) if dk == "s" else wrap(v, db)
            name = "%s%d.%s%d" % (dk, db, sk, sb)
            form("cvt." + name, char(db), char(sb), [(u, out(trim(get(u)))) for u in draw.sample(values, 4)])
            lo, hi = span(dk, db)
            if (dk, db) != (sk, sb) and (span(sk, sb)[0] < lo or span(sk, sb)[1] > hi):
                form("cvt.sat." + name, char(db), char(sb), [(u, out(max(lo, min(hi, get(u))))) for u in draw.sample(values, 4)])
    for name, fmt in real.items():
        c = CHARS[fmt[0]]
        values = [u for u in float_values(fmt)]
        halves = [encode(Fraction(n, 2), fmt) for n in (1, 3, 5, -1, -3, -5, 7, 200, -200)]
        for k, b in ints:
            lo, hi = span(k, b)
            for mode in "nzmp":
                rows = []
                for u in draw.sample(halves, 4) + draw.sample(values, 3):
                    s, v = decode(u, fmt)
                    if v == NAN:
                        r = 0
                    elif v == "inf":
                        r = lo if s else hi
                    else:
                        r = max(lo, min(hi, to_integral(v, mode)))
                    rows.append((u, wrap(r, max(16, b))))
                form("cvt.r%si.%s%d.%s" % (mode, k, b, name), char(b), c, rows)
                get = lambda u: signed(u, b) if k == "s" else u
                source = [u & ((1 << b) - 1) for u in (0, 1, 0x7f, 0xff, 0x7fffffff, 0x1000001, (1 << 64) - 1, 1 << 63, 0x8000008000000001, 0x20000000000001)]
                form("cvt.r%s.%s.%s%d" % (mode, name, k, b), c, char(b), [(u, encode(Fraction(get(u)), fmt, mode)) for u in draw.sample(source, 4)])
        for mode in "nzmp":
            rows = []
            for u in draw.sample(halves, 5) + [0, 1 << (fmt[0] - 1)]:
                s, v = decode(u, fmt)
                rows.append((u, encode(Fraction(to_integral(v, mode)), fmt, "n", s)))
            form("cvt.r%si.%s.%s" % (mode, name, name), c, c, rows)
    wide = [("f32", "f16"), ("f64", "f16"), ("f64", "f32")]
    for d, s in wide:
        fd, fs = real[d], real[s]
        rows = []
        for u in float_values(fs):
            sign, v = decode(u, fs)
            if v == NAN:
                continue
            rows.append((u, infinity(sign, fd) if v == "inf" else encode(v, fd, "n", sign)))
        form("cvt.%s.%s" % (d, s), CHARS[fd[0]], CHARS[fs[0]], rows[:10])
        for mode in "nzmp":
            rows = []
            for u in draw.sample(float_values(fd), 6) + [encode(Fraction(1) + Fraction(3, 1 << (fs[1] + 2)), fd)]:
                sign, v = decode(u, fd)
                out = NANS[fs] if v == NAN else infinity(sign, fs) if v == "inf" else encode(v, fs, mode, sign)
                rows.append((u, out))
            form("cvt.r%s.%s.%s" % (mode, s, d), CHARS[fs[0]], CHARS[fd[0]], rows)

    def small(u, fmt, mode):
        sign, v = decode(u, F32)
        return NANS[fmt] if v == NAN else infinity(sign, fmt) if v == "inf" else encode(v, fmt, mode, sign)
    for mode in "nz":
        form("cvt.r%s.bf16.f32" % mode, "h", "w", [(u, small(u, BF16, mode)) for u in float_values(F32)[4:14] + [0x3f808000, 0x3f818000]])
        for name, fmt in (("bf16x2", BF16), ("f16x2", F16)):
            form("cvt.r%s.%s.f32" % (mode, name), "w", "ww", [(a, b, small(a, fmt, mode) << 16 | small(b, fmt, mode)) for a, b in pick(float_values(F32), 4, 2)])
    form("cvt.f32.bf16", "w", "h", [(u, u << 16) for u in (0x3f80, 0x8001, 0x7f80)])
    form("cvt.rn.relu.bf16.f32", "h", "w", [(0xbf800000, 0), (0x3f800000, 0x3f80)])
    form("cvt.rna.tf32.f32", "w", "w", [(0x3f801000, 0x3f802000), (0x3f800fff, 0x3f800000), (0xbf801000, 0xbf802000), (0x7f800000, 0x7f800000)])
    form("cvt.sat.f32.f32", "w", "w", [(0x40000000, 0x3f800000), (0xbf800000, 0), (0x7fc00000, 0), (0x3f000000, 0x3f000000)])
    form("cvt.ftz.f64.f32", "d", "w", [(1, 0), (0x3f800000, 0x3ff0000000000000)])
    form("cvt.rn.ftz.f32.f64", "w", "d", [(0x3690000000000000, 0), (0x3ff0000000000000, 0x3f800000)])
    form("cvt.rzi.ftz.s32.f32", "w", "w", [(1, 0), (0xc0200000, 0xfffffffe)])


def generic():
    for to in ("u64", "u32"):
        pass
    a, b = 0x12345678, 0x9abcdef0
    form("set.eq.u32.u32", "w", "ww", [(a, a, 0xffffffff), (a, b, 0)])
    form("set.lt.f32.s32", "w", "ww", [(b, a, 0x3f800000), (a, b, 0)])
    form("set.gt.u32.f32", "w", "ww", [(0x40000000, 0x3f800000, 0xffffffff), (0x7fc00000, 0, 0)])
    form("set.gt.ftz.u32.f32", "w", "ww", [(1, 0, 0), (0x3f800000, 0, 0xffffffff)])
    for op, f in (("and", lambda x, y: x & y), ("or", lambda x, y: x | y), ("xor", lambda x, y: x ^ y)):
        form("setp.lt.%s.s32" % op, "p", "wwp", [(x, y, c, f(int(x < y), c)) for x, y in ((1, 2), (2, 1)) for c in (0, 1)])
        form("setp.gt.%s.ftz.f32" % op, "p", "wwp", [(0x3f800000, 0, c, f(1, c)) for c in (0, 1)] + [(1, 0, c, f(0, c)) for c in (0, 1)])
        form("set.lt.%s.u32.s32" % op, "w", "wwp", [(x, y, c, 0xffffffff * f(int(x < y), c)) for x, y in ((1, 2), (2, 1)) for c in (0, 1)])


print("// Written by forms.py. FORM(instruction, size of the result, sizes of the operands, rows): sizes are h (16),")
print("// w (32), d (64) and p (a predicate); a row has three operands, those that are missing zero, and the result.")
print("// Numbers after | are operands behind the others.")
integers()
floats()
conversions()
generic()
print("\n".join(forms))
