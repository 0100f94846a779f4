#include "runtime/mirror.h"

#include <string.h>

void ptc_mirror_pin_inputs(const ptc_mirror_t *mirror, const ptc_plan_t *plan) {
  for (int32_t g = 0; g < plan->num_globals; g++) {
    const ptc_plan_global_t *global = &plan->globals[g];
    const ptc_buffer_t *buffer = &plan->buffers[global->buffer];
    if (strcmp(global->kind, "input") == 0)
      mirror->device->pin(mirror->device, mirror->memory + buffer->offsets[global->first_instance],
                          buffer->bytes);
  }
}

uint64_t ptc_mirror_address(const ptc_mirror_t *mirror, const char *memory) {
  return mirror->device->arena + (uint64_t)(memory - mirror->memory);
}

// What has been written through an earlier view since the last task is not on the device yet.
void ptc_mirror_show(ptc_mirror_t *mirror, char *memory, int64_t bytes, bool anew) {
  for (int64_t i = 0; i < mirror->views.len; i++)
    if (mirror->views.data[i].memory == memory) return;
  if (!anew) {
    const ptc_status_t status = mirror->device->download(mirror->device, mirror->diag, memory,
                                                         ptc_mirror_address(mirror, memory), bytes);
    if (status != PTC_OK) mirror->status = status;
  }
  PTC_VEC_PUSH(&mirror->views, ((ptc_mirror_view_t){memory, bytes}));
}

ptc_status_t ptc_mirror_send(ptc_mirror_t *mirror, ptc_diag_t *diag) {
  ptc_device_t *device = mirror->device;
  ptc_status_t status = mirror->status;
  const bool any = mirror->views.len > 0;
  for (int64_t i = 0; i < mirror->views.len && status == PTC_OK; i++) {
    const ptc_mirror_view_t *view = &mirror->views.data[i];
    status = device->send(device, diag, ptc_mirror_address(mirror, view->memory), view->memory,
                          view->bytes);
  }
  mirror->views.len = 0;
  return any && status == PTC_OK ? device->spread(device, diag) : status;
}

void ptc_mirror_deinit(ptc_mirror_t *mirror) { PTC_VEC_FREE(&mirror->views); }
