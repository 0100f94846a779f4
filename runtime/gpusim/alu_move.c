// Moves, and the conversions that kernels use most, as plain loops.
#include "runtime/gpusim/address.h"
#include "runtime/gpusim/alu_impl.h"
#include "runtime/gpusim/numbers_impl.h"

ALU_FN1(mov16, uint16_t, uint16_t, x)
ALU_FN1(mov32, uint32_t, uint32_t, x)
ALU_FN1(mov64, uint64_t, uint64_t, x)
ALU_FN1(u32_from_u64, uint32_t, uint64_t, x)
ALU_FN1(s64_from_s32, int64_t, int32_t, x)
ALU_FN1(u64_from_u32, uint64_t, uint32_t, x)
ALU_FN1(u16_from_u32, uint16_t, uint32_t, x)
ALU_FN1(u32_from_u16, uint32_t, uint16_t, x)
ALU_FN1(u64_from_u16, uint64_t, uint16_t, x)
ALU_FN1(s32_from_s16, int32_t, int16_t, x)
ALU_FN1(u16_from_u64, uint16_t, uint64_t, x)
ALU_FN1(f32_from_s32, float, int32_t, x)
ALU_FN1(f32_from_u32, float, uint32_t, x)
ALU_FN1(f64_from_s32, double, int32_t, x)
ALU_FN1(f64_from_u32, double, uint32_t, x)
ALU_FN1(f64_from_s64, double, int64_t, x)
ALU_FN1(f64_from_f32, double, float, x)
ALU_FN1(f32_from_f64, float, double, sim_nan((float)x))
ALU_FN1(f32_from_f16, uint32_t, uint16_t, sim_bits(sim_from_half(x)))
ALU_FN1(to_shared, uint64_t, uint64_t, x - SIM_SHARED_WINDOW)
ALU_FN1(from_shared, uint64_t, uint64_t, x + SIM_SHARED_WINDOW)
ALU_FN1(to_local, uint64_t, uint64_t, x - SIM_LOCAL_WINDOW)
ALU_FN1(from_local, uint64_t, uint64_t, x + SIM_LOCAL_WINDOW)
ALU_FN1(to_param, uint64_t, uint64_t, x - SIM_PARAM_WINDOW)
ALU_FN1(from_param, uint64_t, uint64_t, x + SIM_PARAM_WINDOW)

#define MOV(T, fn, W) ROW1("mov." T, fn, W, W, MOVE, 0)

const sim_alu_row_t sim_alu_move_rows[] = {
    MOV("b16", mov16, W16) MOV("u16", mov16, W16) MOV("s16", mov16, W16) MOV("b32", mov32, W32) MOV(
        "u32", mov32, W32) MOV("s32", mov32, W32) MOV("f32", mov32, W32) MOV("b64", mov64, W64)
        MOV("u64", mov64, W64) MOV("s64", mov64, W64) MOV("f64", mov64, W64) ROW1(
            "cvt.u32.u64", u32_from_u64, W32, W64, CONVERT, 0) ROW1("cvt.s64.s32", s64_from_s32,
                                                                    W64, W32, CONVERT, 0)
            ROW1("cvt.u64.u32", u64_from_u32, W64, W32, CONVERT, 0) ROW1(
                "cvt.u16.u32", u16_from_u32, W16, W32, CONVERT, 0) ROW1("cvt.u32.u16", u32_from_u16,
                                                                        W32, W16, CONVERT, 0)
                ROW1("cvt.u64.u16", u64_from_u16, W64, W16, CONVERT,
                     0) ROW1("cvt.s32.s16", s32_from_s16, W32, W16, CONVERT, 0)
                    ROW1("cvt.u16.u64", u16_from_u64, W16, W64, CONVERT,
                         0) ROW1("cvt.rn.f32.s32", f32_from_s32, W32, W32, CONVERT, 0)
                        ROW1("cvt.rn.f32.u32", f32_from_u32, W32, W32, CONVERT, 0) ROW1(
                            "cvt.rn.f64.s32", f64_from_s32, W64, W32, CONVERT, 0)
                            ROW1("cvt.rn.f64.u32", f64_from_u32, W64, W32, CONVERT, 0) ROW1(
                                "cvt.rn.f64.s64", f64_from_s64, W64, W64, CONVERT,
                                0) ROW1("cvt.f64.f32", f64_from_f32, W64, W32, CONVERT, 0)
                                ROW1("cvt.rn.f32.f64", f32_from_f64, W32, W64, CONVERT, 0) ROW1(
                                    "cvt.f32.f16", f32_from_f16, W32, W16, CONVERT,
                                    0) ROW1("cvta.to.global.u64", mov64, W64, W64, INTEGER,
                                            0) ROW1("cvta.global.u64", mov64, W64, W64, INTEGER, 0)
                                    ROW1("cvta.to.const.u64", mov64, W64, W64, INTEGER, 0)
                                        ROW1("cvta.const.u64", mov64, W64, W64, INTEGER, 0) ROW1(
                                            "cvta.to.shared.u64", to_shared, W64, W64, INTEGER,
                                            0) ROW1("cvta.shared.u64", from_shared, W64, W64,
                                                    INTEGER, 0) ROW1("cvta.to.local.u64", to_local,
                                                                     W64, W64, INTEGER, 0)
                                            ROW1("cvta.local.u64", from_local, W64, W64, INTEGER, 0)
                                                ROW1("cvta.to.param.u64", to_param, W64, W64,
                                                     INTEGER, 0) ROW1("cvta.param.u64", from_param,
                                                                      W64, W64, INTEGER, 0)};
const int32_t sim_num_alu_move_rows = sizeof sim_alu_move_rows / sizeof *sim_alu_move_rows;
