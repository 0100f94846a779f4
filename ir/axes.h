// Lists of mesh axes and parts of axes, as the attribute "axes" of an op spells them.
#ifndef PTC_IR_AXES_H_
#define PTC_IR_AXES_H_

#include "ir/module.h"

// More axes in one list are refused.
enum { PTC_MAX_AXES = 16 };

// Whether the two have positions in common: of one axis, the same or interleaved parts.
bool ptc_axis_refs_overlap(ptc_axis_ref_t a, ptc_axis_ref_t b);
// Whether the mesh has the axis and, of a part (pre, size), pre * size divides it.
bool ptc_axis_ref_fits(const ptc_mesh_t *mesh, ptc_axis_ref_t ref);
bool ptc_axes_equal(const ptc_axis_ref_t *a, int32_t num_a, const ptc_axis_ref_t *b, int32_t num_b);
// Position of |ref| among |axes|, or -1.
int32_t ptc_axes_find(const ptc_axis_ref_t *axes, int32_t num_axes, ptc_axis_ref_t ref);

// Brings them into the order of the mesh, parts of one axis the major first.
void ptc_axes_sort(const ptc_mesh_t *mesh, ptc_axis_ref_t *axes, int32_t num_axes);

// Reads a list, outermost first: "dp", "dp cp", "tp:1:4" (a part, pre:size). |out_refs| has room for
// PTC_MAX_AXES. False if |text| is NULL, malformed or empty, names an axis or part that the mesh does not have, or one
// twice.
bool ptc_axes_parse(const ptc_module_t *module, const char *text, ptc_axis_ref_t *out_refs,
                    int32_t *out_num);
// The inverse; interned in |module|.
const char *ptc_axes_text(ptc_module_t *module, const ptc_axis_ref_t *axes, int32_t num_axes);

// Product of the sizes, at most INT64_MAX.
int64_t ptc_axes_size(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes);
// The number of the device at |coords| (one per mesh axis) among those that differ from it in these axes only:
// row-major, the last axis fastest.
int64_t ptc_axes_index(const ptc_mesh_t *mesh, const ptc_axis_ref_t *axes, int32_t num_axes,
                       const int64_t *coords);

// Greatest common divisor: over how many parts of an axis of |b| an extent of |a| can lie in equal shards.
int64_t ptc_gcd(int64_t a, int64_t b);

#endif  // PTC_IR_AXES_H_
